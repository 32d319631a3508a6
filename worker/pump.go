package worker

import (
	"context"
	"errors"
	"fmt"
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
	Enroll(ctx context.Context, by waypost.Caller, e waypost.Enrollment, r waypost.Reentry) (waypost.Enrollment, error)
	AcceptEvent(ctx context.Context, by waypost.Caller, e waypost.Event) (inserted bool, err error)
	AcceptEventClaimed(ctx context.Context, by waypost.Caller, e waypost.Event) (inserted bool, claimed []waypost.Cohort, err error)
	EnrollClaimed(ctx context.Context, by waypost.Caller, e waypost.Enrollment, r waypost.Reentry) (waypost.Enrollment, *waypost.Cohort, error)
	ClaimEnrollments(ctx context.Context, claimedBefore time.Time) (*waypost.Cohort, error)
	FormCohort(ctx context.Context, claimed waypost.Cohort) (waypost.Cohort, error)
	ClaimLaunchCohorts(ctx context.Context, limit int) ([]waypost.Cohort, error)
	StaleCohorts(ctx context.Context, claimedBefore time.Time, limit int) ([]waypost.Cohort, error)
	MarkStarted(ctx context.Context, cohortIDs ...string) error

	UnstartedLaunches(ctx context.Context, claimedBefore time.Time, limit int) ([]waypost.Launch, error)
	AgedLaunches(ctx context.Context, claimedBefore time.Time, limit int) ([]waypost.Launch, error)
	MarkLaunchStarted(ctx context.Context, id string) error
	CanceledSchedules(ctx context.Context, limit int) (ids []string, err error)
	MarkScheduleDeleted(ctx context.Context, id string) error

	UnstartedImports(ctx context.Context, claimedBefore time.Time, limit int) ([]waypost.Import, error)
	MarkImportStarted(ctx context.Context, id string) error

	UnstartedRedeliveries(ctx context.Context, claimedBefore time.Time, limit int) ([]waypost.RedeliveryBatch, error)
	MarkRedeliveryStarted(ctx context.Context, id string) error
	RedeliveryStep(ctx context.Context) (more bool, err error)
	CancelLeftRounds(ctx context.Context, batchID string) error
	TellSubscriptions(ctx context.Context, limit int) (batches []waypost.RedeliveryBatch, more bool, err error)

	ClaimNotices(ctx context.Context, limit int, bulk bool) ([]waypost.Notice, error)
	DeleteNotices(ctx context.Context, ids []int64) error

	FoldWebhookHistory(ctx context.Context, limit int) (more bool, err error)

	CheckSegments(ctx context.Context, limit int) (more, acted bool, err error)
	ReadSegments(ctx context.Context) (more, acted bool, err error)
	LookAtWaits(ctx context.Context, limit int) (more, acted bool, err error)

	SweepCanceled(ctx context.Context, limit int) (more bool, err error)
	AnnounceEndedLaunches(ctx context.Context) (more bool, err error)
	ReleaseHeld(ctx context.Context, after string) (next string, err error)

	FoldStatistics(ctx context.Context, limit int) (more bool, err error)

	FoldEventNames(ctx context.Context, limit int) (more bool, err error)
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
	// noticesEvery is shorter: notices for a cohort wait for others of it, and nobody
	// wakes the pump when that time is over.
	noticesEvery = 250 * time.Millisecond
	// What was claimed and is not started after this time was left by a process that
	// ended, or the database's answer was lost.
	staleAfter = 10 * time.Second
	staleLimit = 20
	// startTimeout bounds one start; Temporal answers within milliseconds or is away.
	startTimeout = 10 * time.Second
	maxPumpWait  = 10 * time.Second
	// launched is the number of loops of launches: those have loops of their own, so that
	// a launch of a million does not keep one enrollment waiting.
	launched = 2
	// cohortsAtOnce is how many cohorts of launches one transaction claims.
	cohortsAtOnce = 2
	// While single enrollments were seen within singleTime, a loop of launches pauses
	// after each start for launchYield times what it took and yieldPause. So does that of
	// redeliveries, while launches were seen too, for redeliverYield times: its workflows
	// have half as many messages.
	singleTime     = 2 * time.Second
	launchYield    = 6
	redeliverYield = 4
	yieldPause     = 5 * time.Millisecond
	noticesAtOnce  = 1000
	cancelsAtOnce  = 500
	// foldsAtOnce are changes of statistics that one transaction adds to them.
	foldsAtOnce = 500
	foldEvery   = 5 * time.Second
	// winnersEvery is how late a launch that holds leads until an arm has won may hear of it.
	winnersEvery = 10 * time.Second
	// attemptsAtOnce are rows of attempts that one transaction adds to the history of webhooks.
	attemptsAtOnce = 1000
	// checksEvery is shorter, too: what workers record can have leads enter segments, and
	// wakes nobody.
	checksEvery  = 250 * time.Millisecond
	checksAtOnce = 200
	// eventsAtOnce are rows that one transaction adds to the counts of events' names.
	eventsAtOnce = 1000
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

// startLaunched starts cohorts that a launch has made.
func (p *Pump) startLaunched(ctx context.Context) (more bool, err error) {
	yields := lately(&p.single)
	n := cohortsAtOnce
	if yields {
		n = 1
	}
	cohorts, err := p.outbox.ClaimLaunchCohorts(ctx, n)
	if err != nil || len(cohorts) == 0 {
		return false, err
	}
	p.launch.Store(time.Now().UnixMilli())
	began := time.Now()
	if err := p.startCohorts(ctx, cohorts); err != nil {
		return false, err
	}
	if yields {
		yield(ctx, launchYield, time.Since(began))
	}
	return true, nil
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

// startLeft starts what was claimed and left.
func (p *Pump) startLeft(ctx context.Context) (more bool, err error) {
	cohorts, err := p.outbox.StaleCohorts(ctx, p.Now().Add(-staleAfter), staleLimit)
	if err != nil {
		return false, err
	}
	return len(cohorts) == staleLimit, p.startCohorts(ctx, cohorts)
}

// startCohorts starts each of the cohorts: one that Temporal refuses must not
// keep the others from starting.
func (p *Pump) startCohorts(ctx context.Context, cohorts []waypost.Cohort) error {
	var errs error
	var started []string
	for _, cohort := range cohorts {
		if err := p.limited(ctx, func(ctx context.Context) error { return p.starter.StartCohort(ctx, cohort) }); err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		p.observe.Started(KindEnrollment, len(cohort.Members))
		started = append(started, cohort.ID)
	}
	if len(started) == 0 {
		return errs
	}
	err := p.limited(ctx, func(ctx context.Context) error { return p.outbox.MarkStarted(ctx, started...) })
	if waypost.CodeOf(err) == waypost.CodeNotFound { // one has ended, and is gone
		err = nil
	}
	return errors.Join(errs, err)
}

// startLaunches starts launches, and renews the Schedules of those that recur: new ones
// first, of which none waits for more than staleLimit renewals.
func (p *Pump) startLaunches(ctx context.Context) (more bool, err error) {
	launches := unstarted[waypost.Launch]{
		kind: KindLaunch, find: p.outbox.UnstartedLaunches, id: func(l waypost.Launch) string { return l.ID },
		start: p.starter.StartLaunch, mark: p.outbox.MarkLaunchStarted,
	}
	if more, err = launches.startAll(ctx, p); err != nil || more {
		return more, err
	}
	renewals := launches
	renewals.kind, renewals.find = KindRenewal, p.outbox.AgedLaunches
	return renewals.startAll(ctx, p)
}

// deleteSchedules ends what opens the occurrences of launches that are canceled.
func (p *Pump) deleteSchedules(ctx context.Context) (more bool, err error) {
	ids, err := p.outbox.CanceledSchedules(ctx, staleLimit)
	if err != nil {
		return false, err
	}
	var errs error
	for _, id := range ids {
		err := p.limited(ctx, func(ctx context.Context) error { return p.starter.DeleteSchedule(ctx, id) })
		if err == nil {
			err = p.outbox.MarkScheduleDeleted(ctx, id)
		}
		errs = errors.Join(errs, err)
	}
	return len(ids) == staleLimit, errs
}

func (p *Pump) startImports(ctx context.Context) (more bool, err error) {
	imports := unstarted[waypost.Import]{
		kind: KindImport, find: p.outbox.UnstartedImports, id: func(im waypost.Import) string { return im.ID },
		start: p.starter.StartImport, mark: p.outbox.MarkImportStarted,
	}
	return imports.startAll(ctx, p)
}

// redeliver starts batches of messages that are to be delivered once more, and then
// has the next one made of a bulk redelivery: while Temporal is away none is made in
// advance.
func (p *Pump) redeliver(ctx context.Context) (more bool, err error) {
	began := time.Now()
	if more, err = p.redeliveries().startAll(ctx, p); err != nil || more {
		return more, err
	}
	if more, err = p.outbox.RedeliveryStep(ctx); err != nil || !more {
		return false, err
	}
	var took time.Duration
	if lately(&p.single) || lately(&p.launch) {
		took = time.Since(began)
	}
	yield(ctx, redeliverYield, took)
	return true, nil
}

// tellSubscriptions makes messages of what happened and starts the workflows that send them.
// A workflow that cannot be started is started later, by redeliver.
func (p *Pump) tellSubscriptions(ctx context.Context) (more bool, err error) {
	began := time.Now()
	batches, more, err := p.outbox.TellSubscriptions(ctx, waypost.MaxCohort)
	if err != nil || len(batches) == 0 {
		return more, err
	}
	var errs error
	for _, b := range batches {
		errs = errors.Join(errs, p.redeliveries().startOne(ctx, p, b))
	}
	if more && errs == nil && (lately(&p.single) || lately(&p.launch)) {
		yield(ctx, redeliverYield, time.Since(began))
	}
	return more, errs
}

// redeliveries are started as all that has a workflow of its own.
func (p *Pump) redeliveries() unstarted[waypost.RedeliveryBatch] {
	return unstarted[waypost.RedeliveryBatch]{
		kind: KindRedelivery, find: p.outbox.UnstartedRedeliveries, id: func(b waypost.RedeliveryBatch) string { return b.ID },
		start: p.starter.StartRedelivery, mark: p.outbox.MarkRedeliveryStarted,
	}
}

// unstarted is a kind of what has a workflow of its own, and how it is started.
type unstarted[T any] struct {
	kind  string
	find  func(ctx context.Context, claimedBefore time.Time, limit int) ([]T, error)
	id    func(T) string
	start func(context.Context, T) error
	mark  func(ctx context.Context, id string) error
}

// startAll starts all of a kind: one that Temporal refuses must not keep the others from
// starting.
func (u unstarted[T]) startAll(ctx context.Context, p *Pump) (more bool, err error) {
	found, err := u.find(ctx, p.Now().Add(-staleAfter), staleLimit)
	if err != nil {
		return false, err
	}
	var errs error
	for _, one := range found {
		errs = errors.Join(errs, u.startOne(ctx, p, one))
	}
	return len(found) == staleLimit, errs
}

// startOne starts what is claimed.
func (u unstarted[T]) startOne(ctx context.Context, p *Pump, one T) error {
	if err := p.limited(ctx, func(ctx context.Context) error { return u.start(ctx, one) }); err != nil {
		return err
	}
	p.observe.Started(u.kind, 1)
	if err := u.mark(ctx, u.id(one)); err != nil {
		return fmt.Errorf("mark %s %s as started: %w", u.kind, u.id(one), err)
	}
	return nil
}

// tell signals workflows, each once for all notices of one claim.
func (p *Pump) tell(ctx context.Context, bulk bool) (more bool, err error) {
	notices, err := p.outbox.ClaimNotices(ctx, noticesAtOnce, bulk)
	if err != nil {
		return false, err
	}
	var errs error
	var signaled []int64
	for _, g := range groupByWorkflow(notices) {
		if err := p.limited(ctx, func(ctx context.Context) error { return p.wakeOne(ctx, g) }); err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		p.observe.Signaled(len(g.ids))
		signaled = append(signaled, g.ids...)
	}
	if len(signaled) > 0 {
		if err := p.outbox.DeleteNotices(ctx, signaled); err != nil {
			errs = errors.Join(errs, fmt.Errorf("delete notices: %w", err))
		}
	}
	return len(notices) >= noticesAtOnce, errs // one claim has all for a workflow
}

// wakeOne signals a workflow. It cancels the open rounds of a redelivery whose workflow was
// terminated, because no workflow will.
func (p *Pump) wakeOne(ctx context.Context, g *wakeup) error {
	runs, err := p.starter.Wake(ctx, g.workflow, g.wake)
	if err == nil && !runs && waypost.IsID(waypost.PrefixRedeliveryBatch, g.workflow) {
		err = p.outbox.CancelLeftRounds(ctx, g.workflow)
	}
	return err
}

// wakeup is one signal to a workflow, and the ids of the notices that it stands for.
type wakeup struct {
	workflow string
	wake     workflows.Wake
	ids      []int64
}

// groupByWorkflow makes one wakeup for each workflow, in the order in which workflows first
// occur. A notice without an enrollment wakes the whole workflow, whatever the others name.
func groupByWorkflow(notices []waypost.Notice) []*wakeup {
	var groups []*wakeup
	byWorkflow := map[string]*wakeup{}
	whole := map[string]bool{}
	seen := map[[2]string]bool{}
	for _, n := range notices {
		g := byWorkflow[n.WorkflowID]
		if g == nil {
			g = &wakeup{workflow: n.WorkflowID}
			byWorkflow[n.WorkflowID] = g
			groups = append(groups, g)
		}
		g.ids = append(g.ids, n.ID)
		if n.EnrollmentID == "" {
			whole[n.WorkflowID] = true
		} else if key := [2]string{n.WorkflowID, n.EnrollmentID}; !seen[key] {
			seen[key] = true
			g.wake.Enrollments = append(g.wake.Enrollments, n.EnrollmentID)
		}
		if n.EventID != "" {
			g.wake.Events = append(g.wake.Events, n.EventID)
		}
	}
	for _, g := range groups {
		if whole[g.workflow] {
			g.wake.Enrollments = nil
		}
	}
	return groups
}

func (p *Pump) sweepCanceled(ctx context.Context) (more bool, err error) {
	return p.outbox.SweepCanceled(ctx, cancelsAtOnce)
}

// foldStatistics adds to the statistics of journeys what has changed of them.
func (p *Pump) foldStatistics(ctx context.Context) (more bool, err error) {
	return p.outbox.FoldStatistics(ctx, foldsAtOnce)
}

// checkSegments looks at leads of whom something was stored, and has the journeys go on that begin
// or end by the segments that they have entered.
func (p *Pump) checkSegments(ctx context.Context) (more bool, err error) {
	more, acted, err := p.outbox.CheckSegments(ctx, checksAtOnce)
	if acted {
		p.Wake()
	}
	return more, err
}

// readSegments reads watched segments as a whole, as time changes who is in them.
func (p *Pump) readSegments(ctx context.Context) (more bool, err error) {
	more, acted, err := p.outbox.ReadSegments(ctx)
	if acted {
		p.Wake()
	}
	return more, err
}

// lookAtWaits has conditions looked at that time may have made true.
func (p *Pump) lookAtWaits(ctx context.Context) (more bool, err error) {
	more, acted, err := p.outbox.LookAtWaits(ctx, checksAtOnce)
	if acted {
		p.Wake()
	}
	return more, err
}

// announceEndedLaunches notes which launches have ended, for those who are told of it.
func (p *Pump) announceEndedLaunches(ctx context.Context) (more bool, err error) {
	return p.outbox.AnnounceEndedLaunches(ctx)
}

// releaseHeld tells launches that hold leads that an arm has won.
func (p *Pump) releaseHeld(ctx context.Context) (more bool, err error) {
	for after := ""; ; {
		if after, err = p.outbox.ReleaseHeld(ctx, after); err != nil || after == "" {
			return false, err
		}
	}
}

// foldHistory adds to the history of webhooks what was attempted.
func (p *Pump) foldHistory(ctx context.Context) (more bool, err error) {
	return p.outbox.FoldWebhookHistory(ctx, attemptsAtOnce)
}

// foldEventNames adds to the counts of names which events were stored and deleted.
func (p *Pump) foldEventNames(ctx context.Context) (more bool, err error) {
	return p.outbox.FoldEventNames(ctx, eventsAtOnce)
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
