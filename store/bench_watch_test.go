package store_test

import (
	"testing"
	"time"

	"waypost"
	"waypost/store"
	"waypost/store/storetest"
)

// BenchmarkWatch measures the publishing of a journey that begins by a segment among a million leads
// (WAYPOST_BENCH_LEADS sets another number), on PostgreSQL: it waits until the members are known.
func BenchmarkWatch(b *testing.B) {
	dbURL := storetest.PostgresURL(b)
	s := withLeads(b, dbURL, "pgx", dbURL, "SELECT generate_series(1::bigint, %d) AS i")
	for _, c := range []struct{ name, when string }{
		{"hundredth", "lead.leadsGroup == 7"},
		{"evaluated", "lead.name.endsWith('77')"},
		{"half", "lead.region == 5"},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkWatch(b, s, c.when) })
	}
}

func benchmarkWatch(b *testing.B, s *store.Store, when string) {
	by := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	for b.Loop() {
		g, err := s.CreateSegment(b.Context(), by, waypost.Segment{Name: "S", When: when})
		if err != nil {
			b.Fatal(err)
		}
		j, err := s.CreateJourney(b.Context(), by, "J", []byte(`{}`))
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		_, err = s.PublishJourney(b.Context(), by, j.ID, waypost.Publication{Name: "J", Hash: "h", Definition: []byte(`{"name":"J"}`), Entry: []waypost.EntryRule{{Kind: waypost.EntrySegment, Segment: g.ID}}})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(began).Seconds(), "s")
	}
}
