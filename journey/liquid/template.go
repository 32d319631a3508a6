package liquid

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Template is a compiled template. It can be rendered by many goroutines at once.
type Template struct {
	// References are the variables that the template reads, in the order of the source.
	// A variable that the template assigns anywhere is not among them, unless it stands
	// for another variable only: that one is.
	References []Reference
	body       body
}

// Reference is a variable that a template reads and does not make itself.
type Reference struct {
	// Path is the variable's name and the names of the members behind it, as far as
	// they are written out: a and b of a.b[c].d.
	Path         []string
	Line, Column int // the first is 1; columns count characters
}

// Compile compiles a template. types says what the variables hold of whose names and members
// it is asked; nil: nothing is known. Errors begin with line and column, and may repeat parts
// of the source.
func Compile(source string, types func(path []string) Type) (t *Template, err error) {
	p := &parser{source: source, types: types, assigned: map[string]int{}, aliases: map[string]lookup{}, trial: trialBudget()}
	defer func() {
		switch f := recover().(type) {
		case nil:
		case fault:
			line, column := position(source, f.at)
			t, err = nil, fmt.Errorf("line %d, column %d: %s", line, column, f.text)
		default:
			panic(f)
		}
	}()
	p.pieces = p.scan()
	body, _ := p.body(piece{})
	for _, check := range p.checks {
		check()
	}
	// What comes before the first value that is not known yet.
	p.try(0, func(r *run) { r.capture(maxOutput, errOutput, func() { body.render(r) }) })
	t = &Template{body: body}
	for _, r := range p.references {
		if path := p.resolve(r.path); p.assigned[path[0]] == 0 {
			line, column := position(source, r.at)
			t.References = append(t.References, Reference{Path: path, Line: line, Column: column})
		}
	}
	return t, nil
}

// Vars are what a template can ask about.
type Vars struct {
	// Values are nil, bool, int, float64, string, Instant, []any and map[string]any.
	Values map[string]any
	// Now is what the date filter takes "now" and "today" for. Zero: unknown.
	Now time.Time
	// Location is where the date filter shows instants. nil: UTC.
	Location *time.Location
}

// Render renders the template, and takes what it needs from the budget. Its errors
// hold no values.
func (t *Template) Render(vars Vars, b *Budget) (text string, err error) {
	if err = t.run(vars, b, func(r *run) { text = r.whole(t) }); err != nil {
		return "", err
	}
	return text, nil
}

// Value renders a template that is one output and nothing else, such as {{ a.b | plus: 1 }},
// to the value itself, of the types of Vars.Values but Instant, which is text. Any other
// template is rendered to its text.
func (t *Template) Value(vars Vars, b *Budget) (v any, err error) {
	err = t.run(vars, b, func(r *run) {
		var only outputNode
		if len(t.body.nodes) == 1 {
			only, _ = t.body.nodes[0].node.(outputNode)
		}
		if only.value == nil {
			v = r.whole(t)
			return
		}
		r.at = t.body.nodes[0].at
		r.spend(nodeWork)
		made := only.value.eval(r)
		if made == Unset {
			made = plain(made)
		}
		switch made := made.(type) {
		case nil, bool, int, float64:
			v = made
		case []any, map[string]any:
			v = r.copied(made)
		default:
			v = r.whole(t)
		}
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}

// copied is a list or an object by itself, as JSON has it.
func (r *run) copied(v any) any {
	r.spend(8 * sizeOf(v, r.budget.work))
	text := jsonText(v)
	if len(text) > min(maxOutput, r.budget.total) {
		r.fail(errOutput)
	}
	r.budget.total -= len(text)
	var out any
	if json.Unmarshal([]byte(text), &out) != nil {
		r.fail(errOther)
	}
	return out
}

// whole is the text that the template renders to.
func (r *run) whole(t *Template) string {
	left, over := maxOutput, errOutput
	if r.budget.total < maxOutput {
		left, over = r.budget.total, errTotal
	}
	text := r.capture(left, over, func() { t.body.render(r) })
	r.budget.total -= len(text)
	return text
}

// run has do render, whose errors hold no values.
func (t *Template) run(vars Vars, b *Budget, do func(*run)) (err error) {
	defer func() {
		switch s := recover().(type) {
		case nil:
		case stop:
			err = s.err
		default:
			// The texts of Go's own panics can hold values.
			err = errOther
		}
	}()
	do(newRun(vars, b))
	return nil
}

// position is the line and the column of an offset.
func position(source string, at int) (line, column int) {
	before := source[:min(at, len(source))]
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
}
