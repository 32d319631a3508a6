package journey

import (
	"time"

	"waypost"
)

// NodeType says what a node does.
type NodeType string

// The types of nodes.
const (
	Touchpoint NodeType = "touchpoint" // sends one message through a webhook
	Delay      NodeType = "delay"      // waits for a length of time
	Branch     NodeType = "branch"     // takes the first case whose condition is true
	Exit       NodeType = "exit"       // ends the journey
)

// nodeTypes is the list of the types in the order of the documentation.
const nodeTypes = "touchpoint, delay, branch, exit"

// Node is one step of a journey. Which members it has depends on its type;
// references to other nodes are empty where the journey ends.
type Node struct {
	ID   string   `json:"id,omitempty"`
	Type NodeType `json:"type"`

	Webhook string           `json:"webhook,omitempty"` // touchpoint: the webhook's id
	Params  map[string]Param `json:"params,omitempty"`  // touchpoint: override the webhook's

	For string `json:"for,omitempty"` // delay: a duration as it was written

	Cases     []Case `json:"cases,omitempty"`     // branch
	Otherwise string `json:"otherwise,omitempty"` // branch: where no case is true

	Next      string `json:"next,omitempty"`      // touchpoint, delay
	OnFailure string `json:"onFailure,omitempty"` // touchpoint: empty goes on with Next
}

// Case is one arm of a branch.
type Case struct {
	When string `json:"when,omitempty"` // a CEL condition
	Next string `json:"next,omitempty"`
}

// minDelay is the shortest delay: contract times have milliseconds, so anything
// shorter would be no wait at all.
const minDelay = time.Millisecond

// delay reads For.
func (n Node) delay() (time.Duration, error) {
	d, err := waypost.ParseDuration(n.For)
	return time.Duration(d), err
}

// edge is a reference to a node that follows; member is its path below the node.
type edge struct{ member, to string }

// edges lists what follows the node, in the order of the definition. An end of
// the journey is no edge.
func (n Node) edges() []edge {
	var out []edge
	add := func(member, to string) {
		if to != "" {
			out = append(out, edge{member, to})
		}
	}
	add("next", n.Next)
	add("onFailure", n.OnFailure)
	for i, c := range n.Cases {
		add(element("cases", i)+".next", c.Next)
	}
	add("otherwise", n.Otherwise)
	return out
}
