package storetest

import (
	"fmt"
	"testing"
	"time"

	"waypost"
)

// custom is a change that gives a lead these custom fields.
func custom(fields map[string]any) func(waypost.Lead) (waypost.LeadFields, []string, error) {
	return func(lead waypost.Lead) (waypost.LeadFields, []string, error) {
		lead.CustomFields = fields
		return lead.LeadFields, nil, nil
	}
}

var followTests = []test{
	{"changes that a wait depends on", func(t *testing.T, f *fixture) {
		workflow, ids := f.started(t, f.journey(t), 1)
		w := f.wait(t, ids[0], workflow, "")
		w.Fields = []string{"customFields.expiry", "customFields.timezone"}
		leads := must[map[int64]waypost.Lead](t)(f.Follow(t.Context(), scope, []waypost.Wait{w}))
		equal(t, "leads", len(leads), 1)
		equal(t, "lead", leads[w.LeadsID], must[waypost.Lead](t)(f.Lead(t.Context(), scope, w.LeadsID)))
		notified := []waypost.Notice{{WorkflowID: workflow, EnrollmentID: ids[0]}}
		for _, step := range []struct {
			what     string
			fields   map[string]any
			notified []waypost.Notice
		}{
			{"added", map[string]any{"expiry": "2026-12-31"}, notified},
			{"the same", map[string]any{"expiry": "2026-12-31"}, nil},
			{"another field", map[string]any{"expiry": "2026-12-31", "score": 1.5}, nil},
			{"changed", map[string]any{"expiry": "2026-12-30", "score": 2.5}, notified},
			{"the other one", map[string]any{"expiry": "2026-12-30", "timezone": "UTC"}, notified},
			{"of another type", map[string]any{"expiry": 1798675200.0, "timezone": "UTC"}, notified},
			{"cleared", nil, notified},
		} {
			must[waypost.Lead](t)(f.UpdateLead(t.Context(), scope, w.LeadsID, custom(step.fields)))
			equal(t, step.what, f.notices(t), step.notified)
		}
		birthday := func(lead waypost.Lead) (waypost.LeadFields, []string, error) {
			lead.Birthday = ptr("1990-12-31")
			return lead.LeadFields, nil, nil
		}
		must[waypost.Lead](t)(f.UpdateLead(t.Context(), scope, w.LeadsID, birthday))
		equal(t, "a field that is not waited for", len(f.notices(t)), 0)

		row := fmt.Sprintf(`{"leadsId":%d,"customFields":{"expiry":"2027-01-01"}}`, w.LeadsID)
		f.doImport(t, waypost.ImportUpdate, row)
		equal(t, "imported", f.notices(t), notified)
		f.doImport(t, waypost.ImportUpdate, row)
		equal(t, "imported again", len(f.notices(t)), 0)

		must[map[int64]waypost.Lead](t)(f.Follow(t.Context(), scope, []waypost.Wait{w}))
		ok(t, f.RecordWaits(t.Context(), []waypost.WaitResult{{Touchpoint: w.Touchpoint, Close: true}}))
		must[map[int64]waypost.Lead](t)(f.Follow(t.Context(), scope, []waypost.Wait{w})) // a run that comes late
		must[waypost.Lead](t)(f.UpdateLead(t.Context(), scope, w.LeadsID, custom(nil)))
		equal(t, "over", len(f.notices(t)), 0)
		w.Visit = 2
		must[map[int64]waypost.Lead](t)(f.Follow(t.Context(), scope, []waypost.Wait{w}))
		must[waypost.Lead](t)(f.UpdateLead(t.Context(), scope, w.LeadsID, custom(map[string]any{"expiry": "x"})))
		equal(t, "another visit", f.notices(t), notified)
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, ids[0]))
		f.notices(t)
		must[waypost.Lead](t)(f.UpdateLead(t.Context(), scope, w.LeadsID, custom(nil)))
		equal(t, "canceled", len(f.notices(t)), 0)
		for _, sc := range foreign {
			equal(t, "another scope", len(must[map[int64]waypost.Lead](t)(f.Follow(t.Context(), sc, []waypost.Wait{w}))), 0)
		}
	}},
	{"every event and every change", func(t *testing.T, f *fixture) {
		workflow, ids := f.started(t, f.journey(t), 1)
		w := f.wait(t, ids[0], workflow, waypost.Anything)
		w.Fields = []string{waypost.Anything}
		follow := func() { must[map[int64]waypost.Lead](t)(f.Follow(t.Context(), scope, []waypost.Wait{w})) }
		follow()
		notified := []waypost.Notice{{WorkflowID: workflow, EnrollmentID: ids[0]}}
		must[waypost.Lead](t)(f.UpdateLead(t.Context(), scope, w.LeadsID, setRemark))
		equal(t, "a field", f.notices(t), notified)
		f.doImport(t, waypost.ImportUpdate, fmt.Sprintf(`{"leadsId":%d,"company":"Acme"}`, w.LeadsID))
		equal(t, "imported", f.notices(t), notified)
		f.accept(t, w.LeadsID, "e1", "any")
		equal(t, "an event", f.notices(t), []waypost.Notice{{WorkflowID: workflow, EnrollmentID: ids[0], EventID: "e1"}})
		f.accept(t, f.lead(t), "e2", "any")
		equal(t, "another lead's", len(f.notices(t)), 0)
		ok(t, f.RecordWaits(t.Context(), []waypost.WaitResult{{Touchpoint: w.Touchpoint, Close: true}}))
		f.accept(t, w.LeadsID, "e3", "any")
		must[waypost.Lead](t)(f.UpdateLead(t.Context(), scope, w.LeadsID, setRemark))
		equal(t, "closed", len(f.notices(t)), 0)
		follow() // the look that has closed it was lost
		f.accept(t, w.LeadsID, "e4", "any")
		equal(t, "open again", len(f.notices(t)), 1)
	}},
	{"what time makes true", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		var workflows, ids []string
		var waits []waypost.Wait
		for i := range 2 {
			workflow, one := f.started(t, journey, 1)
			workflows, ids = append(workflows, workflow), append(ids, one...)
			w := f.wait(t, ids[i], workflow, waypost.Anything)
			w.Fields = []string{waypost.Anything}
			waits = append(waits, w)
		}
		must[map[int64]waypost.Lead](t)(f.Follow(t.Context(), scope, waits))
		look := func(limit int) []waypost.Notice {
			t.Helper()
			more, acted, err := f.LookAtWaits(t.Context(), limit)
			ok(t, err)
			notified := f.notices(t)
			equal(t, "acted", acted, len(notified) > 0)
			equal(t, "more", more, len(notified) == limit)
			return notified
		}
		begin := f.clock.Now()
		at := func(w waypost.Wait, after time.Duration) {
			t.Helper()
			ok(t, f.RecordWaits(t.Context(), []waypost.WaitResult{{Touchpoint: w.Touchpoint, LookAt: begin.Add(after)}}))
		}
		at(waits[0], time.Minute)
		at(waits[0], time.Hour) // of two looks at once the earlier moment counts
		at(waits[1], 2*time.Minute)
		f.clock.Advance(time.Minute - time.Second)
		equal(t, "before", len(look(10)), 0)
		f.clock.Advance(time.Second)
		equal(t, "then", look(10), []waypost.Notice{{WorkflowID: workflows[0], EnrollmentID: ids[0]}})
		equal(t, "once", len(look(10)), 0)
		f.clock.Advance(time.Minute)
		ok(t, f.RecordWaits(t.Context(), []waypost.WaitResult{{Touchpoint: waits[1].Touchpoint, Close: true}}))
		equal(t, "closed", len(look(10)), 0)
		at(waits[0], 2*time.Minute)
		equal(t, "again", len(look(1)), 1)
		at(waits[0], 2*time.Minute)
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, ids[0]))
		f.notices(t)
		equal(t, "canceled", len(look(10)), 0)
	}},
	// A change at the moment when a wait begins is seen, or told of.
	{"a change at the same time", func(t *testing.T, f *fixture) {
		const rounds = 100
		workflow, ids := f.started(t, f.journey(t), 1)
		w := f.wait(t, ids[0], workflow, "")
		w.Fields = []string{"customFields.expiry"}
		for round := range rounds {
			w.Visit = round + 1
			value := fmt.Sprint(round)
			var seen any
			for _, err := range atOnce(2, func(i int) error {
				if i == 0 {
					_, err := f.UpdateLead(t.Context(), scope, w.LeadsID, custom(map[string]any{"expiry": value}))
					return err
				}
				leads, err := f.Follow(t.Context(), scope, []waypost.Wait{w})
				seen = leads[w.LeadsID].CustomFields["expiry"]
				return err
			}) {
				ok(t, err)
			}
			if notified := len(f.notices(t)) > 0; seen != value && !notified {
				t.Fatalf("round %d: the wait saw %v, and nobody was told", round, seen)
			}
			ok(t, f.RecordWaits(t.Context(), []waypost.WaitResult{{Touchpoint: w.Touchpoint, Close: true}}))
		}
	}},
}
