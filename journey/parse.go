package journey

import (
	"fmt"
	"slices"
	"strings"

	"waypost"
)

// maxInput bounds what Parse looks at: the canonical form is what MaxDefinition
// counts, so white space may come on top.
const maxInput = 1 << 20

// draft is what DecodeJSON reads. Pointers tell an absent member from an empty
// one, so that a member that a node's type does not have is seen.
type draft struct {
	Name         *string       `json:"name"`
	Start        *string       `json:"start"`
	Reentry      *draftReentry `json:"reentry"`
	ExitOn       []draftExitOn `json:"exitOn"`
	QuietHours   *draftQuiet   `json:"quietHours"`
	FrequencyCap *draftCap     `json:"frequencyCap"`
	Nodes        []draftNode   `json:"nodes"`
}

type draftReentry struct {
	Policy *string `json:"policy"`
	Every  *string `json:"every"`
}

type draftExitOn struct {
	Event *string `json:"event"`
}

type draftQuiet struct {
	From     *string `json:"from"`
	To       *string `json:"to"`
	Timezone *string `json:"timezone"`
}

type draftCap struct {
	Touchpoints *int    `json:"touchpoints"`
	Per         *string `json:"per"`
}

type draftNode struct {
	ID        *string          `json:"id"`
	Type      *string          `json:"type"`
	Webhook   *string          `json:"webhook"`
	Params    map[string]Param `json:"params"`
	For       *string          `json:"for"`
	Event     *string          `json:"event"`
	When      *string          `json:"when"`
	Timeout   *string          `json:"timeout"`
	Since     *string          `json:"since"`
	Time      *string          `json:"time"`
	Timezone  *string          `json:"timezone"`
	Weekdays  []string         `json:"weekdays"`
	Lead      *string          `json:"lead"`
	Offset    *string          `json:"offset"`
	Arms      []draftArm       `json:"arms"`
	Journey   *string          `json:"journey"`
	Cases     []draftCase      `json:"cases"`
	Otherwise *string          `json:"otherwise"`
	Next      *string          `json:"next"`
	OnFailure *string          `json:"onFailure"`
	OnTimeout *string          `json:"onTimeout"`
	OnMissed  *string          `json:"onMissed"`
}

type draftArm struct {
	Weight *int    `json:"weight"`
	Next   *string `json:"next"`
}

type draftCase struct {
	When *string `json:"when"`
	Next *string `json:"next"`
}

// Parse reads a definition from JSON and checks its shape: the JSON itself, the
// types of the members, unknown and doubled members, node types and the size.
// All problems are returned at once, with paths such as "nodes[2].type"; the
// definition is nil if there are any. A definition that Parse accepts can be
// stored as a draft; whether it can be published is Check's to say.
func Parse(data []byte) (*Definition, waypost.Problems) {
	var p waypost.Problems
	if len(data) > maxInput {
		p.Add(waypost.DetailTooLong, "", "a definition has at most %d KiB", MaxDefinition>>10)
		return nil, p
	}
	var in draft
	p = waypost.DecodeJSON(data, &in)
	d := &Definition{body: body{Name: value(in.Name), Start: value(in.Start)}, templates: newTemplateCache()}
	if in.Reentry != nil {
		d.body.Reentry = &reentry{Policy: value(in.Reentry.Policy), Every: value(in.Reentry.Every)}
		if *d.body.Reentry == (reentry{}) {
			d.body.Reentry = nil
		}
	}
	for _, e := range in.ExitOn {
		d.body.ExitOn = append(d.body.ExitOn, exitOn{Event: value(e.Event)})
	}
	if q := in.QuietHours; q != nil {
		d.body.QuietHours = &QuietHours{From: value(q.From), To: value(q.To), Timezone: value(q.Timezone)}
	}
	if c := in.FrequencyCap; c != nil {
		d.body.FrequencyCap = &frequencyCap{Touchpoints: value(c.Touchpoints), Per: value(c.Per)}
	}
	for i, n := range in.Nodes {
		d.body.Nodes = append(d.body.Nodes, n.node(&p, element("nodes", i)))
	}
	if len(p) > 0 {
		return nil, p
	}
	if err := d.finish(); err != nil {
		p.Add(waypost.DetailTooLong, "", "%s", err)
		return nil, p
	}
	return d, nil
}

// node checks the type of a node and that it has only members of that type.
func (n draftNode) node(p *waypost.Problems, path string) Node {
	out := Node{
		ID: value(n.ID), Type: NodeType(value(n.Type)),
		Webhook: value(n.Webhook), For: value(n.For), Otherwise: value(n.Otherwise),
		Event: value(n.Event), When: value(n.When), Timeout: value(n.Timeout), Since: value(n.Since),
		Time: value(n.Time), Timezone: value(n.Timezone), Lead: value(n.Lead), Offset: value(n.Offset),
		Journey: value(n.Journey),
		Next:    value(n.Next), OnFailure: value(n.OnFailure), OnTimeout: value(n.OnTimeout), OnMissed: value(n.OnMissed),
	}
	if len(n.Params) > 0 {
		out.Params = n.Params
	}
	if len(n.Weekdays) > 0 {
		out.Weekdays = n.Weekdays
	}
	for _, a := range n.Arms {
		out.Arms = append(out.Arms, Arm{Weight: value(a.Weight), Next: value(a.Next)})
	}
	for _, c := range n.Cases {
		out.Cases = append(out.Cases, Case{When: value(c.When), Next: value(c.Next)})
	}
	var members string
	switch out.Type {
	case Touchpoint:
		members = "webhook params next onFailure"
	case Delay:
		members = "for next"
	case WaitForEvent:
		members = "event when timeout since next onTimeout"
	case WaitUntil:
		members = "time timezone weekdays lead offset next onMissed"
	case Branch:
		members = "cases otherwise"
	case Split:
		members = "arms"
	case Enroll:
		members = "journey next"
	case Exit:
	default:
		// The members of a type that does not exist cannot be judged.
		*p = slices.DeleteFunc(*p, func(d waypost.Detail) bool {
			member, ok := strings.CutPrefix(d.Target, path+".")
			return ok && d.Code == waypost.DetailUnknownField && !strings.ContainsAny(member, ".[")
		})
		told := slices.ContainsFunc(*p, func(d waypost.Detail) bool { return d.Target == path || d.Target == path+".type" })
		if out.Type != "" {
			p.Add(waypost.DetailOutOfRange, path+".type", "must be one of: %s", nodeTypes)
		} else if !told {
			p.Add(waypost.DetailNullValue, path+".type", "must be one of: %s", nodeTypes)
		}
		return out
	}
	foreign := func(present bool, member string) {
		if present && !slices.Contains(strings.Fields(members), member) {
			p.Add(waypost.DetailUnknownField, path+"."+member, "a node of type %s has no such member", out.Type)
		}
	}
	foreign(n.Webhook != nil, "webhook")
	foreign(n.Params != nil, "params")
	foreign(n.For != nil, "for")
	foreign(n.Event != nil, "event")
	foreign(n.When != nil, "when")
	foreign(n.Timeout != nil, "timeout")
	foreign(n.Since != nil, "since")
	foreign(n.Time != nil, "time")
	foreign(n.Timezone != nil, "timezone")
	foreign(n.Weekdays != nil, "weekdays")
	foreign(n.Lead != nil, "lead")
	foreign(n.Offset != nil, "offset")
	foreign(n.Arms != nil, "arms")
	foreign(n.Journey != nil, "journey")
	foreign(n.Cases != nil, "cases")
	foreign(n.Otherwise != nil, "otherwise")
	foreign(n.Next != nil, "next")
	foreign(n.OnFailure != nil, "onFailure")
	foreign(n.OnTimeout != nil, "onTimeout")
	foreign(n.OnMissed != nil, "onMissed")
	return out
}

// finish computes what follows from the body.
func (d *Definition) finish() error {
	canonical, err := marshal(d.body)
	if err != nil {
		return fmt.Errorf("write canonical definition: %w", err)
	}
	if len(canonical) > MaxDefinition {
		return fmt.Errorf("a definition has at most %d KiB", MaxDefinition>>10)
	}
	d.canonical = canonical
	d.index = make(map[string]int, len(d.body.Nodes))
	for i, n := range d.body.Nodes {
		if _, doubled := d.index[n.ID]; !doubled && n.ID != "" {
			d.index[n.ID] = i
		}
	}
	d.conditions = make([]conditions, len(d.body.Nodes))
	return nil
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// element is the path of a list's element.
func element(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }
