package main

import (
	"os"
	"regexp"
	"testing"

	"waypost/journey"
	"waypost/yamljson"
)

// The journeys of docs/journeys.md can be published as they stand.
func TestDocumentedJourneys(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/journeys.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) < 2 {
		t.Fatalf("the page has %d journeys", len(blocks))
	}
	for _, block := range blocks {
		body, err := yamljson.DefinitionToJSON(block[1])
		if err != nil {
			t.Fatal(err)
		}
		definition, problems := journey.Parse(body)
		if len(problems) == 0 {
			problems = definition.Check(func(string) bool { return true }, nil)
		}
		if len(problems) > 0 {
			t.Errorf("%v in\n%s", problems, block[1])
		}
	}
}
