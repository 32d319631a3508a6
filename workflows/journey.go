package workflows

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"waypost"
	"waypost/activities"
	"waypost/delivery"
	"waypost/journey"
	"waypost/journey/nodes"
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
	Rules      int             `json:"rules"` // those of this run
	Shown
}

// Member is one enrollment of the cohort: where the interpreter has it, and what
// it waits for. State and Due tell what it needs next.
type Member struct {
	EnrollmentID string        `json:"enrollment"`
	LeadsID      int64         `json:"lead"`
	State        journey.State `json:"state,omitzero"`
	// Unrecorded are timeline entries that no activity has written yet.
	Unrecorded []waypost.TimelineEntry `json:"unrecorded,omitempty"`
	Turn
	// Since is when the wait or the touchpoint's turn began, Planned when it was to
	// end: what pauses move Due away from.
	Since   time.Time `json:"since,omitzero"`
	Planned time.Time `json:"planned,omitzero"`
	// Waited says that it has spent time in a wait, in one for an event or a condition at least
	// leastWait.
	Waited bool `json:"waited,omitempty"`
	// Paused says that nothing is done until the workflow is woken for it.
	Paused bool `json:"paused,omitempty"`
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
//     and record them: if those change, delivery.Batch names the rules, too.
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

// leastWait is how long an enrollment must be at a waitForEvent or a waitFor that is matched, to
// count as having waited. An event that was there already, or that the enrollment emitted, matches
// sooner: counted as a wait, it would let enrollments begin each other without end.
const leastWait = time.Second

// deliverChunk is the number of touchpoints in one activity. Another number is a new rule.
const deliverChunk = 100

// Journey drives a cohort of 1 to 200 enrollments through one version of a
// journey. It carries out what the interpreter asks for and does nothing by
// itself: touchpoints and conditions that are due together go out as batches,
// what failed comes again in waves, and everything else is a timer. A signal
// (SignalWake) only has it look at what is recorded.
func Journey(ctx workflow.Context, in JourneyInput) (JourneyResult, error) {
	if in.Rules < 1 || in.Rules > rules {
		// That fails the task, and leaves the run to a build that knows them; see run.
		panic(fmt.Sprintf("the run has rules %d, and this build knows 1 to %d", in.Rules, rules))
	}
	c := newCohort(in)
	c.start(ctx)
	if err := c.run(ctx, c); err != nil {
		return JourneyResult{}, err
	}
	return c.result(), nil
}

// cohort is a Journey workflow at work.
type cohort struct {
	in  JourneyInput
	def *journey.Definition
	loop
	reached Shown // what the search attributes are to say, but for outcomes
}

func newCohort(in JourneyInput) *cohort {
	// The checker follows the JSON decoder down to the runtime's garbage collector;
	// what Parse returns depends on the bytes alone, which its property tests show.
	//workflowcheck:ignore
	def, err := definitionOf(in.JourneyID, in.Version, in.Definition)
	if err != nil {
		panic(err.Error()) // see run for why
	}
	return &cohort{in: in, def: def, loop: newLoop(len(in.Members), cohortPriority(in)), reached: in.Shown}
}

// start enters the journey with the members that have not begun, and goes on with those
// that come from another version.
func (c *cohort) start(ctx workflow.Context) {
	for i := range c.in.Members {
		var err error
		switch m := &c.in.Members[i]; {
		case m.Carried != nil:
			err = c.arrive(i)
		case m.State.Phase == "":
			err = c.step(i, journey.Input{Kind: journey.InputStart, At: workflow.Now(ctx)})
		}
		if err != nil {
			panic(err) // see run for why
		}
	}
}

// woken notes which members are to be looked at.
func (c *cohort) woken(_ workflow.Context, w Wake) {
	for _, i := range c.left() {
		m := &c.in.Members[i]
		m.Woken = m.Woken || len(w.Enrollments) == 0 || slices.Contains(w.Enrollments, m.EnrollmentID)
	}
}

// left are the members that are not done.
func (c *cohort) left() (left []int) {
	for i := range c.in.Members {
		if c.in.Members[i].State.Phase != journey.PhaseDone {
			left = append(left, i)
		}
	}
	return left
}

func (c *cohort) continueAsNew(ctx workflow.Context) error {
	c.in.Rules = rules
	return workflow.NewContinueAsNewError(ctx, TypeJourney, c.in)
}

func (c *cohort) cancel(ctx workflow.Context) error {
	left := c.left()
	return c.cancelMembers(ctx, "cancel "+count(len(left), "lead"), activitiesOf.CancelBatch, c.batch("", left))
}

func (c *cohort) ended(workflow.Context) bool {
	unrecorded := func(m Member) bool { return len(m.Unrecorded) > 0 }
	return len(c.left()) == 0 && !slices.ContainsFunc(c.in.Members, unrecorded)
}

func (c *cohort) setTimer(ctx workflow.Context) {
	i := c.soonest(func(i int) (time.Time, bool) {
		m := &c.in.Members[i]
		return m.Due, !m.Paused && (m.State.EnrollmentStatus() == waypost.EnrollmentWaiting || m.State.Phase == journey.PhaseSend)
	})
	if i < 0 {
		return
	}
	m := &c.in.Members[i]
	what := m.State.Node
	switch n, _ := c.def.Node(m.State.Node); n.Description().Waits {
	case nodes.ForTime:
		what += ": delay"
	case nodes.ForEvent, nodes.ForCondition:
		what += ": " + string(n.Description().Waits)
	}
	if m.State.Phase == journey.PhaseSend {
		what = fmt.Sprintf("%s: after attempt %d (%s)", m.State.Node, m.Attempt, m.Reason)
	}
	c.wakeAt(ctx, m.Due, what)
}

// step feeds one input to the interpreter and keeps what it asks for.
func (c *cohort) step(i int, in journey.Input) error {
	m := &c.in.Members[i]
	state, effect, err := journey.Step(c.def, m.State, in)
	if err != nil {
		return fmt.Errorf("step enrollment %s: %w", m.EnrollmentID, err)
	}
	switch in.Kind {
	case journey.InputElapsed, journey.InputMoved, journey.InputChanged:
		m.Waited = true
	case journey.InputMatched:
		m.Waited = m.Waited || in.At.Sub(m.Since) >= leastWait
	}
	m.State, m.Turn = state, Turn{Woken: m.Woken}
	m.Since, m.Planned, m.Paused = in.At, time.Time{}, false
	m.Unrecorded = append(m.Unrecorded, effect.Entries...)
	switch effect.Command.Kind {
	case journey.CommandWait:
		m.Planned = effect.Command.Until
		// A wait that depends on the lead has no timer yet: a look registers it at once.
		if n, _ := c.def.Node(m.State.Node); len(n.Followed()) == 0 {
			m.Due = c.wave(n.ID, in.At, m.Planned)
		}
	case journey.CommandAwait:
		// The wait is registered at once, by a look.
		m.Planned = effect.Command.Until
	}
	return nil
}

// wave is when a wait ends: in a cohort at the same time as waits that end at nearly that
// time. A waitUntil ends within a second of its time, because its members wait for the same
// time of day anyway.
func (c *cohort) wave(node string, since, due time.Time) time.Time {
	if len(c.in.Members) == 1 {
		return due
	}
	if n, ok := c.def.Node(node); !ok || n.Description().Waits != nodes.ForClock {
		return delivery.RoundUp(due, due.Sub(since)/10)
	}
	if second := due.Truncate(time.Second); !second.Equal(due) {
		return second.Add(time.Second)
	}
	return due
}

// dispatch starts activities for the members that are due and in none: one look, a decision for each
// node, and messages in batches of deliverChunk. A paused member only has its timeline written.
func (c *cohort) dispatch(ctx workflow.Context) {
	now := workflow.Now(ctx)
	var send, decide groups
	var look, record []int
	for i := range c.in.Members {
		m := &c.in.Members[i]
		if c.busy[i] {
			continue
		}
		waits := m.State.EnrollmentStatus() == waypost.EnrollmentWaiting
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
		c.decide(ctx, g.key, g.members)
	}
	for _, g := range send {
		for members := range slices.Chunk(g.members, deliverChunk) {
			c.deliver(ctx, g.key, members)
		}
	}
	if len(record) > 0 {
		c.record(ctx, record)
	}
}

func (c *cohort) deliver(ctx workflow.Context, node string, members []int) {
	n, _ := c.def.Node(node)
	title := fmt.Sprintf("%s → %s, %s", node, n.Webhook, count(len(members), "lead"))
	if attempt := c.in.Members[members[0]].Attempt; attempt > 0 {
		title = fmt.Sprintf("%s → %s, attempt %d, %s", node, n.Webhook, attempt+1, count(len(members), "lead"))
	}
	send := call{
		activity: activitiesOf.DeliverBatch, title: title, webhook: n.Webhook, batch: c.batch(node, members), members: members,
		answered: forEach(members, c.delivered),
	}
	// Most receivers have answered before a regular activity would have been dispatched.
	if slices.ContainsFunc(members, c.lasting) {
		c.regular(ctx, send)
		return
	}
	c.quick(ctx, send)
}

// chained is the shortest retry that is left to a local activity: one that is due sooner
// might be carried out in the task of the attempt before, and the next one too, and
// nothing of them would be in the history until that task ends.
const chained = 500 * time.Millisecond

// lasting tells whether a member's touchpoint may take long, because it was under way or held
// back when a batch had it before. A new touchpoint and a retry at its planned time may not.
func (c *cohort) lasting(i int) bool {
	m := &c.in.Members[i]
	if m.Outcome == delivery.OutcomeRetrying {
		return !m.Due.Equal(m.Planned) || m.Planned.Sub(m.Since) < chained
	}
	return !m.unsent()
}

// unsent tells whether no batch has had the member's touchpoint yet.
func (m *Member) unsent() bool { return m.Outcome == "" && m.Due.IsZero() }

// delivered takes over what came of one touchpoint.
func (c *cohort) delivered(ctx workflow.Context, i int, d delivery.Result) error {
	m := &c.in.Members[i]
	if !d.Decided() {
		d.Next = m.next(ctx, d)
		if d.Outcome == delivery.OutcomeUnderWay {
			// Whether its entries were written is known only once it has landed.
			m.Due = d.Next
			return nil
		}
		since, planned := m.Since, m.Planned
		if d.Outcome == delivery.OutcomeDeferred && (m.Outcome != d.Outcome || d.Reason == waypost.DeferQuietHours && !m.quiet()) {
			if err := c.step(i, d.Input()); err != nil {
				return err
			}
		}
		m.Unrecorded, m.Due, m.Outcome, m.Attempt, m.Reason = nil, d.Next, d.Outcome, d.Attempt, d.Reason
		switch {
		case d.Outcome == delivery.OutcomeRetrying:
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
	// The activity computed the same step and wrote it with the outcome. An early end was
	// written by the call or the event that ended the enrollment.
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
	return m.Outcome == delivery.OutcomeDeferred && m.Reason == waypost.DeferQuietHours
}

// look has an activity find out how members go on that are woken, whose wait is over, or
// that begin to wait for an event, a condition, or a time that depends on the lead.
func (c *cohort) look(ctx workflow.Context, members []int) {
	batch := c.batch("", members)
	batch.Now = workflow.Now(ctx)
	for n, i := range members {
		batch.Items[n].Woken = c.in.Members[i].Woken
		c.in.Members[i].Woken = false
	}
	var ordered []int
	found := forEach(members, func(ctx workflow.Context, i int, f activities.Finding) error {
		if f.Outcome == activities.FoundOrdered {
			ordered = append(ordered, i)
		}
		return c.found(ctx, i, f)
	})
	answered := func(ctx workflow.Context, answer workflow.Future) error {
		err := found(ctx, answer)
		if err == nil && len(ordered) > 0 {
			c.move(ctx, ordered)
		}
		return err
	}
	title := "look at " + count(len(members), "lead")
	c.quick(ctx, call{activity: activitiesOf.LookBatch, title: title, batch: batch, members: members, answered: answered})
}

// found takes over what a look found out about a member.
func (c *cohort) found(ctx workflow.Context, i int, f activities.Finding) error {
	m := &c.in.Members[i]
	m.Unrecorded, m.Paused = nil, false // LookBatch has written the entries
	at := workflow.Now(ctx)
	switch f.Outcome {
	case delivery.OutcomeCanceled:
		return c.step(i, journey.Input{Kind: journey.InputCanceled, At: at})
	case delivery.OutcomeExited:
		err := c.step(i, journey.Input{Kind: journey.InputExited, At: at, Reason: f.Reason})
		m.Unrecorded = nil // the event's acceptance has written it
		return err
	case activities.FoundPaused:
		m.Paused = true
	case activities.FoundChanged:
		return c.step(i, journey.Input{Kind: journey.InputChanged, At: f.At, Until: f.Due, Reason: f.Reason})
	case activities.FoundMatched:
		return c.step(i, journey.Input{Kind: journey.InputMatched, At: at, Arm: f.Arm, Reason: f.Reason})
	case activities.FoundOver, activities.FoundTimedOut:
		return c.step(i, journey.Input{Kind: journey.InputElapsed, At: at, Reason: cmp.Or(f.Reason, m.Reason)})
	default:
		m.Reason = cmp.Or(f.Reason, m.Reason) // for the timeline, if the time runs out
		m.Due, m.Ending = f.Due, f.Ending
		if m.State.EnrollmentStatus() == waypost.EnrollmentWaiting {
			m.Due = c.wave(m.State.Node, m.Since, f.Due)
		}
	}
	return nil
}

// decide has an activity find out how members go on at a node that is passed at
// once: a branch, a waitUntil, a split, an enroll, an updateLead or an emit.
func (c *cohort) decide(ctx workflow.Context, node string, members []int) {
	batch := c.batch(node, members)
	batch.Now = workflow.Now(ctx)
	of, _ := c.def.Node(node)
	if of.Description().Acts {
		for n, i := range members {
			batch.Items[n].Waited = c.in.Members[i].Waited
		}
	}
	if of.Type != journey.UpdateLead && of.Type != journey.Emit {
		for n := range batch.Items {
			batch.Items[n].Unrecorded = nil // the timeline is not written here
		}
	}
	var activity any = activitiesOf.DecideBatch
	title := node + ": " + of.Description().Asks
	switch of.Type {
	case journey.Enroll:
		activity, title = activitiesOf.EnrollBatch, node+" → journey "+of.Journey
	case journey.UpdateLead:
		activity, title = activitiesOf.UpdateLeadBatch, node+": update"
	case journey.Emit:
		activity, title = activitiesOf.EmitBatch, node+": event "+of.Event
	}
	title += ", " + count(len(members), "lead")
	c.quick(ctx, call{activity: activity, title: title, batch: batch, members: members, answered: forEach(members, c.decided)})
}

// decided takes over how a member goes on.
func (c *cohort) decided(_ workflow.Context, i int, d activities.Decision) error {
	switch d.Stopped {
	case activities.FoundPaused:
		c.in.Members[i].Paused = true
		return nil
	case delivery.OutcomeCanceled:
		return c.step(i, journey.Input{Kind: journey.InputCanceled, At: d.At})
	case delivery.OutcomeExited:
		return c.step(i, journey.Input{Kind: journey.InputExited, At: d.At, Reason: d.Reason})
	case activities.FoundFailed:
		return c.step(i, journey.Input{Kind: journey.InputFailed, At: d.At, Reason: d.Reason})
	}
	err := c.step(i, d.Input())
	if d.Recorded {
		c.in.Members[i].Unrecorded = nil
	}
	return err
}

// record writes the timeline of members that wait or have ended. They are not
// busy meanwhile: a delay may end before the write does.
func (c *cohort) record(ctx workflow.Context, members []int) {
	batch := c.batch("", members)
	for _, i := range members {
		c.in.Members[i].Unrecorded = nil
	}
	written := func(ctx workflow.Context, answer workflow.Future) error { return answer.Get(ctx, nil) }
	c.quick(ctx, call{activity: activitiesOf.RecordBatch, title: "timeline, " + count(len(members), "lead"), batch: batch, answered: written})
}

// batch is the input of an activity for these members.
func (c *cohort) batch(node string, members []int) delivery.Batch {
	b := delivery.Batch{
		Scope: c.in.Scope, JourneyID: c.in.JourneyID, Version: c.in.Version, LaunchID: c.in.LaunchID, NodeID: node,
		Coalesce: len(c.in.Members) > 1,
		Items:    make([]delivery.Item, len(members)),
	}
	for n, i := range members {
		m := c.in.Members[i]
		m.State.Path = nil // activities do not need it
		b.Items[n] = delivery.Item{
			EnrollmentID: m.EnrollmentID, LeadsID: m.LeadsID, State: m.State, Unrecorded: m.Unrecorded,
			Since: m.Since, Planned: m.Planned, Deferred: m.Outcome == delivery.OutcomeDeferred, Quiet: m.quiet(),
			Unsent: m.unsent(), Ahead: c.in.LaunchID == "" && m.State.Visit == 1,
		}
	}
	return b
}

// activitiesOf only names the activities' methods.
var activitiesOf *activities.Activities

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
