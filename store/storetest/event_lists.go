package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"waypost"
)

// listedEvents reads a list page by page, two at a time, and returns the ids.
func (f *fixture) listedEvents(t testing.TB, sc waypost.Scope, filter waypost.EventFilter) (ids []string) {
	t.Helper()
	page := waypost.Page{Limit: 2}
	for {
		events := must[[]waypost.Event](t)(f.ListEvents(t.Context(), sc, filter, page))
		for _, e := range events {
			ids = append(ids, e.EventID)
		}
		if len(events) < page.Limit {
			return ids
		}
		page.After = events[len(events)-1].Place()
	}
}

// names lists the names of events, each with its count.
func (f *fixture) names(t testing.TB, sc waypost.Scope) (names []string) {
	t.Helper()
	for _, n := range must[[]waypost.EventName](t)(f.EventNames(t.Context(), sc)) {
		names = append(names, fmt.Sprint(n.Name, " ", n.Count))
	}
	return names
}

// foldNames folds all deltas, so many at a time.
func (f *fixture) foldNames(t testing.TB, limit int) {
	t.Helper()
	for must[bool](t)(f.FoldEventNames(t.Context(), limit)) {
	}
}

var eventListTests = []test{
	{"lists", func(t *testing.T, f *fixture) {
		ada, bob := f.lead(t), f.lead(t)
		start := f.clock.Now()
		// Several are of one time: seq orders those.
		for i, e := range []waypost.Event{
			{EventID: "a", Name: "buy", LeadsID: ada}, {EventID: "b", Name: "buy", LeadsID: bob}, {EventID: "c", Name: "login", LeadsID: ada},
			{EventID: "d", Name: "login", LeadsID: ada}, {EventID: "e", Name: "buy", LeadsID: ada},
		} {
			must[bool](t)(f.AcceptEvent(t.Context(), scope, e))
			if i%2 > 0 {
				f.clock.Advance(time.Second)
			}
		}
		for _, sc := range foreign {
			there := must[waypost.Lead](t)(f.CreateLead(t.Context(), sc, waypost.LeadFields{Name: "Eve"}, nil)).LeadsID
			must[bool](t)(f.AcceptEvent(t.Context(), sc, waypost.Event{EventID: "x", Name: "buy", LeadsID: there}))
			equal(t, "there", f.listedEvents(t, sc, waypost.EventFilter{}), []string{"x"})
			equal(t, "not there", f.listedEvents(t, sc, waypost.EventFilter{LeadsID: ada}), []string(nil))
		}
		for _, tt := range []struct {
			filter waypost.EventFilter
			want   []string // oldest first
		}{
			{waypost.EventFilter{}, []string{"a", "b", "c", "d", "e"}},
			{waypost.EventFilter{Name: "buy"}, []string{"a", "b", "e"}},
			{waypost.EventFilter{Name: "bu"}, nil},
			{waypost.EventFilter{Name: "buy\x00"}, nil},
			{waypost.EventFilter{LeadsID: ada}, []string{"a", "c", "d", "e"}},
			{waypost.EventFilter{LeadsID: ada, Name: "buy"}, []string{"a", "e"}},
			{waypost.EventFilter{LeadsID: 1 << 40}, nil},
			{waypost.EventFilter{From: start.Add(time.Second)}, []string{"c", "d", "e"}},
			{waypost.EventFilter{To: start.Add(time.Second)}, []string{"a", "b"}},
			{waypost.EventFilter{From: start.Add(time.Nanosecond), To: start.Add(time.Second + time.Nanosecond), Name: "login"}, []string{"c", "d"}},
			{waypost.EventFilter{From: start, To: start}, nil},
		} {
			newest := slices.Clone(tt.want)
			slices.Reverse(newest)
			equal(t, fmt.Sprintf("%+v", tt.filter), f.listedEvents(t, scope, tt.filter), newest)
			tt.filter.OldestFirst = true
			equal(t, fmt.Sprintf("%+v", tt.filter), f.listedEvents(t, scope, tt.filter), tt.want)
		}
		all := must[[]waypost.Event](t)(f.ListEvents(t.Context(), scope, waypost.EventFilter{OldestFirst: true}, waypost.Page{}))
		equal(t, "first", all[0], waypost.Event{EventID: "a", Name: "buy", LeadsID: ada, Properties: map[string]any{}, OccurredAt: start, AcceptedAt: start, Seq: all[0].Seq})
		for _, place := range []string{"x", "1", ",", "1,x", "1,2,3", "9999999999999999999,1"} {
			_, err := f.ListEvents(t.Context(), scope, waypost.EventFilter{}, waypost.Page{After: place})
			wantCode(t, err, waypost.CodeBadRequest)
		}
	}},
	{"names", func(t *testing.T, f *fixture) {
		equal(t, "none", f.names(t, scope), []string(nil))
		journey := f.journey(t)
		ada, bob := f.enrollment(t, f.enroll(t, journey, 1)[0]).LeadsID, f.lead(t)
		for i, name := range []string{"buy", "login", "login", "login", "buy", "once"} {
			f.accept(t, []int64{ada, bob}[i%2], fmt.Sprint(i), name)
			f.clock.Advance(time.Second)
		}
		for i := range 250 { // more than a deletion takes together
			f.accept(t, ada, fmt.Sprint("ada's ", i), "only ada's")
		}
		for i, sc := range foreign {
			there := must[waypost.Lead](t)(f.CreateLead(t.Context(), sc, waypost.LeadFields{Name: "Eve"}, nil)).LeadsID
			must[bool](t)(f.AcceptEvent(t.Context(), sc, waypost.Event{EventID: "0", Name: fmt.Sprint("there", i), LeadsID: there}))
		}
		again := must[bool](t)(f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: "0", Name: "login", LeadsID: ada}))
		equal(t, "again", again, false)
		want := []string{"only ada's 250", "login 3", "buy 2", "once 1"}
		equal(t, "before", f.names(t, scope), want)
		last := must[[]waypost.EventName](t)(f.EventNames(t.Context(), scope))
		equal(t, "last", last[2].LastAt, f.clock.Now().Add(-2*time.Second))
		must[bool](t)(f.FoldEventNames(t.Context(), 3))
		equal(t, "some folded", f.names(t, scope), want)
		f.foldNames(t, 2)
		equal(t, "all folded", must[[]waypost.EventName](t)(f.EventNames(t.Context(), scope)), last)
		for i, sc := range foreign {
			equal(t, "there", f.names(t, sc), []string{fmt.Sprint("there", i, " 1")})
		}
		// What is not kept does not count: a lead is deleted, and what is old.
		ok(t, f.DeleteLead(t.Context(), scope, ada, nil))
		want = []string{"login 2", "once 1"}
		equal(t, "without ada", f.names(t, scope), want)
		f.foldNames(t, 100)
		equal(t, "without ada, folded", f.names(t, scope), want)
		f.clock.Advance(51 * day)
		f.accept(t, bob, "young", "young")
		f.wantDropped(t, "old", keepAll, map[string]int{waypost.DropEvent: 3 + len(foreign), waypost.DropEnrollment: 1})
		equal(t, "young ones", f.names(t, scope), []string{"young 1"})
		f.foldNames(t, 100)
		equal(t, "young ones, folded", f.names(t, scope), []string{"young 1"})
		for _, sc := range foreign {
			equal(t, "none is left", f.names(t, sc), []string(nil))
		}
	}},
	{"names are counted once, whatever happens at once", func(t *testing.T, f *fixture) {
		const loops, rounds = 6, 40
		var mu sync.Mutex
		counts := map[string]int{}
		for _, err := range atOnce(loops, func(loop int) error {
			for round := range rounds {
				if loop == 0 { // folds, a few at a time, while the others write
					if _, err := f.FoldEventNames(t.Context(), 1+round%7); err != nil {
						return err
					}
					f.names(t, scope)
					continue
				}
				lead, err := f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Ada"}, nil)
				if err != nil {
					return err
				}
				name := fmt.Sprint("n", round%3)
				for i := range 3 {
					if _, err := f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: fmt.Sprint(loop, round, i), Name: name, LeadsID: lead.LeadsID}); err != nil {
						return err
					}
				}
				if round%2 == 0 {
					err = f.DeleteLead(t.Context(), scope, lead.LeadsID, nil)
				} else {
					mu.Lock()
					counts[name] += 3
					mu.Unlock()
				}
				if err == nil && loop == 1 {
					_, err = f.FoldEventNames(t.Context(), 5)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}) {
			ok(t, err)
		}
		var want []waypost.EventName
		for name, n := range counts {
			want = append(want, waypost.EventName{Name: name, Count: n, LastAt: f.clock.Now()})
		}
		slices.SortFunc(want, func(a, b waypost.EventName) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
		})
		equal(t, "names", must[[]waypost.EventName](t)(f.EventNames(t.Context(), scope)), want)
		f.foldNames(t, 50)
		equal(t, "folded", must[[]waypost.EventName](t)(f.EventNames(t.Context(), scope)), want)
	}},
}
