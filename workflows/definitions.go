package workflows

import (
	"fmt"
	"sync"

	"waypost/journey"
)

// maxDefinitions bounds the definitions that a process keeps parsed, in bytes as they are
// written.
const maxDefinitions = 4 << 20

// published are the definitions of the cohorts that start and run here: most of them have
// the same few, and each would parse its own twice before its first message.
var published definitions

// definitions keeps parsed definitions by what is written.
type definitions struct {
	mu    sync.Mutex
	m     map[string]*journey.Definition
	bytes int
}

// definition is the definition of a journey version. Only checked ones are published, so
// an error means that another build wrote it.
func (d *definitions) definition(journeyID string, version int, written []byte) (*journey.Definition, error) {
	d.mu.Lock()
	known, ok := d.m[string(written)]
	d.mu.Unlock()
	if ok {
		return known, nil
	}
	parsed, problems := journey.Parse(written)
	if err := problems.Err("definition"); err != nil {
		return nil, fmt.Errorf("read definition of journey %s/%d: %w", journeyID, version, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.m[string(written)]; ok {
		return known, nil // somebody was faster
	}
	if d.bytes += len(written); d.m == nil || d.bytes > maxDefinitions {
		d.m, d.bytes = map[string]*journey.Definition{}, len(written)
	}
	d.m[string(written)] = parsed
	return parsed, nil
}
