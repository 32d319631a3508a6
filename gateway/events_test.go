package gateway_test

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lead := f.newLead("Ada")
	journeyID := f.publishedJourney(nothing)
	enrollment := f.send("POST", "/v1/journeys/"+journeyID+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, lead)).expect(t, 202).str(t, "enrollmentId")
	wait := waypost.Wait{
		Touchpoint: waypost.Touchpoint{EnrollmentID: enrollment, Visit: 1}, Scope: release, WorkflowID: enrollment, NodeID: "bought", Events: []string{"purchase"},
		LeadsID: lead, Since: f.clock.Now(), Until: f.clock.Now().Add(time.Hour),
	}
	events := func() []waypost.Event {
		t.Helper()
		states, err := f.store.Await(t.Context(), []waypost.Wait{wait})
		if err != nil {
			t.Fatal(err)
		}
		return states[wait.Touchpoint].Events
	}
	if got := events(); len(got) != 0 {
		t.Fatalf("events before any: %+v", got)
	}
	woken := f.wakes.n.Load()
	f.clock.advance(time.Second)

	body := fmt.Sprintf(`{"eventId":"order-1","name":"purchase","leadsId":%d,"properties":{"amount":120.5,"tags":["a"],"vip":true}}`, lead)
	a := f.send("POST", "/v1/events", body).expect(t, 202)
	if a.raw != `{"eventId":"order-1","duplicate":false}` || f.wakes.n.Load() != woken+1 {
		t.Errorf("%s, woken %d times", a.raw, f.wakes.n.Load()-woken)
	}
	// Again, the same or another one of its id: without effect.
	for _, again := range []string{body, strings.Replace(body, "120.5", "7", 1), fmt.Sprintf(`{"eventId":"order-1","name":"other","leadsId":%d}`, lead)} {
		if a := f.send("POST", "/v1/events", again).expect(t, 202); a.raw != `{"eventId":"order-1","duplicate":true}` || f.wakes.n.Load() != woken+1 {
			t.Errorf("%s, woken %d times", a.raw, f.wakes.n.Load()-woken)
		}
	}
	got := events()
	if len(got) != 1 || got[0].EventID != "order-1" || got[0].Name != "purchase" || fmt.Sprint(got[0].Properties) != "map[amount:120.5 tags:[a] vip:true]" {
		t.Errorf("stored %+v", got)
	}
	// Ids are apart for each stage, and so are leads.
	f.do(call{method: "POST", target: "/v1/events", body: body, headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
	for _, id := range []string{"999", "0", "-1"} {
		f.send("POST", "/v1/events", `{"eventId":"e9","name":"n","leadsId":`+id+`}`).fault(t, 404, "NotFound")
	}
	// One that was refused for its lead left nothing behind.
	for _, ok := range []string{
		`"properties":null`, `"properties":{}`, `"properties":{"p":"` + strings.Repeat("<", 16<<10-len(`{"p":""}`)) + `"}`,
	} {
		id := fmt.Sprintf("e9%d", len(ok))
		f.send("POST", "/v1/events", fmt.Sprintf(`{"eventId":%q,"name":"a.B-c_9","leadsId":%d,%s}`, id, lead, ok)).expect(t, 202)
	}
	if a := f.send("POST", "/v1/events", fmt.Sprintf(`{"eventId":"e9","name":"%s","leadsId":%d}`, strings.Repeat("n", 64), lead)).expect(t, 202); a.json["duplicate"] != false {
		t.Errorf("after a 404: %s", a.raw)
	}
	f.send("POST", "/v1/events", fmt.Sprintf(`{"eventId":"%s","name":"n","leadsId":%d}`, strings.Repeat("号", 255), lead)).expect(t, 202)
}

func TestEventFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lead := f.newLead("Ada")
	full := fmt.Sprintf(`,"name":"n","leadsId":%d`, lead)
	at := func(d time.Duration) string {
		return `,"occurredAt":"` + f.clock.Now().Add(d).Format(time.RFC3339Nano) + `"}`
	}
	oldest := f.clock.Now().AddDate(-10, 0, 0).Sub(f.clock.Now())
	for i, good := range []time.Duration{oldest, 5 * time.Minute, 0} {
		f.send("POST", "/v1/events", fmt.Sprintf(`{"eventId":"good %d"`, i)+full+at(good)).expect(t, 202)
	}
	for body, details := range map[string][]string{
		`{}`: {"NullValue eventId", "NullValue name", "NullValue leadsId"},
		`{"eventId":null,"name":null,"leadsId":null,"properties":null}`:                                             {"NullValue eventId", "NullValue name", "NullValue leadsId"},
		`{"eventId":1,"name":2,"leadsId":"3","properties":[]}`:                                                      {"InvalidType eventId", "InvalidType name", "InvalidType leadsId", "InvalidType properties"},
		`{"eventId":" "` + full + `}`:                                                                               {"NullValue eventId"},
		`{"eventId":"` + strings.Repeat("i", 256) + `"` + full + `}`:                                                {"TooLong eventId"},
		`{"eventId":"a\u0007"` + full + `}`:                                                                         {"InvalidFormat eventId"},
		`{"eventId":"e","name":"a b","leadsId":1}`:                                                                  {"InvalidFormat name"},
		`{"eventId":"e","name":"ü","leadsId":1}`:                                                                    {"InvalidFormat name"},
		`{"eventId":"e","name":"` + strings.Repeat("n", 65) + `","leadsId":1}`:                                      {"InvalidFormat name"},
		`{"eventId":"e","name":"","leadsId":1}`:                                                                     {"NullValue name"},
		`{"eventId":"e","name":"n","leadsId":1.5}`:                                                                  {"InvalidType leadsId"},
		`{"eventId":"e"` + full + `,"properties":"x"}`:                                                              {"InvalidType properties"},
		`{"eventId":"e"` + full + `,"properties":{"id":9007199254740993}}`:                                          {"OutOfRange properties.id"},
		`{"eventId":"e"` + full + `,"properties":{"a\u0000":1}}`:                                                    nil,
		`{"eventId":"e"` + full + `,"properties":{"p":"` + strings.Repeat("p", 16<<10) + `"}}`:                      {"TooLong properties"},
		`{"eventId":"e"` + full + at(oldest-time.Second):                                                            {"OutOfRange occurredAt"},
		`{"eventId":"e"` + full + at(5*time.Minute+time.Second):                                                     {"OutOfRange occurredAt"},
		`{"eventId":"e"` + full + `,"occurredAt":"yesterday"}`:                                                      {"InvalidFormat occurredAt"},
		`{"eventId":"e"` + full + `,"occurredAt":1}`:                                                                {"InvalidType occurredAt"},
		`{"eventId":"e"` + full + `,"email":"a@example.com"}`:                                                       {"InvalidFormat leadsId"},
		`{"eventId":"e"` + full + `,"create":true}`:                                                                 {"InvalidFormat create"},
		`{"eventId":"e","name":"n","email":"nobody"}`:                                                               {"InvalidFormat email"},
		`{"eventId":"e","name":"n","mobilePhone":"12"}`:                                                             {"InvalidFormat mobilePhone"},
		`{"eventId":"e","name":"n","externalId":" "}`:                                                               {"InvalidFormat externalId"},
		`{"eventId":"e","name":"n","email":"a@example.com","create":true}`:                                          {"InvalidFormat create"},
		`{"eventId":"e"` + full + `,"at":"2026-01-01T00:00:00Z"}`:                                                   {"UnknownField at"},
		`{"eventId":"e"` + full + `,"name":"n"}`:                                                                    {"Duplicate name"},
		`{"eventId":"","name":"a b","leadsId":true,"x":1,"properties":{"p":"` + strings.Repeat("p", 16<<10) + `"}}`: {"InvalidType leadsId", "UnknownField x", "NullValue eventId", "InvalidFormat name", "TooLong properties"},
		`[]`:   {"InvalidType "},
		`null`: {"InvalidType "},
		`{`:    {"InvalidFormat "},
	} {
		f.send("POST", "/v1/events", body).fault(t, 400, "BadRequest", details...)
	}
	f.do(call{method: "POST", target: "/v1/events", body: `{}`, headers: map[string]string{"Content-Type": "application/x-ndjson"}}).fault(t, 415, "UnsupportedMediaType")
	f.send("POST", "/v1/events", strings.Repeat(" ", 1<<20+1)).fault(t, 413, "PayloadTooLarge")
	f.send("POST", "/v1/events?x=1", `{}`).fault(t, 400, "BadRequest", "UnknownField x")
	f.send("PUT", "/v1/events", `{}`).fault(t, 405, "MethodNotAllowed")
	f.send("POST", "/v1/events", `{"eventId":"e","name":"a b","leadsId":999}`).fault(t, 400, "BadRequest") // before its lead's existence
	if f.wakes.n.Load() != 3 {
		t.Error("woken by what was refused")
	}
}

// An event names its lead by any of its addresses, and can make it.
func TestEventAddresses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.send("POST", "/v1/leads", `{"businessParam":{"name":"Ada","externalId":"crm-1","email":"Ada@Example.com","mobilePhone":["138 0013 8000"]}}`).expect(t, 201)
	for range 2 {
		f.send("POST", "/v1/leads", `{"businessParam":{"name":"Office","email":"office@example.com"}}`).expect(t, 201)
	}
	event := func(id, to string) string { return fmt.Sprintf(`{"eventId":%q,"name":"n",%s}`, id, to) }
	for i, to := range []string{`"externalId":"crm-1"`, `"email":"aDA@example.COM"`, `"mobilePhone":"+86 138-0013-8000"`, `"externalId":"crm-1","create":true`} {
		id := fmt.Sprint("e", i)
		f.send("POST", "/v1/events", event(id, to)).expect(t, 202)
		if a := f.send("POST", "/v1/events", event(id, `"externalId":"crm-1"`)).expect(t, 202); a.json["duplicate"] != true {
			t.Errorf("%s again: %s", to, a.raw)
		}
	}
	f.send("POST", "/v1/events", event("n", `"externalId":"crm-2"`)).fault(t, 404, "NotFound")
	f.send("POST", "/v1/events", event("n", `"mobilePhone":"13800138001"`)).fault(t, 404, "NotFound")
	f.send("POST", "/v1/events", event("n", `"email":"OFFICE@example.com"`)).fault(t, 409, "Conflict", "Ambiguous email")
	poor := keyOf(f.newApp(waypost.GrantJourneysRun))
	f.do(call{method: "POST", target: "/v1/events", body: event("new", `"externalId":"crm-2","create":true`), key: &poor}).fault(t, 401, "Unauthorized", "GrantMissing grants")
	f.send("POST", "/v1/events", event("new", `"externalId":"crm-2","create":true`)).expect(t, 202)
	if a := f.get("/v1/leads?externalId=crm-2").expect(t, 200); !strings.Contains(a.raw, `"name":"crm-2"`) {
		t.Errorf("the lead: %s", a.raw)
	}
	a := f.importEvents(nil, event("i1", `"email":"office@example.com"`), event("i2", `"email":"ADA@example.com"`), event("i3", `"mobilePhone":"13800138001"`),
		event("i4", `"externalId":"crm-3","create":true`), event("i5", `"email":"x"`), event("e1", `"externalId":"crm-3"`), event("i6", `"externalId":"crm-1","occurredAt":"1990-01-01T00:00:00Z"`)).expect(t, 207)
	if !strings.HasPrefix(a.raw, `{"total":7,"accepted":2,"duplicates":1,"failed":4,`) {
		t.Errorf("%s", a.raw)
	}
	for i, want := range []string{"Ambiguous email", "NotFound mobilePhone", "InvalidFormat email", "OutOfRange occurredAt"} {
		failed := a.json["errors"].([]any)[i].(map[string]any)
		failures := []any{failed}
		if details := failed["detail"].([]any); len(details) > 0 {
			failures = details
		}
		detail := failures[0].(map[string]any)
		if got := fmt.Sprint(detail["code"], " ", detail["target"]); got != want {
			t.Errorf("error %d: %s, want %s", i, got, want)
		}
	}
}

// Of one event that is reported many times at once, one report counts.
func TestConcurrentEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lead := f.newLead("Ada")
	var first atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			a, err := f.try(t.Context(), call{method: "POST", target: "/v1/events", body: fmt.Sprintf(`{"eventId":"e","name":"n","leadsId":%d}`, lead)})
			if err != nil || a.status != 202 {
				t.Errorf("%d %s, %v", a.status, a.raw, err)
			} else if a.json["duplicate"] == false {
				first.Add(1)
			}
		})
	}
	group.Wait()
	if first.Load() != 1 || f.wakes.n.Load() != 1 {
		t.Errorf("%d of 16 reports were the first, woken %d times", first.Load(), f.wakes.n.Load())
	}
}

func TestListEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada, bob := f.newLead("Ada"), f.newLead("Bob")
	at := func() string { return url.QueryEscape(f.clock.Now().Format(time.RFC3339Nano)) }
	var second string
	for i, event := range []string{"purchase", "login", "purchase", "login", "purchase"} {
		if i == 1 {
			second = at()
		}
		body := fmt.Sprintf(`{"eventId":"e%d","name":%q,"leadsId":%d,"properties":{"n":%d}}`, i, event, []int64{ada, bob}[i/3], i)
		f.send("POST", "/v1/events", body).expect(t, 202)
		f.clock.advance(time.Second)
	}
	a := f.get("/v1/events?limit=1&name=login").expect(t, 200)
	want := fmt.Sprintf(`{"items":[{"eventId":"e3","name":"login","leadsId":%d,"properties":{"n":3},"occurredAt":"2026-01-31T12:00:03.000Z","acceptedAt":"2026-01-31T12:00:03.000Z"}],"nextCursor":`, bob)
	if !strings.HasPrefix(a.raw, want) {
		t.Errorf("%s", a.raw)
	}
	for query, want := range map[string]string{
		"":                              "e4 e3 e2 e1 e0",
		"sort=-occurredAt":              "e4 e3 e2 e1 e0",
		"sort=occurredAt":               "e0 e1 e2 e3 e4",
		"name=purchase":                 "e4 e2 e0",
		"name=purchase&sort=occurredAt": "e0 e2 e4",
		"name=other":                    "",
		fmt.Sprintf("leadsId=%d", ada):  "e2 e1 e0",
		fmt.Sprintf("leadsId=%d&name=login", bob): "e3",
		"leadsId=999":                      "",
		"from=" + second:                   "e4 e3 e2 e1",
		"to=" + second:                     "e0",
		"from=" + second + "&to=" + second: "",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(f.listed("/v1/events", "eventId", values), " "); got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
	if a := f.do(call{method: "GET", target: "/v1/events", headers: map[string]string{"X-Cloud-Stage": "test"}}).expect(t, 200); a.raw != `{"items":[],"nextCursor":null}` {
		t.Errorf("in another stage: %s", a.raw)
	}
	for query, details := range map[string][]string{
		"sort=createdAt":                                 {"OutOfRange sort"},
		"name=a+b&leadsId=0&limit=501":                   {"OutOfRange limit", "OutOfRange leadsId", "InvalidFormat name"},
		"from=x&to=2026-01-31":                           {"InvalidFormat from", "InvalidFormat to"},
		"from=" + at() + "&to=" + second:                 {"OutOfRange from"},
		"eventId=e1":                                     {"UnknownField eventId"},
		"cursor=AAAA":                                    {"InvalidFormat cursor"},
		"name=purchase&cursor=" + a.str(t, "nextCursor"): {"InvalidFormat cursor"},
	} {
		f.get("/v1/events?"+query).fault(t, 400, "BadRequest", details...)
	}
}

func TestEventNames(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if a := f.get("/v1/events/names").expect(t, 200); a.raw != `{"items":[]}` {
		t.Errorf("before any: %s", a.raw)
	}
	lead, gone := f.newLead("Ada"), f.newLead("Bob")
	for i, name := range []string{"login", "purchase", "login"} {
		f.send("POST", "/v1/events", fmt.Sprintf(`{"eventId":"%d","name":%q,"leadsId":%d}`, i, name, lead)).expect(t, 202)
		f.send("POST", "/v1/events", fmt.Sprintf(`{"eventId":"gone %d","name":%q,"leadsId":%d}`, i, name, gone)).expect(t, 202)
		f.clock.advance(time.Second)
	}
	f.send("DELETE", fmt.Sprintf("/v1/leads/%d", gone), "").expect(t, 204)
	want := `{"items":[{"name":"login","count":2,"lastAt":"2026-01-31T12:00:02.000Z"},{"name":"purchase","count":1,"lastAt":"2026-01-31T12:00:01.000Z"}]}`
	for range 2 {
		if a := f.get("/v1/events/names").expect(t, 200); a.raw != want {
			t.Errorf("%s", a.raw)
		}
		if _, err := f.store.FoldEventNames(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
	}
	f.get("/v1/events/names?limit=1").fault(t, 400, "BadRequest", "UnknownField limit")
}

func (f *fixture) importEvents(headers map[string]string, lines ...string) answer {
	f.t.Helper()
	c := call{method: "POST", target: "/v1/events/import", body: strings.Join(lines, "\n"), headers: map[string]string{"Content-Type": "application/x-ndjson"}}
	maps.Copy(c.headers, headers)
	return f.do(c)
}

func TestImportEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lead := f.newLead("Ada")
	line := func(id string, lead int64) string {
		return fmt.Sprintf(`{"eventId":%q,"name":"purchase","leadsId":%d,"properties":{"amount":1}}`, id, lead)
	}
	a := f.importEvents(nil, "\ufeff"+line("a", lead), "", line("b", lead)+"\r", line("a", lead), " ").expect(t, 202)
	if a.raw != `{"total":3,"accepted":2,"duplicates":1,"failed":0,"errors":[]}` || f.wakes.n.Load() != 1 {
		t.Errorf("%s, woken %d times", a.raw, f.wakes.n.Load())
	}
	a = f.importEvents(nil, line("a", lead), "{", "[]", line("c", 999), `{"eventId":"","name":"a b","leadsId":1,"x":1}`, line("c", lead), strings.Repeat(" ", 1<<20)+"{}", line("b", 999)).expect(t, 207)
	if want := `{"total":8,"accepted":1,"duplicates":1,"failed":6,"errors":[{"line":2,`; !strings.HasPrefix(a.raw, want) {
		t.Errorf("%s", a.raw)
	}
	var failed []string
	for _, e := range a.json["errors"].([]any) {
		e := e.(map[string]any)
		codes := []string{fmt.Sprint(e["line"], " ", e["code"], " ", e["target"])}
		for _, d := range e["detail"].([]any) {
			d := d.(map[string]any)
			codes = append(codes, fmt.Sprint(d["code"], " ", d["target"]))
		}
		failed = append(failed, strings.Join(codes, ", "))
	}
	want := []string{
		"2 BadRequest , InvalidFormat ", "3 BadRequest , InvalidType ", "4 NotFound leadsId", "5 BadRequest , UnknownField x, NullValue eventId, InvalidFormat name",
		"7 BadRequest , TooLong ", "8 NotFound leadsId",
	}
	if !slices.Equal(failed, want) {
		t.Errorf("failed %q, want %q", failed, want)
	}
	if got := f.listed("/v1/events", "eventId", url.Values{"sort": {"occurredAt"}}); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("stored %q", got)
	}
	if a := f.importEvents(nil, "").expect(t, 202); a.raw != `{"total":0,"accepted":0,"duplicates":0,"failed":0,"errors":[]}` {
		t.Errorf("nothing: %s", a.raw)
	}
	key := map[string]string{"Idempotency-Key": "k"}
	first, again := f.importEvents(key, line("k", lead), "{}").expect(t, 207), f.importEvents(key, line("k", lead), "{}").expect(t, 207)
	if first.json["accepted"] != 1.0 || again.raw != first.raw || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("first %s, again %s", first.raw, again.raw)
	}
	f.importEvents(key, line("l", lead)).fault(t, 409, "Conflict", []string{}...)
	if a := f.importEvents(nil, strings.Repeat("{}\n", 1005)).expect(t, 207); a.json["failed"] != 1005.0 || len(a.json["errors"].([]any)) != waypost.MaxLineErrors {
		t.Errorf("failed %v, %d errors", a.json["failed"], len(a.json["errors"].([]any)))
	}
	// Of what is not text as a whole, nothing is stored.
	f.importEvents(nil, line("m", lead), "\xff").fault(t, 400, "BadRequest")
	f.importEvents(map[string]string{"Content-Type": "application/json"}, line("m", lead)).fault(t, 415, "UnsupportedMediaType", []string{}...)
	f.get("/v1/events/import").fault(t, 405, "MethodNotAllowed")
	if a := f.get("/v1/events?limit=1").expect(t, 200); a.json["items"].([]any)[0].(map[string]any)["eventId"] != "k" {
		t.Errorf("stored %s", a.raw)
	}
}
