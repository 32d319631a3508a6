package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// The cases, in the order in which they run.
const (
	caseLaunch        = "launch"
	caseLaunchFail10  = "launch-fail10"
	caseLaunchFail20  = "launch-fail20"
	caseSingle        = "single"
	caseLatency       = "latency"
	caseLatencyLaunch = "latency-launch"
	caseLaunchDown    = "launch-down"
	caseBatch         = "temporal-batch"
	caseBare          = "bare"
	caseHistory       = "history"
	caseSleeping      = "sleeping"
	caseGet           = "get"
	caseCreate        = "create"
	caseList          = "list"
	caseHTTP          = "bare-http"
	caseImport        = "import"
	caseExport        = "export"
	caseIndex         = "index"
	caseSearch        = "search"
	caseGrowth        = "growth"
	caseStatistics    = "statistics"
	caseEnrollments   = "enrollments"
	caseSummary       = "summary"
	casePages         = "delivery-pages"
	caseLists         = "lists"
	caseCount         = "count"
	caseEvents        = "events"
	caseSegments      = "segments"
	caseEntry         = "entry"
	caseEntryLatency  = "entry-latency"
)

func caseNames() []string {
	return []string{
		caseLaunch, caseLaunchFail10, caseLaunchFail20, caseSingle, caseLatency, caseLatencyLaunch, caseLaunchDown, caseBatch, caseBare,
		caseGet, caseCreate, caseList, caseHTTP, caseImport, caseExport, caseIndex, caseSearch, caseHistory, caseSleeping,
		caseGrowth, caseStatistics, caseEnrollments, caseSummary, casePages, caseLists, caseCount,
		caseEvents, caseSegments, caseEntry, caseEntryLatency,
	}
}

// suites are the cases that answer a question together.
var suites = map[string][]string{
	"deliveries": {caseLaunch, caseLaunchFail10, caseLaunchFail20, caseSingle, caseLatency, caseLatencyLaunch, caseBatch, caseBare, caseHistory},
	"sleeping":   {caseSleeping},
	"entries":    {caseEntry, caseEntryLatency},
	"gateway":    {caseGet, caseCreate, caseList, caseHTTP},
	"imports":    {caseImport, caseExport},
	"search":     {caseIndex, caseSearch},
	"growth":     {caseGrowth},
	"asking":     {caseStatistics, caseEnrollments, caseSummary, casePages, caseLists, caseCount, caseEvents, caseSegments},
}

// How the bench works.
const (
	setupClients  = 16 // that make leads
	singleClients = 32
	bareConns     = 64
	warmUp        = 200 // single enrollments before anything is measured
	warmSeconds   = 5   // of latency before it is measured: as fast as it goes is not that case
	betweenRounds = 3 * time.Second
	launchPoll    = 100 * time.Millisecond
	checkAfter    = 10 * time.Second
	recordPoll    = 20 * time.Millisecond
	caseTime      = 30 * time.Minute // no case takes longer, however slow the machine
)

// The leads' groups.
const (
	groupLaunch = 1
	groupSingle = 2
	groupRest   = 3
	groupHist   = 4
	groupNew    = 5 // of leads that a case makes
	groupRows   = 6 // of leads that are listed and exported
)

// bench is a stack with what the cases need on it.
type bench struct {
	o        options
	stack    *stack
	client   *caller
	receiver *receiver
	report   *report
	tell     say

	runs    int      // that were prepared
	singles []int64  // leads for single enrollments
	bodies  [][]byte // messages that were delivered
}

// outcome is what one repetition of a case found.
type outcome struct {
	deliveries int
	metrics    []metric
	// check compares the ledger with the records; it is not measured.
	check func() error
}

// compare runs the cases on leads that they share.
func (b *bench) compare(ctx context.Context, cases []string) error {
	do := b.compared()
	if err := b.setUp(ctx, cases, do[caseLaunch]); err != nil {
		return err
	}
	// In turns: the machine is not as fast at all times, and what is compared is to be
	// measured within minutes.
	for i := range b.o.repeat {
		// Launches leave room for single enrollments while there are any: these are over.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(betweenRounds):
		}
		for _, name := range caseNames() {
			if !slices.Contains(cases, name) {
				continue
			}
			b.tell("%s, %d of %d", name, i+1, b.o.repeat)
			if err := b.stack.postgres.vacuum(ctx); err != nil {
				return err
			}
			if err := b.one(ctx, name, do[name]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// compared are the cases that compare runs.
func (b *bench) compared() map[string]func(context.Context) (outcome, error) {
	launch := func(s script, meanwhile func(context.Context, trial) error) func(context.Context) (outcome, error) {
		return func(ctx context.Context) (outcome, error) { return b.launch(ctx, s, meanwhile) }
	}
	return map[string]func(context.Context) (outcome, error){
		caseLaunch:        launch(script{}, nil),
		caseLaunchFail10:  launch(script{10, b.o.refuse}, nil),
		caseLaunchFail20:  launch(script{20, b.o.refuse}, nil),
		caseLaunchDown:    launch(script{}, b.takeDown),
		caseSingle:        b.single,
		caseLatency:       b.latency,
		caseLatencyLaunch: b.latencyBesideLaunch,
		caseEntry:         b.entry,
		caseEntryLatency:  b.entryLatency,
		caseBatch:         b.batch,
		caseBare:          b.bare,
		caseGet:           b.get,
		caseCreate:        b.create,
		caseList:          b.list,
		caseHTTP:          b.bareHTTP,
		caseImport:        b.importAll,
		caseExport:        b.export,
		caseIndex:         b.index,
		caseSearch:        b.search,
	}
}

// setUp imports the leads that the cases need and warms up what they measure; launch is
// the case of that name.
func (b *bench) setUp(ctx context.Context, cases []string, launch func(context.Context) (outcome, error)) error {
	singles := map[string]int{
		caseSingle: b.o.singles, caseLatency: b.o.rate * (warmSeconds + b.o.seconds),
		caseLatencyLaunch: max(10*b.o.beside, b.o.leads/10),
		caseEntry:         b.o.entries * b.o.seconds, caseEntryLatency: b.o.rate * (warmSeconds + b.o.seconds),
	}
	audience, rows, most := 0, 0, 0
	for _, name := range cases {
		switch name {
		case caseLaunch, caseLaunchFail10, caseLaunchFail20, caseLatencyLaunch, caseLaunchDown:
			audience = b.o.leads
		case caseList, caseExport:
			rows = b.o.rows
		}
		most = max(most, singles[name])
	}
	if err := b.importLeads(ctx, groupLaunch, audience); err != nil {
		return err
	}
	if err := b.importLeads(ctx, groupRows, rows); err != nil {
		return err
	}
	if err := b.warm(ctx, most); err != nil {
		return err
	}
	if audience == 0 {
		return nil
	}
	b.tell("launch, to warm up")
	return unmeasured(ctx, launch)
}

// warm makes n leads for single enrollments, and some more if they are few, and
// enrolls some before anything is measured.
func (b *bench) warm(ctx context.Context, n int) error {
	b.singles = make([]int64, max(warmUp, n))
	if err := b.makeLeads(ctx, groupSingle, b.singles); err != nil {
		return err
	}
	return unmeasured(ctx, func(ctx context.Context) (outcome, error) { return b.enrollSingles(ctx, warmUp) })
}

// unmeasured runs a case to warm up; what it delivers is compared all the same.
func unmeasured(ctx context.Context, do func(context.Context) (outcome, error)) error {
	got, err := do(ctx)
	if err == nil {
		err = got.check()
	}
	if err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	return nil
}

// one runs a case once.
func (b *bench) one(ctx context.Context, name string, do func(context.Context) (outcome, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, caseTime, fmt.Errorf("it takes longer than %s", caseTime))
	defer cancel()
	before, host := begin(b.stack.watched), readHostTimes()
	families := watchFamilies(b.stack.watched)
	got, err := do(ctx)
	peaks := families()
	after := look(b.stack.watched)
	for name, peak := range peaks {
		c := after[name]
		c.peak = peak
		after[name] = c
	}
	if err != nil {
		return err
	}
	if got.check != nil {
		if err := got.check(); err != nil {
			return err
		}
	}
	if share, ok := readHostTimes().stolenSince(host); ok {
		got.metrics = append(got.metrics, metric{"steal %", 100 * share})
	}
	b.report.add(name, got, before, after)
	return nil
}

// makeLeads makes leads of a group, each with a call of its own, and notes their ids.
func (b *bench) makeLeads(ctx context.Context, group int, ids []int64) error {
	b.tell("make %d leads", len(ids))
	return parallel(ctx, len(ids), setupClients, func(ctx context.Context, i int) error {
		var made struct{ LeadsID int64 }
		err := b.client.Do(ctx, http.MethodPost, "/v1/leads", map[string]any{"businessParam": lead(group, i)}, &made)
		ids[i] = made.LeadsID
		return err
	})
}

// lead is the i-th lead of a group.
func lead(group, i int) map[string]any {
	return map[string]any{
		"name": fmt.Sprintf("Lin Xiaomei %d", i), "leadsGroup": group, "gender": i % 3, "region": 310000 + i%100,
		"mobilePhone": []string{fmt.Sprintf("+86 13%d %08d", group, i)}, "email": fmt.Sprintf("lead.%d.%d@example.com", group, i),
		"externalId":   fmt.Sprintf("crm-%d-%d", group, i),
		"customFields": map[string]any{"tier": "gold", "points": i},
	}
}

// trial is a journey of its own with its webhook and its ledger.
type trial struct {
	journeyID string
	ledger    *ledger
}

// touchpoint is a journey of one message.
const touchpoint = `{"name":"Bench","start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":%q,
	"params":{"greeting":"Hello {{ lead.name }}","points":"{{ lead.customFields.points }}","campaign":"spring"}}]}`

// prepare publishes a journey; the definition's %q is its webhook.
func (b *bench) prepare(ctx context.Context, definition string, s script) (trial, error) {
	b.runs++
	path := fmt.Sprintf("/run-%d", b.runs)
	var made struct{ ID string }
	if err := b.client.Do(ctx, http.MethodPost, "/v1/webhooks", map[string]any{
		"name": "bench", "url": b.receiver.url + path,
		"params": map[string]any{"shop": "Waypost", "locale": "en"},
		"retry":  map[string]any{"schedule": b.o.retry, "giveUpAfter": "10m"},
	}, &made); err != nil {
		return trial{}, err
	}
	if err := b.client.Do(ctx, http.MethodPost, "/v1/journeys", raw(fmt.Sprintf(definition, made.ID)), &made); err != nil {
		return trial{}, err
	}
	if err := b.client.Do(ctx, http.MethodPost, "/v1/journeys/"+made.ID+"/publish", nil, nil); err != nil {
		return trial{}, err
	}
	return trial{made.ID, b.receiver.begin(path, s)}, nil
}

// raw is JSON that is sent as it is.
type raw string

// MarshalJSON implements json.Marshaler.
func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// check compares the trial's ledger with its records.
func (b *bench) check(ctx context.Context, t trial, messages int) error {
	records, err := b.client.deliveries(ctx, t.journeyID)
	if err != nil {
		return err
	}
	if len(records) != messages {
		return fmt.Errorf("%d deliveries are recorded, want %d", len(records), messages)
	}
	if n := b.receiver.stray.Load(); n > 0 {
		return fmt.Errorf("%d POSTs came that belong to no case that runs", n)
	}
	if err := t.ledger.compare(records); err != nil {
		return err
	}
	if len(b.bodies) == 0 {
		b.bodies = t.ledger.bodies()
	}
	return nil
}

// launched is what we read of a launch.
type launched struct {
	LaunchID string `json:"launchId"`
	Status   string `json:"status"`
}

func (b *bench) startLaunch(ctx context.Context, journeyID string, group int) (launched, error) {
	var l launched
	err := b.client.Do(ctx, http.MethodPost, "/v1/journeys/"+journeyID+"/launches",
		map[string]any{"audience": map[string]any{"filter": map[string]any{"leadsGroup": group}}}, &l)
	return l, err
}

// awaitLaunch returns when every enrollment of the launch has ended. Before so many
// messages have arrived for good it asks seldom: the answer is known, and counting
// costs what is to be measured.
func (b *bench) awaitLaunch(ctx context.Context, l launched, t trial, messages int) error {
	asked := time.Now()
	return until(ctx, recordPoll, caseTime, "the launch is not completed", func() (bool, error) {
		if t.ledger.messages() < messages && time.Since(asked) < checkAfter {
			return false, nil
		}
		asked = time.Now()
		if err := b.client.Do(ctx, http.MethodGet, "/v1/launches/"+l.LaunchID, nil, &l); err != nil {
			return false, err
		}
		if l.Status == "canceled" {
			return false, errors.New("the launch was canceled")
		}
		return l.Status == "completed", nil
	})
}

// launch is a launch to everybody; meanwhile, if not nil, is done during it.
func (b *bench) launch(ctx context.Context, s script, meanwhile func(context.Context, trial) error) (outcome, error) {
	t, err := b.prepare(ctx, touchpoint, s)
	if err != nil {
		return outcome{}, err
	}
	began := time.Now()
	l, err := b.startLaunch(ctx, t.journeyID, groupLaunch)
	if err != nil {
		return outcome{}, err
	}
	if meanwhile != nil {
		if err := meanwhile(ctx, t); err != nil {
			return outcome{}, err
		}
	}
	if err := b.awaitLaunch(ctx, l, t, b.o.leads); err != nil {
		return outcome{}, err
	}
	took := time.Since(began)
	return outcome{
		deliveries: b.o.leads,
		metrics:    []metric{{"deliveries/s", float64(b.o.leads) / took.Seconds()}, {"seconds", took.Seconds()}},
		check:      func() error { return b.check(ctx, t, b.o.leads) },
	}, nil
}

// takeDown makes the receiver refuse connections once a third of the launch has
// arrived.
func (b *bench) takeDown(ctx context.Context, t trial) error {
	if err := until(ctx, recordPoll, caseTime, "no third of the launch arrives", func() (bool, error) { return t.ledger.messages()*3 >= b.o.leads, nil }); err != nil {
		return err
	}
	t.ledger.cut.Store(true)
	b.receiver.close()
	select {
	case <-time.After(b.o.down):
	case <-ctx.Done():
	}
	return errors.Join(b.receiver.listen(), context.Cause(ctx))
}

func (b *bench) single(ctx context.Context) (outcome, error) {
	return b.enrollSingles(ctx, b.o.singles)
}

// enrollSingles enrolls n leads, each with a call of its own.
func (b *bench) enrollSingles(ctx context.Context, n int) (outcome, error) {
	t, err := b.prepare(ctx, touchpoint, script{})
	if err != nil {
		return outcome{}, err
	}
	began := time.Now()
	err = parallel(ctx, n, singleClients, func(ctx context.Context, i int) error {
		return b.enroll(ctx, t.journeyID, b.singles[i])
	})
	if err != nil {
		return outcome{}, err
	}
	accepted := time.Since(began)
	if err := b.awaitRecorded(ctx, t, n); err != nil {
		return outcome{}, err
	}
	took := time.Since(began)
	return outcome{
		deliveries: n,
		metrics:    []metric{{"deliveries/s", float64(n) / took.Seconds()}, {"accepted/s", float64(n) / accepted.Seconds()}},
		check:      func() error { return b.check(ctx, t, n) },
	}, nil
}

func (b *bench) enroll(ctx context.Context, journeyID string, leadsID int64) error {
	return b.client.Do(ctx, http.MethodPost, "/v1/journeys/"+journeyID+"/enrollments", map[string]any{"leadsId": leadsID}, nil)
}

// awaitRecorded returns when all n messages have arrived and their outcomes are
// recorded.
func (b *bench) awaitRecorded(ctx context.Context, t trial, n int) error {
	return until(ctx, recordPoll, caseTime, "not everything is delivered", func() (bool, error) {
		if t.ledger.messages() < n {
			return false, nil
		}
		open, err := b.client.undecided(ctx, t.journeyID)
		return !open, err
	})
}

// latency enrolls at a fixed rate, whatever the answers do.
func (b *bench) latency(ctx context.Context) (outcome, error) {
	t, err := b.prepare(ctx, touchpoint, script{})
	if err != nil {
		return outcome{}, err
	}
	return b.steady(ctx, t, b.o.rate, warmSeconds, b.entering(t))
}

// byEvent is touchpoint, begun by events of a name.
const byEvent = `{"name":"Bench","start":"hello","entry":[{"event":"%s","when":"event.total > 50 && lead.region != 7","entryKey":"event.cartId"}],
	"nodes":[{"id":"hello","type":"touchpoint","webhook":%%q,
	"params":{"greeting":"Hello {{ lead.name }}","total":"{{ enrollment.event.properties.total }}","campaign":"spring"}}]}`

// entry sends events at a fixed rate of which each begins a journey.
func (b *bench) entry(ctx context.Context) (outcome, error) { return b.begin(ctx, b.o.entries, 0) }

// entryLatency is latency by events.
func (b *bench) entryLatency(ctx context.Context) (outcome, error) {
	return b.begin(ctx, b.o.rate, warmSeconds)
}

func (b *bench) begin(ctx context.Context, perSecond, warm int) (outcome, error) {
	name := fmt.Sprintf("cart-%d", b.runs)
	t, err := b.prepare(ctx, fmt.Sprintf(byEvent, name), script{})
	if err != nil {
		return outcome{}, err
	}
	got, err := b.steady(ctx, t, perSecond, warm, func(ctx context.Context, lead int64) error {
		return b.client.Do(ctx, http.MethodPost, "/v1/events", map[string]any{
			"eventId": fmt.Sprintf("%s-%d", name, lead), "name": name, "leadsId": lead, "properties": map[string]any{"total": 120.5, "cartId": lead},
		}, nil)
	})
	// The next case's events begin one journey, not this one too.
	return got, errors.Join(err, b.client.Do(ctx, http.MethodPost, "/v1/journeys/"+t.journeyID+"/archive", nil, nil))
}

// entering enrolls a lead by a call.
func (b *bench) entering(t trial) func(context.Context, int64) error {
	return func(ctx context.Context, lead int64) error { return b.enroll(ctx, t.journeyID, lead) }
}

// steady has leads enter at a fixed rate, and measures the times to their messages; those of the
// first warm seconds do not count.
func (b *bench) steady(ctx context.Context, t trial, perSecond, warm int, enter func(context.Context, int64) error) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(b.o.seconds)*time.Second+caseTime)
	defer cancel()
	n := perSecond * (warm + b.o.seconds)
	stop := make(chan struct{})
	began := time.Now()
	sent, err := b.enterSteadily(ctx, enter, perSecond, n, stop)
	took := time.Since(began)
	if err != nil {
		return outcome{}, err
	}
	if err := b.awaitRecorded(ctx, t, n); err != nil {
		return outcome{}, err
	}
	maps.DeleteFunc(sent, func(_ int64, at time.Time) bool { return at.Sub(began) < time.Duration(warm)*time.Second })
	metrics, err := latencies(t.ledger, sent)
	metrics = append(metrics, metric{"sent/s", float64(n) / took.Seconds()})
	// The check runs after this function has returned and its context is over.
	return outcome{deliveries: n, metrics: metrics, check: func() error { return b.check(context.WithoutCancel(ctx), t, n) }}, err
}

// latencyBesideLaunch enrolls others into the very journey, with the very
// webhook, that a launch fills at the same time.
func (b *bench) latencyBesideLaunch(ctx context.Context) (outcome, error) {
	t, err := b.prepare(ctx, touchpoint, script{})
	if err != nil {
		return outcome{}, err
	}
	began := time.Now()
	l, err := b.startLaunch(ctx, t.journeyID, groupLaunch)
	if err != nil {
		return outcome{}, err
	}
	stop := make(chan struct{})
	var waited error
	var took time.Duration
	go func() {
		defer close(stop)
		waited = b.awaitLaunch(ctx, l, t, b.o.leads)
		took = time.Since(began)
	}()
	sent, err := b.enterSteadily(ctx, b.entering(t), b.o.beside, len(b.singles), stop)
	<-stop
	if err := errors.Join(err, waited); err != nil {
		return outcome{}, err
	}
	n := b.o.leads + len(sent)
	if err := b.awaitRecorded(ctx, t, n); err != nil {
		return outcome{}, err
	}
	metrics, err := latencies(t.ledger, sent)
	metrics = append(metrics, metric{"singles", float64(len(sent))}, metric{"launch deliveries/s", float64(b.o.leads) / took.Seconds()})
	return outcome{deliveries: n, metrics: metrics, check: func() error { return b.check(ctx, t, n) }}, err
}

// enterSteadily sends perSecond requests a second until it has sent n or stop is
// closed; a slow answer delays no other request, and what this process was late with it
// makes up for. It returns when each was sent.
func (b *bench) enterSteadily(ctx context.Context, enter func(context.Context, int64) error, perSecond, n int, stop <-chan struct{}) (map[int64]time.Time, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sent := make(map[int64]time.Time, n)
	var running sync.WaitGroup
	began := time.Now()
	for open := true; open && len(sent) < n; {
		due := began.Add(time.Duration(len(sent)) * time.Second / time.Duration(perSecond)) // the first one at once: a small launch beside it is over soon
		select {
		case <-stop:
			open = false
			continue
		case <-ctx.Done():
			open = false
			continue
		case <-time.After(time.Until(due)):
		}
		lead := b.singles[len(sent)]
		sent[lead] = time.Now()
		running.Go(func() {
			if err := enter(ctx, lead); err != nil {
				cancel(err)
			}
		})
	}
	running.Wait()
	return sent, context.Cause(ctx)
}

// latencies are the times from sending a request to receiving its message.
func latencies(l *ledger, sent map[int64]time.Time) ([]metric, error) {
	var all []time.Duration
	l.each(func(_ string, a received) {
		if at, ok := sent[a.leadsID]; ok {
			all = append(all, a.first.Sub(at))
		}
	})
	if len(all) != len(sent) || len(all) == 0 {
		return nil, fmt.Errorf("%d of %d single enrollments arrived", len(all), len(sent))
	}
	slices.Sort(all)
	return []metric{{"p50 ms", quantile(all, 0.50)}, {"p99 ms", quantile(all, 0.99)}, {"max ms", quantile(all, 1)}}, nil
}
