package e2e

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"waypost"
	"waypost/devstack/harness"
	"waypost/store/storetest"
)

// kills is how often waypost-dev is killed, killedEnrollments how many journeys
// run meanwhile.
const (
	kills             = 4
	killedEnrollments = 200
)

// kill -9 at random moments while 200 journeys are in delays, in retries and in
// the middle of POSTs: every one completes, and the receiver's own ledger agrees
// with the records message by message.
func TestKillNine(t *testing.T) {
	t.Parallel()
	killNine(t)
}

// The same with our own data on PostgreSQL.
func TestKillNineOnPostgres(t *testing.T) {
	t.Parallel()
	killNine(t, "WAYPOST_DATABASE_URL="+storetest.PostgresURL(t))
}

func killNine(t *testing.T, env ...string) {
	t.Helper()
	r := harness.NewReceiver(t, func(m waypost.Message, attempt int) harness.Answer {
		h := fnv.New32a()
		fmt.Fprint(h, m.MessageID)
		a := harness.Answer{Status: http.StatusOK, Body: `{"succeed":true}`}
		switch n := h.Sum32() % 10; {
		case n < 3 && attempt <= int(n)+1:
			a = harness.Answer{Status: http.StatusServiceUnavailable}
		case n >= 7: // slow enough to be killed in the middle
			a.After = time.Second
		}
		return a
	})
	dir := filepath.Join(t.TempDir(), "data")
	p := harness.StartProcess(t, dir, []string{"--no-demo"}, env...)
	journeyID := p.Publish(t, r.URL, `{"name":"Kill","start":"hello","nodes":[
		{"id":"hello","type":"touchpoint","webhook":%q,"next":"wait"},
		{"id":"wait","type":"delay","for":"4s","next":"check"},
		{"id":"check","type":"branch","cases":[{"when":"touchpoints.hello.succeed","next":"thanks"}]},
		{"id":"thanks","type":"touchpoint","webhook":%[1]q}]}`)
	enrolled := p.Enroll(t, journeyID, killedEnrollments)
	for range kills {
		pause := time.Duration(200+rand.IntN(1500)) * time.Millisecond
		time.Sleep(pause) // the moment is to be random
		p.Kill9(t)
		p = harness.StartProcess(t, dir, []string{"--no-demo"}, env...)
	}
	var ended []harness.Enrollment
	for _, id := range enrolled {
		e := p.AwaitEnd(t, id, 90*time.Second)
		if e.Status != waypost.EnrollmentCompleted {
			t.Errorf("%s is %s", id, e.Status)
		}
		ended = append(ended, e)
	}
	for _, m := range p.Miscounts(t, journeyID, ended) {
		t.Errorf("the statistics: %s", m)
	}
	records := p.Records(t, journeyID)
	if len(records) != 2*len(enrolled) {
		t.Errorf("%d deliveries are recorded, want %d", len(records), 2*len(enrolled))
	}
	interrupted, posts := 0, 0
	for _, rec := range records {
		for _, a := range rec.AttemptLog {
			if a.ErrorClass == waypost.ClassInterrupted {
				interrupted++
			}
		}
		posts += len(r.Received(rec.MessageID))
	}
	t.Logf("%d kills: %d messages, %d POSTs, %d interrupted attempts", kills, len(records), posts, interrupted)
	for _, d := range r.Disagreements(records) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}
}
