package store_test

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
	"waypost/store"
	"waypost/store/storetest"
)

// BenchmarkDeliveries measures what one delivery costs here: OpenAttempts and
// RecordAttempts with progress, in chunks of 50 with bodies of 600 bytes, by four
// goroutines. An operation is one delivery.
func BenchmarkDeliveries(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchmarkDeliveries(b, storetest.SQLite(b, time.Now)) })
	b.Run("postgres", func(b *testing.B) { benchmarkDeliveries(b, storetest.Postgres(b, time.Now)) })
}

func benchmarkDeliveries(b *testing.B, s *store.Store) {
	const chunk, writers = 50, 4
	ctx := b.Context()
	sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	j, err := s.CreateJourney(ctx, sc, "J", []byte(`{}`))
	check(err)
	_, _, err = s.PublishJourney(ctx, sc, j.ID, "J", "h", []byte(`{}`), nil)
	check(err)
	lead, err := s.CreateLead(ctx, sc, waypost.LeadFields{Name: "A"}, nil)
	check(err)
	// Enrolling is not measured: one enrollment has many touchpoints instead.
	enrollments := make([]string, writers*chunk)
	for i := range enrollments {
		e, err := s.Enroll(ctx, sc, waypost.Enrollment{JourneyID: j.ID, Version: 1, LeadsID: lead.LeadsID}, waypost.Reentry{Policy: waypost.ReentryAlways})
		check(err)
		enrollments[i] = e.ID
	}
	body := bytes.Repeat([]byte("0123456789"), 60)
	var sent atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for w := range writers {
		wg.Go(func() {
			for visit := 1; sent.Add(chunk)-chunk < int64(b.N); visit++ {
				openings := make([]waypost.Opening, chunk)
				records := make([]waypost.AttemptRecord, chunk)
				for i := range chunk {
					key := waypost.Touchpoint{EnrollmentID: enrollments[w*chunk+i], Visit: visit}
					now := time.Now()
					openings[i] = waypost.Opening{
						Touchpoint: key, Scope: sc, Attempt: 1, At: now, By: "bench", Body: body,
						Delivery: waypost.Delivery{
							MessageID: waypost.NewID(waypost.PrefixMessage, now), JourneyID: j.ID, JourneyVersion: 1,
							NodeID: "hello", WebhookID: "whk_1", LeadsID: lead.LeadsID,
						},
					}
					records[i] = waypost.AttemptRecord{
						Touchpoint: key, Scope: sc, Round: 1, Attempt: 1, Status: waypost.DeliverySucceeded,
						Outcome: waypost.Outcome{Succeed: true, HTTPStatus: 200, At: now, Duration: time.Millisecond, Excerpt: `{"succeed":true}`},
						Progress: &waypost.Progress{
							EnrollmentID: key.EnrollmentID, Status: waypost.EnrollmentRunning, NodeID: "hello", LastSeq: visit,
							Entries: []waypost.TimelineEntry{{Seq: visit, At: now, NodeID: "hello", What: waypost.WhatSent, Next: "end"}},
						},
					}
				}
				if _, err := s.OpenAttempts(ctx, openings); err != nil {
					b.Error(err)
					return
				}
				if err := s.RecordAttempts(ctx, records); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
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
	if _, _, err := s.PublishJourney(ctx, sc, j.ID, "J", "h", []byte(`{}`), nil); err != nil {
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
		c, err := s.ClaimCohort(ctx)
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
