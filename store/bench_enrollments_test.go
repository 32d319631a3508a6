package store_test

import (
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"waypost"
	"waypost/store"
	"waypost/store/storetest"
)

// BenchmarkEnrollmentList measures pages of 50 of a million enrollments (WAYPOST_BENCH_LEADS
// sets another number) of one journey, beside fifty journeys with a few: the first page and
// the 20 that follow it, 50th and 99th percentile. An operation is all of these pages.
func BenchmarkEnrollmentList(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "waypost.db")
		benchmarkEnrollmentLists(b, "sqlite:"+path, "sqlite", "file:"+(&url.URL{Path: path}).EscapedPath(),
			"WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < %d) SELECT i FROM s")
	})
	b.Run("postgres", func(b *testing.B) {
		dbURL := storetest.PostgresURL(b)
		benchmarkEnrollmentLists(b, dbURL, "pgx", dbURL, "SELECT generate_series(1::bigint, %d) AS i")
	})
}

func benchmarkEnrollmentLists(b *testing.B, dbURL, driver, dsn, series string) {
	s, journey, launch := withEnrollments(b, dbURL, driver, dsn, series)
	n := benchLeads(b)
	one := func(s waypost.EnrollmentStatus) []waypost.EnrollmentStatus { return []waypost.EnrollmentStatus{s} }
	for _, c := range []struct {
		name   string
		filter waypost.EnrollmentFilter
	}{
		{"all", waypost.EnrollmentFilter{}},
		{"all,from_the_middle", waypost.EnrollmentFilter{To: benchFrom.Add(time.Duration(n/2) * time.Millisecond)}},
		{"journey", waypost.EnrollmentFilter{JourneyID: journey}},
		{"journey,version=1", waypost.EnrollmentFilter{JourneyID: journey, Version: 1}},
		{"node=wait,third", waypost.EnrollmentFilter{JourneyID: journey, NodeID: "wait"}},
		{"node=rare", waypost.EnrollmentFilter{JourneyID: journey, NodeID: "rare"}},
		{"node=rare,no_journey", waypost.EnrollmentFilter{NodeID: "rare"}},
		{"node=none", waypost.EnrollmentFilter{JourneyID: journey, NodeID: "none"}},
		{"node=rare,failed", waypost.EnrollmentFilter{JourneyID: journey, NodeID: "rare", Statuses: one(waypost.EnrollmentFailed)}},
		{"lead=1,10", waypost.EnrollmentFilter{LeadsID: 1001}},
		{"lead=7,10000", waypost.EnrollmentFilter{LeadsID: 7}},
		{"lead=7,failed", waypost.EnrollmentFilter{LeadsID: 7, Statuses: one(waypost.EnrollmentFailed)}},
		{"launch", waypost.EnrollmentFilter{LaunchID: launch}},
		{"launch,failed", waypost.EnrollmentFilter{LaunchID: launch, Statuses: one(waypost.EnrollmentFailed)}},
		{"waiting", waypost.EnrollmentFilter{JourneyID: journey, Statuses: one(waypost.EnrollmentWaiting)}},
		{"paused", waypost.EnrollmentFilter{JourneyID: journey, Statuses: one(waypost.EnrollmentPaused)}},
		{"paused,all", waypost.EnrollmentFilter{Statuses: one(waypost.EnrollmentPaused)}},
		{"canceled", waypost.EnrollmentFilter{JourneyID: journey, Statuses: one(waypost.EnrollmentCanceled)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var times []time.Duration
			found := 0
			for b.Loop() {
				page := waypost.Page{Limit: 50}
				for {
					began := time.Now()
					list, next, err := s.ListEnrollments(b.Context(), benchScope, c.filter, page)
					if err != nil {
						b.Fatal(err)
					}
					times = append(times, time.Since(began))
					if found += len(list); len(times)%21 == 0 || next == "" {
						break
					}
					page.After = next
				}
			}
			slices.Sort(times)
			ms := func(part float64) float64 {
				return float64(times[int(part*float64(len(times)-1))].Microseconds()) / 1000
			}
			b.ReportMetric(ms(.5), "p50-ms")
			b.ReportMetric(ms(.99), "p99-ms")
			b.ReportMetric(float64(found)/float64(len(times)), "rows/page")
		})
	}
}

// withEnrollments opens a store with a million enrollments of a journey: half are of a
// launch, whose steps are of 1,000, and one of 500 stands at, or has failed at, the node rare.
func withEnrollments(b *testing.B, dbURL, driver, dsn, series string) (s *store.Store, journey, launch string) {
	b.Helper()
	check := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	_, _, err := store.Migrate(b.Context(), dbURL)
	check(err)
	s, err = store.Open(b.Context(), dbURL, storetest.Keys(b), time.Now)
	check(err)
	b.Cleanup(func() { s.Close() })
	var lead waypost.Lead
	for range 51 {
		j, err := s.CreateJourney(b.Context(), benchScope, "J", []byte(`{}`))
		check(err)
		_, err = s.PublishJourney(b.Context(), benchScope, j.ID, waypost.Publication{Name: "J", Hash: "h", Definition: []byte(`{}`)})
		check(err)
		lead, err = s.CreateLead(b.Context(), benchScope, waypost.LeadFields{Name: "A"}, nil)
		check(err)
		for i := range 5 {
			_, err := s.Enroll(b.Context(), benchScope, waypost.Enrollment{JourneyID: j.ID, Version: 1, LeadsID: lead.LeadsID, EntryKey: fmt.Sprint(i)}, waypost.Reentry{})
			check(err)
		}
		journey = j.ID
	}
	l, err := s.CreateLaunch(b.Context(), benchScope, waypost.Launch{JourneyID: journey, Version: 1, Audience: waypost.Audience{LeadsIDs: []int64{lead.LeadsID}}})
	check(err)
	db, err := sql.Open(driver, dsn)
	check(err)
	defer db.Close()
	n := benchLeads(b)
	id := "substr('00000000000000000000000000' || i || '0', -26)"
	if driver == "pgx" {
		id = "lpad(i || '0', 26, '0')"
	}
	// The time of those of the launch is that of their step.
	_, err = db.Exec(fmt.Sprintf(`INSERT INTO enrollments (id, org, stage, journey_id, version, leads_id, launch_id, app_id, entry_key, params, status, node_id, last_seq, created_at, ended_at)
		SELECT 'enr_' || %s, 'acme', 'release', '%s', 1, CASE WHEN i %% 100 = 0 THEN 7 ELSE 1000 + i * 7919 %% (%d / 10) END, CASE WHEN i %% 2 = 0 THEN '%s' END,
			'app_1', '', '{}', CASE i %% 10 WHEN 0 THEN 'failed' WHEN 1 THEN 'pending' WHEN 2 THEN 'waiting' WHEN 3 THEN 'waiting' WHEN 4 THEN 'waiting' WHEN 5 THEN 'running' ELSE 'completed' END,
			CASE WHEN i %% 10 = 1 THEN '' WHEN i %% 500 IN (0, 2) THEN 'rare' WHEN i %% 10 BETWEEN 2 AND 4 THEN 'wait' ELSE 'hello' END, 1,
			CASE WHEN i %% 2 = 0 THEN %d + i / 2000 * 2000000 ELSE %d + i * 1000 END, CASE WHEN i %% 10 NOT BETWEEN 1 AND 5 THEN %d + i * 1000 + 5000000 END FROM (%s) AS s`,
		id, journey, n, l.ID, benchFrom.UnixMicro(), benchFrom.UnixMicro(), benchFrom.UnixMicro(), fmt.Sprintf(series, n)))
	check(err)
	statements := []string{
		fmt.Sprintf("UPDATE launches SET started_at = %d, done_at = %d", benchFrom.UnixMicro(), benchFrom.Add(time.Duration(n)*time.Millisecond).UnixMicro()),
		fmt.Sprintf(`INSERT INTO controls (target, kind, from_at, shift, event, sweep_after) SELECT e.id, 'pause', 1, FALSE, '', '' FROM enrollments AS e
			WHERE e.journey_id = '%s' AND e.status = 'waiting' AND e.leads_id %% 1000 = 0`, journey),
	}
	if driver == "pgx" {
		statements = append(statements, "VACUUM ANALYZE enrollments", "VACUUM ANALYZE controls", "CHECKPOINT")
	}
	for _, statement := range statements {
		_, err := db.Exec(statement)
		check(err)
	}
	return s, journey, l.ID
}
