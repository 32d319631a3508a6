package workflows

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"waypost"
	"waypost/activities"
	"waypost/journey"
)

// RedeliveryInput is what a Redelivery workflow starts with and, in the same form,
// continues as new with. It holds no message: those are in the database.
type RedeliveryInput struct {
	Scope        waypost.Scope `json:"scope"`
	RedeliveryID string        `json:"redelivery,omitempty"` // "" for a single message
	Members      []Redelivered `json:"members"`
	// What the search attributes say already.
	Webhook  string   `json:"webhook,omitempty"`
	Outcomes []string `json:"outcomes,omitempty"`
}

// Redelivered is one message of a Redelivery workflow and where its round stands.
type Redelivered struct {
	waypost.RedeliveryMember
	// Due is when it is to be tried again; zero is at once.
	Due     time.Time `json:"due,omitzero"`
	Outcome string    `json:"outcome,omitempty"` // of the last batch it was in
	Attempt int       `json:"attempt,omitempty"` // counted through all rounds
	Reason  string    `json:"reason,omitempty"`
	Done    bool      `json:"done,omitempty"`
	// Woken says that something has changed that is to be looked at.
	Woken bool `json:"woken,omitempty"`
}

// Redelivery sends 1 to 100 stored messages once more, until each is decided: those
// of a webhook that are due together go out as a batch, what failed comes again in
// waves by the webhook's schedule, what is deferred is looked at again. It has
// nothing to do with the journeys that the messages come from. A signal (SignalWake)
// has it look at what is recorded.
func Redelivery(ctx workflow.Context, in RedeliveryInput) (RedeliveryResult, error) {
	r := &redelivery{in: in, batches: batches{busy: make([]bool, len(in.Members))}}
	result, err := r.run(ctx)
	var again *workflow.ContinueAsNewError
	if err != nil && !errors.As(err, &again) && !temporal.IsCanceledError(err) {
		panic(err) // as Journey does
	}
	return result, err
}

// redelivery is a Redelivery workflow at work.
type redelivery struct {
	in RedeliveryInput
	batches
}

func (r *redelivery) run(ctx workflow.Context) (RedeliveryResult, error) {
	r.listen(ctx, func(Wake) {
		for i := range r.in.Members {
			r.in.Members[i].Woken = !r.in.Members[i].Done
		}
	})
	for {
		full := workflow.GetInfo(ctx).GetContinueAsNewSuggested()
		if !full {
			r.dispatch(ctx)
		}
		if err := r.show(ctx); err != nil {
			return RedeliveryResult{}, err
		}
		if r.inFlight == 0 {
			if r.left() == 0 {
				return r.result(), nil
			}
			if full {
				return RedeliveryResult{}, workflow.NewContinueAsNewError(ctx, TypeRedelivery, r.in)
			}
		}
		if !full {
			r.setTimer(ctx)
		}
		if err := r.wait(ctx); err != nil {
			return RedeliveryResult{}, err
		}
		if ctx.Err() != nil {
			return RedeliveryResult{}, r.cancel(ctx)
		}
	}
}

// left counts the messages that are not decided.
func (r *redelivery) left() int {
	n := 0
	for i := range r.in.Members {
		if !r.in.Members[i].Done {
			n++
		}
	}
	return n
}

// dispatch sends what is due, and what is woken.
func (r *redelivery) dispatch(ctx workflow.Context) {
	now := workflow.Now(ctx)
	var due groups // by webhook
	for i := range r.in.Members {
		if m := &r.in.Members[i]; !r.busy[i] && !m.Done && (m.Woken || !m.Due.After(now)) {
			m.Woken = false
			due.add(m.WebhookID, i)
		}
	}
	for _, g := range due {
		r.send(ctx, g.node, g.members)
	}
}

func (r *redelivery) send(ctx workflow.Context, webhook string, members []int) {
	options := tireless(batchTimeout, fmt.Sprintf("redeliver → %s, %s", webhook, count(len(members), "message")))
	options.Priority = redeliveryPriority(r.in.Scope, r.in.RedeliveryID)
	options.Priority.FairnessKey = webhook
	ctx = workflow.WithActivityOptions(ctx, options)
	future := workflow.ExecuteActivity(ctx, activitiesOf.RedeliverBatch, r.batch(webhook, members))
	r.expect(ctx, future, members, func(ctx workflow.Context) error {
		var deliveries []activities.Delivery
		if err := future.Get(ctx, &deliveries); err != nil {
			return err
		}
		if len(deliveries) != len(members) {
			return fmt.Errorf("RedeliverBatch answered for %d of %d messages", len(deliveries), len(members))
		}
		for n, i := range members {
			r.in.Members[i].redelivered(ctx, deliveries[n])
		}
		return nil
	})
}

// redelivered takes over what came of one message.
func (m *Redelivered) redelivered(ctx workflow.Context, d activities.Delivery) {
	switch {
	case d.Decided():
		m.Done, m.Woken, m.Due = true, false, time.Time{}
	case d.Outcome == activities.OutcomeUnderWay:
		m.Due = nextTime(ctx, d, m.Attempt)
		return
	default:
		m.Due = nextTime(ctx, d, m.Attempt)
	}
	m.Outcome, m.Attempt, m.Reason = d.Outcome, d.Attempt, d.Reason
}

// batch is the input of an activity for these members.
func (r *redelivery) batch(webhook string, members []int) activities.Batch {
	b := activities.Batch{
		Scope: r.in.Scope, WebhookID: webhook, Coalesce: len(r.in.Members) > 1, Items: make([]activities.Item, len(members)),
	}
	for n, i := range members {
		m := &r.in.Members[i]
		b.Items[n] = activities.Item{
			EnrollmentID: m.EnrollmentID, LeadsID: m.LeadsID, State: journey.State{Visit: m.Visit}, Round: m.Round,
			Deferred: m.Outcome == activities.OutcomeDeferred,
		}
	}
	return b
}

// cancel cancels what is left: an operator canceled the workflow.
func (r *redelivery) cancel(ctx workflow.Context) error {
	var left []int
	for i := range r.in.Members {
		if !r.in.Members[i].Done {
			left = append(left, i)
		}
	}
	if len(left) > 0 {
		apart, stop := workflow.NewDisconnectedContext(ctx)
		defer stop()
		apart = workflow.WithActivityOptions(apart, tireless(batchTimeout, "cancel "+count(len(left), "message")))
		if err := workflow.ExecuteActivity(apart, activitiesOf.CancelRedeliveries, r.batch("", left)).Get(apart, nil); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// setTimer sets the timer for what is due first.
func (r *redelivery) setTimer(ctx workflow.Context) {
	var first time.Time
	var what string
	for i := range r.in.Members {
		if m := &r.in.Members[i]; !m.Done && !r.busy[i] && (first.IsZero() || m.Due.Before(first)) {
			first, what = m.Due, "under way"
			switch m.Outcome {
			case activities.OutcomeRetrying:
				what = fmt.Sprintf("after attempt %d (%s)", m.Attempt, m.Reason)
			case activities.OutcomeDeferred:
				what = "deferred (" + m.Reason + ")"
			}
		}
	}
	r.wakeAt(ctx, first, what)
}

// show keeps the search attributes and the current details of the Web UI true.
func (r *redelivery) show(ctx workflow.Context) error {
	var updates []temporal.SearchAttributeUpdate
	for i := range r.in.Members {
		if m := &r.in.Members[i]; !m.Done {
			if m.WebhookID != r.in.Webhook {
				r.in.Webhook = m.WebhookID
				updates = append(updates, AttrWebhook.ValueSet(m.WebhookID))
			}
			break
		}
	}
	if outcomes := r.outcomes(); !slices.Equal(outcomes, r.in.Outcomes) {
		r.in.Outcomes = outcomes
		updates = append(updates, AttrOutcome.ValueSet(outcomes))
	}
	workflow.SetCurrentDetails(ctx, r.details())
	if len(updates) == 0 {
		return nil
	}
	return workflow.UpsertTypedSearchAttributes(ctx, updates...)
}

func (r *redelivery) outcomes() []string {
	var found []string
	for _, outcome := range shownOutcomes {
		if slices.ContainsFunc(r.in.Members, func(m Redelivered) bool { return m.Outcome == outcome }) {
			found = append(found, outcome)
		}
	}
	return found
}

// details is what the Web UI shows of a running workflow: how many messages are
// decided, and which are not and why.
func (r *redelivery) details() string {
	var b strings.Builder
	b.WriteString(redeliverySummary(r.in) + "\n\n")
	b.WriteString(fmt.Sprintf("%d of %d messages are decided.\n", len(r.in.Members)-r.left(), len(r.in.Members)))
	list(&b, r.in.Members, func(m *Redelivered) string {
		if m.Done {
			return ""
		}
		return fmt.Sprintf("message %s, lead %d: %s", m.MessageID, m.LeadsID, m.waits())
	})
	return b.String()
}

// waits says what a message that is not decided waits for.
func (m *Redelivered) waits() string {
	at := m.Due.UTC().Format(time.RFC3339)
	switch m.Outcome {
	case activities.OutcomeRetrying:
		return fmt.Sprintf("attempt %d failed (%s), the next at %s", m.Attempt, m.Reason, at)
	case activities.OutcomeDeferred:
		return fmt.Sprintf("deferred (%s), looked at again at %s", m.Reason, at)
	}
	return "in progress"
}

// RedeliveryResult stands in the box at the top of the workflow's page: the counts,
// and the messages that were not delivered.
type RedeliveryResult struct {
	Redelivery   string            `json:"redelivery,omitempty"`
	Messages     int               `json:"messages"`
	Delivered    int               `json:"delivered"`
	Failed       int               `json:"failed"`
	Canceled     int               `json:"canceled,omitempty"`
	NotDelivered []RedeliveredLead `json:"notDelivered,omitempty"`
}

// RedeliveredLead names a message that was not delivered.
type RedeliveredLead struct {
	Message string `json:"message"`
	Lead    int64  `json:"lead"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
}

func (r *redelivery) result() RedeliveryResult {
	result := RedeliveryResult{Redelivery: r.in.RedeliveryID, Messages: len(r.in.Members)}
	for _, m := range r.in.Members {
		switch m.Outcome {
		case activities.OutcomeDelivered:
			result.Delivered++
			continue
		case activities.OutcomeCanceled:
			result.Canceled++
		default:
			result.Failed++
		}
		result.NotDelivered = append(result.NotDelivered, RedeliveredLead{m.MessageID, m.LeadsID, m.Outcome, m.Reason})
	}
	return result
}

// redeliverySummary is the title of a Redelivery workflow in the Web UI.
func redeliverySummary(in RedeliveryInput) string {
	title := "Redelivery of " + count(len(in.Members), "message")
	if in.RedeliveryID == "" && len(in.Members) == 1 {
		title = "Redelivery of message " + in.Members[0].MessageID
	}
	if in.RedeliveryID != "" {
		title += ", of " + in.RedeliveryID
	}
	return title
}
