package activities_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"waypost"
	"waypost/activities"
	"waypost/journey"
	"waypost/store"
	"waypost/store/storetest"
)

var scope = waypost.Scope{Org: "acme", Stage: waypost.StageTest}

// world is a database with a published journey.
type world struct {
	t       *testing.T
	store   *store.Store
	version waypost.JourneyVersion
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, store: storetest.SQLite(t, time.Now)}
	def, problems := journey.Parse([]byte(`{"name":"Welcome","start":"end","nodes":[{"id":"end","type":"exit"}]}`))
	must(t, problems.Err("definition"))
	j, err := w.store.CreateJourney(context.Background(), scope, def.Name(), def.Canonical())
	must(t, err)
	w.version, err = w.store.PublishJourney(context.Background(), scope, j.ID, waypost.Publication{Name: def.Name(), Hash: def.Hash(), Definition: def.Canonical()})
	must(t, err)
	return w
}

// process is the activities of a worker process of its own.
func (w *world) process() *activities.Activities {
	return activities.New(activities.Options{Store: w.store, Log: slog.New(slog.DiscardHandler)})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
