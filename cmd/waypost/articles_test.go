package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const articleAnswer = `{"id":"a1","tenant_id":"t1","name":"差旅报销","identifier":"expenses","content":"One\u001b[31m\r\nTwo","access_level":0,"published":true,` +
	`"frontend_url":"","channels":[{"id":"c1","slug":"help","url":"x","name":"Help","access_level":3}],"published_at":"2026-01-31T12:00:00.000Z"}`

// What the commands send, and what they say.
func TestArticlesCalls(t *testing.T) {
	t.Parallel()
	routes := map[string]func(request) reply{
		"GET /v1/articles/a1":    func(request) reply { return reply{200, articleAnswer, map[string]string{"ETag": `"abc"`}} },
		"PUT /v1/articles/a1":    always(201, articleAnswer),
		"DELETE /v1/articles/a1": always(204, ""), "DELETE /v1/articles/a2": always(204, ""),
		"POST /v1/articles/reindex": always(202, `{"status":"pending","total":0}`),
	}
	for _, tt := range []struct {
		name, stdin string
		args        string
		code        int
		sent        string // METHOD target of the last call
		body        string // "" for none
		match       string
		says        string
	}{
		{"show", "", "show a1", 0, "GET /v1/articles/a1", "", "", "published_at  2026-01-31T12:00:00.000Z\n\nCHANNEL  LEVEL  SLUG  NAME  URL\nc1       3      help  Help  x\n\nOne [31m\nTwo\n"},
		{"show as JSON", "", "show a1 -o json", 0, "GET /v1/articles/a1", "", "", "{\n  \"id\": \"a1\",\n  \"tenant_id\""},
		{"show the ETag", "", "show a1 --etag", 0, "GET /v1/articles/a1", "", "", "\"abc\"\n"},
		{"put YAML", "id: a1\nname: 差旅报销\ncontent: |\n  One\n  Two\n", "put -", 0, "PUT /v1/articles/a1", `{"id":"a1","name":"差旅报销","content":"One\nTwo\n"}`, "", "x\n"},
		{"put JSON as it stands", `{"id":"a1","id":"a1", "odd": 1.50}`, "put - --if-match \"abc\"", 0, "PUT /v1/articles/a1", `{"id":"a1","id":"a1", "odd": 1.50}`, `"abc"`, ""},
		{"delete", "", "delete a1 --if-match *", 0, "DELETE /v1/articles/a1", "", "*", "deleted a1\n"},
		{"delete several", "", "delete a1 none a2", 1, "DELETE /v1/articles/a2", "", "", "deleted a1\ndeleted a2\n"},
		{"delete as JSON", "", "delete a1 a2 -o json", 0, "DELETE /v1/articles/a2", "", "", "{\n  \"deleted\": [\n    \"a1\",\n    \"a2\"\n  ]\n}\n"},
		{"reindex", "", "reindex --no-wait", 0, "POST /v1/articles/reindex", "", "", "status  pending\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, routes)
			r := runCLI(t, p.environ(), tt.stdin, append([]string{"articles"}, strings.Fields(tt.args)...)...)
			r.want(t, tt.code, []string{tt.says}, nil)
			got := p.last(t)
			if sent := got.method + " " + got.target; sent != tt.sent || got.header.Get("If-Match") != tt.match {
				t.Errorf("sent %s with If-Match %q", sent, got.header.Get("If-Match"))
			}
			if tt.body != got.body && !strings.HasPrefix(tt.stdin, "id:") {
				t.Errorf("sent %s", got.body)
			} else if tt.body != "" {
				sameJSON(t, got.body, tt.body)
			}
		})
	}
	p := newPeer(t, routes)
	runCLI(t, p.environ(), "", "articles", "delete", "a1", "none", "a2").want(t, 1, nil, []string{"none: NotFound: no such thing\n", "1 of 3 articles were not deleted"})
	stale := newPeer(t, map[string]func(request) reply{
		"DELETE /v1/articles/a1": always(428, `{"code":"PreconditionRequired","message":"must send If-Match","target":"If-Match","detail":[]}`),
	})
	runCLI(t, stale.environ(), "", "articles", "delete", "a1").want(t, 1, nil, []string{"Precondition", `--if-match "$(waypost articles show a1 --etag)"`})
}

// What is wrong is said before anything is sent.
func TestArticlesUsage(t *testing.T) {
	t.Parallel()
	p := newPeer(t, nil)
	for _, tt := range []struct {
		code       int
		args, says string
	}{
		{2, "search", "usage: waypost articles search KEYWORDS..."},
		{2, "search a", "search needs --tenant ID"},
		{2, "search a --tenant t1 --level x", "no whole number"},
		{2, "put", "usage: waypost articles put FILE"},
		{1, "put /does/not/exist", "read /does/not/exist: no such file"},
		{1, "put -", "must have an id"},
		{2, "put - --if-match=", "`waypost articles show ID --etag` prints what belongs there"},
		{2, "delete", "usage: waypost articles delete ID..."},
		{2, "delete a b --if-match *", "--if-match is the version of one article"},
		{2, "import", "usage: waypost articles import FILE"},
		{2, "import - --errors=", `"--errors" flag: it is empty`},
		{1, "import /does/not/exist", "read /does/not/exist: no such file"},
		{1, "import - --errors /does/not/exist/e.ndjson", "write /does/not/exist/e.ndjson: no such file"},
		{1, "import " + file(t, "blank.ndjson", "\ufeff\n\r\n  \n"), "blank.ndjson holds no articles"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			stdin := `{"name":"x"}`
			if strings.Contains(tt.args, "if-match") {
				stdin = `{"id":"x"}`
			}
			runCLI(t, p.environ(), stdin, append([]string{"articles"}, strings.Fields(tt.args)...)...).want(t, tt.code, nil, []string{tt.says})
		})
	}
	t.Cleanup(func() {
		if n := len(p.requests()); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
	})
}

// watcher is a cli that does not wait between looks.
func watcher(p *peer, terminal bool, output string) (c *cli, stdout, stderr *strings.Builder) {
	stdout, stderr = &strings.Builder{}, &strings.Builder{}
	return &cli{environ: p.environ(), stdin: strings.NewReader(""), stdout: stdout, stderr: stderr, output: output, poll: time.Nanosecond, terminal: terminal}, stdout, stderr
}

func execute(ctx context.Context, c *cli, args ...string) error {
	root := c.root()
	root.SetArgs(append([]string{"-o", c.output, "articles"}, args...))
	return root.ExecuteContext(ctx)
}

func TestArticlesReindex(t *testing.T) {
	t.Parallel()
	states := func(answers ...string) map[string]func(request) reply {
		looks := 0
		return map[string]func(request) reply{
			"POST /v1/articles/reindex": always(202, `{"status":"pending","message":null,"total":0,"processed":0}`),
			"GET /v1/articles/reindex": func(request) reply {
				looks++
				return reply{status: 200, body: answers[min(looks, len(answers))-1]}
			},
		}
	}
	p := newPeer(t, states(`{"status":"pending","total":0,"processed":0}`, `{"status":"running","total":8,"processed":2}`, `{"status":"running","total":8,"processed":2}`, `{"status":"succeeded","message":null,"total":8,"processed":8}`))
	c, stdout, stderr := watcher(p, true, outputTable)
	want := "\r\x1b[K░░░░░░░░░░░░░░░░░░░░   0 %  reindex pending\r\x1b[K█████░░░░░░░░░░░░░░░  25 %  reindex running, 2 of 8 articles" +
		"\r\x1b[K████████████████████ 100 %  reindex succeeded, 8 of 8 articles\n"
	if err := execute(t.Context(), c, "reindex"); err != nil || stderr.String() != want || !strings.Contains(stdout.String(), "status     succeeded\n") {
		t.Errorf("%v, stdout %q, stderr\n%q, want\n%q", err, stdout, stderr, want)
	}

	for says, answers := range map[string][]string{
		"the reindex failed: the disk is full":   {`{"status":"failed","message":"the disk is full","total":8,"processed":2}`},
		"the gateway's answer is no reindex: []": {`[]`},
	} {
		c, _, _ := watcher(newPeer(t, states(answers...)), false, outputJSON)
		if err := execute(t.Context(), c, "reindex"); err == nil || err.Error() != says {
			t.Errorf("got %v, want %s", err, says)
		}
	}

	// With --watch none is asked for.
	only := states(`{"status":"running","total":8,"processed":2}`, `{"status":"succeeded","message":null,"total":8,"processed":8}`)
	delete(only, "POST /v1/articles/reindex")
	c, stdout, stderr = watcher(newPeer(t, only), false, outputTable)
	if err := execute(t.Context(), c, "reindex", "--watch"); err != nil || !strings.Contains(stderr.String(), " 25 %  reindex running, 2 of 8 articles") ||
		!strings.Contains(stdout.String(), "status     succeeded\n") {
		t.Errorf("%v, stdout %q, stderr %q", err, stdout, stderr)
	}

	ctx, cancel := context.WithCancel(t.Context())
	routes := states(`{"status":"running","total":8,"processed":2}`)
	running := routes["GET /v1/articles/reindex"]
	routes["GET /v1/articles/reindex"] = func(r request) reply { cancel(); return running(r) }
	c, _, _ = watcher(newPeer(t, routes), true, outputTable)
	if err := execute(ctx, c, "reindex"); err == nil || err.Error() != "interrupted; the reindex goes on: `waypost articles reindex` watches it again" {
		t.Errorf("got %v", err)
	}
}

// searchPeer is a peer that also answers searches, to those who have the token; its
// tokens are counted.
func searchPeer(t *testing.T, answer string) (environ []string, seen func() []request) {
	t.Helper()
	const good = "t0ken"
	p := newPeer(t, map[string]func(request) reply{"POST /v1/tokens": always(200, `{"access_token":"`+good+`","token_type":"Bearer","expires_in":60}`)})
	searches := make(chan request, 10)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != searchPath {
			p.Config.Handler.ServeHTTP(w, r)
			return
		}
		searches <- request{r.Method, r.RequestURI, r.Header, ""}
		if r.Header.Get("Authorization") != "Bearer "+good {
			w.WriteHeader(http.StatusUnauthorized)
			answer := `{"code":401,"status":"Unauthorized","message":"the token has expired","target":"Authorization","detail":[]}`
			_, _ = w.Write([]byte(answer))
			return
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(front.Close)
	environ = []string{"WAYPOST_URL=" + front.URL, "WAYPOST_ACCESS_KEY=" + testAccessKey, "WAYPOST_SECRET_KEY=" + testSecretKey}
	return environ, func() []request {
		all := p.requests()
		for len(searches) > 0 {
			all = append(all, <-searches)
		}
		return all
	}
}

const hits = `{"code":0,"status":"success","message":{"meta":{"current_page":1,"total_pages":2,"total_count":3},"items":[` +
	`{"id":"a1","name":"差旅报销","name_highlight":"差旅<b class=\"highlight\">报销</b>","search_highlight":"…<b class=\"highlight\">报销</b>单\n\n&lt;b class=&#34;highlight&#34;&gt;x&lt;/b&gt; \u001b[31m &amp;amp;…","access_level":0},` +
	`{"id":"article-2","name":"Travel","name_highlight":"Travel","search_highlight":"<b class=\"highlight\">报销<b class=\"highlight\">x</b></b>","access_level":10}]}}`

func TestArticlesSearch(t *testing.T) {
	t.Parallel()
	profileOf := func(environ []string, token string) []string {
		all := map[string]string{"tenantId": "t1", "searchToken": token}
		for _, e := range environ {
			name, value, _ := strings.Cut(e, "=")
			all[map[string]string{"WAYPOST_URL": "url", "WAYPOST_ACCESS_KEY": "accessKey", "WAYPOST_SECRET_KEY": "secretKey"}[name]] = value
		}
		text, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return []string{"WAYPOST_PROFILE=" + file(t, "profile.json", string(text))}
	}
	t.Run("tokens", func(t *testing.T) {
		t.Parallel()
		for _, tt := range []struct {
			name, token string // of the profile
			environ     string
			args        string
			calls       string // METHOD path
			body        string // of the request for a token
			query       string
		}{
			{"the profile's", "t0ken", "", "报销 a&b", "GET /api/v1/articles/search", "", "from=frontend&keywords=%E6%8A%A5%E9%94%80+a%26b&tenant_id=t1"},
			{"an old one", "old", "", "a --from admin --level 0 --page 2 --per-page 50", "POST /v1/tokens,GET /api/v1/articles/search,GET /api/v1/articles/search",
				`{"tenantIds":["t1"],"from":["admin"],"expiresIn":60}`, "_page=2&_per_page=50&from=admin&keywords=a&tenant_id=t1&user_access_level=0"},
			{"of another site", "t0ken", "", "a --tenant t2", "POST /v1/tokens,GET /api/v1/articles/search", `{"tenantIds":["t2"],"from":["frontend"],"expiresIn":60}`, "from=frontend&keywords=a&tenant_id=t2"},
			{"of another stage", "t0ken", "WAYPOST_STAGE=test", "a", "POST /v1/tokens,GET /api/v1/articles/search", `{"tenantIds":["t1"],"from":["frontend"],"expiresIn":60}`, "from=frontend&keywords=a&tenant_id=t1"},
		} {
			environ, seen := searchPeer(t, hits)
			runCLI(t, append(profileOf(environ, tt.token), tt.environ), "", append([]string{"articles", "search"}, strings.Fields(tt.args)...)...).want(t, 0, nil, nil)
			var calls []string
			all := seen()
			for _, r := range all {
				path, query, _ := strings.Cut(r.target, "?")
				calls = append(calls, r.method+" "+path)
				switch {
				case path == tokensPath:
					sameJSON(t, r.body, tt.body)
				case query != tt.query || r.header.Get("X-Cloud-Signature") != "":
					t.Errorf("%s: asked %s with %v", tt.name, query, r.header)
				}
			}
			if got := strings.Join(calls, ","); got != tt.calls {
				t.Errorf("%s: calls %s", tt.name, got)
			}
		}
	})
	t.Run("what is shown", func(t *testing.T) {
		t.Parallel()
		environ, _ := searchPeer(t, hits)
		r := runCLI(t, environ, "", "articles", "search", "报销", "--tenant", "t1")
		want := "ID         LEVEL  TITLE     TEXT\n" +
			"a1         0      差旅报销  …报销单 <b class=\"highlight\">x</b>  [31m &amp;…\n" +
			"article-2  10     Travel    报销x\n"
		if r.code != 0 || r.stdout != want {
			t.Errorf("code %d, got\n%s\nwant\n%s", r.code, r.stdout, want)
		}
		r.want(t, 0, nil, []string{"3 articles, page 1 of 2; the next: --page 2\n"})
		r = runCLI(t, environ, "", "articles", "search", "报销", "--tenant", "t1", "-o", "json")
		r.want(t, 0, []string{"{\n  \"code\": 0,\n  \"status\": \"success\","}, nil)
		sameJSON(t, r.stdout, hits)

		var stdout strings.Builder
		c := &cli{environ: environ, stdout: &stdout, stderr: &strings.Builder{}, output: outputTable, bold: true}
		if err := execute(t.Context(), c, "search", "报销", "--tenant", "t1"); err != nil ||
			!strings.Contains(stdout.String(), "0      差旅\x1b[1m报销\x1b[22m  …\x1b[1m报销\x1b[22m单") || !strings.HasSuffix(stdout.String(), "Travel    \x1b[1m报销x\x1b[22m\n") {
			t.Errorf("%v, %q", err, stdout.String())
		}
		for meta, says := range map[string]string{
			`{"current_page":1,"total_pages":0,"total_count":0}`:  "Nothing was found.\n",
			`{"current_page":9,"total_pages":2,"total_count":13}`: "Page 9 is behind the last one, 2.\n",
		} {
			environ, _ := searchPeer(t, `{"code":0,"status":"success","message":{"meta":`+meta+`,"items":[]}}`)
			if r := runCLI(t, environ, "", "articles", "search", "x", "--tenant", "t1"); r.code != 0 || r.stdout != "" || r.stderr != says {
				t.Errorf("%+v, want %s", r, says)
			}
		}
	})
	t.Run("without a token", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, map[string]func(request) reply{
			"POST /v1/tokens": always(401, `{"code":"Unauthorized","message":"the grant tokens.issue is missing","target":"","detail":[]}`),
		})
		runCLI(t, p.environ(), "", "articles", "search", "x", "--tenant", "t1").want(t, 1, nil, []string{"no search token was issued: Unauthorized: the grant tokens.issue is missing"})
	})
}
