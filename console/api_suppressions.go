package console

import (
	"context"
	"net/http"
	"net/url"

	"waypost"
	"waypost/api"
)

// suppression keeps a channel from an address.
type suppression struct{ api.Suppression }

// Kind names the address that is set.
func (s suppression) Kind() string {
	return waypost.Suppression{
		MobilePhone: string(s.MobilePhone), Email: string(s.Email), ExternalID: string(s.ExternalID),
	}.AddressKind()
}

func (g gateway) listSuppressions(ctx context.Context, query url.Values) (api.List[suppression], error) {
	return get[api.List[suppression]](ctx, g, waypost.GrantSuppressionsRead, "/v1/suppressions", query)
}

func (g gateway) createSuppression(ctx context.Context, body any) (made suppression, err error) {
	return made, g.do(ctx, waypost.GrantSuppressionsWrite, http.MethodPost, "/v1/suppressions", body, &made)
}

func (g gateway) deleteSuppression(ctx context.Context, id string) error {
	path := "/v1/suppressions/" + url.PathEscape(id)
	_, etag, err := tagged[suppression](ctx, g, waypost.GrantSuppressionsRead, path)
	if err != nil {
		return err
	}
	return g.when(etag).do(ctx, waypost.GrantSuppressionsWrite, http.MethodDelete, path, nil, nil)
}

// channels are the channels of webhooks, sorted.
func (g gateway) channels(ctx context.Context) ([]string, error) {
	channels := []string{} // not null as JSON
	found, err := g.listWebhooks(ctx, url.Values{"limit": {mostNames}})
	for _, w := range found.Items {
		if w.Channel != "" {
			channels = append(channels, string(w.Channel))
		}
	}
	return distinct(channels), err
}
