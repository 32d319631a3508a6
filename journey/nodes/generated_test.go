package nodes

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

var write = flag.Bool("write", false, "write the files that are derived from the types of nodes")

// TestGenerated compares what is derived from the types of nodes with the files that have it.
func TestGenerated(t *testing.T) {
	t.Parallel()
	for _, file := range []struct {
		path string
		make func(t *testing.T, old string) string
	}{
		{"../../gateway/openapi.yaml", openAPI},
		{"../../docs/journeys.md", guide},
		{"../../docs/contract.md", contract},
		{"../../console/canvas/src/nodes.json", canvas},
	} {
		old, err := os.ReadFile(file.path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		made := file.make(t, string(old))
		if *write {
			if err := os.WriteFile(file.path, []byte(made), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if made != string(old) {
			t.Errorf("%s is not what the types of nodes say: run go generate ./journey/nodes", strings.TrimPrefix(file.path, "../../"))
		}
	}
}

// between replaces what stands in a text between the line with begin and the next line with end.
func between(t *testing.T, text, begin, end, made string) string {
	t.Helper()
	before, rest, found := strings.Cut(text, begin)
	line, rest, found2 := strings.Cut(rest, "\n")
	_, after, found3 := strings.Cut(rest, end)
	if !found || !found2 || !found3 {
		t.Fatalf("no lines %q and %q", begin, end)
	}
	indent := made[:len(made)-len(strings.TrimLeft(made, " "))]
	return before + begin + line + "\n" + made + indent + end + after
}

// table is a text with the table of types, each of which has a row.
func table(t *testing.T, old, head string, row func(*Type) string) string {
	t.Helper()
	for _, kind := range All {
		head += "| `" + kind.Name + "` | " + row(kind) + " |\n"
	}
	return between(t, old, "<!-- go generate ./journey/nodes", "<!-- to here -->", head)
}

func guide(t *testing.T, old string) string {
	t.Helper()
	return table(t, old, "| node | |\n| --- | --- |\n", func(kind *Type) string { return kind.Guide })
}

func contract(t *testing.T, old string) string {
	t.Helper()
	return table(t, old, "| `type` | members | |\n| --- | --- | --- |\n", func(kind *Type) string {
		return strings.TrimSpace(strings.Join(named(kind.Members), ", ") + " | " + kind.Rule)
	})
}

// named are members with their limits, as the table of docs/contract.md has them.
func named(members []Member) (names []string) {
	for _, m := range members {
		name, limit := "`"+m.Name+"`", span(m.Min, m.Max)
		switch {
		case m.Kind == Number:
			names = append(names, name+" "+limit)
			continue
		case m.Kind == Text && len(m.Values) == 1:
			name = "`" + m.Name + ": " + m.Values[0] + "`"
		case m.Kind == Choices:
			limit = ""
		case len(m.Of) > 0:
			limit = strings.TrimPrefix(limit+" of ", " of ") + strings.Join(named(m.Of), ", ")
		}
		if said := strings.Join(nonEmpty(limit, m.Also), "; "); said != "" {
			name += " (" + said + ")"
		}
		names = append(names, name)
	}
	return names
}

func nonEmpty(texts ...string) (some []string) {
	for _, text := range texts {
		if text != "" {
			some = append(some, text)
		}
	}
	return some
}

func span(least, most int) string {
	switch {
	case most == 0:
		return ""
	case least == 0:
		return "up to " + thousands(most)
	}
	return thousands(least) + " to " + thousands(most)
}

func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// canvas is what the console's editor reads: the names of members, and each type.
func canvas(t *testing.T, _ string) string {
	t.Helper()
	type member struct {
		Name     string `json:"name"`
		Kind     Kind   `json:"kind"`
		Required bool   `json:"required,omitzero"`
		Else     string `json:"else,omitzero"`
		With     string `json:"with,omitzero"`
		Way      string `json:"way,omitzero"`
		Max      int    `json:"max,omitzero"`
		Label    Words  `json:"label,omitzero"`
		Drawn    Words  `json:"drawn,omitzero"`
	}
	type described struct {
		Title    Words           `json:"title"`
		Hint     Words           `json:"hint"`
		Summary  Words           `json:"summary,omitzero"`
		Icon     string          `json:"icon"`
		Colour   Colour          `json:"colour"`
		Inserted json.RawMessage `json:"inserted"`
		Members  []member        `json:"members"`
	}
	types, names := object{}, object{}
	var below func(m Member)
	below = func(m Member) {
		if len(m.Of) == 0 {
			return
		}
		var of []string
		for _, inner := range m.Of {
			of = append(of, inner.Name)
			below(inner)
		}
		names = append(names, entry{m.Name, of})
	}
	for _, kind := range All {
		d := described{
			Title: kind.Title, Hint: kind.Hint, Summary: kind.Summary, Icon: kind.Icon, Colour: kind.Colour,
			Inserted: json.RawMessage(kind.Inserted), Members: []member{},
		}
		if kind.Inserted == "" {
			d.Inserted = json.RawMessage("{}")
		}
		all := []string{"id", "type", "label", "note"}
		for _, m := range kind.Members {
			d.Members = append(d.Members, member{m.Name, m.Kind, m.Required, m.Else, m.With, m.Way, m.Max, m.Label, m.Drawn})
			all = append(all, m.Name)
		}
		names, types = append(names, entry{kind.Name, all}), append(types, entry{kind.Name, d})
		for _, m := range kind.Members {
			below(m)
		}
	}
	text, err := json.MarshalIndent(object{{"names", Names(func(*Type) bool { return true })}, {"members", names}, {"types", types}}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

// object is an object of JSON whose members keep their order.
type (
	object []entry
	entry  struct {
		name  string
		value any
	}
)

func (o object) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	for i, e := range o {
		value, err := json.Marshal(e.value)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", e.name, err)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", e.name, value)
	}
	return []byte("{" + b.String() + "}"), nil
}
