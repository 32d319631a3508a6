package store_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/store"
)

// TestLeadListsAcrossBlocks compares lists by leadsId of what was created at some time
// with what the database says without them: while times and ids nearly agree, leads are
// missing, and some come late.
func TestLeadListsAcrossBlocks(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		s, db := blockStore(t, url, driver, dsn)
		random := rand.New(rand.NewPCG(20, 26))
		// 4,000 leads in some 20 blocks, every fifth of another stage. Of the others, one
		// of fifty was created by a clock that was wrong.
		var rows []string
		var ids []int64
		id := int64(0)
		for i := range 4000 {
			id += 1 + random.Int64N(40)
			if i%500 == 499 {
				id += 9_000 // no lead of a block or two
			}
			at := i + random.IntN(5)
			if random.IntN(50) == 0 {
				at = random.IntN(4000)
			}
			rows = append(rows, blockLead(id, i%5 == 0, i, at))
			ids = append(ids, id)
		}
		insertLeads(t, db, rows)
		compare := func(when string) {
			t.Helper()
			region, group := int64(1), int64(2)
			for _, times := range [][2]int{{2000, 0}, {0, 2000}, {3990, 0}, {0, 15}, {1500, 1600}, {1500, 3500}, {4100, 0}} {
				for name, f := range map[string]waypost.LeadFilter{
					"all": {}, "region": {Region: &region}, "both": {Region: &region, LeadsGroup: &group}, "name": {Name: "Lead 3"},
				} {
					for _, bound := range []struct {
						at *time.Time
						n  int
					}{{&f.CreatedFrom, times[0]}, {&f.CreatedTo, times[1]}} {
						if bound.n > 0 {
							*bound.at = listFrom.Add(time.Duration(bound.n) * time.Second)
						}
					}
					for _, sort := range []waypost.LeadSort{waypost.SortLeadsID, waypost.SortLeadsIDDown} {
						got, want := listedIDs(t, s, f, sort, 100), plainIDs(t, db, f, sort)
						if !slices.Equal(got, want) {
							t.Errorf("%s: %s, %v, %s: got %d leads, want %d", when, name, times, sort, len(got), len(want))
						}
					}
				}
			}
		}
		compare("at first")

		for i := range ids {
			if i%10 == 3 || i > 1900 && i < 2050 {
				_, err := db.Exec(fmt.Sprintf("DELETE FROM leads WHERE leads_id = %d", ids[i]))
				check(t, err)
			}
		}
		compare("with leads deleted")

		// A transaction that takes long: ids and times of long ago.
		tx, err := db.Begin()
		check(t, err)
		for i := range 30 {
			_, err := tx.Exec(insertLead + blockLead(ids[i*60+3], false, i, 3980+i))
			check(t, err)
			_, err = tx.Exec(insertLead + blockLead(ids[3999]-int64(1+i), false, i, 10)) // where no lead was
			check(t, err)
		}
		compare("before a late commit")
		check(t, tx.Commit())
		compare("after a late commit")
	})
}

// TestLeadListsPassOverBlocks lists half of the leads by leadsId, and looks that the
// other half is not read, nor all that match.
func TestLeadListsPassOverBlocks(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		s, db := blockStore(t, url, driver, dsn)
		// The last id of a block is that of the last lead before the middle, the first one of
		// the next that of the first lead behind it.
		const leads, half = 12_000, 6144
		id := func(i int) int64 { return int64(i/2*128 + i%2*127) }
		var rows []string
		for i := 1; i < leads; i++ {
			rows = append(rows, blockLead(id(i), false, i, i))
		}
		insertLeads(t, db, rows)
		if driver == "sqlite" {
			_, err := db.Exec("DROP INDEX leads_by_name") // a list that would read them all fails
			check(t, err)
		} else {
			_, err := db.Exec("ANALYZE leads") // as it soon does by itself
			check(t, err)
		}
		middle := listFrom.Add(half * time.Second)
		pages := 0
		for _, list := range []struct {
			f     waypost.LeadFilter
			sort  waypost.LeadSort
			first []int // the two on the first page
			last  int   // the one on the last
		}{
			{waypost.LeadFilter{CreatedFrom: middle}, waypost.SortLeadsID, []int{half, half + 1}, leads - 1},
			{waypost.LeadFilter{CreatedFrom: middle}, waypost.SortLeadsIDDown, []int{leads - 1, leads - 2}, half},
			{waypost.LeadFilter{CreatedTo: middle}, waypost.SortLeadsID, []int{1, 2}, half - 1},
			{waypost.LeadFilter{CreatedTo: middle}, waypost.SortLeadsIDDown, []int{half - 1, half - 2}, 1},
			{waypost.LeadFilter{CreatedFrom: middle, CreatedTo: middle.Add(1500 * time.Second)}, waypost.SortLeadsIDDown, []int{half + 1499, half + 1498}, half},
		} {
			list.f.Name = "Lead"
			var first []int64
			for _, i := range list.first {
				first = append(first, id(i))
			}
			before, last := list.last-1, []int64{id(list.last)}
			if list.sort == waypost.SortLeadsIDDown {
				before = list.last + 1
			}
			for after, want := range map[string][]int64{"": first, fmt.Sprint(id(before)): last} {
				q := waypost.LeadQuery{Filter: list.f, Sort: list.sort, Page: waypost.Page{After: after, Limit: 2}}
				pages++
				page, err := s.ListLeads(t.Context(), listScope, q)
				if got := idsOf(page); err != nil || !slices.Equal(got, want) {
					t.Errorf("%+v: got %v, want %v, %v", q, got, want, err)
				}
			}
		}
		if driver == "sqlite" {
			return
		}
		// PostgreSQL counts what a connection has read when that ends.
		check(t, s.Close())
		var others, read int
		for deadline := time.Now().Add(2 * time.Minute); read == 0 || others > 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("PostgreSQL counts nothing")
			}
			check(t, db.QueryRow(`SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()),
				(SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'leads') +
				(SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'leads')`).Scan(&others, &read))
		}
		// A way is a thousand leads, gone twice and counted once; half of all are 6,000.
		if read > pages*3000 {
			t.Errorf("%d leads were read for %d pages", read, pages)
		}
	})
}

// TestAudienceAcrossBlocks launches to leads that were created from some time on.
func TestAudienceAcrossBlocks(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		s, db := blockStore(t, url, driver, dsn)
		var rows []string
		for i := range 3000 {
			rows = append(rows, blockLead(int64(i*50+1), i%7 == 0, i, i))
		}
		insertLeads(t, db, rows)
		j, err := s.CreateJourney(t.Context(), listScope, "J", []byte(`{}`))
		check(t, err)
		_, err = s.PublishJourney(t.Context(), listScope, j.ID, waypost.Publication{Name: "J", Hash: "h", Definition: []byte(`{}`)})
		check(t, err)
		f := waypost.LeadFilter{CreatedFrom: listFrom.Add(2700 * time.Second), CreatedTo: listFrom.Add(3200 * time.Second)}
		want := plainIDs(t, db, f, waypost.SortLeadsID)
		l, err := s.CreateLaunch(t.Context(), listScope, waypost.Launch{JourneyID: j.ID, Version: 1, Audience: waypost.Audience{Filter: &f}})
		check(t, err)
		for done := false; !done; {
			step, err := s.EnrollAudience(t.Context(), l.ID, 100)
			check(t, err)
			done = step.Done
			// Who comes later does not belong to it.
			_, err = db.Exec(insertLead + blockLead(200_000+int64(step.Enrolled), false, 3000, 3000+step.Enrolled) + " ON CONFLICT DO NOTHING")
			check(t, err)
		}
		if got := scanIDs(t, db, "SELECT leads_id FROM enrollments ORDER BY leads_id"); !slices.Equal(got, want) || len(want) < 250 {
			t.Errorf("got %d enrollments, want %d", len(got), len(want))
		}
	})
}

// blockStore opens a store without leads, and the same database beside it.
func blockStore(t *testing.T, url, driver, dsn string) (*store.Store, *sql.DB) {
	t.Helper()
	_, _, err := store.Migrate(t.Context(), url)
	check(t, err)
	s, err := open(t, url)
	check(t, err)
	db, err := sql.Open(driver, dsn)
	check(t, err)
	t.Cleanup(func() { db.Close() })
	return s, db
}

const insertLead = "INSERT INTO leads (leads_id, org, stage, region, leads_group, name, name_folded, mobile_phone, created_at, updated_at) VALUES "

// blockLead is the nth lead, which was created at so many seconds.
func blockLead(id int64, test bool, n, at int) string {
	stage := waypost.StageRelease
	if test {
		stage = waypost.StageTest
	}
	created := listFrom.Add(time.Duration(at) * time.Second).UnixMicro()
	return fmt.Sprintf("(%d, 'acme', '%s', %d, %d, 'Lead %d', 'lead %d', '[]', %d, %d)", id, stage, n%2, n%3, n, n, created, created)
}

func insertLeads(t *testing.T, db *sql.DB, rows []string) {
	t.Helper()
	for part := range slices.Chunk(rows, 1000) {
		_, err := db.Exec(insertLead + strings.Join(part, ", "))
		check(t, err)
	}
}

// listedIDs walks through a list, page by page.
func listedIDs(t *testing.T, s *store.Store, f waypost.LeadFilter, sort waypost.LeadSort, limit int) []int64 {
	t.Helper()
	var ids []int64
	for q := (waypost.LeadQuery{Filter: f, Sort: sort, Page: waypost.Page{Limit: limit}}); ; {
		page, err := s.ListLeads(t.Context(), listScope, q)
		check(t, err)
		ids = append(ids, idsOf(page)...)
		if len(page) < limit {
			return ids
		}
		q.Page.After = sort.Cursor(page[limit-1])
	}
}

// plainIDs asks the database for the leads of a list by leadsId, in one query.
func plainIDs(t *testing.T, db *sql.DB, f waypost.LeadFilter, sort waypost.LeadSort) []int64 {
	t.Helper()
	query := "SELECT leads_id FROM leads WHERE org = 'acme' AND stage = 'release'"
	add := func(condition string, arg any) { query += fmt.Sprintf(" AND "+condition, arg) }
	if !f.CreatedFrom.IsZero() {
		add("created_at >= %d", f.CreatedFrom.UnixMicro())
	}
	if !f.CreatedTo.IsZero() {
		add("created_at < %d", f.CreatedTo.UnixMicro())
	}
	if f.Region != nil {
		add("region = %d", *f.Region)
	}
	if f.LeadsGroup != nil {
		add("leads_group = %d", *f.LeadsGroup)
	}
	if f.Name != "" {
		add("substr(name, 1, 6) = '%s'", f.Name)
	}
	query += " ORDER BY leads_id"
	if sort == waypost.SortLeadsIDDown {
		query += " DESC"
	}
	return scanIDs(t, db, query)
}

func scanIDs(t *testing.T, db *sql.DB, query string) (ids []int64) {
	t.Helper()
	rows, err := db.Query(query)
	check(t, err)
	defer rows.Close()
	for rows.Next() {
		var id int64
		check(t, rows.Scan(&id))
		ids = append(ids, id)
	}
	check(t, rows.Err())
	return ids
}

func idsOf(leads []waypost.Lead) (ids []int64) {
	for _, lead := range leads {
		ids = append(ids, lead.LeadsID)
	}
	return ids
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
