package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

func (f *fixture) newSubscription(webhook, on string) string {
	f.t.Helper()
	return f.send("POST", "/v1/subscriptions", fmt.Sprintf(`{"name":"crm","webhookId":%q,"on":[%s]}`, webhook, on)).expect(f.t, 201).str(f.t, "id")
}

func TestSubscriptions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook, journey := f.welcoming()
	body := fmt.Sprintf(`{"name":"crm <1>","webhookId":%q,"on":["launch.ended","enrollment.ended"],"journeyId":%q}`, hook, journey)
	c := call{method: "POST", target: "/v1/subscriptions", body: body, headers: map[string]string{"Idempotency-Key": "k"}}
	created := f.do(c).expect(t, 201)
	id := created.str(t, "id")
	at := f.clock.Now().UTC().Format(waypost.TimeFormat)
	want := `{"id":"` + id + `",` + body[1:len(body)-1] + `,"createdAt":"` + at + `","updatedAt":"` + at + `"}`
	if created.raw != want || created.header.Get("Location") != "/v1/subscriptions/"+id || !waypost.IsID(waypost.PrefixSubscription, id) {
		t.Errorf("got  %s\nwant %s, at %s", created.raw, want, created.header.Get("Location"))
	}
	if again := f.do(c).expect(t, 201); again.raw != created.raw {
		t.Errorf("the same request: %s", again.raw)
	}
	path := "/v1/subscriptions/" + id
	if got := f.get(path).expect(t, 200); got.raw != created.raw || got.header.Get("ETag") != created.header.Get("ETag") {
		t.Errorf("GET %s", got.raw)
	}
	if got := f.get("/v1/subscriptions").expect(t, 200); got.raw != `{"items":[`+created.raw+`],"nextCursor":null}` {
		t.Errorf("list %s", got.raw)
	}

	f.clock.advance(time.Second)
	match := map[string]string{"If-Match": created.header.Get("ETag")}
	patched := f.do(call{method: "PATCH", target: path, body: `{"on":["import.ended"],"journeyId":null}`, headers: match}).expect(t, 200)
	for _, part := range []string{`"name":"crm <1>"`, `"on":["import.ended"]`, `"journeyId":null`, `"createdAt":"` + at} {
		if !strings.Contains(patched.raw, part) {
			t.Errorf("no %s in %s", part, patched.raw)
		}
	}
	f.do(call{method: "PATCH", target: path, body: `{"name":"late"}`, headers: match}).fault(t, 412, "PreconditionFailed")
	f.send("PATCH", path, `{"journeyId":"`+journey+`"}`).fault(t, 400, "BadRequest", "InvalidFormat journeyId")
	f.send("PATCH", path, `{"name":null}`).fault(t, 400, "BadRequest", "NullValue name")
	f.send("PATCH", "/v1/subscriptions/sub_nope", `{"on":[]}`).fault(t, 400, "BadRequest", "NullValue on")
	f.send("PATCH", "/v1/subscriptions/sub_nope", `{"name":"n"}`).fault(t, 404, "NotFound")
	f.do(call{method: "PATCH", target: path, body: `{"name":"n"}`, headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")

	if a := f.send("DELETE", "/v1/webhooks/"+f.newUsedWebhook(), "").fault(t, 409, "Conflict"); !strings.Contains(a.raw, "subscription sub_") {
		t.Errorf("a webhook that is used: %s", a.raw)
	}
	f.do(call{method: "DELETE", target: path, headers: match}).fault(t, 412, "PreconditionFailed")
	f.do(call{method: "DELETE", target: path, headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
	f.send("DELETE", path, "").expect(t, 204)
	f.send("DELETE", path, "").fault(t, 404, "NotFound")
	f.get(path).fault(t, 404, "NotFound")
}

// newUsedWebhook makes a webhook that a subscription uses.
func (f *fixture) newUsedWebhook() string {
	hook := f.newWebhook("https://example.com/used")
	f.newSubscription(hook, `"import.ended"`)
	return hook
}

func TestSubscriptionFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook, journey := f.welcoming()
	absent := waypost.NewID(waypost.PrefixWebhook, f.clock.Now())
	noJourney := waypost.NewID(waypost.PrefixJourney, f.clock.Now())
	for _, c := range []struct {
		body    string
		details []string
	}{
		{`{}`, []string{"NullValue name", "NullValue webhookId", "NullValue on"}},
		{`{"name":" ","webhookId":"whk_1","on":[],"journeyId":"x"}`, []string{"NullValue name", "InvalidFormat webhookId", "InvalidFormat journeyId", "NullValue on"}},
		{`{"name":"` + strings.Repeat("n", 101) + `","webhookId":"` + hook + `","on":["import.ended","import.ended"]}`, []string{"TooLong name", "Duplicate on[1]"}},
		{`{"name":"n","webhookId":"` + hook + `","on":["lead.created"]}`, []string{"OutOfRange on[0]"}},
		{`{"name":"n","webhookId":"` + hook + `","on":"import.ended"}`, []string{"InvalidType on"}},
		{`{"name":"n","webhookId":"` + hook + `","on":["import.ended"],"off":1}`, []string{"UnknownField off"}},
		{`{"name":"n","webhookId":"` + hook + `","on":["import.ended"],"journeyId":""}`, []string{"InvalidFormat journeyId"}},
		{`{"name":"n","webhookId":"` + hook + `","on":["enrollment.ended","webhook.failing","import.ended"],"journeyId":"` + journey + `"}`, []string{"InvalidFormat journeyId"}},
	} {
		f.send("POST", "/v1/subscriptions", c.body).fault(t, 400, "BadRequest", c.details...)
	}
	a := f.send("POST", "/v1/subscriptions", `{"name":"n","webhookId":"`+hook+`","on":["enrollment.ended","webhook.failing","import.ended"],"journeyId":"`+journey+`"}`)
	if !strings.Contains(a.raw, "webhook.failing, import.ended, which no journey has") {
		t.Errorf("types without a journey: %s", a.raw)
	}
	f.do(call{method: "POST", target: "/v1/subscriptions", body: `{"name":"n","webhookId":"` + hook + `","on":["import.ended"]}`, headers: map[string]string{"X-Cloud-Stage": "test"}}).
		fault(t, 404, "NotFound")
	for target, body := range map[string]string{
		"webhookId": `{"name":"n","webhookId":"` + absent + `","on":["enrollment.ended"]}`,
		"journeyId": `{"name":"n","webhookId":"` + hook + `","on":["enrollment.ended"],"journeyId":"` + noJourney + `"}`,
	} {
		if a := f.send("POST", "/v1/subscriptions", body).fault(t, 404, "NotFound"); a.json["target"] != target {
			t.Errorf("%s: %s", target, a.raw)
		}
	}
}

// A message to a subscription is a delivery without enrollment, journey, node and lead.
func TestDeliveriesOfSubscriptions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook, journey := f.welcoming()
	sub := f.newSubscription(hook, `"enrollment.ended"`)
	lead := f.newLead("Ada")
	touchpoint, enrollment := f.deliver(journey, hook, lead, waypost.DeliverySucceeded)
	f.send("POST", "/v1/enrollments/"+enrollment+"/cancel", "").expect(t, 200)
	batches, _, err := f.store.TellSubscriptions(t.Context(), waypost.MaxCohort)
	if err != nil || len(batches) != 1 || len(batches[0].Members) != 1 {
		t.Fatalf("told %+v, %v", batches, err)
	}
	m := batches[0].Members[0]
	key := waypost.Touchpoint{EnrollmentID: m.EnrollmentID, Visit: m.Visit}
	_, err = f.store.OpenAttempts(t.Context(), []delivery.Opening{{Touchpoint: key, Round: 1, Scope: release, Attempt: 1, At: f.clock.Now(), By: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	err = f.store.RecordAttempts(t.Context(), []delivery.AttemptRecord{{
		Touchpoint: key, Scope: release, MessageID: m.MessageID, Round: 1, Attempt: 1, Status: waypost.DeliveryFailed,
		Outcome: waypost.Outcome{HTTPStatus: 404, ErrorClass: waypost.ClassHTTPStatus, At: f.clock.Now()},
	}})
	if err != nil {
		t.Fatal(err)
	}
	shown := f.get("/v1/deliveries/"+m.MessageID).expect(t, 200)
	for _, part := range []string{
		`"enrollmentId":null,"journeyId":null,"journeyVersion":null,"nodeId":null,"subscriptionId":"` + sub + `","webhookId":"` + hook + `","leadsId":null`,
		`"temporalUrl":null`, `"body":{"type":"enrollment.ended","timestamp":"2026-`, `"enrollmentId":"` + enrollment + `"`, `"status":"canceled"`,
	} {
		if !strings.Contains(shown.raw, part) {
			t.Errorf("no %s in %s", part, shown.raw)
		}
	}
	if d := f.get("/v1/deliveries/"+touchpoint).expect(t, 200); !strings.Contains(d.raw, `"nodeId":"hello","subscriptionId":null`) {
		t.Errorf("of a touchpoint: %s", d.raw)
	}
	for query, want := range map[string]int{"": 2, "?subscriptionId=" + sub: 1, "?subscriptionId=sub_other": 0, "?enrollmentId=" + sub: 0, "?journeyId=" + journey: 1, fmt.Sprintf("?leadsId=%d", lead): 1} {
		if items := f.get("/v1/deliveries"+query).expect(t, 200).json["items"].([]any); len(items) != want {
			t.Errorf("%s lists %d, want %d", query, len(items), want)
		}
	}
	if a := f.get("/v1/deliveries/summary?groupBy=nodeId&subscriptionId="+sub).expect(t, 200); !strings.Contains(a.raw, `"nodeId":null,"count":1`) {
		t.Errorf("summary %s", a.raw)
	}
	csv := f.get("/v1/deliveries/export?format=csv&subscriptionId="+sub).expect(t, 200).raw
	if !strings.Contains(csv, ",,,,"+sub+","+hook+",,failed,") {
		t.Errorf("export %s", csv)
	}
	f.clock.advance(time.Second)
	a := f.send("POST", "/v1/redeliveries", `{"filter":{"subscriptionId":"`+sub+`"}}`).expect(t, 202)
	if !strings.Contains(a.raw, `"subscriptionId":"`+sub+`"`) {
		t.Errorf("redelivery %s", a.raw)
	}
	f.send("POST", "/v1/redeliveries", `{"filter":{"subscriptionId":"enr_1"}}`).fault(t, 400, "BadRequest", "InvalidFormat filter.subscriptionId")
	f.send("DELETE", "/v1/subscriptions/"+sub, "").expect(t, 204)
	if a := f.send("POST", "/v1/deliveries/"+m.MessageID+"/redeliver", "").fault(t, 422, "UnprocessableEntity"); a.json["target"] != "subscriptionId" {
		t.Errorf("of a deleted one: %s", a.raw)
	}
}
