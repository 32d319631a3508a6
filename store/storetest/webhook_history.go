package storetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

var historyTests = []test{
	{"each attempt once", testHistory},
	{"hours and days", testIntervals},
	{"percentiles", testPercentiles},
	{"while it is folded", testFolding},
	{"of a webhook that is gone", func(t *testing.T, f *fixture) {
		journey, id, other := f.journey(t), f.webhook(t), f.webhook(t)
		from := f.clock.Now()
		f.decidedAll(t, journey, id, 3, f.succeeded)
		f.foldHistory(t, 1000)
		key, o := f.touchpoint(t, f.enroll(t, journey, 1)[0], journey)
		o.Delivery.WebhookID = id
		f.open(t, o)
		f.decidedAll(t, journey, other, 1, f.failed)
		ok(t, f.DeleteWebhook(t.Context(), scope, id, nil))
		f.record(t, f.succeeded(key, 1)) // it was under way
		f.foldHistory(t, 1)
		_, err := f.WebhookHistory(t.Context(), scope, id, from, f.clock.Now(), time.Hour)
		wantCode(t, err, waypost.CodeNotFound)
		equal(t, "another one", f.history(t, other, from, f.clock.Now(), time.Hour), []string{"15:00 0+1 1 1"})
	}},
	{"too old", func(t *testing.T, f *fixture) {
		journey, id := f.journey(t), f.webhook(t)
		from := f.clock.Now().Truncate(time.Hour)
		for range 3 {
			f.decidedAll(t, journey, id, 1, f.failed)
			f.clock.Advance(time.Hour)
		}
		f.foldHistory(t, 1000)
		f.clock.Advance(from.Add(waypost.HistoryAge + 2*time.Hour).Sub(f.clock.Now()))
		f.wantDropped(t, "two hours", waypost.Retention{}, map[string]int{waypost.DropWebhookHour: 2})
		f.wantDropped(t, "again", waypost.Retention{}, map[string]int{})
		equal(t, "left", f.history(t, id, from, from.Add(4*time.Hour), time.Hour), []string{"17:00 0+1 1 1"})
	}},
}

// foldHistory folds all that there is, in steps.
func (f *fixture) foldHistory(t testing.TB, limit int) {
	t.Helper()
	for must[bool](t)(f.FoldWebhookHistory(t.Context(), limit)) {
	}
}

// history is the history of a webhook, without intervals that have nothing: their time, how
// many attempts succeeded and failed, and their percentiles. It checks the sum over all
// webhooks, too.
func (f *fixture) history(t testing.TB, id string, from, to time.Time, every time.Duration) (list []string) {
	t.Helper()
	all := must[[]waypost.WebhookInterval](t)(f.AttemptHistory(t.Context(), scope, from, to, every))
	for _, w := range must[[]waypost.Webhook](t)(f.ListWebhooks(t.Context(), scope, waypost.WebhookFilter{}, waypost.Page{})) {
		for i, of := range must[[]waypost.WebhookInterval](t)(f.WebhookHistory(t.Context(), scope, w.ID, from, to, every)) {
			equal(t, "time", all[i].From, of.From)
			all[i].Succeeded, all[i].Failed = all[i].Succeeded-of.Succeeded, all[i].Failed-of.Failed
		}
	}
	for _, left := range all {
		equal(t, "more than the webhooks have", left, waypost.WebhookInterval{From: left.From})
	}
	for _, i := range must[[]waypost.WebhookInterval](t)(f.WebhookHistory(t.Context(), scope, id, from, to, every)) {
		if i.Attempts() > 0 {
			list = append(list, fmt.Sprintf("%s %d+%d %d %d", i.From.Format("15:04"), i.Succeeded, i.Failed, i.P50.Milliseconds(), i.P99.Milliseconds()))
		}
	}
	return list
}

// testHistory records attempts in all the ways that there are, each of them twice.
func testHistory(t *testing.T, f *fixture) {
	journey, id := f.journey(t), f.webhook(t)
	from := f.clock.Now()
	want := func(what string, attempts ...string) {
		t.Helper()
		equal(t, what, f.history(t, id, from, from.Add(time.Minute), time.Hour), attempts)
	}
	opened := func() (waypost.Touchpoint, delivery.Opening) {
		key, o := f.touchpoint(t, f.enroll(t, journey, 1)[0], journey)
		o.Delivery.WebhookID = id
		f.open(t, o)
		return key, o
	}
	record := func(r delivery.AttemptRecord) {
		t.Helper()
		for range 2 {
			f.record(t, r)
		}
	}
	want("nothing")
	key, _ := opened()
	want("one that is under way")
	record(f.retrying(key, 1))
	want("failed", "15:00 0+1 12 12")
	f.open(t, delivery.Opening{Touchpoint: key, Scope: scope, Attempt: 2, At: f.clock.Now(), By: "worker 1"})
	record(f.succeeded(key, 2))
	want("and then delivered", "15:00 1+1 7 12")

	f.foldHistory(t, 1)
	want("folded", "15:00 1+1 7 12")
	f.redeliver(t, key)
	f.open(t, f.again(key, 2, 3))
	record(of(2, f.failed(key, 3)))
	want("redelivered", "15:00 1+2 7 12")

	// One that was taken for dead counts when its outcome comes.
	late, _ := opened()
	next := delivery.Opening{Touchpoint: late, Scope: scope, Attempt: 2, At: f.clock.Now(), By: "worker 2", Interrupts: true}
	f.open(t, next)
	want("interrupted", "15:00 1+2 7 12")
	record(f.retrying(late, 1))
	want("back again", "15:00 1+3 7 12")
	cut := f.retrying(late, 2)
	cut.Outcome.ErrorClass = waypost.ClassInterrupted
	record(cut)
	want("recorded as interrupted", "15:00 1+3 7 12")
	record(f.succeeded(late, 2))
	f.foldHistory(t, 1000)
	want("which it was not", "15:00 2+3 7 12")

	// No POST was made of a message that could not be.
	unmade, o := f.touchpoint(t, f.enroll(t, journey, 1)[0], journey)
	o.Delivery.WebhookID = id
	r := f.failed(unmade, 1)
	r.Delivery, r.Outcome = o.Delivery, waypost.Outcome{ErrorClass: waypost.ClassRender, Message: "line 1", At: f.clock.Now()}
	record(r)
	want("not rendered", "15:00 2+3 7 12")

	// Of several that are recorded together, and of one delivery.
	twice, _ := opened()
	f.record(t, f.retrying(twice, 1), f.succeeded(twice, 2), f.retrying(twice, 1))
	want("together", "15:00 3+4 7 12")
	for _, sc := range foreign {
		_, err := f.WebhookHistory(t.Context(), sc, id, from, from.Add(time.Minute), time.Hour)
		wantCode(t, err, waypost.CodeNotFound)
	}
}

func testIntervals(t *testing.T, f *fixture) {
	journey, id := f.journey(t), f.webhook(t)
	began := f.clock.Now()
	deliver := func(at time.Time, n int) {
		t.Helper()
		f.clock.Advance(at.Sub(f.clock.Now()))
		f.decidedAll(t, journey, id, n, f.succeeded)
	}
	midnight := began.Truncate(24 * time.Hour).Add(24 * time.Hour)
	deliver(midnight.Add(-30*time.Minute), 1)
	f.foldHistory(t, 1000)
	deliver(midnight.Add(-time.Minute), 2)
	deliver(midnight.Add(time.Second), 3)
	f.foldHistory(t, 1000)
	deliver(midnight.Add(26*time.Hour), 4)
	series := func(from, to time.Time, every time.Duration) (list []string) {
		for _, i := range must[[]waypost.WebhookInterval](t)(f.WebhookHistory(t.Context(), scope, id, from, to, every)) {
			list = append(list, fmt.Sprintf("%s %d", i.From.Format("02 15:04"), i.Attempts()))
		}
		return list
	}
	equal(t, "hours", series(midnight.Add(-31*time.Minute), midnight.Add(time.Hour+time.Minute), time.Hour), []string{"14 23:00 3", "15 00:00 3", "15 01:00 0"})
	equal(t, "to the hour", series(midnight, midnight.Add(time.Hour), time.Hour), []string{"15 00:00 3"})
	equal(t, "days", series(began, midnight.Add(25*time.Hour), 24*time.Hour), []string{"14 00:00 3", "15 00:00 3", "16 00:00 4"})
	equal(t, "elsewhere", series(midnight.In(time.FixedZone("", 3600)), midnight.Add(time.Minute), 24*time.Hour), []string{"15 00:00 3"})
	equal(t, "no time", len(series(midnight, midnight, time.Hour)), 0)
}

func testPercentiles(t *testing.T, f *fixture) {
	journey, id := f.journey(t), f.webhook(t)
	from := f.clock.Now()
	for _, unit := range []time.Duration{time.Millisecond, 100 * time.Millisecond} {
		n := 0
		f.decidedAll(t, journey, id, 100, func(key waypost.Touchpoint, attempt int) delivery.AttemptRecord {
			r := f.succeeded(key, attempt)
			n++
			r.Outcome.Duration = time.Duration(n) * unit
			return r
		})
		f.foldHistory(t, 1000)
		if unit == time.Millisecond {
			equal(t, "up to 255", f.history(t, id, from, f.clock.Now(), time.Hour), []string{"15:00 100+0 50 99"})
		}
	}
	// Half of the 200 take up to 100 ms, and two more than 9,800.
	i := must[[]waypost.WebhookInterval](t)(f.WebhookHistory(t.Context(), scope, id, from, f.clock.Now(), 24*time.Hour))[0]
	if i.P50 != 100*time.Millisecond || i.P99 < 9800*time.Millisecond || i.P99 > 9898*time.Millisecond {
		t.Fatalf("p50 %s, p99 %s", i.P50, i.P99)
	}
	key, o := f.touchpoint(t, f.enroll(t, journey, 1)[0], journey)
	o.Delivery.WebhookID = id
	f.open(t, o)
	endless := f.failed(key, 1)
	endless.Outcome.Duration = 1000 * time.Hour // a clock that was set
	f.record(t, endless)
	f.foldHistory(t, 1000)
	equal(t, "beyond all bounds", f.history(t, id, from, f.clock.Now(), time.Hour)[0][:12], "15:00 200+1 ")
}

// testFolding reads what is recorded and folded meanwhile: nothing is missed, and nothing
// counts twice.
func testFolding(t *testing.T, f *fixture) {
	const writers, each = 4, 10
	journey, id := f.journey(t), f.webhook(t)
	from := f.clock.Now()
	ids := f.enroll(t, journey, writers*each)
	var keys []waypost.Touchpoint
	var openings []delivery.Opening
	for _, enrollment := range ids {
		key, o := f.touchpoint(t, enrollment, journey)
		o.Delivery.WebhookID = id
		f.clock.Advance(time.Millisecond)
		keys, openings = append(keys, key), append(openings, o)
	}
	must[map[waypost.Touchpoint]delivery.Sending](t)(f.OpenAttempts(t.Context(), openings))
	count := func() int {
		return must[[]waypost.WebhookInterval](t)(f.WebhookHistory(t.Context(), scope, id, from, f.clock.Now(), time.Hour))[0].Attempts()
	}
	done := make(chan struct{})
	var beside sync.WaitGroup
	for range 2 {
		beside.Go(func() {
			for more := true; more || !closed(done); {
				var err error
				if more, err = f.FoldWebhookHistory(t.Context(), 3); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	beside.Go(func() {
		for before := 0; !closed(done); {
			now := count()
			if now < before || now > len(keys) {
				t.Errorf("%d attempts, then %d", before, now)
				return
			}
			before = now
		}
	})
	for _, err := range atOnce(writers, func(i int) error {
		for batch := range slices.Chunk(keys[i*each:(i+1)*each], 3) {
			var records []delivery.AttemptRecord
			for _, key := range batch {
				records = append(records, f.succeeded(key, 1))
			}
			for range 2 {
				if err := f.RecordAttempts(t.Context(), records); err != nil {
					return err
				}
			}
		}
		return nil
	}) {
		ok(t, err)
	}
	close(done)
	beside.Wait()
	f.foldHistory(t, 1000)
	equal(t, "in the end", f.history(t, id, from, f.clock.Now(), time.Hour), []string{fmt.Sprintf("15:00 %d+0 7 7", len(keys))})
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
