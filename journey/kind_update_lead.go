package journey

import (
	"context"
	"errors"
	"strings"

	"waypost"
)

type updateLead struct{ passing }

// check checks the fields, and values without a template against what a lead may hold: those are
// wrong for every lead.
func (updateLead) check(c *checker, _ int, n Node, path string) {
	path += ".set"
	before := len(c.p)
	if len(n.Set) == 0 {
		c.p.Add(waypost.DetailNullValue, path, "must name the fields to set")
	}
	c.atMost(len(n.Set), n.limit("set"), path, "an updateLead sets at most %d fields, not %d")
	for _, name := range n.Fields() {
		at := path + "." + waypost.Clip(name, 80)
		if !isCustomField(name) && !waypost.IsLeadField(name) {
			c.p.Add(waypost.DetailOutOfRange, at, "must be customFields.NAME, or a field of the lead that holds a text or a number")
		}
		switch v := n.Set[name].value.(type) {
		case string:
			c.template(v, at)
		case map[string]any, []any:
			c.p.Add(waypost.DetailInvalidType, at, "must be a string, a number, a boolean or null")
		}
	}
	if len(c.p) > before {
		return
	}
	// A template may render to anything that its field holds, so it is left out.
	d := Definition{body: body{Nodes: []Node{{ID: n.ID, Type: UpdateLead, Set: map[string]Param{}}}}, index: map[string]int{n.ID: 0}, templates: newTemplates()}
	for name, p := range n.Set {
		if text, ok := p.Text(); !ok || !strings.Contains(text, "{{") && !strings.Contains(text, "{%") {
			d.body.Nodes[0].Set[name] = p
		}
	}
	patch, err := d.LeadPatch(n.ID, Facts{})
	if err == nil {
		_, _, err = patch.Change(waypost.LeadFields{Name: "-"}, "", endOfTime)
	}
	var refused *waypost.Error
	if errors.As(err, &refused) {
		for _, detail := range refused.Details {
			c.p.Add(detail.Code, path+"."+detail.Target, "%s", detail.Message)
		}
		if len(refused.Details) == 0 {
			c.p.Add(waypost.DetailOutOfRange, path+"."+refused.Target, "%s", strings.TrimPrefix(refused.Message, refused.Target+": "))
		}
	}
}

func (updateLead) take(r *stepper, n Node, in Input) error {
	return r.acted(n, in, waypost.WhatUpdated, "updated")
}

// acted goes on when an enrollment has done what a node says, or failed to.
func (r *stepper) acted(n Node, in Input, what, result string) error {
	switch {
	case in.Kind != InputDecided:
		return r.unexpected(n, in)
	case in.Succeed:
		return r.leave(n, what, in.Reason, result, n.next())
	}
	return r.leave(n, waypost.WhatFailed, in.Reason, "failed", n.wayOr(waypost.WayOnFailure, n.OnFailure))
}

func (updateLead) answer(_ context.Context, s *simulation, n Node, _ Command) (Input, error) {
	facts := s.facts
	facts.Now = s.now
	values, err := s.set(n.ID, facts)
	return s.effect(n, values, err)
}

// effect is the input of what a node would store.
func (s *simulation) effect(n Node, values map[string]any, err error) (Input, error) {
	if reason, refused := EffectFault(err); refused {
		return Input{Kind: InputDecided, At: s.now, Reason: reason}, nil
	}
	s.run.Path[len(s.run.Path)-1].Values = values
	return Input{Kind: InputDecided, At: s.now, Succeed: true, Reason: n.Effect()}, err
}

// set sets fields of the lead, and returns them.
func (s *simulation) set(node string, facts Facts) (map[string]any, error) {
	values, err := s.d.leadFields(node, facts)
	if err != nil {
		return nil, err
	}
	patch, err := patchOf(values)
	if err != nil {
		return nil, err
	}
	fields, _, err := patch.Change(facts.Lead.LeadFields, "", s.now)
	if err != nil {
		return nil, err
	}
	s.facts.Lead.LeadFields, s.facts.Lead.UpdatedAt = fields, s.now
	return values, nil
}
