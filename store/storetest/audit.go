package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
)

var auditTests = []test{
	{"enrollments", testAuditedEnrollments},
	{"what is undone", testAuditUndone},
	{"an import in several transactions", testAuditedImport},
	{"applications", testAuditedApplications},
	{"lists", testAuditLists},
	{"what is long", func(t *testing.T, f *fixture) {
		draft := fmt.Sprintf(`{"name":"J","note":"short","nodes":[{"note":%q}]}`, strings.Repeat("\u20ac", waypost.MaxAuditSide))
		j := must[waypost.Journey](t)(f.CreateJourney(t.Context(), ada, "J", []byte(draft)))
		e := f.audited(t, waypost.AuditFilter{Target: j.ID})[0]
		equal(t, "after", string(e.After), fmt.Sprintf(`{"draft":{"name":"J","nodes":{"leftOut":%d},"note":"short"},"name":"J","status":"draft"}`, 3*waypost.MaxAuditSide+len(`[{"note":""}]`)))
	}},
	{"retention", func(t *testing.T, f *fixture) {
		year := waypost.Retention{Audit: 365 * day}
		for range 3 {
			must[waypost.Journey](t)(f.CreateJourney(t.Context(), ada, "J", []byte(`{}`)))
			f.clock.Advance(day)
		}
		f.wantDropped(t, "young ones", year, map[string]int{})
		f.clock.Advance(363*day + time.Minute)
		f.wantDropped(t, "for ever", waypost.Retention{}, map[string]int{})
		f.wantDropped(t, "two", year, map[string]int{waypost.DropAudit: 2})
		equal(t, "left", len(f.audited(t, waypost.AuditFilter{})), 1)
	}},
}

// ada is a person behind an application.
var ada = waypost.Author{Scope: scope, Application: "app_1", Actor: "ada", RequestID: "req"}

// audited lists all entries of the scope that match.
func (f *fixture) audited(t testing.TB, filter waypost.AuditFilter) []waypost.AuditEntry {
	t.Helper()
	return must[[]waypost.AuditEntry](t)(f.ListAudit(t.Context(), scope, filter, waypost.Page{Limit: waypost.MaxPageSize}))
}

// linesOf writes entries without their ids.
func linesOf(entries []waypost.AuditEntry) (list []string) {
	for _, e := range entries {
		list = append(list, strings.Join([]string{e.Author.Application, e.Author.Actor, e.Author.RequestID, e.Action, e.Target, string(e.Before), string(e.After)}, " "))
	}
	return list
}

// testAuditedEnrollments enrolls with and without an Idempotency-Key: on PostgreSQL by one
// statement and by a transaction.
func testAuditedEnrollments(t *testing.T, f *fixture) {
	journey := f.journey(t)
	held := claimOf("k", "audit")
	must[*waypost.Answer](t)(f.ClaimKey(t.Context(), held, nil))
	for i, ctx := range []context.Context{t.Context(), waypost.WithClaim(t.Context(), held)} {
		lead := f.lead(t)
		e := must[waypost.Enrollment](t)(f.Enroll(ctx, ada, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead, AppID: "app_1", EntryKey: "secret", Params: map[string]any{"a": "secret"}}, waypost.Reentry{}))
		equal(t, fmt.Sprint("entries ", i), linesOf(f.audited(t, waypost.AuditFilter{Target: e.ID})),
			[]string{fmt.Sprintf(`app_1 ada req enrollment.create %s  {"journeyId":%q,"leadsId":%d,"version":1}`, e.ID, journey, lead)})
		_, err := f.Enroll(t.Context(), ada, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead, EntryKey: "secret"}, waypost.Reentry{})
		wantCode(t, err, waypost.CodeConflict)
	}
	must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: f.lead(t)}, waypost.Reentry{}))
	equal(t, "of refusals and of Waypost itself", len(f.audited(t, waypost.AuditFilter{})), 2)

	// Together: each has its own author.
	byEach := make([]waypost.Author, 20)
	leads := make([]int64, len(byEach))
	for i := range byEach {
		byEach[i], leads[i] = ada, f.lead(t)
		byEach[i].Actor = fmt.Sprint("person ", i)
	}
	for _, err := range atOnce(len(byEach), func(i int) error {
		_, err := f.Enroll(t.Context(), byEach[i], waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: leads[i]}, waypost.Reentry{})
		return err
	}) {
		ok(t, err)
	}
	for i, by := range byEach {
		entries := f.audited(t, waypost.AuditFilter{Actor: by.Actor})
		if len(entries) != 1 || !strings.Contains(string(entries[0].After), fmt.Sprintf(`"leadsId":%d,`, leads[i])) {
			t.Errorf("%s: %v", by.Actor, linesOf(entries))
		}
	}
}

// A change and its entry are there both or neither.
func testAuditUndone(t *testing.T, f *fixture) {
	undone := errors.New("undone")
	ctx := waypost.WithClaim(t.Context(), &waypost.Claim{ID: "x", Answer: func(any) (waypost.Answer, error) { return waypost.Answer{}, undone }})
	_, err := f.CreateLead(ctx, ada, waypost.LeadFields{Name: "Ada"}, nil)
	if !errors.Is(err, undone) {
		t.Fatal(err)
	}
	if _, err := f.CreateWebhook(ctx, ada, waypost.Webhook{Name: "w"}); !errors.Is(err, undone) {
		t.Fatal(err)
	}
	id := f.webhook(t)
	_, err = f.UpdateWebhook(t.Context(), ada, id, func(*waypost.Webhook) error { return undone })
	if !errors.Is(err, undone) {
		t.Fatal(err)
	}
	_, err = f.CreateLead(t.Context(), ada, waypost.LeadFields{Name: "a", ExternalID: ptr("e")}, nil)
	ok(t, err)
	_, err = f.CreateLead(t.Context(), ada, waypost.LeadFields{Name: "b", ExternalID: ptr("e")}, nil)
	wantCode(t, err, waypost.CodeConflict)
	entries := f.audited(t, waypost.AuditFilter{})
	if len(entries) != 1 || entries[0].Action != "lead.create" || string(entries[0].After) != `{"fields":["externalId","name"]}` {
		t.Errorf("%v", linesOf(entries))
	}
}

func testAuditedImport(t *testing.T, f *fixture) {
	const n = 1200 // three transactions
	_, err := f.ImportArticles(t.Context(), ada, func(yield func(waypost.ArticleRow, error) bool) {
		for i := range n {
			row := waypost.ArticleRow{Line: i + 1, Article: waypost.Article{ID: fmt.Sprint("a", i), TenantID: "t1", Name: "n", Identifier: "n"}}
			if i == n-1 {
				row.Article.Name = ""
			}
			if !yield(row, nil) {
				return
			}
		}
	})
	ok(t, err)
	broken := errors.New("the file ends")
	_, err = f.ImportArticles(t.Context(), ada, func(yield func(waypost.ArticleRow, error) bool) {
		for i := range 600 {
			if !yield(waypost.ArticleRow{Line: i + 1, Article: waypost.Article{ID: fmt.Sprint("b", i), TenantID: "t1", Name: "n", Identifier: "n"}}, nil) {
				return
			}
		}
		yield(waypost.ArticleRow{}, broken)
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	counts := map[string]bool{}
	for _, e := range f.audited(t, waypost.AuditFilter{Target: "articles"}) {
		counts[string(e.After)] = true
	}
	equal(t, "one entry each", counts, map[string]bool{`{"created":1199,"failed":1,"updated":0}`: true, `{"created":500,"failed":0,"updated":0}`: true})
}

func testAuditedApplications(t *testing.T, f *fixture) {
	c := must[waypost.Credential](t)(f.CreateApplication(t.Context(), "root", waypost.Application{Org: "acme", Name: "CRM", Grants: []waypost.Grant{"*"}}))
	f.clock.Advance(time.Second)
	rotated := must[waypost.Credential](t)(f.RotateKey(t.Context(), "root", c.Application.ID))
	f.clock.Advance(time.Second)
	for range 2 {
		ok(t, f.DisableApplication(t.Context(), "root", c.Application.ID))
	}
	must[waypost.Credential](t)(f.CreateApplication(t.Context(), "", waypost.Application{Org: "acme", Name: "demo", Grants: []waypost.Grant{"*"}}))
	id := c.Application.ID
	equal(t, "entries", linesOf(f.audited(t, waypost.AuditFilter{})), []string{
		" root  application.disable " + id + ` {"disabled":false} {"disabled":true}`,
		" root  application.rotate " + id + fmt.Sprintf(`  {"accessKey":%q}`, rotated.AccessKey),
		" root  application.create " + id + fmt.Sprintf(`  {"accessKey":%q,"grants":["*"],"name":"CRM","org":"acme","rateBurst":200,"ratePerSecond":100,"requireIfMatch":false}`, c.AccessKey),
	})
}

func testAuditLists(t *testing.T, f *fixture) {
	bob := ada
	bob.Actor = "bob"
	nobody := ada
	nobody.Actor = ""
	start := f.clock.Now().Truncate(time.Millisecond)
	var targets []string
	for i := range 9 {
		by := []waypost.Author{ada, bob, nobody}[i%3]
		targets = append(targets, must[waypost.Journey](t)(f.CreateJourney(t.Context(), by, "J", []byte(`{}`))).ID)
		f.clock.Advance(time.Second)
	}
	for _, c := range []struct {
		filter waypost.AuditFilter
		want   []int
	}{
		{waypost.AuditFilter{}, []int{8, 7, 6, 5, 4, 3, 2, 1, 0}},
		{waypost.AuditFilter{Actor: "bob"}, []int{7, 4, 1}},
		{waypost.AuditFilter{Target: targets[5]}, []int{5}},
		{waypost.AuditFilter{Target: targets[5], Actor: "bob"}, nil},
		{waypost.AuditFilter{From: start.Add(time.Second), To: start.Add(3 * time.Second)}, []int{2, 1}},
		{waypost.AuditFilter{From: start.Add(time.Second + 1)}, []int{8, 7, 6, 5, 4, 3, 2}},
		{waypost.AuditFilter{Actor: "ada", To: start.Add(3*time.Second + 1)}, []int{3, 0}},
		{waypost.AuditFilter{Target: "\x00"}, nil},
	} {
		var got []string
		for page := (waypost.Page{Limit: 2}); ; {
			entries := must[[]waypost.AuditEntry](t)(f.ListAudit(t.Context(), scope, c.filter, page))
			for _, e := range entries {
				got = append(got, e.Target)
			}
			if len(entries) < page.Limit {
				break
			}
			page.After = entries[len(entries)-1].ID
		}
		var want []string
		for _, i := range c.want {
			want = append(want, targets[i])
		}
		equal(t, fmt.Sprintf("%+v", c.filter), got, want)
	}
	for _, sc := range foreign {
		equal(t, "of another scope", len(must[[]waypost.AuditEntry](t)(f.ListAudit(t.Context(), sc, waypost.AuditFilter{}, waypost.Page{}))), 0)
	}
	e := f.audited(t, waypost.AuditFilter{Target: targets[0]})[0]
	equal(t, "at", e.At(), start)
}
