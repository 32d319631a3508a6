package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"waypost"
	"waypost/devstack/harness"
	"waypost/store/storetest"
)

// Leads enter a segment, by a change or by an event, which begins one journey and ends another,
// while waypost-dev is killed: when the first change is stored, and nobody has looked yet who has
// entered, and in the middle of the first POSTs, when some enrollments are stored, and their
// workflows are not. Every lead enters once and gets its message once, and whoever was in
// the segment before does not.
func TestEnteredKilled(t *testing.T) {
	t.Parallel()
	enteredKilled(t)
}

// The same with our own data on PostgreSQL.
func TestEnteredKilledOnPostgres(t *testing.T) {
	t.Parallel()
	enteredKilled(t, "WAYPOST_DATABASE_URL="+storetest.PostgresURL(t))
}

func enteredKilled(t *testing.T, env ...string) {
	t.Helper()
	const kills, eachTime = 4, 16
	r := newSlowReceiver(t)
	dir := t.TempDir() + "/data"
	p := harness.StartProcess(t, dir, []string{"--no-demo"}, env...)
	// enter is repeated until it is accepted: its sender learns nothing of a process that is killed.
	enter := func(i int, lead int64) error {
		if i%2 == 0 {
			return p.Client.Do(t.Context(), http.MethodPatch, fmt.Sprint("/v1/leads/", lead), map[string]any{"businessParam": map[string]any{"customFields": map[string]any{"plan": "gold"}}}, nil)
		}
		return p.Client.Do(t.Context(), http.MethodPost, "/v1/events", map[string]any{"eventId": fmt.Sprint("vip-", lead), "name": "vip", "leadsId": lead}, nil)
	}
	before := makeLeads(t, p, 1)[0]
	if err := enter(0, before); err != nil {
		t.Fatal(err)
	}
	var segment struct{ ID string }
	p.Do(t, http.MethodPost, "/v1/segments", map[string]any{"name": "gold", "when": `lead.customFields.plan == "gold" || events("vip").count() > 0`}, &segment)
	begins := p.Publish(t, r.URL, `{"name":"Gold","start":"hello","entry":[{"segment":"`+segment.ID+`","on":"enter"}],"nodes":[
		{"id":"hello","type":"touchpoint","webhook":%q,"params":{"what":"{{ enrollment.event.name | default: 'nothing' }}"}}]}`)
	ends := p.Publish(t, r.URL, `{"name":"Silver","start":"wait","exitOn":[{"segment":"`+segment.ID+`","on":"enter"}],"nodes":[
		{"id":"wait","type":"delay","for":"72h","next":"late"},{"id":"late","type":"touchpoint","webhook":%q}]}`)
	leads := makeLeads(t, p, kills*eachTime)
	silver := map[int64]string{}
	for _, lead := range append(leads[:len(leads):len(leads)], before) {
		var e struct{ EnrollmentID string }
		p.Do(t, http.MethodPost, "/v1/journeys/"+ends+"/enrollments", map[string]any{"leadsId": lead}, &e)
		silver[lead] = e.EnrollmentID
	}
	for round := range kills {
		group := leads[round*eachTime : (round+1)*eachTime]
		answered := make(chan struct{}, len(group))
		send := func() {
			harness.Parallel(len(group), func(i int) {
				if enter(i, group[i]) == nil {
					answered <- struct{}{}
				}
			})
		}
		r.slow.Store(true)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			send()
		}()
		if round%2 == 0 {
			<-answered
		} else {
			<-r.posting
		}
		p.Kill9(t)
		<-sent
		r.quicken()
		p = harness.StartProcess(t, dir, []string{"--no-demo"}, env...)
		answered = make(chan struct{}, 2*len(group))
		for range 2 { // what was accepted is accepted again, without effect
			send()
		}
		if len(answered) != 2*len(group) {
			t.Fatalf("%d of %d requests were accepted", len(answered), 2*len(group))
		}
	}
	var list struct {
		Items []struct {
			EnrollmentID string
			Entry        waypost.Entry
			LeadsID      int64
		}
	}
	harness.Eventually(t, time.Minute, func() (bool, string) {
		p.Do(t, http.MethodGet, "/v1/enrollments?limit=500&journeyId="+begins, nil, &list)
		return len(list.Items) >= len(leads), fmt.Sprintf("%d of %d have entered", len(list.Items), len(leads))
	})
	seen := map[int64]bool{before: true}
	var ended []harness.Enrollment
	for _, item := range list.Items {
		if seen[item.LeadsID] || item.Entry != (waypost.Entry{Kind: waypost.EntrySegment, Segment: segment.ID}) {
			t.Errorf("twice, or by something else: %+v", item)
		}
		seen[item.LeadsID] = true
		e := p.AwaitEnd(t, item.EnrollmentID, 2*time.Minute)
		if e.Status != waypost.EnrollmentCompleted || e.Timeline[0].Reason != "segment "+segment.ID {
			t.Errorf("%s is %s: %+v", e.ID, e.Status, e.Timeline)
		}
		ended = append(ended, e)
	}
	for _, m := range p.Miscounts(t, begins, ended) {
		t.Errorf("the statistics: %s", m)
	}
	for _, lead := range leads {
		e := p.AwaitEnd(t, silver[lead], time.Minute)
		if last := e.Timeline[len(e.Timeline)-1]; e.Status != waypost.EnrollmentExited || last.Reason != "segment "+segment.ID {
			t.Errorf("%s is %s: %+v", e.ID, e.Status, e.Timeline)
		}
	}
	var stays struct{ Status waypost.EnrollmentStatus }
	if p.Do(t, http.MethodGet, "/v1/enrollments/"+silver[before], nil, &stays); stays.Status != waypost.EnrollmentWaiting {
		t.Errorf("who was in the segment before is %s", stays.Status)
	}
	records := p.Records(t, begins)
	if len(records) != len(leads) {
		t.Errorf("%d deliveries, want %d", len(records), len(leads))
	}
	for _, d := range r.Disagreements(records) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}
}
