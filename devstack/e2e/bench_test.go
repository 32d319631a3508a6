package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"waypost/devstack/harness"
	"waypost/store/storetest"
)

// serverRows tell what the servers cost in a case.
var serverRows = map[string]*regexp.Regexp{
	"PostgreSQL": regexp.MustCompile(`(?m)^ *launch +postgres +\d`),
	"Redis":      regexp.MustCompile(`(?m)^ *launch +redis +\d`),
}

// The bench runs in its smallest form, all but one of its cases (launch-fail20 is
// launch-fail10 with another number), and finds that its ledger
// agrees with the records.
func TestBench(t *testing.T) {
	harness.Besides(t)
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", filepath.Join(dir, "bench"), ".")
	build.Dir = "../../bench"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the bench: %v\n%s", err, out)
	}
	// The bench's waypost-dev is this test binary. Its standard input is a pipe
	// that ends with it.
	pipe := filepath.Join(dir, "stdin")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]string{"waypost-dev": harness.RunDev, "waypost": harness.RunRole} {
		script := fmt.Sprintf("#!/bin/sh\n%s=%s exec '%s' \"$@\" 0<>'%s'\n", harness.RunMain, mode, self, pipe)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, roles string
		servers     bool // PostgreSQL and Redis
		cases       []string
	}{
		{"all", "all", false, []string{
			"launch", "launch-fail10", "single", "latency", "latency-launch", "launch-down", "temporal-batch", "bare",
			"get", "create", "list", "bare-http", "import", "export", "index", "search", "sleeping",
		}},
		{"slow", "all", false, []string{"history", "growth"}},
		{"split", "split", false, []string{"launch", "single"}},
		{"servers", "serve", true, []string{"launch", "single", "sleeping"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			harness.Besides(t)
			own := t.TempDir()
			postgres, redis := "", ""
			if tt.servers {
				postgres, redis = storetest.PostgresURL(t), os.Getenv("WAYPOST_TEST_REDIS_URL")
			}
			var out, errOut bytes.Buffer
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "bench"), "--binaries", dir, "--dir", own, "--postgres", postgres, "--redis", redis, "--roles", tt.roles,
				"--cases", strings.Join(tt.cases, ","), "--repeat", "1", "--leads", "120", "--singles", "40", "--rate", "20", "--seconds", "1",
				"--refuse", "5", "--down", "1s", "--history", "100", "--sleeping", "100", "--sleep", "1s", "--rows", "100", "--articles", "50", "--retry", "1s",
				"--plot", filepath.Join(own, "growth.svg"))
			cmd.Stdout, cmd.Stderr = &out, &errOut
			cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, errOut.String())
			}
			t.Logf("%s%s", errOut.String(), out.String())
			for _, name := range tt.cases {
				want := name
				switch name {
				case "history":
					want = "single enrollment"
				case "growth":
					want = "touchpoints"
				}
				if !strings.Contains(out.String(), "\n  "+want+" ") {
					t.Errorf("no row tells of %s", name)
				}
			}
			if drawn, err := os.ReadFile(filepath.Join(own, "growth.svg")); slices.Contains(tt.cases, "growth") && (err != nil || bytes.Count(drawn, []byte("<path")) < 20) {
				t.Errorf("growth is not drawn: %d bytes, %v", len(drawn), err)
			}
			for server, row := range serverRows {
				if tt.servers && !row.Match(out.Bytes()) && (server != "Redis" || redis != "") {
					t.Errorf("no row tells what %s costs", server)
				}
			}
			if left, err := filepath.Glob(filepath.Join(own, "waypost-bench-*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
