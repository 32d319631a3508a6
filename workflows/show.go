package workflows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"waypost"
	"waypost/delivery"
	"waypost/journey"
)

// Shown is what the search attributes of a workflow say.
type Shown struct {
	Node     string   `json:"node,omitempty"` // of a journey
	Webhook  string   `json:"webhook,omitempty"`
	Outcomes []string `json:"outcomes,omitempty"`
}

// show keeps the search attributes and the current details of the Web UI true. An
// attribute that did not change is not written: each write is an event.
func (s *Shown) show(ctx workflow.Context, now Shown, details string) error {
	var updates []temporal.SearchAttributeUpdate
	if now.Node != s.Node {
		updates = append(updates, AttrNode.ValueSet(now.Node))
	}
	if now.Webhook != s.Webhook {
		updates = append(updates, AttrWebhook.ValueSet(now.Webhook))
	}
	if !slices.Equal(now.Outcomes, s.Outcomes) {
		updates = append(updates, AttrOutcome.ValueSet(now.Outcomes))
	}
	*s = now
	workflow.SetCurrentDetails(ctx, details)
	if len(updates) == 0 {
		return nil
	}
	return workflow.UpsertTypedSearchAttributes(ctx, updates...)
}

// show notes which node the first member that is not done has reached, and the webhook of
// the last touchpoint among such nodes. It writes nothing while a local activity is under
// way: members may pass more nodes in the same task.
func (c *cohort) show(ctx workflow.Context) error {
	if left := c.left(); len(left) > 0 {
		c.reached.Node = c.in.Members[left[0]].State.Node
	}
	if n, ok := c.def.Node(c.reached.Node); ok && n.Webhook != "" {
		c.reached.Webhook = n.Webhook
	}
	if c.locals > 0 {
		return nil
	}
	c.reached.Outcomes = outcomesOf(c.in.Members, c.had)
	return c.in.show(ctx, c.reached, c.details())
}

// shownOutcomes are the values of AttrOutcome, in their order.
var shownOutcomes = []string{
	delivery.OutcomeDelivered, delivery.OutcomeRetrying, delivery.OutcomeDeferred, delivery.OutcomeFailed,
	delivery.OutcomeSkipped, delivery.OutcomeExited,
}

// outcomesOf lists which outcomes members have had, in a fixed order.
func outcomesOf[M any](members []M, had func(*M, string) bool) []string {
	var found []string
	for _, outcome := range shownOutcomes {
		for i := range members {
			if had(&members[i], outcome) {
				found = append(found, outcome)
				break
			}
		}
	}
	return found
}

// had tells whether an outcome occurs with a member: of touchpoints that were passed, of
// one that waits for another attempt, and of an enrollment that an event has ended. Nodes
// that are no touchpoints have results of the same names.
func (c *cohort) had(m *Member, outcome string) bool {
	if outcome == delivery.OutcomeExited {
		return m.State.Status == waypost.EnrollmentExited
	}
	return m.Outcome == outcome || slices.ContainsFunc(m.State.Path, func(v journey.Visit) bool {
		return v.Result == outcome && (outcome == delivery.OutcomeDelivered || c.touchpoint(v.Node))
	})
}

func (c *cohort) touchpoint(node string) bool {
	n, ok := c.def.Node(node)
	return ok && n.Type == journey.Touchpoint
}

// details is what the Web UI shows of a running workflow: the path of a single
// lead, or the counts of a cohort and the leads that are not done, with why.
func (c *cohort) details() string {
	var b strings.Builder
	// A run that continues as new loses its summary; this one is set again.
	b.WriteString(summary(c.in.Name, c.in.Version, len(c.in.Members)) + "\n\n")
	if len(c.in.Members) == 1 {
		m := &c.in.Members[0]
		b.WriteString(fmt.Sprintf("Lead %d: %s\n", m.LeadsID, path(m.State)))
		if line := m.waits(); line != "" {
			b.WriteString(fmt.Sprintf("\n%s\n", line))
		}
		return b.String()
	}
	done, moved := 0, 0
	for i := range c.in.Members {
		switch s := c.in.Members[i].State; {
		case s.Status == statusMoved:
			moved++
		case s.Phase == journey.PhaseDone:
			done++
		}
	}
	b.WriteString(fmt.Sprintf("%d of %d enrollments have ended.\n", done, len(c.in.Members)))
	if moved > 0 {
		b.WriteString(fmt.Sprintf("%d were moved to another version.\n", moved))
	}
	list(&b, c.in.Members, func(m *Member) string {
		line := m.waits()
		if line == "" {
			return ""
		}
		return fmt.Sprintf("lead %d: %s; %s", m.LeadsID, path(m.State), line)
	})
	return b.String()
}

// list adds a line for each member that has one to details, and how many lines did not
// fit in.
func list[M any](b *strings.Builder, members []M, line func(*M) string) {
	more := 0
	for i := range members {
		switch text := line(&members[i]); {
		case text == "":
		case b.Len() < maxDetails:
			b.WriteString("\n- " + text)
		default:
			more++
		}
	}
	if more > 0 {
		b.WriteString(fmt.Sprintf("\n- and %d more", more))
	}
}

// maxDetails keeps the details below Temporal's limit of 20,000 bytes.
const maxDetails = 18_000

// path writes the nodes that were passed with what came of them.
func path(s journey.State) string {
	var parts []string
	for _, v := range s.Path {
		parts = append(parts, v.Node+" ("+v.Result+")")
	}
	switch {
	case s.Status == statusMoved: // the last visit says it
	case s.Phase == journey.PhaseDone:
		parts = append(parts, string(s.EnrollmentStatus()))
	default:
		parts = append(parts, s.Node)
	}
	return strings.Join(parts, " → ")
}

// waits says what a member that has not ended waits for.
func (m *Member) waits() string {
	switch {
	case m.State.Phase == journey.PhaseDone:
		return ""
	case m.Paused:
		return "paused"
	case m.State.Phase == journey.PhaseWait:
		return "waits until " + m.Due.UTC().Format(time.RFC3339)
	case m.State.Phase == journey.PhaseAwait:
		return "waits for an event or a condition until " + m.Due.UTC().Format(time.RFC3339)
	}
	return m.Turn.waits()
}

// JourneyResult stands in the box at the top of the workflow's page: the path
// of a single lead, or the counts of a cohort and the leads that did not succeed.
type JourneyResult struct {
	Enrollment string                   `json:"enrollment,omitempty"`
	Lead       int64                    `json:"lead,omitempty"`
	Status     waypost.EnrollmentStatus `json:"status,omitempty"`
	Path       []journey.Visit          `json:"path,omitempty"`

	Enrollments  int          `json:"enrollments,omitempty"`
	Exited       int          `json:"exited,omitempty"` // enrollments that an event has ended
	Moved        int          `json:"moved,omitempty"`  // enrollments that went on in another version
	Touchpoints  []NodeCount  `json:"touchpoints,omitempty"`
	NotSucceeded []LeadResult `json:"notSucceeded,omitempty"`
}

// NodeCount counts what came of a touchpoint over a cohort.
type NodeCount struct {
	Node      string `json:"node"`
	Delivered int    `json:"delivered"`
	Failed    int    `json:"failed"`
	Skipped   int    `json:"skipped,omitempty"` // see waypost.SkipReasons
}

// LeadResult names a lead of a cohort with a touchpoint that failed.
type LeadResult struct {
	Enrollment string `json:"enrollment"`
	Lead       int64  `json:"lead"`
	Path       string `json:"path"`
}

// result counts what came of the touchpoints; the path is listed for a single member and for those with
// a failed message only.
func (c *cohort) result() JourneyResult {
	if len(c.in.Members) == 1 {
		m := c.in.Members[0]
		return JourneyResult{Enrollment: m.EnrollmentID, Lead: m.LeadsID, Status: m.State.EnrollmentStatus(), Path: m.State.Path}
	}
	r := JourneyResult{Enrollments: len(c.in.Members)}
	for _, m := range c.in.Members {
		failed := false
		switch m.State.Status {
		case waypost.EnrollmentExited:
			r.Exited++
		case statusMoved:
			r.Moved++
		}
		for _, v := range m.State.Path {
			switch {
			case v.Result == delivery.OutcomeDelivered:
				r.touchpoint(v.Node).Delivered++
			case !c.touchpoint(v.Node): // other nodes have results of the same names
			case v.Result == delivery.OutcomeFailed:
				r.touchpoint(v.Node).Failed++
				failed = true
			case v.Result == delivery.OutcomeSkipped:
				r.touchpoint(v.Node).Skipped++
			}
		}
		if failed {
			r.NotSucceeded = append(r.NotSucceeded, LeadResult{m.EnrollmentID, m.LeadsID, path(m.State)})
		}
	}
	return r
}

func (r *JourneyResult) touchpoint(node string) *NodeCount {
	i := slices.IndexFunc(r.Touchpoints, func(c NodeCount) bool { return c.Node == node })
	if i < 0 {
		i = len(r.Touchpoints)
		r.Touchpoints = append(r.Touchpoints, NodeCount{Node: node})
	}
	return &r.Touchpoints[i]
}
