// Command testsum runs `go test -json` in one module after the other, shows a
// line for each package and what failed, and ends with the number of tests that
// passed, failed and were skipped. It fails if a test did, and, while
// WAYPOST_TEST_REQUIRE_SERVERS is 1, also if one was skipped.
//
//	testsum DIR [go test arguments] [-- DIR [go test arguments]]…
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	os.Exit(run(os.Args[1:], os.Getenv("WAYPOST_TEST_REQUIRE_SERVERS") == "1", os.Stdout, os.Stderr))
}

func run(args []string, require bool, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintln(stderr, "usage: testsum DIR [go test arguments] [-- DIR [go test arguments]]…")
		return 2
	}
	s := newSummary(stdout)
	failed := false
	for len(args) > 0 {
		group := args
		if i := slices.Index(args, "--"); i >= 0 {
			group, args = args[:i], args[i+1:]
		} else {
			args = nil
		}
		if err := s.test(group[0], group[1:], stderr); err != nil {
			fmt.Fprintf(stderr, "go test in %s: %v\n", group[0], err)
			failed = true
		}
	}
	for _, line := range s.skips {
		fmt.Fprintln(stdout, "skipped:", line)
	}
	fmt.Fprintf(stdout, "tests: %d passed, %d failed, %d skipped\n", s.passed, s.failed, len(s.skips))
	if require && len(s.skips) > 0 {
		fmt.Fprintln(stderr, "WAYPOST_TEST_REQUIRE_SERVERS=1 allows no skipped test")
		failed = true
	}
	if failed || s.failed > 0 || s.passed == 0 {
		return 1
	}
	return 0
}

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build output
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// summary counts tests, subtests included.
type summary struct {
	out            io.Writer
	passed, failed int
	skips          []string
	output         map[string][]string // by package, test
	tests          map[string]int      // by package: ended tests
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, output: map[string][]string{}, tests: map[string]int{}}
}

func (s *summary) test(dir string, args []string, stderr io.Writer) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = s.read(pipe)
	if err != nil {
		_ = cmd.Process.Kill()
	}
	return errors.Join(err, cmd.Wait())
}

func (s *summary) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
				s.add(e)
			} else {
				fmt.Fprint(s.out, line)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *summary) add(e event) {
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "output":
		s.output[key] = append(s.output[key], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.endPackage(e)
			return
		}
		s.tests[e.Package]++
		switch e.Action {
		case "pass":
			s.passed++
		case "fail":
			s.failed++
			return // its output is shown with the package's
		case "skip":
			s.skips = append(s.skips, e.Package+" "+e.Test+": "+reason(s.output[key]))
		}
		delete(s.output, key)
	}
}

func (s *summary) endPackage(e event) {
	if e.Action == "fail" {
		// What is left is of tests that failed, or were running when it ended.
		var keys []string
		for key := range s.output {
			if strings.HasPrefix(key, e.Package+"\x00") {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			fmt.Fprint(s.out, strings.Join(s.output[key], ""))
		}
		if s.tests[e.Package] == 0 {
			s.failed++ // it did not build or did not start
		}
	}
	if n := s.tests[e.Package]; n > 0 || e.Action == "fail" {
		fmt.Fprintf(s.out, "%-4s %s  %d tests, %.1fs\n", e.Action, e.Package, n, e.Elapsed)
	}
	for key := range s.output {
		if strings.HasPrefix(key, e.Package+"\x00") {
			delete(s.output, key)
		}
	}
}

// reason finds what t.Skip said.
func reason(output []string) string {
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			return line
		}
	}
	return "no reason given"
}
