package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
)

// kept are the ages of events that are the default.
var kept = waypost.Retention{Events: 90 * day, EventCounts: 3 * 365 * day}

// sweepEvents drops what is over of events.
func (f *fixture) sweepEvents(t testing.TB) map[string]int {
	t.Helper()
	return f.drop(t, kept)
}

// seenAlike fails unless a condition is met by these leads, in SQL and evaluated, looked at together
// and one by one.
func (f *fixture) seenAlike(t testing.TB, when string, want ...int64) {
	t.Helper()
	slices.Sort(want)
	for _, text := range []string{when, "(" + when + `) && lead.name.matches(".*")`} {
		g := f.segment(t, text)
		equal(t, text, f.members(t, g.ID), want)
		equal(t, text+", counted", must[waypost.SegmentCount](t)(f.CountSegment(t.Context(), scope, g.ID, 20)).Count, len(want))
		ok(t, f.DeleteSegment(t.Context(), scope, g.ID, nil))
	}
}

const winBack = `events("purchase").count() > 0 && events("purchase", duration("2160h")).count() == 0`

var eventDayTests = []test{
	{"segments look as far back as they say", func(t *testing.T, f *fixture) {
		f.SetEventAges(kept.EventAges())
		bought := map[time.Duration]int64{}
		for _, ago := range []time.Duration{91 * day, 31 * day, 0} {
			bought[ago] = f.lead(t)
			f.report(t, waypost.Event{EventID: fmt.Sprint("p", ago), Name: "purchase", LeadsID: bought[ago], OccurredAt: f.clock.Now().Add(-ago)})
		}
		never := f.lead(t)
		edge := f.lead(t) // bought exactly 90 days ago
		f.report(t, waypost.Event{EventID: "edge", Name: "purchase", LeadsID: edge, OccurredAt: f.clock.Now().Add(-90 * day)})
		check := func(when string, want ...int64) {
			t.Helper()
			f.seenAlike(t, when, want...)
		}
		for _, swept := range []bool{false, true} {
			if swept {
				f.clock.Advance(91 * day) // of what is kept since it came, all is over
				equal(t, "swept", f.sweepEvents(t)[waypost.DropEvent], 4)
			}
			if !swept {
				check(winBack, bought[91*day], edge)
				check(`events("purchase", duration("8760h")).count() >= 1`, bought[0], bought[31*day], bought[91*day], edge)
			} else {
				check(winBack, bought[0], bought[31*day], bought[91*day], edge)
				check(`events("purchase", duration("2904h")).count() >= 1`, bought[0]) // 121 days
				check(`events("purchase", duration("2928h")).count() >= 1`, bought[0]) // 122 days: 31 + 91 to the microsecond
				check(`events("purchase", duration("2952h")).count() == 1`, bought[0], bought[31*day])
			}
			check(`events("purchase").count() == 0`, never)
			check(`size(events("purchase")) != 0`, bought[0], bought[31*day], bought[91*day], edge)
			check(`events("other").count() == 0`, never, edge, bought[0], bought[31*day], bought[91*day])
		}
	}},
	{"the win-back of the recipes enrolls exactly who is meant", func(t *testing.T, f *fixture) {
		// docs/recipes.md, "A win-back every Monday": with the sweep of each hour, on the days around the window's end.
		f.SetEventAges(kept.EventAges())
		g := f.segment(t, winBack)
		leads := []int64{f.lead(t), f.lead(t), f.lead(t), f.lead(t)}
		buy := func(id string, lead int64) {
			f.report(t, waypost.Event{EventID: id, Name: "purchase", LeadsID: lead})
		}
		for i, lead := range leads[:3] { // the last one never buys
			buy(fmt.Sprint("first ", i), lead)
		}
		buy("again", leads[1])
		start := f.clock.Now()
		for _, step := range []struct {
			after time.Duration
			want  []int64
		}{{90*day - time.Hour, nil}, {90 * day, leads[:3]}, {91 * day, leads[:3]}, {110 * day, leads[:1]}, {180 * day, leads[:1]}, {200 * day, leads[:3]}} {
			f.clock.Advance(start.Add(step.after - 2*time.Hour).Sub(f.clock.Now()))
			for range 2 {
				f.clock.Advance(time.Hour)
				f.sweepEvents(t)
			}
			journey := f.journeyWith(t, fmt.Sprintf(`{"name":"Welcome","nodes":[{"id":"after%d"}]}`, step.after))
			l := f.launchTo(t, waypost.Launch{JourneyID: journey, Version: 1, Audience: waypost.Audience{Segment: g.ID}})
			f.run(t, l.ID, 10)
			equal(t, fmt.Sprint("enrolled after ", step.after), f.in(t, journey), append([]int64{}, step.want...))
			if len(step.want) > 0 { // events of leads that are in a journey are kept
				must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, l.ID))
			}
			f.seenAlike(t, winBack, step.want...)
			if step.after == 91*day { // two come back, and are silent again
				buy("back", leads[1])
				buy("back too", leads[2])
			}
		}
	}},
	{"a sweep that is cut off loses no count", func(t *testing.T, f *fixture) {
		f.SetEventAges(kept.EventAges())
		lead := f.lead(t)
		for i := range 30 {
			f.report(t, waypost.Event{EventID: fmt.Sprint(i), Name: "buy", LeadsID: lead})
			f.clock.Advance(time.Hour)
		}
		f.clock.Advance(91 * day)
		at := ""
		for range 100 {
			step := must[waypost.Dropped](t)(f.DropStep(t.Context(), kept, at))
			f.seenAlike(t, `events("buy").count() == 30`, lead)
			if step.Next == "" {
				break
			}
			at = step.Next
			if step.Kind == waypost.DropEvent { // its process is killed: the next sweep begins anew
				at = ""
				f.seenAlike(t, `events("buy", duration("2880h")).count() == 30`, lead)
				if step.N == 0 {
					break
				}
			}
		}
		equal(t, "no events left", len(must[[]waypost.Event](t)(f.ListEvents(t.Context(), scope, waypost.EventFilter{}, waypost.Page{}))), 0)
	}},
	{"the day in which a window begins", func(t *testing.T, f *fixture) {
		f.SetEventAges(kept.EventAges())
		midnight := f.clock.Now().Truncate(day)
		lead := f.lead(t)
		for i, hour := range []int{6, 12, 12, 18} {
			f.report(t, waypost.Event{EventID: fmt.Sprint(i), Name: "buy", LeadsID: lead, OccurredAt: midnight.Add(-100*day + time.Duration(hour)*time.Hour)})
		}
		for hour, want := range map[int]int{5: 4, 7: 3, 13: 3, 19: 0} { // three where two are meant: of more than two a day, some may be too many
			f.clock.Advance(midnight.Add(time.Duration(hour) * time.Hour).Sub(f.clock.Now()))
			for n := range 6 {
				var in []int64
				if n == want {
					in = []int64{lead}
				}
				f.seenAlike(t, fmt.Sprintf(`events("buy", duration("2400h")).count() == %d`, n), in...)
			}
			f.clock.Advance(midnight.Sub(f.clock.Now()))
		}
		f.seenAlike(t, `events("buy").count() == 4`, lead)
	}},
	{"old events count though they are swept", func(t *testing.T, f *fixture) {
		f.SetEventAges(kept.EventAges())
		lead := f.lead(t)
		old := waypost.Event{EventID: "old", Name: "buy", LeadsID: lead, OccurredAt: f.clock.Now().Add(-2 * 365 * day)}
		f.report(t, old)
		equal(t, "not swept at once", f.sweepEvents(t)[waypost.DropEvent], 0)
		equal(t, "known", must[bool](t)(f.AcceptEvent(t.Context(), scope, old)), false)
		f.clock.Advance(90*day + time.Second)
		equal(t, "swept", f.sweepEvents(t)[waypost.DropEvent], 1)
		f.seenAlike(t, `events("buy").count() == 1`, lead)
		f.clock.Advance(300 * day)
		equal(t, "counts are over", f.sweepEvents(t)[waypost.DropEventDay], 1)
		f.seenAlike(t, `events("buy").count() == 0`, lead)
	}},
	{"deleting a lead deletes its counts", func(t *testing.T, f *fixture) {
		lead := f.lead(t)
		f.event(t, lead, "buy", 1)
		ok(t, f.DeleteLead(t.Context(), scope, lead, nil))
		f.clock.Advance(4 * 365 * day)
		equal(t, "nothing to drop", f.sweepEvents(t)[waypost.DropEventDay], 0)
	}},
	{"what is too far back is refused", func(t *testing.T, f *fixture) {
		stored := f.segment(t, `events("buy").last().amount > 5`)
		lead := f.lead(t)
		f.event(t, lead, "buy", 6)
		f.SetEventAges(kept.EventAges())
		equal(t, "one that is stored goes on", f.members(t, stored.ID), []int64{lead})
		for when, setting := range map[string]string{
			`events("buy").last().amount > 5`:                                                         "WAYPOST_RETENTION_EVENTS",
			`events("buy", duration("2184h")).last().amount > 5`:                                      "WAYPOST_RETENTION_EVENTS",
			`events("buy").exists(e, e.amount > 5)`:                                                   "WAYPOST_RETENTION_EVENTS",
			`events("buy").filter(e, e.amount > 5).count() > 0`:                                       "WAYPOST_RETENTION_EVENTS",
			`events("buy", duration("2161h")).count() > 0`:                                            "WAYPOST_RETENTION_EVENTS",
			`events("buy", duration("26304h")).count() > 0`:                                           "WAYPOST_RETENTION_EVENT_COUNTS",
			`events("buy").count() > 0 && events("buy", duration("2184h")).exists(e, e.amount > 5.0)`: "WAYPOST_RETENTION_EVENTS",
		} {
			_, err := f.CreateSegment(t.Context(), scope, waypost.Segment{Name: "x", When: when})
			wantCode(t, err, waypost.CodeBadRequest)
			var fault *waypost.Error
			if !errors.As(err, &fault) || fault.Details[0].Code != waypost.DetailOutOfRange || !strings.Contains(err.Error(), setting) {
				t.Errorf("%s: %v", when, err)
			}
			_, err = f.CountCondition(t.Context(), scope, when, 5)
			wantCode(t, err, waypost.CodeBadRequest)
			wantCode(t, f.CheckCondition(t.Context(), scope, when), waypost.CodeBadRequest)
		}
		for _, when := range []string{
			`events("buy", duration("2160h")).last().amount > 5`, `events("buy", duration("2159h30m")).count() > 0`, `events("buy", duration("26280h")).count() > 0`,
			`events("buy").count() > 0 && events("buy", duration("24h")).exists(e, e.amount > 5.0)`,
		} {
			f.seenAlike(t, when, lead)
		}
	}},
}
