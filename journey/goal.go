package journey

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"waypost"
)

// Goal is what a journey is for: an event of the lead, within a time since the enrollment
// began.
type Goal struct {
	Event  string `json:"event,omitempty"`  // the name of the event
	When   string `json:"when,omitempty"`   // a CEL condition on the event; empty takes every one
	Within string `json:"within,omitempty"` // a duration as it was written; empty is waypost.DefaultWithin
	Value  string `json:"value,omitempty"`  // a CEL expression, the number that the event is worth
}

// maxWorth bounds what one event is worth, either way: the sum of a million of them can
// still be told to four decimal places.
const maxWorth = 1e8

// Goal returns the goal, and whether there is one. In a definition that Check refuses
// Within is zero where it is no duration.
func (d *Definition) Goal() (waypost.Goal, bool) {
	g := d.body.Goal
	if g == nil {
		return waypost.Goal{}, false
	}
	within, _ := waypost.ParseDuration(g.Within)
	if g.Within == "" {
		within = waypost.Duration(waypost.DefaultWithin)
	}
	return waypost.Goal{Event: g.Event, Within: time.Duration(within)}, true
}

// SameGoal tells whether the events that reach the goal are those of the other definition.
func (d *Definition) SameGoal(other *Definition) bool {
	g, has := d.Goal()
	o, also := other.Goal()
	return has == also && g == o && value(d.body.Goal).When == value(other.body.Goal).When
}

// ReachedAtOnce tells whether every enrollment comes to the node as soon as it begins, so that what
// came of those that came to it is what came of all: every way leads there without a wait, and what
// reaches the goal does not end an enrollment before.
func (d *Definition) ReachedAtOnce(id string) bool {
	for _, e := range d.body.ExitOn {
		if g := d.body.Goal; e.Event == "" || g != nil && e.Event == g.Event {
			return false
		}
	}
	known := map[string]bool{}
	var leads func(from string) bool
	leads = func(from string) bool {
		if does, asked := known[from]; asked || from == id {
			return does || from == id
		}
		known[from] = false
		n, ok := d.Node(from)
		if !ok {
			return false
		}
		if t := n.Description(); t.Enters != PhaseDecide || t.Waits != "" {
			return false
		}
		known[from] = !slices.ContainsFunc(n.Ways(), func(way waypost.Edge) bool { return !leads(way.Next) })
		return known[from]
	}
	return leads(d.body.Start)
}

// ControlGroup returns the share of the leads that are held out, whatever way they enter.
func (d *Definition) ControlGroup() float64 { return d.body.ControlGroup }

// after returns how long after the first enrollment took an arm the arms are compared; 0 if
// it is Leads that counts.
func (w Winner) after() time.Duration {
	after, _ := waypost.ParseDuration(w.After)
	return time.Duration(after)
}

// Contest returns when the arms of a split are compared, and whether they ever are.
func (n Node) Contest() (waypost.Contest, bool) {
	if n.Winner == nil {
		return waypost.Contest{}, false
	}
	return waypost.Contest{Arms: len(n.Arms), After: n.Winner.after(), Leads: n.Winner.Leads}, true
}

// goalPrograms are the compiled expressions of a goal; both are zero where nothing is
// written.
type goalPrograms struct{ when, value condition }

// goalEnv declares what the expressions of a goal see. They are asked where an event is
// accepted, which does not read what became of messages.
var goalEnv = sync.OnceValues(func() (*cel.Env, error) { return newEnv(varLead, varJourney, varEnrollment, varEvent) })

func (d *Definition) compileGoal() (p goalPrograms) {
	g := value(d.body.Goal)
	if g.When != "" {
		p.when = d.compiled(goalEnv, g.When, trueOrFalse)
	}
	if g.Value != "" {
		p.value = d.compiled(goalEnv, g.Value, aNumber)
	}
	return p
}

// Converts tells whether the event of the facts reaches the goal: whether its condition is
// true, or it has none. The caller compares the event's name and the time. A condition that
// errors is false. worth is what the event is worth; 0 where the goal says nothing of it, or
// where that is an error, no number or more than 100 million.
func (d *Definition) Converts(f Facts) (yes bool, worth waypost.Amount) {
	programs := d.goal()
	g := value(d.body.Goal)
	ctx, cancel := context.WithTimeout(context.Background(), maxDecide)
	defer cancel()
	vars := conditionVariables(&f)
	vars[varEvent] = native(plainObject(f.Event))
	if g.When != "" && !programs.when.holds(ctx, vars).yes {
		return false, 0
	}
	if g.Value == "" {
		return true, 0
	}
	out, _ := programs.value.value(ctx, vars, nil)
	if number, ok := out.(types.Double); ok && math.Abs(float64(number)) <= maxWorth {
		worth = waypost.AmountOf(float64(number))
	}
	return true, worth
}

// Goals decides for storage which events reach the goals of enrollments. It is safe for
// concurrent use.
type Goals struct{ published }

// NewGoals makes a Goals.
func NewGoals() *Goals { return &Goals{newPublished()} }

// Converts tells whether an event, whose name is that of the goal of the version, reaches it
// for an enrollment, and what it is worth. It fails for a definition that does not parse.
func (g *Goals) Converts(v waypost.JourneyVersion, e waypost.Enrollment, lead waypost.Lead, event waypost.Event) (yes bool, worth waypost.Amount, err error) {
	d, err := g.read(v)
	if err != nil {
		return false, 0, err
	}
	yes, worth = d.Converts(Facts{
		Lead: lead, JourneyID: v.JourneyID, JourneyName: v.Name, Version: v.Version, EnrollmentID: e.ID, EntryKey: e.EntryKey, Params: e.Params,
		Event: event.Properties, Began: e.Event, Now: event.OccurredAt,
	})
	return yes, worth, nil
}

func (c *checker) goal() {
	if share := c.d.body.ControlGroup; share < 0 || share >= 1 {
		c.p.Add(waypost.DetailOutOfRange, "controlGroup", "must be more than 0 and less than 1, such as 0.1 for a tenth; leave it out for none")
	}
	g := c.d.body.Goal
	if g == nil {
		return
	}
	c.eventName(g.Event, "goal.event")
	if g.Within != "" {
		if within, ok := c.duration(g.Within, "goal.within", "168h or P7D"); ok && (within < time.Second || within > MaxWithin) {
			c.p.Add(waypost.DetailOutOfRange, "goal.within", "must be between 1s and 90 days")
		}
	}
	if g.When != "" && c.room("goal.when", g.When) {
		c.condition(g.When, c.d.goal().when, "goal.when")
	}
	if g.Value != "" && c.room("goal.value", g.Value) {
		c.condition(g.Value, c.d.goal().value, "goal.value")
	}
}

// WonAt is DecideAt for a split of which one arm takes everybody.
func WonAt(arm int, now time.Time) Input {
	return Input{Kind: InputDecided, At: now, Arm: arm, Reason: fmt.Sprintf("arm %d: the winner", arm+1)}
}
