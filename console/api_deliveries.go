package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"waypost"
	"waypost/api"
)

// delivery is a delivery as a list has it.
type delivery struct {
	MessageID      string                 `json:"messageId"`
	EnrollmentID   string                 `json:"enrollmentId"`
	JourneyID      string                 `json:"journeyId"`
	JourneyVersion int                    `json:"journeyVersion"`
	NodeID         string                 `json:"nodeId"`
	SubscriptionID string                 `json:"subscriptionId"` // "" for a touchpoint, which the journey and the lead are of
	WebhookID      string                 `json:"webhookId"`
	LeadsID        int64                  `json:"leadsId"`
	Status         waypost.DeliveryStatus `json:"status"`
	DeferredReason string                 `json:"deferredReason"`
	Message        string                 `json:"message"`
	HTTPStatus     int                    `json:"httpStatus"`
	ErrorClass     string                 `json:"errorClass"`
	Attempts       int                    `json:"attempts"`
	NextAttemptAt  time.Time              `json:"nextAttemptAt"`
	FirstAttemptAt time.Time              `json:"firstAttemptAt"`
	LastAttemptAt  time.Time              `json:"lastAttemptAt"`
	DurationMs     int64                  `json:"durationMs"`
	GaveUp         waypost.GaveUp         `json:"gaveUp"`
	TemporalURL    string                 `json:"temporalUrl"`
}

// in names the version of the journey whose touchpoint made the delivery.
func (d delivery) in() inVersion { return inVersion{d.JourneyID, d.JourneyVersion} }

// At is when something last happened to it, as far as the delivery tells.
func (d delivery) At() time.Time {
	if d.LastAttemptAt.IsZero() {
		return d.FirstAttemptAt
	}
	return d.LastAttemptAt
}

// deliveryDetail is a delivery with its attempts and what they sent.
type deliveryDetail struct {
	delivery
	AttemptLog []attempt `json:"attemptLog"`
	Request    struct {
		Method  string            `json:"method"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
		Body    json.RawMessage   `json:"body"`
	} `json:"request"`
	PayloadDropped    bool `json:"payloadDropped"`
	PayloadUnreadable bool `json:"payloadUnreadable"`
}

type attempt struct {
	Attempt         int            `json:"attempt"`
	Round           int            `json:"round"`
	At              time.Time      `json:"at"`
	HTTPStatus      int            `json:"httpStatus"`
	ErrorClass      string         `json:"errorClass"`
	Message         string         `json:"message"`
	DurationMs      int64          `json:"durationMs"`
	ResponseExcerpt string         `json:"responseExcerpt"`
	GaveUp          waypost.GaveUp `json:"gaveUp"`
}

// failureCount counts deliveries that failed alike.
type failureCount struct {
	groupKey
	Count           int       `json:"count"`
	LastAt          time.Time `json:"lastAt"`
	SampleMessageID string    `json:"sampleMessageId"`
	Message         string    `json:"message"`
}

// groupKey is what the deliveries of a group have in common.
type groupKey struct {
	ErrorClass string `json:"errorClass"`
	HTTPStatus int    `json:"httpStatus"`
	WebhookID  string `json:"webhookId"`
}

// query are the filters that the deliveries of the group match.
func (k groupKey) query() url.Values {
	query := url.Values{"errorClass": {k.ErrorClass}}
	if k.WebhookID != "" {
		query.Set("webhookId", k.WebhookID)
	}
	if k.HTTPStatus != 0 {
		query.Set("httpStatus", strconv.Itoa(k.HTTPStatus))
	}
	return query
}

// redelivery is a bulk redelivery with its progress.
type redelivery struct {
	ID        string                   `json:"id"`
	Status    waypost.RedeliveryStatus `json:"status"`
	Message   string                   `json:"message"`
	Total     int                      `json:"total"`
	Skipped   int                      `json:"skipped"`
	Succeeded int                      `json:"succeeded"`
	Failed    int                      `json:"failed"`
	Canceled  int                      `json:"canceled"`
	CreatedAt time.Time                `json:"createdAt"`
	EndedAt   time.Time                `json:"endedAt"`
}

// Done counts the messages whose outcome is known.
func (r redelivery) Done() int { return r.Skipped + r.Succeeded + r.Failed + r.Canceled }

func (g gateway) listDeliveries(ctx context.Context, query url.Values) (api.List[delivery], error) {
	return get[api.List[delivery]](ctx, g, waypost.GrantDeliveriesRead, "/v1/deliveries", query)
}

func (g gateway) delivery(ctx context.Context, id string) (deliveryDetail, error) {
	return get[deliveryDetail](ctx, g, waypost.GrantDeliveriesRead, "/v1/deliveries/"+url.PathEscape(id), nil)
}

// groupDeliveries counts deliveries that match filters, by how they failed and at which
// webhook, or by their groupBy; of no status, those that have failed or are retried.
func (g gateway) groupDeliveries(ctx context.Context, filters url.Values) ([]failureCount, error) {
	query := url.Values{"groupBy": {strings.Join([]string{waypost.GroupErrorClass, waypost.GroupHTTPStatus, waypost.GroupWebhookID}, ",")}}
	for name, values := range filters {
		query[name] = values
	}
	answer, err := get[struct {
		Groups []failureCount `json:"groups"`
	}](ctx, g, waypost.GrantDeliveriesRead, "/v1/deliveries/summary", query)
	return answer.Groups, err
}

func (g gateway) redeliver(ctx context.Context, id string) error {
	return g.do(ctx, waypost.GrantDeliveriesRedeliver, http.MethodPost, "/v1/deliveries/"+url.PathEscape(id)+"/redeliver", nil, nil)
}

func (g gateway) createRedelivery(ctx context.Context, filter map[string]any) (made redelivery, err error) {
	return made, g.do(ctx, waypost.GrantDeliveriesRedeliver, http.MethodPost, "/v1/redeliveries", map[string]any{"filter": filter}, &made)
}

func (g gateway) redelivery(ctx context.Context, id string) (redelivery, error) {
	return get[redelivery](ctx, g, waypost.GrantDeliveriesRead, "/v1/redeliveries/"+url.PathEscape(id), nil)
}

func (g gateway) listRedeliveries(ctx context.Context, query url.Values) (api.List[redelivery], error) {
	return get[api.List[redelivery]](ctx, g, waypost.GrantDeliveriesRead, "/v1/redeliveries", query)
}

func (g gateway) cancelRedelivery(ctx context.Context, id string) error {
	return g.do(ctx, waypost.GrantDeliveriesRedeliver, http.MethodPost, "/v1/redeliveries/"+url.PathEscape(id)+"/cancel", nil, nil)
}
