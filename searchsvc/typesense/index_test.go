package typesense

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
	"waypost/searchsvc"
)

func TestLifeCycle(t *testing.T) {
	t.Parallel()
	docs := corpus(t)
	x := replay(t,
		"a03_alias_get_missing_404", "a05_create_collection", "a07_alias_upsert", // Prepare
		"a08_alias_get", // Prepare again
		"a06_create_collection_exists_409", "a09_import",
		"f01_reindex_create_v2", "f02_reindex_import_v2", "f03_reindex_search_before_swap", "f04_reindex_alias_swap",
		"f05_reindex_search_after_swap", "f06_reindex_drop_v1", "f08_reindex_search_after_drop",
	)
	ctx := t.Context()
	for range 2 {
		if err := x.Prepare(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Create(ctx, "articles_v1"); waypost.CodeOf(err) != waypost.CodeConflict {
		t.Errorf("a collection that is there: %v", err)
	}
	imported(t, x.In("articles_v1"), docs)
	if err := x.Create(ctx, "articles_v2"); err != nil {
		t.Fatal(err)
	}
	imported(t, x.In("articles_v2"), docs[:3])
	q := expectations(t)[0].query()
	if found, err := x.Search(ctx, q); err != nil || found.Total != 4 {
		t.Errorf("before the swap: %d, %v", found.Total, err)
	}
	q.PerPage = 50
	if err := x.Point(ctx, "articles_v2"); err != nil {
		t.Fatal(err)
	}
	if found, err := x.Search(ctx, q); err != nil || found.Total != 3 {
		t.Errorf("after the swap: %d, %v", found.Total, err)
	}
	if err := x.Drop(ctx, "articles_v1"); err != nil {
		t.Fatal(err)
	}
	if found, err := x.Search(ctx, q); err != nil || found.Total != 3 {
		t.Errorf("without the first collection: %d, %v", found.Total, err)
	}
}

func imported(t *testing.T, x *Index, docs []searchsvc.Document) {
	t.Helper()
	faults, err := x.Import(t.Context(), docs)
	if err != nil || len(faults) != len(docs) {
		t.Fatalf("%d lines, %v", len(faults), err)
	}
	for i, fault := range faults {
		if fault != nil {
			t.Errorf("line %d: %v", i+1, fault)
		}
	}
}

func tenantB(id, name, content string) searchsvc.Document {
	return searchsvc.Document{Key: id, Stage: waypost.StageRelease, Article: waypost.Article{
		ID: id, TenantID: "tenant-b", Name: name, Content: content, Published: true, PublishedAt: time.UnixMilli(0),
	}}
}

func TestPutAndDelete(t *testing.T) {
	t.Parallel()
	x := replay(t, "a12_upsert_one", "a13_upsert_one_again_changed", "a16_delete_one", "a17_delete_one_missing_404").In("articles_v1")
	for _, name := range []string{"好", "改"} {
		if err := x.Put(t.Context(), tenantB("b01", name, "好")); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := x.Delete(t.Context(), "b01"); err != nil {
			t.Error(err)
		}
	}
}

func TestImportFaultyLines(t *testing.T) {
	t.Parallel()
	docs := []searchsvc.Document{tenantB("b01", "好", "好"), tenantB("b02", "第二", "第二"), tenantB("b03", "", "")}
	faults, err := replayAnswers(t, "a11_import_two_bad_lines").In("articles_v1").Import(t.Context(), docs)
	if err != nil || len(faults) != 3 {
		t.Fatalf("got %v, %v", faults, err)
	}
	if faults[0] == nil || !strings.Contains(faults[0].Error(), "must be an int32") || faults[1] != nil || faults[2] == nil {
		t.Errorf("got %v", faults)
	}
	if faults, err := replay(t).Import(t.Context(), nil); faults != nil || err != nil {
		t.Errorf("no documents: %v, %v", faults, err)
	}
}

// Documents keep what the collection's fields do not tell.
func TestDocument(t *testing.T) {
	t.Parallel()
	full := searchsvc.Document{Key: "acme/test/a1", Stage: waypost.StageTest, Article: waypost.Article{
		ID: "a1", TenantID: "t-1", Name: "名 a", Identifier: "x", Content: "内容\n b", AccessLevel: 2, Published: true,
		FrontendURL: "https://www.example.com/x", PublishedAt: time.UnixMilli(1700000000123).UTC(),
		Channels: []waypost.Channel{{ID: "root", URL: "www.example.com", Name: "Home"}, {ID: "c", Slug: "a/b", Name: "C", AccessLevel: 7}},
	}}
	plain := tenantB("b1", "x", "")
	plain.Channels, plain.PublishedAt = []waypost.Channel{}, plain.PublishedAt.UTC()
	for _, want := range []searchsvc.Document{full, plain} {
		data, err := json.Marshal(newDocument(want))
		if err != nil {
			t.Fatal(err)
		}
		var back document
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if got := back.article(); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if back.AccessLevel != want.VisibleFrom() || back.TenantKey != tenantKey(want.Stage, want.TenantID) {
			t.Errorf("%s", data)
		}
	}
}

// secret is a keyword that must not be in any error.
const secret = "搜索引擎"

// What an operator or time can mend is ServiceUnavailable; no error tells the
// query.
func TestFaults(t *testing.T) {
	t.Parallel()
	search := func(x *Index) error {
		q := expected{Keyword: secret, TenantID: "tenant-a", AccessLevel: 5}.query()
		q.PerPage = 10
		_, err := x.Search(t.Context(), q)
		return err
	}
	long := func(x *Index) error {
		_, err := x.Search(t.Context(), expected{Keyword: strings.Repeat(secret, 40), TenantID: "tenant-a", AccessLevel: 5}.query())
		return err
	}
	load := func(x *Index) error {
		_, err := x.Import(t.Context(), []searchsvc.Document{tenantB("b02", "第二", "第二")})
		return err
	}
	put := func(x *Index) error { return x.Put(t.Context(), tenantB("b09", "x", "x")) }
	in := func(collection string, do func(*Index) error) func(*Index) error {
		return func(x *Index) error { return do(x.In(collection)) }
	}
	const away, ours = waypost.CodeServiceUnavailable, waypost.CodeInternalError
	for _, tt := range []struct {
		recording string
		exact     bool
		do        func(*Index) error
		code      waypost.ErrorCode
		cause     string
	}{
		{"e01_wrong_key_401", true, search, away, "API key"},
		{"e02_wrong_key_import_401", true, in("articles_v1", load), away, "API key"},
		{"e03_missing_collection_404", true, in("nothing", search), away, "no such collection"},
		{"e04_import_missing_collection_404", true, in("nothing", load), away, "no such collection"},
		{"e05_bad_filter_value_400", false, search, ours, "(400)"},
		{"e07_bad_filter_syntax_400", false, search, ours, "(400)"},
		{"e08_per_page_251_422", false, search, ours, "(422)"},
		{"e10_search_dangling_alias_404", true, in("dangling", search), away, "no such collection"},
		{"g02_not_ready_search_503", true, search, away, "not ready (503)"},
		{"g03_not_ready_import", true, in("articles_v1", load), away, "not ready (503)"},
		{"h03_multi_search_error_inside", false, long, ours, "(400)"},
		{"h04_multi_search_wrong_key_401", false, long, away, "API key"},
		{"h05_multi_search_missing_collection", false, long, away, "no such collection"},
		{"a15_upsert_missing_field_400", false, in("articles_v1", put), ours, "(400)"},
	} {
		t.Run(tt.recording, func(t *testing.T) {
			t.Parallel()
			x := serve(t, tt.exact, tt.recording)
			checkFault(t, tt.do(x), tt.code, tt.cause)
		})
	}
}

func checkFault(t *testing.T, err error, code waypost.ErrorCode, cause string) {
	t.Helper()
	if waypost.CodeOf(err) != code || !strings.Contains(err.Error(), cause) {
		t.Errorf("got %v, want %s with %q", err, code, cause)
	}
	var shown *waypost.Error
	if errors.As(err, &shown) && strings.Contains(shown.Message, "Typesense") {
		t.Errorf("clients see %q", shown.Message)
	}
	for _, word := range []string{secret, "搜索", "%E6", "tenant_key", "query_by"} {
		if err != nil && strings.Contains(err.Error(), word) {
			t.Errorf("the error tells the query: %v", err)
		}
	}
}

// Answers that no Typesense gives, but whatever stands before it.
func TestStrangeAnswers(t *testing.T) {
	t.Parallel()
	const kind = "application/json; charset=utf-8"
	for _, tt := range []struct {
		name, kind, body string
		status           int
		cause            string
	}{
		{"a page", "text/html", "<html>", 200, "not ready (200)"},
		{"a redirect", "text/html", "", 302, "not ready (302)"},
		{"bad gateway", "text/html", "", 502, "not ready (502)"},
		{"too many", kind, "{}", 429, "not ready (429)"},
		{"no number of hits", kind, "{}", 200, "no number of hits"},
		{"null", kind, "null", 200, "no number of hits"},
		{"half", kind, `{"found":1,"hits":[`, 200, "cannot be read"},
		{"nothing", kind, ``, 200, "cannot be read"},
		{"other types", kind, `{"found":"1"}`, 200, "cannot be read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					t.Error("a redirect was followed")
				}
				w.Header().Set("Content-Type", tt.kind)
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			}))
			t.Cleanup(server.Close)
			x := open(t, Options{URL: server.URL, APIKey: "k"})
			_, err := x.Search(t.Context(), expected{Keyword: secret, TenantID: "tenant-a"}.query())
			checkFault(t, err, waypost.CodeServiceUnavailable, tt.cause)
			faults, err := x.Import(t.Context(), []searchsvc.Document{tenantB("a", "a", "a")})
			if err == nil && faults[0] == nil {
				t.Error("an import counts as done")
			}
		})
	}
}

// To delete what is not there is fine, but not in a collection that is not there.
func TestDeleteWithoutCollection(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"message": "Collection not found"}`))
	}))
	t.Cleanup(server.Close)
	x := open(t, Options{URL: server.URL, APIKey: "k"})
	checkFault(t, x.Delete(t.Context(), "b01"), waypost.CodeServiceUnavailable, "no such collection")
}

func TestServerAway(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + listener.Addr().String()
	listener.Close()
	x := open(t, Options{URL: address, APIKey: "k"})
	q := expected{Keyword: secret, TenantID: "tenant-a"}.query()
	_, err = x.Search(t.Context(), q)
	checkFault(t, err, waypost.CodeServiceUnavailable, "is away")
	checkFault(t, x.Put(t.Context(), tenantB("a", secret, "a")), waypost.CodeServiceUnavailable, "is away")
	checkFault(t, x.Delete(t.Context(), "a"), waypost.CodeServiceUnavailable, "is away")
	checkFault(t, x.Prepare(t.Context()), waypost.CodeServiceUnavailable, "is away")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Search(ctx, q); !errors.Is(err, context.Canceled) || waypost.CodeOf(err) == waypost.CodeServiceUnavailable {
		t.Errorf("a search that nobody waits for: %v", err)
	}
}

// Faults leave nothing behind: there is no breaker that stays open.
func TestHeals(t *testing.T) {
	t.Parallel()
	good := record(t, "b03_two_chars_inside_word")
	var calls atomic.Int32
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n := calls.Add(1); {
		case n == 1:
			select { // a server that is stuck
			case <-r.Context().Done():
			case <-hang:
			}
		case n <= 200:
			panic(http.ErrAbortHandler) // the connection breaks
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(good.Response.Body))
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hang) })
	q := expected{Keyword: "学生", TenantID: "tenant-a", AccessLevel: 5}.query()
	stuck := open(t, Options{URL: server.URL, APIKey: "k", SearchTimeout: 20 * time.Millisecond})
	_, err := stuck.Search(t.Context(), q)
	checkFault(t, err, waypost.CodeServiceUnavailable, "in time")
	x := open(t, Options{URL: server.URL, APIKey: "k"})
	for calls.Load() < 200 {
		_, err := x.Search(t.Context(), q)
		checkFault(t, err, waypost.CodeServiceUnavailable, "is away")
	}
	if found, err := x.Search(t.Context(), q); err != nil || found.Total != 1 {
		t.Errorf("got %+v, %v", found, err)
	}
}

func TestOpenRefusesURLs(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "127.0.0.1:8108", "ftp://x", "http://", "http://key:secret@127.0.0.1:8108", "http://a b"} {
		if _, err := Open(Options{URL: address}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
