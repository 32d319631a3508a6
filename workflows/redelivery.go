package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"waypost"
	"waypost/delivery"
	"waypost/journey"
)

// RedeliveryInput is what a Redelivery workflow starts with and, in the same form,
// continues as new with. It holds no message: those are in the database.
type RedeliveryInput struct {
	Scope        waypost.Scope `json:"scope"`
	RedeliveryID string        `json:"redelivery,omitempty"` // "" for a single message
	Members      []Redelivered `json:"members"`
	Shown
}

// Redelivered is one message of a Redelivery workflow and where its round stands.
type Redelivered struct {
	waypost.RedeliveryMember
	Turn
	Done bool `json:"done,omitempty"`
}

// Redelivery sends 1 to 100 stored messages once more, or for the first time if they are to
// subscriptions, until each is decided. Messages to a webhook that are due at one time go out
// as a batch, failed ones again by the webhook's schedule, rounded so that many share a time;
// deferred ones are looked at again. The journeys that the messages come from do not notice.
// A signal (SignalWake) has it look at what is recorded.
func Redelivery(ctx workflow.Context, in RedeliveryInput) (RedeliveryResult, error) {
	r := &redelivery{in: in, loop: newLoop(len(in.Members), in.priority())}
	if err := r.run(ctx, r); err != nil {
		return RedeliveryResult{}, err
	}
	return r.result(), nil
}

// redelivery is a Redelivery workflow at work.
type redelivery struct {
	in RedeliveryInput
	loop
}

// woken has all messages looked at that are not decided.
func (r *redelivery) woken(workflow.Context, Wake) {
	for _, i := range r.left() {
		r.in.Members[i].Woken = true
	}
}

// left are the messages that are not decided.
func (r *redelivery) left() (left []int) {
	for i := range r.in.Members {
		if !r.in.Members[i].Done {
			left = append(left, i)
		}
	}
	return left
}

func (r *redelivery) ended(workflow.Context) bool { return len(r.left()) == 0 }

func (r *redelivery) continueAsNew(ctx workflow.Context) error {
	return workflow.NewContinueAsNewError(ctx, TypeRedelivery, r.in)
}

func (r *redelivery) dispatch(ctx workflow.Context) {
	now := workflow.Now(ctx)
	var due groups // by webhook
	for _, i := range r.left() {
		if m := &r.in.Members[i]; !r.busy[i] && (m.Woken || !m.Due.After(now)) {
			m.Woken = false
			due.add(m.WebhookID, i)
		}
	}
	for _, g := range due {
		r.regular(ctx, call{
			activity: activitiesOf.RedeliverBatch, title: fmt.Sprintf("%s → %s, %s", r.in.verb(), g.key, count(len(g.members), "message")),
			webhook: g.key, batch: r.batch(g.key, g.members), members: g.members, answered: forEach(g.members, r.redelivered),
		})
	}
}

// redelivered takes over what came of one message.
func (r *redelivery) redelivered(ctx workflow.Context, i int, d delivery.Result) error {
	m := &r.in.Members[i]
	next := m.next(ctx, d)
	switch {
	case d.Outcome == delivery.OutcomeUnderWay:
		m.Due = next
		return nil
	case d.Decided():
		m.Done, m.Woken, next = true, false, time.Time{}
	}
	m.Due, m.Outcome, m.Attempt, m.Reason = next, d.Outcome, d.Attempt, d.Reason
	return nil
}

// batch is the input of an activity for these members.
func (r *redelivery) batch(webhook string, members []int) delivery.Batch {
	b := delivery.Batch{
		Scope: r.in.Scope, WebhookID: webhook, Coalesce: len(r.in.Members) > 1, Items: make([]delivery.Item, len(members)),
	}
	for n, i := range members {
		m := &r.in.Members[i]
		b.Items[n] = delivery.Item{
			EnrollmentID: m.EnrollmentID, LeadsID: m.LeadsID, State: journey.State{Visit: m.Visit}, Round: m.Round,
			Deferred: m.Outcome == delivery.OutcomeDeferred,
		}
	}
	return b
}

func (r *redelivery) cancel(ctx workflow.Context) error {
	left := r.left()
	return r.cancelMembers(ctx, "cancel "+count(len(left), "message"), activitiesOf.CancelRedeliveries, r.batch("", left))
}

func (r *redelivery) setTimer(ctx workflow.Context) {
	i := r.soonest(func(i int) (time.Time, bool) { return r.in.Members[i].Due, !r.in.Members[i].Done })
	if i < 0 {
		return
	}
	m, what := &r.in.Members[i], "under way"
	switch m.Outcome {
	case delivery.OutcomeRetrying:
		what = fmt.Sprintf("after attempt %d (%s)", m.Attempt, m.Reason)
	case delivery.OutcomeDeferred:
		what = "deferred (" + m.Reason + ")"
	}
	r.wakeAt(ctx, m.Due, what)
}

func (r *redelivery) show(ctx workflow.Context) error {
	now := Shown{Webhook: r.in.Webhook, Outcomes: outcomesOf(r.in.Members, func(m *Redelivered, outcome string) bool { return m.Outcome == outcome })}
	if left := r.left(); len(left) > 0 {
		now.Webhook = r.in.Members[left[0]].WebhookID
	}
	return r.in.show(ctx, now, r.details())
}

// details is what the Web UI shows of a running workflow: how many messages are
// decided, and which are not and why.
func (r *redelivery) details() string {
	var b strings.Builder
	b.WriteString(redeliverySummary(r.in) + "\n\n")
	b.WriteString(fmt.Sprintf("%d of %d messages are decided.\n", len(r.in.Members)-len(r.left()), len(r.in.Members)))
	list(&b, r.in.Members, func(m *Redelivered) string {
		if m.Done {
			return ""
		}
		if m.LeadsID == 0 {
			return fmt.Sprintf("message %s: %s", m.MessageID, m.waits())
		}
		return fmt.Sprintf("message %s, lead %d: %s", m.MessageID, m.LeadsID, m.waits())
	})
	return b.String()
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
	Lead    int64  `json:"lead,omitempty"` // 0: it is to a subscription
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
}

func (r *redelivery) result() RedeliveryResult {
	result := RedeliveryResult{Redelivery: r.in.RedeliveryID, Messages: len(r.in.Members)}
	for _, m := range r.in.Members {
		switch m.Outcome {
		case delivery.OutcomeDelivered:
			result.Delivered++
			continue
		case delivery.OutcomeCanceled, delivery.OutcomeSkipped:
			result.Canceled++
		default:
			result.Failed++
		}
		result.NotDelivered = append(result.NotDelivered, RedeliveredLead{m.MessageID, m.LeadsID, m.Outcome, m.Reason})
	}
	return result
}

// tells says that the messages are new ones, to subscriptions.
func (in *RedeliveryInput) tells() bool { return len(in.Members) > 0 && in.Members[0].Round == 1 }

// verb says what becomes of the messages.
func (in *RedeliveryInput) verb() string {
	if in.tells() {
		return "send"
	}
	return "redeliver"
}

// redeliverySummary is the title of a Redelivery workflow in the Web UI.
func redeliverySummary(in RedeliveryInput) string {
	if in.tells() {
		return "Telling subscriptions: " + count(len(in.Members), "message")
	}
	title := "Redelivery of " + count(len(in.Members), "message")
	if in.RedeliveryID == "" && len(in.Members) == 1 {
		title = "Redelivery of message " + in.Members[0].MessageID
	}
	if in.RedeliveryID != "" {
		title += ", of " + in.RedeliveryID
	}
	return title
}
