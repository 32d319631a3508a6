package journey_test

import (
	"encoding/json"
	"strings"
	"testing"

	"waypost/journey"
)

// A definition keeps the comments of its text in every object that can have them, and runs
// without them.
func TestComments(t *testing.T) {
	t.Parallel()
	const comments = `"comments":{"":{"above":"why\nand how"},"next":{"beside":"here","below":"there"}}`
	const with = `{"name":"x","start":"a","entry":[{"event":"e",` + comments + `}],"exitOn":[{"event":"f",` + comments + `}],"nodes":[` +
		`{"id":"a","type":"waitForEvent","events":[{"event":"g","next":"b",` + comments + `}],"timeout":"1h",` + comments + `},` +
		`{"id":"b","type":"split","arms":[{"weight":1,"next":"c",` + comments + `},{"weight":1}]},` +
		`{"id":"c","type":"branch","cases":[{"when":"true","next":"d",` + comments + `}]},` +
		`{"id":"d","type":"exit"}],` + comments + `}`
	without := strings.ReplaceAll(with, ","+comments, "")
	d := parse(t, with)
	if problems := d.Check(nil, nil); len(problems) > 0 {
		t.Errorf("problems %v", problems)
	}
	if string(d.Canonical()) != with || string(d.Bare()) != without {
		t.Errorf("canonical %s\nbare %s", d.Canonical(), d.Bare())
	}
	if string(d.Canonical()) != with {
		t.Errorf("canonical, once Bare was asked for: %s", d.Canonical())
	}
	if changes := journey.Diff(parse(t, without), d); len(changes) != 7 || changes[0].Member != "entry[0].comments" {
		t.Errorf("changes %v", changes)
	}

	long := strings.Repeat("é", journey.MaxComment+1)
	for _, test := range []struct{ path, above, beside, below, want string }{
		{"next", long[2:], long[2:], "a\tb\nc", ""},
		{"next", long, long, long, "TooLong nodes[0].comments.next.above: has at most 10000 characters\nTooLong nodes[0].comments.next.beside: has at most 10000 characters\nTooLong nodes[0].comments.next.below: has at most 10000 characters\n"},
		{"next", "a\rb", "a\nb", "\u0085", "InvalidFormat nodes[0].comments.next.above: must not hold control characters\nInvalidFormat nodes[0].comments.next.beside: must not hold control characters\nInvalidFormat nodes[0].comments.next.below: must not hold control characters\n"},
		{strings.Repeat("x", journey.MaxCommentPath+1), "a", "", "", "TooLong nodes[0].comments: a path has at most 500 characters\n"},
	} {
		comments := map[string]journey.Comment{test.path: {Above: test.above, Beside: test.beside, Below: test.below}}
		body, err := json.Marshal(map[string]any{"name": "x", "start": "a", "nodes": []any{map[string]any{"id": "a", "type": "exit", "comments": comments}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := list(parse(t, string(body)).Check(nil, nil)); got != test.want {
			t.Errorf("problems %q, want %q", got, test.want)
		}
	}
	if _, problems := journey.Parse([]byte(`{"comments":{"name":{"over":"x"}},"nodes":[{"type":"exit","comments":[]}]}`)); list(problems) != "UnknownField comments.name.over: there is no member of this name\nInvalidType nodes[0].comments: must be an object, not an array\n" {
		t.Errorf("problems %q", list(problems))
	}
}
