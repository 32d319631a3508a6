package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"waypost"
)

// occurred is an event of a lead that occurred some time ago.
func (f *fixture) occurred(lead int64, id, name string, ago time.Duration) waypost.Event {
	return waypost.Event{
		EventID: id, Name: name, LeadsID: lead, Properties: map[string]any{"total": float64(len(id)), "id": id}, OccurredAt: f.clock.Now().Add(-ago),
	}
}

func (f *fixture) report(t testing.TB, e waypost.Event) {
	t.Helper()
	equal(t, "stored", must[bool](t)(f.AcceptEvent(t.Context(), scope, e)), true)
}

var eventTimeTests = []test{
	{"whatever order they come in", func(t *testing.T, f *fixture) {
		whens := []string{
			`events("buy").count() == 6`, `events("buy", duration("24h")).count() == 3`, `events("buy", duration("72h")).count() >= 5`,
			`events("buy").last().id == "b4"`, `events("buy", duration("20h")).count() == 0`, `events("buy", duration("200h")).exists(e, e.id == "late")`,
		}
		journey := f.defined(t, withGoal)
		var leads []int64
		var enrollments []waypost.Enrollment
		for range 12 {
			lead := f.lead(t)
			leads, enrollments = append(leads, lead), append(enrollments, f.enter(t, journey, 1, lead))
		}
		f.clock.Advance(40 * time.Hour)
		now := f.clock.Now()
		for n, lead := range leads {
			var events []waypost.Event
			for id, ago := range map[string]time.Duration{
				"b1": 39*time.Hour + 30*time.Minute, "b0": 39*time.Hour + 30*time.Minute, "late": 100 * time.Hour, "b2": 10 * time.Hour, "b4": 5 * time.Hour, "b3": 5 * time.Hour,
			} {
				e := f.occurred(lead, fmt.Sprint(id, " ", lead), "buy", ago)
				e.OccurredAt = now.Add(-ago)
				e.Properties["id"] = id
				events = append(events, e)
			}
			rand.New(rand.NewPCG(uint64(n), 7)).Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
			if n%2 == 0 {
				equal(t, "accepted", must[waypost.EventImport](t)(f.ImportEvents(t.Context(), scope, eventLines(events))).Accepted, len(events))
				continue
			}
			for _, e := range events {
				f.report(t, e)
				f.clock.Advance(time.Microsecond)
			}
		}
		for _, when := range whens {
			want := leads
			if when == whens[4] {
				want = nil
			}
			equal(t, when, f.members(t, f.segment(t, when).ID), want)
			equal(t, when+", evaluated", f.members(t, f.segment(t, "("+when+`) && lead.name.matches(".*")`).ID), want)
		}
		for i, e := range enrollments {
			c := must[map[string]waypost.Conversion](t)(f.Conversions(t.Context(), []string{e.ID}))[e.ID]
			equal(t, "converted by", c.EventID, fmt.Sprint("b0 ", leads[i]))
			equal(t, "at", c.At, e.CreatedAt.Add(30*time.Minute))
			equal(t, "worth", c.Worth, 2*waypost.AmountOf(float64(len("b0 ")+len(fmt.Sprint(leads[i])))))
		}
		equal(t, "goal", f.sums(t, journey).Goal.First.Converted, len(leads))
	}},
	{"lists and names go by it", func(t *testing.T, f *fixture) {
		lead, now := f.lead(t), f.clock.Now()
		f.report(t, f.occurred(lead, "now", "buy", 0))
		f.report(t, f.occurred(lead, "old", "buy", 48*time.Hour))
		f.report(t, f.occurred(lead, "ahead", "buy", -time.Minute))
		f.report(t, waypost.Event{EventID: "unsaid", Name: "buy", LeadsID: lead})
		ids := func(filter waypost.EventFilter) (ids []string) {
			for _, e := range must[[]waypost.Event](t)(f.ListEvents(t.Context(), scope, filter, waypost.Page{})) {
				ids = append(ids, e.EventID)
			}
			return ids
		}
		equal(t, "all", ids(waypost.EventFilter{}), []string{"ahead", "unsaid", "now", "old"})
		equal(t, "of the lead", ids(waypost.EventFilter{LeadsID: lead, OldestFirst: true}), []string{"old", "now", "unsaid", "ahead"})
		equal(t, "from", ids(waypost.EventFilter{From: now.Add(time.Second)}), []string{"ahead"})
		equal(t, "to", ids(waypost.EventFilter{To: now, Name: "buy"}), []string{"old"})
		equal(t, "names", must[[]waypost.EventName](t)(f.EventNames(t.Context(), scope)), []waypost.EventName{{Name: "buy", Count: 4, LastAt: now.Add(time.Minute)}})
	}},
	{"a late one begins, wakes and ends nothing", func(t *testing.T, f *fixture) {
		journey, exiting := f.beginning(t, cart), f.exiting(t)
		g := f.segment(t, `events("cart").count() > 0`)
		bySegment, exitsBySegment := f.entering(t, g.ID), f.exitingBy(t, g.ID)
		workflow, ids := f.started(t, f.journey(t), 1)
		wait := f.wait(t, ids[0], workflow, "cart")
		wait.Since = f.clock.Now().Add(-48 * time.Hour)
		f.await(t, wait)
		lead := wait.LeadsID
		leaving := f.enrolledIn(t, exiting, lead)[0]
		inSegment := f.enrolledIn(t, exitsBySegment, lead)[0]
		f.look(t)
		f.clock.Advance(25 * time.Hour)
		for i, name := range []string{"cart", "buy"} {
			e := f.occurred(lead, fmt.Sprint("late ", i), name, 24*time.Hour+time.Microsecond)
			e.Properties["total"] = 60.0
			f.report(t, e)
		}
		equal(t, "acted", f.look(t), false)
		f.read(t)
		equal(t, "begun", []any{f.in(t, journey), f.in(t, bySegment)}, []any{[]int64{}, []int64{}})
		equal(t, "ended", []any{f.status(t, leaving), f.status(t, inSegment)}, []any{waypost.EnrollmentPending, waypost.EnrollmentPending})
		equal(t, "woken", f.claimNotices(t, false), []waypost.Notice(nil))
		equal(t, "members", f.members(t, g.ID), []int64{lead})

		e := f.occurred(lead, "prompt", "cart", 24*time.Hour)
		e.Properties["total"] = 60.0
		f.report(t, e)
		equal(t, "begun by one that is not late", f.in(t, journey), []int64{lead})
		equal(t, "told", len(f.claimNotices(t, false)), 1)
	}},
	{"what occurred before an enrollment does not end it", func(t *testing.T, f *fixture) {
		exiting, lead := f.exiting(t), f.lead(t)
		id := f.enrolledIn(t, exiting, lead)[0]
		f.report(t, f.occurred(lead, "before", "buy", time.Microsecond))
		equal(t, "before", f.status(t, id), waypost.EnrollmentPending)
		f.report(t, f.occurred(lead, "with it", "buy", 0))
		equal(t, "with it", f.status(t, id), waypost.EnrollmentExited)
	}},
	{"what an enrollment began by is its beginning", func(t *testing.T, f *fixture) {
		begun, lead := f.beginning(t, cart), f.lead(t)
		f.republish(t, begun, `{"name":"J","exitOn":[{"event":"buy"}]}`, cart)
		f.clock.Advance(time.Hour)
		e := f.occurred(lead, "cart", "cart", 30*time.Minute)
		e.Properties["total"] = 60.0
		f.report(t, e)
		list := f.enrollments(t, begun)
		equal(t, "begun", len(list), 1)
		equal(t, "made", list[0].CreatedAt, f.clock.Now())
		equal(t, "since", list[0].Entry.Since(list[0].CreatedAt), f.clock.Now().Add(-30*time.Minute))
		f.report(t, f.occurred(lead, "before", "buy", 40*time.Minute))
		equal(t, "before", f.status(t, list[0].ID), waypost.EnrollmentPending)
		f.report(t, f.occurred(lead, "after", "buy", 20*time.Minute))
		equal(t, "after", f.status(t, list[0].ID), waypost.EnrollmentExited)
	}},
	{"by an address", func(t *testing.T, f *fixture) {
		external := "crm-1"
		mail, office := "Ada@Example.com", "office@example.com"
		ada := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Ada", ExternalID: &external, Email: &mail, MobilePhone: []string{"13800138000"}}, []string{"+8613800138000"}))
		for range 2 {
			must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Office", Email: &office}, nil))
		}
		to := func(id string, to waypost.EventLead) waypost.Event {
			return waypost.Event{EventID: id, Name: "buy", To: to}
		}
		f.report(t, to("e1", waypost.EventLead{ExternalID: external}))
		f.report(t, to("e2", waypost.EventLead{Email: "aDA@eXAMPLE.com"}))
		f.report(t, to("e3", waypost.EventLead{Phone: "+8613800138000"}))
		for _, again := range []waypost.Event{to("e1", waypost.EventLead{Phone: "+8613800138000"}), to("e2", waypost.EventLead{Email: office}), to("e3", waypost.EventLead{ExternalID: "nobody", Create: true})} {
			equal(t, "again", must[bool](t)(f.AcceptEvent(t.Context(), scope, again)), false)
		}
		equal(t, "events", len(must[[]waypost.Event](t)(f.ListEvents(t.Context(), scope, waypost.EventFilter{LeadsID: ada.LeadsID}, waypost.Page{}))), 3)
		for _, nobody := range []waypost.EventLead{{ExternalID: "CRM-1"}, {Email: "x@example.com"}, {Phone: "+8613800138001"}} {
			_, err := f.AcceptEvent(t.Context(), scope, to("n", nobody))
			wantCode(t, err, waypost.CodeNotFound)
			_, err = f.AcceptEvent(t.Context(), foreign[0], to("n", waypost.EventLead{ExternalID: external}))
			wantCode(t, err, waypost.CodeNotFound)
		}
		_, err := f.AcceptEvent(t.Context(), scope, to("n", waypost.EventLead{Email: "Office@Example.com"}))
		wantCode(t, err, waypost.CodeConflict)
		done := must[waypost.EventImport](t)(f.ImportEvents(t.Context(), scope, eventLines([]waypost.Event{
			to("i1", waypost.EventLead{Email: office}), to("i2", waypost.EventLead{Email: mail}), to("e1", waypost.EventLead{Email: mail}),
			to("i3", waypost.EventLead{ExternalID: "new", Create: true}), to("i4", waypost.EventLead{ExternalID: "new"}), to("i5", waypost.EventLead{ExternalID: "new", Create: true}),
		})))
		equal(t, "imported", []int{done.Accepted, done.Duplicates, done.Failed}, []int{3, 1, 2})
		equal(t, "errors", []any{done.Errors[0].Line, done.Errors[0].Code, done.Errors[1].Line, done.Errors[1].Code}, []any{1, waypost.CodeConflict, 5, waypost.CodeNotFound})
	}},
	{"makes the lead", func(t *testing.T, f *fixture) {
		journey := f.beginning(t, waypost.EntryRule{Kind: waypost.EntryLeadCreated})
		by := waypost.Author{Scope: scope, Application: "app_7"}
		e := waypost.Event{EventID: "e1", Name: "buy", To: waypost.EventLead{ExternalID: "Vera", Create: true}}
		failed := 0
		for _, err := range atOnce(8, func(i int) error {
			e := e
			e.EventID = fmt.Sprint("e", i)
			_, err := f.AcceptEvent(t.Context(), by, e)
			return err
		}) {
			if err != nil {
				failed++
				t.Error(err)
			}
		}
		leads := must[[]waypost.Lead](t)(f.ListLeads(t.Context(), scope, waypost.LeadQuery{Filter: waypost.LeadFilter{ExternalID: "Vera"}, Sort: waypost.SortLeadsID}))
		equal(t, "leads", len(leads), 1)
		equal(t, "name", leads[0].Name, "Vera")
		equal(t, "begun", f.in(t, journey), []int64{leads[0].LeadsID})
		equal(t, "events", len(must[[]waypost.Event](t)(f.ListEvents(t.Context(), scope, waypost.EventFilter{LeadsID: leads[0].LeadsID}, waypost.Page{}))), 8-failed)
		var created, accepted int
		for _, entry := range must[[]waypost.AuditEntry](t)(f.ListAudit(t.Context(), scope, waypost.AuditFilter{}, waypost.Page{})) {
			switch entry.Action {
			case "lead.create":
				created++
			case "event.accept":
				accepted++
			}
		}
		equal(t, "audited", []int{created, accepted}, []int{1, 8})
	}},
}
