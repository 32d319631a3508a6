package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// newSearchingClientOf starts `waypost serve` with the embedded index, and returns the
// settings of somebody who may call it.
func newSearchingClientOf(t *testing.T) []string {
	t.Helper()
	return clientOfRole(t, "serve", append(deployment(t), "WAYPOST_DATA_DIR="+t.TempDir(), "WAYPOST_TYPESENSE_URL=", "WAYPOST_TYPESENSE_API_KEY="))
}

// until looks again and again whether something has come true, such as that the index
// has what was written.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(time.Minute); !is(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("waited in vain: " + what)
		}
	}
}

// The commands against the gateway and the index that they are written for.
func TestArticlesOfGateway(t *testing.T) {
	t.Parallel()
	client := newSearchingClientOf(t)
	found := func(t *testing.T, environ []string, args ...string) result {
		t.Helper()
		var r result
		until(t, fmt.Sprint(args), func() bool {
			r = runCLI(t, environ, "", append([]string{"articles", "search", "--tenant", "t1"}, args...)...)
			return r.code == 0 && r.stdout != ""
		})
		return r
	}
	put := func(environ []string, article string) result {
		t.Helper()
		r := runCLI(t, environ, article, "articles", "put", "-")
		r.want(t, 0, nil, nil)
		return r
	}
	put(client, "id: a1\ntenant_id: t1\nname: 如何申请退款\nidentifier: refunds\ncontent: \"退款 <b class=\\\"highlight\\\">\\n<script>alert(1)</script>\"\naccess_level: 3\n")
	put(client, `{"id":"a2","tenant_id":"t1","name":"Refunds","identifier":"en","content":"Ask for 退款.","published":false}`)
	put(append(client, "WAYPOST_STAGE=test"), `{"id":"a1","tenant_id":"t1","name":"Trial 退款","identifier":"trial"}`)
	r := found(t, client, "退款")
	if want := "ID  LEVEL  TITLE         TEXT\na1  3      如何申请退款  退款 <b class=\"highlight\"> <script>alert(1)</script>\n"; r.stdout != want {
		t.Errorf("found %q", r.stdout)
	}
	found(t, client, "ask", "--from", "admin").want(t, 0, []string{"a2  0      Refunds  Ask for 退款."}, []string{"1 article, page 1 of 1"})
	found(t, client, "退款", "-o", "json", "--from", "admin", "--per-page", "1", "--page", "2").want(t, 0, []string{`"id": "a2"`, `"total_pages": 2`}, nil)
	found(t, append(client, "WAYPOST_STAGE=test"), "退款").want(t, 0, []string{"Trial"}, nil)
	for args, says := range map[string]string{"退款 --level 2": "Nothing was found.", "!!!": "Nothing was found.", "退款 --page 9": "Page 9 is behind the last one, 1."} {
		runCLI(t, client, "", append([]string{"articles", "search", "--tenant", "t1"}, strings.Fields(args)...)...).want(t, 0, nil, []string{says})
	}
	for args, says := range map[string]string{"--level 11": "user_access_level: must be 0 to 10", "--per-page 0": "_per_page: must be 1 to 50", "--from both": "from[0]: must be frontend or admin", "--tenant a/b": "tenantIds[0]: must be"} {
		runCLI(t, client, "", append([]string{"articles", "search", "x", "--tenant", "t1"}, strings.Fields(args)...)...).want(t, 1, nil, []string{"BadRequest", says})
	}

	// What was shown can be given back, and a stale version is not replaced.
	shown := runCLI(t, client, "", "articles", "show", "a1", "-o", "json")
	etag := strings.TrimSpace(runCLI(t, client, "", "articles", "show", "a1", "--etag").stdout)
	runCLI(t, client, strings.Replace(shown.stdout, "如何", "怎样", 1), "articles", "put", "-", "--if-match", etag).want(t, 0, []string{"怎样申请退款"}, nil)
	runCLI(t, client, shown.stdout, "articles", "put", "-", "--if-match", etag).want(t, 1, nil, []string{"PreconditionFailed", "waypost articles show a1"})
	found(t, client, "怎样").want(t, 0, []string{"怎样申请退款"}, nil)

	runCLI(t, client, "", "articles", "delete", "a1", "none").want(t, 1, []string{"deleted a1"}, []string{"none: NotFound", "1 of 2 articles were not deleted"})
	until(t, "the deleted one is gone", func() bool {
		return strings.Contains(runCLI(t, client, "", "articles", "search", "怎样", "--tenant", "t1").stderr, "Nothing was found.")
	})
	var many strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&many, `{"id":"n%d","tenant_id":"t1","name":"Number %d","identifier":"n%d"}`+"\n", i, i, i)
	}
	runCLI(t, client, many.String()+"\n{\"id\":\"import\"}\n", "articles", "import", "-").
		want(t, 1, []string{"created  1200\n", "\n1202  BadRequest"}, []string{"1 of 1201 lines failed"})
	runCLI(t, client, many.String(), "articles", "import", "-", "-o", "json").want(t, 0, []string{`"updated": 1200`, `"errors": []`}, nil)
	runCLI(t, client, "", "articles", "reindex").want(t, 0, []string{"status      succeeded\n", "total       1202\n"}, []string{"100 %  reindex succeeded, 1202 of 1202 articles\n"})
	found(t, client, "number").want(t, 0, nil, []string{"1200 articles, page 1 of 120; the next: --page 2"})
}

// The examples of docs/articles.md work as they stand there, against a gateway, one
// after the other, with the files that the page shows, and answer what it shows.
func TestArticlesPage(t *testing.T) {
	t.Parallel()
	needTools(t, "sh", "curl", "openssl", "sed")
	client, text, dir := newSearchingClientOf(t), pageOf(t, "docs", "articles.md"), t.TempDir()
	documents := blocksOf(t, text, "json")
	for name, content := range map[string]string{"expenses.json": documents[0], "articles.ndjson": blocksOf(t, text, "ndjson")[0], "token": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	clients, err := filepath.Abs(clientsDir)
	if err != nil {
		t.Fatal(err)
	}
	files := regexp.MustCompile(`^\w+\.(ndjson|json)$`)
	substituted := regexp.MustCompile(`"\$\(waypost ([^)]*)\)"`)
	// run carries a line out, in a shell that has the page's $TOKEN, or as a command of ours.
	var run func(line string) result
	run = func(line string) result {
		t.Helper()
		command, isCLI := strings.CutPrefix(line, "waypost ")
		if !isCLI {
			cmd := exec.CommandContext(t.Context(), "sh", "-euc", ". "+clients+"/waypost.sh\n. ./token\n"+line+"\nprintf \"TOKEN='%s'\" \"${TOKEN-}\" > token")
			cmd.Env = append(slices.Clone(client), "PATH="+os.Getenv("PATH"))
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v, answer %s", line, err, out)
			}
			return result{stdout: string(out)}
		}
		command = substituted.ReplaceAllStringFunc(command, func(inner string) string {
			return "'" + strings.TrimSpace(run("waypost "+substituted.FindStringSubmatch(inner)[1]).stdout) + "'"
		})
		words, err := shellWords(command)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range words {
			if files.MatchString(w) {
				words[i] = filepath.Join(dir, w)
			}
		}
		return runCLI(t, client, "", words...)
	}
	answers, failed := map[string]string{}, 0
	for _, line := range strings.Split(strings.Join(blocksOf(t, text, "sh"), ""), "\n") {
		if line == "" {
			continue
		}
		r := run(line)
		if strings.HasPrefix(line, "curl ") || strings.Contains(line, " search ") { // the index may have to catch up
			until(t, line, func() bool {
				r = run(line)
				return strings.Contains(strings.ReplaceAll(r.stdout, " ", ""), `"total_count":`) && !strings.Contains(r.stdout, `"total_count":0`) || strings.HasPrefix(r.stdout, "ID ")
			})
		}
		if strings.HasPrefix(line, "waypost_call GET /v1/articles/reindex") { // which a worker begins
			until(t, line, func() bool {
				r = run(line)
				return strings.Contains(r.stdout, `"succeeded"`)
			})
		}
		if r.code != 0 {
			if failed++; !strings.Contains(r.stderr, "1 of 3 lines failed") {
				t.Errorf("%s: %s%s", line, r.stdout, r.stderr)
			}
		}
		answers[line] = r.stdout
	}
	if failed != 2 {
		t.Errorf("%d of the commands had a line that failed", failed)
	}
	lines := func(begin string) string {
		for line, answer := range answers {
			if strings.HasPrefix(line, begin) {
				return answer
			}
		}
		t.Fatalf("the page has no line %s", begin)
		return ""
	}
	for i, begin := range []string{"waypost_call GET /v1/articles/expenses", "waypost_call POST /v1/articles/import", "curl "} {
		if i == 2 { // the first of the two
			begin = strings.Split(blocksOf(t, text, "sh")[3], "\n")[0]
		}
		sameJSON(t, lines(begin), documents[i])
	}
	var shown, got members
	if err := json.Unmarshal([]byte(documents[3]), &shown); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(lines("waypost_call GET /v1/articles/reindex")), &got); err != nil || fmt.Sprint(shown.names()) != fmt.Sprint(got.names()) || got.text("total") != shown.text("total") {
		t.Errorf("%v: the page shows %s, the answer is %s", err, documents[3], lines("waypost_call GET /v1/articles/reindex"))
	}
	wrong := run(`curl -sG "$WAYPOST_URL/api/v1/articles/search" -H "Authorization: Bearer $TOKEN" -d tenant_id=help-centre -d from=frontend -d _per_page=51`)
	sameJSON(t, wrong.stdout, documents[4])
}
