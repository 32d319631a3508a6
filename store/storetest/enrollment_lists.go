package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"waypost"
)

var enrollmentListTests = []test{
	{"filters", testEnrollmentLists},
	{"cursors", func(t *testing.T, f *fixture) {
		for _, after := range []string{"x", "1", "1,", "1,enr_1", "x," + waypost.NewID(waypost.PrefixEnrollment, f.clock.Now()), "1," + waypost.NewID(waypost.PrefixLaunch, f.clock.Now())} {
			_, _, err := f.ListEnrollments(t.Context(), scope, waypost.EnrollmentFilter{}, waypost.Page{After: after})
			wantCode(t, err, waypost.CodeBadRequest)
		}
	}},
	{"pages while they move", func(t *testing.T, f *fixture) {
		// One that goes on or ends between two pages keeps its place.
		_, ids := f.started(t, f.journey(t), 6)
		page := waypost.Page{Limit: 2}
		var got []string
		for i := 1; ; i++ {
			list, next, err := f.ListEnrollments(t.Context(), scope, waypost.EnrollmentFilter{OldestFirst: true}, page)
			ok(t, err)
			got = append(got, enrollmentIDs(list)...)
			if page.After = next; next == "" {
				break
			}
			status := []waypost.EnrollmentStatus{waypost.EnrollmentWaiting, waypost.EnrollmentCompleted}[i%2]
			var progress []waypost.Progress
			for _, id := range ids {
				progress = append(progress, f.progress(id, i, status))
			}
			ok(t, f.RecordProgress(t.Context(), progress))
		}
		equal(t, "all", got, ids)
	}},
	{"short pages", testShortPages},
}

func enrollmentIDs(list []waypost.Enrollment) (ids []string) {
	for _, e := range list {
		ids = append(ids, e.ID)
	}
	return ids
}

// crowd is enrollments in all states, of several journeys, versions, launches and leads.
type crowd struct {
	journeys, launches, ids []string
	leads                   []int64
	half                    time.Time // when half of them were made
}

// makeCrowd stores a crowd.
func (f *fixture) makeCrowd(t *testing.T) (c crowd) {
	for range 5 {
		c.leads = append(c.leads, f.lead(t))
	}
	enroll := func(journey string, version, n int) (made []string) {
		for i := range n {
			e := must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, waypost.Enrollment{
				JourneyID: journey, Version: version, LeadsID: c.leads[i%len(c.leads)], AppID: "app_1", EntryKey: fmt.Sprint(version, " ", len(c.ids), " ", i),
				Params: map[string]any{"n": float64(i)},
			}, waypost.Reentry{Policy: waypost.ReentryAlways}))
			made = append(made, e.ID)
			f.clock.Advance(time.Duration(i%3) * time.Microsecond) // some at the very same time
		}
		c.ids = append(c.ids, made...)
		return made
	}
	launch := func(journey string) string {
		l := f.launch(t, journey, c.leads...).ID
		f.run(t, l, 2)
		f.clock.Advance(time.Second)
		c.launches = append(c.launches, l)
		return l
	}
	for range 4 {
		c.journeys = append(c.journeys, f.journey(t))
	}
	one, two, three := c.journeys[0], c.journeys[1], c.journeys[2]
	singles := enroll(one, 1, 12)
	cohort := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
	ok(t, f.MarkStarted(t.Context(), cohort.ID))
	running, paused, canceled := launch(one), launch(two), launch(c.journeys[3])
	c.half = f.clock.Now()
	must[waypost.JourneyVersion](t)(f.publish(t, one, "hash 2"))
	newer := enroll(one, 2, 6)
	enroll(three, 1, 4)
	launch(three)

	var progress []waypost.Progress
	states := []waypost.EnrollmentStatus{waypost.EnrollmentWaiting, waypost.EnrollmentRunning, waypost.EnrollmentCompleted, waypost.EnrollmentFailed, waypost.EnrollmentWaiting}
	for i, id := range slices.Concat(singles[2:], newer[:4], f.ofLaunch(t, &c, running)[1:], f.ofLaunch(t, &c, canceled)[3:]) {
		progress = append(progress, f.progress(id, 1+i%3, states[i%len(states)]))
	}
	ok(t, f.RecordProgress(t.Context(), progress))
	must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, singles[0]))
	must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, singles[2]))
	must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, newer[5]))
	must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, paused))
	must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, canceled))
	must[waypost.Journey](t)(f.CancelJourney(t.Context(), scope, three)) // nobody sweeps
	f.clock.Advance(time.Second)
	must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, enroll(three, 1, 2)[0]))
	return c
}

// ofLaunch starts the cohorts of launches, but for every third, and returns the enrollments
// of one, oldest first.
func (f *fixture) ofLaunch(t *testing.T, c *crowd, launch string) (ids []string) {
	for i, cohort := range f.claimAll(t, 10) {
		for _, m := range cohort.Members {
			c.ids = append(c.ids, m.EnrollmentID)
		}
		if i%3 != 1 {
			ok(t, f.MarkStarted(t.Context(), cohort.ID))
		}
	}
	for _, id := range c.ids {
		if f.enrollment(t, id).LaunchID == launch {
			ids = append(ids, id)
		}
	}
	return ids
}

// testEnrollmentLists compares lists with what a look at each enrollment says.
func testEnrollmentLists(t *testing.T, f *fixture) {
	c := f.makeCrowd(t)
	var all []waypost.Enrollment
	for _, id := range c.ids {
		all = append(all, f.enrollment(t, id))
	}
	seen := map[waypost.EnrollmentStatus]int{}
	for _, e := range all {
		seen[e.Status]++
	}
	if len(all) != 44 || len(seen) != len(waypost.EnrollmentStatuses)-2 { // nobody has exited or is held out
		t.Fatalf("%d enrollments: %v", len(all), seen)
	}
	slices.SortFunc(all, func(a, b waypost.Enrollment) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	statuses := [][]waypost.EnrollmentStatus{
		nil, {waypost.EnrollmentFailed, waypost.EnrollmentCanceled}, {waypost.EnrollmentPaused, waypost.EnrollmentPending},
		{waypost.EnrollmentWaiting, waypost.EnrollmentPaused, waypost.EnrollmentCompleted},
	}
	for _, s := range waypost.EnrollmentStatuses {
		statuses = append(statuses, []waypost.EnrollmentStatus{s})
	}
	lists := 0
	check := func(filter waypost.EnrollmentFilter) {
		t.Helper()
		lists++
		filter.OldestFirst = lists%2 == 0
		var want []waypost.Enrollment
		for _, e := range all {
			if matches(filter, e) {
				want = append(want, e)
			}
		}
		if !filter.OldestFirst {
			slices.Reverse(want)
		}
		got := f.enrollmentPages(t, filter, 1+lists%7)
		if !slices.Equal(enrollmentIDs(got), enrollmentIDs(want)) {
			t.Fatalf("%+v:\n got %v\nwant %v", filter, enrollmentIDs(got), enrollmentIDs(want))
		}
		for i := range got {
			equal(t, fmt.Sprintf("%+v", filter), got[i], want[i])
		}
	}
	for _, s := range statuses {
		for _, journey := range append(c.journeys, "", "jrn_none") {
			for _, node := range []string{"", "node1", "node2", "node9"} {
				check(waypost.EnrollmentFilter{Statuses: s, JourneyID: journey, NodeID: node})
			}
		}
		for _, launch := range append(c.launches, "lch_none") {
			check(waypost.EnrollmentFilter{Statuses: s, LaunchID: launch})
			check(waypost.EnrollmentFilter{Statuses: s, LaunchID: launch, JourneyID: c.journeys[1], From: c.half})
		}
		for _, lead := range append(c.leads, 1<<40) {
			check(waypost.EnrollmentFilter{Statuses: s, LeadsID: lead})
			check(waypost.EnrollmentFilter{Statuses: s, LeadsID: lead, JourneyID: c.journeys[0], Version: 1, NodeID: "node1"})
		}
		check(waypost.EnrollmentFilter{Statuses: s, Version: 2, To: c.half.Add(time.Second)})
		check(waypost.EnrollmentFilter{Statuses: s, JourneyID: c.journeys[0], Version: 1, From: all[3].CreatedAt, To: all[9].CreatedAt})
		check(waypost.EnrollmentFilter{Statuses: s, To: time.Unix(-1, 0)})
	}
	for _, sc := range foreign {
		list, next, err := f.ListEnrollments(t.Context(), sc, waypost.EnrollmentFilter{LeadsID: c.leads[0]}, waypost.Page{})
		ok(t, err)
		more, _, err := f.ListEnrollments(t.Context(), sc, waypost.EnrollmentFilter{Statuses: statuses[2]}, waypost.Page{})
		ok(t, err)
		equal(t, "of another scope", len(list)+len(next)+len(more), 0)
	}
}

// enrollmentPages reads a list to its end, n at a time.
func (f *fixture) enrollmentPages(t *testing.T, filter waypost.EnrollmentFilter, n int) (all []waypost.Enrollment) {
	t.Helper()
	for page := (waypost.Page{Limit: n}); ; {
		list, next, err := f.ListEnrollments(t.Context(), scope, filter, page)
		ok(t, err)
		if len(list) > n || len(list) < n && next != "" {
			t.Fatalf("a page of %d has %d, next %q", n, len(list), next)
		}
		all = append(all, list...)
		if page.After = next; next == "" {
			return all
		}
	}
}

// matches evaluates a filter on one enrollment, without an index.
func matches(f waypost.EnrollmentFilter, e waypost.Enrollment) bool {
	stands := f.NodeID == "" || f.NodeID == e.NodeID && (e.EndedAt == nil || len(f.Statuses) > 0)
	return stands && (f.JourneyID == "" || f.JourneyID == e.JourneyID) && (f.Version == 0 || f.Version == e.Version) &&
		(f.LeadsID == 0 || f.LeadsID == e.LeadsID) && (f.LaunchID == "" || f.LaunchID == e.LaunchID) &&
		(len(f.Statuses) == 0 || slices.Contains(f.Statuses, e.Status)) &&
		(f.From.IsZero() || !e.CreatedAt.Before(f.From)) && (f.To.IsZero() || e.CreatedAt.Before(f.To))
}

// testShortPages looks for one of many who have failed at other nodes.
func testShortPages(t *testing.T, f *fixture) {
	const n = 1500
	rows := make([]string, n)
	for i := range rows {
		rows[i] = `{"name":"Ada"}`
	}
	f.finish(t, f.newImport(t, waypost.ImportCreate, rows...).ID)
	journey := f.journey(t)
	f.run(t, f.launchAll(t, journey), 1000) // all of them at the same time
	ids := enrollmentIDs(f.enrollmentPages(t, waypost.EnrollmentFilter{JourneyID: journey, OldestFirst: true}, 500))
	equal(t, "enrolled", len(ids), n)
	for chunk := range slices.Chunk(ids, 500) {
		var progress []waypost.Progress
		for _, id := range chunk {
			p := f.progress(id, 1, waypost.EnrollmentFailed)
			if id == ids[0] {
				p.NodeID = "rare"
			}
			progress = append(progress, p)
		}
		ok(t, f.RecordProgress(t.Context(), progress))
	}
	filter := waypost.EnrollmentFilter{JourneyID: journey, NodeID: "rare", Statuses: []waypost.EnrollmentStatus{waypost.EnrollmentFailed, waypost.EnrollmentExited}}
	first, next, err := f.ListEnrollments(t.Context(), scope, filter, waypost.Page{Limit: 2})
	ok(t, err)
	if len(first) != 0 || next == "" {
		t.Fatalf("the first page has %d, next %q", len(first), next)
	}
	second, next, err := f.ListEnrollments(t.Context(), scope, filter, waypost.Page{Limit: 2, After: next})
	ok(t, err)
	equal(t, "the second page", enrollmentIDs(second), ids[:1])
	equal(t, "its next", next, "")
	filter.OldestFirst = true
	list, next, err := f.ListEnrollments(t.Context(), scope, filter, waypost.Page{Limit: 2})
	ok(t, err)
	equal(t, "oldest first", enrollmentIDs(list), ids[:1])
	if next == "" {
		t.Fatal("nobody knows yet that there are no others")
	}
}
