package workflows

import (
	"encoding/json"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"waypost"
	"waypost/activities"
	"waypost/journey"
)

// statusMoved is what this workflow shows of an enrollment that went on in another
// one, of another version. It is no status anywhere else.
const statusMoved waypost.EnrollmentStatus = "moved"

// move has an activity take members out of this workflow that are to go on in another
// version.
func (c *cohort) move(ctx workflow.Context, members []int) {
	batch := c.batch("", members)
	batch.Now = workflow.Now(ctx)
	for n, i := range members {
		batch.Items[n].State = c.in.Members[i].State // with its path, which goes on there
	}
	title := "move " + count(len(members), "lead")
	c.regular(ctx, call{activity: activitiesOf.MoveBatch, title: title, batch: batch, members: members, answered: forEach(members, c.moved)})
}

// moved takes over whether a member has left.
func (c *cohort) moved(_ workflow.Context, i int, f activities.Finding) error {
	if f.Outcome == activities.FoundMoved {
		c.in.Members[i].leave()
	}
	return nil
}

// leave ends a member in this workflow. From now on another workflow writes its timeline.
func (m *Member) leave() {
	path := append(slices.Clone(m.State.Path), journey.Visit{Node: m.State.Node, Result: string(statusMoved)})
	m.State.Path = path[max(0, len(path)-journey.MaxPath):]
	m.State.Phase, m.State.Status = journey.PhaseDone, statusMoved
	m.Woken, m.Paused, m.Unrecorded = false, false, nil
}

// arrive has a member go on that comes from another version. A wait that goes on has
// begun there: events since then count, and pauses move its end.
func (c *cohort) arrive(i int) error {
	m := &c.in.Members[i]
	carried := m.Carried
	m.State, m.Carried = carried.State, nil
	if err := c.step(i, carried.Input); err != nil {
		return err
	}
	if !carried.Since.IsZero() {
		m.Since = carried.Since
	}
	return nil
}

// memberOf is a cohort's member as it begins.
func memberOf(m waypost.CohortMember) (Member, error) {
	member := Member{EnrollmentID: m.EnrollmentID, LeadsID: m.LeadsID}
	if m.Carried == nil {
		return member, nil
	}
	if err := json.Unmarshal(m.Carried, &member.Carried); err != nil {
		return member, fmt.Errorf("read what %s goes on with: %w", m.EnrollmentID, err)
	}
	return member, nil
}
