package journey

import (
	"math"
	"strconv"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"waypost"
	"waypost/journey/liquid"
)

// Conditions have one type of number, CEL's double, as JSON has one: whether a number
// of a lead or an event happens to be whole must not decide what a condition says of
// it. So literals, lengths and parts of dates are doubles too, and the functions
// below stand in for CEL's own of these names.

// errOverflow begins the text of CEL's own errors of that kind.
const errOverflow = "range error"

// library is CEL's standard library without the functions that have one meaning for
// whole numbers and another for fractions, or that read a time zone.
func library() cel.EnvOption {
	names := []string{
		operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Negate,
		overloads.Size, overloads.TypeConvertInt, overloads.TypeConvertUint, overloads.TypeConvertDouble, overloads.TypeConvertString,
		overloads.TypeConvertTimestamp, overloads.TypeConvertDuration,
	}
	for name := range dateParts {
		names = append(names, name)
	}
	subset := &env.LibrarySubset{}
	for _, name := range names {
		subset.AddExcludedFunctions(env.NewFunction(name))
	}
	return cel.StdLib(cel.StdLibSubset(subset))
}

// numberFunctions declares what calculates with numbers, or makes numbers of other
// values.
func numberFunctions() []cel.EnvOption {
	number, text, bytes, span, moment := cel.DoubleType, cel.StringType, cel.BytesType, cel.DurationType, cel.TimestampType
	element := cel.TypeParamType("A")
	list, object := cel.ListType(element), cel.MapType(element, cel.TypeParamType("B"))
	two := func(t *cel.Type) []*cel.Type { return []*cel.Type{t, t} }
	one := func(t *cel.Type) []*cel.Type { return []*cel.Type{t} }
	sized := []cel.FunctionOpt{cel.SingletonUnaryBinding(size, traits.SizerType)}
	for name, t := range map[string]*cel.Type{"bytes": bytes, "list": list, "map": object, "string": text} {
		sized = append(sized, cel.Overload("size_"+name, one(t), number), cel.MemberOverload(name+"_size", one(t), number))
	}
	var texts []cel.FunctionOpt
	for name, t := range map[string]*cel.Type{
		"number": number, "text": text, "bool": cel.BoolType, "bytes": bytes, "duration": span, "instant": moment,
	} {
		texts = append(texts, unary(name+"_to_string", t, text, toText))
	}
	negate := func(v ref.Val) ref.Val { return finite(-v.(types.Double)) }
	seconds := func(v ref.Val) ref.Val { return types.Double(timeOf(v).Unix()) }
	nanoseconds := func(v ref.Val) ref.Val { return exact(float64(v.(types.Duration).Duration)) }
	return []cel.EnvOption{
		cel.Function(operators.Add,
			cel.Overload("add_numbers", two(number), number),
			cel.Overload(overloads.AddString, two(text), text), cel.Overload(overloads.AddBytes, two(bytes), bytes),
			cel.Overload(overloads.AddList, two(list), list), cel.Overload(overloads.AddDurationDuration, two(span), span),
			cel.Overload(overloads.AddDurationTimestamp, []*cel.Type{span, moment}, moment),
			cel.Overload(overloads.AddTimestampDuration, []*cel.Type{moment, span}, moment),
			cel.SingletonBinaryBinding(func(l, r ref.Val) ref.Val { return finite(added(l, r)) }, traits.AdderType)),
		cel.Function(operators.Subtract,
			cel.Overload("subtract_numbers", two(number), number), cel.Overload(overloads.SubtractDurationDuration, two(span), span),
			cel.Overload(overloads.SubtractTimestampDuration, []*cel.Type{moment, span}, moment),
			cel.Overload(overloads.SubtractTimestampTimestamp, two(moment), span),
			cel.SingletonBinaryBinding(func(l, r ref.Val) ref.Val { return finite(subtracted(l, r)) }, traits.SubtractorType)),
		calculation(operators.Multiply),
		calculation(operators.Divide),
		calculation(operators.Modulo),
		cel.Function(operators.Negate, unary("negate_number", number, number, negate)),
		cel.Function(operators.Index, cel.Overload("index_list_number", []*cel.Type{list, number}, element)),
		cel.Function(overloads.Size, sized...),
		cel.Function(overloads.TypeConvertInt, append(wholes("int"),
			unary("timestamp_to_int", moment, number, seconds), unary("duration_to_int", span, number, nanoseconds))...),
		cel.Function(overloads.TypeConvertUint, wholes("uint")...),
		cel.Function(overloads.TypeConvertDouble,
			unary("number_to_double", number, number, same), unary("text_to_double", text, number, readNumber)),
		cel.Function(overloads.TypeConvertString, texts...),
	}
}

// unary declares what a function does with an argument of a type.
func unary(id string, argument, result *cel.Type, do func(ref.Val) ref.Val) cel.FunctionOpt {
	return cel.Overload(id, []*cel.Type{argument}, result, cel.UnaryBinding(do))
}

// calculation declares an operator on two numbers.
func calculation(operator string) cel.EnvOption {
	number := cel.DoubleType
	return cel.Function(operator, cel.Overload(operator+"numbers", []*cel.Type{number, number}, number, cel.BinaryBinding(func(l, r ref.Val) ref.Val {
		return calculated(operator, float64(l.(types.Double)), float64(r.(types.Double)))
	})))
}

// wholes declares int or uint of numbers and texts: the number without its fraction.
func wholes(name string) []cel.FunctionOpt {
	whole := func(v ref.Val) ref.Val {
		n, ok := v.(types.Double)
		if !ok {
			return v // an error
		}
		if n = types.Double(math.Trunc(float64(n))); name == overloads.TypeConvertUint && n < 0 {
			return types.NewErr(errOverflow)
		}
		return finite(n)
	}
	return []cel.FunctionOpt{
		unary("number_to_"+name, cel.DoubleType, cel.DoubleType, whole),
		unary("text_to_"+name, cel.StringType, cel.DoubleType, func(v ref.Val) ref.Val {
			if _, err := strconv.ParseInt(string(v.(types.String)), 10, 64); err != nil {
				return v.ConvertToType(types.IntType) // the error
			}
			return whole(readNumber(v))
		}),
	}
}

func same(v ref.Val) ref.Val { return v }

func toText(v ref.Val) ref.Val {
	if n, ok := v.(types.Double); ok {
		return types.String(liquid.NumberText(float64(n)))
	}
	return v.ConvertToType(types.StringType)
}

func size(v ref.Val) ref.Val {
	n, ok := v.(traits.Sizer).Size().(types.Int)
	if !ok {
		return types.NewErr(noOverload)
	}
	return types.Double(n)
}

// readNumber reads a number that is written as a text. One beyond 2^53 might not be
// the one that is written, and be taken for another.
func readNumber(v ref.Val) ref.Val {
	s := string(v.(types.String))
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || math.IsNaN(f) || math.IsInf(f, 0):
		return types.NewErr("type conversion error")
	case !waypost.IsExact(s):
		return types.NewErr(errOverflow)
	}
	return types.Double(f)
}

// exact refuses a number beyond which a float64 does not hold every whole one.
func exact(f float64) ref.Val {
	if math.Abs(f) > maxExact {
		return types.NewErr(errOverflow)
	}
	return types.Double(f)
}

// finite makes an error of a result that JSON has no number for.
func finite(v ref.Val) ref.Val {
	n, ok := v.(types.Double)
	switch {
	case !ok:
		return v
	case math.IsInf(float64(n), 0) || math.IsNaN(float64(n)):
		return types.NewErr(errOverflow)
	}
	return n + 0 // -0 is 0
}

// unifyNumber makes a double of a literal that is a number, and tells whether the
// literal is one that conditions can have.
func unifyNumber(e ast.Expr) (ok bool) {
	var f float64
	switch n := e.AsLiteral().(type) {
	case types.Int:
		ok = n <= maxExact && n >= -maxExact
		f = float64(n)
	case types.Uint:
		ok = n <= maxExact
		f = float64(n)
	case types.Double:
		ok = math.Abs(float64(n)) < maxExact
		f = float64(n)
	default:
		return true
	}
	e.SetKindCase(ast.NewExprFactory().NewLiteral(e.ID(), types.Double(f)))
	return ok
}
