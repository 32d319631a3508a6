package journey

import (
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"waypost"
)

// The functions that ask for what is recorded of a lead (docs/segments.md). What they ask
// for is written in the condition, so that it can be read before the condition is
// evaluated.
const (
	FnEvents    = "events"
	FnEntered   = "entered"
	FnDelivered = "delivered"
	FnInSegment = "inSegment"

	FnCount = "count" // of a list
	FnLast  = "last"  // of a list
)

// varRecord is the name of the variable that holds the lead's record. No condition can
// name it.
const varRecord = "#record"

// maxWindow bounds the span of time that events are asked for.
const maxWindow = 3660 * 24 * time.Hour

// Texts of errors in conditions, for which faultWords has words.
const (
	noRecord = "the lead's record is not known here"
	noEvent  = "no such event"
)

// recordValue is the record of a lead as conditions see it at a time.
type recordValue struct {
	record *waypost.LeadRecord // nil: unknown
	now    time.Time
}

var recordType = cel.OpaqueType("record")

// ConvertToNative implements ref.Val.
func (r *recordValue) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("a record is no %s", t)
}

// ConvertToType implements ref.Val.
func (r *recordValue) ConvertToType(ref.Type) ref.Val { return types.NewErr(noOverload) }

// Equal implements ref.Val.
func (r *recordValue) Equal(other ref.Val) ref.Val { return types.Bool(ref.Val(r) == other) }

// Type implements ref.Val.
func (r *recordValue) Type() ref.Type { return recordType }

// Value implements ref.Val.
func (r *recordValue) Value() any { return r }

// recordFunctions declares the functions; withRecord gives them their last argument.
func recordFunctions() []cel.EnvOption {
	text, list := cel.StringType, cel.ListType(cel.TypeParamType("A"))
	of := func(do func(r *recordValue, args []ref.Val) ref.Val) cel.OverloadOpt {
		return cel.FunctionBinding(func(args ...ref.Val) ref.Val {
			r := args[len(args)-1].(*recordValue)
			if r.record == nil {
				return types.NewErr(noRecord)
			}
			return do(r, args)
		})
	}
	word := func(v ref.Val) string { return string(v.(types.String)) }
	asked := func(set map[string]bool, v ref.Val) ref.Val { return types.Bool(set[word(v)]) }
	return []cel.EnvOption{
		cel.Variable(varRecord, recordType),
		cel.Function(FnEvents,
			cel.Overload("events_all", []*cel.Type{text, recordType}, cel.ListType(fields), of(func(r *recordValue, args []ref.Val) ref.Val {
				return r.events(word(args[0]), 0)
			})),
			cel.Overload("events_window", []*cel.Type{text, cel.DurationType, recordType}, cel.ListType(fields), of(func(r *recordValue, args []ref.Val) ref.Val {
				return r.events(word(args[0]), args[1].(types.Duration).Duration)
			}))),
		cel.Function(FnEntered, cel.Overload("entered_journey", []*cel.Type{text, recordType}, cel.BoolType, of(func(r *recordValue, args []ref.Val) ref.Val {
			return asked(r.record.Entered, args[0])
		}))),
		cel.Function(FnDelivered, cel.Overload("delivered_node", []*cel.Type{text, text, recordType}, cel.BoolType, of(func(r *recordValue, args []ref.Val) ref.Val {
			return types.Bool(r.record.Delivered[waypost.JourneyNode{JourneyID: word(args[0]), NodeID: word(args[1])}])
		}))),
		cel.Function(FnInSegment, cel.Overload("in_segment", []*cel.Type{text, recordType}, cel.BoolType, of(func(r *recordValue, args []ref.Val) ref.Val {
			return asked(r.record.Segments, args[0])
		}))),
		cel.Function(FnCount, cel.MemberOverload("list_count", []*cel.Type{list}, cel.DoubleType, cel.UnaryBinding(size))),
		cel.Function(FnLast, cel.MemberOverload("list_last", []*cel.Type{list}, cel.TypeParamType("A"), cel.UnaryBinding(func(v ref.Val) ref.Val {
			list := v.(traits.Lister)
			n, _ := list.Size().(types.Int)
			if n == 0 {
				return types.NewErr(noEvent)
			}
			return list.Get(n - 1)
		}))),
	}
}

// events lists the properties of the events of a name in a window before now, oldest
// first; with window 0, of all.
func (r *recordValue) events(name string, window time.Duration) ref.Val {
	events := r.record.Events[name]
	if days, known := r.record.EventDays[name]; known && r.record.Ages.Far(window) {
		events = days
	}
	if window > 0 {
		if r.now.IsZero() {
			return errNoTime
		}
		since := r.now.Add(-window)
		events = events[sort.Search(len(events), func(i int) bool { return events[i].At.After(since) }):]
	}
	if len(events) == 0 || events[0].Properties == nil { // only their number is asked for
		return types.NewDynamicList(types.DefaultTypeAdapter, uncounted[:min(len(events), len(uncounted))])
	}
	list := make([]any, len(events))
	for i, e := range events {
		list[i] = native(plainObject(e.Properties))
	}
	return types.NewDynamicList(types.DefaultTypeAdapter, list)
}

// uncounted are as many elements as a list of events can have.
var uncounted [waypost.MaxRecordedEvents]any

func isRecordFunction(name string) bool {
	switch name {
	case FnEvents, FnEntered, FnDelivered, FnInSegment, FnCount, FnLast:
		return true
	}
	return false
}

// isRecordCall tells whether a call asks for the lead's record.
func isRecordCall(e ast.Expr) bool {
	if e.Kind() != ast.CallKind || e.AsCall().IsMemberFunction() {
		return false
	}
	name := e.AsCall().FunctionName()
	return isRecordFunction(name) && name != FnCount && name != FnLast
}

// withRecord adds the record to the arguments of a call.
func withRecord(e ast.Expr, id int64) {
	build, call := ast.NewExprFactory(), e.AsCall()
	e.SetKindCase(build.NewCall(e.ID(), call.FunctionName(), append(slices.Clone(call.Args()), build.NewIdent(id, varRecord))...))
}

// recordFault says what is wrong with a call that asks for the lead's record; "" if
// nothing is.
func recordFault(e ast.Expr) string {
	call := e.AsCall()
	args := call.Args()
	want := map[string]string{
		FnEvents:  `events takes the name of an event and, as a second argument, a window: events("purchase", duration("720h"))`,
		FnEntered: `entered takes the id of a journey: entered("jrn_…")`, FnDelivered: `delivered takes the id of a journey and that of a node: delivered("jrn_…", "hello")`,
		FnInSegment: `inSegment takes the id of a segment: inSegment("seg_…")`,
	}[call.FunctionName()]
	texts := make([]string, len(args))
	for i, arg := range args {
		s, ok := literalText(arg)
		if i == 1 && call.FunctionName() == FnEvents {
			if window, ok := DurationOf(arg); !ok || window <= 0 || window > maxWindow {
				return fmt.Sprintf(`the window of events must be written like duration("720h"), more than 0 and at most %d days`, maxWindow/(24*time.Hour))
			}
			continue
		}
		if !ok {
			return want + "; each must stand there as a text"
		}
		texts[i] = s
	}
	wrong := func(s, prefix string) bool { return !waypost.IsID(prefix, s) }
	quoted := func(i int) string { return strconv.Quote(waypost.Clip(texts[i], 64)) }
	switch call.FunctionName() {
	case FnEvents:
		if len(args) != 1 && len(args) != 2 {
			return want
		}
		if !isName(texts[0], "_-.") {
			return quoted(0) + " is no name of an event: 1 to 64 letters, digits, _, - and ."
		}
	case FnEntered, FnInSegment:
		if len(args) != 1 {
			return want
		}
		if call.FunctionName() == FnEntered && wrong(texts[0], waypost.PrefixJourney) || call.FunctionName() == FnInSegment && wrong(texts[0], waypost.PrefixSegment) {
			return quoted(0) + " is no such id; " + want
		}
	case FnDelivered:
		if len(args) != 2 {
			return want
		}
		if wrong(texts[0], waypost.PrefixJourney) || !isName(texts[1], "_-") {
			return quoted(0) + " and " + quoted(1) + " are no such ids; " + want
		}
	}
	return ""
}

func literalText(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

// DurationOf reads duration("…") of a text that stands there.
func DurationOf(e ast.Expr) (time.Duration, bool) {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != overloads.TypeConvertDuration || len(e.AsCall().Args()) != 1 {
		return 0, false
	}
	s, ok := literalText(e.AsCall().Args()[0])
	if !ok {
		return 0, false
	}
	return readDuration(s)
}

// needsOf lists what a checked condition asks of the lead's record.
func needsOf(a *ast.AST) (needs waypost.RecordNeeds) {
	uses := map[int64]waypost.EventUse{} // by the id of the call of events
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		of := call.Target()
		if !call.IsMemberFunction() && len(call.Args()) == 1 {
			of = call.Args()[0]
		}
		switch name := call.FunctionName(); {
		case name == FnCount || name == overloads.Size:
			uses[of.ID()] = waypost.EventTimes
		case name == FnLast:
			uses[of.ID()] = waypost.EventLast
		case isRecordCall(e):
			needs.Add(need(e, uses))
		}
	}))
	return needs
}

// RecordCall takes a call apart that asks for the lead's record: its function, and what it
// asks for.
func RecordCall(e ast.Expr) (function string, needs waypost.RecordNeeds, ok bool) {
	if !isRecordCall(e) {
		return "", needs, false
	}
	return e.AsCall().FunctionName(), need(e, nil), true
}

func need(e ast.Expr, uses map[int64]waypost.EventUse) (n waypost.RecordNeeds) {
	args := e.AsCall().Args()
	first, _ := literalText(args[0])
	switch e.AsCall().FunctionName() {
	case FnEvents:
		use, known := uses[e.ID()]
		if !known {
			use = waypost.EventAll
		}
		window, _ := DurationOf(args[1])
		n.Events = []waypost.EventNeed{{Name: first, Window: window, Use: use}}
	case FnEntered:
		n.Entered = []string{first}
	case FnDelivered:
		node, _ := literalText(args[1])
		n.Delivered = []waypost.JourneyNode{{JourneyID: first, NodeID: node}}
	case FnInSegment:
		n.Segments = []string{first}
	}
	return n
}

// ConditionNeeds is what one condition, by its path, asks of a lead's record.
type ConditionNeeds struct {
	Path string
	waypost.RecordNeeds
}

// NeedsByCondition is what each condition of the nodes asks of a lead's record.
func (d *Definition) NeedsByCondition() (all []ConditionNeeds) {
	for i, n := range d.body.Nodes {
		for j, c := range d.conditions[i]() {
			path := ".when"
			switch {
			case len(n.Cases) > 0:
				path = "." + element("cases", j) + path
			case len(n.Events) > 0:
				path = "." + element("events", j) + path
			}
			all = append(all, ConditionNeeds{element("nodes", i) + path, c.needs})
		}
	}
	return all
}

// Needs is what the conditions of a node ask of a lead's record.
func (d *Definition) Needs(node string) (needs waypost.RecordNeeds) {
	if i, ok := d.index[node]; ok {
		for _, c := range d.conditions[i]() {
			needs.Add(c.needs)
		}
	}
	return needs
}

// AllNeeds is what all conditions of the definition ask of a lead's record; nothing if it
// has more than can be published, which are not compiled.
func (d *Definition) AllNeeds() (needs waypost.RecordNeeds) {
	n, size := 0, 0
	for _, node := range d.body.Nodes {
		for _, when := range node.conditions() {
			if when != "" { // an event without a condition
				n, size = n+1, size+len(when)
			}
		}
	}
	if n > MaxConditions || size > MaxConditionText {
		return needs
	}
	for _, n := range d.body.Nodes {
		needs.Add(d.Needs(n.ID))
	}
	return needs
}
