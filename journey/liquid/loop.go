package liquid

import (
	"maps"
	"slices"
	"strconv"
)

// loopNode is what for and tablerow have in common.
type loopNode struct {
	variable  string
	list      expr
	name      string // tells loops apart for offset: continue
	reversed  bool
	goOn      bool // offset: continue
	arguments map[string]expr
	body      body
}

type (
	forNode struct {
		loopNode
		otherwise body // of a list without elements
		isBlank   bool
	}
	tableNode struct{ loopNode }
)

func (n *forNode) blank() bool { return n.isBlank }

func (n tableNode) blank() bool { return false }

// loopVariable is forloop or tablerowloop.
type loopVariable interface {
	member(name string) any
}

// counting is where a loop stands.
type counting struct{ i, length int }

func (c *counting) member(name string) any {
	switch name {
	case "length":
		return c.length
	case "index":
		return c.i + 1
	case "index0":
		return c.i
	case "rindex":
		return c.length - c.i
	case "rindex0":
		return c.length - c.i - 1
	case "first":
		return c.i == 0
	case "last":
		return c.i == c.length-1
	}
	return nil
}

type (
	// forLoop is the variable forloop.
	forLoop struct {
		counting
		name   string
		parent any // a *forLoop, or nil
	}
	// tableLoop is the variable tablerowloop.
	tableLoop struct {
		counting
		cols int
	}
)

func (l *forLoop) member(name string) any {
	switch name {
	case "name":
		return l.name
	case "parentloop":
		return l.parent
	}
	return l.counting.member(name)
}

func (l *tableLoop) member(name string) any {
	col := l.i
	if l.cols > 0 {
		col = l.i % l.cols
	}
	switch name {
	case "col":
		return col + 1
	case "col0":
		return col
	case "col_first":
		return col == 0
	case "col_last":
		return col+1 == l.cols
	case "row":
		return (l.i-col)/max(1, l.cols) + 1
	}
	return l.counting.member(name)
}

// argument is the value of an argument of a loop; false if there is none.
func (n *loopNode) argument(r *run, name string) (int, bool) {
	x, ok := n.arguments[name]
	if !ok {
		return 0, false
	}
	v := x.eval(r)
	if f, isFloat := v.(float64); isFloat && name == "cols" {
		v = int(max(0, min(maxListLength, f)))
	}
	i, isInt := intOf(v)
	if v != nil && !isInt {
		r.fail(errRender(name + " of a loop must be an integer"))
	}
	return max(-maxBound, min(maxBound, i)), v != nil
}

// maxBound keeps sums of arguments from overflowing; no loop turns as often.
const maxBound = 1 << 40

// turns returns how many elements to loop over, and what gives them.
func (n *loopNode) turns(r *run) (int, func(int) any) {
	v := n.list.eval(r)
	length, at := sequence(r, v)
	first, _ := n.argument(r, "offset")
	if n.goOn {
		first = r.continues[n.name]
	}
	last := length
	if limit, ok := n.argument(r, "limit"); ok {
		last = min(last, first+limit)
	}
	first = max(first, 0)
	count := max(0, last-first)
	r.continues[n.name] = first + count
	return count, func(i int) any {
		if n.reversed {
			i = count - 1 - i
		}
		return at(first + i)
	}
}

// sequence makes a value something to loop over: a list, the pairs of an object in
// the order of their names, a range, a text as a whole. Anything else is empty.
func sequence(r *run, v any) (length int, at func(int) any) {
	switch v := v.(type) {
	case []any:
		return len(v), func(i int) any { return v[i] }
	case map[string]any:
		r.spend(len(v) * elementWork)
		sorted := slices.Sorted(maps.Keys(v))
		return len(sorted), func(i int) any { return []any{sorted[i], v[sorted[i]]} }
	case span:
		return v.length(), func(i int) any { return v.from + i }
	case string:
		if v != "" {
			return 1, func(int) any { return v }
		}
	}
	return 0, nil
}

// turn renders the body once, and tells whether the loop goes on.
func (n *loopNode) turn(r *run, v any) bool {
	if r.budget.turns--; r.budget.turns < 0 {
		r.fail(errTurns)
	}
	r.spend(turnWork)
	r.frames[len(r.frames)-1].value = v
	n.body.render(r)
	jump := r.jump
	r.jump = ""
	return jump != "break"
}

func (n *forNode) render(r *run) {
	count, at := n.turns(r)
	if count == 0 {
		n.otherwise.render(r)
		return
	}
	loop := &forLoop{counting: counting{length: count}, name: n.name}
	for i := len(r.frames) - 1; i >= 0 && loop.parent == nil; i-- {
		if outer, ok := r.frames[i].loop.(*forLoop); ok {
			loop.parent = outer
		}
	}
	r.frames = append(r.frames, frame{variable: n.variable, loopName: "forloop", loop: loop})
	for loop.i < count && n.turn(r, at(loop.i)) {
		loop.i++
	}
	r.frames = r.frames[:len(r.frames)-1]
}

func (n tableNode) render(r *run) {
	v := n.list.eval(r)
	if v == nil {
		return
	}
	count, at := n.turns(r)
	loop := &tableLoop{counting: counting{length: count}, cols: count}
	if cols, ok := n.argument(r, "cols"); ok {
		loop.cols = cols
	}
	r.write("<tr class=\"row1\">\n")
	r.frames = append(r.frames, frame{variable: n.variable, loopName: "tablerowloop", loop: loop})
	for goesOn := true; goesOn && loop.i < count; loop.i++ {
		r.write(`<td class="col` + textOf(loop.member("col")) + `">`)
		goesOn = n.turn(r, at(loop.i))
		r.write("</td>")
		if goesOn && loop.member("col_last") == true && loop.member("last") == false {
			r.write("</tr>\n<tr class=\"row" + strconv.Itoa(loop.member("row").(int)+1) + `">`)
		}
	}
	r.frames = r.frames[:len(r.frames)-1]
	r.write("</tr>\n")
}
