package e2e

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/devstack/datadir"
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
	killNine(t)
}

// The same with our own data on PostgreSQL.
func TestKillNineOnPostgres(t *testing.T) {
	killNine(t, "WAYPOST_DATABASE_URL="+storetest.PostgresURL(t))
}

func killNine(t *testing.T, env ...string) {
	t.Helper()
	r := newReceiver(t, func(m waypost.Message, attempt int) answer {
		h := fnv.New32a()
		fmt.Fprint(h, m.MessageID)
		a := answer{status: http.StatusOK, body: `{"succeed":true}`}
		switch n := h.Sum32() % 10; {
		case n < 3 && attempt <= int(n)+1:
			a = answer{status: http.StatusServiceUnavailable}
		case n >= 7: // slow enough to be killed in the middle
			a.after = time.Second
		}
		return a
	})
	dir := filepath.Join(t.TempDir(), "data")
	p := startProcess(t, dir, []string{"--no-demo"}, env...)
	journeyID := p.publish(t, r.url, `{"name":"Kill","start":"hello","nodes":[
		{"id":"hello","type":"touchpoint","webhook":%q,"next":"wait"},
		{"id":"wait","type":"delay","for":"4s","next":"check"},
		{"id":"check","type":"branch","cases":[{"when":"touchpoints.hello.succeed","next":"thanks"}]},
		{"id":"thanks","type":"touchpoint","webhook":%[1]q}]}`)
	enrolled := p.enroll(t, journeyID, killedEnrollments)
	for range kills {
		pause := time.Duration(200+rand.IntN(1500)) * time.Millisecond
		time.Sleep(pause) // the moment is to be random
		p.kill9(t)
		p = startProcess(t, dir, []string{"--no-demo"}, env...)
	}
	for _, id := range enrolled {
		e := p.awaitEnd(t, id, 90*time.Second)
		if e.Status != waypost.EnrollmentCompleted {
			t.Errorf("%s is %s", id, e.Status)
		}
	}
	records := p.records(t, journeyID)
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
		posts += len(r.posts[rec.MessageID])
	}
	t.Logf("%d kills: %d messages, %d POSTs, %d interrupted attempts", kills, len(records), posts, interrupted)
	for _, d := range r.disagreements(records) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}
}

// While Temporal is stopped, enrollments are accepted; once it is back, all run.
func TestTemporalAway(t *testing.T) {
	r := newReceiver(t, func(waypost.Message, int) answer { return answer{status: http.StatusOK} })
	base := t.TempDir()
	temporal := startProcess(t, filepath.Join(base, "temporal"), []string{"--only", "temporal,redis"})
	p := startProcess(t, filepath.Join(base, "app"), []string{"--only", "gateway,worker", "--no-demo"}, temporal.joinSettings(t)...)
	journeyID := p.publish(t, r.url, `{"name":"Away","start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":%q}]}`)
	before := p.enroll(t, journeyID, 1)
	p.awaitEnd(t, before[0], time.Minute)

	temporal.kill9(t)
	// Redis went too: the gateway must refuse rather than forget nonces, so it
	// comes back alone first.
	redis := startProcess(t, temporal.dir, []string{"--only", "redis"})
	enrolled := p.enroll(t, journeyID, 30)
	for _, id := range enrolled {
		var e enrollment
		if err := p.client.Do(t.Context(), http.MethodGet, "/v1/enrollments/"+id, nil, &e); err != nil || e.Status != waypost.EnrollmentPending {
			t.Errorf("%s is %s without Temporal, %v", id, e.Status, err)
		}
	}
	// A gateway that starts while Temporal is away accepts too.
	p.kill9(t)
	p = startProcess(t, p.dir, []string{"--only", "gateway,worker", "--no-demo"}, temporal.joinSettings(t)...)
	enrolled = append(enrolled, p.enroll(t, journeyID, 5)...)

	redis.interrupt(t)
	startProcess(t, temporal.dir, []string{"--only", "temporal,redis"})
	for _, id := range enrolled {
		p.awaitEnd(t, id, 90*time.Second)
	}
	records := p.records(t, journeyID)
	if len(records) != len(enrolled)+1 {
		t.Errorf("%d deliveries are recorded, want %d", len(records), len(enrolled)+1)
	}
	for _, d := range r.disagreements(records) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}
}

// publish makes a webhook that retries soon, and a published journey; the
// definition's %q is the webhook's id.
func (p *process) publish(t *testing.T, url, definition string) (journeyID string) {
	t.Helper()
	var made struct{ ID string }
	p.do(t, http.MethodPost, "/v1/webhooks", map[string]any{
		"name": "crm", "url": url, "timeoutMs": 3000,
		"retry": map[string]any{"schedule": []string{"1s", "2s", "3s"}, "giveUpAfter": "10m"},
	}, &made)
	p.do(t, http.MethodPost, "/v1/journeys", json.RawMessage(fmt.Sprintf(definition, made.ID)), &made)
	p.do(t, http.MethodPost, "/v1/journeys/"+made.ID+"/publish", nil, nil)
	return made.ID
}

// enroll makes n leads and enrolls them, several at a time.
func (p *process) enroll(t *testing.T, journeyID string, n int) []string {
	t.Helper()
	ids := make([]string, n)
	var running sync.WaitGroup
	for part := range 8 {
		running.Go(func() {
			for i := part; i < n; i += 8 {
				var lead struct{ LeadsID int64 }
				var made struct{ EnrollmentID string }
				p.do(t, http.MethodPost, "/v1/leads", map[string]any{"businessParam": map[string]any{"name": "Ada"}}, &lead)
				p.do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/enrollments", map[string]any{"leadsId": lead.LeadsID}, &made)
				ids[i] = made.EnrollmentID
			}
		})
	}
	running.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return ids
}

// do makes a call that must succeed.
func (p *process) do(t *testing.T, method, path string, body, answer any) {
	t.Helper()
	if err := p.client.Do(t.Context(), method, path, body, answer); err != nil {
		t.Error(err)
	}
}

// joinSettings are the settings with which other processes join this one's parts.
func (p *process) joinSettings(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.dir, datadir.EnvFile))
	if err != nil {
		t.Fatal(err)
	}
	var env []string
	for line := range strings.Lines(string(b)) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if ok && (strings.HasPrefix(name, "WAYPOST_TEMPORAL_") || name == "WAYPOST_REDIS_URL") {
			env = append(env, name+"="+strings.Trim(value, "'\""))
		}
	}
	return env
}
