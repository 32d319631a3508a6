package journey

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// extensions are CEL's own libraries of functions of texts and numbers, with the one type of numbers
// that conditions have.
var extensions = sync.OnceValues(func() (options []cel.EnvOption, err error) {
	env, err := cel.NewCustomEnv(ext.Strings(), ext.Math())
	if err != nil {
		return nil, err
	}
	for _, f := range env.Functions() {
		bindings, err := f.Bindings()
		if err != nil {
			return nil, err
		}
		options = append(options, cel.Function(f.Name(), inNumbers(f, bindings)...))
	}
	return append(options, cel.Macros(env.Macros()...)), nil
})

// inNumbers are the overloads of a function with double in the place of int and uint, each signature
// once: that of doubles if there is one.
func inNumbers(f *decls.FunctionDecl, bindings []*functions.Overload) (out []cel.FunctionOpt) {
	overloads := slices.Clone(f.OverloadDecls())
	whole := func(o *decls.OverloadDecl) int {
		return strings.Count(o.ID(), "int") // uint too
	}
	slices.SortStableFunc(overloads, func(a, b *decls.OverloadDecl) int { return whole(a) - whole(b) })
	var taken []string
	for _, o := range overloads {
		at := slices.IndexFunc(bindings, func(b *functions.Overload) bool { return b.Operator == o.ID() })
		arguments, signature := make([]*cel.Type, len(o.ArgTypes())), ""
		for i, t := range o.ArgTypes() {
			arguments[i] = numberType(t)
			signature += arguments[i].String() + ","
		}
		if at < 0 || slices.Contains(taken, signature) {
			continue
		}
		taken = append(taken, signature)
		declare := cel.Overload
		if o.IsMemberFunction() {
			declare = cel.MemberOverload
		}
		out = append(out, declare(o.ID(), arguments, numberType(o.ResultType()), cel.FunctionBinding(extension(f.Name(), o, bindings[at]))))
	}
	return out
}

// numberType is a type with double in the place of int and uint.
func numberType(t *cel.Type) *cel.Type {
	switch {
	case t.Kind() == types.IntKind || t.Kind() == types.UintKind:
		return cel.DoubleType
	case t.Kind() == types.ListKind:
		return cel.ListType(numberType(t.Parameters()[0]))
	}
	return t
}

// maxText bounds the texts that functions make, in bytes. CEL looks at the cost of a call only after it.
const maxText = 1 << 20

var errTooLong = types.NewErr("operation cancelled: the text would be too long")

// extension calls a function of CEL's libraries with numbers of its own types.
func extension(name string, o *decls.OverloadDecl, binding *functions.Overload) func(...ref.Val) ref.Val {
	return func(args ...ref.Val) ref.Val {
		if madeBy(name, args) > maxText {
			return errTooLong
		}
		args = slices.Clone(args)
		for i, t := range o.ArgTypes() {
			n, isNumber := args[i].(types.Double)
			if !isNumber || t.Kind() != types.IntKind && t.Kind() != types.UintKind {
				continue
			}
			if float64(n) != math.Trunc(float64(n)) || math.Abs(float64(n)) > maxExact {
				return types.NewErr("invalid argument: no whole number")
			}
			args[i] = types.Int(n)
		}
		if name == "format" {
			args[1] = formatted(args[1])
		}
		var v ref.Val
		switch search := searches[name]; {
		case search != nil && args[1] != types.String(""):
			v = search(args)
		case binding.Unary != nil:
			v = binding.Unary(args[0])
		case binding.Binary != nil:
			v = binding.Binary(args[0], args[1])
		default:
			v = binding.Function(args...)
		}
		switch n := v.(type) {
		case types.Int:
			return exact(float64(n))
		case types.Uint:
			return exact(float64(n))
		}
		return finite(v)
	}
}

// searches are the functions that look for a text in another one. CEL's own compare it at each place anew: they
// take seconds for a text of repetitions, and the cost of a call is looked at after it.
var searches = map[string]func(args []ref.Val) ref.Val{"indexOf": indexOf, "lastIndexOf": lastIndexOf}

// indexOf is where a text that is not empty begins for the first time, in characters, from a place on; -1 if
// it does not.
func indexOf(args []ref.Val) ref.Val {
	text, sought := string(args[0].(types.String)), string(args[1].(types.String))
	from := 0
	if len(args) > 2 {
		place := int(args[2].(types.Int))
		if place < 0 {
			return outOfRange(place)
		}
		if from = byteOf(text, place); from < 0 {
			return types.Int(-1)
		}
	}
	at := strings.Index(text[from:], sought)
	if at < 0 {
		return types.Int(-1)
	}
	return types.Int(utf8.RuneCountInString(text[:from+at]))
}

// lastIndexOf is where a text that is not empty begins for the last time, in characters, up to a place; -1 if
// it does not.
func lastIndexOf(args []ref.Val) ref.Val {
	text, sought := string(args[0].(types.String)), string(args[1].(types.String))
	if len(args) > 2 {
		place := int(args[2].(types.Int))
		if place < 0 {
			return outOfRange(place)
		}
		from := byteOf(text, place)
		if from < 0 {
			return types.Int(-1)
		}
		text = text[:min(from+len(sought), len(text))]
	}
	at := strings.LastIndex(text, sought)
	if at < 0 {
		return types.Int(-1)
	}
	return types.Int(utf8.RuneCountInString(text[:at]))
}

func outOfRange(place int) ref.Val { return types.NewErr("index out of range: %d", place) }

// byteOf is where the character of a place begins, in bytes; -1 if the text is shorter.
func byteOf(text string, place int) int {
	for at := range text {
		if place == 0 {
			return at
		}
		place--
	}
	return -1
}

// madeBy is about how long a text a function makes that can make a long one of short ones.
func madeBy(name string, args []ref.Val) int {
	text := func(i int) string {
		if i >= len(args) {
			return ""
		}
		s, _ := args[i].(types.String)
		return string(s)
	}
	switch name {
	case "replace":
		return len(text(0)) + strings.Count(text(0), text(1))*len(text(2))
	case "join":
		if list, ok := args[0].(traits.Lister); ok {
			n, _ := list.Size().(types.Int)
			return 10*int(valueCost(list, maxText)) + int(n)*len(text(1))
		}
	case "format":
		return len(text(0)) + 10*int(valueCost(args[1], maxText))
	}
	return 0
}

// formatted has whole numbers and days as format takes them.
func formatted(v ref.Val) ref.Val {
	list, ok := v.(traits.Lister)
	if !ok {
		return v
	}
	var out []ref.Val
	for i := list.Iterator(); i.HasNext() == types.True; {
		e := instant(i.Next())
		if n, ok := e.(types.Double); ok && float64(n) == math.Trunc(float64(n)) && math.Abs(float64(n)) <= maxExact {
			e = types.Int(n)
		}
		out = append(out, e)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, out)
}

// Functions beside those of CEL.
const (
	fnSum   = "sum"
	fnLower = "lower"
	fnUpper = "upper"
)

// ourFunctions declares the sum of a list, its member at a place that may not be there, and texts in lower and upper case by Unicode.
func ourFunctions() []cel.EnvOption {
	text, numbers := cel.StringType, []*cel.Type{cel.ListType(cel.DoubleType)}
	spelled := func(name string, by func() cases.Caser) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload("text_"+name, []*cel.Type{text}, text, cel.UnaryBinding(func(v ref.Val) ref.Val {
			return types.String(by().String(string(v.(types.String))))
		})))
	}
	list := cel.ListType(cel.TypeParamType("V"))
	optional := cel.OptionalType(cel.TypeParamType("V"))
	return []cel.EnvOption{
		cel.Function(operators.OptIndex,
			cel.Overload("list_optindex_number", []*cel.Type{list, cel.DoubleType}, optional),
			cel.Overload("optional_list_optindex_number", []*cel.Type{cel.OptionalType(list), cel.DoubleType}, optional)),
		cel.Function(fnSum, cel.Overload("sum_of_list", numbers, cel.DoubleType, cel.UnaryBinding(sumOf)),
			cel.MemberOverload("list_sum", numbers, cel.DoubleType, cel.UnaryBinding(sumOf))),
		spelled(fnLower, func() cases.Caser { return cases.Lower(language.Und) }),
		spelled(fnUpper, func() cases.Caser { return cases.Upper(language.Und) }),
	}
}

// sumOf adds up a list, as decimals.
func sumOf(v ref.Val) ref.Val {
	total := new(big.Rat)
	for i := v.(traits.Lister).Iterator(); i.HasNext() == types.True; {
		switch n := i.Next().(type) {
		case types.Double:
			total.Add(total, decimalOf(float64(n)))
		case types.Null:
			return types.NewErr(missingValue)
		default:
			return types.NewErr(noOverload)
		}
	}
	f, _ := total.Float64()
	return finite(types.Double(f))
}

// decimalOf is a number as people write it: 4.35, not the fraction of two that is nearest to it.
func decimalOf(f float64) *big.Rat {
	if f == math.Trunc(f) && math.Abs(f) <= maxExact {
		return new(big.Rat).SetInt64(int64(f))
	}
	rat, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	if !ok {
		return new(big.Rat) // infinite, which no condition has
	}
	return rat
}

// calculated is what an operator makes of two numbers. Decimals are calculated as they are written, so
// that 4.35 * 100 is 435 and 0.1 + 0.2 is 0.3, as templates calculate.
func calculated(operator string, l, r float64) ref.Val {
	if r == 0 && (operator == operators.Divide || operator == operators.Modulo) {
		return types.NewErr("division by zero")
	}
	if l == math.Trunc(l) && r == math.Trunc(r) { // what float64 makes of whole numbers is as near
		switch operator {
		case operators.Add:
			return finite(types.Double(l + r))
		case operators.Subtract:
			return finite(types.Double(l - r))
		case operators.Multiply:
			return finite(types.Double(l * r))
		case operators.Divide:
			return finite(types.Double(l / r))
		}
		return finite(types.Double(math.Mod(l, r)))
	}
	x, y, z := decimalOf(l), decimalOf(r), new(big.Rat)
	switch operator {
	case operators.Add:
		z.Add(x, y)
	case operators.Subtract:
		z.Sub(x, y)
	case operators.Multiply:
		z.Mul(x, y)
	case operators.Divide:
		z.Quo(x, y)
	default: // x - y * the quotient without its fraction
		z.Quo(x, y)
		z.SetInt(new(big.Int).Quo(z.Num(), z.Denom()))
		z.Sub(x, z.Mul(z, y))
	}
	f, _ := z.Float64()
	return finite(types.Double(f))
}
