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

func (u *unsteady) DropStep(ctx context.Context, retention waypost.Retention, at string) (waypost.Dropped, error) {
	u.mu.Lock()
	u.calls++
	away := u.calls%5 == 3 && u.calls < 20
	u.mu.Unlock()
	if away {
		return waypost.Dropped{}, errAway
	}
	return u.Store.DropStep(ctx, retention, at)
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

// enrolled enrolls so many leads and cancels all enrollments but the first few.
func enrolled(t *testing.T, db *store.Store, enrollments, running int) (ids []string) {
	t.Helper()
	ctx := t.Context()
	j, err := db.CreateJourney(ctx, sc, "Welcome", []byte(`{}`))
	must(t, err)
	_, err = db.PublishJourney(ctx, sc, j.ID, waypost.Publication{Name: "Welcome", Hash: "hash", Definition: []byte(`{}`)})
	must(t, err)
	for range enrollments {
		lead, err := db.CreateLead(ctx, sc, waypost.LeadFields{Name: "Ada"}, nil)
		must(t, err)
		e, err := db.Enroll(ctx, sc, waypost.Enrollment{JourneyID: j.ID, Version: 1, LeadsID: lead.LeadsID, AppID: "app_1"}, waypost.Reentry{})
		must(t, err)
		ids = append(ids, e.ID)
	}
	for _, id := range ids[running:] {
		_, err := db.CancelEnrollment(ctx, sc, id)
		must(t, err)
	}
	return ids
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
	ids := enrolled(t, db, enrollments, 1)
	clock.Advance(25 * time.Hour)

	archive := &unsteady{Store: db, ended: make(chan bool, 100)}
	dropped := &drops{n: map[string]int{}}
	var logged bytes.Buffer
	var writing sync.Mutex
	log := slog.New(slog.NewTextHandler(locked{&writing, &logged}, nil))
	running, stop := context.WithCancel(ctx)
	var sweepers sync.WaitGroup
	for range 3 {
		s := NewSweeper(archive, waypost.Retention{Enrollments: 24 * time.Hour}, clock.Now, agreeing(clock), dropped, log)
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

// agreeing is a Temporal whose clock is the same, and that has heard of a worker just now.
func agreeing(clock *storetest.Clock) LastPoll {
	return func(context.Context) (time.Time, error) { return clock.Now(), nil }
}

// A process whose clock is wrong drops nothing and keeps no other from it, and says so.
func TestSweeperWithAWrongClock(t *testing.T) {
	t.Parallel()
	const month = 31 * 24 * time.Hour
	for name, c := range map[string]struct {
		ahead  time.Duration // this process' clock
		polled time.Duration // how long ago a worker was heard of; 0: never
		away   error
		want   string // part of the error
		drops  int
	}{
		"right":                {0, time.Second, nil, "", 1},
		"heard of a while ago": {0, 6 * time.Minute, nil, "", 1},
		"a little behind":      {-20 * time.Second, time.Second, nil, "", 1},
		"ahead":                {month, time.Second, nil, "clock", 0},
		"behind":               {-time.Hour, time.Second, nil, "clock", 0},
		"nothing is known":     {month, 0, nil, "", 0},
		"Temporal is away":     {0, 0, errAway, errAway.Error(), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			clock := storetest.NewClock()
			db := storetest.SQLite(t, clock.Now)
			enrolled(t, db, 1, 0)
			clock.Advance(26 * time.Hour)
			temporal := clock.Now()
			clock.Advance(c.ahead)
			polled := func(context.Context) (time.Time, error) {
				if c.polled == 0 {
					return time.Time{}, c.away
				}
				return temporal.Add(-c.polled), c.away
			}
			dropped := &drops{n: map[string]int{}}
			err := NewSweeper(db, waypost.Retention{Enrollments: 24 * time.Hour}, clock.Now, polled, dropped, slog.New(slog.DiscardHandler)).look(ctx)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
			if got := dropped.n[waypost.DropEnrollment]; got != c.drops {
				t.Errorf("dropped %d, want %d", got, c.drops)
			}
			if held, err := db.HoldSweep(ctx, "another", dropEvery, dropHold); err != nil || held != (c.drops == 0) {
				t.Errorf("another may sweep: %v, %v", held, err)
			}
		})
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

// Whatever is kept, answers for an Idempotency-Key go after a day, with no other request.
func TestSweeperThatKeepsAll(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	db := storetest.SQLite(t, clock.Now)
	if _, err := db.ClaimKey(t.Context(), &waypost.Claim{ID: "key", Token: "one"}, nil); err != nil {
		t.Fatal(err)
	}
	clock.Advance(25 * time.Hour)
	running, stop := context.WithCancel(t.Context())
	archive := &unsteady{Store: db, calls: 20, ended: make(chan bool, 100)} // steady by now
	dropped := &drops{n: map[string]int{}}
	var sweeping sync.WaitGroup
	sweeping.Go(func() {
		NewSweeper(archive, waypost.Retention{}, clock.Now, agreeing(clock), dropped, slog.New(slog.DiscardHandler)).Run(running)
	})
	if !<-archive.ended {
		t.Error("the sweep did not come to its end")
	}
	stop()
	sweeping.Wait()
	if dropped.n[waypost.DropAnswer] != 1 || len(dropped.n) != 1 {
		t.Errorf("dropped %v", dropped.n)
	}
}
