package liquid

import "strings"

// node is a piece of a template that can be rendered.
type node interface {
	render(r *run)
	// blank tells whether it prints nothing but white space. A block of such nodes
	// prints nothing at all.
	blank() bool
}

type (
	textNode   string
	outputNode struct{ value expr }
	assignNode struct {
		name  string
		value expr
	}
	captureNode struct {
		name string
		body body
	}
	counterNode struct {
		name string
		up   bool
	}
	changedNode struct{ body }
	jumpNode    string // break or continue
	ifNode      struct {
		unless  bool // the first test turned round
		arms    []arm
		isBlank bool
	}
	caseNode struct {
		subject expr
		arms    []arm
		isBlank bool
	}
	// arm is a part of an if or a case.
	arm struct {
		tests []expr // none: else
		body  body
	}
	cycleNode struct {
		name   expr   // nil: key tells cycles apart
		key    string // what stands in the tag
		values []expr
	}
)

func (n textNode) blank() bool    { return strings.Trim(string(n), space) == "" }
func (n outputNode) blank() bool  { return false }
func (n assignNode) blank() bool  { return true }
func (n captureNode) blank() bool { return true }
func (n counterNode) blank() bool { return false }
func (n jumpNode) blank() bool    { return false }
func (n *ifNode) blank() bool     { return n.isBlank }
func (n *caseNode) blank() bool   { return n.isBlank }
func (n cycleNode) blank() bool   { return false }
func (b body) blank() bool        { return b.isBlank }

func (b body) render(r *run) {
	for _, n := range b.nodes {
		r.at = n.at
		r.spend(nodeWork)
		n.render(r)
		if r.jump != "" {
			return
		}
	}
}

func (n textNode) render(r *run) { r.write(string(n)) }

func (n outputNode) render(r *run) { r.write(r.text(n.value.eval(r))) }

func (n assignNode) render(r *run) { r.locals[n.name] = n.value.eval(r) }

func (n captureNode) render(r *run) {
	text := r.capture(maxString, errString, func() { n.body.render(r) })
	r.locals[n.name] = r.made(text)
}

func (n counterNode) render(r *run) {
	if n.up {
		r.write(textOf(r.counters[n.name]))
		r.counters[n.name]++
	} else {
		r.counters[n.name]--
		r.write(textOf(r.counters[n.name]))
	}
}

func (n changedNode) render(r *run) {
	text := r.capture(maxString, errString, func() { n.body.render(r) })
	if r.changed == nil || *r.changed != text {
		r.changed = &text
		r.write(text)
	}
}

func (n jumpNode) render(r *run) { r.jump = n }

func (n *ifNode) render(r *run) {
	for i, a := range n.arms {
		if a.tests == nil || truthy(a.tests[0].eval(r)) != (n.unless && i == 0) {
			a.body.render(r)
			return
		}
	}
}

// render prints the arm of each value that is met, and each else if none was met
// before.
func (n *caseNode) render(r *run) {
	subject, met := plain(n.subject.eval(r)), false
	for _, a := range n.arms {
		if a.tests == nil && !met {
			a.body.render(r)
		}
		for _, test := range a.tests {
			v := plain(test.eval(r))
			r.look(subject, v)
			if r.jump == "" && equal(subject, v) {
				met = true
				a.body.render(r)
			}
		}
		if r.jump != "" {
			return
		}
	}
}

func (n cycleNode) render(r *run) {
	key := "args " + n.key
	if n.name != nil {
		v := n.name.eval(r)
		key = "name " + r.text(v)
	}
	i := r.cycles[key]
	if i < len(n.values) {
		r.write(r.text(n.values[i].eval(r)))
	}
	if i++; i >= len(n.values) {
		i = 0
	}
	r.cycles[key] = i
}
