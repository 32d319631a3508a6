package store_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"waypost"
	"waypost/store"
	"waypost/store/storetest"
)

// BenchmarkImport measures an import from its staging to its last step: rows of
// about 250 bytes with a number and an externalId, all of them new or every tenth
// with a number that a row before has; and as many that update those. An operation
// is one row. Figures mean something from 100,000 rows on: -benchtime 100000x.
func BenchmarkImport(b *testing.B) {
	for _, db := range []struct {
		name string
		open storetest.Open
	}{{"sqlite", storetest.SQLite}, {"postgres", storetest.Postgres}} {
		b.Run(db.name+"/new", func(b *testing.B) { benchmarkImport(b, db.open(b, time.Now), 0, waypost.ImportCreate) })
		b.Run(db.name+"/duplicates", func(b *testing.B) { benchmarkImport(b, db.open(b, time.Now), 10, waypost.ImportCreate) })
		b.Run(db.name+"/update", func(b *testing.B) {
			s := db.open(b, time.Now)
			runImport(b, s, 0, waypost.ImportCreate)
			benchmarkImport(b, s, 0, waypost.ImportUpsert)
		})
	}
}

func benchmarkImport(b *testing.B, s *store.Store, every int, mode waypost.ImportMode) {
	b.ResetTimer()
	staged := runImport(b, s, every, mode)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(b.N)/(b.Elapsed()-staged).Seconds(), "steps-rows/s")
	b.ReportMetric(staged.Seconds(), "staging-s")
}

// runImport imports b.N rows and tells how long staging them took.
func runImport(b *testing.B, s *store.Store, every int, mode waypost.ImportMode) (staged time.Duration) {
	began := time.Now()
	im, err := s.CreateImport(b.Context(), benchScope, waypost.Import{Mode: mode, PhoneRegion: "CN"}, func(yield func(waypost.ImportRow, error) bool) {
		for i := range b.N {
			if !yield(waypost.ImportRow{Line: i + 2, Data: importRow(i, every)}, nil) {
				return
			}
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	staged = time.Since(began)
	for !im.Status.Ended() {
		if im, err = s.ImportStep(b.Context(), im.ID); err != nil {
			b.Fatal(err)
		}
	}
	failed := 0
	if every > 0 {
		failed = b.N / every
	}
	if im.Status != waypost.ImportSucceeded || im.Processed != b.N || im.Failed != failed {
		b.Fatalf("%+v", im)
	}
	return staged
}

func importRow(i, every int) []byte {
	phone := i
	if every > 0 && i%every == every-1 {
		phone = i - 1
	}
	var row bytes.Buffer
	fmt.Fprintf(&row, `{"name":"Lead %d","leadsGroup":%d,"region":%d,"address":"%d Zhongshan Road, Shanghai","mobilePhone":["138%08d"],"gender":%d,`,
		i, i%20, 110000+i%300, i%1000, phone, i%3)
	fmt.Fprintf(&row, `"birthday":"19%02d-0%d-1%d","email":"lead%d@example.com","company":"Company %d","externalId":"crm-%08d","customFields":{"score":%d,"tier":"gold"}}`,
		50+i%50, 1+i%9, i%10, i, i%5000, i, i%100)
	return row.Bytes()
}
