package yamljson

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// A comment at any place of a definition is there once after the definition was JSON, and so is
// all else. What the text was brought into stays as it is.
func TestComments(t *testing.T) {
	t.Parallel()
	const file = "../examples/first-order.yaml"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := ToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	source := strings.Split(strings.TrimSpace(string(data)), "\n")
	for i, line := range source {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		for name, changed := range map[string]string{
			"above":     indent + "# MARK\n" + line,
			"apart":     indent + "# MARK\n\n" + line,
			"farther":   "\n" + indent + "# one\n\n" + indent + "# MARK\n" + line,
			"at margin": "# MARK\n" + line,
			"beside":    line + " # MARK",
			"below":     line + "\n" + indent + "# MARK",
		} {
			text := strings.Join(slices.Concat(source[:i], []string{changed}, source[i+1:]), "\n") + "\n"
			if out, err := ToJSON([]byte(text)); err != nil || string(out) != string(plain) {
				continue // it is no comment there, but a part of a text
			}
			checkComment(t, fmt.Sprintf("%s:%d %s", file, i+1, name), text, string(plain))
		}
	}
}

func TestDefinitionToJSON(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"# why\nname: A # short\n":   `{"name":"A","comments":{"name":{"above":"why","beside":"short"}}}`,
		"# file\n\n# why\nname: A\n": `{"name":"A","comments":{"name":{"above":"file\n#\nwhy"}}}`,
		"name: A\n\n# the end":       `{"name":"A","comments":{"":{"below":"the end"}}}`,
		"nodes: # all\n  # one\n  - id: a # it\n    # P\n    params:\n      b: [1] # c\n": `{"nodes":[{"id":"a","params":{"b":[1]},"comments":{"":{"above":"one"},"id":{"beside":"it"},"params":{"above":"P"},"params.b":{"beside":"c"}}}],"comments":{"nodes":{"beside":"all"}}}`,
		"nodes:\n- id: a\n  params:\n    list:\n    - {k: 1} # deep\n":                    `{"nodes":[{"id":"a","params":{"list":[{"k":1}]},"comments":{"params.list[0]":{"beside":"deep"}}}]}`,
		"tags:\n- a\n# second\n- b\ngoal:\n  event: x # sold\n":                           `{"tags":["a","b"],"goal":{"event":"x"},"comments":{"goal.event":{"beside":"sold"},"tags[1]":{"above":"second"}}}`,
		"nodes:\n  - id: a\n\n# the end\n\n# really\n":                                    `{"nodes":[{"id":"a"}],"comments":{"":{"below":"the end\n\nreally"}}}`,
		"##### big\n#glued\nname: A\n":                                                    `{"name":"A","comments":{"name":{"above":"##### big\nglued"}}}`,
		"note: |\n  # no comment\n\n  text\n":                                             `{"note":"# no comment\n\ntext\n"}`,
		"name: A\n":                                                                       `{"name":"A"}`, "": `null`, "# only": `null`, "- a # b": `["a"]`,
	} {
		got, err := DefinitionToJSON([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%q: %s, %v; want %s", in, got, err, want)
		}
	}
	if _, err := DefinitionToJSON([]byte("name: A # b\ncomments: {name: {beside: c}}")); err == nil || !strings.Contains(err.Error(), `line 1: it has comments behind a # and a member "comments"`) {
		t.Errorf("both: %v", err)
	}
	if out, err := DefinitionToJSON([]byte("name: A\ncomments: {name: {beside: c}}")); err != nil || string(out) != `{"name":"A","comments":{"name":{"beside":"c"}}}` {
		t.Errorf("as a member: %s, %v", out, err)
	}
}

// A text that is far to the right, nested or full of comments takes no more room than it has.
func TestCostlyComments(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"far to the right": "a:\n" + strings.Repeat("#\n", 100_000) + strings.Repeat(" ", 500_000) + "b: 1\n",
		"deep":             "a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + " # x\n",
	} {
		out, err := DefinitionToJSON([]byte(text))
		if err == nil && len(out) > 2*len(text) {
			t.Errorf("%s: %d bytes", name, len(out))
		}
	}
}

// What a comment holds changes nothing else, whatever it is, and a comment of what is gone is kept.
func TestDefinitionFromJSON(t *testing.T) {
	t.Parallel()
	const plain = `{"name":"A","nodes":[{"id":"a","type":"touchpoint","params":{"x":"1","comments":"mine","y":[{"comments":2}]}},{"id":"b","type":"exit"}],"tags":["t"]}`
	for _, text := range []string{
		"why", "", " ", "#", "# a", "a\nb: c", "a\r\nb: c", "a\rb: c", "a\u0085b: c", "a\u2028b: c", "a\u2029b: c", "\ufeffa", "\x00", "\t", "- a", "|", "---", "...", "\n\n", "a\n\nb", "旅程 👩‍👩‍👧", "\u202e", strings.Repeat("long ", 2000),
	} {
		one := map[string]any{"above": text, "beside": text, "below": text}
		all := map[string]any{"": one, "id": one, "params.x": one, "params.y[0].comments": one, "gone[3]": one, "name": one, "nodes": one, "tags[0]": one}
		var d map[string]any
		if err := json.Unmarshal([]byte(plain), &d); err != nil {
			t.Fatal(err)
		}
		d["comments"] = all
		for _, n := range d["nodes"].([]any) {
			n.(map[string]any)["comments"] = all
		}
		in, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		out, err := DefinitionFromJSON(in)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, err := ToJSON(out); err != nil || len(got) != len(plain) { // members in another order
			t.Errorf("%q: %v\n%s\nbecame\n%s", text, err, out, got)
		}
		if text == "why" && strings.Count(string(out), "why") != 3*3*len(all) { // of the definition and two nodes
			t.Errorf("%d comments:\n%s", strings.Count(string(out), "why"), out)
		}
	}
	for _, odd := range []string{`{"comments":5}`, `{"comments":{"a":"b"}}`, `{"comments":[1]}`, `{"nodes":[{"comments":"x"}]}`} {
		out, err := DefinitionFromJSON([]byte(odd))
		if err != nil {
			t.Errorf("%s: %v", odd, err)
		} else if back, err := ToJSON(out); err != nil || string(back) != odd {
			t.Errorf("%s became %s, %v", odd, back, err)
		}
	}
}

func checkComment(t *testing.T, name, text, plain string) {
	t.Helper()
	once, err := again(text)
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, text)
	}
	if n := strings.Count(once, "# MARK"); n != 1 {
		t.Errorf("%s: the comment stands %d times\n%s", name, n, once)
	}
	if out, err := ToJSON([]byte(once)); err != nil || len(out) != len(plain) { // members in another order
		t.Errorf("%s: %v\n%s\nbecame\n%s", name, err, plain, out)
	}
	twice, err := again(once)
	if err != nil || strings.Count(twice, "# MARK") != 1 {
		t.Errorf("%s, again: %v\n%s", name, err, twice)
	}
	if thrice, err := again(twice); err != nil || thrice != twice {
		t.Errorf("%s: %v\n%s\nbecame\n%s", name, err, twice, thrice)
	}
}

func again(text string) (string, error) {
	out, err := DefinitionToJSON([]byte(text))
	if err != nil {
		return "", err
	}
	back, err := DefinitionFromJSON(out)
	return string(back), err
}
