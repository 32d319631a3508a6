package journey_test

import (
	"strings"
	"testing"
	"time"

	"waypost/journey"
)

// Functions of texts, numbers and lists, those of CEL's libraries with the one type of numbers.
func TestFunctions(t *testing.T) {
	t.Parallel()
	f := facts()
	f.Now = time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC)
	f.Event = map[string]any{
		"amount": 4.35, "text": " Straße ", "items": []any{map[string]any{"price": 1.1, "qty": 3.0}, map[string]any{"price": 40.0, "qty": 2.0}}, "nil": nil, "huge": 1e308, "empty": []any{},
		"tags": "a,b,c", "whole": 3.0, "long": strings.Repeat("x", 60_000),
	}
	for condition, want := range map[string]string{
		`event.items.map(i, i.price * i.qty).sum() == 83.3`: "true", `sum([1, 2.5]) == 3.5 && [].sum() == 0 && [0.1, 0.2].sum() == 0.3`: "true", `sum(event.items) > 0`: "error: no such overload",
		`event.amount * 100 >= 435`: "true", `event.items[0].price * event.items[0].qty <= 3.3`: "true", `0.1 + 0.2 == 0.3 && 10.1 - 2.2 == 7.9 && 0.3 / 0.1 == 3 && 0.3 % 0.1 == 0`: "true",
		`-7.5 % 2 == -1.5 && 7 / 2 == 3.5 && 1e15 * 1e-15 == 1 && 1 / 3 > 0.3333`: "true", `event.huge * 10.5 > 0`: "error: overflow", `1.5 / 0 > 0`: "error: division by zero",
		`event.text.trim().lower() == "straße" && "STRASSE".lower() == "strasse" && event.text.trim().upper() == "STRASSE" && "Ärger".upper() == "ÄRGER"`:               "true",
		`"Ärger".lowerAscii() == "Ärger" && "ABC".lowerAscii() == "abc" && "abc".upperAscii() == "ABC"`:                                                                 "true",
		`event.tags.split(",").size() == 3 && event.tags.split(",", 2)[1] == "b,c" && ["a", "b"].join("-") == "a-b"`:                                                    "true",
		`"hello".substring(1, 3) == "el" && "hello".substring(event.whole) == "lo" && "hello".charAt(4) == "o" && "hello".reverse() == "olleh"`:                         "true",
		`"hello".indexOf("l") == 2 && "hello".lastIndexOf("l") == 3 && "hello".indexOf("l", 3) == 3 && "hello".indexOf("z") == -1`:                                      "true",
		`"ä€ä€".indexOf("€") == 1 && "ä€ä€".indexOf("€", 2) == 3 && "ä€ä€".indexOf("ä", 3) == -1 && "ä€ä€".indexOf("ä", 9) == -1 && "ä€".indexOf("", 1) == 1`:           "true",
		`"ä€ä€".lastIndexOf("€") == 3 && "ä€ä€".lastIndexOf("€", 2) == 1 && "ä€ä€".lastIndexOf("ä€", 2) == 2 && "ä€".lastIndexOf("", 1) == 1`:                           "true",
		`"ä€ä€".lastIndexOf("ä€", 1) == 0 && "ä€".lastIndexOf("€", 9) == -1 && "ä€".lastIndexOf("€", 0) == -1 && "".lastIndexOf("a") == -1 && "ä".lastIndexOf("") == 1`: "true",
		`"hello".indexOf("l", -1) == 2`: "error: index out of range", `"hello".lastIndexOf("l", -1) == 2`: "error: index out of range",
		`"hello".indexOf("l") + 0.5 == 2.5 && "hello".replace("l", "L") == "heLLo" && "hello".replace("l", "L", 1) == "heLlo"`:                        "true",
		`"%s is %d, %.2f".format(["x", 3, 4.5]) == "x is 3, 4.50" && "%x %s".format([255, [1, "a"]]) == "ff [1, a]" && strings.quote("a") == "\"a\""`: "true",
		`"%s".format([today]) == "2026-12-31T00:00:00Z"`: "true",
		`math.round(event.amount) == 4 && math.ceil(4.1) == 5 && math.floor(-4.1) == -5 && math.trunc(4.9) == 4 && math.abs(-3) == 3 && math.sign(-2.5) == -1`: "true",
		`math.greatest(1, event.amount, 2.5) == 4.35 && math.least([3, event.whole, 2]) == 2 && math.greatest(event.whole, 1) == 3 && math.sqrt(16) == 4`:      "true",
		`math.bitAnd(6, 3) == 2 && math.bitOr(4, 1) == 5 && math.bitShiftLeft(1, 4) == 16 && math.isNaN(1.5) == false && math.isFinite(2)`:                     "true",
		`event.?x.orValue(0) > 3`: "false", `event.?amount.orValue(0) > 3`: "true", `event.?nil.orValue(5) == 5`: "true", `lead.?wechat.orValue("none") == "none"`: "true",
		`event.items[?7].hasValue()`: "false", `event.items[?1].?price.orValue(0) == 40`: "true", `event.?x.?y.?z.orValue("a") == "a"`: "true", `event.?amount.optMap(a, a * 2).orValue(0) == 8.7`: "true",
		`optional.of(1).hasValue() && !optional.none().hasValue()`: "true",
		`"hello".substring(9) == ""`:                               "error: index out of range", `"hello".substring(1.5) == ""`: "error: invalid value", `math.bitAnd(1.5, 1) == 1`: "error: invalid value",
		`event.long.replace("", event.long).size() > 0`: "error: cost limit", `[1,2,3,4,5,6,7,8,9].map(x, event.long).join(event.long).size() > 0`: "error: cost limit",
		`[1,2,3,4,5,6,7,8,9].map(x, [1,2,3].map(y, event.long)).map(l, l.join()).join().size() > 1`: "error: cost limit",
		`event.tags.exists(e, e == "a")`: "error: a text, not a list", `event.amount.all(e, e > 1)`: "error: a number, not a list",
	} {
		got, reason := matches(waitOn(t, condition), "w", f)
		if got != (want == "true") || !strings.HasSuffix(reason, want) && !strings.Contains(reason, "→ "+want) {
			t.Errorf("%s: %s, want %s", condition, reason, want)
		}
	}
}

// What people write that is no CEL is told with what to write instead.
func TestSlips(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]string{
		`lead.name == “ACME”`:                         "line 1, column 14: “ is a quote of word processors: write \"…\" or '…'",
		`lead.name == ‘ACME’`:                         "line 1, column 14: ‘ is a quote of word processors",
		"lead.gender == 1 &&\n  lead.gender ＞ 3":      "line 2, column 15: ＞ is a full-width sign: write >",
		`lead.gender ＝＝ 1`:                            "＝ is a full-width sign: write =",
		`lead.name.contains（"x"）`:                     "（ is a full-width sign: write (",
		`lead.gender = 3`:                             "line 1, column 13: equality is written ==",
		`lead.test and true`:                          "line 1, column 11: write && in the place of and",
		`lead.test OR true`:                           "write || in the place of OR",
		`NOT lead.test`:                               "line 1, column 1: write ! in the place of NOT",
		`not(lead.test)`:                              "write ! in the place of not",
		`lead.name == 'O'Brien'`:                      `line 1, column 14: the text ends at the ' within it: write "O'Brien"`,
		`lead.name == "say "hi""`:                     `the text ends at the " within it: write 'say "hi"'`,
		`lead.name == 'Ada`:                           "a text that begins with ' does not end",
		`lead.gender <> 3`:                            "inequality is written !=",
		`lead.gender === 3`:                           "equality is written ==",
		`lead.gender => 3`:                            "write >= in the place of =>",
		`lead.test & true`:                            "and is written &&",
		"lead.test\u00a0&& true":                      "a blank that is not allowed here (U+00A0)",
		`lead.customFields.生日 == 1`:                   `line 1, column 18: a name with other letters than A to Z stands in brackets: write ["生日"] in the place of .生日`,
		`lead.customFields.größe > 3`:                 `write ["größe"] in the place of .größe`,
		`lead.customFields.city == 上海`:                `line 1, column 27: a text stands in quotes: write "上海"`,
		`lead.customFields.first-name == "x"`:         `line 1, column 25: a name with a hyphen stands in brackets: write lead.customFields["first-name"]`,
		`lead.name is null`:                           "line 1, column 11: write == in the place of is",
		`lead.name IS NOT null`:                       "line 1, column 11: write != in the place of IS NOT",
		`lead.name like "A%"`:                         `write .startsWith("…") or .contains("…") in the place of like`,
		`lead.region between 1 and 5`:                 "write 5 <= x && x <= 9 in the place of between",
		`lower(lead.name) == "a"`:                     "lower stands behind its value: write lead.name.lower(…)",
		`contains(lead.customFields.x, "a")`:          "contains stands behind its value: write lead.name.contains(…)",
		`event.amount > 5`:                            `event is known in the condition of a waitForEvent, of an entry and of a goal only; write events("purchase", duration("P30D")).last().amount`,
		`daysUntil(lead.birthday) == "0"`:             `line 1, column 26: == has a number (5) on its left and a text ("5") on its right: both must be of one type`,
		`lead.test == True`:                           "write true in the place of True",
		`lead.email == NULL`:                          "write null in the place of NULL",
		`lead.email == undefined && lead.gender == 1`: "write null in the place of undefined",
	} {
		problems := branchOn(t, condition).Check(nil, nil)
		if len(problems) != 1 || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%s: %v, want %s", condition, problems, want)
		}
		if err := journey.CheckSegment(condition); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s in a segment: %v", condition, err)
		}
	}
	// Texts and comments may hold anything, and names of members too.
	for _, condition := range []string{
		`lead.name == "“and” = ＞" // and = ＞`, `lead.name == 'a' || lead.customFields.or == "O'Brien"`, `lead.name in ['a']`, `'a'in lead.customFields`, `lead.name == r'\' || lead.name == '''O'Brien'''`,
	} {
		if problems := branchOn(t, condition).Check(nil, nil); len(problems) > 0 {
			t.Errorf("%s: %v", condition, problems)
		}
	}
}
