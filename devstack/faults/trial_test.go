package faults

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/devstack/harness"
)

const (
	// acceptTime bounds how long a client tries to have an enrollment accepted, and
	// resumeTime how long after a fault nothing is delivered.
	acceptTime = 3 * time.Minute
	resumeTime = time.Minute
)

// endTime bounds how long after the last fault everything has ended. A small test shares
// the machine with others.
var endTime = harness.Scaled(8*time.Minute, 3*time.Minute)

// The nodes of the journeys.
const (
	hello  = "hello"
	thanks = "thanks"
)

// course is a journey and what is to become of those who enter it.
type course struct {
	definition string   // its %q is the webhook's id
	nodes      []string // whose messages each lead gets
	way        []harness.Step
}

// A lead enters a journey once: what nobody has answered is asked for again.
var (
	// single is a journey of one message.
	single = course{
		`{"name":"Single","start":"hello","reentry":{"policy":"never"},"nodes":[{"id":"hello","type":"touchpoint","webhook":%q}]}`,
		[]string{hello},
		[]harness.Step{{Node: hello, What: waypost.WhatSent}, {Node: hello, What: waypost.WhatExited}},
	}
	// decided is a journey that begins with a decision: nothing is sent ahead, and nobody
	// waits for others of its version.
	decided = course{
		`{"name":"Decided","start":"which","reentry":{"policy":"never"},"nodes":[
			{"id":"which","type":"branch","cases":[{"when":"lead.name == 'nobody'","next":"hello"}],"otherwise":"hello"},
			{"id":"hello","type":"touchpoint","webhook":%q}]}`,
		[]string{hello},
		[]harness.Step{{Node: "which", What: waypost.WhatTook}, {Node: hello, What: waypost.WhatSent}, {Node: hello, What: waypost.WhatExited}},
	}
	// double is a journey of two, with a wait between them.
	double = course{
		`{"name":"Double","start":"hello","reentry":{"policy":"never"},"nodes":[
			{"id":"hello","type":"touchpoint","webhook":%q,"next":"rest"},
			{"id":"rest","type":"delay","for":"2s","next":"thanks"},
			{"id":"thanks","type":"touchpoint","webhook":%[1]q}]}`,
		[]string{hello, thanks},
		[]harness.Step{
			{Node: hello, What: waypost.WhatSent}, {Node: "rest", What: waypost.WhatWaited},
			{Node: thanks, What: waypost.WhatSent}, {Node: thanks, What: waypost.WhatExited},
		},
	}
)

// taken is the answer of a receiver that works.
func taken(waypost.Message, int) harness.Answer {
	return harness.Answer{Status: http.StatusOK, Body: `{"succeed":true}`}
}

// trial is one case: what happens on a deployment, and what must have come of it.
type trial struct {
	t     *testing.T
	fleet *harness.Fleet
	row   *row

	resumes, ends time.Duration // resumeTime and endTime, unless the case needs longer

	entries  []entry
	launches []string
	records  []harness.Record // what was recorded, once it is judged
	judged   bool

	mu       sync.Mutex
	open     map[attempt]bool // those that were under way at a kill
	mended   []time.Time      // when each fault ended
	accepted []enrolled
}

// attempt names one of a message.
type attempt struct {
	messageID     string
	round, number int
}

// entry is a journey that leads enter.
type entry struct {
	journey  string // its id
	course   course
	receiver *harness.Receiver
}

// enrolled is a lead whose enrollment was accepted.
type enrolled struct {
	lead    int64
	journey string
	id      string    // "": the answer was lost, and the next one said that there is one
	asked   time.Time // zero: by a launch
}

// begin begins a case on a deployment. Its row is in the table however it ends.
func begin(t *testing.T, name string, f *harness.Fleet) *trial {
	t.Helper()
	c := &trial{t: t, fleet: f, row: addRow(name), resumes: resumeTime, ends: endTime, open: map[attempt]bool{}}
	t.Cleanup(func() {
		switch {
		case len(c.row.faults) > 0:
		case !c.judged:
			c.row.faults = []string{"it did not come to its end; see above"}
		case t.Failed():
			c.row.faults = []string{"see above"}
		}
	})
	return c
}

// wrong notes that something is not as it should be.
func (c *trial) wrong(format string, args ...any) {
	c.t.Helper()
	c.row.faults = append(c.row.faults, fmt.Sprintf(format, args...))
	c.t.Errorf(format, args...)
}

// publish makes a webhook with these settings beside its URL, and a published journey
// to it.
func (c *trial) publish(r *harness.Receiver, of course, settings map[string]any) (journeyID string) {
	c.t.Helper()
	hook := map[string]any{
		"name": "crm", "url": r.URL, "timeoutMs": 8000,
		"retry": map[string]any{"schedule": []string{"1s", "2s", "3s"}, "giveUpAfter": "1h"},
	}
	maps.Copy(hook, settings)
	var made struct{ ID string }
	c.fleet.Do(c.t, http.MethodPost, "/v1/webhooks", hook, &made)
	c.fleet.Do(c.t, http.MethodPost, "/v1/journeys", json.RawMessage(fmt.Sprintf(of.definition, made.ID)), &made)
	c.fleet.Do(c.t, http.MethodPost, "/v1/journeys/"+made.ID+"/publish", nil, nil)
	if c.t.Failed() {
		c.t.FailNow()
	}
	c.entries = append(c.entries, entry{made.ID, of, r})
	return made.ID
}

// launch enrolls leads in a journey, perSecond of them a second, or as fast as it goes
// with 0.
func (c *trial) launch(journeyID string, leads []int64, perSecond int) {
	c.t.Helper()
	body := map[string]any{"audience": map[string]any{"leadsIds": leads}}
	if perSecond > 0 {
		body["ratePerSecond"] = perSecond
	}
	var l harness.Launched
	c.fleet.Do(c.t, http.MethodPost, "/v1/journeys/"+journeyID+"/launches", body, &l)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.launches = append(c.launches, l.ID)
	for _, lead := range leads {
		c.accepted = append(c.accepted, enrolled{lead: lead, journey: journeyID})
	}
}

// load enrolls leads in a journey, perSecond of them a second whatever becomes of
// them, until all are or stop is called. That returns when each is accepted, and tells
// whether there were some left.
func (c *trial) load(journeyID string, leads []int64, perSecond int) (stop func() (ran bool)) {
	enough, done := make(chan struct{}), make(chan struct{})
	ran := true
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		var asking sync.WaitGroup
		defer asking.Wait()
		for _, lead := range leads {
			asking.Go(func() { c.enroll(journeyID, lead) })
			select {
			case <-tick.C:
			case <-enough:
				return
			}
		}
		ran = false
	}()
	return sync.OnceValue(func() bool { close(enough); <-done; return ran })
}

// enroll asks for an enrollment until it is accepted, as a client does that does not
// give up: less often the longer it takes.
func (c *trial) enroll(journeyID string, lead int64) {
	ctx, cancel := context.WithTimeout(c.t.Context(), acceptTime)
	defer cancel()
	e := enrolled{lead: lead, journey: journeyID, asked: time.Now()}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		var made struct{ EnrollmentID string }
		err := c.fleet.AnyGateway().Do(ctx, http.MethodPost, "/v1/journeys/"+journeyID+"/enrollments", map[string]any{"leadsId": lead}, &made)
		var refused *waypost.Error
		switch {
		case err == nil, errors.As(err, &refused) && refused.Code == waypost.CodeConflict:
			e.id = made.EnrollmentID
			c.mu.Lock()
			defer c.mu.Unlock()
			c.accepted = append(c.accepted, e)
			return
		case refused != nil && refused.Code != waypost.CodeServiceUnavailable && !mustSignAnew(refused):
			c.mu.Lock()
			defer c.mu.Unlock()
			c.wrong("lead %d is not enrolled: %s: %v", lead, refused.Code, refused)
			return
		}
		select {
		case <-ctx.Done():
			c.mu.Lock()
			defer c.mu.Unlock()
			c.wrong("lead %d is not enrolled after %s: %v", lead, acceptTime, err)
			return
		case <-time.After(wait):
		}
	}
}

// mustSignAnew tells whether a request was refused because Redis has forgotten what was accepted.
func mustSignAnew(refused *waypost.Error) bool {
	return len(refused.Details) == 1 && refused.Details[0].Code == waypost.DetailRequestExpired
}

// over notes that a fault has ended: from now on everything has to go on.
func (c *trial) over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mended = append(c.mended, time.Now())
}

// cutOff notes the attempts that are under way now, when a process was killed: they may
// be made again.
func (c *trial) cutOff() {
	c.t.Helper()
	db := openDatabase(c.t, c.fleet)
	defer db.Close()
	rows, err := db.QueryContext(c.t.Context(), "SELECT message_id, round, open_attempt FROM deliveries WHERE open_attempt > 0")
	if err != nil {
		c.t.Fatal(err)
	}
	defer rows.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for rows.Next() {
		var a attempt
		if err := rows.Scan(&a.messageID, &a.round, &a.number); err != nil {
			c.t.Fatal(err)
		}
		c.open[a] = true
	}
	if err := rows.Err(); err != nil {
		c.t.Fatal(err)
	}
}

// openDatabase opens the database that a deployment works on.
func openDatabase(t *testing.T, f *harness.Fleet) *sql.DB {
	t.Helper()
	driver, dsn := "pgx", f.Setting("WAYPOST_DATABASE_URL")
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		driver, dsn = "sqlite", "file:"+path+"?_pragma=busy_timeout(15000)"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// judge waits until all that was accepted has ended, and compares what the receivers
// have in their ledgers with what is recorded and with what should have happened: each
// message is taken once, and each lead goes the journey's way to its end.
func (c *trial) judge() {
	c.t.Helper()
	c.row.enrollments = len(c.accepted)
	until := time.Now().Add(c.ends)
	for _, id := range c.launches {
		c.fleet.AwaitLaunch(c.t, id, time.Until(until), "completed", func(l harness.Launched) bool { return l.Status == waypost.LaunchCompleted })
	}
	harness.Parallel(len(c.accepted), func(i int) { c.awaitEnd(c.accepted[i], until) })
	all := map[touchpoint]coming{}
	records := map[*harness.Receiver][]harness.Record{}
	var latencies []time.Duration
	for _, e := range c.entries {
		own := c.fleet.Records(c.t, e.journey)
		c.records = append(c.records, own...)
		records[e.receiver] = append(records[e.receiver], own...)
		found := c.fleet.Enrollments(c.t, own)
		c.counts(e.journey, found)
		came := byTouchpoint(e.receiver.Ledger(), e.journey)
		maps.Copy(all, came)
		entered := 0
		for _, a := range c.accepted {
			if a.journey != e.journey {
				continue
			}
			entered++
			c.compare(e, a, found[a.lead], came)
			if first := came[touchpoint{e.journey, a.lead, hello}].first; !a.asked.IsZero() && !first.IsZero() {
				latencies = append(latencies, first.Sub(a.asked))
			}
		}
		if want := entered * len(e.course.nodes); len(own) != want {
			c.wrong("%d deliveries are recorded, want %d", len(own), want)
		}
	}
	for r, own := range records {
		c.row.deliveries += len(own)
		for _, d := range r.Disagreements(own) {
			c.wrong("the ledger and the records disagree: %s", d)
		}
		c.count(r.Ledger(), own)
	}
	c.compareHistory()
	c.judged = true
	c.resumption(all)
	c.row.latency = percentiles(latencies)
	if c.row.lost > 0 {
		c.wrong("%d messages are lost", c.row.lost)
	}
}

// counts compares the statistics of a journey with the timelines of its enrollments, each of
// which has a delivery.
func (c *trial) counts(journeyID string, found map[int64]harness.Enrolled) {
	c.t.Helper()
	var all []harness.Enrollment
	for _, e := range found {
		all = append(all, e.Enrollment)
	}
	for _, m := range c.fleet.Miscounts(c.t, journeyID, all) {
		c.wrong("the statistics of %s: %s", journeyID, m)
	}
}

// compareHistory compares the history of the webhooks with the attempts that are recorded.
func (c *trial) compareHistory() {
	c.t.Helper()
	want := map[string]map[bool]int{}
	for _, rec := range c.records {
		if want[rec.WebhookID] == nil {
			want[rec.WebhookID] = map[bool]int{true: 0, false: 0}
		}
		for _, a := range rec.AttemptLog {
			if a.ErrorClass != waypost.ClassInterrupted && a.ErrorClass != waypost.ClassRender {
				want[rec.WebhookID][a.ErrorClass == ""]++
			}
		}
	}
	for id, counts := range want {
		if got := c.fleet.History(c.t, id); !maps.Equal(got, counts) {
			c.wrong("the history of %s has %v, recorded are %v", id, got, counts)
		}
	}
}

// compare compares what became of one lead with what should have.
func (c *trial) compare(e entry, a enrolled, got harness.Enrolled, came map[touchpoint]coming) {
	c.t.Helper()
	switch {
	case got.ID == "":
		c.wrong("lead %d: its enrollment was accepted, and no delivery of it is recorded", a.lead)
	case a.id != "" && got.ID != a.id:
		c.wrong("lead %d: %s was accepted, %s ran", a.lead, a.id, got.ID)
	case got.Status != waypost.EnrollmentCompleted || !slices.Equal(got.Way(), e.way(a.lead, came)):
		c.wrong("lead %d: its enrollment %s is %s, its way was %v", a.lead, got.ID, got.Status, got.Way())
	}
	for _, node := range e.course.nodes {
		m := came[touchpoint{e.journey, a.lead, node}]
		if len(m.ids) > 1 {
			c.wrong("lead %d: %s came with several messageIds: %v", a.lead, node, m.ids)
		}
		if m.taken.IsZero() && !m.refused {
			c.row.lost++
		}
	}
}

// way is what a lead's enrollment is to do, by what came and how it was answered.
func (e entry) way(lead int64, came map[touchpoint]coming) []harness.Step {
	way := slices.Clone(e.course.way)
	for i, step := range way {
		if step.What == waypost.WhatSent && came[touchpoint{e.journey, lead, step.Node}].refused {
			way[i].What = waypost.WhatFailed
		}
	}
	return way
}

// awaitEnd waits until an enrollment has ended. Those of a launch have with it.
func (c *trial) awaitEnd(e enrolled, until time.Time) {
	if e.id == "" && e.asked.IsZero() {
		return
	}
	for time.Now().Before(until) {
		if e.id == "" { // its deliveries name it
			var page struct{ Items []harness.Record }
			path := fmt.Sprintf("/v1/deliveries?limit=1&journeyId=%s&leadsId=%d", e.journey, e.lead)
			if err := c.fleet.Call(c.t.Context(), http.MethodGet, path, nil, &page); err == nil && len(page.Items) > 0 {
				e.id = page.Items[0].EnrollmentID
			}
		}
		if e.id != "" {
			var got harness.Enrollment
			if err := c.fleet.Call(c.t.Context(), http.MethodGet, "/v1/enrollments/"+e.id, nil, &got); err == nil && got.Status.Ended() {
				return
			}
		}
		select {
		case <-c.t.Context().Done():
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// count compares duplicates with the attempts that were cut off: at a kill, or because
// the receiver went down before its answer had left. One that the receiver did not take
// excuses none.
func (c *trial) count(ledger map[string][]harness.Received, records []harness.Record) {
	cut := map[string]int{}
	for _, rec := range records {
		for i, a := range rec.AttemptLog {
			if a.ErrorClass != waypost.ClassInterrupted {
				continue
			}
			c.row.inFlight++
			made := rec.Made(i, ledger[rec.MessageID])
			// A database that dies may have opened an attempt and not said so: nobody
			// makes it then.
			if len(made) > 0 && !c.open[attempt{rec.MessageID, a.Round, a.Attempt}] {
				c.wrong("%s: attempt %d is recorded as interrupted, and was not under way at a kill", rec.MessageID, a.Attempt)
			}
			if slices.ContainsFunc(made, harness.Received.Delivered) {
				cut[rec.MessageID]++
			}
		}
	}
	for id, posts := range ledger {
		c.row.posts += len(posts)
		for _, a := range posts {
			if a.Cut {
				c.row.inFlight++
				if a.Delivered() {
					cut[id]++
				}
			}
		}
		again := 0
		if i := slices.IndexFunc(posts, harness.Received.Delivered); i >= 0 {
			again = len(posts) - i - 1
		}
		c.row.duplicates += again
		if again > cut[id] {
			c.wrong("%s: sent %d times more after it was taken, %d attempts were cut off by then", id, again, cut[id])
		}
	}
}

// failed counts the attempts that are recorded as failed.
func (c *trial) failed() (n int) {
	for _, rec := range c.records {
		for _, a := range rec.AttemptLog {
			if a.ErrorClass != "" {
				n++
			}
		}
	}
	return n
}

// touchpoint is a lead's message in a journey.
type touchpoint struct {
	journey string
	lead    int64
	node    string
}

// coming is how the message of a touchpoint came.
type coming struct {
	ids          []string
	first, taken time.Time
	refused      bool // for good
}

// byTouchpoint sorts what came of a journey by touchpoints.
func byTouchpoint(ledger map[string][]harness.Received, journey string) map[touchpoint]coming {
	out := map[touchpoint]coming{}
	for id, posts := range ledger {
		var m waypost.Message
		if err := json.Unmarshal([]byte(posts[0].Body), &m); err != nil {
			continue // the receiver has said so
		}
		if !strings.HasPrefix(m.JourneyInfo.ActionDefID, journey+"/") {
			continue
		}
		of := touchpoint{journey, harness.LeadOf(m), harness.NodeOf(m)}
		came := out[of]
		came.ids = append(came.ids, id)
		for _, p := range posts {
			if came.first.IsZero() || p.At.Before(came.first) {
				came.first = p.At
			}
			came.refused = came.refused || p.RefusedForGood()
			if p.Delivered() && (came.taken.IsZero() || p.At.Before(came.taken)) {
				came.taken = p.At
			}
		}
		out[of] = came
	}
	return out
}

// resumption is how long it took at most, after a fault had ended, until the message
// of somebody came who was enrolled since then, or one that had waited.
func (c *trial) resumption(came map[touchpoint]coming) {
	times := slices.SortedFunc(func(yield func(time.Time) bool) {
		for _, m := range came {
			if !m.taken.IsZero() && !yield(m.taken) {
				return
			}
		}
	}, time.Time.Compare)
	for _, at := range c.mended {
		i, _ := slices.BinarySearchFunc(times, at, time.Time.Compare)
		if i == len(times) {
			c.wrong("nothing came after the fault that ended at %s", at.Format(time.TimeOnly))
			continue
		}
		c.row.resumed = cmp.Or(max(c.row.resumed, times[i].Sub(at)), c.row.resumed)
	}
	if c.row.resumed > c.resumes {
		c.wrong("it took %s until a message came after a fault, want %s at most", c.row.resumed, c.resumes)
	}
}
