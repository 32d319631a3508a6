package segment

import (
	"math"
	"slices"
	"time"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"

	"waypost"
	"waypost/journey"
)

// maxCount is how many events of a name conditions see.
const maxCount = waypost.MaxRecordedEvents

type kind int

const (
	text kind = iota + 1
	number
	moment
)

// kinds has the fields that a database compares.
var kinds = map[string]kind{
	"leadsId": number, "leadsGroup": number, "region": number, "gender": number, "createdAt": moment, "updatedAt": moment,
	"address": text, "remark": text, "name": text, "birthday": text, "email": text, "wechat": text, "qq": text, "telephone": text,
	"company": text, "companyPhone": text, "companyEmail": text, "companyWebsite": text, "externalId": text, "openId": text,
}

// maxExact is the largest number that conditions tell apart from all others.
const maxExact = 1 << 53

// questions asks about expressions; segments has those that inSegment names.
type questions struct{ segments map[string]*Segment }

// of is a question that all leads meet for which the condition is want. exact says that no
// others do.
func (q questions) of(e ast.Expr, want bool) (c Cond, exact bool) {
	switch e.Kind() {
	case ast.LiteralKind:
		if b, ok := e.AsLiteral().(types.Bool); ok && bool(b) == want {
			return always, true
		}
		return never, true
	case ast.SelectKind:
		if f, ok := fieldOf(e); ok {
			return f.holds(want), true
		}
		return newest(e), false
	case ast.ComprehensionKind:
		// exists: there is an event at least.
		loop := e.AsComprehension()
		if start := loop.AccuInit(); want && start.Kind() == ast.LiteralKind && start.AsLiteral() == types.False {
			if need, ok := eventsOf(loop.IterRange()); ok {
				return need, false
			}
		}
	case ast.CallKind:
		return q.ofCall(e, want)
	}
	return always, false
}

// ofCall is of for a call. What no database can be asked gives a question that more leads may meet, and
// exact is false.
func (q questions) ofCall(e ast.Expr, want bool) (Cond, bool) {
	call := e.AsCall()
	args := call.Args()
	switch name := call.FunctionName(); name {
	case operators.LogicalNot:
		return q.of(args[0], !want)
	case operators.LogicalAnd, operators.LogicalOr:
		list, exact := make([]Cond, len(args)), true
		for i, arg := range args {
			c, is := q.of(arg, want)
			list[i], exact = c, exact && is
		}
		if want == (name == operators.LogicalAnd) {
			return all(list...), exact
		}
		return either(list...), exact
	case operators.Conditional:
		yes, a := q.of(args[0], true)
		no, b := q.of(args[0], false)
		then, c := q.of(args[1], want)
		otherwise, d := q.of(args[2], want)
		return either(all(yes, then), all(no, otherwise)), a && b && c && d
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		if c, exact, ok := compare(args[0], args[1], ops[name], want); ok {
			return c, exact
		}
		if c, exact, ok := compare(args[1], args[0], flipped(ops[name]), want); ok {
			return c, exact
		}
	case operators.In:
		if f, ok := fieldOf(args[0]); ok && args[1].Kind() == ast.ListKind {
			if c, ok := f.in(args[1].AsList().Elements(), want); ok {
				return c, true
			}
		}
		if name, ok := textOf(args[0]); ok && isCustomFields(args[1]) {
			return field{name: name, custom: true}.null(!want), true
		}
	case operators.Index:
		if f, ok := fieldOf(e); ok {
			return f.holds(want), true
		}
	case overloads.StartsWith, overloads.EndsWith, overloads.Contains:
		if call.IsMemberFunction() && len(args) == 1 {
			f, ok := fieldOf(call.Target())
			value, ok2 := textOf(args[0])
			if ok && ok2 && (f.custom || f.kind == text) {
				return f.matches(textOps[name], value, want), true
			}
		}
	default:
		if c, exact, ok := q.ofRecord(e, want); ok {
			return c, exact
		}
	}
	return newest(e), false
}

var textOps = map[string]Op{overloads.StartsWith: StartsWith, overloads.EndsWith: EndsWith, overloads.Contains: Contains}

var ops = map[string]Op{
	operators.Equals: Equal, operators.NotEquals: Unequal, operators.Less: Less, operators.LessEquals: LessOrEqual,
	operators.Greater: Greater, operators.GreaterEquals: GreaterOrEqual,
}

// flipped is the Op of b and a that says what op says of a and b.
func flipped(op Op) Op {
	switch op {
	case Less:
		return Greater
	case LessOrEqual:
		return GreaterOrEqual
	case Greater:
		return Less
	case GreaterOrEqual:
		return LessOrEqual
	}
	return op
}

// ofRecord asks about a call that is itself true or false.
func (q questions) ofRecord(e ast.Expr, want bool) (c Cond, exact, ok bool) {
	function, needs, ok := journey.RecordCall(e)
	if !ok {
		return nil, false, false
	}
	exact = true
	switch function {
	case journey.FnEntered:
		c = Entered{needs.Entered[0]}
	case journey.FnDelivered:
		c = Delivered(needs.Delivered[0])
	case journey.FnInSegment:
		of := q.segments[needs.Segments[0]]
		if c, exact = of.where, of.exact; !exact && !want {
			return always, false, true // anybody may be outside
		}
	default:
		return nil, false, false
	}
	if !want {
		c = Not{c}
	}
	return c, exact, true
}

// newest asks for the events without which an expression is an error: those that it reads
// the last one of.
func newest(e ast.Expr) Cond {
	var list []Cond
	var visit func(e ast.Expr)
	visit = func(e ast.Expr) {
		switch e.Kind() {
		case ast.SelectKind:
			visit(e.AsSelect().Operand())
		case ast.CallKind:
			call := e.AsCall()
			switch call.FunctionName() {
			case operators.LogicalAnd, operators.LogicalOr, operators.Conditional:
				return // these take errors
			}
			if call.IsMemberFunction() {
				if need, ok := eventsOf(call.Target()); ok && call.FunctionName() == journey.FnLast {
					list = append(list, need)
				}
				visit(call.Target())
			}
			for _, arg := range call.Args() {
				visit(arg)
			}
		}
	}
	visit(e)
	return all(list...)
}

// eventsOf asks for an event of those that an expression lists.
func eventsOf(e ast.Expr) (AtLeast, bool) {
	function, needs, ok := journey.RecordCall(e)
	if !ok || function != journey.FnEvents {
		return AtLeast{}, false
	}
	return AtLeast{needs.Events[0].Name, needs.Events[0].Window, 1}, true
}

// compare asks whether an expression compares so with a constant; ok is false if no
// database can compare them.
func compare(e, constant ast.Expr, op Op, want bool) (c Cond, exact, ok bool) {
	if need, exact, ok := counted(e); ok {
		n, isNumber := numberOf(constant)
		if !isNumber || math.Abs(n) > maxExact {
			return nil, false, false
		}
		if !exact { // so many of some are so many of all
			if !want || op != Greater && op != GreaterOrEqual && op != Equal {
				return nil, false, false
			}
			if op == Equal {
				op = GreaterOrEqual
			}
		}
		return need.count(op, n, want), exact, true
	}
	f, ok := fieldOf(e)
	if constant.Kind() == ast.LiteralKind && constant.AsLiteral() == types.NullValue {
		if isPhones(e) {
			f, ok = field{name: mobilePhone}, true
		}
		if op != Equal && op != Unequal {
			return never, true, ok // an error
		}
		return f.null(want == (op == Equal)), true, ok
	}
	if !ok {
		return nil, false, false
	}
	value, known := constantOf(constant)
	if !known {
		return nil, false, false
	}
	c, ok = f.compare(op, value, want)
	return c, true, ok
}

// counted asks for events whose number an expression is. Without exact, the number may be
// lower.
func counted(e ast.Expr) (need AtLeast, exact, ok bool) {
	if e.Kind() != ast.CallKind {
		return need, false, false
	}
	call := e.AsCall()
	if name := call.FunctionName(); name != journey.FnCount && name != overloads.Size {
		return need, false, false
	}
	var of ast.Expr
	switch {
	case call.IsMemberFunction() && len(call.Args()) == 0:
		of = call.Target()
	case !call.IsMemberFunction() && len(call.Args()) == 1:
		of = call.Args()[0]
	default:
		return need, false, false
	}
	if need, ok = eventsOf(of); ok {
		return need, true, true
	}
	// A filter or a map of events begins with an empty list.
	if of.Kind() == ast.ComprehensionKind && of.AsComprehension().AccuInit().Kind() == ast.ListKind {
		need, ok = eventsOf(of.AsComprehension().IterRange())
	}
	return need, false, ok
}

// count asks whether there are so many events.
func (a AtLeast) count(op Op, n float64, want bool) Cond {
	if !want {
		op = opposite[op]
	}
	least := func(n float64) Cond {
		switch {
		case n <= 0:
			return always
		case n > maxCount:
			return never
		}
		a.N = int(n)
		return a
	}
	fewer := func(n float64) Cond {
		switch {
		case n <= 0:
			return never
		case n > maxCount:
			return always
		}
		return Not{least(n)}
	}
	whole := n == math.Trunc(n)
	switch op {
	case Greater:
		return least(math.Floor(n) + 1)
	case GreaterOrEqual:
		return least(math.Ceil(n))
	case Less:
		return fewer(math.Ceil(n))
	case LessOrEqual:
		return fewer(math.Floor(n) + 1)
	case Equal:
		if !whole {
			return never
		}
		return all(least(n), fewer(n+1))
	}
	if !whole {
		return always
	}
	return either(fewer(n), least(n+1))
}

// field is a field of the lead that an expression reads.
type field struct {
	name   string
	custom bool
	kind   kind // of one that is not custom
}

func fieldOf(e ast.Expr) (f field, ok bool) {
	e, folded := journey.Unwrapped(e)
	operand, member, ok := journey.Access(e)
	if !ok {
		return f, false
	}
	if isLead(operand) {
		f = field{name: member, kind: kinds[member]}
		if folded {
			f.name = EmailFolded
		}
		return f, f.kind != 0
	}
	if !isCustomFields(operand) || !storable(member) {
		return f, false
	}
	return field{name: member, custom: true}, true
}

const mobilePhone = "mobilePhone"

func isPhones(e ast.Expr) bool {
	e, _ = journey.Unwrapped(e)
	operand, member, ok := journey.Access(e)
	return ok && isLead(operand) && member == mobilePhone
}

func isCustomFields(e ast.Expr) bool {
	of, object, ok := journey.Access(e)
	return ok && isLead(of) && object == "customFields"
}

func isLead(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "lead" }

// storable tells whether a database can hold a text.
func storable(s string) bool { return !slices.Contains([]byte(s), 0) }

// question asks about the field; value is nil for Set and Unset.
func (f field) question(op Op, value any) Cond {
	if f.custom {
		return Custom{f.name, op, value}
	}
	switch {
	case f.name == "birthday" && (op == Less || op == LessOrEqual || op == Greater || op == GreaterOrEqual):
		// A day without a year is before and after none.
		return all(Field{f.name, op, value}, Field{f.name, NotStartsWith, "--"})
	case f.kind != number || op == Equal || op == Unset:
		return Field{f.name, op, value}
	}
	// A number that is not exact is an error.
	return all(Field{f.name, op, value}, Field{f.name, LessOrEqual, float64(maxExact)}, Field{f.name, GreaterOrEqual, -float64(maxExact)})
}

// holds asks whether the field itself is true, or false.
func (f field) holds(want bool) Cond {
	if !f.custom {
		return never // none is
	}
	return f.question(Equal, want)
}

// null asks whether the field is not set, or is.
func (f field) null(want bool) Cond {
	op := Set
	if want {
		op = Unset
	}
	if f.custom {
		return Custom{f.name, op, nil}
	}
	return Field{f.name, op, nil}
}

// compare asks whether the field compares so with a value; ok is false if no database can
// compare them.
func (f field) compare(op Op, value any, want bool) (c Cond, ok bool) {
	if !want {
		op = opposite[op]
	}
	if f.custom {
		switch value.(type) {
		case string, float64:
		case bool:
			if op != Equal && op != Unequal {
				return nil, false
			}
		default:
			return nil, false
		}
		return f.question(op, value), true
	}
	same := false
	switch value.(type) {
	case string:
		same = f.kind == text
	case float64:
		same = f.kind == number
	case Moment:
		same = f.kind == moment
	}
	n, isNumber := value.(float64)
	if isNumber && math.Abs(n) > maxExact {
		return nil, false
	}
	whole := n == math.Trunc(n)
	switch {
	case same && whole:
		return f.question(op, value), true
	case op == Unequal:
		return f.question(Set, nil), true
	case op == Equal || !same: // of two types, none is less than the other
		return never, true
	case op == Less || op == LessOrEqual:
		return f.question(LessOrEqual, math.Floor(n)), true
	}
	return f.question(GreaterOrEqual, math.Ceil(n)), true
}

// in asks whether the field is one of a list of constants. One that is not set is none of
// them.
func (f field) in(elements []ast.Expr, want bool) (c Cond, ok bool) {
	op := Equal
	if !want {
		op = Unequal
	}
	list := []Cond{}
	for _, e := range elements {
		value, known := constantOf(e)
		if !known {
			return nil, false
		}
		c, ok := f.compare(op, value, true)
		if !ok {
			return nil, false
		}
		list = append(list, c)
	}
	switch {
	case want:
		return either(list...), true
	case f.custom: // one that is not there is an error
		return all(append(list, f.question(Set, nil))...), true
	case len(list) == 0:
		list = append(list, f.question(Set, nil)) // and is exact
	}
	return either(f.question(Unset, nil), all(list...)), true
}

// matches asks whether the field is a text that matches so.
func (f field) matches(op Op, value string, want bool) Cond {
	if value != "" {
		if !want {
			op = opposite[op]
		}
		return f.question(op, value)
	}
	switch {
	case !want:
		return never
	case f.custom:
		return Custom{f.name, GreaterOrEqual, ""}
	}
	return f.question(Set, nil)
}

// constantOf is the value of an expression that has the same for all leads: a text, a
// number, a boolean or a Moment.
func constantOf(e ast.Expr) (value any, ok bool) {
	if s, ok := textOf(e); ok {
		return s, true
	}
	if n, ok := numberOf(e); ok {
		return n, true
	}
	if e.Kind() == ast.LiteralKind {
		b, ok := e.AsLiteral().(types.Bool)
		return bool(b), ok
	}
	return momentOf(e)
}

func textOf(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok && storable(string(s))
}

func numberOf(e ast.Expr) (float64, bool) {
	if e.Kind() != ast.LiteralKind {
		return 0, false
	}
	n, ok := e.AsLiteral().(types.Double)
	return float64(n), ok
}

// momentOf reads now, timestamp("…") with a time that has a zone, and these with durations
// added or taken off.
func momentOf(e ast.Expr) (m Moment, ok bool) {
	if e.Kind() == ast.IdentKind {
		return Moment{FromNow: true}, e.AsIdent() == "now"
	}
	if e.Kind() != ast.CallKind {
		return m, false
	}
	args := e.AsCall().Args()
	switch name := e.AsCall().FunctionName(); name {
	case overloads.TypeConvertTimestamp: // its second argument is the zone
		s, _ := textOf(args[0])
		at, err := time.Parse(time.RFC3339Nano, s)
		return Moment{At: at}, err == nil
	case operators.Add, operators.Subtract:
		from, span := args[0], args[1]
		d, ok := journey.DurationOf(span)
		if !ok && name == operators.Add {
			from, span = span, from
			d, ok = journey.DurationOf(span)
		}
		if !ok {
			return m, false
		}
		if name == operators.Subtract {
			d = -d
		}
		m, ok = momentOf(from)
		// Far from an overflow, which is an error, and from what a sum of durations can hold.
		if m.Offset += d; m.Offset.Abs() > maxOffset || d.Abs() > maxOffset || !m.FromNow && (m.At.Year() < 200 || m.At.Year() > 9800) {
			return m, false
		}
		return m, ok
	}
	return m, false
}

const maxOffset = 100 * 366 * 24 * time.Hour
