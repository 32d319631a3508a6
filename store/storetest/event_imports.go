package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"waypost"
)

func eventRows(events ...waypost.Event) iter.Seq2[waypost.EventRow, error] {
	return func(yield func(waypost.EventRow, error) bool) {
		for i, e := range events {
			if !yield(waypost.EventRow{Line: i + 1, Event: e}, nil) {
				return
			}
		}
	}
}

// claimNotices claims notices, in bulk or the others.
func (f *fixture) claimNotices(t testing.TB, bulk bool) (notices []waypost.Notice) {
	t.Helper()
	f.clock.Advance(time.Second) // notices wait for others
	for _, n := range must[[]waypost.Notice](t)(f.ClaimNotices(t.Context(), 1000, bulk)) {
		n.ID = 0
		notices = append(notices, n)
	}
	return notices
}

var eventImportTests = []test{
	{"line by line", func(t *testing.T, f *fixture) {
		ada, bob := f.lead(t), f.lead(t)
		there := must[waypost.Lead](t)(f.CreateLead(t.Context(), foreign[0], waypost.LeadFields{Name: "Eve"}, nil)).LeadsID
		f.accept(t, ada, "known", "buy")
		broken := waypost.Errorf(waypost.CodeBadRequest, "", "broken JSON")
		rows := func(yield func(waypost.EventRow, error) bool) {
			for _, row := range []waypost.EventRow{
				{Line: 2, Event: waypost.Event{EventID: "a", Name: "buy", LeadsID: ada, Properties: map[string]any{"what": "it's\x00"}}},
				{Line: 3, Event: waypost.Event{EventID: "known", Name: "sell", LeadsID: bob}},
				{Line: 4, Err: broken},
				{Line: 6, Event: waypost.Event{EventID: "theirs", Name: "buy", LeadsID: there}},
				{Line: 7, Event: waypost.Event{EventID: "a", Name: "sell", LeadsID: bob}},
				{Line: 8, Event: waypost.Event{EventID: "\x00", Name: "buy", LeadsID: ada}},
				{Line: 9, Event: waypost.Event{EventID: "b", Name: "buy", LeadsID: bob}},
				{Line: 10, Event: waypost.Event{EventID: "known", Name: "buy", LeadsID: 1 << 40}},
				{Line: 11, Event: waypost.Event{EventID: "c", Name: "buy", LeadsID: ada}},
			} {
				if !yield(row, nil) {
					return
				}
			}
		}
		done := must[waypost.EventImport](t)(f.ImportEvents(t.Context(), scope, rows))
		var failed []string
		for _, e := range done.Errors {
			failed = append(failed, fmt.Sprint(e.Line, " ", e.Code, " ", e.Target))
		}
		equal(t, "failed", failed, []string{"4 BadRequest ", "6 NotFound leadsId", "8 BadRequest event", "10 NotFound leadsId"})
		done.Errors = nil
		equal(t, "result", done, waypost.EventImport{Total: 9, Accepted: 3, Duplicates: 2, Failed: 4})
		equal(t, "in their order", f.listedEvents(t, scope, waypost.EventFilter{OldestFirst: true}), []string{"known", "a", "b", "c"})
		events := must[[]waypost.Event](t)(f.ListEvents(t.Context(), scope, waypost.EventFilter{LeadsID: ada, OldestFirst: true}, waypost.Page{}))
		equal(t, "properties", events[1].Properties, map[string]any{"what": "it's\x00"})
		equal(t, "names", f.names(t, scope), []string{"buy 4"})
		done = must[waypost.EventImport](t)(f.ImportEvents(t.Context(), scope, rows))
		equal(t, "again", []int{done.Accepted, done.Duplicates, done.Failed}, []int{0, 5, 4})
		equal(t, "nothing", must[waypost.EventImport](t)(f.ImportEvents(t.Context(), scope, eventRows())), waypost.EventImport{})
	}},
	{"in batches", func(t *testing.T, f *fixture) {
		const n = 1700
		leads := []int64{f.lead(t), f.lead(t), f.lead(t)}
		rows := func(upTo int, end error) iter.Seq2[waypost.EventRow, error] {
			return func(yield func(waypost.EventRow, error) bool) {
				for i := range upTo {
					lead := int64(1 << 40)
					if i%3 == 0 {
						lead = leads[i%len(leads)]
					}
					if !yield(waypost.EventRow{Line: i + 1, Event: waypost.Event{EventID: fmt.Sprint(i), Name: "n", LeadsID: lead}}, nil) {
						return
					}
				}
				if end != nil {
					yield(waypost.EventRow{}, end)
				}
			}
		}
		cut := errors.New("cut off")
		if _, err := f.ImportEvents(t.Context(), scope, rows(1200, cut)); !errors.Is(err, cut) {
			t.Fatal(err)
		}
		equal(t, "before the batch that was cut off", f.names(t, scope), []string{"n 334"})
		done := must[waypost.EventImport](t)(f.ImportEvents(t.Context(), scope, rows(n, nil)))
		equal(t, "errors", len(done.Errors), waypost.MaxLineErrors)
		equal(t, "last error", done.Errors[len(done.Errors)-1].Line, 1500)
		done.Errors = nil
		equal(t, "result", done, waypost.EventImport{Total: n, Accepted: 567 - 334, Duplicates: 334, Failed: n - 567})
	}},
	{"who waits is told once, and sees them in their order", func(t *testing.T, f *fixture) {
		workflow, ids := f.started(t, f.journey(t), 3)
		waits := []waypost.Wait{f.wait(t, ids[0], workflow, "buy"), f.wait(t, ids[1], workflow, "buy"), f.wait(t, ids[2], workflow, "login")}
		for _, w := range waits {
			f.await(t, w)
		}
		var events []waypost.Event
		for i := range 700 { // two batches
			for n, w := range waits[:2] {
				events = append(events, waypost.Event{EventID: fmt.Sprint(n, " ", i), Name: []string{"sell", "buy"}[min(i, 1)], LeadsID: w.LeadsID})
			}
		}
		events = append(events, waypost.Event{EventID: "not hers", Name: "login", LeadsID: waits[0].LeadsID})
		done := must[waypost.EventImport](t)(f.ImportEvents(t.Context(), scope, eventRows(events...)))
		equal(t, "accepted", done.Accepted, len(events))
		equal(t, "others' notices", f.claimNotices(t, false), []waypost.Notice(nil))
		var notified []string
		for _, n := range f.claimNotices(t, true) {
			equal(t, "workflow", n.WorkflowID, workflow)
			notified = append(notified, n.EnrollmentID+" "+n.EventID)
		}
		equal(t, "told in each batch", notified, []string{
			ids[0] + " 0 1", ids[1] + " 1 1", ids[0] + " 0 250", ids[1] + " 1 250", ids[0] + " 0 500", ids[1] + " 1 500",
		})
		seen := int64(0)
		var got []string
		for len(got) < 699 {
			s := f.await(t, waits[0])
			for _, e := range s.Events {
				got = append(got, e.EventID)
				seen = e.Seq
			}
			ok(t, f.RecordWaits(t.Context(), []waypost.WaitResult{{Touchpoint: waits[0].Touchpoint, Seen: seen}}))
		}
		for i, id := range got {
			equal(t, "in order", id, fmt.Sprint(0, " ", i+1))
		}
		must[waypost.EventImport](t)(f.ImportEvents(t.Context(), scope, eventRows(events...)))
		equal(t, "again", f.claimNotices(t, true), []waypost.Notice(nil))
	}},
	{"who exits", func(t *testing.T, f *fixture) {
		journey := f.exiting(t)
		workflow, ids := f.started(t, journey, 4)
		w := f.wait(t, ids[0], workflow, "sell")
		f.await(t, w)
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, ids[3]))
		f.clock.Advance(time.Minute)
		f.notices(t)
		at := f.clock.Now()
		lead := func(i int) int64 { return f.enrollment(t, ids[i]).LeadsID }
		done := must[waypost.EventImport](t)(f.ImportEvents(t.Context(), scope, eventRows(
			waypost.Event{EventID: "1", Name: "sell", LeadsID: lead(0)},
			waypost.Event{EventID: "2", Name: "leave", LeadsID: lead(0)},
			waypost.Event{EventID: "3", Name: "buy", LeadsID: lead(0)},
			waypost.Event{EventID: "4", Name: "buy", LeadsID: lead(1)},
			waypost.Event{EventID: "5", Name: "leave", LeadsID: lead(1)},
			waypost.Event{EventID: "6", Name: "sell", LeadsID: lead(2)},
			waypost.Event{EventID: "7", Name: "buy", LeadsID: lead(3)},
		)))
		equal(t, "accepted", done.Accepted, 7)
		f.wantExited(t, ids[0], "leave", at)
		f.wantExited(t, ids[1], "buy", at)
		equal(t, "another event", f.status(t, ids[2]), waypost.EnrollmentRunning)
		equal(t, "canceled before", f.status(t, ids[3]), waypost.EnrollmentCanceled)
		equal(t, "others' notices", f.claimNotices(t, false), []waypost.Notice(nil))
		equal(t, "notices", f.claimNotices(t, true), []waypost.Notice{{WorkflowID: workflow, EnrollmentID: ids[0]}, {WorkflowID: workflow, EnrollmentID: ids[1]}})
	}},
	{"the same events in several imports and alone at once", func(t *testing.T, f *fixture) {
		const writers, n = 6, 200
		workflow, ids := f.started(t, f.journey(t), 4)
		exiting := f.exiting(t)
		var leads []int64
		for _, id := range ids {
			w := f.wait(t, id, workflow, "buy")
			f.await(t, w)
			leads = append(leads, w.LeadsID)
			must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: exiting, Version: 1, LeadsID: w.LeadsID}, waypost.Reentry{}))
		}
		accepted := make([]int, writers)
		for _, err := range atOnce(writers, func(w int) error {
			events := make([]waypost.Event, n)
			for i := range events {
				k := (i*(2*w+1) + w) % n // each in another order
				events[i] = waypost.Event{EventID: fmt.Sprint(k), Name: "buy", LeadsID: leads[k%len(leads)]}
			}
			if w%3 != 0 {
				done, err := f.ImportEvents(t.Context(), scope, eventRows(events...))
				accepted[w] = done.Accepted
				if err == nil && (done.Failed != 0 || done.Accepted+done.Duplicates != n) {
					return fmt.Errorf("%+v", done)
				}
				return err
			}
			for _, e := range events {
				stored, err := f.AcceptEvent(t.Context(), scope, e)
				if err != nil {
					return err
				}
				if stored {
					accepted[w]++
				}
			}
			return nil
		}) {
			ok(t, err)
		}
		sum := 0
		for _, a := range accepted {
			sum += a
		}
		equal(t, "accepted", sum, n)
		equal(t, "names", f.names(t, scope), []string{fmt.Sprint("buy ", n)})
		list := must[[]waypost.Enrollment](t)(listEnrollments(t.Context(), f, exiting))
		equal(t, "exited", slices.ContainsFunc(list, func(e waypost.Enrollment) bool { return e.Status != waypost.EnrollmentExited }), false)
	}},
}

func listEnrollments(ctx context.Context, f *fixture, journey string) ([]waypost.Enrollment, error) {
	list, _, err := f.ListEnrollments(ctx, scope, waypost.EnrollmentFilter{JourneyID: journey}, waypost.Page{})
	return list, err
}
