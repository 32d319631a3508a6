package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/journey"
	"waypost/journey/nodes"
	"waypost/store/storetest"
	"waypost/workflows"
)

// TestSimulationAgrees draws journeys with every type of node, leads, outcomes and
// events, and compares what a workflow makes of each with what Simulate says. Some
// leads enter a second time.
func TestSimulationAgrees(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	t.Run("drawn", func(t *testing.T) {
		for seed, one := range []struct {
			journeys, members int
		}{{13, 1}, {13, 1}, {12, 4}} {
			t.Run(fmt.Sprintf("%d of %d leads, seed %d", one.journeys, one.members, seed), func(t *testing.T) {
				t.Parallel()
				d := drawing{Rand: rand.New(rand.NewPCG(uint64(seed), 10)), cohort: one.members > 1, t: t, seen: map[string]int{}}
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
					if d.cohort {
						seen["cohort: "+what] += n
					}
				}
			})
		}
	})
	t.Logf("what came of them: %v", seen)
	// What was drawn goes everywhere.
	for _, kind := range nodes.All {
		came := func(what string) bool { return strings.HasPrefix(what, kind.Name+" ") }
		if !t.Failed() && !slices.ContainsFunc(slices.Collect(maps.Keys(seen)), came) {
			t.Errorf("nobody came to a %s", kind.Name)
		}
	}
	for _, what := range []string{
		"touchpoint delivered", "touchpoint failed", "touchpoint skipped", "delay waited", "waitUntil waited", "waitUntil skipped",
		"waitForEvent matched", "waitForEvent event 1", "waitForEvent event 2", "waitForEvent timedOut", "branch case 1", "branch otherwise", "split arm 1", "split arm 2", "enroll enrolled",
		"updateLead updated", "updateLead failed", "emit emitted", "emit failed", "waitFor matched", "waitFor timedOut", "cohort: updateLead updated", "cohort: emit emitted",
		"exit exited", "deferred quietHours", "skipped frequencyCap", "completed", "exited", "entered again", "passed a node again",
		"failed render", "delivered after a failure", "cohort: failed render",
		"cohort: touchpoint failed", "cohort: deferred quietHours", "cohort: skipped frequencyCap", "cohort: completed", "cohort: exited",
		"cohort: entered again", "cohort: passed a node again", "cohort: branch otherwise", "cohort: split arm 2", "cohort: enroll enrolled", "cohort: waitUntil waited",
	} {
		if seen[what] == 0 && !t.Failed() {
			t.Errorf("nothing came to %q", what)
		}
	}
}

// drawing draws journeys and what happens to their leads.
type drawing struct {
	*rand.Rand
	// cohort leaves out what ends at other times in cohorts: delays, and waits for
	// events, which are rounded.
	cohort bool
	t      *testing.T
	target string         // the journey of enroll nodes
	seen   map[string]int // what came of nodes and enrollments
}

func pick[T any](d *drawing, of ...T) T { return of[d.IntN(len(of))] }

// back names the nodes that lead back until an event of exitOn comes.
const back = "back-"

// definition draws a journey: each node leads to later ones. A wait for an event that
// has come may lead back, which it does once for each event; and where an event ends
// the journey, so may a branch.
func (d *drawing) definition() string {
	count := 2 + d.IntN(8)
	var steps, loops []map[string]any
	exits := d.IntN(2) == 0
	var touchpoints []string
	for i := range count {
		later := func() string { return fmt.Sprint("n", i+1+d.IntN(count-i)) }
		n := map[string]any{"id": fmt.Sprint("n", i), "label": fmt.Sprint("Step ", i), "next": fmt.Sprint("n", i+1)}
		n["type"] = pick(d, d.types()...)
		switch n["type"] {
		default:
			must(d.t, json.Unmarshal([]byte(pick(d, nodes.Of(n["type"].(string)).Examples...)), &n))
		case "touchpoint":
			touchpoints = append(touchpoints, n["id"].(string))
			n["webhook"], n["params"] = "WEBHOOK", map[string]any{"text": pick(d, "x", "Hi {{ lead.name }}", "{{ touchpoints."+touchpoints[0]+".message }}", "{{ 1 | divided_by: lead.customFields.none }}")}
			if d.IntN(2) == 0 {
				n["onFailure"] = later()
			}
		case "delay":
			n["for"] = pick(d, "17m", "25h", "P3D")
		case "waitUntil":
			n["timezone"] = pick(d, "", "Asia/Kathmandu", "America/New_York")
			if d.IntN(2) == 0 {
				n["lead"], n["offset"] = pick(d, "birthday", "createdAt", "customFields.renewalDate", "customFields.none"), pick(d, "-72h", "0s", "48h")
				if n["lead"] != "birthday" || d.IntN(2) == 0 {
					n["onMissed"] = later()
				}
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
			if d.IntN(2) == 0 {
				n["onTimeout"], n["next"] = n["next"], fmt.Sprint("n", d.IntN(i+1))
				delete(n, "since") // an emit on the way back would satisfy it at once
			}
			if d.IntN(2) == 0 {
				n["events"] = []any{map[string]any{"event": n["event"], "when": "event.amount > 100", "next": n["next"]}, map[string]any{"event": pick(d, "purchase", "login"), "next": later()}}
				n["onTimeout"] = fmt.Sprint("n", i+1)
				delete(n, "event")
				delete(n, "when")
				delete(n, "next")
			}
		case "waitFor":
			n["when"], n["timeout"] = pick(d, "lead.customFields.score > 4", "lead.gender == 1", "lead.customFields.none > 1"), pick(d, "7h", "50h")
			if d.IntN(2) == 0 {
				n["onTimeout"] = later()
			}
		case "updateLead":
			n["set"] = pick(d, map[string]any{"customFields.score": "{{ lead.customFields.score | plus: 1 }}", "remark": "{{ lead.name }}"}, map[string]any{"gender": "{{ lead.customFields.score }}"})
			n["onFailure"] = later()
		case "emit":
			n["event"] = pick(d, "purchase", "login")
			n["properties"] = map[string]any{"amount": pick(d, "{{ lead.customFields.score | times: 30 }}", "{{ 1 | divided_by: lead.customFields.none }}")}
			n["onFailure"] = later()
		case "split":
			delete(n, "next")
			n["arms"] = []any{map[string]any{"weight": 1, "next": fmt.Sprint("n", i+1)}, map[string]any{"weight": 2, "next": later()}, map[string]any{"weight": 1}}
		case "branch":
			delete(n, "next")
			when := pick(d, "lead.gender == 1", "lead.customFields.score > 5", "lead.customFields.none.x == 1", "enrollment.params.none", "today.getDayOfWeek() > 2 && now >= today")
			if len(touchpoints) > 0 && d.IntN(2) == 0 {
				when = "touchpoints." + pick(d, touchpoints...) + pick(d, ".succeed", ".attempts > 1", ".httpStatus == 404")
			}
			second := later()
			if exits {
				second = fmt.Sprint(back, i)
				loops = append(loops, map[string]any{"id": second, "type": "waitUntil", "time": pick(d, "09:00", "13:30"), "next": fmt.Sprint("n", d.IntN(i+1))})
			}
			n["cases"] = []any{map[string]any{"when": when, "next": later()}, map[string]any{"when": "lead.customFields.score > 2", "next": second}}
			n["otherwise"] = fmt.Sprint("n", i+1)
		case "enroll":
			n["journey"] = d.target
		}
		steps = append(steps, n)
	}
	steps = append(append(steps, map[string]any{"id": fmt.Sprint("n", count), "type": "exit"}), loops...)
	definition := map[string]any{"name": "Drawn", "description": "Not in the workflow's input.", "start": "n0", "nodes": steps}
	if exits {
		definition["exitOn"] = []any{map[string]any{"event": "unsubscribed"}}
	}
	if d.IntN(2) == 0 {
		definition["quietHours"] = map[string]any{"from": pick(d, "14:00", "21:00"), "to": pick(d, "08:00", "13:00"), "timezone": "Asia/Shanghai"}
	}
	if d.IntN(2) == 0 {
		definition["frequencyCap"] = map[string]any{"touchpoints": 1 + d.IntN(2), "per": pick(d, "6h", "48h", "48h", "P90D")}
	}
	text, err := json.Marshal(definition)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// types are those of all nodes but exits, some of them more than once. Their order belongs to the seeds.
func (d *drawing) types() []string {
	types := []string{"touchpoint", "touchpoint", "touchpoint", "touchpoint", "waitUntil", "branch", "split", "enroll", "updateLead", "emit"}
	if d.cohort {
		types = append(types, "waitUntil")
	} else {
		types = append(types, "delay", "waitForEvent", "waitForEvent", "waitFor")
	}
	for _, t := range nodes.All {
		rounded := d.cohort && t.Waits != "" && t.Waits != nodes.ForClock
		if t.Enters != nodes.PhaseDone && !rounded && !slices.Contains(types, t.Name) {
			types = append(types, t.Name)
		}
	}
	return types
}

func (d *drawing) lead() waypost.LeadFields {
	gender := int64(1 + d.IntN(2))
	birthday := pick(d, "1990-02-29", "2000-03-03", "1971-12-31")
	custom := map[string]any{"score": d.IntN(8), "timezone": pick(d, "", "America/New_York", "no zone")}
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

// entrant is a lead with what it was sent before.
type entrant struct {
	leadsID int64
	sent    []time.Time
}

// compare runs one journey for some leads both ways, and sometimes again: what they
// got counts for the frequency cap.
func (d *drawing) compare(t *testing.T, w *world, n, members int) {
	definition := strings.ReplaceAll(d.definition(), "WEBHOOK", w.webhook.ID)
	v := w.publish(definition)
	entrants := make([]entrant, members)
	for i := range entrants {
		lead, err := w.store.CreateLead(context.Background(), scope, d.lead(), nil)
		must(t, err)
		entrants[i].leadsID = lead.LeadsID
	}
	d.enter(t, w, v, entrants, fmt.Sprint(n))
	if d.IntN(3) == 0 {
		d.seen["entered again"] += members
		d.enter(t, w, v, entrants, fmt.Sprint(n, " again"))
	}
}

// enter has leads go through a journey both ways.
func (d *drawing) enter(t *testing.T, w *world, v waypost.JourneyVersion, entrants []entrant, name string) {
	ctx := context.Background()
	// Another day, at another time of it.
	w.newEnvironmentAt(w.env.Now().Add(time.Duration(20+d.IntN(30)) * 37 * time.Minute).Truncate(time.Millisecond))
	w.register()
	start := w.env.Now().UTC()
	def, _ := journey.Parse(v.Definition)

	answers := map[string]int{} // by lead and node
	var runs []journey.Run
	var enrolled []waypost.Enrollment
	for who := range entrants {
		of := &entrants[who]
		e := w.enter(v, of.leadsID)
		lead, err := w.store.Lead(ctx, scope, of.leadsID)
		must(t, err)
		o := journey.SimulateOptions{
			Start: start, Period: 20 * 365 * 24 * time.Hour, Outcomes: map[string]journey.TouchpointResult{}, Sent: of.sent,
			Facts: journey.Facts{Lead: lead, JourneyID: v.JourneyID, JourneyName: "Drawn", Version: 1, EnrollmentID: e.ID, Params: map[string]any{}},
		}
		for _, node := range def.Nodes() {
			answer := d.IntN(len(outcomes))
			o.Outcomes[node.ID] = outcomes[answer]
			answers[strconv.FormatInt(lead.LeadsID, 10)+"/"+node.ID] = answer
		}
		for i := range 1 + d.IntN(6) {
			// Never at the moment when something else happens.
			event := journey.SimulatedEvent{
				Name: pick(d, "purchase", "purchase", "login", "unsubscribed"), At: start.Add(time.Duration(1+d.IntN(120))*39*time.Minute + 21*time.Second),
				Properties: map[string]any{"amount": float64(pick(d, 50, 150))},
			}
			if i == 0 && strings.Contains(string(v.Definition), back) {
				event.Name = "unsubscribed" // or it would go on for ever
			}
			o.Events = append(o.Events, event)
			w.env.RegisterDelayedCallback(func() {
				_, err := w.store.AcceptEvent(ctx, scope, waypost.Event{
					EventID: fmt.Sprintf("evt-%s-%d-%d", name, lead.LeadsID, i), Name: event.Name, LeadsID: lead.LeadsID, Properties: event.Properties,
				})
				must(t, err)
				w.tell()
			}, event.At.Sub(start))
		}
		run, err := journey.Simulate(ctx, def, o)
		must(t, err)
		if run.Limit != "" {
			t.Fatalf("the simulation stopped for its limit of %s: %s", run.Limit, v.Definition)
		}
		for _, m := range run.Touchpoints {
			if m.Succeed {
				of.sent = append(of.sent, m.At)
			}
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
		d.count(run)
		e, timeline, err := w.store.Enrollment(ctx, scope, enrolled[i].ID)
		must(t, err)
		if e.Status != run.Status {
			t.Errorf("journey %s: the enrollment is %s, the simulated one %s", name, e.Status, run.Status)
		}
		got, want := story(timeline, start), story(run.Timeline, start)
		if difference := differs(timeline, run.Timeline); difference != "" || len(runs) == 1 && !samePath(result, run) {
			t.Errorf("journey %s, lead %d: %s\nworkflow:\n%s\nsimulation:\n%s\nof %s", name, i, difference, got, want, v.Definition)
		}
	}
}

// count counts what came of a lead.
func (d *drawing) count(run journey.Run) {
	for i, step := range run.Path {
		if i > 0 && step.Type == journey.Touchpoint && step.Result == "delivered" && run.Path[i-1].Result == "failed" {
			d.seen["delivered after a failure"]++
		}
	}
	visits := map[string]int{}
	for _, step := range run.Path {
		d.seen[string(step.Type)+" "+step.Result]++
		if visits[step.NodeID]++; visits[step.NodeID] == 2 {
			d.seen["passed a node again"]++
		}
	}
	for _, entry := range run.Timeline {
		if entry.What == waypost.WhatFailed && entry.Reason == waypost.ClassRender {
			d.seen["failed render"]++
		}
		if entry.What == waypost.WhatDeferred || entry.What == waypost.WhatSkipped {
			reason, _, _ := strings.Cut(entry.Reason, " ")
			d.seen[entry.What+" "+strings.TrimSuffix(reason, ":")]++
		}
	}
	d.seen[string(run.Status)]++
}

// cohortOf claims the enrollments of a journey, and leaves those that others made to
// nobody.
func (w *world) cohortOf(v waypost.JourneyVersion) *waypost.Cohort {
	w.t.Helper()
	for {
		cohort, err := storetest.ClaimCohort(context.Background(), w.store)
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
		if (journey.Visit{Node: step.NodeID, Result: step.Result}) != result.Path[i] {
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
