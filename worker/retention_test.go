package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/store"
	"waypost/store/storetest"
)

// unsteady is a database that is away now and then.
type unsteady struct {
	*store.Store
	mu    sync.Mutex
	calls int
	ended chan bool // whether a sweep came to its end
}

var errAway = errors.New("the database is away")

func (u *unsteady) DropStep(ctx context.Context, keep waypost.Retention, at string) (waypost.Dropped, error) {
	u.mu.Lock()
	u.calls++
	away := u.calls%5 == 3 && u.calls < 20
	u.mu.Unlock()
	if away {
		return waypost.Dropped{}, errAway
	}
	return u.Store.DropStep(ctx, keep, at)
}

func (u *unsteady) EndSweep(ctx context.Context, holder string, done bool) error {
	err := u.Store.EndSweep(ctx, holder, done)
	u.ended <- done
	return err
}

type drops struct {
	mu sync.Mutex
	n  map[string]int
}

func (d *drops) Dropped(kind string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n[kind] += n
}

// Several sweepers, whose database is away now and then, drop what is over once, and
// tell it.
func TestSweeperDropsWhatIsOver(t *testing.T) {
	t.Parallel()
	const enrollments = 250
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	clock := storetest.NewClock()
	db := storetest.SQLite(t, clock.Now)
	sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	j, err := db.CreateJourney(ctx, sc, "Welcome", []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.PublishJourney(ctx, sc, j.ID, "Welcome", "hash", []byte(`{}`), nil); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for range enrollments {
		lead, err := db.CreateLead(ctx, sc, waypost.LeadFields{Name: "Ada"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		e, err := db.Enroll(ctx, sc, waypost.Enrollment{JourneyID: j.ID, Version: 1, LeadsID: lead.LeadsID, AppID: "app_1"}, waypost.Reentry{})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ID)
	}
	for _, id := range ids[1:] {
		if _, err := db.CancelEnrollment(ctx, sc, id); err != nil {
			t.Fatal(err)
		}
	}
	clock.Advance(25 * time.Hour)

	archive := &unsteady{Store: db, ended: make(chan bool, 100)}
	dropped := &drops{n: map[string]int{}}
	var logged bytes.Buffer
	var writing sync.Mutex
	log := slog.New(slog.NewTextHandler(locked{&writing, &logged}, nil))
	running, stop := context.WithCancel(ctx)
	var sweepers sync.WaitGroup
	for range 3 {
		s := NewSweeper(archive, waypost.Retention{Enrollments: 24 * time.Hour}, dropped, log)
		s.every, s.pause = time.Millisecond, func(time.Duration) time.Duration { return 0 }
		sweepers.Go(func() { s.Run(running) })
	}
	for done := false; !done; {
		select {
		case done = <-archive.ended:
		case <-ctx.Done():
			t.Fatal("no sweep came to its end")
		}
	}
	stop()
	sweepers.Wait()
	if dropped.n[waypost.DropEnrollment] != enrollments-1 || len(dropped.n) != 1 {
		t.Errorf("dropped %v", dropped.n)
	}
	if left, err := db.EnrollmentsByID(ctx, ids); err != nil || len(left) != 1 {
		t.Errorf("%d are left, %v", len(left), err)
	}
	writing.Lock()
	defer writing.Unlock()
	if text := logged.String(); !strings.Contains(text, errAway.Error()) || !strings.Contains(text, `msg="dropped what is over" complete=true`) {
		t.Errorf("logged\n%s", text)
	}
	// Until the next one is due, nobody sweeps; a sweep that was stopped is free at once.
	if held, err := db.HoldSweep(ctx, "another", dropEvery, dropHold); err != nil || held {
		t.Errorf("swept again at once: %v, %v", held, err)
	}
	clock.Advance(dropEvery)
	if held, err := db.HoldSweep(ctx, "another", dropEvery, dropHold); err != nil || !held {
		t.Errorf("not swept again: %v, %v", held, err)
	}
}

// locked writes for several.
type locked struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}

// Without any setting it does not even ask.
func TestSweeperThatKeepsAll(t *testing.T) {
	t.Parallel()
	NewSweeper(nil, waypost.Retention{}, nil, slog.New(slog.DiscardHandler)).Run(t.Context())
}
