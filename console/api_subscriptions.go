package console

import (
	"context"
	"net/http"
	"net/url"

	"waypost"
	"waypost/api"
)

const subscriptionsPath = "/v1/subscriptions"

func subscriptionPath(id string) string { return subscriptionsPath + "/" + url.PathEscape(id) }

func (g gateway) listSubscriptions(ctx context.Context, query url.Values) (api.List[api.Subscription], error) {
	return get[api.List[api.Subscription]](ctx, g, waypost.GrantSubscriptionsRead, subscriptionsPath, query)
}

func (g gateway) subscription(ctx context.Context, id string) (s api.Subscription, etag string, err error) {
	return tagged[api.Subscription](ctx, g, waypost.GrantSubscriptionsRead, subscriptionPath(id))
}

func (g gateway) createSubscription(ctx context.Context, body any) (made api.Subscription, err error) {
	return made, g.do(ctx, waypost.GrantSubscriptionsWrite, http.MethodPost, subscriptionsPath, body, &made)
}

func (g gateway) patchSubscription(ctx context.Context, id string, patch any) error {
	return g.do(ctx, waypost.GrantSubscriptionsWrite, http.MethodPatch, subscriptionPath(id), patch, nil)
}

func (g gateway) deleteSubscription(ctx context.Context, id string) error {
	return g.do(ctx, waypost.GrantSubscriptionsWrite, http.MethodDelete, subscriptionPath(id), nil, nil)
}
