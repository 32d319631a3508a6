package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.temporal.io/sdk/activity"

	"waypost"
	"waypost/journey"
)

// What a delivery of a batch came to, as WaypostOutcome names it.
const (
	OutcomeDelivered = "delivered"
	OutcomeRetrying  = "retrying"
	OutcomeDeferred  = "deferred"
	OutcomeFailed    = "failed"
	OutcomeSkipped   = "skipped" // by the frequency cap
	// OutcomeUnderWay says that the receiver has not answered yet. The POST goes on;
	// the next batch that names the enrollment learns its end.
	OutcomeUnderWay = "underWay"
)

// Delivery is what a batch tells the workflow about one enrollment. It holds no
// personal data: it stands in the history.
type Delivery struct {
	// The Web UI's row shows the beginning of a result: what matters comes first.
	Outcome string `json:"outcome"`
	Attempt int    `json:"attempt"`
	// Reason is an error class, with the HTTP status if that is why, or the reason
	// of a deferral, a skip or an exit.
	Reason       string    `json:"reason,omitempty"`
	Next         time.Time `json:"next,omitzero"` // when to send a batch with it again
	LeadsID      int64     `json:"lead"`
	EnrollmentID string    `json:"enrollment"`
	MessageID    string    `json:"message,omitempty"`
	At           time.Time `json:"at"`
	// Exited says of a journey's last touchpoint that an event has ended the enrollment
	// before it was decided.
	Exited bool `json:"exited,omitempty"`
}

// Decided tells whether the touchpoint is over.
func (d Delivery) Decided() bool {
	switch d.Outcome {
	case OutcomeDelivered, OutcomeFailed, OutcomeSkipped, OutcomeCanceled, OutcomeExited:
		return true
	}
	return false
}

// Input is what a delivery that is decided or deferred means to the interpreter.
func (d Delivery) Input() journey.Input {
	switch d.Outcome {
	case OutcomeDeferred:
		return journey.Input{Kind: journey.InputDeferred, At: d.At, Reason: d.Reason}
	case OutcomeSkipped:
		return journey.Input{Kind: journey.InputSkipped, At: d.At, Reason: d.Reason}
	case OutcomeCanceled:
		return journey.Input{Kind: journey.InputCanceled, At: d.At}
	case OutcomeExited:
		return journey.Input{Kind: journey.InputExited, At: d.At, Reason: d.Reason}
	}
	return journey.Input{Kind: journey.InputSent, At: d.At, Succeed: d.Outcome == OutcomeDelivered, Reason: d.Reason}
}

const (
	stragglers = 3 * time.Second // see Options
	// glance is how long a batch waits that finds no place to wait longer.
	glance = 100 * time.Millisecond
	// localPatience is short: a local activity keeps its workflow from hearing signals, and
	// its worker from another task.
	localPatience = 250 * time.Millisecond
	// underWayPause lets others have the worker's place between two looks at a slow
	// receiver.
	underWayPause = time.Second
	heartbeat     = 2 * time.Second
	// clockSlack is how far ahead of the worker's clock a due time may lie and still
	// be waited for inside the activity, instead of by another batch.
	clockSlack = 2 * time.Second
	// graceAfterTimeout is added to a webhook's time-out before an attempt that
	// another process opened is taken for interrupted. It covers what comes before and
	// after the POST in a process that has hardly a CPU to run on, and writes that stand
	// behind others': too short, and a message is sent twice that nobody had lost.
	graceAfterTimeout = 10 * time.Second
)

// DeliverBatch sends the message of one touchpoint node for every item, and
// returns what came of each, in the order of the items.
//
// It may run any number of times for the same items. It first reads what is
// recorded: what is decided is answered from there, what is not due yet is
// answered with its time, and an attempt that is under way in this process is
// joined. Only then are messages rendered, stored, announced and POSTed.
func (a *Activities) DeliverBatch(ctx context.Context, b Batch) ([]Delivery, error) {
	_, stop := keepAlive(ctx)
	defer stop()
	v, err := a.definition(ctx, b)
	if err != nil {
		return nil, err
	}
	node, ok := v.Node(b.NodeID)
	if !ok {
		return nil, fmt.Errorf("journey %s/%d has no node %s", b.JourneyID, b.Version, b.NodeID)
	}
	run := a.newRun(activity.GetInfo(ctx), b, v)
	run.hook.ID = node.Webhook
	return run.do(ctx)
}

func (a *Activities) newRun(of activity.Info, b Batch, v version) *batchRun {
	return &batchRun{
		Activities: a, activity: of, batch: b, version: v, began: a.now(),
		results: make([]Delivery, len(b.Items)), paused: map[int]time.Duration{}, own: map[int]*flight{}, flying: map[int]*flight{},
		seed: seedOf(of.WorkflowExecution.ID),
	}
}

func (r *batchRun) do(ctx context.Context) ([]Delivery, error) {
	if err := r.takeOff(ctx); err != nil {
		return nil, err
	}
	if !r.left {
		r.tookOff(r.activity.WorkflowExecution.ID)
	}
	if err := r.land(ctx); err != nil {
		return nil, err
	}
	if err := r.findExits(ctx); err != nil {
		return nil, err
	}
	if r.activity.IsLocalActivity { // its answer has Temporal write all that has happened
		r.giveWay(ctx)
	}
	return r.results, nil
}

// findExits tells those who have exited from those who were canceled, whose
// deliveries look alike, and from those who have passed their journey to its end. It
// writes what nobody has written of the timelines of the first yet.
func (r *batchRun) findExits(ctx context.Context) error {
	var gone []int
	of := waypost.ControlTargets{JourneyID: r.batch.JourneyID, LaunchID: r.batch.LaunchID}
	for i, d := range r.results {
		item := r.batch.Items[i]
		if item.redelivers() {
			continue
		}
		last, err := r.last(item, d)
		if err != nil {
			return err
		}
		if last || d.Outcome == OutcomeCanceled {
			gone, of.EnrollmentIDs = append(gone, i), append(of.EnrollmentIDs, item.EnrollmentID)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	controls, err := r.store.Controls(ctx, of)
	if err != nil {
		return fmt.Errorf("read controls: %w", err)
	}
	s := standing{controls: controls}
	var progress []waypost.Progress
	for _, i := range gone {
		item := r.batch.Items[i]
		outcome, reason := s.over(item.EnrollmentID)
		if outcome != OutcomeExited {
			continue
		}
		if r.results[i].Outcome != OutcomeCanceled {
			r.results[i].Exited = true
			continue
		}
		r.results[i].Outcome, r.results[i].Reason = outcome, reason
		if p := item.progress(item.State, nil); p != nil {
			progress = append(progress, *p)
		}
	}
	return r.store.RecordProgress(ctx, progress)
}

// last tells whether a journey that events can end is passed to its end by what came
// of the touchpoint.
func (r *batchRun) last(item Item, d Delivery) (bool, error) {
	if !d.Decided() || d.Outcome == OutcomeCanceled || d.Outcome == OutcomeExited || len(r.version.ExitOn()) == 0 {
		return false, nil
	}
	after, _, err := follow(r.version, item, d)
	return after.Phase == journey.PhaseDone, err
}

// keepAlive heartbeats until it is stopped, so that the death of the process is
// noticed within seconds however long a receiver takes. What is told goes with the
// heartbeats from then on.
func keepAlive(ctx context.Context) (tell func(details any), stop func()) {
	told, done := make(chan any), make(chan struct{})
	go func() {
		ticker := time.NewTicker(heartbeat)
		defer ticker.Stop()
		var details []any
		for {
			select {
			case latest := <-told:
				details = []any{latest}
			case <-ticker.C:
			case <-done:
				return
			}
			activity.RecordHeartbeat(ctx, details...)
		}
	}()
	return func(details any) { told <- details }, func() { close(done) }
}

// batchRun is one run of DeliverBatch or RedeliverBatch, or what is done ahead of one. Of
// each item it either owns the flight, until it has an answer from what is recorded or the
// POST is under way, or it waits for a flight.
type batchRun struct {
	*Activities
	activity activity.Info
	ahead    bool // of its activity: it announces attempts, and does nothing else
	batch    Batch
	version  version // of DeliverBatch
	began    time.Time
	hook     waypost.Webhook // of DeliverBatch its id only, until there is something to be sent
	// stopped are redeliveries that are to make no further attempt.
	stopped map[waypost.Touchpoint]bool
	known   *waypost.Briefing // nil if not all messages are new
	results []Delivery
	indexes map[waypost.Touchpoint]int // made when it is needed
	due     []dueItem
	paused  map[int]time.Duration // since the first attempt, of those that were paused
	own     map[int]*flight
	flying  map[int]*flight
	started int // POSTs
	// announced says that attempts may have been.
	announced bool
	// left says that a regular activity is to take off.
	left bool
	seed uint64 // see jitter
}

// errUnfinished is what others see of a touchpoint whose batch panicked.
var errUnfinished = errors.New("the batch did not finish")

// takeOff answers what it can from what is recorded, and starts the POSTs of the
// rest.
func (r *batchRun) takeOff(ctx context.Context) (err error) {
	r.board()
	err = errUnfinished // until a return: touchpoints must be given back after a panic too
	defer func() { r.leave(err) }()
	if err := r.loadWebhook(ctx); err != nil {
		return err
	}
	if err := r.read(ctx); err != nil {
		return err
	}
	if len(r.due) == 0 {
		return nil
	}
	if len(r.batch.Items) > 1 {
		// More at a time would only wait for the database and for each other. Nor does a
		// workflow task wait here for long: a regular activity does. It sends what a slow
		// receiver gets as well: others of another process could not join those POSTs.
		var late <-chan time.Time
		if r.activity.IsLocalActivity {
			if r.admit.PostTime(r.hook.ID) > r.localPatience {
				r.leaveToRegular()
				return nil
			}
			timer := time.NewTimer(r.localPatience)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case r.runway <- struct{}{}:
			defer func() { <-r.runway }()
		case <-late:
			r.leaveToRegular()
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return r.announce(ctx)
}

// leaveToRegular leaves what is due to a regular activity, which runs at once.
func (r *batchRun) leaveToRegular() {
	r.left = true
	for _, d := range r.due {
		r.results[d.index] = r.answer(d.index, waypost.Sending{}, OutcomeUnderWay, "", time.Time{})
	}
}

// board takes the touchpoints that nobody in this process is at. It comes before
// anything is read: whoever owns a touchpoint knows that an attempt of this
// process that is open in the database has no POST under way.
func (r *batchRun) board() {
	for i, item := range r.batch.Items {
		if fl, fresh := r.flights.begin(item.round(), r.asksFirst(item), r.ahead); fresh {
			r.own[i] = fl
		} else {
			r.flying[i] = fl
		}
	}
}

// leave ends what this run owns and does not fly: with its answer for whoever has
// joined, or with the error.
func (r *batchRun) leave(err error) {
	for i, fl := range r.own {
		fl.result, fl.err = r.results[i], err
		r.flights.drop(r.batch.Items[i].round(), fl)
	}
}

type dueItem struct {
	index       int
	attempt     int
	interrupted bool
	stored      *waypost.Sending // nil: nothing is stored yet
	sought      bool             // nothing was found, that is, and not just not looked for
}

// unrendered tells whether there is no stored message to send.
func (d dueItem) unrendered() bool { return d.stored == nil || d.stored.Body == nil }

// read sorts the items by what is recorded of them.
func (r *batchRun) read(ctx context.Context) error {
	keys := make([]waypost.Round, 0, len(r.own))
	for i, item := range r.batch.Items {
		if r.own[i] != nil && !r.isFirst(item) {
			keys = append(keys, item.round())
		}
	}
	if len(r.own) == 0 {
		return nil
	}
	var stored map[waypost.Touchpoint]waypost.Sending
	if len(keys) > 0 {
		var err error
		if stored, err = r.store.SendingsOfRounds(ctx, keys); err != nil {
			return fmt.Errorf("read deliveries: %w", err)
		}
	}
	slack := clockSlack
	if r.activity.IsLocalActivity {
		slack = r.localPatience
	}
	now := r.now().UTC()
	var wait time.Duration
	for i, item := range r.batch.Items {
		if r.own[i] == nil {
			continue
		}
		s, known := stored[item.touchpoint()]
		if !known && item.redelivers() {
			r.results[i] = r.answer(i, s, OutcomeCanceled, "", time.Time{}) // the delivery was deleted
			continue
		}
		if !known {
			r.due = append(r.due, dueItem{index: i, attempt: 1, sought: !r.isFirst(item)})
			continue
		}
		d := dueItem{index: i, attempt: s.Attempts + 1, stored: &s}
		ahead := s.NextAttemptAt.Sub(now)
		switch {
		case s.Status.Final():
			r.results[i] = r.recorded(i, s)
		case s.Open != nil:
			// Nobody in this process is at it. Another process may be, until the
			// webhook's time-out has passed; after that the attempt was cut off.
			timeout := r.hook.TimeoutMs
			if !r.hook.UpdatedAt.Before(s.Open.At) {
				timeout = waypost.MaxTimeoutMs // it may have begun with another time-out
			}
			patience := r.cutOffAt(s, timeout)
			if s.Open.By != r.process && patience.After(now) {
				r.results[i] = r.answer(i, s, OutcomeUnderWay, "", minTime(patience, now.Add(clockSlack)))
				continue
			}
			d.attempt, d.interrupted = s.Open.Attempt+1, true
			r.due = append(r.due, d)
		case r.stopped[item.touchpoint()]:
			r.due = append(r.due, d)
		case s.Status == waypost.DeliveryRetrying && ahead > slack:
			r.results[i] = r.recorded(i, s)
		default:
			if s.Status == waypost.DeliveryRetrying {
				wait = max(wait, ahead)
			}
			r.due = append(r.due, d)
		}
	}
	if wait > 0 && len(r.due) > 0 {
		return pause(ctx, wait)
	}
	return nil
}

// cutOffAt is when an attempt that is open counts as cut off: once its time-out has
// passed, and whoever makes it has had the time to record it. While the database is
// away nobody can, and a write that hung meanwhile is given up later.
func (a *Activities) cutOffAt(s waypost.Sending, timeoutMs int) time.Time {
	at := s.Open.At.Add(time.Duration(timeoutMs)*time.Millisecond + graceAfterTimeout)
	if back := time.UnixMilli(a.away.Load()).Add(writeTime + maxWriteWait + graceAfterTimeout); back.After(at) {
		return back
	}
	return at
}

// Failed notes an error that this process has seen: of the database, or of anything
// else.
func (a *Activities) Failed(err error) {
	if err != nil && a.isAway(err) {
		a.away.Store(a.now().UnixMilli())
	}
}

// isFirst tells whether this is the first run for a touchpoint that is new, and was not
// sent ahead: nothing is found of it. Should that be wrong, the attempt is not opened, and the next batch looks.
// A local activity that runs again because its workflow task was lost does not know of
// it; after so long much may have happened, up to the end of the records' retention.
// It is the same for the whole run: a webhook that is remembered must be followed by a
// briefing.
func (r *batchRun) isFirst(item Item) bool {
	return r.asksFirst(item) && !item.Ahead && r.began.Sub(item.Since) < time.Minute
}

// asksFirst tells whether the workflow asks for a touchpoint for the first time.
func (r *batchRun) asksFirst(item Item) bool { return r.activity.Attempt == 1 && item.Fresh }

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// recorded answers for an item from what is stored.
func (r *batchRun) recorded(i int, s waypost.Sending) Delivery {
	if s.Status == waypost.DeliveryCanceled && s.DeferredReason == waypost.SkipFrequencyCap {
		return r.answer(i, s, OutcomeSkipped, s.DeferredReason, time.Time{})
	}
	d := r.answer(i, s, outcomeOf(s.Status), reasonOf(s.Succeed, s.ErrorClass, s.HTTPStatus), s.NextAttemptAt)
	if !s.DecidedAt.IsZero() {
		d.At = s.DecidedAt
	}
	return d
}

func (r *batchRun) answer(i int, s waypost.Sending, outcome, reason string, next time.Time) Delivery {
	item := r.batch.Items[i]
	return Delivery{
		EnrollmentID: item.EnrollmentID, LeadsID: item.LeadsID, MessageID: s.MessageID,
		Outcome: outcome, Attempt: s.Attempts, Reason: reason, Next: next,
		At: r.now().UTC().Truncate(time.Millisecond),
	}
}

// outcomeOf names the state that an attempt left a delivery in.
func outcomeOf(s waypost.DeliveryStatus) string {
	switch s {
	case waypost.DeliverySucceeded:
		return OutcomeDelivered
	case waypost.DeliveryRetrying:
		return OutcomeRetrying
	case waypost.DeliveryCanceled:
		return OutcomeCanceled
	}
	return OutcomeFailed
}

// announce renders and stores the messages that are due, opens their attempts
// and starts the POSTs.
func (r *batchRun) announce(ctx context.Context) error {
	if err := r.brief(ctx); err != nil {
		return err
	}
	if err := r.passOverEnded(ctx); err != nil {
		return err
	}
	if !r.hook.Enabled {
		return r.keepOut(ctx, r.due, waypost.DeferWebhookDisabled, 0)
	}
	if err := r.hook.Sendable(r.now()); err != nil && len(r.due) > 0 {
		r.log.Warn("a webhook's secret cannot be read", "webhook", r.hook.ID, "error", err)
		return r.keepOut(ctx, r.due, waypost.DeferUnreadable, 0)
	}
	if err := r.holdUnreadable(ctx); err != nil {
		return err
	}
	if err := r.keepQuiet(ctx); err != nil {
		return err
	}
	if err := r.skip(ctx); err != nil {
		return err
	}
	if len(r.due) == 0 {
		return nil
	}
	passed, err := r.lookAtBreaker(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if r.started == 0 {
			r.breakers.Return(context.WithoutCancel(ctx), passed.circuit, passed.ticket)
		}
	}()
	if len(r.due) == 0 {
		return nil
	}
	granted, reason, wait := r.admit.Admit(ctx, r.hook, len(r.due))
	// Those that take off give their slots back when they land.
	defer func() { r.admit.Done(r.hook.ID, granted-r.started) }()
	if granted < len(r.due) {
		if err := r.keepOut(ctx, r.due[granted:], reason, wait); err != nil {
			return err
		}
		r.due = r.due[:granted]
	}
	items := make([]Item, len(r.due))
	var unrendered []Item
	for i, d := range r.due {
		items[i] = r.batch.Items[d.index]
		if d.unrendered() {
			unrendered = append(unrendered, items[i])
		}
		// What cannot be followed cannot be recorded, so it must not be POSTed: another
		// build knows how.
		for _, outcome := range []string{OutcomeDelivered, OutcomeFailed} {
			if _, _, err := follow(r.version, items[i], Delivery{Outcome: outcome, At: r.now()}); err != nil {
				return err
			}
		}
	}
	var subjects []subject // of those that are to be rendered; a retry sends what is stored
	if len(unrendered) > 0 {
		var err error
		if subjects, err = r.subjects(ctx, r.batch, r.version, unrendered, r.known); err != nil {
			return err
		}
	}
	now := r.now().UTC().Truncate(time.Millisecond)
	var openings []waypost.Opening
	var failed []waypost.AttemptRecord // without a POST
	for i, d := range r.due {
		opening, err := r.opening(d, now)
		if err != nil {
			return err
		}
		var about subject
		if d.unrendered() {
			about, subjects = subjects[0], subjects[1:]
		}
		if d.interrupted {
			lost := cutOff(d.stored.Open.At)
			if _, again := r.hook.Retry.Next(d.stored.FirstAttemptAt.Add(r.paused[d.index]), d.stored.Open.Attempt-d.stored.Before, lost, 0); !again {
				failed = append(failed, r.failure(opening, d, d.stored.Open.Attempt, lost))
				continue
			}
		}
		if d.unrendered() {
			body, err := r.render(about, opening.Delivery.MessageID, items[i], now)
			if err != nil {
				failed = append(failed, r.failure(opening, d, d.attempt, waypost.Outcome{
					ErrorClass: waypost.ClassRender, Message: err.Error(), At: now,
				}))
				continue
			}
			opening.Body = body
		}
		openings = append(openings, opening)
	}
	if err := r.fail(ctx, failed); err != nil {
		return err
	}
	return r.open(ctx, openings, passed)
}

// opening announces the next attempt of what is due.
func (r *batchRun) opening(d dueItem, now time.Time) (waypost.Opening, error) {
	item := r.batch.Items[d.index]
	o := waypost.Opening{
		Touchpoint: item.touchpoint(), Round: item.Round, Scope: r.batch.Scope, Delivery: r.delivery(item, d.stored, now),
		Attempt: d.attempt, At: now, By: r.process, Interrupts: d.interrupted,
	}
	if o.Cap = r.cap(); o.Cap.None() || o.Attempt > 1 {
		return o, nil
	}
	after, entries, err := follow(r.version, item, r.skipped(d.index, waypost.Sending{}, now))
	o.Skipped = item.progress(after, entries)
	return o, err
}

// delivery is the row of a touchpoint's message; one that is stored keeps its id.
func (r *batchRun) delivery(item Item, stored *waypost.Sending, now time.Time) waypost.Delivery {
	id := ""
	if stored != nil {
		id = stored.MessageID
	} else {
		id = waypost.NewID(waypost.PrefixMessage, now)
	}
	return waypost.Delivery{
		MessageID: id, EnrollmentID: item.EnrollmentID, JourneyID: r.batch.JourneyID,
		JourneyVersion: r.batch.Version, NodeID: r.batch.NodeID, WebhookID: r.hook.ID, LeadsID: item.LeadsID,
		LaunchID: r.batch.LaunchID,
	}
}

// render makes the documented message. The members' order is the type's.
func (r *batchRun) render(s subject, messageID string, item Item, now time.Time) ([]byte, error) {
	s.Now = now
	params, err := r.version.Render(r.batch.NodeID, r.hook.Params, s.Facts)
	if err != nil {
		return nil, err
	}
	return waypost.Message{
		MessageID: messageID,
		Version:   waypost.MessageVersion,
		Timestamp: now.Format(waypost.TimeFormat),
		UserProfile: waypost.UserProfile{
			OrgID: r.batch.Scope.Org, AppID: s.AppID, AffID: strconv.FormatInt(item.LeadsID, 10),
			UserID: deref(s.Lead.ExternalID), OpenID: deref(s.Lead.OpenID),
		},
		JourneyInfo: waypost.JourneyInfo{
			JourneyID: item.EnrollmentID, JourneyName: s.JourneyName,
			ActionDefID: fmt.Sprintf("%s/%d/%s", r.batch.JourneyID, r.batch.Version, r.batch.NodeID),
			ActionID:    fmt.Sprintf("%s/%d", item.EnrollmentID, item.State.Visit),
		},
		Params: params,
	}.Encode()
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// failure is the record of an attempt that is given up without a POST: its
// message cannot be made, or it was cut off and may not be followed by another.
func (r *batchRun) failure(o waypost.Opening, d dueItem, attempt int, outcome waypost.Outcome) waypost.AttemptRecord {
	round := 1
	if d.stored != nil {
		round = d.stored.Round
	}
	return waypost.AttemptRecord{
		Touchpoint: o.Touchpoint, Scope: o.Scope, MessageID: o.Delivery.MessageID, Delivery: o.Delivery,
		Round: round, Attempt: attempt, Outcome: outcome,
	}
}

func (r *batchRun) fail(ctx context.Context, records []waypost.AttemptRecord) error {
	if len(records) == 0 {
		return nil
	}
	if r.ahead {
		return errNotAhead
	}
	before := map[int]int{}
	for _, d := range r.due {
		if d.stored != nil {
			before[d.index] = d.stored.Before
		}
	}
	for i := range records {
		index := r.index(records[i].Touchpoint)
		// The first attempt's time only matters where another one may follow.
		s := waypost.Sending{Before: before[index]}
		d, err := r.settle(&records[i], r.batch, r.version, r.hook, r.batch.Items[index], s, r.seed)
		if err != nil {
			return err
		}
		r.results[index] = d
	}
	if err := r.store.RecordAttempts(ctx, records); err != nil {
		return fmt.Errorf("record what is given up: %w", err)
	}
	return nil
}

// index finds an item; the first one of two that are alike.
func (r *batchRun) index(key waypost.Touchpoint) int {
	if r.indexes == nil {
		r.indexes = make(map[waypost.Touchpoint]int, len(r.batch.Items))
		for i, item := range slices.Backward(r.batch.Items) {
			r.indexes[item.touchpoint()] = i
		}
	}
	return r.indexes[key]
}

// open announces the attempts and starts a flight for each that this run opened.
func (r *batchRun) open(ctx context.Context, openings []waypost.Opening, passed pass) error {
	if len(openings) == 0 {
		return nil
	}
	waited, before := map[int]bool{}, map[int]int{}
	for _, d := range r.due {
		waited[d.index] = d.waited()
		if d.stored != nil {
			before[d.index] = d.stored.Before
		}
	}
	// The activity may end in the middle of it; what was committed by then would look as
	// if a process had died.
	opening, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	r.announced = true
	opened, err := r.store.OpenAttempts(opening, openings)
	if err != nil {
		return fmt.Errorf("announce attempts: %w", err)
	}
	for _, o := range openings {
		i := r.index(o.Touchpoint)
		s := opened[o.Touchpoint]
		if s.Capped {
			r.results[i] = r.skipped(i, s, o.At)
			continue
		}
		if s.Held || s.Open == nil || s.Open.By != r.process || s.Open.Attempt != o.Attempt {
			r.results[i] = r.refused(i, s)
			continue
		}
		r.flying[i] = r.own[i]
		delete(r.own, i)
		s.FirstAttemptAt, s.Before = s.FirstAttemptAt.Add(r.paused[i]), before[i]
		r.started++
		fl, item, p := r.flying[i], r.batch.Items[i], passed
		p.waited = waited[i]
		r.pilots.do(func() { r.fly(ctx, fl, r.batch, r.version, r.hook, item, s, p, r.seed) })
	}
	return nil
}

// refused answers for an item whose attempt was not opened, since another process or a run
// before this one was faster: with what came of that, or, if nothing has yet or if it was
// paused or canceled a moment ago, so that the next batch learns which.
func (r *batchRun) refused(i int, s waypost.Sending) Delivery {
	decided := s.Status.Final() || s.Status == waypost.DeliveryRetrying
	if decided && !s.Held && s.Open == nil && s.Round == r.batch.Items[i].round().Round {
		return r.recorded(i, s)
	}
	return r.answer(i, s, OutcomeUnderWay, "", r.now().UTC().Add(time.Second))
}

// stop takes those out of what is due who are canceled, exited or paused.
func (r *batchRun) stop(ctx context.Context) error {
	if len(r.due) == 0 {
		return nil
	}
	items := make([]Item, len(r.due))
	for i, d := range r.due {
		items[i] = r.batch.Items[d.index]
	}
	if items[0].redelivers() {
		return r.stopRounds(ctx)
	}
	s, err := r.stand(ctx, r.batch, items)
	if err != nil || len(s.controls) == 0 {
		return err
	}
	now := r.now().UTC()
	var going, paused []dueItem
	var canceled []waypost.Touchpoint
	var lost []waypost.AttemptRecord
	for i, d := range r.due {
		id := items[i].EnrollmentID
		outcome, _ := s.over(id)
		switch {
		case outcome != "": // findExits tells which
			if d.interrupted {
				lost = append(lost, interrupted(items[i].touchpoint(), r.batch.Scope, *d.stored))
			}
			canceled = append(canceled, items[i].touchpoint())
			r.results[d.index] = r.answer(d.index, waypost.Sending{}, OutcomeCanceled, "", time.Time{})
		case s.paused(id):
			paused = append(paused, d)
		default:
			going = append(going, d)
			if d.stored != nil && !d.stored.FirstAttemptAt.IsZero() {
				r.paused[d.index] = s.controls[id].PausedTime(d.stored.FirstAttemptAt, now)
			}
		}
	}
	r.due = going
	if err := r.store.RecordAttempts(ctx, lost); err != nil {
		return fmt.Errorf("record interrupted attempts: %w", err)
	}
	if len(canceled) > 0 {
		if err := r.store.CancelDeliveries(ctx, canceled); err != nil {
			return fmt.Errorf("cancel deliveries: %w", err)
		}
	}
	return r.holdBack(ctx, paused, waypost.DeferPaused, 0)
}

// passOverEnded takes those out of what is due whose enrollment has ended: their message
// was sent, and its record was dropped when its time was over, before the workflow heard
// of it. A frequency cap leaves no record of what it skips: there the enrollment's tells.
func (r *batchRun) passOverEnded(ctx context.Context) error {
	var sought []Item
	for _, d := range r.due {
		if d.sought {
			sought = append(sought, r.batch.Items[d.index])
		}
	}
	if len(sought) == 0 {
		return nil
	}
	enrollments, err := r.enrollmentsOf(ctx, sought)
	if err != nil {
		return err
	}
	r.due = slices.DeleteFunc(r.due, func(d dueItem) bool {
		e, there := enrollments[r.batch.Items[d.index].EnrollmentID]
		if !d.sought || there && (!e.Status.Ended() || !r.cap().None()) {
			return false
		}
		r.results[d.index] = r.answer(d.index, waypost.Sending{}, OutcomeCanceled, "", time.Time{})
		return true
	})
	return nil
}

// holdUnreadable defers those whose stored message cannot be decrypted: this process
// may lack a key that others have, or that comes back, and the rest of the batch does
// not wait for it.
func (r *batchRun) holdUnreadable(ctx context.Context) error {
	var going, unreadable []dueItem
	for _, d := range r.due {
		if d.stored == nil || d.stored.Unreadable == nil {
			going = append(going, d)
			continue
		}
		unreadable = append(unreadable, d)
		r.log.Warn("a message cannot be read", "message", d.stored.MessageID, "enrollment", r.batch.Items[d.index].EnrollmentID, "error", d.stored.Unreadable)
	}
	r.due = going
	return r.holdBack(ctx, unreadable, waypost.DeferUnreadable, 0)
}

const (
	minRecheck = 15 * time.Second
	maxRecheck = 10 * time.Minute
)

// holdBack defers touchpoints without an attempt. They are looked at again after
// wait, or, where nobody knows how long it takes, after a while that grows with the
// time they have waited; paused ones only when the workflow is told to.
func (r *batchRun) holdBack(ctx context.Context, due []dueItem, reason string, wait time.Duration) error {
	return r.postpone(ctx, due, reason, func(_ dueItem, now, since time.Time) time.Time {
		if reason == waypost.DeferPaused {
			return time.Time{}
		}
		until := now.Add(wait)
		if wait == 0 {
			until = now.Add(min(max(now.Sub(since)/4, minRecheck), maxRecheck))
		}
		// Of those who wait for the breaker everybody has a time of their own.
		if r.batch.Coalesce && reason != waypost.DeferBreaker {
			until = RoundUp(until, until.Sub(now)/4)
		}
		return until
	})
}

// keepOut holds back because of what the webhook says. It may have been changed, and
// those who wait may have been told, before they were written down: then they come
// again at once.
func (r *batchRun) keepOut(ctx context.Context, due []dueItem, reason string, wait time.Duration) error {
	if err := r.holdBack(ctx, due, reason, wait); err != nil || len(due) == 0 {
		return err
	}
	hook, err := r.webhook(ctx, r.batch.Scope, r.hook.ID)
	if err != nil {
		return err
	}
	if !hook.UpdatedAt.Equal(r.hook.UpdatedAt) {
		r.comeAgain(due)
	}
	return nil
}

// comeAgain has those who were held back tried again at once.
func (r *batchRun) comeAgain(due []dueItem) {
	for _, d := range due {
		r.results[d.index].Next = r.results[d.index].At
	}
}

// postpone defers touchpoints until the time that the function gives for each; since
// is when it was deferred first.
func (r *batchRun) postpone(ctx context.Context, due []dueItem, reason string, until func(d dueItem, now, since time.Time) time.Time) error {
	if len(due) == 0 {
		return nil
	}
	if r.ahead {
		return errNotAhead
	}
	now := r.now().UTC().Truncate(time.Millisecond)
	deferrals := make([]waypost.Deferral, len(due))
	for i, d := range due {
		item := r.batch.Items[d.index]
		since, s := now, waypost.Sending{}
		if d.stored != nil {
			s = *d.stored
			if s.Status == waypost.DeliveryDeferred && !s.DeferredSince.IsZero() {
				since = s.DeferredSince
			}
		}
		delivery := r.delivery(item, d.stored, now)
		s.MessageID = delivery.MessageID
		at := until(d, now, since)
		r.results[d.index] = r.answer(d.index, s, OutcomeDeferred, reason, at)
		after, entries := item.State, []waypost.TimelineEntry(nil)
		if !item.Deferred || reason == waypost.DeferQuietHours && !item.Quiet {
			var err error
			if after, entries, err = follow(r.version, item, r.results[d.index]); err != nil {
				return err
			}
		}
		deferrals[i] = waypost.Deferral{
			Touchpoint: item.touchpoint(), Round: item.Round, Scope: r.batch.Scope, Delivery: delivery,
			Reason: reason, At: now, Until: at, Progress: item.progress(after, entries),
		}
	}
	if err := r.store.RecordDeferrals(ctx, deferrals); err != nil {
		return fmt.Errorf("record deferrals: %w", err)
	}
	r.observe.Deferred(reason, len(due))
	return nil
}

// land waits for the flights. If others share the batch, slow receivers are waited
// for a few seconds only: they must not hold up the others' journeys. Nor must they
// hold up other webhooks': if too many batches wait already, this one answers, and
// comes again when the receiver may have answered.
func (r *batchRun) land(ctx context.Context) error {
	if len(r.flying) == 0 {
		return nil
	}
	var late <-chan time.Time
	local := r.activity.IsLocalActivity
	patient := !local && r.places.take(r.hook.ID)
	if patient {
		defer r.places.giveBack(r.hook.ID)
	}
	if !patient || len(r.batch.Items) > 1 {
		patience := glance
		switch {
		case local:
			if patience = r.localPatience; r.admit.PostTime(r.hook.ID) > r.localPatience {
				patience = 0
			}
		case patient:
			patience = r.stragglers
		}
		timer := time.NewTimer(patience)
		defer timer.Stop()
		late = timer.C
	}
	over := false
	for i, fl := range r.flying {
		if !over {
			select {
			case <-fl.landed:
			case <-late:
				over = true
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		select {
		case <-fl.landed:
			if fl.err != nil {
				return fmt.Errorf("record attempt of enrollment %s: %w", r.batch.Items[i].EnrollmentID, fl.err)
			}
			r.results[i] = fl.result
		default:
			var next time.Time // at once, by Temporal's clock: a regular activity waits on
			switch {
			case local:
			case patient:
				next = r.now().UTC().Add(underWayPause)
			default:
				next = r.now().UTC().Add(fl.expect(r.admit.PostTime(r.hook.ID)))
			}
			r.results[i] = r.answer(i, waypost.Sending{}, OutcomeUnderWay, "", next)
		}
	}
	return nil
}
