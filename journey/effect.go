package journey

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"waypost"
)

// LeadPatch renders what an updateLead node sets. A text is a Liquid template: of a field
// that holds text, its text; of any other, the value itself if it is one output and nothing
// else, and text if not. Null clears. An error of a template, or of a value that the field
// cannot hold, is a *waypost.Error (UnprocessableEntity) that names the field and holds no
// value of the facts; any other error is one of the caller.
func (d *Definition) LeadPatch(node string, f Facts) (waypost.LeadPatch, error) {
	fields, err := d.leadFields(node, f)
	if err != nil {
		return waypost.LeadPatch{}, err
	}
	return patchOf(fields)
}

// leadFields renders what an updateLead node sets, as the body of a PATCH has it.
func (d *Definition) leadFields(node string, f Facts) (map[string]any, error) {
	n, ok := d.Node(node)
	if !ok || n.Type != UpdateLead {
		return nil, fmt.Errorf("render fields: %q is no updateLead", waypost.Clip(node, 64))
	}
	r := renderer{d: d, facts: &f}
	fields, custom := map[string]any{}, map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(n.Set)) {
		render, into, member := r.value, fields, name
		if field, ok := strings.CutPrefix(name, customField); ok {
			into, member = custom, field
		} else if waypost.IsLeadText(name) {
			render = r.words
		}
		v, err := render(n.Set[name].value)
		if err != nil {
			return nil, faultOf(name, err)
		}
		into[member] = v
	}
	if len(custom) > 0 {
		fields["customFields"] = custom
	}
	return fields, nil
}

func patchOf(fields map[string]any) (waypost.LeadPatch, error) {
	body, err := waypost.EncodeJSON(fields)
	if err != nil {
		return waypost.LeadPatch{}, fmt.Errorf("render fields: %w", err)
	}
	patch, problems := waypost.ReadLeadPatch(body)
	if len(problems) > 0 {
		return waypost.LeadPatch{}, faultOf(problems[0].Target, errors.New(problems[0].Message))
	}
	return patch, nil
}

// EventOf renders the properties of the event that an emit node stores, texts as LeadPatch
// renders those of custom fields. Its errors are like those of LeadPatch.
func (d *Definition) EventOf(node string, f Facts) (waypost.Event, error) {
	n, ok := d.Node(node)
	if !ok || n.Type != Emit {
		return waypost.Event{}, fmt.Errorf("render properties: %q is no emit", waypost.Clip(node, 64))
	}
	e := waypost.Event{Name: n.Event, LeadsID: f.Lead.LeadsID, Properties: map[string]any{}}
	r := renderer{d: d, facts: &f}
	for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
		at := "properties." + waypost.Clip(name, 64)
		v, err := r.value(n.Properties[name].value)
		if err != nil {
			return waypost.Event{}, faultOf(at, err)
		}
		e.Properties[name] = v
	}
	body, err := waypost.EncodeJSON(e.Properties)
	if err != nil {
		return waypost.Event{}, fmt.Errorf("render properties: %w", err)
	}
	if len(body) > waypost.MaxEventProperties {
		return waypost.Event{}, faultOf("properties", fmt.Errorf("are at most %d KiB of JSON", waypost.MaxEventProperties>>10))
	}
	// What clients cannot report is not stored, and numbers have the type of theirs.
	var decoded struct {
		Properties map[string]any `json:"properties"`
	}
	if problems := waypost.DecodeJSON(slices.Concat([]byte(`{"properties":`), body, []byte("}")), &decoded); len(problems) > 0 {
		return waypost.Event{}, faultOf(problems[0].Target, errors.New(problems[0].Message))
	}
	e.Properties = decoded.Properties
	return e, nil
}

// Fields lists the fields that an updateLead sets, sorted.
func (n Node) Fields() []string { return slices.Sorted(maps.Keys(n.Set)) }

// Effect is what the timeline says of an updateLead that has set its fields, or of an emit
// that has stored its event.
func (n Node) Effect() string {
	if n.Type == Emit {
		return "event " + n.Event
	}
	return waypost.Clip(strings.Join(n.Fields(), ", "), maxWhy)
}

// endOfTime is later than any birthday.
var endOfTime = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// faultOf says of a field or a property what is wrong with it.
func faultOf(target string, err error) error {
	return waypost.Errorf(waypost.CodeUnprocessableEntity, target, "%s: %s", waypost.Clip(target, 80), err)
}

// EffectFault returns what the timeline says of an updateLead or an emit that failed for its
// values, and tells whether the error is of that kind. It holds no value of the lead.
func EffectFault(err error) (reason string, refused bool) {
	var fault *waypost.Error
	if !errors.As(err, &fault) {
		return "", false
	}
	switch fault.Code {
	case waypost.CodeBadRequest, waypost.CodeUnprocessableEntity, waypost.CodeConflict:
	default:
		return "", false
	}
	if len(fault.Details) == 0 {
		return waypost.Clip(fault.Message, maxWhy), true
	}
	faults := make([]string, len(fault.Details))
	for i, detail := range fault.Details {
		faults[i] = detail.Target + ": " + detail.Message
	}
	return waypost.Clip(strings.Join(faults, "; "), maxWhy), true
}

// value renders what a node sets: texts, also those in lists and objects.
func (r *renderer) value(v any) (any, error) {
	switch v := v.(type) {
	case string:
		t, err := r.template(v)
		if err != nil || t == nil {
			return v, err
		}
		return t.Value(r.vars, r.budget)
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			var err error
			if out[name], err = r.value(member); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			var err error
			if out[i], err = r.value(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

// words renders what a field of the lead that holds text is set to.
func (r *renderer) words(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return r.text(v)
	case json.Number:
		return v.String(), nil
	}
	return v, nil
}

// templates checks the texts and the numbers of a value.
func (c *checker) templates(v any, path string) {
	switch v := v.(type) {
	case string:
		c.template(v, path)
	case json.Number:
		waypost.CheckExact(&c.p, path, v)
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			c.templates(v[name], path+"."+waypost.Clip(name, 64))
		}
	case []any:
		for i, e := range v {
			c.templates(e, path+element("", i))
		}
	}
}
