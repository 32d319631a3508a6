package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdk "go.temporal.io/sdk/client"
)

// fiveNodes is the journey whose histories are read. Half of the leads make the
// event, the others' time runs out.
const fiveNodes = `{"name":"History","start":"hello","nodes":[
	{"id":"hello","type":"touchpoint","webhook":%q,"params":{"greeting":"Hello {{ lead.name }}"},"next":"wait"},
	{"id":"wait","type":"delay","for":"2s","next":"bought"},
	{"id":"bought","type":"waitForEvent","event":"purchase","when":"event.amount > 100","since":"enrollment","timeout":"10s","next":"check","onTimeout":"check"},
	{"id":"check","type":"branch","cases":[{"when":"touchpoints.hello.succeed","next":"end"}],"otherwise":"end"},
	{"id":"end","type":"exit"}]}`

const (
	nodesOfHistory = 5
	// historySingles is how many enrollments get a workflow of their own.
	historySingles = 30
	// waiting is longer than the delay of fiveNodes, and shorter than delay and
	// time-out together.
	waiting = 5 * time.Second
	visible = time.Minute // in which Temporal lists a workflow that has ended
)

// histories reads what stands in Temporal.
func (b *bench) histories(ctx context.Context) error {
	many := make([]int64, b.o.history)
	if err := b.makeLeads(ctx, groupHist, many); err != nil {
		return err
	}
	if err := b.warm(ctx, historySingles); err != nil {
		return err
	}
	temporal, err := b.stack.temporal()
	if err != nil {
		return err
	}
	defer temporal.Close()

	b.tell("history of workflows of their own")
	t, err := b.prepare(ctx, fiveNodes, script{fail: 10})
	if err != nil {
		return err
	}
	var ids []string
	for i, lead := range b.singles[:historySingles] {
		var made struct{ EnrollmentID string }
		if err := b.client.Do(ctx, http.MethodPost, "/v1/journeys/"+t.journeyID+"/enrollments", map[string]any{"leadsId": lead}, &made); err != nil {
			return err
		}
		ids = append(ids, made.EnrollmentID)
		// The message has arrived, so the enrollment has its workflow and the next one another.
		if err := until(ctx, recordPoll, time.Minute, "a message did not arrive", func() (bool, error) { return t.ledger.messages() > i, nil }); err != nil {
			return err
		}
	}
	if err := b.sendEvents(ctx, b.singles[:historySingles]); err != nil {
		return err
	}
	for _, id := range ids {
		if err := b.awaitEnrollment(ctx, id); err != nil {
			return err
		}
	}
	if err := b.readHistories(ctx, temporal, "single enrollment", t.journeyID, len(ids)); err != nil {
		return err
	}

	b.tell("history of cohorts")
	if t, err = b.prepare(ctx, fiveNodes, script{fail: 10}); err != nil {
		return err
	}
	l, err := b.startLaunch(ctx, t.journeyID, groupHist)
	if err != nil {
		return err
	}
	if err := b.sendEvents(ctx, many); err != nil {
		return err
	}
	if err := b.awaitLaunch(ctx, l, t, len(many)); err != nil {
		return err
	}
	return b.readHistories(ctx, temporal, "launch", t.journeyID, len(many))
}

// sendEvents reports the event of every second lead, once they wait for it.
func (b *bench) sendEvents(ctx context.Context, leads []int64) error {
	select {
	case <-time.After(waiting):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return parallel(ctx, len(leads)/2, setupClients, func(ctx context.Context, i int) error {
		return b.client.Do(ctx, http.MethodPost, "/v1/events", map[string]any{
			"eventId": fmt.Sprintf("bench-%d-%d", b.runs, i), "name": "purchase", "leadsId": leads[2*i], "properties": map[string]any{"amount": 120},
		}, nil)
	})
}

func (b *bench) awaitEnrollment(ctx context.Context, id string) error {
	return until(ctx, launchPoll, 2*time.Minute, "enrollment "+id+" has not ended", func() (bool, error) {
		var e struct{ Status string }
		if err := b.client.Do(ctx, http.MethodGet, "/v1/enrollments/"+id, nil, &e); err != nil {
			return false, err
		}
		if e.Status == "failed" {
			return false, errors.New("enrollment " + id + " has failed")
		}
		return e.Status == "completed", nil
	})
}

// readHistories counts the events of all workflows of a journey, those that
// went on as new included.
func (b *bench) readHistories(ctx context.Context, temporal sdk.Client, of, journeyID string, leads int) error {
	query := fmt.Sprintf("WaypostJourney=%q AND WorkflowType='Journey'", journeyID)
	var runs []*workflowservice.DescribeWorkflowExecutionResponse
	err := until(ctx, launchPoll, visible, "Temporal does not list the workflows as ended", func() (bool, error) {
		runs = nil
		var token []byte
		for {
			page, err := temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: 1000, NextPageToken: token})
			if err != nil {
				return false, fmt.Errorf("list workflows: %w", err)
			}
			for _, w := range page.Executions {
				if w.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
					return false, nil
				}
				d, err := temporal.DescribeWorkflowExecution(ctx, w.Execution.WorkflowId, w.Execution.RunId)
				if err != nil {
					return false, fmt.Errorf("describe a workflow: %w", err)
				}
				runs = append(runs, d)
			}
			if token = page.NextPageToken; len(token) == 0 {
				return len(runs) > 0, nil
			}
		}
	})
	if err != nil {
		return err
	}
	var events, bytes int64
	workflows, types := map[string]bool{}, map[string]int{}
	for _, run := range runs {
		info := run.WorkflowExecutionInfo
		events += info.HistoryLength
		bytes += info.HistorySizeBytes
		workflows[info.Execution.WorkflowId] = true
		for page := temporal.GetWorkflowHistory(ctx, info.Execution.WorkflowId, info.Execution.RunId, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); page.HasNext(); {
			event, err := page.Next()
			if err != nil {
				return fmt.Errorf("read a history: %w", err)
			}
			types[event.EventType.String()]++
		}
	}
	b.report.notes = append(b.report.notes, []string{
		of, fmt.Sprintf("%d leads, %d workflows", leads, len(workflows)), fmt.Sprint(len(runs)), fmt.Sprint(events),
		number(float64(events) / float64(leads*nodesOfHistory)), fmt.Sprint(bytes), number(float64(bytes) / float64(leads)),
	})
	names := slices.SortedFunc(maps.Keys(types), func(a, b string) int {
		if types[a] != types[b] {
			return types[b] - types[a]
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%s %d", name, types[name]))
	}
	b.tell("%s: %s", of, strings.Join(parts, ", "))
	return nil
}
