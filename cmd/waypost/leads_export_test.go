package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	twoLines = `{"leadsId":1,"name":"A\nb"}` + "\n" + `{"leadsId":2,"name":"B"}` + "\n"
	twoRows  = "leadsId,name\n1,\"A\"\"\n\"\n2,B\n"
)

func TestLeadsExport(t *testing.T) {
	t.Parallel()
	count := func(n string) map[string]string {
		return map[string]string{http.TrailerPrefix + "X-Waypost-Count": n}
	}
	for _, tt := range []struct {
		name, file string
		answer     reply
		says       string // "" if it succeeds
	}{
		{"NDJSON", "a.ndjson", reply{200, twoLines + `{"end":true,"count":2}` + "\n", nil}, ""},
		{"no leads", "a.jsonl", reply{200, `{"end":true,"count":0}`, nil}, ""},
		{"CSV", "a.csv", reply{200, twoRows, count("2")}, ""},
		{"CSV of no leads", "a.CSV", reply{200, "leadsId,name\n", count("0")}, ""},
		{"no end", "a.ndjson", reply{200, twoLines, nil}, "was cut off"},
		{"half a line", "a.ndjson", reply{200, twoLines + `{"end":tr`, nil}, "was cut off"},
		{"a lead too few", "a.ndjson", reply{200, twoLines + `{"end":true,"count":3}` + "\n", nil}, "was cut off"},
		{"not the last", "a.ndjson", reply{200, `{"end":true,"count":2}` + "\n" + twoLines, nil}, "was cut off"},
		{"nothing at all", "a.ndjson", reply{200, "", nil}, "was cut off"},
		{"CSV without a count", "a.csv", reply{200, twoRows, nil}, "was cut off"},
		{"CSV with a row too few", "a.csv", reply{200, "leadsId,name\n1,A\n", count("2")}, "was cut off"},
		{"CSV without a header", "a.csv", reply{200, "", count("0")}, "was cut off"},
		{"a broken connection", "a.ndjson", reply{200, twoLines, map[string]string{"Content-Length": "1000"}}, "was cut off"},
		{"refused", "a.csv", reply{400, `{"code":"BadRequest","message":"sort: no","target":"query","detail":[]}`, nil}, "BadRequest: sort: no"},
		{"something else", "a.csv", reply{204, "", nil}, "answered 204"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, map[string]func(request) reply{"GET /v1/leads/export": func(request) reply { return tt.answer }})
			dir := t.TempDir()
			path := filepath.Join(dir, tt.file)
			if err := os.WriteFile(path, []byte("before"), 0o644); err != nil {
				t.Fatal(err)
			}
			r := runCLI(t, p.environ(), "", "leads", "export", "--to", path, "--name", "A", "--sort", "-leadsId")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if tt.says == "" {
				r.want(t, 0, []string{"exported ", " leads to " + path}, nil)
				if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || string(text) != tt.answer.body {
					t.Errorf("mode %v, text %q, %v", info.Mode(), text, err)
				}
			} else if r.want(t, 1, nil, []string{tt.says}); string(text) != "before" {
				t.Errorf("the file holds %q", text)
			}
			if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
				t.Errorf("%d files are left, %v", len(files), err)
			}
			format := map[bool]string{true: "csv", false: "ndjson"}[strings.EqualFold(filepath.Ext(tt.file), ".csv")]
			if got := p.last(t).target; got != "/v1/leads/export?format="+format+"&name=A&sort=-leadsId" {
				t.Errorf("asked for %s", got)
			}
		})
	}
	t.Run("to standard output", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, map[string]func(request) reply{"GET /v1/leads/export": func(r request) reply {
			if strings.Contains(r.target, "csv") {
				return reply{200, twoRows, count("2")}
			}
			return reply{200, twoLines, nil}
		}})
		if r := runCLI(t, p.environ(), "", "leads", "export", "--format", "csv", "-o", "json"); r.code != 0 || r.stdout != twoRows || r.stderr != "" {
			t.Errorf("%+v", r)
		}
		runCLI(t, p.environ(), "", "leads", "export").want(t, 1, []string{twoLines}, []string{"the export is not complete"})
	})
	t.Run("to something that is no file, and as JSON", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, map[string]func(request) reply{"GET /v1/leads/export": func(request) reply { return reply{200, twoRows, count("2")} }})
		r := runCLI(t, p.environ(), "", "leads", "export", "--to", os.DevNull, "--format", "csv", "-o", "json")
		r.want(t, 0, nil, nil)
		sameJSON(t, r.stdout, `{"to":"`+os.DevNull+`","format":"csv","count":2}`)
		if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
			t.Fatalf("%s is a file now, %v", os.DevNull, err)
		}
	})
	t.Run("through a link", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, map[string]func(request) reply{"GET /v1/leads/export": func(request) reply { return reply{200, twoRows, count("2")} }})
		to := file(t, "real.csv", "")
		link := filepath.Join(t.TempDir(), "link.csv")
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
		runCLI(t, p.environ(), "", "leads", "export", "--to", link).want(t, 0, nil, nil)
		if text, err := os.ReadFile(to); err != nil || string(text) != twoRows {
			t.Errorf("%q, %v", text, err)
		}
	})
	t.Run("a bar", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, map[string]func(request) reply{"GET /v1/leads/export": func(request) reply { return reply{200, twoRows, count("2")} }})
		_, stderr, err := importing(t, t.Context(), p, true, outputTable, "export", "--format", "csv")
		if want := "\r\x1b[K████████████████████ 2 leads, 26 B\n"; err != nil || !strings.HasSuffix(stderr, want) {
			t.Errorf("%v, got %q, want %q", err, stderr, want)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		p := newPeer(t, map[string]func(request) reply{"GET /v1/leads/export": func(request) reply {
			cancel()
			<-gone
			return reply{200, twoRows, count("2")}
		}})
		to := filepath.Join(t.TempDir(), "a.csv")
		_, _, err := importing(t, ctx, p, true, outputTable, "export", "--to", to)
		close(gone)
		if err == nil || !strings.HasPrefix(err.Error(), "interrupted") {
			t.Errorf("error %v", err)
		}
		if files, err := os.ReadDir(filepath.Dir(to)); err != nil || len(files) > 0 {
			t.Errorf("%d files are left, %v", len(files), err)
		}
	})
}

// A gateway that says nothing any more is left.
func TestStreamStalls(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	p := newPeer(t, map[string]func(request) reply{"GET /v1/leads/export": func(request) reply {
		<-gone
		return reply{200, "", nil}
	}})
	cl, err := (&cli{environ: p.environ()}).client()
	if err != nil {
		t.Fatal(err)
	}
	_, err = cl.within(time.Nanosecond).stream(t.Context(), exportPath)
	close(gone)
	if err == nil || !strings.Contains(err.Error(), "nothing has come for 1ns") {
		t.Errorf("error %v", err)
	}
}

// Wherever an answer is cut in pieces, its leads are counted.
func TestTallies(t *testing.T) {
	t.Parallel()
	long := `{"leadsId":3,"remark":"` + strings.Repeat("x", 3*maxMarker) + `"}` + "\n"
	for text, rows := range map[string]func() tally{
		twoLines + long + `{"end":true,"count":3}` + "\n": func() tally { return &ndjsonTally{} },
		twoRows + "3,\"a,\n\"\"\n\"\"\"\r\n":              func() tally { return &csvTally{} },
	} {
		for size := 1; size <= len(text); size++ {
			r := rows()
			for from := 0; from < len(text); from += size {
				r.add([]byte(text[from:min(from+size, len(text))]))
			}
			if n, complete := r.end("3"); n != 3 || !complete || r.count() != 3 {
				t.Fatalf("in pieces of %d: %d leads, says %d, %t", size, r.count(), n, complete)
			}
		}
	}
}
