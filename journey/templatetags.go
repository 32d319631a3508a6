package journey

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/osteele/liquid/expressions"
	"github.com/osteele/liquid/render"
	"github.com/osteele/liquid/values"
)

// templateConfig holds the tags. They are our own: the library's loops have no
// bound, walk maps in random order, and include reads files.
var templateConfig = sync.OnceValue(func() render.Config {
	c := render.NewConfig()
	c.AddTag("assign", assignTag)
	c.AddTag("break", jumpTag(errBreak))
	c.AddTag("continue", jumpTag(errContinue))
	c.AddBlock("capture").Compiler(captureTag)
	c.AddBlock("case").Clause("when").Clause("else").Compiler(caseTag)
	c.AddBlock("comment")
	c.AddBlock("for").Clause("else").Compiler(forTag)
	c.AddBlock("if").Clause("elsif").Clause("else").Compiler(ifTag(true))
	c.AddBlock("raw")
	c.AddBlock("unless").Clause("elsif").Clause("else").Compiler(ifTag(false))
	return c
})

// budgetKey is where a render's budget stands among its variables; no template
// can spell it.
const budgetKey = "\x00budget"

func budgetOf(ctx render.Context) *budget { return ctx.Get(budgetKey).(*budget) }

var (
	errBreak    = errors.New("break")
	errContinue = errors.New("continue")
)

type tagRenderer = func(io.Writer, render.Context) error

func jumpTag(jump error) render.TagCompiler {
	return func(string) (tagRenderer, error) {
		return func(_ io.Writer, ctx render.Context) error { return ctx.WrapError(jump) }, nil
	}
}

func assignTag(args string) (tagRenderer, error) {
	s, err := expressions.ParseStatement(expressions.AssignStatementSelector, args)
	if err != nil {
		return nil, errSyntax(args)
	}
	return func(_ io.Writer, ctx render.Context) error {
		v, err := ctx.Evaluate(s.Assignment.ValueFn)
		if err == nil {
			ctx.Set(s.Assignment.Variable, v)
		}
		return err
	}, nil
}

func captureTag(n render.BlockNode) (tagRenderer, error) {
	name := strings.TrimSpace(n.Args)
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !isWordRune(r) }) {
		return nil, errors.New("capture wants the name of a variable")
	}
	return func(_ io.Writer, ctx render.Context) error {
		b := budgetOf(ctx)
		w := &boundedWriter{b: b, left: maxString, over: errString}
		if err := ctx.RenderChildren(w); err != nil {
			return err
		}
		text := w.text()
		ctx.Set(name, text)
		return b.made(text)
	}, nil
}

// arm is one body of an if, unless or case; nil tests are always met.
type arm struct {
	tests []expressions.Expression
	body  *render.BlockNode
}

func ifTag(polarity bool) render.BlockCompiler {
	return func(n render.BlockNode) (tagRenderer, error) {
		first, err := expressions.Parse(n.Args)
		if err != nil {
			return nil, errSyntax(n.Args)
		}
		if !polarity {
			first = expressions.Not(first)
		}
		arms := []arm{{[]expressions.Expression{first}, &n}}
		for i, clause := range n.Clauses {
			a := arm{body: clause}
			if clause.Name == "elsif" {
				test, err := expressions.Parse(clause.Args)
				if err != nil {
					return nil, errSyntax(clause.Args)
				}
				a.tests = []expressions.Expression{test}
			} else if i != len(n.Clauses)-1 {
				return nil, errors.New("else must come last")
			}
			arms = append(arms, a)
		}
		return func(w io.Writer, ctx render.Context) error {
			return takeArm(w, ctx, arms, func(v any) bool { return v != nil && v != false })
		}, nil
	}
}

func caseTag(n render.BlockNode) (tagRenderer, error) {
	subject, err := expressions.Parse(n.Args)
	if err != nil {
		return nil, errSyntax(n.Args)
	}
	var arms []arm
	for i, clause := range n.Clauses {
		a := arm{body: clause}
		if clause.Name == "when" {
			s, err := expressions.ParseStatement(expressions.WhenStatementSelector, clause.Args)
			if err != nil {
				return nil, errSyntax(clause.Args)
			}
			a.tests = s.When.Exprs
		} else if i != len(n.Clauses)-1 {
			return nil, errors.New("else must come last")
		}
		arms = append(arms, a)
	}
	return func(w io.Writer, ctx render.Context) error {
		v, err := ctx.Evaluate(subject)
		if err != nil {
			return err
		}
		return takeArm(w, ctx, arms, func(test any) bool { return values.Equal(v, test) })
	}, nil
}

func takeArm(w io.Writer, ctx render.Context, arms []arm, met func(any) bool) error {
	for _, a := range arms {
		take := a.tests == nil
		for _, test := range a.tests {
			v, err := ctx.Evaluate(test)
			if err != nil {
				return err
			}
			if met(v) {
				take = true
				break
			}
		}
		if take {
			return ctx.RenderBlock(w, a.body)
		}
	}
	return nil
}

func forTag(n render.BlockNode) (tagRenderer, error) {
	s, err := expressions.ParseStatement(expressions.LoopStatementSelector, n.Args)
	if err != nil {
		return nil, errSyntax(n.Args)
	}
	if s.Loop.Cols != nil {
		return nil, errors.New("cols is for tables only")
	}
	if len(n.Clauses) > 1 {
		return nil, errors.New("a for has at most one else")
	}
	l := loop{Loop: s.Loop, cost: costOf(n.Body...)}
	if len(n.Clauses) == 1 {
		l.empty = n.Clauses[0]
	}
	return l.render, nil
}

type loop struct {
	expressions.Loop
	cost  cost
	empty *render.BlockNode // what to render if there is nothing to loop over
}

func (l loop) render(w io.Writer, ctx render.Context) error {
	v, err := ctx.Evaluate(l.Expr)
	if err != nil {
		return err
	}
	length, at := sequence(v)
	first, err := l.modifier(ctx, l.Offset, 0, length)
	if err != nil {
		return err
	}
	count, err := l.modifier(ctx, l.Limit, length-first, length-first)
	if err != nil {
		return err
	}
	if count <= 0 {
		if l.empty == nil {
			return nil
		}
		return ctx.RenderBlock(w, l.empty)
	}
	b := budgetOf(ctx)
	outer, shadowed := ctx.Get("forloop"), ctx.Get(l.Variable)
	defer func() {
		ctx.Set("forloop", outer)
		ctx.Set(l.Variable, shadowed)
	}()
	for i := range count {
		if b.turns--; b.turns < 0 {
			return b.fail(errTurns)
		}
		if err := b.spend(turnWork); err != nil {
			return err
		}
		k := first + i
		if l.Reversed {
			k = first + count - 1 - i
		}
		ctx.Set(l.Variable, at(k))
		ctx.Set("forloop", object{
			"first": i == 0, "last": i == count-1, "length": count,
			"index": i + 1, "index0": i, "rindex": count - i, "rindex0": count - i - 1,
		})
		fault := ctx.RenderChildren(w)
		// After the turn, so that the values it made are in the price.
		if err := b.run(l.cost); err != nil {
			return err
		}
		if fault != nil {
			switch fault.Cause() {
			case errBreak:
				return nil
			case errContinue:
			default:
				return fault
			}
		}
	}
	return nil
}

// modifier evaluates offset or limit, within 0 and most.
func (l loop) modifier(ctx render.Context, e expressions.Expression, absent, most int) (int, error) {
	if e == nil {
		return absent, nil
	}
	v, err := ctx.Evaluate(e)
	if err != nil {
		return 0, err
	}
	n, ok := v.(int)
	if !ok {
		return 0, budgetOf(ctx).fail(errRender("offset and limit of a for must be integers"))
	}
	return min(max(n, 0), most), nil
}

// sequence makes a value something to loop over: a list, the pairs of an object
// in the order of their names, or a range. Anything else is empty.
func sequence(v any) (length int, at func(int) any) {
	switch v := v.(type) {
	case []any:
		return len(v), func(i int) any { return v[i] }
	case object:
		names := slices.Sorted(maps.Keys(v))
		return len(names), func(i int) any { return []any{names[i], v[names[i]]} }
	case values.Range:
		return max(v.Len(), 0), v.Index
	}
	return 0, nil
}

func errSyntax(args string) error {
	return fmt.Errorf("syntax error in %q", clip(args, 80))
}
