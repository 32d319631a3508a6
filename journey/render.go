package journey

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"waypost"
	"waypost/journey/liquid"
)

// Render returns the params of a touchpoint's message: the webhook's, overridden
// by the node's. Strings are rendered as Liquid templates, numbers stay as they
// were written. A param has at most 64 KiB, all together 256 KiB, and the work
// that templates may do is bounded. A template that fails is a *waypost.Error
// (UnprocessableEntity) whose target is the param and whose message holds no
// value of the facts; any other error is one of the caller.
func (d *Definition) Render(node string, webhookParams map[string]any, f Facts) (map[string]any, error) {
	n, ok := d.Node(node)
	if !ok || n.Type != Touchpoint {
		return nil, fmt.Errorf("render params: %q is no touchpoint", waypost.Clip(node, 64))
	}
	params := maps.Clone(webhookParams)
	if params == nil {
		params = map[string]any{}
	}
	for name, p := range n.Params {
		params[name] = p.value
	}
	r := renderer{d: d, facts: &f}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		v, err := r.param(params[name])
		if err != nil {
			target := "params." + waypost.Clip(name, 64)
			return nil, waypost.Errorf(waypost.CodeUnprocessableEntity, target, "%s: %s", target, err)
		}
		params[name] = v
	}
	return params, nil
}

// renderer renders the params of one message. What it needs for templates is
// made when the first one comes.
type renderer struct {
	d      *Definition
	facts  *Facts
	vars   liquid.Vars
	budget *liquid.Budget
}

func (r *renderer) param(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return r.text(v)
	case json.Number, float64, int, int64:
		return v, nil
	}
	return nil, errors.New("must be a string or a number")
}

func (r *renderer) text(source string) (string, error) {
	t, err := r.template(source)
	if err != nil || t == nil {
		return source, err
	}
	return t.Render(r.vars, r.budget)
}

// template compiles a template, nil for a text without any tag.
func (r *renderer) template(source string) (*liquid.Template, error) {
	t, err := r.d.template(source)
	if err != nil {
		return nil, errors.New("the template does not compile")
	}
	if t != nil && r.budget == nil {
		r.prepare()
	}
	return t, nil
}

func (r *renderer) prepare() {
	loc, ok := leadZone(&r.facts.Lead)
	if !ok {
		loc = time.UTC
	}
	values := r.facts.variables()
	if len(r.facts.Lead.MobilePhone) == 0 {
		values[varLead].(map[string]any)["mobilePhone"] = liquid.Unset
	}
	if now := r.facts.Now; !now.IsZero() {
		values[varNow] = liquid.Instant(now)
		values[varToday] = now.In(loc).Format(time.DateOnly)
	}
	r.vars = liquid.Vars{Values: values, Now: r.facts.Now, Location: loc}
	r.budget = liquid.NewBudget()
}
