package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
)

// paged reads a list page by page, and checks that no page is longer than asked for.
func paged[T any](t testing.TB, what string, id func(T) string, load func(waypost.Page) ([]T, error)) []T {
	t.Helper()
	var all []T
	for page := (waypost.Page{Limit: 3}); ; page.After = id(all[len(all)-1]) {
		list := must[[]T](t)(load(page))
		if all = append(all, list...); len(list) < page.Limit {
			return all
		} else if len(list) > page.Limit {
			t.Fatalf("%s: a page has %d", what, len(list))
		}
	}
}

func testJourneyFilters(t *testing.T, f *fixture) {
	hooks := []string{f.webhook(t), f.webhook(t), f.webhook(t)}
	type made struct {
		waypost.Journey
		tags, webhooks []string
	}
	draft := func(name string, tags []string, webhook string) []byte {
		b := must[[]byte](t)(json.Marshal(map[string]any{"name": name, "tags": tags, "nodes": []any{map[string]any{"webhook": webhook}, map[string]any{"id": "end"}}}))
		return b
	}
	var all []made
	for i := range 48 {
		m := made{tags: [][]string{nil, {"spring"}, {"spring", "vip"}}[i%3], webhooks: []string{hooks[i%3]}}
		name := []string{"Welcome", "WELCOME back", "Straße 1", "50%_\\"}[i/3%4]
		written := m.tags
		if i%3 == 1 {
			written = []string{" spring\t", "", "spring", strings.Repeat("x", 41)} // what publishing refuses is not found
		}
		j := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, name, draft(name, written, hooks[i%3])))
		if i%4 > 0 {
			must[waypost.JourneyVersion](t)(f.PublishJourney(t.Context(), scope, j.ID, waypost.Publication{Name: name, Hash: "h", Definition: []byte(`{}`), Webhooks: m.webhooks}))
		}
		if i%4 == 2 {
			must[waypost.Journey](t)(f.ArchiveJourney(t.Context(), scope, j.ID))
		}
		if i%4 == 3 { // the draft goes on to another webhook, and the version stays
			m.tags, m.webhooks = []string{"late"}, append(m.webhooks, hooks[(i+1)%3])
			must[waypost.Journey](t)(f.UpdateJourneyDraft(t.Context(), scope, j.ID, name, draft(name, m.tags, hooks[(i+1)%3]), nil))
		}
		m.Journey = must[waypost.Journey](t)(f.Journey(t.Context(), scope, j.ID))
		all = append(all, m)
		f.clock.Advance(time.Millisecond)
	}
	slices.Reverse(all)
	found := 0
	for _, name := range []string{"", "WEL", "welcome b", "STRASSE", "50%", "50%x", "%"} {
		for _, status := range []waypost.JourneyStatus{"", waypost.JourneyDraft, waypost.JourneyActive, waypost.JourneyArchived, waypost.JourneyPaused} {
			for _, tag := range []string{"", "spring", "vip", "late", "Spring", strings.Repeat("x", 41)} {
				for _, hook := range []string{"", hooks[0], hooks[2], "whk_none"} {
					filter := waypost.JourneyFilter{Name: name, Status: status, Tag: tag, WebhookID: hook}
					var want []waypost.Journey
					for _, m := range all {
						folded := strings.ReplaceAll(strings.ToLower(m.Name), "ß", "ss")
						if strings.HasPrefix(folded, strings.ToLower(name)) && (status == "" || m.Status == status) &&
							(tag == "" || slices.Contains(m.tags, tag)) && (hook == "" || slices.Contains(m.webhooks, hook)) {
							want = append(want, m.Journey)
						}
					}
					what := fmt.Sprintf("%+v", filter)
					equal(t, what, paged(t, what, func(j waypost.Journey) string { return j.ID }, func(page waypost.Page) ([]waypost.Journey, error) {
						return f.ListJourneys(t.Context(), scope, filter, page)
					}), want)
					found += len(want)
				}
			}
		}
	}
	if found < 500 {
		t.Errorf("only %d were found", found)
	}
	for _, sc := range foreign {
		equal(t, "elsewhere", len(must[[]waypost.Journey](t)(f.ListJourneys(t.Context(), sc, waypost.JourneyFilter{Tag: "spring"}, waypost.Page{}))), 0)
	}
	// A draft that was never published leaves nothing behind; one of any length is kept.
	drafts := must[[]waypost.Journey](t)(f.ListJourneys(t.Context(), scope, waypost.JourneyFilter{Status: waypost.JourneyDraft, Tag: "vip"}, waypost.Page{}))
	ok(t, f.DeleteJourney(t.Context(), scope, drafts[0].ID, nil))
	equal(t, "without the one that was deleted", must[[]waypost.Journey](t)(f.ListJourneys(t.Context(), scope, waypost.JourneyFilter{Status: waypost.JourneyDraft, Tag: "vip"}, waypost.Page{})), drafts[1:])
	long := strings.Repeat("Ἀ", 50_000)
	must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, long, draft(long, slices.Repeat([]string{long}, 30), long)))
	equal(t, "a long name", len(must[[]waypost.Journey](t)(f.ListJourneys(t.Context(), scope, waypost.JourneyFilter{Name: long[:30]}, waypost.Page{}))), 1)
}

func testWebhookFilters(t *testing.T, f *fixture) {
	var all []waypost.Webhook
	for i := range 20 {
		w := waypost.Webhook{Name: []string{"CRM", "crm eu", "Zürich", "c"}[i%4], URL: "https://hooks.example.com", Retry: waypost.DefaultRetry(), Enabled: i%3 > 0}
		w = must[waypost.Webhook](t)(f.CreateWebhook(t.Context(), scope, w))
		if i == 4 {
			w = must[waypost.Webhook](t)(f.UpdateWebhook(t.Context(), scope, w.ID, func(w *waypost.Webhook) error { w.Name, w.Enabled = "Crm two", !w.Enabled; return nil }))
		}
		if i == 5 {
			ok(t, f.DisableWebhook(t.Context(), scope, w, "410"))
			w = must[waypost.Webhook](t)(f.Webhook(t.Context(), scope, w.ID))
		}
		all = append(all, w)
		f.clock.Advance(time.Millisecond)
	}
	slices.Reverse(all)
	for name, count := range map[string]int{"": 20, "CRM": 10, "crm t": 1, "ZÜ": 5, "c": 15, "crm eux": 0} {
		for _, enabled := range []*bool{nil, ptr(true), ptr(false)} {
			filter := waypost.WebhookFilter{Name: name, Enabled: enabled}
			var want []waypost.Webhook
			for _, w := range all {
				if strings.HasPrefix(strings.ToLower(w.Name), strings.ToLower(name)) && (enabled == nil || *enabled == w.Enabled) {
					want = append(want, w)
				}
			}
			if enabled == nil && len(want) != count {
				t.Fatalf("%q is to find %d, not %d", name, count, len(want))
			}
			what := fmt.Sprint(name, enabled)
			equal(t, what, paged(t, what, func(w waypost.Webhook) string { return w.ID }, func(page waypost.Page) ([]waypost.Webhook, error) {
				return f.ListWebhooks(t.Context(), scope, filter, page)
			}), want)
		}
	}
	equal(t, "elsewhere", len(must[[]waypost.Webhook](t)(f.ListWebhooks(t.Context(), foreign[0], waypost.WebhookFilter{Name: "c"}, waypost.Page{}))), 0)
}

// Launches are found by the status that they are answered with, before and after a sweep
// has noted which have completed.
func testLaunchStatuses(t *testing.T, f *fixture) {
	one, two := f.journey(t), f.journey(t)
	lead := f.lead(t)
	later := func(journey string, at time.Duration) string {
		return must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{
			JourneyID: journey, Version: 1, AppID: "app_1", Audience: waypost.Audience{LeadsIDs: []int64{lead}}, StartAt: ptr(f.clock.Now().Add(at)),
		})).ID
	}
	done := func(journey string, leads ...int64) string {
		id := f.launch(t, journey, leads...).ID
		f.run(t, id, 10)
		return id
	}
	for i := range 4 {
		journey := []string{one, two}[i%2]
		f.launch(t, journey, lead)          // pending
		later(journey, 1000*time.Hour)      // scheduled
		later(journey, time.Millisecond)    // pending by then
		done(journey, 1<<40)                // completed: there is no such lead
		done(journey, f.lead(t), f.lead(t)) // running
		must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, done(journey, f.lead(t))))
		must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, done(journey, f.lead(t))))
		must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, f.launch(t, journey, lead).ID))
		part := f.launch(t, journey, f.lead(t), f.lead(t)).ID // running
		must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), part, 1))
		r := f.recurring(t, journey)
		f.clock.Advance(mornings.Next(f.clock.Now()).Sub(f.clock.Now()))
		if i%2 == 0 {
			f.occurrence(t, r.ID)
		}
		if i == 3 {
			must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, r.ID))
		}
	}
	statuses := []waypost.LaunchStatus{waypost.LaunchPending, waypost.LaunchScheduled, waypost.LaunchRunning, waypost.LaunchPaused, waypost.LaunchCompleted, waypost.LaunchCanceled}
	check := func(when string, least int) {
		t.Helper()
		every := must[[]waypost.Launch](t)(f.ListLaunches(t.Context(), scope, waypost.LaunchFilter{}, waypost.Page{Limit: 500}))
		for _, journey := range []string{"", one, "jrn_none"} {
			for _, status := range statuses {
				filter := waypost.LaunchFilter{JourneyID: journey, Status: status}
				var want []waypost.Launch
				for _, l := range every {
					if (journey == "" || l.JourneyID == journey) && l.Status == status {
						want = append(want, l)
					}
				}
				if journey != "jrn_none" && len(want) < least {
					t.Fatalf("%s: only %d launches of %s are %s", when, len(want), journey, status)
				}
				what := fmt.Sprintf("%s: %+v", when, filter)
				equal(t, what, paged(t, what, func(l waypost.Launch) string { return l.ID }, func(page waypost.Page) ([]waypost.Launch, error) {
					return f.ListLaunches(t.Context(), scope, filter, page)
				}), want)
			}
		}
	}
	settle := func() {
		t.Helper()
		for at, more := "", true; more; more = at != "" {
			at = must[waypost.Dropped](t)(f.DropStep(t.Context(), waypost.Retention{}, at)).Next
		}
	}
	check("before a sweep", 2)
	settle()
	check("after it", 2)
	must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, one))
	check("in a pause of a journey", 0)
	f.sweep(t, 100)
	must[waypost.Journey](t)(f.CancelJourney(t.Context(), scope, two))
	check("after the cancel of a journey", 0)
	settle()
	check("in the end", 0)
	for _, sc := range foreign {
		for _, status := range statuses {
			equal(t, "elsewhere", len(must[[]waypost.Launch](t)(f.ListLaunches(t.Context(), sc, waypost.LaunchFilter{Status: status}, waypost.Page{}))), 0)
		}
	}
}

func testNamesakes(t *testing.T, f *fixture) {
	hook := func(sc waypost.Scope, name string) string {
		f.clock.Advance(time.Millisecond)
		return must[waypost.Webhook](t)(f.CreateWebhook(t.Context(), sc, waypost.Webhook{Name: name, URL: "https://example.com", Retry: waypost.DefaultRetry()})).ID
	}
	crm, sms, mail, other := hook(scope, "crm"), hook(scope, "sms"), hook(scope, "mail"), hook(foreign[0], "elsewhere")
	there := hook(foreign[0], "crm")
	hook(foreign[0], "CRM")
	first := hook(foreign[0], "mail")
	hook(foreign[0], "mail")
	hook(foreign[2], "sms") // of another organisation
	asked := []string{crm, sms, mail, other, "whk_\x00"}
	equal(t, "webhooks", must[map[string]waypost.Namesake](t)(f.WebhookNamesakes(t.Context(), scope, foreign[0].Stage, asked)), map[string]waypost.Namesake{
		crm: {Name: "crm", ID: there, N: 1}, sms: {Name: "sms"}, mail: {Name: "mail", ID: first, N: 2},
	})
	equal(t, "none", len(must[map[string]waypost.Namesake](t)(f.WebhookNamesakes(t.Context(), scope, foreign[0].Stage, nil))), 0)

	journey := func(sc waypost.Scope, name string) string {
		return must[waypost.Journey](t)(f.CreateJourney(t.Context(), sc, name, []byte(`{}`))).ID
	}
	welcome, bye := journey(scope, "Welcome"), journey(scope, "Bye")
	counterpart, old := journey(foreign[0], "Welcome"), journey(foreign[0], "Bye")
	_, err := f.PublishJourney(t.Context(), foreign[0], old, waypost.Publication{Name: "Bye", Hash: "h", Definition: []byte(`{}`)})
	ok(t, err)
	must[waypost.Journey](t)(f.ArchiveJourney(t.Context(), foreign[0], old))
	equal(t, "journeys", must[map[string]waypost.Namesake](t)(f.JourneyNamesakes(t.Context(), scope, foreign[0].Stage, []string{welcome, bye})), map[string]waypost.Namesake{
		welcome: {Name: "Welcome", ID: counterpart, N: 1}, bye: {Name: "Bye"},
	})
}
