package gateway

import (
	"context"
	"math"
	"net/http"
	"slices"

	"waypost"
)

// Redeliveries sends messages once more. An accepted redelivery survives a crash.
type Redeliveries interface {
	// Redeliver begins a new round of attempts of one message.
	Redeliver(ctx context.Context, by waypost.Caller, messageID string) (waypost.Delivery, error)
	// CreateRedelivery stores a bulk redelivery; a filter without a status is one for
	// failed deliveries.
	CreateRedelivery(ctx context.Context, by waypost.Caller, f waypost.DeliveryFilter, appID string) (waypost.Redelivery, error)
	Redelivery(ctx context.Context, sc waypost.Scope, id string) (waypost.Redelivery, error)
	ListRedeliveries(ctx context.Context, sc waypost.Scope, page waypost.Page) ([]waypost.Redelivery, error)
	CancelRedelivery(ctx context.Context, by waypost.Caller, id string) (waypost.Redelivery, error)
}

// redeliver begins a new round of attempts of one message; the pump starts it.
func (a *server) redeliver(ctx context.Context, r *request) (answer, error) {
	return effect(ctx, r, func(ctx context.Context) (waypost.Delivery, error) {
		return a.Deliveries.Redeliver(ctx, r.by(), r.param("id"))
	}, func(d waypost.Delivery) (answer, error) {
		return at(http.StatusAccepted, "/v1/deliveries/"+d.MessageID, a.answerDelivery(d))
	})
}

// deliveryFilterBody has the filters of the delivery list as members.
type deliveryFilterBody struct {
	JourneyID    *string `json:"journeyId"`
	NodeID       *string `json:"nodeId"`
	WebhookID    *string `json:"webhookId"`
	EnrollmentID *string `json:"enrollmentId"`
	LaunchID     *string `json:"launchId"`

	SubscriptionID *string `json:"subscriptionId"`

	LeadsID    *int64  `json:"leadsId"`
	Status     *string `json:"status"` // several with commas between them
	ErrorClass *string `json:"errorClass"`
	HTTPStatus *int64  `json:"httpStatus"`
	From       *string `json:"from"`
	To         *string `json:"to"`
}

func decodeRedelivery(r *request) (f waypost.DeliveryFilter, err error) {
	var body struct {
		Filter *deliveryFilterBody `json:"filter"`
	}
	err = checked(waypost.DecodeJSON(r.body, &body), func(p *waypost.Problems) {
		if body.Filter == nil { // an empty one says that all failed ones are meant
			p.Add(waypost.DetailNullValue, "filter", "is missing")
			return
		}
		f = body.Filter.read(p, "filter.")
	})
	return f, err
}

// read checks the filter; path stands before the names of its members.
func (b deliveryFilterBody) read(p *waypost.Problems, path string) (f waypost.DeliveryFilter) {
	for _, id := range []struct {
		name, prefix, of string
		raw              *string
		into             *string
	}{
		{"journeyId", waypost.PrefixJourney, "a journey", b.JourneyID, &f.JourneyID},
		{"webhookId", waypost.PrefixWebhook, "a webhook", b.WebhookID, &f.WebhookID},
		{"enrollmentId", waypost.PrefixEnrollment, "an enrollment", b.EnrollmentID, &f.EnrollmentID},
		{"launchId", waypost.PrefixLaunch, "a launch", b.LaunchID, &f.LaunchID},
		{"subscriptionId", waypost.PrefixSubscription, "a subscription", b.SubscriptionID, &f.SubscriptionID},
	} {
		if id.raw == nil {
			continue
		}
		if *id.into = *id.raw; !waypost.IsID(id.prefix, *id.raw) {
			p.Add(waypost.DetailInvalidFormat, path+id.name, "must be the id of %s", id.of)
		}
	}
	if id := b.LeadsID; id != nil {
		if f.LeadsID = *id; *id < 1 {
			p.Add(waypost.DetailOutOfRange, path+"leadsId", "must be 1 to %d", int64(math.MaxInt64))
		}
	}
	if id := b.NodeID; id != nil {
		if f.NodeID = *id; *id == "" || len(*id) > maxNodeID {
			p.Add(waypost.DetailInvalidFormat, path+"nodeId", "must be the id of a node")
		}
	}
	f.Statuses = several(p, path+"status", b.Status, finalStatuses, waypost.DetailOutOfRange,
		"must be failed, succeeded or canceled, or several of them with commas between: only what is decided can be sent again")
	f.ErrorClass = errorClass(p, path+"errorClass", b.ErrorClass)
	if status := b.HTTPStatus; status != nil {
		if f.HTTPStatus = int(*status); *status < minHTTPStatus || *status > maxHTTPStatus {
			p.Add(waypost.DetailOutOfRange, path+"httpStatus", "must be %d to %d", minHTTPStatus, maxHTTPStatus)
		}
	}
	f.From, f.To = moment(p, path+"from", b.From, ""), moment(p, path+"to", b.To, "")
	inOrder(p, path, "from", "to", f.From, f.To)
	return f
}

// finalStatuses are those of deliveryStatuses that can be redelivered.
var finalStatuses = slices.DeleteFunc(slices.Clone(deliveryStatuses), func(status waypost.DeliveryStatus) bool { return !status.Final() })

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
			JourneyID: orNull(f.JourneyID), NodeID: orNull(f.NodeID), WebhookID: orNull(f.WebhookID), EnrollmentID: orNull(f.EnrollmentID),
			LaunchID: orNull(f.LaunchID), SubscriptionID: orNull(f.SubscriptionID), LeadsID: orNull(f.LeadsID), Status: orNull(joined(f.Statuses)), ErrorClass: orNull(f.ErrorClass),
			HTTPStatus: orNull(int64(f.HTTPStatus)), From: stampOrNull(&f.From), To: stampOrNull(&f.To),
		},
	}
}

// createRedelivery stores a bulk redelivery; the pump carries it out.
func (a *server) createRedelivery(ctx context.Context, r *request) (answer, error) {
	filter, err := decodeRedelivery(r)
	if err != nil {
		return answer{}, err
	}
	return effect(ctx, r, func(ctx context.Context) (waypost.Redelivery, error) {
		return a.Deliveries.CreateRedelivery(ctx, r.by(), filter, r.app.ID)
	}, func(made waypost.Redelivery) (answer, error) {
		return at(http.StatusAccepted, "/v1/redeliveries/"+made.ID, answerRedelivery(made))
	})
}

func (a *server) showRedelivery(ctx context.Context, r *request) (answer, error) {
	found, err := a.Deliveries.Redelivery(ctx, r.scope, r.param("id"))
	return resourceWith(found, err, answerRedelivery)
}

func (a *server) listRedeliveries(ctx context.Context, r *request) (answer, error) {
	return answerPage(r, func(page waypost.Page) ([]waypost.Redelivery, error) {
		return a.Deliveries.ListRedeliveries(ctx, r.scope, page)
	}, func(r waypost.Redelivery) string { return r.ID }, answerRedelivery)
}

func (a *server) cancelRedelivery(ctx context.Context, r *request) (answer, error) {
	return control(ctx, r, a.Deliveries.CancelRedelivery, answerRedelivery)
}
