package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"waypost"
)

// waiting is an Outbox in which only enrollments wait. Its zero value has nothing else
// to do, and panics if it is asked for more.
type waiting struct {
	Outbox
	mu       sync.Mutex
	next     int
	pending  []string
	left     []waypost.Cohort // claimed and not marked
	marked   []string
	looks    int    // calls of ClaimCohort
	claimed  func() // if any, right after a cohort was claimed
	calls    int    // of MarkStarted
	markFail error

	both       int           // calls of EnrollClaimed
	enrollFail error         // of those
	unclaimed  bool          // they enroll only
	hang       chan struct{} // if any, they hang until it is closed, or their context ends
}

func (w *waiting) add(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		w.next++
		w.pending = append(w.pending, fmt.Sprintf("enr_%022d", w.next))
	}
}

func (w *waiting) Enroll(_ context.Context, _ waypost.Scope, e waypost.Enrollment, _ waypost.Reentry) (waypost.Enrollment, error) {
	w.add(1)
	return e, nil
}

func (w *waiting) EnrollClaimed(ctx context.Context, _ waypost.Scope, e waypost.Enrollment, _ waypost.Reentry) (waypost.Enrollment, *waypost.Cohort, error) {
	if w.hang != nil {
		select {
		case <-w.hang:
		case <-ctx.Done():
			return e, nil, ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.both++; w.enrollFail != nil {
		return e, nil, w.enrollFail
	}
	w.next++
	e.ID = fmt.Sprintf("enr_%022d", w.next)
	if w.unclaimed {
		w.pending = append(w.pending, e.ID)
		return e, nil, nil
	}
	cohort := waypost.Cohort{ID: e.ID, Members: []waypost.CohortMember{{EnrollmentID: e.ID}}}
	w.left = append(w.left, cohort)
	return e, &cohort, nil
}

func (w *waiting) ClaimCohort(context.Context) (*waypost.Cohort, error) {
	cohort := w.claim()
	if cohort != nil && w.claimed != nil {
		w.claimed()
	}
	return cohort, nil
}

func (w *waiting) claim() *waypost.Cohort {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	n := min(len(w.pending), waypost.MaxCohort)
	if n == 0 {
		return nil
	}
	cohort := waypost.Cohort{ID: w.pending[0]}
	for _, id := range w.pending[:n] {
		cohort.Members = append(cohort.Members, waypost.CohortMember{EnrollmentID: id})
	}
	w.pending = w.pending[n:]
	w.left = append(w.left, cohort)
	cohort.Last = len(w.pending) == 0
	return &cohort
}

func (w *waiting) MarkStarted(_ context.Context, ids ...string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	if w.markFail != nil {
		err := w.markFail
		w.markFail = nil
		return err
	}
	w.marked = append(w.marked, ids...)
	return nil
}

// starting is a Temporal that starts cohorts when it is told to.
type starting struct {
	Starter
	started chan waypost.Cohort
	err     func() error
	ahead   func(waypost.Cohort) bool // nil sends nothing ahead
}

func (s *starting) StartCohort(_ context.Context, cohort waypost.Cohort) error {
	if s.err != nil {
		if err := s.err(); err != nil {
			return err
		}
	}
	s.started <- cohort
	return nil
}

// gathers runs the part of a pump that starts enrollments; it waits no longer than most
// for the first activity of each, by default if that is zero.
func gathers(t *testing.T, o *waiting, s *starting, most time.Duration) *Pump {
	t.Helper()
	s.started = make(chan waypost.Cohort, 1000)
	p := NewPump(o, s, nil, slog.New(slog.DiscardHandler))
	p.firsts.most = most
	if s.ahead != nil {
		p.SendAhead = func(_ context.Context, cohort waypost.Cohort) bool { return s.ahead(cohort) }
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.startEnrollments(ctx) })
	running.Go(func() { p.markGathered(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return p
}

// next is the cohort that is started next.
func (s *starting) next(t *testing.T) waypost.Cohort {
	t.Helper()
	select {
	case c := <-s.started:
		return c
	case <-time.After(20 * time.Second):
		t.Fatal("no cohort is started")
		panic("unreachable")
	}
}

// In a quiet system each enrollment has a workflow of its own; while as many are in
// flight as may be, what is accepted gathers and shares the next one.
func TestEnrollmentsGather(t *testing.T) {
	t.Parallel()
	o, s := &waiting{}, &starting{}
	p := gathers(t, o, s, time.Hour)
	var flying []waypost.Cohort
	for range cohortsInFlight {
		o.add(1)
		p.Enrolled()
		c := s.next(t)
		if len(c.Members) != 1 {
			t.Fatalf("%d enrollments share the workflow of a quiet system", len(c.Members))
		}
		flying = append(flying, c)
	}
	for range 40 {
		o.add(1)
		p.Enrolled()
	}
	p.Acted("another workflow")
	select {
	case c := <-s.started:
		t.Fatalf("a cohort of %d is started beside %d in flight", len(c.Members), cohortsInFlight)
	case <-time.After(50 * time.Millisecond):
	}
	p.Acted(flying[1].ID)
	if c := s.next(t); len(c.Members) != 40 {
		t.Errorf("the next workflow has %d of 40 enrollments", len(c.Members))
	}
	if p.single.Load() == 0 {
		t.Error("single enrollments were under way, and launches do not know it")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next != 40+cohortsInFlight || len(o.pending) != 0 {
		t.Errorf("%d of %d enrollments wait", len(o.pending), o.next)
	}
}

// Each enrollment of a quiet system takes one look, and one that comes right after the
// look for another waits for no sweep.
func TestOneLookEach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, s := &waiting{}, &starting{}
		p := gathers(t, o, s, 0)
		synctest.Wait() // it has found nothing
		began := time.Now()
		for range 20 {
			o.claimed = func() {
				o.claimed = nil
				o.add(1)
				p.Enrolled()
			}
			o.add(1)
			p.Enrolled()
			for range 2 {
				p.Acted((<-s.started).ID)
			}
			synctest.Wait()
		}
		if waited := time.Since(began); waited != 0 || o.looks != 1+2*20 {
			t.Errorf("40 enrollments took %d looks and waited %s", o.looks-1, waited)
		}
	})
}

// Who enrolls while nobody waits and a place is free is started without a look. With all
// places taken, or while Temporal is away, enrollments gather.
func TestEnrollClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		refuse := make(chan struct{})
		o, s := &waiting{}, &starting{err: func() error {
			if away.Load() {
				<-refuse
				return errors.New("temporal is away")
			}
			return nil
		}}
		p := gathers(t, o, s, time.Hour)
		synctest.Wait()
		looks := o.looks
		enroll := func(want error) {
			t.Helper()
			if _, err := p.Enroll(t.Context(), waypost.Scope{}, waypost.Enrollment{}, waypost.Reentry{}); !errors.Is(err, want) {
				t.Fatalf("enroll: %v, want %v", err, want)
			}
			synctest.Wait()
		}
		next := func(members int) waypost.Cohort {
			t.Helper()
			c := <-s.started
			if len(c.Members) != members {
				t.Fatalf("a cohort of %d, want %d", len(c.Members), members)
			}
			return c
		}

		began := time.Now()
		o.enrollFail = errors.New("the database is away")
		for range 2 * cohortsInFlight { // each gives its place back
			enroll(o.enrollFail)
		}
		o.enrollFail = nil
		var flying []waypost.Cohort
		for range cohortsInFlight {
			enroll(nil)
			flying = append(flying, next(1))
		}
		if o.looks != looks || len(o.left) != cohortsInFlight {
			t.Errorf("%d enrollments were claimed, and looked for %d times", len(o.left), o.looks-looks)
		}
		for range 3 {
			enroll(nil)
		}
		p.Acted(flying[0].ID)
		p.Acted(next(3).ID)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("they waited %s", waited)
		}
		for _, c := range flying[1:] {
			p.Acted(c.ID)
		}
		synctest.Wait()

		// Not claimed after all: it is looked for at once.
		o.unclaimed = true
		began = time.Now()
		enroll(nil)
		p.Acted(next(1).ID)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("what was not claimed waited %s", waited)
		}
		o.unclaimed = false
		synctest.Wait()

		away.Store(true)
		o.both = 0
		enroll(nil)
		close(refuse) // once the next place is offered
		for range 4 {
			synctest.Wait()
			enroll(nil)
		}
		if o.both != 1 {
			t.Errorf("%d enrollments were claimed as they were stored, want one, which found Temporal away", o.both)
		}
		away.Store(false)
		for len(s.started) == 0 { // who tries again next time waits a little
			time.Sleep(time.Second)
			enroll(nil)
		}
	})
}

// Writes that hang do not keep others from starting for long. What they store after all is
// started at once.
func TestEnrollHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, s := &waiting{hang: make(chan struct{})}, &starting{}
		p := gathers(t, o, s, 0)
		synctest.Wait()
		for range cohortsInFlight {
			go func() { _, _ = p.Enroll(t.Context(), waypost.Scope{}, waypost.Enrollment{}, waypost.Reentry{}) }()
			synctest.Wait()
		}
		if _, err := p.Enroll(t.Context(), waypost.Scope{}, waypost.Enrollment{}, waypost.Reentry{}); err != nil { // it finds no place
			t.Fatal(err)
		}
		began := time.Now()
		p.Acted((<-s.started).ID)
		if waited := time.Since(began); waited > firstWait {
			t.Errorf("it waited %s for writes that hang", waited)
		}

		time.Sleep(firstWait / 2)
		began = time.Now()
		close(o.hang)
		for range cohortsInFlight {
			p.Acted((<-s.started).ID)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("what hung waited %s once it was stored", waited)
		}
		synctest.Wait()
		if again := len(s.started); again > 0 {
			t.Errorf("%d are started again", again)
		}
	})
}

// What is over gives way to enrollments that are on their way, but not for long.
func TestGiveWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, s := &waiting{}, &starting{}
		p := gathers(t, o, s, time.Hour)
		synctest.Wait()
		gaveWay := func(ctx context.Context) chan time.Duration {
			done := make(chan time.Duration, 1)
			began := time.Now()
			go func() { p.GiveWay(ctx); done <- time.Since(began) }()
			return done
		}
		enroll := func() waypost.Cohort {
			t.Helper()
			if _, err := p.Enroll(t.Context(), waypost.Scope{}, waypost.Enrollment{}, waypost.Reentry{}); err != nil {
				t.Fatal(err)
			}
			return <-s.started
		}
		expect := func(what string, took <-chan time.Duration, want time.Duration) {
			t.Helper()
			if got := <-took; got != want {
				t.Errorf("%s: it took %s, want %s", what, got, want)
			}
		}
		const moment = mostWay / 10
		expect("nobody is on the way", gaveWay(t.Context()), 0)

		first, second := enroll(), enroll()
		waits := []chan time.Duration{gaveWay(t.Context()), gaveWay(t.Context())}
		time.Sleep(moment)
		p.TookOff(first.ID)
		time.Sleep(moment)
		p.TookOff(second.ID)
		for _, took := range waits {
			expect("both have taken off", took, 2*moment)
		}
		synctest.Wait()
		expect("all have", gaveWay(t.Context()), 0)

		o.add(1) // of another process's gateway
		p.Enrolled()
		gathered := <-s.started
		took := gaveWay(t.Context())
		time.Sleep(moment)
		p.TookOff(gathered.ID)
		expect("one was gathered", took, moment)

		o.enrollFail = errors.New("the database is away")
		_, _ = p.Enroll(t.Context(), waypost.Scope{}, waypost.Enrollment{}, waypost.Reentry{})
		synctest.Wait()
		expect("one was not stored", gaveWay(t.Context()), 0)
		o.enrollFail, o.hang = nil, make(chan struct{})
		go func() { _, _ = p.Enroll(t.Context(), waypost.Scope{}, waypost.Enrollment{}, waypost.Reentry{}) }()
		synctest.Wait()
		expect("one hangs", gaveWay(t.Context()), mostWay)
		ctx, cancel := context.WithTimeout(t.Context(), moment)
		defer cancel()
		expect("who waits is stopped", gaveWay(ctx), moment)
		time.Sleep(firstWait)
		expect("it has lost its place", gaveWay(t.Context()), 0)
	})
}

// A workflow is started when its messages have gone ahead, and those of others that are on
// their way; what Temporal refuses is not sent ahead of it.
func TestSendsAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const moment = mostWay / 10
		tries, goes := make(chan string, 10), make(chan bool)
		var refuses atomic.Bool
		o := &waiting{}
		s := &starting{
			ahead: func(cohort waypost.Cohort) bool { tries <- cohort.ID; return <-goes },
			err: func() error {
				if refuses.Load() {
					return errors.New("Temporal is away")
				}
				return nil
			},
		}
		p := gathers(t, o, s, time.Hour)
		synctest.Wait()
		enroll := func() {
			t.Helper()
			if _, err := p.Enroll(t.Context(), waypost.Scope{}, waypost.Enrollment{}, waypost.Reentry{}); err != nil {
				t.Fatal(err)
			}
		}
		ahead := map[string]bool{} // what workflows were told
		started := func() string {
			synctest.Wait()
			select {
			case c := <-s.started:
				ahead[c.ID] = c.Ahead
				return c.ID
			default:
				return ""
			}
		}
		enroll()
		enroll()
		first, second := <-tries, <-tries
		time.Sleep(moment)
		if id := started(); id != "" {
			t.Errorf("%s was started before its message had gone", id)
		}
		goes <- true
		if id := started(); id != "" {
			t.Errorf("%s was started while another message was on its way", id)
		}
		time.Sleep(moment)
		goes <- false // it has a delay first, say: it is on its way until it has begun
		one := started()
		time.Sleep(mostWay - 2*moment)
		if id := started(); one == "" || id != "" {
			t.Errorf("%q was started at once, want one of %q and %q; then %q", one, first, second, id)
		}
		p.TookOff(one)
		two := started()
		if two == "" || two == one || two != first && two != second {
			t.Errorf("then %q was started", two)
		}
		p.TookOff(two)
		synctest.Wait()
		if ahead[one] || !ahead[two] {
			t.Errorf("the workflows were told %v, want that the message of %q has gone", ahead, two)
		}

		enroll() // and the database does not answer
		hung := <-tries
		time.Sleep(firstWait + moment)
		if id := started(); id != hung || !ahead[hung] {
			t.Errorf("%q was started, told %t, while it is unknown whether its message has gone, want %q", id, ahead[hung], hung)
		}
		p.TookOff(hung)
		goes <- true
		synctest.Wait()

		refuses.Store(true)
		enroll()
		<-tries
		goes <- true
		time.Sleep(time.Minute)
		enroll()
		time.Sleep(time.Minute)
		if len(tries) > 0 {
			t.Error("a message was sent ahead of a workflow while Temporal was away")
		}
		refuses.Store(false)
		enroll()
		time.Sleep(time.Minute)
		p.TookOff(started())
		synctest.Wait()
		enroll()
		synctest.Wait()
		if len(tries) != 1 {
			t.Error("nothing is sent ahead when Temporal is back")
		}
		goes <- true
	})
}

// One that nobody rings for is found by the sweep, and if all places were taken until long
// after it, as soon as one is free.
func TestUnheardEnrollment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, s := &waiting{}, &starting{}
		p := gathers(t, o, s, time.Hour)
		synctest.Wait()
		began := time.Now()
		var last waypost.Cohort
		for range cohortsInFlight {
			o.add(1)
			last = <-s.started
		}
		if waited := time.Since(began); waited > time.Duration(cohortsInFlight)*sweepEvery {
			t.Errorf("%d enrollments were found after %s", cohortsInFlight, waited)
		}
		o.add(1)
		time.Sleep(2 * sweepEvery)
		began = time.Now()
		p.Acted(last.ID)
		<-s.started
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it waited %s more when a place was free", waited)
		}
	})
}

// Workflows that others begin hold up the next ones for a short time only.
func TestOthersBegin(t *testing.T) {
	t.Parallel()
	o, s := &waiting{}, &starting{}
	p := gathers(t, o, s, 0)
	for range 20 * cohortsInFlight {
		o.add(1)
		p.Enrolled()
		s.next(t)
	}
	if wait := p.firsts.patience(); wait != leastFirstWait {
		t.Errorf("each waits %s for a workflow that begins elsewhere", wait)
	}
	// One that begins here makes it patient again.
	o.add(1)
	p.Enrolled()
	for c := s.next(t); p.firsts.patience() == leastFirstWait; p.Acted(c.ID) {
		select {
		case c = <-s.started:
		default:
			o.add(1)
			p.Enrolled()
			c = s.next(t)
		}
	}
}

// One stall of the database does not make a pump start workflows without waiting for
// them: those that begin here are seen, however late.
func TestLateBeginnings(t *testing.T) {
	t.Parallel()
	o, s := &waiting{}, &starting{}
	p := gathers(t, o, s, time.Hour)
	p.firsts.adapt(leastFirstWait)
	o.add(1)
	p.Enrolled()
	late := s.next(t)
	for range 2 * cohortsInFlight { // its place is given to others
		o.add(1)
		p.Enrolled()
		s.next(t)
	}
	if wait := p.firsts.patience(); wait != leastFirstWait {
		t.Fatalf("each waits %s", wait)
	}
	for waited := true; waited; time.Sleep(time.Millisecond) { // until all are given up
		waited = false
		p.firsts.mu.Lock()
		for _, one := range p.firsts.m {
			waited = waited || !one.late
		}
		p.firsts.mu.Unlock()
	}
	p.Acted(late.ID)
	if wait := p.firsts.patience(); wait != time.Hour {
		t.Errorf("each waits %s for a workflow, although they begin here", wait)
	}
}

// What Temporal refuses is claimed, and left for later; the others are started, and
// marked as started some at a time, whatever the database does.
func TestGatheredAreMarked(t *testing.T) {
	t.Parallel()
	refused := 0
	o := &waiting{markFail: errors.New("the database is away")}
	var mu sync.Mutex
	s := &starting{err: func() error {
		mu.Lock()
		defer mu.Unlock()
		if refused++; refused <= 3 {
			return errors.New("temporal is away")
		}
		return nil
	}}
	p := gathers(t, o, s, 0)
	p.firsts.adapt(leastFirstWait)
	for range 3 { // each in a cohort of its own
		o.add(1)
		p.Enrolled()
		for claimed := false; !claimed; time.Sleep(time.Millisecond) {
			o.mu.Lock()
			claimed = len(o.pending) == 0
			o.mu.Unlock()
		}
	}
	o.mu.Lock()
	if len(o.left) != 3 {
		t.Errorf("%d cohorts were tried while Temporal was away, want 3, one after the other", len(o.left))
	}
	o.mu.Unlock()
	var started []string
	for range 30 {
		o.add(1)
		p.Enrolled()
		started = append(started, s.next(t).ID)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		o.mu.Lock()
		marked, calls, claimed := slices.Clone(o.marked), o.calls, len(o.left)
		o.mu.Unlock()
		if len(marked) == len(started) {
			slices.Sort(marked)
			slices.Sort(started)
			if !slices.Equal(marked, started) || calls > len(started) {
				t.Errorf("marked %v in %d calls, want %v", marked, calls, started)
			}
			if claimed != len(started)+3 || calls == 1 {
				t.Errorf("%d cohorts are claimed, want those %d and 3 that were refused; marked in %d calls", claimed, len(started), calls)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d cohorts are marked", len(marked), len(started))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// toldBell rings when it is told to.
type toldBell struct {
	rings  chan struct{}
	waits  chan struct{}
	broken bool
}

func (b *toldBell) Await(ctx context.Context) (bool, error) {
	if b.broken {
		return false, errors.New("redis is away")
	}
	select {
	case b.waits <- struct{}{}:
	default:
	}
	select {
	case <-b.rings:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// A pump whose places are taken leaves the bell to other processes.
func TestBusyPumpDoesNotListen(t *testing.T) {
	t.Parallel()
	o, s := &waiting{}, &starting{}
	p := gathers(t, o, s, time.Hour)
	bell := &toldBell{rings: make(chan struct{}), waits: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go p.hear(ctx, bell, p.idle, p.Enrolled)
	<-bell.waits // it is idle
	var flying []waypost.Cohort
	for range cohortsInFlight {
		o.add(1)
		bell.rings <- struct{}{}
		flying = append(flying, s.next(t))
		if len(flying) < cohortsInFlight {
			<-bell.waits
		}
	}
	// It may have begun to listen before the last place was taken; not again.
	select {
	case <-bell.waits:
	case <-time.After(50 * time.Millisecond):
	}
	select {
	case bell.rings <- struct{}{}:
	default:
	}
	select {
	case <-bell.waits:
		t.Error("it listens with all places taken")
	case <-time.After(50 * time.Millisecond):
	}
	for _, c := range flying {
		p.Acted(c.ID)
	}
	<-bell.waits
}
