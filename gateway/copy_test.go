package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
)

// namedWebhook makes a webhook in a stage, after those that were made before.
func (f *fixture) namedWebhook(stage, name string) string {
	f.t.Helper()
	f.clock.advance(time.Millisecond)
	return f.do(call{
		method: "POST", target: "/v1/webhooks", body: fmt.Sprintf(`{"name":%q,"url":"https://example.com"}`, name), headers: map[string]string{"X-Cloud-Stage": stage},
	}).expect(f.t, 201).str(f.t, "id")
}

// What only people read of a journey is stored, published, told as a difference, and
// refused where it is too much.
func TestJourneyLabels(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const labelled = `{"name":"n","description":"Who joins.\nAll of them.","tags":[" spring","vip"],"start":"a","nodes":[` +
		`{"id":"a","type":"delay","label":"First","note":"to be discussed","for":"1h","next":"b"},{"id":"b","type":"exit","label":"End"}]}`
	created := f.send("POST", "/v1/journeys", labelled).expect(t, 201)
	id := created.str(t, "id")
	if !strings.Contains(created.raw, `"draft":`+labelled) {
		t.Errorf("the draft is not as it was written: %s", created.raw)
	}
	v1 := f.send("POST", "/v1/journeys/"+id+"/publish", "").expect(t, 201)
	if !strings.Contains(v1.raw, `"tags":["spring","vip"]`) || !strings.Contains(v1.raw, `"label":"First","note":"to be discussed"`) {
		t.Errorf("published %s", v1.raw)
	}
	f.send("PUT", "/v1/journeys/"+id, strings.NewReplacer("First", "Begin", `" spring",`, "").Replace(labelled)).expect(t, 200)
	diff := f.get("/v1/journeys/"+id+"/versions/1/diff/draft").expect(t, 200)
	for _, want := range []string{`"member":"label"`, `"member":"tags"`} {
		if !strings.Contains(diff.raw, want) {
			t.Errorf("no %s in %s", want, diff.raw)
		}
	}
	if v2 := f.send("POST", "/v1/journeys/"+id+"/publish", "").expect(t, 201); v2.json["version"] != 2.0 {
		t.Errorf("another label is no other version: %s", v2.raw)
	}
	// A draft can hold too much of it; publishing tells.
	long := strings.Repeat("x", 2001)
	f.send("PUT", "/v1/journeys/"+id, fmt.Sprintf(`{"name":"n","description":%q,"tags":["a","a",%q],"start":"b","nodes":[{"id":"b","type":"exit","label":%[1]q,"note":%[1]q}]}`, long, long[:41])).expect(t, 200)
	f.send("POST", "/v1/journeys/"+id+"/publish", "").fault(t, 400, "BadRequest", "TooLong description", "Duplicate tags[1]", "TooLong tags[2]", "TooLong nodes[0].label", "TooLong nodes[0].note")
	f.send("POST", "/v1/journeys", `{"name":"n","tags":"a","nodes":[{"id":"b","type":"exit","label":1}]}`).fault(t, 400, "BadRequest", "InvalidType tags", "InvalidType nodes[0].label")
}

func TestCopyJourney(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook := f.namedWebhook("release", "crm")
	id := f.publishedJourney(strings.Replace(welcome(hook), `"start"`, `"tags":["spring"],"start"`, 1))
	changed := strings.Replace(welcome(hook), "Hi ", "Hello ", 1)
	f.send("PUT", "/v1/journeys/"+id, changed).expect(t, 200)
	f.clock.advance(1e9)

	copied := f.send("POST", "/v1/journeys/"+id+"/copy", "").expect(t, 201)
	other := copied.str(t, "id")
	if other == id || copied.header.Get("Location") != "/v1/journeys/"+other || copied.json["name"] != "Welcome (copy)" || copied.json["publishedVersion"] != nil ||
		copied.json["status"] != "draft" || copied.json["createdAt"] != "2026-01-31T12:00:01.001Z" || !strings.HasSuffix(copied.raw, `,"missing":[]}`) {
		t.Errorf("copied %s", copied.raw)
	}
	got := f.get("/v1/journeys/"+other).expect(t, 200)
	if got.header.Get("ETag") != copied.header.Get("ETag") || strings.TrimSuffix(copied.raw, `,"missing":[]}`)+"}" != got.sound(t) || !strings.Contains(got.raw, "Hello {{ lead.name }}") || !strings.Contains(got.raw, hook) {
		t.Errorf("the copy is %s", got.raw)
	}
	f.send("POST", "/v1/journeys/"+other+"/publish", "").expect(t, 201)
	if again := f.get("/v1/journeys/"+id).expect(t, 200); again.json["name"] != "Welcome" || again.json["publishedVersion"] != 1.0 {
		t.Errorf("the journey has become %s", again.raw)
	}
	named := f.send("POST", "/v1/journeys/"+id+"/copy", `{"name":"Welcome, second","stage":"release"}`).expect(t, 201)
	if named.json["name"] != "Welcome, second" || named.json["draft"].(map[string]any)["name"] != "Welcome, second" {
		t.Errorf("named %s", named.raw)
	}
	long := f.send("POST", "/v1/journeys", `{"name":"`+strings.Repeat("é", 200)+`","start":"a","nodes":[{"id":"a","type":"exit"}]}`).expect(t, 201).str(t, "id")
	f.send("POST", "/v1/journeys/"+f.send("POST", "/v1/journeys/"+long+"/copy", "").expect(t, 201).str(t, "id")+"/publish", "").expect(t, 201)

	// The same key makes one copy.
	keyed := call{method: "POST", target: "/v1/journeys/" + id + "/copy", body: `{"stage":"test"}`, headers: map[string]string{"Idempotency-Key": "k"}}
	first, second := f.do(keyed).expect(t, 201), f.do(keyed).expect(t, 201)
	if first.raw != second.raw || second.header.Get("Idempotency-Replayed") != "true" || !strings.Contains(first.raw, `"missing":[{`) {
		t.Errorf("first %s, again %s", first.raw, second.raw)
	}

	for body, details := range map[string][]string{
		`{"name":""}`:                                 {"NullValue name"},
		`{"name":" "}`:                                {"NullValue name"},
		`{"name":"a\nb"}`:                             {"InvalidFormat name"},
		`{"stage":""}`:                                {"OutOfRange stage"},
		`{"stage":"live","title":"x"}`:                {"UnknownField title", "OutOfRange stage"},
		`{"name":7,"stage":["release"]}`:              {"InvalidType name", "InvalidType stage"},
		`{"name":"` + strings.Repeat("é", 201) + `"}`: {"TooLong name"},
		`[]`: {"InvalidType "},
	} {
		f.send("POST", "/v1/journeys/"+id+"/copy", body).fault(t, 400, "BadRequest", details...)
	}
	f.send("POST", "/v1/journeys/jrn_none/copy", "").fault(t, 404, "NotFound")
	f.do(call{method: "POST", target: "/v1/journeys/" + id + "/copy", headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
	reader := keyOf(f.newApp(waypost.GrantJourneysRead, waypost.GrantJourneysRun))
	f.do(call{method: "POST", target: "/v1/journeys/" + id + "/copy", key: &reader}).fault(t, 401, "Unauthorized", "GrantMissing grants")
	full := f.send("POST", "/v1/journeys", `{"name":"n","description":"`+strings.Repeat("x", 256<<10-40)+`"}`).expect(t, 201).str(t, "id")
	f.send("POST", "/v1/journeys/"+full+"/copy", `{"name":"`+strings.Repeat("x", 200)+`"}`).fault(t, 400, "BadRequest", "TooLong ")
}

// In another stage a copy names what has the same name there, and tells what does not.
func TestCopyToStage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	inTest := func(method, target, body string) answer {
		t.Helper()
		return f.do(call{method: method, target: target, body: body, headers: map[string]string{"X-Cloud-Stage": "test"}})
	}
	crm, sms, mail, old := f.namedWebhook("release", "crm"), f.namedWebhook("release", "sms"), f.namedWebhook("release", "mail"), f.namedWebhook("release", "old")
	follow := f.send("POST", "/v1/journeys", `{"name":"Follow","start":"a","nodes":[{"id":"a","type":"exit"}]}`).expect(t, 201).str(t, "id")
	back := f.send("POST", "/v1/journeys", `{"name":"Back"}`).expect(t, 201).str(t, "id")
	id := f.send("POST", "/v1/journeys", fmt.Sprintf(`{"name":"Main","start":"a","nodes":[
		{"id":"a","type":"touchpoint","webhook":%q,"params":{"n":1.50},"next":"b"},{"id":"b","type":"touchpoint","webhook":%q,"next":"c"},
		{"id":"c","type":"touchpoint","webhook":%q,"next":"d"},{"id":"d","type":"enroll","journey":%q,"next":"e"},
		{"id":"e","type":"enroll","journey":%q,"next":"f"},{"id":"f","type":"touchpoint","webhook":%q,"next":"g"},{"id":"g","type":"touchpoint","webhook":%[1]q}]}`,
		crm, sms, mail, follow, back, old)).expect(t, 201).str(t, "id")
	f.send("DELETE", "/v1/webhooks/"+old, "").expect(t, 204)

	there := f.namedWebhook("test", "crm")
	f.namedWebhook("test", "mail")
	f.namedWebhook("test", "mail")
	copied := f.send("POST", "/v1/journeys/"+follow+"/copy", `{"stage":"test"}`).expect(t, 201).str(t, "id")
	a := f.send("POST", "/v1/journeys/"+id+"/copy", `{"stage":"test"}`).expect(t, 201)
	if a.json["name"] != "Main" {
		t.Errorf("its name is %v", a.json["name"])
	}
	var nodes []struct{ Webhook, Journey string }
	draft, err := json.Marshal(a.json["draft"].(map[string]any)["nodes"])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(draft, &nodes); err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, n := range nodes {
		named = append(named, n.Webhook+n.Journey)
	}
	if got, want := strings.Join(named, " "), strings.Join([]string{there, "sms", "mail", copied, "Back", old, there}, " "); got != want {
		t.Errorf("its nodes name %s, want %s", got, want)
	}
	if !strings.Contains(a.raw, `{"n":1.50}`) {
		t.Errorf("the number is not as it was written: %s", a.raw)
	}
	want := []string{
		`nodes[1].webhook: the stage test has no webhook of the name "sms"`, `nodes[2].webhook: the stage test has 2 webhooks of the name "mail"; write the id of one`,
		`nodes[4].journey: the stage test has no journey of the name "Back"`, fmt.Sprintf("nodes[5].webhook: there is no webhook %q to copy", old),
	}
	var missing []string
	for _, m := range a.json["missing"].([]any) {
		d := m.(map[string]any)
		missing = append(missing, fmt.Sprintf("%s: %s", d["target"], d["message"]))
	}
	if strings.Join(missing, "\n") != strings.Join(want, "\n") {
		t.Errorf("missing\n%s\nwant\n%s", strings.Join(missing, "\n"), strings.Join(want, "\n"))
	}
	// A journey that leads back to its beginning does so there.
	f.send("PUT", "/v1/journeys/"+back, fmt.Sprintf(`{"name":"Back","start":"a","nodes":[{"id":"a","type":"enroll","journey":%q}]}`, back)).expect(t, 200)
	again := f.send("POST", "/v1/journeys/"+back+"/copy", `{"stage":"test"}`).expect(t, 201)
	if itself := again.str(t, "id"); itself == back || !strings.Contains(again.raw, `"journey":"`+itself+`"`) || !strings.HasSuffix(again.raw, `,"missing":[]}`) {
		t.Errorf("of itself it made %s", again.raw)
	}

	path := "/v1/journeys/" + a.str(t, "id")
	f.get(path).fault(t, 404, "NotFound")
	inTest("GET", path, "").expect(t, 200)
	inTest("POST", path+"/publish", "").fault(t, 400, "BadRequest", "OutOfRange nodes[1].webhook", "OutOfRange nodes[2].webhook", "OutOfRange nodes[4].journey", "OutOfRange nodes[5].webhook")
}
