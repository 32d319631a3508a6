//go:build !race

// The tests of this file measure time. Race builds are some twenty times slower,
// and nothing here runs side by side, so that they leave it out.

package journey_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost/journey"
)

// within fails if f takes longer than limit, three times in a row: another
// program may have the processor for a while.
func within(t *testing.T, name string, limit time.Duration, f func() any) {
	t.Helper()
	var took time.Duration
	for range 3 {
		began := time.Now()
		result := f()
		if took = time.Since(began); took <= limit {
			t.Logf("%-60.60s %10s %v", name, took.Round(time.Microsecond), result)
			return
		}
	}
	t.Errorf("%.60s took %s, more than %s", name, took, limit)
}

// costlyTemplates are accepted and made to be as slow as can be.
var costlyTemplates = map[string]string{
	"conditions":   "{% if " + strings.Repeat("lead.remark contains 'abababc' or ", 28) + "false %}{% endif %}",
	"nested":       "{% for i in (1..70) %}{% for j in (1..70) %}{% if lead.remark contains 'abc' %}x{% endif %}{% endfor %}{% endfor %}",
	"nested long":  "{% for i in (1..70) %}{% for j in (1..70) %}" + strings.Repeat("{% if lead.remark contains 'abc' %}x{% endif %}", 150) + "{% endfor %}{% endfor %}",
	"operators":    "{% assign a=lead.remark %}{% for i in (1..4999) %}" + strings.Repeat("{% if "+strings.Repeat("a contains 'abc' or ", 50)+"false %}{% endif %}", 7) + "{% endfor %}",
	"doubling":     "{% assign s='abcdefgh' %}" + strings.Repeat("{% assign s=s|append:s %}", 30),
	"copying":      "{% for i in (1..4999) %}{% assign s=lead.remark|append:lead.remark|append:lead.remark|append:lead.remark %}{% endfor %}",
	"texts":        "{% assign r=lead.remark|slice:0,900 %}{% for i in (1..4999) %}{% assign s=r|replace:'a','b'|upcase|downcase|split:' '|sort|reverse|uniq|join:' ' %}{% endfor %}",
	"filters":      "{% for i in (1..4999) %}" + strings.Repeat("{{ i"+strings.Repeat("|plus:1", 140)+"}}", 8) + "{% endfor %}",
	"outputs":      "{% assign a=nil %}{% for i in (1..4999) %}" + strings.Repeat("{{a}}", 1500) + "{% endfor %}",
	"members":      "{% for i in (1..4999) %}" + strings.Repeat("{{lead.customFields.a.b.c.d}}", 270) + "{% endfor %}",
	"ors":          "{% assign a=nil %}{% for i in (1..4999) %}{% if " + strings.Repeat("a or ", 1500) + "a %}{% endif %}{% endfor %}",
	"indexes":      "{% for i in (1..4999) %}{{ " + strings.Repeat("lead[", 160) + "1" + strings.Repeat("]", 160) + "}}{% endfor %}",
	"whole lead":   "{% for i in (1..4999) %}{% capture x %}{{ lead }}{% endcapture %}{% endfor %}",
	"captures":     "{% for i in (1..4999) %}{% capture x %}" + strings.Repeat("x", 7000) + "{% endcapture %}{% endfor %}",
	"whens":        "{% assign a=nil %}" + strings.Repeat("{% case a %}{% when "+strings.Repeat("1,", 450)+"2 %}{% endcase %}", 8),
	"loop of when": "{% assign a=nil %}{% for i in (1..4999) %}" + strings.Repeat("{% case a %}{% when "+strings.Repeat("1,", 450)+"2 %}{% endcase %}", 8) + "{% endfor %}",
	"lists":        "{% assign l=lead.remark|slice:0,2500|split:' ' %}{% for i in (1..4999) %}{% assign m=l|sort|uniq|json|size %}{% endfor %}",
	"list growth":  "{% assign l=lead.remark|slice:0,2500|split:' ' %}{% for i in (1..4999) %}{% assign l=l|concat:l %}{% endfor %}",
	"dates":        "{% for i in (1..4999) %}{{ '1990-01-02'" + strings.Repeat("|date:'%F'", 95) + "}}{% endfor %}",
	"ranges":       "{% for i in (1..4999) %}{{ (1..999) | join: '' | size }}{% endfor %}",
	"tables":       "{% for i in (1..70) %}{% tablerow j in (1..70) cols: 7 %}{{ lead.remark | size }}{% endtablerow %}{% endfor %}",
	"markup":       "{% assign s=lead.remark|replace:'ab ','<script' %}{% for i in (1..4999) %}{% assign t=s|strip_html|escape_once|newline_to_br|strip_newlines %}{% endfor %}",
	"coding":       "{% for i in (1..4999) %}{% assign t=lead.remark|base64_encode|base64_decode|url_encode|url_decode %}{% endfor %}",
	"finding":      "{% assign l=lead.remark|slice:0,2500|split:' ' %}{% for i in (1..4999) %}{% assign m=l|where:'a'|reject:'c'|sum %}{% assign m=l|has:'c' %}{% endfor %}",
	"natural":      "{% assign l=lead.remark|slice:0,2500|split:' '|sort_natural %}{% for i in (1..4999) %}{% assign m=l|sort_natural %}{% endfor %}",
	"dates read":   "{% for i in (1..4999) %}{% assign d='Monday, March 14th, 2027 3:04:05 PM +0800'|append:i|date:'%99N%c%+' %}{% endfor %}",
	"now":          "{% for i in (1..4999) %}{{ 'now'|date:'%99Y' }}{% endfor %}",
	"changes":      "{% for i in (1..4999) %}{% ifchanged %}{{ lead.remark }}{% increment x %}{% cycle lead.remark: 1, 2 %}{% endifchanged %}{% endfor %}",
	"deep":         strings.Repeat("{% if true %}", 300) + "{{ lead.remark }}" + strings.Repeat("{% endif %}", 300),
	"deep loops":   strings.Repeat("{% for i in (1..9) %}", 230) + "{{ forloop.parentloop.parentloop.index }}" + strings.Repeat("{% endfor %}", 230),
	"brackets":     "{{ " + strings.Repeat("[", 4000) + "1" + strings.Repeat("]", 4000) + " }}",
	"comparisons":  "{% for i in (1..4999) %}" + strings.Repeat("{% if lead == lead %}{% endif %}", 200) + "{% endfor %}",
	"literals":     strings.Repeat("{{'"+strings.Repeat("a ", 500)+"'"+strings.Repeat("|split:' '|join:' '", 50)+"}}", 4),
	"printing":     "{% for i in (1..4999) %}{% assign s=lead|json|size %}{% endfor %}",
	"numbers":      "{% for i in (1..4999) %}{{ '1e308' | times: '1e308' | round: 400 }}{% endfor %}",
}

// TestRender_costly shows that every template that CheckTemplate accepts is
// compiled and rendered in well under a second, whatever it does.
func TestRender_costly(t *testing.T) {
	f := facts()
	f.Lead.Remark = ptr(strings.Repeat("ab ", 5_000))
	for name, template := range costlyTemplates {
		if err := journey.CheckTemplate(template); err != nil {
			t.Errorf("%s is not accepted: %v", name, err)
			continue
		}
		within(t, name, 800*time.Millisecond, func() any {
			_, err := touchpoint(t, map[string]any{"p": template}).Render("t", nil, f)
			return err
		})
	}
}

// TestDecide_costly runs the conditions that are hardest to bound, over texts as
// large as a body can bring.
func TestDecide_costly(t *testing.T) {
	f := facts()
	f.Lead.Remark = ptr(strings.Repeat("ab ", 20_000))
	f.Params = map[string]any{"list": []any{strings.Repeat("x", 100_000), strings.Repeat("x", 100_000)}, "big": strings.Repeat("ab ", 300_000), "pattern": strings.Repeat("(a?){1000}", 400),
		"digits": strings.Repeat("9", 900_000), "decimal": "9007199254740992." + strings.Repeat("0", 900_000), "span": strings.Repeat("1h", 400_000),
		"as": strings.Repeat("a", 100_000), "sought": strings.Repeat("a", 50_000) + "b"}
	for _, condition := range []string{
		strings.Repeat("double(enrollment.params.digits) > 1 || ", 80) + "false",
		strings.Repeat("double(enrollment.params.decimal) < 1 || ", 80) + "false",
		strings.Repeat("int(enrollment.params.digits) > 1 || ", 80) + "false",
		strings.Repeat("date(enrollment.params.digits) == today || ", 80) + "false",
		strings.Repeat("duration(enrollment.params.span) < duration('1h') || ", 70) + "false",
		"[1,2,3,4,5,6,7,8,9].all(x, [1,2,3,4,5,6,7,8,9].all(y, [1,2,3,4,5,6,7,8,9].all(z, [1,2,3,4,5,6,7,8,9].all(w, date('2026-12-31', 'Europe/Berlin') > today || true))))",
		"enrollment.params.big.matches('((a|b| )?){500}c')",
		"lead.remark.matches('((a|b| )?){80}c')",
		"[1,2,3,4,5,6,7,8,9].map(x, [1,2,3,4,5,6,7,8,9].map(y, 'a b a b a b'.matches('((a|b| )?){80}c'))).size() > 99",
		"[1,2,3,4,5,6,7,8,9].all(x, [1,2,3,4,5,6,7,8,9].all(y, [1,2,3,4,5,6,7,8,9].all(z, enrollment.params.list == enrollment.params.list)))",
		"lead.remark.matches(enrollment.params.pattern)",
		"lead.remark.matches('(a?){900}' + 'c')",
		strings.Repeat("enrollment.params.big == lead.remark || ", 100) + "false",
		strings.Repeat("enrollment.params.big.contains('abababc') || ", 90) + "false",
		"[1,2,3,4,5,6,7,8,9].map(x, [1,2,3,4,5,6,7,8,9].map(y, [1,2,3,4,5,6,7,8,9].map(z, lead.remark + lead.remark))).size() > 99",
		strings.Repeat("enrollment.params.big + ", 50) + "'' == ''",
		"enrollment.params.as.indexOf(enrollment.params.sought) > 0",
		"enrollment.params.as.lastIndexOf(enrollment.params.sought) > 0",
	} {
		within(t, condition, 800*time.Millisecond, func() any {
			arm, reason := branchOn(t, condition).Decide("b", f)
			if arm != -1 {
				t.Errorf("%.60s: %q", condition, reason)
			}
			return reason
		})
	}
	for _, pattern := range []string{strings.Repeat("(a?){1000}", 4), strings.Repeat("a", 600)} {
		if problems := branchOn(t, fmt.Sprintf("lead.name.matches('%s')", pattern)).Check(nil, nil); len(problems) != 1 {
			t.Errorf("a pattern of %d bytes is taken: %v", len(pattern), problems)
		}
	}
}

// TestMatches_costly does the same with an event as large as a body can bring.
func TestMatches_costly(t *testing.T) {
	f := facts()
	f.Event = map[string]any{"big": strings.Repeat("ab ", 300_000), "list": []any{strings.Repeat("x", 400_000), strings.Repeat("x", 400_000)}, "pattern": strings.Repeat("(a?){1000}", 400)}
	for _, condition := range []string{
		"event.big.matches('((a|b| )?){80}c')",
		"event.big.matches(event.pattern)",
		"[1,2,3,4,5,6,7,8,9].all(x, [1,2,3,4,5,6,7,8,9].all(y, [1,2,3,4,5,6,7,8,9].all(z, event.list == event.list)))",
		"[1,2,3,4,5,6,7,8,9].all(x, [1,2,3,4,5,6,7,8,9].all(y, [1,2,3,4,5,6,7,8,9].all(z, event == event)))",
		strings.Repeat("event.big.contains('abababc') || ", 90) + "false",
		strings.Repeat("event.big + ", 50) + "'' == ''",
	} {
		within(t, condition, 800*time.Millisecond, func() any {
			yes, fault := matches(waitOn(t, condition), "w", f)
			if yes || fault == "" || fault == "does not compile" {
				t.Errorf("%.60s: %v, %q", condition, yes, fault)
			}
			return fault
		})
	}
}

// TestCheck_largest checks the definitions that cost most to check.
func TestCheck_largest(t *testing.T) {
	var conditions, templates, waits strings.Builder
	for i := range 20 {
		fmt.Fprintf(&conditions, `{"id":"b%d","type":"branch","otherwise":"b%d","cases":[{"when":"true"}%s]},`, i, i+1, strings.Repeat(`,{"when":"`+strings.Repeat("1<2&&", 5)+`true"}`, 49))
	}
	for i := range 30 {
		fmt.Fprintf(&templates, `{"id":"b%d","type":"touchpoint","webhook":"w","next":"b%d","params":{"t":"%s"}},`, i, i+1, strings.Repeat("{{1}}", 1600))
	}
	for i := range 190 {
		fmt.Fprintf(&waits, `{"id":"b%d","type":"waitForEvent","event":"e","timeout":"1h","next":"b%d","when":"%strue"},`, i, i+1, strings.Repeat("event.a<2&&", 14))
	}
	for _, nodes := range []string{waits.String() + `{"id":"b190","type":"exit"}`, conditions.String() + `{"id":"b20","type":"exit"}`, templates.String() + `{"id":"b30","type":"exit"}`} {
		within(t, nodes, 10*time.Second, func() any {
			if problems := parse(t, `{"name":"x","start":"b0","nodes":[`+nodes+`]}`).Check(nil, nil); len(problems) > 0 {
				t.Errorf("problems %v", problems[:1])
			}
			return len(nodes)
		})
	}
}
