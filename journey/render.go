package journey

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/osteele/liquid/expressions"
	"github.com/osteele/liquid/render"

	"waypost"
)

// Render returns the params of a touchpoint's message: the webhook's, overridden
// by the node's. Strings are rendered as Liquid templates, numbers stay as they
// were written. A param has at most 64 KiB, all together 256 KiB, and the work
// that templates may do is bounded. A template that fails is a *waypost.Error
// (UnprocessableEntity) whose target is the param and whose message holds no
// value of the facts; any other error is one of the caller.
func (d *Definition) Render(node string, webhookParams map[string]any, f Facts) (map[string]any, error) {
	n, ok := d.Node(node)
	if !ok || n.Type != Touchpoint {
		return nil, fmt.Errorf("render params: %q is no touchpoint", clip(node, 64))
	}
	params := maps.Clone(webhookParams)
	if params == nil {
		params = map[string]any{}
	}
	for name, p := range n.Params {
		params[name] = p
	}
	r := renderer{d: d, facts: &f}
	defer r.release()
	for _, name := range slices.Sorted(maps.Keys(params)) {
		v, err := r.param(params[name])
		if err != nil {
			target := "params." + clip(name, 64)
			return nil, waypost.Errorf(waypost.CodeUnprocessableEntity, target, "%s: %s", target, err)
		}
		params[name] = v
	}
	return params, nil
}

// renderer renders the params of one message. What it needs for templates is
// made when the first one comes.
type renderer struct {
	d     *Definition
	facts *Facts
	vars  map[string]any
	*engine
}

// engine is a set of filters that count on one budget; making it costs more than
// rendering a usual template, so engines are used again.
type engine struct {
	budget budget
	config render.Config
}

var engines = sync.Pool{New: func() any {
	e := &engine{config: templateConfig()}
	e.config.Config.Config = expressions.NewConfig()
	for name, f := range templateFilters {
		e.config.AddFilter(name, f.bounded(&e.budget))
	}
	return e
}}

func (r *renderer) release() {
	if r.engine != nil {
		engines.Put(r.engine)
	}
}

func (r *renderer) param(v any) (any, error) {
	switch v := v.(type) {
	case Param:
		if number, ok := v.Number(); ok {
			return number, nil
		}
		if text, ok := v.Text(); ok {
			return r.text(text)
		}
	case string:
		return r.text(v)
	case json.Number, float64, int, int64:
		return v, nil
	}
	return nil, errRender("must be a string or a number")
}

func (r *renderer) text(source string) (string, error) {
	t, err := r.d.templates.template(source)
	if err != nil {
		return "", errSource
	}
	if t.root == nil {
		return t.plain, nil
	}
	if r.vars == nil {
		r.prepare()
	}
	return r.run(t)
}

func (r *renderer) prepare() {
	vars := r.facts.variables()
	size := 0
	for name, v := range vars {
		vars[name] = printable(v)
		size += sizeOf(v, 16<<20)
	}
	r.engine = engines.Get().(*engine)
	r.budget = newBudget(size)
	vars[budgetKey] = &r.budget
	r.vars = vars
}

func (r *renderer) run(t *template) (out string, err error) {
	b := &r.budget
	defer func() {
		// The library panics where a value is of no type that it knows how to treat.
		if p := recover(); p != nil {
			out, err = "", b.told()
		}
	}()
	if err := b.run(t.cost); err != nil {
		return "", err
	}
	w := &boundedWriter{b: b, left: maxOutput, over: errOutput}
	if b.total < maxOutput {
		w.left, w.over = b.total, errTotal
	}
	if err := render.Render(t.root, w, r.vars, r.config); err != nil {
		return "", b.told()
	}
	b.total -= len(w.out)
	return w.text(), nil
}

// printable turns instants into text, which is what templates print.
func printable(v any) any {
	switch v := v.(type) {
	case object:
		for name, member := range v {
			if t, ok := member.(instant); ok {
				v[name] = t.text()
			}
		}
	}
	return v
}
