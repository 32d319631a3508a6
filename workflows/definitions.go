package workflows

import (
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"

	"waypost/journey"
)

// published are the parsed definitions of the cohorts that start and run in this process, by
// what is written: most cohorts have the same few, and each would parse its own twice before
// its first message. 100 of the longest ones are 25 MiB as they are written.
var published, _ = lru.New[string, *journey.Definition](100) // fails for a size below 1 only

// definitionOf is the definition of a journey version. Only checked ones are published, so
// an error means that another build wrote it.
func definitionOf(journeyID string, version int, written []byte) (*journey.Definition, error) {
	if known, ok := published.Get(string(written)); ok {
		return known, nil
	}
	parsed, problems := journey.Parse(written)
	if err := problems.Err("definition"); err != nil {
		return nil, fmt.Errorf("read definition of journey %s/%d: %w", journeyID, version, err)
	}
	if known, ok, _ := published.PeekOrAdd(string(written), parsed); ok {
		return known, nil // another cohort was faster
	}
	return parsed, nil
}
