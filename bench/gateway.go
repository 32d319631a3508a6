package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// finish reads an answer to its end and takes anything but a success for an error.
func finish(res *http.Response) error {
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("HTTP %d: %.200s", res.StatusCode, b)
	}
	return err
}

// send makes a signed call and reads the answer.
func (c *caller) send(ctx context.Context, method, target string, body []byte) error {
	var header http.Header
	if body != nil {
		header = http.Header{"Content-Type": jsonType}
	}
	res, err := c.Send(ctx, method, target, header, body)
	if err != nil {
		return err
	}
	return finish(res)
}

// requests does something over and over, first as fast as the clients can and then at
// half that rate, and tells how long it took.
func (b *bench) requests(ctx context.Context, clients int, do func(ctx context.Context, i int) error) (outcome, error) {
	full, err := drive(ctx, clients, b.requestTime(), 0, 0, do)
	if err != nil {
		return outcome{}, err
	}
	// More of them, so that requests do not wait for a client that woke up late.
	half, err := drive(ctx, 4*clients, b.requestTime(), full.rate/2, full.n, do)
	return outcome{deliveries: full.n + half.n, metrics: []metric{
		{"req/s", full.rate}, {"p50 ms", full.p50}, {"p99 ms", full.p99},
		{"p50 ms at half load", half.p50}, {"p99 ms at half load", half.p99},
	}}, err
}

func (b *bench) requestTime() time.Duration { return time.Duration(b.o.seconds) * time.Second / 4 }

// driven is what a series of requests came to.
type driven struct {
	n              int
	rate, p50, p99 float64 // per second, milliseconds
}

// drive has several clients do something for a time, as fast as they can or at a
// rate. A request that is due while all clients are busy waits, and that counts.
func drive(ctx context.Context, clients int, lasts time.Duration, rate float64, from int, do func(ctx context.Context, i int) error) (driven, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	took := make([][]time.Duration, clients)
	var next atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for c := range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				n := next.Add(1) - 1
				due := time.Now()
				if rate > 0 {
					due = began.Add(time.Duration(float64(n) / rate * float64(time.Second)))
					time.Sleep(time.Until(due))
				}
				if due.Sub(began) >= lasts {
					return
				}
				if err := do(ctx, from+int(n)); err != nil {
					cancel(err)
					return
				}
				took[c] = append(took[c], time.Since(due))
			}
		})
	}
	all.Wait()
	elapsed := time.Since(began).Seconds()
	if err := context.Cause(ctx); err != nil {
		return driven{}, err
	}
	flat := slices.Concat(took...)
	slices.Sort(flat)
	if len(flat) == 0 {
		return driven{}, fmt.Errorf("no request was answered within %s", lasts)
	}
	ms := func(part float64) float64 { return quantile(flat, part) }
	return driven{len(flat), float64(len(flat)) / elapsed, ms(0.5), ms(0.99)}, nil
}

// quantile of sorted times, in milliseconds.
func quantile(sorted []time.Duration, part float64) float64 {
	return float64(sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]) / float64(time.Millisecond)
}

// get reads one lead after the other.
func (b *bench) get(ctx context.Context) (outcome, error) {
	return b.requests(ctx, singleClients, func(ctx context.Context, i int) error {
		return b.client.send(ctx, http.MethodGet, fmt.Sprintf("/v1/leads/%d", b.singles[i%len(b.singles)]), nil)
	})
}

// create makes leads, each with a call of its own.
func (b *bench) create(ctx context.Context) (outcome, error) {
	b.runs++
	run := b.runs
	return b.requests(ctx, singleClients, func(ctx context.Context, i int) error {
		return b.client.send(ctx, http.MethodPost, "/v1/leads", fmt.Appendf(nil,
			`{"businessParam":{"name":"Lin Xiaomei","leadsGroup":%d,"externalId":"new-%d-%d","mobilePhone":["+86 138 %02d%06d"]}}`, groupNew, run, i, run%100, i%1_000_000))
	})
}

// list reads pages of 50 leads with different filters, in turns.
func (b *bench) list(ctx context.Context) (outcome, error) {
	group := fmt.Sprintf("leadsGroup=%d", groupRows)
	filters := []string{"", "region=310005", group + "&sort=-createdAt", "region=310005&sort=updatedAt&" + group, "name=Lin%20Xiaomei%201", fmt.Sprintf("email=lead.%d.7@example.com", groupRows)}
	return b.requests(ctx, 1, func(ctx context.Context, i int) error {
		return b.client.send(ctx, http.MethodGet, "/v1/leads?limit=50&"+filters[i%len(filters)], nil)
	})
}

// bareHTTP asks the bench's own receiver: what the clients and loopback cost.
func (b *bench) bareHTTP(ctx context.Context) (outcome, error) {
	const path = "/bare-http"
	b.receiver.begin(path, script{})
	return b.requests(ctx, singleClients, func(ctx context.Context, _ int) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.receiver.url+path, nil)
		if err != nil {
			return err
		}
		res, err := b.client.HTTP.Do(req)
		if err != nil {
			return err
		}
		return finish(res)
	})
}
