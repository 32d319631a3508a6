package gateway

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"waypost"
)

// Deliveries reads the records of deliveries, and sends messages once more.
type Deliveries interface {
	Redeliveries
	ListDeliveries(ctx context.Context, sc waypost.Scope, f waypost.DeliveryFilter, page waypost.Page) ([]waypost.Delivery, error)
	// Delivery returns a delivery with its attempts and its stored message, nil if
	// none was rendered yet or it is unreadable.
	Delivery(ctx context.Context, sc waypost.Scope, messageID string) (d waypost.Delivery, attempts []waypost.Attempt, body []byte, err error)
	// RecentTouchpoints returns when messages went out to a lead after since and not
	// after until, the last ones, at most limit.
	RecentTouchpoints(ctx context.Context, sc waypost.Scope, leadsID int64, since, until time.Time, limit int) ([]time.Time, error)
}

// deliveryAnswer is a delivery as it is answered: null where nothing is known yet.
type deliveryAnswer struct {
	MessageID      string                 `json:"messageId"`
	EnrollmentID   string                 `json:"enrollmentId"`
	JourneyID      string                 `json:"journeyId"`
	JourneyVersion int                    `json:"journeyVersion"`
	NodeID         string                 `json:"nodeId"`
	WebhookID      string                 `json:"webhookId"`
	LeadsID        int64                  `json:"leadsId"`
	Status         waypost.DeliveryStatus `json:"status"`
	DeferredReason *string                `json:"deferredReason"`
	Succeed        *bool                  `json:"succeed"`
	Message        *string                `json:"message"`
	HTTPStatus     *int                   `json:"httpStatus"`
	Attempts       int                    `json:"attempts"`
	NextAttemptAt  *string                `json:"nextAttemptAt"`
	FirstAttemptAt *string                `json:"firstAttemptAt"`
	LastAttemptAt  *string                `json:"lastAttemptAt"`
	DurationMs     *int64                 `json:"durationMs"`
	GaveUp         *waypost.GaveUp        `json:"gaveUp"`
	TemporalURL    *string                `json:"temporalUrl"`
}

func (a *api) answerDelivery(d waypost.Delivery) deliveryAnswer {
	ans := deliveryAnswer{
		MessageID: d.MessageID, EnrollmentID: d.EnrollmentID, JourneyID: d.JourneyID, JourneyVersion: d.JourneyVersion,
		NodeID: d.NodeID, WebhookID: d.WebhookID, LeadsID: d.LeadsID, Status: d.Status, DeferredReason: orNull(d.DeferredReason),
		Succeed: d.Succeed, Message: orNull(d.Message), HTTPStatus: orNull(d.HTTPStatus), Attempts: d.Attempts,
		NextAttemptAt: stampOrNull(d.NextAttemptAt), FirstAttemptAt: stampOrNull(d.FirstAttemptAt),
		LastAttemptAt: stampOrNull(d.LastAttemptAt), TemporalURL: orNull(a.TemporalURL(d.JourneyID, d.LeadsID)),
		GaveUp: orNull(d.GaveUp),
	}
	if d.Attempts > 0 {
		ans.DurationMs = &d.DurationMs
	}
	return ans
}

// deliveryStatuses are what the filter status can be.
var deliveryStatuses = []waypost.DeliveryStatus{
	waypost.DeliveryPending, waypost.DeliveryRetrying, waypost.DeliveryDeferred,
	waypost.DeliverySucceeded, waypost.DeliveryFailed, waypost.DeliveryCanceled,
}

func (a *api) listDeliveries(ctx context.Context, r *request) (answer, error) {
	filter := waypost.DeliveryFilter{
		JourneyID: r.params["journeyId"], WebhookID: r.params["webhookId"], EnrollmentID: r.params["enrollmentId"],
		LaunchID: r.params["launchId"], LeadsID: r.integer("leadsId", 1, math.MaxInt64, 0),
		Status: waypost.DeliveryStatus(r.params["status"]), From: r.moment("from"), To: r.moment("to"),
	}
	if filter.Status != "" && !slices.Contains(deliveryStatuses, filter.Status) {
		r.queryFaults.Add(waypost.DetailInvalidFormat, "status", "must be pending, retrying, deferred, succeeded, failed or canceled")
	}
	inOrder(&r.queryFaults, "", "from", "to", filter.From, filter.To)
	return answerPage(r, func(page waypost.Page) ([]waypost.Delivery, error) {
		return a.Deliveries.ListDeliveries(ctx, r.scope, filter, page)
	}, func(d waypost.Delivery) string { return d.MessageID }, a.answerDelivery)
}

// deliveryDetail is a delivery with its attempts and what they sent.
type deliveryDetail struct {
	deliveryAnswer
	AttemptLog []attemptAnswer `json:"attemptLog"`
	Request    sentRequest     `json:"request"`
	// PayloadDropped says that there was a message, which retention or the deletion of its
	// lead has dropped, with what the receiver answered.
	PayloadDropped bool `json:"payloadDropped"`
	// PayloadUnreadable says that the message is there, and its encryption key is not.
	PayloadUnreadable bool `json:"payloadUnreadable"`
}

type attemptAnswer struct {
	Attempt         int     `json:"attempt"`
	Round           int     `json:"round"`
	At              string  `json:"at"`
	HTTPStatus      *int    `json:"httpStatus"`
	ErrorClass      *string `json:"errorClass"`
	Message         *string `json:"message"`
	DurationMs      int64   `json:"durationMs"`
	ResponseExcerpt *string `json:"responseExcerpt"`

	GaveUp *waypost.GaveUp `json:"gaveUp"`
}

func answerAttempt(t waypost.Attempt) attemptAnswer {
	return attemptAnswer{
		t.Attempt, t.Round, stamp(t.At), orNull(t.HTTPStatus), orNull(t.ErrorClass), orNull(t.Message), t.DurationMs,
		orNull(t.ResponseExcerpt), orNull(t.GaveUp),
	}
}

// sentRequest is the documented request. Its URL is the webhook's as it is now,
// null once the webhook is deleted; Authorization is never shown.
type sentRequest struct {
	Method  string            `json:"method"`
	URL     *string           `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

func (a *api) showDelivery(ctx context.Context, r *request) (answer, error) {
	d, attempts, body, err := a.Deliveries.Delivery(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	ans := deliveryDetail{deliveryAnswer: a.answerDelivery(d), AttemptLog: described(attempts, answerAttempt)}
	w, err := a.Webhooks.Webhook(ctx, r.scope, d.WebhookID)
	if err != nil && waypost.CodeOf(err) != waypost.CodeNotFound {
		return answer{}, err
	}
	ans.Request = requestFor(w.SentURL(), body)
	ans.PayloadUnreadable = d.BodyUnreadable
	ans.PayloadDropped = body == nil && !d.BodyUnreadable && len(attempts) > 0 && attempts[len(attempts)-1].ErrorClass != waypost.ClassRender
	return resource(http.StatusOK, "", ans)
}

// requestFor describes the push (docs/contract.md, "Push request").
func requestFor(address string, body []byte) sentRequest {
	sent := sentRequest{Method: http.MethodPost, URL: orNull(address), Body: body, Headers: map[string]string{
		"Content-Type": "application/json",
		"User-Agent":   "Waypost/" + waypost.ProductVersion,
		"Connection":   "keep-alive",
	}}
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		sent.Headers["Host"] = u.Host
	}
	if body != nil {
		sent.Headers["Content-Length"] = strconv.Itoa(len(body))
	}
	return sent
}
