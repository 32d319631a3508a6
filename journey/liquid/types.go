package liquid

import (
	"fmt"
	"slices"
)

// Type is what a variable holds whenever it is set.
type Type string

// The types. Instants compare as texts.
const (
	Unknown Type = ""
	Text    Type = "a text"
	Number  Type = "a number"
	Boolean Type = "true or false"
	Moment  Type = "a time"
	List    Type = "a list"
)

// typed is an expression, with its type and how it is written.
type typed struct {
	Type
	written string
}

// typeOf is the type of an expression, so far as it is known before any value is.
func (p *parser) typeOf(e expr) typed {
	switch e := e.(type) {
	case constant:
		switch v := e.v.(type) {
		case string:
			return typed{Text, fmt.Sprintf("%q", v)}
		case int, float64:
			return typed{Number, textOf(v)}
		case bool:
			return typed{Boolean, textOf(v)}
		}
	case lookup:
		names := e.names()
		if len(names) <= len(e.path) || p.types == nil {
			return typed{}
		}
		path := p.resolve(names)
		if p.assigned[path[0]] > 0 {
			return typed{}
		}
		return typed{p.types(path), dotted(names)}
	}
	return typed{}
}

func dotted(names []string) string {
	out := names[0]
	for _, name := range names[1:] {
		out += "." + name
	}
	return out
}

// later has check called when the whole template is read: what a variable stands for is
// known only then.
func (p *parser) later(check func()) { p.checks = append(p.checks, check) }

// text is whether values of the type compare as texts.
func (t Type) text() bool { return t == Text || t == Moment }

// checkComparison refuses a comparison of types that cannot fit: it would fail the message of
// every lead, or never be true. Two literals are tried already.
func (p *parser) checkComparison(at int, x comparison) {
	if isConstant(x.left, x.right) || x.operator == "contains" {
		return
	}
	p.later(func() {
		a, b := p.typeOf(x.left), p.typeOf(x.right)
		switch {
		case a.Type == Unknown || b.Type == Unknown:
		case a.Type == b.Type && a.Type != Boolean && a.Type != List, a.text() && b.text():
		case x.operator == "==" || x.operator == "!=" || x.operator == "<>":
			if a.Type != b.Type {
				failAt(at, "%s is %s, which is never %s, %s%s", a.written, a.Type, b.written, b.Type, remedy(a, b))
			}
		default:
			failAt(at, "%s is %s, and %s is %s, which have no order%s", a.written, a.Type, b.written, b.Type, remedy(a, b))
		}
	})
}

// remedy says what to write instead of a comparison.
func remedy(a, b typed) string {
	switch {
	case a.text() && b.Type == Number, a.Type == Number && b.text():
		return "; compare numbers with numbers (x | plus: 0, assigned before, is one) and texts with texts ('5')"
	case a.Type == List || b.Type == List:
		return "; a list has .size, and contains finds an element"
	case a.Type == Boolean || b.Type == Boolean:
		return "; write == true or == false"
	}
	return ""
}

// kindTypes are the types that an argument of the kind cannot have.
var kindTypes = map[kind]struct {
	refused []Type
	want    string
}{
	integer: {[]Type{Text, Boolean, Moment, List}, "an integer"},
	length:  {[]Type{Text, Boolean, Moment, List}, "an integer"},
	list:    {[]Type{Text, Number, Boolean, Moment}, "a list"},
}

// withMembers are the filters that look at members of the elements that they get.
var withMembers = []string{"map", "where", "reject", "find", "find_index", "has"}

// checkCall refuses arguments, and a value, that a filter cannot take.
func (p *parser) checkCall(name string, x call, value expr) {
	p.later(func() {
		for i, e := range x.args {
			if isConstant(e) {
				continue
			}
			of, t := kindTypes[x.filter.args[i]], p.typeOf(e)
			if slices.Contains(of.refused, t.Type) {
				failAt(x.at, "%s wants %s, and %s is %s", name, of.want, t.written, t.Type)
			}
		}
		t := p.typeOf(value)
		if t.Type == Number && slices.Contains(withMembers, name) {
			failAt(x.at, "%s wants a list, and %s is %s, which has no members", name, t.written, t.Type)
		}
		if name == "base64_decode" && !t.text() && t.Type != Unknown {
			failAt(x.at, "%s wants a text, and %s is %s", name, t.written, t.Type)
		}
	})
}

// checkInteger refuses what cannot be a number of turns or the end of a range.
func (p *parser) checkInteger(at int, what string, e expr, refused ...Type) {
	if isConstant(e) {
		return
	}
	p.later(func() {
		if t := p.typeOf(e); slices.Contains(refused, t.Type) {
			failAt(at, "%s must be an integer, and %s is %s", what, t.written, t.Type)
		}
	})
}
