package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/searchsvc"
	"waypost/searchsvc/searchtest"
)

const searchPath = "/api/v1/articles/search"

// search asks with a bearer token and nothing else.
func (f *fixture) search(token, query string) answer {
	f.t.Helper()
	return f.do(call{method: "GET", target: searchPath + "?" + query, unsigned: true, headers: map[string]string{"Authorization": "Bearer " + token}})
}

// indexed has the search find what is stored now.
func (f *fixture) indexed() {
	f.t.Helper()
	stored, err := f.store.ReindexPage(f.t.Context(), 0, 10_000)
	if err != nil {
		f.t.Fatal(err)
	}
	docs := make([]searchsvc.Document, len(stored))
	for i, a := range stored {
		docs[i] = searchsvc.Document{Key: strconv.FormatInt(a.Number, 10), Stage: a.Stage, Article: a.Article}
	}
	searchtest.Fill(f.t, f.index, "articles_test", docs)
}

// hits are the items of a page.
func hits(t *testing.T, a answer) []map[string]any {
	t.Helper()
	var page struct {
		Message struct{ Items []map[string]any }
	}
	if err := json.Unmarshal([]byte(a.raw), &page); err != nil {
		t.Fatal(err)
	}
	return page.Message.Items
}

// found are the ids of a page, in their order.
func found(t *testing.T, a answer) string {
	t.Helper()
	var ids []string
	for _, h := range hits(t, a.expect(t, 200)) {
		ids = append(ids, h["id"].(string))
	}
	return strings.Join(ids, " ")
}

func TestSearch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.putArticle(`{"id":"6f9619ff-8b86-d011-b42d-00cf4fc964ff","tenant_id":"site","name":"如何重置密码 & <邮箱>","identifier":"reset","content":"打开登录页面,点击“忘记密码”。",` +
		`"access_level":1,"frontend_url":"https://example.com/reset?a=1&b=2","published_at":"2024-01-01T00:00:00Z",` +
		`"channels":[{"id":"root","slug":"","url":"example.com","name":"首页","access_level":0},{"id":"help","slug":"help/zh","url":"//example.com/help","name":"帮助","access_level":2}]}`)
	f.putArticle(`{"id":"newer","tenant_id":"site","name":"Passwords","identifier":"p","content":"密码","published_at":"2025-01-01T00:00:00Z"}`)
	f.putArticle(`{"id":"secret","tenant_id":"site","name":"密码 level 5","identifier":"s","access_level":5,"published_at":"2023-01-01T00:00:00Z"}`)
	f.putArticle(`{"id":"draft","tenant_id":"site","name":"密码 draft","identifier":"d","published":false,"published_at":"2022-01-01T00:00:00Z"}`)
	f.putArticle(`{"id":"elsewhere","tenant_id":"site-2","name":"密码","identifier":"e"}`)
	f.do(call{method: "PUT", target: "/v1/articles/staged", body: `{"tenant_id":"site","name":"密码","identifier":"t"}`, headers: map[string]string{"X-Cloud-Stage": "test"}}).expect(t, 201)
	f.indexed()

	token := f.token(`{"tenantIds":["site"],"from":["frontend"],"maxAccessLevel":3}`)
	query := "tenant_id=site&from=frontend&keywords=" + url.QueryEscape("密码")
	first := f.search(token, query+"&_per_page=1").expect(t, 200)
	want := `{"code":0,"status":"success","message":{"meta":{"current_page":1,"total_pages":2,"total_count":2},"items":[{` +
		`"id":"6f9619ff-8b86-d011-b42d-00cf4fc964ff","name":"如何重置密码 & <邮箱>","frontend_url":"https://example.com/reset?a=1&b=2","slug":"help/zh/reset","identifier":"reset",` +
		`"name_highlight":"如何重置<b class=\"highlight\">密码</b> &amp; &lt;邮箱&gt;","search_highlight":"打开登录页面,点击“忘记<b class=\"highlight\">密码</b>”。","access_level":1,` +
		`"channels":[{"id":"root","slug":"","url":"example.com","name":"首页","access_level":0},{"id":"help","slug":"help/zh","url":"//example.com/help","name":"帮助","access_level":2}]}]}}`
	if first.raw != want {
		t.Errorf("got  %s\nwant %s", first.raw, want)
	}
	if first.header.Get("Content-Type") != "application/json;charset=UTF-8" || first.header.Get("X-Content-Type-Options") != "nosniff" || first.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", first.header)
	}
	head := f.do(call{method: "HEAD", target: searchPath + "?" + query, unsigned: true, headers: map[string]string{"Authorization": "Bearer " + token}}).expect(t, 200)
	if head.raw != "" || head.header.Get("Content-Type") == "" {
		t.Errorf("HEAD %q %v", head.raw, head.header)
	}
	if past := f.search(token, query+"&_page=2147483647").expect(t, 200); past.raw != `{"code":0,"status":"success","message":{"meta":{"current_page":2147483647,"total_pages":1,"total_count":2},"items":[]}}` {
		t.Errorf("%s", past.raw)
	}

	admin := f.token(`{"tenantIds":["site","site-2"],"from":["frontend","admin"]}`)
	staged := f.do(call{method: "POST", target: "/v1/tokens", body: `{"tenantIds":["site"],"from":["frontend"]}`, headers: map[string]string{"X-Cloud-Stage": "test"}}).expect(t, 200).str(t, "access_token")
	const reset = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
	for _, tc := range []struct{ name, token, change, want string }{
		{"title first, then newest", token, "", reset + " newer"},
		{"second page", token, "&_page=2&_per_page=1", "newer"},
		{"the channels' level", token, "&user_access_level=1", "newer"},
		{"a level above the token's", token, "&user_access_level=10", reset + " newer"},
		{"the token's own level", admin, "", reset + " secret newer"},
		{"a level below it", admin, "&user_access_level=4", reset + " newer"},
		{"drafts for administrators", admin, "&from=admin", reset + " secret draft newer"},
		{"drafts for those below the level", admin, "&from=admin&user_access_level=0", "draft newer"},
		{"another site", admin, "&tenant_id=site-2", "elsewhere"},
		{"the token's stage", staged, "", "staged"},
		{"two words", token, "&keywords=" + url.QueryEscape("passwords 密码"), "newer"},
		{"a word that nothing has", token, "&keywords=zzz", ""},
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		changes, err := url.ParseQuery(tc.change)
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range changes {
			values[name] = v
		}
		if got := found(t, f.search(tc.token, values.Encode())); got != tc.want {
			t.Errorf("%s: found %q, want %q", tc.name, got, tc.want)
		}
	}
	f.search(token, strings.Replace(query, "frontend", "admin", 1)).refused(t, 401, "Unauthorized", []string{}...)
	if a := f.search(token, strings.Replace(query, "=site&", "=site-2&", 1)).refused(t, 401, "Unauthorized", []string{}...); a.json["target"] != "tenant_id" {
		t.Errorf("%s", a.raw)
	}
	// The stage is the token's, whatever a header says.
	other := f.do(call{method: "GET", target: searchPath + "?" + query, unsigned: true, headers: map[string]string{"Authorization": "Bearer " + token, "X-Cloud-Stage": "test"}})
	if got := found(t, other); got != reset+" newer" {
		t.Errorf("found %q", got)
	}
}

// Every parameter, missing, repeated, empty and faulty; all faults at once, before
// anything is looked for.
func TestSearchParameters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.putArticle(`{"id":"a","tenant_id":"site","name":"n","identifier":"i","content":"!!! text"}`)
	f.indexed()
	token := f.token(`{"tenantIds":["site"],"from":["frontend"]}`)
	const good = "tenant_id=site&from=frontend&keywords=text"
	for query, details := range map[string]string{
		"":                                                          "NullValue tenant_id; NullValue from; NullValue keywords",
		"tenant_id=&from=&keywords=":                                "NullValue tenant_id; NullValue from; NullValue keywords",
		"tenant_id&from&keywords":                                   "NullValue tenant_id; NullValue from; NullValue keywords",
		"from=frontend&keywords=text":                               "NullValue tenant_id",
		"tenant_id=site&keywords=text":                              "NullValue from",
		"tenant_id=site&from=frontend":                              "NullValue keywords",
		good + "&tenant_id=site":                                    "Duplicate tenant_id",
		good + "&from=frontend":                                     "Duplicate from",
		good + "&keywords=text":                                     "Duplicate keywords",
		good + "&%6beywords=text":                                   "Duplicate keywords",
		good + "&_page=1&_page=1":                                   "Duplicate _page",
		good + "&_per_page=1&_per_page":                             "Duplicate _per_page",
		good + "&user_access_level=1&user_access_level=1":           "Duplicate user_access_level",
		good + "&_page=":                                            "InvalidType _page",
		good + "&_page=0":                                           "OutOfRange _page",
		good + "&_page=-1":                                          "OutOfRange _page",
		good + "&_page=1.5":                                         "InvalidType _page",
		good + "&_page=+1":                                          "InvalidType _page",
		good + "&_page=0x1":                                         "InvalidType _page",
		good + "&_page=%EF%BC%91":                                   "InvalidType _page",
		good + "&_page=99999999999999999999999":                     "OutOfRange _page",
		good + "&_per_page=0":                                       "OutOfRange _per_page",
		good + "&_per_page=51":                                      "OutOfRange _per_page",
		good + "&_per_page=-9223372036854775809":                    "OutOfRange _per_page",
		good + "&_per_page=ten":                                     "InvalidType _per_page",
		good + "&user_access_level=11":                              "OutOfRange user_access_level",
		good + "&user_access_level=-1":                              "OutOfRange user_access_level",
		good + "&user_access_level=":                                "InvalidType user_access_level",
		good + "&user_access_level=null":                            "InvalidType user_access_level",
		good + "&page=1&stage=test":                                 "UnknownField page; UnknownField stage",
		good + "&Keywords=text":                                     "UnknownField Keywords",
		"tenant_id=site&from=Frontend&keywords=text":                "InvalidFormat from",
		"tenant_id=site&from=frontend%2Cadmin&keywords=text":        "InvalidFormat from",
		"tenant_id=site%60%7C%7Cx:%3D%60y&from=admin&keywords=text": "InvalidFormat tenant_id",
		"tenant_id=" + strings.Repeat("x", 65) + "&from=frontend&keywords=text":                   "InvalidFormat tenant_id",
		"tenant_id=site&from=frontend&keywords=" + strings.Repeat("x", 513):                       "TooLong keywords",
		"tenant_id=site&from=frontend&keywords=" + strings.Repeat("%F0%9F%98%80", 129):            "TooLong keywords",
		"tenant_id=site&from=frontend&keywords=%FF%FE":                                            "InvalidFormat keywords",
		"tenant_id=site&from=frontend&keywords=%ED%A0%80":                                         "InvalidFormat keywords",
		"tenant_id=site&from=frontend&keywords=%20%09":                                            "NullValue keywords",
		"tenant_id=a%20b&from=x&keywords=%FF&user_access_level=x&_page=x&_per_page=100&other=%FF": "InvalidType user_access_level; InvalidType _page; OutOfRange _per_page; InvalidFormat tenant_id; InvalidFormat from; InvalidFormat keywords; UnknownField other",
	} {
		f.search(token, query).refused(t, 400, "BadRequest", strings.Split(details, "; ")...)
	}
	for _, query := range []string{good + "&_page=%", good + "&_page=%zz", good + ";x=1"} {
		f.search(token, query).refused(t, 400, "BadRequest")
	}
	// What is odd, and right.
	for keywords, want := range map[string]string{
		"-": "", `"`: "", "*": "", "!!!": "", "()": "", "\x00": "", "&&": "", "`": "", "%": "", "\\": "", "{}": "", "\u200b": "",
		"text\x00": "a", `"text"`: "a", "-text": "a", "text:=`x`": "", "text && tenant_id:=theirs": "", "😀": "", "ﬁ": "", "İ": "", "\ue000": "",
		strings.Repeat("😀", 128): "", strings.Repeat("x", 512): "",
	} {
		a := f.search(token, "tenant_id=site&from=frontend&keywords="+url.QueryEscape(keywords))
		if got := found(t, a); got != want {
			t.Errorf("keywords %q: found %q, want %q", keywords, got, want)
		}
	}
	if log := f.log.String(); strings.Contains(log, "keywords") || strings.Contains(log, "theirs") || strings.Contains(log, token) {
		t.Error("the log holds a query")
	}
}

// Which of several faults of a search is told, and how paths below /api/ are refused.
func TestSearchOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	token := f.token(`{"tenantIds":["site"],"from":["frontend"]}`)
	bearer := "Authorization: Bearer " + token
	const withBody = "Content-Length: 3"
	for _, tc := range []struct {
		method, target string
		lines          []string
		status         int
		code           string
	}{
		{"GET", "/api/v1/articles/searches", nil, 404, "NotFound"},
		{"GET", "/api/v1/articles/search/", nil, 404, "NotFound"},
		{"GET", "/api/v1/articles/Search", []string{bearer}, 404, "NotFound"},
		{"GET", "/api/", nil, 404, "NotFound"},
		{"POST", searchPath, nil, 405, "MethodNotAllowed"},
		{"OPTIONS", searchPath, nil, 405, "MethodNotAllowed"},
		{"BREW", searchPath, nil, 405, "MethodNotAllowed"},
		{"GET", "/api/v1//articles/search", nil, 400, "BadRequest"},
		{"GET", "/api/v1/articles/x/../search", nil, 400, "BadRequest"},
		{"GET", "/api/v1/articles%2fsearch", nil, 400, "BadRequest"},
		{"GET", searchPath, nil, 401, "Unauthorized"},                                                // before its parameters
		{"GET", searchPath + "?from=admin&tenant_id=site", []string{bearer}, 400, "BadRequest"},      // before what the token permits
		{"GET", searchPath, []string{"Authorization: Bearer x", "X: y"}, 401, "Unauthorized"},        // before its parameters
		{"GET", searchPath, []string{bearer, withBody}, 400, "BadRequest"},                           // a body
		{"GET", searchPath + "?keywords=x", []string{bearer, "X-A: b", " c d"}, 400, "BadRequest"},   // a header
		{"GET", searchPath, []string{bearer, "Idempotency-Key: ", "If-Match: x"}, 400, "BadRequest"}, // which mean nothing here
	} {
		body := ""
		if slices.Contains(tc.lines, withBody) {
			body = "abc"
		}
		a, _ := f.raw(tc.method, tc.target, body, append([]string{"Host: h"}, tc.lines...)...)
		a.refused(t, tc.status, tc.code)
		if allow := a.header.Get("Allow"); tc.status == 405 && allow != "GET, HEAD" {
			t.Errorf("%s %s: Allow %q", tc.method, tc.target, allow)
		}
		if a.header.Get("X-Request-Id") == "" {
			t.Errorf("%s %s: no request id", tc.method, tc.target)
		}
	}
}

// An engine that is away, and a database that is away, are told as such; a search
// that would find nothing is not answered for them.
func TestSearchAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.putArticle(`{"id":"a","tenant_id":"site","name":"secret-keyword","identifier":"i"}`)
	token := f.token(`{"tenantIds":["site"],"from":["frontend"]}`)
	const query = "tenant_id=site&from=frontend&keywords=secret-keyword"
	a := f.search(token, query).refused(t, 503, "ServiceUnavailable", []string{}...)
	if a.header.Get("Retry-After") != "1" || strings.Contains(a.raw, "secret-keyword") {
		t.Errorf("%s, Retry-After %q", a.raw, a.header.Get("Retry-After"))
	}
	f.indexed()
	if got := found(t, f.search(token, query)); got != "a" {
		t.Errorf("found %q", got)
	}
	f.clock.advance(1e9) // the application is looked up anew
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	a = f.do(call{method: "GET", target: searchPath + "?" + query, unsigned: true, headers: map[string]string{"Authorization": "Bearer " + token, "X-Request-Id": "search-17"}})
	if a.refused(t, 500, "InternalError", []string{}...).json["message"] != "internal error; quote request search-17 when you report it" {
		t.Errorf("%s", a.raw)
	}
	log := f.log.String()
	if strings.Contains(log, "secret-keyword") || strings.Contains(log, token) {
		t.Errorf("the log holds a query: %s", log)
	}
	for _, want := range []string{`"level":"WARN","msg":"request"`, `"route":"/api/v1/articles/search","status":503`, `"app":"` + f.app.ID} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s: %s", want, log)
		}
	}
}

// Every keyword of the corpus finds through the interface what it must, in highlights
// that are parts of the escaped article.
func TestSearchCorpus(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	docs := searchtest.Corpus(t)
	tenants := map[string]bool{}
	var lines []string
	docs = slices.DeleteFunc(docs, func(d searchsvc.Document) bool { return !waypost.IsArticleKey(d.TenantID) }) // nobody can write them
	for _, d := range docs {
		channels := make([]map[string]any, len(d.Channels))
		for i, c := range d.Channels {
			channels[i] = map[string]any{"id": c.ID, "name": c.ID, "slug": c.ID}
		}
		line, err := json.Marshal(map[string]any{
			"id": d.ID, "tenant_id": d.TenantID, "name": d.Name, "identifier": d.Identifier, "content": d.Content, "access_level": d.AccessLevel,
			"published": d.Published, "frontend_url": d.FrontendURL, "published_at": d.PublishedAt, "channels": channels,
		})
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
		tenants[d.TenantID] = true
	}
	if a := f.importArticles(nil, lines...).expect(t, 200); a.json["created"] != float64(len(docs)) {
		t.Fatalf("%s", a.raw)
	}
	f.indexed()
	token := f.token(`{"tenantIds":["tenant-a","tenant-b"],"from":["frontend"]}`)
	searched := 0
	for _, c := range searchtest.Cases(t) {
		if !tenants[c.TenantID] {
			continue // an id that no article can have
		}
		searched++
		a := f.search(token, url.Values{
			"tenant_id": {c.TenantID}, "from": {"frontend"}, "keywords": {c.Keyword}, "user_access_level": {strconv.Itoa(c.AccessLevel)}, "_per_page": {"50"},
		}.Encode())
		ids := strings.Fields(found(t, a))
		for _, id := range ids {
			if !slices.Contains(c.IDs, id) && !slices.Contains(c.EngineMayAdd, id) {
				t.Errorf("%q found %s, which it must not", c.Keyword, id)
			}
		}
		for _, id := range c.IDs {
			if !slices.Contains(ids, id) {
				t.Errorf("%q did not find %s", c.Keyword, id)
			}
		}
		for _, h := range hits(t, a) {
			d := docs[slices.IndexFunc(docs, func(d searchsvc.Document) bool { return d.ID == h["id"] })]
			marks := strings.NewReplacer(`<b class="highlight">`, "", `</b>`, "")
			if name := marks.Replace(h["name_highlight"].(string)); name != html.EscapeString(d.Name) || h["name"] != d.Name {
				t.Errorf("%q: the title %q, want %q", c.Keyword, name, html.EscapeString(d.Name))
			}
			if excerpt := strings.Trim(marks.Replace(h["search_highlight"].(string)), "…"); !strings.Contains(html.EscapeString(d.Content), excerpt) {
				t.Errorf("%q: the excerpt %q is not in %s", c.Keyword, excerpt, d.ID)
			}
		}
	}
	if searched < 60 {
		t.Errorf("only %d keywords", searched)
	}
}

// What articles hold cannot get out of the places that a page prints them in.
func TestSearchHostile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	texts := map[string]string{
		"script": `<script>alert(1)</script>`, "markup": `<b class="highlight">needle</b></b>`, "attribute": `" onmouseover="alert(1)`, "entity": `&lt;b&gt; &#60;img&#62;`,
		"comment": `<!-- needle --><![CDATA[`, "fold": "ẞ İ ﬁ ſ K", "private": "\ue000needle\ue001 \ue00a\uf8ff", "bidi": "\u202eneedle\u2066", "empty": "",
	}
	for id, text := range texts {
		body, err := json.Marshal(map[string]any{"id": id, "tenant_id": "site", "name": "needle " + text, "identifier": id, "content": text + strings.Repeat(" needle "+text, 3), "channels": []any{
			map[string]any{"id": "c", "name": "channel " + text},
		}})
		if err != nil {
			t.Fatal(err)
		}
		f.putArticle(string(body))
	}
	f.putArticle(`{"id":"long","tenant_id":"site","name":"n","identifier":"long","content":"` + strings.Repeat("<p>", 340_000) + `needle"}`)
	f.putArticle(`{"id":"none","tenant_id":"site","name":"needle","identifier":"none"}`)
	f.indexed()
	a := f.search(f.token(`{"tenantIds":["site"],"from":["frontend"]}`), "tenant_id=site&from=frontend&keywords=needle&_per_page=50").expect(t, 200)
	if list := hits(t, a); len(list) != len(texts)+2 {
		t.Errorf("%d hits of %d", len(list), len(texts)+2)
	}
	for _, h := range hits(t, a) {
		for _, member := range []string{"name_highlight", "search_highlight"} {
			text := h[member].(string)
			bare := strings.NewReplacer(`<b class="highlight">needle</b>`, "needle").Replace(text)
			if strings.ContainsAny(bare, `<>"'`) || len(text) > 4000 {
				t.Errorf("%s, %s: %.400q", h["id"], member, text)
			}
		}
	}
}

// until waits for what happens beside the requests.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	late := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// All of it as it runs: what is written is found a moment later, a reindex goes on
// with searches, and what is deleted is not found any more.
func TestSearchFollowsArticles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	x := searchsvc.NewIndexer(f.index, f.store, true, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); x.Run(ctx) }()
	defer func() { cancel(); <-done }()
	f.options.IndexWaker = x
	f.addr = f.serve()
	token := f.token(`{"tenantIds":["site"],"from":["frontend"]}`)
	const query = "tenant_id=site&from=frontend&keywords=needle"
	for i := range 3 {
		f.putArticle(fmt.Sprintf(`{"id":"a-%d","tenant_id":"site","name":"needle","identifier":"i","published_at":"202%d-01-01T00:00:00Z"}`, i, 6-i))
	}
	until(t, "the articles are found", func() bool {
		a := f.search(token, query)
		return a.status == 200 && found(t, a) == "a-0 a-1 a-2"
	})
	f.putArticle(`{"id":"a-1","tenant_id":"site","name":"thread","identifier":"i"}`)
	f.send("DELETE", "/v1/articles/a-2", "").expect(t, 204)
	until(t, "changes are seen", func() bool { return found(t, f.search(token, query)) == "a-0" })
	f.send("POST", "/v1/articles/reindex", "").expect(t, 202)
	until(t, "the reindex has ended", func() bool {
		if got := found(t, f.search(token, query)); got != "a-0" {
			t.Errorf("during the reindex: found %q", got)
		}
		return f.get("/v1/articles/reindex").json["status"] == string(waypost.ReindexSucceeded)
	})
	if a := f.get("/v1/articles/reindex"); a.json["total"] != 2.0 || a.json["processed"] != 2.0 || a.json["ended_at"] == nil {
		t.Errorf("%s", a.raw)
	}
}
