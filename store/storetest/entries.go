package storetest

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
)

// totals decides about entries as package journey does by conditions: an event enters if its
// total is more than the definition's least, a lead if it has a name that begins with "V", and
// whoever has entered a segment but Eve.
// The entry key is the property cart. A total that is no number cannot be evaluated.
type totals struct{}

func (totals) Enter(v waypost.JourneyVersion, o waypost.Occasion) (d waypost.EntryDecision, err error) {
	var definition struct {
		Least   float64
		Reentry waypost.Reentry
	}
	if err := json.Unmarshal(v.Definition, &definition); err != nil {
		return d, err
	}
	d.Reentry = definition.Reentry
	switch o.Kind {
	case waypost.EntryEvent:
		total, isNumber := o.Event.Properties["total"].(float64)
		d.Enters, d.Failed = isNumber && total > definition.Least, !isNumber
		d.Key, _ = o.Event.Properties["cart"].(string)
	case waypost.EntryLeadCreated:
		d.Enters = strings.HasPrefix(o.Lead.Name, "V")
	case waypost.EntrySegment:
		d.Enters = o.Lead.Name != "Eve"
	case waypost.EntryLeadChanged:
		d.Enters = slices.Contains(o.Changed, "customFields.plan")
	}
	return d, nil
}

// beginning makes a journey that begins by itself: with a total over 50, once for each cart at
// a time.
func (f *fixture) beginning(t testing.TB, rules ...waypost.EntryRule) string {
	t.Helper()
	j := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "Cart", []byte(`{}`)))
	f.republish(t, j.ID, `{"least":50}`, rules...)
	return j.ID
}

func (f *fixture) republish(t testing.TB, id, definition string, rules ...waypost.EntryRule) int {
	t.Helper()
	f.SetEntrances(totals{})
	return must[waypost.JourneyVersion](t)(f.PublishJourney(t.Context(), scope, id, waypost.Publication{
		Name: "Cart", Hash: definition, Definition: []byte(definition), Entry: rules,
	})).Version
}

var cart = waypost.EntryRule{Kind: waypost.EntryEvent, Event: "cart"}

func cartOf(lead int64, id string, total any, key string) waypost.Event {
	return waypost.Event{EventID: id, Name: "cart", LeadsID: lead, Properties: map[string]any{"total": total, "cart": key}}
}

// enrollments lists those of a journey as they were made.
func (f *fixture) enrollments(t testing.TB, journey string) []waypost.Enrollment {
	t.Helper()
	list, _, err := f.ListEnrollments(t.Context(), scope, waypost.EnrollmentFilter{JourneyID: journey, OldestFirst: true}, waypost.Page{Limit: 1000})
	ok(t, err)
	return list
}

// sums are the counts of all versions of a journey.
func (f *fixture) sums(t testing.TB, journey string) waypost.Counts {
	t.Helper()
	var all waypost.Counts
	for _, c := range must[waypost.Statistics](t)(f.Statistics(t.Context(), waypost.StatisticsQuery{JourneyID: journey})).Versions {
		all.Add(c, 1)
	}
	return all
}

// eventLines are events as an import has them.
func eventLines(events []waypost.Event) iter.Seq2[waypost.EventRow, error] {
	return func(yield func(waypost.EventRow, error) bool) {
		for i, e := range events {
			if !yield(waypost.EventRow{Line: i + 1, Event: e}, nil) {
				return
			}
		}
	}
}

var entryTests = []test{
	{"by an event", func(t *testing.T, f *fixture) {
		journey, other := f.beginning(t, cart), f.beginning(t, waypost.EntryRule{Kind: waypost.EntryEvent, Event: "other"})
		lead := f.lead(t)
		by := waypost.Author{Scope: scope, Application: "app_7"}
		e := cartOf(lead, "e1", 60.5, "c1")
		e.Depth = 4
		accepted := f.clock.Now()
		equal(t, "stored", must[bool](t)(f.AcceptEvent(t.Context(), by, e)), true)
		f.clock.Advance(time.Second)
		equal(t, "again", must[bool](t)(f.AcceptEvent(t.Context(), by, e)), false)
		must[bool](t)(f.AcceptEvent(t.Context(), by, cartOf(lead, "too small", 50.0, "c2")))
		must[bool](t)(f.AcceptEvent(t.Context(), by, cartOf(lead, "the same cart", 70.0, "c1")))
		must[bool](t)(f.AcceptEvent(t.Context(), by, cartOf(lead, "another cart", 70.0, "c3")))
		must[bool](t)(f.AcceptEvent(t.Context(), by, cartOf(lead, "no number", "many", "c4")))
		list := f.enrollments(t, journey)
		equal(t, "enrollments", len(list), 2)
		tester := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Test", Test: true}, nil)).LeadsID
		for _, e := range []waypost.Event{cartOf(tester, "t1", 60.5, "c1"), cartOf(tester, "t2", 60.5, "c1"), cartOf(tester, "t3", "many", "c1")} {
			must[bool](t)(f.AcceptEvent(t.Context(), by, e))
		}
		equal(t, "those of a test lead, which do not count", len(f.enrollments(t, journey)), 3)
		got := must[map[string]waypost.Enrollment](t)(f.EnrollmentsByID(t.Context(), []string{list[0].ID}))[list[0].ID]
		equal(t, "event", *got.Event, waypost.Event{EventID: "e1", Name: "cart", LeadsID: lead, Properties: e.Properties, OccurredAt: accepted, AcceptedAt: accepted})
		equal(t, "entry", got.Entry, waypost.Entry{Kind: waypost.EntryEvent, Event: "cart", EventID: "e1", OccurredAt: accepted})
		equal(t, "application, key, depth", []any{got.AppID, got.EntryKey, got.Depth, got.Status}, []any{"app_7", "c1", 4, waypost.EnrollmentPending})
		equal(t, "another key", list[1].EntryKey, "c3")
		c := f.sums(t, journey)
		equal(t, "counts", []any{c.Entered, c.Begun, c.Refused, c.Undecided}, []any{2, map[waypost.EntryKind]int{waypost.EntryEvent: 2}, 1, 1})
		equal(t, "another event's journey", len(f.enrollments(t, other)), 0)
		cohort := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
		equal(t, "to be started", len(cohort.Members), 3)
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{{
			EnrollmentID: list[0].ID, Status: waypost.EnrollmentRunning, NodeID: "a", LastSeq: 1,
			Entries: []waypost.TimelineEntry{{Seq: 1, At: f.clock.Now(), NodeID: "a", What: waypost.WhatEntered}},
		}}))
		equal(t, "timeline", f.timeline(t, list[0].ID)[0].Reason, "event cart")
	}},
	{"once, whatever repeats", func(t *testing.T, f *fixture) {
		journeys := []string{f.beginning(t, cart), f.beginning(t, cart)}
		lead := f.lead(t)
		const events, repeats = 20, 4
		claims := make([]int, events*repeats)
		for _, err := range atOnce(events*repeats, func(i int) (err error) {
			e := cartOf(lead, fmt.Sprint("e", i%events), 60.0, fmt.Sprint("c", i%events))
			switch i / events {
			case 0:
				_, err = f.AcceptEvent(t.Context(), scope, e)
			case 1:
				_, err = f.ImportEvents(t.Context(), scope, eventLines([]waypost.Event{e, e}))
			default:
				var claimed []waypost.Cohort
				_, claimed, err = f.AcceptEventClaimed(t.Context(), scope, e)
				for _, c := range claimed {
					claims[i] += len(c.Members)
				}
			}
			return err
		}) {
			ok(t, err)
		}
		claimed := 0
		for _, n := range claims {
			claimed += n
		}
		for _, journey := range journeys {
			seen := map[string]bool{}
			for _, e := range f.enrollments(t, journey) {
				seen[e.EntryKey] = true
			}
			equal(t, "enrollments", []int{len(f.enrollments(t, journey)), len(seen)}, []int{events, events})
			c := f.sums(t, journey)
			equal(t, "counts", []int{c.Entered, c.Refused}, []int{events, 0})
		}
		started := claimed
		for _, c := range must[[]waypost.Cohort](t)(f.ClaimLaunchCohorts(t.Context(), 1000)) {
			started += len(c.Members)
		}
		for {
			cohort := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
			if cohort == nil {
				break
			}
			started += len(cohort.Members)
		}
		equal(t, "each is started once", started, 2*events)
	}},
	{"a paused journey", func(t *testing.T, f *fixture) {
		created, changed := f.beginning(t, waypost.EntryRule{Kind: waypost.EntryLeadCreated}), f.beginning(t, waypost.EntryRule{Kind: waypost.EntryLeadChanged})
		for _, journey := range []string{created, changed} {
			must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, journey))
		}
		lead := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Vera"}, nil))
		f.plan(t, lead.LeadsID, "gold")
		for _, journey := range []string{created, changed} {
			list := f.enrollments(t, journey)
			if len(list) != 1 || list[0].Status != waypost.EnrollmentPaused {
				t.Fatalf("a lead that was created and changed has %+v", list)
			}
			must[waypost.Journey](t)(f.ResumeJourney(t.Context(), scope, journey, true))
			equal(t, "resumed", f.status(t, list[0].ID), waypost.EnrollmentPending)
		}
	}},
	{"what is published", func(t *testing.T, f *fixture) {
		journey := f.beginning(t, cart)
		n := 0
		begins := func(what string, version int) {
			t.Helper()
			before := len(f.enrollments(t, journey))
			n++
			must[bool](t)(f.AcceptEvent(t.Context(), scope, cartOf(f.lead(t), fmt.Sprint("e", n), 60.0, "")))
			f.clock.Advance(time.Second)
			list := f.enrollments(t, journey)
			if version == 0 {
				equal(t, what, len(list), before)
				return
			}
			equal(t, what, []int{len(list), list[len(list)-1].Version}, []int{before + 1, version})
		}
		begins("the first version", 1)
		must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, journey))
		begins("paused", 1)
		waiting := f.enrollments(t, journey)[1].ID
		equal(t, "it waits for the resume", f.status(t, waiting), waypost.EnrollmentPaused)
		equal(t, "it counts", f.sums(t, journey).Begun[waypost.EntryEvent], 2)
		must[waypost.Journey](t)(f.ResumeJourney(t.Context(), scope, journey, false))
		equal(t, "it goes on", f.status(t, waiting), waypost.EnrollmentPending)
		begins("resumed", 1)
		equal(t, "version", f.republish(t, journey, `{"least":55}`, cart), 2)
		begins("the second version", 2)
		must[waypost.Journey](t)(f.ArchiveJourney(t.Context(), scope, journey))
		begins("archived", 0)
		equal(t, "the same again", f.republish(t, journey, `{"least":55}`, cart), 2)
		begins("in use again", 2)
		f.republish(t, journey, `{"least":5}`, waypost.EntryRule{Kind: waypost.EntryLeadCreated})
		begins("another entry", 0)
		f.republish(t, journey, `{"least":1}`)
		begins("no entry", 0)
		for _, sc := range foreign {
			lead := must[waypost.Lead](t)(f.CreateLead(t.Context(), sc, waypost.LeadFields{Name: "Eve"}, nil)).LeadsID
			must[bool](t)(f.AcceptEvent(t.Context(), sc, cartOf(lead, "e1", 60.0, "")))
		}
		begins("no entry, and another scope's events", 0)
	}},
	{"too many journeys", func(t *testing.T, f *fixture) {
		f.SetEntrances(totals{})
		somePass(t, atOnce(waypost.MaxEntryRules+20, func(int) error {
			j, err := f.CreateJourney(t.Context(), scope, "Cart", []byte(`{}`))
			if err == nil {
				_, err = f.PublishJourney(t.Context(), scope, j.ID, waypost.Publication{Name: "Cart", Hash: "h", Definition: []byte(`{"least":50}`), Entry: []waypost.EntryRule{cart}})
			}
			return err
		}), waypost.MaxEntryRules, waypost.CodeBadRequest)
		lead := f.lead(t)
		_, claimed, err := f.AcceptEventClaimed(t.Context(), scope, cartOf(lead, "e1", 60.0, ""))
		ok(t, err)
		equal(t, "begun", len(claimed), waypost.MaxEntryRules)
	}},
	{"an import", func(t *testing.T, f *fixture) {
		journey := f.beginning(t, cart)
		leads := make([]int64, 450)
		var events []waypost.Event
		for i := range leads {
			leads[i] = f.lead(t)
			events = append(events, cartOf(leads[i], fmt.Sprint("e", i), 60.0, ""), cartOf(leads[i], fmt.Sprint("again", i), 60.0, ""))
		}
		im := must[waypost.EventImport](t)(f.ImportEvents(t.Context(), scope, eventLines(events)))
		equal(t, "accepted", im.Accepted, 900)
		cohorts := must[[]waypost.Cohort](t)(f.ClaimLaunchCohorts(t.Context(), 100))
		members := 0
		for _, c := range cohorts {
			members += len(c.Members)
			equal(t, "size", len(c.Members) <= waypost.MaxLaunchCohort, true)
		}
		equal(t, "members", members, 450)
		equal(t, "few workflows", len(cohorts) <= 8, true)
		equal(t, "none is left", must[*waypost.Cohort](t)(f.ClaimEnrollments(t.Context(), time.Time{})) == nil, true)
		equal(t, "refused", f.sums(t, journey).Refused, 450)
	}},
	{"the order of events", func(t *testing.T, f *fixture) {
		j := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "Cart", []byte(`{}`)))
		f.republish(t, j.ID, `{"least":50,"exitOn":[{"event":"buy"}]}`, cart)
		lead := f.lead(t)
		buy := func(id string) waypost.Event { return waypost.Event{EventID: id, Name: "buy", LeadsID: lead} }
		im := must[waypost.EventImport](t)(f.ImportEvents(t.Context(), scope, eventLines([]waypost.Event{
			buy("before"), cartOf(lead, "first", 60.0, ""), buy("ends it"), cartOf(lead, "second", 60.0, ""), buy("ends that"), buy("ends nothing"),
			cartOf(lead, "third", 60.0, ""),
		})))
		equal(t, "accepted", im.Accepted, 7)
		list := f.enrollments(t, j.ID)
		equal(t, "enrollments", len(list), 3)
		running := map[string]bool{}
		for _, e := range list {
			got := f.enrollment(t, e.ID)
			running[got.Entry.EventID] = got.Status != waypost.EnrollmentExited
		}
		equal(t, "who runs", running, map[string]bool{"first": false, "second": false, "third": true})
	}},
	{"what it waits for comes after", func(t *testing.T, f *fixture) {
		journey := f.beginning(t, cart)
		lead := f.lead(t)
		im := must[waypost.EventImport](t)(f.ImportEvents(t.Context(), scope, eventLines([]waypost.Event{
			{EventID: "before", Name: "buy", LeadsID: lead}, cartOf(lead, "begins it", 60.0, ""), {EventID: "after", Name: "buy", LeadsID: lead},
		})))
		equal(t, "accepted", im.Accepted, 3)
		e := f.enrollments(t, journey)[0]
		for event, want := range map[string]string{"buy": "after", "cart": ""} {
			w := waypost.Wait{
				Touchpoint: waypost.Touchpoint{EnrollmentID: e.ID, Visit: len(event)}, Scope: scope, WorkflowID: e.ID, NodeID: event, Events: []string{event},
				LeadsID: lead, Since: e.CreatedAt, Until: e.CreatedAt.Add(time.Hour),
			}
			equal(t, event, eventIDs(t, f.await(t, w)), want)
		}
	}},
	{"by a lead", func(t *testing.T, f *fixture) {
		created := f.beginning(t, waypost.EntryRule{Kind: waypost.EntryLeadCreated})
		changed := f.beginning(t, waypost.EntryRule{Kind: waypost.EntryLeadChanged})
		lead := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Vera"}, nil))
		equal(t, "began", lead.Began, 1)
		equal(t, "another name", must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Ada"}, nil)).Began, 0)
		equal(t, "created", len(f.enrollments(t, created)), 1)
		update := func(plan string) int {
			t.Helper()
			return must[waypost.Lead](t)(f.UpdateLead(t.Context(), scope, lead.LeadsID, func(l waypost.Lead) (waypost.LeadFields, []string, error) {
				l.Name, l.CustomFields = l.Name+"!", map[string]any{"plan": plan}
				return l.LeadFields, nil, nil
			})).Began
		}
		equal(t, "changed", update("pro"), 1)
		equal(t, "another field", update("pro"), 0)
		equal(t, "in it already", update("free"), 0)
		equal(t, "changed", len(f.enrollments(t, changed)), 1)
		equal(t, "refused", f.sums(t, changed).Refused, 1)
		equal(t, "entry", f.enrollments(t, changed)[0].Entry, waypost.Entry{Kind: waypost.EntryLeadChanged})
		im := must[waypost.Import](t)(f.CreateImport(t.Context(), scope, waypost.Import{AppID: "app_1", Mode: waypost.ImportUpsert}, func(yield func(waypost.ImportRow, error) bool) {
			for i := range 30 {
				fields := fmt.Sprintf(`{"externalId":"v%d","name":"Vic"}`, i%15)
				if !yield(waypost.ImportRow{Line: i + 1, Data: []byte(fields)}, nil) {
					return
				}
			}
		}))
		done := must[waypost.Import](t)(f.ImportStep(t.Context(), im.ID))
		equal(t, "import", []any{done.Status, done.Failed}, []any{waypost.ImportSucceeded, 0})
		equal(t, "created", len(f.enrollments(t, created)), 16)
		equal(t, "cohorts", len(must[[]waypost.Cohort](t)(f.ClaimLaunchCohorts(t.Context(), 100))), 1)
	}},
	{"the event is erased", func(t *testing.T, f *fixture) {
		journey := f.beginning(t, cart)
		lead := f.lead(t)
		f.accept(t, lead, "not it", "sell")
		must[bool](t)(f.AcceptEvent(t.Context(), scope, cartOf(lead, "e1", 60.0, "")))
		e := f.enrollments(t, journey)[0]
		ok(t, f.DeleteLead(t.Context(), scope, lead, nil))
		got := must[map[string]waypost.Enrollment](t)(f.EnrollmentsByID(t.Context(), []string{e.ID}))[e.ID]
		if got.Event != nil || got.Entry.Kind != waypost.EntryEvent {
			t.Fatalf("event %+v, entry %+v", got.Event, got.Entry)
		}
	}},
}
