package journey

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
)

// maxDecide stops a condition that its cost limit somehow does not.
const maxDecide = time.Second

// Decide evaluates the cases of a branch in their order and returns the index of
// the first that is true, -1 if none is. A case that errors or meets a missing
// value is false. reason says which arm it is and names the errors of the cases
// before it by a code, such as "otherwise; case 1: error: no such key"; it never
// holds a value of the facts.
func (d *Definition) Decide(node string, f Facts) (arm int, reason string) {
	i, ok := d.index[node]
	if !ok || d.body.Nodes[i].Type != Branch {
		return -1, "otherwise; error: not a branch"
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxDecide)
	defer cancel()
	vars := conditionVariables(&f)
	arm = -1
	var faults []string
	for j, c := range d.compiled(i) {
		yes, fault := c.holds(ctx, vars)
		if fault != "" && len(faults) < 5 {
			faults = append(faults, caseName(j)+": error: "+fault)
		}
		if yes {
			arm = j
			break
		}
	}
	reason = "otherwise"
	if arm >= 0 {
		reason = caseName(arm)
	}
	return arm, strings.Join(append([]string{reason}, faults...), "; ")
}

// DecideAt decides a branch, a waitUntil or a split for the lead of the facts who
// stands there at now, and returns the input that tells Step of it. It reads no
// clock; where the same lead may be asked at nearly the same time again, as in a
// loop, now must not be before the end of the last wait. Any other node is an
// error: an enroll node is decided by enrolling.
func (d *Definition) DecideAt(node string, f Facts, now time.Time) (Input, error) {
	in := Input{Kind: InputDecided, At: now}
	n, _ := d.Node(node)
	switch n.Type {
	case Branch:
		in.Arm, in.Reason = d.Decide(node, f)
	case WaitUntil:
		in.Until, in.Reason = NextInstant(n, f.Lead, now)
	case Split:
		in.Arm = SplitArm(f.JourneyID, node, f.Lead.LeadsID, n.weights())
	default:
		return Input{}, fmt.Errorf("decide node: %q is no branch, waitUntil or split", clip(node, 64))
	}
	return in, nil
}

// Matches tells whether the event of the facts is one that a waitForEvent node
// waits for: whether its condition is true, or it has none. The event's name is
// the caller's to compare. fault is a word for why the condition is false without
// having been evaluated to the end, such as "no such key", or ""; it never holds
// a value of the facts.
func (d *Definition) Matches(node string, f Facts) (yes bool, fault string) {
	i, ok := d.index[node]
	if !ok || d.body.Nodes[i].Type != WaitForEvent {
		return false, "not a wait for an event"
	}
	compiled := d.compiled(i)
	if len(compiled) == 0 {
		return true, ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxDecide)
	defer cancel()
	vars := conditionVariables(&f)
	vars[varEvent] = native(plainObject(f.Event))
	return compiled[0].holds(ctx, vars)
}

// holds evaluates one condition. fault is "" or a safe word for what went wrong.
func (c condition) holds(ctx context.Context, vars map[string]any) (yes bool, fault string) {
	if c.err != nil {
		return false, "does not compile"
	}
	out, _, err := c.program.ContextEval(ctx, vars)
	if err != nil {
		return false, faultWord(err)
	}
	switch out {
	case types.True:
		return true, ""
	case types.False:
		return false, ""
	case types.NullValue:
		return false, missingValue
	}
	return false, "not true or false"
}

// faultWords maps the beginnings of CEL's error texts to words for a timeline.
// The texts themselves can repeat values of the lead.
var faultWords = []struct{ prefix, word string }{
	{missingValue, missingValue},
	{"no such key", "no such key"},
	{"no such attribute", "no such key"},
	{"no such field", "no such key"},
	{"no such overload", "no such overload"},
	{"operation cancelled", "cost limit"},
	{"operation interrupted", "took too long"},
	{"division by zero", "division by zero"},
	{"modulus by zero", "division by zero"},
	{"index", "index out of range"},
	{"integer overflow", "overflow"},
	{"unsigned integer overflow", "overflow"},
	{"duration overflow", "overflow"},
	{"timestamp overflow", "overflow"},
	{"range error", "overflow"},
	{"type conversion error", "type conversion"},
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

// conditionVariables turns the facts into types that CEL handles fastest.
func conditionVariables(f *Facts) map[string]any {
	vars := f.variables()
	for name, v := range vars {
		vars[name] = native(v)
	}
	return vars
}

func native(v any) any {
	switch v := v.(type) {
	case object:
		for name, member := range v {
			switch member.(type) {
			case object, []any, decimal, instant:
				v[name] = native(member)
			}
		}
		return map[string]any(v)
	case []any:
		for i, e := range v {
			v[i] = native(e)
		}
		return v
	case decimal:
		return float64(v)
	case instant:
		return time.Time(v)
	}
	return v
}
