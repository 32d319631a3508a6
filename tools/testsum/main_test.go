package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module writes a small module with one test file.
func module(t *testing.T, test string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module sample\n\ngo 1.26\n",
		"a_test.go": "package sample\n\nimport \"testing\"\n\n" + test,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRun(t *testing.T) {
	t.Parallel()
	const pass = "func TestA(t *testing.T) { t.Run(\"sub\", func(t *testing.T) {}) }\n"
	const skip = "func TestB(t *testing.T) { t.Skip(\"no server\") }\n"
	for _, tt := range []struct {
		name, test string
		require    bool
		code       int
		want       []string
	}{
		{"all pass", pass, true, 0, []string{"pass sample  2 tests", "tests: 2 passed, 0 failed, 0 skipped"}},
		{"a skip is told", pass + skip, false, 0, []string{"skipped: sample TestB: a_test.go", "no server", "2 passed, 0 failed, 1 skipped"}},
		{"a skip is refused", pass + skip, true, 1, []string{"allows no skipped test"}},
		{"a failure is shown", pass + "func TestC(t *testing.T) { t.Error(\"seven\") }\n", false, 1, []string{"seven", "2 passed, 1 failed"}},
		{"a panic is shown", pass + "func TestC(t *testing.T) { panic(\"eight\") }\n", false, 1, []string{"eight"}},
		{"what does not build fails", "func TestA(t *testing.T) { undefined() }\n", false, 1, []string{"undefined: undefined", "fail sample"}},
		{"no test at all", "var _ testing.T\n", false, 1, []string{"tests: 0 passed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			code := run([]string{module(t, tt.test), "./..."}, tt.require, &out, &out)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in:\n%s", want, out.String())
				}
			}
		})
	}
}

func TestRunSeveralModules(t *testing.T) {
	t.Parallel()
	good, bad := module(t, "func TestA(t *testing.T) {}\n"), module(t, "func TestB(t *testing.T) { t.Fail() }\n")
	var out strings.Builder
	if code := run([]string{bad, "./...", "--", good, "-count=1", "./..."}, false, &out, &out); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if !strings.Contains(out.String(), "tests: 1 passed, 1 failed, 0 skipped") {
		t.Errorf("got:\n%s", out.String())
	}
}
