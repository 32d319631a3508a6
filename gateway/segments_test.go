package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/gateway"
)

func (f *fixture) newSegment(when string) string {
	f.t.Helper()
	return f.send("POST", "/v1/segments", fmt.Sprintf(`{"name":"some","when":%q}`, when)).expect(f.t, 201).str(f.t, "id")
}

func TestSegments(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const body = `{"name":"women <2>","when":"lead.gender == 2 && events(\"buy\").count() > 0"}`
	c := call{method: "POST", target: "/v1/segments", body: body, headers: map[string]string{"Idempotency-Key": "k"}}
	created := f.do(c).expect(t, 201)
	id := created.str(t, "id")
	at := f.clock.Now().UTC().Format(waypost.TimeFormat)
	want := `{"id":"` + id + `",` + body[1:len(body)-1] + `,"createdAt":"` + at + `","updatedAt":"` + at + `"}`
	if created.raw != want || created.header.Get("Location") != "/v1/segments/"+id || !waypost.IsID(waypost.PrefixSegment, id) {
		t.Errorf("got  %s\nwant %s, at %s", created.raw, want, created.header.Get("Location"))
	}
	if again := f.do(c).expect(t, 201); again.raw != created.raw {
		t.Errorf("the same request: %s", again.raw)
	}
	path := "/v1/segments/" + id
	if got := f.get(path).expect(t, 200); got.sound(t) != created.raw || got.header.Get("ETag") != created.header.Get("ETag") {
		t.Errorf("GET %s", got.raw)
	}
	if got := f.get("/v1/segments").expect(t, 200); got.raw != `{"items":[`+created.raw+`],"nextCursor":null}` {
		t.Errorf("list %s", got.raw)
	}

	f.clock.advance(time.Second)
	match := map[string]string{"If-Match": created.header.Get("ETag")}
	replaced := f.do(call{method: "PUT", target: path, body: `{"name":"men","when":"lead.gender == 1"}`, headers: match}).expect(t, 200)
	for _, part := range []string{`"name":"men"`, `"when":"lead.gender == 1"`, `"createdAt":"` + at} {
		if !strings.Contains(replaced.raw, part) {
			t.Errorf("no %s in %s", part, replaced.raw)
		}
	}
	f.do(call{method: "PUT", target: path, body: body, headers: match}).fault(t, 412, "PreconditionFailed")
	f.send("PUT", "/v1/segments/seg_nope", body).fault(t, 404, "NotFound")
	f.send("PUT", "/v1/segments/seg_nope", `{"name":"n","when":"lead.nme == 1"}`).fault(t, 400, "BadRequest", "InvalidFormat when")
	f.do(call{method: "PUT", target: path, body: body, headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")

	other := f.newSegment(`inSegment("` + id + `")`)
	if a := f.send("DELETE", path, "").fault(t, 409, "Conflict"); !strings.Contains(a.raw, "segment "+other+" uses the segment") {
		t.Errorf("one that is used: %s", a.raw)
	}
	f.send("PUT", path, fmt.Sprintf(`{"name":"n","when":"inSegment(\"%s\")"}`, other)).fault(t, 400, "BadRequest", "InvalidFormat when")
	f.send("DELETE", "/v1/segments/"+other, "").expect(t, 204)
	f.do(call{method: "DELETE", target: path, headers: match}).fault(t, 412, "PreconditionFailed")
	f.send("DELETE", path, "").expect(t, 204)
	f.send("DELETE", path, "").fault(t, 404, "NotFound")
	for _, gone := range []string{path, path + "/count", path + "/members"} {
		f.get(gone).fault(t, 404, "NotFound")
	}
}

func TestSegmentFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	noJourney, noSegment := waypost.NewID(waypost.PrefixJourney, f.clock.Now()), waypost.NewID(waypost.PrefixSegment, f.clock.Now())
	for _, c := range []struct {
		name, when string
		says       string
		details    []string
	}{
		{"", "", "", []string{"NullValue name", "NullValue when"}},
		{strings.Repeat("x", 101), strings.Repeat(" ", 10) + strings.Repeat("x", 4100), "", []string{"TooLong name", "TooLong when"}},
		{"n", "lead.nme == 1", `lead has no member \"nme\"`, []string{"InvalidFormat when"}},
		{"n", "lead.gender = 1", "line 1, column", []string{"InvalidFormat when"}},
		{"n", "purchases() > 1", "undeclared reference to 'purchases'", []string{"InvalidFormat when"}},
		{"n", "touchpoints.hello.succeed", "undeclared reference to 'touchpoints'", []string{"InvalidFormat when"}},
		{"n", `events("buy").exists(a, events("buy").exists(b, a.n == b.n))`, "steps for a lead", []string{"InvalidFormat when"}},
		{"n", `events(lead.name).count() > 1`, "events takes the name of an event", []string{"InvalidFormat when"}},
		{"n", `entered("` + noJourney + `")`, "there is no journey", []string{"InvalidFormat when"}},
		{"n", `inSegment("` + noSegment + `")`, "there is no segment", []string{"InvalidFormat when"}},
	} {
		a := f.send("POST", "/v1/segments", fmt.Sprintf(`{"name":%q,"when":%q}`, c.name, c.when)).fault(t, 400, "BadRequest", c.details...)
		if !strings.Contains(a.raw, c.says) {
			t.Errorf("%s: %s", c.when, a.raw)
		}
	}
	f.send("POST", "/v1/segments", `{"name":"n","when":"true","x":1}`).fault(t, 400, "BadRequest", "UnknownField x")
}

func TestSegmentMembers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var men []int64
	for i := range 30 {
		id := f.send("POST", "/v1/leads", fmt.Sprintf(`{"businessParam":{"name":"Lead %d","gender":%d}}`, i, i%2)).expect(t, 201).json["leadsId"].(float64)
		if i%2 == 1 {
			men = append(men, int64(id))
		}
	}
	f.send("POST", "/v1/events", fmt.Sprintf(`{"eventId":"1","name":"buy","leadsId":%d,"properties":{"amount":12.5}}`, men[3])).expect(t, 202)
	for when, want := range map[string][]int64{
		`lead.gender == 1`: men, `lead.gender == 1 && lead.name.size() > 1`: men, `events("buy", duration("1h")).last().amount > 12`: {men[3]}, `lead.name == "x"`: {},
	} {
		id := f.newSegment(when)
		sample := strings.ReplaceAll(fmt.Sprint(want), " ", ",")
		if got := f.get("/v1/segments/"+id+"/count").expect(t, 200); got.raw != fmt.Sprintf(`{"count":%d,"at":"%s","sample":%s}`, len(want), f.clock.Now().UTC().Format(waypost.TimeFormat), sample) {
			t.Errorf("%s: %s", when, got.raw)
		}
		var members []int64
		for cursor := ""; ; {
			page := f.get("/v1/segments/"+id+"/members?limit=4"+cursor).expect(t, 200)
			for _, item := range page.json["items"].([]any) {
				members = append(members, int64(item.(map[string]any)["leadsId"].(float64)))
			}
			next, more := page.json["nextCursor"].(string)
			if !more {
				break
			}
			cursor = "&cursor=" + next
		}
		if fmt.Sprint(members) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", when, members, want)
		}
		if got := f.send("POST", "/v1/leads/count", `{"audience":{"segment":"`+id+`"}}`).expect(t, 200); got.raw != fmt.Sprintf(`{"count":%d,"sample":%s}`, len(want), sample) {
			t.Errorf("%s as an audience: %s", when, got.raw)
		}
	}

	_, journey := f.welcoming()
	launches := "/v1/journeys/" + journey + "/launches"
	g := f.newSegment(`lead.gender == 1`)
	f.send("POST", launches, `{"audience":{"segment":"`+g+`"},"controlGroup":0.1}`).expect(t, 202)
	f.send("POST", launches, `{"audience":{"segment":"`+g+`"},"schedule":{"cron":"@weekly"}}`).expect(t, 202)
	f.send("DELETE", "/v1/segments/"+g, "").fault(t, 409, "Conflict")
	f.send("POST", launches, `{"audience":{"segment":"`+g+`","filter":{}}}`).fault(t, 400, "BadRequest", "InvalidFormat audience")
	f.send("POST", launches, `{"audience":{"segment":"x"}}`).fault(t, 400, "BadRequest", "InvalidFormat audience.segment")
	absent := `{"audience":{"segment":"` + waypost.NewID(waypost.PrefixSegment, f.clock.Now()) + `"}}`
	for _, target := range []string{launches, "/v1/leads/count"} {
		f.send("POST", target, absent).fault(t, 400, "BadRequest", "InvalidFormat audience.segment")
	}
	f.send("POST", "/v1/journeys/"+journey+"/forecast", `{"audience":{"segment":"`+g+`"},"days":1}`).expect(t, 200)
}

// Conditions of journeys ask what is recorded of a lead; a dry run adds what it does itself.
func TestConditionsOfTheRecord(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook := f.newWebhook("https://example.com")
	lead := f.newLead("Ada")
	for i := range 2 {
		f.send("POST", "/v1/events", fmt.Sprintf(`{"eventId":"%d","name":"buy","leadsId":%d,"properties":{"n":%d}}`, i, lead, i)).expect(t, 202)
	}
	g := f.newSegment(`events("buy").count() == 2`)
	id := f.send("POST", "/v1/journeys", `{"name":"n"}`).expect(t, 201).str(t, "id")
	definition := strings.NewReplacer("HOOK", hook, "SEGMENT", g, "SELF", id).Replace(`{"name":"n","start":"before","nodes":[
		{"id":"before","type":"branch","cases":[{"when":"inSegment(\"SEGMENT\") && !delivered(\"SELF\", \"hello\") && entered(\"SELF\")","next":"hello"}],"otherwise":"no"},
		{"id":"hello","type":"touchpoint","webhook":"HOOK","next":"later"},
		{"id":"later","type":"delay","for":"2h","next":"after"},
		{"id":"after","type":"branch","cases":[{"when":"delivered(\"SELF\", \"hello\") && events(\"buy\").count() == 3 && events(\"buy\", duration(\"2h\")).last().n == 7.0","next":"yes"}],"otherwise":"no"},
		{"id":"yes","type":"exit"},{"id":"no","type":"exit"}]}`)
	f.send("PUT", "/v1/journeys/"+id, definition).expect(t, 200)
	f.send("POST", "/v1/journeys/"+id+"/publish", "").expect(t, 201)
	run := func(body string) string {
		return f.send("POST", "/v1/journeys/"+id+"/dryrun", body).expect(t, 200).raw
	}
	if got := run(fmt.Sprintf(`{"leadsId":%d,"events":[{"name":"buy","after":"1h","properties":{"n":7}},{"name":"buy","after":"9h"}]}`, lead)); !strings.Contains(got, `{"nodeId":"yes"`) {
		t.Errorf("with an event: %s", got)
	}
	if got := run(fmt.Sprintf(`{"leadsId":%d}`, lead)); !strings.Contains(got, `"nodeId":"after"`) || strings.Contains(got, `{"nodeId":"yes"`) {
		t.Errorf("without: %s", got)
	}
	if got := run(`{"lead":{"name":"Eve"}}`); strings.Contains(got, `"nodeId":"hello"`) || !strings.Contains(got, `{"nodeId":"no"`) {
		t.Errorf("somebody new: %s", got)
	}
	f.send("POST", "/v1/journeys/"+id+"/forecast", fmt.Sprintf(`{"audience":{"leadsIds":[%d]},"days":1}`, lead)).expect(t, 200)
	if a := f.send("DELETE", "/v1/segments/"+g, "").fault(t, 409, "Conflict"); !strings.Contains(a.raw, "journey "+id) {
		t.Errorf("a segment that is used: %s", a.raw)
	}
	if a := f.send("POST", "/v1/journeys/"+id+"/copy", `{"stage":"test"}`).expect(t, 201); !strings.Contains(a.raw, `"target":"nodes[0].cases[0].when","message":"names `+g) {
		t.Errorf("a copy: %s", a.raw)
	}
	absent := strings.NewReplacer(g, waypost.NewID(waypost.PrefixSegment, f.clock.Now()), id, waypost.NewID(waypost.PrefixJourney, f.clock.Now())).Replace(definition)
	f.send("PUT", "/v1/journeys/"+id, absent).expect(t, 200)
	f.send("POST", "/v1/journeys/"+id+"/publish", "").fault(t, 400, "BadRequest", "OutOfRange nodes[0].cases[0].when", "OutOfRange nodes[0].cases[0].when", "OutOfRange nodes[3].cases[0].when")
}

// A condition that asks for more of events than is kept is refused where it is written: in a segment, a
// count, and as a journey is published.
func TestEventsTooFarBack(t *testing.T) {
	t.Parallel()
	ages := waypost.EventAges{Events: 90 * waypost.EventDay, Counts: 3 * 365 * waypost.EventDay}
	f := newFixture(t, func(o *gateway.Options) { o.EventAges = ages })
	f.store.SetEventAges(ages)
	for when, setting := range map[string]string{
		`events('buy').last().amount > 5`:                 "WAYPOST_RETENTION_EVENTS",
		`events('buy', duration('2161h')).count() > 0`:    "WAYPOST_RETENTION_EVENTS",
		`events('buy', duration('26304h')).count() == 0`:  "WAYPOST_RETENTION_EVENT_COUNTS",
		`events('buy').exists(e, e.amount > 5)`:           "duration(\\\"2160h\\\")",
		`events('buy', duration('26280h')).count() == 0`:  "",
		`events('buy').count() == 0`:                      "",
		`events('buy', duration('P90D')).last().amount>5`: "",
	} {
		draft := fmt.Sprintf(`{"name":"J","start":"a","nodes":[{"id":"a","type":"branch","cases":[{"when":%q,"next":"b"}]},{"id":"b","type":"exit"}]}`, when)
		journeyID := f.send("POST", "/v1/journeys", draft).expect(t, 201).str(t, "id")
		if setting == "" {
			f.send("POST", "/v1/segments", fmt.Sprintf(`{"name":"s","when":%q}`, when)).expect(t, 201)
			f.send("POST", "/v1/leads/count", fmt.Sprintf(`{"when":%q}`, when)).expect(t, 200)
			f.send("POST", "/v1/journeys/"+journeyID+"/publish", "").expect(t, 201)
			continue
		}
		for _, a := range []answer{
			f.send("POST", "/v1/segments", fmt.Sprintf(`{"name":"s","when":%q}`, when)).fault(t, 400, "BadRequest", "OutOfRange when"),
			f.send("POST", "/v1/leads/count", fmt.Sprintf(`{"when":%q}`, when)).fault(t, 400, "BadRequest", "OutOfRange when"),
			f.send("POST", "/v1/journeys/"+journeyID+"/publish", "").fault(t, 400, "BadRequest", "OutOfRange nodes[0].cases[0].when"),
		} {
			if !strings.Contains(a.raw, setting) {
				t.Errorf("%s: %s", when, a.raw)
			}
		}
	}
}

// What was stored before a check goes on, and tells on its own what it would be refused for now: by a
// shorter retention of events, and by the types of fields, which the store does not check.
func TestStoredProblems(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	publish := func(when string) string {
		return f.publishedJourney(fmt.Sprintf(
			`{"name":"J","start":"a","nodes":[{"id":"a","type":"branch","cases":[{"when":%q,"next":"b"}]},{"id":"b","type":"exit"}]}`, when))
	}
	lead := f.newLead("Ada")
	f.send("POST", "/v1/events", fmt.Sprintf(`{"eventId":"1","name":"buy","leadsId":%d,"properties":{"amount":7}}`, lead)).expect(t, 202)
	const far, male = `events("buy").last().amount > 5`, `lead.gender == "male"`
	farSegment, farJourney := f.newSegment(far), publish(far)
	scope := waypost.Scope{Org: f.app.Org, Stage: waypost.StageRelease}
	stored, err := f.store.CreateSegment(t.Context(), scope, waypost.Segment{Name: "men", When: male})
	if err != nil {
		t.Fatal(err)
	}
	definition := fmt.Sprintf(`{"name":"M","start":"a","nodes":[{"id":"a","type":"branch","cases":[{"when":%q,"next":"b"}]},{"id":"b","type":"exit"}]}`, male)
	j, err := f.store.CreateJourney(t.Context(), scope, "M", []byte(definition))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.PublishJourney(t.Context(), scope, j.ID, waypost.Publication{Name: "M", Hash: "m", Definition: []byte(definition)}); err != nil {
		t.Fatal(err)
	}
	// A member that a later version of Waypost knows, or an earlier one did.
	unknown := strings.Replace(definition, `"name":"M",`, `"name":"M","mood":"blue",`, 1)
	u, err := f.store.CreateJourney(t.Context(), scope, "M", []byte(definition))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.PublishJourney(t.Context(), scope, u.ID, waypost.Publication{Name: "M", Hash: "u", Definition: []byte(unknown)}); err != nil {
		t.Fatal(err)
	}
	draft := f.send("POST", "/v1/journeys", definition).expect(t, 201).str(t, "id")

	before := map[string]answer{}
	for _, path := range []string{"/v1/segments/" + farSegment, "/v1/journeys/" + farJourney, "/v1/journeys/" + farJourney + "/versions/1", "/v1/journeys/" + draft} {
		before[path] = f.get(path).expect(t, 200)
		before[path].sound(t)
	}

	ages := waypost.EventAges{Events: 90 * waypost.EventDay, Counts: 3 * 365 * waypost.EventDay}
	f.store.SetEventAges(ages)
	f.options.EventAges = ages
	f.addr = f.serve()
	for path, want := range map[string]string{
		"/v1/segments/" + farSegment:                 "OutOfRange when: WAYPOST_RETENTION_EVENTS",
		"/v1/journeys/" + farJourney:                 "OutOfRange nodes[0].cases[0].when: WAYPOST_RETENTION_EVENTS",
		"/v1/journeys/" + farJourney + "/versions/1": "OutOfRange nodes[0].cases[0].when: WAYPOST_RETENTION_EVENTS",
		"/v1/segments/" + stored.ID:                  "InvalidFormat when: write lead.gender == 1",
		"/v1/journeys/" + j.ID:                       "InvalidFormat nodes[0].cases[0].when: write lead.gender == 1",
		"/v1/journeys/" + j.ID + "/versions/1":       "InvalidFormat nodes[0].cases[0].when: write lead.gender == 1",
		"/v1/journeys/" + u.ID:                       "UnknownField mood: ",
		"/v1/journeys/" + draft:                      "",
		"/v1/segments/" + f.newSegment("lead.test"):  "",
		"/v1/journeys/" + publish("lead.test"):       "",
	} {
		a := f.get(path).expect(t, 200)
		if want == "" {
			a.sound(t)
			continue
		}
		problems, _ := a.json["problems"].([]any)
		if len(problems) != 1 {
			t.Errorf("%s: %s", path, a.raw)
			continue
		}
		problem := problems[0].(map[string]any)
		where, says, _ := strings.Cut(want, ": ")
		if fmt.Sprint(problem["code"], " ", problem["target"]) != where || !strings.Contains(problem["message"].(string), says) {
			t.Errorf("%s: %v, want %s", path, problem, want)
		}
		if tag := before[path].header.Get("ETag"); tag != "" && tag != a.header.Get("ETag") {
			t.Errorf("%s: another ETag", path)
		}
	}
	for _, list := range []string{"/v1/segments", "/v1/journeys"} {
		if a := f.get(list).expect(t, 200); strings.Contains(a.raw, `"problems"`) {
			t.Errorf("%s: %s", list, a.raw)
		}
	}

	// It goes on, and can be changed by what it was read as.
	if a := f.get("/v1/segments/"+farSegment+"/count").expect(t, 200); a.json["count"] != 1.0 {
		t.Errorf("the segment counts %s", a.raw)
	}
	f.get("/v1/segments/"+stored.ID+"/count").expect(t, 200)
	f.send("POST", "/v1/journeys/"+farJourney+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, lead)).expect(t, 202)
	f.do(call{
		method: "PUT", target: "/v1/segments/" + farSegment, body: `{"name":"n","when":"events(\"buy\").count() > 0"}`,
		headers: map[string]string{"If-Match": before["/v1/segments/"+farSegment].header.Get("ETag")},
	}).expect(t, 200)
	f.get("/v1/segments/"+farSegment).expect(t, 200).sound(t)
}
