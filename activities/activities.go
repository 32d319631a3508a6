// Package activities holds the side effects of journeys: it reads and writes
// what SQL holds, evaluates conditions, renders messages and has them POSTed.
// Workflows see ids, outcomes and times of it, never personal data.
package activities

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"waypost"
	"waypost/journey"
)

// Store is what the activities need of the database.
type Store interface {
	JourneyVersion(ctx context.Context, sc waypost.Scope, id string, version int) (waypost.JourneyVersion, error)
	Briefing(ctx context.Context, sc waypost.Scope, webhookID string, of waypost.ControlTargets) (waypost.Briefing, error)
	Webhook(ctx context.Context, sc waypost.Scope, id string) (waypost.Webhook, error)
	DisableWebhook(ctx context.Context, sc waypost.Scope, w waypost.Webhook, reason string) error
	ReleaseDeferred(ctx context.Context, sc waypost.Scope, webhookID, reason string) error
	LeadsByID(ctx context.Context, sc waypost.Scope, ids []int64) (map[int64]waypost.Lead, error)
	EnrollmentsByID(ctx context.Context, ids []string) (map[string]waypost.Enrollment, error)
	Journey(ctx context.Context, sc waypost.Scope, id string) (waypost.Journey, error)
	EnrollOnward(ctx context.Context, b waypost.OnwardBatch) (map[waypost.Touchpoint]waypost.OnwardResult, error)
	TouchpointResults(ctx context.Context, enrollmentIDs []string) (map[string]map[string]waypost.TouchpointResult, error)
	RecordProgress(ctx context.Context, progress []waypost.Progress) error

	Controls(ctx context.Context, of waypost.ControlTargets) (map[string]waypost.Controls, error)
	Hold(ctx context.Context, workflowID string, targets []string) (held []string, err error)
	CancelEnrollments(ctx context.Context, ids []string) error
	CancelDeliveries(ctx context.Context, touchpoints []waypost.Touchpoint) error

	Await(ctx context.Context, waits []waypost.Wait) (map[waypost.Touchpoint]waypost.WaitState, error)
	RecordWaits(ctx context.Context, results []waypost.WaitResult) error
	Follow(ctx context.Context, sc waypost.Scope, waits []waypost.Wait) (map[int64]waypost.Lead, error)

	Moves(ctx context.Context, version int, seqs map[string]int) (map[string]waypost.Move, error)
	LetGo(ctx context.Context, b waypost.LeavingBatch) (left map[string]bool, err error)

	EnrollAudience(ctx context.Context, launchID string, n int) (waypost.LaunchStep, error)
	OpenOccurrence(ctx context.Context, recurringID string, at time.Time) (waypost.Occurrence, error)
	CancelLaunch(ctx context.Context, sc waypost.Scope, id string) (waypost.Launch, error)
	ImportStep(ctx context.Context, id string) (waypost.Import, error)
	CancelImport(ctx context.Context, sc waypost.Scope, id string) (waypost.Import, error)

	Sendings(ctx context.Context, keys []waypost.Touchpoint) (map[waypost.Touchpoint]waypost.Sending, error)
	SendingsOfRounds(ctx context.Context, rounds []waypost.Round) (map[waypost.Touchpoint]waypost.Sending, error)
	StoppedRounds(ctx context.Context, rounds []waypost.Round) (map[waypost.Touchpoint]bool, error)
	CancelRounds(ctx context.Context, rounds []waypost.Round) error
	SkipCapped(ctx context.Context, openings []waypost.Opening) (map[waypost.Touchpoint]waypost.Sending, error)
	OpenAttempts(ctx context.Context, openings []waypost.Opening) (map[waypost.Touchpoint]waypost.Sending, error)
	RecordAttempts(ctx context.Context, records []waypost.AttemptRecord) error
	RecordDeferrals(ctx context.Context, deferrals []waypost.Deferral) error
}

// Sender POSTs one message. Whatever happens is an outcome.
type Sender interface {
	Send(ctx context.Context, w waypost.Webhook, messageID string, body []byte) waypost.Outcome
}

// Activities are the activities of the Journey workflow. Make them with New.
type Activities struct {
	store    Store
	sender   Sender
	admit    Admission
	breakers Breakers
	observe  Observer
	wake     func()
	tookOff  func(workflowID string)
	giveWay  func(context.Context)
	isAway   func(error) bool
	away     atomic.Int64 // when the database last was, in Unix milliseconds
	log      *slog.Logger
	now      func() time.Time
	process  string // names this process in attempts that it opens
	versions kept[string, version]
	hooks    kept[hookKey, waypost.Webhook]
	flights  flights
	pilots   pilots
	places   places
	runway   chan struct{} // places for batches that take off at the same time
	pacing   chan struct{} // places for launches that wait for their rate
	recorder *recorder

	stragglers, localPatience time.Duration
}

// Options are what activities work with.
type Options struct {
	Store  Store
	Sender Sender
	// Admission decides how many POSTs a webhook may get; nil admits all.
	Admission Admission
	Breakers  Breakers // nil for none
	Observer  Observer // of metrics; nil for none
	Wake      func()   // is called when there are new cohorts to start; nil for nobody
	// TookOff is called when the POSTs of a workflow's batch are under way; nil for nobody.
	TookOff func(workflowID string)
	// GiveWay is called when a batch of a workflow task has its answers recorded: it may
	// wait a moment for others whose messages have not gone yet. nil for nobody.
	GiveWay func(context.Context)
	// Away tells whether an error means that the database cannot be used for the moment;
	// nil if none does.
	Away func(error) bool
	Log  *slog.Logger
	Now  func() time.Time // time.Now if nil
	// Stragglers is how long a batch of several waits for slow receivers, LocalPatience how
	// long a local activity does; 3 s and 250 ms if zero.
	Stragglers, LocalPatience time.Duration
}

// New makes the activities and starts the recorder that writes outcomes. Close
// ends it.
func New(o Options) *Activities {
	a := &Activities{
		isAway: o.Away,
		store:  o.Store, sender: o.Sender, admit: o.Admission, breakers: o.Breakers, observe: o.Observer, wake: o.Wake, tookOff: o.TookOff, giveWay: o.GiveWay,
		log: o.Log, now: o.Now,
		process: waypost.NewID("prc_", time.Now()),
		pilots:  newPilots(),
		runway:  make(chan struct{}, 2*runtime.GOMAXPROCS(0)),
		pacing:  make(chan struct{}, pacingPlaces),

		stragglers: cmp.Or(o.Stragglers, stragglers), localPatience: cmp.Or(o.LocalPatience, localPatience),
	}
	if a.isAway == nil {
		a.isAway = func(error) bool { return false }
	}
	a.recorder = newRecorder(o.Store, o.Log, a.Failed)
	if a.admit == nil {
		a.admit = admitAll{}
	}
	if a.breakers == nil {
		a.breakers = alwaysClosed{}
	}
	if a.observe == nil {
		a.observe = nobody{}
	}
	if a.wake == nil {
		a.wake = func() {}
	}
	if a.tookOff == nil {
		a.tookOff = func(string) {}
	}
	if a.giveWay == nil {
		a.giveWay = func(context.Context) {}
	}
	if a.now == nil {
		a.now = time.Now
	}
	return a
}

// Close waits until every POST under way has ended and its outcome is recorded,
// or ctx ends. What is not recorded by then is POSTed again by whoever runs the
// batch next. No batch may begin once it is called.
func (a *Activities) Close(ctx context.Context) error {
	return errors.Join(a.flights.wait(ctx), a.recorder.close(ctx))
}

// admitAll is the Admission of those who need none.
type admitAll struct{}

func (admitAll) Admit(_ context.Context, _ waypost.Webhook, n int) (int, string, time.Duration) {
	return n, "", 0
}

func (admitAll) Done(string, int)              {}
func (admitAll) PostTime(string) time.Duration { return 0 }

// nobody is the Observer of those who have none.
type nobody struct{}

func (nobody) Attempt(string, string, time.Duration) {}
func (nobody) Deferred(string, int)                  {}

// Item is one enrollment of a batch.
type Item struct {
	EnrollmentID string `json:"enrollment"`
	LeadsID      int64  `json:"lead"`
	// State is the interpreter's; its path is there for MoveBatch only.
	State journey.State `json:"state"`
	// Since and Planned are the beginning and the end of what the enrollment waits
	// for, as they were before any pause; Planned is zero if it waits for no time.
	Since   time.Time `json:"since,omitzero"`
	Planned time.Time `json:"planned,omitzero"`
	// Deferred says that the workflow knows of the touchpoint being held back, and
	// the timeline of it.
	Deferred bool `json:"deferred,omitempty"`
	// Quiet says that it is held back for quiet hours, and the timeline of that.
	Quiet bool `json:"quiet,omitempty"`
	// Fresh says that the workflow has not sent the touchpoint in any batch yet.
	Fresh bool `json:"fresh,omitempty"`
	// Ahead says that its message may have been sent before the workflow was started.
	Ahead bool `json:"ahead,omitempty"`
	// Waited says, to EnrollBatch, that the enrollment was in a wait.
	Waited bool `json:"waited,omitempty"`
	// Woken says, to LookBatch, that somebody has told of a change.
	Woken bool `json:"woken,omitempty"`
	// Unrecorded are timeline entries that no activity has written yet.
	Unrecorded []waypost.TimelineEntry `json:"unrecorded,omitempty"`
	// Round is set in a redelivery, which is nothing to the enrollment: of State it
	// has the Visit only.
	Round int `json:"round,omitempty"`
}

// Batch is a group of enrollments at one node, or of messages that one webhook is
// to get once more.
type Batch struct {
	Scope     waypost.Scope `json:"scope"`
	JourneyID string        `json:"journey"`
	Version   int           `json:"version"`
	LaunchID  string        `json:"launch,omitempty"`
	NodeID    string        `json:"node,omitempty"`
	// WebhookID is that of a redelivery, whose items may come from several journeys.
	WebhookID string `json:"webhook,omitempty"`
	// Now is the workflow's time, of LookBatch and of what decides: what is due by it is
	// due.
	Now time.Time `json:"now,omitzero"`
	// Coalesce rounds the times of further attempts up, so that a cohort sends its
	// retries in few waves.
	Coalesce bool   `json:"coalesce,omitempty"`
	Items    []Item `json:"items"`
}

func (i Item) touchpoint() waypost.Touchpoint {
	return waypost.Touchpoint{EnrollmentID: i.EnrollmentID, Visit: i.State.Visit}
}

// round names the round of attempts that the item is in.
func (i Item) round() waypost.Round {
	return waypost.Round{Touchpoint: i.touchpoint(), Round: max(i.Round, 1)}
}

// redelivers tells whether the item is a message that is sent once more.
func (i Item) redelivers() bool { return i.Round > 1 }

// progress is what to record of the item: the entries that nobody wrote yet and
// those that followed, with the state after them.
func (i Item) progress(after journey.State, entries []waypost.TimelineEntry) *waypost.Progress {
	all := append(append([]waypost.TimelineEntry{}, i.Unrecorded...), entries...)
	if len(all) == 0 {
		return nil
	}
	return &waypost.Progress{
		EnrollmentID: i.EnrollmentID,
		Status:       after.EnrollmentStatus(),
		NodeID:       after.Node,
		LastSeq:      after.Seq,
		Entries:      all,
	}
}
