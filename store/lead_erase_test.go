package store_test

import (
	"bytes"
	"database/sql"
	"fmt"
	neturl "net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"waypost"
)

// TestOrphansLoseParams has a lead deleted between the look for it and the end of an
// enrollment's transaction: who finds such an enrollment cancels it.
func TestOrphansLoseParams(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		s := migrated(t, url)
		sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
		j, err := s.CreateJourney(t.Context(), sc, "J", []byte(`{"name":"J"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.PublishJourney(t.Context(), sc, j.ID, waypost.Publication{Name: "J", Hash: "hash", Definition: []byte(`{"name":"J"}`)}); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for i := range 2 {
			lead, err := s.CreateLead(t.Context(), sc, waypost.LeadFields{Name: "Ada"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			e, err := s.Enroll(t.Context(), sc, waypost.Enrollment{JourneyID: j.ID, Version: 1, LeadsID: lead.LeadsID, Params: map[string]any{"order": "4711"}}, waypost.Reentry{})
			if err != nil {
				t.Fatal(err)
			}
			if ids = append(ids, e.ID); i == 0 {
				exec(t, driver, dsn, fmt.Sprint("DELETE FROM leads WHERE leads_id = ", lead.LeadsID))
			}
		}
		if err := s.CancelEnrollments(t.Context(), ids); err != nil {
			t.Fatal(err)
		}
		for i, want := range []int{0, 1} {
			e, _, err := s.Enrollment(t.Context(), sc, ids[i])
			if err != nil || e.Status != waypost.EnrollmentCanceled || len(e.Params) != want {
				t.Errorf("enrollment %d is %s with the params %v: %v", i, e.Status, e.Params, err)
			}
		}
	})
}

// After the deletion of a lead nothing that was known of it stands anywhere in the database,
// nor, of SQLite, in its file and its log.
func TestErasedLeadIsNowhere(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		s := migrated(t, url)
		sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
		person := waypost.LeadFields{
			Name: "Ottilie Quastenflosser", Address: new("Zwetschgenallee 4711"), Email: new("ottilie@quasten.example"), ExternalID: new("crm-quasten-1"),
			MobilePhone: []string{"+8613800138471"}, CustomFields: map[string]any{"shoe": "Größe 40 Quasten"},
		}
		planted := []string{"Ottilie Quastenflosser", "ottilie quastenflosser", "Zwetschgenallee 4711", "ottilie@quasten.example", "crm-quasten-1", "13800138471", "Größe 40 Quasten", "Quasten"}
		claim := &waypost.Claim{ID: "key", Token: "one", Scope: sc}
		claim.Answer = func(result any) (waypost.Answer, error) {
			l := result.(waypost.Lead)
			return waypost.Answer{Status: 201, Body: []byte(l.Name), Leads: []int64{l.LeadsID}}, nil
		}
		if _, err := s.ClaimKey(t.Context(), claim, []byte("body")); err != nil {
			t.Fatal(err)
		}
		lead, err := s.CreateLead(waypost.WithClaim(t.Context(), claim), sc, person, []string{"+8613800138471"})
		if err != nil {
			t.Fatal(err)
		}
		namesake, err := s.CreateLead(t.Context(), sc, waypost.LeadFields{Name: "Bea", Email: new("shared@example.com")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		j, err := s.CreateJourney(t.Context(), sc, "J", []byte(`{"name":"J"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.PublishJourney(t.Context(), sc, j.ID, waypost.Publication{Name: "J", Hash: "hash", Definition: []byte(`{"name":"J"}`)}); err != nil {
			t.Fatal(err)
		}
		e := waypost.Enrollment{JourneyID: j.ID, Version: 1, LeadsID: lead.LeadsID, Params: map[string]any{"to": person.Name}}
		if _, err := s.Enroll(t.Context(), sc, e, waypost.Reentry{}); err != nil {
			t.Fatal(err)
		}
		launches := map[string]string{}
		for name, filter := range map[string]waypost.LeadFilter{
			"phone": {MobilePhone: "+8613800138471"}, "email": {Email: "Ottilie@Quasten.example"}, "externalId": {ExternalID: "crm-quasten-1"},
			"name": {Name: "ottilie quastenf", Region: new(int64(1))}, "custom": {CustomFields: map[string]string{"shoe": "Größe 40 Quasten"}},
			"others": {Name: "Bea"}, "everybody": {},
		} {
			l, err := s.CreateLaunch(t.Context(), sc, waypost.Launch{JourneyID: j.ID, Version: 1, Audience: waypost.Audience{Filter: &filter}})
			if err != nil {
				t.Fatal(err)
			}
			launches[name] = l.ID
		}
		if found := stored(t, driver, dsn, planted); len(found) < 6 {
			t.Fatalf("before: only %q is found: the search proves nothing", found)
		}

		erasure, err := s.EraseLead(t.Context(), sc, lead.LeadsID, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := (waypost.Erased{Canceled: 1, Params: 1, Answers: 1, Filters: 5}); erasure.Erased != want {
			t.Errorf("erased %+v, want %+v", erasure.Erased, want)
		}
		if want := (waypost.KeptOfLead{Enrollments: 1}); erasure.Kept != want {
			t.Errorf("kept %+v, want %+v", erasure.Kept, want)
		}
		if found := stored(t, driver, dsn, planted); len(found) > 0 {
			t.Errorf("after: %q", found)
		}
		// The key stays used, whatever comes with it, and nothing is done again.
		for _, body := range []string{"body", "other"} {
			kept, err := s.ClaimKey(t.Context(), &waypost.Claim{ID: "key", Token: "two"}, []byte(body))
			if kept != nil || waypost.CodeOf(err) != waypost.CodeConflict || !strings.Contains(err.Error(), "erased") {
				t.Errorf("%s: the key has %+v, %v", body, kept, err)
			}
		}
		for name, id := range launches {
			l, err := s.Launch(t.Context(), sc, id)
			if err != nil {
				t.Fatal(err)
			}
			want := []int64{lead.LeadsID} // nobody, rather than everybody
			if name == "others" || name == "everybody" {
				want = nil
			}
			if got := l.Audience.Filter.LeadsIDs; !slices.Equal(got, want) {
				t.Errorf("the launch by %s is for %d, want %d", name, got, want)
			}
		}
		if _, err := s.EraseLead(t.Context(), sc, namesake.LeadsID, nil); err != nil {
			t.Fatal(err)
		}
	})
}

// A filter that others meet, too, is not the lead's; suppressions are kept.
func TestErasureKeeps(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, _, _ string) {
		s := migrated(t, url)
		sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
		var ids []int64
		for range 2 {
			l, err := s.CreateLead(t.Context(), sc, waypost.LeadFields{Name: "Ada", Email: new("ada@example.com")}, nil)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, l.LeadsID)
		}
		j, err := s.CreateJourney(t.Context(), sc, "J", []byte(`{"name":"J"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.PublishJourney(t.Context(), sc, j.ID, waypost.Publication{Name: "J", Hash: "hash", Definition: []byte(`{"name":"J"}`)}); err != nil {
			t.Fatal(err)
		}
		_, err = s.CreateLaunch(t.Context(), sc, waypost.Launch{JourneyID: j.ID, Version: 1, Audience: waypost.Audience{Filter: &waypost.LeadFilter{Email: "ada@example.com"}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.CreateSuppression(t.Context(), sc, waypost.Suppression{Channel: "sms", Email: "ADA@example.com"}); err != nil {
			t.Fatal(err)
		}
		for i, want := range []waypost.Erasure{
			{Kept: waypost.KeptOfLead{Suppressions: 1, Filters: 1}}, {Erased: waypost.Erased{Filters: 1}, Kept: waypost.KeptOfLead{Suppressions: 1}},
		} {
			want.LeadsID = ids[i]
			if got, err := s.EraseLead(t.Context(), sc, ids[i], nil); err != nil || got != want {
				t.Errorf("%+v, want %+v: %v", got, want, err)
			}
		}
	})
}

// An answer about a lead that is gone meanwhile is not kept.
func TestAnswerAfterErasure(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, _, _ string) {
		s := migrated(t, url)
		c := &waypost.Claim{ID: "key", Token: "one"}
		if _, err := s.ClaimKey(t.Context(), c, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.KeepAnswer(t.Context(), c, waypost.Answer{Status: 200, Body: []byte("Ada"), Leads: []int64{4711}}); err != nil {
			t.Fatal(err)
		}
		kept, err := s.ClaimKey(t.Context(), &waypost.Claim{ID: "key", Token: "two"}, nil)
		if kept != nil || waypost.CodeOf(err) != waypost.CodeConflict {
			t.Errorf("%+v, %v", kept, err)
		}
	})
}

// stored lists those of the texts that a database holds in any column, and SQLite in its files.
func stored(t *testing.T, driver, dsn string, texts []string) (found []string) {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tables := "SELECT name FROM sqlite_master WHERE type = 'table'"
	if driver != "sqlite" {
		tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
	}
	var all bytes.Buffer
	column := func(query string) (values []string) {
		rows, err := db.QueryContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			raw, into := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
			for i := range raw {
				into[i] = &raw[i]
			}
			if err := rows.Scan(into...); err != nil {
				t.Fatal(err)
			}
			for _, r := range raw {
				values = append(values, string(r))
			}
		}
		return values
	}
	for _, table := range column(tables) {
		all.WriteString(strings.Join(column(`SELECT * FROM "`+table+`"`), "\n"))
	}
	if driver == "sqlite" {
		path, err := neturl.PathUnescape(strings.TrimPrefix(dsn, "file:"))
		if err != nil {
			t.Fatal(err)
		}
		for _, suffix := range []string{"", "-wal"} {
			file, err := os.ReadFile(path + suffix)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(file)
		}
	}
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return !bytes.Contains(all.Bytes(), []byte(text)) })
}
