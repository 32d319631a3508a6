package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/store/storetest"
)

// pathOf writes a dry run's way as "node result", and what it came to.
func (a answer) pathOf(t *testing.T) string {
	t.Helper()
	var out []string
	for _, step := range a.json["path"].([]any) {
		s := step.(map[string]any)
		out = append(out, fmt.Sprint(s["nodeId"], " ", s["result"]))
	}
	return strings.Join(append(out, fmt.Sprint(a.json["status"])), ", ")
}

// A dry run tells all that would happen, in the documented words.
func TestDryRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook := f.send("POST", "/v1/webhooks", `{"name":"w","url":"https://example.com/secret-path","basicAuth":{"username":"u","password":"secret-password"},
		"params":{"site":"{{ journey.name }} {{ journey.version }}","n":1.50},"signingSecret":"`+secretOf32Bytes+`"}`).expect(t, 201).str(t, "id")
	id := f.publishedJourney(strings.Replace(welcome(hook), `Hi {{ lead.name }}`, `Hi {{ lead.name }} <{{ enrollment.params.coupon }}> {{ enrollment.entryKey }}`, 1))
	path := "/v1/journeys/" + id + "/dryrun"
	lead := f.send("POST", "/v1/leads", `{"businessParam":{"name":"Ada","externalId":"crm-1","openId":"o-1"}}`).expect(t, 201).json["leadsId"]
	got := f.send("POST", path, fmt.Sprintf(`{"leadsId":%v,"entryKey":"k","params":{"coupon":"X"}}`, lead)).expect(t, 200)
	const at = `"2026-01-31T12:00:00.000Z"`
	want := fmt.Sprintf(`{"journeyId":"%[1]s","version":1,"draft":false,"leadsId":%[2]v,"entry":null,"startAt":%[3]s,"endAt":%[3]s,"status":"completed","limit":null,`+
		`"path":[{"nodeId":"hello","type":"touchpoint","visit":1,"enteredAt":%[3]s,"leftAt":%[3]s,"result":"delivered","reason":null,"next":"end","way":"next","values":null},`+
		`{"nodeId":"end","type":"exit","visit":2,"enteredAt":%[3]s,"leftAt":%[3]s,"result":"exited","reason":null,"next":null,"way":null,"values":null}],`+
		`"timeline":[`, id, lead, at)
	if !strings.HasPrefix(got.raw, want) {
		t.Errorf("got  %s\nwant %s…", got.raw, want)
	}
	want = fmt.Sprintf(`"messages":[{"nodeId":"hello","webhookId":"%[1]s","visit":1,"at":%[2]s,"succeed":true,"error":null,`+
		`"body":{"messageId":"msg_00000000000000000000000000","version":"1.0","timestamp":%[2]s,`+
		`"userProfile":{"orgId":"acme","appId":"%[3]s","userId":"crm-1","affId":"%[4]v","openId":"o-1"},`+
		`"journeyInfo":{"journeyId":"enr_00000000000000000000000000","journeyName":"Welcome","actionDefId":"%[5]s/1/hello","actionId":"enr_00000000000000000000000000/1"},`+
		`"params":{"greeting":"Hi Ada <X> k","n":1.5,"site":"Welcome 1"}}}],"heldOut":false,"goal":null}`, hook, at, f.app.ID, lead, id)
	if !strings.HasSuffix(got.raw, want) {
		t.Errorf("got  %s\nwant …%s", got.raw, want)
	}
	for _, secret := range []string{"secret", secretOf32Bytes} {
		if strings.Contains(got.raw, secret) {
			t.Errorf("it tells %s", secret)
		}
	}
	// Nothing came of it.
	if got := f.get("/v1/deliveries"); got.raw != `{"items":[],"nextCursor":null}` || f.wakes.n.Load() != 0 {
		t.Errorf("deliveries %s, woken %d times", got.raw, f.wakes.n.Load())
	}
	if e, err := storetest.ClaimCohort(t.Context(), f.store); err != nil || e != nil {
		t.Errorf("enrolled %v, %v", e, err)
	}
}

// A dry run tells what nodes would set and emit, and changes nothing.
func TestDryRunValues(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.publishedJourney(`{"name":"Stage","start":"set","nodes":[
		{"id":"set","type":"updateLead","set":{"remark":"seen by {{ journey.name }}","customFields.visits":"{{ lead.customFields.visits | plus: 1 }}"},"next":"tell"},
		{"id":"tell","type":"emit","event":"stage.changed","properties":{"visits":"{{ lead.customFields.visits }}","by":"{{ lead.remark }}"},"next":"bad"},
		{"id":"bad","type":"updateLead","set":{"gender":"{{ lead.customFields.visits | times: 9 }}"}}]}`)
	lead := f.send("POST", "/v1/leads", `{"businessParam":{"name":"Ada","customFields":{"visits":1}}}`).expect(t, 201).json["leadsId"]
	got := f.send("POST", "/v1/journeys/"+id+"/dryrun", fmt.Sprintf(`{"leadsId":%v}`, lead)).expect(t, 200)
	for _, want := range []string{
		`"next":"tell","way":"next","values":{"customFields":{"visits":2},"remark":"seen by Stage"}}`,
		`"next":"bad","way":"next","values":{"by":"seen by Stage","visits":2}}`, `"result":"failed","reason":"gender: must be 0, 1 or 2","next":null,"way":"next","values":null}`,
	} {
		if !strings.Contains(got.raw, want) {
			t.Errorf("%s is not in %s", want, got.raw)
		}
	}
	if now := f.get(fmt.Sprintf("/v1/leads/%v", lead)).expect(t, 200); strings.Contains(now.raw, "seen by") {
		t.Errorf("the lead was changed: %s", now.raw)
	}
}

// It is the definition that is asked for, with the events and outcomes that are
// invented.
func TestDryRunChoices(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook, other := f.newWebhook("https://example.com"), f.newWebhook("https://example.com")
	target := f.publishedJourney(nothing)
	id := f.send("POST", "/v1/journeys", everything(t, hook, other, target)).expect(t, 201).str(t, "id")
	path := "/v1/journeys/" + id + "/dryrun"
	lead := fmt.Sprint(f.newLead("Ada"))
	which := func(body string) string {
		t.Helper()
		a := f.send("POST", path, body).expect(t, 200)
		return fmt.Sprint(a.json["version"], " ", a.json["draft"])
	}
	someone := `{"leadsId":` + lead
	if got := which(someone + `}`); got != "1 true" {
		t.Errorf("never published: %s", got)
	}
	f.send("POST", "/v1/journeys/"+id+"/publish", "").expect(t, 201)
	if got := which(someone+`}`) + ", " + which(someone+`,"draft":true,"version":null}`); got != "1 false, 1 true" {
		t.Errorf("an unchanged draft: %s", got)
	}
	f.send("PUT", "/v1/journeys/"+id, strings.Replace(everything(t, hook, other, target), "Hi ", "Hello ", 1)).expect(t, 200)
	if got := which(someone+`}`) + ", " + which(someone+`,"draft":true}`) + ", " + which(someone+`,"version":1,"draft":false}`); got != "1 false, 2 true, 1 false" {
		t.Errorf("a changed draft: %s", got)
	}
	f.send("POST", path, someone+`,"version":2}`).fault(t, 404, "NotFound")

	// The clock is at 20:00 in Shanghai, an hour before quiet hours.
	for body, want := range map[string]string{
		someone + `,"events":[{"name":"unsubscribed","after":"1h"}]}`:                                                            "hello delivered, wait exited, exited",
		someone + `,"events":[{"name":"unsubscribed","after":"0s"}]}`:                                                            "hello exited, exited",
		someone + `,"startAt":"2026-01-31T14:00:00Z","events":[{"name":"app.closed","at":"2026-02-01T06:00:00+08:00"}]}`:         "hello exited, exited",
		someone + `,"outcomes":{"hello":{"succeed":false,"httpStatus":503,"message":"busy"}}}`:                                   "hello failed, sorry delivered, end exited, completed",
		someone + `,"events":[{"name":"purchase","after":"PT1H","properties":{"amount":150}}]}`:                                  "hello delivered, wait waited, morning waited, bought matched, renewal skipped, thanks delivered, other enrolled, old waited, completed",
		`{"lead":{"name":"Ada","customFields":{"timezone":"Asia/Tokyo"}},"events":[{"name":"app.closed","after":"30h"}]}`:        "hello delivered, wait exited, exited",
		`{"lead":{"name":"Ada","gender":1},"events":[{"name":"purchase","at":"2020-01-01T00:00:00Z"}],"draft":true,"params":{}}`: "",
	} {
		a := f.send("POST", path, body).expect(t, 200)
		if got := a.pathOf(t); want != "" && got != want {
			t.Errorf("%s\n got %s\nwant %s", body, got, want)
		}
	}
	// Of an invented lead there is no id, and nobody knows the arm of one that is stored.
	a := f.send("POST", path, `{"lead":{"name":"Ada","mobilePhone":["13800000000"]},"outcomes":{"hello":{"succeed":false}}}`).expect(t, 200)
	if a.json["leadsId"] != nil || !strings.Contains(a.raw, `"affId":"0"`) || !strings.Contains(a.raw, `"what":"failed","next":"sorry","way":"onFailure","reason":"network"`) {
		t.Errorf("invented: %s", a.raw)
	}

	// A run that does not end is cut, and says so; a message that cannot be made is not sent.
	loop := f.publishedJourney(`{"name":"n","start":"a","nodes":[{"id":"a","type":"delay","for":"P7D","next":"b"},
		{"id":"b","type":"touchpoint","webhook":"` + hook + `","params":{"p":"{{ lead.name | times: 2 | divided_by: lead.region }}"},"next":"a"}]}`)
	a = f.send("POST", "/v1/journeys/"+loop+"/dryrun", someone+`}`).expect(t, 200)
	if a.json["limit"] != "period" || a.json["status"] != "waiting" || a.json["endAt"] != "2028-01-31T12:00:00.000Z" {
		t.Errorf("a loop: %.300s", a.raw)
	}
	message := a.json["messages"].([]any)[0].(map[string]any)
	if message["body"] != nil || message["succeed"] != false || message["error"] == nil {
		t.Errorf("a message that cannot be made: %v", message)
	}
	steps := a.json["path"].([]any)
	if last := steps[len(steps)-1].(map[string]any); last["leftAt"] != nil || last["result"] != nil {
		t.Errorf("the last step: %v", last)
	}
}

// Messages that a stored lead got count for the frequency cap.
func TestDryRunCap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook := f.newWebhook("https://example.com")
	definition := strings.Replace(welcome(hook), `"start"`, `"frequencyCap":{"touchpoints":1,"per":"24h"},"start"`, 1)
	id := f.publishedJourney(definition)
	lead := f.newLead("Ada")
	body := fmt.Sprintf(`{"leadsId":%d`, lead)
	if got := f.send("POST", "/v1/journeys/"+id+"/dryrun", body+`}`).expect(t, 200).pathOf(t); got != "hello delivered, end exited, completed" {
		t.Errorf("before: %s", got)
	}
	f.deliver(f.publishedJourney(welcome(hook)), hook, lead, waypost.DeliverySucceeded)
	a := f.send("POST", "/v1/journeys/"+id+"/dryrun", body+`}`).expect(t, 200)
	if got := a.pathOf(t); got != "hello skipped, end exited, completed" || !strings.Contains(a.raw, `"messages":[]`) || !strings.Contains(a.raw, `"reason":"frequencyCap"`) {
		t.Errorf("after: %s", a.raw)
	}
	day := f.clock.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	for body, want := range map[string]string{
		body + `,"startAt":"` + day + `"}`: "hello delivered, end exited, completed",
		`{"lead":{"name":"Ada"}}`:          "hello delivered, end exited, completed",
	} {
		if got := f.send("POST", "/v1/journeys/"+id+"/dryrun", body).expect(t, 200).pathOf(t); got != want {
			t.Errorf("%s: %s", body, got)
		}
	}
	// Of a start in the past it is what was before it that counts, however much came since.
	start := f.clock.Now().UTC().Format(time.RFC3339)
	f.clock.advance(48 * time.Hour)
	f.deliver(f.publishedJourney(welcome(hook)), hook, lead, waypost.DeliverySucceeded)
	if got := f.send("POST", "/v1/journeys/"+id+"/dryrun", body+`,"startAt":"`+start+`"}`).expect(t, 200).pathOf(t); got != "hello skipped, end exited, completed" {
		t.Errorf("in the past: %s", got)
	}
}

func TestDryRunFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, id := f.welcoming()
	path := "/v1/journeys/" + id + "/dryrun"
	lead := fmt.Sprint(f.newLead("Ada"))
	many, err := json.Marshal(map[string]any{"leadsId": 1, "events": slices.Repeat([]map[string]string{{"name": "e", "after": "1h"}}, 1001)})
	if err != nil {
		t.Fatal(err)
	}
	for body, details := range map[string][]string{
		`{}`:                                  {"NullValue leadsId"},
		`[]`:                                  {"InvalidType "},
		`{"leadsId":1,"lead":{"name":"Ada"}}`: {"InvalidFormat lead"},
		`{"leadsId":"1","nope":1}`:            {"InvalidType leadsId", "UnknownField nope"},
		`{"lead":5}`:                          {"InvalidType lead"},
		`{"lead":{"gender":5,"mobilePhone":["1"],"x":1,"birthday":"2999-01-01"}}`:                             {"UnknownField lead.x", "NullValue lead.name", "OutOfRange lead.gender", "InvalidFormat lead.mobilePhone[0]"},
		`{"lead":{"name":"Ada","birthday":"2999-01-01"},"version":0}`:                                         {"OutOfRange version"},
		`{"leadsId":1,"version":1,"draft":true}`:                                                              {"InvalidFormat draft"},
		`{"leadsId":1,"version":"draft","draft":1}`:                                                           {"InvalidType version", "InvalidType draft"},
		`{"leadsId":1,"entryKey":"` + strings.Repeat("k", 129) + `","startAt":"tomorrow"}`:                    {"TooLong entryKey", "InvalidFormat startAt"},
		`{"leadsId":1,"startAt":"0001-01-01T00:00:00Z","params":{"p":"` + strings.Repeat("p", 17<<10) + `"}}`: {"TooLong params", "OutOfRange startAt"},
		`{"leadsId":1,"startAt":"2200-01-01T00:00:00Z","params":{"n":9007199254740993}}`:                      {"OutOfRange params.n", "OutOfRange startAt"},
		`{"leadsId":1,"events":{}}`:                                                                           {"InvalidType events"},
		`{"leadsId":1,"events":[{"name":"a b","at":"x"},{"at":"2026-01-31T12:00:00Z","after":"1h"},null,{"name":"e","after":"-1h"},{"name":"e","after":"1 day","properties":[]}]}`: {
			"NullValue events[2]", "InvalidType events[4].properties", "InvalidFormat events[0].name", "InvalidFormat events[0].at", "NullValue events[1].name", "InvalidFormat events[1].after",
			"NullValue events[2].name", "NullValue events[2].at", "InvalidFormat events[3].after", "InvalidFormat events[4].after"},
		`{"leadsId":1,"events":[{"name":"e","at":"1000-01-01T00:00:00Z","properties":{"p":"` + strings.Repeat("p", 17<<10) + `"}}]}`: {"OutOfRange events[0].at", "TooLong events[0].properties"},
		string(many): {"TooLong events"},
		`{"leadsId":1,"outcomes":{"hello":{"httpStatus":99}}}`:                       {"NullValue outcomes.hello.succeed"},
		`{"leadsId":1,"outcomes":{"hello":{"succeed":true,"httpStatus":99}}}`:        {"OutOfRange outcomes.hello.httpStatus"},
		`{"leadsId":1,"outcomes":{"hello":{"succeed":true,"httpStatus":503}}}`:       {"OutOfRange outcomes.hello.httpStatus"},
		`{"leadsId":1,"outcomes":{"hello":true}}`:                                    {"InvalidType outcomes.hello", "NullValue outcomes.hello.succeed"},
		`{"leadsId":1,"outcomes":{"end":{"succeed":true},"nope":{"succeed":false}}}`: {"OutOfRange outcomes.end", "OutOfRange outcomes.nope"},
	} {
		f.send("POST", path, body).fault(t, 400, "BadRequest", details...)
	}
	if a := f.send("POST", path, `{"lead":{"name":"Ada","birthday":"2999-01-01"}}`).fault(t, 422, "UnprocessableEntity", "OutOfRange lead.birthday"); a.json["target"] != "lead" {
		t.Errorf("%s", a.raw)
	}
	f.send("POST", path, `{"leadsId":999}`).fault(t, 404, "NotFound")
	f.do(call{method: "POST", target: path, body: `{"leadsId":` + lead + `}`, headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
	f.send("POST", "/v1/journeys/jrn_nope/dryrun", `{}`).fault(t, 400, "BadRequest") // before its existence

	// A draft that could not be published cannot be run through either.
	broken := f.send("POST", "/v1/journeys", `{"name":"x","start":"a","nodes":[{"id":"a","type":"touchpoint","webhook":"whk_missing"},{"id":"b","type":"exit"}]}`).expect(t, 201).str(t, "id")
	f.send("POST", "/v1/journeys/"+broken+"/dryrun", `{"leadsId":`+lead+`}`).fault(t, 400, "BadRequest", "OutOfRange nodes[0].webhook", "OutOfRange nodes[1]")

	// An answer is kept for its key.
	kept := call{method: "POST", target: path, body: `{"leadsId":` + lead + `}`, headers: map[string]string{"Idempotency-Key": "k"}}
	first := f.do(kept).expect(t, 200)
	f.clock.advance(time.Hour)
	if again := f.do(kept).expect(t, 200); again.raw != first.raw || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("again: %s", again.raw)
	}
}

// A test message is the touchpoint's, rendered for the lead, and leaves no more than an entry in
// the audit log.
func TestJourneyTest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	got := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
		if strings.Contains(string(body), "Eve") {
			w.WriteHeader(503)
		}
	}))
	t.Cleanup(receiver.Close)
	hook := f.send("POST", "/v1/webhooks", `{"name":"w","url":"`+receiver.URL+`","enabled":false,"params":{"site":"{{ journey.name }}","n":1.50}}`).expect(t, 201).str(t, "id")
	definition := strings.Replace(welcome(hook), `Hi {{ lead.name }}`, `Hi {{ lead.name }} {{ enrollment.params.coupon }} {{ enrollment.entryKey }}`, 1)
	id := f.send("POST", "/v1/journeys", definition).expect(t, 201).str(t, "id")
	path := "/v1/journeys/" + id + "/test"
	lead := f.send("POST", "/v1/leads", `{"businessParam":{"name":"Ada","externalId":"crm-1","openId":"o-1"}}`).expect(t, 201).json["leadsId"]
	a := f.send("POST", path, fmt.Sprintf(`{"nodeId":"hello","leadsId":%v,"entryKey":"k","params":{"coupon":"X"}}`, lead)).expect(t, 200)
	if !strings.HasPrefix(a.raw, `{"succeed":true,"httpStatus":200,"message":null,"errorClass":null,"durationMs":`) {
		t.Errorf("it came to %s", a.raw)
	}
	want := fmt.Sprintf(`"version":"1.0","timestamp":"2026-01-31T12:00:00.000Z","userProfile":{"orgId":"acme","appId":"%s","userId":"crm-1","affId":"%v","openId":"o-1"},`+
		`"journeyInfo":{"journeyId":"test","journeyName":"Welcome","actionDefId":"%s/1/hello","actionId":"test"},"params":{"greeting":"Hi Ada X k","n":1.5,"site":"Welcome"}}`, f.app.ID, lead, id)
	if body := <-got; !strings.HasSuffix(body, want) {
		t.Errorf("sent %s\nwant …%s", body, want)
	}
	entries := f.entriesOf(a.header.Get("X-Request-Id"))
	if len(entries) != 1 || entries[0].Action != "journey.test" || entries[0].Target != id || string(entries[0].After) != fmt.Sprintf(`{"draft":true,"leadsId":%v,"nodeId":"hello","version":1}`, lead) {
		t.Errorf("the audit log has %+v", entries)
	}
	if got := f.get("/v1/deliveries").raw + f.get("/v1/enrollments").raw; got != strings.Repeat(`{"items":[],"nextCursor":null}`, 2) {
		t.Errorf("it left %s", got)
	}

	// What the receiver or a template makes of it is no error; the lead can be invented, the
	// definition be chosen.
	if a := f.send("POST", path, `{"nodeId":"hello","lead":{"name":"Eve"}}`).expect(t, 200); a.json["succeed"] != false || a.json["httpStatus"] != 503.0 || !strings.Contains(<-got, `"affId":"0"`) {
		t.Errorf("an invented lead: %s", a.raw)
	}
	f.send("POST", "/v1/journeys/"+id+"/publish", "").expect(t, 201)
	f.send("PUT", "/v1/journeys/"+id, strings.Replace(welcome(hook), "lead.name }}", "lead.name | times: 2 | divided_by: lead.region }}", 1)).expect(t, 200)
	if a := f.send("POST", path, `{"nodeId":"hello","lead":{"name":"Ada"},"draft":true}`).expect(t, 200); a.json["succeed"] != false || a.json["errorClass"] != "render" {
		t.Errorf("a template that fails: %s", a.raw)
	}
	f.send("POST", path, `{"nodeId":"hello","lead":{"name":"Ada"}}`).expect(t, 200)
	if body := <-got; !strings.Contains(body, `"greeting":"Hi Ada  "`) || len(got) > 0 {
		t.Errorf("of the published version: %s, and %d more", body, len(got))
	}

	f.send("POST", path, `{}`).fault(t, 400, "BadRequest", "NullValue leadsId", "NullValue nodeId")
	f.send("POST", path, `{"nodeId":7,"leadsId":1,"lead":{"name":""},"version":0,"x":1}`).
		fault(t, 400, "BadRequest", "InvalidType nodeId", "UnknownField x", "OutOfRange version", "InvalidFormat lead")
	f.send("POST", path, `{"nodeId":"hello","lead":{"name":"Ada","birthday":"2050-01-01"}}`).fault(t, 422, "UnprocessableEntity", "OutOfRange lead.birthday")
	for _, node := range []string{"end", "gone"} {
		f.send("POST", path, `{"nodeId":"`+node+`","lead":{"name":"Ada"}}`).fault(t, 400, "BadRequest", "OutOfRange nodeId")
	}
	f.send("POST", path, `{"nodeId":"hello","leadsId":999999}`).fault(t, 404, "NotFound")
	f.send("PATCH", "/v1/webhooks/"+hook, `{"channel":"sms","requiresConsent":true}`).expect(t, 200)
	f.send("POST", path, fmt.Sprintf(`{"nodeId":"hello","leadsId":%v}`, lead)).fault(t, 409, "Conflict") // it has not agreed
	f.send("POST", path, `{"nodeId":"hello","lead":{"name":"Ada"},"version":2}`).fault(t, 404, "NotFound")
	f.otherOrg().send("POST", path, `{"nodeId":"hello","lead":{"name":"Ada"}}`).fault(t, 404, "NotFound")
	if len(got) > 0 {
		t.Errorf("%s was sent", <-got)
	}
}

// What a receiver said of a test message is given again for its Idempotency-Key until the lead is erased.
func TestAnswerOfTestIsErased(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"succeed":false,"message":"Ada has no account"}`)
	}))
	t.Cleanup(receiver.Close)
	id := f.send("POST", "/v1/journeys", welcome(f.newWebhook(receiver.URL))).expect(t, 201).str(t, "id")
	lead := f.newLead("Ada")
	test := call{
		method: "POST", target: "/v1/journeys/" + id + "/test", body: fmt.Sprintf(`{"nodeId":"hello","leadsId":%d}`, lead),
		headers: map[string]string{"Idempotency-Key": "k"},
	}
	for range 2 {
		if got := f.do(test).expect(t, 200); got.json["message"] != "Ada has no account" {
			t.Fatalf("the test: %s", got.raw)
		}
	}
	f.send("DELETE", fmt.Sprintf("/v1/leads/%d", lead), "").expect(t, 204)
	if got := f.do(test); strings.Contains(got.raw, "Ada") || got.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("after the erasure: %s", got.raw)
	}
}
