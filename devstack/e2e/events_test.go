package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/devstack/harness"
)

// An import of events wakes enrollments that wait, each once, ends those whose journey exits on
// one, and does nothing when it is sent again.
func TestEventImport(t *testing.T) {
	t.Parallel()
	const leads = 60
	r := harness.NewReceiver(t, func(waypost.Message, int) harness.Answer { return harness.Answer{Status: http.StatusOK} })
	p := harness.StartProcess(t, filepath.Join(t.TempDir(), "data"), []string{"--no-demo"})
	journeyID := p.Publish(t, r.URL, `{"name":"Bought","start":"wait","exitOn":[{"event":"left"}],"nodes":[
		{"id":"wait","type":"waitForEvent","event":"bought","when":"event.amount > 100","timeout":"1h","next":"thanks","onTimeout":"late"},
		{"id":"thanks","type":"touchpoint","webhook":%[1]q},{"id":"late","type":"touchpoint","webhook":%[1]q}]}`)
	ids := p.Enroll(t, journeyID, leads)
	var list struct {
		Items []struct {
			EnrollmentID string
			LeadsID      int64
		}
	}
	harness.Eventually(t, time.Minute, func() (bool, string) {
		p.Do(t, http.MethodGet, "/v1/enrollments?limit=500&status=waiting&journeyId="+journeyID, nil, &list)
		return len(list.Items) == leads, fmt.Sprintf("%d of %d enrollments wait", len(list.Items), leads)
	})
	leaves := map[string]bool{}
	var lines strings.Builder
	for i, e := range list.Items {
		name := "bought"
		if leaves[e.EnrollmentID] = i%4 == 3; leaves[e.EnrollmentID] {
			name = "left"
		}
		fmt.Fprintf(&lines, `{"eventId":"little-%[1]d","name":"bought","leadsId":%[1]d,"properties":{"amount":1}}`+"\n", e.LeadsID)
		for range 2 {
			fmt.Fprintf(&lines, `{"eventId":"much-%[1]d","name":%[2]q,"leadsId":%[1]d,"properties":{"amount":200}}`+"\n", e.LeadsID, name)
		}
	}
	lines.WriteString(`{"eventId":"nobody's","name":"bought","leadsId":999999}`)
	type imported struct{ Total, Accepted, Duplicates, Failed int }
	send := func(want imported) {
		t.Helper()
		res, err := p.Client.Send(t.Context(), http.MethodPost, "/v1/events/import", http.Header{"Content-Type": {"application/x-ndjson"}}, []byte(lines.String()))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		var got imported
		if err == nil {
			err = json.Unmarshal(body, &got)
		}
		if err != nil || res.StatusCode != http.StatusMultiStatus || got != want {
			t.Fatalf("HTTP %d %s, %v", res.StatusCode, body, err)
		}
	}
	send(imported{3*leads + 1, 2 * leads, leads, 1})
	// wantEnded fails unless each enrollment has gone its way, once.
	wantEnded := func() {
		t.Helper()
		thanked := 0
		for _, id := range ids {
			e := p.AwaitEnd(t, id, time.Minute)
			matched := 0
			for _, entry := range e.Timeline {
				if entry.What == waypost.WhatMatched {
					matched++
				}
			}
			if leaves[id] && (e.Status != waypost.EnrollmentExited || matched != 0) || !leaves[id] && (e.Status != waypost.EnrollmentCompleted || matched != 1) {
				t.Errorf("%s, which leaves: %t, is %s: %+v", id, leaves[id], e.Status, e.Timeline)
			}
			if !leaves[id] {
				thanked++
			}
		}
		records := p.Records(t, journeyID)
		if len(records) != thanked {
			t.Errorf("%d messages for %d enrollments that matched", len(records), thanked)
		}
		for _, d := range r.Disagreements(records) {
			t.Errorf("the ledger and the records disagree: %s", d)
		}
	}
	wantEnded()
	send(imported{3*leads + 1, 0, 3 * leads, 1})
	wantEnded()
	var names struct {
		Items []struct {
			Name  string
			Count int
		}
	}
	p.Do(t, http.MethodGet, "/v1/events/names", nil, &names)
	if want := fmt.Sprintf("[{bought %d} {left %d}]", 2*leads-leads/4, leads/4); fmt.Sprint(names.Items) != want {
		t.Errorf("names %v, want %s", names.Items, want)
	}
}
