package journey_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/journey"
)

// touchpoint makes a journey whose node "t", behind a node "hello", has these params.
func touchpoint(t testing.TB, params map[string]any) *journey.Definition {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"name": "x", "start": "hello", "nodes": []any{
			map[string]any{"id": "hello", "type": "touchpoint", "webhook": "w", "next": "t"},
			map[string]any{"id": "t", "type": "touchpoint", "webhook": "w", "params": params},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(body))
}

func TestRender_templates(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ template, want string }{
		{"", ""},
		{"no tags at all, } {", "no tags at all, } {"},
		{"Hi {{ lead.name }}!", "Hi " + secret + "!"},
		{"{{ lead.leadsId }} {{ lead.gender }} {{ lead.birthday }}", "42 1 1990-02-03"},
		{"[{{ lead.region }}{{ lead.customFields.nothing }}{{ enrollment.params.at.all }}]", "[]"},
		{"{{ lead.region | default: 'nowhere' }} {{ enrollment.params.nothing | default: 7 }}", "nowhere 7"},
		{"{{ lead.customFields.level }} {{ lead.customFields.score }} {{ lead.customFields.big }} {{ lead.customFields.vip }}", "3 2.5 12345678.5 true"},
		{"{{ journey.id }} {{ journey.name }} {{ journey.version }} {{ enrollment.id }} {{ enrollment.entryKey }}", "jrn_1 Welcome 3 enr_1 order-7"},
		{"{{ enrollment.params.amount }} {{ enrollment.params.items | join: '+' }} {{ enrollment.params.nested.deep[0].x }}", "250 a+b 1.5"},
		{"{% if touchpoints.hello.succeed %}{{ touchpoints.hello.httpStatus }} {{ touchpoints.hello.message }}{% endif %}{% if touchpoints.t.succeed %}no{% endif %}", "200 ok"},
		{"{{ lead.createdAt }} {{ lead.updatedAt | default: 'never' }}", "2026-01-02T03:04:05.678Z never"},
		{"{{ lead.customFields.tier }}: {{ enrollment.params.nested }}", `gold: {"deep":[{"x":1.5}]}`},
		// Output goes into JSON strings, not into HTML.
		{`{{ "<b> & 'x'" }}`, "<b> & 'x'"},
		{`{{ "<b>" | escape }}`, "&lt;b&gt;"},

		{"{% if lead.gender == 1 %}Sir{% elsif lead.gender == 2 %}Madam{% else %}Friend{% endif %}", "Sir"},
		{"{% unless lead.gender == 1 %}a{% else %}b{% endunless %}", "b"},
		{"{% if lead.region %}a{% elsif lead.email contains '@' %}b{% else %}c{% endif %}", "b"},
		{"{% case lead.customFields.tier %}{% when 'silver', 'gold' %}metal{% else %}none{% endcase %}", "metal"},
		{"{% case 7 %}{% when 1 %}a{% endcase %}", ""},
		{"{% for p in lead.mobilePhone %}{{ forloop.index }}/{{ forloop.length }}={{ p }}{% unless forloop.last %}, {% endunless %}{% endfor %}", "1/2=13800000001, 2/2=13800000002"},
		{"{% if lead.region == nil and enrollment.params.at.all == nil and lead.mobilePhone != nil %}y{% endif %}", "y"},
		{"{% for p in lead.customFields.nothing %}x{% else %}none{% endfor %}", "none"},
		{"{% for i in (1..9) limit: 4 offset: 2 %}{{ i }}{% endfor %}", "3456"},
		{"{% for i in (1..5) reversed %}{% if i == 4 %}{% continue %}{% endif %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "53"},
		{"{% for i in (5..1) %}x{% endfor %}", ""},
		{"{% for i in (1..2) %}{% for j in (1..2) %}{{ i }}{{ j }}{{ forloop.rindex }} {% endfor %}{{ forloop.index0 }};{% endfor %}", "112 121 0;212 221 1;"},
		{"{% for pair in enrollment.params.nested %}{{ pair[0] }}{% endfor %}", "deep"},
		{"{% assign n = lead.name | upcase | slice: 0, 6 %}{{ n }}", "ZAPHOD"},
		{"{% capture x %}a{{ lead.gender }}{% endcapture %}{{ x }}{{ x }}", "a1a1"},
		{"a{% comment %} {{ lead.name }} {% bogus %} {% endcomment %}b", "ab"},
		{"{% raw %}{{ lead.name }}{% endraw %}", "{{ lead.name }}"},
		{"a {%- if true -%} b {%- endif -%} c", "abc"},

		{"{{ 'a-b' | split: '-' | reverse | join: ', ' }}", "b, a"},
		{"{{ 'ab' | append: 'c' | prepend: 'z' | upcase | downcase | capitalize }}", "Zabc"},
		{"[{{ ' a ' | strip }}{{ ' a ' | lstrip }}{{ ' a ' | rstrip }}]", "[aa  a]"},
		{"{{ 'aXbXc' | replace: 'X', '-' }} {{ 'aXbXc' | replace_first: 'X', '-' }} {{ 'aXbXc' | remove: 'X' }} {{ 'aXbXc' | remove_first: 'X' }}", "a-b-c a-bXc abc abXc"},
		{"{{ '你好世界' | slice: 1, 2 }} {{ '你好世界' | slice: -1 }} {{ '你好世界' | size }} {{ '你好世界' | truncate: 3, '…' }}", "好世 界 4 你好…"},
		{"{{ 'one two three' | truncatewords: 2 }} {{ 'one two' | truncatewords: 2 }}", "one two... one two"},
		{"{{ 'a b&c' | url_encode }} {{ 'a+b%26c' | url_decode }} {{ '%zz' | url_decode }}", "a+b%26c a b&c %zz"},
		{"{{ 'b,a,10,b' | split: ',' | sort | uniq | json }}", `["10","a","b"]`},
		{"{{ 'b a' | split: ' ' | first }}{{ 'b a' | split: ' ' | last }}{{ '' | split: ' ' | first }}", "ba"},
		{"{{ 'a' | split: ',' | concat: lead.mobilePhone | size }}", "3"},
		{"{{ 5 | plus: 2 }} {{ 5 | minus: 2.5 }} {{ 5 | times: 3 }} {{ 7 | divided_by: 2 }} {{ 7 | divided_by: 2.0 }} {{ -7 | modulo: 3 }}", "7 2.5 15 3 3.5 2"},
		{"{{ 0.1 | plus: 0.2 | round: 2 }} {{ 2.5 | ceil }} {{ 2.5 | floor }} {{ -3 | abs }} {{ 5 | at_most: 3 }} {{ 5 | at_least: 8 }}", "0.3 3 2 3 3 8"},
		{"{{ 'seven' | plus: 1 }} {{ lead.region | plus: 1 }} {{ '12' | plus: 1 }}", "1 1 13"},
		{"{{ lead.birthday | date: '%d.%m.%Y' }} {{ lead.createdAt | date: '%Y-%m-%d %H:%M:%S.%L %j %A %-d %%' }} {{ 0 | date: '%F' }} {{ 'soon' | date: '%F' }}", "03.02.1990 2026-01-02 03:04:05.678 002 Friday 2 % 1970-01-01 soon"},
		{"{{ enrollment.params.nested.deep | map: 'x' | first }} {{ enrollment.params.nested.deep | where: 'x', 1.5 | size }} {{ enrollment.params.nested.deep | where: 'y' | size }}", "1.5 1 0"},
		{"{{ 1000000 | times: 1000000 }} {{ 1.5 | times: 1000000000 }}", "1000000000000 1500000000.0"},
		{"{{ lead.mobilePhone | default: 'a' | size }} {{ '' | split: ',' | default: 'b' }} {{ enrollment.params.none | default: false }}", "2 b false"},
		{"{{ lead.mobilePhone | slice: 1 }} {{ lead.mobilePhone | append: '!' }} {{ lead.region | size }} {{ enrollment.params.nested | size }}", "13800000002 1380000000113800000002! 0 1"},
		{"{{ lead.region | join: ',' }}{{ lead.name | join: ',' | size }} {{ lead.region | capitalize }}{{ 'abc' | slice: -9, 2 }}{{ 'abc' | slice: 9 }}", "17 "},
		{"{{ lead.mobilePhone | concat: enrollment.params.items | sort | last }} {{ lead.mobilePhone | compact | reverse | last }}", "b 13800000001"},
		{"{{ enrollment.params.nested.deep | concat: enrollment.params.nested.deep | sort: 'x' | uniq | json }} {{ (1..3) | reverse | join: '' }} {{ (1..5000) | size }}", `[{"x":1.5}] 321 5000`},
		{"{{ lead.createdAt | date: '%u %w %s %y %I%p %-I %' }} {{ '2026/01/02' | date: '%a %b %e' }}", "5 5 1767323045 26 03AM 3 % Fri Jan  2"},
		{"{{ 0.0000001 | times: 2 }} {{ 2.5 | round }} {{ 1.005 | json }} {{ true | json }} {{ lead.region | json }}", "2e-07 3 1.005 true null"},
		{"{{ '\xc3\xa9t\xc3\xa9' | capitalize }}", "Été"},
	} {
		t.Run(test.template, func(t *testing.T) {
			t.Parallel()
			if err := journey.CheckTemplate(test.template); err != nil {
				t.Fatalf("CheckTemplate: %v", err)
			}
			d := touchpoint(t, map[string]any{"p": test.template})
			if problems := d.Check(nil, nil); len(problems) > 0 {
				t.Fatalf("Check: %v", problems)
			}
			params, err := d.Render("t", nil, facts())
			if err != nil || params["p"] != test.want {
				t.Errorf("%q, %v; want %q", params["p"], err, test.want)
			}
		})
	}
}

func TestCheckTemplate_faults(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		strings.Repeat("x", 8<<10+1):                  "has at most 8 KiB",
		"a\n{{ lead.name":                             "line 2, column 1: \"{{ lead.name\" does not end",
		"{% if lead.name %}\n{% endfor %}{% endif %}": "line 2, column 1: endfor where endif is wanted",
		"{{ laed.name }}":                             "line 1, column 4: there is no variable \"laed\"; the variables are enrollment, journey, lead, now, today, touchpoints",
		"{{ lead.nmae | upcase }}":                    "line 1, column 4: lead has no member \"nmae\"",
		"é{{ lead['nmae'] }}":                         "line 1, column 5: lead has no member \"nmae\"",
		"{{ lead.name.frist }}":                       "line 1, column 4: lead.name has no member \"frist\"",
		"{{ event.amount }}":                          "line 1, column 4: event is known in the condition of a waitForEvent, of an entry and of a goal only; that which an enrollment began by is enrollment.event",
		"{{ enrollment.parms }}":                      "line 1, column 4: enrollment has no member \"parms\"",
		"{{ today.year }}":                            "line 1, column 4: today has no member \"year\"",
		"{{ touchpoints.hello.ok }}":                  "line 1, column 4: a touchpoint has no member \"ok\", but succeed, httpStatus, message, attempts",
		"{{ a }}\n{{ b }}{{ c.d }}{{ e }}": "line 1, column 4: there is no variable \"a\"; the variables are enrollment, journey, lead, now, today, touchpoints; " +
			"line 2, column 4: there is no variable \"b\"; the variables are enrollment, journey, lead, now, today, touchpoints; " +
			"line 2, column 11: there is no variable \"c\"; the variables are enrollment, journey, lead, now, today, touchpoints",
		"{% if lead.nmae == blank %}{% endif %}":                 "line 1, column 7: lead has no member \"nmae\"",
		"{% for p in lead.phones %}{% endfor %}":                 "line 1, column 13: lead has no member \"phones\"",
		"{% assign x = lead.nmae %}":                             "line 1, column 15: lead has no member \"nmae\"",
		"{% assign l = lead %}{{ l.nmae }}{{ l.name }}":          "line 1, column 25: lead has no member \"nmae\"",
		"{% if lead.name > 5 %}x{% endif %}":                     "line 1, column 17: lead.name is a text, and 5 is a number, which have no order; compare numbers with numbers (x | plus: 0, assigned before, is one) and texts with texts ('5')",
		"{% if today < 100 %}x{% endif %}":                       "line 1, column 13: today is a text, and 100 is a number, which have no order; compare numbers with numbers (x | plus: 0, assigned before, is one) and texts with texts ('5')",
		"{% if lead.gender == '1' %}x{% endif %}":                "line 1, column 19: lead.gender is a number, which is never \"1\", a text; compare numbers with numbers (x | plus: 0, assigned before, is one) and texts with texts ('5')",
		"{% if lead.test < now %}x{% endif %}":                   "line 1, column 17: lead.test is true or false, and now is a time, which have no order; write == true or == false",
		"{% if lead.mobilePhone == '1' %}x{% endif %}":           "line 1, column 24: lead.mobilePhone is a list, which is never \"1\", a text; a list has .size, and contains finds an element",
		"{% if touchpoints.a.attempts > 'x' %}x{% endif %}":      "line 1, column 30: touchpoints.a.attempts is a number, and \"x\" is a text, which have no order; compare numbers with numbers (x | plus: 0, assigned before, is one) and texts with texts ('5')",
		"{{ lead.mobilePhone | concat: lead.name }}":             "line 1, column 23: concat wants a list, and lead.name is a text",
		"{{ 'abc' | truncate: lead.name }}":                      "line 1, column 12: truncate wants an integer, and lead.name is a text",
		"{% assign n = lead.name %}{{ 'a' | truncate: n }}":      "line 1, column 36: truncate wants an integer, and n is a text",
		"{% for x in (1..3) limit: now %}x{% endfor %}":          "line 1, column 20: limit of a loop must be an integer, and now is a time",
		"{% for x in (1..now) %}x{% endfor %}":                   "line 1, column 13: an end of a range must be an integer, and now is a time",
		"{{ lead.leadsId | map: 'a' }}":                          "line 1, column 19: map wants a list, and lead.leadsId is a number, which has no members",
		"{% cycle lead.nmae: 1, 2 %}":                            "line 1, column 10: lead has no member \"nmae\"",
		"{{ 'a' | append: lead.nmae }}":                          "line 1, column 18: lead has no member \"nmae\"",
		"{{ enrollment.params.list[lead.nmae] }}":                "line 1, column 27: lead has no member \"nmae\"",
		"{% tablerow x in (1..lead.nmae) %}{% endtablerow %}":    "line 1, column 22: lead has no member \"nmae\"",
		"{% liquid\n  assign x = 1\n  echo lead.nmae\n%}{{ x }}": "line 3, column 8: lead has no member \"nmae\"",
	} {
		if err := journey.CheckTemplate(template); err == nil || err.Error() != want {
			t.Errorf("%.60q: %v, want %q", template, err, want)
		}
	}
	// What a template makes is known, and so is what is open.
	for _, template := range []string{
		"{% assign x = 1 %}{% capture y %}{% endcapture %}{% increment z %}{{ x }}{{ y.size }}{{ z }}",
		"{% for p in lead.mobilePhone %}{{ p }}{{ forloop.index }}{% endfor %}{{ p }}{{ forloop }}",
		"{% assign lead = lead.name %}{{ lead.anything }}", "{{ lead.customFields.any.thing }}{{ enrollment.params.any['thing'] }}",
		"{% if lead.gender == 1 and lead.name > 'M' and lead.createdAt > '2026' and lead.test == true and lead.customFields.x > 5 %}{% endif %}",
		"{% for name in lead.mobilePhone %}{% if name > 5 %}{% endif %}{% endfor %}{% assign l = lead.name | size %}{% if l > 5 %}{% endif %}",
		"{% for i in (1..lead.leadsGroup) limit: lead.region %}{{ 'a' | truncate: lead.customFields.n }}{% endfor %}{{ lead.name | times: 2 }}",
		"{{ touchpoints.anything.succeed }}{{ touchpoints[lead.name].succeed }}", "{{ lead.mobilePhone.first }}{{ lead.name.size }}{{ now }}{{ today }}",
	} {
		if err := journey.CheckTemplate(template); err != nil {
			t.Errorf("%q: %v", template, err)
		}
	}
	// A journey knows its touchpoints, a webhook does not.
	problems := touchpoint(t, map[string]any{"p": "{{ touchpoints.hello.succeed }}{{ touchpoints.helo.succeed }}"}).Check(nil, nil)
	if want := `[{InvalidFormat nodes[1].params.p line 1, column 35: the journey has no touchpoint "helo"}]`; fmt.Sprint(problems) != want {
		t.Errorf("problems %v, want %s", problems, want)
	}
}

// TestRender_clock reads the time of the rendering.
func TestRender_clock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 31, 18, 30, 15, 250e6, time.UTC)
	for _, test := range []struct{ zone, template, want string }{
		{"", "{{ now }} {{ today }}", "2026-12-31T18:30:15.250Z 2026-12-31"},
		{"Asia/Shanghai", "{{ now }} {{ today }}", "2026-12-31T18:30:15.250Z 2027-01-01"},
		{"America/New_York", "{{ now | date: '%d %H:%M %Z' }} {{ 'now' | date: '%d %H:%M %z' }}", "31 13:30 EST 31 13:30 -0500"},
		{"Asia/Shanghai", "{{ 'now' | date: '%Y-%m-%d %H:%M' }} {{ 'today' | date: '%Y-%m-%d' }} {{ today | date: '%d.%m.%Y' }}", "2027-01-01 02:30 2027-01-01 01.01.2027"},
		{"Asia/Shanghai", "{% assign t = now %}{{ t | date: '%H' }} {{ 'NOW' | date: '%s' }} {{ now | date: '%s' }}", "02 1798741815 1798741815"},
		{"", "{% if now > lead.createdAt and today > '2026-12-30' %}yes{% endif %} {{ now | slice: 0, 4 }} {{ now | append: '!' }}", "yes 2026 2026-12-31T18:30:15.250Z!"},
		{"Asia/Shanghai", "{{ lead.createdAt | date: '%F %H:%M' }} {{ '2026-01-02T03:04:05Z' | date: '%H' }} {{ '2026-01-02 03:04' | date: '%H' }}", "2026-01-02 11:04 03 03"},
	} {
		f := facts()
		f.Now = now
		if test.zone != "" {
			f.Lead.CustomFields["timezone"] = test.zone
		}
		d := touchpoint(t, map[string]any{"p": test.template})
		if problems := d.Check(nil, nil); len(problems) > 0 {
			t.Errorf("%q: %v", test.template, problems)
		}
		if params, err := d.Render("t", nil, f); err != nil || params["p"] != test.want {
			t.Errorf("%s %q: %q, %v; want %q", test.zone, test.template, params["p"], err, test.want)
		}
	}
	// Without a time there is none, and never the process's.
	params, err := touchpoint(t, map[string]any{"p": "[{{ now }}{{ today }}{{ now | date: '%Y' }}{{ 'now' | date: '%Y' }}]"}).Render("t", nil, facts())
	if err != nil || params["p"] != "[now]" {
		t.Errorf("%q, %v", params["p"], err)
	}
}

func TestRender_params(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"name":"x","start":"t","nodes":[{"id":"t","type":"touchpoint","webhook":"w","next":"b",
		"params":{"both":"node {{ lead.gender }}","price":1.10,"huge":123456789012345678901234567890}},
		{"id":"b","type":"branch","cases":[{"when":"true"}]}]}`)
	webhook := map[string]any{"both": "webhook", "number": json.Number("2.50"), "float": 1.5, "text": "{{ lead.name }}"}
	params, err := d.Render("t", webhook, facts())
	want := map[string]any{
		"both": "node 1", "price": json.Number("1.10"), "huge": json.Number("123456789012345678901234567890"),
		"number": json.Number("2.50"), "float": 1.5, "text": secret,
	}
	if err != nil || !reflect.DeepEqual(params, want) {
		t.Errorf("params %v, %v; want %v", params, err, want)
	}
	if len(webhook) != 4 || webhook["text"] != "{{ lead.name }}" {
		t.Errorf("the webhook's own params were changed: %v", webhook)
	}
	body, err := json.Marshal(params)
	if err != nil || !strings.Contains(string(body), `"price":1.10`) {
		t.Errorf("body %s, %v", body, err)
	}
	if params, err := parse(t, `{"nodes":[{"id":"t","type":"touchpoint"}]}`).Render("t", nil, journey.Facts{}); err != nil || params == nil || len(params) > 0 {
		t.Errorf("params %v, %v; want an empty object", params, err)
	}
	for _, node := range []string{"b", "nobody"} {
		if _, err := d.Render(node, nil, facts()); err == nil || waypost.CodeOf(err) != waypost.CodeInternalError {
			t.Errorf("node %q: %v", node, err)
		}
	}
}

// TestRender_faults checks that a failing template is told by its param and a safe
// word.
func TestRender_faults(t *testing.T) {
	t.Parallel()
	f := facts()
	f.Lead.Remark = ptr(strings.Repeat(secret, 500))
	for template, want := range map[string]string{
		"{{ 1 | divided_by: lead.name }}":                                                            "division by zero",
		"{{ 1 | modulo: lead.region }}":                                                              "division by zero",
		"{% for i in (1..enrollment.params.items) %}{% endfor %}":                                    "the ends of a range must be numbers",
		"{% for i in lead.mobilePhone limit: lead.customFields.tier %}{% endfor %}":                  "limit of a loop must be an integer",
		"{% if enrollment.params.amount > lead.name %}{% endif %}":                                   "a number and a text cannot be compared",
		"{{ enrollment.params.items | concat: lead.customFields.tier }}":                             "an argument must be a list",
		"{{ lead.name | slice: enrollment.params.none }}":                                            "an argument must be an integer",
		"{{ lead.name | base64_decode }}":                                                            "a value is not base64",
		"{{ lead.customFields.level | map: 'x' }}":                                                   "a number has no members",
		"{{ lead.name | shout }}":                                                                    "the template does not compile",
		"{% for i in (1..50) %}{{ lead.remark }}{% endfor %}":                                        "the output is longer than 64 KiB",
		"{% for i in (1..enrollment.params.amount) %}{% for j in (1..99) %}{% endfor %}{% endfor %}": "the loop limit is exceeded",
		"{{ lead.remark | replace: 'a', lead.remark }}":                                              "a text on the way is longer than 64 KiB",
		"{{ lead.remark | split: '' | size }}":                                                       "a list on the way is too long",
		"{{ lead.birthday | date: lead.remark }}":                                                    "a date's format has at most 256 bytes",
		"{% capture x %}" + strings.Repeat("{{lead.remark}}", 50) + "{% endcapture %}":               "a text on the way is longer than 64 KiB",
	} {
		params, err := touchpoint(t, map[string]any{"ok": "fine", "p": template}).Render("t", nil, f)
		if params != nil || waypost.CodeOf(err) != waypost.CodeUnprocessableEntity || err.Error() != "params.p: "+want {
			t.Errorf("%.60q: params %v, error %v; want %q", template, params, err, want)
		}
		var fault *waypost.Error
		if !errors.As(err, &fault) || fault.Target != "params.p" || strings.Contains(err.Error(), secret) {
			t.Errorf("%.60q: %v", template, err)
		}
	}
	for name, v := range map[string]any{"bool": true, "null": nil, "list": []any{"a"}} {
		if _, err := touchpoint(t, nil).Render("t", map[string]any{name: v}, f); err == nil {
			t.Errorf("a webhook's param %v is taken", v)
		}
		if _, err := touchpoint(t, map[string]any{name: v}).Render("t", nil, f); err == nil {
			t.Errorf("a node's param %v is taken", v)
		}
	}
}

func TestRender_totalOutput(t *testing.T) {
	t.Parallel()
	params := map[string]any{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		params[name] = "{% for i in (1..600) %}" + strings.Repeat("x", 100) + "{% endfor %}"
	}
	if _, err := touchpoint(t, params).Render("t", nil, facts()); err == nil || err.Error() != "params.e: the params together are longer than 256 KiB" {
		t.Errorf("error %v", err)
	}
	delete(params, "e")
	if out, err := touchpoint(t, params).Render("t", nil, facts()); err != nil || len(out["d"].(string)) != 60_000 {
		t.Errorf("error %v", err)
	}
}

func TestRender_concurrent(t *testing.T) {
	t.Parallel()
	d := touchpoint(t, map[string]any{"p": "{% assign lead = lead.name %}{{ lead }}"})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 100 {
				params, err := d.Render("t", map[string]any{"w": strings.Repeat("{{ lead.gender }}", i+1)}, facts())
				if err != nil || params["p"] != secret || params["w"] != strings.Repeat("1", i+1) {
					t.Errorf("params %v, %v", params, err)
				}
			}
		})
	}
	wg.Wait()
}

// A lead without a number has none to tell, and an empty list of them.
func TestRender_withoutNumbers(t *testing.T) {
	t.Parallel()
	source := "{% if lead.mobilePhone == nil %}a{% endif %}{% if nil != lead.mobilePhone %}b{% endif %}{% if lead.mobilePhone %}c{% endif %}{% if lead.mobilePhone == blank and lead.mobilePhone == empty %}d{% endif %}" +
		"{{ lead.mobilePhone.size }}{{ lead.mobilePhone | size }}{{ lead.mobilePhone.first }}{{ lead.mobilePhone }}{{ lead.mobilePhone | json }}" +
		"{% for p in lead.mobilePhone %}e{% else %}f{% endfor %}{% assign all = lead.mobilePhone | concat: lead.mobilePhone %}{{ all.size }}{% if all contains '1' %}g{% endif %}"
	params, err := touchpoint(t, map[string]any{"p": source}).Render("t", nil, journey.Facts{Lead: waypost.Lead{LeadFields: waypost.LeadFields{Name: "Ada"}}})
	if err != nil || params["p"] != "ad00[]f0" {
		t.Errorf("%v %v", params, err)
	}
}
