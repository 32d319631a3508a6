package store_test

import (
	"fmt"
	"testing"
	"time"

	"waypost"
	"waypost/store"
	"waypost/store/storetest"
)

// BenchmarkLaunch measures what enrolling one lead of an audience costs, in steps
// of 1,000, and then the claims of its cohorts, twenty at a time, with their
// marks. An operation is one lead.
func BenchmarkLaunch(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchmarkLaunch(b, storetest.SQLite(b, time.Now)) })
	b.Run("postgres", func(b *testing.B) { benchmarkLaunch(b, storetest.Postgres(b, time.Now)) })
}

func benchmarkLaunch(b *testing.B, s *store.Store) {
	const leads, step, claims = 2000, 1000, 20
	ctx := b.Context()
	sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	for i := range leads {
		_, err := s.CreateLead(ctx, sc, waypost.LeadFields{Name: fmt.Sprint("Lead ", i)}, nil)
		check(err)
	}
	// As many launches as are needed, each of a journey of its own, so that everybody
	// may enter.
	var launches []waypost.Launch
	for range (b.N + leads - 1) / leads {
		j, err := s.CreateJourney(ctx, sc, "J", []byte(`{}`))
		check(err)
		_, err = s.PublishJourney(ctx, sc, j.ID, waypost.Publication{Name: "J", Hash: "h", Definition: []byte(`{}`)})
		check(err)
		l, err := s.CreateLaunch(ctx, sc, waypost.Launch{JourneyID: j.ID, Version: 1, Audience: waypost.Audience{Filter: &waypost.LeadFilter{}}})
		check(err)
		launches = append(launches, l)
	}
	b.ResetTimer()
	enrolled := 0
	for _, l := range launches {
		for done := false; !done && enrolled < b.N; {
			did, err := s.EnrollAudience(ctx, l.ID, min(step, b.N-enrolled))
			check(err)
			enrolled += did.Enrolled
			done = did.Done
		}
	}
	b.StopTimer()
	if enrolled != b.N {
		b.Fatalf("enrolled %d of %d leads", enrolled, b.N)
	}
	enrolling := b.Elapsed()
	b.StartTimer()
	for {
		cohorts, err := s.ClaimLaunchCohorts(ctx, claims)
		check(err)
		if len(cohorts) == 0 {
			break
		}
		ids := make([]string, len(cohorts))
		for i, c := range cohorts {
			ids[i] = c.ID
		}
		check(s.MarkStarted(ctx, ids...))
	}
	b.ReportMetric(float64(b.N)/enrolling.Seconds(), "enrolled/s")
	b.ReportMetric(float64(b.N)/(b.Elapsed()-enrolling).Seconds(), "started/s")
}
