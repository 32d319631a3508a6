package gateway_test

import (
	"strings"
	"testing"
	"time"

	"waypost"
)

// What was dropped because its time was over is answered as such, first its payload and
// then all of it.
func TestRetention(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook := f.newWebhook("https://example.com")
	id := f.publishedJourney(welcome(hook))
	message, enrollment := f.deliver(id, hook, f.newLead("Ada"), waypost.DeliveryFailed)
	young, _ := f.deliver(id, hook, f.newLead("Alan"), waypost.DeliveryFailed)
	f.send("POST", "/v1/enrollments/"+enrollment+"/cancel", "").expect(t, 200)
	imported := f.do(call{method: "POST", target: "/v1/leads/imports", body: `{"leads":[{"name":""}]}`}).expect(t, 202).str(t, "id")
	if _, err := f.store.ImportStep(t.Context(), imported); err != nil {
		t.Fatal(err)
	}
	drop := func(keep waypost.Retention) {
		t.Helper()
		for at, more := "", true; more; more = at != "" {
			step, err := f.store.DropStep(t.Context(), keep, at)
			if err != nil {
				t.Fatal(err)
			}
			at = step.Next
		}
	}
	f.clock.advance(25 * time.Hour)
	path := "/v1/deliveries/" + message
	if a := f.get(path).expect(t, 200); a.json["payloadDropped"] != false || !strings.Contains(a.raw, `"body":{}`) {
		t.Errorf("before: %s", a.raw)
	}
	f.get("/v1/leads/imports/"+imported+"/errors").expect(t, 200)

	drop(waypost.Retention{Payloads: 24 * time.Hour})
	a := f.get(path).expect(t, 200)
	if a.json["payloadDropped"] != true || !strings.Contains(a.raw, `"body":null`) || a.json["status"] != "failed" || a.json["attempts"] != 1.0 {
		t.Errorf("without its payload: %s", a.raw)
	}
	if a := f.send("POST", path+"/redeliver", "").fault(t, 422, "UnprocessableEntity"); a.json["target"] != "messageId" || !strings.Contains(a.raw, "no longer kept") {
		t.Errorf("redelivered: %s", a.raw)
	}
	if a := f.get("/v1/deliveries/"+young).expect(t, 200); a.json["payloadDropped"] != false {
		t.Errorf("of an enrollment that runs: %s", a.raw)
	}
	if a := f.get("/v1/leads/imports/"+imported+"/errors").fault(t, 404, "NotFound"); !strings.Contains(a.raw, "no longer kept") {
		t.Errorf("failed rows: %s", a.raw)
	}
	if a := f.get("/v1/leads/imports/"+imported).expect(t, 200); a.json["failed"] != 1.0 {
		t.Errorf("the import: %s", a.raw)
	}

	cursor := f.get("/v1/deliveries?limit=1").str(t, "nextCursor") // after the younger one
	drop(waypost.Retention{Deliveries: 24 * time.Hour})
	f.get(path).fault(t, 404, "NotFound")
	f.send("POST", path+"/redeliver", "").fault(t, 404, "NotFound")
	if a := f.get("/v1/deliveries?limit=1&cursor="+cursor).expect(t, 200); len(a.json["items"].([]any)) != 0 || a.json["nextCursor"] != nil {
		t.Errorf("the list goes on with %s", a.raw)
	}
	f.get("/v1/enrollments/"+enrollment).expect(t, 200)

	drop(waypost.Retention{Enrollments: 24 * time.Hour})
	f.get("/v1/enrollments/"+enrollment).fault(t, 404, "NotFound")
	for _, verb := range []string{"pause", "resume", "cancel"} {
		f.send("POST", "/v1/enrollments/"+enrollment+"/"+verb, "").fault(t, 404, "NotFound")
	}
}
