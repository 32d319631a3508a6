package journey

import (
	"context"

	"waypost"
)

type delay struct{ passing }

func (delay) take(r *stepper, n Node, in Input) error {
	if in.Kind != InputElapsed {
		return r.unexpected(n, in)
	}
	return r.leave(n, waypost.WhatWaited, "", "waited", n.next())
}

func (delay) answer(_ context.Context, s *simulation, _ Node, c Command) (Input, error) {
	return s.until(c.Until, Input{Kind: InputElapsed}), nil
}
