package gateway

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"waypost"
)

// Deliveries reads the records of deliveries, and sends messages once more.
type Deliveries interface {
	Redeliveries
	ListDeliveries(ctx context.Context, sc waypost.Scope, f waypost.DeliveryFilter, page waypost.Page) ([]waypost.Delivery, error)
	// SummarizeDeliveries groups deliveries by some of waypost.DeliveryGroupings; without a
	// status in the filter, those that have failed and those that are retried.
	SummarizeDeliveries(ctx context.Context, sc waypost.Scope, f waypost.DeliveryFilter, by []string) ([]waypost.DeliveryGroup, error)
	// ExportDeliveries gives all deliveries that match to each, from one snapshot.
	ExportDeliveries(ctx context.Context, sc waypost.Scope, f waypost.DeliveryFilter, each func(waypost.Delivery) error) error
	// Delivery returns a delivery with its attempts and its stored message, nil if
	// none was rendered yet or it is unreadable.
	Delivery(ctx context.Context, sc waypost.Scope, messageID string) (d waypost.Delivery, attempts []waypost.Attempt, body []byte, err error)
	// RecentTouchpoints returns when messages went out to a lead after since and not
	// after until, the last ones, at most limit.
	RecentTouchpoints(ctx context.Context, sc waypost.Scope, leadsID int64, since, until time.Time, limit int) ([]time.Time, error)
}

// deliveryAnswer is a delivery as it is answered: null where nothing is known yet. A message
// to a subscription has no enrollment, journey, node and lead, others have no subscription.
type deliveryAnswer struct {
	MessageID      string                 `json:"messageId"`
	EnrollmentID   *string                `json:"enrollmentId"`
	JourneyID      *string                `json:"journeyId"`
	JourneyVersion *int                   `json:"journeyVersion"`
	NodeID         *string                `json:"nodeId"`
	SubscriptionID *string                `json:"subscriptionId"`
	WebhookID      string                 `json:"webhookId"`
	LeadsID        *int64                 `json:"leadsId"`
	Status         waypost.DeliveryStatus `json:"status"`
	DeferredReason *string                `json:"deferredReason"`
	Succeed        *bool                  `json:"succeed"`
	Message        *string                `json:"message"`
	HTTPStatus     *int                   `json:"httpStatus"`
	ErrorClass     *string                `json:"errorClass"`
	Attempts       int                    `json:"attempts"`
	NextAttemptAt  *string                `json:"nextAttemptAt"`
	FirstAttemptAt *string                `json:"firstAttemptAt"`
	LastAttemptAt  *string                `json:"lastAttemptAt"`
	DurationMs     *int64                 `json:"durationMs"`
	GaveUp         *waypost.GaveUp        `json:"gaveUp"`
	TemporalURL    *string                `json:"temporalUrl"`
}

func (a *server) answerDelivery(d waypost.Delivery) deliveryAnswer {
	ans := deliveryAnswer{
		MessageID: d.MessageID, EnrollmentID: orNull(d.EnrollmentID), JourneyID: orNull(d.JourneyID), JourneyVersion: orNull(d.JourneyVersion),
		NodeID: orNull(d.NodeID), SubscriptionID: orNull(d.SubscriptionID), WebhookID: d.WebhookID, LeadsID: orNull(d.LeadsID), Status: d.Status,
		DeferredReason: orNull(d.DeferredReason),
		Succeed:        d.Succeed, Message: orNull(d.Message), HTTPStatus: orNull(d.HTTPStatus), ErrorClass: orNull(d.ErrorClass), Attempts: d.Attempts,
		NextAttemptAt: stampOrNull(d.NextAttemptAt), FirstAttemptAt: stampOrNull(d.FirstAttemptAt),
		LastAttemptAt: stampOrNull(d.LastAttemptAt), GaveUp: orNull(d.GaveUp),
	}
	if d.SubscriptionID == "" {
		ans.TemporalURL = orNull(a.TemporalURL(d.JourneyID, d.LeadsID))
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

// Bounds of filters: what a receiver can answer with, and the characters of a node's id.
const (
	minHTTPStatus, maxHTTPStatus = 100, 999

	maxNodeID = 64
)

// several reads a list with commas between its elements; allowed says what these can be.
func several[T ~string](p *waypost.Problems, target string, raw *string, known []T, code waypost.DetailCode, allowed string) (list []T) {
	if raw == nil {
		return nil
	}
	for part := range strings.SplitSeq(*raw, ",") {
		switch element := T(part); {
		case !slices.Contains(known, element):
			p.Add(code, target, "%s", allowed)
			return nil
		case slices.Contains(list, element):
			p.Add(waypost.DetailDuplicate, target, "has %s twice", part)
			return nil
		default:
			list = append(list, element)
		}
	}
	return list
}

// joined writes what several reads.
func joined[T ~string](list []T) string {
	var out []string
	for _, element := range list {
		out = append(out, string(element))
	}
	return strings.Join(out, ",")
}

// deliveryFilter reads the filters of a list of deliveries.
func deliveryFilter(r *request) waypost.DeliveryFilter {
	p := &r.queryFaults
	f := waypost.DeliveryFilter{
		JourneyID: r.params["journeyId"], NodeID: r.params["nodeId"], WebhookID: r.params["webhookId"], EnrollmentID: r.params["enrollmentId"],
		LaunchID: r.params["launchId"], SubscriptionID: r.params["subscriptionId"], LeadsID: r.integer("leadsId", 1, math.MaxInt64, 0), From: r.moment("from"), To: r.moment("to"),
	}
	f.Statuses = several(p, "status", r.text("status"), deliveryStatuses, waypost.DetailInvalidFormat,
		"must be pending, retrying, deferred, succeeded, failed or canceled, or several of them with commas between")
	f.ErrorClass = errorClass(p, "errorClass", r.text("errorClass"))
	f.HTTPStatus = int(r.integer("httpStatus", minHTTPStatus, maxHTTPStatus, 0))
	inOrder(p, "", "from", "to", f.From, f.To)
	return f
}

// errorClass reads an error class; absent is "".
func errorClass(p *waypost.Problems, target string, raw *string) string {
	if raw == nil {
		return ""
	}
	if !slices.Contains(waypost.ErrorClasses, *raw) {
		p.Add(waypost.DetailOutOfRange, target, "must be one of %s", strings.Join(waypost.ErrorClasses, ", "))
	}
	return *raw
}

func (a *server) listDeliveries(ctx context.Context, r *request) (answer, error) {
	filter := deliveryFilter(r)
	return answerPage(r, func(page waypost.Page) ([]waypost.Delivery, error) {
		return a.Deliveries.ListDeliveries(ctx, r.scope, filter, page)
	}, func(d waypost.Delivery) string { return d.MessageID }, a.answerDelivery)
}

// groupAnswer is a group of deliveries. It has the members that they are grouped by, null
// where a delivery has none, and not the others.
type groupAnswer struct {
	ErrorClass      any     `json:"errorClass,omitempty"`
	HTTPStatus      any     `json:"httpStatus,omitempty"`
	WebhookID       any     `json:"webhookId,omitempty"`
	NodeID          any     `json:"nodeId,omitempty"`
	Count           int     `json:"count"`
	LastAt          *string `json:"lastAt"` // of the sample, as message is
	SampleMessageID string  `json:"sampleMessageId"`
	Message         *string `json:"message"`
}

func answerGroup(g waypost.DeliveryGroup, by []string) groupAnswer {
	d := g.Sample
	ans := groupAnswer{Count: g.Count, LastAt: stampOrNull(d.LastAttemptAt), SampleMessageID: d.MessageID, Message: orNull(d.Message)}
	for _, name := range by {
		switch name {
		case waypost.GroupErrorClass:
			ans.ErrorClass = orNull(d.ErrorClass)
		case waypost.GroupHTTPStatus:
			ans.HTTPStatus = orNull(d.HTTPStatus)
		case waypost.GroupWebhookID:
			ans.WebhookID = d.WebhookID
		case waypost.GroupNodeID:
			ans.NodeID = orNull(d.NodeID)
		}
	}
	return ans
}

// summarizeDeliveries counts deliveries in groups.
func (a *server) summarizeDeliveries(ctx context.Context, r *request) (answer, error) {
	filter := deliveryFilter(r)
	by := several(&r.queryFaults, "groupBy", r.text("groupBy"), waypost.DeliveryGroupings, waypost.DetailOutOfRange,
		"must be one or more of "+strings.Join(waypost.DeliveryGroupings, ", ")+", with commas between")
	if _, given := r.params["groupBy"]; !given {
		by = []string{waypost.GroupErrorClass, waypost.GroupHTTPStatus}
	}
	if err := r.queryFaults.Err("query"); err != nil {
		return answer{}, err
	}
	groups, err := a.Deliveries.SummarizeDeliveries(ctx, r.scope, filter, by)
	if err != nil {
		return answer{}, err
	}
	return ok(struct {
		Groups []groupAnswer `json:"groups"`
	}{described(groups, func(g waypost.DeliveryGroup) groupAnswer { return answerGroup(g, by) })})
}

// exportDeliveries streams all deliveries that match, newest first, with the members that
// a list has.
func (a *server) exportDeliveries(ctx context.Context, r *request) (answer, error) {
	filter, scope := deliveryFilter(r), r.scope
	export := func(ctx context.Context, begin func([]string) error, each func(waypost.Delivery) error) error {
		if begin != nil {
			if err := begin(nil); err != nil {
				return err
			}
		}
		return a.Deliveries.ExportDeliveries(ctx, scope, filter, each)
	}
	return exported(ctx, a, r, "delivery", "deliveries", exportNDJSON(export, a.answerDelivery), func(bom bool) streamFunc {
		return exportCSV(export, bom, (*csvWriter).deliveryHeader, func(c *csvWriter, d waypost.Delivery) error { return c.delivery(a.answerDelivery(d)) })
	})
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

func (a *server) showDelivery(ctx context.Context, r *request) (answer, error) {
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
