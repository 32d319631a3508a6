package gateway_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// listed reads a list page by page, two at a time, and returns a member of its items.
func (f *fixture) listed(path, member string, query url.Values) (values []string) {
	f.t.Helper()
	query.Set("limit", "2")
	for {
		a := f.get(path+"?"+query.Encode()).expect(f.t, 200)
		for _, item := range a.json["items"].([]any) {
			values = append(values, item.(map[string]any)[member].(string))
		}
		next, more := a.json["nextCursor"].(string)
		if !more {
			return values
		}
		if len(values)%2 > 0 {
			f.t.Errorf("%s?%s: a page before the last has one item", path, query.Encode())
		}
		query.Set("cursor", next)
	}
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	crm, sms := f.namedWebhook("release", "CRM"), f.namedWebhook("release", "crm sms")
	off := f.namedWebhook("release", "Mail")
	f.send("PATCH", "/v1/webhooks/"+off, `{"enabled":false}`).expect(t, 200)
	journey := func(name, tags, hook string) string {
		f.clock.advance(time.Millisecond)
		body := fmt.Sprintf(`{"name":%q,"tags":[%s],"start":"a","nodes":[{"id":"a","type":"touchpoint","webhook":%q}]}`, name, tags, hook)
		return f.send("POST", "/v1/journeys", body).expect(t, 201).str(t, "id")
	}
	draft := journey("Spring", `"2026"," vip "`, crm)
	active := journey("spring again", `"2026"`, sms)
	f.send("POST", "/v1/journeys/"+active+"/publish", "").expect(t, 201)
	moved := journey("Autumn", `"2026"`, sms)
	f.send("POST", "/v1/journeys/"+moved+"/publish", "").expect(t, 201)
	f.send("PUT", "/v1/journeys/"+moved, strings.Replace(welcome(crm), "Welcome", "Autumn", 1)).expect(t, 200)
	paused := journey("SPRINGTIME", "", crm)
	f.send("POST", "/v1/journeys/"+paused+"/publish", "").expect(t, 201)
	f.send("POST", "/v1/journeys/"+paused+"/pause", "").expect(t, 200)

	for _, test := range []struct {
		path, member, query string
		want                []string
	}{
		{"/v1/journeys", "id", "", []string{paused, moved, active, draft}},
		{"/v1/journeys", "id", "name=sPring", []string{paused, active, draft}},
		{"/v1/journeys", "id", "name=spring+a", []string{active}},
		{"/v1/journeys", "id", "status=draft", []string{draft}},
		{"/v1/journeys", "id", "status=active", []string{moved, active}},
		{"/v1/journeys", "id", "status=archived", nil},
		{"/v1/journeys", "id", "tag=2026", []string{active, draft}},
		{"/v1/journeys", "id", "tag=vip", []string{draft}},
		{"/v1/journeys", "id", "tag=+vip%20", []string{draft}}, // blanks at the ends do not count, as in the draft
		{"/v1/journeys", "id", "tag=+", nil},
		{"/v1/journeys", "id", "tag=VIP", nil},
		{"/v1/journeys", "id", "webhookId=" + crm, []string{paused, moved, draft}},
		{"/v1/journeys", "id", "webhookId=" + sms, []string{moved, active}}, // a version names it
		{"/v1/journeys", "id", "webhookId=whk_none", nil},
		{"/v1/journeys", "id", "webhookId=" + crm + "&name=s&status=paused", []string{paused}},
		{"/v1/journeys", "id", "webhookId=" + sms + "&tag=2026", []string{active}},
		{"/v1/webhooks", "id", "", []string{off, sms, crm}},
		{"/v1/webhooks", "id", "name=CR", []string{sms, crm}},
		{"/v1/webhooks", "id", "name=crm+", []string{sms}},
		{"/v1/webhooks", "id", "enabled=true", []string{sms, crm}},
		{"/v1/webhooks", "id", "enabled=false", []string{off}},
		{"/v1/webhooks", "id", "enabled=false&name=crm", nil},
	} {
		query, err := url.ParseQuery(test.query)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.listed(test.path, test.member, query); !slices.Equal(got, test.want) {
			t.Errorf("%s?%s finds %q, want %q", test.path, test.query, got, test.want)
		}
	}
	// A cursor is of its filters.
	page := f.get("/v1/journeys?limit=1&status=active").expect(t, 200)
	f.get("/v1/journeys?limit=1&status=draft&cursor="+page.str(t, "nextCursor")).fault(t, 400, "BadRequest", "InvalidFormat cursor")
	f.get("/v1/journeys?limit=1&status=active&cursor="+page.str(t, "nextCursor")).expect(t, 200)

	for target, details := range map[string][]string{
		"/v1/journeys?status=running&limit=0":                      {"OutOfRange limit", "OutOfRange status"},
		"/v1/journeys?status=Active":                               {"OutOfRange status"},
		"/v1/journeys?name=" + strings.Repeat("n", 201):            {"TooLong name"},
		"/v1/journeys?tag=" + strings.Repeat("t", 41):              {"TooLong tag"},
		"/v1/journeys?tag=&webhook=x":                              {"NullValue tag", "UnknownField webhook"},
		"/v1/journeys?status=draft&status=active":                  {"Duplicate status"},
		"/v1/webhooks?enabled=yes&status=x":                        {"UnknownField status", "InvalidType enabled"},
		"/v1/webhooks?name=" + strings.Repeat("n", 129):            {"TooLong name"},
		"/v1/launches?status=active":                               {"OutOfRange status"},
		"/v1/launches?status=pending%2Crunning&journeyId=jrn_none": {"OutOfRange status"},
	} {
		f.get(target).fault(t, 400, "BadRequest", details...)
	}
	for _, text := range []string{"%ff", "a%09", "%zz"} {
		got := f.get("/v1/journeys?tag=" + text)
		got.fault(t, 400, "BadRequest", "InvalidFormat tag")
		if msg, want := got.str(t, "message"), "tag: must be percent-encoded UTF-8 text without control characters"; msg != want {
			t.Errorf("tag=%s: %q, want %q", text, msg, want)
		}
	}
}

func TestListLaunchesByStatus(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one := f.publishedJourney(`{"name":"one","start":"a","nodes":[{"id":"a","type":"exit"}]}`)
	two := f.publishedJourney(`{"name":"two","start":"a","nodes":[{"id":"a","type":"exit"}]}`)
	launch := func(journey, more string) string {
		f.clock.advance(time.Millisecond)
		return f.newLaunch(journey, `{"audience":{"filter":{}}`+more+`}`)
	}
	pending, other := launch(one, ""), launch(two, "")
	scheduled := launch(one, `,"startAt":"2027-01-01T00:00:00Z"`)
	recurring := launch(one, `,"schedule":{"cron":"@daily"}`)
	paused, canceled := launch(one, ""), launch(one, "")
	f.send("POST", "/v1/launches/"+paused+"/pause", "").expect(t, 200)
	f.send("POST", "/v1/launches/"+canceled+"/cancel", "").expect(t, 200)
	completed := launch(one, "") // there is no lead
	if _, err := f.store.EnrollAudience(t.Context(), completed, 10); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string][]string{
		"status=pending":                    {other, pending},
		"status=pending&journeyId=" + one:   {pending},
		"status=scheduled":                  {recurring, scheduled},
		"status=running":                    nil,
		"status=paused":                     {paused},
		"status=canceled":                   {canceled},
		"status=completed":                  {completed},
		"status=completed&journeyId=" + two: nil,
		"journeyId=" + two:                  {other},
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.listed("/v1/launches", "launchId", values); !slices.Equal(got, want) {
			t.Errorf("%s finds %q, want %q", query, got, want)
		}
	}
}
