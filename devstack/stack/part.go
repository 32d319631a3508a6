package stack

import (
	"fmt"
	"slices"
	"strings"
)

// Part is a part of the stack that can be left out.
type Part string

// The parts.
const (
	Temporal Part = "temporal" // server, Web UI and codec endpoint
	Redis    Part = "redis"
	Receiver Part = "receiver"
	Gateway  Part = "gateway"
	Worker   Part = "worker"
)

// Parts lists all parts in the order in which they start.
var Parts = []Part{Temporal, Redis, Receiver, Gateway, Worker}

// ParseParts reads the value of --only; none means all.
func ParseParts(names []string) ([]Part, error) {
	if len(names) == 0 {
		return Parts, nil
	}
	var parts []Part
	for _, name := range names {
		p := Part(strings.TrimSpace(name))
		if !slices.Contains(Parts, p) {
			return nil, fmt.Errorf("--only: there is no part %q; the parts are %s", name, partNames())
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func partNames() string {
	names := make([]string, len(Parts))
	for i, p := range Parts {
		names[i] = string(p)
	}
	return strings.Join(names, ", ")
}
