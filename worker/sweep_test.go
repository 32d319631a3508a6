package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"waypost"
)

// leftOutbox holds cohorts that were claimed and left. As in the database, those
// that are looked at go to the back, all at the same time and in the order of
// their ids.
type leftOutbox struct {
	mu      sync.Mutex
	cohorts []waypost.Cohort
	started chan string
}

func (o *leftOutbox) ClaimCohort(context.Context) (*waypost.Cohort, error) { return nil, nil }

func (o *leftOutbox) StaleCohorts(context.Context, time.Time, int) ([]waypost.Cohort, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]waypost.Cohort{}, o.cohorts...), nil
}

func (o *leftOutbox) MarkStarted(_ context.Context, id string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, c := range o.cohorts {
		if c.ID == id {
			o.cohorts = append(o.cohorts[:i:i], o.cohorts[i+1:]...)
			break
		}
	}
	o.started <- id
	return nil
}

type refusing string

func (r refusing) StartCohort(_ context.Context, c waypost.Cohort) error {
	if c.ID == string(r) {
		return errors.New("refused")
	}
	return nil
}

// A cohort that cannot be started does not keep those behind it from starting.
func TestSweepPassesARefusedCohort(t *testing.T) {
	t.Parallel()
	o := &leftOutbox{started: make(chan string, 3), cohorts: []waypost.Cohort{{ID: "coh_1"}, {ID: "coh_2"}, {ID: "coh_3"}}}
	ctx, cancel := context.WithCancel(context.Background())
	pump := NewPump(o, refusing("coh_1"), slog.New(slog.DiscardHandler))
	done := make(chan struct{})
	go func() { defer close(done); pump.Run(ctx) }()
	defer func() { cancel(); <-done }()
	for _, want := range []string{"coh_2", "coh_3"} {
		select {
		case got := <-o.started:
			if got != want {
				t.Errorf("started %s, want %s", got, want)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%s is not started", want)
		}
	}
}
