package store_test

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"waypost"
	"waypost/store"
	"waypost/store/storetest"
)

// benchLeads is how many leads the benchmarks of lists and exports have.
func benchLeads(b *testing.B) int {
	n, err := strconv.Atoi(os.Getenv("WAYPOST_BENCH_LEADS"))
	if os.Getenv("WAYPOST_BENCH_LEADS") == "" {
		return 1_000_000
	}
	if err != nil || n < 1000 {
		b.Fatal("WAYPOST_BENCH_LEADS must be a number from 1000")
	}
	return n
}

// withLeads opens a store with so many leads. Of a hundred, one each is in groups 0
// to 99. Region 5 has half of all; region 7 a ten-thousandth; region 9 half of the
// last tenth. The numbers in their names and the order in which they were created are
// those of their ids; they were changed in no such order.
func withLeads(b *testing.B, dbURL, driver, dsn, series string) *store.Store {
	b.Helper()
	check := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	_, _, err := store.Migrate(b.Context(), dbURL)
	check(err)
	db, err := sql.Open(driver, dsn)
	check(err)
	db.SetMaxOpenConns(1)
	statements := []string{"VACUUM ANALYZE leads", "CHECKPOINT"}
	if driver == "sqlite" {
		statements = nil
		for _, pragma := range []string{"synchronous = OFF", "cache_size = -1000000"} {
			_, err := db.Exec("PRAGMA " + pragma)
			check(err)
		}
	}
	n := benchLeads(b)
	_, err = db.Exec(fmt.Sprintf(`INSERT INTO leads (org, stage, leads_group, region, address, name, name_folded, mobile_phone, gender, email, email_folded, company, external_id, custom_fields, created_at, updated_at)
		SELECT 'acme', 'release', i %% 100, CASE WHEN i %% 2 = 0 THEN 5 WHEN i %% 10000 = 1 THEN 7 WHEN i > %d * 9 / 10 THEN 9 END, i || ' Main Street, Springfield',
			'Lead ' || i, 'lead ' || i, '["138 0013 8000"]', i %% 3, 'lead' || i || '@example.com', 'lead' || i || '@example.com', 'Company ' || (i %% 1000), 'x-' || i, '{"plan":"gold","score":1.5}',
			%d + i * 1000, %d + (i * 7919 %% %d) * 1000 FROM (%s) AS s`,
		n, benchFrom.UnixMicro(), benchFrom.UnixMicro(), n, fmt.Sprintf(series, n)))
	check(err)
	for _, statement := range statements {
		_, err := db.Exec(statement)
		check(err)
	}
	check(db.Close())
	s, err := store.Open(b.Context(), dbURL, storetest.Keys(b), time.Now)
	check(err)
	b.Cleanup(func() { s.Close() })
	return s
}

var benchFrom = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func onBoth(b *testing.B, run func(b *testing.B, s *store.Store)) {
	b.Run("sqlite", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "waypost.db")
		run(b, withLeads(b, "sqlite:"+path, "sqlite", "file:"+(&url.URL{Path: path}).EscapedPath(),
			"WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < %d) SELECT i FROM s"))
	})
	b.Run("postgres", func(b *testing.B) {
		dbURL := storetest.PostgresURL(b)
		run(b, withLeads(b, dbURL, "pgx", dbURL, "SELECT generate_series(1::bigint, %d) AS i"))
	})
}

// BenchmarkLeadList measures a page of 50 of a million leads (WAYPOST_BENCH_LEADS
// sets another number): the first and the last full one, 50th and 99th percentile. An
// operation is both.
func BenchmarkLeadList(b *testing.B) {
	n := benchLeads(b)
	number := func(n int64) *int64 { return &n }
	at := func(part float64) time.Time { return benchFrom.Add(time.Duration(part*float64(n)) * time.Millisecond) }
	onBoth(b, func(b *testing.B, s *store.Store) {
		for _, f := range []struct {
			name   string
			filter waypost.LeadFilter
		}{
			{"all", waypost.LeadFilter{}},
			{"group=7", waypost.LeadFilter{LeadsGroup: number(7)}},
			{"region=5,half", waypost.LeadFilter{Region: number(5)}},
			{"region=9,last", waypost.LeadFilter{Region: number(9)}},
			{"region=6,none", waypost.LeadFilter{Region: number(6)}},
			{"region=5,group=7,none", waypost.LeadFilter{Region: number(5), LeadsGroup: number(7)}},
			{"region=5,group=8", waypost.LeadFilter{Region: number(5), LeadsGroup: number(8)}},
			{"name=Lead,all", waypost.LeadFilter{Name: "Lead"}},
			{"name=Lead_9,last", waypost.LeadFilter{Name: "Lead 9"}},
			{"name=Lead_77", waypost.LeadFilter{Name: "Lead 77"}},
			{"name=Lead_777", waypost.LeadFilter{Name: "Lead 777"}},
			{"name=Nobody,none", waypost.LeadFilter{Name: "Nobody"}},
			{"email", waypost.LeadFilter{Email: "lead700@example.com"}},
			{"externalId", waypost.LeadFilter{ExternalID: "x-700"}},
			{"mobilePhone,none", waypost.LeadFilter{MobilePhone: "+8613800138000"}},
			{"created=last_half", waypost.LeadFilter{CreatedFrom: at(.5)}},
			{"created=first_half", waypost.LeadFilter{CreatedTo: at(.5)}},
			{"created=last_1%", waypost.LeadFilter{CreatedFrom: at(.99)}},
			{"created=0.1%", waypost.LeadFilter{CreatedFrom: at(.7), CreatedTo: at(.701)}},
			{"updated=half", waypost.LeadFilter{UpdatedTo: at(.5)}},
			{"updated=1%", waypost.LeadFilter{UpdatedTo: at(.01)}},
		} {
			for up, down := range map[waypost.LeadSort]waypost.LeadSort{
				waypost.SortLeadsID: waypost.SortLeadsIDDown, waypost.SortCreatedAtDown: waypost.SortCreatedAt, waypost.SortUpdatedAtDown: waypost.SortUpdatedAt,
			} {
				b.Run(fmt.Sprintf("%s/%s", f.name, up), func(b *testing.B) { benchmarkPages(b, s, f.filter, up, down) })
			}
		}
	})
}

func benchmarkPages(b *testing.B, s *store.Store, f waypost.LeadFilter, up, down waypost.LeadSort) {
	const page = 50
	list := func(sort waypost.LeadSort, after string, n int) []waypost.Lead {
		b.Helper()
		leads, err := s.ListLeads(b.Context(), benchScope, waypost.LeadQuery{Filter: f, Sort: sort, Page: waypost.Page{After: after, Limit: n}})
		if err != nil {
			b.Fatal(err)
		}
		return leads
	}
	last := "" // after which the last page begins
	if end := list(down, "", page+1); len(end) > page {
		last = up.Cursor(end[page])
	}
	var times [2][]time.Duration
	for b.Loop() {
		for i, after := range []string{"", last} {
			begin := time.Now()
			list(up, after, page+1)
			times[i] = append(times[i], time.Since(begin))
		}
	}
	for i, name := range []string{"first", "last"} {
		slices.Sort(times[i])
		ms := func(part float64) float64 {
			return float64(times[i][int(part*float64(len(times[i])-1))].Microseconds()) / 1000
		}
		b.ReportMetric(ms(.5), name+"-p50-ms")
		b.ReportMetric(ms(.99), name+"-p99-ms")
	}
}

// BenchmarkLeadExport measures an export of a million leads with the names of its
// custom fields. An operation is an export; heap-MB is what it reached.
func BenchmarkLeadExport(b *testing.B) {
	onBoth(b, func(b *testing.B, s *store.Store) {
		for _, sort := range []waypost.LeadSort{waypost.SortLeadsID, waypost.SortUpdatedAt} {
			b.Run(string(sort), func(b *testing.B) {
				leads, heap := 0, uint64(0)
				for b.Loop() {
					err := s.ExportLeads(b.Context(), benchScope, waypost.LeadQuery{Sort: sort}, func([]string) error { return nil }, func(waypost.Lead) error {
						if leads++; leads%50_000 == 0 {
							var m runtime.MemStats
							runtime.ReadMemStats(&m)
							heap = max(heap, m.HeapInuse)
						}
						return nil
					})
					if err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(leads)/b.Elapsed().Seconds(), "leads/s")
				b.ReportMetric(float64(heap)/(1<<20), "heap-MB")
			})
		}
	})
}
