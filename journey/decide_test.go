package journey_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"waypost"
	"waypost/journey"
)

func ptr[T any](v T) *T { return &v }

// secret stands for every value of the lead that must not be told.
const secret = "Zaphod-Beeblebrox"

func facts() journey.Facts {
	return journey.Facts{
		Lead: waypost.Lead{
			LeadsID: 42,
			LeadFields: waypost.LeadFields{
				Name: secret, Gender: ptr(int64(1)), Birthday: ptr("1990-02-03"), Email: ptr("z@example.com"),
				MobilePhone: []string{"13800000001", "13800000002"},
				CustomFields: map[string]any{
					"level": 3.0, "score": json.Number("2.50"), "big": json.Number("12345678.5"), "tier": "gold", "none": nil, "vip": true,
					secret: "x",
				},
			},
			CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC),
		},
		JourneyID: "jrn_1", JourneyName: "Welcome", Version: 3, EnrollmentID: "enr_1", EntryKey: "order-7",
		Params: map[string]any{"amount": 250.0, "items": []any{"a", "b"}, "nested": map[string]any{"deep": []any{map[string]any{"x": 1.5}}}},
		Touchpoints: map[string]journey.TouchpointResult{
			"hello": {Succeed: true, HTTPStatus: 200, Message: "ok", Attempts: 2},
		},
	}
}

// fault is how a reason says that a condition could not be evaluated.
func fault(word string) string {
	if word == "" {
		return ""
	}
	return "error: " + word
}

// branchOn makes a journey whose node "b" has these conditions.
func branchOn(t testing.TB, conditions ...string) *journey.Definition {
	t.Helper()
	cases := make([]map[string]string, len(conditions))
	for i, c := range conditions {
		cases[i] = map[string]string{"when": c, "next": "end"}
	}
	body, err := json.Marshal(map[string]any{
		"name": "x", "start": "hello", "nodes": []any{
			map[string]any{"id": "hello", "type": "touchpoint", "webhook": "w", "next": "later"},
			map[string]any{"id": "later", "type": "touchpoint", "webhook": "w", "next": "dash-ed"},
			map[string]any{"id": "dash-ed", "type": "touchpoint", "webhook": "w", "next": "b"},
			map[string]any{"id": "b", "type": "branch", "cases": cases},
			map[string]any{"id": "end", "type": "exit"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(body))
}

// waitOn makes a journey whose node "w" waits for an event with this condition.
// matches tells whether an event of the name that a node waits for first satisfies it.
func matches(d *journey.Definition, node string, f journey.Facts) (yes bool, reason string) {
	name := "purchase"
	if n, _ := d.Node(node); len(n.Awaits()) > 0 {
		name = n.Awaits()[0]
	}
	which, reason := d.Matches(node, name, f)
	return which >= 0, reason
}

func waitOn(t testing.TB, condition string) *journey.Definition {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"name": "x", "start": "hello", "nodes": []any{
			map[string]any{"id": "hello", "type": "touchpoint", "webhook": "w", "next": "w"},
			map[string]any{"id": "w", "type": "waitForEvent", "event": "purchase", "timeout": "1h", "when": condition},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(body))
}

func TestMatches(t *testing.T) {
	t.Parallel()
	f := facts()
	f.Event = map[string]any{
		"amount": 250.0, "price": json.Number("99.90"), "count": json.Number("3"), "sku": secret, "none": nil, "paid": true,
		"tags": []any{"a", "b"}, "at": "2026-03-01T23:30:00Z", "cart": map[string]any{"items": []any{map[string]any{"n": 2.0}}}, "first name": "x",
	}
	for _, test := range []struct {
		condition string
		want      bool
		fault     string
	}{
		{"", true, ""},
		{"true", true, ""},
		{"event.amount > 100", true, ""},
		{"event.amount > 250", false, ""},
		{"event.amount >= 250.0 && event.price < 100 && event.count == 3", true, ""},
		{"event.count > 2.5", true, ""},
		{"event.paid", true, ""},
		{"event.sku == lead.name", true, ""},
		{"event['first name'] == 'x'", true, ""},
		{"event.cart.items[0].n == 2 && 'b' in event.tags", true, ""},
		{"size(event) == 10", true, ""},
		{"timestamp(event.at).getHours() == 23", true, ""},
		{"has(event.absent)", false, ""},
		{"event.none == null", true, ""},
		{"lead.gender == 1 && touchpoints.hello.succeed && journey.version == 3 && enrollment.params.amount == event.amount", true, ""},

		{"event.absent > 3", false, "no such key"},
		{"event.none > 3", false, "missing value"},
		{"event.none != 3", false, "missing value"},
		{"event.sku > 3", false, "no such overload"},
		{"event.sku", false, "not true or false"},
		{"event.tags[7] == 'x'", false, "index out of range"},
		{"int(event.sku) == 1", false, "type conversion"},
		{"event[lead.name] == 1", false, "no such key"},
		{"lead.region == 1", false, "missing value"},
		{"[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, event == event))))", false, "cost limit"},
	} {
		t.Run(test.condition, func(t *testing.T) {
			t.Parallel()
			d := waitOn(t, test.condition)
			if problems := d.Check(nil, nil); len(problems) > 0 {
				t.Fatalf("Check: %v", problems)
			}
			yes, reason := matches(d, "w", f)
			if yes != test.want || !strings.Contains(reason, fault(test.fault)) || strings.HasPrefix(reason, "event purchase: ") != (test.condition != "") {
				t.Errorf("%v, %q; want %v, %q", yes, reason, test.want, test.fault)
			}
			if strings.Contains(reason, secret) {
				t.Errorf("the reason tells a value: %q", reason)
			}
			if arm, reason := branchOn(t, test.condition).Decide("b", f); strings.Contains(test.condition, "event") && (arm != -1 || reason != "otherwise; case 1: error: does not compile") {
				t.Errorf("a branch sees the event: arm %d, %q", arm, reason)
			}
		})
	}
	for node, d := range map[string]*journey.Definition{"hello": waitOn(t, ""), "nobody": waitOn(t, ""), "": waitOn(t, ""), "b": branchOn(t, "true")} {
		if yes, reason := matches(d, node, f); yes || reason != "error: not a wait for an event" {
			t.Errorf("node %q: %v, %q", node, yes, reason)
		}
	}
	if yes, reason := matches(waitOn(t, "nonsense("), "w", f); yes || reason != "event purchase: error: does not compile" {
		t.Errorf("%v, %q", yes, reason)
	}
	for condition, want := range map[string]string{"event.amount > 100": "error: no such key", "event == {}": "true", "lead.gender == 1": "error: missing value"} {
		if yes, reason := matches(waitOn(t, condition), "w", journey.Facts{}); yes != (want == "true") || reason != "event purchase: "+condition+" → "+want {
			t.Errorf("%s without facts: %v, %q", condition, yes, reason)
		}
	}
	several := parse(t, `{"name":"x","start":"w","nodes":[{"id":"w","type":"waitForEvent","timeout":"1h","events":[
		{"event":"cart","when":"event.amount > 300"},{"event":"purchase","when":"event.amount > 300"},{"event":"purchase","when":"event.paid"},{"event":"login"}]}]}`)
	for name, want := range map[string]string{
		"cart": "-1 event cart: event.amount > 300 → false", "purchase": "2 event purchase: event.paid → true", "login": "3 ", "other": "-1 ",
	} {
		which, reason := several.Matches("w", name, f)
		if got := fmt.Sprint(which, " ", reason); got != want {
			t.Errorf("%s of several: %q, want %q", name, got, want)
		}
	}
	refused := f
	refused.Event = map[string]any{"amount": 3}
	if which, reason := several.Matches("w", "purchase", refused); which != -1 || reason != "event purchase: event.amount > 300 → false; event purchase: event.paid → error: no such key" {
		t.Errorf("%d, %q", which, reason)
	}
	if len(f.Event) != 10 || f.Event["amount"] != 250.0 || f.Event["count"] != json.Number("3") {
		t.Errorf("Matches changed the event: %v", f.Event)
	}
}

// TestMatches_concurrent compiles and evaluates side by side.
func TestMatches_concurrent(t *testing.T) {
	t.Parallel()
	d := waitOn(t, "event.n % 2 == 1")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			f := facts()
			f.Event = map[string]any{"n": i}
			for range 50 {
				odd := i%2 == 1
				if yes, reason := matches(d, "w", f); yes != odd || reason != fmt.Sprint("event purchase: event.n % 2 == 1 → ", odd) {
					t.Errorf("event %d: %v, %q", i, yes, reason)
				}
			}
		})
	}
	wg.Wait()
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		condition string
		want      bool
		fault     string
	}{
		{"true", true, ""},
		{"false", false, ""},
		{"lead.gender == 1 && touchpoints.hello.succeed", true, ""},
		{"lead.gender == 2", false, ""},
		{"lead.gender != 2", true, ""},
		{"lead.gender in [1, 2]", true, ""},
		{"lead.gender > 0.5", true, ""},
		{"lead.leadsId == 42", true, ""},
		{"lead.name.startsWith('Zaphod')", true, ""},
		{"lead['name'].size() == 17", true, ""},
		{"lead.mobilePhone.exists(p, p.endsWith('2'))", true, ""},
		{"size(lead.mobilePhone) == 2 && lead.mobilePhone[0] == '13800000001'", true, ""},
		{"lead.customFields.level == 3", true, ""},
		{"lead.customFields.level % 2 == 1", true, ""},
		{"lead.customFields.score > 2 && lead.customFields.score == 2.5", true, ""},
		{"lead.customFields.vip", true, ""},
		{"lead.customFields['tier'] == 'gold'", true, ""},
		{"lead.createdAt < timestamp('2026-01-02T03:04:06Z') && lead.createdAt.getFullYear() == 2026", true, ""},
		{"timestamp(lead.birthday + 'T00:00:00Z').getMonth() == 1", true, ""},
		{"enrollment.entryKey == 'order-7' && enrollment.id == 'enr_1'", true, ""},
		{"enrollment.params.amount >= 250 && enrollment.params.items[1] == 'b'", true, ""},
		{"enrollment.params.nested.deep[0].x == 1.5", true, ""},
		{"journey.version == 3 && journey.name == 'Welcome' && journey.id == 'jrn_1'", true, ""},
		{"touchpoints.hello.httpStatus == 200 && touchpoints.hello.attempts == 2 && touchpoints['hello'].message == 'ok'", true, ""},

		// A field that is not set.
		{"lead.region == null", true, ""},
		{"null == lead.region", true, ""},
		{"lead.region != null", false, ""},
		{"lead.gender == null", false, ""},
		{"lead.gender != null", true, ""},
		{"lead.updatedAt == null", true, ""},
		{"lead.customFields.none == null", true, ""},
		{"has(lead.customFields.absent)", false, ""},
		{"has(lead.customFields.absent) && lead.customFields.absent > 3", false, ""},
		{"has(touchpoints.later)", false, ""},
		{"lead.region == lead.leadsGroup", true, ""},

		// A missing value makes the case false, whichever way it is asked.
		{"lead.region == 1", false, "missing value"},
		{"lead.region != 1", false, "missing value"},
		{"1 != lead.region", false, "missing value"},
		{"!(lead.region == 1)", false, "missing value"},
		{"lead.region == lead.gender", false, "missing value"},
		{"lead.region < 1", false, "missing value"},
		{"1 <= lead.region", false, "missing value"},
		{"lead.region > lead.leadsGroup", false, "missing value"},
		{"lead.name >= lead.region", false, "missing value"},
		{"!(lead.region >= 1)", false, "missing value"},
		{"lead.region > 1 || lead.gender <= 1", true, ""},
		{"lead.gender >= 1 && lead.gender <= 1.5 && 0.5 < lead.gender && lead.name > 'A' && !(lead.gender > 1 || lead.gender < 1)", true, ""},
		{"lead.email.size() > 3 && lead.wechat.size() > 3", false, "missing value"},
		{"lead.customFields.absent == 'x'", false, "no such key"},
		{"lead.customFields.none", false, "missing value"},
		{"!touchpoints.later.succeed", false, "no such key"},
		{"!touchpoints['dash-ed'].succeed", false, "no such key"},
		{"lead.region == 1 || lead.gender == 1", true, ""},
		{"lead.region == 1 && lead.gender == 2", false, ""},

		// Errors, none of which may tell a value.
		{"lead.customFields[lead.name + '?'] == 'x'", false, "no such key"},
		{"lead.name", false, "not true or false"},
		{"lead.name > 3", false, "no such overload"},
		{"int(lead.name) > 3", false, "type conversion"},
		{"timestamp(lead.name) > timestamp('2026-01-01T00:00:00Z')", false, "type conversion"},
		{"duration(lead.name) > duration('1h')", false, "type conversion"},
		{"lead.mobilePhone[7] == 'x'", false, "index out of range"},
		{"lead.gender / 0 == 1", false, "division by zero"},
		{"lead.gender % 0 == 1", false, "division by zero"},
		{"lead.gender / 1e-300 / 1e-300 > 0", false, "overflow"},
		{"'x'.matches('(' + lead.name)", false, "invalid pattern"},
		{"lead.name.matches('^Zaphod-[A-Z][a-z]+$')", true, ""},
		{"lead.region.matches('x')", false, "missing value"},
		{"lead.wechat.matches('x') || 'x'.matches(lead.wechat) || lead.wechat.startsWith('x') || lead.wechat + 'x' == 'x'", false, "missing value"},
		{"[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, true)))))", false, "cost limit"},
	} {
		t.Run(test.condition, func(t *testing.T) {
			t.Parallel()
			d := branchOn(t, test.condition)
			if problems := d.Check(nil, nil); len(problems) > 0 != slices.Contains(refused, test.condition) {
				t.Fatalf("Check: %v", problems)
			}
			arm, reason := d.Decide("b", facts())
			want := "otherwise; case 1: "
			if test.want {
				want = "case 1: "
			}
			if (arm == 0) != test.want || !strings.HasPrefix(reason, want) || !strings.Contains(reason, fault(test.fault)) {
				t.Errorf("arm %d, %q; want %q with fault %q", arm, reason, want, test.fault)
			}
			if strings.Contains(reason, secret) {
				t.Errorf("the reason tells a value: %q", reason)
			}
		})
	}
}

// refused are conditions that are not published, and go on where they have been.
var refused = []string{"lead.name >= lead.region", "lead.name", "lead.name > 3", "lead.region.matches('x')"}

func TestDecide_order(t *testing.T) {
	t.Parallel()
	d := branchOn(t, "lead.region == 1", "false", "lead.gender == 1", "true")
	if arm, reason := d.Decide("b", facts()); arm != 2 || reason != "case 3: lead.gender == 1 → true; case 1: error: missing value" {
		t.Errorf("arm %d, %q", arm, reason)
	}
	many := make([]string, 50)
	for i := range many {
		many[i] = "lead.region == 1"
	}
	if arm, reason := branchOn(t, many...).Decide("b", facts()); arm != -1 || strings.Count(reason, "error") < 5 || len(reason) > 310 || !strings.HasSuffix(reason, "…") {
		t.Errorf("arm %d, %q", arm, reason)
	}
	for _, node := range []string{"hello", "nobody", ""} {
		if arm, reason := d.Decide(node, facts()); arm != -1 || !strings.Contains(reason, "not a branch") {
			t.Errorf("node %q: arm %d, %q", node, arm, reason)
		}
	}
	if arm, reason := branchOn(t, "nonsense(").Decide("b", facts()); arm != -1 || reason != "otherwise; case 1: error: does not compile" {
		t.Errorf("arm %d, %q", arm, reason)
	}
}

// TestDecide_emptyFacts gives conditions a lead of which nothing is known.
func TestDecide_emptyFacts(t *testing.T) {
	t.Parallel()
	d := branchOn(t, "lead.gender == 1", "lead.mobilePhone.size() > 0", "lead.customFields.x == 1", "touchpoints.hello.succeed", "enrollment.params.x == 1", "lead.createdAt == null")
	if arm, reason := d.Decide("b", journey.Facts{}); arm != 5 || strings.Count(reason, "error") != 4 {
		t.Errorf("arm %d, %q", arm, reason)
	}
}

func TestDecide_concurrent(t *testing.T) {
	t.Parallel()
	d := branchOn(t, "lead.region == 1", "lead.name.matches('^Z')")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if arm, reason := d.Decide("b", facts()); arm != 1 {
					t.Errorf("arm %d, %q", arm, reason)
				}
			}
		})
	}
	wg.Wait()
}

func TestDecideAt(t *testing.T) {
	t.Parallel()
	d := parse(t, string(read(t, "testdata/valid_everything.json")))
	f := facts()
	f.Lead.CustomFields["renewalDate"] = "2026-04-10"
	f.Lead.CustomFields["timezone"] = "Asia/Tokyo"
	for _, test := range []struct {
		node string
		want journey.Input
	}{
		{"morning", journey.Input{Until: time.Date(2026, 3, 2, 3, 15, 0, 0, time.UTC)}},
		{"renewal", journey.Input{Until: time.Date(2026, 4, 7, 0, 0, 0, 0, time.UTC), Reason: "customFields.renewalDate -72h"}},
		{"birthday", journey.Input{Until: time.Date(2027, 2, 2, 15, 0, 0, 0, time.UTC), Reason: "birthday"}},
		{"old", journey.Input{Reason: "createdAt P30D: in the past"}},
		{"arms", journey.Input{Arm: 0, Reason: "arm 1: weight 50 of 100"}},
		{"check", journey.Input{Arm: 0, Reason: "case 1: lead.gender == 1 → true, touchpoints.hello.succeed → true, touchpoints.hello.httpStatus < 300 → true (200)"}},
	} {
		want := test.want
		want.Kind, want.At = journey.InputDecided, noon
		got, err := d.DecideAt(test.node, f, noon)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", test.node, got, err, want)
		}
	}
	for _, node := range []string{"hello", "wait", "bought", "other", "end", "gone", ""} {
		if in, err := d.DecideAt(node, f, noon); err == nil || in != (journey.Input{}) {
			t.Errorf("%s: %+v", node, in)
		}
	}
	if arm := journey.SplitArm("jrn_1", "arms", 42, []int{50, 49, 1}); arm != 0 {
		t.Errorf("arm %d", arm)
	}
}

// TestDecide_reason tells what came of the parts of conditions, and of values those
// of touchpoints only.
func TestDecide_reason(t *testing.T) {
	t.Parallel()
	f := facts()
	f.Touchpoints["dash-ed"] = journey.TouchpointResult{HTTPStatus: 503, Message: secret, Attempts: 7}
	for _, test := range []struct{ condition, want string }{
		{"true", "case 1: true"},
		{"false || lead.gender == 1", "case 1: lead.gender == 1 → true"},

		// What decided is told, and not what nobody looked at.
		{"lead.gender == 1 && touchpoints.hello.succeed", "case 1: lead.gender == 1 → true, touchpoints.hello.succeed → true"},
		{"lead.gender == 2 && touchpoints.hello.succeed", "otherwise; case 1: lead.gender == 2 → false"},
		{"lead.gender == 1 || touchpoints.hello.succeed", "case 1: lead.gender == 1 → true"},
		{"lead.gender == 1 && (lead.name == 'x' || !(lead.leadsId > 40 && lead.customFields.vip))",
			"otherwise; case 1: lead.gender == 1 → true, lead.name == \"x\" → false, lead.leadsId > 40 → true, lead.customFields.vip → true"},
		{"!lead.customFields.vip", "otherwise; case 1: !lead.customFields.vip → false"},
		{"lead.customFields['vip'] && lead['customFields'].vip", `case 1: lead.customFields["vip"] → true, lead["customFields"].vip → true`},
		{"lead.customFields[lead.name] == 'x' && has(lead.customFields.vip)", "case 1: lead.customFields[lead.name] == \"x\" → true, has(lead.customFields.vip) → true"},
		{"has(touchpoints.later) || has(lead.customFields.absent)", "otherwise; case 1: has(touchpoints.later) → false, has(lead.customFields.absent) → false"},
		{"lead.mobilePhone.exists(p, p.endsWith('2') && p != '') && lead.customFields.tier.matches('^g')",
			`case 1: lead.mobilePhone.exists(p, p.endsWith("2") && p != "") → true, lead.customFields.tier.matches("^g") → true`},
		{"(lead.gender == 1 ? lead.customFields.vip : false) && {'a': true}.a && [true][0]",
			`case 1: (lead.gender == 1) ? lead.customFields.vip : false → true, {"a": true}.a → true, [true][0] → true`},
		{"lead.mobilePhone.filter(p, true)[0] == '13800000001' && (lead.customFields.vip ? lead : lead).customFields.vip",
			`case 1: lead.mobilePhone.filter(p, true)[0] == "13800000001" → true, (lead.customFields.vip ? lead : lead).customFields.vip → true`},
		{"lead.gender == 1 && lead.gender == 1 && lead.gender == 1 && lead.gender == 3 && lead.gender == 1",
			"otherwise; case 1: lead.gender == 1 → true, lead.gender == 1 → true, lead.gender == 1 → true, lead.gender == 3 → false"},

		// Numbers of touchpoints, but not what the receiver said.
		{"touchpoints.hello.httpStatus >= 500", "otherwise; case 1: touchpoints.hello.httpStatus >= 500 → false (200)"},
		{"touchpoints['dash-ed'].httpStatus >= 500 && touchpoints.hello.attempts < touchpoints['dash-ed'].attempts",
			`case 1: touchpoints["dash-ed"].httpStatus >= 500 → true (503), touchpoints.hello.attempts < touchpoints["dash-ed"].attempts → true (2, 7)`},
		{"touchpoints['dash-ed'].message == 'ok'", `otherwise; case 1: touchpoints["dash-ed"].message == "ok" → false`},

		// What went wrong, whether it mattered or not.
		{"lead.region == 1 || lead.gender == 1", "case 1: lead.region == 1 → error: missing value, lead.gender == 1 → true"},
		{"lead.region == 1 || lead.gender == 2", "otherwise; case 1: lead.region == 1 → error: missing value, lead.gender == 2 → false"},
		{"lead.name && lead.gender == 1", "otherwise; case 1: lead.name → error: not true or false, lead.gender == 1 → true"},
		{"lead.customFields.none && true", "otherwise; case 1: lead.customFields.none → error: missing value"},
		{"touchpoints.later.succeed", "otherwise; case 1: touchpoints.later.succeed → error: no such key"},
		{"touchpoints.later.httpStatus > 0", "otherwise; case 1: touchpoints.later.httpStatus > 0 → error: no such key"},
		{"!has(touchpoints.later) || touchpoints.later.httpStatus > 0", "case 1: !has(touchpoints.later) → true"},
		{"lead.gender == 1 && [1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, true)))))",
			"otherwise; case 1: lead.gender == 1 → true, error: cost limit"},
		{"lead.region == 1 && [1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, true)))))",
			"otherwise; case 1: lead.region == 1 → error: missing value, error: cost limit"},
	} {
		if _, reason := branchOn(t, test.condition).Decide("b", f); reason != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.condition, reason, test.want)
		}
	}
	for _, test := range []struct {
		conditions []string
		want       string
	}{
		{[]string{"lead.gender == 2", "lead.gender == 3", "lead.gender == 1"}, "case 3: lead.gender == 1 → true"},
		{[]string{"lead.gender == 2", "lead.gender == 3 && true"}, "otherwise; case 1: lead.gender == 2 → false; case 2: lead.gender == 3 → false"},
	} {
		if _, reason := branchOn(t, test.conditions...).Decide("b", f); reason != test.want {
			t.Errorf("%q: %q, want %q", test.conditions, reason, test.want)
		}
	}

	// However much there is to tell, it is short, and cut between characters.
	for n := range 6 {
		long := "lead.name == '" + strings.Repeat("x", n) + strings.Repeat("你", 60) + "'"
		_, reason := branchOn(t, long+strings.Repeat(" || "+long, 20)).Decide("b", f)
		if len(reason) > 310 || !utf8.ValidString(reason) || !strings.HasSuffix(reason, "…") || strings.Count(reason, " → false") < 2 {
			t.Errorf("%d bytes: %q", len(reason), reason)
		}
	}
}

// What the documentation says that the timeline says.
func TestDecide_documented(t *testing.T) {
	t.Parallel()
	page := string(read(t, "../docs/journeys.md"))
	f := facts()
	f.Touchpoints["later"] = journey.TouchpointResult{HTTPStatus: 503}
	other := facts()
	other.Lead.Gender = ptr(int64(2))
	said := func(f journey.Facts, conditions ...string) string {
		_, reason := branchOn(t, conditions...).Decide("b", f)
		return strings.ReplaceAll(reason, "later", "hello")
	}
	want := []string{
		said(f, "lead.gender == 1 && touchpoints.hello.succeed"),
		said(f, "lead.region == 1", "touchpoints.later.httpStatus >= 500"),
		said(other, "lead.gender == 1", "lead.region > 3"),
	}
	f.Event = map[string]any{"amount": 150}
	_, matched := matches(waitOn(t, "event.amount > 100"), "w", f)
	f.Event = map[string]any{"amount": 50}
	_, missed := matches(waitOn(t, "event.amount > 100"), "w", f)
	for _, reason := range append(want, matched, missed) {
		if !strings.Contains(page, "`"+reason+"`") {
			t.Errorf("the page does not say %q", reason)
		}
	}
}

// Events without a condition are no conditions that count: what a branch asks is known beside
// as many of them as a journey can have.
func TestAllNeedsBesideManyEvents(t *testing.T) {
	t.Parallel()
	events := strings.TrimSuffix(strings.Repeat(`{"event":"x"},`, 20), ",")
	var nodes strings.Builder
	for i := range 60 {
		fmt.Fprintf(&nodes, `{"id":"w%d","type":"waitForEvent","events":[%s],"timeout":"1h"},`, i, events)
	}
	d := parse(t, `{"nodes":[`+nodes.String()+`{"id":"b","type":"branch","cases":[{"when":"inSegment(\"seg_06h1zq7dstkka0abr2ywy42pec\")"}]}]}`)
	if got := d.AllNeeds().Segments; len(got) != 1 {
		t.Errorf("it asks for %v", got)
	}
}

// A waitFor is told of the events that its condition asks for, and of all where it depends on more
// than these and the fields of the lead.
func TestAwaited(t *testing.T) {
	t.Parallel()
	const journey, segment, every = `"jrn_06h1zq7dstkka0abr2ywy42pec"`, `"seg_06h1zq7dstkka0abr2ywy42pec"`, "*"
	for when, want := range map[string]string{
		`lead.customFields.plan == "pro" && lead.email.endsWith("x")`:                                      "",
		`date(lead.customFields.expiry).getDate('Asia/Shanghai') == 1 || enrollment.params.now == "today"`: "",
		`events("a").count() > 2 || events("b").exists(e, e.n == 1) && events("a").last().n > lead.region`: "a b",
		`events("a").size() > 2 && !has(lead.customFields.plan)`:                                           "a",
		`events("a", duration("24h")).count() < 3`:                                                         every,
		`events("a").count() > 0 && lead.updatedAt < now - duration("24h")`:                                every,
		`date(lead.customFields.expiry) == today`:                                                          every,
		`touchpoints.hello.succeed`:                                                                        every,
		`"hello" in touchpoints`:                                                                           every,
		`lead.region == 1 || entered(` + journey + `)`:                                                     every,
		`delivered(` + journey + `, "hello")`:                                                              every,
		`[1].exists(x, inSegment(` + segment + `))`:                                                        every,
		`no such thing`: every,
	} {
		raw, err := json.Marshal(when)
		if err != nil {
			t.Fatal(err)
		}
		d := parse(t, `{"name":"x","start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":"w","next":"wait"},{"id":"wait","type":"waitFor","timeout":"1h","when":`+string(raw)+`}]}`)
		if err := d.Check(nil, nil).Err(""); (err == nil) != (when != `no such thing`) {
			t.Errorf("%s: %v", when, err)
		}
		if got := strings.Join(d.Awaited("wait"), " "); got != want {
			t.Errorf("%s: told of %q, want %q", when, got, want)
		}
	}
}
