package embedded_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/searchsvc"
	"waypost/searchsvc/embedded"
	"waypost/searchsvc/searchtest"
)

// childDir tells this program that it is the process that TestKill kills.
const childDir = "WAYPOST_TEST_EMBEDDED_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := importForever(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func open(t *testing.T) searchsvc.Index {
	t.Helper()
	return openIn(t, t.TempDir())
}

func openIn(t *testing.T, dir string) *embedded.Index {
	t.Helper()
	x, err := embedded.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return x
}

func TestSearch(t *testing.T) {
	t.Parallel()
	searchtest.Search(t, open)
}

func TestGenerations(t *testing.T) {
	t.Parallel()
	searchtest.Generations(t, open)
}

func document(number int, name, content string) searchsvc.Document {
	return searchsvc.Document{Key: strconv.Itoa(number), Stage: waypost.StageRelease, Article: waypost.Article{
		ID: "a" + strconv.Itoa(number), TenantID: "t1", Name: name, Identifier: "i", Content: content, Published: true,
		PublishedAt: time.UnixMilli(1_700_000_000_000).UTC(),
	}}
}

func query(keyword string) searchsvc.Query {
	return searchsvc.Query{
		Stage: waypost.StageRelease, TenantID: "t1", From: waypost.FromFrontend,
		Keyword: searchsvc.ParseKeyword(keyword), Level: waypost.MaxAccessLevel, Page: 1, PerPage: searchsvc.MaxPerPage,
	}
}

// keys are those of the documents that a keyword finds, in order.
func keys(t *testing.T, x *embedded.Index, keyword string) []string {
	t.Helper()
	found, err := x.Search(t.Context(), query(keyword))
	if err != nil {
		t.Fatalf("%.20q: %v", keyword, err)
	}
	out := []string{}
	for _, m := range found.Matches {
		out = append(out, m.Key)
	}
	if found.Total != len(out) {
		t.Errorf("%.20q: total %d, %d matches", keyword, found.Total, len(out))
	}
	return out
}

// What the rules of the suite leave open, and where terms are cut.
func TestTerms(t *testing.T) {
	t.Parallel()
	x := openIn(t, t.TempDir())
	long := strings.Repeat("é", 512)
	searchtest.Fill(t, x, "terms", []searchsvc.Document{
		document(1, long, "哈哈哈 A-1 abcd"),
		document(2, long+"é", "哈哈 哈 ab"),
		document(3, long+strings.Repeat("é", 5000)+"x", "哈哈哈哈 abc"),
		document(9, "名前", "结尾"),
		document(10, "末", "尾结 abcde"),
		document(100, "前名", "abcdef"),
		{Key: "zz", Stage: waypost.StageRelease, Article: waypost.Article{
			ID: "zz", TenantID: "t1", Name: "前 1969", Content: "abx", PublishedAt: time.UnixMilli(-5).UTC(), Published: true}},
	})
	for keyword, want := range map[string][]string{
		long + " a":                    {"1"}, // a whole word
		long:                           {"3", "2", "1"},
		"哈哈":                           {"3", "2", "1"},
		"哈哈哈":                          {"3", "1"},
		"哈哈哈哈":                         {"3"},
		"哈哈哈哈哈":                        {},
		"名前":                           {"9"},
		"前":                            {"100", "9", "zz"}, // the larger number first, as numbers; 1969 last
		"前结":                           {},                 // not across name and content
		"末尾":                           {},
		"a":                            {"100", "10", "3", "2", "1", "zz"},
		"ab":                           {"100", "10", "3", "2", "1", "zz"}, // equal times: by number, whatever its length
		"abc":                          {"100", "10", "3", "1"},
		"abcd":                         {"100", "10", "1"},
		"abcde":                        {"100", "10"},
		"abc 哈":                        {"3", "1"},
		"ab 1":                         {}, // only the last word may be a beginning
		"ABCDEF 前":                     {"100"},
		"\x00a":                        {"100", "10", "3", "2", "1", "zz"},
		"t1 release frontend":          {},
		strings.Repeat("前 ", 40) + "名": {"100", "9"}, // equal parts count once
	} {
		if got := keys(t, x, keyword); !slices.Equal(got, want) {
			t.Errorf("%.20q finds %q, want %q", keyword, got, want)
		}
	}
}

func TestImportFaults(t *testing.T) {
	t.Parallel()
	x := openIn(t, t.TempDir())
	if err := x.Create(t.Context(), "g"); err != nil {
		t.Fatal(err)
	}
	docs := []searchsvc.Document{document(1, "旧的", ""), document(2, "好的", ""), document(3, "坏的", ""), document(4, "坏的", ""), document(1, "新的", "")}
	docs[2].Key = ""
	docs[3].Key = strings.Repeat("k", 101)
	faults, err := x.Import(t.Context(), "g", docs)
	if err != nil || len(faults) != len(docs) {
		t.Fatalf("%v, %v", faults, err)
	}
	for i, fault := range faults {
		if bad := i == 2 || i == 3; (fault != nil) != bad {
			t.Errorf("document %d: %v", i, fault)
		}
	}
	if err := x.SetLive(t.Context(), "g"); err != nil {
		t.Fatal(err)
	}
	for keyword, want := range map[string][]string{"旧": {}, "新": {"1"}, "好": {"2"}, "坏": {}} {
		if got := keys(t, x, keyword); !slices.Equal(got, want) {
			t.Errorf("%q finds %q, want %q", keyword, got, want)
		}
	}
	for _, name := range []string{"", ".", "..", "../x", "a/b", "a b", strings.Repeat("x", 101), "g"} {
		if err := x.Create(t.Context(), name); err == nil {
			t.Errorf("made the generation %q", name)
		}
	}
}

// Nobody waits: nothing is done.
func TestCancelled(t *testing.T) {
	t.Parallel()
	x := openIn(t, t.TempDir())
	searchtest.Fill(t, x, "g", []searchsvc.Document{document(1, "一", "")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, page := range []int{1, 1 << 30} {
		q := query("一")
		q.Page = page
		if _, err := x.Search(ctx, q); !errors.Is(err, context.Canceled) || waypost.CodeOf(err) == waypost.CodeServiceUnavailable {
			t.Errorf("page %d: %v", page, err)
		}
	}
	late, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	if _, err := x.Search(late, query("一")); waypost.CodeOf(err) != waypost.CodeServiceUnavailable || strings.Contains(err.Error(), "一") {
		t.Errorf("too late: %v", err)
	}
	if _, err := x.Import(ctx, "g", []searchsvc.Document{document(2, "一", "")}); !errors.Is(err, context.Canceled) {
		t.Errorf("import: %v", err)
	}
	if err := x.Delete(ctx, "g", []string{"1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("delete: %v", err)
	}
	if got := keys(t, x, "一"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("found %q", got)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	x := openIn(t, t.TempDir())
	searchtest.Fill(t, x, "g", []searchsvc.Document{document(1, "一", "")})
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	_, search := x.Search(t.Context(), query("一"))
	_, live := x.Live(t.Context())
	_, put := x.Import(t.Context(), "g", nil)
	for i, err := range []error{
		search, live, put, x.Create(t.Context(), "h"), x.Delete(t.Context(), "g", []string{"1"}),
		x.SetLive(t.Context(), "g"), x.Prune(t.Context(), "g"),
	} {
		if waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

func TestOpenFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.Open(filepath.Join(file, "search")); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("in a file: %v", err)
	}
	first := openIn(t, filepath.Join(dir, "search"))
	if _, err := embedded.Open(filepath.Join(dir, "search")); err == nil || !strings.Contains(err.Error(), "another process uses it ("+strconv.Itoa(os.Getpid())) {
		t.Errorf("twice: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := openIn(t, filepath.Join(dir, "search"))
	if first.Engine() != second.Engine() || !strings.HasPrefix(first.Engine(), "embedded/") {
		t.Errorf("engines %q and %q", first.Engine(), second.Engine())
	}
}

// Whatever happened to the files: a generation is whole or it is gone.
func TestDamage(t *testing.T) {
	t.Parallel()
	made := t.TempDir()
	x := openIn(t, made)
	searchtest.Fill(t, x, "live", []searchsvc.Document{document(1, "一", "二三四"), document(2, "二", "hello")})
	searchtest.Fill(t, x, "other", []searchsvc.Document{document(3, "三", "")})
	if faults, err := x.Import(t.Context(), "live", []searchsvc.Document{document(4, "一", "五")}); err != nil || faults[0] != nil {
		t.Fatal(faults, err)
	}
	if err := errors.Join(x.SetLive(t.Context(), "live"), x.Close()); err != nil {
		t.Fatal(err)
	}
	alter := func(pattern string, change func(name string, data []byte) error) func(dir string) error {
		return func(dir string) error {
			files, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil || len(files) == 0 {
				return fmt.Errorf("no %s: %w", pattern, err)
			}
			for _, name := range files {
				data, err := os.ReadFile(name)
				if err != nil {
					return err
				}
				if err := change(name, data); err != nil {
					return err
				}
			}
			return nil
		}
	}
	const segments, bolt = "generations/live/*.zap", "generations/live/root.bolt"
	write := func(name string, data []byte) error { return os.WriteFile(name, data, 0o600) }
	for _, test := range []struct {
		name   string
		damage func(dir string) error
		live   string
		engine bool // is it the same
	}{
		{"none", func(string) error { return nil }, "live", true},
		{"a bit in a segment", alter(segments, func(name string, data []byte) error {
			data[len(data)/3] ^= 4
			return write(name, data)
		}), "", true},
		{"a short segment", alter(segments, func(name string, data []byte) error { return write(name, data[:len(data)/2]) }), "", true},
		{"an empty segment", alter(segments, func(name string, _ []byte) error { return write(name, nil) }), "", true},
		{"a missing segment", alter(segments, func(name string, _ []byte) error { return os.Remove(name) }), "", true},
		{"an empty bolt", alter(bolt, func(name string, _ []byte) error { return write(name, nil) }), "", true},
		{"a short bolt", alter(bolt, func(name string, data []byte) error { return write(name, data[:3*os.Getpagesize()]) }), "", true},
		{"a wild bolt", alter(bolt, func(name string, data []byte) error {
			for i := range data {
				data[i] ^= byte(i)
			}
			return write(name, data)
		}), "", true},
		{"a missing bolt", alter(bolt, func(name string, _ []byte) error { return os.Remove(name) }), "", true},
		{"a missing generation", func(dir string) error { return os.RemoveAll(filepath.Join(dir, "generations/live")) }, "", true},
		{"another one in its place", func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "generations/live")),
				os.Rename(filepath.Join(dir, "generations/other"), filepath.Join(dir, "generations/live")))
		}, "", true},
		{"a stray file", func(dir string) error { return write(filepath.Join(dir, "generations/stray"), nil) }, "live", true},
		{"a broken state", alter("state.json", func(name string, data []byte) error { return write(name, data[:len(data)/2]) }), "", false},
		{"no state", alter("state.json", func(name string, _ []byte) error { return os.Remove(name) }), "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := errors.Join(os.CopyFS(dir, os.DirFS(made)), test.damage(dir)); err != nil {
				t.Fatal(err)
			}
			y := openIn(t, dir)
			if live, err := y.Live(t.Context()); err != nil || live != test.live {
				t.Fatalf("live is %q, %v; want %q", live, err, test.live)
			}
			if same := y.Engine() == x.Engine(); same != test.engine {
				t.Errorf("the same engine: %v", same)
			}
			if test.live != "" {
				if got := keys(t, y, "一"); !slices.Equal(got, []string{"4", "1"}) {
					t.Errorf("found %q", got)
				}
				return
			}
			if _, err := y.Search(t.Context(), query("一")); waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
				t.Errorf("search: %v", err)
			}
			searchtest.Fill(t, y, "new", []searchsvc.Document{document(1, "一", "")})
			if got := keys(t, y, "一"); !slices.Equal(got, []string{"1"}) {
				t.Errorf("found %q", got)
			}
		})
	}
}

// A disk that cannot be written fails the import, not the process, and heals.
func TestDiskAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x := openIn(t, dir)
	searchtest.Fill(t, x, "g", []searchsvc.Document{document(1, "一", "")})
	home, away := filepath.Join(dir, "generations", "g"), filepath.Join(dir, "away")
	if err := os.Rename(home, away); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Import(t.Context(), "g", []searchsvc.Document{document(2, "一", "")}); waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
		t.Errorf("import: %v", err)
	}
	if err := os.Rename(away, home); err != nil {
		t.Fatal(err)
	}
	if faults, err := x.Import(t.Context(), "g", []searchsvc.Document{document(2, "一", ""), document(3, "一", "")}); err != nil || faults[0] != nil {
		t.Fatal(faults, err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if got := keys(t, openIn(t, dir), "一"); !slices.Equal(got, []string{"3", "2", "1"}) {
		t.Errorf("found %q", got)
	}
}

const childPart = 20

// importForever adds parts of documents, beginning where it was stopped, and tells
// of each that is stored.
func importForever(dir string) error {
	x, err := embedded.Open(dir)
	if err != nil {
		return err
	}
	ctx := context.Background()
	live, err := x.Live(ctx)
	if err != nil {
		return err
	}
	if live == "" {
		if err := errors.Join(x.Create(ctx, "g"), x.SetLive(ctx, "g")); err != nil {
			return err
		}
	}
	found, err := x.Search(ctx, query("每篇"))
	if err != nil {
		return err
	}
	for number := found.Total; ; {
		docs := make([]searchsvc.Document, childPart)
		for i := range docs {
			number++
			docs[i] = document(number, "每篇", "文章"+strconv.Itoa(number))
		}
		faults, err := x.Import(ctx, "g", docs)
		if err := errors.Join(err, errors.Join(faults...)); err != nil {
			return err
		}
		fmt.Println(number)
	}
}

// What an import has returned for survives kill -9, and parts of a batch are never
// there alone.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "search")
	for round, acknowledged := 0, 0; round < 3; round++ {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), childDir+"="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 6 + round {
			if !lines.Scan() {
				t.Fatal("the child ended by itself")
			}
		}
		if _, err := embedded.Open(dir); err == nil || !strings.Contains(err.Error(), "another process uses it ("+strconv.Itoa(child.Process.Pid)) {
			t.Errorf("beside the child: %v", err)
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		// It may have gone on until then.
		for last := lines.Text(); ; last = lines.Text() {
			if acknowledged, err = strconv.Atoi(last); err != nil {
				t.Fatal(err)
			}
			if !lines.Scan() {
				break
			}
		}
		if err := child.Wait(); err == nil {
			t.Error("the child was not killed")
		}
		x, err := embedded.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		found, err := x.Search(t.Context(), query("每篇"))
		if err != nil {
			t.Fatal(err)
		}
		if found.Total < acknowledged || found.Total%childPart != 0 {
			t.Errorf("%d articles are there, %d were acknowledged", found.Total, acknowledged)
		}
		for number := 1; number <= acknowledged; number += 7 {
			if found, err := x.Search(t.Context(), query("文章 "+strconv.Itoa(number))); err != nil || found.Total == 0 {
				t.Errorf("article %d: %d, %v", number, found.Total, err)
			}
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
