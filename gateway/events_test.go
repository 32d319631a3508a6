package gateway_test

import (
	"fmt"
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
		Touchpoint: waypost.Touchpoint{EnrollmentID: enrollment, Visit: 1}, Scope: release, WorkflowID: enrollment, NodeID: "bought", Event: "purchase",
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
	f.get("/v1/events").fault(t, 405, "MethodNotAllowed")
	f.send("POST", "/v1/events", `{"eventId":"e","name":"a b","leadsId":999}`).fault(t, 400, "BadRequest") // before its lead's existence
	if f.wakes.n.Load() != 0 {
		t.Error("woken by what was refused")
	}
}

// Of one event that is reported many times at once, one report counts.
func TestConcurrentEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lead := f.newLead("Ada")
	var fresh atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			a, err := f.try(t.Context(), call{method: "POST", target: "/v1/events", body: fmt.Sprintf(`{"eventId":"e","name":"n","leadsId":%d}`, lead)})
			if err != nil || a.status != 202 {
				t.Errorf("%d %s, %v", a.status, a.raw, err)
			} else if a.json["duplicate"] == false {
				fresh.Add(1)
			}
		})
	}
	group.Wait()
	if fresh.Load() != 1 || f.wakes.n.Load() != 1 {
		t.Errorf("%d of 16 reports were the first, woken %d times", fresh.Load(), f.wakes.n.Load())
	}
}
