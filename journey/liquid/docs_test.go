package liquid

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestVocabulary holds what the console's editor completes against what there is; it does not
// complete # and tags that close.
func TestVocabulary(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../console/canvas/src/vocabulary.json")
	if err != nil {
		t.Fatal(err)
	}
	var offered struct{ Filters, Tags []string }
	if err := json.Unmarshal(data, &offered); err != nil {
		t.Fatal(err)
	}
	all := func(names []string) string {
		slices.Sort(names)
		return strings.Join(names, ", ")
	}
	if got, want := all(offered.Filters), sortedNames(filters); got != want {
		t.Errorf("the editor offers the filters\n%s\nthere are\n%s", got, want)
	}
	if got, want := "#, "+all(offered.Tags), sortedNames(tags, "comment", "doc", "raw", "else", "elsif", "when"); got != want {
		t.Errorf("the editor offers the tags\n%s\nthere are\n%s", got, want)
	}
}

// TestDocs holds the tables of the docs against what there is.
func TestDocs(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../docs/journeys.md")
	if err != nil {
		t.Fatal(err)
	}
	// names are those in code in one column of a table.
	names := func(head string, column int) string {
		_, rest, _ := strings.Cut(string(data), "\n| "+head+" | |\n")
		rows, _, _ := strings.Cut(rest, "\n\n")
		var all []string
		for row := range strings.SplitSeq(rows, "\n") {
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(strings.Split(row, "|")[column], -1) {
				all = append(all, m[1])
			}
		}
		slices.Sort(all)
		return strings.Join(slices.Compact(all), ", ")
	}
	if got, want := names("filters", 2), sortedNames(filters); got != want {
		t.Errorf("the docs list the filters\n%s\nthere are\n%s", got, want)
	}
	if got, want := names("tags", 1), sortedNames(tags, "comment", "doc", "raw", "else", "elsif", "when"); got != want {
		t.Errorf("the docs list the tags\n%s\nthere are\n%s", got, want)
	}
}
