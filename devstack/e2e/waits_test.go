package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"waypost"
	"waypost/devstack/harness"
)

// A wait for a segment that time alone has the lead enter is over when it does, also across a kill and
// a pause of the journey; both ways to the same node are counted apart.
func TestWaitForSegmentByTime(t *testing.T) {
	t.Parallel()
	r := harness.NewReceiver(t, func(waypost.Message, int) harness.Answer { return harness.Answer{Status: http.StatusOK} })
	dir := filepath.Join(t.TempDir(), "data")
	p := harness.StartProcess(t, dir, []string{"--no-demo"})
	var segment struct{ ID string }
	p.Do(t, http.MethodPost, "/v1/segments", map[string]any{"name": "silent", "when": `events("v").count() > 0 && events("v", duration("6s")).count() == 0`}, &segment)
	journeyID := p.Publish(t, r.URL, `{"name":"Silent","start":"hello","nodes":[
		{"id":"hello","type":"touchpoint","webhook":%q,"next":"w"},
		{"id":"w","type":"waitFor","when":"inSegment('`+segment.ID+`') && lead.name == 'Ada'","timeout":"90s","next":"end","onTimeout":"end"},
		{"id":"end","type":"exit"}]}`)
	ids := makeLeads(t, p, 6)
	started := time.Now()
	enrolled := make([]string, len(ids))
	harness.Parallel(len(ids), func(i int) {
		p.Do(t, http.MethodPost, "/v1/events", map[string]any{"eventId": fmt.Sprint("v-", ids[i]), "name": "v", "leadsId": ids[i]}, nil)
		var e struct{ EnrollmentID string }
		p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/enrollments", map[string]any{"leadsId": ids[i]}, &e)
		enrolled[i] = e.EnrollmentID
	})
	p.Kill9(t)
	p = harness.StartProcess(t, dir, []string{"--no-demo"})
	p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/pause", nil, nil)
	time.Sleep(time.Until(started.Add(8 * time.Second))) // the moment comes during the pause
	p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/resume", nil, nil)
	var again struct{ EnrollmentID string }
	p.Do(t, http.MethodPost, "/v1/events", map[string]any{"eventId": "again", "name": "v", "leadsId": ids[0]}, nil)
	p.AwaitEnd(t, enrolled[0], launchTime)
	p.Do(t, http.MethodPost, "/v1/events", map[string]any{"eventId": "again-2", "name": "v", "leadsId": ids[0]}, nil)
	p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/enrollments", map[string]any{"leadsId": ids[0]}, &again) // nothing else happens
	var all []harness.Enrollment
	for _, id := range append(enrolled, again.EnrollmentID) {
		e := p.AwaitEnd(t, id, launchTime)
		all = append(all, e)
		matched := false
		for _, entry := range e.Timeline {
			matched = matched || entry.NodeID == "w" && entry.What == waypost.WhatMatched && entry.Way == waypost.WayNext
		}
		if !matched {
			t.Errorf("%s did not match: %+v", id, e.Timeline)
		}
	}
	if took := time.Since(started); took > 85*time.Second {
		t.Errorf("it took %s", took)
	}
	if wrong := p.Miscounts(t, journeyID, all); len(wrong) > 0 {
		t.Error(wrong)
	}
}
