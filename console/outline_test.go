package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// drawn writes an outline as a text: steps by their ids, ways in brackets, a jump as >id.
func drawn(steps []outlineStep) string {
	var parts []string
	for _, s := range steps {
		text := s.ID
		if len(s.Ways) > 0 {
			var ways []string
			for _, w := range s.Ways {
				way := drawn(w.Steps)
				switch {
				case w.Ends:
					way = "end"
				case w.Jump:
					way = ">" + w.Next
				}
				ways = append(ways, way)
			}
			text += "(" + strings.Join(ways, "|") + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

func outlined(t *testing.T, text string) ([]outlineStep, *outline) {
	t.Helper()
	d, err := define(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	v := &visit{chosen: preferences{Language: "en"}}
	o := v.newOutline(journeyHead{Definition: d, At: "/journeys/jrn_1"}, nil, nil)
	return o.whole(d), o
}

// Every node stands in the outline once, and ways that meet again go on in the list above.
func TestOutline(t *testing.T) {
	t.Parallel()
	for want, nodes := range map[string]string{
		"a b x":              `{"id":"a","type":"delay","next":"b"},{"id":"b","type":"touchpoint","next":"x"},{"id":"x","type":"exit"}`,
		"a(end)":             `{"id":"a","type":"touchpoint"}`,
		"a(b(>c)|) c(end)":   `{"id":"a","type":"branch","cases":[{"when":"true","next":"b"}],"otherwise":"c"},{"id":"b","type":"delay","next":"c"},{"id":"c","type":"delay"}`,
		"a(|>c) b c":         `{"id":"a","type":"branch","cases":[{"when":"true","next":"b"}],"otherwise":"c"},{"id":"b","type":"delay","next":"c"},{"id":"c","type":"exit"}`,
		"a(b(>d)|c(>d)) d":   `{"id":"a","type":"split","arms":[{"weight":1,"next":"b"},{"weight":1,"next":"c"}]},{"id":"b","type":"delay","next":"d"},{"id":"c","type":"delay","next":"d"},{"id":"d","type":"exit"}`,
		"a b(>a)":            `{"id":"a","type":"touchpoint","next":"b"},{"id":"b","type":"delay","next":"a"}`,
		"a(|>x) b x":         `{"id":"a","type":"touchpoint","next":"b","onFailure":"x"},{"id":"b","type":"delay","next":"x"},{"id":"x","type":"exit"}`,
		"a(b(end)|c(end))":   `{"id":"a","type":"branch","cases":[{"when":"true","next":"b"}],"otherwise":"c"},{"id":"b","type":"delay"},{"id":"c","type":"delay"}`,
		"a(end) y":           `{"id":"a","type":"delay","next":"gone"},{"id":"y","type":"exit"}`,
		"a(b(>x)|c(>y)) x y": `{"id":"a","type":"branch","cases":[{"when":"true","next":"b"}],"otherwise":"c"},{"id":"b","type":"delay","next":"x"},{"id":"c","type":"delay","next":"y"},{"id":"x","type":"exit"},{"id":"y","type":"exit"}`,
	} {
		steps, o := outlined(t, `{"start":"a","nodes":[`+nodes+`]}`)
		if strings.HasSuffix(want, "(end) y") {
			steps = append(steps, o.from("y", nil)...) // what nothing leads to
		}
		if got := drawn(steps); got != want {
			t.Errorf("%s: %s, want %s", nodes, got, want)
		}
	}
}

// Ways that meet at one node, or end the journey, have each its own count.
func TestOutlineCounts(t *testing.T) {
	t.Parallel()
	var d definition
	if err := json.Unmarshal([]byte(`{"start":"w","nodes":[{"id":"w","type":"waitForEvent","event":"nb","timeout":"1s","next":"b","onTimeout":"b"},
		{"id":"b","type":"branch","cases":[{"when":"a","next":"end"},{"when":"b"}],"otherwise":"end"},
		{"id":"end","type":"waitForEvent","events":[{"event":"x"},{"event":"x","when":"y"}],"timeout":"1h"}]}`), &d); err != nil {
		t.Fatal(err)
	}
	var c counts
	if err := json.Unmarshal([]byte(`{"nodes":[{"nodeId":"w","entered":6,"edges":[{"next":"b","way":"next","count":2},{"next":"b","way":"onTimeout","count":4}],"ends":[]},
		{"nodeId":"b","entered":6,"edges":[{"next":"end","way":"case:0","count":1},{"next":"end","way":"otherwise","count":2}],"ends":[{"way":"case:1","count":3}]},
		{"nodeId":"end","entered":3,"edges":[],"ends":[{"way":"event:x","count":2},{"way":"onTimeout","count":1}]}]}`), &c); err != nil {
		t.Fatal(err)
	}
	v := &visit{chosen: preferences{Language: "en"}}
	var counted []string
	for _, s := range v.newOutline(journeyHead{Definition: d, Counts: c, At: "/journeys/jrn_1"}, nil, nil).whole(d) {
		for _, w := range s.Ways {
			counted = append(counted, fmt.Sprintf("%s %s %d", s.ID, w.Name, w.Count))
		}
	}
	want := "w next 2, w onTimeout 4, b case:0 1, b case:1 3, b otherwise 2, end event:x 2, end onTimeout 1"
	if got := strings.Join(counted, ", "); got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
}

// A definition of the largest size, in which every node leads to every later one, takes no time.
func TestOutlineLarge(t *testing.T) {
	t.Parallel()
	const n = 200
	var nodes []string
	for i := range n {
		var cases []string
		for j := i + 1; j < min(i+50, n); j++ {
			cases = append(cases, fmt.Sprintf(`{"when":"true","next":"n%d"}`, j))
		}
		nodes = append(nodes, fmt.Sprintf(`{"id":"n%d","type":"branch","cases":[%s]}`, i, strings.Join(cases, ",")))
	}
	_, o := outlined(t, `{"start":"n0","nodes":[`+strings.Join(nodes, ",")+`]}`)
	if len(o.placed) != n {
		t.Errorf("%d nodes stand in the outline", len(o.placed))
	}
}

func TestShareOf(t *testing.T) {
	t.Parallel()
	for want, of := range map[string][2]int64{"": {0, 0}, "0%": {0, 9}, "<1%": {1, 1000}, ">99%": {999, 1000}, "100%": {5, 5}, "33%": {1, 3}} {
		if got := shareOf(of[0], of[1]); got != want {
			t.Errorf("%d of %d: %q, want %q", of[0], of[1], got, want)
		}
	}
}

func TestFileName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"Welcome": "Welcome", "../a\x00b": "..ab", "旅程": "旅程", `"<>|`: "journey", "a\u202eb": "ab", strings.Repeat("x", 300): strings.Repeat("x", 80)} {
		if got := fileName(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
