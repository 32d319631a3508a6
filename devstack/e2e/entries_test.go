package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/devstack/harness"
	"waypost/store/storetest"
)

// A journey begins by events, each of which its sender repeats until it is accepted, while
// waypost-dev is killed in the middle of the first POSTs: when the enrollments are stored, and
// their workflows are not. Two carts of one lead run side by side. Every event begins one
// enrollment, and every enrollment sends its messages once. Half of the carts are bought, as soon
// as they were accepted: before their enrollment waits for it, or while it does.
func TestEntryKilled(t *testing.T) {
	t.Parallel()
	entryKilled(t)
}

// The same with our own data on PostgreSQL.
func TestEntryKilledOnPostgres(t *testing.T) {
	t.Parallel()
	entryKilled(t, "WAYPOST_DATABASE_URL="+storetest.PostgresURL(t))
}

func entryKilled(t *testing.T, env ...string) {
	t.Helper()
	const kills, eachTime = 3, 20
	r := newSlowReceiver(t)
	dir := t.TempDir() + "/data"
	p := harness.StartProcess(t, dir, []string{"--no-demo"}, env...)
	journeyID := p.Publish(t, r.URL, `{"name":"Cart","start":"remind","entry":[{"event":"cart","when":"event.total > 50","entryKey":"event.cartId"}],"nodes":[
		{"id":"remind","type":"touchpoint","webhook":%q,"params":{"cart":"{{ enrollment.event.properties.cartId }}"},"next":"bought"},
		{"id":"bought","type":"waitForEvent","event":"purchase","when":"event.cartId == enrollment.event.properties.cartId","since":"enrollment","timeout":"20s",
			"next":"thanks","onTimeout":"last"},
		{"id":"thanks","type":"touchpoint","webhook":%[1]q},
		{"id":"last","type":"touchpoint","webhook":%[1]q}]}`)
	leads := makeLeads(t, p, eachTime/2)
	carts := map[string]bool{}  // that are to have an enrollment
	bought := map[string]bool{} // those of them that are bought
	send := func(round int) {
		harness.Parallel(eachTime, func(i int) {
			cart := fmt.Sprintf("c%d-%d", round, i)
			for _, e := range []struct {
				id, name string
				total    int
			}{{"cart-" + cart, "cart", 60}, {"small-" + cart, "cart", 40}} {
				// Its sender learns nothing of a process that is killed. It sends it again, to the next one.
				_ = p.Client.Do(t.Context(), http.MethodPost, "/v1/events", map[string]any{
					"eventId": e.id, "name": e.name, "leadsId": leads[i/2], "properties": map[string]any{"total": e.total, "cartId": cart},
				}, nil)
			}
		})
	}
	for round := range kills {
		for i := range eachTime {
			cart := fmt.Sprintf("c%d-%d", round, i)
			carts[cart], bought[cart] = true, i%2 == 0
		}
		r.slow.Store(true)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			send(round)
		}()
		<-r.posting
		p.Kill9(t)
		<-sent
		r.quicken()
		p = harness.StartProcess(t, dir, []string{"--no-demo"}, env...)
		for range 2 { // what was accepted is accepted again, without effect
			send(round)
			harness.Parallel(eachTime/2, func(i int) {
				cart := fmt.Sprintf("c%d-%d", round, 2*i)
				err := p.Client.Do(t.Context(), http.MethodPost, "/v1/events", map[string]any{
					"eventId": "buy-" + cart, "name": "purchase", "leadsId": leads[i], "properties": map[string]any{"cartId": cart},
				}, nil)
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	var list struct {
		Items []struct {
			EnrollmentID, EntryKey string
			Entry                  waypost.Entry
		}
	}
	p.Do(t, http.MethodGet, "/v1/enrollments?limit=500&journeyId="+journeyID, nil, &list)
	seen := map[string]bool{}
	for _, e := range list.Items {
		if seen[e.EntryKey] || e.Entry != (waypost.Entry{Kind: waypost.EntryEvent, Event: "cart", EventID: "cart-" + e.EntryKey}) {
			t.Errorf("twice, or by something else: %+v", e)
		}
		seen[e.EntryKey] = true
	}
	if !maps.Equal(seen, carts) {
		t.Fatalf("%d enrollments, want %d", len(seen), len(carts))
	}
	var ended []harness.Enrollment
	for _, item := range list.Items {
		e := p.AwaitEnd(t, item.EnrollmentID, 2*time.Minute)
		thanked := slices.ContainsFunc(e.Timeline, func(entry waypost.TimelineEntry) bool { return entry.NodeID == "thanks" })
		if e.Status != waypost.EnrollmentCompleted || thanked != bought[item.EntryKey] || e.Timeline[0].Reason != "event cart" {
			t.Errorf("%s is %s, thanked %t: %+v", e.ID, e.Status, thanked, e.Timeline)
		}
		ended = append(ended, e)
	}
	for _, m := range p.Miscounts(t, journeyID, ended) {
		t.Errorf("the statistics: %s", m)
	}
	records := p.Records(t, journeyID)
	if len(records) != 2*len(carts) {
		t.Errorf("%d deliveries, want %d", len(records), 2*len(carts))
	}
	for _, d := range r.Disagreements(records) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}
	bodies := 0
	for _, rec := range records {
		if rec.NodeID == "remind" {
			for _, post := range r.Received(rec.MessageID)[:1] {
				if strings.Contains(post.Body, `"params":{"cart":"c`) {
					bodies++
				}
			}
		}
	}
	if bodies != len(carts) {
		t.Errorf("%d reminders name their cart, want %d", bodies, len(carts))
	}
}
