//go:build unix

package store_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
	"waypost/store"
	"waypost/store/storetest"
)

// BenchmarkDeliveries measures what one delivery costs here: OpenAttempts and
// RecordAttempts with the progress of an enrollment that ends (three entries of the
// timeline, its entry freed), in chunks of 50 with bodies of 600 bytes, by four
// goroutines. An operation is one delivery. cpu-s/1000 is what this process needs
// for a thousand: on PostgreSQL, the server's comes on top.
func BenchmarkDeliveries(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchmarkDeliveries(b, storetest.SQLite(b, time.Now)) })
	b.Run("postgres", func(b *testing.B) { benchmarkDeliveries(b, storetest.Postgres(b, time.Now)) })
}

func benchmarkDeliveries(b *testing.B, s *store.Store) {
	const chunk, writers = 50, 4
	ctx := b.Context()
	d := newDeliverer(b, s)
	// Enrolling is not measured.
	enrollments := d.enroll(b, (b.N+chunk-1)/chunk*chunk)
	var sent atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	cpu := cpuTime()
	for range writers {
		wg.Go(func() {
			for {
				from := int(sent.Add(chunk) - chunk)
				if from >= len(enrollments) {
					return
				}
				if err := d.deliver(ctx, 1, enrollments[from:from+chunk]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
	b.ReportMetric((cpuTime()-cpu).Seconds()*1000/float64(b.N), "cpu-s/1000")
}

// cpuTime is what the process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// deliverer does what the activities do in the store.
type deliverer struct {
	*store.Store
	journey string
	lead    int64
	body    []byte
}

var benchScope = waypost.Scope{Org: "acme", Stage: waypost.StageRelease}

func newDeliverer(b *testing.B, s *store.Store) *deliverer {
	b.Helper()
	check := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	j, err := s.CreateJourney(b.Context(), benchScope, "J", []byte(`{}`))
	check(err)
	_, err = s.PublishJourney(b.Context(), benchScope, j.ID, waypost.Publication{Name: "J", Hash: "h", Definition: []byte(`{}`)})
	check(err)
	lead, err := s.CreateLead(b.Context(), benchScope, waypost.LeadFields{Name: "A"}, nil)
	check(err)
	return &deliverer{Store: s, journey: j.ID, lead: lead.LeadsID, body: bytes.Repeat([]byte("0123456789"), 60)}
}

// enroll makes n enrollments, in the order of their ids.
func (d *deliverer) enroll(b *testing.B, n int) []string {
	b.Helper()
	ids := make([]string, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := next.Add(1); int(i) <= n; i = next.Add(1) {
				e, err := d.enrollOne(b.Context(), fmt.Sprint(i))
				if err != nil {
					b.Error(err)
					return
				}
				ids[i-1] = e
			}
		})
	}
	wg.Wait()
	slices.Sort(ids)
	return ids
}

func (d *deliverer) enrollOne(ctx context.Context, key string) (string, error) {
	e, err := d.Enroll(ctx, benchScope, waypost.Enrollment{JourneyID: d.journey, Version: 1, LeadsID: d.lead, EntryKey: key}, waypost.Reentry{})
	return e.ID, err
}

// deliver sends a message of each of these enrollments; after the first they end.
func (d *deliverer) deliver(ctx context.Context, visit int, enrollments []string) error {
	openings := make([]delivery.Opening, len(enrollments))
	records := make([]delivery.AttemptRecord, len(enrollments))
	for i, id := range enrollments {
		key := waypost.Touchpoint{EnrollmentID: id, Visit: visit}
		now := time.Now()
		openings[i] = delivery.Opening{
			Touchpoint: key, Scope: benchScope, Attempt: 1, At: now, By: "bench", Body: d.body,
			Delivery: waypost.Delivery{
				MessageID: waypost.NewID(waypost.PrefixMessage, now), JourneyID: d.journey, JourneyVersion: 1,
				NodeID: "hello", WebhookID: "whk_1", LeadsID: d.lead,
			},
		}
		records[i] = delivery.AttemptRecord{
			Touchpoint: key, Scope: benchScope, Round: 1, Attempt: 1, Status: waypost.DeliverySucceeded,
			Outcome: waypost.Outcome{Succeed: true, HTTPStatus: 200, At: now, Duration: time.Millisecond, Excerpt: `{"succeed":true}`},
			Progress: &waypost.Progress{
				EnrollmentID: id, Status: waypost.EnrollmentCompleted, NodeID: "end", LastSeq: 3,
				Entries: []waypost.TimelineEntry{
					{Seq: 1, At: now, NodeID: "hello", What: waypost.WhatSent, Next: "vip", Way: waypost.WayNext},
					{Seq: 2, At: now, NodeID: "vip", What: waypost.WhatTook, Next: "end", Way: waypost.WayOtherwise, Reason: "else"},
					{Seq: 3, At: now, NodeID: "end", What: waypost.WhatExited},
				},
			},
		}
	}
	if _, err := d.OpenAttempts(ctx, openings); err != nil {
		return err
	}
	return d.RecordAttempts(ctx, records)
}

// BenchmarkEnrollBesideDeliveries measures how long one enrollment takes while four
// goroutines deliver in chunks of 50, as a launch does. An operation is one
// enrollment.
func BenchmarkEnrollBesideDeliveries(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchmarkEnrollBeside(b, storetest.SQLite(b, time.Now)) })
	b.Run("postgres", func(b *testing.B) { benchmarkEnrollBeside(b, storetest.Postgres(b, time.Now)) })
}

func benchmarkEnrollBeside(b *testing.B, s *store.Store) {
	const chunk, writers = 50, 4
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	d := newDeliverer(b, s)
	enrollments := d.enroll(b, writers*chunk)
	var wg, begun sync.WaitGroup
	var chunks atomic.Int64
	begun.Add(writers)
	for w := range writers {
		wg.Go(func() {
			begin := sync.OnceFunc(begun.Done)
			defer begin()
			for visit := 1; ctx.Err() == nil; visit++ {
				if err := d.deliver(context.WithoutCancel(ctx), visit, enrollments[w*chunk:(w+1)*chunk]); err != nil {
					b.Error(err)
					return
				}
				chunks.Add(1)
				begin()
			}
		})
	}
	begun.Wait()
	took := make([]time.Duration, b.N)
	b.ResetTimer()
	before := chunks.Load()
	for i := range took {
		began := time.Now()
		if _, err := d.enrollOne(ctx, fmt.Sprint("beside ", i)); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(began)
	}
	b.StopTimer()
	delivered := (chunks.Load() - before) * chunk
	stop()
	wg.Wait()
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
	b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms")
	b.ReportMetric(float64(delivered)/b.Elapsed().Seconds(), "deliveries/s")
}

// BenchmarkEnroll measures single enrollments by eight goroutines and the claims
// of all of them.
func BenchmarkEnroll(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchmarkEnroll(b, storetest.SQLite(b, time.Now)) })
	b.Run("postgres", func(b *testing.B) { benchmarkEnroll(b, storetest.Postgres(b, time.Now)) })
}

func benchmarkEnroll(b *testing.B, s *store.Store) {
	ctx := b.Context()
	sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	j, err := s.CreateJourney(ctx, sc, "J", []byte(`{}`))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.PublishJourney(ctx, sc, j.ID, waypost.Publication{Name: "J", Hash: "h", Definition: []byte(`{}`)}); err != nil {
		b.Fatal(err)
	}
	lead, err := s.CreateLead(ctx, sc, waypost.LeadFields{Name: "A"}, nil)
	if err != nil {
		b.Fatal(err)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range 8 {
		wg.Go(func() {
			for n := next.Add(1); int(n) <= b.N; n = next.Add(1) {
				_, err := s.Enroll(ctx, sc, waypost.Enrollment{JourneyID: j.ID, Version: 1, LeadsID: lead.LeadsID, EntryKey: fmt.Sprint(n)}, waypost.Reentry{})
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	enrolled := b.Elapsed()
	for {
		c, err := storetest.ClaimCohort(ctx, s)
		if err != nil {
			b.Fatal(err)
		}
		if c == nil {
			break
		}
		if err := s.MarkStarted(ctx, c.ID); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/enrolled.Seconds(), "enrollments/s")
	b.ReportMetric(float64(b.N)/(b.Elapsed()-enrolled).Seconds(), "claims/s")
}
