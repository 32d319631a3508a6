package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
)

// onward makes a batch that enrolls the leads of enrollments of one journey in
// another one; each is at its first visit.
func (f *fixture) onward(t testing.TB, from, into string, r waypost.Reentry, ids ...string) waypost.OnwardBatch {
	t.Helper()
	b := waypost.OnwardBatch{Scope: scope, JourneyID: from, Into: into, Version: 1, Reentry: r}
	for _, id := range ids {
		b.Items = append(b.Items, waypost.Onward{Touchpoint: waypost.Touchpoint{EnrollmentID: id, Visit: 1}, LeadsID: f.enrollment(t, id).LeadsID})
	}
	return b
}

// results enrolls and returns what came of it in the order of the items.
func (f *fixture) results(t testing.TB, b waypost.OnwardBatch) []waypost.OnwardResult {
	t.Helper()
	all := must[map[waypost.Touchpoint]waypost.OnwardResult](t)(f.EnrollOnward(t.Context(), b))
	equal(t, "results", len(all), len(b.Items))
	list := make([]waypost.OnwardResult, len(b.Items))
	for i, item := range b.Items {
		list[i] = all[item.Touchpoint]
	}
	return list
}

// entered fails unless everybody was enrolled, and returns the enrollments.
func (f *fixture) entered(t testing.TB, b waypost.OnwardBatch) []string {
	t.Helper()
	var ids []string
	for i, r := range f.results(t, b) {
		if !waypost.IsID(waypost.PrefixEnrollment, r.EnrollmentID) || r.Refused != "" || r.Stopped {
			t.Fatalf("item %d: %+v", i, r)
		}
		ids = append(ids, r.EnrollmentID)
	}
	return ids
}

// refused fails unless everybody was refused, for a reason that holds the words.
func (f *fixture) refused(t testing.TB, b waypost.OnwardBatch, words string) {
	t.Helper()
	for i, r := range f.results(t, b) {
		if r.EnrollmentID != "" || r.Stopped || !strings.Contains(r.Refused, words) {
			t.Fatalf("item %d: %+v, want it refused with %q", i, r, words)
		}
	}
}

func nextVisit(b waypost.OnwardBatch) waypost.OnwardBatch { return visit(b, b.Items[0].Visit+1) }

// visit is the batch of another visit to a node.
func visit(b waypost.OnwardBatch, n int) waypost.OnwardBatch {
	b.Items = slices.Clone(b.Items)
	for i := range b.Items {
		b.Items[i].Visit = n
	}
	return b
}

var onwardTests = []test{
	{"round trip", func(t *testing.T, f *fixture) {
		from, into := f.journey(t), f.journey(t)
		l := f.launch(t, from, f.lead(t), f.lead(t))
		f.run(t, l.ID, 10)
		var ids []string
		for _, m := range f.claimAll(t, 1)[0].Members {
			ids = append(ids, m.EnrollmentID)
		}
		b := f.onward(t, from, into, waypost.Reentry{}, ids...)
		b.LaunchID = l.ID
		f.clock.Advance(time.Minute)
		at := f.clock.Now()
		made := f.entered(t, b)
		f.clock.Advance(time.Minute)
		equal(t, "again", f.entered(t, b), made)
		for i, id := range made {
			equal(t, "enrollment", f.enrollment(t, id), waypost.Enrollment{
				ID: id, JourneyID: into, Version: 1, LeadsID: b.Items[i].LeadsID, AppID: "app_1", Params: map[string]any{},
				Status: waypost.EnrollmentPending, CreatedAt: at, Entry: waypost.Entry{Kind: waypost.EntryEnroll}, Depth: 1,
			})
		}
		cohort := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
		if cohort == nil || len(cohort.Members) != 2 || cohort.LaunchID != "" || cohort.Version.JourneyID != into {
			t.Fatalf("claimed %+v", cohort)
		}
		equal(t, "claimed twice", must[*waypost.Cohort](t)(f.ClaimCohort(t.Context())), (*waypost.Cohort)(nil))
		// The launch that they come from has nothing of it.
		equal(t, "launch", must[waypost.Launch](t)(f.Launch(t.Context(), scope, l.ID)).Progress.Enrolled, 2)
		equal(t, "nobody", len(f.results(t, waypost.OnwardBatch{Scope: scope, Into: into})), 0)
	}},
	{"reentry", func(t *testing.T, f *fixture) {
		from := f.journey(t)
		ids := f.enroll(t, from, 3)
		end := func(ids []string) {
			for _, id := range ids {
				ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(id, 1, waypost.EnrollmentCompleted)}))
			}
		}
		b := f.onward(t, from, f.journey(t), waypost.Reentry{Policy: waypost.ReentryAfterExit}, ids...)
		made := f.entered(t, b)
		f.refused(t, nextVisit(b), "is there already, with enrollment enr_")
		end(made)
		equal(t, "what was made stays", f.entered(t, b), made)
		f.entered(t, nextVisit(b))

		b = visit(f.onward(t, from, f.journey(t), waypost.Reentry{Policy: waypost.ReentryNever}, ids...), 10)
		end(f.entered(t, b))
		f.refused(t, nextVisit(b), "has entered before, with enrollment enr_")

		b = visit(f.onward(t, from, f.journey(t), waypost.Reentry{Policy: waypost.ReentryAlways, Every: waypost.Duration(time.Hour)}, ids...), 20)
		f.entered(t, b)
		f.refused(t, nextVisit(b), "may enter again from "+f.clock.Now().Add(time.Hour).Format(waypost.TimeFormat))
		f.clock.Advance(time.Hour)
		f.entered(t, nextVisit(b))

		// Some may enter and some may not; the API's and launches' entries count.
		into := f.journey(t)
		b = visit(f.onward(t, from, into, waypost.Reentry{}, ids...), 30)
		_, err := f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: into, Version: 1, LeadsID: b.Items[1].LeadsID}, waypost.Reentry{})
		ok(t, err)
		for i, r := range f.results(t, b) {
			if (r.Refused != "") != (i == 1) || (r.EnrollmentID != "") == (i == 1) {
				t.Fatalf("item %d: %+v", i, r)
			}
		}
	}},
	{"itself", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		b := f.onward(t, journey, journey, waypost.Reentry{}, f.enroll(t, journey, 1)...)
		// The enrollment has a key of its own; who enrolls has none.
		f.entered(t, b)
		f.refused(t, nextVisit(b), "is there already")
	}},
	{"closed", func(t *testing.T, f *fixture) {
		from, into := f.journey(t), f.journey(t)
		b := f.onward(t, from, into, waypost.Reentry{}, f.enroll(t, from, 2)...)
		draft := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "Draft", []byte(`{}`))).ID
		b.Into, b.Version = draft, 0
		f.refused(t, b, "has no published version")
		b.Into = "jrn_none"
		f.refused(t, b, "there is no journey jrn_none")
		b.Into, b.Version = into, 1
		for _, sc := range foreign {
			other := b
			other.Scope = sc
			f.refused(t, other, "there is no journey "+into)
		}
		must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, into))
		one := b
		one.Items = b.Items[:1]
		made := f.entered(t, one)
		equal(t, "born paused", f.enrollment(t, made[0]).Status, waypost.EnrollmentPaused)
		must[waypost.Journey](t)(f.ArchiveJourney(t.Context(), scope, into))
		results := f.results(t, b)
		equal(t, "what was made stays", results[0], waypost.OnwardResult{EnrollmentID: made[0]})
		equal(t, "archived", results[1], waypost.OnwardResult{Refused: "journey " + into + " is archived"})
	}},
	{"exits", func(t *testing.T, f *fixture) {
		from := f.journey(t)
		into := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "Leaving", []byte(`{}`))).ID
		_, err := f.PublishJourney(t.Context(), scope, into, waypost.Publication{Name: "Leaving", Hash: "hash", Definition: []byte(`{"exitOn":[{"event":"unsubscribed"}]}`)})
		ok(t, err)
		b := f.onward(t, from, into, waypost.Reentry{}, f.enroll(t, from, 2)...)
		made := f.entered(t, b)
		f.clock.Advance(time.Minute)
		_, err = f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: "evt", Name: "unsubscribed", LeadsID: b.Items[0].LeadsID})
		ok(t, err)
		equal(t, "of the event's lead", f.enrollment(t, made[0]).Status, waypost.EnrollmentExited)
		equal(t, "of the other one", f.enrollment(t, made[1]).Status, waypost.EnrollmentPending)
		equal(t, "that they come from", f.enrollment(t, b.Items[0].EnrollmentID).Status, waypost.EnrollmentPending)
		f.entered(t, visit(waypost.OnwardBatch{
			Scope: scope, JourneyID: from, Into: into, Version: 1, Items: b.Items[:1],
		}, 2))
		// One that exits enrolls nowhere.
		there := f.onward(t, into, from, waypost.Reentry{}, made...)
		equal(t, "exited", f.results(t, there)[0], waypost.OnwardResult{Stopped: true})
	}},
	{"stopped", func(t *testing.T, f *fixture) {
		from, into := f.journey(t), f.journey(t)
		ids := f.enroll(t, from, 5)
		b := f.onward(t, from, into, waypost.Reentry{}, ids...)
		must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, ids[0]))
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, ids[1]))
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(ids[2], 1, waypost.EnrollmentFailed)}))
		ok(t, f.DeleteLead(t.Context(), scope, b.Items[3].LeadsID, nil))
		b.Items = append(b.Items, waypost.Onward{Touchpoint: waypost.Touchpoint{EnrollmentID: "enr_none", Visit: 1}, LeadsID: b.Items[4].LeadsID})
		stopped := waypost.OnwardResult{Stopped: true}
		results := f.results(t, b)
		for _, i := range []int{0, 1, 2, 3, 5} { // deleting a lead cancels
			equal(t, fmt.Sprint("item ", i), results[i], stopped)
		}
		if results[4].EnrollmentID == "" {
			t.Fatalf("nothing keeps the fifth from entering: %+v", results[4])
		}
		must[waypost.Enrollment](t)(f.ResumeEnrollment(t.Context(), scope, ids[0], true))
		must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, from))
		b.Items = b.Items[:1]
		equal(t, "with its journey", f.results(t, b)[0], stopped)
		must[waypost.Journey](t)(f.ResumeJourney(t.Context(), scope, from, true))
		f.entered(t, b)
		// A lead that went away without its enrollments.
		b = nextVisit(b)
		b.Items[0].LeadsID = 1 << 40
		f.refused(t, b, "the lead was deleted")
	}},
	{"in a row", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		always := waypost.Reentry{Policy: waypost.ReentryAlways}
		id := f.enroll(t, journey, 1)[0]
		for range waypost.MaxEnrollDepth {
			id = f.entered(t, f.onward(t, journey, journey, always, id))[0]
		}
		last := f.onward(t, journey, journey, always, id)
		f.refused(t, last, "too many journeys in a row")
		last.Items[0].Waited = true
		id = f.entered(t, last)[0]
		for range waypost.MaxEnrollDepth - 1 {
			id = f.entered(t, f.onward(t, journey, journey, always, id))[0]
		}
		f.refused(t, f.onward(t, journey, journey, always, id), "too many journeys in a row")
	}},
	{"at once", func(t *testing.T, f *fixture) {
		journey, into, lead := f.journey(t), f.journey(t), f.lead(t)
		always := waypost.Reentry{Policy: waypost.ReentryAlways}
		id := must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead}, always)).ID
		b := waypost.OnwardBatch{Scope: scope, JourneyID: journey, Into: into, Version: 1, Reentry: always}
		for i := range waypost.MaxEnrolledAtOnce {
			b.Items = append(b.Items, waypost.Onward{Touchpoint: waypost.Touchpoint{EnrollmentID: id, Visit: i + 1}, LeadsID: lead})
		}
		made := f.entered(t, b)
		slices.Sort(made)
		equal(t, "different ones", len(slices.Compact(made)), waypost.MaxEnrolledAtOnce)
		b.Items = b.Items[:1]
		b.Items[0].Visit = 1000
		f.refused(t, b, "the lead has 100 enrollments there")
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(made[0], 1, waypost.EnrollmentCompleted)}))
		f.entered(t, b)
	}},
	{"concurrent", func(t *testing.T, f *fixture) {
		from, into := f.journey(t), f.journey(t)
		ids := f.enroll(t, from, 20)
		for i, policy := range []waypost.ReentryPolicy{waypost.ReentryAfterExit, waypost.ReentryAlways, waypost.ReentryNever} {
			if policy == waypost.ReentryNever {
				into = f.journey(t)
			}
			b := visit(f.onward(t, from, into, waypost.Reentry{Policy: policy}, ids...), 10+i)
			// Two runs of one batch, in whatever order: both say the same.
			answers := make([]map[waypost.Touchpoint]waypost.OnwardResult, 6)
			for _, err := range atOnce(len(answers), func(i int) (err error) {
				mine := b
				mine.Items = slices.Clone(b.Items)
				if i%2 == 1 {
					slices.Reverse(mine.Items)
				}
				answers[i], err = f.EnrollOnward(t.Context(), mine)
				return err
			}) {
				ok(t, err)
			}
			for _, a := range answers {
				equal(t, string(policy), a, answers[0])
			}
			for _, r := range answers[0] {
				if r.EnrollmentID == "" {
					t.Fatalf("%s: %+v", policy, r)
				}
			}
		}
		// Of different visits of the same leads one each passes, while the leads' other
		// enrollments get on.
		into = f.journey(t)
		leads := map[string]int64{}
		for _, id := range ids {
			leads[id] = f.enrollment(t, id).LeadsID
		}
		var passed [8]map[waypost.Touchpoint]waypost.OnwardResult
		for _, err := range atOnce(2*len(passed), func(i int) (err error) {
			if i >= len(passed) {
				var progress []waypost.Progress
				for _, id := range ids {
					progress = append(progress, f.progress(id, i, waypost.EnrollmentWaiting))
				}
				return f.RecordProgress(t.Context(), progress)
			}
			b := waypost.OnwardBatch{Scope: scope, JourneyID: from, Into: into, Version: 1}
			for _, id := range ids {
				b.Items = append(b.Items, waypost.Onward{Touchpoint: waypost.Touchpoint{EnrollmentID: id, Visit: 100 + i}, LeadsID: leads[id]})
			}
			passed[i], err = f.EnrollOnward(t.Context(), b)
			return err
		}) {
			ok(t, err)
		}
		count := map[string]int{}
		for _, results := range passed {
			for key, r := range results {
				if r.EnrollmentID != "" {
					count[key.EnrollmentID]++
				}
			}
		}
		for _, id := range ids {
			equal(t, id, count[id], 1)
		}
	}},
}
