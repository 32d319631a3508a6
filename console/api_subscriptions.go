package console

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"waypost"
	"waypost/api"
)

// subscription has a webhook told what happens in its stage.
type subscription struct {
	ID        string              `json:"id"`
	Name      string              `json:"name"`
	WebhookID string              `json:"webhookId"`
	On        []waypost.Happening `json:"on"`
	JourneyID string              `json:"journeyId"` // "" for all
	UpdatedAt time.Time           `json:"updatedAt"`
}

const subscriptionsPath = "/v1/subscriptions"

func subscriptionPath(id string) string { return subscriptionsPath + "/" + url.PathEscape(id) }

func (g gateway) listSubscriptions(ctx context.Context, query url.Values) (api.List[subscription], error) {
	return get[api.List[subscription]](ctx, g, waypost.GrantSubscriptionsRead, subscriptionsPath, query)
}

func (g gateway) subscription(ctx context.Context, id string) (s subscription, etag string, err error) {
	return tagged[subscription](ctx, g, waypost.GrantSubscriptionsRead, subscriptionPath(id))
}

func (g gateway) createSubscription(ctx context.Context, body any) (made subscription, err error) {
	return made, g.do(ctx, waypost.GrantSubscriptionsWrite, http.MethodPost, subscriptionsPath, body, &made)
}

func (g gateway) patchSubscription(ctx context.Context, id string, patch any) error {
	return g.do(ctx, waypost.GrantSubscriptionsWrite, http.MethodPatch, subscriptionPath(id), patch, nil)
}

func (g gateway) deleteSubscription(ctx context.Context, id string) error {
	return g.do(ctx, waypost.GrantSubscriptionsWrite, http.MethodDelete, subscriptionPath(id), nil, nil)
}
