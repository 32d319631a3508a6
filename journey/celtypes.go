package journey

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"

	"waypost"
)

// The built-in fields have one type each. Conditions are evaluated without them, so that what has
// been published goes on; they are checked where a condition is written.

// builtIn is the type of a built-in field.
type builtIn struct {
	of      *cel.Type
	always  bool   // it is never null
	words   string // what it is
	example string // of a condition on it; %s is the field, as it is written
}

// anyName stands in a path for a name of people's choice.
const anyName = "*"

// builtIns are the built-in fields by their path.
var builtIns = func() map[string]builtIn {
	number := builtIn{of: cel.DoubleType, words: "a number", example: "%s == 1"}
	text := builtIn{of: cel.StringType, words: "a text", example: `%s == "…"`}
	truth := builtIn{of: cel.BoolType, words: "true or false", example: "%s, or !%[1]s"}
	moment := builtIn{of: cel.TimestampType, words: "a time", example: `%s > timestamp("2026-01-31")`}
	object := builtIn{of: fields, words: "an object", example: `%s.plan == "gold"`, always: true}
	always := func(b builtIn) builtIn {
		b.always = true
		return b
	}
	all := map[string]builtIn{
		"lead.leadsId": always(number), "lead.leadsGroup": number, "lead.region": number, "lead.gender": number, "lead.name": text,
		"lead.mobilePhone": {
			of: cel.ListType(cel.StringType), words: "a list of texts", example: `%s.exists(p, p.contains("138")), or "+8613800138000" in %[1]s`,
		},
		"lead.birthday":     {of: cel.StringType, words: "a text such as 1990-12-31", example: "date(%s) < today, or daysUntil(%[1]s) <= 7"},
		"lead.customFields": object, "lead.test": always(truth), "lead.createdAt": moment, "lead.updatedAt": moment,
		"lead.consents":            {of: cel.MapType(cel.StringType, cel.BoolType), always: true, words: "an object", example: "%s.sms == true"},
		"lead.consents." + anyName: truth,
		"journey.id":               always(text), "journey.name": always(text), "journey.version": always(number),
		"enrollment.id": always(text), "enrollment.entryKey": always(text), "enrollment.params": object,
		"enrollment.event.id": text, "enrollment.event.name": text, "enrollment.event.acceptedAt": moment,
		"touchpoints.*.succeed": truth, "touchpoints.*.httpStatus": number, "touchpoints.*.message": text, "touchpoints.*.attempts": number,
		varNow: always(moment), varToday: always(moment),
	}
	for _, name := range []string{
		"address", "remark", "email", "wechat", "qq", "telephone", "company", "companyPhone", "companyEmail", "companyWebsite", "externalId", "openId",
	} {
		all["lead."+name] = text
	}
	return all
}()

// typedName is the variable that stands for a built-in field while types are checked. No condition can
// name it.
func typedName(path string) string { return "#" + path }

// fieldVariables declares the built-in fields.
func fieldVariables() (options []cel.EnvOption) {
	for _, path := range slices.Sorted(maps.Keys(builtIns)) {
		options = append(options, cel.Variable(typedName(path), builtIns[path].of))
	}
	return options
}

// misfit reports where an expression uses a built-in field as what it is not, and what can never be
// true for that reason. The expression compiles otherwise.
func misfit(declare func() (*cel.Env, error), source string, result resultTypes) error {
	env, err := declare()
	if err != nil {
		return err
	}
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return joined(issues.Errors())
	}
	prepare(parsed.NativeRep())
	t := newTyped(parsed.NativeRep())
	checked, issues := env.Check(parsed)
	for _, e := range issues.Errors() {
		t.explain(e)
		t.found = append(t.found, e)
	}
	if len(t.found) == 0 {
		t.elements(checked.NativeRep())
	}
	if len(t.found) > 0 {
		return joined(t.found)
	}
	err = result.check(checked.OutputType())
	if better := t.explained(t.a.Expr().ID()); err != nil && better != "" {
		return errors.New(better)
	}
	return err
}

// usedField is a built-in field where an expression reads it.
type usedField struct {
	builtIn
	path, written string
}

// typed is an expression whose built-in fields are variables of their types.
type typed struct {
	a     *ast.AST
	used  map[int64]usedField // by the id of the expression
	found []*common.Error
}

// newTyped puts the variables in the place of the fields of a prepared expression. A comparison with
// null is then of no use to the checker, which knows only values that are there.
func newTyped(a *ast.AST) *typed {
	t := &typed{a: a, used: map[int64]usedField{}}
	build := ast.NewExprFactory()
	ast.PostOrderVisit(t.a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if path, written, ok := fieldPath(e); ok {
			if of, known := builtIns[path]; known {
				t.used[e.ID()] = usedField{of, path, written}
			}
			if _, channel, _ := Access(e); path == "lead.consents."+anyName && channel != strings.ToLower(channel) {
				t.report(e, fmt.Sprintf("channels of consents are in lower case: write lead.consents.%s", waypost.Clip(strings.ToLower(channel), 64)))
			}
			return
		}
		if e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		function := call.FunctionName()
		if function != operators.Equals && function != operators.NotEquals || !slices.ContainsFunc(call.Args(), isNullLiteral) {
			t.days(e)
			t.genders(e)
			return
		}
		for _, arg := range call.Args() {
			inner, _ := Unwrapped(arg)
			field, ok := t.used[inner.ID()]
			if !ok {
				continue
			}
			if field.always && function == operators.Equals {
				t.report(e, field.written+" is always set, so this is never true")
			}
			e.SetKindCase(build.NewLiteral(e.ID(), types.True))
		}
	}))
	ast.PreOrderVisit(t.a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if field, ok := t.used[e.ID()]; ok {
			e.SetKindCase(build.NewIdent(e.ID(), typedName(field.path)))
		}
	}))
	return t
}

func (t *typed) report(e ast.Expr, message string) {
	t.found = append(t.found, faultAt(t.a, e, message))
}

// days reports what a birthday is compared with that is no day.
func (t *typed) days(e ast.Expr) {
	call := e.AsCall()
	switch call.FunctionName() {
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
	default:
		return
	}
	for i, arg := range call.Args() {
		inner, _ := Unwrapped(arg)
		s, ok := literalText(call.Args()[len(call.Args())-1-i])
		if !ok || !readsLead(inner, birthday) {
			continue
		}
		_, err := time.Parse(time.DateOnly, s)
		_, yearly := dayOfYear(s)
		equality := call.FunctionName() == operators.Equals || call.FunctionName() == operators.NotEquals
		if err != nil && !(yearly && equality) {
			t.report(e, waypost.Clip(strconv.Quote(s), 64)+" is no birthday: write it like 1990-12-31, or, without a year and behind == only, --12-31")
		}
	}
}

// genders reports a number that no gender is.
func (t *typed) genders(e ast.Expr) {
	call := e.AsCall()
	if name := call.FunctionName(); name != operators.Equals && name != operators.NotEquals && name != operators.In {
		return
	}
	args := call.Args()
	for i, arg := range args {
		inner, _ := Unwrapped(arg)
		if path, _, ok := fieldPath(inner); !ok || path != "lead.gender" {
			continue
		}
		others := []ast.Expr{args[1-i]}
		if args[1-i].Kind() == ast.ListKind {
			others = args[1-i].AsList().Elements()
		}
		for _, other := range others {
			if other.Kind() != ast.LiteralKind {
				continue
			}
			if n, number := other.AsLiteral().Value().(float64); number && n != 0 && n != 1 && n != 2 {
				t.report(e, "lead.gender is 0 (unknown), 1 (male) or 2 (female)")
				return
			}
		}
	}
}

// elements reports what is looked for in a list that has values of other types.
func (t *typed) elements(a *ast.AST) {
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.In || e.AsCall().Args()[1].Kind() != ast.ListKind {
			return
		}
		inner, _ := Unwrapped(e.AsCall().Args()[0])
		field, ok := t.used[inner.ID()]
		if !ok {
			return
		}
		for _, element := range e.AsCall().Args()[1].AsList().Elements() {
			if of := a.GetType(element.ID()); !field.of.IsAssignableType(of) && of.Kind() != types.DynKind {
				t.report(e, t.explained(e.ID()))
				return
			}
		}
	}))
}

// fieldPath is the path of a field, with anyName in the place of names of people's choice, and as
// the condition has it.
func fieldPath(e ast.Expr) (path, written string, ok bool) {
	if e.Kind() == ast.IdentKind {
		name := e.AsIdent()
		return name, name, name == varNow || name == varToday
	}
	of, member, ok := Access(e)
	if !ok {
		return "", "", false
	}
	written = "." + member
	if !isName(member, "_") {
		written = "[" + strconv.Quote(member) + "]"
	}
	parent := ""
	switch operand, name, nested := Access(of); {
	case of.Kind() == ast.IdentKind:
		parent = of.AsIdent()
		written = parent + written
	case nested && operand.Kind() == ast.IdentKind:
		parent = operand.AsIdent() + "." + name
		written = parent + written
		if operand.AsIdent() == varTouchpoints {
			parent = varTouchpoints + "." + anyName
		} else if parent == "lead.consents" {
			member = anyName
		}
	default:
		return "", "", false
	}
	return parent + "." + member, written, true
}

// explain puts what a field is in the place of the checker's words for types that do not fit.
func (t *typed) explain(e *common.Error) {
	if !strings.HasPrefix(e.Message, "found no matching overload") && !strings.Contains(e.Message, "type '") && !strings.HasPrefix(e.Message, "expected type") {
		return
	}
	better := t.explained(e.ExprID)
	switch {
	case better == "":
	case strings.HasPrefix(better, varNow+" is"), strings.HasPrefix(better, varToday+" is"): // they are no fields
		e.Message += "; " + better
	default:
		e.Message = better
	}
}

// explained says what a field is that stands in the call of an id, and what to write instead; "" if
// no field stands there.
func (t *typed) explained(id int64) (text string) {
	ast.PreOrderVisit(t.a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.ID() != id || text != "" {
			return
		}
		if field, ok := t.used[id]; ok { // the whole condition, or what has a member that it cannot have
			text = fmt.Sprintf("%s is %s: write "+field.example, field.written, field.words, field.written)
			return
		}
		switch e.Kind() {
		case ast.CallKind:
			text = t.explainedCall(e.AsCall())
		case ast.SelectKind:
			if field, ok := t.used[e.AsSelect().Operand().ID()]; ok {
				text = fmt.Sprintf("%s is %s, which has no member %q: write "+field.example,
					field.written, field.words, waypost.Clip(e.AsSelect().FieldName(), 64), field.written)
			}
		case ast.ComprehensionKind:
			if field, ok := t.used[e.AsComprehension().IterRange().ID()]; ok {
				text = fmt.Sprintf("%s is %s and no list: write "+field.example, field.written, field.words, field.written)
			}
		}
	}))
	return text
}

func (t *typed) explainedCall(call ast.CallExpr) string {
	operands := call.Args()
	if call.IsMemberFunction() {
		operands = append([]ast.Expr{call.Target()}, operands...)
	}
	for i, operand := range operands {
		inner, _ := Unwrapped(operand)
		field, ok := t.used[inner.ID()]
		if !ok || call.FunctionName() == operators.In && i > 0 && field.of.Kind() == types.ListKind {
			continue
		}
		var other ast.Expr
		if len(operands) == 2 {
			other = operands[1-i]
		}
		return fmt.Sprintf("%s is %s: write %s", field.written, field.words, field.instead(call.FunctionName(), other))
	}
	return ""
}

// instead is the condition that was meant, as far as that can be told, or an example of one.
func (u usedField) instead(function string, other ast.Expr) string {
	sign, compares := map[string]string{
		operators.Equals: "==", operators.NotEquals: "!=", operators.Less: "<", operators.LessEquals: "<=",
		operators.Greater: ">", operators.GreaterEquals: ">=",
	}[function]
	if other != nil && other.Kind() == ast.LiteralKind {
		value := fmt.Sprint(other.AsLiteral().Value())
		switch {
		case compares && u.of.Kind() == types.DoubleKind && isPlainNumber(value):
			return fmt.Sprintf("%s %s %s", u.written, sign, value)
		case compares && u.of.Kind() == types.TimestampKind && literalIsDate(value):
			return fmt.Sprintf("%s %s timestamp(%q)", u.written, sign, value)
		case u.of.Kind() == types.BoolKind && value == "true":
			return u.written
		case u.of.Kind() == types.BoolKind && value == "false":
			return "!" + u.written
		case compares && u.of.Kind() == types.StringKind && !strings.HasPrefix(u.words, "a text such"):
			return fmt.Sprintf("%s %s %q", u.written, sign, waypost.Clip(value, 40))
		case u.of.Kind() == types.StringKind && function != operators.Add && literalMethod(function):
			return fmt.Sprintf("%s.%s(%q)", u.written, function, waypost.Clip(value, 40))
		}
	}
	if function == operators.In && u.of.Kind() == types.DoubleKind {
		return u.written + " in [1, 2]"
	}
	if function == operators.In && u.of.Kind() == types.StringKind {
		return u.written + ` in ["…", "…"]`
	}
	return fmt.Sprintf(u.example, u.written)
}

func isPlainNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil && strings.Trim(s, "-.0123456789") == ""
}

func literalIsDate(s string) bool {
	_, ok := readInstant(s, time.UTC)
	return ok
}

func literalMethod(function string) bool {
	return slices.Contains([]string{overloads.Contains, overloads.StartsWith, overloads.EndsWith}, function)
}
