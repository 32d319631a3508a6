package journey

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"

	"waypost"
)

// Bounds of a segment's condition. It is evaluated for each of many leads, so what would
// take long is refused when it is written.
const (
	maxSegmentSteps = 100_000   // for one lead, as stepsOf estimates them
	maxSegmentCost  = 1_000_000 // what SQL answers never costs as much, or the two would not agree
)

// SegmentPart is one of the conditions that && joins to a segment's. A lead is in the
// segment if all parts are true; a part that errors is not.
type SegmentPart struct {
	Text   string
	Needs  waypost.RecordNeeds
	Fields []string // of the lead: those that it reads
	Timed  bool     // time alone can change what it says
	Clock  waypost.Clock
	c      condition
}

// CompileSegment compiles the condition of a segment. Its errors name positions and repeat
// the source.
func CompileSegment(source string) ([]SegmentPart, error) {
	var d Definition
	whole, err := d.compile(segmentEnv, source, maxSegmentCost, trueOrFalse)
	if err != nil {
		return nil, err
	}
	if steps := stepsOf(whole.expr); steps > maxSegmentSteps {
		return nil, fmt.Errorf("may take %.0f steps for a lead, and at most %d are allowed: a loop in a loop over events is too much", steps, maxSegmentSteps)
	}
	env, err := segmentEnv()
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return nil, joined(issues.Errors())
	}
	spellNumbers(parsed.NativeRep())
	var parts []SegmentPart
	var cut func(e ast.Expr) error
	cut = func(e ast.Expr) error {
		if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd {
			for _, operand := range e.AsCall().Args() {
				if err := cut(operand); err != nil {
					return err
				}
			}
			return nil
		}
		text, err := parser.Unparse(e, parsed.NativeRep().SourceInfo())
		if err != nil {
			return err
		}
		c, err := d.compile(segmentEnv, text, maxSegmentCost, trueOrFalse)
		if err != nil {
			return fmt.Errorf("%s: %w", waypost.Clip(text, maxPartText), err)
		}
		parts = append(parts, SegmentPart{text, c.needs, fieldsOf(c.expr), isTimed(c.expr), clockOf(c.expr), c})
		return nil
	}
	if err := cut(parsed.NativeRep().Expr()); err != nil {
		return nil, err
	}
	return parts, nil
}

// CheckSegment reports what is wrong with the condition of a segment that is written: that it does
// not compile, or uses a field as what it is not. A stored one that does the latter goes on.
func CheckSegment(source string) error {
	if _, err := CompileSegment(source); err != nil {
		return err
	}
	return misfit(segmentEnv, source, trueOrFalse)
}

// fieldsOf lists the fields of the lead that an expression reads.
func fieldsOf(e ast.Expr) (fields []string) {
	add := func(names ...string) {
		for _, name := range names {
			if !slices.Contains(fields, name) {
				fields = append(fields, name)
			}
		}
	}
	all := slices.Sorted(maps.Keys(leadObject(&waypost.Lead{})))
	read := map[int64]bool{} // the lead itself, where a member of it is read
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if operand, member, ok := Access(e); ok && operand.Kind() == ast.IdentKind && operand.AsIdent() == varLead {
			read[operand.ID()] = true
			add(member)
		}
		if e.Kind() != ast.IdentKind {
			return
		}
		switch name := e.AsIdent(); {
		case name == varZone || name == varToday:
			add("customFields") // timezone
		case name == varLead && !read[e.ID()]:
			add(all...)
		}
	}))
	return fields
}

// isTimed tells whether an expression asks what time it is, or for events of the last hours.
func isTimed(e ast.Expr) (timed bool) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind {
			timed = timed || e.AsIdent() == varNow || e.AsIdent() == varToday
		}
		if _, needs, ok := RecordCall(e); ok {
			timed = timed || len(needs.Events) > 0 && needs.Events[0].Window > 0
		}
	}))
	return timed
}

// Expr is the part as it was checked: numbers are doubles, calls that read times have the
// zone as last argument, and calls that read the record have that one.
func (p SegmentPart) Expr() ast.Expr { return p.c.expr }

// SegmentFacts are what the parts of a segment are evaluated on.
type SegmentFacts struct{ vars map[string]any }

// NewSegmentFacts takes a lead and its record at a time.
func NewSegmentFacts(lead *waypost.Lead, record *waypost.LeadRecord, now time.Time) SegmentFacts {
	vars := map[string]any{varLead: native(leadObject(lead)), varRecord: &recordValue{record, now}, varNow: now.UTC()}
	zone := func() *time.Location {
		if loc, ok := leadZone(lead); ok {
			return loc
		}
		return time.UTC
	}
	vars[varZone] = func() any { return zone().String() }
	vars[varToday] = func() any { return dayAt(now, zone()) }
	return SegmentFacts{vars}
}

// Holds tells whether the part is true. What errors is not.
func (p SegmentPart) Holds(ctx context.Context, f SegmentFacts) bool {
	return p.c.holds(ctx, f.vars).yes
}

// How many elements lists are taken to have.
const (
	listElements  = 100 // of those that a condition makes
	phoneElements = 10
)

// stepsOf estimates how many steps an expression can take at most.
func stepsOf(e ast.Expr) float64 {
	steps := 1.0
	switch e.Kind() {
	case ast.CallKind:
		if call := e.AsCall(); call.IsMemberFunction() {
			steps += stepsOf(call.Target())
		}
		for _, arg := range e.AsCall().Args() {
			steps += stepsOf(arg)
		}
	case ast.SelectKind:
		steps += stepsOf(e.AsSelect().Operand())
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			steps += stepsOf(element)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			steps += stepsOf(entry.AsMapEntry().Key()) + stepsOf(entry.AsMapEntry().Value())
		}
	case ast.ComprehensionKind:
		loop := e.AsComprehension()
		steps += stepsOf(loop.IterRange()) + stepsOf(loop.Result())
		steps += elementsOf(loop.IterRange()) * (stepsOf(loop.LoopCondition()) + stepsOf(loop.LoopStep()))
	}
	return steps
}

// elementsOf estimates how many elements a list or an object has at most.
func elementsOf(e ast.Expr) float64 {
	switch {
	case isRecordCall(e):
		return waypost.MaxRecordedEvents
	case e.Kind() == ast.ListKind:
		return float64(len(e.AsList().Elements()))
	case e.Kind() == ast.ComprehensionKind: // a filter or a map
		return elementsOf(e.AsComprehension().IterRange())
	}
	if operand, member, ok := Access(e); ok && operand.Kind() == ast.IdentKind && member == "mobilePhone" {
		return phoneElements
	}
	return listElements
}
