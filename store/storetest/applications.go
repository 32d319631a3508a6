package storetest

import (
	"strings"
	"testing"
	"time"

	"waypost"
)

var applicationTests = []test{
	{"horizons of nonces", func(t *testing.T, f *fixture) {
		if all := must[map[string]time.Time](t)(f.NonceHorizons(t.Context())); len(all) != 0 {
			t.Errorf("of a new database: %v", all)
		}
		at := time.Unix(1767225600, 1).UTC() // is kept rounded up
		for _, to := range []time.Time{at, at.Add(time.Second), at.Add(-time.Hour)} {
			ok(t, f.RaiseNonceHorizon(t.Context(), "", to))
		}
		ok(t, f.RaiseNonceHorizon(t.Context(), "app_1", at.Add(time.Minute)))
		all := must[map[string]time.Time](t)(f.NonceHorizons(t.Context()))
		shared, least := all[""], at.Add(time.Second)
		if len(all) != 2 || shared.Before(least) || shared.After(least.Add(time.Second)) || all["app_1"].Before(at.Add(time.Minute)) {
			t.Errorf("%v", all)
		}
	}},
	{"create", func(t *testing.T, f *fixture) {
		app := waypost.Application{Org: "acme", Name: "CRM", Grants: []waypost.Grant{"leads.*"}, RequireIfMatch: true}
		c := must[waypost.Credential](t)(f.CreateApplication(t.Context(), "", app))
		if !strings.HasPrefix(c.AccessKey, "AK") || !strings.HasPrefix(c.SecretKey, "sk_") || len(c.SecretKey) < 40 {
			t.Fatalf("minted %q and a secret of %d characters", c.AccessKey, len(c.SecretKey))
		}
		if !waypost.IsID(waypost.PrefixApplication, c.Application.ID) {
			t.Fatalf("minted id %q", c.Application.ID)
		}
		found := must[waypost.Credential](t)(f.Credential(t.Context(), c.AccessKey))
		equal(t, "secret", found.SecretKey, c.SecretKey)
		equal(t, "keys of Credential", len(found.Application.Keys), 0)
		list := must[[]waypost.Application](t)(f.Applications(t.Context(), "acme"))
		equal(t, "list", list, []waypost.Application{c.Application})
		want := waypost.Application{
			ID: c.Application.ID, Org: "acme", Name: "CRM", Grants: []waypost.Grant{"leads.*"}, RatePerSecond: 100, RateBurst: 200, RequireIfMatch: true,
			Keys: []waypost.KeyInfo{{AccessKey: c.AccessKey, CreatedAt: f.clock.Now()}}, CreatedAt: f.clock.Now(),
		}
		equal(t, "application", c.Application, want)
		equal(t, "other org", len(must[[]waypost.Application](t)(f.Applications(t.Context(), "other"))), 0)
		equal(t, "all", len(must[[]waypost.Application](t)(f.Applications(t.Context(), ""))), 1)
		want.Keys = nil
		equal(t, "by id", must[waypost.Application](t)(f.Application(t.Context(), want.ID)), want)
		for _, id := range []string{"", "app_none", "app_\x00", waypost.NewID(waypost.PrefixApplication, f.clock.Now())} {
			_, err := f.Application(t.Context(), id)
			wantCode(t, err, waypost.CodeNotFound)
		}
	}},
	{"faulty", func(t *testing.T, f *fixture) {
		_, err := f.CreateApplication(t.Context(), "", waypost.Application{Org: "a b"})
		wantCode(t, err, waypost.CodeBadRequest)
	}},
	{"unknown key", func(t *testing.T, f *fixture) {
		for _, key := range []string{"", "AKNONE", "AK\x00", "AK\xff", "' OR 1=1 --", strings.Repeat("A", 1000)} {
			_, err := f.Credential(t.Context(), key)
			wantCode(t, err, waypost.CodeNotFound)
		}
	}},
	{"rotate", func(t *testing.T, f *fixture) {
		first := must[waypost.Credential](t)(f.CreateApplication(t.Context(), "", waypost.Application{Org: "acme", Name: "CRM", Grants: []waypost.Grant{"*"}}))
		second := must[waypost.Credential](t)(f.RotateKey(t.Context(), "", first.Application.ID))
		for _, c := range []waypost.Credential{first, second} {
			equal(t, "secret", must[waypost.Credential](t)(f.Credential(t.Context(), c.AccessKey)).SecretKey, c.SecretKey)
		}
		third := must[waypost.Credential](t)(f.RotateKey(t.Context(), "", first.Application.ID))
		_, err := f.Credential(t.Context(), first.AccessKey)
		wantCode(t, err, waypost.CodeNotFound)
		equal(t, "keys", third.Application.Keys, []waypost.KeyInfo{
			{AccessKey: second.AccessKey, CreatedAt: f.clock.Now()}, {AccessKey: third.AccessKey, CreatedAt: f.clock.Now()},
		})
		for _, err := range atOnce(8, func(int) error { _, err := f.RotateKey(t.Context(), "", first.Application.ID); return err }) {
			ok(t, err)
		}
		list := must[[]waypost.Application](t)(f.Applications(t.Context(), "acme"))
		equal(t, "active keys", len(list[0].Keys), waypost.MaxActiveKeys)
		_, err = f.RotateKey(t.Context(), "", waypost.NewID(waypost.PrefixApplication, time.Now()))
		wantCode(t, err, waypost.CodeNotFound)
	}},
	{"disable", func(t *testing.T, f *fixture) {
		c := must[waypost.Credential](t)(f.CreateApplication(t.Context(), "", waypost.Application{Org: "acme", Name: "CRM", Grants: []waypost.Grant{"*"}}))
		ok(t, f.DisableApplication(t.Context(), "", c.Application.ID))
		ok(t, f.DisableApplication(t.Context(), "", c.Application.ID))
		equal(t, "disabled", must[waypost.Credential](t)(f.Credential(t.Context(), c.AccessKey)).Application.Disabled, true)
		equal(t, "disabled by id", must[waypost.Application](t)(f.Application(t.Context(), c.Application.ID)).Disabled, true)
		wantCode(t, f.DisableApplication(t.Context(), "", "app_none"), waypost.CodeNotFound)
	}},
}
