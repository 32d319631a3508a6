package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// How the bare batch works.
const (
	batchQueue    = "bench-batch"
	batchSize     = 50
	batchStarters = 32
	batchName     = "BareBatch" // of the workflow and of its activity
	batchTime     = time.Minute // for one activity
)

// bareTimes is how many POSTs the bare loop makes for each lead: it is soon done.
const bareTimes = 10

// poster POSTs messages without Waypost.
type poster struct {
	client *http.Client
	url    string
	bodies [][]byte
}

func (b *bench) poster(path string) *poster {
	return &poster{
		&http.Client{Transport: &http.Transport{MaxIdleConns: bareConns, MaxIdleConnsPerHost: bareConns, MaxConnsPerHost: bareConns}},
		b.receiver.url + path, b.bodies,
	}
}

// post sends the i-th message and reads the answer.
func (p *poster) post(ctx context.Context, i int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(p.bodies[i%len(p.bodies)]))
	if err != nil {
		return err
	}
	req.Header["Content-Type"] = jsonType
	res, err := p.client.Do(req)
	if err != nil {
		return err
	}
	return finish(res)
}

// batch POSTs the messages of a former case from Temporal activities, 50 in each of
// them, one to a workflow, and records nothing: what Temporal itself costs.
func (b *bench) batch(ctx context.Context) (outcome, error) {
	const path = "/batch"
	b.receiver.begin(path, script{})
	temporal, err := b.stack.temporal()
	if err != nil {
		return outcome{}, err
	}
	defer temporal.Close()
	p := b.poster(path)
	defer p.client.CloseIdleConnections()

	// What an activity answers is as long as what Waypost's do.
	send := func(ctx context.Context, from, n int) ([]int, error) {
		statuses := make([]int, n)
		var all sync.WaitGroup
		errs := make([]error, n)
		for i := range n {
			all.Go(func() { errs[i] = p.post(ctx, from+i); statuses[i] = http.StatusOK })
		}
		all.Wait()
		return statuses, errors.Join(errs...)
	}
	run := func(ctx workflow.Context, from, n int) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: batchTime})
		var statuses []int
		return workflow.ExecuteActivity(ctx, batchName, from, n).Get(ctx, &statuses)
	}
	w := worker.New(temporal, batchQueue, worker.Options{
		MaxConcurrentActivityExecutionSize: bareConns, MaxConcurrentWorkflowTaskPollers: 4, MaxConcurrentActivityTaskPollers: 4,
	})
	w.RegisterWorkflowWithOptions(run, workflow.RegisterOptions{Name: batchName})
	w.RegisterActivityWithOptions(send, activity.RegisterOptions{Name: batchName})
	if err := w.Start(); err != nil {
		return outcome{}, fmt.Errorf("start the worker: %w", err)
	}
	defer w.Stop()

	batches := func(n int) error {
		return parallel(ctx, (n+batchSize-1)/batchSize, batchStarters, func(ctx context.Context, i int) error {
			from := i * batchSize
			started, err := temporal.ExecuteWorkflow(ctx, sdk.StartWorkflowOptions{TaskQueue: batchQueue}, batchName, from, min(batchSize, n-from))
			if err != nil {
				return err
			}
			return started.Get(ctx, nil)
		})
	}
	return postsPerSecond(b.o.leads, min(b.o.leads, batchStarters*batchSize), batches)
}

// postsPerSecond measures n POSTs after some that warm up, which cost as much each.
func postsPerSecond(n, warm int, post func(n int) error) (outcome, error) {
	if err := post(warm); err != nil {
		return outcome{}, err
	}
	began := time.Now()
	err := post(n)
	took := time.Since(began)
	return outcome{deliveries: warm + n, metrics: []metric{{"POSTs/s", float64(n) / took.Seconds()}}}, err
}

// bare POSTs the messages of a former case without Waypost and without Temporal.
func (b *bench) bare(ctx context.Context) (outcome, error) {
	const path = "/bare"
	b.receiver.begin(path, script{})
	p := b.poster(path)
	defer p.client.CloseIdleConnections()
	return postsPerSecond(bareTimes*b.o.leads, b.o.leads, func(n int) error { return parallel(ctx, n, bareConns, p.post) })
}
