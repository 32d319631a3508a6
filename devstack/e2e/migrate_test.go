package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"waypost"
	"waypost/devstack/harness"
)

// Of 1,000 leads that wait on version 1, about half are moved to version 2 while
// waypost-dev is killed: each takes the path of its version, once.
func TestMigrateKilled(t *testing.T) {
	t.Parallel()
	const keys = "test:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	const leads = 1000
	r := harness.NewReceiver(t, func(waypost.Message, int) harness.Answer { return harness.Answer{Status: http.StatusOK} })
	dir := filepath.Join(t.TempDir(), "data")
	p := harness.StartProcess(t, dir, []string{"--no-demo"}, "WAYPOST_ENCRYPTION_KEYS="+keys)
	definition := `{"name":"Moves","start":"arms","nodes":[
		{"id":"arms","type":"split","arms":[{"weight":1,"next":"stay"},{"weight":1,"next":"go"}]},
		{"id":"stay","type":"waitForEvent","event":"on","timeout":"1h","next":"first"},
		{"id":"go","type":"delay","for":"1h","next":"first"},
		{"id":"first","type":"touchpoint","webhook":%q}]}`
	journeyID := p.Publish(t, r.URL, definition)
	var j struct{ Draft json.RawMessage }
	p.Do(t, http.MethodGet, "/v1/journeys/"+journeyID, nil, &j)
	next := strings.NewReplacer(`"first"`, `"second"`, `"1h"`, `"3s"`).Replace(string(j.Draft))
	p.Do(t, http.MethodPut, "/v1/journeys/"+journeyID, json.RawMessage(next), nil)
	rows := make([]map[string]string, leads)
	for i := range rows {
		rows[i] = map[string]string{"name": "Ada", "externalId": fmt.Sprint("m-", i)}
	}
	var im struct{ ID, Status string }
	p.Do(t, http.MethodPost, "/v1/leads/imports?mode=create", map[string]any{"leads": rows}, &im)
	harness.Eventually(t, launchTime, func() (bool, string) {
		p.Do(t, http.MethodGet, "/v1/leads/imports/"+im.ID, nil, &im)
		return im.Status == "succeeded", "the import is " + im.Status
	})
	var l struct {
		LaunchID, Status string
		Outcomes         map[string]int
	}
	p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/launches", map[string]any{"audience": map[string]any{"filter": map[string]any{}}}, &l)
	migrate := func(dryRun bool, nodes ...string) (done struct{ Matched, Moved int }) {
		t.Helper()
		m := map[string]any{"from": 1, "to": 2, "dryRun": dryRun, "nodeMap": map[string]string{}}
		for _, node := range nodes {
			m["nodeMap"].(map[string]string)[node] = node
		}
		p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/migrate", m, &done)
		return done
	}
	// The launch is of version 1; version 2 is published while its leads wait.
	p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/publish", nil, nil)
	harness.Eventually(t, launchTime, func() (bool, string) {
		n := migrate(true, "stay", "go").Matched
		return n == leads, fmt.Sprintf("%d leads wait", n)
	})
	half := migrate(true, "go").Matched
	if half < leads*2/5 || half > leads*3/5 {
		t.Fatalf("%d of %d leads took an arm of two", half, leads)
	}
	if done := migrate(false, "go"); done.Matched != half || done.Moved != half {
		t.Errorf("%+v, want %d", done, half)
	}
	for range 2 {
		p.Kill9(t)
		p = harness.StartProcess(t, dir, []string{"--no-demo"}, "WAYPOST_ENCRYPTION_KEYS="+keys)
		harness.Eventually(t, launchTime, func() (bool, string) {
			n := migrate(true, "go").Matched
			return n < half, fmt.Sprintf("%d still wait on version 1", n)
		})
	}
	// Those that were moved have a short wait there; nobody else has gone on.
	sent := func(want int) []harness.Record {
		t.Helper()
		harness.Eventually(t, launchTime, func() (bool, string) {
			p.Do(t, http.MethodGet, "/v1/launches/"+l.LaunchID, nil, &l)
			return l.Outcomes["succeeded"] >= want, fmt.Sprintf("%v of %d messages", l.Outcomes, want)
		})
		records := p.Records(t, journeyID)
		for _, d := range r.Disagreements(records) {
			t.Errorf("the ledger and the records disagree: %s", d)
		}
		if len(records) != want {
			t.Fatalf("%d messages, want %d", len(records), want)
		}
		return records
	}
	moved := map[int64]bool{}
	for _, d := range sent(half) {
		moved[d.LeadsID] = true
		if d.NodeID != "second" {
			t.Errorf("lead %d, who was moved, got the message %s", d.LeadsID, d.NodeID)
		}
	}
	if left := migrate(true, "stay").Matched; len(moved) != half || left != leads-half {
		t.Fatalf("%d leads were moved and %d stay, want %d and %d", len(moved), left, half, leads-half)
	}
	// The others take the path of version 1, when what they wait for comes.
	for _, lead := range leadsOf(t, p, "") {
		if !moved[lead] {
			p.Do(t, http.MethodPost, "/v1/events", map[string]any{"eventId": fmt.Sprint(lead), "name": "on", "leadsId": lead}, nil)
		}
	}
	of := map[string]int{}
	for _, d := range sent(leads) {
		if moved[d.LeadsID] != (d.NodeID == "second") {
			t.Errorf("lead %d got the message %s; moved: %t", d.LeadsID, d.NodeID, moved[d.LeadsID])
		}
		of[d.NodeID]++
	}
	t.Logf("%d leads: %v", leads, of)
	awaitLaunch(t, p, l.LaunchID, launchTime)
	var all []harness.Enrollment
	for _, d := range p.Records(t, journeyID) {
		all = append(all, p.Enrollment(t, d.EnrollmentID))
	}
	for _, m := range p.Miscounts(t, journeyID, all) {
		t.Errorf("the statistics: %s", m)
	}

	temporal := dialWith(t, p, keys)
	ring := ringOf(t, keys)
	list := listed(t, temporal, fmt.Sprintf("WaypostJourney=%q AND WorkflowType=\"Journey\"", journeyID))
	for _, e := range list {
		h := readRun(t, temporal, ring, e.Execution.WorkflowId, e.Execution.RunId)
		replay(t, h)
		impersonal(t, h)
		name := "cohort-moved-from"
		if holds(h.Events[0], `"carried":`) {
			name = "cohort-moved-to"
		}
		keepHistory(t, name, h)
	}
}
