package journey_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"waypost"
	"waypost/journey"
)

// story writes a run's path as lines.
func story(run journey.Run) string {
	var b strings.Builder
	for _, s := range run.Path {
		b.WriteString(strings.TrimSpace(s.Entered.Format("01-02 15:04") + " " + s.NodeID + " " + s.Result))
		if !s.Left.Equal(s.Entered) && !s.Left.IsZero() {
			fmt.Fprintf(&b, " %s", s.Left.Format("01-02 15:04"))
		}
		if s.Reason != "" {
			fmt.Fprintf(&b, " (%s)", s.Reason)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s %s %s", run.At.Format("01-02 15:04"), run.Status, run.Limit)
	return strings.TrimSpace(b.String())
}

// stored gives custom fields the types that they have once they were stored.
func stored(t *testing.T, custom map[string]any) (out map[string]any) {
	t.Helper()
	body, err := json.Marshal(custom)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(out, func(_ string, v any) bool { return v == nil })
	return out
}

func TestSimulate(t *testing.T) {
	t.Parallel()
	everything := string(read(t, "testdata/valid_everything.json"))
	uncapped := strings.Replace(everything, `"frequencyCap": {"touchpoints": 3, "per": "24h"},`, "", 1)
	single := func(node string) string { return `{"name":"x","start":"n","nodes":[` + node + `]}` }
	purchase := func(after time.Duration, amount float64) journey.SimulatedEvent {
		return journey.SimulatedEvent{Name: "purchase", After: after, Properties: map[string]any{"amount": amount}}
	}
	hour := time.Hour
	for _, test := range []struct {
		name, definition string
		options          journey.SimulateOptions
		custom           map[string]any // fields of the lead
		want             string
	}{
		{
			name: "bought at once, renewal to come, capped in the end", definition: strings.Replace(everything, `"touchpoints": 3, "per": "24h"`, `"touchpoints": 1, "per": "P60D"`, 1),
			options: journey.SimulateOptions{Events: []journey.SimulatedEvent{purchase(hour, 50), purchase(hour, 150)}},
			custom:  map[string]any{"renewalDate": "2026-04-10"},
			// It is 20:00 in Shanghai at the start; Kathmandu's 09:00 is 03:15 in UTC.
			want: `
03-01 12:00 hello delivered
03-01 12:00 wait waited 03-04 12:00
03-04 12:00 morning waited 03-05 03:15
03-05 03:15 bought matched (event purchase: event.amount > 100 → true)
03-05 03:15 renewal waited 04-07 09:00
04-07 09:00 thanks skipped (frequencyCap)
04-07 09:00 other enrolled (enrolled)
04-07 09:00 old skipped (createdAt P30D: in the past)
04-07 09:00 end exited
04-07 09:00 completed`,
		},
		{
			name: "fails in quiet hours and says sorry", definition: uncapped,
			options: journey.SimulateOptions{
				Start:    noon.Add(2 * hour),
				Outcomes: map[string]journey.TouchpointResult{"hello": {HTTPStatus: 503}, "sorry": {}},
			},
			want: `
03-01 14:00 hello failed 03-02 00:00 (httpStatus 503)
03-02 00:00 sorry failed (network)
03-02 00:00 end exited
03-02 00:00 completed`,
		},
		{
			name: "the lead's zone is not quiet", definition: uncapped, custom: map[string]any{"timezone": "Europe/London"},
			options: journey.SimulateOptions{Start: noon.Add(2 * hour), Outcomes: map[string]journey.TouchpointResult{"hello": {HTTPStatus: 200}}},
			want: `
03-01 14:00 hello failed (succeedFalse)
03-01 14:00 sorry delivered
03-01 14:00 end exited
03-01 14:00 completed`,
		},
		{
			name: "left in quiet hours", definition: uncapped,
			options: journey.SimulateOptions{Start: noon.Add(2 * hour), Events: []journey.SimulatedEvent{{Name: "unsubscribed", After: 3 * hour}}},
			want: `
03-01 14:00 hello exited 03-01 17:00 (event unsubscribed)
03-01 17:00 exited`,
		},
		{
			name: "left in a delay", definition: everything,
			options: journey.SimulateOptions{Events: []journey.SimulatedEvent{
				{Name: "app.closed", At: noon.Add(30 * hour)}, {Name: "unsubscribed", At: noon.Add(60 * hour)}, {Name: "app.closed", At: noon.Add(-hour)},
			}},
			want: `
03-01 12:00 hello delivered
03-01 12:00 wait exited 03-02 18:00 (event app.closed)
03-02 18:00 exited`,
		},
		{
			name: "left the moment a wait ends", definition: everything,
			options: journey.SimulateOptions{Events: []journey.SimulatedEvent{{Name: "unsubscribed", After: 72 * hour}}},
			want: `
03-01 12:00 hello delivered
03-01 12:00 wait exited 03-04 12:00 (event unsubscribed)
03-04 12:00 exited`,
		},
		{
			name: "left at once", definition: everything,
			options: journey.SimulateOptions{Events: []journey.SimulatedEvent{{Name: "unsubscribed"}}},
			want: `
03-01 12:00 hello exited (event unsubscribed)
03-01 12:00 exited`,
		},
		{
			name: "capped by what came before", definition: strings.Replace(everything, `"touchpoints": 3`, `"touchpoints": 2`, 1),
			options: journey.SimulateOptions{
				Sent:   []time.Time{noon.Add(-24 * hour), noon.Add(-24*hour + 1), noon.Add(-hour)},
				Events: []journey.SimulatedEvent{{Name: "unsubscribed", After: hour}},
			},
			want: `
03-01 12:00 hello skipped (frequencyCap)
03-01 12:00 wait exited 03-01 13:00 (event unsubscribed)
03-01 13:00 exited`,
		},
		{
			name: "no longer capped", definition: strings.Replace(everything, `"touchpoints": 3`, `"touchpoints": 2`, 1),
			options: journey.SimulateOptions{
				Sent:   []time.Time{noon.Add(-24 * hour), noon.Add(-hour)},
				Events: []journey.SimulatedEvent{{Name: "unsubscribed", After: hour}},
			},
			want: `
03-01 12:00 hello delivered
03-01 12:00 wait exited 03-01 13:00 (event unsubscribed)
03-01 13:00 exited`,
		},
		{
			name: "cap off", definition: strings.Replace(everything, `"touchpoints": 3`, `"touchpoints": 1`, 1),
			options: journey.SimulateOptions{Sent: []time.Time{noon}, NoFrequencyCap: true, Period: hour},
			want: `
03-01 12:00 hello delivered
03-01 12:00 wait
03-01 13:00 waiting period`,
		},
		{
			name: "what fails has no place in the cap",
			definition: `{"name":"x","start":"a","frequencyCap":{"touchpoints":1,"per":"24h"},"nodes":[
				{"id":"a","type":"touchpoint","webhook":"w","next":"end","onFailure":"b"},
				{"id":"b","type":"touchpoint","webhook":"w","params":{"p":"{{ 1 | divided_by: lead.customFields.none }}"},"next":"end","onFailure":"c"},
				{"id":"c","type":"touchpoint","webhook":"w","next":"d"},{"id":"d","type":"touchpoint","webhook":"w","next":"end"},{"id":"end","type":"exit"}]}`,
			options: journey.SimulateOptions{Outcomes: map[string]journey.TouchpointResult{"a": {HTTPStatus: 400}}},
			want: `
03-01 12:00 a failed (httpStatus 400)
03-01 12:00 b failed (render)
03-01 12:00 c delivered
03-01 12:00 d skipped (frequencyCap)
03-01 12:00 end exited
03-01 12:00 completed`,
		},
		{
			name:       "each event once a node",
			definition: `{"name":"x","start":"a","nodes":[{"id":"a","type":"waitForEvent","event":"e","timeout":"1h","since":"enrollment","next":"b","onTimeout":"end"},{"id":"b","type":"waitForEvent","event":"e","timeout":"1h","next":"a","onTimeout":"a"},{"id":"end","type":"exit"}]}`,
			options:    journey.SimulateOptions{Events: []journey.SimulatedEvent{{Name: "e", After: 30 * time.Minute}, {Name: "other"}, {Name: "e"}, {Name: "e", After: 24 * hour}}},
			want: `
03-01 12:00 a matched (event e)
03-01 12:00 b matched (event e)
03-01 12:00 a matched 03-01 12:30 (event e)
03-01 12:30 b matched (event e)
03-01 12:30 a timedOut 03-01 13:30
03-01 13:30 end exited
03-01 13:30 completed`,
		},
		{
			name: "the first of several events", definition: string(read(t, "testdata/valid_nodes.json")),
			options: journey.SimulateOptions{Period: 75 * 24 * hour, Events: []journey.SimulatedEvent{
				{Name: "login", After: hour}, purchase(2*hour, 50), {Name: "login", After: 2*hour + time.Minute}, purchase(4*hour, 150),
			}},
			want: `
03-01 12:00 either event 2 03-01 14:00 (event purchase)
03-01 14:00 again event 1 03-01 14:01 (event login)
03-01 14:01 either event 1 03-01 16:00 (event purchase: event.amount > 100 → true)
03-01 16:00 thanks delivered
03-01 16:00 stage updated (customFields.old, customFields.stage, customFields.vip, customFields.visits, region, remark)
03-01 16:00 tell emitted (event became.customer)
03-01 16:00 until timedOut 03-31 16:00 (lead.customFields.plan == "pro" → error: no such key)
03-31 16:00 until timedOut 04-30 16:00 (lead.customFields.plan == "pro" → error: no such key)
04-30 16:00 until
05-15 12:00 waiting period`,
		},
		{
			name: "a condition that becomes true", definition: single(`{"id":"n","type":"waitFor","when":"now > timestamp('2026-03-01T15:00:00Z')","timeout":"24h","next":"m"},{"id":"m","type":"waitFor","when":"lead.name != ''","timeout":"24h","next":"o"},
				{"id":"o","type":"waitFor","when":"now > timestamp('2026-03-05T15:00:00Z')","timeout":"24h"}`),
			options: journey.SimulateOptions{Events: []journey.SimulatedEvent{{Name: "a", After: hour}, {Name: "b", After: 5 * hour}}},
			want: `
03-01 12:00 n matched 03-01 15:01 (now > timestamp("2026-03-01T15:00:00Z") → true)
03-01 15:01 m matched (lead.name != "" → true)
03-01 15:01 o timedOut 03-02 15:01 (now > timestamp("2026-03-05T15:00:00Z") → false)
03-02 15:01 completed`,
		},
		{
			name: "sees what it has set and emitted",
			definition: `{"name":"x","start":"set","exitOn":[{"event":"over"}],"nodes":[
				{"id":"set","type":"updateLead","set":{"customFields.n":"{{ lead.customFields.n | plus: 1 }}","gender":"{{ lead.customFields.n | plus: 1 }}"},"onFailure":"tell","next":"check"},
				{"id":"check","type":"branch","cases":[{"when":"lead.customFields.n >= 2","next":"wait"}],"otherwise":"end"},
				{"id":"wait","type":"delay","for":"1h","next":"set"},
				{"id":"tell","type":"emit","event":"told","properties":{"n":"{{ lead.customFields.n }}","bad":"{{ 1 | divided_by: lead.customFields.zero }}"},"onFailure":"large","next":"end"},
				{"id":"large","type":"emit","event":"told","properties":{"n":{"of":["{{ lead.customFields.n | times: 9007199254740992 }}"]}},"onFailure":"tell2","next":"end"},
				{"id":"tell2","type":"emit","event":"told","properties":{"n":"{{ lead.customFields.n }}"},"next":"own"},
				{"id":"own","type":"waitForEvent","event":"told","timeout":"1h","onTimeout":"all","next":"end"},
				{"id":"all","type":"waitForEvent","event":"told","when":"event.n == 2","since":"enrollment","timeout":"1h","next":"bye","onTimeout":"end"},
				{"id":"bye","type":"emit","event":"over","next":"end"},
				{"id":"end","type":"exit"}]}`,
			custom: map[string]any{"n": 1, "zero": 0},
			want: `
03-01 12:00 set updated (customFields.n, gender)
03-01 12:00 check case 1 (case 1: lead.customFields.n >= 2 → true)
03-01 12:00 wait waited 03-01 13:00
03-01 13:00 set failed (gender: must be 0, 1 or 2)
03-01 13:00 tell failed (properties.bad: division by zero)
03-01 13:00 large failed (properties.n.of[0]: must be a number between -2^53 and 2^53; send a longer one as a string)
03-01 13:00 tell2 emitted (event told)
03-01 13:00 own timedOut 03-01 14:00
03-01 14:00 all matched (event told: event.n == 2 → true)
03-01 14:00 bye emitted (event over)
03-01 14:00 end exited
03-01 14:00 completed`,
		},
		{
			name: "an event as the time is over, a condition that errs", definition: single(`{"id":"n","type":"waitForEvent","event":"purchase","when":"event.amount > 100","timeout":"1h","onTimeout":"n"}`),
			options: journey.SimulateOptions{Steps: 4, Events: []journey.SimulatedEvent{{Name: "purchase", After: time.Minute}, purchase(2*hour, 150)}},
			want: `
03-01 12:00 n timedOut 03-01 13:00 (event purchase: event.amount > 100 → error: no such key)
03-01 13:00 n matched 03-01 14:00 (event purchase: event.amount > 100 → true)
03-01 14:00 completed`,
		},
		{
			name: "once a day", definition: `{"name":"x","start":"n","nodes":[{"id":"n","type":"waitUntil","time":"09:00","timezone":"Europe/Berlin","next":"t"},{"id":"t","type":"touchpoint","webhook":"w","next":"n"}]}`,
			options: journey.SimulateOptions{Start: instant(t, "2026-03-27T12:00:00Z"), Steps: 12},
			want: `
03-27 12:00 n waited 03-28 08:00
03-28 08:00 t delivered
03-28 08:00 n waited 03-29 07:00
03-29 07:00 t delivered
03-29 07:00 n waited 03-30 07:00
03-30 07:00 t delivered
03-30 07:00 n waited 03-31 07:00
03-31 07:00 t
03-31 07:00 running steps`,
		},
		{
			name: "a loop ends with its time", definition: single(`{"id":"n","type":"delay","for":"P300D","next":"n"}`),
			want: `
03-01 12:00 n waited 12-26 12:00
12-26 12:00 n waited 10-22 12:00
10-22 12:00 n
02-29 12:00 waiting period`,
		},
		{
			name: "a message that cannot be rendered", definition: single(`{"id":"n","type":"touchpoint","webhook":"w","params":{"p":"{{ 1 | divided_by: lead.customFields.none }}"},"next":"b"},{"id":"b","type":"branch","cases":[{"when":"!touchpoints.n.succeed && touchpoints.n.httpStatus == 0"}],"otherwise":"b2"},{"id":"b2","type":"exit"}`),
			want: `
03-01 12:00 n failed (render)
03-01 12:00 b case 1 (case 1: !touchpoints.n.succeed → true, touchpoints.n.httpStatus == 0 → true (0))
03-01 12:00 completed`,
		},
		{
			name: "exit at once", definition: single(`{"id":"n","type":"exit"}`),
			want: "03-01 12:00 n exited\n03-01 12:00 completed",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, test.definition)
			if problems := d.Check(nil, nil); len(problems) > 0 {
				t.Fatal(problems)
			}
			o := test.options
			o.Facts = facts()
			for name, v := range test.custom {
				o.Facts.Lead.CustomFields[name] = v
			}
			o.Facts.Lead.CustomFields = stored(t, o.Facts.Lead.CustomFields)
			if o.Start.IsZero() {
				o.Start = noon
			}
			run, err := journey.Simulate(t.Context(), d, o)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := story(run), strings.TrimSpace(test.want); got != want {
				t.Errorf("run:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestSimulate_messages(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"name":"x","start":"a","nodes":[
		{"id":"a","type":"touchpoint","webhook":"whk_1","params":{"greeting":"Hi {{ lead.name }}","n":1.50},"next":"b"},
		{"id":"b","type":"touchpoint","webhook":"whk_2","params":{"last":"{{ touchpoints.a.httpStatus }} {{ touchpoints.a.attempts }} {{ enrollment.id }}"},"next":"c"},
		{"id":"c","type":"touchpoint","webhook":"whk_1","params":{"p":"{{ 1 | divided_by: lead.name }}"}}]}`)
	f := facts()
	before := fmt.Sprint(f.Touchpoints)
	run, err := journey.Simulate(t.Context(), d, journey.SimulateOptions{
		Facts: f, Start: noon.In(time.FixedZone("", 3600)),
		Outcomes: map[string]journey.TouchpointResult{"a": {Succeed: true, HTTPStatus: 204, Attempts: 3}},
		WebhookParams: func(id string) map[string]any {
			return map[string]map[string]any{"whk_1": {"from": "{{ journey.name }}", "greeting": "Dear"}}[id]
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(run.Touchpoints)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"nodeId":"a","webhookId":"whk_1","visit":1,"at":"2026-03-01T12:00:00Z","succeed":true,"params":{"from":"Welcome","greeting":"Hi Zaphod-Beeblebrox","n":1.50},"error":""},` +
		`{"nodeId":"b","webhookId":"whk_2","visit":2,"at":"2026-03-01T12:00:00Z","succeed":true,"params":{"last":"204 3 enr_1"},"error":""},` +
		`{"nodeId":"c","webhookId":"whk_1","visit":3,"at":"2026-03-01T12:00:00Z","succeed":false,"params":null,"error":"params.p: division by zero"}]`
	if string(got) != want {
		t.Errorf("messages\n%s\nwant\n%s", got, want)
	}
	if after := fmt.Sprint(f.Touchpoints); after != before {
		t.Errorf("the facts became %s", after)
	}
	if e := run.Timeline[len(run.Timeline)-2]; e.What != waypost.WhatFailed || e.Reason != "render" || e.Version != 3 {
		t.Errorf("entry %+v", e)
	}

	if _, err := journey.Simulate(t.Context(), d, journey.SimulateOptions{Facts: f}); err == nil {
		t.Error("a run without a start")
	}
	if _, err := journey.Simulate(t.Context(), parse(t, `{"start":"gone"}`), journey.SimulateOptions{Start: noon}); err == nil {
		t.Error("a run of a definition that lacks its start")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := journey.Simulate(ended, d, journey.SimulateOptions{Facts: f, Start: noon}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	big := parse(t, `{"name":"x","start":"a","nodes":[{"id":"a","type":"touchpoint","webhook":"w","params":{"p":"{% for i in (1..4999) %}1234567890{% endfor %}"},"next":"b"},{"id":"b","type":"delay","for":"1h","next":"a"}]}`)
	if run, err := journey.Simulate(t.Context(), big, journey.SimulateOptions{Facts: f, Start: noon}); err != nil || run.Limit != journey.LimitSize || len(run.Touchpoints) != 84 {
		t.Errorf("limit %q after %d messages, %v", run.Limit, len(run.Touchpoints), err)
	}
}

// endsSoon is a context that ends when it was asked some times.
type endsSoon struct {
	context.Context
	left int
}

func (c *endsSoon) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// Each event can take as long as a condition may: a simulation ends between them.
func TestSimulate_endsBetweenEvents(t *testing.T) {
	t.Parallel()
	d, problems := journey.Parse([]byte(`{"name":"n","start":"w","nodes":[{"id":"w","type":"waitForEvent","event":"e","when":"event.n > 1","timeout":"1h"}]}`))
	if err := problems.Err(""); err != nil {
		t.Fatal(err)
	}
	events := make([]journey.SimulatedEvent, 100)
	for i := range events {
		events[i] = journey.SimulatedEvent{Name: "e", After: time.Minute, Properties: map[string]any{"n": 1}}
	}
	o := journey.SimulateOptions{Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Events: events}
	if _, err := journey.Simulate(&endsSoon{t.Context(), 50}, d, o); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestSimulate_properties simulates random journeys of random leads with random
// events.
func TestSimulate_properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := validDefinition(t)
		again, _ := journey.Parse(d.Canonical())
		o := journey.SimulateOptions{Facts: facts(), Start: drawMoment(t, time.UTC), Steps: 200}
		o.Facts.Lead.LeadsID = rapid.Int64Range(1, 1000).Draw(t, "lead")
		for name, values := range map[string][]string{
			"renewalDate": {"", "2026-04-10", "--02-29", "2026-03-10T10:00:00Z", "soon"}, "timezone": {"", "Australia/Lord_Howe", "Nowhere"},
		} {
			if v := rapid.SampledFrom(values).Draw(t, name); v != "" {
				o.Facts.Lead.CustomFields[name] = v
			}
		}
		for range rapid.IntRange(0, 5).Draw(t, "events") {
			e := journey.SimulatedEvent{Name: rapid.SampledFrom([]string{"purchase", "login", "unsubscribed", "other"}).Draw(t, "event")}
			e.After = time.Duration(rapid.Int64Range(-int64(time.Hour), int64(30*24*time.Hour)).Draw(t, "after"))
			e.Properties = map[string]any{"amount": rapid.Float64Range(0, 300).Draw(t, "amount")}
			o.Events = append(o.Events, e)
		}
		for _, n := range d.Nodes() {
			if n.Type == journey.Touchpoint && rapid.Bool().Draw(t, "fails") {
				if o.Outcomes == nil {
					o.Outcomes = map[string]journey.TouchpointResult{}
				}
				o.Outcomes[n.ID] = journey.TouchpointResult{HTTPStatus: 500}
			}
		}
		run, err := journey.Simulate(context.Background(), d, o)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := journey.Simulate(context.Background(), again, o); err != nil || !reflect.DeepEqual(same, run) {
			t.Fatalf("a second run is another one, %v:\n%s\n%s", err, story(run), story(same))
		}
		if run.Status.Ended() != (run.Limit == "") || run.At.Before(o.Start) {
			t.Fatalf("ended as %q, limit %q, at %s", run.Status, run.Limit, run.At)
		}
		at := o.Start
		for i, e := range run.Timeline {
			if e.Seq != i+1 || e.At.Before(at) || e.Version != 3 {
				t.Fatalf("entry %+v after %d at %s", e, i, at)
			}
			at = e.At
		}
		for i, s := range run.Path {
			last := i == len(run.Path)-1
			if s.Visit != i+1 || s.Left.IsZero() != (last && run.Limit != "") || (s.Result == "") != s.Left.IsZero() || !last && (s.Next != run.Path[i+1].NodeID || !s.Left.Equal(run.Path[i+1].Entered)) {
				t.Fatalf("step %d:\n%s", i, story(run))
			}
			if s.Type == journey.Split && !s.Left.IsZero() && s.Result != "exited" {
				n, _ := d.Node(s.NodeID)
				var weights []int
				for _, a := range n.Arms {
					weights = append(weights, a.Weight)
				}
				if want := fmt.Sprintf("arm %d", journey.SplitArm("jrn_1", n.ID, o.Facts.Lead.LeadsID, weights)+1); s.Result != want {
					t.Fatalf("%s took %s, not %s", n.ID, s.Result, want)
				}
			}
		}
		c := d.FrequencyCap()
		var delivered []time.Time // what fails has no place in the cap
		for _, m := range run.Touchpoints {
			if _, quiet := journey.QuietUntil(d.QuietHours(), o.Facts.Lead, m.At); quiet {
				t.Fatalf("message in quiet hours at %s", m.At)
			}
			if n := c.Touchpoints; n > 0 && len(delivered) >= n && m.At.Sub(delivered[len(delivered)-n]) < time.Duration(c.Per) {
				t.Fatalf("more than %d messages in %s at %s", n, c.Per, m.At)
			}
			if m.Succeed {
				delivered = append(delivered, m.At)
			}
		}
		// Nobody stays longer than until an event says so.
		for _, e := range o.Events {
			when := o.Start.Add(e.After)
			if slices.Contains(d.ExitOn(), e.Name) && !when.Before(o.Start) && (run.At.After(when) || run.At.Equal(when) && run.Limit == "" && run.Status != waypost.EnrollmentExited && run.Status != waypost.EnrollmentCompleted) {
				t.Fatalf("%s at %s, but:\n%s", e.Name, when, story(run))
			}
		}
	})
}

func sample(n int, edit func(i int, f *journey.Facts)) iter.Seq2[journey.Facts, error] {
	return func(yield func(journey.Facts, error) bool) {
		for i := range n {
			f := facts()
			f.Lead.LeadsID = int64(i + 1)
			edit(i, &f)
			if !yield(f, nil) {
				return
			}
		}
	}
}

func TestForecast(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"name":"x","start":"a","quietHours":{"from":"21:00","to":"08:00","timezone":"Asia/Shanghai"},"frequencyCap":{"touchpoints":2,"per":"P4D"},"nodes":[
		{"id":"a","type":"touchpoint","webhook":"whk_1","next":"e"},
		{"id":"e","type":"waitForEvent","event":"purchase","timeout":"P2D","next":"end","onTimeout":"b"},
		{"id":"b","type":"branch","cases":[{"when":"lead.gender == 1","next":"c"}],"otherwise":"end"},
		{"id":"c","type":"touchpoint","webhook":"whk_2","next":"r"},
		{"id":"r","type":"waitUntil","lead":"customFields.renewalDate","next":"f","onMissed":"f"},
		{"id":"f","type":"touchpoint","webhook":"whk_1","next":"g"},
		{"id":"g","type":"touchpoint","webhook":"whk_1","next":"end"},
		{"id":"end","type":"exit"}]}`)
	if problems := d.Check(nil, nil); len(problems) > 0 {
		t.Fatal(problems)
	}
	leads := sample(10, func(i int, f *journey.Facts) {
		f.Lead.Gender = ptr(int64(i % 2))
		switch i {
		case 1:
			f.Lead.CustomFields["renewalDate"] = "2026-03-31"
		case 3:
			f.Lead.CustomFields["renewalDate"] = "2026-03-30"
		}
	})
	shanghai := location(t, "Asia/Shanghai")
	// 22:00 on 1 March in Shanghai.
	got, err := journey.Forecast(t.Context(), d, leads, journey.ForecastOptions{Start: noon.Add(2 * time.Hour), Days: 30, Location: shanghai})
	if err != nil {
		t.Fatal(err)
	}
	if got.Leads != 10 || got.Cut != 0 || len(got.Days) != 30 || got.Days[0].Date != "2026-03-01" || got.Days[29].Date != "2026-03-30" {
		t.Errorf("%d leads, %d cut, %d days from %s", got.Leads, got.Cut, len(got.Days), got.Days[0].Date)
	}
	for i, day := range got.Days {
		want, skipped := map[string]int{}, 0
		switch day.Date {
		case "2026-03-02":
			want["whk_1"] = 10 // quiet hours are over
		case "2026-03-04":
			// Three have no renewal to wait for, and may get two in four days.
			want["whk_2"], skipped = 5, 6
		case "2026-03-30":
			want["whk_1"] = 2
		}
		if !reflect.DeepEqual(day.Touchpoints, want) || day.Skipped != skipped {
			t.Errorf("day %d, %s: %v, %d skipped; want %v, %d", i, day.Date, day.Touchpoints, day.Skipped, want, skipped)
		}
	}

	loop := parse(t, `{"name":"x","start":"a","nodes":[{"id":"a","type":"delay","for":"1ms","next":"a"}]}`)
	if got, err := journey.Forecast(t.Context(), loop, sample(2, func(int, *journey.Facts) {}), journey.ForecastOptions{Start: noon}); err != nil || got.Cut != 2 || len(got.Days) != 30 {
		t.Errorf("%d cut, %d days, %v", got.Cut, len(got.Days), err)
	}
	broken := errors.New("the connection is gone")
	failing := func(yield func(journey.Facts, error) bool) { yield(journey.Facts{}, broken) }
	if _, err := journey.Forecast(t.Context(), d, failing, journey.ForecastOptions{Start: noon}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	for _, days := range []int{-1, 367} {
		if _, err := journey.Forecast(t.Context(), d, leads, journey.ForecastOptions{Start: noon, Days: days}); err == nil {
			t.Errorf("a forecast of %d days", days)
		}
	}
}

func BenchmarkForecast(b *testing.B) {
	d := parse(b, string(read(b, "testdata/valid_everything.json")))
	for b.Loop() {
		if _, err := journey.Forecast(b.Context(), d, sample(100, func(int, *journey.Facts) {}), journey.ForecastOptions{Start: noon}); err != nil {
			b.Fatal(err)
		}
	}
}
