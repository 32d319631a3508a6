package journey

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"waypost"
)

// ChangeKind is one of the Changed… values.
type ChangeKind string

// How a node or a member can differ between two versions.
const (
	ChangeAdded   ChangeKind = "added"
	ChangeRemoved ChangeKind = "removed"
	ChangeChanged ChangeKind = "changed"
)

// Change is one difference between two versions of a journey.
type Change struct {
	NodeID string `json:"nodeId"` // "" is the definition itself
	// Member is the path of what changed in the node, such as next, params.greeting,
	// cases[1].when or quietHours.from; "" is the whole node.
	Member string     `json:"member"`
	What   ChangeKind `json:"what"`
	// From and To are the values in the canonical form; null if the member is new, or gone.
	From json.RawMessage `json:"from"`
	To   json.RawMessage `json:"to"`
}

// String writes the change as one line: wait.for: "72h" → "24h".
func (c Change) String() string {
	name := c.NodeID
	if c.Member != "" {
		if name != "" {
			name += "."
		}
		name += c.Member
	}
	switch c.What {
	case ChangeAdded:
		return fmt.Sprintf("%s: added %s", name, c.To)
	case ChangeRemoved:
		return fmt.Sprintf("%s: removed %s", name, c.From)
	}
	return fmt.Sprintf("%s: %s → %s", name, c.From, c.To)
}

// Diff lists the differences from a to b, two definitions that Check accepts: first the
// members of the definition in their canonical order, then new and changed nodes in
// the order of b, then nodes that b lacks. Nodes are compared by their ids; their order
// means nothing. Lists are compared by their elements if they are equally long,
// as a whole otherwise. The result is empty, not nil, if there are no differences.
func Diff(a, b *Definition) []Change {
	c := comparing{changes: []Change{}}
	before, after := a.body, b.body
	before.Nodes, after.Nodes = nil, nil
	c.values("", raw(before), raw(after))
	for _, n := range b.body.Nodes {
		c.node = n.ID
		if was, ok := a.Node(n.ID); ok {
			c.values("", raw(was), raw(n))
		} else {
			c.add("", nil, raw(n))
		}
	}
	for _, n := range a.body.Nodes {
		if _, ok := b.Node(n.ID); !ok {
			c.node = n.ID
			c.add("", raw(n), nil)
		}
	}
	return c.changes
}

// raw is the canonical JSON of a part of a definition that was written before.
func raw(v any) json.RawMessage {
	b, _ := waypost.EncodeJSON(v) // does not fail: Parse has written it
	return b
}

type comparing struct {
	node    string
	changes []Change
}

func (c *comparing) add(member string, from, to json.RawMessage) {
	what := ChangeChanged
	if from == nil {
		what = ChangeAdded
	} else if to == nil {
		what = ChangeRemoved
	}
	c.changes = append(c.changes, Change{NodeID: c.node, Member: member, What: what, From: from, To: to})
}

// values compares two values of one member, nil ones included.
func (c *comparing) values(member string, from, to json.RawMessage) {
	if bytes.Equal(from, to) {
		return
	}
	before, names, ok := objectOf(from)
	after, names2, ok2 := objectOf(to)
	if ok && ok2 {
		if member != "" {
			member += "."
		}
		for _, name := range merged(names, names2) {
			c.values(member+name, before[name], after[name])
		}
		return
	}
	var list, list2 []json.RawMessage
	if json.Unmarshal(from, &list) == nil && json.Unmarshal(to, &list2) == nil && len(list) == len(list2) && len(list) > 0 {
		for i := range list {
			c.values(element(member, i), list[i], list2[i])
		}
		return
	}
	c.add(member, from, to)
}

// objectOf takes a JSON object apart, with its names in their order.
func objectOf(b json.RawMessage) (members map[string]json.RawMessage, names []string, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(b))
	if begin, err := dec.Token(); err != nil || begin != json.Delim('{') {
		return nil, nil, false
	}
	members = map[string]json.RawMessage{}
	for dec.More() {
		token, err := dec.Token()
		name, _ := token.(string)
		var v json.RawMessage
		if err != nil || dec.Decode(&v) != nil {
			return nil, nil, false
		}
		names, members[name] = append(names, name), v
	}
	return members, names, true
}

// merged makes one list of two that are parts of one order, in that order.
func merged(a, b []string) []string {
	var out []string
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			out, a, b = append(out, a[0]), a[1:], b[1:]
		case !slices.Contains(b, a[0]):
			out, a = append(out, a[0]), a[1:]
		default:
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}
