package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"waypost"
	"waypost/config"
	"waypost/devstack/harness"
	"waypost/store/storetest"
	"waypost/workflows"
)

// launchTime bounds how long a launch takes, faults included.
var launchTime = harness.Scaled(3*time.Minute, 20*time.Minute)

// shop is the journey of the fault runs.
func shop() modelJourney {
	return modelJourney{
		Delay: 2 * time.Second, Timeout: harness.Scaled(15*time.Second, 4*time.Minute), Since: true,
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
	harness.Besides(t)
	launchUnderKills(t)
}

// The same on PostgreSQL.
func TestScaleLaunchUnderKillsOnPostgres(t *testing.T) {
	harness.Besides(t)
	launchUnderKills(t, "WAYPOST_DATABASE_URL="+storetest.PostgresURL(t))
}

func launchUnderKills(t *testing.T, env ...string) {
	t.Helper()
	n := harness.Scaled(600, 20_000)
	f := harness.StartFleet(t, 2, 2, env...)
	leads := f.MakeLeads(t, 1, n)
	shoppers := map[int64]modelLead{}
	for i, id := range leads {
		shoppers[id] = shopper(i)
	}
	type arrived struct {
		lead int64
		at   time.Time
	}
	came := make(chan arrived, n) // leads whose first message has come: they are enrolled
	r := harness.NewReceiver(t, func(m waypost.Message, attempt int) harness.Answer {
		lead, node := harness.LeadOf(m), harness.NodeOf(m)
		if node == modelHello && attempt == 1 {
			came <- arrived{lead, time.Now()}
		}
		return shoppers[lead].Answers[node].answer(attempt)
	})
	journeyID := f.Publish(t, r.URL, shop().definition())

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
							f.Do(t, http.MethodPost, "/v1/events", map[string]any{
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
	var l harness.Launched
	began := time.Now()
	f.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/launches", map[string]any{"audience": map[string]any{"filter": map[string]any{"leadsGroup": 1}}}, &l)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for _, role := range victims {
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond) // the moment is to be random
		t.Logf("after %.1f s a %s is killed (seed %d)", time.Since(began).Seconds(), role, seed)
		f.KillOne(t, role, random, nil)
	}
	l = f.AwaitLaunch(t, l.ID, launchTime, "completed", func(l harness.Launched) bool { return l.Status == waypost.LaunchCompleted })
	t.Logf("%d leads in %.1f s: %+v", n, time.Since(began).Seconds(), l)
	if l.Total != n || l.Enrolled != n || l.Completed != n || l.Skipped != 0 {
		t.Errorf("the launch counts %+v", l)
	}

	records := f.Records(t, journeyID)
	enrolled := f.Enrollments(t, records)
	var ends []modelEnd
	tooLate := 0
	for i, id := range leads {
		lead := shoppers[id]
		if _, ok := late.Load(id); ok {
			tooLate++
			if strings.Contains(fmt.Sprint(enrolled[id].Way()), waypost.WhatTimedOut) {
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
		for _, d := range end.disagreements(e.Enrollment, e.Records) {
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
	for _, d := range r.Disagreements(records) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}
}

// What happens to launches while nobody is killed, on a deployment that they share.
func TestScale(t *testing.T) {
	harness.Besides(t)
	f := harness.StartFleet(t, 2, 2)
	t.Run("events", func(t *testing.T) { harness.Besides(t); events(t, f) })
	t.Run("pause and shift", func(t *testing.T) { harness.Besides(t); pause(t, f, 11, true) })
	t.Run("pause and skip", func(t *testing.T) { harness.Besides(t); pause(t, f, 12, false) })
}

// Ten events for each waiting lead, each sent twice, in any order: each counts
// once, and a workflow gets few signals for them.
func events(t *testing.T, f *harness.Fleet) {
	const each = 10
	n := harness.Scaled(100, 1_000)
	leads := f.MakeLeads(t, 21, n)
	r := harness.NewReceiver(t, func(waypost.Message, int) harness.Answer { return harness.Answer{Status: http.StatusOK} })
	// Every event satisfies the node once; it leads back to itself.
	journeyID := f.Publish(t, r.URL, fmt.Sprintf(`{"name":"Count","start":"count","nodes":[
		{"id":"count","type":"waitForEvent","event":"step","since":"enrollment","timeout":"%s","next":"count","onTimeout":"done"},
		{"id":"done","type":"touchpoint","webhook":%%q}]}`, harness.Scaled(20*time.Second, 60*time.Second)))
	var l harness.Launched
	began := time.Now()
	f.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/launches", map[string]any{"audience": map[string]any{"leadsIds": leads}}, &l)
	f.AwaitLaunch(t, l.ID, launchTime, "enrolled", func(l harness.Launched) bool { return l.Enrolled == n })
	// In rounds that have one event of every lead, so that nobody's node times out unless a
	// round takes half of its time; the second copies come anywhere.
	var order []int
	for round := range each {
		for _, lead := range rand.Perm(n) {
			order = append(order, round*n+lead)
		}
	}
	for event := range each * n {
		order = slices.Insert(order, rand.IntN(len(order)+1), event)
	}
	harness.Parallel(len(order), func(i int) {
		event := order[i]
		f.Do(t, http.MethodPost, "/v1/events", map[string]any{
			"eventId": fmt.Sprintf("step-%d", event), "name": "step", "leadsId": leads[event%n], "properties": map[string]any{"n": event / n},
		}, nil)
	})
	sent := time.Since(began)
	f.AwaitLaunch(t, l.ID, launchTime, "completed", func(l harness.Launched) bool { return l.Status == waypost.LaunchCompleted })

	want := append(slices.Repeat([]harness.Step{{Node: "count", What: waypost.WhatMatched}}, each),
		harness.Step{Node: "count", What: waypost.WhatTimedOut}, harness.Step{Node: "done", What: waypost.WhatSent}, harness.Step{Node: "done", What: waypost.WhatExited})
	enrolled := f.Enrollments(t, f.Records(t, journeyID))
	for _, id := range leads {
		if e := enrolled[id]; e.Status != waypost.EnrollmentCompleted || !slices.Equal(e.Way(), want) {
			t.Errorf("lead %d is %s, its way was %v", id, e.Status, e.Way())
		}
	}
	// One signal tells a workflow of all that has come in 200 ms.
	most := int(sent/(200*time.Millisecond)) + 5
	for id, signals := range signalsOf(t, f, journeyID) {
		if signals > most {
			t.Errorf("%s got %d signals in %s, at most %d are allowed", id, signals, sent, most)
		}
		t.Logf("%s: %d signals for %d events, sent in %s", id, signals, 2*each*n, sent)
	}
}

// signalsOf counts the signals in the histories of a journey's workflows.
func signalsOf(t *testing.T, f *harness.Fleet, journeyID string) map[string]int {
	t.Helper()
	temporal, err := client.Dial(client.Options{HostPort: f.Base.Profile.TemporalAddress})
	if err != nil {
		t.Fatal(err)
	}
	defer temporal.Close()
	executions := listed(t, temporal, fmt.Sprintf("WaypostJourney=%q AND WorkflowType=%q", journeyID, workflows.TypeJourney))
	if len(executions) == 0 {
		t.Fatalf("no workflow of %s is listed", journeyID)
	}
	counts := map[string]int{}
	for _, w := range executions {
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
// happens that the model says, not before its time; most of what was skipped comes
// earlier than it would have come shifted, all of it only on a machine that keeps up.
func pause(t *testing.T, f *harness.Fleet, group int, shift bool) {
	const (
		settle  = time.Second          // in which what was sent before the pause arrives
		rounded = 5 * time.Millisecond // times are rounded
	)
	j := modelJourney{Delay: harness.Scaled(8*time.Second, 20*time.Second), Timeout: 2 * time.Second, Schedule: []time.Duration{time.Second}}
	n := harness.Scaled(300, 20_000)
	stood := harness.Standstill(t)
	leads := f.MakeLeads(t, group, n)
	var mu sync.Mutex
	came := map[string]map[int64]time.Time{modelHello: {}, modelThanks: {}}
	r := harness.NewReceiver(t, func(m waypost.Message, _ int) harness.Answer {
		mu.Lock()
		defer mu.Unlock()
		came[harness.NodeOf(m)][harness.LeadOf(m)] = time.Now()
		return harness.Answer{Status: http.StatusOK}
	})
	journeyID := f.Publish(t, r.URL, j.definition())
	var l harness.Launched
	f.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/launches", map[string]any{
		"audience": map[string]any{"filter": map[string]any{"leadsGroup": group}}, "ratePerSecond": n / 10, // a slow machine has seven seconds between 30 % and all of them
	}, &l)
	f.AwaitLaunch(t, l.ID, launchTime, "enrolled at 30 %, and sending", func(l harness.Launched) bool {
		return l.Enrolled*10 >= n*3 && l.Outcomes.Succeeded > 0
	})
	f.Do(t, http.MethodPost, "/v1/launches/"+l.ID+"/pause", nil, &l)
	paused := time.Now()
	if l.Status != waypost.LaunchPaused || l.Enrolled >= n {
		t.Fatalf("the launch that was paused at 30 %% is %+v", l)
	}
	// What was sent before the pause is to arrive: an attempt that is under way is pending.
	f.AwaitLaunch(t, l.ID, launchTime, "at rest", func(l harness.Launched) bool { return l.Outcomes.Pending == 0 })
	mu.Lock()
	early := maps.Clone(came[modelHello])
	mu.Unlock()
	time.Sleep(j.Delay + settle) // all delays are to pass during the pause
	var standing []modelEnd
	for _, at := range early {
		standing = append(standing, j.end(modelLead{Pauses: []modelPause{{From: max(time.Millisecond, paused.Sub(at))}}}))
	}
	if got, want := r.Messages(), modelSum(standing).Attempts; got != want || want == 0 || want == n {
		t.Errorf("%d messages came before and during the pause, the model says %d", got, want)
	}
	f.Do(t, http.MethodGet, "/v1/launches/"+l.ID, nil, &l)
	if l.Status != waypost.LaunchPaused || l.Completed != 0 {
		t.Errorf("the paused launch is %+v", l)
	}
	resuming := time.Now()
	f.Do(t, http.MethodPost, "/v1/launches/"+l.ID+"/resume", map[string]any{"elapsedDelays": map[bool]string{true: "shift", false: "skip"}[shift]}, &l)
	if l.Status != waypost.LaunchRunning {
		t.Errorf("the resumed launch is %+v", l)
	}
	l = f.AwaitLaunch(t, l.ID, launchTime, "completed", func(l harness.Launched) bool { return l.Status == waypost.LaunchCompleted })
	if want := (waypost.OutcomeCounts{Succeeded: 2 * n}); l.Enrolled != n || l.Skipped != 0 || l.Completed != n || l.Outcomes != want {
		t.Errorf("the launch counts %+v", l)
	}

	records := f.Records(t, journeyID)
	enrolled := f.Enrollments(t, records)
	mu.Lock()
	defer mu.Unlock()
	latest, late := time.Duration(0), 0
	for _, id := range leads {
		began, met := came[modelHello][id], modelLead{}
		if began.Before(resuming) {
			// Waypost's own times lie between the request and its answer, so that its
			// pause is not shorter than this one. What had begun before arrived during it.
			met.Pauses = []modelPause{{From: max(time.Millisecond, paused.Sub(began)), To: resuming.Sub(began), Shift: shift}}
		}
		end := j.end(met)
		for _, d := range end.disagreements(enrolled[id].Enrollment, enrolled[id].Records) {
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
				late++
				t.Logf("lead %d, met %+v: its second message came %s after the first one, shifted it would have come after %s", id, met, took, shifted)
			}
		}
	}
	if late*2 > len(early) {
		t.Errorf("of %d leads that the launch was resumed for with skip, %d went on as late as with shift", len(early), late)
	}
	t.Logf("%d of %d leads had their first message before the pause; what came last came %s after its time", len(early), n, latest)
	for _, d := range r.Disagreements(records) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}
}
