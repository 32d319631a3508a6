package journey_test

import (
	"encoding/json"
	"strings"
	"testing"

	"waypost"
	"waypost/journey"
)

// numbers are facts with whole numbers and fractions, as each way of decoding JSON
// makes them.
func numbers() journey.Facts {
	f := facts()
	f.Event = map[string]any{
		"amount": 99.0, "shipping": 4.99, "half": 99.5, "odd": json.Number("101"), "zero": 0.0, "negative": -7.0, "whole": json.Number("3.0"),
		"items": []any{
			map[string]any{"price": 19.0, "qty": 2.5}, map[string]any{"price": json.Number("0.1"), "qty": json.Number("3")},
		},
		"n": 1.0, "second": json.Number("1"), "tags": []any{1.0, 2.5, "a"}, "limit": json.Number("9007199254740992"), "text": "12", "sku": secret,
		"none": nil, "big": 1234567.0, "map": map[string]any{"1": "a"},
	}
	f.Params = map[string]any{"rate": json.Number("0.5"), "two": 2, "three": int64(3), "list": []any{10.0, 20.5}}
	return f
}

func TestMatches_numbers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		condition string
		want      bool
		fault     string
	}{
		{"event.amount + event.shipping > 100", true, ""},
		{"event.half + event.shipping > 100", true, ""},
		{"event.amount + event.shipping == 103.99", true, ""},
		{"event.amount * 1.2 > 118 && 1.2 * event.amount < 119", true, ""},
		{"event.items[0].price * event.items[0].qty == 47.5", true, ""},
		{"event.items[1].price * event.items[1].qty > 0.3", false, ""},
		{"event.amount / 2 > 49", true, ""},
		{"event.odd / 2 > 50 && event.odd / 2 == 50.5", true, ""},
		{"event.amount * 2 + 0.5 == 198.5", true, ""},
		{"event.amount - event.shipping < 94.02 && event.shipping - event.amount < 0", true, ""},
		{"event.amount % 2.5 == 1.5 && event.half % 2 == 1.5 && event.negative % 3 == -1", true, ""},
		{"-event.amount < -98.5 && -event.shipping == -4.99 && -(event.amount) + 99 == 0", true, ""},
		{"event.amount >= 99.0 && event.amount <= 99 && event.shipping > 4 && 5 > event.shipping", true, ""},
		{"event.whole == 3 && event.whole == 3.0 && 3 == event.whole && event.whole != 3.5", true, ""},
		{"lead.leadsId / 4 == 10.5 && lead.gender / 2 == 0.5 && journey.version / 2 == 1.5", true, ""},
		{"lead.customFields.level * 1.5 == 4.5 && lead.customFields.score + 1 == 3.5", true, ""},
		{"enrollment.params.two * enrollment.params.rate == 1 && enrollment.params.three / enrollment.params.two == 1.5", true, ""},
		{"touchpoints.hello.httpStatus / 400 == 0.5 && touchpoints.hello.attempts + 0.5 == 2.5", true, ""},

		// Literals.
		{"1 / 2 == 0.5", true, ""},
		{"1 + 1.5 == 2.5 && 1.5 + 1 == 2.5 && 3 - 0.5 == 2.5 && 2 * 1.25 == 2.5 && 5 / 2.0 == 2.5", true, ""},
		{"7 % 2.5 == 2 && 7.5 % 2 == 1.5 && -7 % 3 == -1 && 7 % -3 == 1 && 7 % 3 == 1", true, ""},
		{"1 == 1.0 && 1 < 1.5 && 1.5 >= 1 && 2 != 2.5 && -1 < 0.5", true, ""},
		{"0x1F == 31 && 1e3 == 1000 && .5 + .5 == 1 && 3u / 2u == 1.5 && 3u == 3", true, ""},
		{"-(-2) == 2.0 && 1 - -1 == 2 && 0 * -1 == 0 && string(0 * -1) == '0'", true, ""},
		{"9007199254740992 == 9007199254740991 + 1 && -9007199254740992 < 0", true, ""},
		{"0.1 + 0.2 == 0.3", true, ""},
		{"0.1 + 0.2 < 0.3000001", true, ""},

		// In lists, maps, macros and ternaries.
		{"2.5 in [1, 2] || 2 in [1.0, 2.0]", true, ""},
		{"event.whole in [1, 2, 3] && event.amount in [99.0] && !(event.shipping in [4, 5]) && 2.5 in event.tags && 1.0 in event.tags", true, ""},
		{"[1, 2] == [1.0, 2.0] && {'a': 1} == {'a': 1.0} && [1, 2.5, 'a'] == event.tags", true, ""},
		{"(event.amount > 3 ? 1 : 1.5) + 0.5 == 1.5 && (false ? event.amount : 7) / 2 == 3.5", true, ""},
		{"event.items.map(i, i.price * i.qty).exists(p, p == 47.5)", true, ""},
		{"event.items.all(i, i.price * 2 + 0.5 > 0.6) && event.items.exists_one(i, i.price / 2 == 9.5)", true, ""},
		{"event.items.filter(i, i.qty / 2 > 1.3).size() == 1 && [1, 2.5, 3].filter(n, n % 1 == 0).size() == 2", true, ""},
		{"[1, 2, 3].map(n, n / 2) == [0.5, 1, 1.5]", true, ""},
		{"{1: 'a', 2: 'b'}[event.n] == 'a' && {1: 'a'}[1.0] == 'a' && 1 in {1.0: 'a'} && event.n in {1: 'a'} && 2 in {1: 'a', 2: 'b'}", true, ""},

		// Indexes.
		{"event.items[0].qty == 2.5 && event.items[event.n].qty == 3 && event.items[event.second].qty == 3", true, ""},
		{"event.items[size(event.items) - 1].qty == 3 && event.items[event.n - 1].qty == 2.5 && event.items[1.0].qty == 3", true, ""},
		{"[10, 20][1] == 20 && [10, 20][event.n] == 20 && [[1], [2.5]][4 / 4][0] == 2.5 && enrollment.params.list[1] == 20.5", true, ""},
		{"event.items[event.zero].price == 19 && event['items'][0]['qty'] == 2.5 && has(event.items[0].qty)", true, ""},
		{"event.items[0.5].qty == 3", false, "no such overload"},
		{"event.items[event.half].qty == 3", false, "no such overload"},
		{"event.items[-1].qty == 3", false, "index out of range"},
		{"event.items[event.amount].qty == 3", false, "index out of range"},
		{"[1, 2][event.amount] == 3", false, "index out of range"},
		{"[1, 2][0.5] == 3", false, "no such overload"},

		// Lengths and conversions.
		{"size(event.items) / 4 == 0.5 && event.items.size() + 0.5 == 2.5 && size('你好') == 2 && size({'a': 1}) * 1.5 == 1.5 && b'abc'.size() == 3", true, ""},
		{"int(event.shipping) == 4 && int(-4.99) == -4 && int('12') / 5 == 2.4 && int(7) / 2 == 3.5 && int(event.odd / 2) == 50", true, ""},
		{"uint(4.99) == 4 && uint('12') / 5 == 2.4", true, ""},
		{"double(1) / 2 == 0.5 && double('1.50') == 1.5 && double(event.text) + 0.5 == 12.5 && double(event.amount) == 99", true, ""},
		{"string(event.amount) == '99' && string(event.big) == '1234567' && string(1.50) == '1.5' && string(event.whole) == '3'", true, ""},
		{"string(event.limit) == '9007199254740992' && string(0.1) == '0.1' && string(1000000 * 1000000) == '1000000000000'", true, ""},
		{"string(true) == 'true' && string('a') == 'a' && string(b'a') == 'a' && string(duration('90s')) == '90s'", true, ""},
		{"type(event.amount) == type(event.shipping) && type(1) == double && type(size('a')) == double", true, ""},
		{"duration('90m').getHours() / 2 == 0.5 && lead.createdAt.getFullYear() / 2 == 1013 && int(duration('1s')) == 1e9", true, ""},
		{"timestamp(1767323045.678) == lead.createdAt && int(lead.createdAt) == 1767323045", true, ""},

		// Faults.
		{"event.amount / 0 > 1", false, "division by zero"},
		{"event.amount / event.zero > 1", false, "division by zero"},
		{"event.shipping / 0.0 > 1", false, "division by zero"},
		{"0 / 0 == 0", false, "division by zero"},
		{"event.shipping % 0 == 1", false, "division by zero"},
		{"event.amount / 1e-300 / 1e-300 > 0", false, "overflow"},
		{"event.amount + event.sku == 'x'", false, "no such overload"},
		{"event.amount + lead.customFields.vip > 1", false, "no such overload"},
		{"event.sku * 2 > 1", false, "no such overload"},
		{"-event.sku == 1", false, "no such overload"},
		{"-lead.customFields.vip == 1", false, "no such overload"},
		{"event.none + 1 > 0", false, "missing value"},
		{"-event.none < 0 || size(event.none) > 0", false, "missing value"},
		{"event.absent * 2 > 0", false, "no such key"},
		{"int('1.5') == 1", false, "type conversion"},
		{"int('9007199254740993') == 9007199254740992", false, "overflow"},
		{"double('9007199254740993') == 9007199254740992", false, "overflow"},
		{"double('NaN') == 1", false, "type conversion"},
		{"double(event.sku) == 1", false, "type conversion"},
		{"uint(-1) == 1", false, "overflow"},
		{"timestamp(1e15) > lead.createdAt", false, "overflow"},
	} {
		t.Run(test.condition, func(t *testing.T) {
			t.Parallel()
			d := waitOn(t, test.condition)
			if problems := d.Check(nil, nil); len(problems) > 0 {
				t.Fatalf("Check: %v", problems)
			}
			yes, reason := matches(d, "w", numbers())
			if yes != test.want || !strings.Contains(reason, fault(test.fault)) || test.fault == "" && strings.Contains(reason, "error") {
				t.Errorf("%v, %q; want %v, %q", yes, reason, test.want, test.fault)
			}
			if strings.Contains(reason, secret) {
				t.Errorf("the reason tells a value: %q", reason)
			}
		})
	}
	if _, reason := matches(waitOn(t, "event.amount  +  4.990 > 100 && [1, 2].exists(n, n == 1)"), "w", numbers()); reason !=
		"event purchase: event.amount + 4.99 > 100 → true, [1, 2].exists(n, n == 1) → true" {
		t.Errorf("numbers are not told as they are written: %q", reason)
	}
}

// What is wrong whatever the values are is refused, as it was.
func TestCheck_numbers(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]string{
		"1 + 'a' == 2":                           "no matching overload for '_+_' applied to '(double, string)'",
		"1.5 == 'a'":                             "== has a number (5) on its left and a text",
		"'a' * 2 == 'aa'":                        "no matching overload for '_*_'",
		"1 < 'a'":                                "< has a number (5) on its left and a text",
		"1 in ['a']":                             "no matching overload for '@in'",
		"true ? 1 : 'a'":                         "no matching overload for '_?_:_'",
		"[1, 2]['a'] == 1":                       "no matching overload for '_[_]'",
		"size(1) == 1":                           "no matching overload for 'size'",
		"!1":                                     "no matching overload for '!_'",
		"event.amount + true > 1":                "no matching overload for '_+_'",
		"-true":                                  "no matching overload for '-_'",
		"event.amount * 2 + 0.5":                 "must be true or false, not double",
		"event.amount + 9007199254740993 > 0":    "line 1, column 16: a number must be between -2^53 and 2^53",
		"event.amount == -9007199254740993":      "a number must be between -2^53 and 2^53",
		"event.amount == 9007199254740993.0":     "a number must be between -2^53 and 2^53",
		"event.amount == 9.007199254740993e15":   "a number must be between -2^53 and 2^53",
		"event.amount == 9007199254740993u":      "a number must be between -2^53 and 2^53",
		"event.items.exists(i, i.price == 1e16)": "a number must be between -2^53 and 2^53",
		"type(event.amount) == int":              "numbers have one type, double",
	} {
		problems := waitOn(t, condition).Check(nil, nil)
		if len(problems) != 1 || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%s: %v, want %q", condition, problems, want)
		}
	}
}

// A region that a float64 does not hold is no other one.
func TestDecide_beyondExact(t *testing.T) {
	t.Parallel()
	f := facts()
	f.Lead.Region, f.Lead.LeadsGroup = ptr(int64(9007199254740993)), ptr(int64(9007199254740992))
	for condition, want := range map[string]string{
		"lead.region == 9007199254740992":     "otherwise; case 1: lead.region == 9007199254740992 → error: overflow",
		"lead.leadsGroup == 9007199254740992": "case 1: lead.leadsGroup == 9007199254740992 → true",
	} {
		if _, reason := branchOn(t, condition).Decide("b", f); reason != want {
			t.Errorf("%q, want %q", reason, want)
		}
	}
	if !waypost.IsExact("9007199254740992") {
		t.Error("the limits differ")
	}
}
