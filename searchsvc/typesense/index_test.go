package typesense

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
	"waypost/searchsvc"
	"waypost/searchsvc/searchtest"
)

// From an empty server to the second generation.
func TestLifeCycle(t *testing.T) {
	t.Parallel()
	docs := searchtest.Corpus(t)
	x := replay(t,
		"a03_alias_get_missing_404",
		"a05_create_collection", "a09_import",
		"a10_collection_get", "a07_alias_upsert",
		"a08_alias_get", "a10_collection_get",
		"f01_reindex_create_v2", "f02_reindex_import_v2",
		"f03_reindex_search_before_swap",
		"a10_collection_get as articles_v2", "f04_reindex_alias_swap",
		"f05_reindex_search_after_swap",
		"f07_collections_list", // when articles_v1 was gone
		"f08_reindex_search_after_drop",
		"f07_collections_list", "f06_reindex_drop_v1 as articles_v2",
	)
	ctx := t.Context()
	live := func(want string) {
		t.Helper()
		if got, err := x.Live(ctx); err != nil || got != want {
			t.Errorf("live %q, %v", got, err)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	search := func(perPage, want int) {
		t.Helper()
		q := query("搜索引擎")
		q.PerPage = perPage
		if found, err := x.Search(ctx, q); err != nil || found.Total != want {
			t.Errorf("%d, %v", found.Total, err)
		}
	}
	live("")
	do(x.Create(ctx, "articles_v1"))
	imported(t, x, "articles_v1", docs)
	do(x.SetLive(ctx, "articles_v1"))
	live("articles_v1")
	do(x.Create(ctx, "articles_v2"))
	imported(t, x, "articles_v2", docs[:3])
	search(100, 4)
	do(x.SetLive(ctx, "articles_v2"))
	search(50, 3)
	do(x.Prune(ctx, "articles_v2"))
	search(50, 3)
	do(x.Prune(ctx, "articles_v1"))
	if x.Engine() != "typesense-4" {
		t.Error(x.Engine())
	}
}

func imported(t *testing.T, x *Index, generation string, docs []searchsvc.Document) {
	t.Helper()
	faults, err := x.Import(t.Context(), generation, docs)
	if err != nil || len(faults) != len(docs) {
		t.Fatalf("%d lines, %v", len(faults), err)
	}
	for i, fault := range faults {
		if fault != nil {
			t.Errorf("line %d: %v", i+1, fault)
		}
	}
}

// A generation that is there, from an attempt that broke off, is emptied.
func TestCreateAgain(t *testing.T) {
	t.Parallel()
	x := replay(t, "a06_create_collection_exists_409", "f06_reindex_drop_v1", "a05_create_collection")
	if err := x.Create(t.Context(), "articles_v1"); err != nil {
		t.Error(err)
	}
	if err := x.Create(t.Context(), "others_v1"); err == nil {
		t.Error("a collection that is never dropped")
	}
}

// Typesense takes an alias to a collection that is not there; searches are 404 then.
func TestDanglingAlias(t *testing.T) {
	t.Parallel()
	x := replay(t, "a08_alias_get", "a04_collection_get_missing_404", "a04_collection_get_missing_404")
	if live, err := x.Live(t.Context()); err != nil || live != "" {
		t.Errorf("live %q, %v", live, err)
	}
	checkFault(t, x.SetLive(t.Context(), "articles_v1"), waypost.CodeServiceUnavailable, "no such collection")
}

// Names on a cluster that is shared begin with a prefix, which nobody else sees, and
// what is not ours is left alone.
func TestPrefix(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var named struct{ Name string }
		_ = json.Unmarshal(body, &named)
		asked = append(asked, strings.TrimSuffix(r.Method+" "+r.URL.Path+" "+named.Name, " "))
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusCreated)
		}
		if r.URL.Path == "/collections" && r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `[{"name":"p_articles_1"},{"name":"p_articles_2"},{"name":"articles_1"},{"name":"p_others"}]`)
			return
		}
		_, _ = io.WriteString(w, `{"name":"p_articles_1","collection_name":"p_articles_1"}`)
	}))
	t.Cleanup(server.Close)
	x := open(t, Options{URLs: []string{server.URL}, Prefix: "p_"})
	live, err := x.Live(t.Context())
	if live != "articles_1" {
		t.Errorf("live %q", live)
	}
	if err := errors.Join(err, x.Create(t.Context(), "articles_1"), x.SetLive(t.Context(), "articles_1"), x.Prune(t.Context(), "articles_2")); err != nil {
		t.Error(err)
	}
	want := []string{
		"GET /aliases/p_articles", "GET /collections/p_articles_1",
		"POST /collections p_articles_1",
		"GET /collections/p_articles_1", "PUT /aliases/p_articles",
		"GET /collections", "DELETE /collections/p_articles_1",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q\nwant  %q", asked, want)
	}
}

// Two installations on one cluster, with equal tenants and articles: neither sees, takes or
// drops what the other has, also where both were given one prefix; then the log tells it.
func TestTwoInstallations(t *testing.T) {
	t.Parallel()
	for name, prefixes := range map[string][2]string{
		"names of their own": {"waypost_a_", "waypost_b_"},
		"one prefix":         {"shared_", "shared_"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startStandIn(t)
			var log [2]bytes.Buffer
			var indexes [2]*Index
			var sql [2]waypost.ArticleIndex
			for i := range indexes {
				indexes[i] = open(t, Options{
					URLs: []string{server.URL}, Prefix: prefixes[i], Installation: "installation-" + strconv.Itoa(i),
					Indexed: func(context.Context) (waypost.ArticleIndex, error) { return sql[i], nil },
					Log:     slog.New(slog.NewTextHandler(&log[i], nil)),
				})
			}
			reindex := func(i int, generation string, mark int64, docs []searchsvc.Document) {
				t.Helper()
				x := indexes[i]
				err := x.Create(t.Context(), generation)
				imported(t, x, generation, docs)
				err = errors.Join(err, x.Mark(t.Context(), generation, mark), x.SetLive(t.Context(), generation))
				sql[i] = waypost.ArticleIndex{Engine: x.Engine(), Live: generation, Mark: mark}
				x.known.Store(nil)
				if err = errors.Join(err, x.Prune(t.Context(), generation)); err != nil {
					t.Fatal(err)
				}
			}
			finds := func(i int, want ...string) {
				t.Helper()
				q := query("共同")
				q.TenantID = "tenant-b"
				found, err := indexes[i].Search(t.Context(), q)
				var got []string
				for _, m := range found.Matches {
					got = append(got, m.Name)
				}
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("installation %d finds %q, %v, want %q", i, got, err, want)
				}
				if live, err := indexes[i].Live(t.Context()); err != nil || live != sql[i].Live {
					t.Errorf("installation %d: live %q, %v", i, live, err)
				}
			}
			reindex(0, "articles_a1", 7, []searchsvc.Document{tenantB("1", "共同 甲", "")})
			finds(0, "共同 甲")
			reindex(1, "articles_b1", 7, []searchsvc.Document{tenantB("1", "共同 乙", "")})
			finds(0, "共同 甲")
			finds(1, "共同 乙")
			reindex(0, "articles_a2", 8, []searchsvc.Document{tenantB("1", "共同 丙", "")})
			finds(0, "共同 丙")
			finds(1, "共同 乙")
			if err := indexes[1].Delete(t.Context(), "articles_b1", []string{"1"}); err != nil {
				t.Error(err)
			}
			finds(0, "共同 丙")
			finds(1)
			if err := indexes[1].Prune(t.Context()); err != nil || len(server.collections) != 1 {
				t.Errorf("%d collections, %v", len(server.collections), err)
			}
			finds(0, "共同 丙")
			warnings := strings.Count(log[1].String(), "another installation uses the names of this one")
			if shared := prefixes[0] == prefixes[1]; shared != (warnings == 1) {
				t.Errorf("the log tells it %d times: %s", warnings, log[1].String())
			}
			if taken := indexes[1].Create(t.Context(), "articles_a2"); (prefixes[0] == prefixes[1]) != (taken != nil) {
				t.Errorf("the name of another's collection: %v", taken)
			}
			finds(0, "共同 丙")
		})
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	x := replay(t, "a16_delete_one", "a17_delete_one_missing_404")
	for range 2 {
		if err := x.Delete(t.Context(), "articles_v1", []string{"b01"}); err != nil {
			t.Error(err)
		}
	}
	if err := x.Delete(t.Context(), "articles_v1", nil); err != nil {
		t.Error(err)
	}
}

func TestImportFaultyLines(t *testing.T) {
	t.Parallel()
	docs := []searchsvc.Document{tenantB("b01", "好", "好"), tenantB("", "无", "无"), tenantB("b02", "第二", "第二"), tenantB("b03", "", "")}
	x := serve(t, false, recorded(t, "a11_import_two_bad_lines"))
	faults, err := x.Import(t.Context(), "articles_v1", docs)
	if err != nil || len(faults) != 4 {
		t.Fatalf("got %v, %v", faults, err)
	}
	for i, want := range []string{"(400: Field `access_level` must be an int32)", "no key", "", "refused by Typesense (400)"} {
		if (want == "") != (faults[i] == nil) || want != "" && !strings.Contains(faults[i].Error(), want) {
			t.Errorf("line %d: got %v, want %q", i+1, faults[i], want)
		}
	}
	if faults, err := x.Import(t.Context(), "articles_v1", nil); len(faults) != 0 || err != nil {
		t.Errorf("no documents: %v, %v", faults, err)
	}
}

// Long imports go in parts that are bounded by number and by size. Each document has
// its own fault; a part that cannot be sent ends the import.
func TestImportParts(t *testing.T) {
	t.Parallel()
	var parts []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		n, size := strings.Count(string(body), "\n"), len(body)>>20
		parts = append(parts, strconv.Itoa(n)+"/"+strconv.Itoa(size))
		if strings.Contains(string(body), `"id":"last"`) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		for line := range strings.Lines(string(body)) {
			if strings.Contains(line, `"id":"666"`) {
				_, _ = io.WriteString(w, `{"code":400,"error":"Field `+"`x`"+` is odd.","success":false,"document":`+strconv.Quote(line)+"}\n")
			} else {
				_, _ = io.WriteString(w, "{\"success\":true}\n")
			}
		}
	}))
	t.Cleanup(server.Close)
	x := open(t, Options{URLs: []string{server.URL}})
	var docs []searchsvc.Document
	for i := range 1100 {
		docs = append(docs, tenantB(strconv.Itoa(i), "x", "x"))
	}
	megabyte := strings.Repeat("a", 1<<20)
	for i := range 5 {
		docs = append(docs, tenantB("m"+strconv.Itoa(i), "x", megabyte))
	}
	docs = append(docs, tenantB("huge", "x", strings.Repeat(megabyte, 5)), tenantB("after", "x", "x"))
	faults, err := x.Import(t.Context(), "articles_v1", docs)
	if err != nil || len(faults) != len(docs) {
		t.Fatalf("%d faults, %v", len(faults), err)
	}
	for i, fault := range faults {
		if (i == 666) != (fault != nil) {
			t.Errorf("document %d: %v", i, fault)
		}
	}
	if got, want := strings.Join(parts, " "), "500/0 500/0 103/3 2/2 1/5 1/0"; got != want {
		t.Errorf("parts of %s, want %s", got, want)
	}
	faults, err = x.Import(t.Context(), "articles_v1", append(docs[:500:500], tenantB("last", "x", "x")))
	if faults != nil {
		t.Errorf("faults %v", faults)
	}
	checkFault(t, err, waypost.CodeServiceUnavailable, "(503)")
}

// Documents keep what the collection's fields do not tell.
func TestDocument(t *testing.T) {
	t.Parallel()
	full := searchsvc.Document{Key: "17", Stage: waypost.StageTest, Article: waypost.Article{
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
		_, err := x.Search(t.Context(), query(secret))
		return err
	}
	long := func(x *Index) error {
		_, err := x.Search(t.Context(), query(strings.Repeat(secret, 40)))
		return err
	}
	load := func(x *Index) error {
		_, err := x.Import(t.Context(), "articles_v1", []searchsvc.Document{tenantB("b02", "第二", "第二")})
		return err
	}
	// The recordings were made with other names.
	of := func(alias string, do func(*Index) error) func(*Index) error {
		return func(x *Index) error {
			x.alias = alias
			return do(x)
		}
	}
	const away = waypost.CodeServiceUnavailable
	for _, tt := range []struct {
		recording string
		exact     bool
		do        func(*Index) error
		code      waypost.ErrorCode
		cause     string
	}{
		{"e01_wrong_key_401", true, search, away, "API key"},
		{"e02_wrong_key_import_401", true, load, away, "API key"},
		{"e03_missing_collection_404", true, of("nothing", search), away, "no such collection"},
		{"e04_import_missing_collection_404", true, func(x *Index) error {
			_, err := x.importLines(t.Context(), "nothing", []byte(record(t, "e04_import_missing_collection_404").Request.Body), 1)
			return err
		}, away, "no such collection"},
		{"e05_bad_filter_value_400", false, search, away, "(400)"},
		{"e07_bad_filter_syntax_400", false, search, away, "(400)"},
		{"e08_per_page_251_422", false, search, away, "(422)"},
		{"e10_search_dangling_alias_404", true, of("dangling", search), away, "no such collection"},
		{"g02_not_ready_search_503", true, search, away, "not ready (503: Not Ready or Lagging)"},
		{"g03_not_ready_import", true, load, away, "not ready (503: Not Ready or Lagging)"},
		{"h03_multi_search_error_inside", false, long, away, "(400)"},
		{"i10_filter_too_many_operations", false, long, away, "too many operations. Maximum allowed: 100"},
		{"h04_multi_search_wrong_key_401", false, long, away, "API key"},
		{"h05_multi_search_missing_collection", false, long, away, "no such collection"},
	} {
		t.Run(tt.recording, func(t *testing.T) {
			t.Parallel()
			checkFault(t, tt.do(serve(t, tt.exact, recorded(t, tt.recording))), tt.code, tt.cause)
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
	if err != nil {
		checkSilent(t, err.Error())
	}
}

// checkSilent checks that nothing of a query or a document is told.
func checkSilent(t *testing.T, said string) {
	t.Helper()
	for _, word := range []string{secret, "搜索", "%E6", "tenant_key", "query_by", "第二", "{"} {
		if strings.Contains(said, word) {
			t.Errorf("%q is told: %s", word, said)
		}
	}
}

// Answers that no healthy Typesense gives, or whatever stands before it. None of
// them is an empty result, a document that was put, or the lack of a generation.
func TestStrangeAnswers(t *testing.T) {
	t.Parallel()
	const kind = "application/json; charset=utf-8"
	for _, tt := range []struct {
		name, kind, body string
		status           int
		cause            string
	}{
		{"a page", "text/html", "<html>", 200, "not Typesense's (200)"},
		{"a page that is missing", "text/html", "<html>", 404, "no such collection (404)"},
		{"a path that is missing", kind, `{"message":"Not Found"}`, 404, "no such collection (404)"},
		{"a redirect", "text/html", "", 302, "not Typesense's (302)"},
		{"bad gateway", "text/html", "", 502, "not ready (502)"},
		{"too many", kind, "{}", 429, "not ready (429)"},
		{"without a leader", kind, `{"message":"Could not find a leader."}`, 500, "(500: Could not find a leader)"},
		{"a fault with the query", kind, `{"message":"cannot parse 搜索引擎"}`, 500, "(500)"},
		{"no number of hits", kind, "{}", 200, "no number of hits"},
		{"null", kind, "null", 200, "no number of hits"},
		{"cut short", kind, `{"found":0,"hits":[],"search_cutoff":true}`, 200, "to the end"},
		{"half", kind, `{"found":1,"hits":[`, 200, "the connection broke"},
		{"nothing", kind, ``, 200, "the connection broke"},
		{"no JSON", kind, `搜索引擎`, 200, "no JSON from byte 1"},
		{"other types", kind, `{"found":"搜索引擎"}`, 200, `no int in "found"`},
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
				_, _ = io.WriteString(w, tt.body)
			}))
			t.Cleanup(server.Close)
			x := open(t, Options{URLs: []string{server.URL}})
			_, err := x.Search(t.Context(), query(secret))
			checkFault(t, err, waypost.CodeServiceUnavailable, tt.cause)
			_, err = x.Search(t.Context(), query(strings.Repeat(secret, 40)))
			checkFault(t, err, waypost.CodeServiceUnavailable, "")
			_, err = x.Import(t.Context(), "articles_v1", []searchsvc.Document{tenantB("a", "第二", "a")})
			checkFault(t, err, waypost.CodeServiceUnavailable, "")
			checkFault(t, x.Delete(t.Context(), "articles_v1", []string{"a"}), waypost.CodeServiceUnavailable, "")
			_, err = x.Live(t.Context())
			checkFault(t, err, waypost.CodeServiceUnavailable, "")
			checkFault(t, x.Create(t.Context(), "articles_v1"), waypost.CodeServiceUnavailable, "")
			checkFault(t, x.SetLive(t.Context(), "articles_v1"), waypost.CodeServiceUnavailable, "")
			if tt.body != "null" { // which is no collection
				checkFault(t, x.Prune(t.Context()), waypost.CodeServiceUnavailable, "")
			}
		})
	}
}

// A server that has no disk or memory left answers searches and takes no writes, with
// the status of a request that is wrong; so does one that was told to. One that runs
// out in the middle of an import breaks it off.
func TestNoWrites(t *testing.T) {
	t.Parallel()
	const full = "Rejecting write: running out of resource type: OUT_OF_DISK"
	for _, tt := range []struct {
		status     int
		body, want string
	}{
		{422, `{"message":"` + full + `"}`, "(422: " + full + ")"},
		{422, `{"message":"Skipping writes."}`, "(422: Skipping writes)"},
		{200, `{"success":true}` + "\n" + `{"message":"` + full + `"}`, "breaks an import off: " + full},
		{200, `{"success":true}` + "\n", "the connection broke"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
		}))
		t.Cleanup(server.Close)
		x := open(t, Options{URLs: []string{server.URL}})
		faults, err := x.Import(t.Context(), "articles_v1", []searchsvc.Document{tenantB("a", "第二", "a"), tenantB("b", "第二", "a")})
		if faults != nil {
			t.Errorf("faults %v", faults)
		}
		checkFault(t, err, waypost.CodeServiceUnavailable, tt.want)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "127.0.0.1:8108", "ftp://x", "http://", "http://key:secret@127.0.0.1:8108", "http://a b"} {
		_, err := Open(Options{URLs: []string{"http://127.0.0.1:8108", address}, APIKey: "k"})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
	for _, key := range []string{"", "secret\n", "se cret", "sécret"} {
		_, err := Open(Options{URLs: []string{"http://127.0.0.1:8108"}, APIKey: key})
		if err == nil || strings.Contains(err.Error(), "cret") {
			t.Errorf("key %q: %v", key, err)
		}
	}
	if _, err := Open(Options{APIKey: "k"}); err == nil {
		t.Error("no URL is fine")
	}
}

// A server that is started again from a snapshot is searched when it has all again, and at no
// moment before: neither a part of the articles nor a former collection is an answer.
func TestRestart(t *testing.T) {
	t.Parallel()
	server := startStandIn(t)
	var sql waypost.ArticleIndex
	x := open(t, Options{
		URLs: []string{server.URL}, Prefix: "p_", Installation: "i",
		Indexed: func(context.Context) (waypost.ArticleIndex, error) { return sql, nil },
	})
	var clock atomic.Int64
	x.now = func() time.Time { return time.UnixMilli(clock.Add(300)) } // later at each look
	total, mark := 0, int64(0)
	write := func(generation string, first, count int) {
		t.Helper()
		var docs []searchsvc.Document
		for i := range count {
			docs = append(docs, tenantB(strconv.Itoa(first+i), "共同 "+strconv.Itoa(first+i), ""))
		}
		imported(t, x, generation, docs)
		mark++
		if err := x.Mark(t.Context(), generation, mark); err != nil {
			t.Fatal(err)
		}
		sql.Mark = mark
	}
	reindex := func(generation string, count int) {
		t.Helper()
		if err := x.Create(t.Context(), generation); err != nil {
			t.Fatal(err)
		}
		write(generation, 1, count)
		if err := x.SetLive(t.Context(), generation); err != nil {
			t.Fatal(err)
		}
		sql = waypost.ArticleIndex{Engine: x.Engine(), Live: generation, Mark: mark}
		if err := x.Prune(t.Context(), generation); err != nil {
			t.Fatal(err)
		}
		total = count
	}
	q := query("共同")
	q.TenantID = "tenant-b"
	check := func(whole bool) {
		t.Helper()
		found, err := x.Search(t.Context(), q)
		if (whole || err == nil) && found.Total != total || err != nil && (whole || waypost.CodeOf(err) != waypost.CodeServiceUnavailable) {
			t.Errorf("whole %t: %d of %d, %v", whole, found.Total, total, err)
		}
		if live, err := x.Live(t.Context()); err == nil && live != sql.Live {
			t.Errorf("live %q", live)
		}
	}
	restart := func() {
		t.Helper()
		server.restart()
		if _, err := x.Search(t.Context(), q); waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
			t.Errorf("before anything is replayed: %v", err)
		}
		for steps := 0; ; steps++ {
			if len(server.pending) > 0 {
				check(false)
			}
			if !server.replay() {
				if steps == 0 {
					t.Error("nothing was replayed")
				}
				break
			}
		}
		check(true)
	}
	reindex("articles_1", 20)
	check(true)
	server.takeSnapshot()
	for i := range 4 {
		write("articles_1", 100*(i+1), 5)
		total += 5
	}
	check(true)
	restart()
	if err := x.Delete(t.Context(), "articles_1", []string{"1"}); err != nil {
		t.Fatal(err)
	}
	total--
	write("articles_1", 900, 1)
	total++
	restart()
	reindex("articles_2", 30)
	check(true)
	restart()
}
