package console

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// An event of the form has a time and properties; what is none is refused.
func TestEventRow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		row        eventRow
		after      time.Duration
		properties string // as JSON; "": they are faulty
	}{
		{eventRow{"a", "1.5", "hours", "amount = 120\n\n item=a = b\r\nvip=true\ncode=\"007\"\nzip=007\nlist=[1]"}, 90 * time.Minute, `{"amount":120,"code":"007","item":"a = b","list":"[1]","vip":true,"zip":"007"}`},
		{eventRow{"a", "730", "days", "n=9007199254740993"}, 730 * 24 * time.Hour, `{"n":9007199254740993}`},
		{eventRow{"a", "0", "minutes", "amount"}, 0, ""},
		{eventRow{"a", "731", "days", "=1"}, -1, ""},
		{eventRow{"a", "-1", "hours", ""}, -1, "{}"},
		{eventRow{"a", "NaN", "hours", ""}, -1, "{}"},
		{eventRow{"a", "1", "years", ""}, -1, "{}"},
	} {
		after, ok := tt.row.after()
		if ok != (tt.after >= 0) || ok && after != tt.after {
			t.Errorf("%+v: after %s, %v", tt.row, after, ok)
		}
		properties, ok := tt.row.properties()
		got, err := json.Marshal(properties)
		if err != nil || ok != (tt.properties != "") || ok && string(got) != tt.properties {
			t.Errorf("%+v: properties %s, %v, %v", tt.row, got, ok, err)
		}
	}
}

// The names of events that a definition has something to do with are offered, wherever they stand.
func TestEventsIn(t *testing.T) {
	t.Parallel()
	got := eventsIn([]byte(`{"name":"n","entry":[{"event":"cart"}],"exitOn":[{"event":"gone"}],"nodes":[{"id":"event","event":"paid"},{"events":[{"event":"paid"},{"event":"seen"}]},7]}`))
	if !slices.Equal(got, []string{"cart", "gone", "paid", "seen"}) {
		t.Errorf("found %q", got)
	}
	if got := eventsIn(nil); got != nil {
		t.Errorf("found %q in nothing", got)
	}
}

// Events stand between the steps of a run, in the order in which things happen; the time line has
// both, and few ticks.
func TestTrail(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	run := dryRun{StartAt: start, EndAt: start.Add(72 * time.Hour), Path: []dryRunStep{
		{NodeID: "hello", Type: "touchpoint", EnteredAt: start, LeftAt: start, Result: "failed", Reason: "httpStatus 503", Next: "wait", Way: "next"},
		{NodeID: "wait", Type: "delay", EnteredAt: start, LeftAt: start.Add(72 * time.Hour), Result: "waited", Next: "last", Way: "next"},
		{NodeID: "last", Type: "touchpoint", EnteredAt: start.Add(72 * time.Hour), LeftAt: start.Add(72 * time.Hour), Result: "delivered", Way: "next"},
		{NodeID: "set", Type: "updateLead", EnteredAt: start.Add(72 * time.Hour), LeftAt: start.Add(72 * time.Hour), Result: "updated", Way: "onFailure", Values: json.RawMessage(`{"gender":2}`)},
	}}
	rows := []eventRow{{"late", "4", "days", ""}, {"seen", "30", "hours", ""}, {"faulty", "x", "days", ""}}
	v := &visit{chosen: preferences{Language: "en"}}
	var trail []string
	for _, item := range v.trailOf(run, rows) {
		what := item.NodeID + item.Event
		if item.Stays != "" {
			what += " for " + item.Stays
		}
		if item.Late {
			what += " too late"
		}
		if item.Values != "" {
			what += " to " + strings.Join(strings.Fields(item.Values), " ")
		}
		trail = append(trail, what)
	}
	if got := strings.Join(trail, ", "); got != `hello, wait for 3 days, seen, last, set to { "gender": 2 }, late too late` {
		t.Errorf("the trail is %s", got)
	}
	line := v.timeLineOf(tryPage{Run: &run, Events: rows, t: v.t})
	if line.Span != (105*time.Hour+36*time.Minute).Milliseconds() || len(line.Ticks) == 0 || len(line.Ticks) > mostTicks || line.Ticks[0].Text != "1 day" {
		t.Errorf("the time line is %+v", line)
	}
	kinds := map[string]string{}
	for _, m := range line.Marks {
		kinds[m.Kind] += m.X + " "
	}
	if kinds["event"] != "90.909% 28.409% " || kinds["touchpoint"] != "0.000% 68.182% " || kinds["wait"] != "0.000% " {
		t.Errorf("the marks are %v", kinds)
	}
	lit, err := litOf(run)
	if want := `{"edges":["start:","hello:next\u003ewait","wait:next\u003elast","last:next\u003eend:last","set:onFailure\u003eend:set"],"nodes":["start:","hello","wait","last","end:last","set","end:set"]}`; err != nil || lit != want {
		t.Errorf("lit is %s, %v", lit, err)
	}
	for d, want := range map[time.Duration]string{0: "0 seconds", time.Second: "1 second", 24*time.Hour + 3*time.Second: "1 day", 90 * time.Minute: "1 hour 30 minutes", 49 * time.Hour: "2 days 1 hour"} {
		if got := v.span(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

// What became of a visit is told as in a timeline, by the type of the node.
func TestBecame(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ kind, result, reason, want string }{
		{"touchpoint", "failed", "httpStatus 503", "Not delivered|HTTP 503|"},
		{"updateLead", "failed", "gender: must be 0, 1 or 2", "Lead not changed||gender: must be 0, 1 or 2"},
		{"emit", "failed", "properties.score: division by zero", "Event not emitted||properties.score: division by zero"},
		{"branch", "case 2", "case 2: lead.gender == 1 → true", "Case 2 is true||lead.gender == 1 → true"},
		{"branch", "otherwise", "otherwise", "No case is true: otherwise||"},
		{"split", "arm 2", "arm 2: weight 10 of 100", "Arm B||"},
		{"waitForEvent", "event 1", "event purchase: event.amount > 100 → true", "The event came|Event purchase|event.amount > 100 → true"},
		{"waitForEvent", "", "event purchase; until 2026-01-31T12:00:00.000Z", "|Event purchase · Until 31 Jan 2026, 20:00:00|"},
		{"waitFor", "matched", `lead.remark == "x" → true`, `The condition is true||lead.remark == "x" → true`},
	} {
		what, why, raw := visitIn(t, "en").became(dryRunStep{Type: tt.kind, Result: tt.result, Reason: tt.reason})
		if got := what + "|" + why + "|" + raw; got != tt.want {
			t.Errorf("%s %s: %q, want %q", tt.kind, tt.result, got, tt.want)
		}
	}
}

// Of a forecast the webhooks with most messages have columns, the others one together, and the days
// behind the last message are left out.
func TestForecastView(t *testing.T) {
	t.Parallel()
	f := forecast{Total: 100, Sample: 10, Cut: 1, HeldOut: 10, Goal: &forecastGoal{Leads: 90, Enrollments: 100, Converted: 50, Expected: new(45), Low: new(31), High: new(59)}}
	for i := range 30 {
		day := forecastDay{Date: time.Date(2026, 3, 1+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly), Touchpoints: map[string]int64{}}
		if i == 9 {
			day.Touchpoints, day.Skipped = map[string]int64{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 0}, 2
		}
		f.Days = append(f.Days, day)
	}
	view := newForecastView(f, names{{"f", "SMS"}})
	if len(view.Days) != 10 || view.Period != 30 || view.Skipped != 2 || len(view.Webhooks) != 5 || view.Webhooks[0].Name != "SMS" || view.Webhooks[0].N != 6 || view.Webhooks[4].N != 3 || len(view.Webhooks[4].ids) != 2 {
		t.Errorf("the view is %+v", view)
	}
	if last := view.Days[9]; last.All != 21 || !slices.Equal(last.N, []int64{6, 5, 4, 3, 3}) {
		t.Errorf("the last day is %+v", last)
	}
	for _, share := range []float64{0, 0.1} { // these the journey holds out itself
		if all := newForecastView(f.without(share), nil); all.Webhooks[0].N != 6 || all.HeldOut != 10 {
			t.Errorf("without %v: %+v", share, all)
		}
	}
	if half := newForecastView(f.without(0.55), nil); half.Webhooks[0].N != 3 || half.Webhooks[4].N != 2 || half.Skipped != 1 || f.Days[9].Touchpoints["f"] != 6 ||
		half.HeldOut != 55 {
		t.Errorf("of half of them: %+v", half)
	}
	if g := f.without(0.55).Goal; *g.Expected != 23 || *g.Low <= 10 || *g.High >= 35 || *f.Goal.Expected != 45 {
		t.Errorf("of half of them %d convert, %d to %d", *g.Expected, *g.Low, *g.High)
	}
	f.Goal.Leads = 40 // the others are test leads
	if g := f.without(0.55).Goal; g.Leads != 20 || *g.Expected != 10 {
		t.Errorf("of half of them, with test leads: %d of %d convert", *g.Expected, g.Leads)
	}
	if view := newForecastView(forecast{Days: f.Days[:5]}, nil); len(view.Webhooks) != 0 || len(view.Days) != 5 {
		t.Errorf("of nothing: %+v", view)
	}
}
