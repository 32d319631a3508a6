package activities

import (
	"context"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"

	"waypost"
	"waypost/delivery"
)

// Store is what the activities need of the database, beside what delivery.Store is.
type Store interface {
	LeadsByID(ctx context.Context, sc waypost.Scope, ids []int64) (map[int64]waypost.Lead, error)
	Journey(ctx context.Context, sc waypost.Scope, id string) (waypost.Journey, error)
	TakeArms(ctx context.Context, b waypost.ArmBatch) (map[waypost.Touchpoint]waypost.TakenArm, error)
	EnrollOnward(ctx context.Context, b waypost.OnwardBatch) (map[waypost.Touchpoint]waypost.OnwardResult, error)
	UpdateLeadAt(ctx context.Context, b waypost.EffectBatch, change func(waypost.Lead) (waypost.LeadFields, []string, error)) (waypost.EffectResult, error)
	EmitEvents(ctx context.Context, b waypost.EffectBatch) (map[waypost.Touchpoint]waypost.EffectResult, error)
	RecordedEffects(ctx context.Context, items []waypost.Effect) (map[waypost.Touchpoint]waypost.TimelineEntry, error)
	RecordProgress(ctx context.Context, progress []waypost.Progress) error
	CancelDeliveries(ctx context.Context, touchpoints []waypost.Touchpoint) error

	Await(ctx context.Context, waits []waypost.Wait) (map[waypost.Touchpoint]waypost.WaitState, error)
	RecordWaits(ctx context.Context, results []waypost.WaitResult) error
	Follow(ctx context.Context, sc waypost.Scope, waits []waypost.Wait) (map[int64]waypost.Lead, error)

	Moves(ctx context.Context, version int, seqs map[string]int) (map[string]waypost.Move, error)
	LetGo(ctx context.Context, b waypost.LeavingBatch) (left map[string]bool, err error)

	EnrollAudience(ctx context.Context, launchID string, n int) (waypost.LaunchStep, error)
	OpenOccurrence(ctx context.Context, recurringID string, at time.Time) (waypost.Occurrence, error)
	CancelLaunch(ctx context.Context, by waypost.Caller, id string) (waypost.Launch, error)
	ImportStep(ctx context.Context, id string) (waypost.Import, error)
	CancelImport(ctx context.Context, by waypost.Caller, id string) (waypost.Import, error)
}

// Activities are the activities of the workflows. Make them with New.
type Activities struct {
	engine *delivery.Engine
	store  Store
	wake   func()
	log    *slog.Logger
	now    func() time.Time
	pacing chan struct{} // holds a value for each launch that waits for its rate
}

// Options are what activities work with.
type Options struct {
	Engine *delivery.Engine
	Store  Store
	Wake   func() // is called when there are new cohorts to start; nil for none
	Log    *slog.Logger
	Now    func() time.Time // time.Now if nil
}

// New makes the activities.
func New(o Options) *Activities {
	a := &Activities{engine: o.Engine, store: o.Store, wake: o.Wake, log: o.Log, now: o.Now, pacing: make(chan struct{}, pacingSlots)}
	if a.wake == nil {
		a.wake = func() {}
	}
	if a.now == nil {
		a.now = time.Now
	}
	return a
}

// version loads the version that a batch is of.
func (a *Activities) version(ctx context.Context, b delivery.Batch) (delivery.Version, error) {
	return a.engine.Version(ctx, b.Scope, b.JourneyID, b.Version)
}

// controls reads what was decided about the enrollments of a batch, for the workflow that
// runs the activity.
func (a *Activities) controls(ctx context.Context, b delivery.Batch) (delivery.Controls, error) {
	return a.engine.Controls(ctx, workflowID(ctx), b, b.Items)
}

func workflowID(ctx context.Context) string { return activity.GetInfo(ctx).WorkflowExecution.ID }
