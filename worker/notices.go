package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"waypost"
	"waypost/workflows"
)

// noticesOutbox is where notices wait until their workflow is signaled.
type noticesOutbox interface {
	ClaimNotices(ctx context.Context, limit int, bulk bool) ([]waypost.Notice, error)
	DeleteNotices(ctx context.Context, ids []int64) error
	CancelLeftRounds(ctx context.Context, batchID string) error
	SweepCanceled(ctx context.Context, limit int) (more bool, err error)
}

const (
	// noticesEvery is shorter than sweepEvery: notices for a cohort wait for others of it, and
	// nobody wakes the pump when that time is over.
	noticesEvery  = 250 * time.Millisecond
	noticesAtOnce = 1000
	cancelsAtOnce = 500
)

// tell signals workflows, each once for all notices of one claim.
func (p *Pump) tell(ctx context.Context, bulk bool) (more bool, err error) {
	notices, err := p.outbox.ClaimNotices(ctx, noticesAtOnce, bulk)
	if err != nil {
		return false, err
	}
	var errs error
	var signaled []int64
	for _, g := range groupByWorkflow(notices) {
		if err := p.limited(ctx, func(ctx context.Context) error { return p.wakeOne(ctx, g) }); err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		p.observe.Signaled(len(g.ids))
		signaled = append(signaled, g.ids...)
	}
	if len(signaled) > 0 {
		if err := p.outbox.DeleteNotices(ctx, signaled); err != nil {
			errs = errors.Join(errs, fmt.Errorf("delete notices: %w", err))
		}
	}
	return len(notices) >= noticesAtOnce, errs // one claim has all for a workflow
}

// wakeOne signals a workflow. It cancels the open rounds of a redelivery whose workflow was
// terminated, because no workflow will.
func (p *Pump) wakeOne(ctx context.Context, g *wakeup) error {
	runs, err := p.starter.Wake(ctx, g.workflow, g.wake)
	if err == nil && !runs && waypost.IsID(waypost.PrefixRedeliveryBatch, g.workflow) {
		err = p.outbox.CancelLeftRounds(ctx, g.workflow)
	}
	return err
}

// wakeup is one signal to a workflow, and the ids of the notices that it stands for.
type wakeup struct {
	workflow string
	wake     workflows.Wake
	ids      []int64
}

// groupByWorkflow makes one wakeup for each workflow, in the order in which workflows first
// occur. A notice without an enrollment wakes the whole workflow, whatever the others name.
func groupByWorkflow(notices []waypost.Notice) []*wakeup {
	var groups []*wakeup
	byWorkflow := map[string]*wakeup{}
	whole := map[string]bool{}
	seen := map[[2]string]bool{}
	for _, n := range notices {
		g := byWorkflow[n.WorkflowID]
		if g == nil {
			g = &wakeup{workflow: n.WorkflowID}
			byWorkflow[n.WorkflowID] = g
			groups = append(groups, g)
		}
		g.ids = append(g.ids, n.ID)
		if n.EnrollmentID == "" {
			whole[n.WorkflowID] = true
		} else if key := [2]string{n.WorkflowID, n.EnrollmentID}; !seen[key] {
			seen[key] = true
			g.wake.Enrollments = append(g.wake.Enrollments, n.EnrollmentID)
		}
		if n.EventID != "" {
			g.wake.Events = append(g.wake.Events, n.EventID)
		}
	}
	for _, g := range groups {
		if whole[g.workflow] {
			g.wake.Enrollments = nil
		}
	}
	return groups
}

func (p *Pump) sweepCanceled(ctx context.Context) (more bool, err error) {
	return p.outbox.SweepCanceled(ctx, cancelsAtOnce)
}
