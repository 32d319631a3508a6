package liquid

import (
	"time"
	"unicode/utf8"
)

// run is one rendering of a template.
type run struct {
	Vars
	budget    *Budget
	locals    map[string]any // assigned
	counters  map[string]int // of increment and decrement
	frames    []frame        // of the loops that run, the innermost last
	cycles    map[string]int // where each cycle stands
	continues map[string]int // where offset: continue goes on, by the loop's name
	changed   *string        // what ifchanged printed last
	jump      jumpNode       // break or continue, until its loop sees it
	at        int            // offset of the node that was begun last
	trial     bool           // of what is compiled: values are not known

	out  []byte
	left int // bytes that out may still get
	over errRender
}

func newRun(vars Vars, b *Budget) *run {
	if vars.Location == nil {
		vars.Location = time.UTC
	}
	return &run{
		Vars: vars, budget: b,
		locals: map[string]any{}, counters: map[string]int{}, cycles: map[string]int{}, continues: map[string]int{},
	}
}

// frame holds the variables of one loop.
type frame struct {
	variable string
	value    any
	loopName string // forloop or tablerowloop
	loop     loopVariable
}

// stop is a panic that ends a rendering.
type stop struct{ err errRender }

func (r *run) fail(err errRender) { panic(stop{err}) }

func (r *run) spend(work int) {
	if r.budget.work -= work; r.budget.work < 0 {
		r.fail(errWork)
	}
}

// look spends the work of looking at whole values.
func (r *run) look(all ...any) {
	for _, v := range all {
		r.spend(sizeOf(v, r.budget.work))
	}
}

// made accounts for a value that a filter or a capture has made.
func (r *run) made(v any) any {
	switch v := v.(type) {
	case string:
		if len(v) > maxString {
			r.fail(errString)
		}
	case []any:
		if len(v) > maxListLength || sizeOf(v, maxListSize) > maxListSize {
			r.fail(errList)
		}
	}
	r.look(v)
	return v
}

// text is a value as the template prints it. To write an object as JSON is more work
// than to look at it.
func (r *run) text(v any) string {
	switch v.(type) {
	case map[string]any, []any:
		r.spend(8 * sizeOf(v, r.budget.work))
	}
	return textOf(v)
}

func (r *run) write(s string) {
	if r.left -= len(s); r.left < 0 {
		r.fail(r.over)
	}
	r.spend(len(s))
	r.out = append(r.out, s...)
}

// capture returns what do writes, which has at most limit bytes.
func (r *run) capture(limit int, over errRender, do func()) string {
	out, left, before := r.out, r.left, r.over
	r.out, r.left, r.over = nil, limit, over
	do()
	text := string(r.out)
	r.out, r.left, r.over = out, left, before
	if !utf8.ValidString(text) {
		return toValid(text)
	}
	return text
}

// find is the value of a variable: of a loop, assigned, counted, or given.
func (r *run) find(name string) any {
	r.spend(valueWork + len(r.frames))
	for i := len(r.frames) - 1; i >= 0; i-- {
		switch f := &r.frames[i]; name {
		case f.variable:
			return f.value
		case f.loopName:
			return f.loop
		}
	}
	if v, ok := r.locals[name]; ok {
		return v
	}
	if n, ok := r.counters[name]; ok {
		return n
	}
	if r.trial {
		r.fail(errUnknown)
	}
	return r.Values[name]
}

func (c constant) eval(r *run) any {
	r.spend(valueWork)
	return c.v
}

func (x lookup) eval(r *run) any {
	name, ok := x.root.eval(r).(string)
	if !ok {
		return nil
	}
	v := r.find(name)
	for _, e := range x.path {
		key := e.eval(r)
		if s, ok := v.(string); ok {
			r.look(s) // its size
		}
		v = memberOf(v, key)
	}
	return v
}

func (x rangeExpr) eval(r *run) any {
	return span{r.end(x.from.eval(r)), r.end(x.to.eval(r))}
}

// end is one end of a range: decimals are cut off, and a text counts with the
// digits that it begins with.
func (r *run) end(v any) int {
	switch v.(type) {
	case nil, string, int, float64:
		f, _ := r.numberOf(v).rat.Float64()
		if f < -1e15 || f > 1e15 {
			r.fail(errNumber)
		}
		return int(f)
	}
	r.fail("the ends of a range must be numbers")
	return 0
}

func (x filtered) eval(r *run) any {
	v := x.value.eval(r)
	for i := range x.calls {
		v = x.calls[i].apply(r, v)
	}
	return v
}

func (x logical) eval(r *run) any {
	if truthy(x.left.eval(r)) == x.or {
		return x.or
	}
	return truthy(x.right.eval(r))
}

// eval compares as Liquid does. Where there is no order <, <=, > and >= are false; a number against a
// text is an error.
func (x comparison) eval(r *run) any {
	a, b := x.left.eval(r), x.right.eval(r)
	if a == nil && b == Unset || b == nil && a == Unset {
		return x.operator == "=="
	}
	a, b = plain(a), plain(b)
	r.look(a, b)
	switch x.operator {
	case "==":
		return equal(a, b)
	case "!=", "<>":
		return !equal(a, b)
	case "contains":
		return contains(a, b)
	}
	order, ok := order(a, b)
	if !ok {
		_, isNumber := floatOf(a)
		_, isNumberToo := floatOf(b)
		_, isText := a.(string)
		_, isTextToo := b.(string)
		switch {
		case isNumber && isTextToo:
			r.fail("a number and a text cannot be compared")
		case isText && isNumberToo:
			r.fail("a text and a number cannot be compared")
		}
		return false // without a value, and of values that have no order
	}
	switch x.operator {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}
