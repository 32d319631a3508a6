package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/journey"
	"waypost/workflows"
)

// TestSimulationAgrees draws journeys with every type of node, leads, outcomes and
// events, and compares what a workflow makes of each with what Simulate says.
func TestSimulationAgrees(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	t.Run("drawn", func(t *testing.T) {
		for seed, one := range []struct {
			journeys, members int
		}{{18, 1}, {18, 1}, {10, 4}} {
			t.Run(fmt.Sprintf("%d of %d leads, seed %d", one.journeys, one.members, seed), func(t *testing.T) {
				t.Parallel()
				d := drawing{Rand: rand.New(rand.NewPCG(uint64(seed), 6)), cohort: one.members > 1, seen: map[string]int{}}
				w := newWorld(t, func(h *waypost.Webhook) {
					h.Retry.Schedule, h.Retry.Jitter = []waypost.Duration{waypost.Duration(time.Second)}, 0
				})
				d.target = w.publish(strings.Replace(oneTouchpoint, `"start"`, `"reentry":{"policy":"always"},"start"`, 1)).JourneyID
				for n := range one.journeys {
					if d.compare(t, w, n, one.members); t.Failed() {
						return
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for what, n := range d.seen {
					seen[what] += n
				}
			})
		}
	})
	// What was drawn goes everywhere.
	for _, what := range []string{
		"touchpoint delivered", "touchpoint failed", "touchpoint skipped", "delay waited", "waitUntil waited", "waitUntil skipped",
		"waitForEvent matched", "waitForEvent timedOut", "branch case 1", "branch otherwise", "split arm 1", "split arm 2", "enroll enrolled",
		"exit exited", "deferred quietHours", "skipped frequencyCap", "completed", "exited",
	} {
		if seen[what] == 0 && !t.Failed() {
			t.Errorf("nothing came to %q: %v", what, seen)
		}
	}
}

// drawing draws journeys and what happens to their leads.
type drawing struct {
	*rand.Rand
	// cohort leaves out what ends at other times in cohorts: delays, and waits for
	// events, which are rounded.
	cohort bool
	target string         // the journey of enroll nodes
	seen   map[string]int // what came of nodes and enrollments
}

func pick[T any](d *drawing, of ...T) T { return of[d.IntN(len(of))] }

// definition draws a journey: each node leads to later ones, and a wait for an event
// that has come leads back, which it does once for each event.
func (d *drawing) definition() string {
	count := 2 + d.IntN(8)
	var nodes []map[string]any
	var touchpoints []string
	for i := range count {
		later := func() string { return fmt.Sprint("n", i+1+d.IntN(count-i)) }
		n := map[string]any{"id": fmt.Sprint("n", i), "next": fmt.Sprint("n", i+1)}
		types := []string{"touchpoint", "touchpoint", "touchpoint", "touchpoint", "waitUntil", "branch", "split", "enroll"}
		if !d.cohort {
			types = append(types, "delay", "waitForEvent", "waitForEvent")
		}
		n["type"] = pick(d, types...)
		switch n["type"] {
		case "touchpoint":
			n["webhook"], n["params"] = "WEBHOOK", map[string]any{"text": pick(d, "x", "Hi {{ lead.name }}", "{{ touchpoints.n0.message }}")}
			if d.IntN(2) == 0 {
				n["onFailure"] = later()
			}
			touchpoints = append(touchpoints, n["id"].(string))
		case "delay":
			n["for"] = pick(d, "17m", "25h", "P3D")
		case "waitUntil":
			n["timezone"] = pick(d, "", "Asia/Kathmandu", "America/New_York")
			if d.IntN(2) == 0 {
				n["lead"], n["offset"] = pick(d, "birthday", "createdAt", "customFields.renewalDate", "customFields.none"), pick(d, "-72h", "0s", "48h")
			}
			if n["lead"] == nil || d.IntN(2) == 0 {
				n["time"] = pick(d, "00:00", "09:30", "18:15")
			}
			if d.IntN(2) == 0 {
				n["weekdays"] = pick(d, []string{"mon"}, []string{"tue", "sat"})
			}
		case "waitForEvent":
			n["event"], n["timeout"] = pick(d, "purchase", "login"), pick(d, "5h", "49h")
			if d.IntN(2) == 0 {
				n["when"] = "event.amount > 100"
			}
			if d.IntN(3) == 0 {
				n["since"] = "enrollment"
			}
			if d.IntN(3) == 0 {
				n["onTimeout"], n["next"] = n["next"], fmt.Sprint("n", d.IntN(i+1))
			}
		case "split":
			delete(n, "next")
			n["arms"] = []any{map[string]any{"weight": 1, "next": fmt.Sprint("n", i+1)}, map[string]any{"weight": 2, "next": later()}, map[string]any{"weight": 1}}
		case "branch":
			delete(n, "next")
			when := pick(d, "lead.gender == 1", "lead.customFields.score > 5", "lead.customFields.none.x == 1", "enrollment.params.none")
			if len(touchpoints) > 0 && d.IntN(2) == 0 {
				when = "touchpoints." + pick(d, touchpoints...) + pick(d, ".succeed", ".attempts > 1", ".httpStatus == 404")
			}
			n["cases"] = []any{map[string]any{"when": when, "next": later()}, map[string]any{"when": "lead.customFields.score > 2", "next": later()}}
			n["otherwise"] = fmt.Sprint("n", i+1)
		case "enroll":
			n["journey"] = d.target
		}
		nodes = append(nodes, n)
	}
	nodes = append(nodes, map[string]any{"id": fmt.Sprint("n", count), "type": "exit"})
	definition := map[string]any{"name": "Drawn", "start": "n0", "nodes": nodes}
	if d.IntN(3) == 0 {
		definition["exitOn"] = []any{map[string]any{"event": "unsubscribed"}}
	}
	if d.IntN(2) == 0 {
		definition["quietHours"] = map[string]any{"from": pick(d, "14:00", "21:00"), "to": pick(d, "08:00", "13:00"), "timezone": "Asia/Shanghai"}
	}
	if d.IntN(2) == 0 {
		definition["frequencyCap"] = map[string]any{"touchpoints": 1 + d.IntN(2), "per": pick(d, "6h", "48h")}
	}
	text, err := json.Marshal(definition)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (d *drawing) lead() waypost.LeadFields {
	gender := int64(1 + d.IntN(2))
	birthday := pick(d, "1990-02-29", "2000-03-03", "1971-12-31")
	custom := map[string]any{"score": d.IntN(8), "timezone": pick(d, "", "Asia/Shanghai", "no zone")}
	if renewal := pick(d, "", "2027-01-01", "2030-06-15T12:00:00Z", "--04-01", "2020-01-01"); renewal != "" {
		custom["renewalDate"] = renewal
	}
	return waypost.LeadFields{Name: "Ada", Gender: &gender, Birthday: &birthday, CustomFields: custom}
}

// Outcomes of messages, by what the receiver answers.
const (
	accepted = iota
	refused
	notSucceeded
	acceptedLater
)

var outcomes = map[int]journey.TouchpointResult{
	accepted:      {Succeed: true, HTTPStatus: 200, Attempts: 1},
	refused:       {HTTPStatus: 404, Attempts: 1},
	notSucceeded:  {HTTPStatus: 200, Message: "no", Attempts: 1},
	acceptedLater: {Succeed: true, HTTPStatus: 200, Attempts: 2},
}

// compare runs one journey for some leads both ways.
func (d *drawing) compare(t *testing.T, w *world, n, members int) {
	ctx := context.Background()
	// Another day, at another time of it.
	w.newEnvironmentAt(w.env.Now().Add(time.Duration(20+d.IntN(30)) * 37 * time.Minute))
	w.register()
	start := w.env.Now().UTC()
	definition := strings.ReplaceAll(d.definition(), "WEBHOOK", w.webhook.ID)
	v := w.publish(definition)
	def, _ := journey.Parse([]byte(definition))

	answers := map[string]int{} // by lead and node
	var runs []journey.Run
	var enrolled []waypost.Enrollment
	for range members {
		lead, err := w.store.CreateLead(ctx, scope, d.lead(), nil)
		must(t, err)
		e := w.enter(v, lead.LeadsID)
		lead, err = w.store.Lead(ctx, scope, lead.LeadsID)
		must(t, err)
		o := journey.SimulateOptions{
			Start: start, Period: 20 * 365 * 24 * time.Hour, Outcomes: map[string]journey.TouchpointResult{},
			Facts: journey.Facts{Lead: lead, JourneyID: v.JourneyID, JourneyName: "Drawn", Version: 1, EnrollmentID: e.ID, Params: map[string]any{}},
		}
		for _, node := range def.Nodes() {
			answer := d.IntN(len(outcomes))
			o.Outcomes[node.ID] = outcomes[answer]
			answers[strconv.FormatInt(lead.LeadsID, 10)+"/"+node.ID] = answer
		}
		for i := range d.IntN(5) {
			// Never at the moment when something else happens.
			event := journey.SimulatedEvent{
				Name: pick(d, "purchase", "purchase", "login", "unsubscribed"), At: start.Add(time.Duration(1+d.IntN(120))*39*time.Minute + 21*time.Second),
				Properties: map[string]any{"amount": float64(pick(d, 50, 150))},
			}
			o.Events = append(o.Events, event)
			w.env.RegisterDelayedCallback(func() {
				_, err := w.store.AcceptEvent(ctx, scope, waypost.Event{
					EventID: fmt.Sprintf("evt-%d-%d-%d", n, lead.LeadsID, i), Name: event.Name, LeadsID: lead.LeadsID, Properties: event.Properties,
				})
				must(t, err)
				w.tell()
			}, event.At.Sub(start))
		}
		run, err := journey.Simulate(ctx, def, o)
		must(t, err)
		if run.Limit != "" {
			t.Fatalf("the simulation stopped for its limit of %s: %s", run.Limit, definition)
		}
		runs, enrolled = append(runs, run), append(enrolled, e)
	}
	w.receiver.script = func(m waypost.Message, attempt int) answer {
		node := m.JourneyInfo.ActionDefID[strings.LastIndex(m.JourneyInfo.ActionDefID, "/")+1:]
		switch answers[m.UserProfile.AffID+"/"+node] {
		case refused:
			return answer{status: 404}
		case notSucceeded:
			return answer{status: 200, body: `{"succeed":false,"message":"no"}`}
		case acceptedLater:
			if attempt == 1 {
				return answer{status: 503}
			}
		}
		return answer{status: 200}
	}
	w.next = w.cohortOf(v)
	result := w.run()
	for i, run := range runs {
		for _, step := range run.Path {
			d.seen[string(step.Type)+" "+step.Result]++
		}
		for _, entry := range run.Timeline {
			if entry.What == waypost.WhatDeferred || entry.What == waypost.WhatSkipped {
				d.seen[entry.What+" "+entry.Reason]++
			}
		}
		d.seen[string(run.Status)]++
		e, timeline, err := w.store.Enrollment(ctx, scope, enrolled[i].ID)
		must(t, err)
		if e.Status != run.Status {
			t.Errorf("journey %d: the enrollment is %s, the simulated one %s", n, e.Status, run.Status)
		}
		got, want := story(timeline, start), story(run.Timeline, start)
		if difference := differs(timeline, run.Timeline); difference != "" || members == 1 && !samePath(result, run) {
			t.Errorf("journey %d, lead %d: %s\nworkflow:\n%s\nsimulation:\n%s\nof %s", n, i, difference, got, want, definition)
		}
	}
}

// cohortOf claims the enrollments of a journey, and leaves those that others made to
// nobody.
func (w *world) cohortOf(v waypost.JourneyVersion) *waypost.Cohort {
	w.t.Helper()
	for {
		cohort, err := w.store.ClaimCohort(context.Background())
		must(w.t, err)
		if cohort == nil || cohort.Version.JourneyID == v.JourneyID {
			return cohort
		}
	}
}

// samePath compares the path in a workflow's result, of which the last visits are
// kept.
func samePath(result workflows.JourneyResult, run journey.Run) bool {
	steps := run.Path
	if run.Status == waypost.EnrollmentExited { // the node that it was at is not passed
		steps = steps[:len(steps)-1]
	}
	steps = steps[max(0, len(steps)-journey.MaxPath):]
	if len(result.Path) != len(steps) {
		return false
	}
	for i, step := range steps {
		if (workflows.PathStep{Node: step.NodeID, Result: step.Result}) != result.Path[i] {
			return false
		}
	}
	return true
}

// What a simulation does not know: instants to the second, as messages take their
// time, and who was enrolled as what.
var (
	instant    = regexp.MustCompile(`until \S+`)
	enrollment = regexp.MustCompile(`: enr_\S+`)
)

const slack = 30 * time.Second

func differs(got, want []waypost.TimelineEntry) string {
	for i := range min(len(got), len(want)) {
		g, w := got[i], want[i]
		if late := g.At.Sub(w.At); late < 0 || late > slack {
			return fmt.Sprintf("entry %d is of %s later than simulated", i+1, late)
		}
		g.At, w.At = time.Time{}, time.Time{}
		if g.Seq == 0 { // what an event ended is derived
			w.Seq = 0
		}
		g.Reason = enrollment.ReplaceAllString(instant.ReplaceAllString(g.Reason, "until"), "")
		w.Reason = instant.ReplaceAllString(w.Reason, "until")
		if g != w {
			return fmt.Sprintf("entry %d is %+v, want %+v", i+1, g, w)
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d entries, want %d", len(got), len(want))
	}
	return ""
}

func story(timeline []waypost.TimelineEntry, start time.Time) string {
	var b strings.Builder
	for _, e := range timeline {
		fmt.Fprintf(&b, "%12s %s %s %s (%s)\n", e.At.Sub(start), e.NodeID, e.What, e.Next, e.Reason)
	}
	return b.String()
}
