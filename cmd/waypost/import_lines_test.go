package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// importingPeer is a gateway that refuses every line that says so.
func importingPeer(t *testing.T, answer func(try int, r request) *reply) *peer {
	t.Helper()
	tries := 0
	return newPeer(t, map[string]func(request) reply{"POST /v1/articles/import": func(r request) reply {
		tries++
		if answer != nil {
			if a := answer(tries, r); a != nil {
				return *a
			}
		}
		return importedLines(r.body, `"created":%d,"updated":0`)
	}})
}

// importedLines refuses every line that says so; counted is what the answer has of the others.
func importedLines(body, counted string) reply {
	total, failures := 0, []string{}
	for line := range strings.Lines(body) {
		total++
		if strings.Contains(line, "bad") {
			failures = append(failures, fmt.Sprintf(`{"line":%d,"code":"BadRequest","message":"name: is missing","target":"","detail":[]}`, total))
		}
	}
	counted = fmt.Sprintf(counted, total-len(failures))
	return reply{status: 200, body: fmt.Sprintf(`{"total":%d,%s,"failed":%d,"errors":[%s]}`, total, counted, len(failures), strings.Join(failures, ","))}
}

func TestArticlesImport(t *testing.T) {
	t.Parallel()
	// Of 2,500 lines, three parts are made; blank ones count, and are not sent.
	text := "\ufeff" + `{"id":"bad"}` + "\r\n\n" + strings.Repeat("{}\n", 1498) + `{"id":"bad"}` + "\n" + strings.Repeat("{}\n", 1000) + `  {"id":"bad"}`
	t.Run("parts", func(t *testing.T) {
		t.Parallel()
		p := importingPeer(t, func(try int, _ request) *reply {
			switch try {
			case 2:
				return &reply{503, `{"code":"ServiceUnavailable","message":"away","target":"","detail":[]}`, map[string]string{"Retry-After": "0"}}
			case 3:
				return &reply{status: 409, body: `{"code":"Conflict","message":"still running","target":"","detail":[]}`}
			case 5:
				return &reply{status: 429, body: `{"code":"TooManyRequests","message":"slow down","target":"","detail":[]}`}
			}
			return nil
		})
		failed := filepath.Join(t.TempDir(), "failed.ndjson")
		c, stdout, stderr := watcher(p, true, outputTable)
		err := execute(t.Context(), c, "import", file(t, "articles.ndjson", text), "--errors", failed)
		if err == nil || err.Error() != "3 of 2501 lines failed" {
			t.Errorf("error %v", err)
		}
		want := "total    2501\ncreated  2498\nupdated  0\nfailed   3\n\nLINE  CODE        SAID\n1     BadRequest  name: is missing\n1501  BadRequest  name: is missing\n2502  BadRequest  name: is missing\n"
		if stdout.String() != want {
			t.Errorf("got\n%s\nwant\n%s", stdout, want)
		}
		if want := "\r\x1b[K████████████████████ 100 %  sent 7.4 KiB of 7.4 KiB, 2501 lines, 2498 created, 0 updated, 3 failed\n"; !strings.HasSuffix(stderr.String(), want) {
			t.Errorf("got %q, want %q", stderr, want)
		}
		lines, err := os.ReadFile(failed)
		if err != nil || !strings.HasPrefix(string(lines), `{"line":1,"code":"BadRequest",`) || strings.Count(string(lines), "\n") != 3 || !strings.Contains(string(lines), "\n{\"line\":2502,") {
			t.Errorf("%v, errors file\n%s", err, lines)
		}
		all := p.requests()
		if len(all) != 6 {
			t.Fatalf("%d requests", len(all))
		}
		var whole strings.Builder
		keys := []string{}
		for i, r := range all {
			if r.header.Get("Content-Type") != "application/x-ndjson" {
				t.Errorf("content type %s", r.header.Get("Content-Type"))
			}
			keys = append(keys, r.header.Get("Idempotency-Key"))
			if i == 0 || i == 3 || i == 5 {
				whole.WriteString(r.body)
			}
		}
		if keys[0] == "" || keys[0] == keys[1] || keys[1] != keys[2] || keys[1] != keys[3] || keys[3] == keys[4] || keys[4] != keys[5] {
			t.Errorf("keys %v", keys)
		}
		sent := strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n\n", "\n"), "  {", "{") + "\n"
		if got := strings.ReplaceAll(whole.String(), "  {", "{"); got != sent {
			t.Errorf("sent %d bytes, want %d", len(got), len(sent))
		}
	})
	t.Run("as JSON from standard input", func(t *testing.T) {
		t.Parallel()
		r := runCLI(t, importingPeer(t, nil).environ(), "{}\n\n{\"id\":\"bad\"}\n", "articles", "import", "-", "-o", "json")
		r.want(t, 1, nil, []string{"1 of 2 lines failed"})
		sameJSON(t, r.stdout, `{"total":2,"created":1,"updated":0,"failed":1,"errors":[{"line":3,"code":"BadRequest","message":"name: is missing","target":"","detail":[]}]}`)
		r = runCLI(t, importingPeer(t, nil).environ(), strings.Repeat("{\"id\":\"bad\"}\n", 12), "articles", "import", "-")
		r.want(t, 1, []string{"\n10    BadRequest  name: is missing\n"}, []string{"These are 10 of 12 lines that failed; --errors FILE writes all to a file."})
	})
	t.Run("it ends early", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		for _, tt := range []struct {
			part int
			says string
			end  func() reply
		}{
			{1, "BadRequest: no; importing NAME again is harmless, should the gateway have got some of it", func() reply {
				return reply{status: 400, body: `{"code":"BadRequest","message":"no","target":"","detail":[]}`}
			}},
			{2, "ServiceUnavailable: away; of NAME, the lines up to 1001 are imported (999 created, 0 updated, 1 failed), and perhaps some behind them; importing it again is harmless", func() reply {
				return reply{status: 503, body: `{"code":"ServiceUnavailable","message":"away","target":"","detail":[]}`}
			}},
			{2, "the gateway's answer is no import: []; of NAME", func() reply { return reply{status: 200, body: "[]"} }},
			{2, "the gateway's answer is no import: it has no updated; of NAME", func() reply { return reply{status: 200, body: `{"total":1,"created":1,"failed":0,"errors":[]}`} }},
			{2, "interrupted; of NAME, the lines up to 1001 are imported", func() reply { cancel(); return reply{status: 503} }},
		} {
			name := file(t, "articles.ndjson", text)
			failed := name + ".failed"
			c, stdout, _ := watcher(importingPeer(t, func(try int, _ request) *reply {
				if try < tt.part {
					return nil
				}
				r := tt.end()
				return &r
			}), false, outputTable)
			err := execute(ctx, c, "import", name, "--errors", failed)
			if err == nil || !strings.Contains(describe(err), strings.ReplaceAll(tt.says, "NAME", name)) || stdout.String() != "" {
				t.Errorf("got %v, want %s", err, tt.says)
			}
			if lines, err := os.ReadFile(failed); err != nil || strings.Count(string(lines), "\n") != tt.part-1 {
				t.Errorf("%v, errors file\n%s", err, lines)
			}
		}
	})
}

// A file is cut into parts by lines and by bytes, and a line that no gateway takes is
// not even kept.
func TestLineParts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", articleLines.maxLine)
	rows := lineParts{in: bufio.NewReader(strings.NewReader("a\n" + long + "\n" + long + "y\n\n" + long + "\r\nb")), maxLine: len(long)}
	var got []string
	for last := false; !last; {
		p, err := rows.part()
		if err != nil {
			t.Fatal(err)
		}
		if len(p.body) > maxPartSize {
			t.Errorf("a part of %d bytes", len(p.body))
		}
		got = append(got, fmt.Sprint(p.lines, p.tooLong, p.size, p.end))
		last = p.last
	}
	want := []string{
		fmt.Sprint([]int{1, 2}, []int{}, len(long)+3, 2), fmt.Sprint([]int{5}, []int{3}, 2*len(long)+5, 5), fmt.Sprint([]int{6}, []int{}, 1, 6),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	p := importingPeer(t, nil)
	c, stdout, _ := watcher(p, false, outputTable)
	c.stdin = strings.NewReader("{}\n" + long + "y")
	if err := execute(t.Context(), c, "import", "-"); err == nil || !strings.Contains(stdout.String(), "failed   1\n\nLINE  CODE        SAID\n2     BadRequest  the line is longer than 8388608 bytes\n") {
		t.Errorf("%v, %s", err, stdout)
	}
}
