package journey

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"waypost"
)

// Limits of a definition.
const (
	MaxDefinition = 256 << 10 // bytes of the canonical form
	MaxNodes      = 200
	MaxCases      = 50   // of one branch
	MaxConditions = 1000 // of all nodes
	MaxParams     = 64   // of one touchpoint
	MaxName       = 200
	MaxCondition  = 4096    // characters of one CEL condition
	MaxTemplate   = 8 << 10 // bytes of one Liquid template
)

// Definition is a parsed journey. It is immutable and safe for concurrent use.
// What it compiles (conditions, templates) it keeps: callers that use one
// version often should keep the Definition.
type Definition struct {
	body      body
	canonical []byte
	index     map[string]int // of the first node of each id

	conditions []conditions // beside body.Nodes
	templates  templateCache
}

// body is the definition as it is written; the order of the members is the
// canonical one.
type body struct {
	Name    string   `json:"name,omitempty"`
	Start   string   `json:"start,omitempty"`
	Reentry *reentry `json:"reentry,omitempty"`
	Nodes   []Node   `json:"nodes,omitempty"`
}

type reentry struct {
	Policy string `json:"policy,omitempty"`
	Every  string `json:"every,omitempty"`
}

// Name returns the journey's name.
func (d *Definition) Name() string { return d.body.Name }

// Start returns the id of the node that an enrollment begins with.
func (d *Definition) Start() string { return d.body.Start }

// Nodes returns the nodes in the order of the definition.
func (d *Definition) Nodes() []Node { return slices.Clone(d.body.Nodes) }

// Node returns the node of this id, and whether there is one.
func (d *Definition) Node(id string) (Node, bool) {
	i, ok := d.index[id]
	if !ok {
		return Node{}, false
	}
	return d.body.Nodes[i], true
}

// Reentry says when a lead may enter again; afterExit where the definition does
// not say. In a definition that Check refuses, Policy can be unknown, and Every
// is zero where it is no duration.
func (d *Definition) Reentry() waypost.Reentry {
	out := waypost.Reentry{Policy: waypost.ReentryAfterExit}
	r := d.body.Reentry
	if r == nil {
		return out
	}
	if r.Policy != "" {
		out.Policy = waypost.ReentryPolicy(r.Policy)
	}
	if every, err := waypost.ParseDuration(r.Every); err == nil {
		out.Every = every
	}
	return out
}

// Webhooks returns the ids of the webhooks that touchpoints name, sorted, each
// once.
func (d *Definition) Webhooks() []string {
	var ids []string
	for _, n := range d.body.Nodes {
		if n.Webhook != "" {
			ids = append(ids, n.Webhook)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Canonical returns the definition as JSON whose members stand in a fixed order
// without white space: two drafts that say the same have the same canonical form,
// and Parse reads it back.
func (d *Definition) Canonical() []byte { return slices.Clone(d.canonical) }

// Hash returns the SHA-256 of Canonical in lower-case hex.
func (d *Definition) Hash() string {
	sum := sha256.Sum256(d.canonical)
	return hex.EncodeToString(sum[:])
}
