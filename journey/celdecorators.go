package journey

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// Texts of errors in conditions, for which faultWords has words.
const (
	missingValue = "missing value"
	noOverload   = "no such overload"
	noYear       = "a day without a year"
)

// strictNull makes a comparison with a value that is not set an error
// (docs/contract.md, "Conditions"): `lead.gender != 1` is not true of a lead whose
// gender is unknown. A comparison with a null that the condition itself writes
// (`lead.gender == null`) is how one asks for it: what is not there is null too. To CEL, `lead.gender > 1` is then a
// mistake in the types; here it is the same error, and so it is in every other call
// that fails with a member that is not set: `date(lead.birthday) > today`.
func strictNull(i interpreter.Interpretable) (interpreter.Interpretable, error) {
	if member, ok := i.(interpreter.InterpretableAttribute); ok {
		return &optionalMember{member}, nil
	}
	call, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return i, nil
	}
	switch function := call.Function(); function {
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return onTwo(call, func(l, r ref.Val) ref.Val { return ordered(function, l, r) }), nil
	case operators.Equals, operators.NotEquals:
		if other := slices.IndexFunc(call.Args(), isNull); other >= 0 {
			return comparedWithNull(call, call.Args()[1-other], function == operators.Equals), nil
		}
		return onTwo(call, func(l, r ref.Val) ref.Val {
			if (l == types.NullValue) != (r == types.NullValue) {
				return types.NewErr(missingValue)
			}
			return types.Bool((types.Equal(instant(l), instant(r)) == types.True) == (function == operators.Equals))
		}), nil
	}
	return &changedCall{call, func(vars interpreter.Activation) ref.Val {
		v := call.Eval(vars)
		unset := func(arg interpreter.Interpretable) bool { return isUnset(arg, vars) }
		if types.IsError(v) && slices.ContainsFunc(call.Args(), unset) {
			return types.NewErr(missingValue)
		}
		return v
	}}, nil
}

// optionalMember is a member of which x.?y is none where it is null, as it is where it is not there.
type optionalMember struct {
	interpreter.InterpretableAttribute
}

// Eval evaluates the member.
func (m *optionalMember) Eval(vars interpreter.Activation) ref.Val {
	v := m.InterpretableAttribute.Eval(vars)
	if optional, ok := v.(*types.Optional); ok && optional.HasValue() && optional.GetValue() == types.NullValue {
		return types.OptionalNone
	}
	return v
}

// comparedWithNull is whether an argument is null, if want says so, or is not.
func comparedWithNull(call interpreter.InterpretableCall, arg interpreter.Interpretable, want bool) *changedCall {
	return &changedCall{call, func(vars interpreter.Activation) ref.Val {
		v := arg.Eval(vars)
		if optional, ok := v.(*types.Optional); ok {
			v = types.NullValue
			if optional.HasValue() {
				v = optional.GetValue()
			}
		}
		null := v == types.NullValue
		if err, failed := v.(*types.Err); failed {
			_, member := arg.(interpreter.InterpretableAttribute)
			null = member && isAbsent(err)
			if !null && !strings.HasPrefix(err.Error(), errOverflow) { // such a number is there
				return v
			}
		} else if types.IsUnknown(v) {
			return v
		}
		return types.Bool(null == want)
	}}
}

// absent are the beginnings of CEL's texts of errors for a member that is not there: of an object, of a
// variable, of what is no object, and of a list.
var absent = []string{"no such key", "no such attribute", noOverload, "index out of bounds"}

func isAbsent(err *types.Err) bool {
	return slices.ContainsFunc(absent, func(text string) bool { return strings.HasPrefix(err.Error(), text) })
}

// changedCall is a call that is evaluated in another way than CEL's own.
type changedCall struct {
	interpreter.InterpretableCall
	eval func(interpreter.Activation) ref.Val
}

// Eval evaluates the call.
func (c *changedCall) Eval(vars interpreter.Activation) ref.Val { return c.eval(vars) }

// onTwo evaluates the two arguments of a call, and gives them to do if neither is an error.
func onTwo(call interpreter.InterpretableCall, do func(l, r ref.Val) ref.Val) *changedCall {
	lhs, rhs := call.Args()[0], call.Args()[1]
	return &changedCall{call, func(vars interpreter.Activation) ref.Val {
		l, r := lhs.Eval(vars), rhs.Eval(vars)
		switch {
		case types.IsUnknownOrError(l):
			return l
		case types.IsUnknownOrError(r):
			return r
		}
		return do(l, r)
	}}
}

// isNull tells whether the condition itself writes null there.
func isNull(arg interpreter.Interpretable) bool {
	c, ok := arg.(interpreter.InterpretableConst)
	return ok && c.Value() == types.NullValue
}

// isUnset tells whether an argument is a member that is not set. It reads it again,
// which is cheap.
func isUnset(arg interpreter.Interpretable, vars interpreter.Activation) bool {
	member, ok := arg.(interpreter.InterpretableAttribute)
	if !ok {
		return false
	}
	_, ok = member.Attr().(interpreter.NamespacedAttribute)
	return ok && member.Eval(vars) == types.NullValue
}

// ordered is the result of one of the operators <, <=, > and >=.
func ordered(operator string, l, r ref.Val) ref.Val {
	if l == types.NullValue || r == types.NullValue {
		return types.NewErr(missingValue)
	}
	l, r = instant(l), instant(r)
	comparer, ok := l.(traits.Comparer)
	if !ok {
		return types.NewErr(noOverload)
	}
	result := comparer.Compare(r)
	order, ok := result.(types.Int)
	if !ok {
		return result // an error
	}
	switch operator {
	case operators.Less:
		return types.Bool(order < 0)
	case operators.LessEquals:
		return types.Bool(order <= 0)
	case operators.Greater:
		return types.Bool(order > 0)
	}
	return types.Bool(order >= 0)
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
	compile := compilePattern
	if c, ok := call.Args()[1].(interpreter.InterpretableConst); ok {
		source, ok := c.Value().(types.String)
		if !ok {
			return i, nil
		}
		compiled, err := compilePattern(string(source))
		if err != nil {
			return nil, err
		}
		compile = func(string) (*pattern, error) { return compiled, nil }
	}
	return onTwo(call, func(l, r ref.Val) ref.Val {
		if l == types.NullValue || r == types.NullValue {
			return types.NewErr(missingValue)
		}
		text, ok := l.(types.String)
		source, ok2 := r.(types.String)
		if !ok || !ok2 {
			return types.NewErr(noOverload)
		}
		compiled, err := compile(string(source))
		switch {
		case err != nil:
			return types.NewErr("invalid pattern")
		case compiled.instructions*len(text) > maxMatchWork:
			return types.NewErr(errMatchWork)
		}
		return types.Bool(compiled.re.MatchString(string(text)))
	}), nil
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
