package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
	"waypost/journey"
	"waypost/store"
	"waypost/store/storetest"
)

// lead makes a lead with custom fields.
func (w *world) lead(custom map[string]any) int64 {
	w.t.Helper()
	lead, err := w.store.CreateLead(context.Background(), scope, waypost.LeadFields{Name: "Ada", CustomFields: custom}, nil)
	must(w.t, err)
	return lead.LeadsID
}

// enter enrolls a lead, in a journey that takes it however often.
func (w *world) enter(v waypost.JourneyVersion, lead int64) waypost.Enrollment {
	w.t.Helper()
	e, err := w.store.Enroll(context.Background(), scope, waypost.Enrollment{JourneyID: v.JourneyID, Version: v.Version, LeadsID: lead, AppID: "app_test"},
		waypost.Reentry{Policy: waypost.ReentryAlways})
	must(w.t, err)
	return e
}

// reasons writes what the timeline says of a node as "what: reason" lines.
func (w *world) reasons(e waypost.Enrollment, node string) []string {
	w.t.Helper()
	_, entries, err := w.store.Enrollment(context.Background(), scope, e.ID)
	must(w.t, err)
	var lines []string
	for _, entry := range entries {
		if entry.NodeID == node {
			lines = append(lines, entry.What+": "+entry.Reason)
		}
	}
	return lines
}

// The clock goes on while people pause: a waitUntil ends when it was to, or with
// the resume if that was meanwhile. Cohorts do not round it.
func TestWaitUntil(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	// The workflow starts on Sunday at 08:00 UTC, which is 16:00 in Shanghai.
	const morning = 17 * hour
	for name, tt := range map[string]struct {
		pause, resume time.Duration
		shift         bool
		thanks        time.Duration
	}{
		"not paused":                      {thanks: morning},
		"shift, resumed before its time":  {pause: 2 * hour, resume: 5 * hour, shift: true, thanks: morning},
		"skip, resumed before its time":   {pause: 2 * hour, resume: 5 * hour, thanks: morning},
		"shift, resumed after its time":   {pause: 2 * hour, resume: 30 * hour, shift: true, thanks: 30 * hour},
		"skip, resumed after its time":    {pause: 2 * hour, resume: 30 * hour, thanks: 30 * hour},
		"shift, paused before it started": {pause: -1, resume: 3 * hour, shift: true, thanks: morning},
		"paused before it was reached":    {pause: -1, resume: 18 * hour, shift: true, thanks: morning + 24*hour},
	} {
		for _, n := range []int{1, 7} {
			t.Run(fmt.Sprintf("%s, %d", name, n), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil)
				v := w.publish(`{"name":"Morning","start":"morning","nodes":[
					{"id":"morning","type":"waitUntil","time":"09:00","timezone":"Asia/Shanghai","weekdays":["mon","tue"],"next":"thanks"},
					{"id":"thanks","type":"touchpoint","webhook":"WEBHOOK"}]}`)
				enrolled := w.enroll(v, n)
				start := w.env.Now()
				pause := func(ctx context.Context) { _, err := w.store.PauseJourney(ctx, scope, v.JourneyID); must(t, err) }
				if tt.pause < 0 {
					pause(context.Background())
				} else if tt.pause > 0 {
					w.at(tt.pause, pause)
				}
				if tt.resume > 0 {
					w.at(tt.resume, func(ctx context.Context) {
						_, err := w.store.ResumeJourney(ctx, scope, v.JourneyID, tt.shift)
						must(t, err)
					})
				}
				w.run()
				for _, e := range enrolled {
					_, attempts := w.delivery(e, "thanks")
					if late := attempts[0].At.Sub(start) - tt.thanks; late < 0 || late > 2*time.Second {
						t.Errorf("it was sent %s after the start, want %s", attempts[0].At.Sub(start), tt.thanks)
					}
					if tt.pause >= 0 && !slices.Contains(w.reasons(e, "morning"), "entered: until 2026-03-02T01:00:00.000Z") {
						t.Errorf("the timeline says %q", w.reasons(e, "morning"))
					}
				}
			})
		}
	}
}

// A worker whose clock is behind does not take the instant that a wait has just ended
// at for one to come.
func TestWaitUntilClockBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.skew = -7 * time.Second
	e := w.enroll(w.publish(`{"name":"Mornings","start":"one","nodes":[
		{"id":"one","type":"waitUntil","time":"09:00","next":"two"},
		{"id":"two","type":"waitUntil","time":"09:00"}]}`), 1)[0]
	w.run()
	for node, day := range map[string]string{"one": "2026-03-01", "two": "2026-03-02"} {
		if lines := w.reasons(e, node); !slices.Contains(lines, "entered: until "+day+"T09:00:00.000Z") {
			t.Errorf("%s: %q", node, lines)
		}
	}
}

// Dates of leads: each has its own instant, those that have none go to onMissed at once.
func TestWaitUntilDates(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	v := w.publish(`{"name":"Renewal","start":"renewal","nodes":[
		{"id":"renewal","type":"waitUntil","lead":"customFields.renewalDate","offset":"-72h","next":"thanks","onMissed":"late"},
		{"id":"late","type":"touchpoint","webhook":"WEBHOOK"},
		{"id":"thanks","type":"touchpoint","webhook":"WEBHOOK"}]}`)
	start := w.env.Now()
	type entrant struct {
		waypost.Enrollment
		after time.Duration
		word  string
	}
	var all []entrant
	for value, want := range map[string]entrant{
		"2026-03-20T10:00:00.250Z": {after: 16*24*time.Hour + 2*time.Hour + 250*time.Millisecond, word: "waited: "},
		"2026-03-20T10:07:00Z":     {after: 16*24*time.Hour + 2*time.Hour + 7*time.Minute, word: "waited: "},
		"2026-03-20T18:07:00+08:00": {
			after: 16*24*time.Hour + 2*time.Hour + 7*time.Minute, word: "waited: ",
		},
		"2026-03-20": {after: 15*24*time.Hour + 16*time.Hour, word: "waited: "},
		"2026-03-02": {word: "skipped: customFields.renewalDate -72h: in the past"},
		"31/12/2026": {word: "skipped: customFields.renewalDate -72h: invalid value"},
		"2126-03-09": {word: "skipped: customFields.renewalDate -72h: more than 100 years ahead"},
		"tomorrow":   {word: "skipped: customFields.renewalDate -72h: invalid value"},
		"":           {word: "skipped: customFields.renewalDate -72h: missing value"},
	} {
		want.Enrollment = w.enter(v, w.lead(map[string]any{"renewalDate": value}))
		all = append(all, want)
	}
	wakes := 0
	w.env.SetOnTimerFiredListener(func(string) { wakes++ })
	w.run()
	for _, e := range all {
		node := "thanks"
		if e.after == 0 {
			node = "late"
		}
		_, attempts := w.delivery(e.Enrollment, node)
		if late := attempts[0].At.Sub(start) - e.after; late < 0 || late > 2*time.Second {
			t.Errorf("%s: it was sent %s after the start, want %s", e.word, attempts[0].At.Sub(start), e.after)
		}
		if lines := w.reasons(e.Enrollment, "renewal"); lines[len(lines)-1] != e.word {
			t.Errorf("the timeline says %q, want %q", lines, e.word)
		}
	}
	if wakes > 3 {
		t.Errorf("%d timers for three instants", wakes)
	}
}

// A lead takes the same arm whenever it comes.
func TestSplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	v := w.publish(`{"name":"Arms","start":"arms","nodes":[
		{"id":"arms","type":"split","arms":[{"weight":50,"next":"a"},{"weight":30,"next":"b"},{"weight":20}]},
		{"id":"a","type":"touchpoint","webhook":"WEBHOOK"},
		{"id":"b","type":"exit"}]}`)
	var leads []int64
	for range 60 {
		leads = append(leads, w.lead(nil))
	}
	taken := map[string]int{}
	for range 2 {
		var enrolled []waypost.Enrollment
		for _, lead := range leads {
			enrolled = append(enrolled, w.enter(v, lead))
		}
		w.run()
		for i, e := range enrolled {
			arm := journey.SplitArm(v.JourneyID, "arms", leads[i], []int{50, 30, 20})
			want := fmt.Sprintf("took: arm %d: weight %d of 100", arm+1, []int{50, 30, 20}[arm])
			if lines := w.reasons(e, "arms"); !slices.Contains(lines, want) {
				t.Errorf("lead %d: %q, want %q", leads[i], lines, want)
			}
			taken[want]++
		}
		w.newEnvironment()
		w.register()
	}
	if len(taken) != 3 {
		t.Errorf("arms taken: %v", taken)
	}
}

// lostAnswers is a database that does what it is asked and then fails: once.
type lostAnswers struct {
	*store.Store
	failed atomic.Bool
	loses  string // the event whose emission is to fail
}

func (s *lostAnswers) EnrollOnward(ctx context.Context, b waypost.OnwardBatch) (map[waypost.Touchpoint]waypost.OnwardResult, error) {
	results, err := s.Store.EnrollOnward(ctx, b)
	if err == nil && !s.failed.Swap(true) {
		return nil, errors.New("the connection broke")
	}
	return results, err
}

func (s *lostAnswers) UpdateLeadAt(ctx context.Context, b waypost.EffectBatch, change func(waypost.Lead) (waypost.LeadFields, []string, error)) (waypost.EffectResult, error) {
	result, err := s.Store.UpdateLeadAt(ctx, b, change)
	if err == nil && !s.failed.Swap(true) {
		return result, errors.New("the connection broke")
	}
	return result, err
}

func (s *lostAnswers) EmitEvents(ctx context.Context, b waypost.EffectBatch) (map[waypost.Touchpoint]waypost.EffectResult, error) {
	results, err := s.Store.EmitEvents(ctx, b)
	loses := func(e waypost.Effect) bool { return e.Event.Name == s.loses }
	if err == nil && slices.ContainsFunc(b.Items, loses) && !s.failed.Swap(true) {
		return nil, errors.New("the connection broke")
	}
	return results, err
}

// An enroll node enrolls each lead once, whatever is lost, and goes on.
func TestEnroll(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			next := w.publish(`{"name":"Next","start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":"WEBHOOK","params":{"who":"{{ enrollment.params | json }}"}}]}`)
			v := w.publish(fmt.Sprintf(`{"name":"First","start":"on","nodes":[
				{"id":"on","type":"enroll","journey":%q,"next":"again"},
				{"id":"again","type":"enroll","journey":%[1]q,"next":"thanks"},
				{"id":"thanks","type":"touchpoint","webhook":"WEBHOOK"}]}`, next.JourneyID))
			enrolled := w.enroll(v, n)
			lost := &lostAnswers{Store: w.store}
			w.newEnvironment()
			w.registerWith(lost)
			w.run()
			if !lost.failed.Load() || w.woken.Load() == 0 {
				t.Errorf("an answer was lost: %v; the pump was woken %d times", lost.failed.Load(), w.woken.Load())
			}
			var onward []waypost.Enrollment
			for _, e := range enrolled {
				status, timeline := w.timeline(e)
				want := []string{"on entered", "on took again", "again took thanks", "thanks sent", "thanks exited"}
				if status != waypost.EnrollmentCompleted || !slices.Equal(timeline, want) {
					t.Fatalf("%s by way of %q", status, timeline)
				}
				id, ok := strings.CutPrefix(w.reasons(e, "on")[1], "took: enrolled: ")
				if again := w.reasons(e, "again")[0]; !ok || again != "took: not enrolled: the lead is there already, with enrollment "+id {
					t.Errorf("the timeline says %q and %q", w.reasons(e, "on"), again)
				}
				made, _, err := w.store.Enrollment(context.Background(), scope, id)
				must(t, err)
				if made.JourneyID != next.JourneyID || made.LeadsID != e.LeadsID || made.AppID != "app_test" || made.LaunchID != "" || made.EntryKey != "" {
					t.Errorf("enrolled as %+v", made)
				}
				onward = append(onward, made)
			}
			w.newEnvironment()
			w.register()
			w.run()
			for _, e := range onward {
				if d, _ := w.delivery(e, "hello"); d.Status != waypost.DeliverySucceeded {
					t.Errorf("the message of the other journey is %s", d.Status)
				}
			}
			if cohort, err := storetest.ClaimCohort(context.Background(), w.store); cohort != nil || err != nil {
				t.Errorf("there is more to start: %+v, %v", cohort, err)
			}
		})
	}
}

// pausedMeanwhile is a database in which everything is paused the moment before the
// first enrollment.
type pausedMeanwhile struct {
	*store.Store
	pause func()
	once  sync.Once
}

func (s *pausedMeanwhile) EnrollOnward(ctx context.Context, b waypost.OnwardBatch) (map[waypost.Touchpoint]waypost.OnwardResult, error) {
	s.once.Do(s.pause)
	return s.Store.EnrollOnward(ctx, b)
}

func (s *pausedMeanwhile) UpdateLeadAt(ctx context.Context, b waypost.EffectBatch, change func(waypost.Lead) (waypost.LeadFields, []string, error)) (waypost.EffectResult, error) {
	s.once.Do(s.pause)
	return s.Store.UpdateLeadAt(ctx, b, change)
}

func (s *pausedMeanwhile) EmitEvents(ctx context.Context, b waypost.EffectBatch) (map[waypost.Touchpoint]waypost.EffectResult, error) {
	s.once.Do(s.pause)
	return s.Store.EmitEvents(ctx, b)
}

// stopMeanwhile registers a database in which the first enrollment is paused at the last moment, and
// the second one canceled; what concerns the others goes on.
func (w *world) stopMeanwhile(enrolled []waypost.Enrollment) {
	ctx := context.Background()
	w.registerWith(&pausedMeanwhile{Store: w.store, pause: func() {
		_, err := w.store.PauseEnrollment(ctx, scope, enrolled[0].ID)
		must(w.t, err)
		_, err = w.store.CancelEnrollment(ctx, scope, enrolled[1].ID)
		must(w.t, err)
	}})
}

// wantStopped wants that all completed but the one that stopMeanwhile has canceled.
func (w *world) wantStopped(enrolled []waypost.Enrollment) {
	w.t.Helper()
	for i, e := range enrolled {
		status, timeline := w.timeline(e)
		if canceled := status == waypost.EnrollmentCanceled; canceled != (i == 1) || !canceled && status != waypost.EnrollmentCompleted {
			w.t.Errorf("%d is %s by way of %q", i, status, timeline)
		}
	}
}

// Who is paused at the last moment changes and emits nothing before the resume, and who is
// canceled then never does.
func TestEffectsPausedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, node := range []string{`"type":"updateLead","set":{"remark":"done"}`, `"type":"emit","event":"done"`} {
		t.Run(node, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			ctx := context.Background()
			enrolled := w.enroll(w.publish(`{"name":"First","start":"do","nodes":[{"id":"do",`+node+`}]}`), 3)
			w.newEnvironment()
			w.stopMeanwhile(enrolled)
			done := func() (done []bool) {
				for _, e := range enrolled {
					lead, err := w.store.Lead(ctx, scope, e.LeadsID)
					must(t, err)
					events, err := w.store.ListEvents(ctx, scope, waypost.EventFilter{LeadsID: e.LeadsID}, waypost.Page{})
					must(t, err)
					done = append(done, lead.Remark != nil || len(events) == 1)
				}
				return done
			}
			w.at(5*time.Hour, func(ctx context.Context) {
				if got := done(); !slices.Equal(got, []bool{false, false, true}) {
					t.Errorf("before the resume: %v", got)
				}
				_, err := w.store.ResumeEnrollment(ctx, scope, enrolled[0].ID, true)
				must(t, err)
			})
			w.run()
			if got := done(); !slices.Equal(got, []bool{true, false, true}) {
				t.Errorf("in the end: %v", got)
			}
			w.wantStopped(enrolled)
		})
	}
}

// Who is paused at the last moment is not enrolled before the resume, and who is
// canceled then never is.
func TestEnrollPausedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := context.Background()
	next := w.publish(oneTouchpoint)
	v := w.publish(fmt.Sprintf(`{"name":"First","start":"on","nodes":[{"id":"on","type":"enroll","journey":%q}]}`, next.JourneyID))
	enrolled := w.enroll(v, 3)
	begun := w.env.Now()
	w.newEnvironment()
	w.stopMeanwhile(enrolled)
	w.at(5*time.Hour, func(ctx context.Context) {
		_, err := w.store.ResumeEnrollment(ctx, scope, enrolled[0].ID, true)
		must(t, err)
	})
	w.run()
	cohort, err := storetest.ClaimCohort(ctx, w.store)
	must(t, err)
	at := map[int64]time.Duration{}
	for _, m := range cohort.Members {
		e, _, err := w.store.Enrollment(ctx, scope, m.EnrollmentID)
		must(t, err)
		at[e.LeadsID] = e.CreatedAt.Sub(begun).Round(time.Minute)
	}
	if want := map[int64]time.Duration{enrolled[0].LeadsID: 5 * time.Hour, enrolled[2].LeadsID: 0}; !maps.Equal(at, want) {
		t.Errorf("enrolled after %v, want %v", at, want)
	}
	w.wantStopped(enrolled)
}

// A journey that enrolls its leads in itself comes to an end, unless it waits.
func TestEnrollInItself(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		wait string
		runs int
		over bool
	}{
		"at once":              {runs: 1 + waypost.MaxEnrollDepth, over: true},
		"what is true already": {wait: `{"id":"wait","type":"waitFor","when":"true","timeout":"1h","next":"on"},`, runs: 1 + waypost.MaxEnrollDepth, over: true},
		"after a wait":         {wait: `{"id":"wait","type":"delay","for":"1h","next":"on"},`, runs: 3 * waypost.MaxEnrollDepth},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			ctx := context.Background()
			j, err := w.store.CreateJourney(ctx, scope, "Again", []byte(`{}`))
			must(t, err)
			start := "on"
			if tt.wait != "" {
				start = "wait"
			}
			def, problems := journey.Parse(fmt.Appendf(nil, `{"name":"Again","start":%q,"reentry":{"policy":"always"},"nodes":[%s{"id":"on","type":"enroll","journey":%q}]}`, start, tt.wait, j.ID))
			must(t, append(problems, def.Check(nil, nil)...).Err(""))
			v, err := w.store.PublishJourney(ctx, scope, j.ID, waypost.Publication{Name: "Again", Hash: def.Hash(), Definition: def.Canonical()})
			must(t, err)
			e := w.enter(v, w.lead(nil))
			for run := 1; ; run++ {
				w.run()
				reason := w.reasons(e, "on")
				last := reason[len(reason)-2] // then it exits
				cohort, err := storetest.ClaimCohort(ctx, w.store)
				must(t, err)
				if run == tt.runs {
					if over := cohort == nil; over != tt.over || over != (last == "took: not enrolled: too many journeys in a row") {
						t.Errorf("after %d enrollments: %+v; %s", run, cohort, last)
					}
					return
				}
				if cohort == nil {
					t.Fatalf("it stopped after %d enrollments: %q", run, reason)
				}
				e, _, err = w.store.Enrollment(ctx, scope, cohort.Members[0].EnrollmentID)
				must(t, err)
				w.newEnvironment()
				w.register()
				w.next = cohort
			}
		})
	}
}

// A loop with waits in it goes round until somebody pays, however often the
// workflow continues as new.
func TestLoopContinuesAsNew(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			v := w.publish(`{"name":"Reminders","start":"remind","nodes":[
				{"id":"remind","type":"touchpoint","webhook":"WEBHOOK","next":"paid"},
				{"id":"paid","type":"waitForEvent","event":"purchase","timeout":"10h","next":"arms","onTimeout":"morning"},
				{"id":"morning","type":"waitUntil","time":"09:00","next":"rest"},
				{"id":"rest","type":"delay","for":"90m","next":"remind"},
				{"id":"arms","type":"split","arms":[{"weight":1,"next":"check"},{"weight":1,"next":"check"}]},
				{"id":"check","type":"branch","cases":[{"when":"touchpoints.remind.succeed","next":"thanks"}]},
				{"id":"thanks","type":"touchpoint","webhook":"WEBHOOK"}]}`)
			enrolled := w.enroll(v, n)
			start := w.env.Now()
			// They are reminded on the first four days; the payment comes after the last.
			payment := start.Add(3*24*time.Hour + 4*time.Hour)
			paid := false
			runs := w.runInPieces(func() {
				if !paid {
					w.env.RegisterDelayedCallback(func() {
						paid = true
						for i, e := range enrolled {
							w.event(fmt.Sprint("evt-", i), e.LeadsID, 1)(context.Background())
						}
					}, payment.Sub(w.env.Now()))
				}
				w.env.RegisterDelayedCallback(w.tell, max(0, payment.Sub(w.env.Now()))+time.Second)
			})
			round := []string{"remind sent paid", "paid entered", "paid timedOut morning", "morning entered", "morning waited rest", "rest entered", "rest waited remind"}
			want := []string{"remind entered"}
			for range 3 {
				want = append(want, round...)
			}
			want = append(want, "remind sent paid", "paid entered", "paid matched arms", "arms took check", "check took thanks", "thanks sent", "thanks exited")
			for _, e := range enrolled {
				if status, timeline := w.timeline(e); status != waypost.EnrollmentCompleted || !slices.Equal(timeline, want) {
					t.Errorf("%s by way of\n%q, want\n%q", status, timeline, want)
				}
			}
			if runs < 15 || len(w.receiver.posts) != 5*n {
				t.Errorf("%d runs, %d messages", runs, len(w.receiver.posts))
			}
		})
	}
}

// Conditions are told the time of the decision, and that of the look at an event.
func TestConditionsNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	e := w.enroll(w.publish(`{"name":"J","start":"wait","nodes":[
		{"id":"wait","type":"delay","for":"1h","next":"check"},
		{"id":"check","type":"branch","cases":[{"when":"now - lead.createdAt < duration('1h')"},{"when":"now - lead.createdAt < duration('61m')","next":"late"}]},
		{"id":"late","type":"waitForEvent","event":"purchase","timeout":"P1D","when":"now - lead.createdAt > duration('2h')"}]}`), 1)[0]
	for i, after := range []time.Duration{90 * time.Minute, 150 * time.Minute} {
		w.at(after, func(ctx context.Context) {
			_, err := w.store.AcceptEvent(ctx, scope, waypost.Event{EventID: fmt.Sprint("e", i), Name: "purchase", LeadsID: e.LeadsID})
			must(t, err)
		})
	}
	w.run()
	const decided = `took: case 2: now - lead.createdAt < duration("61m") → true`
	if lines := w.reasons(e, "check"); !slices.Contains(lines, decided) {
		t.Errorf("the branch says %q", lines)
	}
	const matched = `matched: event purchase: now - lead.createdAt > duration("2h") → true`
	if lines := w.reasons(e, "late"); !slices.Contains(lines, matched) {
		t.Errorf("the wait says %q", lines)
	}
}

// An updateLead sets fields of the lead as a PATCH does, once for each visit; what the lead
// cannot hold fails the node.
func TestUpdateLead(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			enrolled := w.enroll(w.publish(`{"name":"Stages","start":"count","nodes":[
				{"id":"count","type":"updateLead","set":{"customFields.visits":"{{ lead.customFields.visits | plus: 1 }}","customFields.gone":null,"gender":1,"remark":"Visit of {{ lead.name }}"},"next":"wait"},
				{"id":"wait","type":"delay","for":"1h","next":"check"},
				{"id":"check","type":"branch","cases":[{"when":"lead.customFields.visits < 3","next":"count"}],"otherwise":"bad"},
				{"id":"bad","type":"updateLead","set":{"gender":"{{ lead.customFields.visits }}"},"next":"count","onFailure":"taken"},
				{"id":"taken","type":"updateLead","set":{"externalId":"taken","remark":"No"},"next":"end"},
				{"id":"end","type":"exit"}]}`), n)
			taken := "taken"
			_, err := w.store.CreateLead(context.Background(), scope, waypost.LeadFields{Name: "Bob", ExternalID: &taken}, nil)
			must(t, err)
			for _, e := range enrolled {
				_, err := w.store.UpdateLead(context.Background(), scope, e.LeadsID, func(l waypost.Lead) (waypost.LeadFields, []string, error) {
					l.CustomFields = map[string]any{"gone": true, "plan": "pro"}
					return l.LeadFields, nil, nil
				})
				must(t, err)
			}
			lost := &lostAnswers{Store: w.store}
			w.newEnvironment()
			w.registerWith(lost)
			result := w.run()
			if len(result.Touchpoints) > 0 || len(result.NotSucceeded) > 0 {
				t.Errorf("no message was sent, and the result says %+v", result)
			}
			if !lost.failed.Load() || w.woken.Load() == 0 {
				t.Errorf("an answer was lost: %v; the pump was woken %d times", lost.failed.Load(), w.woken.Load())
			}
			for i, e := range enrolled {
				lead, err := w.store.Lead(context.Background(), scope, e.LeadsID)
				must(t, err)
				if *lead.Gender != 1 || *lead.Remark != fmt.Sprint("Visit of Lead ", i) || fmt.Sprint(lead.CustomFields) != "map[plan:pro visits:3]" {
					t.Errorf("the lead has gender %v, remark %v, %v", *lead.Gender, *lead.Remark, lead.CustomFields)
				}
				status, lines := w.timeline(e)
				want := []string{"count entered", "count updated wait", "wait entered", "wait waited check", "check took count", "count updated wait", "wait entered", "wait waited check", "check took count",
					"count updated wait", "wait entered", "wait waited check", "check took bad", "bad failed taken", "taken failed end", "end exited"}
				if status != waypost.EnrollmentCompleted || !slices.Equal(lines, want) {
					t.Errorf("%s by way of %q, want %q", status, lines, want)
				}
				if got := w.reasons(e, "count")[1]; got != "updated: customFields.gone, customFields.visits, gender, remark" {
					t.Error(got)
				}
				if got := w.reasons(e, "bad"); got[0] != "failed: gender: must be 0, 1 or 2" {
					t.Error(got)
				}
				if got := w.reasons(e, "taken"); !strings.HasPrefix(got[0], "failed: externalId: lead ") {
					t.Error(got)
				}
			}
		})
	}
}

// An emit stores an event of the lead, which waits and exits see; its properties keep their
// types.
func TestEmit(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 5} {
		for _, loses := range []string{"scored", "over"} {
			t.Run(fmt.Sprint(n, " loses ", loses), func(t *testing.T) {
				t.Parallel()
				testEmit(t, n, loses)
			})
		}
	}
}

func testEmit(t *testing.T, n int, loses string) {
	w := newWorld(t, nil)
	v := w.publish(`{"name":"Emits","start":"tell","exitOn":[{"event":"over"}],"nodes":[
				{"id":"tell","type":"emit","event":"scored","properties":{"score":"{{ lead.leadsId | times: 2 }}","name":"{{ lead.name }}!","list":[1.50,"{{ lead.remark }}"],"yes":true},"next":"own"},
				{"id":"own","type":"waitForEvent","event":"scored","timeout":"1h","onTimeout":"earlier"},
				{"id":"earlier","type":"waitForEvent","event":"scored","when":"event.score > 1 && event.list[1] == null","since":"enrollment","timeout":"1h","next":"bad"},
				{"id":"bad","type":"emit","event":"bad","properties":{"x":"{{ 1 | divided_by: lead.customFields.none }}"},"onFailure":"again"},
				{"id":"again","type":"emit","event":"over","next":"never"},
				{"id":"never","type":"touchpoint","webhook":"WEBHOOK"}]}`)
	enrolled := w.enroll(v, n)
	w.newEnvironmentAt(w.env.Now().Add(time.Second))
	lost := &lostAnswers{Store: w.store, loses: loses}
	w.registerWith(lost)
	w.run()
	if !lost.failed.Load() || w.woken.Load() == 0 {
		t.Errorf("an answer was lost: %v; the pump was woken %d times", lost.failed.Load(), w.woken.Load())
	}
	for i, e := range enrolled {
		status, lines := w.timeline(e)
		want := []string{"tell entered", "tell emitted own", "own entered", "own timedOut earlier", "earlier entered", "earlier matched bad", "bad failed again", "again emitted never", "never exited"}
		if status != waypost.EnrollmentExited || !slices.Equal(lines, want) {
			t.Errorf("%s by way of %q, want %q", status, lines, want)
		}
		if got := w.reasons(e, "tell"); got[1] != "emitted: event scored" {
			t.Error(got)
		}
		if got := w.reasons(e, "bad"); !strings.HasPrefix(got[0], "failed: properties.x: ") {
			t.Error(got)
		}
		events, err := w.store.ListEvents(context.Background(), scope, waypost.EventFilter{LeadsID: e.LeadsID, OldestFirst: true}, waypost.Page{})
		must(t, err)
		if len(events) != 2 || events[0].EventID != e.ID+"/tell/1" || events[0].Depth != 1 || events[1].Name != "over" ||
			fmt.Sprint(events[0].Properties) != fmt.Sprintf("map[list:[1.5 <nil>] name:Lead %d! score:%d yes:true]", i, 2*e.LeadsID) {
			t.Errorf("events %+v", events)
		}
	}
	if len(w.receiver.posts) > 0 {
		t.Errorf("%d messages were sent after the end", len(w.receiver.posts))
	}
}

// An enrollment that is too many begun by each other comes to an end, with a clear reason.
func TestEmitTooDeep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := context.Background()
	j, err := w.store.CreateJourney(ctx, scope, "Again", []byte(`{}`))
	must(t, err)
	def, problems := journey.Parse(fmt.Appendf(nil, `{"name":"Again","start":"tell","reentry":{"policy":"always"},"nodes":[
		{"id":"tell","type":"emit","event":"told","next":"on"},{"id":"on","type":"enroll","journey":%q}]}`, j.ID))
	must(t, append(problems, def.Check(nil, nil)...).Err(""))
	v, err := w.store.PublishJourney(ctx, scope, j.ID, waypost.Publication{Name: "Again", Hash: def.Hash(), Definition: def.Canonical()})
	must(t, err)
	e := w.enter(v, w.lead(nil))
	for run := 0; ; run++ {
		w.run()
		status, lines := w.timeline(e)
		if run == waypost.MaxEnrollDepth {
			reason := w.reasons(e, "tell")
			if status != waypost.EnrollmentFailed || !slices.Equal(lines, []string{"tell entered", "tell failed"}) || reason[1] != "failed: more than 10 enrollments in a row that begin each other" {
				t.Errorf("%s by way of %q: %q", status, lines, reason)
			}
			break
		}
		cohort, err := storetest.ClaimCohort(ctx, w.store)
		must(t, err)
		if status != waypost.EnrollmentCompleted || cohort == nil {
			t.Fatalf("after %d: %s by way of %q", run, status, lines)
		}
		e, _, err = w.store.Enrollment(ctx, scope, cohort.Members[0].EnrollmentID)
		must(t, err)
		w.newEnvironment()
		w.register()
		w.next = cohort
	}
	events, err := w.store.ListEvents(ctx, scope, waypost.EventFilter{LeadsID: e.LeadsID}, waypost.Page{})
	must(t, err)
	if len(events) != waypost.MaxEnrollDepth || events[0].Depth != waypost.MaxEnrollDepth {
		t.Errorf("%d events, the last %+v", len(events), events[0])
	}
	if cohort, err := storetest.ClaimCohort(ctx, w.store); cohort != nil || err != nil {
		t.Errorf("there is more to start: %+v, %v", cohort, err)
	}
}

// Enrollments that begin each other by events go on, if they wait.
func TestEmitAfterWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := context.Background()
	v := w.publish(`{"name":"Monthly","start":"month","entry":[{"event":"told"}],"reentry":{"policy":"always"},"nodes":[
		{"id":"month","type":"delay","for":"720h","next":"tell"},{"id":"tell","type":"emit","event":"told"}]}`)
	e := w.enter(v, w.lead(nil))
	for run := range 2 * waypost.MaxEnrollDepth {
		w.run()
		if status, lines := w.timeline(e); status != waypost.EnrollmentCompleted {
			t.Fatalf("after %d: %s by way of %q", run, status, lines)
		}
		cohort, err := storetest.ClaimCohort(ctx, w.store)
		must(t, err)
		if cohort == nil {
			t.Fatalf("it stopped after %d enrollments", run)
		}
		if e, _, err = w.store.Enrollment(ctx, scope, cohort.Members[0].EnrollmentID); err != nil || e.Depth != 1 {
			t.Fatalf("depth %d, %v", e.Depth, err)
		}
		w.newEnvironment()
		w.register()
		w.next = cohort
	}
}
