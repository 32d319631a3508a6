package yamljson

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestToJSON(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"retry: {on: [5xx, 429], y: no}": `{"retry":{"on":["5xx",429],"y":"no"}}`,
		"price: 1.10":                    `{"price":1.10}`,
		"birthday: 1990-02-03":           `{"birthday":"1990-02-03"}`,
		"a: -7\nb: 1e3\nc: -0.50":        `{"a":-7,"b":1e3,"c":-0.50}`,
		"a: true\nb: False\nc: ~\nd:":    `{"a":true,"b":false,"c":null,"d":null}`,
		"a: '1'\nb: \"true\"":            `{"a":"1","b":"true"}`,
		"a: &x {b: 1}\nc: *x":            `{"a":{"b":1},"c":{"b":1}}`,
		"- 1\n- [2, x]":                  `[1,[2,"x"]]`,
		"when: \"a > 1 && b\"":           `{"when":"a \u003e 1 \u0026\u0026 b"}`,
		"":                               `null`,

		// What only YAML takes for a number, a boolean or a date is text.
		"{zip: 01234, code: 010, phone: +8613800138000}":                 `{"zip":"01234","code":"010","phone":"+8613800138000"}`,
		"a: 0x1F\nb: 0o17\nc: 0b11\nd: 1_000\ne: -01\nf: 00\ng: +5":      `{"a":"0x1F","b":"0o17","c":"0b11","d":"1_000","e":"-01","f":"00","g":"+5"}`,
		"a: .5\nb: 1.\nc: 1_000.5\nd: 1e\ne: 0x\nf: +.5e3":               `{"a":".5","b":"1.","c":"1_000.5","d":"1e","e":"0x","f":"+.5e3"}`,
		"a: yes\nb: No\nc: on\nd: OFF\ne: y\nf: N":                       `{"a":"yes","b":"No","c":"on","d":"OFF","e":"y","f":"N"}`,
		"a: 12:30:45\nb: 09:30\nc: 190:20:30.15":                         `{"a":"12:30:45","b":"09:30","c":"190:20:30.15"}`,
		"a: 2026-12-31\nb: 2026-12-31T10:00:00Z\nc: 2026-12-31 10:00:00": `{"a":"2026-12-31","b":"2026-12-31T10:00:00Z","c":"2026-12-31 10:00:00"}`,
		"- 01234 # a code\n- [010, 1.2.3]":                               `["01234",["010","1.2.3"]]`,
		"a: &x 01234\nb: *x":                                             `{"a":"01234","b":"01234"}`,
		"01: a\n1.0: b\non: c\nTrue: d\n2026-12-31: e\n~: f\n'<<': g":    `{"01":"a","1.0":"b","on":"c","True":"d","2026-12-31":"e","~":"f","\u003c\u003c":"g"}`,
		"a: !!str 010\nb: '010'\nc: \"010\"\nd: |\n  010\ne: >-\n  010":  `{"a":"010","b":"010","c":"010","d":"010\n","e":"010"}`,
		"a: !!str\nb: ''\nc: '~'\nd: \"null\"":                           `{"a":"","b":"","c":"~","d":"null"}`,

		// JSON's numbers keep their digits.
		"a: 12345678901234567890\nb: 1.10\nc: 0\nd: -1.5E-7":    `{"a":12345678901234567890,"b":1.10,"c":0,"d":-1.5E-7}`,
		"a: x # c\nb: 'x' #c\n#c\nc: 5 ## c\nd: [e] #c\nf: a#b": `{"a":"x","b":"x","c":5,"d":["e"],"f":"a#b"}`,
		"a: # later\nb:\n  # more\n  - 1":                       `{"a":null,"b":[1]}`,
	} {
		got, err := ToJSON([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%q: %s, %v; want %s", in, got, err, want)
		}
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 10) + "]\n"
	}
	for name, in := range map[string]string{
		"doubled": "a: 1\na: 2", "two documents": "a: 1\n---\nb: 2", "merge": "a: {<<: {b: 1}}", "infinite": "a: .inf", "broken": "a: [", "bomb": bomb,
		"itself": "a: &a [*a]", "tab": "a:\n\tb: c", "no anchor": "a: *b",
	} {
		if out, err := ToJSON([]byte(in)); err == nil {
			t.Errorf("%s: no error, %d bytes", name, len(out))
		}
	}
	for in, want := range map[string]string{
		"b: 1\na: .inf":               "line 2: .inf is no number that JSON has; quote it for the text",
		"b: 1\na: -.Inf":              "line 2: -.Inf is no number",
		"a: .NaN":                     "line 1: .NaN is no number",
		"b: 1\nname: NULL":            `line 2: write null, or "NULL" for the text`,
		"name: Null":                  `line 1: write null, or "Null" for the text`,
		"b: 1\na: !!binary aGk=":      "line 2: the tag !!binary is not supported, only !!str",
		"a: !!int '5'":                "line 1: the tag !!int is not supported",
		"a: !!bool yes":               "line 1: the tag !!bool is not supported",
		"a: !!timestamp 2026":         "line 1: the tag !!timestamp is not supported",
		"a: !env HOME":                "line 1: the tag !env is not supported",
		"a: !!set {b, c}":             "line 1: the tag !!set is not supported",
		"b: 1\n<<: {a: 1}":            "line 2: a member's name must be plain text; merge keys are not supported",
		"? [a]\n: b":                  "line 1: a member's name must be plain text",
		"b: 1\n'b': 2":                `line 2: "b" stands twice`,
		"1: a\n\"1\": b":              `line 2: "1" stands twice`,
		"b: 1\na: {name: X, Ada}":     `line 2: "Ada" has no value`,
		"a: {b: , c: 1}":              `line 1: "b" has no value`,
		"b: 1\ncolor: #fff":           `line 2: what follows a # is a comment, so that "color" has no value; quote it`,
		"b: 1\na: Order #12 now":      `line 2: what follows a # is a comment; quote "Order" with it, or put a blank behind the #`,
		"- Order #12":                 `line 1: what follows a # is a comment; quote "Order"`,
		"- a\n- b: {c: 5, #d\n e: 1}": `line 2: what follows a # is a comment; quote "5"`,
		"- #fff\n- red":               "line 1: an item of the list is empty; write null, or quote a text that begins with a #",
		"a:\n  - red\n  - #fff":       "line 3: an item of the list is empty",
	} {
		if out, err := ToJSON([]byte(in)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %s, %v; want %s", in, out, err, want)
		}
	}
}

// What is written as YAML is read as the same JSON.
func TestYAML(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"name":"Welcome","tags":["a","b c"],"nodes":[{"id":"x","for":"48h","next":null}]}`: "name: Welcome\ntags:\n  - a\n  - b c\nnodes:\n  - id: x\n    for: 48h\n    next: null\n",
		`{"a":{},"b":[],"c":""}`: "a: {}\nb: []\nc: \"\"\n",
		`{"note":"one\ntwo"}`:    "note: |-\n  one\n  two\n",
		`{"z":1,"a":2}`:          "z: 1\na: 2\n",
	} {
		if out, err := DefinitionFromJSON([]byte(in)); err != nil || string(out) != want {
			t.Errorf("%s: %q, %v; want %q", in, out, err, want)
		}
	}
	if out, err := DefinitionFromJSON([]byte(`{"z":{"type":"exit","id":"x"},"name":"n"}`)); err != nil || string(out) != "name: n\nz:\n  id: x\n  type: exit\n" {
		t.Errorf("arranged: %q, %v", out, err)
	}
	for _, text := range []string{
		"", " ", "a", "a b", " a", "a ", "true", "yes", "null", "~", "NULL", "Null", "1", "01", "1.10", "1e3", "0x1F", "2026-12-31", "09:30", ".inf", "-", "- a", "?", "a: b", "a #b", "#fff", "a#b",
		"Order #12", "{{ lead.name }}", "[x]", "*a", "&a", "!a", "|", ">", "'", "\"", "%", "@", "`", "a\nb", "a\n", "\na", "a\n\n", " a\nb", "a \nb", "\ta", "a\tb", "a\r\nb", "\x00", "\x7f",
		"\u0085", "\u2028", "\ufeff", "\u202e", "旅程", "👩‍👩‍👧", "<script>", "---", "...", "=", "<<", "a: |\n  b", strings.Repeat("long ", 2000) + "end", "y", "n", "on", "Off", "--- a", "\\", "a\\nb",
	} {
		in, err := json.Marshal(map[string]any{"a": text, "b": []any{text, map[string]any{"c": text}}, "k" + text: 12345678901234567})
		if err != nil {
			t.Fatal(err)
		}
		out, err := DefinitionFromJSON(in)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		back, err := ToJSON(out)
		if err != nil || string(back) != string(in) {
			t.Errorf("%q: %s, %v; want %s; the YAML is\n%s", text, back, err, in, out)
		}
	}
	for _, broken := range []string{"", "{", `{"a"`, "[1", "{]"} {
		if out, err := DefinitionFromJSON([]byte(broken)); err == nil {
			t.Errorf("%q: %q and no error", broken, out)
		}
	}
}
