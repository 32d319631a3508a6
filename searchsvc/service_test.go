package searchsvc_test

import (
	"context"
	"errors"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"waypost"
	"waypost/searchsvc"
)

// fixed is an index that always gives the same answer, and tenants.
type fixed struct {
	searchsvc.Index
	found searchsvc.Found
	err   error
	asked *searchsvc.Query // what it was asked last

	owners map[string]string
	lookup error
	looks  *atomic.Int32
}

func (f fixed) Search(_ context.Context, q searchsvc.Query) (searchsvc.Found, error) {
	if f.asked != nil {
		*f.asked = q
	}
	return f.found, f.err
}

func (f fixed) TenantOrg(_ context.Context, tenantID string) (string, error) {
	if f.looks != nil {
		f.looks.Add(1)
	}
	if f.lookup != nil {
		return "", f.lookup
	}
	if org, ok := f.owners[tenantID]; ok {
		return org, nil
	}
	return "", waypost.Errorf(waypost.CodeNotFound, "tenant_id", "nobody's")
}

var owners = map[string]string{"t1": "acme", "t2": "other"}

func match(change func(*searchsvc.Match)) searchsvc.Match {
	m := searchsvc.Match{Document: searchsvc.Document{Key: "1", Stage: waypost.StageTest, Article: waypost.Article{
		ID: "a1", TenantID: "t1", Name: "<i>学生</i>", Identifier: "x1", Content: "学生 & 老师", AccessLevel: 2, Published: true,
		FrontendURL: "https://www.example.com/x1",
		Channels:    []waypost.Channel{{ID: "c0"}, {ID: "c1", Slug: "a/b", AccessLevel: 4}},
	}}}
	change(&m)
	return m
}

func token() waypost.SearchToken {
	return waypost.SearchToken{
		AppID: "app_1", Scope: waypost.Scope{Org: "acme", Stage: waypost.StageTest},
		TenantIDs: []string{"t1", "t2", "t3"}, From: waypost.Origins, MaxAccessLevel: 4,
	}
}

func raw(keywords string) string {
	return url.Values{"tenant_id": {"t1"}, "from": {"frontend"}, "keywords": {keywords}, "_page": {"2"}}.Encode()
}

func (f fixed) search(t *testing.T, token waypost.SearchToken, rawQuery string) (waypost.SearchResult, error) {
	t.Helper()
	if f.owners == nil {
		f.owners = owners
	}
	return searchsvc.New(f, f).Search(t.Context(), token, rawQuery)
}

func TestServiceSearch(t *testing.T) {
	t.Parallel()
	m := match(func(*searchsvc.Match) {})
	got, err := fixed{found: searchsvc.Found{Total: 11, Matches: []searchsvc.Match{m}}}.search(t, token(), raw("学生"))
	if err != nil {
		t.Fatal(err)
	}
	want := waypost.SearchResult{Page: 2, PerPage: 10, Total: 11, Hits: []waypost.SearchHit{{
		ID: "a1", Name: "<i>学生</i>", FrontendURL: "https://www.example.com/x1", Slug: "a/b/x1", Identifier: "x1",
		NameHighlight:   `&lt;i&gt;<b class="highlight">学生</b>&lt;/i&gt;`,
		SearchHighlight: `<b class="highlight">学生</b> &amp; 老师`,
		AccessLevel:     2, Channels: m.Channels,
	}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got.Pages() != 2 || (waypost.SearchResult{PerPage: 10}).Pages() != 0 || (waypost.SearchResult{Total: 10, PerPage: 10}).Pages() != 1 {
		t.Error("wrong number of pages")
	}
}

// What an index must not return is an error, never a hit and never left out in
// silence.
func TestServiceChecksHits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*searchsvc.Match)
		from   string
		ok     bool
	}{
		{"tenant", func(m *searchsvc.Match) { m.TenantID = "T1" }, "frontend", false},
		{"stage", func(m *searchsvc.Match) { m.Stage = waypost.StageRelease }, "frontend", false},
		{"own level", func(m *searchsvc.Match) { m.AccessLevel = 5 }, "frontend", false},
		{"a channel's level", func(m *searchsvc.Match) { m.Channels[0].AccessLevel = 5 }, "frontend", false},
		{"a channel's level, admin", func(m *searchsvc.Match) { m.Channels[0].AccessLevel = 5 }, "admin", false},
		{"draft", func(m *searchsvc.Match) { m.Published = false }, "frontend", false},
		{"draft, admin", func(m *searchsvc.Match) { m.Published = false }, "admin", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			index := fixed{found: searchsvc.Found{Total: 1, Matches: []searchsvc.Match{match(tt.change)}}}
			got, err := index.search(t, token(), strings.Replace(raw("学生"), "frontend", tt.from, 1))
			if (err == nil) != tt.ok || len(got.Hits) > 0 != tt.ok {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// What the engine is asked for is bounded by the token.
func TestServiceAsksWithinToken(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		user, cap, want int
	}{
		{-1, 4, 4}, {-1, 0, 0}, {-1, 10, 10}, {0, 4, 0}, {3, 4, 3}, {4, 4, 4}, {5, 4, 4}, {10, 0, 0},
	} {
		permitted := token()
		permitted.MaxAccessLevel = tt.cap
		query := raw("学生")
		if tt.user >= 0 {
			query += "&user_access_level=" + strconv.Itoa(tt.user)
		}
		var asked searchsvc.Query
		if _, err := (fixed{asked: &asked}).search(t, permitted, query); err != nil {
			t.Fatal(err)
		}
		if asked.Level != tt.want || asked.Stage != waypost.StageTest || asked.TenantID != "t1" || asked.From != waypost.FromFrontend || asked.Page != 2 {
			t.Errorf("level %d of a token for %d asks %+v", tt.user, tt.cap, asked)
		}
	}
}

func TestServiceRefuses(t *testing.T) {
	t.Parallel()
	mustNotAsk := errors.New("the engine must not be asked")
	frontend := func(t *waypost.SearchToken) { t.From = []waypost.Origin{waypost.FromFrontend} }
	for _, tt := range []struct {
		name, query string
		change      func(*waypost.SearchToken)
		code        waypost.ErrorCode
		target      string
	}{
		{"no parameters", "", nil, waypost.CodeBadRequest, ""},
		{"a tenant beyond the token", "tenant_id=t4&from=frontend&keywords=x", nil, waypost.CodeUnauthorized, "tenant_id"},
		{"another case", "tenant_id=T1&from=frontend&keywords=x", nil, waypost.CodeUnauthorized, "tenant_id"},
		{"another organisation's tenant", "tenant_id=t2&from=frontend&keywords=x", nil, waypost.CodeUnauthorized, "tenant_id"},
		{"another organisation's tenant, no parts", "tenant_id=t2&from=frontend&keywords=*", nil, waypost.CodeUnauthorized, "tenant_id"},
		{"admin", "tenant_id=t1&from=admin&keywords=x", frontend, waypost.CodeUnauthorized, "from"},
		{"frontend", "tenant_id=t1&from=frontend&keywords=x", func(t *waypost.SearchToken) { t.From = []waypost.Origin{waypost.FromAdmin} }, waypost.CodeUnauthorized, "from"},
		{"a token for nothing", "tenant_id=t1&from=frontend&keywords=x", func(t *waypost.SearchToken) { *t = waypost.SearchToken{} }, waypost.CodeUnauthorized, "from"},
		{"faults before permission", "tenant_id=t4&from=admin&keywords=", frontend, waypost.CodeBadRequest, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			permitted := token()
			if tt.change != nil {
				tt.change(&permitted)
			}
			_, err := fixed{err: mustNotAsk}.search(t, permitted, tt.query)
			var e *waypost.Error
			if !errors.As(err, &e) || e.Code != tt.code || e.Target != tt.target {
				t.Errorf("got %#v, want %s of %q", err, tt.code, tt.target)
			}
		})
	}
}

// Neither a keyword without parts nor a tenant of nobody is a question to the engine.
func TestServiceWithoutAsking(t *testing.T) {
	t.Parallel()
	index := fixed{err: errors.New("the engine must not be asked")}
	empty := func(query string) {
		t.Helper()
		got, err := index.search(t, token(), query)
		if err != nil || got.Total != 0 || got.Hits == nil || len(got.Hits) != 0 || got.Page != 2 || got.PerPage != 10 {
			t.Errorf("%q: got %+v, %v", query, got, err)
		}
	}
	for _, keywords := range []string{"*", "!!!", "-", `"`, "\x00", "，"} {
		empty(raw(keywords))
	}
	empty(strings.Replace(raw("学生"), "t1", "t3", 1))
}

// An owner that is known is known for good; one that is not is asked for again.
func TestServiceRemembersOwners(t *testing.T) {
	t.Parallel()
	var looks atomic.Int32
	index := fixed{owners: map[string]string{"t1": "acme"}, looks: &looks}
	service := searchsvc.New(index, index)
	search := func(query string, wantLooks int32) {
		t.Helper()
		if _, err := service.Search(t.Context(), token(), query); err != nil {
			t.Error(err)
		}
		if got := looks.Load(); got != wantLooks {
			t.Errorf("asked for owners %d times, want %d", got, wantLooks)
		}
	}
	search(raw("a"), 1)
	search(raw("b"), 1)
	of3 := strings.Replace(raw("a"), "t1", "t3", 1)
	search(of3, 2)
	search(of3, 3)
	index.owners["t3"] = "acme"
	search(of3, 4)
	search(of3, 4)

	// Many are known, but not any number of them.
	many := token()
	many.TenantIDs = nil
	for i := range 10_001 {
		id := strconv.Itoa(i)
		index.owners[id] = "acme"
		many.TenantIDs = []string{id}
		if _, err := service.Search(t.Context(), many, strings.Replace(raw("a"), "t1", id, 1)); err != nil {
			t.Fatal(err)
		}
	}
	search(raw("a"), 4+10_001+1)
}

func TestServiceAway(t *testing.T) {
	t.Parallel()
	away := waypost.Errorf(waypost.CodeServiceUnavailable, "", "away")
	for _, index := range []fixed{{err: away}, {lookup: away}} {
		_, err := index.search(t, token(), raw("机密"))
		if waypost.CodeOf(err) != waypost.CodeServiceUnavailable || strings.Contains(err.Error(), "机密") {
			t.Errorf("got %v", err)
		}
	}
	broken := errors.New("disk")
	if _, err := (fixed{lookup: broken}).search(t, token(), raw("机密")); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
