package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"waypost"
)

var journeyTests = []test{
	{"draft", func(t *testing.T, f *fixture) {
		j := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "Welcome", []byte(`{"a": "it's ?"}`)))
		want := waypost.Journey{
			ID: j.ID, Name: "Welcome", Draft: []byte(`{"a": "it's ?"}`), Status: waypost.JourneyDraft, CreatedAt: f.clock.Now(), UpdatedAt: f.clock.Now(),
		}
		equal(t, "created", j, want)
		f.clock.Advance(time.Second)
		want.Name, want.Draft, want.UpdatedAt = "Hello", []byte(`{"b":1}`), f.clock.Now()
		equal(t, "updated", must[waypost.Journey](t)(f.UpdateJourneyDraft(t.Context(), scope, j.ID, "Hello", []byte(`{"b":1}`), nil)), want)
		equal(t, "read", must[waypost.Journey](t)(f.Journey(t.Context(), scope, j.ID)), want)
		equal(t, "list", must[[]waypost.Journey](t)(f.ListJourneys(t.Context(), scope, waypost.JourneyFilter{}, waypost.Page{})), []waypost.Journey{want})
		ok(t, f.DeleteJourney(t.Context(), scope, j.ID, nil))
		wantCode(t, f.DeleteJourney(t.Context(), scope, j.ID, nil), waypost.CodeNotFound)
	}},
	{"publish", func(t *testing.T, f *fixture) {
		j := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "W", []byte(`{}`)))
		for i, c := range []struct {
			hash    string
			version int
			created bool
		}{{"a", 1, true}, {"a", 1, false}, {"b", 2, true}, {"b", 2, false}, {"a", 3, true}} {
			f.clock.Advance(time.Second)
			definition := fmt.Appendf(nil, `{"n":%d}`, i)
			v, err := f.PublishJourney(t.Context(), scope, j.ID, waypost.Publication{Name: "W", Hash: c.hash, Definition: definition})
			ok(t, err)
			if v.Version != c.version || v.Created != c.created || v.Scope != scope || v.Hash != c.hash {
				t.Fatalf("publish %d: got %+v", i, v)
			}
			if v.Created {
				equal(t, "definition", string(v.Definition), string(definition))
			}
			v.Created = false
			equal(t, "read", must[waypost.JourneyVersion](t)(f.JourneyVersion(t.Context(), scope, j.ID, v.Version)), v)
		}
		got := must[waypost.Journey](t)(f.Journey(t.Context(), scope, j.ID))
		equal(t, "published version", got.PublishedVersion, 3)
		equal(t, "status", got.Status, waypost.JourneyActive)
		wantCode(t, f.DeleteJourney(t.Context(), scope, j.ID, nil), waypost.CodeConflict)
		_, err := f.JourneyVersion(t.Context(), scope, j.ID, 4)
		wantCode(t, err, waypost.CodeNotFound)
	}},
	{"concurrent publishes", func(t *testing.T, f *fixture) {
		j := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "W", []byte(`{}`)))
		versions := make([]int, 10)
		for _, err := range atOnce(10, func(i int) error {
			v, err := f.PublishJourney(t.Context(), scope, j.ID, waypost.Publication{Name: "W", Hash: fmt.Sprint(i), Definition: []byte(`{}`)})
			versions[i] = v.Version
			return err
		}) {
			ok(t, err)
		}
		slices.Sort(versions)
		equal(t, "versions", versions, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
		made := make([]bool, 10)
		for _, err := range atOnce(10, func(i int) error {
			v, err := f.PublishJourney(t.Context(), scope, j.ID, waypost.Publication{Name: "W", Hash: "same", Definition: []byte(`{}`)})
			made[i] = v.Created
			return err
		}) {
			ok(t, err)
		}
		made = slices.DeleteFunc(made, func(created bool) bool { return !created })
		equal(t, "created of the same definition", len(made), 1)
	}},
	{"scopes", func(t *testing.T, f *fixture) {
		id := f.journey(t)
		for _, sc := range foreign {
			_, err := f.Journey(t.Context(), sc, id)
			wantCode(t, err, waypost.CodeNotFound)
			_, err = f.UpdateJourneyDraft(t.Context(), sc, id, "x", []byte(`{}`), nil)
			wantCode(t, err, waypost.CodeNotFound)
			wantCode(t, f.DeleteJourney(t.Context(), sc, id, nil), waypost.CodeNotFound)
			_, err = f.PublishJourney(t.Context(), sc, id, waypost.Publication{Name: "x", Hash: "h", Definition: []byte(`{}`)})
			wantCode(t, err, waypost.CodeNotFound)
			_, err = f.JourneyVersion(t.Context(), sc, id, 1)
			wantCode(t, err, waypost.CodeNotFound)
			equal(t, "list", len(must[[]waypost.Journey](t)(f.ListJourneys(t.Context(), sc, waypost.JourneyFilter{}, waypost.Page{}))), 0)
		}
		for _, id := range []string{"", "jrn_", "jrn_\x00", "jrn_\xff"} {
			_, err := f.Journey(t.Context(), scope, id)
			wantCode(t, err, waypost.CodeNotFound)
		}
	}},
}
