package journey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"waypost"
)

// Bounds of a simulation.
const (
	DefaultSteps  = 1000                     // inputs of the interpreter
	DefaultPeriod = 2 * 365 * 24 * time.Hour // of virtual time
	MaxSimulated  = 4 << 20                  // bytes of rendered params
)

// SimulateOptions say for which lead and how a journey is simulated.
type SimulateOptions struct {
	// Facts are about the lead and the enrollment that it would be. A copy of
	// Facts.Touchpoints, which were passed already, gets those of the simulation. Facts.Now
	// is not used: the virtual clock takes its place. To Facts.Record, which is empty if it is
	// nil, comes what the simulation does. Facts.Segments are the segments that it asks for; without
	// them the lead stays in those that it is in at the start.
	Facts Facts
	Start time.Time // when it enrolls
	// Events are what the lead will do, in any order. Those before Start never count.
	Events []SimulatedEvent
	// Outcomes are what the messages of touchpoints come to, by node id; without one
	// they succeed with status 200. Attempts are 1 where they are 0.
	Outcomes map[string]TouchpointResult
	// WebhookParams returns the params of a webhook, by its id; nil for none.
	WebhookParams func(webhookID string) map[string]any
	// Unwanted says why a touchpoint of a webhook must not be sent to the lead, "" if it may
	// be; nil if every one may be.
	Unwanted func(webhookID string, lead waypost.Lead) (reason string)
	// Sent are times at which the lead got touchpoints before, from any journey: they
	// count for the frequency cap. Touchpoints that were given up are not among them.
	Sent []time.Time
	// NoFrequencyCap simulates as if the definition had none.
	NoFrequencyCap bool
	// HeldOut says that the lead is in the control group: nothing happens but that its events
	// count for the goal.
	HeldOut bool
	// Winners are the arms that take everybody, by the ids of their splits.
	Winners map[string]int

	Steps  int           // DefaultSteps if 0
	Period time.Duration // of virtual time from Start on; DefaultPeriod if 0

	quick bool // params are not rendered: touchpoints go out without them
}

// SimulatedEvent is an event that a lead will have reported.
type SimulatedEvent struct {
	Name       string
	At         time.Time     // if it is zero, After counts
	After      time.Duration // from the start on
	Properties map[string]any

	own bool // an emit node's
}

// SimulatedLimit says why a simulation stopped before the journey had ended.
type SimulatedLimit string

// The limits of simulations.
const (
	LimitSteps  SimulatedLimit = "steps"
	LimitPeriod SimulatedLimit = "period"
	LimitSize   SimulatedLimit = "size" // of rendered params
)

// Run is one lead's simulated way through a journey. Its params hold personal data.
type Run struct {
	// Status is that of the enrollment when the simulation stopped, at At.
	Status waypost.EnrollmentStatus `json:"status"`
	At     time.Time                `json:"at"`
	// Limit is empty if the journey ended.
	Limit       SimulatedLimit          `json:"limit"`
	Path        []PathStep              `json:"path"`        // all nodes, in their order
	Timeline    []waypost.TimelineEntry `json:"timeline"`    // as an enrollment would have it
	Touchpoints []SimulatedTouchpoint   `json:"touchpoints"` // that went out, in their order
	Goal        *SimulatedGoal          `json:"goal"`        // nil: the journey has none
}

// SimulatedGoal is what the lead's events come to for the goal.
type SimulatedGoal struct {
	Until       time.Time      `json:"until"` // events after it do not count
	ConvertedAt time.Time      `json:"convertedAt,omitzero"`
	Worth       waypost.Amount `json:"worth"`
}

// PathStep is one visit to a node.
type PathStep struct {
	NodeID  string    `json:"nodeId"`
	Type    NodeType  `json:"type"`
	Visit   int       `json:"visit"`
	Entered time.Time `json:"enteredAt"`
	Left    time.Time `json:"leftAt,omitzero"` // zero if the simulation stopped there
	Result  string    `json:"result"`          // as Visit has it; "" if the simulation stopped there
	Reason  string    `json:"reason"`
	Next    string    `json:"next"` // "" if the journey ended there
	Way     string    `json:"way"`  // as TimelineEntry has it
	// Values are what an updateLead sets, as the body of a PATCH of the lead, or the properties
	// of the event that an emit stores. Nil of all others, and where that failed.
	Values map[string]any `json:"values"`
}

// SimulatedTouchpoint is a message that would have been sent.
type SimulatedTouchpoint struct {
	NodeID    string         `json:"nodeId"`
	WebhookID string         `json:"webhookId"`
	Visit     int            `json:"visit"`
	At        time.Time      `json:"at"`
	Succeed   bool           `json:"succeed"`
	Params    map[string]any `json:"params"` // rendered; null if that failed
	Error     string         `json:"error"`  // why the params could not be rendered; such a message is not sent
}

// Simulate runs a definition that Check accepts for one lead, with the same
// interpreter, conditions and templates as workflows do, on a virtual clock: it
// sends and enrolls nothing and reads no clock. Messages and decisions take no
// time, enroll nodes always enroll, nothing is paused or canceled, and webhooks
// hold nothing back. At one instant an exitOn event comes first, then an event that
// is waited for, then the end of a wait. The same arguments give the same run, as long
// as the libraries and the time zone database stay the same.
//
// It fails if ctx ends, without a start, and for a definition that cannot be run.
func Simulate(ctx context.Context, d *Definition, o SimulateOptions) (Run, error) {
	if o.Start.IsZero() {
		return Run{}, errors.New("simulate journey: there is no start time")
	}
	s := newSimulation(d, o)
	if o.HeldOut {
		s.run.Status = waypost.EnrollmentHeldOut
		s.run.Timeline = []waypost.TimelineEntry{{At: s.now, What: waypost.WhatExited, Reason: waypost.ReasonControlGroup, Version: o.Facts.Version}}
	} else {
		if err := s.walk(ctx); err != nil {
			return Run{}, fmt.Errorf("simulate journey: %w", err)
		}
		s.run.Status = s.state.EnrollmentStatus()
	}
	s.run.At = s.now
	err := s.goal(ctx)
	return s.run, err
}

// goal looks which events reach the goal, wherever the lead stood in the journey.
func (s *simulation) goal(ctx context.Context) error {
	goal, ok := s.d.Goal()
	if !ok {
		return nil
	}
	start := s.o.Start.UTC().Round(0)
	g := &SimulatedGoal{Until: start.Add(goal.Within)}
	s.run.Goal = g
	for _, e := range s.events {
		if e.Name != goal.Event || e.At.After(g.Until) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		facts := s.facts
		facts.Event, facts.Now = e.Properties, e.At
		yes, worth := s.d.Converts(facts)
		if !yes {
			continue
		}
		if g.Worth += worth; g.ConvertedAt.IsZero() {
			g.ConvertedAt = e.At
		}
	}
	return nil
}

// simulation is a run under way.
type simulation struct {
	d         *Definition
	o         SimulateOptions
	facts     Facts
	end       time.Time // of virtual time
	events    []*SimulatedEvent
	exits     *SimulatedEvent    // the first event that ends the journey; nil for none
	satisfied map[satisfied]bool // an event satisfies a node only once
	sent      []time.Time
	rendered  int // bytes
	asks      waypost.RecordNeeds

	now   time.Time
	state State
	held  bool // the touchpoint's deferral is in the timeline
	run   Run
}

// satisfied is an event that satisfied a wait at a node.
type satisfied struct {
	node  string
	event *SimulatedEvent
}

func newSimulation(d *Definition, o SimulateOptions) *simulation {
	s := &simulation{
		d: d, o: o, facts: o.Facts, sent: slices.Clone(o.Sent), now: o.Start.UTC().Round(0),
		satisfied: map[satisfied]bool{}, asks: d.AllNeeds(),
		run: Run{Path: []PathStep{}, Timeline: []waypost.TimelineEntry{}, Touchpoints: []SimulatedTouchpoint{}},
	}
	for _, rule := range o.Facts.Segments {
		s.asks.Add(rule.Needs(true))
	}
	s.end = s.now.Add(cmp.Or(o.Period, DefaultPeriod))
	s.facts.Touchpoints = map[string]TouchpointResult{}
	maps.Copy(s.facts.Touchpoints, o.Facts.Touchpoints)
	for _, e := range o.Events {
		if e.At.IsZero() {
			e.At = s.now.Add(e.After)
		}
		if e.At = e.At.UTC().Round(0); !e.At.Before(s.now) {
			s.events = append(s.events, &e)
		}
	}
	s.order()
	return s
}

// order puts the events into their order, and finds the first that ends the journey.
func (s *simulation) order() {
	slices.SortStableFunc(s.events, func(a, b *SimulatedEvent) int { return a.At.Compare(b.At) })
	exitOn := s.d.ExitOn()
	if first := slices.IndexFunc(s.events, func(e *SimulatedEvent) bool { return slices.Contains(exitOn, e.Name) }); first >= 0 {
		s.exits = s.events[first]
	}
}

// walk takes steps until the journey ends or a limit is reached.
func (s *simulation) walk(ctx context.Context) error {
	in := Input{Kind: InputStart, At: s.now}
	for steps := 1; s.run.Limit == ""; steps++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		command, err := s.step(in)
		if err != nil || command.Kind == "" {
			return err
		}
		if steps >= cmp.Or(s.o.Steps, DefaultSteps) {
			s.run.Limit = LimitSteps
			return nil
		}
		if in, err = s.answer(ctx, command); err != nil {
			return err
		}
	}
	return nil
}

// step feeds one input to the interpreter and records its effect.
func (s *simulation) step(in Input) (Command, error) {
	before := s.state
	after, effect, err := Step(s.d, before, in)
	if err != nil {
		return Command{}, err
	}
	s.state, s.now = after, in.At
	for _, e := range effect.Entries {
		e.Version = s.facts.Version
		s.run.Timeline = append(s.run.Timeline, e)
	}
	entered, done := after.Visit != before.Visit, after.Phase == PhaseDone
	if n := len(s.run.Path); n > 0 && (entered || done) {
		left := &s.run.Path[n-1]
		left.Left, left.Next, left.Way, left.Reason = in.At, effect.Entries[0].Next, effect.Entries[0].Way, effect.Entries[0].Reason
		switch passed := after.Path; {
		case in.Kind == InputExited:
			left.Result = "exited"
		case entered && done: // an exit node is the last one
			left.Result = passed[len(passed)-2].Result
		default:
			left.Result = passed[len(passed)-1].Result
		}
	}
	if entered {
		s.held = false
		node, _ := s.d.Node(after.Node)
		step := PathStep{NodeID: node.ID, Type: node.Type, Visit: after.Visit, Entered: in.At}
		if done {
			step.Left, step.Result = in.At, "exited"
		}
		s.run.Path = append(s.run.Path, step)
	}
	return effect.Command, nil
}

// answer carries out a command: it returns the next input, or sets a limit.
func (s *simulation) answer(ctx context.Context, c Command) (Input, error) {
	if in, ok := s.exit(s.now); ok {
		return in, nil
	}
	node, ok := s.d.Node(c.Node)
	if !ok {
		return Input{}, lacks(c.Node)
	}
	switch c.Kind {
	case CommandSend:
		return s.send(node)
	case CommandDecide:
		switch node.Type {
		case Enroll:
			return Input{Kind: InputDecided, At: s.now, Succeed: true}, nil
		case UpdateLead, Emit:
			return s.effect(node)
		}
		if arm, won := s.o.Winners[node.ID]; won && node.Type == Split {
			return WonAt(arm, s.now), nil
		}
		facts := s.facts
		facts.Record = facts.recordAt(context.Background(), s.record(s.now), s.now)
		return s.d.DecideAt(node.ID, facts, s.now)
	case CommandWait:
		return s.until(c.Until, Input{Kind: InputElapsed}), nil
	case CommandAwait:
		if node.Type == WaitFor {
			return s.watch(ctx, node, c.Until)
		}
		return s.await(ctx, node, c.Until)
	}
	return Input{}, fmt.Errorf("unknown command %q", c.Kind)
}

// exit returns the exit that an event brings by then.
func (s *simulation) exit(by time.Time) (Input, bool) {
	if s.exits == nil || s.exits.At.After(by) {
		return Input{}, false
	}
	return Input{Kind: InputExited, At: later(s.exits.At, s.now), Reason: "event " + s.exits.Name}, true
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// until returns the input of a time, unless an exit comes before or the simulation ends.
func (s *simulation) until(at time.Time, in Input) Input {
	if exit, ok := s.exit(at); ok {
		at, in = exit.At, exit
	}
	if at.After(s.end) {
		s.run.Limit, s.now = LimitPeriod, s.end
	}
	in.At = at
	return in
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

// record is what would be recorded of the lead by a time, as far as conditions ask for it.
func (s *simulation) record(at time.Time) *waypost.LeadRecord {
	if s.asks.None() {
		return nil
	}
	before := s.o.Facts.Record
	if before == nil {
		before = &waypost.LeadRecord{}
	}
	r := &waypost.LeadRecord{
		Events: map[string][]waypost.RecordedEvent{}, EventDays: map[string][]waypost.RecordedEvent{}, Ages: before.Ages, Entered: map[string]bool{s.facts.JourneyID: true}, Delivered: map[waypost.JourneyNode]bool{}, Segments: before.Segments,
	}
	maps.Copy(r.Entered, before.Entered)
	maps.Copy(r.Delivered, before.Delivered)
	for _, t := range s.run.Touchpoints {
		if t.Succeed {
			r.Delivered[waypost.JourneyNode{JourneyID: s.facts.JourneyID, NodeID: t.NodeID}] = true
		}
	}
	for _, need := range s.asks.Events {
		var events []waypost.RecordedEvent
		for _, e := range before.Events[need.Name] {
			if !e.At.After(s.o.Start) { // what came later is not what would come
				events = append(events, e)
			}
		}
		for _, e := range s.events {
			if e.Name == need.Name && !e.At.After(at) {
				properties := e.Properties
				if properties == nil {
					properties = map[string]any{}
				}
				events = append(events, waypost.RecordedEvent{At: e.At, Properties: properties})
			}
		}
		r.Events[need.Name] = events[max(0, len(events)-waypost.MaxRecordedEvents):]
		if days, known := before.EventDays[need.Name]; known {
			days = slices.Clone(days)
			for _, e := range s.events {
				if e.Name == need.Name && !e.At.After(at) {
					days = append(days, waypost.RecordedEvent{At: e.At})
				}
			}
			r.EventDays[need.Name] = days[max(0, len(days)-waypost.MaxRecordedEvents):]
		}
	}
	return r
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

// watch returns the input that ends a wait for a condition. It looks at once, when an event
// comes, when time alone makes it true, to the minute if the condition asks for now, and when the
// wait is over.
func (s *simulation) watch(ctx context.Context, n Node, until time.Time) (Input, error) {
	for at := s.now; ; {
		if err := ctx.Err(); err != nil {
			return Input{}, err
		}
		facts := s.facts
		facts.Now, facts.Record = at, facts.recordAt(ctx, s.record(at), at)
		yes, reason := s.d.Holds(n.ID, facts)
		if yes {
			return s.until(at, Input{Kind: InputMatched, Reason: reason}), nil
		}
		if !at.Before(until) || at.After(s.end) {
			return s.until(until, Input{Kind: InputElapsed, Reason: reason}), nil
		}
		next := until
		for _, e := range s.events {
			if e.At.After(at) {
				next = earlier(next, e.At)
				break
			}
		}
		tries := time.Duration(maxMoments)
		if s.o.quick {
			tries /= 10
		}
		look := newLookout(s.d.conditions[s.d.index[n.ID]]()[0], facts)
		if by := look.first(ctx, next, max(lookEvery, next.Sub(at)/tries)); !by.IsZero() {
			next = by
		}
		at = next
	}
}

// effect sets fields of the lead, or has an event come.
func (s *simulation) effect(n Node) (Input, error) {
	in := Input{Kind: InputDecided, At: s.now, Succeed: true, Reason: n.Effect()}
	facts := s.facts
	facts.Now = s.now
	var values map[string]any
	var err error
	if n.Type == Emit {
		var e waypost.Event
		if e, err = s.d.EventOf(n.ID, facts); err == nil {
			s.events = append(s.events, &SimulatedEvent{Name: e.Name, At: s.now, Properties: e.Properties, own: true})
			s.order()
			values = e.Properties
		}
	} else {
		values, err = s.set(n.ID, facts)
	}
	if reason, refused := EffectFault(err); refused {
		return Input{Kind: InputDecided, At: s.now, Reason: reason}, nil
	}
	s.run.Path[len(s.run.Path)-1].Values = values
	return in, err
}

// set sets fields of the lead, and returns them.
func (s *simulation) set(node string, facts Facts) (map[string]any, error) {
	values, err := s.d.leadFields(node, facts)
	if err != nil {
		return nil, err
	}
	patch, err := patchOf(values)
	if err != nil {
		return nil, err
	}
	fields, _, err := patch.Change(facts.Lead.LeadFields, "", s.now)
	if err != nil {
		return nil, err
	}
	s.facts.Lead.LeadFields, s.facts.Lead.UpdatedAt = fields, s.now
	return values, nil
}

// await returns the input that ends a wait for an event: the first event that satisfies
// the condition, or the time-out. It looks at events that came before at once.
func (s *simulation) await(ctx context.Context, n Node, until time.Time) (Input, error) {
	since := s.now
	if n.SinceEnrollment() {
		since = s.o.Start.UTC()
	}
	reason, awaits := "", n.Awaits()
	for _, e := range s.events {
		if !slices.Contains(awaits, e.Name) || e.At.Before(since) || e.At.After(until) || s.satisfied[satisfied{n.ID, e}] {
			continue
		}
		if e.own && !n.SinceEnrollment() { // it came before the lead came to the node
			continue
		}
		at := later(e.At, s.now)
		if err := ctx.Err(); err != nil {
			return Input{}, err
		}
		facts := s.facts
		facts.Event, facts.Now, facts.Record = e.Properties, at, facts.recordAt(ctx, s.record(at), at)
		which, why := s.d.Matches(n.ID, e.Name, facts)
		if which < 0 {
			reason = why
			continue
		}
		in := s.until(at, Input{Kind: InputMatched, Arm: which, Reason: why})
		if in.Kind == InputMatched {
			s.satisfied[satisfied{n.ID, e}] = true
		}
		return in, nil
	}
	return s.until(until, Input{Kind: InputElapsed, Reason: reason}), nil
}
