package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

// notices claims all that is due, those in bulk last, and deletes them.
func (f *fixture) notices(t testing.TB) []waypost.Notice {
	t.Helper()
	var all []waypost.Notice
	for _, bulk := range []bool{false, true} {
		for {
			list := must[[]waypost.Notice](t)(f.ClaimNotices(t.Context(), 50, bulk))
			if len(list) == 0 {
				break
			}
			ok(t, f.DeleteNotices(t.Context(), noticeIDs(list)))
			all = append(all, list...)
		}
	}
	for i := range all {
		all[i].ID = 0
	}
	return all
}

func noticeIDs(list []waypost.Notice) []int64 {
	ids := make([]int64, len(list))
	for i, n := range list {
		ids[i] = n.ID
	}
	return ids
}

// started makes n enrollments of a journey that one workflow drives.
func (f *fixture) started(t testing.TB, journey string, n int) (workflow string, ids []string) {
	t.Helper()
	ids = f.enroll(t, journey, n)
	c := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
	if c == nil || len(c.Members) != n {
		t.Fatalf("claimed %+v", c)
	}
	ok(t, f.MarkStarted(t.Context(), c.ID))
	return c.ID, ids
}

// wait makes an enrollment wait for an event at its first visit.
func (f *fixture) wait(t testing.TB, enrollment, workflow, event string) waypost.Wait {
	t.Helper()
	return waypost.Wait{
		Touchpoint: waypost.Touchpoint{EnrollmentID: enrollment, Visit: 1}, Scope: scope, WorkflowID: workflow, NodeID: "bought",
		Events: []string{event}, LeadsID: f.enrollment(t, enrollment).LeadsID, Since: f.clock.Now(), Until: f.clock.Now().Add(time.Hour),
	}
}

func (f *fixture) accept(t testing.TB, lead int64, id, name string) {
	t.Helper()
	equal(t, "stored", must[bool](t)(f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: id, Name: name, LeadsID: lead})), true)
}

var noticeTests = []test{
	{"launch that is not started", func(t *testing.T, f *fixture) {
		// Nobody could be told: whoever tried would take the workflow for ended.
		l := f.unstarted(t, f.journey(t), f.lead(t))
		must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, l.ID))
		equal(t, "before the start", len(f.notices(t)), 0)
		ok(t, f.MarkLaunchStarted(t.Context(), l.ID))
		equal(t, "after it", f.notices(t), []waypost.Notice{{WorkflowID: l.ID}})
	}},
	{"claim", func(t *testing.T, f *fixture) {
		equal(t, "at first", len(f.notices(t)), 0)
		workflow, ids := f.started(t, f.journey(t), 1)
		w := f.wait(t, ids[0], workflow, "buy")
		f.await(t, w)
		f.accept(t, w.LeadsID, "e1", "buy")
		f.accept(t, w.LeadsID, "e2", "buy")
		list := must[[]waypost.Notice](t)(f.ClaimNotices(t.Context(), 10, false))
		equal(t, "claimed", len(list), 2)
		for i, n := range list {
			equal(t, "notice", n, waypost.Notice{ID: n.ID, WorkflowID: workflow, EnrollmentID: ids[0], EventID: fmt.Sprint("e", i+1)})
		}
		equal(t, "again", len(must[[]waypost.Notice](t)(f.ClaimNotices(t.Context(), 10, false))), 0)
		f.accept(t, w.LeadsID, "e3", "buy") // while the others are claimed
		equal(t, "later one", f.notices(t), []waypost.Notice{{WorkflowID: workflow, EnrollmentID: ids[0], EventID: "e3"}})
		f.clock.Advance(10*time.Second - time.Microsecond)
		equal(t, "claim lasts", len(must[[]waypost.Notice](t)(f.ClaimNotices(t.Context(), 10, false))), 0)
		f.clock.Advance(time.Microsecond)
		equal(t, "claim ran out", must[[]waypost.Notice](t)(f.ClaimNotices(t.Context(), 10, false)), list)
		for range 2 {
			ok(t, f.DeleteNotices(t.Context(), noticeIDs(list)))
		}
		f.clock.Advance(time.Minute)
		equal(t, "deleted", len(f.notices(t)), 0)
		ok(t, f.DeleteNotices(t.Context(), nil))
	}},
	{"notices of a cohort wait", func(t *testing.T, f *fixture) {
		// A cohort's notices wait for 200 ms from the oldest; then all come, new ones too. A
		// single enrollment's workflow is told at once.
		journey := f.journey(t)
		cohort, ids := f.started(t, journey, 3)
		single, one := f.started(t, journey, 1)
		for i, id := range ids {
			f.await(t, f.wait(t, id, cohort, "buy"))
			f.accept(t, f.enrollment(t, id).LeadsID, fmt.Sprint("c", i), "buy")
			f.clock.Advance(50 * time.Millisecond)
		}
		f.await(t, f.wait(t, one[0], single, "buy"))
		f.accept(t, f.enrollment(t, one[0]).LeadsID, "s", "buy")
		equal(t, "at once", f.notices(t), []waypost.Notice{{WorkflowID: single, EnrollmentID: one[0], EventID: "s"}})
		f.clock.Advance(50*time.Millisecond - time.Microsecond)
		equal(t, "too early", len(f.notices(t)), 0)
		f.clock.Advance(time.Microsecond)
		var want []waypost.Notice
		for i, id := range ids {
			want = append(want, waypost.Notice{WorkflowID: cohort, EnrollmentID: id, EventID: fmt.Sprint("c", i)})
		}
		equal(t, "after 200 ms", must[[]waypost.Notice](t)(f.withoutIDs(f.ClaimNotices(t.Context(), 1, false))), want)
	}},
	{"at most 100 of one", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		busy, ids := f.started(t, journey, 1)
		w := f.wait(t, ids[0], busy, "buy")
		f.await(t, w)
		for i := range 230 {
			f.accept(t, w.LeadsID, fmt.Sprint("e", i), "buy")
		}
		calm, other := f.started(t, journey, 1)
		v := f.wait(t, other[0], calm, "buy")
		f.await(t, v)
		f.accept(t, v.LeadsID, "last", "buy")
		var sizes []int
		for range 4 {
			list := must[[]waypost.Notice](t)(f.ClaimNotices(t.Context(), 101, false))
			n := 0
			for _, one := range list {
				if one.WorkflowID == busy {
					n++
				}
			}
			sizes = append(sizes, n, len(list)-n)
		}
		equal(t, "sizes", sizes, []int{100, 1, 100, 0, 30, 0, 0, 0})
	}},
	{"not started yet", func(t *testing.T, f *fixture) {
		// A signal to a workflow that does not run yet would be lost.
		ids := f.enroll(t, f.journey(t), 1)
		c := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, ids[0]))
		equal(t, "before the start", len(f.notices(t)), 0)
		ok(t, f.MarkStarted(t.Context(), c.ID))
		equal(t, "after it", f.notices(t), []waypost.Notice{{WorkflowID: c.ID, EnrollmentID: ids[0]}})
	}},
	{"two routers", func(t *testing.T, f *fixture) {
		// Claims at the same time take each notice once, and leave none; no two hold
		// notices of one workflow unless there are more than one signal carries.
		journey := f.journey(t)
		var want []string
		for i := range 12 {
			workflow, ids := f.started(t, journey, 2)
			for j, id := range ids {
				w := f.wait(t, id, workflow, "buy")
				f.await(t, w)
				for k := range 5 {
					event := fmt.Sprint(i, " ", j, " ", k)
					f.accept(t, w.LeadsID, event, "buy")
					want = append(want, event)
				}
			}
		}
		f.clock.Advance(time.Second)
		got := make([][]string, 6)
		workflows := make([][]string, len(got))
		for _, err := range atOnce(len(got), func(i int) error {
			for range 12 {
				list, err := f.ClaimNotices(t.Context(), 5, false)
				if err != nil {
					return err
				}
				for _, n := range list {
					got[i] = append(got[i], n.EventID)
					if !slices.Contains(workflows[i], n.WorkflowID) {
						workflows[i] = append(workflows[i], n.WorkflowID)
					}
				}
				if err := f.DeleteNotices(t.Context(), noticeIDs(list)); err != nil {
					return err
				}
			}
			return nil
		}) {
			ok(t, err)
		}
		all, claims := slices.Concat(got...), slices.Concat(workflows...)
		slices.Sort(all)
		slices.Sort(want)
		equal(t, "claimed", all, want)
		slices.Sort(claims)
		equal(t, "workflows of one claim", len(slices.Compact(claims)), len(claims))
	}},
	{"bulk", func(t *testing.T, f *fixture) {
		// What one change has made for many is claimed apart: of a webhook, a journey and a
		// launch, not of one enrollment. Notices of both kinds for one workflow, too.
		hook, journey := f.webhook(t), f.journey(t)
		workflow, ids := f.started(t, journey, 2)
		key, o := f.touchpoint(t, ids[0], journey)
		o.Delivery.WebhookID = hook
		ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{{
			Touchpoint: key, Scope: scope, Delivery: o.Delivery, Reason: waypost.DeferBreaker, At: f.clock.Now(), Until: f.clock.Now().Add(time.Hour),
		}}))
		ok(t, f.ReleaseDeferred(t.Context(), scope, hook, waypost.DeferBreaker))
		held, one := f.started(t, journey, 1)
		must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, journey))
		must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, one[0]))
		equal(t, "held", must[[]string](t)(f.Hold(t.Context(), held, []string{journey, one[0]})), []string{journey, one[0]})
		must[waypost.Journey](t)(f.ResumeJourney(t.Context(), scope, journey, false))
		must[waypost.Enrollment](t)(f.ResumeEnrollment(t.Context(), scope, one[0], false))
		f.await(t, f.wait(t, ids[1], workflow, "buy"))
		f.accept(t, f.enrollment(t, ids[1]).LeadsID, "e", "buy")
		f.clock.Advance(time.Second)
		others := must[[]waypost.Notice](t)(f.withoutIDs(f.ClaimNotices(t.Context(), 10, false)))
		equal(t, "others", others, []waypost.Notice{
			{WorkflowID: held, EnrollmentID: one[0]}, {WorkflowID: workflow, EnrollmentID: ids[1], EventID: "e"},
		})
		bulk := must[[]waypost.Notice](t)(f.withoutIDs(f.ClaimNotices(t.Context(), 10, true)))
		equal(t, "bulk", bulk, []waypost.Notice{{WorkflowID: workflow}, {WorkflowID: held}})
		for _, kind := range []bool{false, true} {
			equal(t, "again", len(must[[]waypost.Notice](t)(f.ClaimNotices(t.Context(), 10, kind))), 0)
		}
	}},
	{"release", func(t *testing.T, f *fixture) {
		// A webhook that is enabled, or whose limits change, signals the workflows of what
		// is deferred for that reason, each once.
		hook, other := f.webhook(t), f.webhook(t)
		journey := f.journey(t)
		workflow, ids := f.started(t, journey, 3)
		deferTo := func(id, hook, reason string) {
			key, o := f.touchpoint(t, id, journey)
			o.Delivery.WebhookID = hook
			ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{{
				Touchpoint: key, Scope: scope, Delivery: o.Delivery, Reason: reason, At: f.clock.Now(), Until: f.clock.Now().Add(time.Hour),
			}}))
		}
		deferTo(ids[0], hook, waypost.DeferWebhookDisabled)
		deferTo(ids[1], hook, waypost.DeferWebhookDisabled)
		limited, two := f.started(t, journey, 1)
		deferTo(two[0], hook, waypost.DeferRateLimit)
		full, three := f.started(t, journey, 1)
		deferTo(three[0], hook, waypost.DeferMaxConcurrency)
		_, four := f.started(t, journey, 1)
		deferTo(four[0], other, waypost.DeferWebhookDisabled)
		_, five := f.started(t, journey, 1)
		deferTo(five[0], hook, waypost.DeferPaused)
		broken, six := f.started(t, journey, 1)
		deferTo(six[0], hook, waypost.DeferBreaker)
		dark, seven := f.started(t, journey, 1)
		deferTo(seven[0], hook, waypost.DeferUnreadable)
		change := func(what string, change func(*waypost.Webhook), want ...string) {
			t.Helper()
			must[waypost.Webhook](t)(f.UpdateWebhook(t.Context(), scope, hook, func(w *waypost.Webhook) error { change(w); return nil }))
			f.clock.Advance(time.Second)
			var signaled []string
			for _, n := range f.notices(t) {
				equal(t, what, n, waypost.Notice{WorkflowID: n.WorkflowID})
				signaled = append(signaled, n.WorkflowID)
			}
			slices.Sort(signaled)
			slices.Sort(want)
			equal(t, what, signaled, want)
		}
		change("name", func(w *waypost.Webhook) { w.Name = "other" })
		ok(t, f.DisableWebhook(t.Context(), scope, must[waypost.Webhook](t)(f.Webhook(t.Context(), scope, hook)), "410"))
		change("limit of a disabled one", func(w *waypost.Webhook) { w.MaxConcurrency = 7 })
		change("enabled", func(w *waypost.Webhook) { w.Enabled = true }, workflow, limited, full, broken, dark)
		change("still enabled", func(w *waypost.Webhook) { w.Enabled = true })
		change("limit", func(w *waypost.Webhook) { w.RateLimit = &waypost.RateLimit{PerSecond: 1, Burst: 1} }, limited)
		change("same limit", func(w *waypost.Webhook) { w.RateLimit = &waypost.RateLimit{PerSecond: 1, Burst: 1} })
		change("limit in place", func(w *waypost.Webhook) { w.RateLimit.Burst = 2 }, limited)
		change("no limit", func(w *waypost.Webhook) { w.RateLimit = nil }, limited)
		change("concurrency", func(w *waypost.Webhook) { w.MaxConcurrency = 8 }, full)
		change("receiver", func(w *waypost.Webhook) { w.URL = "https://elsewhere.example.com/" }, broken)
		change("authority", func(w *waypost.Webhook) { w.TLS = &waypost.TLS{CACertificate: "ca"} }, broken)
		change("same authority", func(w *waypost.Webhook) { w.TLS = &waypost.TLS{CACertificate: "ca"} })
		change("authority in place", func(w *waypost.Webhook) { w.TLS.CACertificate = "another" }, broken)
		change("certificate", func(w *waypost.Webhook) { w.TLS.ClientCertificate, w.TLS.ClientKey = "certificate", "key" }, broken)
		change("no TLS setting", func(w *waypost.Webhook) { w.TLS = nil }, broken)

		// A breaker that closes: those who wait longest are told first.
		late, eight := f.started(t, journey, 3)
		for _, id := range eight {
			deferTo(id, hook, waypost.DeferBreaker)
		}
		f.clock.Advance(-time.Minute)
		early, nine := f.started(t, journey, 1)
		deferTo(nine[0], hook, waypost.DeferBreaker)
		f.clock.Advance(time.Minute)
		ok(t, f.ReleaseDeferred(t.Context(), scope, hook, waypost.DeferBreaker))
		f.clock.Advance(time.Second)
		var signaled []string
		for _, n := range f.notices(t) {
			signaled = append(signaled, n.WorkflowID)
		}
		equal(t, "told", signaled, []string{early, broken, late})
	}},
}

func (f *fixture) withoutIDs(list []waypost.Notice, err error) ([]waypost.Notice, error) {
	for i := range list {
		list[i].ID = 0
	}
	return list, err
}
