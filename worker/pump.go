package worker

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"waypost"
	"waypost/workflows"
)

// Outbox is where accepted enrollments, launches, imports and redeliveries wait for
// their workflow, and notices until their workflow is signaled.
type Outbox interface {
	enrollmentsOutbox
	launchesOutbox
	importsOutbox
	redeliveriesOutbox
	noticesOutbox
	segmentsOutbox
	foldsOutbox
}

// Starter starts workflows, again for the same cohort, launch, import or batch of
// redeliveries without effect, makes, renews and deletes the Schedules of launches that
// recur, and tells workflows to look at what has changed.
type Starter interface {
	StartCohort(ctx context.Context, cohort waypost.Cohort) error
	StartLaunch(ctx context.Context, l waypost.Launch) error
	DeleteSchedule(ctx context.Context, launchID string) error
	StartImport(ctx context.Context, im waypost.Import) error
	StartRedelivery(ctx context.Context, b waypost.RedeliveryBatch) error
	Wake(ctx context.Context, workflowID string, wake workflows.Wake) (runs bool, err error)
}

// Signal is sent by processes that have no pump.
type Signal interface {
	// Await waits for a signal, for some seconds at most. An error means that none can
	// come now.
	Await(ctx context.Context) (signaled bool, err error)
}

// Pump is the only way of enrollments, launches, imports, redeliveries and notices
// into Temporal.
// Enrollments of the API wait in toSend until their first messages are sent; then, if they
// are in no hurry, in grouping; and in toStart until their workflow is started. Those of
// the same journey version that wait at the same time share a workflow; in a quiet system
// each has its own. Several pumps, in one process or in many, share the work.
type Pump struct {
	// What may be set before Run. Now tells how long ago something was claimed; it is
	// time.Now otherwise. Other processes send signals when they have written something (All) or
	// only enrollments (Enrollments); nil are not listened to.
	Now              func() time.Time
	All, Enrollments Signal

	outbox  Outbox
	starter Starter
	engine  Engine
	observe PumpObserver
	log     *slog.Logger
	wakes   []chan struct{} // of the loops

	toSend, toStart queue
	grouping        grouping
	sending         sync.WaitGroup // ahead of workflows
	refused         atomic.Int32   // starts of enrollments in a row

	// When the last single enrollment, and the last cohort of a launch, was seen, in
	// Unix milliseconds: while there are single ones, launches leave Temporal time for them.
	single, launch atomic.Int64
}

const (
	// sweepEvery is how soon something is found whose writer could not wake this
	// pump.
	sweepEvery = time.Second
	// startTimeout bounds one start; Temporal answers within milliseconds or is away.
	startTimeout = 10 * time.Second
	maxPumpWait  = 10 * time.Second
	// While single enrollments were seen within singleTime, a loop of launches pauses
	// after each start for launchYield times what it took and yieldPause. So does that of
	// redeliveries, while launches were seen too, for redeliverYield times: its workflows
	// have half as many messages.
	singleTime     = 2 * time.Second
	launchYield    = 6
	redeliverYield = 4
	yieldPause     = 5 * time.Millisecond
)

// NewPump makes a pump; Run runs it. observe may be nil.
func NewPump(outbox Outbox, starter Starter, engine Engine, observe PumpObserver, log *slog.Logger) *Pump {
	if observe == nil {
		observe = unobserved{}
	}
	p := &Pump{outbox: outbox, starter: starter, engine: engine, observe: observe, log: log, Now: time.Now}
	p.toSend.some, p.toStart.some = make(chan struct{}, 1), make(chan struct{}, 1)
	p.grouping.groups = map[version]*waypost.Cohort{}
	p.wakes = make([]chan struct{}, len(p.loops()))
	for i := range p.wakes {
		p.wakes[i] = make(chan struct{}, 1)
	}
	return p
}

type unobserved struct{}

func (unobserved) Started(string, int) {}
func (unobserved) Signaled(int)        {}

// loop is one thing that the pump does over and over. It returns whether there
// may be more to do at once.
type loop struct {
	what  string
	every time.Duration
	do    func(*Pump, context.Context) (more bool, err error)
}

func (p *Pump) loops() []loop {
	loops := []loop{
		{"claim enrollments", sweepEvery, (*Pump).claimEnrollments}, // the first: see Enrolled
		{"start left enrollments", sweepEvery, (*Pump).startLeft},
		{"start launches", sweepEvery, (*Pump).startLaunches},
		{"delete schedules", sweepEvery, (*Pump).deleteSchedules},
		{"start imports", sweepEvery, (*Pump).startImports},
		{"redeliver", sweepEvery, (*Pump).redeliver},
		{"tell workflows", noticesEvery, func(p *Pump, ctx context.Context) (bool, error) { return p.tell(ctx, false) }},
		// A webhook that is enabled makes notices for many: those for single ones must not wait behind.
		{"tell workflows of changes for many", noticesEvery, func(p *Pump, ctx context.Context) (bool, error) { return p.tell(ctx, true) }},
		{"cancel", sweepEvery, (*Pump).sweepCanceled},
		{"tell subscriptions", sweepEvery, (*Pump).tellSubscriptions},
		{"look who has entered segments", checksEvery, (*Pump).checkSegments},
	}
	for range launched {
		loops = append(loops, loop{"start enrollments of launches", sweepEvery, (*Pump).startLaunched})
	}
	return loops
}

// Wake has the pump look at once for what there is to do. It never blocks.
func (p *Pump) Wake() {
	for _, ch := range p.wakes {
		wake(ch)
	}
}

// Enrolled has the pump look at once for enrollments that nobody has claimed. It never
// blocks.
func (p *Pump) Enrolled() { wake(p.wakes[0]) }

func wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default: // it is awake
	}
}

// Run pumps until ctx ends.
func (p *Pump) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { p.sendEnrollments(ctx) })
	for range starters {
		running.Go(func() { p.startEnrollments(ctx) })
	}
	if p.All != nil {
		running.Go(func() { p.listen(ctx, p.All, p.Wake) })
	}
	if p.Enrollments != nil {
		running.Go(func() { p.listen(ctx, p.Enrollments, p.Enrolled) })
	}
	for i, l := range p.loops() {
		running.Go(func() { p.run(ctx, l, p.wakes[i]) })
	}
	// These loops run by the clock alone: the more rows a fold finds, the less each of them costs.
	for _, fold := range []loop{
		{"fold statistics", sweepEvery, (*Pump).foldStatistics},
		{"fold the history of webhooks", foldEvery, (*Pump).foldHistory},
		{"fold the names of events", foldEvery, (*Pump).foldEventNames},
		{"announce ended launches", foldEvery, (*Pump).announceEndedLaunches},
		{"look for winners that launches wait for", winnersEvery, (*Pump).releaseHeld},
		{"read watched segments", sweepEvery, (*Pump).readSegments},
		{"look for waits that time may end", sweepEvery, (*Pump).lookAtWaits},
	} {
		running.Go(func() { p.run(ctx, fold, nil) })
	}
	running.Wait()
	p.sending.Wait()
	p.startClaimedLast(ctx)
}

// listen wakes this pump when the signal is sent.
func (p *Pump) listen(ctx context.Context, signal Signal, wake func()) {
	for ctx.Err() == nil {
		signaled, err := signal.Await(ctx)
		if err != nil {
			sleep(ctx, sweepEvery, nil) // until then what is written is found by looking
		}
		if signaled {
			wake()
		}
	}
}

func (p *Pump) run(ctx context.Context, l loop, wake <-chan struct{}) {
	failures := 0
	for ctx.Err() == nil {
		more, err := l.do(p, ctx)
		switch {
		case err != nil:
			// What was claimed is not lost: it is claimed again after a while.
			failures++
			p.retryIn(ctx, l.what, failures, err)
		case !more:
			failures = 0
			sleep(ctx, l.every, wake)
		default:
			failures = 0
		}
	}
}

// retryIn waits the longer the more failures there were in a row. It goes by their
// number, which several goroutines may count; a library's back-off is for one.
func (p *Pump) retryIn(ctx context.Context, what string, failures int, err error) {
	wait := min(100*time.Millisecond<<min(failures, 10), maxPumpWait)
	p.engine.Failed(err)
	if ctx.Err() == nil {
		p.log.Error(what+"; will retry", "in", wait.String(), "error", err)
	}
	sleep(ctx, wait, nil)
}

// lately tells whether something was seen within singleTime.
func lately(seen *atomic.Int64) bool {
	return time.Since(time.UnixMilli(seen.Load())) < singleTime
}

// yield pauses a loop that began something for the others' sake. The longer a start
// takes, the more waits for Temporal.
func yield(ctx context.Context, times int, took time.Duration) {
	sleep(ctx, time.Duration(times)*(took+yieldPause), nil)
}

func (p *Pump) limited(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return call(ctx)
}

// sleep waits for the time, for ctx to end, or to be woken.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}
