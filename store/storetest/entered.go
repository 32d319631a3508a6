package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"waypost"
)

// entering makes a journey that begins by entering a segment.
func (f *fixture) entering(t testing.TB, segment string) string {
	t.Helper()
	return f.beginning(t, waypost.EntryRule{Kind: waypost.EntrySegment, Segment: segment})
}

// look looks who has entered segments until nobody is left, and tells whether there was
// anything for a pump to do.
func (f *fixture) look(t testing.TB) (acted bool) {
	t.Helper()
	for {
		more, did, err := f.CheckSegments(t.Context(), 100)
		ok(t, err)
		acted = acted || did
		if !more {
			return acted
		}
	}
}

// read reads the watched segments as a whole whose time has come.
func (f *fixture) read(t testing.TB) {
	t.Helper()
	for {
		more, _, err := f.ReadSegments(t.Context())
		ok(t, err)
		if !more {
			return
		}
	}
}

// plan gives a lead a plan.
func (f *fixture) plan(t testing.TB, lead int64, plan string) {
	t.Helper()
	must[waypost.Lead](t)(f.UpdateLead(t.Context(), scope, lead, func(l waypost.Lead) (waypost.LeadFields, []string, error) {
		l.CustomFields = map[string]any{"plan": plan}
		return l.LeadFields, nil, nil
	}))
}

// in lists the leads that have enrollments in a journey, once for each, sorted.
func (f *fixture) in(t testing.TB, journey string) []int64 {
	t.Helper()
	leads := []int64{}
	for _, e := range f.enrollments(t, journey) {
		leads = append(leads, e.LeadsID)
	}
	slices.Sort(leads)
	return leads
}

const gold = `lead.customFields.plan == "gold"`

var enteredTests = []test{
	{"who becomes a member enters", func(t *testing.T, f *fixture) { f.membersEnter(t, gold) }},
	{"who becomes a member of what is evaluated enters", func(t *testing.T, f *fixture) { f.membersEnter(t, gold+` && lead.name.matches("A.*|E.*")`) }},
	{"what changes who is in it", func(t *testing.T, f *fixture) {
		elsewhere := f.journeyWith(t, hello)
		inner := f.segment(t, `events("buy").count() > 0`)
		for name, c := range map[string]struct {
			when  string
			cause func(lead int64)
		}{
			"an event":         {`events("buy").last().amount > 5`, func(lead int64) { f.event(t, lead, "buy", 6) }},
			"a nested segment": {`inSegment("` + inner.ID + `") && lead.name == "Ada"`, func(lead int64) { f.event(t, lead, "buy", 6) }},
			"an enrollment":    {`entered("` + elsewhere + `")`, func(lead int64) { f.enrolledIn(t, elsewhere, lead) }},
			"one of a launch":  {`entered("` + elsewhere + `")`, func(lead int64) { f.run(t, f.launch(t, elsewhere, lead).ID, 10) }},
			"a message":        {`delivered("` + elsewhere + `", "hello")`, func(lead int64) { f.deliverTo(t, elsewhere, lead) }},
			"an imported event": {`events("buy").count() > 0`, func(lead int64) {
				must[waypost.EventImport](t)(f.ImportEvents(t.Context(), scope, eventLines([]waypost.Event{{EventID: fmt.Sprint("i", lead), Name: "buy", LeadsID: lead}})))
			}},
		} {
			g := f.segment(t, c.when)
			journey := f.entering(t, g.ID)
			lead, bystander := f.lead(t), f.lead(t)
			f.event(t, bystander, "sell", 1)
			f.look(t)
			equal(t, name+" before", f.in(t, journey), []int64{})
			f.clock.Advance(time.Second)
			c.cause(lead)
			f.look(t)
			equal(t, name, f.in(t, journey), []int64{lead})
		}
	}},
	{"by time", func(t *testing.T, f *fixture) {
		for _, when := range []string{
			`events("buy").count() > 0 && events("buy", duration("48h")).count() == 0`,
			`events("buy").last().amount > 5 && events("buy", duration("48h")).count() == 0`,
		} {
			lead, old := f.lead(t), f.lead(t)
			f.event(t, old, "buy", 6)
			f.clock.Advance(72 * time.Hour)
			g := f.segment(t, when)
			journey, exiting := f.entering(t, g.ID), f.exitingBy(t, g.ID)
			f.event(t, lead, "buy", 6)
			f.look(t)
			running := f.enrolledIn(t, exiting, lead)[0]
			f.clock.Advance(47 * time.Hour)
			f.read(t)
			equal(t, "before", []any{f.in(t, journey), f.status(t, running)}, []any{[]int64{}, waypost.EnrollmentPending})
			f.clock.Advance(time.Hour)
			f.read(t)
			equal(t, "when it is time", []any{f.in(t, journey), f.status(t, running)}, []any{[]int64{lead}, waypost.EnrollmentExited})
			f.clock.Advance(time.Hour)
			f.read(t)
			equal(t, "once", f.in(t, journey), []int64{lead})
			e := f.enrollments(t, journey)[0]
			_, err := f.CancelEnrollment(t.Context(), scope, e.ID)
			ok(t, err)
			f.event(t, lead, "buy", 7) // leaves
			f.event(t, old, "buy", 7)
			f.look(t)
			f.clock.Advance(49 * time.Hour)
			f.read(t)
			equal(t, "again", f.in(t, journey), []int64{lead, lead, old}[:3])
		}
	}},
	{"what is published", func(t *testing.T, f *fixture) {
		g, other := f.segment(t, gold), f.segment(t, `lead.name == "Ada"`)
		journey := f.entering(t, g.ID)
		n := 0
		begins := func(what string, version int) {
			t.Helper()
			before := len(f.enrollments(t, journey))
			f.clock.Advance(time.Second)
			f.plan(t, f.lead(t), "gold")
			f.look(t)
			if version > 0 {
				n++
			}
			list := f.enrollments(t, journey)
			equal(t, what, len(list), n)
			if n > before {
				equal(t, what, list[n-1].Version, version)
			}
		}
		last := func() waypost.Enrollment { return f.enrollments(t, journey)[n-1] }
		begins("the first version", 1)
		must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, journey))
		begins("paused", 1)
		equal(t, "it waits for the resume", last().Status, waypost.EnrollmentPaused)
		must[waypost.Journey](t)(f.ResumeJourney(t.Context(), scope, journey, false))
		equal(t, "it goes on", last().Status, waypost.EnrollmentPending)
		begins("resumed", 1)
		// Who has entered before the next version, and is looked at after it, enters that.
		f.clock.Advance(time.Second)
		f.plan(t, f.lead(t), "gold")
		f.clock.Advance(time.Second)
		equal(t, "version", f.republish(t, journey, `{"least":55}`, waypost.EntryRule{Kind: waypost.EntrySegment, Segment: g.ID}), 2)
		n++
		begins("the second version", 2)
		// Who has entered before a journey begins by it does not.
		f.clock.Advance(time.Second)
		f.plan(t, f.lead(t), "gold")
		n++
		f.clock.Advance(time.Second)
		late := f.entering(t, g.ID)
		begins("beside another one", 2)
		equal(t, "the other one", len(f.enrollments(t, late)), 1)
		must[waypost.Journey](t)(f.ArchiveJourney(t.Context(), scope, journey))
		begins("archived", 0)
		must[waypost.Journey](t)(f.ArchiveJourney(t.Context(), scope, late))
		f.clock.Advance(2 * time.Hour)
		f.read(t)
		begins("nobody watches", 0)
		f.republish(t, journey, `{"least":55}`, waypost.EntryRule{Kind: waypost.EntrySegment, Segment: g.ID})
		begins("in use again", 2)
		f.republish(t, journey, `{"least":1}`, waypost.EntryRule{Kind: waypost.EntrySegment, Segment: other.ID})
		begins("another segment", 3)
		f.exitingBy(t, g.ID)
		wantCode(t, f.DeleteSegment(t.Context(), scope, g.ID, nil), waypost.CodeConflict)
		for _, sc := range foreign {
			lead := must[waypost.Lead](t)(f.CreateLead(t.Context(), sc, waypost.LeadFields{Name: "Ada"}, nil))
			equal(t, "another scope's lead", lead.Began, 0)
			_, err := f.PublishJourney(t.Context(), sc, must[waypost.Journey](t)(f.CreateJourney(t.Context(), sc, "J", []byte(`{}`))).ID, waypost.Publication{
				Name: "J", Hash: "h", Definition: []byte(`{"exitOn":[{"segment":"` + g.ID + `","on":"enter"}]}`),
			})
			wantCode(t, err, waypost.CodeBadRequest)
		}
	}},
	{"the condition is changed", func(t *testing.T, f *fixture) {
		g := f.segment(t, gold)
		nesting := f.segment(t, `inSegment("`+g.ID+`")`)
		journeys := []string{f.entering(t, g.ID), f.entering(t, nesting.ID)}
		wants := func(what string, leads ...int64) {
			t.Helper()
			f.clock.Advance(time.Second)
			f.look(t)
			f.read(t)
			for _, journey := range journeys {
				equal(t, what, f.in(t, journey), leads)
			}
		}
		golden, silver, bronze := f.lead(t), f.lead(t), f.lead(t)
		f.plan(t, golden, "gold")
		wants("before", golden)
		f.plan(t, silver, "silver")
		f.plan(t, bronze, "bronze")
		wants("before", golden)
		replace := func(when string) {
			t.Helper()
			must[waypost.Segment](t)(f.ReplaceSegment(t.Context(), scope, g.ID, waypost.Segment{Name: "x", When: when}, nil))
		}
		replace(`lead.customFields.plan in ["silver", "gold"] || events("buy").count() > 0`)
		f.plan(t, silver, "gold")
		f.plan(t, golden, "silver")
		wants("who comes in by the change does not enter", golden)
		f.event(t, bronze, "buy", 1)
		wants("what it asks now counts", golden, bronze)
		replace(gold)
		f.plan(t, bronze, "none")
		replace(`lead.customFields.plan in ["none", "gold"]`)
		wants("both are known anew", golden, bronze)
		late := f.lead(t)
		f.plan(t, late, "none")
		wants("and then", golden, bronze, late)
	}},
	{"two at once, once each", func(t *testing.T, f *fixture) {
		g := f.segment(t, gold)
		journey, exiting := f.entering(t, g.ID), f.exitingBy(t, g.ID)
		leads := make([]int64, 40)
		for i := range leads {
			leads[i] = f.lead(t)
		}
		f.enrolledIn(t, exiting, leads...)
		f.clock.Advance(time.Second)
		for _, err := range atOnce(len(leads)+8, func(i int) error {
			if i < len(leads) {
				for _, plan := range []string{"gold", "silver", "gold"} {
					_, err := f.UpdateLead(t.Context(), scope, leads[i], func(l waypost.Lead) (waypost.LeadFields, []string, error) {
						l.CustomFields = map[string]any{"plan": plan}
						return l.LeadFields, nil, nil
					})
					if err != nil {
						return err
					}
				}
				return nil
			}
			for range 20 {
				if _, _, err := f.CheckSegments(context.WithoutCancel(t.Context()), 7); err != nil {
					return err
				}
				if _, _, err := f.ReadSegments(context.WithoutCancel(t.Context())); err != nil {
					return err
				}
			}
			return nil
		}) {
			ok(t, err)
		}
		f.look(t)
		equal(t, "enrolled", f.in(t, journey), leads)
		for _, e := range f.enrollments(t, exiting) {
			equal(t, "exited", e.Status, waypost.EnrollmentExited)
		}
		started := 0
		for _, c := range must[[]waypost.Cohort](t)(f.ClaimLaunchCohorts(t.Context(), 1000)) {
			started += len(c.Members)
		}
		for c := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context())); c != nil; c = must[*waypost.Cohort](t)(f.ClaimCohort(t.Context())) {
			started += len(c.Members)
		}
		equal(t, "each is started once", started, len(leads))
	}},
	{"nobody is lost while a journey is published", func(t *testing.T, f *fixture) {
		// A lead that becomes a member while the segment begins to be watched was one before, or
		// enters. Either way it is remembered.
		leads := make([]int64, 60)
		for i := range leads {
			leads[i] = f.lead(t)
		}
		g := f.segment(t, gold)
		journeys := make([]string, 3)
		for i := range journeys {
			journeys[i] = must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "Cart", []byte(`{}`))).ID
		}
		f.SetEntrances(totals{})
		for _, err := range atOnce(len(leads)+len(journeys), func(i int) error {
			if i < len(leads) {
				_, err := f.UpdateLead(t.Context(), scope, leads[i], func(l waypost.Lead) (waypost.LeadFields, []string, error) {
					l.CustomFields = map[string]any{"plan": "gold"}
					return l.LeadFields, nil, nil
				})
				return err
			}
			_, err := f.PublishJourney(t.Context(), scope, journeys[i-len(leads)], waypost.Publication{
				Name: "Cart", Hash: "h", Definition: []byte(`{}`), Entry: []waypost.EntryRule{{Kind: waypost.EntrySegment, Segment: g.ID}},
			})
			return err
		}) {
			ok(t, err)
		}
		counts := func() (n []int) {
			f.clock.Advance(time.Second)
			f.look(t)
			for _, journey := range journeys {
				n = append(n, len(f.enrollments(t, journey)))
			}
			return n
		}
		begun := counts()
		for _, lead := range leads {
			f.plan(t, lead, "gold")
		}
		equal(t, "who was not remembered", counts(), begun)
	}},
	{"many", func(t *testing.T, f *fixture) {
		g := f.segment(t, gold)
		rows := func(from, n int, plan string) {
			t.Helper()
			im := must[waypost.Import](t)(f.CreateImport(t.Context(), scope, waypost.Import{AppID: "app_1", Mode: waypost.ImportUpsert}, func(yield func(waypost.ImportRow, error) bool) {
				for i := range n {
					if !yield(waypost.ImportRow{Line: i + 1, Data: fmt.Appendf(nil, `{"externalId":"x%d","name":"Vic","customFields":{"plan":%q}}`, from+i, plan)}, nil) {
						return
					}
				}
			}))
			for im.Status != waypost.ImportSucceeded {
				im = must[waypost.Import](t)(f.ImportStep(t.Context(), im.ID))
			}
		}
		rows(0, 1200, "gold")
		journey := f.entering(t, g.ID)
		begun := func(what string, want int) {
			t.Helper()
			f.clock.Advance(time.Second)
			f.look(t)
			f.read(t)
			equal(t, what, f.sums(t, journey).Begun[waypost.EntrySegment], want)
		}
		rows(1100, 300, "gold")
		begun("who was not among them", 200)
		rows(0, 1100, "gold")
		begun("who was", 200)
		rows(0, 700, "silver")
		begun("who leaves", 200)
		must[waypost.Segment](t)(f.ReplaceSegment(t.Context(), scope, g.ID, waypost.Segment{Name: "x", When: `lead.name == "Vic"`}, nil))
		rows(0, 1400, "silver")
		begun("who comes in by a change of the condition", 200)
	}},
	{"a lead is erased", func(t *testing.T, f *fixture) {
		g := f.segment(t, gold)
		journey := f.entering(t, g.ID)
		lead := f.lead(t)
		f.plan(t, lead, "gold")
		f.look(t)
		f.plan(t, lead, "gold")
		ok(t, f.DeleteLead(t.Context(), scope, lead, nil))
		more, acted, err := f.CheckSegments(t.Context(), 10)
		ok(t, err)
		equal(t, "to be looked at", []bool{more, acted}, []bool{false, false})
		equal(t, "enrollments", len(f.enrollments(t, journey)), 1)
	}},
	{"too many journeys", func(t *testing.T, f *fixture) {
		g := f.segment(t, gold)
		for range waypost.MaxEntryRules {
			f.entering(t, g.ID)
		}
		j := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "Cart", []byte(`{}`)))
		_, err := f.PublishJourney(t.Context(), scope, j.ID, waypost.Publication{
			Name: "Cart", Hash: "h", Definition: []byte(`{}`), Entry: []waypost.EntryRule{{Kind: waypost.EntrySegment, Segment: g.ID}},
		})
		wantCode(t, err, waypost.CodeBadRequest)
	}},
}

// exitingBy makes a journey whose enrollments end by entering a segment.
func (f *fixture) exitingBy(t testing.TB, segment string) string {
	t.Helper()
	return f.journeyWith(t, `{"name":"Welcome","exitOn":[{"event":"leave"},{"segment":"`+segment+`","on":"enter"}]}`)
}

// enrolledIn enrolls leads in a journey, and returns the enrollments.
func (f *fixture) enrolledIn(t testing.TB, journey string, leads ...int64) (ids []string) {
	t.Helper()
	for _, lead := range leads {
		ids = append(ids, must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead}, waypost.Reentry{Policy: waypost.ReentryAlways})).ID)
	}
	return ids
}

// event stores an event with an amount.
func (f *fixture) event(t testing.TB, lead int64, name string, amount float64) {
	t.Helper()
	must[bool](t)(f.AcceptEvent(t.Context(), scope, waypost.Event{
		EventID: waypost.NewID(waypost.PrefixMessage, f.clock.Now()), Name: name, LeadsID: lead, Properties: map[string]any{"amount": amount},
	}))
}

// deliverTo delivers the message of the node hello to a lead.
func (f *fixture) deliverTo(t testing.TB, journey string, lead int64) {
	t.Helper()
	id := f.enrolledIn(t, journey, lead)[0]
	key, o := f.touchpoint(t, id, journey)
	o.Delivery.LeadsID, o.Delivery.NodeID = lead, "hello"
	f.open(t, o)
	f.record(t, f.succeeded(key, 1))
}

// membersEnter has leads become members of a segment, leave it and come again.
func (f *fixture) membersEnter(t *testing.T, when string) {
	member, other, third := f.lead(t), f.lead(t), f.lead(t)
	f.plan(t, member, "gold")
	g := f.segment(t, when)
	journey, exiting := f.entering(t, g.ID), f.exitingBy(t, g.ID)
	running := f.enrolledIn(t, exiting, member, other)
	f.clock.Advance(time.Second)
	equal(t, "nothing yet", f.look(t), false)
	f.plan(t, member, "gold")
	f.plan(t, third, "silver")
	equal(t, "nobody", []any{f.look(t), f.in(t, journey)}, []any{false, []int64{}})
	f.clock.Advance(time.Second)
	f.plan(t, other, "gold")
	f.clock.Advance(time.Second)
	equal(t, "somebody", []any{f.look(t), f.in(t, journey)}, []any{true, []int64{other}})
	e := f.enrollments(t, journey)[0]
	equal(t, "entry", []any{e.Entry, e.EntryKey, e.Depth, e.Status, e.CreatedAt},
		[]any{waypost.Entry{Kind: waypost.EntrySegment, Segment: g.ID}, "", 0, waypost.EnrollmentPending, f.clock.Now()})
	equal(t, "who exits", []any{f.status(t, running[0]), f.status(t, running[1])}, []any{waypost.EnrollmentPending, waypost.EnrollmentExited})
	end := last(t, f.timeline(t, running[1]))
	equal(t, "why", end, waypost.TimelineEntry{At: f.clock.Now(), What: waypost.WhatExited, Reason: "segment " + g.ID, Version: 1})
	f.plan(t, other, "gold") // is in it still
	equal(t, "once", []any{f.look(t), f.in(t, journey)}, []any{false, []int64{other}})
	f.plan(t, other, "silver")
	equal(t, "left", f.look(t), false)
	f.plan(t, other, "gold")
	equal(t, "refused", []any{f.look(t), f.in(t, journey)}, []any{false, []int64{other}})
	_, err := f.CancelEnrollment(t.Context(), scope, e.ID)
	ok(t, err)
	f.plan(t, other, "silver")
	f.look(t)
	f.clock.Advance(time.Second)
	f.plan(t, other, "gold")
	equal(t, "again", []any{f.look(t), f.in(t, journey)}, []any{true, []int64{other, other}})
	f.plan(t, third, "silver")
	f.plan(t, third, "gold")
	f.plan(t, third, "silver")
	equal(t, "was in it in between", []any{f.look(t), f.in(t, journey)}, []any{false, []int64{other, other}})
	c := f.sums(t, journey)
	equal(t, "counts", []any{c.Entered, c.Begun, c.Refused}, []any{2, map[waypost.EntryKind]int{waypost.EntrySegment: 2}, 1})
	eve := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Eve", CustomFields: map[string]any{"plan": "gold"}}, nil)).LeadsID
	ada := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Ada", CustomFields: map[string]any{"plan": "gold"}}, nil)).LeadsID
	equal(t, "created, and not Eve", []any{f.look(t), f.in(t, journey)}, []any{true, []int64{other, other, ada}})
	ok(t, f.DeleteLead(t.Context(), scope, eve, nil))
}
