package journey_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"waypost"
	"waypost/journey"
	"waypost/journey/nodes"
)

var update = flag.Bool("update", false, "write the .want files of testdata anew")

// TestTestdata runs every definition of testdata: valid_ ones have no problem,
// draft_ ones can be stored but not published, faulty_ ones cannot be parsed.
// The problems, all at once and with their paths, stand in the .want files, with TYPES for all
// types of nodes.
func TestTestdata(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) < 8 {
		t.Fatalf("found %d definitions, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, problems := journey.Parse(read(t, file))
			kind, _, _ := strings.Cut(name, "_")
			if (d == nil) != (kind == "faulty") || (len(problems) > 0) != (kind == "faulty") {
				t.Fatalf("Parse: definition %v, problems %v", d != nil, problems)
			}
			if d != nil {
				problems = d.Check(func(id string) bool { return id == "whk_1" || id == "whk_2" }, nil)
			}
			if kind == "valid" {
				if len(problems) > 0 {
					t.Fatalf("Check: %v", problems)
				}
				return
			}
			got := strings.ReplaceAll(list(problems), strings.Join(nodes.Names(func(*nodes.Type) bool { return true }), ", "), "TYPES")
			want := strings.TrimSuffix(file, ".json") + ".want"
			if *update {
				if err := os.WriteFile(want, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := string(read(t, want)); got != want {
				t.Errorf("problems:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func list(problems waypost.Problems) string {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "%s %s: %s\n", p.Code, p.Target, p.Message)
	}
	return b.String()
}

func read(t testing.TB, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
