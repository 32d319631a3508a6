package journey

import (
	"errors"
	"regexp"
	"regexp/syntax"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

const missingValue = "missing value"

// strictNull makes a comparison with a value that is not set an error
// (docs/contract.md, "Conditions"): `lead.gender != 1` is not true of a lead whose
// gender is unknown. A comparison with a null that the condition itself writes
// (`lead.gender == null`) is how one asks for it. To CEL, `lead.gender > 1` is then a
// mistake in the types; here it is the same error, and so it is in every other call
// that fails with a member that is not set: `date(lead.birthday) > today`.
func strictNull(i interpreter.Interpretable) (interpreter.Interpretable, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return i, nil
	}
	switch call.Function() {
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return &ordering{InterpretableCall: call, lhs: call.Args()[0], rhs: call.Args()[1]}, nil
	case operators.Equals, operators.NotEquals:
	default:
		return &other{InterpretableCall: call}, nil
	}
	for _, arg := range call.Args() {
		if c, ok := arg.(interpreter.InterpretableConst); ok && c.Value() == types.NullValue {
			return i, nil
		}
	}
	return &comparison{InterpretableCall: call, lhs: call.Args()[0], rhs: call.Args()[1]}, nil
}

type comparison struct {
	interpreter.InterpretableCall
	lhs, rhs interpreter.Interpretable
}

// Eval compares the two sides.
func (c *comparison) Eval(vars interpreter.Activation) ref.Val {
	l, r := c.lhs.Eval(vars), c.rhs.Eval(vars)
	if types.IsUnknownOrError(l) {
		return l
	}
	if types.IsUnknownOrError(r) {
		return r
	}
	if (l == types.NullValue) != (r == types.NullValue) {
		return types.NewErr(missingValue)
	}
	return types.Bool((types.Equal(l, r) == types.True) == (c.Function() == operators.Equals))
}

type ordering struct {
	interpreter.InterpretableCall
	lhs, rhs interpreter.Interpretable
}

// Eval compares the two sides.
func (o *ordering) Eval(vars interpreter.Activation) ref.Val {
	l, r := o.lhs.Eval(vars), o.rhs.Eval(vars)
	if types.IsUnknownOrError(l) {
		return l
	}
	if types.IsUnknownOrError(r) {
		return r
	}
	if l == types.NullValue || r == types.NullValue {
		return types.NewErr(missingValue)
	}
	comparer, ok := l.(traits.Comparer)
	if !ok {
		return types.NewErr("no such overload")
	}
	result := comparer.Compare(r)
	order, ok := result.(types.Int)
	if !ok {
		return result // an error
	}
	switch o.Function() {
	case operators.Less:
		return types.Bool(order < 0)
	case operators.LessEquals:
		return types.Bool(order <= 0)
	case operators.Greater:
		return types.Bool(order > 0)
	}
	return types.Bool(order >= 0)
}

// other is a call that is no comparison.
type other struct{ interpreter.InterpretableCall }

// Eval calls it. Only members are read again after an error, which is cheap.
func (o *other) Eval(vars interpreter.Activation) ref.Val {
	v := o.InterpretableCall.Eval(vars)
	if !types.IsError(v) {
		return v
	}
	for _, arg := range o.Args() {
		member, ok := arg.(interpreter.InterpretableAttribute)
		if !ok {
			continue
		}
		if _, ok := member.Attr().(interpreter.NamespacedAttribute); ok && member.Eval(vars) == types.NullValue {
			return types.NewErr(missingValue)
		}
	}
	return v
}

// Bounds of matches(). CEL looks at the cost of a call only after it, and a
// short pattern such as (a?){1000} can make it a very long one.
const (
	maxPattern      = 512       // bytes
	maxInstructions = 500       // of the compiled pattern
	maxMatchWork    = 2_000_000 // instructions times bytes of the text
	errMatchWork    = "operation cancelled: matches() would take too long"
)

// boundedMatch bounds the work of matches() and compiles constant patterns.
func boundedMatch(i interpreter.Interpretable) (interpreter.Interpretable, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || call.Function() != overloads.Matches || len(call.Args()) != 2 {
		return i, nil
	}
	m := &match{InterpretableCall: call, subject: call.Args()[0], pattern: call.Args()[1]}
	if c, ok := m.pattern.(interpreter.InterpretableConst); ok {
		source, ok := c.Value().(types.String)
		if !ok {
			return i, nil
		}
		var err error
		if m.compiled, err = compilePattern(string(source)); err != nil {
			return nil, err
		}
	}
	return m, nil
}

type match struct {
	interpreter.InterpretableCall
	subject, pattern interpreter.Interpretable
	compiled         *pattern // nil where the pattern is no constant
}

// Eval matches the text.
func (m *match) Eval(vars interpreter.Activation) ref.Val {
	subject, source := m.subject.Eval(vars), m.pattern.Eval(vars)
	if types.IsUnknownOrError(subject) {
		return subject
	}
	if types.IsUnknownOrError(source) {
		return source
	}
	if subject == types.NullValue || source == types.NullValue {
		return types.NewErr(missingValue)
	}
	s, ok := subject.(types.String)
	p, ok2 := source.(types.String)
	if !ok || !ok2 {
		return types.NewErr("no such overload")
	}
	compiled := m.compiled
	if compiled == nil {
		var err error
		if compiled, err = compilePattern(string(p)); err != nil {
			return types.NewErr("invalid pattern")
		}
	}
	if compiled.instructions*len(s) > maxMatchWork {
		return types.NewErr(errMatchWork)
	}
	return types.Bool(compiled.re.MatchString(string(s)))
}

type pattern struct {
	re           *regexp.Regexp
	instructions int
}

func compilePattern(source string) (*pattern, error) {
	if len(source) > maxPattern {
		return nil, errors.New("the pattern of matches() is too long")
	}
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxInstructions {
		return nil, errors.New("the pattern of matches() is too large")
	}
	re, err := regexp.Compile(source)
	if err != nil {
		return nil, err
	}
	return &pattern{re: re, instructions: len(program.Inst)}, nil
}
