package workflows

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"waypost"
)

// Client starts workflows, and hides the SDK.
type Client struct {
	// Now may be set before the first call; it is time.Now otherwise.
	Now func() time.Time

	temporal  client.Client
	taskQueue string
}

// NewClient returns a Client that starts workflows on the task queue.
func NewClient(c client.Client, taskQueue string) *Client { return &Client{time.Now, c, taskQueue} }

// maxFairnessKey is Temporal's bound, in bytes; an organisation has up to 64
// characters. A start with a longer one is refused.
const maxFairnessKey = 64

// Priorities of what competes for workers; lower goes first.
const (
	prioritySingle = 2
	priorityCohort = 3 // and launches and imports, which work in the background
	priorityLaunch = 4 // the cohorts of launches
	priorityBulk   = 5 // bulk redeliveries
)

// singleTaskTimeout is the time of a workflow task of enrollments of the API, half of
// Temporal's default. The timer of each goes off after the workflow has usually ended, and
// reads all of it from the database unless it is among the last that the server has seen.
// It is also how soon another worker goes on after the death of one.
const singleTaskTimeout = 5 * time.Second

// StartCohort starts the workflow of a cohort. It may be called again for the
// same cohort: the workflow's id is the cohort's, and one that runs or has run is
// left alone.
func (c *Client) StartCohort(ctx context.Context, cohort waypost.Cohort) error {
	in, attributes, err := InputOf(cohort)
	if err != nil {
		return err
	}
	var taskTimeout time.Duration // Temporal's default
	if cohort.LaunchID == "" {
		taskTimeout = singleTaskTimeout
	}
	return c.start(ctx, client.StartWorkflowOptions{
		ID:                    cohort.ID,
		EnableEagerStart:      true,
		WorkflowTaskTimeout:   taskTimeout,
		TypedSearchAttributes: attributes,
		StaticSummary:         summary(in.Name, in.Version, len(in.Members)),
		Priority:              cohortPriority(in),
	}, TypeJourney, in)
}

// StartLaunch starts the workflow of a launch, which has no effect a second time, or
// makes or renews the Schedule of one that recurs.
func (c *Client) StartLaunch(ctx context.Context, l waypost.Launch) error {
	if l.Schedule != nil {
		return c.keepSchedule(ctx, l)
	}
	in := LaunchInput{Scope: l.Scope, LaunchID: l.ID, JourneyID: l.JourneyID}
	if l.StartAt != nil {
		in.StartAt = *l.StartAt
	}
	return c.start(ctx, client.StartWorkflowOptions{
		ID:                    l.ID,
		TypedSearchAttributes: attributesOf(l.Scope, AttrJourney.ValueSet(l.JourneyID)),
		StaticSummary:         "Launch of journey " + l.JourneyID,
		Priority:              priority(l.Scope, priorityCohort),
	}, TypeLaunch, in)
}

// StartImport starts the workflow of an import; again for the same import has no
// effect. It takes ID, Scope, Mode and DryRun of im.
func (c *Client) StartImport(ctx context.Context, im waypost.Import) error {
	title := "Import of leads, " + string(im.Mode)
	if im.DryRun {
		title += ", dry run"
	}
	return c.start(ctx, client.StartWorkflowOptions{
		ID:                    im.ID,
		TypedSearchAttributes: attributesOf(im.Scope),
		StaticSummary:         title,
		Priority:              priority(im.Scope, priorityCohort),
	}, TypeLeadImport, ImportInput{Scope: im.Scope, ImportID: im.ID})
}

// StartRedelivery starts the workflow of a batch of messages; again for the same
// batch has no effect.
func (c *Client) StartRedelivery(ctx context.Context, b waypost.RedeliveryBatch) error {
	in, attributes := RedeliveryInputOf(b)
	return c.start(ctx, client.StartWorkflowOptions{
		ID:                    b.ID,
		TypedSearchAttributes: attributes,
		StaticSummary:         redeliverySummary(in),
		Priority:              in.priority(),
	}, TypeRedelivery, in)
}

// RedeliveryInputOf makes the start input of a batch and its first search
// attributes. The journey is among them if all messages come from one.
func RedeliveryInputOf(b waypost.RedeliveryBatch) (RedeliveryInput, temporal.SearchAttributes) {
	in := RedeliveryInput{Scope: b.Scope, RedeliveryID: b.RedeliveryID}
	var leads, journeys []string
	for _, m := range b.Members {
		in.Members = append(in.Members, Redelivered{RedeliveryMember: m})
		if m.LeadsID == 0 { // to a subscription
			continue
		}
		leads = append(leads, strconv.FormatInt(m.LeadsID, 10))
		if !slices.Contains(journeys, m.JourneyID) {
			journeys = append(journeys, m.JourneyID)
		}
	}
	var updates []temporal.SearchAttributeUpdate
	if len(leads) > 0 {
		updates = append(updates, AttrLead.ValueSet(leads))
	}
	if len(b.Members) > 0 {
		in.Webhook = b.Members[0].WebhookID
		updates = append(updates, AttrWebhook.ValueSet(in.Webhook))
	}
	if len(journeys) == 1 {
		updates = append(updates, AttrJourney.ValueSet(journeys[0]))
	}
	return in, attributesOf(b.Scope, updates...)
}

// start starts a workflow. One of this id that runs or has run is left alone.
func (c *Client) start(ctx context.Context, options client.StartWorkflowOptions, workflowType string, in any) error {
	options.TaskQueue = c.taskQueue
	options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	options.WorkflowExecutionErrorWhenAlreadyStarted = true
	_, err := c.temporal.ExecuteWorkflow(ctx, options, workflowType, in)
	if started := (*serviceerror.WorkflowExecutionAlreadyStarted)(nil); errors.As(err, &started) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("start workflow %s: %w", options.ID, err)
	}
	return nil
}

// attributesOf are the search attributes of everything in a scope, and more.
func attributesOf(sc waypost.Scope, more ...temporal.SearchAttributeUpdate) temporal.SearchAttributes {
	return temporal.NewSearchAttributes(append(more, AttrOrg.ValueSet(sc.Org), AttrStage.ValueSet(string(sc.Stage)))...)
}

// Wake tells a workflow that something has changed that it should look at. runs is false,
// without an error, if the workflow has ended or was not started yet.
func (c *Client) Wake(ctx context.Context, workflowID string, wake Wake) (runs bool, err error) {
	err = c.temporal.SignalWorkflow(ctx, workflowID, "", SignalWake, wake)
	if ended := (*serviceerror.NotFound)(nil); errors.As(err, &ended) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("signal workflow %s: %w", workflowID, err)
	}
	return true, nil
}

// LastPoll tells, by Temporal's clock, when a worker of the task queue last asked for work.
// Temporal remembers that for some minutes; it is the zero time after that.
func (c *Client) LastPoll(ctx context.Context) (last time.Time, err error) {
	for _, kind := range []enumspb.TaskQueueType{enumspb.TASK_QUEUE_TYPE_WORKFLOW, enumspb.TASK_QUEUE_TYPE_ACTIVITY} {
		queue, err := c.temporal.DescribeTaskQueue(ctx, c.taskQueue, kind)
		if err != nil {
			return time.Time{}, fmt.Errorf("ask Temporal for the workers of task queue %s: %w", c.taskQueue, err)
		}
		for _, worker := range queue.GetPollers() {
			if at := worker.GetLastAccessTime().AsTime(); at.After(last) {
				last = at
			}
		}
	}
	return last, nil
}

// priority has organisations take turns within one of the priorities.
func priority(sc waypost.Scope, key int) temporal.Priority {
	p := temporal.Priority{PriorityKey: key, FairnessKey: sc.Org}
	if len(sc.Org) > maxFairnessKey {
		sum := sha256.Sum256([]byte(sc.Org))
		p.FairnessKey = hex.EncodeToString(sum[:16])
	}
	return p
}

func cohortPriority(in JourneyInput) temporal.Priority {
	switch {
	case in.LaunchID != "":
		return priority(in.Scope, priorityLaunch)
	case len(in.Members) > 1:
		return priority(in.Scope, priorityCohort)
	}
	return priority(in.Scope, prioritySingle)
}

// priority is high for a single redelivery, because a person waits for it.
func (in *RedeliveryInput) priority() temporal.Priority {
	if in.RedeliveryID != "" || in.tells() {
		return priority(in.Scope, priorityBulk)
	}
	return priority(in.Scope, prioritySingle)
}

// InputOf makes the start input of a cohort and its first search
// attributes, so that the workflow need not upsert them.
func InputOf(cohort waypost.Cohort) (JourneyInput, temporal.SearchAttributes, error) {
	v := cohort.Version
	in := JourneyInput{
		Scope: v.Scope, JourneyID: v.JourneyID, Version: v.Version, Name: v.Name,
		LaunchID: cohort.LaunchID, Rules: rules,
	}
	leads := make([]string, len(cohort.Members))
	for i, m := range cohort.Members {
		member, err := memberOf(m)
		if err != nil {
			return in, temporal.SearchAttributes{}, err
		}
		in.Members = append(in.Members, member)
		leads[i] = strconv.FormatInt(m.LeadsID, 10)
	}
	def, err := definitionOf(v.JourneyID, v.Version, v.Definition)
	if err != nil {
		return in, temporal.SearchAttributes{}, err
	}
	in.Definition = def.Bare() // labels and notes would only fill the history
	in.Node = def.Start()
	if len(in.Members) > 0 && in.Members[0].Carried != nil {
		in.Node = in.Members[0].Carried.Input.Node
	}
	updates := []temporal.SearchAttributeUpdate{
		AttrJourney.ValueSet(v.JourneyID), AttrLead.ValueSet(leads), AttrNode.ValueSet(in.Node),
	}
	if node, ok := def.Node(in.Node); ok && node.Webhook != "" {
		in.Webhook = node.Webhook
		updates = append(updates, AttrWebhook.ValueSet(node.Webhook))
	}
	return in, attributesOf(v.Scope, updates...), nil
}
