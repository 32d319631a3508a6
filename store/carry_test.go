package store_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"waypost"
	"waypost/store"
)

// TestDeliveriesCarryOver migrates deliveries of schema version 3: one that
// succeeded at once, one that was retried and is under way, one whose attempts do
// not look like what it shows, and one that was never attempted.
func TestDeliveriesCarryOver(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		migrateTo3(t, url, driver, dsn)
		for _, statement := range []string{
			`INSERT INTO journeys (id, org, stage, name, draft, published_version, status, created_at, updated_at) VALUES ('jrn_1', 'acme', 'release', 'J', '{}', 1, 'active', 1, 1)`,
			`INSERT INTO journey_versions (journey_id, version, name, hash, definition, published_at) VALUES ('jrn_1', 1, 'J', 'h', '{}', 1)`,
			`INSERT INTO enrollments (id, org, stage, journey_id, version, leads_id, launch_id, app_id, entry_key, params, status, node_id, last_seq, created_at)
				VALUES ('enr_06eess96gxwjappza26g9bqby0', 'acme', 'release', 'jrn_1', 1, 7, 'lch_1', 'app_1', '', '{}', 'waiting', 'later', 2, 1000000)`,
			`INSERT INTO timeline (enrollment_id, seq, at, node_id, what, next, reason, version) VALUES
				('enr_06eess96gxwjappza26g9bqby0', 1, 2000000, 'hello', 'sent', 'later', 'it''s "so"', 1),
				('enr_06eess96gxwjappza26g9bqby0', 2, 3000000, 'later', 'entered', '', '', 1)`,
			`INSERT INTO deliveries (message_id, org, stage, enrollment_id, visit, journey_id, journey_version, node_id, webhook_id, leads_id,
				status, succeed, message, http_status, error_class, attempts, first_attempt_at, last_attempt_at, duration_ms, open_attempt, open_at, open_by) VALUES
				('msg_1', 'acme', 'release', 'enr_06eess96gxwjappza26g9bqby0', 1, 'jrn_1', 1, 'hello', 'whk_1', 7, 'succeeded', TRUE, 'thanks', 200, '', 1, 2000000, 2000000, 5, 0, NULL, ''),
				('msg_2', 'acme', 'release', 'enr_06eess96gxwjappza26g9bqby0', 2, 'jrn_1', 1, 'hello', 'whk_1', 7, 'retrying', NULL, 'busy', 503, 'httpStatus', 2, 2000000, 4000000, 6, 3, 9000000, 'w'),
				('msg_3', 'acme', 'release', 'enr_06eess96gxwjappza26g9bqby0', 3, 'jrn_1', 1, 'hello', 'whk_1', 7, 'retrying', NULL, 'cut off', 0, 'interrupted', 1, 2000000, 2000000, 0, 2, 9000000, 'w'),
				('msg_4', 'acme', 'release', 'enr_06eess96gxwjappza26g9bqby0', 4, 'jrn_1', 1, 'hello', 'whk_1', 7, 'deferred', NULL, '', 0, '', 0, NULL, NULL, 0, 0, NULL, '')`,
			`INSERT INTO attempts (message_id, round, attempt, at, http_status, error_class, message, duration_ms, response_excerpt) VALUES
				('msg_1', 1, 1, 2000000, 200, '', 'thanks', 5, '{}'),
				('msg_2', 1, 1, 2000000, 503, 'httpStatus', 'busy', 6, 'one'),
				('msg_2', 1, 2, 4000000, 503, 'httpStatus', 'busy', 6, 'two'),
				('msg_3', 1, 1, 2000000, 404, 'httpStatus', 'gone', 8, 'late')`,
		} {
			exec(t, driver, dsn, statement)
		}
		if from, _, err := store.Migrate(t.Context(), url); err != nil || from != 3 {
			t.Fatalf("migrated from %d: %v", from, err)
		}
		s, err := open(t, url)
		if err != nil {
			t.Fatal(err)
		}
		sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
		const enrollment = "enr_06eess96gxwjappza26g9bqby0"
		at := func(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }
		attempts := func(id string) (waypost.Delivery, []waypost.Attempt) {
			t.Helper()
			d, list, _, err := s.Delivery(t.Context(), sc, id)
			if err != nil {
				t.Fatal(err)
			}
			if d.LaunchID != "lch_1" {
				t.Errorf("%s: launch %q", id, d.LaunchID)
			}
			return d, list
		}
		for id, want := range map[string][]waypost.Attempt{
			"msg_1": {{Attempt: 1, Round: 1, At: at(2), HTTPStatus: 200, Message: "thanks", DurationMs: 5, ResponseExcerpt: "{}"}},
			"msg_2": {
				{Attempt: 1, Round: 1, At: at(2), HTTPStatus: 503, ErrorClass: "httpStatus", Message: "busy", DurationMs: 6, ResponseExcerpt: "one"},
				{Attempt: 2, Round: 1, At: at(4), HTTPStatus: 503, ErrorClass: "httpStatus", Message: "busy", DurationMs: 6, ResponseExcerpt: "two"},
			},
			"msg_3": {{Attempt: 1, Round: 1, At: at(2), HTTPStatus: 404, ErrorClass: "httpStatus", Message: "gone", DurationMs: 8, ResponseExcerpt: "late"}},
			"msg_4": {},
		} {
			d, got := attempts(id)
			if !reflect.DeepEqual(got, want) || d.Attempts != len(want) {
				t.Errorf("%s: got %d, %+v\nwant %+v", id, d.Attempts, got, want)
			}
		}
		_, timeline, err := s.Enrollment(t.Context(), sc, enrollment)
		want := []waypost.TimelineEntry{
			{Seq: 1, At: at(2), NodeID: "hello", What: "sent", Next: "later", Reason: `it's "so"`, Version: 1},
			{Seq: 2, At: at(3), NodeID: "later", What: "entered", Version: 1},
		}
		if err != nil || !reflect.DeepEqual(timeline, want) {
			t.Errorf("timeline: %v, %+v", err, timeline)
		}

		// They go on: the open ones end, and what is recorded already is no news.
		for visit, attempt := range map[int]int{2: 3, 3: 2} {
			for _, n := range []int{1, attempt} {
				err := s.RecordAttempts(t.Context(), []waypost.AttemptRecord{{
					Touchpoint: waypost.Touchpoint{EnrollmentID: enrollment, Visit: visit}, Scope: sc, Round: 1, Attempt: n, Status: waypost.DeliverySucceeded,
					Outcome: waypost.Outcome{Succeed: true, HTTPStatus: 200, At: at(10)},
				}})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		for id, want := range map[string]int{"msg_2": 3, "msg_3": 2} {
			d, got := attempts(id)
			if len(got) != want || d.Attempts != want || d.Status != waypost.DeliverySucceeded || got[0].HTTPStatus == 200 || got[want-1].HTTPStatus != 200 {
				t.Errorf("%s went on to %+v, %+v", id, d, got)
			}
		}
	})
}

// migrateTo3 brings an empty database to schema version 3.
func migrateTo3(t *testing.T, url, driver, dsn string) {
	t.Helper()
	folder, dialect := "migrations/postgres", goose.DialectPostgres
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		folder, dialect = "migrations/sqlite", goose.DialectSQLite3
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	provider, err := goose.NewProvider(dialect, db, os.DirFS(folder), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
}

// TestFiltersCarryOver migrates launches of schema version 3 that have ended: retention
// finds those whose filter has personal data.
func TestFiltersCarryOver(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		migrateTo3(t, url, driver, dsn)
		const all = `{"LeadsGroup":null,"Region":3,"Name":"","MobilePhone":"","Email":"","ExternalID":"","CreatedFrom":"0001-01-01T00:00:00Z","CreatedTo":"0001-01-01T00:00:00Z"}`
		filters := map[string]string{
			"lch_06eess96gxwjappza26g9bq0y0": strings.Replace(all, `"Name":""`, `"Name":"O''Hara"`, 1),
			"lch_06eess96gxwjappza26g9bq1y0": strings.Replace(all, `"MobilePhone":""`, `"MobilePhone":"+491"`, 1),
			"lch_06eess96gxwjappza26g9bq2y0": strings.Replace(all, `"Email":""`, `"Email":"a@example.com"`, 1),
			"lch_06eess96gxwjappza26g9bq3y0": strings.Replace(all, `"ExternalID":""`, `"ExternalID":"x"`, 1),
			"lch_06eess96gxwjappza26g9bq4y0": all,
		}
		exec(t, driver, dsn, `INSERT INTO journeys (id, org, stage, name, draft, published_version, status, created_at, updated_at) VALUES ('jrn_1', 'acme', 'release', 'J', '{}', 1, 'active', 1, 1)`)
		exec(t, driver, dsn, `INSERT INTO journey_versions (journey_id, version, name, hash, definition, published_at) VALUES ('jrn_1', 1, 'J', 'h', '{}', 1)`)
		launch := func(id, filter string) {
			exec(t, driver, dsn, `INSERT INTO launches (id, org, stage, journey_id, version, app_id, reentry, filter, rate_per_second, created_at, total, highest, enrolled, skipped, done_at)
				VALUES ('`+id+`', 'acme', 'release', 'jrn_1', 1, 'app_1', '{}', `+filter+`, 0, 1, 0, 0, 0, 0, 1)`)
		}
		for id, filter := range filters {
			launch(id, "'"+filter+"'")
		}
		launch("lch_06eess96gxwjappza26g9bq5y0", "NULL") // of listed leads
		if from, _, err := store.Migrate(t.Context(), url); err != nil || from != 3 {
			t.Fatalf("migrated from %d: %v", from, err)
		}
		s, err := open(t, url)
		if err != nil {
			t.Fatal(err)
		}
		dropped := 0
		for at, more := "", true; more; more = at != "" {
			step, err := s.DropStep(t.Context(), waypost.Retention{Payloads: 24 * time.Hour}, at)
			if err != nil {
				t.Fatal(err)
			}
			dropped, at = dropped+step.N, step.Next
		}
		if dropped != 4 {
			t.Errorf("dropped %d filters, want 4", dropped)
		}
		for id := range filters {
			l, err := s.Launch(t.Context(), waypost.Scope{Org: "acme", Stage: waypost.StageRelease}, id)
			region := int64(3)
			if want := (&waypost.LeadFilter{Region: &region}); err != nil || !reflect.DeepEqual(l.Audience.Filter, want) {
				t.Errorf("the filter of %s is %+v, want %+v: %v", id, l.Audience.Filter, want, err)
			}
		}
	})
}
