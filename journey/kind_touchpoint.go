package journey

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"waypost"
)

type touchpoint struct{ passing }

// check checks that the webhook exists, if that is known, and that each param is a number or a
// template that compiles.
func (k touchpoint) check(c *checker, i int, n Node, path string) {
	k.passing.check(c, i, n, path)
	path += ".params"
	c.atMost(len(n.Params), n.limit("params"), path, "a touchpoint has at most %d params, not %d")
	for _, name := range slices.Sorted(maps.Keys(n.Params)) {
		at := path + "." + waypost.Clip(name, 64)
		if length := utf8.RuneCountInString(name); length < 1 || length > 64 {
			c.p.Add(waypost.DetailTooLong, at, "a param's name has 1 to 64 characters")
		}
		param := n.Params[name]
		if number, ok := param.Number(); ok {
			if len(number) > 64 {
				c.p.Add(waypost.DetailTooLong, at, "a number has at most 64 characters")
			}
			continue
		}
		text, ok := param.Text()
		if !ok {
			c.p.Add(waypost.DetailInvalidType, at, "must be a string or a number")
			continue
		}
		c.template(text, at)
	}
}

func (touchpoint) take(r *stepper, n Node, in Input) error {
	switch {
	case in.Kind == InputSent && in.Succeed:
		return r.leave(n, waypost.WhatSent, in.Reason, "delivered", n.next())
	case in.Kind == InputSent:
		return r.leave(n, waypost.WhatFailed, in.Reason, "failed", n.wayOr(waypost.WayOnFailure, n.OnFailure))
	case in.Kind == InputDeferred:
		r.record(n.ID, waypost.WhatDeferred, "", in.Reason)
		r.effect.Command = Command{Kind: CommandSend, Node: n.ID, Visit: r.s.Visit}
		return nil
	case in.Kind == InputSkipped:
		return r.leave(n, waypost.WhatSkipped, in.Reason, "skipped", n.next())
	}
	return r.unexpected(n, in)
}

func (touchpoint) answer(_ context.Context, s *simulation, n Node, _ Command) (Input, error) {
	return s.send(n)
}

// send decides a touchpoint.
func (s *simulation) send(n Node) (Input, error) {
	if until, quiet := QuietUntil(s.d.QuietHours(), s.facts.Lead, s.now); quiet {
		if !s.held {
			s.held = true
			return Input{Kind: InputDeferred, At: s.now, Reason: waypost.DeferQuietHours}, nil
		}
		if in := s.until(until, Input{}); in.Kind != "" || s.run.Limit != "" {
			return in, nil
		}
		s.now = until
	}
	if s.o.Unwanted != nil {
		if reason := s.o.Unwanted(n.Webhook, s.facts.Lead); reason != "" {
			return Input{Kind: InputSkipped, At: s.now, Reason: reason}, nil
		}
	}
	if c := s.d.FrequencyCap(); !s.o.NoFrequencyCap && !c.None() {
		since := s.now.Add(-time.Duration(c.Per))
		count := 0
		for _, at := range s.sent {
			if at.After(since) && !at.After(s.now) {
				count++
			}
		}
		if count >= c.Touchpoints {
			return Input{Kind: InputSkipped, At: s.now, Reason: waypost.SkipFrequencyCap}, nil
		}
	}
	result, ok := s.o.Outcomes[n.ID]
	if !ok {
		result = TouchpointResult{Succeed: true, HTTPStatus: 200}
	}
	result.Attempts = max(result.Attempts, 1)
	message := SimulatedTouchpoint{NodeID: n.ID, WebhookID: n.Webhook, Visit: s.state.Visit, At: s.now}
	reason := failureOf(result)
	if !s.o.quick {
		params, err := s.render(n)
		var refused *waypost.Error
		if errors.As(err, &refused) {
			message.Error, reason = refused.Message, waypost.ClassRender
			result = TouchpointResult{Message: refused.Message, Attempts: 1}
		} else if err != nil {
			return Input{}, err
		}
		message.Params = params
	}
	if message.Succeed = result.Succeed; message.Succeed { // what fails has no place in the cap
		s.sent = append(s.sent, s.now)
	}
	s.run.Touchpoints = append(s.run.Touchpoints, message)
	s.facts.Touchpoints[n.ID] = result
	return Input{Kind: InputSent, At: s.now, Succeed: result.Succeed, Reason: reason}, nil
}

// failureOf names why a message failed as deliveries do.
func failureOf(r TouchpointResult) string {
	switch {
	case r.Succeed:
		return ""
	case r.HTTPStatus == 0:
		return waypost.ClassNetwork
	case r.HTTPStatus == 200:
		return waypost.ClassSucceedFalse
	}
	return fmt.Sprintf("%s %d", waypost.ClassHTTPStatus, r.HTTPStatus)
}

func (s *simulation) render(n Node) (map[string]any, error) {
	var webhookParams map[string]any
	if s.o.WebhookParams != nil {
		webhookParams = s.o.WebhookParams(n.Webhook)
	}
	facts := s.facts
	facts.Now = s.now
	params, err := s.d.Render(n.ID, webhookParams, facts)
	for _, v := range params {
		if text, ok := v.(string); ok {
			s.rendered += len(text)
		}
	}
	if s.rendered > MaxSimulated {
		s.run.Limit = LimitSize
	}
	return params, err
}
