package worker

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"waypost"
)

// cohortsInFlight is how many cohorts of API enrollments a process starts at a time.
// One is in flight from its claim until its first POSTs are under way, or the first
// activity of its workflow has answered. What is accepted meanwhile gathers, and shares
// the next cohort: a quiet system gives each enrollment a workflow of its own, and the
// busier it is the more of them share one. More than there are CPUs would wait for each
// other; one alone would hold up all who come after it, and with very many none would be
// left to share.
var cohortsInFlight = min(max(2, runtime.GOMAXPROCS(0)), 16)

const (
	// A workflow that another process works at cannot be seen to begin. Starts wait the
	// shorter the more of them are like that, and long again as soon as one begins here too
	// late.
	firstWait, leastFirstWait = time.Second, 10 * time.Millisecond
	// markEvery gathers cohorts that are marked as started. Nothing hurries: one that is
	// not marked is started again, which has no effect.
	markEvery = 50 * time.Millisecond
	// mostWay bounds how long others are given way.
	mostWay = 100 * time.Millisecond
)

// Bell is rung by processes that have no pump.
type Bell interface {
	// Await waits until somebody has rung, or some seconds. An error means that nobody
	// can be heard.
	Await(ctx context.Context) (rung bool, err error)
}

// Enrolled has the pump look at once for enrollments of the API. It never blocks.
func (p *Pump) Enrolled() {
	select {
	case p.enrolled <- struct{}{}:
	default: // it will look anyway
	}
}

// Acted notes that an activity of a workflow has ended in this process.
func (p *Pump) Acted(workflowID string) { p.firsts.come(workflowID) }

// TookOff notes that the POSTs of a workflow's batch are under way.
func (p *Pump) TookOff(workflowID string) {
	if waypost.IsID(waypost.PrefixEnrollment, workflowID) {
		p.hurried()
	}
	p.firsts.come(workflowID)
}

// hurried notes that enrollments of the API are under way: while they are, launches
// leave Temporal time for them.
func (p *Pump) hurried() { p.single.Store(time.Now().UnixMilli()) }

// GiveWay waits until no enrollment of the API is between its request and its first POSTs
// in this process, or for a tenth of a second. What comes after a message is more than half
// of the work: done at once it keeps others' messages waiting, whenever anything else does.
func (p *Pump) GiveWay(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, mostWay)
	defer cancel()
	for {
		over := p.rush.over()
		if over == nil {
			return
		}
		select {
		case <-over: // if no other has begun since
		case <-ctx.Done():
			return
		}
	}
}

// rush counts the places that enrollments are on their way with.
type rush struct {
	mu     sync.Mutex
	places int
	calm   chan struct{} // closed when there are none; nil if nobody waits for that
}

func (r *rush) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.places++
}

func (r *rush) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.places--; r.places == 0 && r.calm != nil {
		close(r.calm)
		r.calm = nil
	}
}

// over tells when the rush is over; nil if there is none.
func (r *rush) over() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.places == 0 {
		return nil
	}
	if r.calm == nil {
		r.calm = make(chan struct{})
	}
	return r.calm
}

// Enroll stores an enrollment of the API and sees to it that it is started. If nobody
// else waits and a place is free, it is claimed as it is stored, which saves a look for
// it. Otherwise, and while Temporal is away, it gathers with others.
func (p *Pump) Enroll(ctx context.Context, sc waypost.Scope, e waypost.Enrollment, r waypost.Reentry) (waypost.Enrollment, error) {
	var cohort *waypost.Cohort
	var err error
	offer := p.offer
	if p.refused.Load() > 0 {
		offer = nil
	}
	select {
	case <-offer:
		p.rush.begin()
		// There is room for each place. A write that hangs loses its own, lest the others
		// wait for it; whom it claims then gets the next one.
		late := time.AfterFunc(firstWait, func() { p.claimed <- nil })
		defer func() {
			switch {
			case late.Stop():
				p.claimed <- cohort
			case cohort != nil:
				go p.startLate(cohort)
			}
		}()
		e, cohort, err = p.outbox.EnrollClaimed(ctx, sc, e, r)
	default:
		e, err = p.outbox.Enroll(ctx, sc, e, r)
	}
	if err == nil && cohort == nil {
		p.Enrolled()
	}
	return e, err
}

// startLate has a cohort of a write that has lost its place started with the next one. If
// none is free for so long, it is found by others.
func (p *Pump) startLate(cohort *waypost.Cohort) {
	found := time.NewTimer(staleAfter)
	defer found.Stop()
	select {
	case p.places <- struct{}{}:
		p.rush.begin()
		p.claimed <- cohort
	case <-found.C:
	}
}

// startEnrollments starts the enrollments of the API, until ctx ends.
func (p *Pump) startEnrollments(ctx context.Context) {
	var starting sync.WaitGroup
	defer p.sending.Wait()
	defer starting.Wait()
	start := func(cohort *waypost.Cohort) {
		starting.Go(func() {
			defer func() { <-p.places }()
			p.begin(ctx, cohort)
		})
	}
	starting.Go(func() {
		for {
			select {
			case cohort := <-p.claimed:
				start(cohort)
			case <-ctx.Done():
				return
			}
		}
	})
	var none time.Time
	for {
		select {
		case p.places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		// While Temporal is away one at a time tries; the others go on gathering.
		for p.refused.Load() > 0 && len(p.places) > 1 && ctx.Err() == nil {
			sleep(ctx, noticesEvery, nil)
		}
		var cohort *waypost.Cohort
		if cohort, none = p.gathered(ctx, none); cohort != nil {
			p.rush.begin()
			start(cohort)
		} else if ctx.Err() != nil {
			return
		}
	}
}

// gathered claims the oldest enrollments of the API, as soon as there are any; none is
// when there were none, if that is known, and is told anew. It returns nil if Enroll has
// taken its place, or ctx ends.
func (p *Pump) gathered(ctx context.Context, none time.Time) (*waypost.Cohort, time.Time) {
	failures := 0
	for ctx.Err() == nil {
		if !none.IsZero() && p.rest(ctx, none) {
			return nil, none
		}
		var cohort *waypost.Cohort
		err := p.limited(ctx, func(ctx context.Context) (err error) {
			cohort, err = p.outbox.ClaimCohort(ctx)
			return err
		})
		none = time.Time{} // nobody rings again for those who wait
		if err != nil {
			failures++
			p.retryIn(ctx, "claim enrollments", failures, err)
			continue
		}
		failures = 0
		if cohort == nil || cohort.Last {
			none = time.Now()
		}
		if cohort != nil {
			return cohort, none
		}
	}
	return nil, none
}

// rest waits until somebody rings, or it is time to look again. Meanwhile Enroll may take
// its place.
func (p *Pump) rest(ctx context.Context, looked time.Time) (taken bool) {
	select {
	case <-p.enrolled: // since it has looked
		return false
	default:
	}
	select {
	case p.idle <- struct{}{}: // another process may ring now
	default:
	}
	again := time.NewTimer(time.Until(looked.Add(sweepEvery)))
	defer again.Stop()
	select {
	case <-p.enrolled:
	case <-again.C:
	case <-ctx.Done():
	case p.offer <- struct{}{}:
		return true
	}
	return false
}

// begin sends the first messages of a cohort, if that is possible ahead of its workflow,
// and starts that; nil is none. The rush is over once the messages have gone: others' go
// before the workflow of these is started.
func (p *Pump) begin(ctx context.Context, cohort *waypost.Cohort) {
	over := sync.OnceFunc(p.rush.end)
	defer over()
	if cohort == nil {
		return
	}
	if cohort.Ahead = p.sendAhead(ctx, *cohort); cohort.Ahead {
		over()
		p.GiveWay(ctx)
	}
	p.startGathered(ctx, *cohort)
}

// sendAhead tells whether messages of the cohort have been sent, or may be, ahead of its
// workflow. It waits no longer for that than for a first activity.
func (p *Pump) sendAhead(ctx context.Context, cohort waypost.Cohort) (sent bool) {
	if p.SendAhead == nil || p.refused.Load() > 0 {
		return false
	}
	done := make(chan bool, 1)
	p.sending.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, startTimeout)
		defer cancel()
		done <- p.SendAhead(ctx, cohort)
	})
	late := time.NewTimer(firstWait)
	defer late.Stop()
	select {
	case sent := <-done:
		return sent
	case <-late.C:
		return true
	}
}

// startGathered starts a cohort, and waits until it has begun.
func (p *Pump) startGathered(ctx context.Context, cohort waypost.Cohort) {
	begun := p.firsts.expect(cohort.ID)
	p.hurried()
	if err := p.start(ctx, cohort); err != nil {
		// It is not lost: it is claimed again after a while.
		p.firsts.forget(cohort.ID)
		p.retryIn(ctx, "start enrollments", int(p.refused.Add(1)), err)
		return
	}
	p.refused.Store(0)
	p.toMark.add(cohort.ID)
	wait := p.firsts.patience()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-begun:
		p.firsts.adapt(2 * wait)
	case <-timer.C:
		p.firsts.giveUp(cohort.ID, wait)
	case <-ctx.Done():
		p.firsts.forget(cohort.ID)
	}
}

// start has Temporal start the workflow of a cohort.
func (p *Pump) start(ctx context.Context, cohort waypost.Cohort) error {
	err := p.limited(ctx, func(ctx context.Context) error { return p.starter.StartCohort(ctx, cohort) })
	if err == nil {
		p.observe.Started(KindEnrollment, len(cohort.Members))
	}
	return err
}

// markGathered marks cohorts as started, some at a time.
func (p *Pump) markGathered(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		ids := p.toMark.take(ctx)
		if err := p.mark(ctx, ids); err != nil {
			p.toMark.add(ids...)
			failures++
			p.retryIn(ctx, "mark cohorts as started", failures, err)
			continue
		}
		failures = 0
		sleep(ctx, markEvery, nil)
	}
	if err := p.mark(context.WithoutCancel(ctx), p.toMark.take(ctx)); err != nil {
		p.log.Warn("cohorts that run could not be marked as started; they will be started again, without effect", "error", err)
	}
}

// mark marks cohorts as started. Those that are gone are none of its concern.
func (p *Pump) mark(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	err := p.limited(ctx, func(ctx context.Context) error { return p.outbox.MarkStarted(ctx, ids...) })
	if waypost.CodeOf(err) == waypost.CodeNotFound {
		return nil
	}
	return err
}

// hear wakes this pump when a bell is rung. It listens when it has been told to, if
// there is such a channel: who is busy leaves the ringing to others.
func (p *Pump) hear(ctx context.Context, bell Bell, when <-chan struct{}, wake func()) {
	for ctx.Err() == nil {
		if when != nil {
			select {
			case <-when:
			case <-ctx.Done():
				return
			}
		}
		rung, err := bell.Await(ctx)
		if err != nil {
			sleep(ctx, sweepEvery, nil) // until then what is written is found by looking
		}
		if rung {
			wake()
		}
	}
}

// gathering collects names until somebody takes them.
type gathering struct {
	mu    sync.Mutex
	names []string
	some  chan struct{}
}

func (g *gathering) add(names ...string) {
	g.mu.Lock()
	g.names = append(g.names, names...)
	g.mu.Unlock()
	select {
	case g.some <- struct{}{}:
	default:
	}
}

// take waits for names, or for ctx to end.
func (g *gathering) take(ctx context.Context) []string {
	select {
	case <-g.some:
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	names := g.names
	g.names = nil
	return names
}

// firsts are the workflows whose first activity somebody waits for.
type firsts struct {
	wait atomic.Int64  // time.Duration; 0: most
	most time.Duration // the longest wait; 0: firstWait

	mu sync.Mutex
	m  map[string]*first
}

type first struct {
	begun chan struct{}
	late  bool // nobody waits for it any more
}

// expect has a workflow waited for until it comes or is forgotten.
func (f *firsts) expect(workflowID string) (begun <-chan struct{}) {
	one := &first{begun: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.m == nil {
		f.m = map[string]*first{}
	}
	f.m[workflowID] = one
	return one.begun
}

// giveUp has the next ones waited for half as long. Should this one begin here after all,
// within some time, that was wrong.
func (f *firsts) giveUp(workflowID string, waited time.Duration) {
	f.adapt(waited / 2)
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.m[workflowID]; one != nil {
		one.late = true
		time.AfterFunc(2*f.longest(), func() { f.forget(workflowID) })
	}
}

func (f *firsts) forget(workflowID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.m, workflowID)
}

func (f *firsts) come(workflowID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.m[workflowID]
	if one == nil {
		return
	}
	delete(f.m, workflowID)
	if one.late {
		f.adapt(f.longest())
	}
	one.begun <- struct{}{}
}

// patience is how long a first activity is waited for.
func (f *firsts) patience() time.Duration {
	if wait := time.Duration(f.wait.Load()); wait > 0 {
		return wait
	}
	return f.longest()
}

func (f *firsts) longest() time.Duration { return cmp.Or(f.most, firstWait) }

func (f *firsts) adapt(wait time.Duration) {
	f.wait.Store(int64(min(max(wait, leastFirstWait), f.longest())))
}
