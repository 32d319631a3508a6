package delivery

import (
	"context"
	"fmt"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"waypost"
	"waypost/journey"
	"waypost/journey/nodes"
)

// maxKept bounds what a process keeps of a kind.
const maxKept = 1000

// newKept makes a cache of what was used last.
func newKept[K comparable, V any]() *lru.Cache[K, V] {
	kept, _ := lru.New[K, V](maxKept) // fails for a size below 1 only
	return kept
}

// Version is a journey version, compiled. It never changes, so one that is kept never goes
// stale.
type Version struct {
	waypost.JourneyVersion
	*journey.Definition

	cannotLeave map[string]error // why this build cannot go on after a touchpoint, by its node
}

// Version loads and compiles a version of a journey.
func (e *Engine) Version(ctx context.Context, sc waypost.Scope, journeyID string, number int) (Version, error) {
	key := fmt.Sprintf("%s/%d", journeyID, number)
	if v, known := e.versions.Get(key); known {
		return v, nil
	}
	row, err := e.store.JourneyVersion(ctx, sc, journeyID, number)
	if err != nil {
		return Version{}, err
	}
	def, problems := journey.Parse(row.Definition)
	if err := problems.Err("definition"); err != nil {
		return Version{}, fmt.Errorf("read definition of journey %s: %w", key, err)
	}
	v := Version{JourneyVersion: row, Definition: def, cannotLeave: map[string]error{}}
	for _, n := range def.Nodes() {
		if n.Type == journey.Touchpoint {
			v.cannotLeave[n.ID] = leaves(def, n.ID)
		}
	}
	e.versions.Add(key, v)
	return v, nil
}

// leaves is an error if a touchpoint cannot be left, whatever comes of it.
func leaves(def *journey.Definition, node string) error {
	at := journey.State{Node: node, Phase: journey.PhaseSend}
	for _, outcome := range []string{OutcomeDelivered, OutcomeFailed} {
		if _, _, err := journey.Step(def, at, Result{Outcome: outcome}.Input()); err != nil {
			return fmt.Errorf("leave touchpoint %s: %w", node, err)
		}
	}
	return nil
}

// Subject is what a condition or a message is about.
type Subject struct {
	journey.Facts
	AppID string // the application that enrolled
	Depth int    // of the enrollment
}

// endOrphans cancels enrollments whose lead was deleted at the moment when they were
// made, so that the deletion did not see them. Its error has the batch run again, which
// finds them canceled.
func (e *Engine) endOrphans(
	ctx context.Context, items []Item, leads map[int64]waypost.Lead, enrollments map[string]waypost.Enrollment,
) error {
	var orphans []string
	for _, item := range items {
		_, there := leads[item.LeadsID]
		if e, known := enrollments[item.EnrollmentID]; known && !there && !e.Status.Ended() {
			orphans = append(orphans, item.EnrollmentID)
		}
	}
	if len(orphans) == 0 {
		return nil
	}
	if err := e.store.CancelEnrollments(ctx, orphans); err != nil {
		return fmt.Errorf("cancel enrollments of deleted leads: %w", err)
	}
	return fmt.Errorf("the leads of %d enrollments were deleted, which cancels them", len(orphans))
}

// Subjects loads what conditions and templates of the items can ask about, in the order of
// the items. known is what was read of the items already, nil for nothing.
func (e *Engine) Subjects(ctx context.Context, b Batch, v Version, items []Item, known *Briefing) ([]Subject, error) {
	var err error
	if known == nil {
		known = &Briefing{}
		leadIDs := make([]int64, len(items))
		for i, item := range items {
			leadIDs[i] = item.LeadsID
		}
		if known.Leads, err = e.store.LeadsByID(ctx, b.Scope, leadIDs); err != nil {
			return nil, err
		}
		if known.Enrollments, err = e.Enrollments(ctx, items); err != nil {
			return nil, err
		}
	}
	if err := e.endOrphans(ctx, items, known.Leads, known.Enrollments); err != nil {
		return nil, err
	}
	var results map[string]map[string]waypost.TouchpointResult
	// At a first node nothing was sent yet, and not all types ask for results. A look is at several nodes, which may.
	n, one := v.Node(b.NodeID)
	if (!one || n.Description().Evaluates()) && slices.ContainsFunc(items, func(item Item) bool { return item.State.Visit > 1 }) {
		if results, err = e.store.TouchpointResults(ctx, enrollmentIDs(items)); err != nil {
			return nil, err
		}
	}
	now := e.DecidedAt(b)
	records, rules, err := e.records(ctx, b, v, items, now)
	if err != nil {
		return nil, err
	}
	all := make([]Subject, len(items))
	for i, item := range items {
		enrollment := known.Enrollments[item.EnrollmentID]
		all[i] = Subject{AppID: enrollment.AppID, Depth: enrollment.Depth, Facts: journey.Facts{
			Lead:         known.Leads[item.LeadsID],
			JourneyID:    v.JourneyID,
			JourneyName:  v.JourneyVersion.Name,
			Version:      v.Version,
			EnrollmentID: item.EnrollmentID,
			EntryKey:     enrollment.EntryKey,
			Params:       enrollment.Params,
			Began:        enrollment.Event,
			Touchpoints:  results[item.EnrollmentID],
			Record:       records[item.LeadsID],
			Segments:     rules,
			Now:          now,
		}}
	}
	return all, nil
}

// records reads what the conditions of the items' nodes ask of their leads' records, and the rules of
// the segments that those of a waitFor ask for, with what these ask.
func (e *Engine) records(
	ctx context.Context, b Batch, v Version, items []Item, now time.Time,
) (records map[int64]*waypost.LeadRecord, rules map[string]waypost.SegmentRule, err error) {
	var needs waypost.RecordNeeds
	var segments []string
	var leads []int64
	seen := map[string]bool{}
	add := func(node string) {
		if seen[node] {
			return
		}
		seen[node] = true
		asked := v.Needs(node)
		needs.Add(asked)
		if n, _ := v.Node(node); n.Description().Waits == nodes.ForCondition {
			segments = append(segments, asked.Segments...)
		}
	}
	add(b.NodeID)
	for _, item := range items {
		add(item.State.Node)
		leads = append(leads, item.LeadsID)
	}
	if needs.None() {
		return nil, nil, nil
	}
	if len(segments) > 0 {
		if rules, err = e.store.SegmentRules(ctx, b.Scope, segments); err != nil {
			return nil, nil, err
		}
		for _, rule := range rules {
			needs.Add(rule.Needs(true))
		}
	}
	records, err = e.store.LeadRecords(ctx, b.Scope, leads, needs, now)
	return records, rules, err
}

// DecidedAt is the time of a decision: the later one of the workflow's and of this
// process's clock. A clock that is behind would find the instant that a wait has
// just ended at to be still to come.
func (e *Engine) DecidedAt(b Batch) time.Time {
	if now := e.now(); now.After(b.Now) {
		return now.UTC()
	}
	return b.Now.UTC()
}

// Enrollments loads the enrollments of items, by their ids.
func (e *Engine) Enrollments(ctx context.Context, items []Item) (map[string]waypost.Enrollment, error) {
	return e.store.EnrollmentsByID(ctx, enrollmentIDs(items))
}

func enrollmentIDs(items []Item) []string {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.EnrollmentID
	}
	return ids
}
