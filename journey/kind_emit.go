package journey

import (
	"context"
	"maps"
	"slices"
	"unicode/utf8"

	"waypost"
)

type emit struct{ passing }

func (k emit) check(c *checker, i int, n Node, path string) {
	k.passing.check(c, i, n, path)
	path += ".properties"
	c.atMost(len(n.Properties), n.limit("properties"), path, "an event has at most %d properties, not %d")
	for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
		at := path + "." + waypost.Clip(name, 64)
		if name == "" || utf8.RuneCountInString(name) > 64 {
			c.p.Add(waypost.DetailTooLong, at, "a property's name has 1 to 64 characters")
		}
		c.templates(n.Properties[name].value, at)
	}
}

func (emit) take(r *stepper, n Node, in Input) error {
	return r.acted(n, in, waypost.WhatEmitted, "emitted")
}

func (emit) answer(_ context.Context, s *simulation, n Node, _ Command) (Input, error) {
	facts := s.facts
	facts.Now = s.now
	e, err := s.d.EventOf(n.ID, facts)
	if err == nil {
		s.events = append(s.events, &SimulatedEvent{Name: e.Name, At: s.now, Properties: e.Properties, own: true})
		s.order()
	}
	return s.effect(n, e.Properties, err)
}
