package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
)

// TestLaunchRate changes the rate of launches.
func TestLaunchRate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	journeyID := f.publishedJourney(exits)
	path := "/v1/launches/" + f.newLaunch(journeyID, fmt.Sprintf(`{"audience":{"leadsIds":[%d]},"startAt":"2026-02-02T01:00:00Z"}`, f.newLead("Ada")))
	tag := f.get(path).expect(t, 200).header.Get("ETag")
	patch := func(body, match string) answer {
		return f.do(call{method: "PATCH", target: path, body: body, headers: map[string]string{"If-Match": match}})
	}
	changed := patch(`{"ratePerSecond":2.5}`, tag).expect(t, 200)
	if changed.json["ratePerSecond"] != 2.5 || changed.json["status"] != "scheduled" || changed.header.Get("ETag") == tag {
		t.Errorf("changed: %s, ETag %s, before %s", changed.raw, changed.header.Get("ETag"), tag)
	}
	patch(`{"ratePerSecond":3}`, tag).fault(t, 412, "PreconditionFailed")
	tag = changed.header.Get("ETag")
	f.send("POST", path+"/pause", "").expect(t, 200)
	if got := f.get(path).expect(t, 200); got.header.Get("ETag") != tag {
		t.Error("the ETag changes with the status")
	}
	if got := patch(`{}`, tag).expect(t, 200); got.json["ratePerSecond"] != 2.5 {
		t.Errorf("an empty patch: %s", got.raw)
	}
	if got := patch(`{"ratePerSecond":null}`, tag).expect(t, 200); got.json["ratePerSecond"] != nil {
		t.Errorf("null: %s", got.raw)
	}
	f.send("PATCH", path, `{"ratePerSecond":0}`).fault(t, 400, "BadRequest", "OutOfRange ratePerSecond")
	f.send("PATCH", path, `{"ratePerSecond":"5"}`).fault(t, 400, "BadRequest", "InvalidType ratePerSecond")
	f.send("PATCH", path, `{"rate":5}`).fault(t, 400, "BadRequest", "UnknownField rate")
	f.send("PATCH", "/v1/launches/lch_nope", `{"ratePerSecond":5}`).fault(t, 404, "NotFound")
	f.send("POST", path+"/cancel", "").expect(t, 200)
	f.send("PATCH", path, `{"ratePerSecond":5}`).fault(t, 409, "Conflict")
}

// TestLaunchTest launches with a test, and without the split that it needs.
func TestLaunchTest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	split := f.publishedJourney(`{"name":"n","start":"arms","goal":{"event":"buy","within":"1h"},"nodes":[
		{"id":"arms","type":"split","arms":[{"weight":1,"next":"a"},{"weight":1,"next":"b"}],"winner":{"by":"goal","leads":60}},
		{"id":"a","type":"exit"},{"id":"b","type":"exit"}]}`)
	for range 10 {
		f.newLead("Ada")
	}
	launch := func(journey, test string) answer {
		return f.send("POST", "/v1/journeys/"+journey+"/launches", `{"audience":{"filter":{}},"test":`+test+`}`)
	}
	made := launch(split, `{"share":0.3,"after":"P2D","undecided":"stop"}`).expect(t, 202)
	if !strings.Contains(made.raw, `"test":{"leads":null,"share":0.3,"after":"48h","undecided":"stop","nodeId":"arms","status":"entering","endedAt":null,"until":null,"restAt":null,"arm":null}`) {
		t.Errorf("made: %s", made.raw)
	}
	id := made.str(t, "launchId")
	for step := (waypost.LaunchStep{}); step.Waits.IsZero(); {
		var err error
		if step, err = f.store.EnrollAudience(t.Context(), id, 100); err != nil {
			t.Fatal(err)
		}
	}
	waits := f.get("/v1/launches/"+id).expect(t, 200)
	if waits.json["enrolled"] != 3.0 || waits.json["held"] != 7.0 || !strings.Contains(waits.raw, `"status":"waiting","endedAt":"2026-01-31T12:00:00.000Z","until":"2026-02-02T12:00:00.000Z"`) {
		t.Errorf("waits: %s", waits.raw)
	}
	f.clock.advance(49 * time.Hour)
	if step, err := f.store.EnrollAudience(t.Context(), id, 100); err != nil || !step.Done {
		t.Fatalf("%+v, %v", step, err)
	}
	if got := f.get("/v1/launches/"+id).expect(t, 200); !strings.Contains(got.raw, `"status":"stopped"`) || got.json["message"] == nil || got.json["empty"] != false {
		t.Errorf("stopped: %s", got.raw)
	}
	for test, want := range map[string]string{
		`{"leads":5}`: "", `{}`: "NullValue test", `{"after":"1h"}`: "NullValue test", `{"leads":5,"share":0.5}`: "InvalidFormat test",
		`{"leads":0}`: "OutOfRange test.leads", `{"share":1}`: "OutOfRange test.share", `{"leads":1,"after":"soon"}`: "InvalidFormat test.after",
		`{"leads":1,"after":"P91D"}`: "OutOfRange test.after", `{"leads":1,"undecided":"wait"}`: "InvalidFormat test.undecided", `{"leads":1,"arm":2}`: "UnknownField test.arm",
	} {
		if got := launch(split, test); want == "" {
			got.expect(t, 202)
		} else {
			got.fault(t, 400, "BadRequest", want)
		}
	}
	got := launch(f.publishedJourney(exits), `{"leads":5}`)
	if got.fault(t, 400, "BadRequest", "InvalidFormat test"); !strings.Contains(got.raw, "split with a winner") {
		t.Errorf("without a split: %s", got.raw)
	}
	slow := f.publishedJourney(`{"name":"n","start":"arms","goal":{"event":"buy"},"nodes":[
		{"id":"arms","type":"split","arms":[{"weight":1,"next":"a"},{"weight":1,"next":"a"}],"winner":{"by":"goal","after":"P3D"}},{"id":"a","type":"exit"}]}`)
	for _, test := range []string{`{"leads":5}`, `{"leads":5,"after":"72h"}`} {
		got := launch(slow, test)
		if got.fault(t, 400, "BadRequest", "OutOfRange test.after"); !strings.Contains(got.raw, "the split arms compares its arms 72h after") {
			t.Errorf("over before the arms are compared: %s", got.raw)
		}
	}
	launch(slow, `{"leads":5,"after":"73h"}`).expect(t, 202)
	f.send("POST", "/v1/journeys/"+split+"/launches", `{"audience":{"filter":{}},"test":{"leads":5},"schedule":{"cron":"@daily"}}`).fault(t, 400, "BadRequest", "InvalidFormat test")
}

// TestEmptyLaunch says why nobody was enrolled, in the launch and in the list.
func TestEmptyLaunch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.newLaunch(f.publishedJourney(exits), `{"audience":{"filter":{"name":"Nobody"}}}`)
	if got := f.get("/v1/launches/"+id).expect(t, 200); got.json["empty"] != false || got.json["message"] != nil {
		t.Errorf("before: %s", got.raw)
	}
	if _, err := f.store.EnrollAudience(t.Context(), id, 100); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/launches/" + id, "/v1/launches"} {
		if got := f.get(path).expect(t, 200); !strings.Contains(got.raw, `"empty":true,"message":"Nobody was enrolled: no lead matched the filter when the launch started."`) {
			t.Errorf("%s: %s", path, got.raw)
		}
	}
}
