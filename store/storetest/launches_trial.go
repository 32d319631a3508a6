package storetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
)

var trialTests = []test{
	{"decided", testTrialDecided},
	{"undecided", testTrialUndecided},
	{"audiences", testTrialAudiences},
	{"stopped while leads are held", testTrialControls},
	{"drawn", testTrialDrawn},
	{"refused leads are made up for", testTrialMadeUp},
	{"arms of the wrong sizes", testTrialMismatch},
	{"rate", testRate},
	{"nobody", testNobody},
}

const heldFor = 48 * time.Hour

// trial is a launch of a journey with a split s, by a test.
func (f *fixture) trial(t testing.TB, journey string, a waypost.Audience, test waypost.LaunchTest, control float64) waypost.Launch {
	t.Helper()
	// The split asks for more leads than any test here has: the test decides all the same.
	test.After, test.NodeID, test.Contest, test.Weights = heldFor, "s", waypost.Contest{Arms: 2, Leads: 1000}, []int{1, 1}
	l := f.launchTo(t, waypost.Launch{JourneyID: journey, Version: 1, AppID: "app_1", Audience: a, Test: &test, ControlGroup: control})
	ok(t, f.MarkLaunchStarted(t.Context(), l.ID))
	return l
}

// enterTest enrolls the leads of a launch's test, and returns when the wait for a winner is over.
func (f *fixture) enterTest(t testing.TB, launch string) time.Time {
	t.Helper()
	for range 1000 {
		step := must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), launch, 7))
		if step.Done || !step.Waits.IsZero() {
			return step.Waits
		}
	}
	t.Fatal("the test does not end")
	return time.Time{}
}

// enrolledBy are the enrollments of a launch that are not held out, by their leads.
func (f *fixture) enrolledBy(t testing.TB, launch string) (list []waypost.Enrollment) {
	t.Helper()
	for page := (waypost.Page{Limit: 500}); ; {
		some, next, err := f.ListEnrollments(t.Context(), scope, waypost.EnrollmentFilter{LaunchID: launch}, page)
		ok(t, err)
		for _, e := range some {
			if e.Status != waypost.EnrollmentHeldOut {
				list = append(list, e)
			}
		}
		if next == "" {
			break
		}
		page.After = next
	}
	slices.SortFunc(list, func(a, b waypost.Enrollment) int { return int(a.LeadsID - b.LeadsID) })
	return list
}

func leadOf(e waypost.Enrollment) int64 { return e.LeadsID }

func (f *fixture) newLeads(t testing.TB, n int) (leads []int64) {
	t.Helper()
	for range n {
		leads = append(leads, f.lead(t))
	}
	return leads
}

// buyArms has enrollments take the arms of the split in turn, and those of the second one buy.
func (f *fixture) buyArms(t testing.TB, journey string, list []waypost.Enrollment) {
	t.Helper()
	c := &waypost.Contest{Arms: 2, Leads: 1000}
	for i, e := range list {
		f.take(t, journey, c, list[i:i+1], i%2)
		if i%2 == 1 || i < 8 {
			f.buy(t, e.LeadsID, 1)
		}
	}
}

func testTrialDecided(t *testing.T, f *fixture) {
	journey, leads := f.withGoal(t), f.newLeads(t, 200)
	l := f.trial(t, journey, waypost.Audience{Filter: &waypost.LeadFilter{}}, waypost.LaunchTest{Leads: 64, Undecided: waypost.UndecidedStop}, 0)
	equal(t, "before", f.launchOf(t, l.ID).Test.Status, waypost.TestEntering)
	until := f.enterTest(t, l.ID)
	equal(t, "until", until, f.clock.Now().Add(heldFor))
	first := f.enrolledBy(t, l.ID)
	got := f.launchOf(t, l.ID)
	equal(t, "progress", got.Progress, waypost.LaunchProgress{Total: 200, Enrolled: 64, Held: 136})
	equal(t, "status", []any{got.Status, got.Test.Status, *got.Test.Until()}, []any{waypost.LaunchRunning, waypost.TestWaiting, until})
	if slices.Equal(mapped(first, leadOf), leads[:64]) {
		t.Fatal("the leads that came first were picked")
	}
	f.notices(t)
	sweep := func() { t.Helper(); equal(t, "next", must[string](t)(f.ReleaseHeld(t.Context(), "")), "") }
	sweep()
	equal(t, "nobody is told", len(f.notices(t)), 0)
	f.lead(t) // is not in the audience
	ok(t, f.DeleteLead(t.Context(), scope, without(leads, mapped(first, leadOf))[5], nil))
	f.buyArms(t, journey, first)
	// Nobody comes to the split any more: the launch has the arms compared.
	equal(t, "waits", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 0)), waypost.LaunchStep{})
	sweep()
	equal(t, "is told", f.notices(t), []waypost.Notice{{WorkflowID: l.ID}})
	sweep()
	equal(t, "is told once", len(f.notices(t)), 0)
	got = f.launchOf(t, l.ID)
	equal(t, "decided", []any{got.Test.Status, got.Test.Arm, *got.Test.RestAt}, []any{waypost.TestDecided, 1, f.clock.Now()})
	for _, err := range atOnce(4, func(int) error {
		for {
			step, err := f.EnrollAudience(t.Context(), l.ID, 9)
			if err != nil || step.Done {
				return err
			}
		}
	}) {
		ok(t, err)
	}
	all := f.enrolledBy(t, l.ID)
	got = f.launchOf(t, l.ID)
	equal(t, "progress at the end", got.Progress, waypost.LaunchProgress{Total: 200, Enrolled: 199, Skipped: 1})
	equal(t, "skips", got.Skips, waypost.LaunchSkips{Left: 1})
	equal(t, "each once", len(slices.Compact(mapped(all, leadOf))), 199)
	for _, e := range all[100:110] {
		if !slices.ContainsFunc(first, func(o waypost.Enrollment) bool { return o.ID == e.ID }) {
			equal(t, "the rest takes", f.take(t, journey, &waypost.Contest{Arms: 2, Leads: 60}, []waypost.Enrollment{e}, 0), []waypost.TakenArm{{Arm: 1, Won: true}})
		}
	}
}

func testTrialUndecided(t *testing.T, f *fixture) {
	for undecided, want := range map[waypost.Undecided]waypost.LaunchProgress{
		waypost.UndecidedSplit: {Total: 50, Enrolled: 50}, waypost.UndecidedStop: {Total: 50, Enrolled: 10, Held: 40},
	} {
		journey := f.withGoal(t)
		l := f.trial(t, journey, waypost.Audience{LeadsIDs: f.newLeads(t, 50)}, waypost.LaunchTest{Share: 0.2, Undecided: undecided}, 0)
		until := f.enterTest(t, l.ID)
		f.clock.Advance(heldFor - time.Microsecond)
		equal(t, "before", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 5)), waypost.LaunchStep{Waits: until})
		f.clock.Advance(time.Microsecond)
		for {
			if step := must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 5)); step.Done {
				break
			}
		}
		got := f.launchOf(t, l.ID)
		equal(t, string(undecided), got.Progress, want)
		equal(t, "each once", len(slices.Compact(mapped(f.enrolledBy(t, l.ID), leadOf))), want.Enrolled)
		stopped := undecided == waypost.UndecidedStop
		equal(t, "says so", []bool{got.Test.Status == waypost.TestStopped, strings.Contains(got.Message(), "40 leads were not enrolled")}, []bool{stopped, stopped})
	}
	// Who takes the winner back has the rest enter as the split divides.
	journey := f.withGoal(t)
	l := f.trial(t, journey, waypost.Audience{LeadsIDs: f.newLeads(t, 100)}, waypost.LaunchTest{Leads: 64, Undecided: waypost.UndecidedSplit}, 0)
	f.enterTest(t, l.ID)
	f.buyArms(t, journey, f.enrolledBy(t, l.ID))
	f.take(t, journey, &waypost.Contest{Arms: 2, Leads: 60}, f.enterMany(t, journey, 1), 0)
	must[waypost.Winner](t)(f.ReverseWinner(t.Context(), scope, journey, 1, "s"))
	f.run(t, l.ID, 500)
	equal(t, "taken back", f.launchOf(t, l.ID).Test.Status, waypost.TestUndecided)
}

// Audiences of each kind, with a control group, leads that may not enter, and leads that leave while
// they are held.
func testTrialAudiences(t *testing.T, f *fixture) {
	var leads []int64
	for range 90 {
		leads = append(leads, must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Ada", Gender: ptr[int64](1)}, nil)).LeadsID)
	}
	segment := f.segment(t, `lead.gender == 1 && lead.createdAt < now`)
	for what, a := range map[string]waypost.Audience{
		"filter": {Filter: &waypost.LeadFilter{Gender: ptr[int64](1)}}, "segment": {Segment: segment.ID},
		"list": {LeadsIDs: append(slices.Clone(leads), math.MaxInt64, 1<<40)},
	} {
		f.clock.Advance(time.Second)
		journey := f.defined(t, `{"name":"J","goal":{"event":"buy","within":"90m"},"reentry":{"policy":"never"}}`)
		for _, lead := range leads[:9] {
			f.enter(t, journey, 1, lead)
		}
		l := f.trial(t, journey, a, waypost.LaunchTest{Leads: 20, Undecided: waypost.UndecidedSplit}, 0.2)
		f.enterTest(t, l.ID)
		p := f.progressOf(t, l.ID)
		if p.Enrolled < 15 || p.Enrolled > 20 || p.Total != p.Enrolled+p.Skipped+p.HeldOut+p.Held {
			t.Fatalf("%s: %+v", what, p)
		}
		entered := mapped(f.enrolledBy(t, l.ID), leadOf)
		rest := without(leads[9:], entered)
		left := rest[slices.IndexFunc(rest, func(lead int64) bool { return !waypost.HeldOut(journey, lead, 0.2) })] // is held
		_, err := f.UpdateLead(t.Context(), scope, left, func(l waypost.Lead) (waypost.LeadFields, []string, error) {
			fields := l.LeadFields
			fields.Gender = ptr[int64](2)
			return fields, nil, nil
		})
		ok(t, err)
		f.clock.Advance(heldFor)
		f.run(t, l.ID, 11)
		got := f.launchOf(t, l.ID)
		var heldOut int
		for _, lead := range leads[9:] {
			if waypost.HeldOut(journey, lead, 0.2) {
				heldOut++
			}
		}
		skips := map[string]waypost.LaunchSkips{"filter": {Reentry: 9, Left: 1}, "segment": {Reentry: 9, Left: 1}, "list": {Reentry: 9, Missing: 2}}[what]
		equal(t, what+": skips", got.Skips, skips)
		total := 90 + len(a.LeadsIDs)/46 // two do not exist
		equal(t, what, got.Progress, waypost.LaunchProgress{
			Total: total, HeldOut: heldOut, Skipped: got.Skips.Reentry + got.Skips.Missing + got.Skips.Left, Enrolled: total - heldOut - got.Progress.Skipped,
		})
		equal(t, what+": each once", len(slices.Compact(mapped(f.enrolledBy(t, l.ID), leadOf))), got.Progress.Enrolled)
		_, err = f.UpdateLead(t.Context(), scope, left, func(l waypost.Lead) (waypost.LeadFields, []string, error) {
			fields := l.LeadFields
			fields.Gender = ptr[int64](1)
			return fields, nil, nil
		})
		ok(t, err)
	}
}

func testTrialControls(t *testing.T, f *fixture) {
	journey := f.withGoal(t)
	held := func() waypost.Launch {
		t.Helper()
		l := f.trial(t, journey, waypost.Audience{LeadsIDs: f.newLeads(t, 30)}, waypost.LaunchTest{Leads: 10, Undecided: waypost.UndecidedSplit}, 0)
		f.enterTest(t, l.ID)
		return l
	}
	canceled := held()
	must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, canceled.ID))
	paused := held()
	must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, paused.ID))
	f.notices(t)
	f.clock.Advance(heldFor)
	equal(t, "canceled", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), canceled.ID, 5)), waypost.LaunchStep{Canceled: true})
	equal(t, "paused", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), paused.ID, 5)), waypost.LaunchStep{Held: []string{paused.ID}})
	equal(t, "waits", f.launchOf(t, paused.ID).Test.Status, waypost.TestWaiting)
	must[waypost.Launch](t)(f.ResumeLaunch(t.Context(), scope, paused.ID, false))
	equal(t, "is told", f.notices(t), []waypost.Notice{{WorkflowID: paused.ID}})
	f.run(t, paused.ID, 100)
	equal(t, "at the end", f.progressOf(t, paused.ID), waypost.LaunchProgress{Total: 30, Enrolled: 30})
	equal(t, "canceled", f.progressOf(t, canceled.ID).Held, 20)
	_, err := f.CreateLaunch(t.Context(), scope, waypost.Launch{
		JourneyID: journey, Version: 1, Audience: waypost.Audience{LeadsIDs: []int64{1}}, Schedule: mornings, Test: &waypost.LaunchTest{Leads: 1},
	})
	wantCode(t, err, waypost.CodeBadRequest)
}

// Each lead is as likely to be picked as any other, of the same launch always the same are.
func testTrialDrawn(t *testing.T, f *fixture) {
	journey, leads := f.withGoal(t), f.newLeads(t, 20)
	times := map[int64]int{}
	for range 30 {
		l := f.trial(t, journey, waypost.Audience{LeadsIDs: leads}, waypost.LaunchTest{Leads: 10, Undecided: waypost.UndecidedStop}, 0)
		f.enterTest(t, l.ID)
		list := f.enrolledBy(t, l.ID)
		equal(t, "picked", len(list), 10)
		for _, e := range list {
			times[e.LeadsID]++
			must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, e.ID))
		}
		must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, l.ID))
		for must[bool](t)(f.SweepCanceled(t.Context(), 100)) {
			continue
		}
	}
	for _, lead := range leads { // 15 are expected; 2 or 28 come once in a million runs
		if times[lead] < 2 || times[lead] > 28 {
			t.Errorf("lead %d was picked %d times of 30", lead, times[lead])
		}
	}
	l := f.trial(t, journey, waypost.Audience{LeadsIDs: leads[:5]}, waypost.LaunchTest{Leads: 10, Undecided: waypost.UndecidedStop}, 0)
	f.run(t, l.ID, 100)
	equal(t, "no rest", f.progressOf(t, l.ID), waypost.LaunchProgress{Total: 5, Enrolled: 5})
	l = f.launchOf(t, l.ID)
	l.Status = waypost.LaunchCompleted // as it is once its enrollments have ended
	equal(t, "says so", l.Message(), "All leads entered with the test: none was left for the arm that wins.")
}

// Of 200 leads every other one may not enter; a test of 40 has most of them all the same: without others in their place about 20.
func testTrialMadeUp(t *testing.T, f *fixture) {
	for _, test := range []waypost.LaunchTest{{Leads: 40, Undecided: waypost.UndecidedStop}, {Share: 0.2, Undecided: waypost.UndecidedStop}} {
		journey, leads := f.defined(t, `{"name":"J","goal":{"event":"buy","within":"90m"},"reentry":{"policy":"never"}}`), f.newLeads(t, 200)
		for i := range 100 {
			f.enter(t, journey, 1, leads[2*i])
		}
		l := f.trial(t, journey, waypost.Audience{LeadsIDs: leads}, test, 0)
		for step := (waypost.LaunchStep{}); step.Waits.IsZero(); {
			step = must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 1000))
		}
		if p := f.progressOf(t, l.ID); p.Enrolled < 28 || p.Enrolled > 40 {
			t.Errorf("%+v: %d have entered", test, p.Enrolled)
		}
	}
}

// Arms that have not the shares of their weights are not compared while leads are held either.
func testTrialMismatch(t *testing.T, f *fixture) {
	journey := f.withGoal(t)
	l := f.trial(t, journey, waypost.Audience{LeadsIDs: f.newLeads(t, 300)}, waypost.LaunchTest{Leads: 200, Undecided: waypost.UndecidedStop}, 0)
	f.enterTest(t, l.ID)
	c := &waypost.Contest{Arms: 2, Leads: 1000}
	for i, e := range f.enrolledBy(t, l.ID) {
		f.take(t, journey, c, []waypost.Enrollment{e}, min(1, i%5))
		if i%5 == 0 {
			f.buy(t, e.LeadsID, 1)
		}
	}
	must[string](t)(f.ReleaseHeld(t.Context(), ""))
	equal(t, "is not decided", f.launchOf(t, l.ID).Test.Status, waypost.TestWaiting)
}

func testRate(t *testing.T, f *fixture) {
	journey, leads := f.journey(t), f.newLeads(t, 3)
	l := f.launch(t, journey, leads...)
	set := func(id string, rate float64) (waypost.Launch, error) {
		return f.UpdateLaunch(t.Context(), scope, id, func(l *waypost.Launch) error { l.RatePerSecond = rate; return nil })
	}
	f.notices(t)
	equal(t, "rate", must[waypost.Launch](t)(set(l.ID, 2.5)).RatePerSecond, 2.5)
	equal(t, "is told", f.notices(t), []waypost.Notice{{WorkflowID: l.ID}})
	equal(t, "step", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 1)), waypost.LaunchStep{Enrolled: 1, RatePerSecond: 2.5})
	must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, l.ID))
	equal(t, "while paused", must[waypost.Launch](t)(set(l.ID, 0)).RatePerSecond, 0.0)
	must[waypost.Launch](t)(f.ResumeLaunch(t.Context(), scope, l.ID, false))
	f.notices(t)
	must[waypost.Launch](t)(set(l.ID, 0))
	equal(t, "nothing changes", len(f.notices(t)), 0)
	for _, rate := range []float64{-1, math.NaN(), math.Inf(1)} {
		_, err := set(l.ID, rate)
		wantCode(t, err, waypost.CodeBadRequest)
	}
	for _, err := range atOnce(4, func(i int) error { _, err := set(l.ID, float64(i+1)); return err }) {
		ok(t, err)
	}
	recurring := f.recurring(t, journey)
	must[waypost.Launch](t)(set(recurring.ID, 7))
	equal(t, "next occurrence", f.launchOf(t, f.occurrence(t, recurring.ID)).RatePerSecond, 7.0)
	must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, l.ID))
	_, err := set(l.ID, 1)
	wantCode(t, err, waypost.CodeConflict)
	for _, sc := range foreign {
		_, err := f.UpdateLaunch(t.Context(), sc, l.ID, func(*waypost.Launch) error { return nil })
		wantCode(t, err, waypost.CodeNotFound)
	}
}

// A launch that ends with nobody says why.
func testNobody(t *testing.T, f *fixture) {
	journey := f.defined(t, `{"name":"J","reentry":{"policy":"never"}}`)
	lead := f.lead(t)
	f.enter(t, journey, 1, lead)
	held, _ := f.groups(t, journey, 0.5, 1)
	nobody := f.segment(t, `lead.name == "Nobody"`)
	for _, c := range []struct {
		launch waypost.Launch
		want   string
	}{
		{waypost.Launch{Audience: waypost.Audience{Filter: &waypost.LeadFilter{Name: "Nobody"}}}, "no lead matched the filter"},
		{waypost.Launch{Audience: waypost.Audience{Segment: nobody.ID}}, "no lead was in the segment"},
		{waypost.Launch{Audience: waypost.Audience{LeadsIDs: []int64{1 << 40}}}, "1 listed, and do not exist"},
		{waypost.Launch{Audience: waypost.Audience{LeadsIDs: []int64{lead}}}, "1 kept out by the journey's re-entry rule"},
		{waypost.Launch{Audience: waypost.Audience{LeadsIDs: held[:1]}, ControlGroup: 0.5}, "1 held out"},
		{waypost.Launch{Audience: waypost.Audience{LeadsIDs: []int64{lead, 1 << 40}}}, "1 kept out by the journey's re-entry rule (reentry); 1 listed"},
	} {
		f.clock.Advance(time.Millisecond) // so that ids sort as they were made
		c.launch.JourneyID, c.launch.Version, c.launch.AppID = journey, 1, "app_1"
		l := f.launchTo(t, c.launch)
		equal(t, "before", []any{f.launchOf(t, l.ID).Empty(), f.launchOf(t, l.ID).Message()}, []any{false, ""})
		f.run(t, l.ID, 10)
		list := must[[]waypost.Launch](t)(f.ListLaunches(t.Context(), scope, waypost.LaunchFilter{}, waypost.Page{Limit: 1}))
		for what, got := range map[string]waypost.Launch{"shown": f.launchOf(t, l.ID), "listed": list[0]} {
			if !got.Empty() || !strings.Contains(got.Message(), c.want) {
				t.Errorf("%s: %t %q, want %q", what, got.Empty(), got.Message(), c.want)
			}
		}
	}
	l := f.launch(t, journey, f.lead(t))
	f.run(t, l.ID, 10)
	f.sweepEnded(t)
	got := f.launchOf(t, l.ID)
	equal(t, "with somebody", fmt.Sprint(got.Status, got.Empty(), got.Message()), fmt.Sprint(waypost.LaunchCompleted, false, ""))
}

// without are the leads of a list that are not in another one.
func without(list, others []int64) []int64 {
	return slices.DeleteFunc(slices.Clone(list), func(lead int64) bool { return slices.Contains(others, lead) })
}
