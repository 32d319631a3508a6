package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"waypost/client"
	"waypost/signature"
)

// caller makes signed calls.
type caller struct{ *client.Client }

// callTime bounds one call.
const callTime = time.Minute

func newCaller(url string, key signature.Key) *caller {
	c := client.New(url, key)
	c.HTTP.Timeout = callTime
	c.HTTP.Transport = &http.Transport{MaxIdleConns: 256, MaxIdleConnsPerHost: 256}
	return &caller{c}
}

// delivery is what we read of a delivery.
type delivery struct {
	MessageID string `json:"messageId"`
	LeadsID   int64  `json:"leadsId"`
	Status    string `json:"status"`
	Attempts  int    `json:"attempts"`
}

// deliveries lists all deliveries of a journey.
func (c *caller) deliveries(ctx context.Context, journeyID string) ([]delivery, error) {
	var all []delivery
	query := url.Values{"journeyId": {journeyID}, "limit": {"500"}}
	for {
		var page struct {
			Items      []delivery
			NextCursor *string
		}
		if err := c.Do(ctx, http.MethodGet, "/v1/deliveries?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.NextCursor == nil {
			return all, nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}

// undecided tells whether a journey has deliveries without a final outcome.
func (c *caller) undecided(ctx context.Context, journeyID string) (bool, error) {
	for _, status := range []string{"pending", "retrying", "deferred"} {
		var page struct{ Items []delivery }
		query := url.Values{"journeyId": {journeyID}, "status": {status}, "limit": {"1"}}
		if err := c.Do(ctx, http.MethodGet, "/v1/deliveries?"+query.Encode(), nil, &page); err != nil {
			return false, err
		}
		if len(page.Items) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// parallel calls do for 0 to n-1, several at a time, until one fails.
func parallel(ctx context.Context, n, width int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var running sync.WaitGroup
	for range min(n, width) {
		running.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	running.Wait()
	return context.Cause(ctx)
}

// until asks every pause until the answer is yes.
func until(ctx context.Context, pause, within time.Duration, what string, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("after %s: %s", within, what))
	defer cancel()
	ticks := time.NewTicker(pause)
	defer ticks.Stop()
	for {
		if ok, err := ask(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticks.C:
		}
	}
}
