package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/store"
)

// newImportingClientOf is newClientOf with a worker for imports: an import that
// somebody looks at has got further.
func newImportingClientOf(t *testing.T) []string {
	t.Helper()
	environ := deployment(t)
	settings := map[string]string{}
	for _, s := range append(slices.Clone(environ), clientOf(t, environ)...) {
		name, value, _ := strings.Cut(s, "=")
		settings[name] = value
	}
	keys, err := waypost.ParseKeyring(settings["WAYPOST_ENCRYPTION_KEYS"])
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), settings["WAYPOST_DATABASE_URL"], keys, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	gateway, err := url.Parse(settings["WAYPOST_URL"])
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(gateway)
		r.Out.Host = r.In.Host
	}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, isImport := strings.CutPrefix(r.URL.Path, importsPath+"/"); isImport && r.Method == http.MethodGet && waypost.IsID(waypost.PrefixImport, id) {
			if _, err := db.ImportStep(r.Context(), id); err != nil {
				t.Error(err)
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return []string{"WAYPOST_URL=" + front.URL, "WAYPOST_ACCESS_KEY=" + settings["WAYPOST_ACCESS_KEY"], "WAYPOST_SECRET_KEY=" + settings["WAYPOST_SECRET_KEY"]}
}

// The examples of docs/leads.md work as they stand there, against a gateway, one
// after the other, with the files that the page shows.
func TestLeadsPage(t *testing.T) {
	t.Parallel()
	needTools(t, "sh", "curl", "openssl")
	client, text, dir := newImportingClientOf(t), pageOf(t, "docs", "leads.md"), t.TempDir()
	documents := blocksOf(t, text, "json")
	for name, content := range map[string]string{
		"leads.csv": blocksOf(t, text, "csv")[0], "leads.ndjson": blocksOf(t, text, "ndjson")[0], "leads.json": documents[1],
		"gbk.csv": "name,externalId\r\n\xd5\xc5\xc8\xfd,crm-5\r\n", // 张三
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	clients, err := filepath.Abs(clientsDir)
	if err != nil {
		t.Fatal(err)
	}
	files := regexp.MustCompile(`^\w+\.(csv|ndjson|json)$`)
	ids := map[string]string{}
	cli := func(stdin, command string) result {
		t.Helper()
		words, err := shellWords(command)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range words {
			if files.MatchString(w) {
				words[i] = filepath.Join(dir, w)
			}
		}
		return runCLI(t, client, stdin, words...)
	}
	substituted := regexp.MustCompile(`"\$\(waypost ([^)]*)\)"`)
	failedRows := regexp.MustCompile(`(?s)LINE  CODE.*?\n` + "```").FindString(text)
	failed := 0
	answers := map[string]string{}
	for _, line := range strings.Split(strings.Join(blocksOf(t, text, "sh"), ""), "\n") {
		if line == "" {
			continue
		}
		sent := line
		for open, id := range ids {
			sent = strings.ReplaceAll(sent, open, id)
		}
		if isCall := strings.HasPrefix(sent, "waypost_call "); isCall {
			cmd := exec.CommandContext(t.Context(), "sh", "-euc", ". "+clients+"/waypost.sh\n"+sent)
			cmd.Env = append(slices.Clone(client), "PATH="+os.Getenv("PATH"))
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v, answer %s", line, err, out)
			}
			answers[line] = string(out)
		} else {
			sent = substituted.ReplaceAllStringFunc(sent, func(inner string) string {
				return "'" + strings.TrimSpace(cli("", substituted.FindStringSubmatch(inner)[1]).stdout) + "'"
			})
			command, to, redirected := strings.Cut(sent, " > ")
			stdin := ""
			if input, piped, isPipe := strings.Cut(command, " | "); isPipe {
				out, err := exec.CommandContext(t.Context(), "sh", "-euc", input).Output()
				if err != nil {
					t.Fatalf("%s: %v", input, err)
				}
				stdin, command = string(out), piped
			}
			r := cli(stdin, strings.TrimPrefix(command, "waypost "))
			if r.code != 0 {
				if failed++; !strings.Contains(r.stderr, "1 of 3 rows failed") || !strings.Contains(r.stdout, strings.TrimSuffix(failedRows, "```")) {
					t.Fatalf("%s: %s%s", line, r.stdout, r.stderr)
				}
			}
			if redirected {
				if err := os.WriteFile(filepath.Join(dir, to), []byte(r.stdout), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			answers[line] = r.stdout
		}
		if id := regexp.MustCompile(`"?leadsId"?[: ]+(\d+)`).FindStringSubmatch(answers[line]); id != nil && len(ids) < 2 {
			ids[fmt.Sprint(1001+len(ids))] = id[1]
		}
		if id := regexp.MustCompile(`imp_\w+`).FindString(answers[line]); id != "" {
			ids["imp_…"] = id
		}
	}
	if failed != 3 { // dry run, import, and --watch of the last one
		t.Errorf("%d of the commands had a row that failed", failed)
	}
	// The answers look as the page shows them.
	for i, call := range map[int]string{0: "waypost_call GET /v1/leads/1001", 2: "waypost_call GET /v1/leads/imports/imp_…"} {
		var shown, got members
		if err := json.Unmarshal([]byte(documents[i]), &shown); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(answers[call]), &got); err != nil || fmt.Sprint(shown.names()) != fmt.Sprint(got.names()) {
			t.Errorf("%v: the page shows %v, the answer has %v", err, shown.names(), got.names())
		}
		for _, name := range []string{"name", "mobilePhone", "customFields", "status", "mode", "dryRun", "total", "processed", "created", "updated", "failed"} {
			if i == 2 && shown.text(name) != got.text(name) || i == 0 && len(got.text(name)) > 0 && strings.ReplaceAll(shown.text(name), " ", "") != strings.ReplaceAll(got.text(name), " ", "") {
				t.Errorf("%s: the page shows %s, the answer has %s", name, shown.text(name), got.text(name))
			}
		}
	}
	made := runCLI(t, client, "", "leads", "create", "--name", "A", "--external-id", "taken", "-o", "json")
	var lead members
	if err := json.Unmarshal([]byte(made.stdout), &lead); err != nil {
		t.Fatal(err)
	}
	for i, body := range map[int]string{3: `{"businessParam":{"name":"B","externalId":"taken"}}`, 4: `{"businessParam":{}}`} {
		sameJSON(t, runCLI(t, client, "", "api", "POST", "/v1/leads", "-d", body).stdout, strings.ReplaceAll(documents[i], "1001", lead.text("leadsId")))
	}
}

// Leads that were exported and imported again are what they were, in both formats.
func TestLeadsRoundTrip(t *testing.T) {
	t.Parallel()
	client, dir := newImportingClientOf(t), t.TempDir()
	lines := `{"leadsId":77,"name":"=1+1","remark":"a \"b\",\r\nc","mobilePhone":["13800138000","+1 650-253-0000"],"externalId":"'x","customFields":{"a":"'5","b":5,"c":"true","d":false,"e":""}}
{"name":"张伟","gender":2,"birthday":"1990-12-31","leadsGroup":-3}
`
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("in.ndjson"), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	do := func(stage string, args ...string) result {
		t.Helper()
		r := runCLI(t, append(slices.Clone(client), "WAYPOST_STAGE="+stage), "", append([]string{"leads"}, args...)...)
		r.want(t, 0, nil, nil)
		return r
	}
	// What nobody can set differs: the ids and the times.
	own := regexp.MustCompile(`"(leadsId|createdAt|updatedAt)":("[^"]*"|\d+),?`)
	first := ""
	from := "in.ndjson"
	for i, step := range []struct{ stage, to string }{{"test", "a.ndjson"}, {"test", "a.csv"}, {"pre-release", "b.csv"}, {"pre-release", "b.ndjson"}, {"release", "c.ndjson"}} {
		if i == 0 || i == 2 || i == 4 {
			do(step.stage, "import", at(from), "--mode", "upsert").want(t, 0, []string{"created      2\n"}, nil)
		}
		do(step.stage, "export", "--to", at(step.to)).want(t, 0, []string{"exported 2 leads to "}, nil)
		if from = step.to; strings.HasSuffix(step.to, ".ndjson") {
			text, err := os.ReadFile(at(step.to))
			if err != nil {
				t.Fatal(err)
			}
			got := own.ReplaceAllString(string(text), "")
			if first == "" {
				first = got
			}
			if got != first || !strings.Contains(got, `"remark":"a \"b\",\r\nc"`) || !strings.Contains(got, `"customFields":{"a":"'5","b":5,"c":"true","d":false,"e":""}`) {
				t.Errorf("%s: got\n%s\nwant\n%s", step.to, got, first)
			}
		}
	}
	do("release", "export", "--excel", "--to", at("excel.csv")).want(t, 0, []string{"exported 2 leads to "}, nil)
	if text, err := os.ReadFile(at("excel.csv")); err != nil || !strings.HasPrefix(string(text), "\uFEFFleadsId,") {
		t.Errorf("%v: %.20q", err, text)
	}
	if r := do("release", "export", "--excel"); !strings.HasPrefix(r.stdout, "\uFEFFleadsId,") {
		t.Errorf("%.20q", r.stdout)
	}
	do("release", "import", at("excel.csv"), "--mode", "update").want(t, 0, []string{"updated      2\n"}, nil)
	if r := do("release", "export"); own.ReplaceAllString(r.stdout, "") != first {
		t.Errorf("through Excel's CSV: got\n%s\nwant\n%s", r.stdout, first)
	}
	do("release", "import", at("c.ndjson"), "--mode", "update", "--no-wait").want(t, 0, []string{"pending"}, nil)
	do("release", "import", at("c.ndjson"), "--mode", "update").want(t, 0, []string{"updated      2\n"}, nil)
}
