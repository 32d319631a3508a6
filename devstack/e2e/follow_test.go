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

// A wait for a date of the lead follows what the API makes of it, at once, and its
// history replays.
func TestFollow(t *testing.T) {
	t.Parallel()
	const keys = "test:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	r := harness.NewReceiver(t, func(waypost.Message, int) harness.Answer { return harness.Answer{Status: http.StatusOK} })
	p := harness.StartProcess(t, filepath.Join(t.TempDir(), "data"), []string{"--no-demo"}, "WAYPOST_ENCRYPTION_KEYS="+keys)
	journeyID := p.Publish(t, r.URL, `{"name":"Expiry","start":"expiry","nodes":[
		{"id":"expiry","type":"waitUntil","lead":"customFields.expiry","next":"hello","onMissed":"end"},
		{"id":"hello","type":"touchpoint","webhook":%q},
		{"id":"end","type":"exit"}]}`)
	body := func(expiry any) map[string]any {
		return map[string]any{"businessParam": map[string]any{"name": "Ada", "customFields": map[string]any{"expiry": expiry}}}
	}
	at := func(after time.Duration) string { return time.Now().Add(after).UTC().Format(time.RFC3339Nano) }
	temporal := dialWith(t, p, keys)
	ring := ringOf(t, keys)
	for name, tt := range map[string]struct {
		method string
		expiry func() any
		said   string // of the wait, at its end
	}{
		"earlier": {http.MethodPatch, func() any { return at(500 * time.Millisecond) }, "waited"},
		"cleared": {http.MethodPut, func() any { return nil }, "skipped"},
	} {
		var lead struct{ LeadsID int64 }
		p.Do(t, http.MethodPost, "/v1/leads", body(at(time.Hour)), &lead)
		var made struct{ EnrollmentID string }
		p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/enrollments", map[string]any{"leadsId": lead.LeadsID}, &made)
		harness.Eventually(t, time.Minute, func() (bool, string) {
			var e struct{ Status string }
			p.Do(t, http.MethodGet, "/v1/enrollments/"+made.EnrollmentID, nil, &e)
			return e.Status == "waiting", "it is " + e.Status
		})
		changed := time.Now()
		p.Do(t, tt.method, fmt.Sprint("/v1/leads/", lead.LeadsID), body(tt.expiry()), nil)
		e := p.AwaitEnd(t, made.EnrollmentID, time.Minute)
		t.Logf("%s: heard after %s", name, time.Since(changed).Round(time.Millisecond))
		said := ""
		for _, entry := range e.Timeline {
			if entry.NodeID == "expiry" {
				said = entry.What
			}
		}
		if said != tt.said {
			t.Errorf("%s: the timeline says %+v", name, e.Timeline)
		}
		h := readHistory(t, temporal, ring, made.EnrollmentID)
		replay(t, h)
		impersonal(t, h)
		keepHistory(t, "single-follow-"+name, h)
	}
}
