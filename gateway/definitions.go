package gateway

import (
	"context"
	"fmt"
	"sync"

	"waypost"
	"waypost/journey"
)

// maxDefinitions bounds the parsed definitions that are kept.
const maxDefinitions = 500

// definitions keeps published definitions parsed: they never change.
type definitions struct {
	mu     sync.Mutex
	parsed map[versionKey]*journey.Definition
}

type versionKey struct {
	journeyID string
	version   int
}

func newDefinitions() *definitions {
	return &definitions{parsed: map[versionKey]*journey.Definition{}}
}

// definition returns a published version of a journey that was found in the
// scope.
func (a *api) definition(ctx context.Context, sc waypost.Scope, journeyID string, version int) (*journey.Definition, error) {
	key := versionKey{journeyID, version}
	a.definitions.mu.Lock()
	known, found := a.definitions.parsed[key]
	a.definitions.mu.Unlock()
	if found {
		return known, nil
	}
	v, err := a.Journeys.JourneyVersion(ctx, sc, journeyID, version)
	if err != nil {
		return nil, err
	}
	parsed, problems := journey.Parse(v.Definition)
	if len(problems) > 0 {
		return nil, fmt.Errorf("journey %s version %d does not parse: %s", journeyID, version, problems[0].Message)
	}
	a.definitions.mu.Lock()
	defer a.definitions.mu.Unlock()
	if len(a.definitions.parsed) >= maxDefinitions {
		clear(a.definitions.parsed)
	}
	a.definitions.parsed[key] = parsed
	return parsed, nil
}
