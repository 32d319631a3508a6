package journey

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"waypost"
	"waypost/journey/liquid"
)

// maxDecide stops a condition that its cost limit somehow does not. It is a variable for
// tests on a busy machine.
var maxDecide = time.Second

// DecideAt decides how the lead of the facts goes on, which stands at now at a node that is
// decided by what is known of the lead, such as a branch, a waitUntil or a split, and returns
// the input that tells Step of it. It reads no clock; where the same lead may come again at
// nearly the same time, as in a loop, now must not be before the end of the last wait. Any other
// node is an error: enroll, updateLead and emit are decided by doing what they say.
func (d *Definition) DecideAt(node string, f Facts, now time.Time) (Input, error) {
	n, _ := d.Node(node)
	if t := n.Description(); t.Enters != PhaseDecide || t.Acts {
		return Input{}, fmt.Errorf("decide node: %q is not decided by what is known of the lead", waypost.Clip(node, 64))
	}
	in := kindOf(n.Type).decide(d, n, f, now)
	in.Kind, in.At = InputDecided, now
	return in, nil
}

// Awaited names the events that can make the condition of a waitFor node true: those that it asks
// for. It is every one where the condition depends on more than these and its lead's fields: on the
// time, on touchpoints, or on what else is recorded of the lead.
func (d *Definition) Awaited(node string) (events []string) {
	every := []string{waypost.Anything}
	i, ok := d.index[node]
	if !ok || d.body.Nodes[i].Type != WaitFor {
		return every
	}
	c := d.conditions[i]()[0]
	if n := c.needs; c.err != nil || isTimed(c.expr) || names(c.expr, varTouchpoints) || len(n.Entered)+len(n.Delivered)+len(n.Segments) > 0 {
		return every
	}
	for _, e := range c.needs.Events {
		if !slices.Contains(events, e.Name) {
			events = append(events, e.Name)
		}
	}
	return events
}

// names tells whether an expression names a variable.
func names(e ast.Expr, variable string) (named bool) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		named = named || e.Kind() == ast.IdentKind && e.AsIdent() == variable
	}))
	return named
}

// Words for why a condition is false.
const (
	notBoolean     = "not true or false"
	costLimit      = "cost limit"
	tookTooLong    = "took too long"
	doesNotCompile = "does not compile"
)

// verdict is the result of one condition.
type verdict struct {
	yes   bool
	fault string    // a safe word for what went wrong, or ""
	parts []ref.Val // results of its parts; nil where a part was not evaluated
}

// holds evaluates one condition.
func (c condition) holds(ctx context.Context, vars map[string]any) verdict {
	v := verdict{parts: make([]ref.Val, len(c.parts))}
	out, fault := c.value(ctx, vars, v.parts)
	switch {
	case fault != "":
		v.fault = fault
	case out == types.True:
		v.yes = true
	case out != types.False:
		v.fault = notBoolean
	}
	return v
}

// value evaluates a condition, an entry key, or the value of a goal; parts get the results of its
// parts. fault is a safe word for what went wrong, or "".
func (c condition) value(ctx context.Context, vars map[string]any, parts []ref.Val) (out ref.Val, fault string) {
	if c.err != nil {
		return nil, doesNotCompile
	}
	vars[varParts] = parts
	out, _, err := c.program.ContextEval(ctx, vars)
	switch {
	case err != nil:
		return nil, faultWord(err)
	case out == types.NullValue:
		return nil, missingValue
	}
	return out, ""
}

// faultWords maps the beginnings of CEL's error texts to words for a timeline.
// The texts themselves can repeat values of the lead.
var faultWords = []struct{ prefix, word string }{
	{missingValue, missingValue},
	{noRecord, noRecord},
	{noEvent, noEvent},
	{noYear, noYear},
	{"no such key", "no such key"},
	{"no such attribute", "no such key"},
	{"no such field", "no such key"},
	{"no such overload", "no such overload"},
	{"operation cancelled", costLimit},
	{"operation interrupted", tookTooLong},
	{"division by zero", "division by zero"},
	{"modulus by zero", "division by zero"},
	{"index", "index out of range"},
	{"integer overflow", "overflow"},
	{"unsigned integer overflow", "overflow"},
	{"duration overflow", "overflow"},
	{"timestamp overflow", "overflow"},
	{"range error", "overflow"},
	{"type conversion error", "type conversion"},
	{"got 'types.String', expected iterable", "a text, not a list"},
	{"got 'types.Double', expected iterable", "a number, not a list"},
	{"got 'types.Bool', expected iterable", "true or false, not a list"},
	{"got 'types.Null', expected iterable", missingValue},
	{"got ", "not a list"},
	{"invalid pattern", "invalid pattern"},
	{"invalid", "invalid value"},
	{"unsupported", "no such overload"},
}

func faultWord(err error) string {
	text := err.Error()
	for _, f := range faultWords {
		if strings.HasPrefix(text, f.prefix) {
			return f.word
		}
	}
	return "evaluation failed"
}

// conditionVariables returns the facts in the types that conditions take: all numbers are
// float64.
func conditionVariables(f *Facts) map[string]any {
	vars := f.variables()
	native(vars)
	zone := time.UTC
	if loc, ok := leadZone(&f.Lead); ok {
		zone = loc
	}
	vars[varZone] = zone.String()
	vars[varRecord] = &recordValue{f.Record, f.Now}
	vars[varNow], vars[varToday] = errNoTime, errNoTime
	if !f.Now.IsZero() {
		vars[varNow], vars[varToday] = f.Now.UTC(), dayAt(f.Now, zone)
	}
	return vars
}

// errNoTime is the value of now and today where the facts have no time.
var errNoTime = types.NewErr(missingValue)

// native turns numbers and instants into the types of conditions, in place.
func native(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = native(member)
		}
	case []any:
		for i, e := range v {
			v[i] = native(e)
		}
	case int:
		// A float64 would take one number for another.
		if v > maxExact || v < -maxExact {
			return types.NewErr(errOverflow)
		}
		return float64(v)
	case liquid.Instant:
		return time.Time(v)
	}
	return v
}
