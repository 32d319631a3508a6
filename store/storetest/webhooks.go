package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"waypost"
)

var webhookTests = []test{
	{"round trip", func(t *testing.T, f *fixture) {
		w := waypost.Webhook{
			Name: "CRM", URL: "https://hooks.example.com/a?b=c", BasicAuth: &waypost.BasicAuth{Username: "u", Password: "p'\x00w"},
			Params: map[string]any{"s": "{{ lead.name }}", "n": 1.25}, TimeoutMs: 1000, Retry: waypost.DefaultRetry(),
			RateLimit: &waypost.RateLimit{PerSecond: 2.5, Burst: 7}, MaxConcurrency: 3, Enabled: true, SigningSecret: "whsec_1",
		}
		created := must[waypost.Webhook](t)(f.CreateWebhook(t.Context(), scope, w))
		w.ID, w.CreatedAt, w.UpdatedAt = created.ID, f.clock.Now(), f.clock.Now()
		equal(t, "created", created, w)
		equal(t, "read", must[waypost.Webhook](t)(f.Webhook(t.Context(), scope, w.ID)), w)
		bare := must[waypost.Webhook](t)(f.CreateWebhook(t.Context(), scope, waypost.Webhook{Name: "bare", URL: "http://example.com", BasicAuth: &waypost.BasicAuth{Username: "u"}}))
		equal(t, "params", bare.Params, map[string]any{})
		equal(t, "basic auth without password", must[waypost.Webhook](t)(f.Webhook(t.Context(), scope, bare.ID)), bare)
	}},
	{"tls", func(t *testing.T, f *fixture) {
		w := waypost.Webhook{
			Name: "CRM", URL: "https://hooks.example.com", Retry: waypost.DefaultRetry(),
			TLS: &waypost.TLS{CACertificate: "ca", ClientCertificate: "certificate", ClientKey: "key"},
		}
		id := must[waypost.Webhook](t)(f.CreateWebhook(t.Context(), scope, w)).ID
		equal(t, "read", must[waypost.Webhook](t)(f.Webhook(t.Context(), scope, id)).TLS, w.TLS)
		equal(t, "listed", must[[]waypost.Webhook](t)(f.ListWebhooks(t.Context(), scope, waypost.WebhookFilter{}, waypost.Page{}))[0].TLS, w.TLS)
		for _, setting := range []*waypost.TLS{{CACertificate: "another"}, {ClientCertificate: "c", ClientKey: "k"}, nil} {
			_, err := f.UpdateWebhook(t.Context(), scope, id, func(w *waypost.Webhook) error { w.TLS = setting; return nil })
			ok(t, err)
			equal(t, "updated", must[waypost.Webhook](t)(f.Webhook(t.Context(), scope, id)).TLS, setting)
		}
		w.TLS = &waypost.TLS{CACertificate: "c\x00a"}
		_, err := f.CreateWebhook(t.Context(), scope, w)
		wantCode(t, err, waypost.CodeBadRequest)
	}},
	{"update", func(t *testing.T, f *fixture) {
		id := f.webhook(t)
		before := must[waypost.Webhook](t)(f.Webhook(t.Context(), scope, id))
		f.clock.Advance(time.Second)
		after := must[waypost.Webhook](t)(f.UpdateWebhook(t.Context(), scope, id, func(w *waypost.Webhook) error {
			w.ID, w.CreatedAt = "whk_stolen", time.Time{}
			w.Name, w.BasicAuth = "new", &waypost.BasicAuth{Username: "u", Password: "p"}
			return nil
		}))
		want := before
		want.Name, want.BasicAuth, want.UpdatedAt = "new", &waypost.BasicAuth{Username: "u", Password: "p"}, f.clock.Now()
		equal(t, "updated", after, want)
		equal(t, "read", must[waypost.Webhook](t)(f.Webhook(t.Context(), scope, id)), want)
		refused := errors.New("refused")
		if _, err := f.UpdateWebhook(t.Context(), scope, id, func(w *waypost.Webhook) error { w.Name = "x"; return refused }); !errors.Is(err, refused) {
			t.Fatalf("got %v", err)
		}
		equal(t, "after a refused change", must[waypost.Webhook](t)(f.Webhook(t.Context(), scope, id)), want)
	}},
	{"signing secrets", func(t *testing.T, f *fixture) {
		id := f.webhook(t)
		set := func(secret string) waypost.Webhook {
			t.Helper()
			return must[waypost.Webhook](t)(f.UpdateWebhook(t.Context(), scope, id, func(w *waypost.Webhook) error {
				w.SigningOverlap = waypost.Duration(time.Hour)
				w.SetSigningSecret(secret, f.clock.Now())
				return nil
			}))
		}
		set("whsec_1")
		w := set("whsec_2")
		read := must[waypost.Webhook](t)(f.Webhook(t.Context(), scope, id))
		equal(t, "read", read, w)
		equal(t, "both", read.SigningSecrets(f.clock.Now().Add(59*time.Minute)), []string{"whsec_2", "whsec_1"})
		equal(t, "later", read.SigningSecrets(f.clock.Now().Add(time.Hour)), []string{"whsec_2"})
		// Of three, the first ends; a change of something else ends what is over.
		w = set("whsec_3")
		equal(t, "third", w.SigningSecrets(f.clock.Now()), []string{"whsec_3", "whsec_2"})
		f.clock.Advance(time.Hour)
		w = set("whsec_3")
		equal(t, "over", []string{w.SigningSecret, w.PreviousSigningSecret}, []string{"whsec_3", ""})
		equal(t, "read", must[waypost.Webhook](t)(f.Webhook(t.Context(), scope, id)), w)
		set("whsec_4")
		w = set("")
		equal(t, "none", w.SigningSecrets(f.clock.Now()), []string(nil))
	}},
	{"concurrent updates", func(t *testing.T, f *fixture) {
		id := f.webhook(t)
		for _, err := range atOnce(10, func(int) error {
			_, err := f.UpdateWebhook(t.Context(), scope, id, func(w *waypost.Webhook) error { w.MaxConcurrency++; return nil })
			return err
		}) {
			ok(t, err)
		}
		equal(t, "increments", must[waypost.Webhook](t)(f.Webhook(t.Context(), scope, id)).MaxConcurrency, 10)
	}},
	{"disable", func(t *testing.T, f *fixture) {
		id := f.webhook(t)
		seen := must[waypost.Webhook](t)(f.Webhook(t.Context(), scope, id))
		f.clock.Advance(time.Second)
		ok(t, f.DisableWebhook(t.Context(), scope, seen, "410"))
		f.clock.Advance(time.Second)
		ok(t, f.DisableWebhook(t.Context(), scope, seen, "later"))
		w := must[waypost.Webhook](t)(f.Webhook(t.Context(), scope, id))
		equal(t, "enabled", w.Enabled, false)
		equal(t, "reason", w.DisabledReason, "410")
		equal(t, "disabled at", w.UpdatedAt, seen.UpdatedAt.Add(time.Second))
		// What was seen before somebody changed it does not count.
		for what, change := range map[string]func(*waypost.Webhook){
			"enabled again": func(w *waypost.Webhook) { w.Enabled, w.DisabledReason = true, "" },
			"another URL":   func(w *waypost.Webhook) { w.URL += "/new" },
		} {
			before := must[waypost.Webhook](t)(f.UpdateWebhook(t.Context(), scope, id, func(w *waypost.Webhook) error { w.Enabled = true; return nil }))
			f.clock.Advance(time.Second)
			after := must[waypost.Webhook](t)(f.UpdateWebhook(t.Context(), scope, id, func(w *waypost.Webhook) error { change(w); return nil }))
			f.clock.Advance(time.Second)
			ok(t, f.DisableWebhook(t.Context(), scope, before, "410"))
			equal(t, what, must[waypost.Webhook](t)(f.Webhook(t.Context(), scope, id)), after)
		}
	}},
	{"scopes", func(t *testing.T, f *fixture) {
		id := f.webhook(t)
		for _, sc := range foreign {
			_, err := f.Webhook(t.Context(), sc, id)
			wantCode(t, err, waypost.CodeNotFound)
			_, err = f.UpdateWebhook(t.Context(), sc, id, func(*waypost.Webhook) error { return nil })
			wantCode(t, err, waypost.CodeNotFound)
			wantCode(t, f.DisableWebhook(t.Context(), sc, waypost.Webhook{ID: id}, "410"), waypost.CodeNotFound)
			wantCode(t, f.DeleteWebhook(t.Context(), sc, id, nil), waypost.CodeNotFound)
			equal(t, "missing", must[[]string](t)(f.MissingWebhooks(t.Context(), sc, []string{id})), []string{id})
			equal(t, "list", len(must[[]waypost.Webhook](t)(f.ListWebhooks(t.Context(), sc, waypost.WebhookFilter{}, waypost.Page{}))), 0)
		}
		for _, id := range []string{"", "whk_1", "whk_\x00", "jrn_" + id[4:]} {
			_, err := f.Webhook(t.Context(), scope, id)
			wantCode(t, err, waypost.CodeNotFound)
		}
		missing := must[[]string](t)(f.MissingWebhooks(t.Context(), scope, []string{"whk_2", id, "whk_1", "whk_2"}))
		equal(t, "missing", missing, []string{"whk_1", "whk_2"})
	}},
	{"delete", func(t *testing.T, f *fixture) {
		named, free := f.webhook(t), f.webhook(t)
		j := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "J", []byte(`{}`)))
		_, err := f.PublishJourney(t.Context(), scope, j.ID, waypost.Publication{Name: "J", Hash: "h", Definition: []byte(`{}`), Webhooks: []string{named, named}})
		ok(t, err)
		wantCode(t, f.DeleteWebhook(t.Context(), scope, named, nil), waypost.CodeConflict)
		ok(t, f.DeleteWebhook(t.Context(), scope, free, nil))
		wantCode(t, f.DeleteWebhook(t.Context(), scope, free, nil), waypost.CodeNotFound)
		_, err = f.PublishJourney(t.Context(), scope, j.ID, waypost.Publication{Name: "J", Hash: "h2", Definition: []byte(`{}`), Webhooks: []string{free}})
		wantCode(t, err, waypost.CodeBadRequest)
	}},
	{"delete while publishing", func(t *testing.T, f *fixture) {
		for range 5 {
			id := f.webhook(t)
			j := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "J", []byte(`{}`)))
			errs := atOnce(2, func(i int) error {
				if i == 0 {
					return f.DeleteWebhook(t.Context(), scope, id, nil)
				}
				_, err := f.PublishJourney(t.Context(), scope, j.ID, waypost.Publication{Name: "J", Hash: "h", Definition: []byte(`{}`), Webhooks: []string{id}})
				return err
			})
			if errs[0] == nil {
				wantCode(t, errs[1], waypost.CodeBadRequest)
			} else {
				wantCode(t, errs[0], waypost.CodeConflict)
				ok(t, errs[1])
			}
		}
	}},
	{"list", func(t *testing.T, f *fixture) {
		var ids []string
		for range 5 {
			ids = append(ids, f.webhook(t))
			f.clock.Advance(time.Millisecond)
		}
		slices.Reverse(ids)
		var got []string
		for page := (waypost.Page{Limit: 2}); ; page.After = got[len(got)-1] {
			list := must[[]waypost.Webhook](t)(f.ListWebhooks(t.Context(), scope, waypost.WebhookFilter{}, page))
			for _, w := range list {
				got = append(got, w.ID)
			}
			if len(list) < page.Limit {
				break
			}
		}
		equal(t, "pages", got, ids)
	}},
}
