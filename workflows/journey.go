package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
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
	Members    []Member        `json:"members"`
	// What the search attributes say already.
	Node     string   `json:"node,omitempty"`
	Webhook  string   `json:"webhook,omitempty"`
	Outcomes []string `json:"outcomes,omitempty"`
}

// Member is one enrollment of the cohort: where the interpreter has it, and what
// it waits for. State and Due tell what it needs next.
type Member struct {
	EnrollmentID string        `json:"e"`
	LeadsID      int64         `json:"l"`
	State        journey.State `json:"s"`
	// Unrecorded are timeline entries that no activity has written yet.
	Unrecorded []waypost.TimelineEntry `json:"u,omitempty"`
	// Due is when the delay ends, or when the touchpoint is to be tried again.
	Due     time.Time `json:"d,omitzero"`
	Outcome string    `json:"o,omitempty"` // of the last batch it was in
	Attempt int       `json:"a,omitempty"`
	Reason  string    `json:"r,omitempty"`
}

const (
	// deliverChunk is the number of touchpoints in one activity.
	deliverChunk = 50
	// A batch is bounded by the receivers' time-outs (two minutes at most); its
	// heartbeats tell within seconds that its process has died.
	batchTimeout     = 5 * time.Minute
	heartbeatTimeout = 10 * time.Second
)

// Journey drives a cohort of 1 to 100 enrollments through one version of a
// journey. It carries out what the interpreter asks for and does nothing by
// itself: touchpoints and conditions that are due together go out as batches,
// what failed comes again in waves, and everything else is a timer.
func Journey(ctx workflow.Context, in JourneyInput) (JourneyResult, error) {
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
			if err := c.dispatch(ctx); err != nil {
				return JourneyResult{}, err
			}
		}
		if err := c.show(ctx); err != nil {
			return JourneyResult{}, err
		}
		if c.inFlight == 0 {
			if c.ended() {
				return c.result(), nil
			}
			if full {
				return JourneyResult{}, workflow.NewContinueAsNewError(ctx, TypeJourney, c.in)
			}
		}
		if !full {
			c.setTimer(ctx)
		}
		if err := c.wait(ctx); err != nil {
			return JourneyResult{}, err
		}
	}
}

// cohort is a Journey workflow at work.
type cohort struct {
	in   JourneyInput
	def  *journey.Definition
	busy []bool // by member: it is in a batch that has not answered

	batches  workflow.Selector
	inFlight int // batches that have not answered
	err      error

	timer       workflow.Future
	timerAt     time.Time
	cancelTimer workflow.CancelFunc
}

func newCohort(in JourneyInput) *cohort {
	// The checker follows the JSON decoder down to the runtime's garbage collector;
	// what Parse returns depends on the bytes alone, which its property tests show.
	//workflowcheck:ignore
	def, problems := journey.Parse(in.Definition)
	if err := problems.Err("definition"); err != nil {
		// Only a checked definition is ever published. See Journey for why it panics.
		panic(fmt.Sprintf("read definition of journey %s/%d: %v", in.JourneyID, in.Version, err))
	}
	return &cohort{in: in, def: def, busy: make([]bool, len(in.Members))}
}

// start enters the journey with those who have not begun.
func (c *cohort) start(ctx workflow.Context) error {
	c.batches = workflow.NewSelector(ctx)
	for i := range c.in.Members {
		if c.in.Members[i].State.Version != 0 {
			continue
		}
		if err := c.step(i, journey.Input{Kind: journey.InputStart, At: workflow.Now(ctx)}); err != nil {
			return err
		}
	}
	return nil
}

// step feeds one input to the interpreter and keeps what it asks for.
func (c *cohort) step(i int, in journey.Input) error {
	m := &c.in.Members[i]
	state, effect, err := journey.Step(c.def, m.State, in)
	if err != nil {
		return fmt.Errorf("step enrollment %s: %w", m.EnrollmentID, err)
	}
	m.State, m.Due, m.Outcome, m.Attempt, m.Reason = state, time.Time{}, "", 0, ""
	m.Unrecorded = append(m.Unrecorded, effect.Entries...)
	if effect.Command.Kind == journey.CommandWait {
		m.Due = effect.Command.Until
		if len(c.in.Members) > 1 {
			m.Due = activities.RoundUp(m.Due, m.Due.Sub(in.At)/10)
		}
	}
	return nil
}

// dispatch sends everything that is due.
func (c *cohort) dispatch(ctx workflow.Context) error {
	now := workflow.Now(ctx)
	var send, decide groups
	var record []int
	for i := range c.in.Members {
		m := &c.in.Members[i]
		if c.busy[i] {
			continue
		}
		if m.State.Phase == journey.PhaseWait && !m.Due.After(now) {
			if err := c.step(i, journey.Input{Kind: journey.InputElapsed, At: now}); err != nil {
				return err
			}
		}
		switch {
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
	return nil
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
	ctx = c.activityOptions(ctx, title, webhook)
	future := workflow.ExecuteActivity(ctx, activitiesOf.DeliverBatch, c.batch(node, members))
	c.expect(ctx, future, members, func(ctx workflow.Context) error {
		var deliveries []activities.Delivery
		if err := future.Get(ctx, &deliveries); err != nil {
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
	})
}

// delivered takes over what came of one touchpoint.
func (c *cohort) delivered(ctx workflow.Context, i int, d activities.Delivery) error {
	m := &c.in.Members[i]
	if !d.Decided() {
		if now := workflow.Now(ctx); d.Attempt == m.Attempt && !d.Next.After(now) {
			// No attempt was made, because it is not due by the worker's clock, which is
			// behind the server's: asking again at once would be answered in the same way
			// until it has caught up.
			d.Next = now.Add(max(0, d.Next.Sub(d.At).Truncate(time.Millisecond)))
		}
		if d.Outcome == activities.OutcomeUnderWay {
			// Whether its entries were written is known only once it has landed.
			m.Due = d.Next
			return nil
		}
		if d.Outcome == activities.OutcomeDeferred && m.Outcome != d.Outcome {
			if err := c.step(i, d.Input()); err != nil {
				return err
			}
		}
		m.Unrecorded, m.Due, m.Outcome, m.Attempt, m.Reason = nil, d.Next, d.Outcome, d.Attempt, d.Reason
		return nil
	}
	if err := c.step(i, d.Input()); err != nil {
		return err
	}
	// The activity computed the same step and wrote it with the outcome.
	m.Unrecorded, m.Outcome = nil, d.Outcome
	return nil
}

func (c *cohort) decide(ctx workflow.Context, node string, members []int) {
	ctx = c.activityOptions(ctx, fmt.Sprintf("%s: conditions, %s", node, count(len(members), "lead")), "")
	batch := c.batch(node, members)
	for n := range batch.Items {
		batch.Items[n].Unrecorded = nil // it writes nothing
	}
	future := workflow.ExecuteActivity(ctx, activitiesOf.DecideBatch, batch)
	c.expect(ctx, future, members, func(ctx workflow.Context) error {
		var decisions []activities.Decision
		if err := future.Get(ctx, &decisions); err != nil {
			return err
		}
		if len(decisions) != len(members) {
			return fmt.Errorf("DecideBatch answered for %d of %d enrollments", len(decisions), len(members))
		}
		for n, i := range members {
			d := decisions[n]
			input := journey.Input{Kind: journey.InputDecided, At: d.At, Arm: d.Arm, Reason: d.Reason}
			if err := c.step(i, input); err != nil {
				return err
			}
		}
		return nil
	})
}

// record writes the timeline of members that wait or have ended. They are not
// busy meanwhile: a delay may end before the write does.
func (c *cohort) record(ctx workflow.Context, members []int) {
	batch := c.batch("", members)
	for _, i := range members {
		c.in.Members[i].Unrecorded = nil
	}
	ctx = c.activityOptions(ctx, "timeline, "+count(len(members), "lead"), "")
	future := workflow.ExecuteActivity(ctx, activitiesOf.RecordBatch, batch)
	c.expect(ctx, future, nil, func(ctx workflow.Context) error { return future.Get(ctx, nil) })
}

// batch is the input of an activity for these members.
func (c *cohort) batch(node string, members []int) activities.Batch {
	b := activities.Batch{
		Scope: c.in.Scope, JourneyID: c.in.JourneyID, Version: c.in.Version, NodeID: node,
		Coalesce: len(c.in.Members) > 1,
		Items:    make([]activities.Item, len(members)),
	}
	for n, i := range members {
		m := c.in.Members[i]
		m.State.Path = nil // activities do not need it
		b.Items[n] = activities.Item{
			EnrollmentID: m.EnrollmentID, LeadsID: m.LeadsID, State: m.State, Unrecorded: m.Unrecorded,
			Deferred: m.Outcome == activities.OutcomeDeferred,
		}
	}
	return b
}

// activitiesOf only names the activities' methods.
var activitiesOf *activities.Activities

func (c *cohort) activityOptions(ctx workflow.Context, title, webhook string) workflow.Context {
	p := priority(c.in.Scope.Org, len(c.in.Members))
	if webhook != "" {
		p.FairnessKey = webhook
	}
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: batchTimeout,
		HeartbeatTimeout:    heartbeatTimeout,
		// An activity fails only when it cannot reach what it needs. Nobody is lost by
		// that, however long it lasts: it is tried until it works.
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second,
		},
		Summary:  title,
		Priority: p,
	})
}

// expect has done called when the future is ready; the members are busy until
// then.
func (c *cohort) expect(ctx workflow.Context, future workflow.Future, members []int, done func(workflow.Context) error) {
	c.inFlight++
	for _, i := range members {
		c.busy[i] = true
	}
	c.batches.AddFuture(future, func(workflow.Future) {
		c.inFlight--
		for _, i := range members {
			c.busy[i] = false
		}
		if err := done(ctx); err != nil && c.err == nil {
			c.err = err
		}
	})
}

// wait blocks until a batch answers or something becomes due, and takes
// everything that is ready by then.
func (c *cohort) wait(ctx workflow.Context) error {
	c.batches.Select(ctx)
	for c.err == nil && c.batches.HasPending() {
		c.batches.Select(ctx)
	}
	return c.err
}

// setTimer keeps one timer, for what is due first.
func (c *cohort) setTimer(ctx workflow.Context) {
	var first time.Time
	var what string
	for i, m := range c.in.Members {
		waits := m.State.Phase == journey.PhaseWait || m.State.Phase == journey.PhaseSend
		if waits && !c.busy[i] && (first.IsZero() || m.Due.Before(first)) {
			first, what = m.Due, m.State.Node+": delay"
			if m.State.Phase == journey.PhaseSend {
				what = fmt.Sprintf("%s: after attempt %d (%s)", m.State.Node, m.Attempt, m.Reason)
			}
		}
	}
	if first.IsZero() || c.timer != nil && !c.timerAt.After(first) {
		return
	}
	if c.timer != nil {
		c.cancelTimer()
	}
	timerCtx, cancel := workflow.WithCancel(ctx)
	timer := workflow.NewTimerWithOptions(timerCtx, first.Sub(workflow.Now(ctx)),
		workflow.TimerOptions{Summary: what + " until " + first.UTC().Format(time.RFC3339)})
	c.timer, c.timerAt, c.cancelTimer = timer, first, cancel
	c.batches.AddFuture(timer, func(workflow.Future) {
		if c.timer == timer {
			c.timer = nil
		}
	})
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
