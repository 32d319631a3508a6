package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"waypost"
)

var journeyVersionTests = []test{
	{"list", testListVersions},
	{"archive", testArchive},
	{"archive beside publishes and enrollments", testArchiveRaces},
	{"the answer of an archive", func(t *testing.T, f *fixture) {
		id := f.journey(t)
		claim := claimOf("archive", "one")
		must[*waypost.Answer](t)(f.ClaimKey(t.Context(), claim, nil))
		must[waypost.Journey](t)(f.ArchiveJourney(waypost.WithClaim(t.Context(), claim), scope, id))
		if !claim.Kept {
			t.Fatal("it is not kept")
		}
	}},
	{"journeys that are there", func(t *testing.T, f *fixture) {
		id, draft := f.journey(t), must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "W", []byte(`{}`))).ID
		nobody := waypost.NewID(waypost.PrefixJourney, f.clock.Now())
		asked := []string{nobody, id, "jrn_\x00", draft, id, "", nobody}
		equal(t, "missing", must[[]string](t)(f.MissingJourneys(t.Context(), scope, asked)), []string{"", "jrn_\x00", nobody})
		for _, sc := range foreign {
			equal(t, "missing elsewhere", must[[]string](t)(f.MissingJourneys(t.Context(), sc, []string{id})), []string{id})
		}
		equal(t, "of none", len(must[[]string](t)(f.MissingJourneys(t.Context(), scope, nil))), 0)
	}},
	{"sample of a filter", testSampleFilter},
	{"sample of a list", testSampleList},
	{"recent touchpoints", testRecentTouchpoints},
}

func testListVersions(t *testing.T, f *fixture) {
	j := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "W", []byte(`{}`)))
	equal(t, "of a draft", len(must[[]waypost.JourneyVersion](t)(f.ListVersions(t.Context(), scope, j.ID, waypost.Page{}))), 0)
	var want []waypost.JourneyVersion
	for i := range 12 { // more than one digit: they are ordered as numbers
		f.clock.Advance(time.Second)
		v := must[waypost.JourneyVersion](t)(f.publish(t, j.ID, fmt.Sprint(i)))
		v.Created, v.Definition = false, nil
		want = append(want, v)
	}
	slices.Reverse(want)
	f.journey(t) // of another journey
	equal(t, "all", must[[]waypost.JourneyVersion](t)(f.ListVersions(t.Context(), scope, j.ID, waypost.Page{})), want)
	equal(t, "a page", must[[]waypost.JourneyVersion](t)(f.ListVersions(t.Context(), scope, j.ID, waypost.Page{After: "11", Limit: 3})), want[2:5])
	_, err := f.ListVersions(t.Context(), scope, j.ID, waypost.Page{After: "x"})
	wantCode(t, err, waypost.CodeBadRequest)
	for _, sc := range foreign {
		_, err := f.ListVersions(t.Context(), sc, j.ID, waypost.Page{})
		wantCode(t, err, waypost.CodeNotFound)
	}
	_, err = f.ListVersions(t.Context(), scope, "jrn_\x00", waypost.Page{})
	wantCode(t, err, waypost.CodeNotFound)
}

func testArchive(t *testing.T, f *fixture) {
	id := f.journey(t)
	enrollment := f.enroll(t, id, 1)[0]
	launch := f.launchAll(t, id)
	f.clock.Advance(time.Second)
	want := must[waypost.Journey](t)(f.Journey(t.Context(), scope, id))
	want.Status, want.UpdatedAt = waypost.JourneyArchived, f.clock.Now()
	equal(t, "archived", must[waypost.Journey](t)(f.ArchiveJourney(t.Context(), scope, id)), want)
	f.clock.Advance(time.Second)
	equal(t, "again", must[waypost.Journey](t)(f.ArchiveJourney(t.Context(), scope, id)), want)
	equal(t, "read", must[waypost.Journey](t)(f.Journey(t.Context(), scope, id)), want)

	// Nobody new, whatever the re-entry policy; who does not exist is told first.
	enter := waypost.Enrollment{JourneyID: id, Version: 1, LeadsID: f.lead(t), AppID: "app_1"}
	_, err := f.Enroll(t.Context(), scope, enter, waypost.Reentry{Policy: waypost.ReentryAlways})
	wantCode(t, err, waypost.CodeConflict)
	_, err = f.CreateLaunch(t.Context(), scope, waypost.Launch{JourneyID: id, Version: 1, AppID: "app_1", Audience: waypost.Audience{LeadsIDs: []int64{1}}})
	wantCode(t, err, waypost.CodeConflict)
	nobody := enter
	nobody.LeadsID = 1 << 40
	_, err = f.Enroll(t.Context(), scope, nobody, waypost.Reentry{})
	wantCode(t, err, waypost.CodeNotFound)

	// What there is goes on: the enrollment waits to be started, the launch enrolls.
	equal(t, "enrollment", f.enrollment(t, enrollment).Status, waypost.EnrollmentPending)
	step := must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), launch, 1000))
	if step.Enrolled != 2 { // with the lead that came after the launch was made
		t.Fatalf("got %+v", step)
	}
	// It can be held, and stays archived.
	equal(t, "paused", must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, id)).Status, waypost.JourneyArchived)
	equal(t, "the enrollment is held", f.enrollment(t, enrollment).Status, waypost.EnrollmentPaused)
	must[waypost.Journey](t)(f.CancelJourney(t.Context(), scope, id))

	// Publishing takes it into use, with the pause that holds, changed or not.
	v := must[waypost.JourneyVersion](t)(f.publish(t, id, "hash 1"))
	if v.Created || v.Version != 1 {
		t.Fatalf("got %+v", v)
	}
	equal(t, "published unchanged", must[waypost.Journey](t)(f.Journey(t.Context(), scope, id)).Status, waypost.JourneyPaused)
	must[waypost.Journey](t)(f.ArchiveJourney(t.Context(), scope, id))
	equal(t, "resumed", must[waypost.Journey](t)(f.ResumeJourney(t.Context(), scope, id, true)).Status, waypost.JourneyArchived)
	must[waypost.JourneyVersion](t)(f.publish(t, id, "hash 2"))
	equal(t, "published changed", must[waypost.Journey](t)(f.Journey(t.Context(), scope, id)).Status, waypost.JourneyActive)
	enter.Version = 2
	must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, enter, waypost.Reentry{Policy: waypost.ReentryAlways}))

	draft := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "W", []byte(`{}`))).ID
	_, err = f.ArchiveJourney(t.Context(), scope, draft)
	wantCode(t, err, waypost.CodeConflict)
	for _, sc := range foreign {
		_, err := f.ArchiveJourney(t.Context(), sc, id)
		wantCode(t, err, waypost.CodeNotFound)
	}
}

// Whatever comes at once, nobody gets in after the archive has answered.
func testArchiveRaces(t *testing.T, f *fixture) {
	id := f.journey(t)
	leads := make([]int64, 20)
	for i := range leads {
		leads[i] = f.lead(t)
	}
	for i, err := range atOnce(21, func(i int) error {
		if i == 20 {
			_, err := f.ArchiveJourney(t.Context(), scope, id)
			return err
		}
		_, err := f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: id, Version: 1, LeadsID: leads[i], AppID: "app_1"}, waypost.Reentry{})
		return err
	}) {
		if err != nil && (i == 20 || waypost.CodeOf(err) != waypost.CodeConflict) {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	for _, err := range atOnce(10, func(i int) error {
		if i%2 == 0 {
			_, err := f.ArchiveJourney(t.Context(), scope, id)
			return err
		}
		_, err := f.publish(t, id, "hash 1")
		return err
	}) {
		ok(t, err)
	}
	must[waypost.Journey](t)(f.ArchiveJourney(t.Context(), scope, id))
	_, err := f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: id, Version: 1, LeadsID: f.lead(t), AppID: "app_1"}, waypost.Reentry{})
	wantCode(t, err, waypost.CodeConflict)
}

// launchAll launches a journey to all leads.
func (f *fixture) launchAll(t testing.TB, journey string) string {
	t.Helper()
	return must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{
		JourneyID: journey, Version: 1, AppID: "app_1", Audience: waypost.Audience{Filter: &waypost.LeadFilter{}},
	})).ID
}

func testSampleFilter(t *testing.T, f *fixture) {
	group, region := int64(7), int64(3)
	var all, grouped []int64
	for i := range 200 {
		fields := waypost.LeadFields{Name: fmt.Sprint("lead ", i)}
		if i%2 == 0 {
			fields.LeadsGroup = &group
		}
		if i%3 == 0 {
			fields.Region = &region
		}
		lead := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, fields, nil))
		if all = append(all, lead.LeadsID); i%2 == 0 {
			grouped = append(grouped, lead.LeadsID)
		}
	}
	must[waypost.Lead](t)(f.CreateLead(t.Context(), foreign[0], waypost.LeadFields{Name: "other", LeadsGroup: &group}, nil))
	sample := func(filter waypost.LeadFilter, n int) (ids []int64, total int) {
		t.Helper()
		leads, total, err := f.SampleAudience(t.Context(), scope, waypost.Audience{Filter: &filter}, f.clock.Now(), n)
		ok(t, err)
		for _, lead := range leads {
			if lead.Name == "" {
				t.Fatal("it has no fields")
			}
			ids = append(ids, lead.LeadsID)
		}
		return ids, total
	}
	for _, c := range []struct {
		what   string
		filter waypost.LeadFilter
		n      int
		of     []int64
	}{
		{"all", waypost.LeadFilter{}, 1000, all},
		{"as many as there are", waypost.LeadFilter{}, 200, all},
		{"a group", waypost.LeadFilter{LeadsGroup: &group}, 100, grouped},
	} {
		ids, total := sample(c.filter, c.n)
		equal(t, c.what, ids, c.of)
		equal(t, c.what+" counted", total, len(c.of))
	}
	some, total := sample(waypost.LeadFilter{LeadsGroup: &group}, 30)
	equal(t, "counted", total, 100)
	again, _ := sample(waypost.LeadFilter{LeadsGroup: &group}, 30)
	equal(t, "again", again, some)
	if len(some) != 30 || !slices.IsSorted(some) || len(slices.Compact(slices.Clone(some))) != 30 {
		t.Fatalf("got %v", some)
	}
	upper := 0
	for _, id := range some {
		if !slices.Contains(grouped, id) {
			t.Fatalf("lead %d does not match", id)
		}
		if id >= grouped[50] {
			upper++
		}
	}
	if upper < 6 || upper > 24 {
		t.Fatalf("%d of 30 come from the upper half", upper)
	}
	both, total := sample(waypost.LeadFilter{LeadsGroup: &group, Region: &region, Name: "lead"}, 10)
	if len(both) != 10 || total != 34 {
		t.Fatalf("%d of %d", len(both), total)
	}
	nobody, total := sample(waypost.LeadFilter{Email: "nobody@example.com"}, 10)
	equal(t, "nobody", len(nobody)+total, 0)
}

func testSampleList(t *testing.T, f *fixture) {
	ids := make([]int64, 40)
	for i := range ids {
		ids[i] = f.lead(t)
	}
	other := must[waypost.Lead](t)(f.CreateLead(t.Context(), foreign[0], waypost.LeadFields{Name: "other"}, nil)).LeadsID
	listed := append([]int64{ids[2], ids[0], ids[2], 1 << 40, other}, ids[1])
	leads, total, err := f.SampleAudience(t.Context(), scope, waypost.Audience{LeadsIDs: listed}, f.clock.Now(), 10)
	ok(t, err)
	if len(leads) != 3 || leads[0].LeadsID != ids[0] || leads[2].LeadsID != ids[2] || total != 3 {
		t.Fatalf("%d of %d", len(leads), total)
	}
	leads, total, err = f.SampleAudience(t.Context(), scope, waypost.Audience{LeadsIDs: ids}, f.clock.Now(), 10)
	ok(t, err)
	if len(leads) != 10 || total != 40 {
		t.Fatalf("%d of %d", len(leads), total)
	}
	// Of a long list it is estimated how many there are.
	long := slices.Clone(ids)
	for i := range 40 {
		long = append(long, 1<<40+int64(i))
	}
	leads, total, err = f.SampleAudience(t.Context(), scope, waypost.Audience{LeadsIDs: long}, f.clock.Now(), 20)
	ok(t, err)
	if total != 4*len(leads) || len(leads) < 4 || len(leads) > 16 {
		t.Fatalf("%d of %d", len(leads), total)
	}
	for _, a := range []waypost.Audience{{}, {LeadsIDs: []int64{1}, Filter: &waypost.LeadFilter{}}} {
		_, _, err := f.SampleAudience(t.Context(), scope, a, f.clock.Now(), 10)
		wantCode(t, err, waypost.CodeBadRequest)
	}
	leads, total, err = f.SampleAudience(t.Context(), scope, waypost.Audience{LeadsIDs: []int64{}}, f.clock.Now(), 10)
	ok(t, err)
	equal(t, "nobody", len(leads)+total, 0)
}

func testRecentTouchpoints(t *testing.T, f *fixture) {
	journey := f.journey(t)
	lead := f.lead(t)
	var at []time.Time
	var last waypost.Touchpoint
	hook := f.webhook(t)
	for i := range 4 {
		e := must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, waypost.Enrollment{
			JourneyID: journey, Version: 1, LeadsID: lead, AppID: "app_1", EntryKey: fmt.Sprint(i),
		}, waypost.Reentry{}))
		f.clock.Advance(time.Hour)
		key, o := f.touchpoint(t, e.ID, journey)
		o.Delivery.LeadsID, o.Delivery.WebhookID, last = lead, hook, key
		f.open(t, o)
		at = append(at, f.clock.Now())
	}
	slices.Reverse(at)
	f.enroll(t, journey, 1)
	recent := func(sc waypost.Scope, lead int64, since time.Time, limit int) []time.Time {
		t.Helper()
		return must[[]time.Time](t)(f.RecentTouchpoints(t.Context(), sc, lead, since, at[0], limit))
	}
	equal(t, "all", recent(scope, lead, time.Time{}.AddDate(2000, 0, 0), 10), at)
	equal(t, "the last ones", recent(scope, lead, at[3].Add(-time.Second), 2), at[:2])
	equal(t, "since one of them", recent(scope, lead, at[2], 10), at[:2])
	equal(t, "until one of them", must[[]time.Time](t)(f.RecentTouchpoints(t.Context(), scope, lead, at[3].Add(-time.Second), at[1], 2)), at[1:3])
	// One that is to be sent again was sent nevertheless: caps count it, too.
	f.record(t, f.succeeded(last, 1))
	f.clock.Advance(time.Hour)
	f.redeliver(t, last)
	equal(t, "redelivered", recent(scope, lead, at[3].Add(-time.Second), 2), at[:2])
	again := f.again(last, 2, 2)
	f.open(t, again)
	equal(t, "before it is sent again", recent(scope, lead, at[2], 10), at[:2])
	until := func(end time.Time) []time.Time {
		t.Helper()
		return must[[]time.Time](t)(f.RecentTouchpoints(t.Context(), scope, lead, at[2], end, 10))
	}
	equal(t, "sent again", until(again.At), []time.Time{again.At, at[1]})
	f.record(t, of(2, f.failed(last, 2)))
	equal(t, "given up", until(again.At), at[:2]) // the round before has succeeded
	equal(t, "of another lead", len(recent(scope, lead+1, at[3].Add(-time.Second), 10)), 0)
	for _, sc := range foreign {
		equal(t, "elsewhere", len(recent(sc, lead, at[3].Add(-time.Second), 10)), 0)
	}
}

// publish makes a version with a hash.
func (f *fixture) publish(t testing.TB, journey, hash string) (waypost.JourneyVersion, error) {
	t.Helper()
	return f.PublishJourney(t.Context(), scope, journey, waypost.Publication{Name: "Welcome", Hash: hash, Definition: []byte(`{"name":"Welcome"}`)})
}
