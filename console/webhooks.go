package console

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"waypost"
	"waypost/api"
)

// webhooksPage is the data of the list of webhooks.
type webhooksPage struct {
	Filters filterBar
	Items   []api.Webhook
	More    string
}

func (v *visit) webhooks() error {
	filters := newFilterBar(v.r,
		filter{Name: "name", Label: v.t("webhooks.name"), Type: "search"},
		filter{Name: "enabled", Label: v.t("webhooks.state"), Type: "select", Options: []option{{"true", v.t("webhooks.enabled")}, {"false", v.t("webhooks.disabled")}}},
	)
	found, err := v.gateway.listWebhooks(v.r.Context(), filters.query(v.r))
	if err != nil {
		return err
	}
	return v.render(page{Name: "webhooks", Title: v.t("webhooks.title"), Place: "webhooks", Data: webhooksPage{filters, found.Items, filters.more(found.NextCursor)}})
}

// webhookPage is the data of the page of one webhook.
type webhookPage struct {
	api.Webhook
	Health   api.WebhookHealth
	Spans    []link
	Series   []api.WebhookInterval // with attempts only, newest first
	Plotted  string                // all of them, as JSON
	ParamsAt string                // as JSON, "" for none
	Overlap  bool                  // the secret before is still in use
	Secret   string                // shown once
	Trial    *api.Trial
	CanPlot  bool // there was an attempt
}

// spans are how far back the history is shown.
var spans = []struct {
	name  string
	days  int
	every string
}{{"day", 1, "hour"}, {"week", 7, "hour"}, {"month", 30, "day"}, {"quarter", 90, "day"}}

func (v *visit) webhook() error {
	if v.r.URL.Query().Has("edit") {
		return v.editWebhook()
	}
	return v.showWebhook(v.r.PathValue("id"), "", nil)
}

// showWebhook renders the page of a webhook, with a secret that nobody will see again, or
// what became of a test message.
func (v *visit) showWebhook(id, secret string, result *api.Trial) error {
	ctx := v.r.Context()
	chosen := spans[1]
	for _, s := range spans {
		if s.name == v.r.URL.Query().Get("span") {
			chosen = s
		}
	}
	from := time.Now().Add(-time.Duration(chosen.days) * 24 * time.Hour)
	var w api.Webhook
	var fares api.WebhookHealth
	var series []api.WebhookInterval
	err := together(func() (err error) {
		w, _, err = v.gateway.webhook(ctx, id)
		return err
	}, func() (err error) {
		fares, err = v.gateway.healthOf(ctx, id)
		return err
	}, func() (err error) {
		series, err = v.gateway.webhookHistory(ctx, id, url.Values{"every": {chosen.every}, "from": {from.UTC().Format(time.RFC3339)}})
		return err
	})
	if err != nil {
		return err
	}
	p := webhookPage{Webhook: w, Health: fares, Secret: secret, Trial: result, Overlap: w.PreviousSigningSecretUntil.After(time.Now())}
	if len(w.Params) > 0 {
		text, err := json.MarshalIndent(w.Params, "", "  ")
		if err != nil {
			return err
		}
		p.ParamsAt = string(text)
	}
	for _, s := range spans {
		p.Spans = append(p.Spans, link{"/webhooks/" + id + "?span=" + s.name + "#history", v.t("webhook.span." + s.name), s.name == chosen.name})
	}
	text, err := json.Marshal(series)
	if err != nil {
		return err
	}
	p.Plotted = string(text)
	for i := len(series) - 1; i >= 0; i-- {
		if series[i].Attempts > 0 {
			p.Series = append(p.Series, series[i])
		}
	}
	p.CanPlot = len(p.Series) > 0
	return v.render(page{
		Name: "webhook", Title: w.Name, Place: "webhooks", Live: 10, Back: &link{Path: "/webhooks", Text: v.t("webhooks.title")}, Data: p,
	})
}

func (v *visit) testWebhook() error {
	id := v.r.PathValue("id")
	_ = http.NewResponseController(v.w).SetWriteDeadline(time.Now().Add(testTime + callTime)) // a connection that cannot do it keeps its own
	result, err := v.gateway.testWebhook(v.r.Context(), id)
	if err != nil {
		return err
	}
	return v.showWebhook(id, "", &result)
}

func (v *visit) enableWebhook() error  { return v.setEnabled(true) }
func (v *visit) disableWebhook() error { return v.setEnabled(false) }

func (v *visit) setEnabled(enabled bool) error {
	id := v.r.PathValue("id")
	if err := v.changeWebhook(id, map[string]any{"enabled": enabled}); err != nil {
		return err
	}
	if enabled {
		v.flash("ok", v.t("webhook.isEnabled"))
	} else {
		v.flash("ok", v.t("webhook.isDisabled"))
	}
	return v.redirect("/webhooks/"+url.PathEscape(id), nil)
}

// changeWebhook patches the webhook as it is now.
func (v *visit) changeWebhook(id string, patch map[string]any) error {
	ctx := v.r.Context()
	_, etag, err := v.gateway.webhook(ctx, id)
	if err != nil {
		return err
	}
	return v.gateway.when(etag).patchWebhook(ctx, id, patch)
}

// newSecret makes a secret of the Standard Webhooks kind.
func newSecret() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails
	return "whsec_" + base64.StdEncoding.EncodeToString(random)
}

// rotateSecret gives the webhook a new secret, which the answer shows: it cannot be read again.
func (v *visit) rotateSecret() error {
	id, secret := v.r.PathValue("id"), newSecret()
	if err := v.changeWebhook(id, map[string]any{"signingSecret": secret}); err != nil {
		return err
	}
	return v.showWebhook(id, secret, nil)
}

func (v *visit) removeSecret() error {
	id := v.r.PathValue("id")
	if err := v.changeWebhook(id, map[string]any{"signingSecret": nil}); err != nil {
		return err
	}
	v.flash("ok", v.t("webhook.unsigned"))
	return v.redirect("/webhooks/"+url.PathEscape(id), nil)
}

func (v *visit) deleteWebhook() error {
	ctx, id := v.r.Context(), v.r.PathValue("id")
	_, etag, err := v.gateway.webhook(ctx, id)
	if err != nil {
		return err
	}
	switch err := v.gateway.when(etag).deleteWebhook(ctx, id); {
	case waypost.CodeOf(err) == waypost.CodeConflict:
		v.flash("bad", v.t("webhook.inUse"))
		return v.redirect("/webhooks/"+url.PathEscape(id), nil)
	case err != nil:
		return err
	}
	v.flash("ok", v.t("webhook.deleted"))
	return v.redirect("/webhooks", nil)
}

// Limit says how much of something a webhook takes, for people.
func (p webhookPage) Limit() string {
	if p.RateLimit == nil {
		return ""
	}
	return strconv.FormatFloat(p.RateLimit.PerSecond, 'f', -1, 64)
}
