package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"waypost"
	"waypost/config"
	"waypost/store/storetest"
	"waypost/workflows"
)

// full runs the tests at the size that is promised; without it they are small
// enough for every day.
var full = os.Getenv("WAYPOST_TEST_SCALE") == "full"

// scaled picks a size, or a time.
func scaled[T any](small, promised T) T {
	if full {
		return promised
	}
	return small
}

// besides lets small tests share the time; at full size each has the machine.
func besides(t *testing.T) {
	if !full {
		t.Parallel()
	}
}

// launchTime bounds how long a launch takes, faults included.
var launchTime = scaled(3*time.Minute, 20*time.Minute)

// shop is the journey of the fault runs.
func shop() modelJourney {
	return modelJourney{
		Delay: 2 * time.Second, Timeout: scaled(15*time.Second, 4*time.Minute), Since: true,
		Schedule: []time.Duration{time.Second, 2 * time.Second, 3 * time.Second},
	}
}

// shopper is what the i-th lead meets: of each ten, one is answered 503 at first,
// of each hundred, one is refused; half of the leads buy, a quarter buys too little,
// a quarter nothing.
func shopper(i int) modelLead {
	var l modelLead
	l.Answers = map[string]modelAnswer{}
	if i%10 == 3 {
		l.Answers[modelHello], l.Answers[modelThanks] = modelAnswer{Fails: 1}, modelAnswer{Fails: 1}
	}
	if i%100 == 7 {
		l.Answers[modelHello] = modelAnswer{Refuse: true}
	}
	if i%2 == 0 || i%4 == 1 {
		// It is sent when hello has arrived, while the delay lasts.
		l.Events = []modelEvent{{At: -time.Second, Yes: i%2 == 0}}
	}
	return l
}

// The roles that are killed, in this order, at random moments.
var victims = []config.Role{config.RoleWorker, config.RoleGateway, config.RoleWorker, config.RoleGateway, config.RoleWorker}

// A launch through touchpoint, delay, event and branch, with failing and refusing
// answers, while workers and gateways are killed: every enrollment ends as the
// model says, and the ledger agrees with the records message by message.
func TestScaleLaunchUnderKills(t *testing.T) {
	besides(t)
	launchUnderKills(t)
}

// The same on PostgreSQL.
func TestScaleLaunchUnderKillsOnPostgres(t *testing.T) {
	besides(t)
	launchUnderKills(t, "WAYPOST_DATABASE_URL="+storetest.PostgresURL(t))
}

func launchUnderKills(t *testing.T, env ...string) {
	t.Helper()
	n := scaled(600, 20_000)
	f := startFleet(t, 2, 2, env...)
	leads := f.makeLeads(t, 1, n)
	shoppers := map[int64]modelLead{}
	for i, id := range leads {
		shoppers[id] = shopper(i)
	}
	type arrived struct {
		lead int64
		at   time.Time
	}
	came := make(chan arrived, n) // leads whose first message has come: they are enrolled
	r := newReceiver(t, func(m waypost.Message, attempt int) answer {
		lead, node := leadOf(m), nodeOf(m)
		if node == modelHello && attempt == 1 {
			came <- arrived{lead, time.Now()}
		}
		return shoppers[lead].Answers[node].answer(attempt)
	})
	journeyID := f.publish(t, r.url, shop().definition())

	// Each buyer's event comes as soon as the lead is enrolled, twice.
	var sending sync.WaitGroup
	var late sync.Map // leads whose event came when their time may have run out: the machine is slow
	enough := make(chan struct{})
	t.Cleanup(func() { close(enough); sending.Wait() })
	for range 16 {
		sending.Go(func() {
			for {
				select {
				case <-enough:
					return
				case one := <-came:
					for _, event := range shoppers[one.lead].Events {
						for range 2 {
							f.do(t, http.MethodPost, "/v1/events", map[string]any{
								"eventId": fmt.Sprintf("buy-%d", one.lead), "name": modelEventName, "leadsId": one.lead, "properties": event.properties(),
							}, nil)
							if time.Since(one.at) > shop().Timeout {
								late.Store(one.lead, true)
							}
						}
					}
				}
			}
		})
	}
	var l launched
	began := time.Now()
	f.do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/launches", map[string]any{"audience": map[string]any{"filter": map[string]any{"leadsGroup": 1}}}, &l)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for _, role := range victims {
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond) // the moment is to be random
		t.Logf("after %.1f s a %s is killed (seed %d)", time.Since(began).Seconds(), role, seed)
		f.killOne(t, role, random)
	}
	l = f.awaitLaunch(t, l.ID, launchTime, "completed", func(l launched) bool { return l.Status == waypost.LaunchCompleted })
	t.Logf("%d leads in %.1f s: %+v", n, time.Since(began).Seconds(), l)
	if l.Total != n || l.Enrolled != n || l.Completed != n || l.Skipped != 0 {
		t.Errorf("the launch counts %+v", l)
	}

	records := f.records(t, journeyID)
	enrolled := f.enrollments(t, records)
	var ends []modelEnd
	tooLate := 0
	for i, id := range leads {
		lead := shoppers[id]
		if _, ok := late.Load(id); ok {
			tooLate++
			if strings.Contains(fmt.Sprint(enrolled[id].way()), waypost.WhatTimedOut) {
				lead.Events = nil
			}
		}
		end := shop().end(lead)
		ends = append(ends, end)
		e, ok := enrolled[id]
		if !ok {
			t.Errorf("lead %d (%d) has no message", id, i)
			continue
		}
		for _, d := range end.disagreements(e.enrollment, e.records) {
			t.Errorf("lead %d, %+v: %s", id, shoppers[id], d)
		}
	}
	if tooLate > 0 {
		t.Logf("%d events were sent when their time may have run out: with or without them", tooLate)
	}
	sum := modelSum(ends).Messages
	if want := (waypost.OutcomeCounts{Succeeded: sum[waypost.DeliverySucceeded], Failed: sum[waypost.DeliveryFailed]}); l.Outcomes != want {
		t.Errorf("the launch's outcomes are %+v, the model says %+v", l.Outcomes, want)
	}
	for _, d := range r.disagreements(records) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}
}

// leadOf is whom a message is for, 0 for nobody.
func leadOf(m waypost.Message) int64 {
	id, _ := strconv.ParseInt(m.UserProfile.AffID, 10, 64)
	return id
}

// nodeOf is the touchpoint that a message comes from.
func nodeOf(m waypost.Message) string {
	return m.JourneyInfo.ActionDefID[strings.LastIndexByte(m.JourneyInfo.ActionDefID, '/')+1:]
}

// publish makes a webhook that retries soon, and a published journey; the
// definition's %q is the webhook's id.
func (f *fleet) publish(t *testing.T, url, definition string, retry ...string) (journeyID string) {
	t.Helper()
	if len(retry) == 0 {
		retry = []string{"1s", "2s", "3s"}
	}
	var made struct{ ID string }
	f.do(t, http.MethodPost, "/v1/webhooks", map[string]any{
		"name": "crm", "url": url, "timeoutMs": 3000, "retry": map[string]any{"schedule": retry, "giveUpAfter": "1h"},
	}, &made)
	f.do(t, http.MethodPost, "/v1/journeys", json.RawMessage(fmt.Sprintf(definition, made.ID)), &made)
	f.do(t, http.MethodPost, "/v1/journeys/"+made.ID+"/publish", nil, nil)
	if t.Failed() {
		t.FailNow()
	}
	return made.ID
}

// enrolled is an enrollment with its deliveries.
type enrolled struct {
	enrollment
	records []record
}

// enrollments reads the enrollments that deliveries belong to, by lead.
func (f *fleet) enrollments(t *testing.T, records []record) map[int64]enrolled {
	t.Helper()
	own := map[string][]record{}
	for _, rec := range records {
		own[rec.EnrollmentID] = append(own[rec.EnrollmentID], rec)
	}
	ids := slices.Collect(maps.Keys(own))
	read := make([]enrollment, len(ids))
	parallel(len(ids), func(i int) { f.do(t, http.MethodGet, "/v1/enrollments/"+ids[i], nil, &read[i]) })
	out := map[int64]enrolled{}
	for i, id := range ids {
		lead := own[id][0].LeadsID
		if other, twice := out[lead]; twice {
			t.Errorf("lead %d is enrolled twice: %s and %s", lead, other.ID, id)
		}
		out[lead] = enrolled{read[i], own[id]}
	}
	return out
}

// way is what an enrollment did: node and what of each entry that led on.
func (e enrollment) way() []modelStep {
	var steps []modelStep
	for _, entry := range e.Timeline {
		switch entry.What {
		case waypost.WhatEntered, waypost.WhatDeferred, waypost.WhatPaused, waypost.WhatResumed:
		default:
			steps = append(steps, modelStep{entry.NodeID, entry.What})
		}
	}
	return steps
}

// What happens to launches while nobody is killed, on a deployment that they share.
func TestScale(t *testing.T) {
	besides(t)
	f := startFleet(t, 2, 2)
	t.Run("events", func(t *testing.T) { besides(t); events(t, f) })
	t.Run("pause and shift", func(t *testing.T) { besides(t); pause(t, f, 11, true) })
	t.Run("pause and skip", func(t *testing.T) { besides(t); pause(t, f, 12, false) })
	t.Run("receiver down", func(t *testing.T) { besides(t); receiverDown(t, f) })
}

// Ten events for each waiting lead, each sent twice, in any order: each counts
// once, and a workflow gets few signals for them.
func events(t *testing.T, f *fleet) {
	const each = 10
	n := scaled(100, 1_000)
	leads := f.makeLeads(t, 21, n)
	r := newReceiver(t, func(waypost.Message, int) answer { return answer{status: http.StatusOK} })
	// Every event satisfies the node once; it leads back to itself.
	journeyID := f.publish(t, r.url, fmt.Sprintf(`{"name":"Count","start":"count","nodes":[
		{"id":"count","type":"waitForEvent","event":"step","since":"enrollment","timeout":"%s","next":"count","onTimeout":"done"},
		{"id":"done","type":"touchpoint","webhook":%%q}]}`, scaled(12*time.Second, 60*time.Second)))
	var l launched
	began := time.Now()
	f.do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/launches", map[string]any{"audience": map[string]any{"leadsIds": leads}}, &l)
	f.awaitLaunch(t, l.ID, launchTime, "enrolled", func(l launched) bool { return l.Enrolled == n })
	order := rand.Perm(2 * each * n)
	parallel(len(order), func(i int) {
		event := order[i] / 2
		f.do(t, http.MethodPost, "/v1/events", map[string]any{
			"eventId": fmt.Sprintf("step-%d", event), "name": "step", "leadsId": leads[event%n], "properties": map[string]any{"n": event / n},
		}, nil)
	})
	sent := time.Since(began)
	f.awaitLaunch(t, l.ID, launchTime, "completed", func(l launched) bool { return l.Status == waypost.LaunchCompleted })

	want := append(slices.Repeat([]modelStep{{"count", waypost.WhatMatched}}, each),
		modelStep{"count", waypost.WhatTimedOut}, modelStep{"done", waypost.WhatSent}, modelStep{"done", waypost.WhatExited})
	enrolled := f.enrollments(t, f.records(t, journeyID))
	for _, id := range leads {
		if e := enrolled[id]; e.Status != waypost.EnrollmentCompleted || !slices.Equal(e.way(), want) {
			t.Errorf("lead %d is %s, its way was %v", id, e.Status, e.way())
		}
	}
	// One signal tells a workflow of all that has come in 200 ms.
	most := int(sent/(200*time.Millisecond)) + 5
	for id, signals := range f.signals(t, journeyID) {
		if signals > most {
			t.Errorf("%s got %d signals in %s, at most %d are allowed", id, signals, sent, most)
		}
		t.Logf("%s: %d signals for %d events, sent in %s", id, signals, 2*each*n, sent)
	}
}

// signals counts the signals in the histories of a journey's workflows.
func (f *fleet) signals(t *testing.T, journeyID string) map[string]int {
	t.Helper()
	temporal, err := client.Dial(client.Options{HostPort: f.base.profile.TemporalAddress})
	if err != nil {
		t.Fatal(err)
	}
	defer temporal.Close()
	page, err := temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: "default", PageSize: 1000,
		Query: fmt.Sprintf("WaypostJourney=%q AND WorkflowType=%q", journeyID, workflows.TypeJourney),
	})
	if err != nil || len(page.Executions) == 0 {
		t.Fatalf("no workflow of %s is listed: %v", journeyID, err)
	}
	counts := map[string]int{}
	for _, w := range page.Executions {
		id := w.Execution.WorkflowId
		counts[id] += 0
		events := temporal.GetWorkflowHistory(t.Context(), id, w.Execution.RunId, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			if err != nil {
				t.Fatal(err)
			}
			if event.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED {
				counts[id]++
			}
		}
	}
	return counts
}

// A launch is paused when a third of its audience is enrolled, and resumed when
// all its delays have passed: while it is paused nothing is sent; then everything
// happens that the model says, not before its time; what was skipped comes earlier
// than it would have come shifted.
func pause(t *testing.T, f *fleet, group int, shift bool) {
	const (
		settle  = time.Second          // in which what was sent before the pause arrives
		rounded = 5 * time.Millisecond // times are rounded
	)
	j := modelJourney{Delay: scaled(8*time.Second, 20*time.Second), Timeout: 2 * time.Second, Schedule: []time.Duration{time.Second}}
	n := scaled(600, 20_000)
	stood := standstill(t)
	leads := f.makeLeads(t, group, n)
	var mu sync.Mutex
	came := map[string]map[int64]time.Time{modelHello: {}, modelThanks: {}}
	r := newReceiver(t, func(m waypost.Message, _ int) answer {
		mu.Lock()
		defer mu.Unlock()
		came[nodeOf(m)][leadOf(m)] = time.Now()
		return answer{status: http.StatusOK}
	})
	journeyID := f.publish(t, r.url, j.definition())
	var l launched
	f.do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/launches", map[string]any{
		"audience": map[string]any{"filter": map[string]any{"leadsGroup": group}}, "ratePerSecond": scaled(150, 2_000),
	}, &l)
	f.awaitLaunch(t, l.ID, launchTime, "enrolled at 30 %", func(l launched) bool { return l.Enrolled*10 >= n*3 })
	f.do(t, http.MethodPost, "/v1/launches/"+l.ID+"/pause", nil, &l)
	paused := time.Now()
	if l.Status != waypost.LaunchPaused || l.Enrolled >= n {
		t.Fatalf("the launch that was paused at 30 %% is %+v", l)
	}
	time.Sleep(settle) // what was sent before the pause is to arrive
	mu.Lock()
	early := maps.Clone(came[modelHello])
	mu.Unlock()
	time.Sleep(j.Delay + settle) // all delays are to pass during the pause
	var standing []modelEnd
	for _, at := range early {
		standing = append(standing, j.end(modelLead{Pauses: []modelPause{{From: paused.Sub(at) + settle}}}))
	}
	r.mu.Lock()
	if got, want := len(r.posts), modelSum(standing).Attempts; got != want || want == 0 || want == n {
		t.Errorf("%d messages came before and during the pause, the model says %d", got, want)
	}
	r.mu.Unlock()
	f.do(t, http.MethodGet, "/v1/launches/"+l.ID, nil, &l)
	if l.Status != waypost.LaunchPaused || l.Completed != 0 {
		t.Errorf("the paused launch is %+v", l)
	}
	resuming := time.Now()
	f.do(t, http.MethodPost, "/v1/launches/"+l.ID+"/resume", map[string]any{"elapsedDelays": map[bool]string{true: "shift", false: "skip"}[shift]}, &l)
	if l.Status != waypost.LaunchRunning {
		t.Errorf("the resumed launch is %+v", l)
	}
	l = f.awaitLaunch(t, l.ID, launchTime, "completed", func(l launched) bool { return l.Status == waypost.LaunchCompleted })
	if want := (waypost.OutcomeCounts{Succeeded: 2 * n}); l.Enrolled != n || l.Skipped != 0 || l.Completed != n || l.Outcomes != want {
		t.Errorf("the launch counts %+v", l)
	}

	records := f.records(t, journeyID)
	enrolled := f.enrollments(t, records)
	mu.Lock()
	defer mu.Unlock()
	latest := time.Duration(0)
	for _, id := range leads {
		began, met := came[modelHello][id], modelLead{}
		if began.Before(resuming) {
			// Waypost's own times lie between the request and its answer, so that its
			// pause is not shorter than this one. What had begun before arrived during it.
			met.Pauses = []modelPause{{From: max(time.Millisecond, paused.Sub(began)), To: resuming.Sub(began), Shift: shift}}
		}
		end := j.end(met)
		for _, d := range end.disagreements(enrolled[id].enrollment, enrolled[id].records) {
			t.Errorf("lead %d: %s", id, d)
		}
		took := came[modelThanks][id].Sub(began)
		latest = max(latest, took-end.At)
		if took < end.At-rounded {
			t.Errorf("lead %d, met %+v: its second message came %s after the first one, the model says %s", id, met, took, end.At)
		}
		if _, first := early[id]; first && !shift {
			met.Pauses[0].Shift = true
			if shifted := j.end(met).At; took >= shifted+stood() {
				t.Errorf("lead %d, met %+v: its second message came %s after the first one, shifted it would have come after %s", id, met, took, shifted)
			}
		}
	}
	t.Logf("%d of %d leads had their first message before the pause; what came last came %s after its time", len(early), n, latest)
	for _, d := range r.disagreements(records) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}
}

// The receiver is away for a while in the middle of a launch: every message is
// delivered once it is back.
func receiverDown(t *testing.T, f *fleet) {
	n := scaled(600, 20_000)
	f.makeLeads(t, 31, n)
	r := newReceiver(t, func(waypost.Message, int) answer { return answer{status: http.StatusOK} })
	journeyID := f.publish(t, r.url, `{"name":"Down","start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":%q}]}`,
		scaled([]string{"1s", "2s", "3s"}, []string{"5s", "30s", "1m"})...)
	var l launched
	f.do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/launches", map[string]any{
		"audience": map[string]any{"filter": map[string]any{"leadsGroup": 31}}, "ratePerSecond": scaled(300, 4_000),
	}, &l)
	f.awaitLaunch(t, l.ID, launchTime, "at 30 %", func(l launched) bool { return l.Outcomes.Succeeded*10 >= n*3 })
	r.down()
	time.Sleep(scaled(6*time.Second, 2*time.Minute)) // so long it is away
	f.do(t, http.MethodGet, "/v1/launches/"+l.ID, nil, &l)
	// Few were attempted: the breaker holds the others back.
	if l.Outcomes.Deferred == 0 || l.Outcomes.Failed > 0 {
		t.Errorf("while the receiver is down, the launch is %+v", l)
	}
	r.up(t)
	l = f.awaitLaunch(t, l.ID, launchTime, "completed", func(l launched) bool { return l.Status == waypost.LaunchCompleted })
	if want := (waypost.OutcomeCounts{Succeeded: n}); l.Enrolled != n || l.Completed != n || l.Outcomes != want {
		t.Errorf("the launch counts %+v", l)
	}
	records := f.records(t, journeyID)
	if len(records) != n {
		t.Errorf("%d deliveries are recorded, want %d", len(records), n)
	}
	for _, d := range r.disagreements(records) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}
}
