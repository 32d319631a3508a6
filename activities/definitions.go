package activities

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"waypost"
	"waypost/journey"
)

// maxDefinitions bounds the compiled definitions that a process keeps.
const maxDefinitions = 1000

// definitions keeps compiled journey versions. They are immutable, so an entry
// never goes stale.
type definitions struct {
	mu sync.Mutex
	m  map[string]version
}

type version struct {
	waypost.JourneyVersion
	*journey.Definition
}

func (a *Activities) definition(ctx context.Context, b Batch) (version, error) {
	key := fmt.Sprintf("%s/%d", b.JourneyID, b.Version)
	a.versions.mu.Lock()
	v, ok := a.versions.m[key]
	a.versions.mu.Unlock()
	if ok {
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
	v = version{row, def}
	a.versions.mu.Lock()
	defer a.versions.mu.Unlock()
	if a.versions.m == nil || len(a.versions.m) >= maxDefinitions {
		a.versions.m = map[string]version{}
	}
	a.versions.m[key] = v
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
// the order of the items.
func (a *Activities) subjects(ctx context.Context, b Batch, v version, items []Item) ([]subject, error) {
	ids := make([]string, len(items))
	leadIDs := make([]int64, len(items))
	for i, item := range items {
		ids[i], leadIDs[i] = item.EnrollmentID, item.LeadsID
	}
	leads, err := a.store.LeadsByID(ctx, b.Scope, leadIDs)
	if err != nil {
		return nil, fmt.Errorf("load leads: %w", err)
	}
	enrollments, err := a.store.EnrollmentsByID(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("load enrollments: %w", err)
	}
	return a.subjectsOf(ctx, b, v, items, leads, enrollments)
}

// subjectsOf is subjects of these leads and enrollments.
func (a *Activities) subjectsOf(ctx context.Context, b Batch, v version, items []Item, leads map[int64]waypost.Lead, enrollments map[string]waypost.Enrollment) ([]subject, error) {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.EnrollmentID
	}
	if err := a.endOrphans(ctx, items, leads, enrollments); err != nil {
		return nil, err
	}
	var err error
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
	all := make([]subject, len(items))
	for i, item := range items {
		enrollment := enrollments[item.EnrollmentID]
		all[i] = subject{AppID: enrollment.AppID, Facts: journey.Facts{
			Lead:         leads[item.LeadsID],
			JourneyID:    v.JourneyID,
			JourneyName:  v.JourneyVersion.Name,
			Version:      v.Version,
			EnrollmentID: item.EnrollmentID,
			EntryKey:     enrollment.EntryKey,
			Params:       enrollment.Params,
			Touchpoints:  results[item.EnrollmentID],
		}}
	}
	return all, nil
}
