package journey

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"waypost"
)

// Functions that the rewriter writes. No condition can name them.
const (
	fnFold   = "#fold"   // a text, or the texts of a list, as e-mail addresses are compared
	fnFolded = "#folded" // the same; null is an error
	fnListed = "#listed" // a list; null if it has no members
	fnYeared = "#yeared" // a date as a text; an error of one without a year
)

// rewriter gives the calls of a parsed condition what conditions mean beside CEL.
type rewriter struct {
	a     *ast.AST
	id    int64 // the largest that is taken
	found []*common.Error
	zoned map[int64]bool // the calls that got a zone
}

// prepare gives literals the one type of numbers, calls that read times the lead's zone, and
// calls that read the lead's record that one; has(x) is x != null, and comparisons of an e-mail
// address ignore case. It reports the literals that no condition can have, and the calls that it
// gave a zone.
func prepare(a *ast.AST) (found []*common.Error, zoned map[int64]bool) {
	w := &rewriter{a: a, id: ast.MaxID(a), zoned: map[int64]bool{}}
	ast.PostOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.LiteralKind:
			if !unifyNumber(e) {
				w.report(e, "a number must be between -2^53 and 2^53")
			}
		case ast.IdentKind:
			if name := e.AsIdent(); name == overloads.TypeConvertInt || name == overloads.TypeConvertUint {
				w.report(e, "numbers have one type, double")
			}
		case ast.SelectKind:
			if e.AsSelect().IsTestOnly() {
				w.has(e)
			}
		case ast.CallKind:
			w.call(e)
		}
	}))
	return w.found, w.zoned
}

func (w *rewriter) report(e ast.Expr, message string) {
	w.found = append(w.found, faultAt(w.a, e, message))
}

func (w *rewriter) next() int64 {
	w.id++
	return w.id
}

// has makes x.y != null of has(x.y).
func (w *rewriter) has(e ast.Expr) {
	build, of := ast.NewExprFactory(), e.AsSelect()
	member := build.NewSelect(w.next(), of.Operand(), of.FieldName())
	e.SetKindCase(build.NewCall(e.ID(), operators.NotEquals, member, build.NewLiteral(w.next(), types.NullValue)))
	w.compared(e)
}

func (w *rewriter) call(e ast.Expr) {
	if fault := literalFault(e); fault != "" {
		w.report(e, fault)
	}
	if inLeadZone(e, w.id+1) {
		w.id++
		w.zoned[e.ID()] = true
	}
	ofTheYear(e, w.next)
	if isRecordCall(e) {
		if fault := recordFault(e); fault != "" {
			w.report(e, fault)
		}
		withRecord(e, w.next())
	}
	w.compared(e)
}

// compared changes the operands of a comparison: of an e-mail address, which ignores case, of a
// birthday, which may have no year, and of mobile numbers with null.
func (w *rewriter) compared(e ast.Expr) {
	call := e.AsCall()
	args := call.Args()
	switch function := call.FunctionName(); function {
	case operators.Equals, operators.NotEquals:
		switch {
		case slices.ContainsFunc(args, isNullLiteral):
			w.wrapped(e, fnListed, func(arg ast.Expr) bool { return readsLead(arg, "mobilePhone") })
		case slices.ContainsFunc(args, isEmail):
			w.wrapped(e, fnFold, func(ast.Expr) bool { return true })
		}
	case operators.In:
		if isEmail(args[0]) {
			w.wrapped(e, fnFold, func(ast.Expr) bool { return true })
		}
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		w.wrapped(e, fnYeared, func(arg ast.Expr) bool { return readsLead(arg, birthday) })
	case overloads.StartsWith, overloads.EndsWith, overloads.Contains:
		if call.IsMemberFunction() && len(args) == 1 && isEmail(call.Target()) {
			build := ast.NewExprFactory()
			e.SetKindCase(build.NewMemberCall(e.ID(), function, w.wrap(fnFolded, call.Target()), w.wrap(fnFolded, args[0])))
		}
	}
}

// wrapped puts the arguments of a call that which names into calls of a function.
func (w *rewriter) wrapped(e ast.Expr, function string, which func(ast.Expr) bool) {
	call := e.AsCall()
	args := slices.Clone(call.Args())
	if !slices.ContainsFunc(args, which) {
		return
	}
	for i, arg := range args {
		if which(arg) {
			args[i] = w.wrap(function, arg)
		}
	}
	e.SetKindCase(ast.NewExprFactory().NewCall(e.ID(), call.FunctionName(), args...))
}

// wrap puts an expression into a call of a function. Texts that stand there are folded at once.
func (w *rewriter) wrap(function string, arg ast.Expr) ast.Expr {
	build := ast.NewExprFactory()
	if function == fnFold || function == fnFolded {
		switch {
		case arg.Kind() == ast.LiteralKind:
			if s, ok := literalText(arg); ok {
				return build.NewLiteral(arg.ID(), types.String(waypost.FoldText(s)))
			}
			return arg
		case arg.Kind() == ast.ListKind:
			elements := slices.Clone(arg.AsList().Elements())
			for i, e := range elements {
				elements[i] = w.wrap(function, e)
			}
			return build.NewList(arg.ID(), elements, arg.AsList().OptionalIndices())
		}
	}
	return build.NewCall(w.next(), function, arg)
}

// Unwrapped is what a call that conditions do not write, such as that of a comparison that ignores
// case, stands around: the expression itself if it is none.
func Unwrapped(e ast.Expr) (inner ast.Expr, folded bool) {
	if e.Kind() != ast.CallKind {
		return e, false
	}
	switch call := e.AsCall(); call.FunctionName() {
	case fnFold, fnFolded:
		return call.Args()[0], true
	case fnListed, fnYeared, fnYearly:
		return call.Args()[0], false
	}
	return e, false
}

func isNullLiteral(e ast.Expr) bool {
	return e.Kind() == ast.LiteralKind && e.AsLiteral() == types.NullValue
}

func readsLead(e ast.Expr, name string) bool {
	of, member, ok := Access(e)
	return ok && member == name && of.Kind() == ast.IdentKind && of.AsIdent() == varLead
}

func isEmail(e ast.Expr) bool { return readsLead(e, "email") }

// rewrittenFunctions declares the functions that the rewriter writes.
func rewrittenFunctions() []cel.EnvOption {
	some := cel.TypeParamType("A")
	declare := func(name string, do func(ref.Val) ref.Val) cel.EnvOption {
		return cel.Function(name, unary(strings.TrimPrefix(name, "#"), some, some, do))
	}
	return []cel.EnvOption{
		declare(fnFold, fold),
		declare(fnFolded, func(v ref.Val) ref.Val {
			if v == types.NullValue {
				return types.NewErr(missingValue)
			}
			return fold(v)
		}),
		declare(fnListed, func(v ref.Val) ref.Val {
			if list, ok := v.(traits.Lister); ok && list.Size() == types.IntZero {
				return types.NullValue
			}
			return v
		}),
		declare(fnYeared, func(v ref.Val) ref.Val {
			if s, ok := v.(types.String); ok && strings.HasPrefix(string(s), "--") {
				return types.NewErr(noYear)
			}
			return v
		}),
	}
}

func fold(v ref.Val) ref.Val {
	switch v := v.(type) {
	case types.String:
		return types.String(waypost.FoldText(string(v)))
	case traits.Lister:
		var folded []ref.Val
		for i := v.Iterator(); i.HasNext() == types.True; {
			folded = append(folded, fold(i.Next()))
		}
		return types.NewRefValList(types.DefaultTypeAdapter, folded)
	}
	return v
}
