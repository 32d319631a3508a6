package journey

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"waypost"
	"waypost/journey/nodes"
)

// maxInput bounds what Parse looks at: the canonical form is what MaxDefinition
// counts, so white space may come on top.
const maxInput = 1 << 20

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
	d := &Definition{templates: newTemplates()}
	p = waypost.DecodeJSON(data, &d.body)
	for i, tag := range d.body.Tags {
		d.body.Tags[i] = strings.TrimSpace(tag)
	}
	if d.body.Reentry != nil && *d.body.Reentry == (reentry{}) {
		d.body.Reentry = nil
	}
	var given struct {
		Nodes []map[string]present `json:"nodes"`
	}
	waypost.DecodeJSON(data, &given)
	for i, n := range d.body.Nodes {
		checkMembers(&p, element("nodes", i), n.Type, given.Nodes[i])
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

// present tells a member that is there, empty or not, from one that is absent or null.
type present bool

// UnmarshalJSON is called for members that are there.
func (p *present) UnmarshalJSON([]byte) error {
	*p = true
	return nil
}

// everyNode are the members that nodes of all types have.
var everyNode = []string{"id", "type", "label", "note", "comments"}

// checkMembers checks the type of a node and that it has only members of that type.
func checkMembers(p *waypost.Problems, path string, of NodeType, given map[string]present) {
	t := nodes.Of(string(of))
	if t.Name == "" {
		types := nodes.Names(func(*nodes.Type) bool { return true })
		// The members of a type that does not exist cannot be judged.
		*p = slices.DeleteFunc(*p, func(d waypost.Detail) bool {
			member, ok := strings.CutPrefix(d.Target, path+".")
			return ok && d.Code == waypost.DetailUnknownField && !strings.ContainsAny(member, ".[")
		})
		reported := slices.ContainsFunc(*p, func(d waypost.Detail) bool { return d.Target == path || d.Target == path+".type" })
		if of != "" {
			p.Add(waypost.DetailOutOfRange, path+".type", "must be one of: %s", strings.Join(types, ", "))
		} else if !reported {
			p.Add(waypost.DetailNullValue, path+".type", "must be one of: %s", strings.Join(types, ", "))
		}
		return
	}
	for _, member := range nodeMembers {
		if bool(given[member]) && !slices.Contains(everyNode, member) && t.Member(member).Name == "" {
			p.Add(waypost.DetailUnknownField, path+"."+member, "a node of type %s has no such member", of)
		}
	}
}

// finish computes what follows from the body.
func (d *Definition) finish() error {
	canonical, err := waypost.EncodeJSON(d.body)
	if err != nil {
		return fmt.Errorf("write canonical definition: %w", err)
	}
	if len(canonical) > MaxDefinition {
		return fmt.Errorf("a definition has at most %d KiB", MaxDefinition>>10)
	}
	d.canonical = canonical
	if d.bare, err = waypost.EncodeJSON(d.body.bare()); err != nil {
		return fmt.Errorf("write bare definition: %w", err)
	}
	d.index = make(map[string]int, len(d.body.Nodes))
	for i, n := range d.body.Nodes {
		if _, doubled := d.index[n.ID]; !doubled && n.ID != "" {
			d.index[n.ID] = i
		}
	}
	d.goal = sync.OnceValue(d.compileGoal)
	for i := range d.body.Nodes {
		d.conditions = append(d.conditions, sync.OnceValue(func() []condition { return d.compileAll(d.body.Nodes[i]) }))
	}
	for i := range d.body.Entry {
		d.entries = append(d.entries, sync.OnceValue(func() compiledEntry { return d.compileEntry(d.body.Entry[i]) }))
	}
	return nil
}

// bare is b without what only people read.
func (b body) bare() body {
	b.Description, b.Tags, b.Comments = "", nil, nil
	b.Entry = uncommented(b.Entry, func(e *entry) *Comments { return &e.Comments })
	b.ExitOn = uncommented(b.ExitOn, func(e *exitOn) *Comments { return &e.Comments })
	b.Nodes = uncommented(b.Nodes, func(n *Node) *Comments { return &n.Comments })
	for i := range b.Nodes {
		n := &b.Nodes[i]
		n.Label, n.Note = "", ""
		n.Events = uncommented(n.Events, func(a *Awaited) *Comments { return &a.Comments })
		n.Arms = uncommented(n.Arms, func(a *Arm) *Comments { return &a.Comments })
		n.Cases = uncommented(n.Cases, func(c *Case) *Comments { return &c.Comments })
	}
	return b
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// element is the path of a list's element.
func element(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }
