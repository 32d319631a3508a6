package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"waypost"
	"waypost/journey"
)

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
	// Unsent says that the workflow has not sent the touchpoint in any batch yet.
	Unsent bool `json:"unsent,omitempty"`
	// Ahead says that its message may have been sent before the workflow was started.
	Ahead bool `json:"ahead,omitempty"`
	// Waited says, at a node that can begin enrollments, that this one was in a wait.
	Waited bool `json:"waited,omitempty"`
	// Woken says, to LookBatch, that a wake has named it.
	Woken bool `json:"woken,omitempty"`
	// Unrecorded are timeline entries that no activity has written yet.
	Unrecorded []waypost.TimelineEntry `json:"unrecorded,omitempty"`
	// Round is set in a redelivery, which does not concern the enrollment: its State has the
	// Visit only. The first round of a message to a subscription has 1; EnrollmentID is then the
	// id of the subscription.
	Round int `json:"round,omitempty"`
}

// Batch is a group of enrollments at one node, or of messages to send to one webhook once
// more.
type Batch struct {
	Scope     waypost.Scope `json:"scope"`
	JourneyID string        `json:"journey"`
	Version   int           `json:"version"`
	LaunchID  string        `json:"launch,omitempty"`
	NodeID    string        `json:"node,omitempty"`
	// WebhookID is that of a redelivery, whose items may come from several journeys.
	WebhookID string `json:"webhook,omitempty"`
	// Now is the workflow's time, for LookBatch and for decisions: what is due by it is due.
	Now time.Time `json:"now,omitzero"`
	// Coalesce rounds the times of further attempts up, so that a cohort sends its
	// retries in few waves.
	Coalesce bool   `json:"coalesce,omitempty"`
	Items    []Item `json:"items"`
}

// Touchpoint names what the item is at.
func (i Item) Touchpoint() waypost.Touchpoint {
	return waypost.Touchpoint{EnrollmentID: i.EnrollmentID, Visit: i.State.Visit}
}

// AttemptRound names the round of attempts that the item is in.
func (i Item) AttemptRound() waypost.Round {
	return waypost.Round{Touchpoint: i.Touchpoint(), Round: max(i.Round, 1)}
}

// redelivers tells whether no journey waits for the item: it is a redelivery, or a message to
// a subscription.
func (i Item) redelivers() bool { return i.Round > 0 }

// Progress is what to record of the item: the entries that are not written yet and the
// given ones, with the state after them; nil if there are none.
func (i Item) Progress(after journey.State, entries []waypost.TimelineEntry) *waypost.Progress {
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
		Deferred:     i.Deferred,
	}
}

// Caller is the activity that runs a batch.
type Caller struct {
	WorkflowID string
	// Local says that it is a local activity: it waits for nothing for long.
	Local bool
	// FirstAttempt says that the activity has not run before.
	FirstAttempt bool
}

// Deliver sends the message of one touchpoint node for every item, and returns what
// came of each, in the order of the items.
//
// It may run any number of times for the same items. It first reads what is
// recorded: what is decided is answered from there, what is not due yet is
// answered with its time, and an attempt that is under way in this process is
// joined. Only then are messages rendered, stored, their attempts opened, and POSTed.
func (e *Engine) Deliver(ctx context.Context, by Caller, b Batch) ([]Result, error) {
	v, err := e.Version(ctx, b.Scope, b.JourneyID, b.Version)
	if err != nil {
		return nil, err
	}
	node, ok := v.Node(b.NodeID)
	if !ok {
		return nil, fmt.Errorf("journey %s/%d has no node %s", b.JourneyID, b.Version, b.NodeID)
	}
	r := e.newRun(by, b, v)
	r.hook.ID = node.Webhook
	return r.do(ctx)
}

// run is one call of Deliver, Redeliver or SendAhead.
type run struct {
	*Engine
	by      Caller
	ahead   bool // SendAhead: it opens attempts, and writes nothing else
	batch   Batch
	version Version // of Deliver
	cap     waypost.FrequencyCap
	hook    waypost.Webhook // in Deliver it has only its id before read
	// stopped are redeliveries that are to make no further attempt.
	stopped  map[waypost.Touchpoint]bool
	items    []*item
	briefing *Briefing // nil if not all messages are new
	pass     *pass     // nil before the breaker is asked
	admitted int       // POSTs
	started  int       // POSTs
	opened   bool      // or tried to: attempts may be open
	seed     uint64    // see jitter
}

// item is one message on its way through a run.
type item struct {
	Item
	flight *flight
	owned  bool // the run ends the flight; else it waits for the end
	// askedFirst says that the workflow asks for the touchpoint for the first time. first says
	// that it is new, too, and was not sent ahead: nothing is recorded of it, and nothing is read.
	// If that is wrong, the attempt is not opened, and the next batch reads. A local activity that
	// runs again after its workflow task was lost looks like a first run; so no touchpoint is taken
	// for new a minute after it was entered.
	askedFirst, first bool

	result Result
	next   transition // by the result, or none

	// The next attempt, of what is due.
	attempt     int
	interrupted bool          // the attempt before it was
	stored      Sending       // zero if nothing is, or if it was not read
	sought      bool          // it was read, and nothing is stored
	paused      time.Duration // since the first attempt
	opening     Opening       // made by renderMessages
}

func (e *Engine) newRun(by Caller, b Batch, v Version) *run {
	r := &run{
		Engine: e, by: by, batch: b, version: v,
		items: make([]*item, len(b.Items)), seed: seedOf(by.WorkflowID),
	}
	if v.Definition != nil { // a redelivery has no cap
		r.cap = v.FrequencyCap()
	}
	now := e.now()
	for i, it := range b.Items {
		asked := by.FirstAttempt && it.Unsent
		r.items[i] = &item{Item: it, askedFirst: asked, first: asked && !it.Ahead && now.Sub(it.Since) < time.Minute}
	}
	return r
}

func (r *run) do(ctx context.Context) ([]Result, error) {
	if err := r.send(ctx); err != nil {
		return nil, err
	}
	if err := r.await(ctx); err != nil {
		return nil, err
	}
	if err := r.findExits(ctx); err != nil {
		return nil, err
	}
	results := make([]Result, len(r.items))
	for i, it := range r.items {
		results[i] = it.result
	}
	return results, nil
}

// errUnfinished is what a run gets that has joined a flight of one that panicked.
var errUnfinished = errors.New("the batch did not finish")

// send answers from what is recorded where it can, and starts the POSTs of the rest. It joins
// the flights that other runs of this process have begun.
func (r *run) send(ctx context.Context) error {
	var owned []*item
	// A flight begins before any read: its owner knows that an attempt of this process that is
	// open in the database has no POST under way.
	for _, it := range r.items {
		if it.flight, it.owned = r.flights.begin(it.AttemptRound(), it.askedFirst, r.ahead); it.owned {
			owned = append(owned, it)
		}
	}
	err := errUnfinished // if this panics
	defer func() { r.release(err) }()
	err = r.sendOwned(ctx, owned)
	return err
}

// sendOwned sends what this run owns; the other items are being sent by other runs.
func (r *run) sendOwned(ctx context.Context, owned []*item) error {
	if len(owned) == 0 {
		return nil
	}
	due, err := r.answerRecorded(ctx, owned)
	if err != nil || len(due) == 0 {
		return err
	}
	if len(r.items) > 1 {
		ready, err := r.waitToOpen(ctx)
		if err != nil {
			return err
		}
		if !ready {
			r.leaveToRegular(due)
			return nil
		}
		defer func() { <-r.opening }()
	}
	defer r.returnUnused(ctx) // before the next batch may open attempts
	for _, next := range stages {
		if due, err = next(ctx, r, due); err != nil || len(due) == 0 {
			return err
		}
	}
	return r.openAttempts(ctx, due)
}

// release ends the flights that this run owns and has not started. The runs that have
// joined them get the item's result, or the error.
func (r *run) release(err error) {
	for _, it := range r.items {
		if it.owned {
			it.flight.result, it.flight.next, it.flight.err = it.result, it.next, err
			r.flights.drop(it.AttemptRound(), it.flight)
		}
	}
}

// waitToOpen waits until the batch may open attempts: more batches at a time would only
// wait for the database and for each other. A local activity waits for localPatience at
// most, and not at all for a receiver that is slower than that: ready is false then.
func (r *run) waitToOpen(ctx context.Context) (ready bool, err error) {
	var late <-chan time.Time
	if r.by.Local {
		if r.admit.PostTime(r.hook.ID) > r.localPatience {
			return false, nil
		}
		late = time.After(r.localPatience)
	}
	select {
	case r.opening <- struct{}{}:
		return true, nil
	case <-late:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// leaveToRegular leaves what is due to a regular activity, which runs at once.
func (r *run) leaveToRegular(due []*item) {
	for _, it := range due {
		it.result = r.answer(it, Sending{}, OutcomeUnderWay, "", time.Time{})
	}
}

const (
	// slotlessWait is how long a batch without a waiting slot waits.
	slotlessWait = 100 * time.Millisecond
	// underWayPause is the least time between two batches for a slow receiver: others have
	// the worker's activity slot meanwhile.
	underWayPause = time.Second
)

// await waits for the flights that this run has started or joined. In a batch of several
// it waits for Options.Stragglers at most, so that a slow receiver does not hold up the
// other enrollments. Without a waiting slot it waits for slotlessWait only, so that slow
// receivers do not hold up other webhooks; the next batch comes when the receiver may have
// answered.
func (r *run) await(ctx context.Context) error {
	var flying []*item
	for _, it := range r.items {
		if !it.owned {
			flying = append(flying, it)
		}
	}
	if len(flying) == 0 {
		return nil
	}
	waiting := ctx
	hasSlot := !r.by.Local && r.waiting.take(r.hook.ID)
	if hasSlot {
		defer r.waiting.giveBack(r.hook.ID)
	}
	if !hasSlot || len(r.items) > 1 {
		most := slotlessWait
		switch {
		case r.by.Local:
			if most = r.localPatience; r.admit.PostTime(r.hook.ID) > r.localPatience {
				most = 0
			}
		case hasSlot:
			most = r.stragglers
		}
		var stop context.CancelFunc
		waiting, stop = context.WithTimeout(ctx, most)
		defer stop()
	}
	for _, it := range flying {
		select {
		case <-it.flight.ended:
		case <-waiting.Done():
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		select {
		case <-it.flight.ended:
			if it.flight.err != nil {
				return fmt.Errorf("record attempt of enrollment %s: %w", it.EnrollmentID, it.flight.err)
			}
			it.result, it.next = it.flight.result, it.flight.next
		default:
			var next time.Time // of a local activity: at once, and a regular one waits on
			switch {
			case r.by.Local:
			case hasSlot:
				next = r.now().UTC().Add(underWayPause)
			default:
				next = r.now().UTC().Add(it.flight.expect(r.admit.PostTime(r.hook.ID)))
			}
			it.result = r.answer(it, Sending{}, OutcomeUnderWay, "", next)
		}
	}
	return nil
}

// findExits finds the enrollments that an event has ended: their deliveries look like
// canceled ones, or like those of a journey that was passed to its end. It records the
// timeline entries of exits that are not written yet.
func (r *run) findExits(ctx context.Context) error {
	var gone []*item
	of := waypost.ControlTargets{JourneyID: r.batch.JourneyID, LaunchID: r.batch.LaunchID}
	for _, it := range r.items {
		if it.redelivers() {
			continue
		}
		last, err := r.isLast(it)
		if err != nil {
			return err
		}
		if last || it.result.Outcome == OutcomeCanceled {
			gone, of.EnrollmentIDs = append(gone, it), append(of.EnrollmentIDs, it.EnrollmentID)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	controls, err := r.store.Controls(ctx, of)
	if err != nil {
		return err
	}
	var progress []waypost.Progress
	for _, it := range gone {
		outcome, reason := ended(controls[it.EnrollmentID])
		if outcome != OutcomeExited {
			continue
		}
		if it.result.Outcome != OutcomeCanceled {
			it.result.Exited = true
			continue
		}
		it.result.Outcome, it.result.Reason = outcome, reason
		if p := it.Progress(it.State, nil); p != nil {
			progress = append(progress, *p)
		}
	}
	return r.store.RecordProgress(ctx, progress)
}

// isLast tells whether a journey that events can end is passed to its end by what came
// of the touchpoint.
func (r *run) isLast(it *item) (bool, error) {
	d := it.result
	if !d.Decided() || d.Outcome == OutcomeCanceled || d.Outcome == OutcomeExited || !r.version.Exits() {
		return false, nil
	}
	if it.next.after.Phase == "" { // it was decided before this run
		var err error
		if it.next, err = r.step(it.Item, d); err != nil {
			return false, err
		}
	}
	return it.next.after.Phase == journey.PhaseDone, nil
}
