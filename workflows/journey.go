package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"waypost"
	"waypost/activities"
	"waypost/journey"
)

// JourneyInput is what a Journey workflow starts with and, in the same form,
// continues as new with. The definition travels in it, so that a run can be
// replayed from its history alone.
type JourneyInput struct {
	Scope      waypost.Scope   `json:"scope"`
	JourneyID  string          `json:"journey"`
	Version    int             `json:"version"`
	Name       string          `json:"name"`
	Definition json.RawMessage `json:"definition"`
	LaunchID   string          `json:"launch,omitempty"`
	Members    []Member        `json:"members"`
	Ahead      bool            `json:"ahead,omitempty"` // waypost.Cohort's
	Rules      int             `json:"rules"`           // those of this run
	// What the search attributes say already.
	Node     string   `json:"node,omitempty"`
	Webhook  string   `json:"webhook,omitempty"`
	Outcomes []string `json:"outcomes,omitempty"`
}

// Member is one enrollment of the cohort: where the interpreter has it, and what
// it waits for. State and Due tell what it needs next.
type Member struct {
	EnrollmentID string        `json:"enrollment"`
	LeadsID      int64         `json:"lead"`
	State        journey.State `json:"state,omitzero"`
	// Unrecorded are timeline entries that no activity has written yet.
	Unrecorded []waypost.TimelineEntry `json:"unrecorded,omitempty"`
	// Due is when the wait ends, or when the touchpoint is to be tried again; zero is
	// at once.
	Due     time.Time `json:"due,omitzero"`
	Outcome string    `json:"outcome,omitempty"` // of the last batch it was in
	Attempt int       `json:"attempt,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	// Since is when the wait or the touchpoint's turn began, Planned when it was to
	// end: what pauses move Due away from.
	Since   time.Time `json:"since,omitzero"`
	Planned time.Time `json:"planned,omitzero"`
	// Waited says that it has spent time in a wait.
	Waited bool `json:"waited,omitempty"`
	// Paused says that nothing is done until the workflow is woken for it.
	Paused bool `json:"paused,omitempty"`
	// Woken says that something has changed that is to be looked at.
	Woken bool `json:"woken,omitempty"`
	// Ending says that it has ended but for the touchpoint that it is at: once that is
	// decided it is looked at.
	Ending bool `json:"ending,omitempty"`
	// Carried is what it begins with if it comes from another version.
	Carried *activities.Carried `json:"carried,omitempty"`
}

// rules are those of new runs. A history replays only with the commands that it was
// recorded with, in their order. So a change of what a Journey asks of Temporal, or of what
// journey.Step returns, is a new rule:
//
//   - The constant grows by one, and the list below says what is new.
//   - The code asks for c.in.Rules where the new way differs. Activities take the same steps
//     (activities.follow): if those change, activities.Batch names the rules, too.
//   - Histories of the new rule are recorded (updateHistories in devstack/e2e); those of the
//     rules before stay, and replay.
//
// A run that continues as new takes the newest rules. Until v1.0.0 no history is older than
// its build: a change needs no new rule, and all histories are recorded anew.
//
// The rules:
//
//   - 1 is the first.
const rules = 1

// Wake is what a SignalWake carries: who is to be looked at, and which events are
// the reason. Without enrollments, all are.
type Wake struct {
	Enrollments []string `json:"enrollments,omitempty"`
	Events      []string `json:"events,omitempty"`
}

const (
	// deliverChunk is the number of touchpoints in one activity. Another number is a new
	// rule.
	deliverChunk = 100
	// A batch is bounded by the receivers' time-outs (two minutes at most); its
	// heartbeats tell within seconds that its process has died.
	batchTimeout     = 5 * time.Minute
	heartbeatTimeout = 10 * time.Second
	// A quick activity asks the database only. It runs within the workflow task, and
	// apart from it if the database does not answer: quickTimeout bounds all of its
	// attempts. One that begins within quickBegins ends before four fifths of the shortest
	// workflow task (singleTaskTimeout) are over, when the SDK would extend it.
	quickTimeout  = 3 * time.Second
	quickBegins   = 500 * time.Millisecond
	quickAttempts = 2
)

// Journey drives a cohort of 1 to 200 enrollments through one version of a
// journey. It carries out what the interpreter asks for and does nothing by
// itself: touchpoints and conditions that are due together go out as batches,
// what failed comes again in waves, and everything else is a timer. A signal
// (SignalWake) only has it look at what is recorded.
func Journey(ctx workflow.Context, in JourneyInput) (JourneyResult, error) {
	if in.Rules < 1 || in.Rules > rules {
		// Failing the task, as below, leaves the run to a newer build, which has begun it.
		panic(fmt.Sprintf("the run has rules %d, and this build knows 1 to %d", in.Rules, rules))
	}
	result, err := newCohort(in).run(ctx)
	var again *workflow.ContinueAsNewError
	if err != nil && !errors.As(err, &again) && !temporal.IsCanceledError(err) {
		// No journey can cause it: this build cannot go on with what another one wrote,
		// or the other way round. Failing the task, which is tried again until a build
		// can, and not the workflow loses nobody.
		panic(err)
	}
	return result, err
}

func (c *cohort) run(ctx workflow.Context) (JourneyResult, error) {
	if err := c.start(ctx); err != nil {
		return JourneyResult{}, err
	}
	for {
		full := workflow.GetInfo(ctx).GetContinueAsNewSuggested()
		if !full {
			c.dispatch(ctx)
		}
		c.reach()
		// Hardly anything is told to Temporal before local activities have ended.
		pausing := c.locals == 0
		if pausing {
			if err := c.show(ctx); err != nil {
				return JourneyResult{}, err
			}
		}
		if c.inFlight == 0 {
			if c.ended() {
				return c.result(), nil
			}
			if full {
				c.in.Rules = rules
				return JourneyResult{}, workflow.NewContinueAsNewError(ctx, TypeJourney, c.in)
			}
		}
		if pausing && !full {
			c.setTimer(ctx)
		}
		if err := c.wait(ctx); err != nil {
			return JourneyResult{}, err
		}
		if ctx.Err() != nil {
			return JourneyResult{}, c.cancel(ctx)
		}
	}
}

// cancel cancels everybody who is left: an operator canceled the workflow.
func (c *cohort) cancel(ctx workflow.Context) error {
	var left []int
	for i := range c.in.Members {
		if c.in.Members[i].State.Phase != journey.PhaseDone {
			left = append(left, i)
		}
	}
	if len(left) > 0 {
		apart, stop := workflow.NewDisconnectedContext(ctx)
		defer stop()
		apart = c.activityOptions(apart, "cancel "+count(len(left), "lead"), "")
		if err := workflow.ExecuteActivity(apart, activitiesOf.CancelBatch, c.batch("", left)).Get(apart, nil); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// cohort is a Journey workflow at work.
type cohort struct {
	in     JourneyInput
	def    *journey.Definition
	locals int // of the batches under way
	batches
	// What the search attributes are to say.
	node, webhook string
}

func newCohort(in JourneyInput) *cohort {
	// The checker follows the JSON decoder down to the runtime's garbage collector;
	// what Parse returns depends on the bytes alone, which its property tests show.
	//workflowcheck:ignore
	def, err := published.definition(in.JourneyID, in.Version, in.Definition)
	if err != nil {
		panic(err.Error()) // see Journey for why
	}
	return &cohort{in: in, def: def, batches: batches{busy: make([]bool, len(in.Members))}, node: in.Node, webhook: in.Webhook}
}

// start enters the journey with those who have not begun, and goes on with those who
// come from another version.
func (c *cohort) start(ctx workflow.Context) error {
	c.listen(ctx, c.woken)
	for i := range c.in.Members {
		if c.in.Members[i].Carried != nil {
			if err := c.arrive(i); err != nil {
				return err
			}
		}
		if c.in.Members[i].State.Phase != "" {
			continue
		}
		if err := c.step(i, journey.Input{Kind: journey.InputStart, At: workflow.Now(ctx)}); err != nil {
			return err
		}
	}
	return nil
}

// woken notes who is to be looked at.
func (c *cohort) woken(w Wake) {
	for i := range c.in.Members {
		m := &c.in.Members[i]
		if m.State.Phase != journey.PhaseDone && (len(w.Enrollments) == 0 || slices.Contains(w.Enrollments, m.EnrollmentID)) {
			m.Woken = true
		}
	}
}

// step feeds one input to the interpreter and keeps what it asks for.
func (c *cohort) step(i int, in journey.Input) error {
	m := &c.in.Members[i]
	state, effect, err := journey.Step(c.def, m.State, in)
	if err != nil {
		return fmt.Errorf("step enrollment %s: %w", m.EnrollmentID, err)
	}
	m.State, m.Due, m.Outcome, m.Attempt, m.Reason = state, time.Time{}, "", 0, ""
	m.Since, m.Planned, m.Paused = in.At, time.Time{}, false
	switch in.Kind {
	case journey.InputElapsed, journey.InputMatched, journey.InputMoved, journey.InputChanged:
		m.Waited = true
	}
	m.Unrecorded = append(m.Unrecorded, effect.Entries...)
	switch effect.Command.Kind {
	case journey.CommandWait:
		m.Planned = effect.Command.Until
		// One that depends on the lead is registered at once, by a look.
		if n, _ := c.def.Node(m.State.Node); len(n.Followed()) == 0 {
			m.Due = c.wave(n.ID, in.At, m.Planned)
		}
	case journey.CommandAwait:
		// The wait is registered at once, by a look.
		m.Planned = effect.Command.Until
	}
	return nil
}

// wave is when a wait ends: in a cohort with those that end at nearly the same
// time. A waitUntil ends when the clock says so, or within a second: those who wait
// for one time of day end together as it is.
func (c *cohort) wave(node string, since, due time.Time) time.Time {
	if len(c.in.Members) == 1 {
		return due
	}
	if n, ok := c.def.Node(node); !ok || n.Type != journey.WaitUntil {
		return activities.RoundUp(due, due.Sub(since)/10)
	}
	if second := due.Truncate(time.Second); !second.Equal(due) {
		return second.Add(time.Second)
	}
	return due
}

// dispatch sends everything that is due.
func (c *cohort) dispatch(ctx workflow.Context) {
	now := workflow.Now(ctx)
	var send, decide groups
	var look, record []int
	for i := range c.in.Members {
		m := &c.in.Members[i]
		if c.busy[i] {
			continue
		}
		waits := m.State.Phase == journey.PhaseWait || m.State.Phase == journey.PhaseAwait
		switch {
		case m.State.Phase != journey.PhaseDone && (m.Woken || waits && !m.Paused && !m.Due.After(now)):
			look = append(look, i)
		case m.Paused && len(m.Unrecorded) > 0:
			record = append(record, i)
		case m.Paused:
		case m.State.Phase == journey.PhaseSend:
			if !m.Due.After(now) {
				send.add(m.State.Node, i)
			}
		case m.State.Phase == journey.PhaseDecide:
			decide.add(m.State.Node, i)
		case len(m.Unrecorded) > 0:
			record = append(record, i)
		}
	}
	if len(look) > 0 {
		c.look(ctx, look)
	}
	for _, g := range decide {
		c.decide(ctx, g.node, g.members)
	}
	for _, g := range send {
		for len(g.members) > 0 {
			n := min(deliverChunk, len(g.members))
			c.deliver(ctx, g.node, g.members[:n])
			g.members = g.members[n:]
		}
	}
	if len(record) > 0 {
		c.record(ctx, record)
	}
}

// groups collects members by node, in the order in which they come.
type groups []group

type group struct {
	node    string
	members []int
}

func (g *groups) add(node string, member int) {
	for i := range *g {
		if (*g)[i].node == node {
			(*g)[i].members = append((*g)[i].members, member)
			return
		}
	}
	*g = append(*g, group{node, []int{member}})
}

func (c *cohort) deliver(ctx workflow.Context, node string, members []int) {
	webhook := ""
	if n, ok := c.def.Node(node); ok {
		webhook = n.Webhook
	}
	title := fmt.Sprintf("%s → %s, %s", node, webhook, count(len(members), "lead"))
	if attempt := c.in.Members[members[0]].Attempt; attempt > 0 {
		title = fmt.Sprintf("%s → %s, attempt %d, %s", node, webhook, attempt+1, count(len(members), "lead"))
	}
	batch := c.batch(node, members)
	delivered := func(ctx workflow.Context, answer workflow.Future) error {
		var deliveries []activities.Delivery
		if err := answer.Get(ctx, &deliveries); err != nil {
			return err
		}
		if len(deliveries) != len(members) {
			return fmt.Errorf("DeliverBatch answered for %d of %d enrollments", len(deliveries), len(members))
		}
		for n, i := range members {
			if err := c.delivered(ctx, i, deliveries[n]); err != nil {
				return err
			}
		}
		return nil
	}
	// Most receivers have answered before a regular activity would have been dispatched.
	if !slices.ContainsFunc(members, c.lasting) {
		c.quick(ctx, title, webhook, activitiesOf.DeliverBatch, batch, members, delivered)
		return
	}
	c.regular(ctx, title, webhook, activitiesOf.DeliverBatch, batch, members, delivered)
}

// chained is the shortest retry that is left to a local activity: one that is due sooner
// might be carried out in the task of the attempt before, and the next one too, and
// nothing of them would be in the history until that task ends.
const chained = 500 * time.Millisecond

// lasting tells whether a member's touchpoint may take long: what was under way or held
// back when it was asked for before. What is new, and what comes again when it was planned
// to, is not.
func (c *cohort) lasting(i int) bool {
	m := &c.in.Members[i]
	if m.Outcome == activities.OutcomeRetrying {
		return !m.Due.Equal(m.Planned) || m.Planned.Sub(m.Since) < chained
	}
	return !m.fresh()
}

// fresh tells whether no batch has had the member's touchpoint yet.
func (m *Member) fresh() bool { return m.Outcome == "" && m.Due.IsZero() }

// delivered takes over what came of one touchpoint.
func (c *cohort) delivered(ctx workflow.Context, i int, d activities.Delivery) error {
	m := &c.in.Members[i]
	if !d.Decided() {
		d.Next = nextTime(ctx, d, m.Attempt)
		if d.Outcome == activities.OutcomeUnderWay {
			// Whether its entries were written is known only once it has landed.
			m.Due = d.Next
			return nil
		}
		since, planned := m.Since, m.Planned
		if d.Outcome == activities.OutcomeDeferred && (m.Outcome != d.Outcome || d.Reason == waypost.DeferQuietHours && !m.quiet()) {
			if err := c.step(i, d.Input()); err != nil {
				return err
			}
		}
		m.Unrecorded, m.Due, m.Outcome, m.Attempt, m.Reason = nil, d.Next, d.Outcome, d.Attempt, d.Reason
		switch {
		case d.Outcome == activities.OutcomeRetrying:
			m.Since, m.Planned = d.At, d.Next
		case d.Reason == waypost.DeferPaused:
			// When it was due is still what counts.
			m.Since, m.Planned, m.Paused = since, planned, true
		default:
			m.Since, m.Planned = d.At, time.Time{}
		}
		return nil
	}
	if err := c.step(i, d.Input()); err != nil {
		return err
	}
	// The activity computed the same step and wrote it with the outcome. Who ended an
	// enrollment early has written that.
	m.Unrecorded = nil
	if d.Exited {
		m.State.Status = waypost.EnrollmentExited
	}
	if m.Ending && m.State.Phase != journey.PhaseDone {
		m.Ending, m.Woken = false, true
	}
	return nil
}

// quiet tells whether a member is held back for quiet hours.
func (m *Member) quiet() bool {
	return m.Outcome == activities.OutcomeDeferred && m.Reason == waypost.DeferQuietHours
}

// look has an activity find out how members go on: who is woken, whose wait
// is over, and who begins to wait for an event or for a time that depends on the lead.
func (c *cohort) look(ctx workflow.Context, members []int) {
	batch := c.batch("", members)
	batch.Now = workflow.Now(ctx)
	for n, i := range members {
		batch.Items[n].Woken = c.in.Members[i].Woken
		c.in.Members[i].Woken = false
	}
	c.quick(ctx, "look at "+count(len(members), "lead"), "", activitiesOf.LookBatch, batch, members, func(ctx workflow.Context, answer workflow.Future) error {
		var findings []activities.Finding
		if err := answer.Get(ctx, &findings); err != nil {
			return err
		}
		if len(findings) != len(members) {
			return fmt.Errorf("LookBatch answered for %d of %d enrollments", len(findings), len(members))
		}
		var ordered []int
		for n, i := range members {
			if err := c.found(ctx, i, findings[n]); err != nil {
				return err
			}
			if findings[n].Outcome == activities.FoundOrdered {
				ordered = append(ordered, i)
			}
		}
		if len(ordered) > 0 {
			c.move(ctx, ordered)
		}
		return nil
	})
}

// found takes over what a look found out about a member.
func (c *cohort) found(ctx workflow.Context, i int, f activities.Finding) error {
	m := &c.in.Members[i]
	m.Unrecorded, m.Paused = nil, false // what there was is written
	at := workflow.Now(ctx)
	switch f.Outcome {
	case activities.OutcomeCanceled:
		return c.step(i, journey.Input{Kind: journey.InputCanceled, At: at})
	case activities.OutcomeExited:
		err := c.step(i, journey.Input{Kind: journey.InputExited, At: at, Reason: f.Reason})
		m.Unrecorded = nil // the event's acceptance has written it
		return err
	case activities.FoundPaused:
		m.Paused = true
	case activities.FoundChanged:
		return c.step(i, journey.Input{Kind: journey.InputChanged, At: f.At, Until: f.Due, Reason: f.Reason})
	case activities.FoundMatched:
		return c.step(i, journey.Input{Kind: journey.InputMatched, At: at, Reason: f.Reason})
	case activities.FoundOver, activities.FoundTimedOut:
		reason := m.Reason
		if f.Reason != "" {
			reason = f.Reason
		}
		return c.step(i, journey.Input{Kind: journey.InputElapsed, At: at, Reason: reason})
	default:
		if f.Reason != "" {
			m.Reason = f.Reason // told when the time has run out
		}
		m.Due, m.Ending = f.Due, f.Ending
		if m.State.Phase == journey.PhaseWait || m.State.Phase == journey.PhaseAwait {
			m.Due = c.wave(m.State.Node, m.Since, f.Due)
		}
	}
	return nil
}

// decide has an activity find out how members go on at a node that is passed at
// once: a branch, a waitUntil, a split or an enroll.
func (c *cohort) decide(ctx workflow.Context, node string, members []int) {
	batch := c.batch(node, members)
	batch.Now = workflow.Now(ctx)
	for n := range batch.Items {
		batch.Items[n].Unrecorded = nil // the timeline is not written here
	}
	var activity any = activitiesOf.DecideBatch
	name, title := "DecideBatch", node+": conditions"
	switch n, _ := c.def.Node(node); n.Type {
	case journey.WaitUntil:
		title = node + ": until when"
	case journey.Split:
		title = node + ": split"
	case journey.Enroll:
		activity, name, title = activitiesOf.EnrollBatch, "EnrollBatch", node+" → journey "+n.Journey
		for n, i := range members {
			batch.Items[n].Waited = c.in.Members[i].Waited
		}
	}
	title += ", " + count(len(members), "lead")
	c.quick(ctx, title, "", activity, batch, members, func(ctx workflow.Context, answer workflow.Future) error {
		var decisions []activities.Decision
		if err := answer.Get(ctx, &decisions); err != nil {
			return err
		}
		if len(decisions) != len(members) {
			return fmt.Errorf("%s answered for %d of %d enrollments", name, len(decisions), len(members))
		}
		for n, i := range members {
			if err := c.decided(i, decisions[n]); err != nil {
				return err
			}
		}
		return nil
	})
}

// decided takes over how a member goes on.
func (c *cohort) decided(i int, d activities.Decision) error {
	switch d.Stopped {
	case activities.FoundPaused:
		c.in.Members[i].Paused = true
		return nil
	case activities.OutcomeCanceled:
		return c.step(i, journey.Input{Kind: journey.InputCanceled, At: d.At})
	case activities.OutcomeExited:
		return c.step(i, journey.Input{Kind: journey.InputExited, At: d.At, Reason: d.Reason})
	}
	return c.step(i, d.Input())
}

// record writes the timeline of members that wait or have ended. They are not
// busy meanwhile: a delay may end before the write does.
func (c *cohort) record(ctx workflow.Context, members []int) {
	batch := c.batch("", members)
	for _, i := range members {
		c.in.Members[i].Unrecorded = nil
	}
	c.quick(ctx, "timeline, "+count(len(members), "lead"), "", activitiesOf.RecordBatch, batch, nil, func(ctx workflow.Context, answer workflow.Future) error {
		return answer.Get(ctx, nil)
	})
}

// quick runs an activity that only asks the database, or waits for receivers for a
// moment only: as a local activity, which is one event instead of six, and as a regular
// one if that fails. The checker is given the activity's name by the SDK.
func (c *cohort) quick(ctx workflow.Context, title, webhook string, activity any, batch activities.Batch, members []int, done func(workflow.Context, workflow.Future) error) {
	// What ran before it in the same task may have taken long: each local activity that has
	// ended moves the workflow's clock on.
	if workflow.Now(ctx).Sub(c.taskBegan) > quickBegins {
		c.regular(ctx, title, webhook, activity, batch, members, done)
		return
	}
	answer := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: quickTimeout,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, MaximumAttempts: quickAttempts},
		Summary:                title,
	}), activity, batch)
	c.locals++
	c.expect(ctx, answer, members, func(ctx workflow.Context) error {
		c.locals--
		if err := answer.Get(ctx, nil); err != nil && !temporal.IsCanceledError(err) {
			c.regular(ctx, title, webhook, activity, batch, members, done)
			return nil
		}
		return done(ctx, answer)
	})
}

// regular runs an activity that may take its time.
func (c *cohort) regular(ctx workflow.Context, title, webhook string, activity any, batch activities.Batch, members []int, done func(workflow.Context, workflow.Future) error) {
	answer := workflow.ExecuteActivity(c.activityOptions(ctx, title, webhook), activity, batch)
	c.expect(ctx, answer, members, func(ctx workflow.Context) error {
		c.taskBegan = workflow.Now(ctx)
		return done(ctx, answer)
	})
}

// batch is the input of an activity for these members.
func (c *cohort) batch(node string, members []int) activities.Batch {
	b := activities.Batch{
		Scope: c.in.Scope, JourneyID: c.in.JourneyID, Version: c.in.Version, LaunchID: c.in.LaunchID, NodeID: node,
		Coalesce: len(c.in.Members) > 1,
		Items:    make([]activities.Item, len(members)),
	}
	for n, i := range members {
		m := c.in.Members[i]
		m.State.Path = nil // activities do not need it
		b.Items[n] = activities.Item{
			EnrollmentID: m.EnrollmentID, LeadsID: m.LeadsID, State: m.State, Unrecorded: m.Unrecorded,
			Since: m.Since, Planned: m.Planned, Deferred: m.Outcome == activities.OutcomeDeferred, Quiet: m.quiet(),
			Fresh: m.fresh(), Ahead: c.in.Ahead && m.State.Visit == 1,
		}
	}
	return b
}

// activitiesOf only names the activities' methods.
var activitiesOf *activities.Activities

func (c *cohort) activityOptions(ctx workflow.Context, title, webhook string) workflow.Context {
	p := priority(c.in.Scope.Org, c.in.LaunchID, len(c.in.Members))
	if webhook != "" {
		p.FairnessKey = webhook
	}
	options := tireless(batchTimeout, title)
	options.Priority = p
	return workflow.WithActivityOptions(ctx, options)
}

// setTimer sets the timer for what is due first.
func (c *cohort) setTimer(ctx workflow.Context) {
	var first time.Time
	var what string
	for i, m := range c.in.Members {
		waits := m.State.Phase == journey.PhaseWait || m.State.Phase == journey.PhaseAwait || m.State.Phase == journey.PhaseSend
		if waits && !m.Paused && !c.busy[i] && (first.IsZero() || m.Due.Before(first)) {
			first, what = m.Due, m.State.Node+": delay"
			if n, _ := c.def.Node(m.State.Node); n.Type == journey.WaitUntil {
				what = m.State.Node
			}
			switch m.State.Phase {
			case journey.PhaseSend:
				what = fmt.Sprintf("%s: after attempt %d (%s)", m.State.Node, m.Attempt, m.Reason)
			case journey.PhaseAwait:
				what = m.State.Node + ": event"
			}
		}
	}
	c.wakeAt(ctx, first, what)
}

func (c *cohort) ended() bool {
	for i := range c.in.Members {
		m := &c.in.Members[i]
		if m.State.Phase != journey.PhaseDone || len(m.Unrecorded) > 0 {
			return false
		}
	}
	return true
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
