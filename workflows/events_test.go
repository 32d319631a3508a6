package workflows_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
)

const waiting = `{"name":"Waiting","start":"wait","nodes":[
	{"id":"wait","type":"waitForEvent","event":"purchase","when":"event.amount > 100","timeout":"24h","next":"thanks","onTimeout":"sorry"},
	{"id":"thanks","type":"touchpoint","webhook":"WEBHOOK"},
	{"id":"sorry","type":"touchpoint","webhook":"WEBHOOK"}]}`

func (w *world) event(id string, lead int64, amount int) func(context.Context) {
	return func(ctx context.Context) {
		_, err := w.store.AcceptEvent(ctx, scope, waypost.Event{
			EventID: id, Name: "purchase", LeadsID: lead, Properties: map[string]any{"amount": amount},
		})
		must(w.t, err)
	}
}

// An enrollment waits for an event that its condition accepts, or for its time to
// run out.
func TestWaitForEvent(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	type happening struct {
		at     time.Duration
		amount int
		what   string // pause, shift, skip; an event if empty
	}
	tests := map[string]struct {
		since      string
		happenings []happening
		matched    bool
		at         time.Duration
	}{
		"an event":                              {happenings: []happening{{at: 3 * hour, amount: 101}}, matched: true, at: 3 * hour},
		"no event":                              {at: 24 * hour},
		"one that the condition refuses":        {happenings: []happening{{at: 3 * hour, amount: 99}}, at: 24 * hour},
		"a refused one and then another":        {happenings: []happening{{at: 3 * hour, amount: 99}, {at: 5 * hour, amount: 200}}, matched: true, at: 5 * hour},
		"too late":                              {happenings: []happening{{at: 25 * hour, amount: 200}}, at: 24 * hour},
		"before the wait":                       {happenings: []happening{{at: -1, amount: 200}}, at: 24 * hour},
		"before the wait, since the enrollment": {since: "enrollment", happenings: []happening{{at: -1, amount: 200}}, matched: true, at: 0},
		"while paused, skip": {
			happenings: []happening{{at: hour, what: "pause"}, {at: 2 * hour, amount: 200}, {at: 5 * hour, what: "skip"}}, matched: true, at: 5 * hour,
		},
		"paused beyond the time, skip": {
			happenings: []happening{{at: hour, what: "pause"}, {at: 30 * hour, what: "skip"}, {at: 31 * hour, amount: 200}}, at: 30 * hour,
		},
		"in time but while paused beyond the time, skip": {
			happenings: []happening{{at: hour, what: "pause"}, {at: 20 * hour, amount: 200}, {at: 30 * hour, what: "skip"}}, matched: true, at: 30 * hour,
		},
		"too late while paused, skip": {
			happenings: []happening{{at: hour, what: "pause"}, {at: 26 * hour, amount: 200}, {at: 30 * hour, what: "skip"}}, at: 30 * hour,
		},
		"paused beyond the time, shift": {
			happenings: []happening{{at: hour, what: "pause"}, {at: 30 * hour, what: "shift"}, {at: 40 * hour, amount: 200}}, matched: true, at: 40 * hour,
		},
		"shifted and too late": {
			happenings: []happening{{at: hour, what: "pause"}, {at: 30 * hour, what: "shift"}, {at: 54 * hour, amount: 200}}, at: 53 * hour,
		},
	}
	for name, tt := range tests {
		for _, n := range []int{1, 5} {
			t.Run(fmt.Sprintf("%s, %d", name, n), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil)
				definition := waiting
				if tt.since != "" {
					definition = `{"name":"Waiting","start":"wait","nodes":[
						{"id":"wait","type":"waitForEvent","event":"purchase","when":"event.amount > 100","timeout":"24h","since":"enrollment","next":"thanks","onTimeout":"sorry"},
						{"id":"thanks","type":"touchpoint","webhook":"WEBHOOK"},
						{"id":"sorry","type":"touchpoint","webhook":"WEBHOOK"}]}`
				}
				v := w.publish(definition)
				enrolled := w.enroll(v, n)
				if len(tt.happenings) > 0 && tt.happenings[0].at < 0 {
					// Between the enrollment and the start of the workflow.
					for i, e := range enrolled {
						w.event(fmt.Sprintf("before-%d", i), e.LeadsID, tt.happenings[0].amount)(context.Background())
					}
					w.newEnvironmentAt(w.env.Now().Add(time.Minute))
					w.register()
				}
				start := w.env.Now()
				for h, what := range tt.happenings {
					if what.at < 0 {
						continue
					}
					w.at(what.at, func(ctx context.Context) {
						var err error
						switch what.what {
						case "pause":
							_, err = w.store.PauseJourney(ctx, scope, v.JourneyID)
						case "shift", "skip":
							_, err = w.store.ResumeJourney(ctx, scope, v.JourneyID, what.what == "shift")
						default:
							for i, e := range enrolled {
								w.event(fmt.Sprintf("evt-%d-%d", h, i), e.LeadsID, what.amount)(ctx)
							}
						}
						must(t, err)
					})
				}
				w.run()
				node, word := "sorry", "wait timedOut sorry"
				if tt.matched {
					node, word = "thanks", "wait matched thanks"
				}
				for _, e := range enrolled {
					status, timeline := w.timeline(e)
					if status != waypost.EnrollmentCompleted || !slices.Contains(timeline, word) {
						t.Fatalf("%s by way of %q, want %q", status, timeline, word)
					}
					_, attempts := w.delivery(e, node)
					if late := attempts[0].At.Sub(start) - tt.at; late < 0 || late > 2*time.Minute {
						t.Errorf("it went on %s after the start, want %s", attempts[0].At.Sub(start), tt.at)
					}
				}
				if len(w.receiver.posts) != n {
					t.Errorf("%d messages, want %d", len(w.receiver.posts), n)
				}
			})
		}
	}
}

// Of several events that are waited for, the first that comes and satisfies its condition
// says where an enrollment goes on.
func TestWaitForOneOfSeveralEvents(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			enrolled := w.enroll(w.publish(`{"name":"Several","start":"wait","nodes":[
				{"id":"wait","type":"waitForEvent","timeout":"24h","onTimeout":"sorry","events":[
					{"event":"refund","next":"sorry"},{"event":"purchase","when":"event.amount > 100","next":"thanks"},{"event":"purchase","when":"event.amount > 50","next":"end"}]},
				{"id":"thanks","type":"touchpoint","webhook":"WEBHOOK"},
				{"id":"sorry","type":"touchpoint","webhook":"WEBHOOK"},
				{"id":"end","type":"exit"}]}`), n)
			wants := []string{"wait matched sorry", "wait matched thanks", "wait matched end", "wait timedOut sorry", "wait matched thanks"}
			for i, e := range enrolled {
				happens := func(at time.Duration, name string, amount int) {
					w.at(at, func(ctx context.Context) {
						_, err := w.store.AcceptEvent(ctx, scope, waypost.Event{EventID: fmt.Sprint(i, at), Name: name, LeadsID: e.LeadsID, Properties: map[string]any{"amount": amount}})
						must(t, err)
					})
				}
				happens(time.Hour, "purchase", 10)
				switch i {
				case 0:
					happens(2*time.Hour, "refund", 0)
				case 1, 4:
					happens(2*time.Hour, "purchase", 200)
				case 2:
					happens(2*time.Hour, "purchase", 70)
				}
				happens(3*time.Hour, "other", 0)
			}
			w.run()
			for i, e := range enrolled {
				if status, lines := w.timeline(e); status != waypost.EnrollmentCompleted || !slices.Contains(lines, wants[i]) {
					t.Errorf("lead %d: %s by way of %q, want %q", i, status, lines, wants[i])
				}
			}
			want := "matched: event refund"
			if reasons := w.reasons(enrolled[0], "wait"); !slices.Contains(reasons, want) || !slices.ContainsFunc(reasons, func(s string) bool { return strings.HasPrefix(s, "entered: event refund or purchase until ") }) {
				t.Errorf("the timeline says %q", reasons)
			}
		})
	}
}

// Continuing as new between any two inputs, signals included, changes nothing.
func TestContinueAsNewWithEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.receiver.script = func(_ waypost.Message, attempt int) answer {
		if attempt <= 2 {
			return answer{status: 503}
		}
		return answer{status: 200}
	}
	v := w.publish(`{"name":"Welcome","start":"hello","nodes":[
		{"id":"hello","type":"touchpoint","webhook":"WEBHOOK","next":"wait"},
		{"id":"wait","type":"delay","for":"1h","next":"bought"},
		{"id":"bought","type":"waitForEvent","event":"purchase","timeout":"24h","next":"check","onTimeout":"end"},
		{"id":"check","type":"branch","cases":[{"when":"touchpoints.hello.attempts == 3","next":"again"}]},
		{"id":"again","type":"touchpoint","webhook":"WEBHOOK","next":"end"},
		{"id":"end","type":"exit"}]}`)
	enrolled := w.enroll(v, 4)
	begin := w.env.Now()
	runs := w.runInPieces(func() {
		elapsed := w.env.Now().Sub(begin)
		for _, h := range []struct {
			at time.Duration
			do func(context.Context)
		}{
			{30 * time.Minute, func(ctx context.Context) { _, err := w.store.PauseJourney(ctx, scope, v.JourneyID); must(t, err) }},
			{2 * time.Hour, func(ctx context.Context) {
				_, err := w.store.ResumeJourney(ctx, scope, v.JourneyID, true)
				must(t, err)
			}},
			{3 * time.Hour, w.event("e0", enrolled[0].LeadsID, 1)},
			{4 * time.Hour, w.event("e1", enrolled[1].LeadsID, 1)},
			{4*time.Hour + 500*time.Millisecond, w.event("e2", enrolled[2].LeadsID, 1)},
		} {
			if h.at > elapsed {
				w.at(h.at-elapsed, h.do)
			} else {
				w.env.RegisterDelayedCallback(w.tell, time.Second)
			}
		}
	})
	if runs < 8 {
		t.Errorf("only %d runs: it did not continue as new often enough", runs)
	}
	for i, e := range enrolled {
		want := []string{"hello entered", "hello sent wait", "wait entered", "wait paused", "wait resumed", "wait waited bought"}
		if i < 3 {
			want = append(want, "bought entered", "bought matched check", "check took again", "again sent end", "end exited")
		} else {
			want = append(want, "bought entered", "bought timedOut end", "end exited")
		}
		status, timeline := w.timeline(e)
		for n, line := range timeline { // controls belong to no node
			if line == "paused" || line == "resumed" {
				timeline[n] = "wait " + line
			}
		}
		if status != waypost.EnrollmentCompleted || !slices.Equal(timeline, want) {
			t.Errorf("enrollment %d is %s by way of\n%q, want\n%q", i, status, timeline, want)
		}
	}
	if len(w.receiver.posts) != 7 {
		t.Errorf("the receiver saw %d messages, want 7", len(w.receiver.posts))
	}
}

// What the condition said of the last event stands in the timeline, and no value of it.
func TestEventReasons(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		events []map[string]any
		want   string
	}{
		"no event":        {nil, "timedOut: "},
		"nothing to see":  {[]map[string]any{{}}, "timedOut: event purchase: event.amount > 100 → error: no such key"},
		"too little":      {[]map[string]any{{}, {"amount": 50}}, "timedOut: event purchase: event.amount > 100 → false"},
		"enough at last":  {[]map[string]any{{}, {"amount": 50}, {"amount": 150}}, "matched: event purchase: event.amount > 100 → true"},
		"enough at once":  {[]map[string]any{{"amount": 150}, {"amount": 50}}, "matched: event purchase: event.amount > 100 → true"},
		"of another type": {[]map[string]any{{"amount": "many"}}, "timedOut: event purchase: event.amount > 100 → error: no such overload"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			e := w.enroll(w.publish(waiting), 1)[0]
			for i, properties := range tt.events {
				w.at(time.Duration(i+1)*time.Hour, func(ctx context.Context) {
					_, err := w.store.AcceptEvent(ctx, scope, waypost.Event{EventID: fmt.Sprint("e", i), Name: "purchase", LeadsID: e.LeadsID, Properties: properties})
					must(t, err)
				})
			}
			w.run()
			if lines := w.reasons(e, "wait"); lines[len(lines)-1] != tt.want {
				t.Errorf("the timeline says %q, want %q", lines, tt.want)
			}
		})
	}
}
