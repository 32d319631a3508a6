package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/workflows"
)

// leftOutbox holds cohorts that were claimed and left. As in the database, those
// that are looked at go to the back, all at the same time and in the order of
// their ids.
type leftOutbox struct {
	Outbox  // nothing else is asked of it
	mu      sync.Mutex
	cohorts []waypost.Cohort
	started chan string
}

func (o *leftOutbox) ClaimEnrollments(context.Context, time.Time) (*waypost.Cohort, error) {
	return nil, nil
}

func (o *leftOutbox) ClaimLaunchCohorts(context.Context, int) ([]waypost.Cohort, error) {
	return nil, nil
}

func (o *leftOutbox) UnstartedLaunches(context.Context, time.Time, int) ([]waypost.Launch, error) {
	return nil, nil
}

func (o *leftOutbox) AgedLaunches(context.Context, time.Time, int) ([]waypost.Launch, error) {
	return nil, nil
}

func (o *leftOutbox) CanceledSchedules(context.Context, int) ([]string, error) { return nil, nil }

func (o *leftOutbox) UnstartedImports(context.Context, time.Time, int) ([]waypost.Import, error) {
	return nil, nil
}

func (o *leftOutbox) UnstartedRedeliveries(context.Context, time.Time, int) ([]waypost.RedeliveryBatch, error) {
	return nil, nil
}

func (o *leftOutbox) RedeliveryStep(context.Context) (bool, error) { return false, nil }

func (o *leftOutbox) ClaimNotices(context.Context, int, bool) ([]waypost.Notice, error) {
	return nil, nil
}

func (o *leftOutbox) SweepCanceled(context.Context, int) (bool, error)    { return false, nil }
func (o *leftOutbox) AnnounceEndedLaunches(context.Context) (bool, error) { return false, nil }
func (o *leftOutbox) ReleaseHeld(context.Context, string) (string, error) { return "", nil }

func (o *leftOutbox) CheckSegments(context.Context, int) (more, acted bool, err error) {
	return false, false, nil
}

func (o *leftOutbox) ReadSegments(context.Context) (more, acted bool, err error) {
	return false, false, nil
}

func (o *leftOutbox) LookAtWaits(context.Context, int) (more, acted bool, err error) {
	return false, false, nil
}

func (o *leftOutbox) TellSubscriptions(context.Context, int) ([]waypost.RedeliveryBatch, bool, error) {
	return nil, false, nil
}

func (o *leftOutbox) FoldStatistics(context.Context, int) (bool, error)     { return false, nil }
func (o *leftOutbox) FoldWebhookHistory(context.Context, int) (bool, error) { return false, nil }
func (o *leftOutbox) FoldEventNames(context.Context, int) (bool, error)     { return false, nil }

func (o *leftOutbox) StaleCohorts(context.Context, time.Time, int) ([]waypost.Cohort, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]waypost.Cohort{}, o.cohorts...), nil
}

func (o *leftOutbox) MarkStarted(_ context.Context, ids ...string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		o.cohorts = slices.DeleteFunc(o.cohorts, func(c waypost.Cohort) bool { return c.ID == id })
		o.started <- id
	}
	return nil
}

// refusing starts what is left, but one.
type refusing string

func (refusing) StartLaunch(context.Context, waypost.Launch) error { return nil }

func (refusing) DeleteSchedule(context.Context, string) error                   { return nil }
func (refusing) StartImport(context.Context, waypost.Import) error              { return nil }
func (refusing) StartRedelivery(context.Context, waypost.RedeliveryBatch) error { return nil }

func (refusing) Wake(context.Context, string, workflows.Wake) (bool, error) { return true, nil }

func (r refusing) StartCohort(_ context.Context, c waypost.Cohort) error {
	if c.ID == string(r) {
		return errors.New("refused")
	}
	return nil
}

// endings is an outbox of notices for workflows that have ended.
type endings struct {
	Outbox
	notices  []waypost.Notice
	canceled []string
	deleted  []int64
}

func (o *endings) ClaimNotices(context.Context, int, bool) ([]waypost.Notice, error) {
	return o.notices, nil
}

func (o *endings) CancelLeftRounds(_ context.Context, id string) error {
	o.canceled = append(o.canceled, id)
	return nil
}

func (o *endings) DeleteNotices(_ context.Context, ids []int64) error {
	o.deleted = append(o.deleted, ids...)
	return nil
}

type ended struct{ refusing }

func (ended) Wake(context.Context, string, workflows.Wake) (bool, error) { return false, nil }

// What a workflow of redeliveries has left that was terminated is canceled when it is
// to be told something.
func TestPumpCancelsWhatIsLeft(t *testing.T) {
	t.Parallel()
	now := time.Now()
	left, cohort := waypost.NewID(waypost.PrefixRedeliveryBatch, now), waypost.NewID(waypost.PrefixCohort, now)
	for _, tt := range []struct {
		starter Starter
		want    []string
	}{{ended{}, []string{left}}, {refusing(""), nil}} {
		o := &endings{notices: []waypost.Notice{{ID: 1, WorkflowID: left}, {ID: 2, WorkflowID: cohort}}}
		if _, err := NewPump(o, tt.starter, none{}, nil, slog.New(slog.DiscardHandler)).tell(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(o.canceled, tt.want) || len(o.deleted) != 2 {
			t.Errorf("canceled %v, want %v; deleted %v", o.canceled, tt.want, o.deleted)
		}
	}
}

// A cohort that cannot be started does not keep those behind it from starting.
func TestSweepPassesARefusedCohort(t *testing.T) {
	t.Parallel()
	o := &leftOutbox{started: make(chan string, 3), cohorts: []waypost.Cohort{{ID: "coh_1"}, {ID: "coh_2"}, {ID: "coh_3"}}}
	ctx, cancel := context.WithCancel(context.Background())
	pump := NewPump(o, refusing("coh_1"), none{}, nil, slog.New(slog.DiscardHandler))
	done := make(chan struct{})
	go func() { defer close(done); pump.Run(ctx) }()
	defer func() { cancel(); <-done }()
	for _, want := range []string{"coh_2", "coh_3"} {
		select {
		case got := <-o.started:
			if got != want {
				t.Errorf("started %s, want %s", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s is not started", want)
		}
	}
}

// aged is an outbox with a launch to start and another one's Schedule to renew.
type aged struct {
	leftOutbox
	marked []string
}

func (o *aged) UnstartedLaunches(context.Context, time.Time, int) ([]waypost.Launch, error) {
	return []waypost.Launch{{ID: "lch_2"}}, nil
}

func (o *aged) AgedLaunches(context.Context, time.Time, int) ([]waypost.Launch, error) {
	return []waypost.Launch{{ID: "lch_1"}}, nil
}

func (o *aged) MarkLaunchStarted(_ context.Context, id string) error {
	o.marked = append(o.marked, id)
	return nil
}

type counted map[string]int

func (c counted) Started(kind string, n int) { c[kind] += n }
func (counted) Signaled(int)                 {}

// A Schedule that is renewed counts as no launch, and comes after those that are to begin.
func TestPumpRenews(t *testing.T) {
	t.Parallel()
	o, counts := &aged{}, counted{}
	more, err := NewPump(o, refusing(""), none{}, counts, slog.New(slog.DiscardHandler)).startLaunches(t.Context())
	if err != nil || more || !slices.Equal(o.marked, []string{"lch_2", "lch_1"}) {
		t.Errorf("marked %v, more %t, %v", o.marked, more, err)
	}
	if len(counts) != 2 || counts[KindLaunch] != 1 || counts[KindRenewal] != 1 {
		t.Errorf("counted %v", counts)
	}
}
