package journey

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"waypost"
	"waypost/journey/nodes"
)

// fields is the type of an object.
var fields = cel.MapType(cel.StringType, cel.DynType)

// segmentEnv declares what the conditions of segments see. Each environment is made once per
// process, and takes no part in Parse or Step.
var segmentEnv = sync.OnceValues(func() (*cel.Env, error) { return newRecordEnv(varLead) })

// conditionEnv declares what branches and the condition of a waitFor see.
var conditionEnv = sync.OnceValues(func() (*cel.Env, error) {
	return newRecordEnv(varLead, varJourney, varEnrollment, varTouchpoints)
})

// eventEnv declares what the condition of a waitForEvent sees.
var eventEnv = sync.OnceValues(func() (*cel.Env, error) {
	return newRecordEnv(varLead, varJourney, varEnrollment, varTouchpoints, varEvent)
})

// newRecordEnv is newEnv for conditions that may ask for the record of the lead.
func newRecordEnv(variables ...string) (*cel.Env, error) {
	env, err := newEnv(variables...)
	if err != nil {
		return nil, err
	}
	return env.Extend(recordFunctions()...)
}

// newEnv declares variables, the functions and the limits of conditions.
func newEnv(variables ...string) (*cel.Env, error) {
	extended, err := extensions()
	if err != nil {
		return nil, err
	}
	options := slices.Concat([]cel.EnvOption{
		library(),
		cel.OptionalTypes(cel.OptionalTypesVersion(1)), // of 2 on, last() is another one
		cel.ParserExpressionSizeLimit(MaxCondition),
		cel.ParserRecursionLimit(60),
		cel.EnableMacroCallTracking(), // or the text of a part could not be told
	}, numberFunctions(), timeFunctions(), rewrittenFunctions(), fieldVariables(), ourFunctions(), extended)
	for _, name := range variables {
		options = append(options, cel.Variable(name, fields))
	}
	return cel.NewCustomEnv(options...)
}

// resultTypes are the types that an expression may have: a condition, an entry key, or the
// value of a goal.
type resultTypes []*cel.Type

var (
	trueOrFalse  = resultTypes{cel.BoolType, cel.DynType}
	aNumber      = resultTypes{cel.DoubleType, cel.DynType}
	textOrNumber = resultTypes{cel.StringType, cel.DoubleType, cel.DynType}
)

// check reports a type that is none of them.
func (r resultTypes) check(t *cel.Type) error {
	if slices.ContainsFunc(r, t.IsExactType) {
		return nil
	}
	want := "true or false"
	switch r[0] {
	case cel.StringType:
		want = "a text or a number"
	case cel.DoubleType:
		want = "a number"
	}
	return fmt.Errorf("must be %s, not %s", want, cel.FormatCELType(t))
}

// condition is one compiled condition, or why it does not compile.
type condition struct {
	program cel.Program
	parts   []part
	needs   waypost.RecordNeeds
	expr    ast.Expr // checked
	err     error
	misfit  func() error // what built-in fields are used as that they are not; it is no reason not to evaluate it
}

// compileAll compiles the conditions of a node.
func (d *Definition) compileAll(n Node) []condition {
	env := conditionEnv
	ofEvents := n.Description().Waits == nodes.ForEvent
	if ofEvents {
		env = eventEnv
	}
	var all []condition
	for _, source := range n.conditions() {
		if source == "" && ofEvents {
			all = append(all, condition{})
			continue
		}
		all = append(all, d.compiled(env, source, trueOrFalse))
	}
	return all
}

// compiled is compile, with the error kept in the condition.
func (d *Definition) compiled(declare func() (*cel.Env, error), source string, result resultTypes) condition {
	c, err := d.compile(declare, source, maxCost, result)
	c.err = err
	c.misfit = sync.OnceValue(func() error { return misfit(declare, source, result) })
	return c
}

// compile checks a condition and plans it; cost bounds the work of an evaluation. Its
// errors name positions and repeat the source, never values.
func (d *Definition) compile(declare func() (*cel.Env, error), source string, cost uint64, result resultTypes) (condition, error) {
	if utf8.RuneCountInString(source) > MaxCondition {
		return condition{}, fmt.Errorf("has at most %d characters", MaxCondition)
	}
	env, err := declare()
	if err != nil {
		return condition{}, fmt.Errorf("declare the variables of conditions: %w", err)
	}
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		if slips := slipsIn(source); slips != nil {
			return condition{}, slips
		}
		return condition{}, joined(issues.Errors())
	}
	written := ast.Copy(parsed.NativeRep())
	found, zoned := prepare(parsed.NativeRep())
	prepared := ast.Copy(parsed.NativeRep())
	checked, issues := env.Check(parsed)
	for _, e := range issues.Errors() {
		if slices.ContainsFunc(found, func(f *common.Error) bool { return f.ExprID == e.ExprID }) {
			continue // that says it
		}
		if strings.Contains(e.Message, "'"+varRecord+"'") {
			continue // the condition names the function only, which is not there either
		}
		if better := instead(e.Message, lineBefore(source, e.Location)); better != "" {
			e.Message = better
		}
		newTyped(prepared).explain(e)
		if better := unlikeSides(e.Message); better != "" {
			e.Message = better
		}
		if zoned[e.ExprID] { // the condition does not name the zone
			e.Message = strings.NewReplacer(", string, timestamp)", ")", ", string)", ")", "(string)", "()").Replace(e.Message)
		}
		found = append(found, e)
	}
	if len(found) == 0 {
		found = d.unknownNames(checked.NativeRep())
	}
	if len(found) > 0 {
		return condition{}, joined(found)
	}
	if err := result.check(checked.OutputType()); err != nil {
		return condition{}, err
	}
	parts, ids := partsOf(written)
	program, err := env.Program(checked,
		cel.CustomDecorator(strictNull),
		cel.CustomDecorator(boundedMatch),
		cel.CustomDecorator(watchParts(ids)),
		cel.CostTracking(callCost{}),
		cel.CostLimit(cost),
		cel.InterruptCheckFrequency(10),
	)
	if err != nil {
		return condition{}, errors.New(waypost.Clip(firstLine(err.Error()), 300))
	}
	return condition{program: program, parts: parts, needs: needsOf(checked.NativeRep()), expr: checked.NativeRep().Expr()}, nil
}

func faultAt(a *ast.AST, e ast.Expr, message string) *common.Error {
	return &common.Error{Location: a.SourceInfo().GetStartLocation(e.ID()), Message: message, ExprID: e.ID()}
}

// joined makes one error of what is wrong with a condition.
func joined(found []*common.Error) error {
	var out []string
	for _, e := range found[:min(len(found), 3)] {
		position := ""
		if e.Location.Line() > 0 {
			position = fmt.Sprintf("line %d, column %d: ", e.Location.Line(), e.Location.Column()+1)
		}
		message := strings.TrimSuffix(firstLine(e.Message), " (in container '')")
		out = append(out, position+waypost.Clip(message, 300))
	}
	return errors.New(strings.Join(out, "; "))
}

// lineBefore is what stands before a place, in its line.
func lineBefore(source string, at common.Location) string {
	lines := strings.Split(source, "\n")
	if at.Line() < 1 || at.Line() > len(lines) {
		return ""
	}
	line := []rune(lines[at.Line()-1])
	return string(line[:max(0, min(at.Column(), len(line)))])
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// members lists what the variables of fixed shape have.
var members = sync.OnceValue(func() map[string]map[string]any {
	var f Facts
	out := map[string]map[string]any{}
	for name, v := range f.variables() {
		if name != varTouchpoints {
			out[name] = v.(map[string]any)
		}
	}
	return out
})

var touchpointMembers = []string{"succeed", "httpStatus", "message", "attempts"}

// unknownMember returns what is wrong with a member of a variable; "" if nothing is.
func unknownMember(variable, member string, touchpoint func(id string) bool) string {
	if variable == varTouchpoints {
		if !touchpoint(member) {
			return fmt.Sprintf("the journey has no touchpoint %q", waypost.Clip(member, 64))
		}
		return ""
	}
	if known, ok := members()[variable]; ok {
		if _, ok := known[member]; !ok {
			return fmt.Sprintf("%s has no member %q", variable, waypost.Clip(member, 64))
		}
	}
	return ""
}

var eventMembers = []string{"id", "name", "properties", "occurredAt", "acceptedAt"}

// unknownOf returns what is wrong with a member of what is named in a variable: of a
// touchpoint, or of the event that an enrollment began by.
func unknownOf(variable, name, member string) string {
	switch {
	case variable == varTouchpoints && !slices.Contains(touchpointMembers, member):
		return fmt.Sprintf("a touchpoint has no member %q, but %s", waypost.Clip(member, 64), strings.Join(touchpointMembers, ", "))
	case variable == varEnrollment && name == varEvent && !slices.Contains(eventMembers, member):
		return fmt.Sprintf("enrollment.event has no member %q, but %s", waypost.Clip(member, 64), strings.Join(eventMembers, ", "))
	}
	return ""
}

// unknownNames finds what the types cannot check, touchpoints that the journey does
// not have and members such as lead.naem: at run time they would be a case
// that is quietly never true.
func (d *Definition) unknownNames(a *ast.AST) []*common.Error {
	var found []*common.Error
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		operand, member, ok := Access(e)
		if !ok {
			return
		}
		fault := ""
		if operand.Kind() == ast.IdentKind {
			fault = unknownMember(operand.AsIdent(), member, d.hasTouchpoint)
		} else if of, name, ok := Access(operand); ok && of.Kind() == ast.IdentKind {
			fault = unknownOf(of.AsIdent(), name, member)
		}
		if fault != "" {
			found = append(found, faultAt(a, e, fault))
		}
	}))
	return found
}

// Access takes a.b, has(a.b) and a["b"] apart.
func Access(e ast.Expr) (operand ast.Expr, member string, ok bool) {
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().Operand(), e.AsSelect().FieldName(), true
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != operators.Index || call.Args()[1].Kind() != ast.LiteralKind {
			return nil, "", false
		}
		name, ok := call.Args()[1].AsLiteral().(types.String)
		return call.Args()[0], string(name), ok
	}
	return nil, "", false
}
