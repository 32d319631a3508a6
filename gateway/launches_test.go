package gateway_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
	"waypost/gateway"
)

var release = waypost.Scope{Org: testOrg, Stage: waypost.StageRelease}

func (f *fixture) newLaunch(journeyID, body string) string {
	f.t.Helper()
	return f.send("POST", "/v1/journeys/"+journeyID+"/launches", body).expect(f.t, 202).str(f.t, "launchId")
}

// untold are members of a launch that says nothing.
const untold = `"held":0,"skippedBy":{"reentry":0,"missing":0,"left":0},"empty":false,"message":null,`

func TestLaunches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook, journeyID := f.welcoming()
	leads := []int64{f.newLead("Ada"), f.newLead("Alan"), f.newLead("Grace")}

	created := f.send("POST", "/v1/journeys/"+journeyID+"/launches", fmt.Sprintf(`{"audience":{"leadsIds":[%d,%d,%d,999999]},"ratePerSecond":2.5}`, leads[0], leads[1], leads[0])).expect(t, 202)
	id := created.str(t, "launchId")
	const none = `{"pending":0,"retrying":0,"deferred":0,"succeeded":0,"failed":0,"canceled":0}`
	want := `{"launchId":"` + id + `","journeyId":"` + journeyID + `","version":1,"status":"pending","total":0,"enrolled":0,"skipped":0,"heldOut":0,` + untold + `"completed":0,"outcomes":` + none +
		`,"startAt":null,"ratePerSecond":2.5,"schedule":null,"controlGroup":null,"test":null,"recurringId":null,"occursAt":null,"createdAt":"2026-01-31T12:00:00.000Z","startedAt":null,"endedAt":null,"temporalUrl":"http://ui/` + id + `"}`
	if created.raw != want {
		t.Errorf("got  %s\nwant %s", created.raw, want)
	}
	if created.header.Get("Location") != "/v1/launches/"+id || !waypost.IsID(waypost.PrefixLaunch, id) || f.wakes.n.Load() != 1 {
		t.Errorf("Location %q, woken %d times", created.header.Get("Location"), f.wakes.n.Load())
	}
	if got := f.get("/v1/launches/"+id).expect(t, 200); got.raw != created.raw {
		t.Errorf("GET %s", got.raw)
	}
	f.do(call{method: "GET", target: "/v1/launches/" + id, headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
	f.get("/v1/launches/lch_nope").fault(t, 404, "NotFound")

	// Its progress, and what became of its messages.
	f.clock.advance(time.Second)
	if step, err := f.store.EnrollAudience(t.Context(), id, 1000); err != nil || step.Enrolled != 2 || step.Skipped != 1 {
		t.Fatalf("%+v, %v", step, err)
	}
	cohorts, err := f.store.ClaimLaunchCohorts(t.Context(), 10)
	if err != nil || len(cohorts) != 1 || cohorts[0].LaunchID != id || len(cohorts[0].Members) != 2 {
		t.Fatalf("%+v, %v", cohorts, err)
	}
	member := cohorts[0].Members[0]
	message := waypost.NewID(waypost.PrefixMessage, f.clock.Now())
	if _, err := f.store.OpenAttempts(t.Context(), []delivery.Opening{{
		Touchpoint: waypost.Touchpoint{EnrollmentID: member.EnrollmentID, Visit: 1}, Scope: release, Body: []byte(`{}`), Attempt: 1, At: f.clock.Now(), By: "test",
		Delivery: waypost.Delivery{MessageID: message, EnrollmentID: member.EnrollmentID, JourneyID: journeyID, JourneyVersion: 1, NodeID: "hello", WebhookID: hook, LaunchID: id, LeadsID: member.LeadsID},
	}}); err != nil {
		t.Fatal(err)
	}
	running := f.get("/v1/launches/"+id).expect(t, 200)
	want = strings.Replace(want, `"status":"pending","total":0,"enrolled":0,"skipped":0`, `"status":"running","total":3,"enrolled":2,"skipped":1`, 1)
	want = strings.Replace(want, `"missing":0`, `"missing":1`, 1)
	want = strings.Replace(want, `"outcomes":{"pending":0`, `"outcomes":{"pending":1`, 1)
	want = strings.Replace(want, `"startedAt":null`, `"startedAt":"2026-01-31T12:00:01.000Z"`, 1)
	if running.raw != want {
		t.Errorf("got  %s\nwant %s", running.raw, want)
	}
	deliveries := f.get("/v1/deliveries?launchId="+id).expect(t, 200)
	if items := deliveries.json["items"].([]any); len(items) != 1 || items[0].(map[string]any)["messageId"] != message {
		t.Errorf("deliveries of the launch: %s", deliveries.raw)
	}
	for _, member := range cohorts[0].Members {
		if err := f.store.RecordProgress(t.Context(), []waypost.Progress{{
			EnrollmentID: member.EnrollmentID, Status: waypost.EnrollmentCompleted, NodeID: "end", LastSeq: 1,
			Entries: []waypost.TimelineEntry{{Seq: 1, At: f.clock.Now(), NodeID: "end", What: waypost.WhatExited}},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	ended := f.get("/v1/launches/"+id).expect(t, 200)
	if ended.json["status"] != "completed" || ended.json["completed"] != 2.0 || ended.json["endedAt"] != "2026-01-31T12:00:01.000Z" {
		t.Errorf("ended: %s", ended.raw)
	}
}

func TestLaunchAudiences(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *gateway.Options) { o.WorkflowURL = func(string) string { return "" } })
	journeyID := f.publishedJourney(`{"name":"n","start":"a","nodes":[{"id":"a","type":"exit"}]}`)
	for i, lead := range []string{
		`{"name":"Ada","leadsGroup":3,"mobilePhone":["13800000000"],"email":"ada@example.com"}`,
		`{"name":"Adam","leadsGroup":3,"region":7,"externalId":"x1"}`,
		`{"name":"Grace","leadsGroup":4,"region":7}`,
	} {
		f.send("POST", "/v1/leads", `{"businessParam":`+lead+`}`).expect(t, 201)
		if i == 1 {
			f.clock.advance(time.Hour)
		}
	}
	for filter, enrolled := range map[string]int{
		`{}`:                                   3,
		`{"leadsGroup":3}`:                     2,
		`{"leadsGroup":3,"region":7}`:          1,
		`{"name":"Ada"}`:                       2,
		`{"mobilePhone":"+86 138-0000-0000"}`:  1,
		`{"email":"ada@example.com"}`:          1,
		`{"externalId":"x1"}`:                  1,
		`{"externalId":"x2"}`:                  0,
		`{"createdTo":"2026-01-31T13:00:00Z"}`: 2,
		`{"createdFrom":"2026-01-31T21:00:00+08:00","updatedFrom":"2026-01-31T13:00:00Z","updatedTo":"2027-01-01T00:00:00Z"}`: 1,
	} {
		// A journey of its own, so that nobody is skipped.
		journeyID := f.publishedJourney(`{"name":"n","start":"a","nodes":[{"id":"a","type":"exit"}]}`)
		id := f.newLaunch(journeyID, `{"audience":{"filter":`+filter+`}}`)
		if step, err := f.store.EnrollAudience(t.Context(), id, 1000); err != nil || step.Enrolled != enrolled || step.Skipped != 0 {
			t.Errorf("%s: %+v, %v; want %d", filter, step, err, enrolled)
		}
	}

	later := f.send("POST", "/v1/journeys/"+journeyID+"/launches", `{"audience":{"filter":{}},"startAt":"2026-02-01T08:00:00+08:00"}`).expect(t, 202)
	if later.json["status"] != "scheduled" || later.json["startAt"] != "2026-02-01T00:00:00.000Z" || later.json["ratePerSecond"] != nil || later.json["temporalUrl"] != nil {
		t.Errorf("later: %s", later.raw)
	}
	past := f.send("POST", "/v1/journeys/"+journeyID+"/launches", `{"audience":{"filter":{}},"startAt":"2020-02-01T08:00:00Z"}`).expect(t, 202)
	if past.json["status"] != "pending" {
		t.Errorf("in the past: %s", past.raw)
	}
	// What is launched while the journey is paused waits for its resume.
	f.send("POST", "/v1/journeys/"+journeyID+"/pause", "").expect(t, 200)
	held := f.newLaunch(journeyID, `{"audience":{"filter":{}}}`)
	if step, err := f.store.EnrollAudience(t.Context(), held, 1000); err != nil || step.Enrolled != 0 || len(step.Held) != 1 {
		t.Errorf("held: %+v, %v", step, err)
	}
	if got := f.get("/v1/launches/" + held); got.json["status"] != "paused" {
		t.Errorf("held: %s", got.raw)
	}
	f.send("POST", "/v1/journeys/"+journeyID+"/enrollments", `{"leadsId":1}`).expect(t, 202)
}

func TestListLaunches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one := f.publishedJourney(`{"name":"one","start":"a","nodes":[{"id":"a","type":"exit"}]}`)
	two := f.publishedJourney(`{"name":"two","start":"a","nodes":[{"id":"a","type":"exit"}]}`)
	var ids []string
	for _, journeyID := range []string{one, two, one, one} {
		ids = append(ids, f.newLaunch(journeyID, `{"audience":{"filter":{}}}`))
		f.clock.advance(time.Second)
	}
	list := func(query string) (string, answer) {
		t.Helper()
		a := f.get("/v1/launches"+query).expect(t, 200)
		var out []string
		for _, item := range a.json["items"].([]any) {
			out = append(out, item.(map[string]any)["launchId"].(string))
		}
		return strings.Join(out, " "), a
	}
	for query, want := range map[string]string{
		"":                     ids[3] + " " + ids[2] + " " + ids[1] + " " + ids[0],
		"?journeyId=" + two:    ids[1],
		"?journeyId=jrn_other": "",
	} {
		if got, _ := list(query); got != want {
			t.Errorf("%s:\n got %s\nwant %s", query, got, want)
		}
	}
	first, a := list("?limit=2&journeyId=" + one)
	second, b := list("?limit=2&journeyId=" + one + "&cursor=" + a.str(t, "nextCursor"))
	if first != ids[3]+" "+ids[2] || second != ids[0] || b.json["nextCursor"] != nil {
		t.Errorf("pages %s, %s", first, second)
	}
	item := a.json["items"].([]any)[0].(map[string]any)
	if _, there := item["outcomes"]; there || item["completed"] != nil || item["total"] != 0.0 || item["status"] != "pending" {
		t.Errorf("a list counts what takes long: %v", item)
	}
	f.get("/v1/launches?limit=2&cursor="+a.str(t, "nextCursor")).fault(t, 400, "BadRequest", "InvalidFormat cursor")
	f.get("/v1/launches?limit=0&status=ended&state=running").fault(t, 400, "BadRequest", "UnknownField state", "OutOfRange limit", "OutOfRange status")
	if got := f.do(call{method: "GET", target: "/v1/launches", headers: map[string]string{"X-Cloud-Stage": "test"}}).expect(t, 200); len(got.json["items"].([]any)) != 0 {
		t.Errorf("another stage: %s", got.raw)
	}
}

func TestLaunchFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	journeyID := f.publishedJourney(`{"name":"n","start":"a","nodes":[{"id":"a","type":"exit"}]}`)
	draft := f.send("POST", "/v1/journeys", `{"name":"n","start":"a","nodes":[{"id":"a","type":"exit"}]}`).expect(t, 201).str(t, "id")
	target := "/v1/journeys/" + journeyID + "/launches"
	everybody := `{"audience":{"filter":{}}}`

	f.send("POST", target, `{"audience":{"filter":{"region":"x","email":"x"}},"ratePerSecond":-1,"startAt":"x","schedule":{"cron":"* * *","timezone":"Mars"},"controlGroup":1}`).
		fault(t, 400, "BadRequest", "InvalidType audience.filter.region",
			"InvalidFormat audience.filter.email", "InvalidFormat startAt", "OutOfRange ratePerSecond",
			"InvalidFormat schedule.timezone", "InvalidFormat schedule.cron", "OutOfRange controlGroup")
	for body, problem := range map[string]string{
		`"schedule":{}`: "NullValue schedule.cron",
		`"schedule":{"cron":" ","timezone":"UTC"}`:                         "NullValue schedule.cron",
		`"schedule":{"cron":null}`:                                         "NullValue schedule.cron",
		`"schedule":{"cron":7}`:                                            "InvalidType schedule.cron",
		`"schedule":"@daily"`:                                              "InvalidType schedule",
		`"schedule":{"cron":"@every 1h"}`:                                  "InvalidFormat schedule.cron",
		`"schedule":{"cron":"TZ=UTC 0 9 * * *"}`:                           "InvalidFormat schedule.cron",
		`"schedule":{"cron":"0 9 30 2 *"}`:                                 "OutOfRange schedule.cron",
		`"schedule":{"cron":"@daily","at":1}`:                              "UnknownField schedule.at",
		`"schedule":{"cron":"@daily","timezone":""}`:                       "InvalidFormat schedule.timezone",
		`"schedule":{"cron":"` + strings.Repeat("0,", 300) + `0 9 * * *"}`: "TooLong schedule.cron",
		`"controlGroup":0`:                                                 "OutOfRange controlGroup",
		`"controlGroup":"a tenth"`:                                         "InvalidType controlGroup",
	} {
		f.send("POST", target, `{"audience":{"filter":{}},`+body+`}`).fault(t, 400, "BadRequest", problem)
	}
	f.send("POST", target, ``).expect(t, 415)
	f.do(call{method: "POST", target: target, headers: map[string]string{"Content-Type": "application/json"}}).fault(t, 400, "BadRequest", "InvalidFormat ")
	f.do(call{method: "POST", target: target, body: everybody, headers: map[string]string{"Content-Type": "text/csv"}}).fault(t, 415, "UnsupportedMediaType")
	f.send("POST", target+"?dryRun=true", everybody).fault(t, 400, "BadRequest", "UnknownField dryRun")
	f.send("POST", "/v1/journeys/jrn_nope/launches", everybody).fault(t, 404, "NotFound")
	f.do(call{method: "POST", target: target, body: everybody, headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
	f.send("POST", "/v1/journeys/"+draft+"/launches", everybody).fault(t, 409, "Conflict")
	f.send("POST", "/v1/journeys/"+draft+"/launches", `{"audience":{}}`).fault(t, 400, "BadRequest", "NullValue audience") // before its state
	f.send("POST", "/v1/journeys/jrn_nope/launches", `{}`).fault(t, 400, "BadRequest", "NullValue audience")               // before its existence
	if f.wakes.n.Load() != 0 {
		t.Error("woken without a launch")
	}

	// A long list is taken; one byte too much is not, nor is anything else that is long.
	ids := make([]string, 300_000)
	for i := range ids {
		ids[i] = strconv.Itoa(1_000_000 + i)
	}
	long := `{"audience":{"leadsIds":[` + strings.Join(ids, ",") + `]}}`
	f.send("POST", target, long).expect(t, 202)
	full := long + strings.Repeat(" ", 1<<20) // what is not the list may take 1 MiB
	f.send("POST", target, full).fault(t, 413, "PayloadTooLarge")
	f.send("POST", target, full[:len(long)+1000]).expect(t, 202)
	f.send("POST", target, long+strings.Repeat(" ", 16<<20-len(long)+1)).fault(t, 413, "PayloadTooLarge")
	f.send("POST", target+"?x=1", long+strings.Repeat(" ", 16<<20-len(long)+1)).fault(t, 413, "PayloadTooLarge")
	f.do(call{method: "POST", target: target, body: strings.Repeat(" ", 16<<20+1), headers: map[string]string{"Content-Type": "text/csv"}}).fault(t, 415, "UnsupportedMediaType")
	// All of a refused body is read, so that the client gets the answer.
	f.do(call{method: "POST", target: target, body: strings.Repeat(" ", 15<<20), unsigned: true}).fault(t, 401, "Unauthorized")

	old := f.publishedJourney(`{"name":"n","start":"a","nodes":[{"id":"a","type":"exit"}]}`)
	f.send("POST", "/v1/journeys/"+old+"/archive", "").expect(t, 200)
	f.send("POST", "/v1/journeys/"+old+"/launches", everybody).fault(t, 409, "Conflict")
	lead := f.newLead("Ada")
	f.send("POST", "/v1/journeys/"+old+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, lead)).fault(t, 409, "Conflict")
	f.send("POST", "/v1/journeys/"+old+"/enrollments", `{"leadsId":999}`).fault(t, 404, "NotFound")
}

// Each of the new routes needs its grant, and no other.
func TestGrantsOfRunning(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	journeyID := f.publishedJourney(`{"name":"n","start":"a","nodes":[{"id":"a","type":"exit"}]}`)
	lead := f.newLead("Ada")
	runner, reader := keyOf(f.newApp(waypost.GrantJourneysRun)), keyOf(f.newApp(waypost.GrantJourneysRead))
	writer := keyOf(f.newApp(waypost.GrantJourneysWrite, waypost.GrantWebhooksWrite, waypost.GrantDeliveriesRead))
	launch := f.newLaunch(journeyID, `{"audience":{"filter":{}}}`)
	enrollment := f.send("POST", "/v1/journeys/"+journeyID+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, lead)).expect(t, 202).str(t, "enrollmentId")
	run := map[string]string{
		"/v1/journeys/" + journeyID + "/launches": `{"audience":{"filter":{}}}`,
		"/v1/events": fmt.Sprintf(`{"eventId":"e1","name":"n","leadsId":%d}`, lead),
	}
	for _, target := range []string{"/v1/enrollments/" + enrollment, "/v1/launches/" + launch, "/v1/journeys/" + journeyID} {
		run[target+"/pause"], run[target+"/resume"], run[target+"/cancel"] = "", "", ""
	}
	for target, body := range run {
		for _, key := range []*signatureKey{&reader, &writer} {
			if a := f.do(call{method: "POST", target: target, body: body, key: key}).fault(t, 401, "Unauthorized"); detailOf(a) != "GrantMissing" {
				t.Errorf("%s: %s", target, a.raw)
			}
		}
	}
	for _, target := range []string{"/v1/launches", "/v1/launches/" + launch} {
		for _, key := range []*signatureKey{&runner, &writer} {
			if a := f.do(call{method: "GET", target: target, key: key}).fault(t, 401, "Unauthorized"); detailOf(a) != "GrantMissing" {
				t.Errorf("%s: %s", target, a.raw)
			}
		}
		f.do(call{method: "GET", target: target, key: &reader}).expect(t, 200)
	}
	for target, body := range run {
		if a := f.do(call{method: "POST", target: target, body: body, key: &runner}); a.status != 200 && a.status != 202 && a.status != 409 {
			t.Errorf("%s: %d %s", target, a.status, a.raw)
		}
	}
	// Who may only run a journey does not get to read its definition.
	if a := f.do(call{method: "POST", target: "/v1/journeys/" + journeyID + "/pause", key: &runner}).expect(t, 200); a.json["draft"] != nil || json.Valid([]byte(a.raw)) != true {
		t.Errorf("the draft is told: %s", a.raw)
	}
}

// A launch that recurs has a Schedule instead of a workflow, tells when it is next, and
// what its occurrences came to.
func TestRecurringLaunches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	journeyID := f.publishedJourney(`{"name":"n","start":"a","nodes":[{"id":"a","type":"exit"}]}`)
	f.newLead("Ada")
	// 20:00 in Shanghai on a Saturday.
	created := f.send("POST", "/v1/journeys/"+journeyID+"/launches",
		`{"audience":{"filter":{}},"startAt":"2026-02-02T01:00:00Z","schedule":{"cron":" 0 9 * * MON-fri ","timezone":"Asia/Shanghai"},"controlGroup":0.5}`).expect(t, 202)
	id := created.str(t, "launchId")
	const none = `{"pending":0,"retrying":0,"deferred":0,"succeeded":0,"failed":0,"canceled":0}`
	want := `{"launchId":"` + id + `","journeyId":"` + journeyID + `","version":1,"status":"scheduled","total":0,"enrolled":0,"skipped":0,"heldOut":0,` + untold + `"completed":0,"outcomes":` + none +
		`,"startAt":"2026-02-02T01:00:00.000Z","ratePerSecond":null,"schedule":{"cron":"0 9 * * MON-fri","timezone":"Asia/Shanghai","nextAt":"2026-02-02T01:00:00.000Z","occurrences":0,"lastSkipped":null},` +
		`"controlGroup":0.5,"test":null,"recurringId":null,"occursAt":null,"createdAt":"2026-01-31T12:00:00.000Z","startedAt":null,"endedAt":null,"temporalUrl":"http://ui/schedules/` + id + `"}`
	if created.raw != want {
		t.Errorf("got  %s\nwant %s", created.raw, want)
	}
	due := time.Date(2026, 2, 2, 1, 0, 0, 0, time.UTC)
	f.clock.advance(due.Sub(f.clock.Now()))
	o, err := f.store.OpenOccurrence(t.Context(), id, due)
	if err != nil || o.LaunchID == "" {
		t.Fatalf("%+v, %v", o, err)
	}
	if step, err := f.store.EnrollAudience(t.Context(), o.LaunchID, 10); err != nil || step.Enrolled+step.HeldOut != 1 {
		t.Fatalf("%+v, %v", step, err)
	}
	f.send("POST", "/v1/launches/"+id+"/pause", "").expect(t, 200)
	if o, err := f.store.OpenOccurrence(t.Context(), id, due.Add(24*time.Hour)); err != nil || o.Skipped != waypost.SkipPaused {
		t.Fatalf("%+v, %v", o, err)
	}
	paused := f.get("/v1/launches/"+id).expect(t, 200)
	schedule := paused.json["schedule"].(map[string]any)
	if got, err := json.Marshal(schedule); err != nil || paused.json["status"] != "paused" || paused.json["total"] != 1.0 ||
		string(got) != `{"cron":"0 9 * * MON-fri","lastSkipped":{"at":"2026-02-03T01:00:00.000Z","reason":"paused"},"nextAt":null,"occurrences":1,"timezone":"Asia/Shanghai"}` {
		t.Errorf("paused: %s", paused.raw)
	}
	list := f.get("/v1/launches?recurringId="+id).expect(t, 200)
	items := list.json["items"].([]any)
	if len(items) != 1 || items[0].(map[string]any)["launchId"] != o.LaunchID || items[0].(map[string]any)["recurringId"] != id ||
		items[0].(map[string]any)["occursAt"] != "2026-02-02T01:00:00.000Z" || items[0].(map[string]any)["schedule"] != nil {
		t.Errorf("occurrences: %s", list.raw)
	}
	f.send("POST", "/v1/launches/"+id+"/resume", "").expect(t, 200)
	if got := f.send("POST", "/v1/launches/"+id+"/cancel", "").expect(t, 200); got.json["status"] != "canceled" || got.json["schedule"].(map[string]any)["nextAt"] != nil {
		t.Errorf("canceled: %s", got.raw)
	}
	f.send("POST", "/v1/launches/"+id+"/resume", "").fault(t, 409, "Conflict")
}
