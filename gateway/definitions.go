package gateway

import (
	"context"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"

	"waypost"
	"waypost/journey"
)

// maxDefinitions bounds the parsed definitions that are kept, maxPublished the journeys
// whose published version is.
const maxDefinitions, maxPublished = 500, 10_000

// definitions keeps published definitions parsed: they never change.
type definitions = lru.Cache[versionKey, *journey.Definition]

type versionKey struct {
	journeyID string
	version   int
}

func newDefinitions() *definitions { return newKept[versionKey, *journey.Definition](maxDefinitions) }

// newKept makes a cache of size, which is more than 0.
func newKept[K comparable, V any](size int) *lru.Cache[K, V] {
	kept, _ := lru.New[K, V](size) // fails for a size below 1 only
	return kept
}

// definition returns a published version of a journey that was found in the
// scope.
func (a *server) definition(ctx context.Context, sc waypost.Scope, journeyID string, version int) (*journey.Definition, error) {
	key := versionKey{journeyID, version}
	if known, found := a.definitions.Get(key); found {
		return known, nil
	}
	v, err := a.Journeys.JourneyVersion(ctx, sc, journeyID, version)
	if err != nil {
		return nil, err
	}
	parsed, problems := journey.Parse(v.Definition)
	if len(problems) > 0 {
		return nil, &unreadable{key, problems}
	}
	a.definitions.Add(key, parsed)
	return parsed, nil
}

// unreadable is a version that was published and that this version of Waypost does not read.
type unreadable struct {
	versionKey
	problems waypost.Problems
}

func (e *unreadable) Error() string {
	return fmt.Sprintf("journey %s version %d does not parse: %s", e.journeyID, e.version, e.problems[0].Message)
}
