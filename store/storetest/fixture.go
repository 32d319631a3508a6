package storetest

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/store"
)

// fixture is a store with what most tests need.
type fixture struct {
	*store.Store
	clock *Clock
}

// ClaimCohort claims enrollments and forms a cohort of them, as a pump does; nil if there
// are none.
func ClaimCohort(ctx context.Context, s *store.Store) (*waypost.Cohort, error) {
	claimed, err := s.ClaimEnrollments(ctx, time.Time{})
	if err != nil || claimed == nil {
		return nil, err
	}
	cohort, err := s.FormCohort(ctx, *claimed)
	return &cohort, err
}

func (f *fixture) ClaimCohort(ctx context.Context) (*waypost.Cohort, error) {
	return ClaimCohort(ctx, f.Store)
}

var (
	scope = waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	// foreign scopes: none of them may see what scope holds.
	foreign = []waypost.Scope{
		{Org: "acme", Stage: waypost.StageTest},
		{Org: "acme", Stage: waypost.StagePreRelease},
		{Org: "other", Stage: waypost.StageRelease},
	}
)

func ptr[T any](v T) *T { return &v }

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t testing.TB, err error, code waypost.ErrorCode) {
	t.Helper()
	if got := waypost.CodeOf(err); got != code {
		t.Fatalf("got code %q (%v), want %q", got, err, code)
	}
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// atOnce runs n calls at once and returns their errors.
func atOnce(n int, call func(i int) error) []error {
	errs := make([]error, n)
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range n {
		done.Go(func() {
			start.Wait()
			errs[i] = call(i)
		})
	}
	start.Done()
	done.Wait()
	return errs
}

// onePasses fails unless exactly one error is nil and the others are Conflicts.
func onePasses(t testing.TB, errs []error) {
	t.Helper()
	somePass(t, errs, 1, waypost.CodeConflict)
}

// somePass fails unless exactly n errors are nil and the others have a code.
func somePass(t testing.TB, errs []error, n int, code waypost.ErrorCode) {
	t.Helper()
	passed := 0
	for _, err := range errs {
		if err == nil {
			passed++
			continue
		}
		wantCode(t, err, code)
	}
	if passed != n {
		t.Fatalf("%d of %d concurrent calls passed, want %d", passed, len(errs), n)
	}
}

func (f *fixture) lead(t testing.TB) int64 {
	t.Helper()
	return must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Ada"}, nil)).LeadsID
}

func (f *fixture) webhook(t testing.TB) string {
	t.Helper()
	w := waypost.Webhook{Name: "hook", URL: "https://hooks.example.com/in", TimeoutMs: waypost.DefaultTimeoutMs, Retry: waypost.DefaultRetry(), Enabled: true}
	return must[waypost.Webhook](t)(f.CreateWebhook(t.Context(), scope, w)).ID
}

// journey makes a journey with one published version.
func (f *fixture) journey(t testing.TB) string {
	t.Helper()
	j := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "Welcome", []byte(`{"name":"Welcome"}`)))
	_, err := f.PublishJourney(t.Context(), scope, j.ID, waypost.Publication{Name: "Welcome", Hash: "hash 1", Definition: []byte(`{"name":"Welcome"}`)})
	ok(t, err)
	return j.ID
}

// enroll makes n enrollments of new leads in a journey.
func (f *fixture) enroll(t testing.TB, journey string, n int) []string {
	t.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, waypost.Enrollment{
			JourneyID: journey, Version: 1, LeadsID: f.lead(t), AppID: "app_1", EntryKey: fmt.Sprint(i),
		}, waypost.Reentry{})).ID
		f.clock.Advance(time.Millisecond) // so that ids sort as they were made
	}
	return ids
}

func (f *fixture) enrollment(t testing.TB, id string) waypost.Enrollment {
	t.Helper()
	e, _, err := f.Enrollment(t.Context(), scope, id)
	ok(t, err)
	return e
}

func (f *fixture) timeline(t testing.TB, id string) []waypost.TimelineEntry {
	t.Helper()
	_, entries, err := f.Enrollment(t.Context(), scope, id)
	ok(t, err)
	return entries
}

// progress is what a workflow records when the enrollment got to seq.
func (f *fixture) progress(id string, seq int, status waypost.EnrollmentStatus) waypost.Progress {
	return waypost.Progress{
		EnrollmentID: id, Status: status, NodeID: fmt.Sprint("node", seq), LastSeq: seq,
		Entries: []waypost.TimelineEntry{{Seq: seq, At: f.clock.Now(), NodeID: fmt.Sprint("node", seq), What: waypost.WhatEntered, Next: "next", Reason: "because"}},
	}
}
