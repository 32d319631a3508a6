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
	return kindOf(node.Type).answer(ctx, s, node, c)
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
