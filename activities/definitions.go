package activities

import (
	"context"
	"fmt"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"waypost"
	"waypost/journey"
)

// maxKept bounds what a process keeps of a kind.
const maxKept = 1000

// newKept makes a cache of what was used last.
func newKept[K comparable, V any]() *lru.Cache[K, V] {
	kept, _ := lru.New[K, V](maxKept) // fails for a size below 1 only
	return kept
}

// version is a journey version, compiled. It never changes, so one that is kept never goes
// stale.
type version struct {
	waypost.JourneyVersion
	*journey.Definition
}

func (a *Activities) definition(ctx context.Context, b Batch) (version, error) {
	key := fmt.Sprintf("%s/%d", b.JourneyID, b.Version)
	if v, known := a.versions.Get(key); known {
		return v, nil
	}
	row, err := a.store.JourneyVersion(ctx, b.Scope, b.JourneyID, b.Version)
	if err != nil {
		return version{}, fmt.Errorf("load journey %s: %w", key, err)
	}
	def, problems := journey.Parse(row.Definition)
	if err := problems.Err("definition"); err != nil {
		return version{}, fmt.Errorf("read definition of journey %s: %w", key, err)
	}
	v := version{row, def}
	a.versions.Add(key, v)
	return v, nil
}

// subject is whom a condition or a message is about.
type subject struct {
	journey.Facts
	AppID string // the application that enrolled
}

// endOrphans cancels enrollments whose lead was deleted at the moment when they were
// made, so that the deletion did not see them: nothing is sent about nobody. Its
// error lets the batch run again, and find them canceled.
func (a *Activities) endOrphans(ctx context.Context, items []Item, leads map[int64]waypost.Lead, enrollments map[string]waypost.Enrollment) error {
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
	if err := a.store.CancelEnrollments(ctx, orphans); err != nil {
		return fmt.Errorf("cancel enrollments of deleted leads: %w", err)
	}
	return fmt.Errorf("the leads of %d enrollments were deleted, which cancels them", len(orphans))
}

// subjects loads what conditions and templates of the items can ask about, in
// the order of the items; known is what was read of them already, nil for nothing.
func (a *Activities) subjects(ctx context.Context, b Batch, v version, items []Item, known *waypost.Briefing) ([]subject, error) {
	ids := make([]string, len(items))
	leadIDs := make([]int64, len(items))
	for i, item := range items {
		ids[i], leadIDs[i] = item.EnrollmentID, item.LeadsID
	}
	var err error
	if known == nil {
		known = &waypost.Briefing{}
		if known.Leads, err = a.store.LeadsByID(ctx, b.Scope, leadIDs); err != nil {
			return nil, fmt.Errorf("load leads: %w", err)
		}
		if known.Enrollments, err = a.store.EnrollmentsByID(ctx, ids); err != nil {
			return nil, fmt.Errorf("load enrollments: %w", err)
		}
	}
	if err := a.endOrphans(ctx, items, known.Leads, known.Enrollments); err != nil {
		return nil, err
	}
	var results map[string]map[string]waypost.TouchpointResult
	asks := true // for what came of messages
	if n, ok := v.Node(b.NodeID); ok && (n.Type == journey.WaitUntil || n.Type == journey.Split) {
		asks = false
	}
	if asks && slices.ContainsFunc(items, func(item Item) bool { return item.State.Visit > 1 }) { // at the first node nothing was sent yet
		if results, err = a.store.TouchpointResults(ctx, ids); err != nil {
			return nil, fmt.Errorf("load touchpoint results: %w", err)
		}
	}
	now := a.decidedAt(b)
	all := make([]subject, len(items))
	for i, item := range items {
		enrollment := known.Enrollments[item.EnrollmentID]
		all[i] = subject{AppID: enrollment.AppID, Facts: journey.Facts{
			Lead:         known.Leads[item.LeadsID],
			JourneyID:    v.JourneyID,
			JourneyName:  v.JourneyVersion.Name,
			Version:      v.Version,
			EnrollmentID: item.EnrollmentID,
			EntryKey:     enrollment.EntryKey,
			Params:       enrollment.Params,
			Touchpoints:  results[item.EnrollmentID],
			Now:          now,
		}}
	}
	return all, nil
}
