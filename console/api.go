package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"waypost"
	"waypost/client"
)

// gateway makes calls of the gateway for one person, in one stage.
type gateway struct {
	client  *client.Client
	user    waypost.User
	stage   string
	request string // the id of the request that the calls are made for
}

// callTime bounds one call: a page that says that the gateway is away is better than none.
const callTime = 20 * time.Second

// do makes one call, which needs a grant. It is refused here, before it is sent, if the
// person's role does not have the grant: the application that the console is has more.
func (g gateway) do(ctx context.Context, grant waypost.Grant, method, target string, body, answer any) error {
	if !g.user.Role.Allows(grant) {
		return refused{grant}
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err := g.signed().Do(ctx, method, target, body, answer)
	if e := (*waypost.Error)(nil); err != nil && !errors.As(err, &e) {
		return away{err}
	}
	return err
}

// signed is the client with the headers of this person's calls. It names the person for the
// gateway's audit log.
func (g gateway) signed() *client.Client {
	c := *g.client
	c.Header = http.Header{"X-Cloud-Stage": {g.stage}, "X-Request-Id": {g.request}}
	return c.As(g.user.Email)
}

// get reads one resource, of a path without its query.
func get[T any](ctx context.Context, g gateway, grant waypost.Grant, path string, query url.Values) (answer T, err error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return answer, g.do(ctx, grant, http.MethodGet, path, nil, &answer)
}

// list is one page of a list (docs/contract.md, "Lists").
type list[T any] struct {
	Items []T `json:"items"`
	// NextCursor is where the next page begins, "" if there is none.
	NextCursor string `json:"nextCursor"`
}

// The calls that pages make, by resource. Members of answers that no page shows are left
// out of their types.

// delivery is a delivery as a list has it; strings are "" and numbers 0 where nothing is
// known yet.
type delivery struct {
	MessageID      string                 `json:"messageId"`
	EnrollmentID   string                 `json:"enrollmentId"`
	JourneyID      string                 `json:"journeyId"`
	JourneyVersion int                    `json:"journeyVersion"`
	NodeID         string                 `json:"nodeId"`
	WebhookID      string                 `json:"webhookId"`
	LeadsID        int64                  `json:"leadsId"`
	Status         waypost.DeliveryStatus `json:"status"`
	DeferredReason string                 `json:"deferredReason"`
	Message        string                 `json:"message"`
	HTTPStatus     int                    `json:"httpStatus"`
	ErrorClass     string                 `json:"errorClass"`
	Attempts       int                    `json:"attempts"`
	NextAttemptAt  time.Time              `json:"nextAttemptAt"`
	LastAttemptAt  time.Time              `json:"lastAttemptAt"`
	DurationMs     int64                  `json:"durationMs"`
}

func (g gateway) listDeliveries(ctx context.Context, query url.Values) (list[delivery], error) {
	return get[list[delivery]](ctx, g, waypost.GrantDeliveriesRead, "/v1/deliveries", query)
}
