package store_test

import (
	"testing"
	"time"

	"waypost"
	"waypost/store/storetest"
)

// On PostgreSQL an enrollment is one statement, unless something is in its way: then that
// leaves nothing behind, and Enroll finds out what it is.
func TestEnrollAtOnce(t *testing.T) {
	t.Parallel()
	s := storetest.Postgres(t, time.Now)
	ctx, sc := t.Context(), waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	journey := func(definition string) string {
		t.Helper()
		j, err := s.CreateJourney(ctx, sc, "J", []byte(`{}`))
		must(t, err)
		_, err = s.PublishJourney(ctx, sc, j.ID, "J", "hash", []byte(definition), nil)
		must(t, err)
		return j.ID
	}
	lead := func() int64 {
		t.Helper()
		l, err := s.CreateLead(ctx, sc, waypost.LeadFields{Name: "Ada"}, nil)
		must(t, err)
		return l.LeadsID
	}
	plain, exits, archived := journey(`{"name":"J"}`), journey(`{"name":"J","exitOn":[{"event":"buy"}]}`), journey(`{"name":"J"}`)
	_, err := s.ArchiveJourney(ctx, sc, archived)
	must(t, err)
	always, never := waypost.Reentry{Policy: waypost.ReentryAlways}, waypost.Reentry{Policy: waypost.ReentryNever}
	again := lead()
	for _, c := range []struct {
		name    string
		sc      waypost.Scope
		journey string
		version int
		lead    int64
		reentry waypost.Reentry
		done    bool
		code    waypost.ErrorCode // of Enroll
	}{
		{"a lead", sc, plain, 1, again, never, true, ""},
		{"again, never", sc, plain, 1, again, never, false, waypost.CodeConflict},
		{"again, after exit", sc, plain, 1, again, waypost.Reentry{Policy: waypost.ReentryAfterExit}, false, waypost.CodeConflict},
		{"again, always", sc, plain, 1, again, always, true, ""},
		{"again, too soon", sc, plain, 1, again, waypost.Reentry{Policy: waypost.ReentryAlways, Every: waypost.Duration(time.Hour)}, false, waypost.CodeConflict},
		{"no such lead", sc, plain, 1, 999_999_999, always, false, waypost.CodeNotFound},
		{"no such version", sc, plain, 2, lead(), always, false, waypost.CodeNotFound},
		{"another stage", waypost.Scope{Org: "acme", Stage: waypost.StageTest}, plain, 1, lead(), always, false, waypost.CodeNotFound},
		{"archived", sc, archived, 1, lead(), always, false, waypost.CodeConflict},
		{"events end it", sc, exits, 1, lead(), always, false, ""},
	} {
		e := waypost.Enrollment{ID: waypost.NewID(waypost.PrefixEnrollment, time.Now()), JourneyID: c.journey, Version: c.version, LeadsID: c.lead, AppID: "app_test"}
		done, err := s.EnrollAtOnce(ctx, c.sc, e, c.reentry)
		if err != nil || done != c.done {
			t.Errorf("%s: done %t, %v", c.name, done, err)
		}
		if _, _, err := s.Enrollment(ctx, c.sc, e.ID); (err == nil) != c.done {
			t.Errorf("%s: the enrollment: %v", c.name, err)
		}
		if c.done {
			continue
		}
		// What was refused is refused for its own reason, not for what the first try left.
		if _, err := s.Enroll(ctx, c.sc, e, c.reentry); waypost.CodeOf(err) != c.code {
			t.Errorf("%s: Enroll says %v, want %s", c.name, err, c.code)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
