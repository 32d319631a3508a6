package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"waypost"
	"waypost/api"
)

func webhookPath(id string) string { return "/v1/webhooks/" + url.PathEscape(id) }

func (g gateway) listWebhooks(ctx context.Context, query url.Values) (api.List[api.Webhook], error) {
	return get[api.List[api.Webhook]](ctx, g, waypost.GrantWebhooksRead, "/v1/webhooks", query)
}

func (g gateway) webhook(ctx context.Context, id string) (w api.Webhook, etag string, err error) {
	return tagged[api.Webhook](ctx, g, waypost.GrantWebhooksRead, webhookPath(id))
}

func (g gateway) createWebhook(ctx context.Context, body any) (made api.Webhook, err error) {
	return made, g.do(ctx, waypost.GrantWebhooksWrite, http.MethodPost, "/v1/webhooks", body, &made)
}

func (g gateway) patchWebhook(ctx context.Context, id string, patch any) error {
	return g.do(ctx, waypost.GrantWebhooksWrite, http.MethodPatch, webhookPath(id), patch, nil)
}

func (g gateway) deleteWebhook(ctx context.Context, id string) error {
	return g.do(ctx, waypost.GrantWebhooksWrite, http.MethodDelete, webhookPath(id), nil, nil)
}

func (g gateway) healthOf(ctx context.Context, id string) (api.WebhookHealth, error) {
	return get[api.WebhookHealth](ctx, g, waypost.GrantWebhooksRead, webhookPath(id)+"/health", nil)
}

func (g gateway) webhookHistory(ctx context.Context, id string, query url.Values) ([]api.WebhookInterval, error) {
	answer, err := get[api.WebhookHistory](ctx, g, waypost.GrantWebhooksRead, webhookPath(id)+"/history", query)
	return answer.Series, err
}

// attemptHistory is the sum of the histories of all webhooks.
func (g gateway) attemptHistory(ctx context.Context, query url.Values) ([]api.AttemptInterval, error) {
	answer, err := get[api.AttemptHistory](ctx, g, waypost.GrantWebhooksRead, "/v1/webhooks/history", query)
	return answer.Series, err
}

// testTime bounds a test message: it takes as long as its webhook gives its receiver.
const testTime = waypost.MaxTimeoutMs*time.Millisecond + callTime

func (g gateway) testWebhook(ctx context.Context, id string) (api.Trial, error) {
	return g.sendTrial(ctx, waypost.GrantWebhooksWrite, webhookPath(id)+"/test", nil)
}

// sendTrial makes a call that sends a test message.
func (g gateway) sendTrial(ctx context.Context, grant waypost.Grant, path string, body []byte) (result api.Trial, err error) {
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	var header http.Header
	if body != nil {
		header = http.Header{"Content-Type": {"application/json"}}
	}
	res, err := g.stream(ctx, grant, http.MethodPost, path, header, body)
	if err != nil {
		return result, err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&result); err != nil {
		return result, away{err}
	}
	return result, nil
}
