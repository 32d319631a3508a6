package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
)

// importing runs `leads import` without waiting between looks.
func importing(t *testing.T, ctx context.Context, p *peer, terminal bool, output string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, says strings.Builder
	c := &cli{environ: p.environ(), stdin: strings.NewReader("name\nAda\n"), stdout: &out, stderr: &says, output: output, poll: time.Nanosecond, terminal: terminal}
	root := c.root()
	root.SetArgs(append([]string{"-o", output, "leads"}, args...))
	err = root.ExecuteContext(ctx)
	return out.String(), says.String(), err
}

const (
	importAccepted = `{"id":"imp_1","status":"pending","total":4}`
	importRunning  = `{"id":"imp_1","status":"running","total":4,"processed":1,"created":1,"updated":0,"failed":0}`
	importEnded    = `{"id":"imp_1","status":"succeeded","total":4,"processed":4,"created":2,"updated":1,"failed":1}`
	importFailures = `{"line":3,"code":"BadRequest","message":"2 fields are faulty","target":"businessParam","detail":[` +
		`{"code":"NullValue","target":"name","message":"is missing"},{"code":"OutOfRange","target":"gender","message":"must be 0, 1 or 2"}]}` + "\n"
)

// importPeer is a gateway whose import gets further each time it is looked at.
func importPeer(t *testing.T, post func(request) reply, states ...string) *peer {
	t.Helper()
	looks := 0
	return newPeer(t, map[string]func(request) reply{
		"POST /v1/leads/imports": post,
		"GET /v1/leads/imports/imp_1": func(request) reply {
			looks++
			return reply{status: 200, body: states[min(looks, len(states))-1]}
		},
		"GET /v1/leads/imports/imp_1/errors":  always(200, importFailures),
		"POST /v1/leads/imports/imp_1/cancel": always(200, `{"id":"imp_1","status":"canceled"}`),
	})
}

func TestLeadsImport(t *testing.T) {
	t.Parallel()
	accepted := func(r request) reply { return reply{status: 202, body: importAccepted} }
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		for _, tt := range []struct{ name, media, format string }{
			{"leads.csv", "text/csv", ""}, {"leads.NDJSON", "application/x-ndjson", ""}, {"leads.jsonl", "application/x-ndjson", ""},
			{"leads.json", "application/json", ""}, {"leads.txt", "text/csv", "csv"}, {"-", "text/csv", "csv"},
		} {
			p := importPeer(t, accepted, importEnded)
			args := []string{"import", tt.name, "--no-wait"}
			if tt.format != "" {
				args = append(args, "--format", tt.format)
			}
			text := "name\nAda\n"
			if tt.name != "-" {
				args[1] = file(t, tt.name, text)
			}
			stdout, _, err := importing(t, t.Context(), p, false, outputTable, args...)
			if err != nil || !strings.Contains(stdout, "id      imp_1\n") {
				t.Errorf("%s: %v, %s", tt.name, err, stdout)
				continue
			}
			got := p.last(t)
			if got.target != "/v1/leads/imports?mode=create" || got.header.Get("Content-Type") != tt.media || got.body != text || got.header.Get("Content-Length") == "" && got.header.Get("Transfer-Encoding") != "" {
				t.Errorf("%s: sent %s, %v, %q", tt.name, got.target, got.header, got.body)
			}
		}
	})
	t.Run("an encoding", func(t *testing.T) {
		t.Parallel()
		p := importPeer(t, accepted, importEnded)
		if _, _, err := importing(t, t.Context(), p, false, outputTable, "import", file(t, "leads.csv", "name\n\xd5\xc5\n"), "--encoding", "gb18030", "--no-wait"); err != nil {
			t.Fatal(err)
		}
		if got := p.last(t); got.header.Get("Content-Type") != "text/csv; charset=gb18030" || got.body != "name\n\xd5\xc5\n" {
			t.Errorf("sent %v, %q", got.header, got.body)
		}
	})
	t.Run("a bar, and rows that fail", func(t *testing.T) {
		t.Parallel()
		p := importPeer(t, accepted, importRunning, importRunning, importEnded)
		errorsFile := filepath.Join(t.TempDir(), "failed.ndjson")
		stdout, stderr, err := importing(t, t.Context(), p, true, outputTable, "import", file(t, "leads.csv", "name\nAda\n"), "--mode", "upsert", "--key", "k1", "--errors", errorsFile)
		if err == nil || err.Error() != "1 of 4 rows failed" {
			t.Errorf("error %v", err)
		}
		want := ": 9 B, --key k1\n" +
			"\r\x1b[K████████████████████ 100 %  sent 9 B of 9 B\n" +
			"\r\x1b[K█████░░░░░░░░░░░░░░░  25 %  imp_1 running, 1 of 4 rows, 1 created, 0 updated, 0 failed" +
			"\r\x1b[K████████████████████ 100 %  imp_1 succeeded, 4 of 4 rows, 2 created, 1 updated, 1 failed\n"
		if !strings.HasSuffix(stderr, want) {
			t.Errorf("got  %q\nwant %q", stderr, want)
		}
		if want := "LINE  CODE        SAID\n3     BadRequest  name: is missing; gender: must be 0, 1 or 2\n"; !strings.HasSuffix(stdout, "failed     1\n\n"+want) {
			t.Errorf("stdout %q", stdout)
		}
		if text, err := os.ReadFile(errorsFile); err != nil || string(text) != importFailures {
			t.Errorf("errors file %q, %v", text, err)
		}
		if first := p.requests()[0]; first.header.Get("Idempotency-Key") != "k1" || first.target != "/v1/leads/imports?mode=upsert" {
			t.Errorf("sent %s, %v", first.target, first.header)
		}
	})
	t.Run("as JSON, without a terminal", func(t *testing.T) {
		t.Parallel()
		p := importPeer(t, accepted, `{"id":"imp_1","status":"succeeded","dryRun":true,"total":0,"processed":0,"created":0,"updated":0,"failed":0}`)
		stdout, stderr, err := importing(t, t.Context(), p, false, outputJSON, "import", "-", "--format", "csv", "--dry-run")
		if err != nil || !strings.HasPrefix(stdout, "{\n  \"id\": \"imp_1\",") || !strings.HasSuffix(stderr, "\n100 %  imp_1 succeeded, 0 of 0 rows, 0 would be created, 0 updated, 0 failed\n") {
			t.Errorf("%v, stdout %q, stderr %q", err, stdout, stderr)
		}
		if got := p.requests()[0].target; got != "/v1/leads/imports?dryRun=true&mode=create" {
			t.Errorf("sent %s", got)
		}
	})
	t.Run("what an import can come to", func(t *testing.T) {
		t.Parallel()
		for says, state := range map[string]string{
			"the import was canceled":        `{"id":"imp_1","status":"canceled","total":4}`,
			"the import failed: part 3 is b": `{"id":"imp_1","status":"failed","message":"part 3 is b","total":4}`,
		} {
			if _, _, err := importing(t, t.Context(), importPeer(t, accepted, state), false, outputTable, "imports", "show", "imp_1", "--watch"); err == nil || err.Error() != says {
				t.Errorf("got %v, want %s", err, says)
			}
		}
	})
}

// Whatever happens to the answer, a file is sent with one key until it has come.
func TestLeadsImportAgain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		replies []int // 0 breaks the connection
		says    string
		sent    int
	}{
		"busy":                  {[]int{503, 503, 202}, "", 3},
		"cut off":               {[]int{0, 202}, "", 2},
		"still under way":       {[]int{0, 409, 409, 202}, "", 4},
		"another file":          {[]int{409}, "taken", 1},
		"faulty":                {[]int{400}, "taken", 1},
		"always busy":           {[]int{503, 503, 503, 503, 503}, "taken", 5},
		"never a whole answer":  {[]int{0, 0, 0, 0, 0}, "repeat the command with --key k1", 5},
		"accepted a day before": {[]int{202}, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			sent := 0
			p := importPeer(t, func(r request) reply {
				mu.Lock()
				defer mu.Unlock()
				status := tt.replies[sent]
				if sent++; status == 0 {
					panic(http.ErrAbortHandler)
				}
				if r.header.Get("Idempotency-Key") != "k1" || r.body != "name\nAda\n" {
					t.Errorf("attempt %d: %q with key %q", sent, r.body, r.header.Get("Idempotency-Key"))
				}
				if status == 202 {
					return reply{202, importAccepted, map[string]string{"Idempotency-Replayed": "true"}}
				}
				return reply{status: status, body: `{"code":"Conflict","message":"taken","target":"","detail":[]}`}
			})
			_, stderr, err := importing(t, t.Context(), p, false, outputTable, "import", "-", "--format", "csv", "--no-wait", "--key", "k1")
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(describe(err), tt.says) {
				t.Errorf("error %v", err)
			}
			if err == nil && !strings.Contains(stderr, "does not import it again") {
				t.Errorf("stderr %q", stderr)
			}
			nonces := map[string]bool{}
			for _, r := range p.requests() {
				nonces[r.header.Get("X-Cloud-Nonce")] = true
			}
			mu.Lock()
			defer mu.Unlock()
			if sent != tt.sent || len(nonces) != sent {
				t.Errorf("sent %d times with %d nonces, want %d", sent, len(nonces), tt.sent)
			}
		})
	}
}

func TestLeadsImportInterrupted(t *testing.T) {
	t.Parallel()
	t.Run("while it is sent", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		p := importPeer(t, func(request) reply {
			cancel()
			<-gone
			return reply{status: 202, body: importAccepted}
		}, importEnded)
		_, _, err := importing(t, ctx, p, false, outputTable, "import", "-", "--format", "csv", "--key", "k1")
		close(gone)
		if err == nil || !strings.HasPrefix(err.Error(), "interrupted; ") || !strings.Contains(err.Error(), "--key k1") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("while it is watched", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		p := newPeer(t, map[string]func(request) reply{
			"POST /v1/leads/imports": always(202, importAccepted),
			"GET /v1/leads/imports/imp_1": func(request) reply {
				cancel()
				return reply{status: 200, body: importRunning}
			},
		})
		_, stderr, err := importing(t, ctx, p, true, outputTable, "import", "-", "--format", "csv")
		if err == nil || !strings.Contains(err.Error(), "interrupted; the import goes on: `waypost leads imports show imp_1 --watch`") || !strings.Contains(err.Error(), "`waypost leads imports cancel imp_1`") {
			t.Errorf("error %v", err)
		}
		if !strings.HasSuffix(stderr, "\n") {
			t.Errorf("the bar's line is not left: %q", stderr)
		}
	})
	t.Run("resumed and canceled", func(t *testing.T) {
		t.Parallel()
		p := importPeer(t, nil, importRunning, strings.ReplaceAll(importEnded, `"failed":1`, `"failed":12`))
		stdout, stderr, err := importing(t, t.Context(), p, false, outputTable, "imports", "show", "imp_1", "-w")
		if err == nil || err.Error() != "12 of 4 rows failed" || !strings.Contains(stderr, "These are 1 of 12 rows that failed; `waypost leads imports errors imp_1` shows all.") || !strings.Contains(stdout, "name: is missing") {
			t.Errorf("%v, stderr %q, stdout %q", err, stderr, stdout)
		}
		for args, says := range map[string]string{
			"imports show imp_1": "status     succeeded\n", "imports cancel imp_1": "status  canceled\n",
			"imports errors imp_1": "LINE  CODE        SAID\n3     BadRequest  name: is missing; gender: must be 0, 1 or 2\n", "-o json imports errors imp_1": importFailures,
		} {
			words := strings.Fields(args)
			if words[0] == "-o" {
				words = append(words[2:], words[:2]...)
			}
			runCLI(t, p.environ(), "", append([]string{"leads"}, words...)...).want(t, 0, []string{says}, nil)
		}
	})
}

func TestLeadsImportFile(t *testing.T) {
	t.Parallel()
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		path := file(t, "leads.csv", "")
		if err := os.Truncate(path, waypost.MaxImportBody+1); err != nil {
			t.Fatal(err)
		}
		p := newPeer(t, nil)
		runCLI(t, p.environ(), "", "leads", "import", path).want(t, 1, nil, []string{"is larger than 64 MiB", "split it"})
		if len(p.requests()) > 0 {
			t.Error("it was sent")
		}
	})
	t.Run("changes while it is sent", func(t *testing.T) {
		t.Parallel()
		path := file(t, "leads.csv", "name\nAda\n")
		p := newPeer(t, map[string]func(request) reply{"POST /v1/leads/imports": func(request) reply {
			if err := os.WriteFile(path, []byte("name\nEve\n"), 0o600); err != nil {
				t.Error(err)
			}
			return reply{status: 401, body: `{"code":"Unauthorized","message":"no","target":"","detail":[]}`}
		}})
		runCLI(t, p.environ(), "", "leads", "import", path).want(t, 1, nil, []string{path + " changed while it was being sent"})
	})
}

func TestProgressUnits(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 64 << 20: "64.0 MiB"} {
		if got := sizeOf(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	p := progress{}
	var seen []string
	for range barWidth {
		seen = append(seen, p.bar(unknown))
	}
	if seen[0] != "███"+strings.Repeat("░", 17) || seen[17] != strings.Repeat("░", 17)+"███" || seen[18] != seen[0] {
		t.Errorf("%s", fmt.Sprint(seen))
	}
}

// A row's error says which field is wrong and how, once.
func TestFailedRowSays(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"message":"name: is missing","detail":[{"code":"NullValue","target":"name","message":"is missing"}]}`:                                               "name: is missing",
		`{"message":"there is such a lead already","detail":[{"code":"Duplicate","target":"mobilePhone[0]","message":"lead 15 has it already"}]}`:             "mobilePhone[0]: lead 15 has it already",
		`{"message":"2 fields are faulty; see detail","detail":[{"target":"name","message":"is missing"},{"target":"gender","message":"must be 0, 1 or 2"}]}`: "name: is missing; gender: must be 0, 1 or 2",
		`{"message":"there is no lead 7"}`: "there is no lead 7",
	} {
		m, err := failedRow([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if said := failedColumns[2].value(m); said != want {
			t.Errorf("%s: said %q, want %q", line, said, want)
		}
	}
}
