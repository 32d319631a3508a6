package journey

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"waypost/journey/nodes"
)

// Each type of nodes is in nodes.All, in a file of its own, and has what is done at it if it does not just pass.
func TestKinds(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("nodes/*.go")
	if err != nil {
		t.Fatal(err)
	}
	described := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		described += strings.Count(string(text), " = Type{\n")
	}
	if described != len(nodes.All) {
		t.Errorf("nodes.All has %d types, the files of nodes describe %d", len(nodes.All), described)
	}
	for name := range nodeKinds {
		if nodes.Of(string(name)).Name == "" {
			t.Errorf("nodes.All has no %s", name)
		}
	}
	for _, kind := range nodes.All {
		if slices.ContainsFunc(nodes.All, func(other *nodes.Type) bool { return other != kind && other.Name == kind.Name }) {
			t.Errorf("%s is twice in nodes.All", kind.Name)
		}
		_, does := nodeKinds[NodeType(kind.Name)]
		if passes := kind.Enters == nodes.PhaseDecide && kind.Waits == "" && !kind.Acts; !does && !passes && kind.Enters != nodes.PhaseDone {
			t.Errorf("kind.go has nothing that is done at a %s", kind.Name)
		}
		for _, m := range kind.Members {
			if nodeFields[m.Name] == nil {
				t.Errorf("Node has no member %s, which a %s may have", m.Name, kind.Name)
			}
		}
	}
}

// Every example of a type can be published, and all examples of a type together have all of its members but the ways on.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, kind := range nodes.All {
		var missing []string
		for _, m := range kind.Members {
			if m.Kind != nodes.Way && m.Kind != nodes.Object {
				missing = append(missing, m.Name)
			}
		}
		if len(kind.Examples) == 0 {
			t.Errorf("%s has no example", kind.Name)
		}
		for _, example := range kind.Examples {
			var node map[string]any
			if err := json.Unmarshal([]byte(example), &node); err != nil {
				t.Fatalf("%s: %v: %s", kind.Name, err, example)
			}
			missing = slices.DeleteFunc(missing, func(member string) bool { return node[member] != nil })
			node["id"], node["type"] = "n", kind.Name
			all := []any{node}
			if node["lead"] != nil {
				node["onMissed"], all = "end", append(all, map[string]any{"id": "end", "type": "exit"})
			}
			body, err := json.Marshal(map[string]any{"name": "x", "start": "n", "nodes": all})
			if err != nil {
				t.Fatal(err)
			}
			d, problems := Parse(body)
			if len(problems) == 0 {
				problems = d.Check(nil, nil)
			}
			if len(problems) > 0 {
				t.Errorf("%s: %v", body, problems)
			}
		}
		if len(missing) > 0 {
			t.Errorf("no example of %s has %s", kind.Name, strings.Join(missing, ", "))
		}
	}
}
