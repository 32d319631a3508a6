package store_test

import (
	"fmt"
	"testing"
	"time"

	"waypost"
	"waypost/store"
	"waypost/store/storetest"
)

// BenchmarkEvents measures events of 1,000 leads that nobody waits for: one by one, as an
// import, and the same import again. An operation is one event. Figures mean something from
// 50,000 on: -benchtime 50000x.
func BenchmarkEvents(b *testing.B) {
	for _, db := range []struct {
		name string
		open storetest.Open
	}{{"sqlite", storetest.SQLite}, {"postgres", storetest.Postgres}} {
		for _, c := range []struct {
			name   string
			before func(*testing.B, *store.Store, []int64)
			run    func(*testing.B, *store.Store, []int64)
		}{
			{"single", nil, acceptEvents},
			{"import", nil, importEvents},
			{"again", importEvents, importEvents},
		} {
			b.Run(db.name+"/"+c.name, func(b *testing.B) {
				s := db.open(b, time.Now)
				leads := make([]int64, 1000)
				for i := range leads {
					l, err := s.CreateLead(b.Context(), benchScope, waypost.LeadFields{Name: "Ada"}, nil)
					if err != nil {
						b.Fatal(err)
					}
					leads[i] = l.LeadsID
				}
				if c.before != nil {
					c.before(b, s, leads)
				}
				b.ResetTimer()
				c.run(b, s, leads)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

func benchEvent(leads []int64, i int) waypost.Event {
	return waypost.Event{
		EventID: fmt.Sprintf("order-%08d", i*7919), Name: []string{"purchase", "login", "cart"}[i%3], LeadsID: leads[i*31%len(leads)],
		Properties: map[string]any{"amount": 120.5, "currency": "CNY", "items": []any{"a", "b"}},
	}
}

func acceptEvents(b *testing.B, s *store.Store, leads []int64) {
	for i := range b.N {
		if _, err := s.AcceptEvent(b.Context(), benchScope, benchEvent(leads, i)); err != nil {
			b.Fatal(err)
		}
	}
}

func importEvents(b *testing.B, s *store.Store, leads []int64) {
	done, err := s.ImportEvents(b.Context(), benchScope, func(yield func(waypost.EventRow, error) bool) {
		for i := range b.N {
			if !yield(waypost.EventRow{Line: i + 1, Event: benchEvent(leads, i)}, nil) {
				return
			}
		}
	})
	if err != nil || done.Total != b.N || done.Failed != 0 {
		b.Fatalf("%+v, %v", done, err)
	}
}
