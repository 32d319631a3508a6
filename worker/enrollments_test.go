package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"waypost"
)

// waiting is an Outbox in which only enrollments wait.
type waiting struct {
	leftOutbox
	mu       sync.Mutex
	next     int
	pending  []string // of version 1, and claimed by nobody
	claims   int      // of what nobody had claimed
	marked   []string
	err      error // of every call
	formFail error
}

func (w *waiting) add(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		w.pending = append(w.pending, w.id())
	}
}

func (w *waiting) id() string {
	w.next++
	return fmt.Sprintf("enr_%022d", w.next)
}

func of(version int, ids ...string) waypost.Cohort {
	c := waypost.Cohort{Version: waypost.JourneyVersion{JourneyID: "jrn_1", Version: version}}
	for _, id := range ids {
		c.Members = append(c.Members, waypost.CohortMember{EnrollmentID: id})
	}
	return c
}

func (w *waiting) Enroll(_ context.Context, _ waypost.Caller, e waypost.Enrollment, _ waypost.Reentry) (waypost.Enrollment, error) {
	w.add(1)
	return e, nil
}

func (w *waiting) EnrollClaimed(_ context.Context, _ waypost.Caller, e waypost.Enrollment, _ waypost.Reentry) (waypost.Enrollment, *waypost.Cohort, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return e, nil, w.err
	}
	e.ID = w.id()
	claimed := of(e.Version, e.ID)
	return e, &claimed, nil
}

func (w *waiting) ClaimEnrollments(context.Context, time.Time) (*waypost.Cohort, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.pending), waypost.MaxCohort)
	if n == 0 {
		return nil, nil
	}
	w.claims += n
	claimed := of(1, w.pending[:n]...)
	w.pending = w.pending[n:]
	return &claimed, nil
}

func (w *waiting) FormCohort(_ context.Context, c waypost.Cohort) (waypost.Cohort, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.formFail != nil {
		return waypost.Cohort{}, w.formFail
	}
	c.ID = c.Members[0].EnrollmentID
	return c, nil
}

func (w *waiting) MarkStarted(_ context.Context, ids ...string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marked = append(w.marked, ids...)
	return nil
}

// starting is a Temporal that starts cohorts unless it is away, and an Engine.
type starting struct {
	Starter
	started chan waypost.Cohort
	away    error
	send    func(waypost.Cohort) (canWait bool)

	mu     sync.Mutex
	sent   []waypost.Cohort
	spread []bool // whether their retries were not coalesced
	failed int
}

func (s *starting) StartCohort(_ context.Context, cohort waypost.Cohort) error {
	if s.away != nil {
		return s.away
	}
	s.started <- cohort
	return nil
}

func (s *starting) SendAhead(_ context.Context, claimed waypost.Cohort, coalesce bool) bool {
	s.mu.Lock()
	s.sent, s.spread = append(s.sent, claimed), append(s.spread, !coalesce)
	s.mu.Unlock()
	return s.send == nil || s.send(claimed)
}

func (s *starting) Failed(error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed++
}

// none is an Engine that sends nothing ahead.
type none struct{}

func (none) SendAhead(context.Context, waypost.Cohort, bool) bool { return false }
func (none) Failed(error)                                         {}

// pumping runs the part of a pump that starts enrollments. It has looked for some already.
func pumping(t *testing.T, o *waiting, s *starting) (p *Pump, stop func()) {
	t.Helper()
	s.started = make(chan waypost.Cohort, 1000)
	p = NewPump(o, s, s, nil, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	synctest.Wait()
	return p, stop
}

// enroll enrolls n in a version.
func enroll(t *testing.T, p *Pump, version, n int) {
	t.Helper()
	for range n {
		if _, err := p.Enroll(t.Context(), waypost.Scope{}, waypost.Enrollment{Version: version}, waypost.Reentry{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	}
}

// sizes are those of the cohorts that have started since, in order.
func (s *starting) sizes() []int {
	synctest.Wait()
	sizes := []int{}
	for len(s.started) > 0 {
		sizes = append(sizes, len((<-s.started).Members))
	}
	return sizes
}

func (s *starting) want(t *testing.T, what string, want ...int) {
	t.Helper()
	if got := s.sizes(); !slices.Equal(got, want) {
		t.Errorf("%s: cohorts of %v are started, want %v", what, got, want)
	}
}

// In a quiet system each enrollment has a workflow of its own, at once. Of those that come
// soon after each other the first messages go at once, and they share a workflow with
// others of their version.
func TestEnrollmentsShareWorkflows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, s := &waiting{}, &starting{}
		p, _ := pumping(t, o, s)
		for range 3 {
			enroll(t, p, 1, 1)
			s.want(t, "quiet", 1)
			time.Sleep(quietTime + time.Millisecond)
		}
		enroll(t, p, 1, 4)
		enroll(t, p, 2, 2)
		s.want(t, "first of many", 1)
		if len(s.sent) != 3+6 || !slices.Equal(s.spread, []bool{true, true, true, true, false, false, false, false, false}) {
			t.Errorf("%d messages were sent at once, alone %v", len(s.sent), s.spread)
		}
		time.Sleep(groupTime - time.Millisecond)
		s.want(t, "too early")
		time.Sleep(time.Millisecond)
		got := s.sizes()
		slices.Sort(got)
		if !slices.Equal(got, []int{2, 3}) {
			t.Errorf("cohorts of %v share workflows, want 3 of one version and 2 of the other", got)
		}
		enroll(t, p, 1, waypost.MaxCohort+1)
		time.Sleep(groupTime)
		s.want(t, "many", waypost.MaxCohort, 1)
		if len(o.marked) != 8 || o.claims != 0 {
			t.Errorf("%d cohorts are marked as started, and %d enrollments were looked for", len(o.marked), o.claims)
		}
		if p.single.Load() == 0 {
			t.Error("single enrollments were under way, and launches do not know it")
		}
	})
}

// What cannot be sent ahead is in a hurry: its workflow starts at once.
func TestHurriedEnrollments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, s := &waiting{}, &starting{send: func(waypost.Cohort) bool { return false }}
		p, _ := pumping(t, o, s)
		enroll(t, p, 1, 3)
		s.want(t, "hurried", 1, 1, 1)
	})
}

// What comes while messages are being sent shares the next batch, however many there are.
func TestBusyEnrollmentsShareBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &waiting{}
		goes := make(chan bool)
		s := &starting{send: func(waypost.Cohort) bool { return <-goes }}
		p, _ := pumping(t, o, s)
		enroll(t, p, 1, 1+40)
		for range 2 {
			goes <- true
			synctest.Wait()
		}
		if last := s.sent[len(s.sent)-1]; len(s.sent) != 2 || len(last.Members) != 40 {
			t.Errorf("%d batches were sent, the last one of %d", len(s.sent), len(last.Members))
		}
	})
}

// A first message that takes long to send keeps neither its workflow nor others from
// starting.
func TestSendAheadHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &waiting{}
		goes := make(chan bool)
		s := &starting{send: func(waypost.Cohort) bool { return <-goes }}
		p, _ := pumping(t, o, s)
		enroll(t, p, 1, 2)
		time.Sleep(shareTime)
		synctest.Wait()
		if len(s.sent) != 2 {
			t.Errorf("%d batches are being sent", len(s.sent))
		}
		time.Sleep(sendTime - shareTime - time.Millisecond)
		s.want(t, "too early")
		time.Sleep(time.Millisecond)
		s.want(t, "the first, which was alone", 1)
		time.Sleep(shareTime + groupTime)
		s.want(t, "the second", 1)
		goes <- true
		goes <- true
	})
}

// While Temporal is away, enrollments wait in the database, nothing is sent ahead, and one
// that is found again is started once it is back.
func TestEnrollWhileTemporalIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, s := &waiting{}, &starting{}
		p, _ := pumping(t, o, s)
		s.away = errors.New("temporal is away")
		enroll(t, p, 1, 1)
		if len(s.sent) != 1 || s.failed != 1 {
			t.Errorf("%d were sent, %d failures are known", len(s.sent), s.failed)
		}
		enroll(t, p, 1, 2)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(s.sent) != 1 {
			t.Errorf("%d were sent while Temporal was away", len(s.sent)-1)
		}
		s.away = nil
		o.add(1)
		time.Sleep(maxPumpWait + sweepEvery + groupTime)
		s.want(t, "back", 1)
		enroll(t, p, 1, 1)
		if len(s.sent) != 2 {
			t.Error("nothing is sent ahead when Temporal is back")
		}
	})
}

// An enrollment that was not stored is not started.
func TestEnrollFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, s := &waiting{err: errors.New("the database is away")}, &starting{}
		p, _ := pumping(t, o, s)
		if _, err := p.Enroll(t.Context(), waypost.Scope{}, waypost.Enrollment{}, waypost.Reentry{}); !errors.Is(err, o.err) {
			t.Fatalf("enroll: %v", err)
		}
		time.Sleep(time.Minute)
		s.want(t, "failed")
	})
}

// What another process has written is found at once if that sends a signal, and else by looking.
func TestUnheardEnrollment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, s := &waiting{}, &starting{}
		p, _ := pumping(t, o, s)
		o.add(3)
		p.Enrolled()
		time.Sleep(groupTime)
		s.want(t, "signaled", 3)
		o.add(1)
		time.Sleep(sweepEvery)
		s.want(t, "not signaled", 1)
	})
}

// A pump holds no more than it can send; others claim the rest.
func TestBusyPumpClaimsNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &waiting{}
		goes := make(chan bool)
		s := &starting{send: func(waypost.Cohort) bool { return <-goes }}
		p, _ := pumping(t, o, s)
		o.add(3 * maxClaimed)
		p.Enrolled()
		time.Sleep(sendTime / 2)
		synctest.Wait()
		if most := maxClaimed + int(1+sendTime/2/shareTime)*waypost.MaxCohort; o.claims < maxClaimed || o.claims > most {
			t.Errorf("%d are claimed, want %d to %d", o.claims, maxClaimed, most)
		}
		close(goes)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := 3 * maxClaimed; o.claims != n {
			t.Errorf("%d are claimed, want %d", o.claims, n)
		}
	})
}

// What a pump has claimed is started when it stops: nobody else would for some seconds.
func TestStopStartsWhatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, s := &waiting{}, &starting{}
		p, stop := pumping(t, o, s)
		enroll(t, p, 1, 1)
		s.want(t, "alone", 1)
		enroll(t, p, 1, 3)
		stop()
		s.want(t, "at the stop", 3)
	})
}

func (w *waiting) AcceptEvent(_ context.Context, _ waypost.Caller, _ waypost.Event) (bool, error) {
	w.add(2)
	return true, nil
}

func (w *waiting) AcceptEventClaimed(context.Context, waypost.Caller, waypost.Event) (bool, []waypost.Cohort, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return true, []waypost.Cohort{of(1, w.id()), of(2, w.id())}, w.err
}

// What an event begins is sent at once, as what is enrolled over the API.
func TestEventsBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, s := &waiting{}, &starting{}
		p, _ := pumping(t, o, s)
		if inserted, err := p.AcceptEvent(t.Context(), waypost.Scope{}, waypost.Event{}); !inserted || err != nil {
			t.Fatal(inserted, err)
		}
		synctest.Wait()
		if len(s.sent) != 2 {
			t.Errorf("%d groups were sent at once", len(s.sent))
		}
		time.Sleep(groupTime)
		s.want(t, "both", 1, 1)
		o.mu.Lock()
		o.err = errors.New("away")
		o.mu.Unlock()
		if _, err := p.AcceptEvent(t.Context(), waypost.Scope{}, waypost.Event{}); err == nil {
			t.Error("the database was away")
		}
		synctest.Wait()
		s.want(t, "nothing")
	})
}
