package journey

import (
	"strconv"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"github.com/google/cel-go/parser"

	"waypost"
)

// Bounds of what the timeline tells of conditions, in bytes.
const (
	maxPartText = 100
	maxWhy      = 300
)

// part is one of the conditions that && and || join to a larger one: the timeline
// tells what came of it.
type part struct {
	text string // as the definition has it, but for blanks and quotes
	// numbers are the numbers of touchpoints that the part reads. The timeline tells their
	// values; any other value may be personal data.
	numbers []touchpointNumber
	literal bool // it is true or false as it stands
}

type touchpointNumber struct{ node, member string }

// partsOf takes a condition apart, in the order of its text. ids has the index of each
// part by its plannedID.
func partsOf(a *ast.AST) (parts []part, ids map[int64]int) {
	ids = map[int64]int{}
	spellNumbers(a)
	var visit func(e ast.Expr)
	visit = func(e ast.Expr) {
		if isLogic(e) {
			for _, operand := range e.AsCall().Args() {
				visit(operand)
			}
			return
		}
		ids[plannedID(e)] = len(parts)
		text, err := parser.Unparse(e, a.SourceInfo())
		if err != nil {
			text = "…"
		}
		text = waypost.Clip(strings.ReplaceAll(text, "\n", " "), maxPartText)
		p := part{text: text, literal: e.Kind() == ast.LiteralKind}
		ast.PostOrderVisit(e, ast.NewExprVisitor(func(inner ast.Expr) {
			if n, ok := touchpointNumberOf(inner); ok {
				p.numbers = append(p.numbers, n)
			}
		}))
		parts = append(parts, p)
	}
	visit(a.Expr())
	return parts, ids
}

// spellNumbers has Unparse write numbers without an exponent: of 1e-7 it would make 1e-07.0, which
// CEL does not read. A name that reads as the number takes its place, so the expression can only be
// written afterwards.
func spellNumbers(a *ast.AST) {
	spell := ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.LiteralKind {
			return
		}
		if n, ok := e.AsLiteral().(types.Double); ok && strings.Contains(strconv.FormatFloat(float64(n), 'g', -1, 64), "e") {
			e.SetKindCase(ast.NewExprFactory().NewIdent(e.ID(), strconv.FormatFloat(float64(n), 'f', -1, 64)))
		}
	})
	ast.PostOrderVisit(a.Expr(), spell)
	for _, call := range a.SourceInfo().MacroCalls() {
		ast.PostOrderVisit(call, spell)
	}
}

// isLogic tells whether an expression joins others: it is &&, ||, or a ! before one of
// them.
func isLogic(e ast.Expr) bool {
	if e.Kind() != ast.CallKind {
		return false
	}
	switch call := e.AsCall(); call.FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr:
		return true
	case operators.LogicalNot:
		return isLogic(call.Args()[0])
	}
	return false
}

// plannedID is the id under which the planner knows an expression: it makes one step of
// a value and the members that are selected from it.
func plannedID(e ast.Expr) int64 {
	for {
		switch {
		case e.Kind() == ast.SelectKind && !e.AsSelect().IsTestOnly():
			e = e.AsSelect().Operand()
		case e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.Index:
			e = e.AsCall().Args()[0]
		default:
			return e.ID()
		}
	}
}

// touchpointNumberOf tells whether an expression is httpStatus or attempts of a touchpoint.
func touchpointNumberOf(e ast.Expr) (n touchpointNumber, ok bool) {
	of, member, ok := Access(e)
	if !ok || member != "httpStatus" && member != "attempts" {
		return n, false
	}
	touchpoints, node, ok := Access(of)
	if !ok || touchpoints.Kind() != ast.IdentKind || touchpoints.AsIdent() != varTouchpoints {
		return n, false
	}
	return touchpointNumber{node, member}, true
}

// varParts is the name of the variable that parts write their results to. No condition
// can name it.
const varParts = "#parts"

// watchParts lets the parts of a condition write their results to varParts, a
// []ref.Val. It is the last decorator before the one that counts the cost, which goes
// by the kind of what it is given. CEL's own way to note results, OptTrackState, takes
// the place of the one that counts the cost.
func watchParts(ids map[int64]int) interpreter.InterpretableDecorator {
	return func(i interpreter.Interpretable) (interpreter.Interpretable, error) {
		n, ok := ids[i.ID()]
		if !ok {
			return i, nil
		}
		switch i := i.(type) {
		case interpreter.InterpretableConst, interpreter.InterpretableConstructor:
			return i, nil
		case interpreter.InterpretableAttribute:
			return &watchedAttribute{i, n}, nil
		case interpreter.InterpretableCall:
			return &changedCall{i, func(vars interpreter.Activation) ref.Val { return noted(vars, n, i.Eval(vars)) }}, nil
		}
		return &watched{i, n}, nil
	}
}

type watched struct {
	interpreter.Interpretable
	n int
}

type watchedAttribute struct {
	interpreter.InterpretableAttribute
	n int
}

// Eval evaluates the part and notes its result.
func (w *watched) Eval(vars interpreter.Activation) ref.Val {
	return noted(vars, w.n, w.Interpretable.Eval(vars))
}

// Eval evaluates the part and notes its result.
func (w *watchedAttribute) Eval(vars interpreter.Activation) ref.Val {
	return noted(vars, w.n, w.InterpretableAttribute.Eval(vars))
}

func noted(vars interpreter.Activation, n int, result ref.Val) ref.Val {
	if found, ok := vars.ResolveName(varParts); ok {
		if results, ok := found.([]ref.Val); ok && n < len(results) {
			results[n] = result
		}
	}
	return result
}

// reason says what came of the parts of a condition that were looked at, such as
// "lead.gender == 1 → true, touchpoints.hello.httpStatus >= 500 → false (200)". It holds
// no values but those of touchpoints.
func (c condition) reason(v verdict, f *Facts) string {
	if len(c.parts) == 1 && c.parts[0].literal {
		return c.parts[0].text
	}
	var results []string
	fault := v.fault
	for i, p := range c.parts {
		if v.parts[i] == nil {
			continue // the parts before it have decided, or it is a literal
		}
		word := partResult(v.parts[i])
		results = append(results, p.text+" → "+word+p.numberValues(f))
		if strings.HasPrefix(word, errorPrefix) && fault != costLimit && fault != tookTooLong {
			fault = "" // the part tells it
		}
	}
	if fault != "" {
		results = append(results, errorPrefix+fault)
	}
	return strings.Join(results, ", ")
}

const errorPrefix = "error: "

// partResult is a word for what came of a part. A value that is neither true nor
// false may be the lead's.
func partResult(v ref.Val) string {
	switch v {
	case types.True:
		return "true"
	case types.False:
		return "false"
	case types.NullValue:
		return errorPrefix + missingValue
	}
	if err, ok := v.(*types.Err); ok {
		return errorPrefix + faultWord(err)
	}
	return errorPrefix + notBoolean
}

// numberValues writes the values of the numbers that a part has read, such as
// " (503)".
func (p part) numberValues(f *Facts) string {
	var values []string
	for _, n := range p.numbers {
		t, ok := f.Touchpoints[n.node]
		switch {
		case !ok:
		case n.member == "httpStatus":
			values = append(values, strconv.Itoa(t.HTTPStatus))
		default:
			values = append(values, strconv.Itoa(t.Attempts))
		}
	}
	if len(values) == 0 {
		return ""
	}
	return " (" + strings.Join(values, ", ") + ")"
}
