package gateway

import (
	"context"
	"math"
	"net/http"
	"time"

	"waypost"
)

// Redeliveries has messages sent once more. What it accepted happens, whatever
// crashes.
type Redeliveries interface {
	// Redeliver begins a new round of attempts of one message.
	Redeliver(ctx context.Context, sc waypost.Scope, messageID string) (waypost.Delivery, error)
	// CreateRedelivery stores a bulk redelivery; a filter without a status is one for
	// failed deliveries.
	CreateRedelivery(ctx context.Context, sc waypost.Scope, f waypost.DeliveryFilter, appID string) (waypost.Redelivery, error)
	Redelivery(ctx context.Context, sc waypost.Scope, id string) (waypost.Redelivery, error)
	ListRedeliveries(ctx context.Context, sc waypost.Scope, page waypost.Page) ([]waypost.Redelivery, error)
	CancelRedelivery(ctx context.Context, sc waypost.Scope, id string) (waypost.Redelivery, error)
}

// redeliver begins a new round of attempts of one message; the pump starts it.
func (a *api) redeliver(ctx context.Context, r *request) (answer, error) {
	ans, err := effect(ctx, r, func(ctx context.Context) (waypost.Delivery, error) {
		return a.Deliveries.Redeliver(ctx, r.scope, r.param("id"))
	}, func(d waypost.Delivery) (answer, error) {
		return at(http.StatusAccepted, "/v1/deliveries/"+d.MessageID, a.answerDelivery(d))
	})
	if err == nil {
		a.Waker.Wake()
	}
	return ans, err
}

type redeliveryBody struct {
	Filter *deliveryFilterBody `json:"filter"`
}

// deliveryFilterBody has the filters of the delivery list as members.
type deliveryFilterBody struct {
	JourneyID    *string                 `json:"journeyId"`
	WebhookID    *string                 `json:"webhookId"`
	EnrollmentID *string                 `json:"enrollmentId"`
	LaunchID     *string                 `json:"launchId"`
	LeadsID      *int64                  `json:"leadsId"`
	Status       *waypost.DeliveryStatus `json:"status"`
	From         *string                 `json:"from"`
	To           *string                 `json:"to"`
}

const deliveryFilterTarget = "filter"

func decodeRedelivery(r *request) (waypost.DeliveryFilter, error) {
	var f waypost.DeliveryFilter
	var body redeliveryBody
	problems := waypost.DecodeJSON(r.body, &body)
	if noDocument(problems) {
		return f, problems.Err("")
	}
	var p waypost.Problems
	if body.Filter == nil { // an empty one says that all failed ones are meant
		p.Add(waypost.DetailNullValue, deliveryFilterTarget, "is missing")
		return f, append(problems, withoutTargets(p, problems)...).Err("")
	}
	const path = deliveryFilterTarget + "."
	for _, id := range []struct {
		name, prefix, of string
		raw              *string
		into             *string
	}{
		{"journeyId", waypost.PrefixJourney, "a journey", body.Filter.JourneyID, &f.JourneyID},
		{"webhookId", waypost.PrefixWebhook, "a webhook", body.Filter.WebhookID, &f.WebhookID},
		{"enrollmentId", waypost.PrefixEnrollment, "an enrollment", body.Filter.EnrollmentID, &f.EnrollmentID},
		{"launchId", waypost.PrefixLaunch, "a launch", body.Filter.LaunchID, &f.LaunchID},
	} {
		if id.raw == nil {
			continue
		}
		if *id.into = *id.raw; !waypost.IsID(id.prefix, *id.raw) {
			p.Add(waypost.DetailInvalidFormat, path+id.name, "must be the id of %s", id.of)
		}
	}
	if id := body.Filter.LeadsID; id != nil {
		if f.LeadsID = *id; *id < 1 {
			p.Add(waypost.DetailOutOfRange, path+"leadsId", "must be 1 to %d", int64(math.MaxInt64))
		}
	}
	if status := body.Filter.Status; status != nil {
		if f.Status = *status; !status.Final() {
			p.Add(waypost.DetailOutOfRange, path+"status", "must be failed, succeeded or canceled: only what is decided can be sent again")
		}
	}
	for _, m := range []struct {
		name string
		raw  *string
		into *time.Time
	}{{"from", body.Filter.From, &f.From}, {"to", body.Filter.To, &f.To}} {
		if m.raw != nil {
			*m.into = moment(&p, path+m.name, *m.raw, "")
		}
	}
	inOrder(&p, path, "from", "to", f.From, f.To)
	return f, append(problems, withoutTargets(p, problems)...).Err("")
}

// redeliveryAnswer is a bulk redelivery with its progress.
type redeliveryAnswer struct {
	ID          string                   `json:"id"`
	Status      waypost.RedeliveryStatus `json:"status"`
	Message     *string                  `json:"message"`
	Filter      deliveryFilterBody       `json:"filter"`
	Total       int                      `json:"total"`
	Redelivered int                      `json:"redelivered"`
	Skipped     int                      `json:"skipped"`
	Succeeded   int                      `json:"succeeded"`
	Failed      int                      `json:"failed"`
	Canceled    int                      `json:"canceled"`
	CreatedAt   string                   `json:"createdAt"`
	StartedAt   *string                  `json:"startedAt"`
	EndedAt     *string                  `json:"endedAt"`
}

func answerRedelivery(r waypost.Redelivery) redeliveryAnswer {
	f := r.Filter
	return redeliveryAnswer{
		ID: r.ID, Status: r.Status, Message: orNull(r.Message), Total: r.Total, Redelivered: r.Redelivered, Skipped: r.Skipped,
		Succeeded: r.Succeeded, Failed: r.Failed, Canceled: r.Canceled,
		CreatedAt: stamp(r.CreatedAt), StartedAt: stampOrNull(r.StartedAt), EndedAt: stampOrNull(r.EndedAt),
		Filter: deliveryFilterBody{
			JourneyID: orNull(f.JourneyID), WebhookID: orNull(f.WebhookID), EnrollmentID: orNull(f.EnrollmentID), LaunchID: orNull(f.LaunchID),
			LeadsID: orNull(f.LeadsID), Status: orNull(f.Status), From: stampOrNull(&f.From), To: stampOrNull(&f.To),
		},
	}
}

// createRedelivery stores a bulk redelivery; the pump carries it out.
func (a *api) createRedelivery(ctx context.Context, r *request) (answer, error) {
	filter, err := decodeRedelivery(r)
	if err != nil {
		return answer{}, err
	}
	ans, err := effect(ctx, r, func(ctx context.Context) (waypost.Redelivery, error) {
		return a.Deliveries.CreateRedelivery(ctx, r.scope, filter, r.app.ID)
	}, func(made waypost.Redelivery) (answer, error) {
		return at(http.StatusAccepted, "/v1/redeliveries/"+made.ID, answerRedelivery(made))
	})
	if err == nil {
		a.Waker.Wake()
	}
	return ans, err
}

func (a *api) showRedelivery(ctx context.Context, r *request) (answer, error) {
	found, err := a.Deliveries.Redelivery(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	return resource(http.StatusOK, "", answerRedelivery(found))
}

func (a *api) listRedeliveries(ctx context.Context, r *request) (answer, error) {
	var p waypost.Problems
	page := r.page(&p)
	if err := p.Err("query"); err != nil {
		return answer{}, err
	}
	rows, err := a.Deliveries.ListRedeliveries(ctx, r.scope, oneMore(page))
	if err != nil {
		return answer{}, err
	}
	return ok(listOf(r, page.Limit, rows, func(r waypost.Redelivery) string { return r.ID }, answerRedelivery))
}

func (a *api) cancelRedelivery(ctx context.Context, r *request) (answer, error) {
	ans, err := effect(ctx, r, func(ctx context.Context) (waypost.Redelivery, error) {
		return a.Deliveries.CancelRedelivery(ctx, r.scope, r.param("id"))
	}, func(canceled waypost.Redelivery) (answer, error) {
		return ok(answerRedelivery(canceled))
	})
	if err == nil {
		a.Waker.Wake()
	}
	return ans, err
}
