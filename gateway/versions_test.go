package gateway_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"waypost"
)

// everything is a definition with every node type and member, of these webhooks and
// this journey.
func everything(t *testing.T, hook, other, journeyID string) string {
	t.Helper()
	return definitionFile(t, "valid_everything.json", hook, other, journeyID)
}

// definitionFile reads a definition of journey/testdata.
func definitionFile(t *testing.T, name, hook, other, journeyID string) string {
	t.Helper()
	b, err := os.ReadFile("../journey/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(`"whk_1"`, `"`+hook+`"`, `"whk_2"`, `"`+other+`"`, `"jrn_1"`, `"`+journeyID+`"`).Replace(string(b))
}

func TestVersions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook := f.newWebhook("https://example.com")
	id := f.send("POST", "/v1/journeys", welcome(hook)).expect(t, 201).str(t, "id")
	path := "/v1/journeys/" + id
	if a := f.get(path+"/versions").expect(t, 200); a.raw != `{"items":[],"nextCursor":null}` {
		t.Errorf("of a draft: %s", a.raw)
	}
	for i := range 3 {
		f.send("PUT", path, strings.Replace(welcome(hook), "Hi ", fmt.Sprint("Hi ", i), 1)).expect(t, 200)
		f.send("POST", path+"/publish", "").expect(t, 201)
	}
	item := func(n int) string {
		return fmt.Sprintf(`{"journeyId":%q,"version":%d,"name":"Welcome","publishedAt":"2026-01-31T12:00:00.000Z"}`, id, n)
	}
	first := f.get(path+"/versions?limit=2").expect(t, 200)
	if !strings.HasPrefix(first.raw, `{"items":[`+item(3)+`,`+item(2)+`],"nextCursor":"`) {
		t.Errorf("first page: %s", first.raw)
	}
	if rest := f.get(path+"/versions?limit=2&cursor="+first.str(t, "nextCursor")).expect(t, 200); rest.raw != `{"items":[`+item(1)+`],"nextCursor":null}` {
		t.Errorf("second page: %s", rest.raw)
	}
	other := f.publishedJourney(nothing)
	f.get("/v1/journeys/"+other+"/versions?cursor="+first.str(t, "nextCursor")).fault(t, 400, "BadRequest", "InvalidFormat cursor")
	f.get(path+"/versions?limit=0&cursor=x&from=1").fault(t, 400, "BadRequest", "UnknownField from", "OutOfRange limit", "InvalidFormat cursor")
	f.do(call{method: "GET", target: path + "/versions", headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")

	if a := f.get(path+"/versions/1/diff/3").expect(t, 200); a.raw != `{"from":1,"to":3,"changes":[{"nodeId":"hello","member":"params.greeting","what":"changed",`+
		`"from":"Hi 0{{ lead.name }}","to":"Hi 2{{ lead.name }}"}],"text":["hello.params.greeting: \"Hi 0{{ lead.name }}\" → \"Hi 2{{ lead.name }}\""]}` {
		t.Errorf("1 to 3: %s", a.raw)
	}
	if a := f.get(path+"/versions/3/diff/draft").expect(t, 200); a.raw != `{"from":3,"to":"draft","changes":[],"text":[]}` {
		t.Errorf("an unchanged draft: %s", a.raw)
	}
	f.send("PUT", path, `{"name":"Bye","quietHours":{"from":"21:00"}}`).expect(t, 200)
	if a := f.get(path+"/versions/draft/diff/3").expect(t, 200); a.json["from"] != "draft" || !strings.Contains(a.raw, `"what":"removed","from":{"from":"21:00"},"to":null`) ||
		!strings.Contains(a.raw, `"nodeId":"end","member":"","what":"added","from":null,"to":{"id":"end","type":"exit"}`) {
		t.Errorf("a draft to 3: %s", a.raw)
	}
	for _, pair := range []string{"1/diff/4", "0/diff/1", "4/diff/draft", "1/diff/Draft", "01/diff/1", "x/diff/1", "1/diff/-1", "99999999999999999999/diff/1"} {
		f.get(path+"/versions/"+pair).fault(t, 404, "NotFound")
	}
	// What this process keeps of them is not for others.
	for _, pair := range []string{"1/diff/draft", "1/diff/3"} {
		f.do(call{method: "GET", target: path + "/versions/" + pair, headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
		f.otherOrg().get(path+"/versions/"+pair).fault(t, 404, "NotFound")
	}
}

// What a definition can hold (docs/contract.md, "Nodes") can be published and is answered; what
// it names must be there.
func TestPublishEverything(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook, other := f.newWebhook("https://example.com"), f.newWebhook("https://example.com")
	id := f.send("POST", "/v1/journeys", everything(t, hook, other, "jrn_nope")).expect(t, 201).str(t, "id")
	path := "/v1/journeys/" + id
	f.send("POST", path+"/publish", "").fault(t, 400, "BadRequest", "OutOfRange nodes[10].journey")
	// One of another stage is none; one that is no more than a draft is one.
	elsewhere := f.do(call{method: "POST", target: "/v1/journeys", body: nothing, headers: map[string]string{"X-Cloud-Stage": "test"}}).expect(t, 201).str(t, "id")
	f.send("PUT", path, everything(t, hook, other, elsewhere)).expect(t, 200)
	f.send("POST", path+"/publish", "").fault(t, 400, "BadRequest", "OutOfRange nodes[10].journey")
	draft := f.send("POST", "/v1/journeys", nothing).expect(t, 201).str(t, "id")
	f.send("PUT", path, everything(t, hook, other, draft)).expect(t, 200)
	v := f.send("POST", path+"/publish", "").expect(t, 201)
	for _, want := range []string{`"quietHours":{"from":"21:00"`, `"frequencyCap":{"touchpoints":3`, `"exitOn":[{"event":"unsubscribed"}`, `"type":"split"`, `"type":"enroll"`, `"offset":"-72h"`} {
		if !strings.Contains(v.raw, want) {
			t.Errorf("no %s in %s", want, v.raw)
		}
	}

	nodes := f.send("POST", "/v1/journeys", definitionFile(t, "valid_nodes.json", hook, other, draft)).expect(t, 201).str(t, "id")
	v = f.send("POST", "/v1/journeys/"+nodes+"/publish", "").expect(t, 201)
	for _, want := range []string{`"events":[{"event":"purchase","when":"event.amount > 100","next":"thanks"}`} {
		if !strings.Contains(v.raw, want) {
			t.Errorf("no %s in %s", want, v.raw)
		}
	}

	broken := f.send("POST", "/v1/journeys", `{"name":"x","start":"a","exitOn":[{"event":"a b"}],"quietHours":{"from":"9","to":"25:00","timezone":"Mars"},
		"frequencyCap":{"touchpoints":0,"per":"1ms"},"nodes":[
		{"id":"a","type":"waitUntil","weekdays":["someday"],"offset":"1h","next":"b"},
		{"id":"b","type":"split","arms":[{"weight":-1,"next":"c"}]},
		{"id":"c","type":"enroll","journey":"jrn_nope","next":"d"}]}`).expect(t, 201).str(t, "id")
	a := f.send("POST", "/v1/journeys/"+broken+"/publish", "").fault(t, 400, "BadRequest")
	for _, want := range []string{
		"exitOn[0].event", "quietHours.from", "quietHours.to", "quietHours.timezone", "frequencyCap.touchpoints", "frequencyCap.per", "nodes[0].time",
		"nodes[0].weekdays[0]", "nodes[0].offset", "nodes[1].arms", "nodes[1].arms[0].weight", "nodes[2].journey", "nodes[2].next",
	} {
		if !strings.Contains(a.raw, `"target":"`+want+`"`) {
			t.Errorf("no problem at %s: %s", want, a.raw)
		}
	}
	f.send("POST", "/v1/journeys", `{"name":"x","exitOn":[{"name":"e"}],"quietHours":[],"frequencyCap":{"touchpoints":"1"},"nodes":[
		{"id":"a","type":"split","next":"b"},{"id":"b","type":"waitUntil","time":9,"arms":[]},{"id":"c","type":"enroll","journey":["jrn_1"]}]}`).
		fault(t, 400, "BadRequest", "UnknownField exitOn[0].name", "InvalidType quietHours", "InvalidType frequencyCap.touchpoints",
			"InvalidType nodes[1].time", "InvalidType nodes[2].journey", "UnknownField nodes[0].next", "UnknownField nodes[1].arms")
}

func TestArchive(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.send("POST", "/v1/journeys", nothing).expect(t, 201).str(t, "id")
	path := "/v1/journeys/" + id
	lead := f.newLead("Ada")
	enroll := fmt.Sprintf(`{"leadsId":%d}`, lead)
	f.send("POST", path+"/archive", "").fault(t, 409, "Conflict")
	f.send("POST", path+"/publish", "").expect(t, 201)
	enrollment := f.send("POST", path+"/enrollments", enroll).expect(t, 202).str(t, "enrollmentId")
	f.send("POST", path+"/archive", `{"x":1}`).fault(t, 400, "BadRequest", "UnknownField x")
	f.clock.advance(1e9)
	once := f.do(call{method: "POST", target: path + "/archive", headers: map[string]string{"Idempotency-Key": "k"}}).expect(t, 200)
	want := `{"id":"` + id + `","name":"n","publishedVersion":1,"status":"archived","createdAt":"2026-01-31T12:00:00.000Z","updatedAt":"2026-01-31T12:00:01.000Z"}`
	if once.raw != want {
		t.Errorf("archived: %s", once.raw)
	}
	f.clock.advance(1e9)
	if again := f.send("POST", path+"/archive", "{}").expect(t, 200); again.raw != want {
		t.Errorf("again: %s", again.raw)
	}
	if a := f.send("POST", path+"/enrollments", enroll).fault(t, 409, "Conflict"); !strings.Contains(a.raw, "archived") {
		t.Errorf("enroll: %s", a.raw)
	}
	f.send("POST", path+"/launches", `{"audience":{"filter":{}}}`).fault(t, 409, "Conflict")
	// What runs goes on, and can still be held.
	if got := f.get("/v1/enrollments/"+enrollment).expect(t, 200); got.json["status"] != "pending" {
		t.Errorf("enrollment: %s", got.raw)
	}
	of := waypost.ControlTargets{JourneyID: id, EnrollmentIDs: []string{enrollment}}
	if a := f.send("POST", path+"/pause", "").expect(t, 200); a.json["status"] != "archived" || f.pauses(of) != "open " {
		t.Errorf("paused: %s %s", a.raw, f.pauses(of))
	}
	// Publishing takes it into use, and the pause still holds.
	if v := f.send("POST", path+"/publish", "").expect(t, 200); v.json["version"] != 1.0 {
		t.Errorf("unchanged: %s", v.raw)
	}
	if got := f.get(path).expect(t, 200); got.json["status"] != "paused" {
		t.Errorf("published again: %s", got.raw)
	}
	f.send("POST", path+"/archive", "").expect(t, 200)
	if a := f.send("POST", path+"/resume", "").expect(t, 200); a.json["status"] != "archived" || f.pauses(of) != "shift " {
		t.Errorf("resumed: %s %s", a.raw, f.pauses(of))
	}
	f.send("PUT", path, strings.Replace(nothing, `"n"`, `"m"`, 1)).expect(t, 200)
	f.send("POST", path+"/publish", "").expect(t, 201)
	if got := f.get(path).expect(t, 200); got.json["status"] != "active" || got.json["publishedVersion"] != 2.0 {
		t.Errorf("published anew: %s", got.raw)
	}
	f.send("POST", path+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, f.newLead("Alan"))).expect(t, 202)
	f.do(call{method: "POST", target: path + "/archive", headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
}
