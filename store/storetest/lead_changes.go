package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"waypost"
)

// set is a change that gives a lead these fields and numbers.
func set(f waypost.LeadFields, phones ...string) func(waypost.Lead) (waypost.LeadFields, []string, error) {
	return func(waypost.Lead) (waypost.LeadFields, []string, error) {
		f.MobilePhone = phones
		return f, phones, nil
	}
}

// create makes a lead with the name and numbers.
func (f *fixture) create(t testing.TB, name string, phones ...string) waypost.Lead {
	t.Helper()
	return must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: name, MobilePhone: phones}, phones))
}

// has fails unless exactly one lead has the number, and it is this one; 0: none.
func (f *fixture) has(t testing.TB, phone string, id int64) {
	t.Helper()
	var got int64
	for _, lead := range must[[]waypost.Lead](t)(f.ListLeads(t.Context(), scope, waypost.LeadQuery{Filter: waypost.LeadFilter{MobilePhone: phone}})) {
		got = lead.LeadsID
	}
	equal(t, "who has "+phone, got, id)
}

var leadChangeTests = []test{
	{"update", func(t *testing.T, f *fixture) {
		before := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{
			Name: "A", Remark: ptr("r"), ExternalID: ptr("x"), CustomFields: map[string]any{"a": 1.5}, MobilePhone: []string{"1", "2"},
		}, []string{"+491", "+492"}))
		f.clock.Advance(time.Minute)
		fields := waypost.LeadFields{Name: "B", Email: ptr("b@example.com"), ExternalID: ptr("x"), MobilePhone: []string{"2", "3"}}
		got := must[waypost.Lead](t)(f.UpdateLead(t.Context(), scope, before.LeadsID, func(lead waypost.Lead) (waypost.LeadFields, []string, error) {
			equal(t, "seen", lead, before)
			return fields, []string{"+492", "+493"}, nil
		}))
		want := waypost.Lead{LeadsID: before.LeadsID, LeadFields: fields, CreatedAt: before.CreatedAt, UpdatedAt: f.clock.Now()}
		equal(t, "answered", got, want)
		equal(t, "stored", must[waypost.Lead](t)(f.Lead(t.Context(), scope, before.LeadsID)), want)
		f.has(t, "+491", 0)
		f.has(t, "+492", before.LeadsID)
		f.has(t, "+493", before.LeadsID)

		// While the clock stands, or is behind, updatedAt moves on by what is shown.
		for range 3 {
			want.UpdatedAt = want.UpdatedAt.Add(time.Millisecond)
			equal(t, "again", must[waypost.Lead](t)(f.UpdateLead(t.Context(), scope, before.LeadsID, set(fields, "2", "3"))).UpdatedAt, want.UpdatedAt)
		}
		f.clock.Advance(3*time.Millisecond + time.Microsecond) // shown as the same millisecond
		equal(t, "within the millisecond", must[waypost.Lead](t)(f.UpdateLead(t.Context(), scope, before.LeadsID, set(fields))).UpdatedAt, want.UpdatedAt.Add(time.Millisecond))
		f.has(t, "+492", 0)
	}},
	{"refused updates", func(t *testing.T, f *fixture) {
		before := f.create(t, "A", "+491")
		refused := errors.New("refused")
		_, err := f.UpdateLead(t.Context(), scope, before.LeadsID, func(waypost.Lead) (waypost.LeadFields, []string, error) {
			return waypost.LeadFields{Name: "B"}, nil, refused
		})
		if !errors.Is(err, refused) {
			t.Fatalf("got %v", err)
		}
		_, err = f.UpdateLead(t.Context(), scope, before.LeadsID, set(waypost.LeadFields{Name: "\x00"}))
		wantCode(t, err, waypost.CodeBadRequest)
		if err := f.DeleteLead(t.Context(), scope, before.LeadsID, func(lead waypost.Lead) error {
			equal(t, "seen", lead, before)
			return refused
		}); !errors.Is(err, refused) {
			t.Fatalf("got %v", err)
		}
		for _, sc := range foreign {
			_, err := f.UpdateLead(t.Context(), sc, before.LeadsID, set(waypost.LeadFields{Name: "B"}))
			wantCode(t, err, waypost.CodeNotFound)
			wantCode(t, f.DeleteLead(t.Context(), sc, before.LeadsID, nil), waypost.CodeNotFound)
		}
		_, err = f.UpdateLead(t.Context(), scope, before.LeadsID+1, set(waypost.LeadFields{Name: "B"}))
		wantCode(t, err, waypost.CodeNotFound)
		wantCode(t, f.DeleteLead(t.Context(), scope, before.LeadsID+1, nil), waypost.CodeNotFound)
		equal(t, "unchanged", must[waypost.Lead](t)(f.Lead(t.Context(), scope, before.LeadsID)), before)
		f.has(t, "+491", before.LeadsID)
	}},
	{"duplicates of updates", func(t *testing.T, f *fixture) {
		other := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "A", ExternalID: ptr("x")}, []string{"+491", "+492"})).LeadsID
		lead := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "B", ExternalID: ptr("y")}, []string{"+493"}))
		for _, c := range []struct {
			external string
			phones   []string
			details  []string
		}{
			{"x", []string{"+493"}, []string{"externalId"}},
			{"y", []string{"+493", "+492"}, []string{"mobilePhone[1]"}},
			{"z", []string{"+492", "+494", "+491"}, []string{"mobilePhone[0]", "mobilePhone[2]"}},
			{"x", []string{"+491"}, []string{"externalId", "mobilePhone[0]"}},
		} {
			_, err := f.UpdateLead(t.Context(), scope, lead.LeadsID, set(waypost.LeadFields{Name: "C", ExternalID: &c.external}, c.phones...))
			var e *waypost.Error
			if !errors.As(err, &e) || e.Code != waypost.CodeConflict || !strings.HasPrefix(c.details[0], e.Target) || len(e.Details) != len(c.details) {
				t.Fatalf("got %+v, want a Conflict with details %v", err, c.details)
			}
			for i, d := range e.Details {
				if d.Code != waypost.DetailDuplicate || d.Target != c.details[i] || !strings.Contains(d.Message, fmt.Sprint(other)) {
					t.Fatalf("got detail %+v, want Duplicate of %s naming %d", d, c.details[i], other)
				}
			}
		}
		equal(t, "unchanged", must[waypost.Lead](t)(f.Lead(t.Context(), scope, lead.LeadsID)), lead)
		f.has(t, "+493", lead.LeadsID)
		f.has(t, "+494", 0)
		// What is given up is free for others.
		must[waypost.Lead](t)(f.UpdateLead(t.Context(), scope, other, set(waypost.LeadFields{Name: "A"}, "+492")))
		must[waypost.Lead](t)(f.UpdateLead(t.Context(), scope, lead.LeadsID, set(waypost.LeadFields{Name: "B", ExternalID: ptr("x")}, "+491")))
		f.has(t, "+491", lead.LeadsID)
	}},
	{"concurrent updates", func(t *testing.T, f *fixture) {
		id := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "A", Remark: ptr("0")}, nil)).LeadsID
		count := func(lead waypost.Lead) (waypost.LeadFields, []string, error) {
			n, err := strconv.Atoi(*lead.Remark)
			lead.Remark = ptr(strconv.Itoa(n + 1))
			return lead.LeadFields, []string{fmt.Sprint("+49", n)}, err
		}
		for _, err := range atOnce(50, func(int) error { _, err := f.UpdateLead(t.Context(), scope, id, count); return err }) {
			ok(t, err)
		}
		equal(t, "counted", *must[waypost.Lead](t)(f.Lead(t.Context(), scope, id)).Remark, "50")
		f.has(t, "+4949", id)
		f.has(t, "+4948", 0)
		// With a check of what it was, one passes.
		onePasses(t, atOnce(50, func(int) error {
			_, err := f.UpdateLead(t.Context(), scope, id, func(lead waypost.Lead) (waypost.LeadFields, []string, error) {
				if *lead.Remark != "50" {
					return waypost.LeadFields{}, nil, waypost.Errorf(waypost.CodeConflict, "", "it has changed")
				}
				return count(lead)
			})
			return err
		}))
	}},
	{"swapped numbers", func(t *testing.T, f *fixture) {
		for round := range 5 {
			phones := []string{fmt.Sprintf("+491%d", round), fmt.Sprintf("+492%d", round)}
			leads := []waypost.Lead{f.create(t, "A", phones[0]), f.create(t, "B", phones[1])}
			errs := atOnce(8, func(i int) error {
				_, err := f.UpdateLead(t.Context(), scope, leads[i%2].LeadsID, set(waypost.LeadFields{Name: "C"}, phones[(i+1)%2]))
				return err
			})
			for _, err := range errs { // neither can have the other's first
				wantCode(t, err, waypost.CodeConflict)
			}
			f.has(t, phones[0], leads[0].LeadsID)
			f.has(t, phones[1], leads[1].LeadsID)
		}
	}},
	{"delete", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		workflow, ids := f.started(t, journey, 2)
		lead, kept := f.enrollment(t, ids[0]).LeadsID, f.enrollment(t, ids[1]).LeadsID
		var keys []waypost.Touchpoint
		for _, id := range ids {
			key, o := f.touchpoint(t, id, journey)
			f.open(t, o)
			f.record(t, f.retrying(key, 1))
			keys = append(keys, key)
		}
		f.accept(t, lead, "evt", "purchase")
		wait := f.wait(t, ids[0], workflow, "later")
		f.await(t, wait)
		// One without a workflow, and one that has ended.
		unstarted := must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead, EntryKey: "again"}, waypost.Reentry{})).ID
		over := must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead, EntryKey: "over"}, waypost.Reentry{})).ID
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(over, 1, waypost.EnrollmentCompleted)}))
		must[waypost.Lead](t)(f.UpdateLead(t.Context(), scope, lead, set(waypost.LeadFields{Name: "A", ExternalID: ptr("x")}, "+491")))
		f.clock.Advance(time.Minute)

		ok(t, f.DeleteLead(t.Context(), scope, lead, nil))
		wantCode(t, f.DeleteLead(t.Context(), scope, lead, nil), waypost.CodeNotFound)
		_, err := f.Lead(t.Context(), scope, lead)
		wantCode(t, err, waypost.CodeNotFound)
		for id, want := range map[string]waypost.EnrollmentStatus{
			ids[0]: waypost.EnrollmentCanceled, unstarted: waypost.EnrollmentCanceled, over: waypost.EnrollmentCompleted, ids[1]: waypost.EnrollmentRunning,
		} {
			equal(t, "status", f.status(t, id), want)
		}
		equal(t, "ended at", *f.enrollment(t, ids[0]).EndedAt, f.clock.Now())
		for i, want := range []waypost.DeliveryStatus{waypost.DeliveryCanceled, waypost.DeliveryRetrying} {
			d, _, _ := f.delivery(t, keys[i])
			equal(t, "delivery", d.Status, want)
		}
		f.clock.Advance(time.Second) // notices wait for others
		equal(t, "notices", f.notices(t), []waypost.Notice{{WorkflowID: workflow, EnrollmentID: ids[0]}})
		// Nothing of it stands in the way of others, save its id.
		must[bool](t)(f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: "evt", Name: "purchase", LeadsID: kept}))
		next := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "B", ExternalID: ptr("x")}, []string{"+491"}))
		ok(t, f.DeleteLead(t.Context(), scope, next.LeadsID, nil))
		if again := f.create(t, "C").LeadsID; again <= next.LeadsID {
			t.Fatalf("lead %d after %d was deleted", again, next.LeadsID)
		}
	}},
	{"delete somebody who is in a journey several times", func(t *testing.T, f *fixture) {
		lead := f.lead(t)
		journey := f.journey(t)
		enroll := func() string {
			return must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead},
				waypost.Reentry{Policy: waypost.ReentryAlways})).ID
		}
		first, second, third := enroll(), enroll(), enroll()
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, third))
		ended := f.enrollment(t, third)
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, second)) // the entry names the third one
		ok(t, f.DeleteLead(t.Context(), scope, lead, nil))
		for _, id := range []string{first, second, third} {
			equal(t, id, f.enrollment(t, id).Status, waypost.EnrollmentCanceled)
		}
		equal(t, "one that had ended", f.enrollment(t, third), ended)
	}},
	{"delete at once", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		for round := range 5 {
			id := f.create(t, "A", "+491").LeadsID
			key := fmt.Sprint(round)
			e := must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: id, EntryKey: key}, waypost.Reentry{})).ID
			errs := atOnce(9, func(i int) error {
				var err error
				switch i % 3 {
				case 0:
					err = f.DeleteLead(t.Context(), scope, id, nil)
				case 1:
					if _, err = f.UpdateLead(t.Context(), scope, id, set(waypost.LeadFields{Name: "B"}, "+492")); err == nil {
						return nil
					}
				case 2:
					if _, err = f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: fmt.Sprint(round, i), Name: "n", LeadsID: id}); err == nil {
						return nil
					}
				}
				if err != nil && waypost.CodeOf(err) != waypost.CodeNotFound {
					t.Error(err)
				}
				return err
			})
			deleted := 0
			for i := 0; i < len(errs); i += 3 {
				if errs[i] == nil {
					deleted++
				}
			}
			equal(t, "deletions that passed", deleted, 1)
			equal(t, "its enrollment", f.status(t, e), waypost.EnrollmentCanceled)
			f.has(t, "+492", 0)
		}
	}},
	{"kept answer", func(t *testing.T, f *fixture) {
		c := claimOf("key", "one")
		must[*waypost.Answer](t)(f.ClaimKey(t.Context(), c, nil))
		lead := must[waypost.Lead](t)(f.CreateLead(waypost.WithClaim(t.Context(), c), scope, waypost.LeadFields{Name: "A"}, []string{"+491"}))
		want, _ := c.Answer(lead)
		equal(t, "kept", must[*waypost.Answer](t)(f.ClaimKey(t.Context(), claimOf("key", "two"), nil)), &want)
		// What lost its key has no effect.
		_, err := f.CreateLead(waypost.WithClaim(t.Context(), claimOf("key", "three")), scope, waypost.LeadFields{Name: "B"}, []string{"+492"})
		wantCode(t, err, waypost.CodeConflict)
		f.has(t, "+492", 0)
	}},
	{"prefixes", func(t *testing.T, f *fixture) {
		names := []string{"a", "ab", "abc", "Ab", "b", "a'b", "a%", "王", "王小明", "\uD7FF1", "\uE0001", "z\U0010FFFF", "z\U0010FFFF\U0010FFFF1", "\U0010FFFF"}
		for _, name := range names {
			f.create(t, name)
		}
		for _, prefix := range append(names, "A", "z", "none", "\uD7FF") {
			var got, want []string
			for _, lead := range must[[]waypost.Lead](t)(f.ListLeads(t.Context(), scope, waypost.LeadQuery{Filter: waypost.LeadFilter{Name: prefix}})) {
				got = append(got, lead.Name)
			}
			for _, name := range names {
				if strings.HasPrefix(strings.ToLower(name), strings.ToLower(prefix)) {
					want = append(want, name)
				}
			}
			equal(t, fmt.Sprintf("%q", prefix), got, want)
		}
	}},
	{"bad lists", func(t *testing.T, f *fixture) {
		for _, c := range []struct {
			sort          waypost.LeadSort
			after, target string
		}{
			{"", "x", "cursor"}, {"", "1,2", "cursor"}, {"", ",", "cursor"}, {"", "99999999999999999999", "cursor"},
			{waypost.SortCreatedAt, "1", "cursor"}, {waypost.SortUpdatedAtDown, "1,2,3", "cursor"}, {waypost.SortCreatedAt, "1,", "cursor"},
			{"name", "", "sort"}, {"leadsid", "", "sort"},
		} {
			_, err := f.ListLeads(t.Context(), scope, waypost.LeadQuery{Sort: c.sort, Page: waypost.Page{After: c.after}})
			var e *waypost.Error
			if !errors.As(err, &e) || e.Code != waypost.CodeBadRequest || e.Target != c.target {
				t.Fatalf("%+v: %v", c, err)
			}
		}
		err := f.ExportLeads(t.Context(), scope, waypost.LeadQuery{Sort: "name"}, nil, func(waypost.Lead) error { return nil })
		wantCode(t, err, waypost.CodeBadRequest)
	}},
	{"export", func(t *testing.T, f *fixture) {
		for i, custom := range []map[string]any{{"b": 1.0, "a": "\\u0000\""}, nil, {}, {"c": true, "a": nil, "é 王": "x"}} {
			must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: fmt.Sprint(i), CustomFields: custom}, nil))
		}
		must[waypost.Lead](t)(f.CreateLead(t.Context(), foreign[0], waypost.LeadFields{Name: "0", CustomFields: map[string]any{"foreign": 1.0}}, nil))
		export := func(q waypost.LeadQuery) (names []string, leads []waypost.Lead) {
			t.Helper()
			ok(t, f.ExportLeads(t.Context(), scope, q, func(fields []string) error {
				names = fields
				return nil
			}, func(lead waypost.Lead) error {
				leads = append(leads, lead)
				return nil
			}))
			return names, leads
		}
		names, leads := export(waypost.LeadQuery{Sort: waypost.SortLeadsIDDown, Page: waypost.Page{Limit: 1, After: "x"}})
		equal(t, "custom fields", names, []string{"customFields.a", "customFields.b", "customFields.c", "customFields.é 王"})
		all := must[[]waypost.Lead](t)(f.ListLeads(t.Context(), scope, waypost.LeadQuery{}))
		slices.Reverse(all)
		equal(t, "leads", leads, all)
		names, leads = export(waypost.LeadQuery{Filter: waypost.LeadFilter{Name: "2"}})
		equal(t, "of one", []int{len(names), len(leads)}, []int{0, 1})

		refused := errors.New("refused")
		refuse := func([]string) error { return refused }
		seen := 0
		count := func(waypost.Lead) error { seen++; return refused }
		if err := f.ExportLeads(t.Context(), scope, waypost.LeadQuery{}, refuse, count); !errors.Is(err, refused) || seen != 0 {
			t.Fatalf("%v after %d", err, seen)
		}
		if err := f.ExportLeads(t.Context(), scope, waypost.LeadQuery{}, nil, count); !errors.Is(err, refused) || seen != 1 {
			t.Fatalf("%v after %d", err, seen)
		}
		// The most exports that a gateway has at a time leave connections for others.
		const exports = 6
		block, running := make(chan struct{}), make(chan struct{}, exports)
		done := make(chan []error)
		go func() {
			done <- atOnce(exports, func(int) error {
				first := true
				return f.ExportLeads(t.Context(), scope, waypost.LeadQuery{}, nil, func(waypost.Lead) error {
					if first {
						first = false
						running <- struct{}{}
						<-block
					}
					return nil
				})
			})
		}()
		for range exports {
			<-running
		}
		must[waypost.Lead](t)(f.Lead(t.Context(), scope, all[0].LeadsID))
		must[waypost.Lead](t)(f.UpdateLead(t.Context(), scope, all[0].LeadsID, set(waypost.LeadFields{Name: "Z"})))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := f.ExportLeads(ctx, scope, waypost.LeadQuery{}, nil, count); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		close(block)
		for _, err := range <-done {
			ok(t, err)
		}
	}},
}
