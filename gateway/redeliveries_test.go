package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

// deliver enrolls a lead and makes a message of it whose first attempt ended so; one
// that is pending has not ended.
func (f *fixture) deliver(journeyID, hook string, lead int64, status waypost.DeliveryStatus) (message, enrollment string) {
	f.t.Helper()
	enrollment = f.send("POST", "/v1/journeys/"+journeyID+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, lead)).expect(f.t, 202).str(f.t, "enrollmentId")
	f.clock.advance(time.Second)
	message = waypost.NewID(waypost.PrefixMessage, f.clock.Now())
	touchpoint := waypost.Touchpoint{EnrollmentID: enrollment, Visit: 1}
	sent := waypost.Delivery{MessageID: message, EnrollmentID: enrollment, JourneyID: journeyID, JourneyVersion: 1, NodeID: "hello", WebhookID: hook, LeadsID: lead}
	sendings, err := f.store.OpenAttempts(f.t.Context(), []delivery.Opening{{
		Touchpoint: touchpoint, Scope: release, Delivery: sent, Body: []byte(`{}`), Attempt: 1, At: f.clock.Now(), By: "test",
	}})
	if err != nil || len(sendings) != 1 {
		f.t.Fatalf("%v, %v", sendings, err)
	}
	if status == waypost.DeliveryPending {
		return message, enrollment
	}
	err = f.store.RecordAttempts(f.t.Context(), []delivery.AttemptRecord{{
		Touchpoint: touchpoint, Scope: release, MessageID: message, Delivery: sent, Round: 1, Attempt: 1, Status: status,
		Outcome: waypost.Outcome{Succeed: status == waypost.DeliverySucceeded, HTTPStatus: 200, Excerpt: "taken", At: f.clock.Now()},
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.clock.advance(time.Second)
	return message, enrollment
}

func TestRedeliver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook, id := f.welcoming()
	lead := f.newLead("Ada")
	message, enrollment := f.deliver(id, hook, lead, waypost.DeliveryFailed)
	woken := f.wakes.n.Load()
	path := "/v1/deliveries/" + message
	c := call{method: "POST", target: path + "/redeliver", headers: map[string]string{"Idempotency-Key": "k"}}
	a := f.do(c).expect(t, 202)
	if a.json["messageId"] != message || a.json["enrollmentId"] != enrollment || a.json["status"] != "pending" || a.header.Get("Location") != path {
		t.Errorf("%s at %q", a.raw, a.header.Get("Location"))
	}
	if f.wakes.n.Load() != woken+1 {
		t.Error("nobody was woken")
	}
	if again := f.do(c).expect(t, 202); again.raw != a.raw {
		t.Errorf("the same request: %s", again.raw)
	}
	f.send("POST", path+"/redeliver", "{}").fault(t, 409, "Conflict") // it is being delivered
	batches, err := f.store.UnstartedRedeliveries(t.Context(), f.clock.Now(), 10)
	if err != nil || len(batches) != 1 || len(batches[0].Members) != 1 || batches[0].Members[0].MessageID != message || batches[0].Members[0].Round != 2 {
		t.Errorf("batches %+v, %v", batches, err)
	}

	pending, _ := f.deliver(id, hook, f.newLead("Alan"), waypost.DeliveryPending)
	f.send("POST", "/v1/deliveries/"+pending+"/redeliver", "").fault(t, 409, "Conflict")
	gone := f.newLead("Grace")
	deleted, _ := f.deliver(id, hook, gone, waypost.DeliverySucceeded)
	f.send("DELETE", fmt.Sprintf("/v1/leads/%d", gone), "").expect(t, 204)
	if a := f.send("POST", "/v1/deliveries/"+deleted+"/redeliver", "").fault(t, 422, "UnprocessableEntity"); a.json["target"] != "leadsId" {
		t.Errorf("of a deleted lead: %s", a.raw)
	}
	f.send("POST", "/v1/deliveries/msg_nope/redeliver", "").fault(t, 404, "NotFound")
	f.do(call{method: "POST", target: path + "/redeliver", headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
	f.send("POST", path+"/redeliver", `{"round":3}`).fault(t, 400, "BadRequest", "UnknownField round")
}

func TestRedeliveries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook, id := f.welcoming()
	var leads []int64
	for i, status := range []waypost.DeliveryStatus{waypost.DeliveryFailed, waypost.DeliveryFailed, waypost.DeliverySucceeded} {
		leads = append(leads, f.newLead(fmt.Sprint("lead ", i)))
		f.deliver(id, hook, leads[i], status)
	}
	woken := f.wakes.n.Load()
	at := f.clock.Now().UTC().Format(waypost.TimeFormat)
	c := call{method: "POST", target: "/v1/redeliveries", body: `{"filter":{"journeyId":"` + id + `","to":"2030-01-01T00:00:00+01:00"}}`, headers: map[string]string{"Idempotency-Key": "k"}}
	made := f.do(c).expect(t, 202)
	redelivery := made.str(t, "id")
	path := "/v1/redeliveries/" + redelivery
	want := `{"id":"` + redelivery + `","status":"pending","message":null,"filter":{"journeyId":"` + id + `","nodeId":null,"webhookId":null,"enrollmentId":null,` +
		`"launchId":null,"subscriptionId":null,"leadsId":null,"status":"failed","errorClass":null,"httpStatus":null,"from":null,"to":"2029-12-31T23:00:00.000Z"},"total":0,"redelivered":0,"skipped":0,"succeeded":0,"failed":0,"canceled":0,` +
		`"createdAt":"` + at + `","startedAt":null,"endedAt":null}`
	if made.raw != want || made.header.Get("Location") != path || f.wakes.n.Load() != woken+1 {
		t.Errorf("got  %s at %q\nwant %s", made.raw, made.header.Get("Location"), want)
	}
	if again := f.do(c).expect(t, 202); again.raw != made.raw || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the same request: %s", again.raw)
	}
	if got := f.get(path).expect(t, 200); got.raw != made.raw || got.header.Get("ETag") == "" {
		t.Errorf("GET %s", got.raw)
	}
	for more := true; more; {
		var err error
		if more, err = f.store.RedeliveryStep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	running := f.get(path).expect(t, 200)
	if !strings.Contains(running.raw, `"total":2,"redelivered":2,"skipped":0`) || running.json["status"] != "running" || running.json["startedAt"] == nil {
		t.Errorf("running: %s", running.raw)
	}
	if a := f.send("POST", path+"/cancel", "").expect(t, 200); a.json["status"] != "canceled" || a.json["endedAt"] == nil {
		t.Errorf("canceled: %s", a.raw)
	}
	f.send("POST", path+"/cancel", "{}").expect(t, 200)

	// One that finds nothing is over at once, and has ended then.
	f.clock.advance(time.Second)
	none := f.send("POST", "/v1/redeliveries", fmt.Sprintf(`{"filter":{"leadsId":%d,"webhookId":%q,"status":"canceled","from":"2026-01-01T00:00:00Z"}}`, leads[2], hook)).expect(t, 202).str(t, "id")
	if _, err := f.store.RedeliveryStep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.get("/v1/redeliveries/"+none).expect(t, 200); got.json["status"] != "completed" || got.json["total"] != 0.0 {
		t.Errorf("nothing to do: %s", got.raw)
	}
	f.send("POST", "/v1/redeliveries/"+none+"/cancel", "").fault(t, 409, "Conflict")

	f.clock.advance(time.Second)
	some := f.send("POST", "/v1/redeliveries", `{"filter":{"nodeId":"hello","status":"failed,succeeded","errorClass":"timeout","httpStatus":200}}`).expect(t, 202)
	if !strings.Contains(some.raw, `"nodeId":"hello",`) || !strings.Contains(some.raw, `"status":"failed,succeeded","errorClass":"timeout","httpStatus":200,`) {
		t.Errorf("by several filters: %s", some.raw)
	}
	if _, err := f.store.RedeliveryStep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.get("/v1/redeliveries/"+some.str(t, "id")).expect(t, 200); got.json["status"] != "completed" || got.json["total"] != 0.0 {
		t.Errorf("nothing timed out: %s", got.raw)
	}

	page := f.get("/v1/redeliveries?limit=1").expect(t, 200)
	page = f.get("/v1/redeliveries?limit=1&cursor="+page.str(t, "nextCursor")).expect(t, 200)
	if items := page.json["items"].([]any); len(items) != 1 || items[0].(map[string]any)["id"] != none {
		t.Errorf("list %s", page.raw)
	}
	page = f.get("/v1/redeliveries?limit=1&cursor="+page.str(t, "nextCursor")).expect(t, 200)
	if items := page.json["items"].([]any); len(items) != 1 || items[0].(map[string]any)["id"] != redelivery || page.json["nextCursor"] != nil {
		t.Errorf("list %s", page.raw)
	}
	f.get("/v1/redeliveries?limit=0&status=running").fault(t, 400, "BadRequest", "UnknownField status", "OutOfRange limit")
	for _, c := range []call{{method: "GET", target: path}, {method: "POST", target: path + "/cancel"}} {
		c.headers = map[string]string{"X-Cloud-Stage": "test"}
		f.do(c).fault(t, 404, "NotFound")
	}
	f.get("/v1/redeliveries/rdl_nope").fault(t, 404, "NotFound")

	for body, details := range map[string][]string{
		`{}`:                {"NullValue filter"},
		`{"filter":null}`:   {"NullValue filter"},
		`{"filter":[]}`:     {"InvalidType filter"},
		`{"journeyId":"x"}`: {"UnknownField journeyId", "NullValue filter"},
		`{"filter":{"status":"pending","leadsId":0,"journeyId":"jrn_1","launchId":"","enrollmentId":"` + id + `","from":"x","to":5,"webhookId":null}}`: {
			"InvalidType filter.to", "InvalidFormat filter.journeyId", "InvalidFormat filter.enrollmentId", "InvalidFormat filter.launchId",
			"OutOfRange filter.leadsId", "OutOfRange filter.status", "InvalidFormat filter.from"},
		`{"filter":{"journeyId":"jrn_\u0000"}}`:                                  {"InvalidFormat filter.journeyId"},
		`{"filter":{"limit":5,"leadsId":"1"}}`:                                   {"UnknownField filter.limit", "InvalidType filter.leadsId"},
		`{"filter":{"from":"2026-02-01T00:00:00Z","to":"2026-01-31T23:59:59Z"}}`: {"OutOfRange filter.from"},
		`{"filter":{"status":"failed,failed","nodeId":"","errorClass":"","httpStatus":5}}`: {
			"InvalidFormat filter.nodeId", "Duplicate filter.status", "OutOfRange filter.errorClass", "OutOfRange filter.httpStatus"},
		`{"filter":{"status":"failed, canceled","httpStatus":"503"}}`: {"InvalidType filter.httpStatus", "OutOfRange filter.status"},
		`{`: {"InvalidFormat "},
	} {
		f.send("POST", "/v1/redeliveries", body).fault(t, 400, "BadRequest", details...)
	}
}

// Each of the routes needs its grant, and no other.
func TestGrantsOfVersionsAndRedeliveries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := "/v1/journeys/" + f.publishedJourney(nothing)
	lead := fmt.Sprint(f.newLead("Ada"))
	redelivery := "/v1/redeliveries/" + f.send("POST", "/v1/redeliveries", `{"filter":{}}`).expect(t, 202).str(t, "id")
	for _, tc := range []struct {
		grant  waypost.Grant
		call   call
		status int
	}{
		{waypost.GrantJourneysRead, call{method: "GET", target: id + "/versions"}, 200},
		{waypost.GrantJourneysRead, call{method: "GET", target: id + "/versions/1/diff/draft"}, 200},
		{waypost.GrantJourneysRead, call{method: "POST", target: id + "/dryrun", body: `{"leadsId":` + lead + `}`}, 200},
		{waypost.GrantJourneysRead, call{method: "POST", target: id + "/forecast", body: `{"audience":{"filter":{}}}`}, 200},
		{waypost.GrantJourneysWrite, call{method: "POST", target: id + "/archive"}, 200},
		{waypost.GrantDeliveriesRedeliver, call{method: "POST", target: "/v1/deliveries/msg_nope/redeliver"}, 404},
		{waypost.GrantDeliveriesRedeliver, call{method: "POST", target: "/v1/redeliveries", body: `{"filter":{}}`}, 202},
		{waypost.GrantDeliveriesRedeliver, call{method: "POST", target: redelivery + "/cancel"}, 200},
		{waypost.GrantDeliveriesRead, call{method: "GET", target: "/v1/redeliveries"}, 200},
		{waypost.GrantDeliveriesRead, call{method: "GET", target: redelivery}, 200},
	} {
		var others []waypost.Grant
		for _, g := range waypost.AllGrants {
			if g != tc.grant {
				others = append(others, g)
			}
		}
		with, without := keyOf(f.newApp(tc.grant)), keyOf(f.newApp(others...))
		tc.call.key = &without
		if a := f.do(tc.call).fault(t, 401, "Unauthorized"); detailOf(a) != "GrantMissing" {
			t.Errorf("%s %s: %s", tc.call.method, tc.call.target, a.raw)
		}
		tc.call.key = &with
		f.do(tc.call).expect(t, tc.status)
	}
}
