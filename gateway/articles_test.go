package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
)

// putArticle creates or replaces an article, whose id the body has.
func (f *fixture) putArticle(body string) answer {
	f.t.Helper()
	var doc struct{ ID string }
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		f.t.Fatal(err)
	}
	a := f.send("PUT", "/v1/articles/"+doc.ID, body)
	if a.status != 200 && a.status != 201 {
		f.t.Fatalf("status %d: %s", a.status, a.raw)
	}
	return a
}

// importArticles imports articles, one a line.
func (f *fixture) importArticles(headers map[string]string, lines ...string) answer {
	f.t.Helper()
	c := call{method: "POST", target: "/v1/articles/import", body: strings.Join(lines, "\n"), headers: map[string]string{"Content-Type": "application/x-ndjson"}}
	for name, value := range headers {
		c.headers[name] = value
	}
	return f.do(c)
}

// otherOrg is an application of another organisation.
func (f *fixture) otherOrg() *fixture {
	f.t.Helper()
	c, err := f.store.CreateApplication(f.t.Context(), "", waypost.Application{Org: "other", Name: "test", Grants: []waypost.Grant{"*"}, RatePerSecond: 1000, RateBurst: 1000})
	if err != nil {
		f.t.Fatal(err)
	}
	other := f.in(f.t)
	other.key, other.app = keyOf(c), c.Application
	return other
}

const fullArticle = `{"id":"a-1","tenant_id":"site","name":"重置 <密码> & \"邮箱\"","identifier":"reset","content":"a\u2028b\nc","access_level":3,"published":false,` +
	`"frontend_url":"https://example.com/reset","channels":[{"id":"root","slug":"","url":"example.com","name":"首页","access_level":0},` +
	`{"id":"help","slug":"help","url":"","name":"Help","access_level":5}],"published_at":"2020-02-29T08:00:00.123Z"}`

func TestArticles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	created := f.putArticle(fullArticle).expect(t, 201)
	tag := created.header.Get("ETag")
	if created.raw != fullArticle || created.header.Get("Location") != "/v1/articles/a-1" || tag == "" {
		t.Errorf("got  %s\nwant %s\n%v", created.raw, fullArticle, created.header)
	}
	if got := f.get("/v1/articles/a-1").expect(t, 200); got.raw != fullArticle || got.header.Get("ETag") != tag {
		t.Errorf("GET %s", got.raw)
	}
	if head := f.do(call{method: "HEAD", target: "/v1/articles/a-1"}).expect(t, 200); head.raw != "" || head.header.Get("ETag") != tag {
		t.Errorf("HEAD %q %v", head.raw, head.header)
	}

	// Absent members, and null ones, get their defaults; the time stays.
	short := `{"tenant_id":"site","name":"n","identifier":"i","content":null,"access_level":null,"published":null,"frontend_url":null,"channels":null,"published_at":null}`
	want := `{"id":"a-1","tenant_id":"site","name":"n","identifier":"i","content":"","access_level":0,"published":true,"frontend_url":"","channels":[],"published_at":"2020-02-29T08:00:00.123Z"}`
	if a := f.send("PUT", "/v1/articles/a-1", short).expect(t, 200); a.raw != want || a.header.Get("Location") != "" {
		t.Errorf("got  %s\nwant %s", a.raw, want)
	}
	f.clock.advance(1500 * time.Microsecond)
	if a := f.send("PUT", "/v1/articles/A.b_c-2", `{"tenant_id":"site","name":"n","identifier":"i"}`).expect(t, 201); a.json["published_at"] != "2026-01-31T12:00:00.001Z" {
		t.Errorf("%s", a.raw)
	}
	offset := f.send("PUT", "/v1/articles/a-3", `{"id":null,"tenant_id":"site","name":"n","identifier":"i","published_at":"2026-01-31T20:00:00.1239+08:00"}`)
	if offset.expect(t, 201).json["published_at"] != "2026-01-31T12:00:00.123Z" {
		t.Errorf("%s", offset.raw)
	}

	minimal := func(id string) answer {
		return f.do(call{method: "PUT", target: "/v1/articles/" + id, body: short, headers: map[string]string{"Prefer": "return=minimal"}})
	}
	if a := minimal("a-4").expect(t, 201); a.raw != `{"id":"a-4"}` || a.header.Get("ETag") != f.get("/v1/articles/a-4").header.Get("ETag") || a.header.Get("Preference-Applied") == "" {
		t.Errorf("%s %v", a.raw, a.header)
	}
	if a := minimal("a-4").expect(t, 204); a.raw != "" || a.header.Get("ETag") == "" || a.header.Get("Preference-Applied") == "" {
		t.Errorf("%s %v", a.raw, a.header)
	}

	// Stages and organisations have articles of their own; tenants are one organisation's.
	test := map[string]string{"X-Cloud-Stage": "test"}
	f.do(call{method: "GET", target: "/v1/articles/a-1", headers: test}).fault(t, 404, "NotFound", []string{}...)
	f.do(call{method: "PUT", target: "/v1/articles/a-1", body: short, headers: test}).expect(t, 201)
	other := f.otherOrg()
	other.get("/v1/articles/a-1").fault(t, 404, "NotFound", []string{}...)
	if a := other.send("PUT", "/v1/articles/a-1", short).fault(t, 409, "Conflict"); a.json["target"] != "tenant_id" {
		t.Errorf("%s", a.raw)
	}
	other.send("PUT", "/v1/articles/a-1", strings.Replace(short, `"site"`, `"theirs"`, 1)).expect(t, 201)

	// If-Match of what is not there yet.
	for _, match := range []string{"*", tag} {
		f.do(call{method: "PUT", target: "/v1/articles/new", body: short, headers: map[string]string{"If-Match": match}}).fault(t, 412, "PreconditionFailed", []string{}...)
	}
	f.get("/v1/articles/new").fault(t, 404, "NotFound", []string{}...)
	careful, err := f.store.CreateApplication(t.Context(), "", waypost.Application{Org: testOrg, Name: "careful", Grants: []waypost.Grant{"articles.*"}, RatePerSecond: 1000, RateBurst: 1000, RequireIfMatch: true})
	if err != nil {
		t.Fatal(err)
	}
	key := keyOf(careful)
	f.do(call{method: "PUT", target: "/v1/articles/new", body: short, key: &key}).expect(t, 201)
	f.do(call{method: "PUT", target: "/v1/articles/new", body: short, key: &key}).fault(t, 428, "PreconditionRequired", []string{}...)

	before := f.indexer.n.Load()
	f.send("DELETE", "/v1/articles/a-1", "").expect(t, 204)
	f.get("/v1/articles/a-1").fault(t, 404, "NotFound", []string{}...)
	f.send("DELETE", "/v1/articles/a-1", "").fault(t, 404, "NotFound", []string{}...)
	if woken := f.indexer.n.Load(); before != 9 || woken != before+1 || f.wakes.n.Load() != 0 {
		t.Errorf("the indexer was woken %d times, by a DELETE %d times, and the pump %d times", before, woken-before, f.wakes.n.Load())
	}
	for _, id := range []string{"%E4%BD%A0", strings.Repeat("x", 65), "a+b"} {
		f.get("/v1/articles/"+id).fault(t, 404, "NotFound", []string{}...)
		f.send("DELETE", "/v1/articles/"+id, "").fault(t, 404, "NotFound", []string{}...)
	}
}

func TestArticleFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const (
		good  = `"tenant_id":"site","name":"n","identifier":"i"`
		large = 1 << 20
	)
	filler := strings.Repeat("好", large/3)
	for _, tc := range []struct {
		id, body string
		status   int
		details  string
	}{
		{"a", `{}`, 400, "NullValue tenant_id; NullValue name; NullValue identifier"},
		{"a", `[]`, 400, "InvalidType "},
		{"a", `{` + good + `,"slug":"x","created_at":null}`, 400, "UnknownField slug; UnknownField created_at"},
		{"a", `{` + good + `,"Name":"n"}`, 400, "UnknownField Name"},
		{"a", `{` + good + `,"id":"b"}`, 400, "InvalidFormat id"},
		{"import", `{` + good + `}`, 400, "InvalidFormat id"},
		{"reindex", `{` + good + `}`, 400, "InvalidFormat id"},
		{"%E4%BD%A0", `{` + good + `}`, 400, "InvalidFormat id"},
		{strings.Repeat("x", 65), `{` + good + `}`, 400, "InvalidFormat id"},
		{"a", `{"tenant_id":"a b","name":" ","identifier":"x/y"}`, 400, "InvalidFormat tenant_id; NullValue name; InvalidFormat identifier"},
		{"a", `{` + good + `,"published_at":"yesterday","access_level":"1","channels":[{"id":"c"},{"id":"c","name":"n","access_level":11,"url":"javascript:1"}]}`, 400,
			"InvalidType access_level; InvalidFormat published_at; NullValue channels[0].name; InvalidFormat channels[1].url; OutOfRange channels[1].access_level; Duplicate channels[1].id"},
		{"a", `{` + good + `,"published_at":"0001-01-01T00:00:00Z","access_level":-1}`, 400, "OutOfRange published_at; OutOfRange access_level"},
		{"a", `{` + good + `,"published":1,"channels":[null]}`, 400, "InvalidType published; NullValue channels[0]; NullValue channels[0].id; NullValue channels[0].name"},
		{"a", `{` + good + `,"content":"a` + `\u0000b"}`, 400, "InvalidFormat content"},
		// Longer than what DecodeJSON is given.
		{"a", `{` + good + `,"content":"` + filler + `","published":1,"nope":2}`, 400, "InvalidType published; UnknownField nope"},
		{"a", `{` + good + `,"content":"` + filler + `\u0000"}`, 400, "InvalidFormat content"},
		{"a", `{` + good + `,"content":"` + filler + `","content":"x"}`, 400, "Duplicate content"},
		{"a", `{` + good + `,"content":"` + filler + `"`, 400, "InvalidFormat "},
		{"a", `{` + good + `,"content":"` + filler + "\xff\"}", 400, "InvalidFormat "},
		{"a", `{` + good + `,"content":[` + strings.Repeat("[],", large/2) + `[]]}`, 413, ""},
		{"a", `{` + good + `,"content":"` + filler + `","x":"` + filler + filler + `"}`, 413, ""},
		{"a", strings.Repeat("[", 2*large), 400, "InvalidFormat "},
		{"a", `{` + good + `,"content":"` + strings.Repeat("x", 8*large) + `"}`, 413, ""},
	} {
		a := f.send("PUT", "/v1/articles/"+tc.id, tc.body)
		if tc.status == 413 {
			a.fault(t, 413, "PayloadTooLarge", []string{}...)
			continue
		}
		a.fault(t, tc.status, "BadRequest", strings.Split(tc.details, "; ")...)
		if len(a.raw) > 4000 {
			t.Errorf("an answer of %d bytes", len(a.raw))
		}
	}
	f.get("/v1/articles/a").fault(t, 404, "NotFound", []string{}...)
	if f.indexer.n.Load() != 0 {
		t.Error("the indexer was woken")
	}
	// What is long and right is stored as it is.
	text := filler + `\"\\ \ud83d\ude00 ` + "\u2028 ſßẞİﬁ\ue000"
	if a := f.send("PUT", "/v1/articles/a", `{"content":"`+text+`",`+good+`}`).expect(t, 201); a.json["content"] != filler+"\"\\ 😀 \u2028 ſßẞİﬁ\ue000" {
		t.Errorf("content of %d bytes", len(a.raw))
	}
}

// errorLines are the failed lines of an import, as "LINE CODE TARGET DETAILS…".
func errorLines(t *testing.T, a answer) (all []string) {
	t.Helper()
	var im struct {
		Errors []struct {
			Line                  int
			Code, Message, Target string
			Detail                []waypost.Detail
		}
	}
	if err := json.Unmarshal([]byte(a.raw), &im); err != nil {
		t.Fatal(err)
	}
	for _, e := range im.Errors {
		text := fmt.Sprintf("%d %s %s", e.Line, e.Code, e.Target)
		for _, d := range e.Detail {
			text += fmt.Sprintf(", %s %s", d.Code, d.Target)
		}
		all = append(all, text)
	}
	return all
}

func TestImportArticles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.otherOrg()
	other.putArticle(`{"id":"x","tenant_id":"theirs","name":"n","identifier":"i"}`)
	f.putArticle(`{"id":"a-1","tenant_id":"site","name":"old","identifier":"i"}`)
	woken := f.indexer.n.Load()
	line := func(id, tenant string) string {
		return fmt.Sprintf(`{"id":%q,"tenant_id":%q,"name":"营业时间 %s","identifier":"i"}`, id, tenant, id)
	}
	long := `{"id":"long","tenant_id":"site","name":"n","identifier":"i","content":"` + strings.Repeat("长", 400_000) + `"}`
	a := f.importArticles(nil, "\uFEFF"+line("a-1", "site"), "", " \t\r", line("a-2", "site")+"\r", `{"id":"a-3"`, line("", "site"), `{"id":"a-4","tenant_id":"site","nope":1}`,
		line("import", "site"), line("b/c", "site"), line("a-5", "theirs"), `5`, "x", long, strings.Replace(long, `"n"`, `5`, 1),
		`{"id":"huge","content":"`+strings.Repeat("x", 8<<20)+`"}`, line("a-2", "site")).expect(t, 200)
	if got := fmt.Sprint(a.json["total"], a.json["created"], a.json["updated"], a.json["failed"]); got != "14 2 2 10" {
		t.Errorf("total, created, updated, failed: %s, want 14 2 2 10: %.2000s", got, a.raw)
	}
	if got, want := strings.Join(errorLines(t, a), "\n"), strings.Join([]string{
		"5 BadRequest , InvalidFormat ",
		"6 BadRequest , NullValue id",
		"7 BadRequest , UnknownField nope, NullValue name, NullValue identifier",
		"8 BadRequest , InvalidFormat id",
		"9 BadRequest , InvalidFormat id",
		"10 Conflict tenant_id",
		"11 BadRequest , InvalidType ",
		"12 BadRequest , InvalidFormat ",
		"14 BadRequest , InvalidType name",
		"15 BadRequest , TooLong ",
	}, "\n"); got != want {
		t.Errorf("errors\n%s\nwant\n%s", got, want)
	}
	if got := f.get("/v1/articles/a-1").expect(t, 200); got.json["name"] != "营业时间 a-1" {
		t.Errorf("%s", got.raw)
	}
	if got := f.get("/v1/articles/long").expect(t, 200); len(got.json["content"].(string)) != 1_200_000 {
		t.Errorf("%d bytes", len(got.raw))
	}
	f.importArticles(nil, line("a-6", "site"), "\xff").fault(t, 400, "BadRequest")
	f.get("/v1/articles/a-6").fault(t, 404, "NotFound") // of such a file nothing is stored
	if f.indexer.n.Load() != woken+1 {
		t.Errorf("the indexer was woken %d times", f.indexer.n.Load()-woken)
	}

	// Nothing is an import too, and the same one again changes nothing.
	for range 2 {
		if a := f.importArticles(nil, "", "").expect(t, 200); a.raw != `{"total":0,"created":0,"updated":0,"failed":0,"errors":[]}` {
			t.Errorf("%s", a.raw)
		}
	}
	key := map[string]string{"Idempotency-Key": "k"}
	first, again := f.importArticles(key, line("k", "site")).expect(t, 200), f.importArticles(key, line("k", "site")).expect(t, 200)
	if first.raw != `{"total":1,"created":1,"updated":0,"failed":0,"errors":[]}` || again.raw != first.raw || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("first %s, again %s", first.raw, again.raw)
	}
	// Of many faulty lines only some are told about.
	if a := f.importArticles(nil, strings.Repeat("{}\n", 1005)).expect(t, 200); a.json["failed"] != 1005.0 || len(a.json["errors"].([]any)) != waypost.MaxLineErrors {
		t.Errorf("failed %v, %d errors", a.json["failed"], len(a.json["errors"].([]any)))
	}
	f.do(call{method: "POST", target: "/v1/articles/import", body: `{"articles":[]}`}).fault(t, 415, "UnsupportedMediaType", []string{}...)
}

func TestReindex(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.get("/v1/articles/reindex").fault(t, 404, "NotFound", []string{}...)
	asked := f.send("POST", "/v1/articles/reindex", "").expect(t, 202)
	want := `{"status":"pending","message":null,"total":0,"processed":0,"created_at":"2026-01-31T12:00:00.000Z","started_at":null,"ended_at":null}`
	if asked.raw != want || asked.header.Get("Location") != "/v1/articles/reindex" || f.indexer.n.Load() != 1 {
		t.Errorf("%s, Location %q, woken %d times", asked.raw, asked.header.Get("Location"), f.indexer.n.Load())
	}
	f.clock.advance(time.Second)
	if again := f.do(call{method: "POST", target: "/v1/articles/reindex", body: "{}", headers: map[string]string{"Idempotency-Key": "k"}}).expect(t, 202); again.raw != want {
		t.Errorf("%s", again.raw)
	}
	if again := f.do(call{method: "POST", target: "/v1/articles/reindex", body: "{}", headers: map[string]string{"Idempotency-Key": "k"}}).expect(t, 202); again.raw != want || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%s", again.raw)
	}
	if shown := f.get("/v1/articles/reindex").expect(t, 200); shown.raw != want || shown.header.Get("ETag") == "" {
		t.Errorf("%s", shown.raw)
	}
	for _, tc := range []struct{ method, target, allow string }{
		{"PATCH", "/v1/articles/reindex", "GET, HEAD, POST, PUT, DELETE"},
		{"PATCH", "/v1/articles/import", "GET, HEAD, POST, PUT, DELETE"},
		{"POST", "/v1/articles/a", "GET, HEAD, PUT, DELETE"},
		{"GET", "/v1/tokens", "POST"},
	} {
		if a := f.send(tc.method, tc.target, "").fault(t, 405, "MethodNotAllowed"); a.header.Get("Allow") != tc.allow {
			t.Errorf("%s %s: Allow %q, want %q", tc.method, tc.target, a.header.Get("Allow"), tc.allow)
		}
	}
}
