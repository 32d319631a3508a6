package gateway_test

import (
	"fmt"
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
	hook, id := f.welcoming()
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

	shown := f.get("/v1/journeys/"+id).expect(t, 200)
	if strings.Contains(shown.raw, `"dropped"`) {
		t.Errorf("nothing was dropped: %s", shown.raw)
	}
	counts := func(want string) {
		t.Helper()
		a := f.get("/v1/journeys/"+id).expect(t, 200)
		if !strings.HasSuffix(a.sound(t), `,"dropped":`+want+"}") || a.header.Get("ETag") != shown.header.Get("ETag") {
			t.Errorf("the journey: %s %s, want %s", a.header.Get("ETag"), a.raw, want)
		}
	}

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
	counts(`{"enrollments":{},"deliveries":{"failed":1}}`)

	drop(waypost.Retention{Enrollments: 24 * time.Hour})
	counts(`{"enrollments":{"canceled":1},"deliveries":{"failed":1}}`)
	if a := f.get("/v1/journeys").expect(t, 200); strings.Contains(a.raw, `"dropped"`) {
		t.Errorf("the list: %s", a.raw)
	}
	f.do(call{method: "PUT", target: "/v1/journeys/" + id, body: welcome(hook), headers: map[string]string{"If-Match": shown.header.Get("ETag")}}).expect(t, 200)
	f.get("/v1/enrollments/"+enrollment).fault(t, 404, "NotFound")
	for _, verb := range []string{"pause", "resume", "cancel"} {
		f.send("POST", "/v1/enrollments/"+enrollment+"/"+verb, "").fault(t, 404, "NotFound")
	}
}

// What a deleted lead was sent is answered as dropped, too.
func TestDeletedLeadIsErased(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook, id := f.welcoming()
	lead := f.newLead("Ada")
	message, _ := f.deliver(id, hook, lead, waypost.DeliveryFailed)
	enrollment := f.send("POST", "/v1/journeys/"+id+"/enrollments", fmt.Sprintf(`{"leadsId":%d,"entryKey":"again","params":{"order":"4711"}}`, lead)).
		expect(t, 202).str(t, "enrollmentId")
	if a := f.get("/v1/enrollments/"+enrollment).expect(t, 200); !strings.Contains(a.raw, `"params":{"order":"4711"}`) {
		t.Errorf("before: %s", a.raw)
	}
	f.send("DELETE", fmt.Sprint("/v1/leads/", lead), "").expect(t, 204)
	if a := f.get("/v1/enrollments/"+enrollment).expect(t, 200); a.json["status"] != "canceled" || !strings.Contains(a.raw, `"params":{}`) {
		t.Errorf("its enrollment: %s", a.raw)
	}
	path := "/v1/deliveries/" + message
	if a := f.get(path).expect(t, 200); a.json["payloadDropped"] != true || !strings.Contains(a.raw, `"body":null`) || a.json["status"] != "failed" {
		t.Errorf("its message: %s", a.raw)
	}
	if a := f.send("POST", path+"/redeliver", "").fault(t, 422, "UnprocessableEntity"); a.json["target"] != "leadsId" {
		t.Errorf("redelivered: %s", a.raw)
	}
}
