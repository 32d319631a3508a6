package liquid

import (
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

// Compile compiles a template. Its errors begin with line and column, and may
// repeat parts of the source.
func Compile(source string) (t *Template, err error) {
	p := &parser{source: source, assigned: map[string]int{}, aliases: map[string]lookup{}, trial: trialBudget()}
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
	r := newRun(vars, b)
	defer func() {
		switch s := recover().(type) {
		case nil:
		case stop:
			text, err = "", s.err
		default:
			// The texts of Go's own panics can hold values.
			text, err = "", errOther
		}
	}()
	left, over := maxOutput, errOutput
	if b.total < maxOutput {
		left, over = b.total, errTotal
	}
	text = r.capture(left, over, func() { t.body.render(r) })
	b.total -= len(text)
	return text, nil
}

// position is the line and the column of an offset.
func position(source string, at int) (line, column int) {
	before := source[:min(at, len(source))]
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
}
