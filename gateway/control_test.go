package gateway_test

import (
	"fmt"
	"testing"
	"time"

	"waypost"
	"waypost/signature"
)

type signatureKey = signature.Key

// shifts tells how the pauses of an enrollment were resumed, in their order; an
// open one is "open".
func (f *fixture) pauses(of waypost.ControlTargets) string {
	f.t.Helper()
	controls, err := f.store.Controls(f.t.Context(), of)
	if err != nil {
		f.t.Fatal(err)
	}
	out := ""
	for _, c := range controls[of.EnrollmentIDs[0]] {
		switch {
		case c.Kind != waypost.ControlPause:
		case c.Open():
			out += "open "
		case c.Shift:
			out += "shift "
		default:
			out += "skip "
		}
	}
	return out
}

const nothing = `{"name":"n","start":"a","nodes":[{"id":"a","type":"exit"}]}`

func TestControlEnrollments(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	journeyID := f.publishedJourney(nothing)
	lead := f.newLead("Ada")
	enroll := func(entryKey string) string {
		return f.send("POST", "/v1/journeys/"+journeyID+"/enrollments", fmt.Sprintf(`{"leadsId":%d,"entryKey":%q}`, lead, entryKey)).expect(t, 202).str(t, "enrollmentId")
	}
	id := enroll("a")
	target := "/v1/enrollments/" + id
	of := waypost.ControlTargets{JourneyID: journeyID, EnrollmentIDs: []string{id}}
	woken := f.wakes.n.Load()
	step := func(verb, body, status, pauses string, wakes int64) {
		t.Helper()
		f.clock.advance(time.Minute)
		a := f.send("POST", target+"/"+verb, body).expect(t, 200)
		want := map[string]any{
			"enrollmentId": id, "journeyId": journeyID, "version": 1.0, "status": status, "workflowId": nil, "temporalUrl": fmt.Sprintf("http://ui/%s/%d", journeyID, lead),
		}
		if fmt.Sprint(a.json) != fmt.Sprint(want) {
			t.Errorf("%s %s\n got %v\nwant %v", verb, body, a.json, want)
		}
		if got := f.get(target).expect(t, 200); got.json["status"] != status {
			t.Errorf("GET after %s: %s", verb, got.raw)
		}
		if got := f.pauses(of); got != pauses {
			t.Errorf("after %s %s: pauses %q, want %q", verb, body, got, pauses)
		}
		if woken += wakes; f.wakes.n.Load() != woken {
			t.Errorf("after %s: woken %d times, want %d", verb, f.wakes.n.Load(), woken)
		}
	}
	step("resume", "", "pending", "", 1) // was not paused: without effect
	step("pause", "", "paused", "open ", 0)
	step("pause", "{}", "paused", "open ", 0)
	step("resume", "", "pending", "shift ", 1)
	step("resume", `{"elapsedDelays":"skip"}`, "pending", "shift ", 1)
	step("pause", "", "paused", "shift open ", 0)
	step("resume", `{"elapsedDelays":"skip"}`, "pending", "shift skip ", 1)
	step("pause", "", "paused", "shift skip open ", 0)
	step("resume", `{"elapsedDelays":null}`, "pending", "shift skip shift ", 1)
	step("pause", "", "paused", "shift skip shift open ", 0)
	step("resume", `{}`, "pending", "shift skip shift shift ", 1)
	step("pause", "", "paused", "shift skip shift shift open ", 0)
	step("resume", `{"elapsedDelays":"shift"}`, "pending", "shift skip shift shift shift ", 1)
	step("cancel", "", "canceled", "shift skip shift shift shift ", 1)
	step("cancel", "", "canceled", "shift skip shift shift shift ", 1)
	for _, verb := range []string{"pause", "resume"} {
		f.send("POST", target+"/"+verb, "").fault(t, 409, "Conflict")
	}

	done := enroll("b")
	if err := f.store.RecordProgress(t.Context(), []waypost.Progress{{
		EnrollmentID: done, Status: waypost.EnrollmentCompleted, NodeID: "a", LastSeq: 1,
		Entries: []waypost.TimelineEntry{{Seq: 1, At: f.clock.Now(), NodeID: "a", What: waypost.WhatExited}},
	}}); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"pause", "resume", "cancel"} {
		f.send("POST", "/v1/enrollments/"+done+"/"+verb, "").fault(t, 409, "Conflict")
	}
}

func TestControlLaunches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	journeyID := f.publishedJourney(nothing)
	f.newLead("Ada")
	target := "/v1/launches/" + f.newLaunch(journeyID, `{"audience":{"filter":{}}}`)
	woken := f.wakes.n.Load()
	for _, step := range []struct {
		verb, body, status string
		wakes              int64
	}{
		{"resume", `{"elapsedDelays":"skip"}`, "pending", 1}, {"pause", "", "paused", 0}, {"pause", "", "paused", 0}, {"resume", "", "pending", 1},
		{"pause", "", "paused", 0}, {"cancel", "", "canceled", 1}, {"cancel", "{}", "canceled", 1},
	} {
		f.clock.advance(time.Minute)
		a := f.send("POST", target+"/"+step.verb, step.body).expect(t, 200)
		if got := f.get(target).expect(t, 200); a.json["status"] != step.status || got.raw != a.raw {
			t.Errorf("%s: %s\nGET %s", step.verb, a.raw, got.raw)
		}
		if woken += step.wakes; f.wakes.n.Load() != woken {
			t.Errorf("after %s: woken %d times, want %d", step.verb, f.wakes.n.Load(), woken)
		}
	}
	for _, verb := range []string{"pause", "resume"} {
		f.send("POST", target+"/"+verb, "").fault(t, 409, "Conflict")
	}
	ended := f.newLaunch(journeyID, `{"audience":{"leadsIds":[999]}}`)
	if step, err := f.store.EnrollAudience(t.Context(), ended, 10); err != nil || step.Skipped != 1 {
		t.Fatalf("%+v, %v", step, err)
	}
	if step, err := f.store.EnrollAudience(t.Context(), ended, 10); err != nil || !step.Done {
		t.Fatalf("%+v, %v", step, err)
	}
	for _, verb := range []string{"pause", "resume", "cancel"} {
		f.send("POST", "/v1/launches/"+ended+"/"+verb, "").fault(t, 409, "Conflict")
	}
}

func TestControlJourneys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.publishedJourney(nothing)
	target := "/v1/journeys/" + id
	lead := f.newLead("Ada")
	enrollment := f.send("POST", target+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, lead)).expect(t, 202).str(t, "enrollmentId")
	launch := f.newLaunch(id, `{"audience":{"filter":{}}}`)
	woken := f.wakes.n.Load()
	for _, step := range []struct {
		verb, body, status, enrollment, launch string
		wakes                                  int64
	}{
		{"resume", "", "active", "pending", "pending", 1}, {"pause", "", "paused", "paused", "paused", 0}, {"pause", "{}", "paused", "paused", "paused", 0},
		{"resume", `{"elapsedDelays":"skip"}`, "active", "pending", "pending", 1}, {"cancel", "", "active", "canceled", "canceled", 1}, {"cancel", "", "active", "canceled", "canceled", 1},
	} {
		f.clock.advance(time.Minute)
		a := f.send("POST", target+"/"+step.verb, step.body).expect(t, 200)
		if len(a.json) != 6 || a.json["id"] != id || a.json["name"] != "n" || a.json["publishedVersion"] != 1.0 || a.json["status"] != step.status {
			t.Errorf("%s: %s", step.verb, a.raw)
		}
		for path, want := range map[string]string{target: step.status, "/v1/enrollments/" + enrollment: step.enrollment, "/v1/launches/" + launch: step.launch} {
			if got := f.get(path).expect(t, 200); got.json["status"] != want {
				t.Errorf("%s after %s: %v, want %s", path, step.verb, got.json["status"], want)
			}
		}
		if woken += step.wakes; f.wakes.n.Load() != woken {
			t.Errorf("after %s: woken %d times, want %d", step.verb, f.wakes.n.Load(), woken)
		}
	}
	// The journey goes on: what comes after the cancel is not canceled.
	f.clock.advance(time.Minute)
	again := f.send("POST", target+"/enrollments", fmt.Sprintf(`{"leadsId":%d,"entryKey":"again"}`, lead)).expect(t, 202).str(t, "enrollmentId")
	if got := f.get("/v1/enrollments/"+again).expect(t, 200); got.json["status"] != "pending" {
		t.Errorf("after the cancel: %s", got.raw)
	}
	draft := f.send("POST", "/v1/journeys", nothing).expect(t, 201).str(t, "id")
	for _, verb := range []string{"pause", "resume", "cancel"} {
		f.send("POST", "/v1/journeys/"+draft+"/"+verb, "").fault(t, 409, "Conflict")
	}
}

func TestControlFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	journeyID := f.publishedJourney(nothing)
	lead := f.newLead("Ada")
	enrollment := f.send("POST", "/v1/journeys/"+journeyID+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, lead)).expect(t, 202).str(t, "enrollmentId")
	launch := f.newLaunch(journeyID, `{"audience":{"filter":{}}}`)
	woken := f.wakes.n.Load()
	for noun, id := range map[string]string{"enrollments": enrollment, "launches": launch, "journeys": journeyID} {
		for _, verb := range []string{"pause", "resume", "cancel"} {
			target := "/v1/" + noun + "/" + id + "/" + verb
			f.get(target).fault(t, 405, "MethodNotAllowed")
			f.send("POST", target, `{"x":1}`).fault(t, 400, "BadRequest", "UnknownField x")
			f.send("POST", target, `[]`).fault(t, 400, "BadRequest", "InvalidType ")
			f.send("POST", target+"?elapsedDelays=skip", "").fault(t, 400, "BadRequest", "UnknownField elapsedDelays")
			f.do(call{method: "POST", target: target, body: "{}", headers: map[string]string{"Content-Type": "text/plain"}}).fault(t, 415, "UnsupportedMediaType")
			f.do(call{method: "POST", target: target, headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
			f.send("POST", "/v1/"+noun+"/nope/"+verb, "").fault(t, 404, "NotFound")
			f.send("POST", "/v1/"+noun+"/nope/"+verb, `{"x":1}`).fault(t, 400, "BadRequest") // before its existence
			if verb != "resume" {
				f.send("POST", target, `{"elapsedDelays":"skip"}`).fault(t, 400, "BadRequest", "UnknownField elapsedDelays")
				continue
			}
			for body, details := range map[string][]string{
				`{"elapsedDelays":"later"}`:       {"InvalidFormat elapsedDelays"},
				`{"elapsedDelays":""}`:            {"InvalidFormat elapsedDelays"},
				`{"elapsedDelays":5}`:             {"InvalidType elapsedDelays"},
				`{"elapsedDelays":"Skip","x":1}`:  {"UnknownField x", "InvalidFormat elapsedDelays"},
				`{"elapsedDelays":"skip"}{}`:      {"InvalidFormat "},
				`{"elapseddelays":"skip"}`:        {"UnknownField elapseddelays"},
				`{"elapsedDelays":["skip"]}`:      {"InvalidType elapsedDelays"},
				`{"elapsedDelays":"a","x":{},"`:   {"InvalidFormat "},
				`{"elapsedDelays":"skip","x":""}`: {"UnknownField x"},
			} {
				f.send("POST", target, body).fault(t, 400, "BadRequest", details...)
			}
		}
	}
	if f.wakes.n.Load() != woken {
		t.Error("woken by what was refused")
	}
	for path, want := range map[string]string{"/v1/enrollments/" + enrollment: "pending", "/v1/launches/" + launch: "pending", "/v1/journeys/" + journeyID: "active"} {
		if got := f.get(path).expect(t, 200); got.json["status"] != want {
			t.Errorf("%s: %s", path, got.raw)
		}
	}
}

// What was held back for a webhook goes out as soon as it may.
func TestWebhookChangesWake(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.newWebhook("https://example.com")
	for _, tc := range []struct {
		body  string
		wakes int64
	}{{`{"enabled":false}`, 0}, {`{"enabled":true}`, 1}, {`{"rateLimit":{"perSecond":5}}`, 2}, {`{"maxConcurrency":-1}`, 2}} {
		f.send("PATCH", "/v1/webhooks/"+id, tc.body)
		if n := f.wakes.n.Load(); n != tc.wakes {
			t.Errorf("%s: woken %d times, want %d", tc.body, n, tc.wakes)
		}
	}
}
