package delivery

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"waypost"
)

// Store is what deliveries need of the database.
type Store interface {
	JourneyVersion(ctx context.Context, sc waypost.Scope, id string, version int) (waypost.JourneyVersion, error)
	Briefing(ctx context.Context, sc waypost.Scope, webhookID string, of waypost.ControlTargets) (Briefing, error)
	Webhook(ctx context.Context, sc waypost.Scope, id string) (waypost.Webhook, error)
	DisableWebhook(ctx context.Context, sc waypost.Scope, w waypost.Webhook, reason string) error
	ReleaseDeferred(ctx context.Context, sc waypost.Scope, webhookID, reason string) error
	AnnounceFailing(ctx context.Context, sc waypost.Scope, webhookID string, opened time.Time) error
	LeadsByID(ctx context.Context, sc waypost.Scope, ids []int64) (map[int64]waypost.Lead, error)
	EnrollmentsByID(ctx context.Context, ids []string) (map[string]waypost.Enrollment, error)
	SegmentRules(ctx context.Context, sc waypost.Scope, ids []string) (map[string]waypost.SegmentRule, error)
	LeadRecords(ctx context.Context, sc waypost.Scope, leads []int64, needs waypost.RecordNeeds, now time.Time) (map[int64]*waypost.LeadRecord, error)
	TouchpointResults(ctx context.Context, enrollmentIDs []string) (map[string]map[string]waypost.TouchpointResult, error)
	RecordProgress(ctx context.Context, progress []waypost.Progress) error

	Controls(ctx context.Context, of waypost.ControlTargets) (map[string]waypost.Controls, error)
	Hold(ctx context.Context, workflowID string, targets []string) (held []string, err error)
	CancelEnrollments(ctx context.Context, ids []string) error
	CancelDeliveries(ctx context.Context, touchpoints []waypost.Touchpoint) error

	Sendings(ctx context.Context, keys []waypost.Touchpoint) (map[waypost.Touchpoint]Sending, error)
	SendingsOfRounds(ctx context.Context, rounds []waypost.Round) (map[waypost.Touchpoint]Sending, error)
	StoppedRounds(ctx context.Context, rounds []waypost.Round) (map[waypost.Touchpoint]bool, error)
	CancelRounds(ctx context.Context, rounds []waypost.Round) error
	SkipUnwanted(ctx context.Context, openings []Opening) (map[waypost.Touchpoint]Sending, error)
	SkipCapped(ctx context.Context, openings []Opening) (map[waypost.Touchpoint]Sending, error)
	OpenAttempts(ctx context.Context, openings []Opening) (map[waypost.Touchpoint]Sending, error)
	RecordAttempts(ctx context.Context, records []AttemptRecord) error
	RecordDeferrals(ctx context.Context, deferrals []Deferral) error
}

// Sender POSTs one message. Whatever happens is an outcome.
type Sender interface {
	Send(ctx context.Context, w waypost.Webhook, messageID string, body []byte) waypost.Outcome
}

// Engine delivers the messages of a process. Make it with New.
type Engine struct {
	store    Store
	sender   Sender
	admit    Admission
	breakers Breakers
	observe  Observer
	wake     func() // see Options for this and the next one, which may be nil
	isAway   func(error) bool
	away     atomic.Int64 // when the database last was, in Unix milliseconds
	log      *slog.Logger
	now      func() time.Time
	process  string // names this process in attempts that it opens
	versions *lru.Cache[string, Version]
	hooks    *lru.Cache[hookKey, waypost.Webhook]
	failing  *lru.Cache[string, time.Time] // by circuit: the opening that was last announced
	flights  flights
	posts    goroutines
	waiting  slots         // of batches that wait for receivers
	opening  chan struct{} // holds a value for each batch that opens attempts
	recorder *recorder

	stragglers, localPatience time.Duration
}

// Options are what an Engine works with.
type Options struct {
	Store  Store
	Sender Sender
	// Admission decides how many POSTs a webhook may get; nil admits all.
	Admission Admission
	Breakers  Breakers // nil for none
	Observer  Observer // of metrics; nil for none
	Wake      func()   // is called when there may be new cohorts to start; nil for none
	// Away tells whether an error means that the database cannot be used for the moment;
	// nil if none does.
	Away func(error) bool
	Log  *slog.Logger
	Now  func() time.Time // time.Now if nil
	// Stragglers is how long a batch of several waits for slow receivers, LocalPatience how
	// long a local activity does; 3 s and 250 ms if zero.
	Stragglers, LocalPatience time.Duration
}

const (
	stragglers = 3 * time.Second // see Options
	// localPatience is short: a local activity keeps its workflow from hearing signals, and
	// its worker from another task.
	localPatience = 250 * time.Millisecond
)

// New makes an Engine and starts the recorder that writes outcomes. Close ends it.
func New(o Options) *Engine {
	e := &Engine{
		store: o.Store, sender: o.Sender, admit: cmp.Or[Admission](o.Admission, admitAll{}),
		breakers: cmp.Or[Breakers](o.Breakers, alwaysClosed{}), observe: cmp.Or[Observer](o.Observer, nobody{}),
		wake: o.Wake, isAway: o.Away, log: o.Log, now: o.Now,
		process:  waypost.NewID("prc_", time.Now()),
		versions: newKept[string, Version](),
		hooks:    newKept[hookKey, waypost.Webhook](),
		failing:  newKept[string, time.Time](),
		posts:    newGoroutines(),
		opening:  make(chan struct{}, 2*runtime.GOMAXPROCS(0)),

		stragglers: cmp.Or(o.Stragglers, stragglers), localPatience: cmp.Or(o.LocalPatience, localPatience),
	}
	if e.now == nil {
		e.now = time.Now
	}
	e.recorder = newRecorder(o.Store, o.Log, e.Failed)
	return e
}

// Close waits until every POST under way has ended and its outcome is recorded,
// or ctx ends. What is not recorded by then is POSTed again by the next run of the batch.
// No batch may begin once it is called.
func (e *Engine) Close(ctx context.Context) error {
	return errors.Join(e.flights.wait(ctx), e.recorder.close(ctx))
}

// Failed notes an error that this process has seen: of the database, or of anything
// else.
func (e *Engine) Failed(err error) {
	if err != nil && e.isAway != nil && e.isAway(err) {
		e.away.Store(e.now().UnixMilli())
	}
}
