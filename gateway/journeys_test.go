package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/store/storetest"
)

func (f *fixture) publishedJourney(definition string) string {
	f.t.Helper()
	id := f.send("POST", "/v1/journeys", definition).expect(f.t, 201).str(f.t, "id")
	f.send("POST", "/v1/journeys/"+id+"/publish", "").expect(f.t, 201)
	return id
}

// welcoming publishes welcome with a webhook of its own.
func (f *fixture) welcoming() (hook, journeyID string) {
	f.t.Helper()
	hook = f.newWebhook("https://example.com/hook")
	return hook, f.publishedJourney(welcome(hook))
}

func welcome(webhookID string) string {
	return `{"name":"Welcome","start":"hello","nodes":[
		{"id":"hello","type":"touchpoint","webhook":"` + webhookID + `","params":{"greeting":"Hi {{ lead.name }}"},"next":"end"},
		{"id":"end","type":"exit"}]}`
}

func TestJourneys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook := f.newWebhook("https://example.com")
	created := f.send("POST", "/v1/journeys", welcome(hook)).expect(t, 201)
	id := created.str(t, "id")
	if created.header.Get("Location") != "/v1/journeys/"+id {
		t.Errorf("Location %q", created.header.Get("Location"))
	}
	var draft any
	if err := json.Unmarshal([]byte(welcome(hook)), &draft); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"id": id, "name": "Welcome", "draft": draft, "publishedVersion": nil, "status": "draft",
		"createdAt": "2026-01-31T12:00:00.000Z", "updatedAt": "2026-01-31T12:00:00.000Z",
	}
	if fmt.Sprint(created.json) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", created.json, want)
	}
	if got := f.get("/v1/journeys/"+id).expect(t, 200); got.sound(t) != created.raw {
		t.Errorf("GET %s", got.raw)
	}

	v1 := f.send("POST", "/v1/journeys/"+id+"/publish", "").expect(t, 201)
	if v1.json["version"] != 1.0 || v1.json["journeyId"] != id || v1.header.Get("Location") != "/v1/journeys/"+id+"/versions/1" {
		t.Errorf("version %s at %q", v1.raw, v1.header.Get("Location"))
	}
	if again := f.send("POST", "/v1/journeys/"+id+"/publish", "{}").expect(t, 200); again.raw != v1.raw {
		t.Errorf("an unchanged draft: %s", again.raw)
	}
	replaced := f.send("PUT", "/v1/journeys/"+id, strings.Replace(welcome(hook), "Hi ", "Hello ", 1)).expect(t, 200)
	if replaced.json["publishedVersion"] != 1.0 || replaced.json["status"] != "active" || !strings.Contains(replaced.raw, "Hello") {
		t.Errorf("replaced: %s", replaced.raw)
	}
	v2 := f.send("POST", "/v1/journeys/"+id+"/publish", "").expect(t, 201)
	if v2.json["version"] != 2.0 {
		t.Errorf("second version: %s", v2.raw)
	}
	if got := f.get("/v1/journeys/"+id+"/versions/1").expect(t, 200); got.sound(t) != v1.raw {
		t.Errorf("versions/1: %s\nwant %s", got.raw, v1.raw)
	}
	for _, n := range []string{"0", "3", "x", "01", "-1"} {
		f.get("/v1/journeys/"+id+"/versions/"+n).fault(t, 404, "NotFound")
	}
	if a := f.get("/v1/journeys").expect(t, 200); len(a.json["items"].([]any)) != 1 || a.json["nextCursor"] != nil {
		t.Errorf("list %s", a.raw)
	}

	f.send("DELETE", "/v1/journeys/"+id, "").fault(t, 409, "Conflict")
	f.send("DELETE", "/v1/webhooks/"+hook, "").fault(t, 409, "Conflict")
	other := f.send("POST", "/v1/journeys", welcome(hook)).expect(t, 201).str(t, "id")
	f.send("DELETE", "/v1/journeys/"+other, "").expect(t, 204)
	for _, c := range []call{
		{method: "GET", target: "/v1/journeys/" + other}, {method: "PUT", target: "/v1/journeys/" + other, body: welcome(hook)},
		{method: "DELETE", target: "/v1/journeys/" + other}, {method: "POST", target: "/v1/journeys/" + other + "/publish"},
		{method: "POST", target: "/v1/journeys/" + other + "/enrollments", body: `{"leadsId":1}`}, {method: "GET", target: "/v1/journeys/" + other + "/versions/1"},
	} {
		f.do(c).fault(t, 404, "NotFound")
	}
}

func TestJourneyFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.send("POST", "/v1/journeys", `{"name":"x","nodes":[{"id":"a","type":"nope"},{"id":5}],"extra":1}`).fault(t, 400, "BadRequest")
	for _, want := range []string{`"target":"nodes[0].type"`, `"target":"nodes[1].id"`, `"target":"extra"`} {
		if !strings.Contains(a.raw, want) {
			t.Errorf("no %s in %s", want, a.raw)
		}
	}
	// The shape is right, the rest is publishing's.
	broken := f.send("POST", "/v1/journeys", `{"name":"x","start":"a","nodes":[
		{"id":"a","type":"touchpoint","webhook":"whk_missing","params":{"p":"{{ oops"},"next":"b"},
		{"id":"b","type":"branch","cases":[{"when":"lead.gender ==","next":"gone"}],"otherwise":"a"},
		{"id":"c","type":"delay","for":"a while","next":"a"}]}`).expect(t, 201).str(t, "id")
	a = f.send("POST", "/v1/journeys/"+broken+"/publish", "").fault(t, 400, "BadRequest")
	for _, want := range []string{"nodes[0].webhook", "nodes[0].params.p", "nodes[1].cases[0].when", "nodes[1].cases[0].next", "nodes[2].for", "nodes[2]"} {
		if !strings.Contains(a.raw, `"target":"`+want) {
			t.Errorf("no problem at %s: %s", want, a.raw)
		}
	}
	if got := f.get("/v1/journeys/" + broken); got.json["publishedVersion"] != nil {
		t.Errorf("published all the same: %s", got.raw)
	}
}

func TestEnrollments(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook := f.newWebhook("https://example.com")
	lead := f.newLead("Ada")
	id := f.send("POST", "/v1/journeys", welcome(hook)).expect(t, 201).str(t, "id")
	enroll := fmt.Sprintf(`{"leadsId":%d,"entryKey":"k","params":{"coupon":"X"}}`, lead)
	f.send("POST", "/v1/journeys/"+id+"/enrollments", enroll).fault(t, 409, "Conflict")
	f.send("POST", "/v1/journeys/"+id+"/publish", "").expect(t, 201)

	a := f.send("POST", "/v1/journeys/"+id+"/enrollments", enroll).expect(t, 202)
	enrollment := a.str(t, "enrollmentId")
	want := map[string]any{
		"enrollmentId": enrollment, "journeyId": id, "version": 1.0, "status": "pending", "workflowId": nil,
		"temporalUrl": fmt.Sprintf("http://ui/%s/%d", id, lead),
	}
	if fmt.Sprint(a.json) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", a.json, want)
	}
	if a.header.Get("Location") != "/v1/enrollments/"+enrollment {
		t.Errorf("Location %q", a.header.Get("Location"))
	}
	f.send("POST", "/v1/journeys/"+id+"/enrollments", enroll).fault(t, 409, "Conflict")
	f.send("POST", "/v1/journeys/"+id+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, lead)).expect(t, 202) // another entryKey
	f.send("POST", "/v1/journeys/"+id+"/enrollments", `{"leadsId":999}`).fault(t, 404, "NotFound")
	f.do(call{method: "POST", target: "/v1/journeys/" + id + "/enrollments", body: enroll, headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
	f.send("POST", "/v1/journeys/"+id+"/enrollments", fmt.Sprintf(`{"leadsId":%d,"entryKey":"marks","params":{"p":"%s"}}`, lead, strings.Repeat("<", 16_000))).expect(t, 202)
	for body, details := range map[string][]string{
		`{}`:                                {"NullValue leadsId"},
		`{"leadsId":"1"}`:                   {"InvalidType leadsId"},
		`{"leadsId":1,"entryKey":"\u0007"}`: {"InvalidFormat entryKey"},
		`{"leadsId":1,"entryKey":"` + strings.Repeat("k", 129) + `"}`:        {"TooLong entryKey"},
		`{"leadsId":1,"params":{"p":"` + strings.Repeat("p", 17<<10) + `"}}`: {"TooLong params"},
		`{"x":1}`:          {"UnknownField x", "NullValue leadsId"},
		`{"leadsId":null}`: {"NullValue leadsId"},
		`[]`:               {"InvalidType "},
		`{"leadsId":1,"params":{"order":{"id":9007199254740993}}}`: {"OutOfRange params.order.id"},
		`{"leadsId":1,"params":[]}`:                                {"InvalidType params"},
	} {
		f.send("POST", "/v1/journeys/"+id+"/enrollments", body).fault(t, 400, "BadRequest", details...)
	}

	// The application that enrolled is the one that messages name.
	stored, err := f.store.EnrollmentsByID(t.Context(), []string{enrollment})
	if err != nil || stored[enrollment].AppID != f.app.ID {
		t.Errorf("stored %+v, %v", stored[enrollment], err)
	}

	shown := f.get("/v1/enrollments/"+enrollment).expect(t, 200)
	if shown.json["entryKey"] != "k" || shown.json["leadsId"] != float64(lead) || shown.json["endedAt"] != nil || len(shown.json["timeline"].([]any)) != 0 {
		t.Errorf("shown %s", shown.raw)
	}
	if cohort, err := storetest.ClaimCohort(t.Context(), f.store); err != nil || cohort == nil {
		t.Fatalf("claim: %v, %v", cohort, err)
	} else if err := f.store.MarkStarted(t.Context(), cohort.ID); err != nil {
		t.Fatal(err)
	}
	at := f.clock.Now().Add(time.Second)
	err = f.store.RecordProgress(t.Context(), []waypost.Progress{{
		EnrollmentID: enrollment, Status: waypost.EnrollmentCompleted, NodeID: "end", LastSeq: 2,
		Entries: []waypost.TimelineEntry{
			{Seq: 1, At: at, NodeID: "hello", What: waypost.WhatSent, Next: "end", Way: waypost.WayNext},
			{Seq: 2, At: at, NodeID: "end", What: waypost.WhatExited, Reason: "exit"},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	shown = f.get("/v1/enrollments/"+enrollment).expect(t, 200)
	if shown.json["status"] != "completed" || shown.json["workflowId"] == nil || shown.json["endedAt"] == nil || shown.json["nodeId"] != "end" {
		t.Errorf("shown %s", shown.raw)
	}
	const timeline = `"timeline":[{"at":"2026-01-31T12:00:01.000Z","nodeId":"hello","what":"sent","next":"end","way":"next","reason":null,"version":1},` +
		`{"at":"2026-01-31T12:00:01.000Z","nodeId":"end","what":"exited","next":null,"way":null,"reason":"exit","version":1}]`
	if !strings.Contains(shown.raw, timeline) {
		t.Errorf("no %s\nin %s", timeline, shown.raw)
	}
	f.get("/v1/enrollments/enr_nope").fault(t, 404, "NotFound")

	// The gateway remembers the published version, and learns of the next one.
	f.send("PUT", "/v1/journeys/"+id, welcome(hook)).expect(t, 200)
	if _, err := f.store.PublishJourney(t.Context(), waypost.Scope{Org: testOrg, Stage: waypost.StageRelease}, id, waypost.Publication{Name: "J", Hash: "next", Definition: []byte(welcome(hook))}); err != nil {
		t.Fatal(err)
	}
	if a := f.send("POST", "/v1/journeys/"+id+"/enrollments", fmt.Sprintf(`{"leadsId":%d,"entryKey":"next"}`, lead)).expect(t, 202); a.json["version"] != float64(2) {
		t.Errorf("enrolled in %s, want version 2", a.raw)
	}
	f.send("POST", "/v1/journeys/"+id+"/archive", "").expect(t, 200)
	f.send("POST", "/v1/journeys/"+id+"/enrollments", fmt.Sprintf(`{"leadsId":%d,"entryKey":"late"}`, lead)).fault(t, 409, "Conflict")
	f.do(call{method: "GET", target: "/v1/enrollments/" + enrollment, headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
}
