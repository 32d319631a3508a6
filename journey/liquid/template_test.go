package liquid_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/journey/liquid"
)

// values are what the templates of the tests can ask about.
func values() map[string]any {
	return map[string]any{
		"none": nil, "yes": true, "no": false, "n": 7, "f": 2.5, "name": "Zoë Ada", "blankText": " \n", "nothing": "",
		"list": []any{"b", "a", "C"}, "numbers": []any{3, 1, 2.5}, "nested": []any{1, []any{2, []any{3}}}, "holes": []any{"x", nil, "y"}, "emptyList": []any{},
		"object": map[string]any{"b": 2, "a": 1}, "emptyObject": map[string]any{}, "sized": map[string]any{"size": 99, "first": 98},
		"people": []any{
			map[string]any{"name": "Bo", "age": 30, "vip": true, "at": map[string]any{"city": "Oslo"}}, map[string]any{"name": "al", "age": 9, "vip": false},
			map[string]any{"name": "Bo", "age": nil},
		},
		"at": liquid.Instant(time.Date(2027, 3, 4, 5, 6, 7, 89e6, time.UTC)),
	}
}

func render(t *testing.T, template string) (string, error) {
	t.Helper()
	compiled, err := liquid.Compile(template, nil)
	if err != nil {
		return "", err
	}
	shanghai := time.FixedZone("CST", 8*3600)
	return compiled.Render(liquid.Vars{Values: values(), Now: time.Date(2026, 12, 31, 23, 30, 0, 0, time.UTC), Location: shanghai}, liquid.NewBudget())
}

type example struct{ template, want string }

// check renders each template alone.
func check(t *testing.T, examples []example) {
	t.Helper()
	for _, e := range examples {
		if got, err := render(t, e.template); err != nil || got != e.want {
			t.Errorf("%s\ngot  %q, %v\nwant %q", e.template, got, err, e.want)
		}
	}
}

func yes(condition string) example { return example{"{% if " + condition + " %}1{% endif %}", "1"} }
func no(condition string) example {
	return example{"{% unless " + condition + " %}0{% endunless %}", "0"}
}

func TestRender_blankAndEmpty(t *testing.T) {
	t.Parallel()
	check(t, []example{
		yes("nothing == blank"), yes("blankText == blank"), yes("none == blank"), yes("no == blank"), yes("emptyList == blank"), yes("emptyObject == blank"),
		yes("undefined == blank"), yes("blank == nothing"), yes("name != blank"), yes("list <> blank"), no("name == blank"), no("yes == blank"), no("n == blank"),
		yes("nothing == empty"), yes("emptyList == empty"), yes("emptyObject == empty"), yes("empty == emptyList"), no("none == empty"), no("blankText == empty"), no("no == empty"), no("list == empty"),
		no("blank == empty"), yes("blank"), yes("empty"), no("blank < 1"), no("1 <= empty"),
		{"[{{ blank }}{{ empty }}{{ nil }}{{ null }}]", "[]"}, {"{{ blank | plus: 1 }} {{ empty | append: 'x' }}", "1 x"},
		{"{% assign b = blank %}{% if nothing == b %}1{% endif %}", "1"}, {"{% case nothing %}{% when blank %}1{% endcase %}", "1"}, {"{% for x in empty %}x{% else %}0{% endfor %}", "0"},
	})
}

func TestRender_conditions(t *testing.T) {
	t.Parallel()
	check(t, []example{
		no("true and false and false or true"), yes("true or false and false"), no("false or true and false"), no("false and true or true"),
		yes("0"), yes("nothing"), yes("emptyList"), no("none"), no("undefined"), yes("1 == 1.0"), no("1 == '1'"), no("1 == true"), no("0 == false"), yes("none == nil"), yes("undefined == null"),
		yes("n > 6.5"), no("none > 1"), no("1 < none"), no("list > 1"), no("true >= false"), yes("'abc' < 'acb'"), no("'b' <= 'a'"), yes("n <> 8"),
		yes("list == list"), yes("object == object"), yes("(1..3) == (1..3)"), yes("list contains 'a'"), no("list contains nil"), no("name contains none"), yes("name contains 'oë'"), yes("'a9' contains 9"),
		no("none contains 'a'"), no("n contains 7"), yes("object contains 'a'"), no("object contains 'c'"), no("list contains false"), yes("(1..3) contains 2"), yes("at > '2027-01-01'"),
		{"{% unless no %}a{% elsif yes %}b{% endunless %}{% unless yes %}a{% elsif yes %}b{% endunless %}{% unless yes %}a{% else %}c{% endunless %}", "abc"},
		{"{% if false %}1{% else %}2{% else %}3{% elsif true %}4{% endif %}", "2"},
		{"{% case n %}{% when 1 or 2 %}a{% when 6, 7 or 8 %}b{% else %}c{% endcase %}", "b"}, {"{% case n %} text {% when 1 %}a{% else %}c{% endcase %}", "c"},
		{"{% case 'x' %}{% when 'x', 'x' %}a{% when 'x' %}b{% else %}c{% endcase %}", "aab"}, {"{% case 'x' %}{% else %}a{% when 'y' %}b{% else %}c{% endcase %}", "ac"},
		{"{% case name %}{% when ',' %}a{% when 'Zoë Ada' %}b{% endcase %}", "b"}, {"{% case list %}{% when list %}same{% endcase %}", "same"},
	})
}

func TestRender_numbers(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"{{ 20 | divided_by: 7.0 }} {{ 1250 | divided_by: 100.0 }} {{ 10 | divided_by: 2.0 }} {{ 9 | divided_by: 2 }} {{ -7 | divided_by: 2 }} {{ f | divided_by: 2 }}", "2.857142857142857 12.5 5.0 4 -4 1.25"},
		{"{{ 1500000.5 }} {{ 5.0 }} {{ 5 }} {{ -0.5 }} {{ 123456789012.25 }} {{ 0.00001 }}", "1500000.5 5.0 5 -0.5 123456789012.25 0.00001"},
		{"{{ 10.1 | minus: 2.2 }} {{ 0.1 | plus: 0.2 }} {{ 1.1 | times: 1.1 }} {{ 10.1 | modulo: 7.0 }} {{ -7 | modulo: 3 }} {{ 7 | modulo: -3 }} {{ '10.1' | minus: '2.2' }}", "7.9 0.3 1.21 3.1 2 -2 7.9"},
		{"{{ 5 | plus: 2.0 }} {{ 5 | times: 2 }} {{ '5' | plus: 1 }} {{ '5x' | plus: 1 }} {{ 'x' | plus: 1 }} {{ none | plus: 1 }} {{ list | plus: 1 }} {{ true | minus: 1 }}", "7.0 10 6 6 1 1 1 -1"},
		{"{{ 5.666 | round: -2 }} {{ 1250 | round: -2 }} {{ -1250 | round: -2 }} {{ 1.005 | round: 2 }} {{ 2.5 | round }} {{ -2.5 | round }} {{ 5.666 | round: 1.2 }} {{ 5.666 | round: '1' }} {{ 5 | round: 2 }}", "0 1300 -1300 1.01 3 -3 5.7 5.7 5"},
		{"{{ 2.1 | ceil }} {{ -2.1 | ceil }} {{ 2.9 | floor }} {{ -2.1 | floor }} {{ '-5.1' | abs }} {{ -5 | abs }} {{ name | ceil }}", "3 -2 2 -3 5.1 5 0"},
		{"{{ 5 | at_least: 8.5 }} {{ 5 | at_most: 8.5 }} {{ 'x' | at_least: -2 }} {{ '9' | at_most: 10 }}", "8.5 5 0 9"},
		{"{{ nested | sum }} {{ people | sum: 'age' }} {{ numbers | sum }} {{ emptyList | sum }} {{ '1.5' | sum }}", "6 39 6.5 0 1.5"},
		{"{{ 9223372036854775807 }} {{ 1000000 | times: 1000000 }}", "9223372036854775807 1000000000000"},
	})
}

func TestRender_texts(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"{{ name.size }} {{ name | size }} {{ 'hELLO wORLD' | capitalize }} {{ 'éA' | capitalize }} {{ 5 | upcase }} {{ 'É' | downcase }}", "7 7 Hello world Éa 5 é"},
		{"{{ name.first }}{{ name.last }} {{ name | first }}{{ name | last }} [{{ n | first }}{{ n | last }}{{ none | first }}]", "Za Za []"},
		{"[{{ ' a ' | strip }}{{ ' a ' | lstrip }}{{ ' a ' | rstrip }}] {{ 'a\r\nb\nc' | strip_newlines }} {{ 'a\r\nb\n' | newline_to_br }}", "[aa  a] abc a<br />\nb<br />\n"},
		{`{{ "<a href='x'>&amp;" | escape }} {{ '"' | escape }} {{ '<p>&lt;&#39;&x' | escape_once }} {{ "<" | h }}`, `&lt;a href=&#39;x&#39;&gt;&amp;amp; &quot; &lt;p&gt;&lt;&#39;&amp;x &lt;`},
		{"{{ 'a<b c>d</b><!-- <i> -->e<script x>f</script>g<style>h</style><' | strip_html }}", "adeg<"},
		{"{{ 'a b&é~' | url_encode }} {{ 'a+b%26%zz%C3%A9' | url_decode }} {{ '%00%ff' | url_decode }}", "a+b%26%C3%A9~ a b&%zzé \uFFFD"},
		{"{{ 'a?>~' | base64_encode }} {{ 'YT8+fg==' | base64_decode }} {{ 'a?>~' | base64_url_safe_encode }} {{ 'YT8-fg' | base64_url_safe_decode }} {{ 5 | base64_encode }}[{{ none | base64_decode }}]", "YT8+fg== a?>~ YT8-fg== a?>~ NQ==[]"},
		{"{{ 'aXbXc' | replace: 'X', '-' }} {{ 'aXbXc' | replace_first: 'X' }} {{ 'aXbXc' | replace_last: 'X', '-' }} {{ 'aXbXc' | remove: 'X' }} {{ 'aXbXc' | remove_first: 'X' }} {{ 'aXbXc' | remove_last: 'X' }} {{ 'ab' | replace: nil, '-' }}", "a-b-c abXc aXb-c abc abXc aXbc -a-b-"},
		{"{{ '你好世界' | slice: 1, 2 }} {{ 'hello' | slice: '2' }} {{ 'hello' | slice: -3, 99 }} [{{ 'hello' | slice: 9 }}{{ 'hello' | slice: 1, -1 }}] {{ list | slice: 1, 2 | join }}", "好世 l llo [] a C"},
		{"{{ '你好世界' | truncate: 3, '…' }} {{ 'Ground control' | truncate: 9 }} {{ 'abc' | truncate: 2 }} {{ 'abc' | truncate: 2, '' }} {{ ' one  two three' | truncatewords: 2 }} {{ 'one two' | truncatewords: 0, '-' }}", "你好… Ground... ... ab one two... one-"},
		{"{{ ' a  b ' | split: ' ' | json }} {{ 'a,b,,' | split: ',' | json }} {{ 'ab' | split: '' | json }} {{ '' | split: ',' | json }} {{ 12 | split: 1 | json }}", `["a","b"] ["a","b"] ["a","b"] [] ["","2"]`},
		{"{{ none | append: 'a' | prepend: 1 }} {{ list }} {{ (1..3) }} {{ object }} {{ true }} {{ list | append: '!' }}", `1a baC 1..3 {"a":1,"b":2} true baC!`},
		{"{{ nothing | default: 'd' }}{{ none | default: 'd' }}{{ no | default: 'd' }}{{ emptyList | default: 'd' }}{{ 0 | default: 'd' }} {{ no | default: 'd', allow_false: true }} {{ no | default: allow_false: yes, 'd' }} {{ none | default: 'd', allow_false: true }} {{ 0.0 | default: 1 }}[{{ none | default }}]", "dddd0 false false d 0.0[]"},
	})
}

func TestRender_lists(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"{{ list | first }}{{ list | last }}{{ list | size }} {{ object | first | join: '=' }}[{{ object | last }}{{ emptyList | first }}] {{ object | size }} {{ (1..3) | last }} {{ n | size }}", "bC3 a=1[] 2 3 0"},
		{"{{ list | join }} {{ nested | join: '-' }} {{ holes | join: ',' }} {{ 'a,b' | join: '#' }} {{ list | join: none }}", "b a C 1-2-3 x,,y a,b baC"},
		{"{{ nested | reverse | json }} {{ nested | concat: list | json }} {{ none | concat: list | json }} {{ holes | compact | json }} {{ people | compact: 'age' | size }}", `[3,2,1] [1,2,3,"b","a","C"] ["b","a","C"] ["x","y"] 2`},
		{"{{ people | map: 'name' | join: ',' }} {{ people | map: 'at.city' | compact | join }} {{ object | map: 'a' }} {{ people | map: 'x' | json }}", "Bo,al,Bo Oslo 1 [null,null,null]"},
		{"{{ people | uniq: 'name' | size }} {{ 'a,b,a' | split: ',' | uniq | join }} {{ 'a' | uniq }}", "2 a b a"},
		{"{{ list | sort | join }} {{ list | sort_natural | join }} {{ numbers | sort | join }} {{ holes | sort | json }} {{ people | sort: 'age' | map: 'age' | json }} {{ people | sort_natural: 'name' | map: 'name' | join }}", `C a b a b C 1 2.5 3 ["x","y",null] [9,30,null] al Bo Bo`},
		{"{{ people | where: 'vip' | size }} {{ people | where: 'vip', false | size }} {{ people | where: 'age', nil | size }} {{ people | where: 'name', 'Bo' | size }} {{ people | reject: 'vip' | size }} {{ people | reject: 'name', 'Bo' | map: 'name' }}", "1 1 2 2 2 al"},
		{"{% assign p = people | find: 'age', 9 %}{{ p.name }} {{ people | find_index: 'age', 9 }} {{ people | has: 'age', 9 }} {{ people | has: 'age', 8 }} [{{ people | find: 'age', 8 }}{{ people | find_index: 'x' }}] {{ people | has: 'x' }}", "al 1 true false [] false"},
		{"{{ list | find: 'a' }} {{ 'zoo' | has: 'oo' }} [{{ holes | where: 'z' }}{{ holes | has: 'z' }}] {{ list | where: 'a' | join }}", "a true [] a"},
		{"{{ list | json }} {{ object | json }} {{ none | json }} {{ 2.0 | json }} {{ '<é>' | json }}", `["b","a","C"] {"a":1,"b":2} null 2 "<é>"`},
		{"{{ list[0] }}{{ list[-1] }}{{ list[9] }}{{ list['0'] }} {{ list.first }}{{ list.last }}{{ list.size }} {{ object.a }}{{ object['b'] }}{{ object.size }} {{ sized.size }}{{ sized.first }}", "bC bC3 122 9998"},
		{"{% assign k = 'a' %}{{ object[k] }} {{ ['object'].b }} {{ [k] }}{{ object . a }} {{ object\n[ 'a' ] }} {% assign r = (2..4) %}{{ r.size }}{{ r.first }}{{ r.last }} {{ n.x.y }}", "1 2 1 1 324 "},
	})
}

func TestRender_loops(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"{% for x in list %}{{ forloop.index }}{{ x }}{% unless forloop.last %},{% endunless %}{% endfor %}", "1b,2a,3C"},
		{"{% for x in list, limit: 1, offset: 1 %}{{ x }}{% endfor %}{% for x in list limit: '2' offset: '1', %}{{ x }}{% endfor %}{% for x in list limit: nil %}{{ x }}{% endfor %}", "aaCbaC"},
		{"{% for i in (1..6) limit: 2 %}{{ i }}{% endfor %} {% for i in (1..6) limit: 2 offset: continue %}{{ i }}{% endfor %} {% for i in (1..6) offset: continue %}{{ i }}{% endfor %} {% for j in (1..6) offset: continue %}{{ j }}{% endfor %}", "12 34 56 123456"},
		{"{% for i in (1..4) reversed limit: 2 %}{{ i }}{% endfor %} {% for i in (1.9..n) limit: 2 %}{{ i }}{% endfor %} {% for i in ('2'..'3') %}{{ i }}{% endfor %} {% for i in (3..1) %}{{ i }}{% else %}none{% endfor %} {% for i in ('x'..1) %}{{ i }}{% endfor %}", "21 12 23 none 01"},
		{"{% for i in 'text' %}[{{ i }}]{% endfor %}{% for i in '' %}x{% else %}-{% endfor %}{% for i in yes %}x{% else %}-{% endfor %}{% for p in object %}{{ p[0] }}{{ p[1] }}{% endfor %}", "[text]--a1b2"},
		{"{% for i in (1..2) %}{% for j in (1..2) %}{{ forloop.parentloop.index }}{{ forloop.index }} {% endfor %}{{ forloop.rindex0 }}{{ forloop.parentloop.index }};{% endfor %}{{ forloop.index }}{{ i }}", "11 12 1;21 22 0;"},
		{"{% for i in (1..3) limit: 1 %}{{ forloop.name }} {{ forloop.length }} {{ forloop.nothing }}{% endfor %}{% for x in object.list %}{% else %}{% endfor %}", "i-(1..3) 1 "},
		{"{% for i in (1..5) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}", "13"},
		{"{% for i in (1..3) %}{% case i %}{% when 2 %}{% break %}{% else %}{{ i }}{% endcase %}{% endfor %}", "1"},
		{"{% for i in (1..2) %}{% assign n = i %}{% endfor %}{{ n }} {% assign i = 'a' %}{% for i in (1..2) %}{% assign i = 'b' %}{{ i }}{% endfor %}{{ i }}", "2 12b"},
		{"{% tablerow i in (1..3) cols: 2 %}{{ i }}{{ tablerowloop.col_first }}{% endtablerow %}", "<tr class=\"row1\">\n<td class=\"col1\">1true</td><td class=\"col2\">2false</td></tr>\n<tr class=\"row2\"><td class=\"col1\">3true</td></tr>\n"},
		{"{% tablerow i in (1..9) cols: '2' limit: 1 offset: 4 %}{{ i }}{{ tablerowloop.row }}{% endtablerow %}{% tablerow i in none %}x{% endtablerow %}", "<tr class=\"row1\">\n<td class=\"col1\">51</td></tr>\n"},
		{"{% tablerow i in (1..9) %}{{ i }}{% break %}{% endtablerow %}", "<tr class=\"row1\">\n<td class=\"col1\">1</td></tr>\n"},
		{"{% for i in (1..3) %}{% cycle 'a', 'b' %}{% cycle 'g': 1, 2, 3 %}{% endfor %}{% cycle 'g': 7, 8 %}{% cycle n: 1, 2 %}{% cycle 7: 1, 2 %}", "a1b2a3712"},
		{"{% increment c %}{% increment c %}{{ c }}{% decrement c %}{% decrement d %} {% assign e = 5 %}{% increment e %}{{ e }}", "0121-1 05"},
		{"{% for x in (1..4) %}{% assign y = x | divided_by: 2 %}{% ifchanged %}{{ y }}{% endifchanged %}{% endfor %}", "012"},
	})
}

func TestRender_tags(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"a{{ name\n | upcase\n}}b{%\nif yes\n%}c{% endif %}{{ }}{% echo name | size %}{% echo %}", "aZOË ADAbc7"},
		{"{% # a note 'with' %}{%# {{ %}{%- # a\n # b -%} x", "x"}, {"{% comment %}{% if %}{% comment %}{% endcomment %}{% raw %}{% endcomment %}{% endraw %}{% endcomment %}a", "a"},
		{"{% comment any thing %}{% endcomment -%} a {%- comment %}b{% endcomment %}", "a"}, {"a {%- doc -%} {{ x {% y {% enddoc -%} b", "ab"},
		{"{% raw %} {{ x }} {% if {% endraw %}", " {{ x }} {% if "}, {"a {%- raw -%} b {%- endraw -%} c", "a b c"}, {"{%- if yes -%} a {{- 1 -}} b {%- endif -%} c", "a1bc"}, {"{{-5}}{{ -5 }} {{- n -}} x", "5-57x"},
		{"{% liquid\n  # note\n  assign x = 'a' | upcase\n  comment\n  if\n  endcomment\n  for i in (1..2)\n    echo x\n    unless forloop.last\n      echo '-'\n    endunless\n  endfor\n  liquid echo 'b'\n%}{{ x }}", "A-AbA"},
		{"{% liquid\r\n if yes\r\n echo 1\r\n endif\r\n%}{% liquid %}", "1"},
		{"{% capture 'x' %}a{{ n }}{% endcapture %}{{ x }}{% assign foo-bar = 1 %}{{ foo-bar }}{% assign _a1 = 2 %}{{ _a1 }}", "a712"},
		{"!{% if yes %}  {% assign a = 1 %}\n {% if yes %} {% endif %} {% endif %}!{% for i in (1..9) %} {% endfor %}!{% if yes %} {{ nothing }}{% endif %}!{% if no %}{% else %} {% comment %}x{% endcomment %} {% endif %}!{% case n %}{% when 7 %} {% when 8 %}x{% endcase %}!", "!!! !! !"},
		{"{% if false %}a{% else anything %}b{% endif %}{{ '{{' }}{{ '%}' }}", "b{{%}"},
	})
}

func TestRender_dates(t *testing.T) {
	t.Parallel()
	const all = "%a %A %b %B %h %d %e %j %m %y %Y %C %H %I %k %l %M %S %L %N %3N %p %P %s %u %w %U %W %V %G %g %z %:z %Z"
	check(t, []example{
		{"{{ '2027-03-04T05:06:07.089Z' | date: '" + all + "' }}", "Thu Thursday Mar March Mar 04  4 063 03 27 2027 20 05 05  5  5 06 07 089 089000000 089 AM am 1804136767 4 4 09 09 09 2027 27 +0000 +00:00 UTC"},
		{"{{ '2027-03-04 15:06:07' | date: '%c|%x|%X|%r|%R|%T|%D|%F|%v|%+|%n|%t|%%' }}", "Thu Mar  4 15:06:07 2027|03/04/27|15:06:07|03:06:07 PM|15:06|15:06:07|03/04/27|2027-03-04| 4-MAR-2027|Thu Mar  4 15:06:07 CST 2027|\n|\t|%"},
		{"{{ '2027-03-04 05:06' | date: '%-d %-m %-H %-I %-y %-l %-j %^b %^A %#p %_m %0e %05d %10Y %' }}", "4 3 5 5 27 5 63 MAR THURSDAY am  3 04 00004 0000002027 %"},
		{"{{ at | date: '%F %T %Z' }} {{ at }} {{ 'now' | date: '%F %H:%M' }} {{ 'Today' | date: '%F' }} {{ at | slice: 0, 10 }}", "2027-03-04 13:06:07 CST 2027-03-04T05:06:07.089Z 2027-01-01 07:30 2027-01-01 2027-03-04"},
		{"{{ 1152098955 | date: '%F' }} {{ '1152098955' | date: '%F' }} {{ 0 | date: '%F' }} {{ -86400 | date: '%F' }} {{ '-5' | date: '%F' }} {{ '20270314' | date: '%d' }}", "2006-07-05 2006-07-05 1970-01-01 1969-12-31 -5 14"},
		{"{{ 'soon' | date: '%F' }} {{ '31/12/2026' | date: '%F' }} {{ '2027-02-30' | date: '%F' }} {{ none | date: '%F' }}{{ list | date: '%F' }} {{ '2027-03-04' | date: none }} {{ '2027-03-04' | date: '' }} {{ 1.5 | date: '%F' }} {{ '' | date: '%F' }}", "soon 31/12/2026 2027-02-30 baC 2027-03-04 2027-03-04 1.5 "},
		{"{% assign f = '%F %Q %' %}{{ '2027-03-04' | date: f }}", "2027-03-04 %Q %"},
	})
	for text, want := range map[string]string{
		"2027-03-14": "2027-03-14 00:00:00 +0000", "2027-3-4": "2027-03-04 00:00:00 +0000", "2027/03/14": "2027-03-14 00:00:00 +0000", "March 14, 2027": "2027-03-14 00:00:00 +0000",
		"march 14 2027": "2027-03-14 00:00:00 +0000", "Mar 14th, 2027 3:04 PM": "2027-03-14 15:04:00 +0000", "14 March 2027 15:04": "2027-03-14 15:04:00 +0000", "14 Mar 2027 3pm": "2027-03-14 15:00:00 +0000",
		"Sunday, March 14, 2027": "2027-03-14 00:00:00 +0000", "Sun, 14 Mar 2027 15:04:05 GMT": "2027-03-14 15:04:05 +0000", "Sun, 14 Mar 2027 15:04:05 -0500": "2027-03-14 15:04:05 -0500",
		"2027-03-14T15:04:05.123+08:00": "2027-03-14 15:04:05 +0800", "2027-03-14 15:04:05 UTC": "2027-03-14 15:04:05 +0000", "2027-03-14 15:04 +0800": "2027-03-14 15:04:00 +0800", "14-Mar-2027": "2027-03-14 00:00:00 +0000",
		"Fri Jul 16 01:00:00 2004": "2004-07-16 01:00:00 +0000", "Jul 16 01:00:00 +0800 2004": "2004-07-16 01:00:00 +0800", "Fri Jul 16 01:00:00 UTC 2004": "2004-07-16 01:00:00 +0000",
		"2027-03-14T15:04": "2027-03-14 15:04:00 +0000", " 2027-03-14 \n": "2027-03-14 00:00:00 +0000", "20270314": "2027-03-14 00:00:00 +0000", "1804136767": "2027-03-04 05:06:07 +0000",
	} {
		if got, _, ok := waypost.ParseDate(text); !ok || got.Format("2006-01-02 15:04:05 -0700") != want {
			t.Errorf("ParseDate(%q) = %v, %v; want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "soon", "31/12/2026", "2027-13-01", "2027-02-30", "2027-03-14 25:00", "2027-03-14 15:04 CST", "10:00", "March 2027", "1804136767000", "-5", "Funday, March 14, 2027"} {
		if got, _, ok := waypost.ParseDate(text); ok {
			t.Errorf("ParseDate(%q) = %v", text, got)
		}
	}
}

// TestCompile_faults checks that what cannot be rendered does not compile, and where.
func TestCompile_faults(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"a\n {{ name": "line 2, column 2: \"{{ name\" does not end", "{% if name": "line 1, column 1: \"{% if name\" does not end", "{{ name }": "line 1, column 1: \"{{ name }\" does not end",
		"{{ 'a }}": "line 1, column 4: a text does not end", "{% %}": "line 1, column 1: a tag lacks its name", "é\r\né{{ 1 2 }}": "line 2, column 7: unexpected \"2\", where a filter is wanted",
		"{{ name | }}": "line 1, column 11: the name of a filter is missing", "{{ | upcase }}": "line 1, column 4: unexpected \"|\", where a value is wanted", "{{ a.b. }}": "line 1, column 9: the name of a member is missing",
		"{{ a..b }}": "line 1, column 5: unexpected \"..\", where a filter is wanted", "{{ a.0 }}": "line 1, column 6: unexpected \"0\", where the name of a member is wanted", "{{ a.['b'] }}": "line 1, column 6: unexpected \"[\", where the name of a member is wanted",
		"{{ @a }}": "line 1, column 4: unexpected '@'", "{{ -a }}": "line 1, column 4: unexpected '-'", "{{ 1 + 2 }}": "line 1, column 6: unexpected '+'", "{{ a[1 }}": "line 1, column 8: \"]\" is missing", "{{ a % b }}": "line 1, column 6: unexpected '%'",
		"{{ lead.姓 }}":               "line 1, column 9: unexpected '姓'; the name of a member that has other letters is written ['…']",
		"{{ 99999999999999999999 }}": "line 1, column 4: the number is out of range",
		"{{ (1..2 }}":                "line 1, column 10: \")\" is missing",
		"{% shout %}":                "line 1, column 1: there is no tag \"shout\"; the tags are #, assign, break, capture, case, comment, continue, cycle, decrement, doc, echo, for, if, ifchanged, increment, liquid, raw, tablerow, unless",
		"{% include 'a' %}":          "line 1, column 1: there is no tag \"include\"", "{% render 'a' %}": "line 1, column 1: there is no tag \"render\"", "{% layout 'a' %}": "line 1, column 1: there is no tag \"layout\"", "{% endshout %}": "line 1, column 1: there is no tag \"endshout\"",
		"{{ a | shout }}": "line 1, column 8: there is no filter \"shout\"; the filters are abs, append, at_least,",
		"{% if a %}":      "line 1, column 1: if lacks its endif", "{% endif %}": "line 1, column 1: endif ends nothing", "{% if a %}{% endfor %}{% endif %}": "line 1, column 11: endfor where endif is wanted", "{% else %}": "line 1, column 1: else stands outside", "{% for x in a %}{% when 1 %}{% endfor %}": "line 1, column 17: when stands outside",
		"{% if %}{% endif %}": "line 1, column 7: a value is missing", "{% if a = 1 %}{% endif %}": "line 1, column 9: unexpected \"=\"; equality is written ==", "{% if a | size %}{% endif %}": "line 1, column 9: a condition takes no filter", "{% if a in b %}{% endif %}": "line 1, column 9: unexpected \"in\"",
		"{% if not a %}{% endif %}": "line 1, column 11: unexpected \"a\"", "{% if (a or b) and c %}{% endif %}": "line 1, column 10: unexpected \"or\", where \"..\" is wanted", "{% if a and %}{% endif %}": "line 1, column 13: a value is missing", "{% if a == %}{% endif %}": "line 1, column 12: a value is missing", "{% if a && b %}{% endif %}": "line 1, column 9: unexpected '&'",
		"{% case a %}{% when %}{% endcase %}": "line 1, column 21: a value is missing", "{% case a %}{% when 1 and 2 %}{% endcase %}": "line 1, column 23: unexpected \"and\"", "{% case %}{% endcase %}": "line 1, column 9: a value is missing",
		"{% for x of a %}{% endfor %}": "line 1, column 10: unexpected \"of\", where \"in\" is wanted", "{% for x in a limit: 'b' %}{% endfor %}": "line 1, column 15: limit of a loop must be an integer", "{% for x in a offset: 1.5 %}{% endfor %}": "line 1, column 15: offset of a loop must be an integer", "{% for x in a cols: 2 %}{% endfor %}": "line 1, column 15: unexpected \"cols\", where limit, offset is wanted",
		"{% for x in a limit: 2 reversed %}{% endfor %}": "line 1, column 24: reversed stands right behind the list", "{% for x in a | sort %}{% endfor %}": "line 1, column 15: unexpected \"|\"", "{% break %}": "line 1, column 1: break stands outside of a loop", "{% for x in a %}{% endfor %}{% continue %}": "line 1, column 29: continue stands outside of a loop",
		"{% assign x %}": "line 1, column 1: assign wants a name, = and a value", "{% assign x? = 1 %}": "line 1, column 1: assign wants", "{% assign a.b = 1 %}": "line 1, column 1: assign wants", "{% assign x = %}": "line 1, column 15: a value is missing", "{% assign x = 1 + 2 %}": "line 1, column 17: unexpected '+'",
		"{% capture a b %}{% endcapture %}": "line 1, column 1: capture wants the name of a variable", "{% increment %}": "line 1, column 1: increment wants the name of a variable", "{% cycle %}": "line 1, column 10: a value is missing",
		"{% comment %}{% comment %}{% endcomment %}": "line 1, column 1: comment lacks its endcomment", "{% raw %}{{ a }}": "line 1, column 1: raw lacks its endraw", "{% doc %}": "line 1, column 1: doc lacks its enddoc", "{% doc a %}{% enddoc %}": "line 1, column 7: doc takes no arguments", "{% doc %}{% doc %}{% enddoc %}": "line 1, column 1: doc cannot stand in a doc",
		"{%- # a\n b -%}": "line 1, column 1: each line of a # comment begins with #", "{% liquid\n if a\n%}{% endif %}": "line 2, column 2: if lacks its endif", "{% if a %}{% liquid endif %}": "line 1, column 21: endif ends nothing", "{% liquid\n  echo 1 2 %}": "line 2, column 10: unexpected \"2\"", "{% liquid\n raw %}": "line 2, column 2: raw cannot stand in a liquid tag",
		// What other keyboards and languages of templates have.
		"{{ a | default: “friend” }}": "line 1, column 17: unexpected '“'; a text stands in straight quotes, \" or '", "{% if a == ‘x’ %}{% endif %}": "line 1, column 12: unexpected '‘'; a text stands in straight quotes",
		"{{\u00a0a }}": "line 1, column 3: unexpected '\\u00a0', which is no plain blank; write one, or nothing", "{{ a \u200b}}": "line 1, column 6: unexpected '\\u200b', which is no plain blank",
		"{% if a ＞ 1 %}{% endif %}": "line 1, column 9: unexpected '＞'; write it half-width, '>'", "{{#if a}}x{{/if}}": "line 1, column 3: unexpected '#'; a block is written {% if x %} … {% endif %}",
		"{{{a}}}": "line 1, column 3: unexpected '{'; an output has two braces on each side", "{% if a %}{% else if b %}{% endif %}": "line 1, column 11: else takes no condition; write elsif",
		"{{ a | date: 'YYYY-MM-DD' }}": "line 1, column 8: \"YYYY-MM-DD\" would print as it stands; write \"%Y-%m-%d\"", "{{ a | date: 'dd/MM/yyyy HH:mm' }}": "line 1, column 8: \"dd/MM/yyyy HH:mm\" would print as it stands; write \"%d/%m/%Y %H:%M\"",
		"{{ a | date: '%F', 'CST' }}": "line 1, column 8: there is no time zone \"CST\"", "{{ a | money: 'RMB' }}": "line 1, column 8: a currency is an ISO 4217 code such as \"CNY\"", "{{ a | money }}": "line 1, column 8: money wants 1 argument",
		// Arguments.
		"{{ 5 | times }}": "line 1, column 8: times wants 1 argument", "{{ a | times: 1, 2 }}": "line 1, column 8: times takes 1 argument", "{{ a | upcase: 1 }}": "line 1, column 8: upcase takes no argument", "{{ a | replace_last: 1 }}": "line 1, column 8: replace_last wants 2 arguments", "{{ a | where }}": "line 1, column 8: where wants 1 argument", "{{ a | append: }}": "line 1, column 16: a value is missing",
		"{{ a | append: x: 1 }}": "line 1, column 16: append takes no argument \"x\"", "{{ a | default: 1, allow: 2 }}": "line 1, column 20: default takes no argument \"allow\"", "{{ a | date }}": "line 1, column 8: date wants 1 argument",
		// What no value can help.
		"{{ a | divided_by: 0 }}": "line 1, column 8: division by zero", "{{ a | modulo: '" + strings.Repeat("1", 65) + "' }}": "line 1, column 8: a number is out of range", "{{ a | modulo: 'x' }}": "line 1, column 8: division by zero", "{{ a | slice: 'x' }}": "line 1, column 8: an argument must be an integer", "{{ a | slice: 1, 2.5 }}": "line 1, column 8: an argument must be an integer", "{{ a | truncate: nil }}": "line 1, column 8: an argument must be an integer", "{{ a | concat: 5 }}": "line 1, column 8: an argument must be a list",
		"{{ a | date: '%F %Q' }}": "line 1, column 8: there is no directive \"%Q\" of a date", "{{ 'now' | date: '%:Y' }}": "line 1, column 12: there is no directive \"%:Y\" of a date", "{{ a | date: '%E' }}": "line 1, column 8: there is no directive \"%E\" of a date",
		"{% if '2' > 1 %}{% endif %}": "line 1, column 11: a text and a number cannot be compared", "{% if 1 <= 'a' %}{% endif %}": "line 1, column 9: a number and a text cannot be compared", "{{ 5 | base64_decode }}": "line 1, column 8: a value is not base64", "{{ (1..true) }}": "line 1, column 4: the ends of a range must be numbers", "{{ (1..9999) | join }}": "line 1, column 16: a list on the way is too long", "{{ 5 | map: 'a' }}": "line 1, column 8: a number has no members", "{{ 9223372036854775807 | plus: 1 }}": "line 1, column 26: a number is out of range",
		// Nor what comes before the first value that is not known.
		"{% assign x = 0 %}\n {{ 5 | divided_by: x }}{{ a }}": "line 2, column 2: division by zero", "{% if true %}{% capture x %}0{% endcapture %}\n{% liquid\n echo 5 | modulo: x %}{% endif %}": "line 3, column 2: division by zero",
		"{% assign x = 'a,b' | split: ',' %}{% for y in x %}{{ 'c' | truncate: y }}{% endfor %}": "line 1, column 52: an argument must be an integer", "{% for i in (1..20) %}" + strings.Repeat("x", 4000) + "{% endfor %}": "line 1, column 23: the output is longer than 64 KiB",
		"{{ a }}{% if b %}{% for i in (1..9000) limit: 5001 %}{{ a }}{% endfor %}{% endif %}": "line 1, column 18: the loop limit is exceeded", "{{ a }}{% tablerow i in (0..5000) %}{{ a }}{% endtablerow %}": "line 1, column 8: the loop limit is exceeded",
	} {
		got, err := render(t, template)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s\ngot  %q, %v\nwant %s", template, got, err, want)
		}
	}
}

// TestCompile_unknown checks that nothing is refused because a value is not known yet.
func TestCompile_unknown(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"{{ 14 | divided_by: n }}{% assign n = 0 %}", "2"}, {"{% assign x = n %}{{ 14 | divided_by: x }}", "2"}, {"{% assign d = 'now' | date: '%d' %}{{ 2 | divided_by: d }}{{ 'today' | date: '%F' | slice: 0, 4 | times: 1 }}", "22027"},
		{"{% for i in (1..9000) limit: n %}x{% endfor %}", "xxxxxxx"}, {"{% for i in (1..9000) %}{% if i == n %}{% break %}{% endif %}x{% endfor %}", "xxxxxx"},
		{"{% for i in (1..9000) limit: 1 %}{% endfor %}{% for i in (1..9000) limit: 2 offset: continue %}{{ i }}{% endfor %}", "23"}, {"{{ forloop.index }}{{ undefined | append: 'x' }}", "x"},
	})
}

func TestRender_faults(t *testing.T) {
	t.Parallel()
	long := "{% assign s = 'ab c\néf' %}" + strings.Repeat("{% assign s = s | append: s %}", 12) // 32 KiB
	for _, filter := range []string{"upcase", "capitalize", "slice: 0, 9", "truncatewords: 3000", "replace: 'b', 'x'", "strip_newlines", "newline_to_br", "split: 'q'"} {
		if got, err := render(t, long+"{% for i in (1..600) %}{% assign t = s | "+filter+" %}{% endfor %}"); err == nil || err.Error() != "the work limit is exceeded" {
			t.Errorf("600 times %s: %q, %v", filter, got, err)
		}
	}
	for template, want := range map[string]string{
		"{{ 1 | divided_by: none }}": "division by zero", "{{ 1 | modulo: name }}": "division by zero", "{% if name > n %}{% endif %}": "a text and a number cannot be compared", "{{ name | slice: f }}": "an argument must be an integer", "{{ name | truncate: none }}": "an argument must be an integer",
		"{{ list | concat: n }}": "an argument must be a list", "{{ holes | concat: list | concat: numbers | sort }}": "values of different kinds cannot be sorted", "{{ numbers | map: 'a' }}": "a number has no members", "{{ n | where: 'a' }}": "a number has no members", "{{ list | map: yes }}": "a text has no such member",
		"{% for i in list limit: list %}{% endfor %}": "limit of a loop must be an integer", "{% tablerow i in list cols: name %}{% endtablerow %}": "cols of a loop must be an integer", "{% for i in (1..list) %}{% endfor %}": "the ends of a range must be numbers", "{{ name | base64_decode }}": "a value is not base64",
		"{% for i in (1..n) %}{% for j in (1..999) %}{% endfor %}{% endfor %}": "the loop limit is exceeded", "{% assign x = 9223372036854775807 %}{{ x | times: n }}": "a number is out of range", "{% assign s = 'ab' %}" + strings.Repeat("{% assign s = s | append: s %}", 17): "a text on the way is longer than 64 KiB",
	} {
		if got, err := render(t, template); err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %q, %v\nwant %s", template, got, err, want)
		}
	}
}

// TestReferences tells what a template reads of what it is given.
func TestReferences(t *testing.T) {
	t.Parallel()
	compiled, err := liquid.Compile("{% assign own = a.b %}{{ own.x }}\n{{ c['d'][e.f].g | append: h }}{% for i in j.k %}{{ i.l }}{{ forloop.m }}{% endfor %}{{ [n] }}"+
		"{% assign o = own %}{{ o.y }}{% assign p = q[r.s] %}{{ p.t }}{% assign u = v | first %}{{ u.w }}{% assign x = x %}{{ x }}{% assign y = a %}{% assign y = b %}{{ y.z }}", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []liquid.Reference{
		{[]string{"a", "b"}, 1, 17}, {[]string{"a", "b", "x"}, 1, 26}, {[]string{"e", "f"}, 2, 11}, {[]string{"c", "d"}, 2, 4}, {[]string{"h"}, 2, 28}, {[]string{"j", "k"}, 2, 44}, {[]string{"n"}, 2, 90},
		{[]string{"a", "b"}, 2, 109}, {[]string{"a", "b", "y"}, 2, 118}, {[]string{"r", "s"}, 2, 140}, {[]string{"q"}, 2, 138}, {[]string{"q"}, 2, 150}, {[]string{"v"}, 2, 170}, {[]string{"a"}, 2, 230}, {[]string{"b"}, 2, 248},
	}
	if got := compiled.References; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestRender_letters(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"{{ 'straße' | upcase }} {{ 'ﬁ' | upcase }} {{ 'ÀΣ' | downcase }}", "STRASSE FI àς"},
		{"{{ 'ﬁN' | capitalize }} {{ 'ßA' | capitalize }} {{ 'ΑΣ' | capitalize }} {{ '' | capitalize }}", "Fin Ssa Ας "},
		{"foo {{-}} bar", "foobar"}, {"a {{- -}} b", "ab"}, {"{{ none | uniq: 'a' | json }}{{ emptyList | uniq: 'a' | json }}{{ emptyList | compact | json }}", "[][][]"},
		{"{{ '&lt; & &#39;<&a b;&;&#;&am' | escape_once }}", "&lt; &amp; &#39;&lt;&amp;a b;&amp;;&amp;#;&amp;am"},
	})
	// Work that many & take is counted: the template ends at once.
	source := "{% capture x %}{% for i in (1..4000) %}&&{% endfor %}{% endcapture %}{% for i in (1..900) %}{% assign y = x | escape_once %}{% endfor %}"
	if _, err := render(t, source); err == nil || err.Error() != "the work limit is exceeded" {
		t.Errorf("%v", err)
	}
}

func TestRender_zones(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"{{ '2026-12-30T22:15:00Z' | date: '%F %H:%M' }}", "2026-12-30 22:15"},
		{"{{ '2026-12-30T22:15:00Z' | date: '%F %H:%M', 'Asia/Shanghai' }}", "2026-12-31 06:15"},
		{"{{ at | date: '%H:%M' }} {{ at | date: '%H:%M', 'America/New_York' }} {{ at | date: '%H:%M %z', '-03:00' }}", "13:06 00:06 02:06 -0300"},
		{"{{ 0 | date: '%H', 'Asia/Tokyo' }} {{ 'now' | date: '%d %H', 'Asia/Tokyo' }}", "09 01 08"},
		{"{{ '0' | date: '%H', none }} {{ '0' | date: '%H', 'Asia/Tokyo' }} {{ at | date: '%H', name }}", "00 09 13"},
		// A day is its midnight in the lead's zone, or in the one that is named.
		{"{{ '2027-01-03' | date: '%s' }} {{ '2027-01-03' | date: '%F %s', 'UTC' }} {{ '2027-01-03 08:00' | date: '%s' }}", "1798905600 2027-01-03 1798934400 1798934400"},
		{"{% assign now_s = 'now' | date: '%s' %}{{ '2027-01-03' | date: '%s' | minus: now_s | divided_by: 86400 | plus: 1 }}", "2"},
		{"{{ '--12-31' | date: '%m/%d %b %-d' }} {{ '--02-29' | date: '%F' }} {{ '--02-30' | date: '%d' }}", "12/31 Dec 31 --02-29 --02-30"},
	})
}

func TestRender_money(t *testing.T) {
	t.Parallel()
	check(t, []example{
		{"{{ 1234.5 | money: 'CNY' }} {{ 1234.5 | money: 'JPY' }} {{ '-1234567.005' | money: 'USD' }} {{ 0 | money: 'EUR' }}", "¥1,234.50 ¥1,235 -$1,234,567.01 €0.00"},
		{"{{ 1234.5 | money: 'CHF' }} {{ 1.2345 | money: 'KWD' }} {{ '-0.001' | money: 'GBP' }}", "CHF\u00a01,234.50 KWD\u00a01.235 £0.00"},
		{"{{ none | money: 'CNY' }}{{ 'free' | money: 'CNY' }}{{ none | money: 'CNY' | default: '-' }}", "free-"},
	})
}
