package journey_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	"waypost"
	"waypost/journey"
)

// touchpoint makes a journey whose node "t" has these params.
func touchpoint(t testing.TB, params map[string]any) *journey.Definition {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"name": "x", "start": "t", "nodes": []any{map[string]any{"id": "t", "type": "touchpoint", "webhook": "w", "params": params}},
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
		{"[{{ lead.region }}{{ lead.nothing }}{{ nothing.at.all }}]", "[]"},
		{"{{ lead.region | default: 'nowhere' }} {{ nothing | default: 7 }}", "nowhere 7"},
		{"{{ lead.customFields.level }} {{ lead.customFields.score }} {{ lead.customFields.big }} {{ lead.customFields.vip }}", "3 2.5 12345678.5 true"},
		{"{{ journey.id }} {{ journey.name }} {{ journey.version }} {{ enrollment.id }} {{ enrollment.entryKey }}", "jrn_1 Welcome 3 enr_1 order-7"},
		{"{{ enrollment.params.amount }} {{ enrollment.params.items | join: '+' }} {{ enrollment.params.nested.deep[0].x }}", "250 a+b 1.5"},
		{"{% if touchpoints.hello.succeed %}{{ touchpoints.hello.httpStatus }} {{ touchpoints.hello.message }}{% endif %}{% if touchpoints.later.succeed %}no{% endif %}", "200 ok"},
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
		{"{% for p in lead.nothing %}x{% else %}none{% endfor %}", "none"},
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
		{"{{ 5 | plus: 2 }} {{ 5 | minus: 2.5 }} {{ 5 | times: 3 }} {{ 7 | divided_by: 2 }} {{ 7 | divided_by: 2.0 }} {{ -7 | modulo: 3 }}", "7 2.5 15 3 3 2"},
		{"{{ 0.1 | plus: 0.2 | round: 2 }} {{ 2.5 | ceil }} {{ 2.5 | floor }} {{ -3 | abs }} {{ 5 | at_most: 3 }} {{ 5 | at_least: 8 }}", "0.3 3 2 3 3 8"},
		{"{{ 'seven' | plus: 1 }} {{ lead.nothing | plus: 1 }} {{ '12' | plus: 1 }}", "1 1 13"},
		{"{{ lead.birthday | date: '%d.%m.%Y' }} {{ lead.createdAt | date: '%Y-%m-%d %H:%M:%S.%L %j %A %-d %%' }} {{ 0 | date: '%F' }} {{ 'soon' | date: '%F' }}", "03.02.1990 2026-01-02 03:04:05.678 002 Friday 2 % 1970-01-01 soon"},
		{"{{ enrollment.params.nested.deep | map: 'x' | first }} {{ enrollment.params.nested.deep | where: 'x', 1.5 | size }} {{ enrollment.params.nested.deep | where: 'y' | size }}", "1.5 1 0"},
		{"{{ 1000000 | times: 1000000 }} {{ 1.5 | times: 1000000000 }}", "1000000000000 1500000000"},
		{"{{ lead.mobilePhone | default: 'a' | size }} {{ '' | split: ',' | default: 'b' }} {{ enrollment.params.none | default: false }}", "2 b false"},
		{"{{ lead.mobilePhone | slice: 1 }} {{ lead.mobilePhone | append: '!' }} {{ lead.nothing | size }} {{ enrollment.params.nested | size }}", "13800000002 1380000000113800000002! 0 1"},
		{"{{ lead.nothing | join: ',' }}{{ lead.name | join: ',' | size }} {{ lead.nothing | capitalize }}{{ 'abc' | slice: -9, 2 }}{{ 'abc' | slice: 9 }}", "17 "},
		{"{{ lead.mobilePhone | concat: enrollment.params.amount | concat: enrollment.params.nested | sort | first }} {{ lead.mobilePhone | compact | reverse | last }}", "250 13800000001"},
		{"{{ enrollment.params.nested.deep | concat: enrollment.params.nested.deep | sort: 'x' | uniq | json }} {{ (1..3) | reverse | join: '' }} {{ (1..5000) | size }}", `[{"x":1.5}] 321 0`},
		{"{{ lead.createdAt | date: '%u %w %s %y %I%p %-I %q %' }} {{ '2026/01/02' | date: '%a %b %e' }}", "5 5 1767323045 26 03AM 3 %q % Fri Jan  2"},
		{"{{ 0.0000001 | times: 2 }} {{ 2.5 | round }} {{ 1.005 | json }} {{ true | json }} {{ lead.nothing | json }}", "2e-07 3 1.005 true null"},
		{"{{ '\xc3\xa9t\xc3\xa9' | capitalize }}", "Été"},
	} {
		t.Run(test.template, func(t *testing.T) {
			t.Parallel()
			if err := journey.CheckTemplate(test.template); err != nil {
				t.Fatalf("CheckTemplate: %v", err)
			}
			d := touchpoint(t, map[string]any{"p": test.template})
			if problems := d.Check(nil); len(problems) > 0 {
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
		"a\n{{ lead.name":                                             "line 2: \"{{ lead.name\" does not end",
		"{% if lead.name":                                             "does not end",
		"{{ lead.name\n | upcase }} {{ a\nb }}":                       "does not end",
		"{% if lead.name %}x":                                         "unterminated \"if\" block",
		"{% endif %}":                                                 "endif not inside",
		"{% if a %}{% endfor %}{% endif %}":                           "",
		"{% if %}x{% endif %}":                                        "syntax error",
		"{{ a b }}":                                                   "syntax error",
		"{{ a | }}":                                                   "there is no filter \"\"",
		"{{ a | shout }}":                                             "there is no filter \"shout\"",
		"{% if 'x' | shout %}{% endif %}":                             "there is no filter \"shout\"",
		"{% assign x = 'a' | shout %}":                                "there is no filter \"shout\"",
		"{{ 'a' | append: '| shout' }}{{ x |y}}":                      "there is no filter \"y\"",
		"{{ 'a }}":                                                    "a text does not end",
		"{% include 'file' %}":                                        "there is no tag \"include\"",
		"{% tablerow x in y %}{% endtablerow %}":                      "there is no tag \"tablerow\"",
		"{% for x in y cols: 3 %}{% endfor %}":                        "cols",
		"{% for x of y %}{% endfor %}":                                "syntax error",
		"{% break %}":                                                 "outside of a for",
		"{% for x in y %}{% endfor %}{% continue %}":                  "outside of a for",
		"{% raw %}{{ a }}":                                            "lacks its endraw",
		"{% comment %}":                                               "lacks its endcomment",
		"{% capture a b %}{% endcapture %}":                           "capture",
		"{% if a %}{% else %}{% elsif b %}{% endif %}":                "else must come last",
		"{% case a %}{% else %}{% when 1 %}{% endcase %}":             "else must come last",
		"{% for x in y %}{% else %}{% else %}{% endfor %}":            "at most one else",
		"{{ 99999999999999999999 }}":                                  "cannot be read",
		"{{ %assign x = 1 }}":                                         "unexpected %",
		"{{ " + strings.Repeat("a.", 600) + "b }}":                    "at most 1024 bytes",
		strings.Repeat("x", 8<<10+1):                                  "at most 8 KiB",
		"{% if " + strings.Repeat("(", 400) + "a" + " %}x{% endif %}": "syntax error",
		"line\nline\n{% if x %}\n{{ lead.name | shout }}\n{% endif %}\nz": "line 4: there is no filter",
	} {
		err := journey.CheckTemplate(template)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", template, err, want)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%.60q: an error of %d bytes", template, len(err.Error()))
		}
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
		"{{ lead.name | divided_by: 0 }}":                                              "division by zero",
		"{{ lead.name | modulo: 0 }}":                                                  "division by zero",
		"{% for i in (1..lead.name) %}{% endfor %}":                                    "the template failed",
		"{% for i in lead.mobilePhone limit: lead.name %}{% endfor %}":                 "offset and limit of a for must be integers",
		"{% if lead == lead %}{% endif %}":                                             "the template failed",
		"{{ lead.name | shout }}":                                                      "the template does not compile",
		"{% for i in (1..50) %}{{ lead.remark }}{% endfor %}":                          "the output is longer than 64 KiB",
		"{% for i in (1..9999999) %}{% endfor %}":                                      "the loop limit is exceeded",
		"{{ lead.remark | replace: 'a', lead.remark }}":                                "a text on the way is longer than 64 KiB",
		"{{ lead.remark | split: '' | size }}":                                         "a list on the way is too long",
		"{{ lead.birthday | date: lead.remark }}":                                      "a date's format has at most 256 bytes",
		"{% capture x %}" + strings.Repeat("{{lead.remark}}", 50) + "{% endcapture %}": "a text on the way is longer than 64 KiB",
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
