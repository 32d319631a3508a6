package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"waypost/signature"
)

// client makes signed calls.
type client struct {
	url  string
	key  signature.Key
	http *http.Client
}

// callTime bounds one call.
const callTime = time.Minute

func newClient(url string, key signature.Key) *client {
	return &client{url, key, &http.Client{
		Timeout:   callTime,
		Transport: &http.Transport{MaxIdleConns: 256, MaxIdleConnsPerHost: 256},
	}}
}

// do makes one call; an answer that is no success is an error.
func (c *client) do(ctx context.Context, method, path string, body, answer any) error {
	var payload []byte
	if body != nil {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(payload))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	signature.SignHTTP(req, c.key, payload, time.Now(), signature.NewNonce())
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("%s %s: HTTP %d %.300s", method, path, res.StatusCode, b)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(b, answer); err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	return nil
}

// delivery is what we read of a delivery.
type delivery struct {
	MessageID string `json:"messageId"`
	LeadsID   int64  `json:"leadsId"`
	Status    string `json:"status"`
	Attempts  int    `json:"attempts"`
}

// deliveries lists all deliveries of a journey.
func (c *client) deliveries(ctx context.Context, journeyID string) ([]delivery, error) {
	var all []delivery
	query := url.Values{"journeyId": {journeyID}, "limit": {"500"}}
	for {
		var page struct {
			Items      []delivery
			NextCursor *string
		}
		if err := c.do(ctx, http.MethodGet, "/v1/deliveries?"+query.Encode(), nil, &page); err != nil {
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
func (c *client) undecided(ctx context.Context, journeyID string) (bool, error) {
	for _, status := range []string{"pending", "retrying", "deferred"} {
		var page struct{ Items []delivery }
		query := url.Values{"journeyId": {journeyID}, "status": {status}, "limit": {"1"}}
		if err := c.do(ctx, http.MethodGet, "/v1/deliveries?"+query.Encode(), nil, &page); err != nil {
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
