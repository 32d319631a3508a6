package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"waypost"
)

// waits is a journey with a node of each kind that enrollments can wait on.
const waits = `{"name":"Waits","start":"wait","nodes":[
	{"id":"wait","type":"delay","for":"1h","next":"morning"},
	{"id":"morning","type":"waitUntil","time":"09:00","timezone":"UTC","next":"bought"},
	{"id":"bought","type":"waitForEvent","event":"purchase","timeout":"1h","next":"end"},
	{"id":"end","type":"exit"}]}`

func TestMigrate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.send("POST", "/v1/journeys", waits).expect(t, 201).str(t, "id")
	path := "/v1/journeys/" + id
	migrate := path + "/migrate"
	f.send("POST", path+"/publish", "").expect(t, 201)
	f.send("PUT", path, strings.NewReplacer(`"wait"`, `"pause"`, "1h", "2h").Replace(waits)).expect(t, 200)
	f.send("POST", path+"/publish", "").expect(t, 201)

	f.send("POST", migrate, `{}`).fault(t, 400, "BadRequest", "NullValue from", "NullValue to", "NullValue nodeMap")
	f.send("POST", migrate, `{"from":0,"to":-1,"nodeMap":{},"x":1}`).
		fault(t, 400, "BadRequest", "UnknownField x", "OutOfRange from", "OutOfRange to", "NullValue nodeMap")
	f.send("POST", migrate, `{"from":"1","to":1.5,"nodeMap":["wait"],"dryRun":1}`).
		fault(t, 400, "BadRequest", "InvalidType from", "InvalidType to", "InvalidType nodeMap", "InvalidType dryRun")
	f.send("POST", migrate, `{"from":1,"to":1,"nodeMap":{"wait":7}}`).fault(t, 400, "BadRequest", "InvalidType nodeMap.wait", "OutOfRange to")
	f.send("POST", migrate, `{"from":1,"to":2,"nodeMap":{"wait":"pause","wait":"end"}}`).fault(t, 400, "BadRequest", "Duplicate nodeMap.wait")
	f.send("POST", migrate, `[]`).fault(t, 400, "BadRequest")
	a := f.send("POST", migrate, `{"from":1,"to":2,"nodeMap":{"end":"end","gone":"pause","morning":"wait","bought":null}}`).
		fault(t, 400, "BadRequest", "OutOfRange nodeMap.bought", "OutOfRange nodeMap.end", "OutOfRange nodeMap.gone", "OutOfRange nodeMap.morning")
	for _, want := range []string{"is of type exit, where nobody waits", "version 1 has no such node", `version 2 has no node \"wait\"`} {
		if !strings.Contains(a.raw, want) {
			t.Errorf("no %s in %s", want, a.raw)
		}
	}
	for body, target := range map[string]string{
		`{"from":3,"to":2,"nodeMap":{"wait":"wait"}}`: "from", `{"from":1,"to":9,"nodeMap":{"wait":"wait"},"dryRun":true}`: "to",
	} {
		if a := f.send("POST", migrate, body).fault(t, 404, "NotFound"); a.json["target"] != target {
			t.Errorf("%s: %s", body, a.raw)
		}
	}

	// Two wait in the delay, one on an event.
	const body = `{"from":1,"to":2,"nodeMap":{"wait":"pause"}}`
	none := `{"matched":0,"moved":0}`
	if a := f.send("POST", migrate, body).expect(t, 200); a.raw != none {
		t.Errorf("of nobody: %s", a.raw)
	}
	var enrolled []string
	for i, node := range []string{"wait", "wait", "bought"} {
		e, err := f.store.Enroll(t.Context(), waypost.Scope{Org: testOrg, Stage: waypost.StageRelease}, waypost.Enrollment{JourneyID: id, Version: 1, LeadsID: f.newLead(fmt.Sprint("Ada ", i))}, waypost.Reentry{})
		if err == nil {
			err = f.store.RecordProgress(t.Context(), []waypost.Progress{{EnrollmentID: e.ID, Status: waypost.EnrollmentWaiting, NodeID: node, LastSeq: 1}})
		}
		if err != nil {
			t.Fatal(err)
		}
		enrolled = append(enrolled, e.ID)
	}
	ordered := func() int {
		t.Helper()
		moves, err := f.store.Moves(t.Context(), 1, map[string]int{enrolled[0]: 1, enrolled[1]: 1, enrolled[2]: 1})
		if err != nil {
			t.Fatal(err)
		}
		return len(moves)
	}
	dry := strings.Replace(body, "}}", `},"dryRun":true}`, 1)
	woken := f.wakes.n.Load()
	if a := f.send("POST", migrate, dry).expect(t, 200); a.raw != `{"matched":2,"moved":0}` || ordered() != 0 || f.wakes.n.Load() != woken {
		t.Errorf("a dry run: %s, %d orders", a.raw, ordered())
	}
	f.do(call{method: "POST", target: migrate, body: body, headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
	f.otherOrg().send("POST", migrate, body).fault(t, 404, "NotFound")
	keyed := call{method: "POST", target: migrate, body: body, headers: map[string]string{"Idempotency-Key": "k"}}
	const want = `{"matched":2,"moved":2}`
	if a := f.do(keyed).expect(t, 200); a.raw != want || ordered() != 2 || f.wakes.n.Load() == woken {
		t.Errorf("%s, %d orders", a.raw, ordered())
	}
	// The same call says the same, whatever has become of them.
	if err := f.store.CancelEnrollments(t.Context(), enrolled); err != nil {
		t.Fatal(err)
	}
	if a := f.do(keyed).expect(t, 200); a.raw != want || a.header.Get("Idempotency-Replayed") != "true" || ordered() != 0 {
		t.Errorf("again: %s, %d orders", a.raw, ordered())
	}
	if a := f.send("POST", migrate, body).expect(t, 200); a.raw != none {
		t.Errorf("of canceled ones: %s", a.raw)
	}
}
