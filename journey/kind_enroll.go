package journey

import (
	"cmp"
	"context"

	"waypost"
)

type enroll struct{ passing }

func (enroll) take(r *stepper, n Node, in Input) error {
	if in.Kind != InputDecided {
		return r.unexpected(n, in)
	}
	result := "notEnrolled"
	if in.Succeed {
		result = "enrolled"
	}
	return r.leave(n, waypost.WhatTook, cmp.Or(in.Reason, result), result, n.next())
}

func (enroll) answer(_ context.Context, s *simulation, _ Node, _ Command) (Input, error) {
	return Input{Kind: InputDecided, At: s.now, Succeed: true}, nil
}
