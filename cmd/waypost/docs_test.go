package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// pageOf reads a page of the documentation.
func pageOf(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocksOf returns the blocks of code of a language in a page.
func blocksOf(t *testing.T, text, language string) []string {
	t.Helper()
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("the page has no block of %s", language)
	}
	return blocks
}

// What the pages and the command's own examples say to type is understood.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	check := func(where, text string) (found int) {
		for _, line := range strings.Split(strings.ReplaceAll(text, "\\\n", ""), "\n") {
			line, _, _ = strings.Cut(line, " # ")
			if before, file, found := strings.Cut(line, " > "); found && !strings.Contains(file, "'") { // not in a condition
				line = before
			}
			line = strings.TrimSuffix(strings.TrimSpace(line), "&")
			if i := max(strings.LastIndex(line, "| waypost "), strings.LastIndex(line, "&& bin/waypost ")); i >= 0 {
				line = line[strings.Index(line[i:], "waypost")+i:]
			}
			args, ok := strings.CutPrefix(strings.TrimPrefix(strings.TrimSpace(line), "bin/"), "waypost ")
			if !ok {
				continue
			}
			found++
			words, err := shellWords(args)
			if err != nil {
				t.Errorf("%s: %s: %v", where, line, err)
				continue
			}
			cmd, rest, err := (&cli{}).root().Find(words)
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err != nil || !cmd.Runnable() || cmd.HasSubCommands() {
				t.Errorf("%s: %s: not a command: %v", where, line, err)
			}
		}
		return found
	}
	for name, least := range map[string]int{"README.md": 10, "docs/launches.md": 8, "docs/leads.md": 19, "docs/articles.md": 9, "docs/journeys.md": 7, "docs/operations.md": 7, "docs/receivers.md": 4, "docs/subscriptions.md": 6, "docs/consent.md": 10, "docs/segments.md": 8, "docs/settings.md": 1, "examples/README.md": 8} {
		if n := check(name, pageOf(t, name)); n < least {
			t.Errorf("found %d commands in %s", n, name)
		}
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		check(cmd.CommandPath(), cmd.Example)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&cli{}).root())
}

// shellWords splits a line at blanks that are not quoted.
func shellWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	started := false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, started = r, true
		case quote == 0 && r == ' ':
			if started {
				words = append(words, word.String())
				word.Reset()
				started = false
			}
		default:
			word.WriteRune(r)
			started = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if started {
		words = append(words, word.String())
	}
	return words, nil
}

// The examples of docs/launches.md work as they stand there, against a gateway, one
// after the other. What they leave open, ids and a lead, is filled in; a command
// that watches what nobody carries out is left out.
func TestLaunchesPage(t *testing.T) {
	t.Parallel()
	needTools(t, "sh", "curl", "openssl")
	client := newClientOf(t)
	// run runs a command that must succeed, and returns its answer.
	run := func(stdin string, args ...string) members {
		t.Helper()
		r := runCLI(t, client, stdin, append([]string{"-o", "json"}, args...)...)
		r.want(t, 0, nil, nil)
		var m members
		if err := json.Unmarshal([]byte(r.stdout), &m); err != nil {
			t.Fatalf("%v in %s%s", err, r.stdout, r.stderr)
		}
		return m
	}
	text := pageOf(t, "docs", "launches.md")
	webhook := run("", "webhooks", "create", "--name", "w", "--url", "http://127.0.0.1:1/hook").text("id")
	ids := map[string]string{"1001": run("name: Ada\nleadsGroup: 3\n", "leads", "create", "-f", "-").text("leadsId")}
	definition := strings.ReplaceAll(blocksOf(t, text, "yaml")[0], "whk_1", webhook)
	ids["jrn_…"] = run(definition, "journeys", "apply", "-f", "-", "--publish").text("journeyId")
	offer := strings.ReplaceAll(blocksOf(t, text, "yaml")[1], "whk_1", webhook)
	ids["jrn_2…"] = run(offer, "journeys", "apply", "-f", "-", "--publish").text("journeyId")
	var last members
	note := func(m members) {
		if last = m; m.text("launchId") != "" {
			ids["lch_…"] = m.text("launchId")
		}
	}
	var launch, event, imported members
	for _, line := range strings.Split(strings.Join(blocksOf(t, text, "sh"), ""), "\n") {
		if line == "" || strings.Contains(line, "--watch") {
			continue
		}
		if strings.Contains(line, "enr_…") && ids["enr_…"] == "" || strings.Contains(line, "enrollments cancel") {
			ids["enr_…"] = run("", "journeys", "start", ids["jrn_…"], "--lead", ids["1001"], "--entry-key", line).text("enrollmentId")
		}
		for open, id := range ids {
			line = strings.ReplaceAll(line, open, id)
		}
		if command, isCLI := strings.CutPrefix(line, "waypost "); isCLI {
			words, err := shellWords(command)
			if err != nil {
				t.Fatal(err)
			}
			note(run("", words...))
		} else if input, command, isPipe := strings.Cut(line, " | waypost "); isPipe {
			stdin, err := exec.CommandContext(t.Context(), "sh", "-euc", input).Output()
			if err != nil {
				t.Fatalf("%s: %v", input, err)
			}
			note(run(string(stdin), strings.Fields(command)...))
		} else {
			cmd := exec.CommandContext(t.Context(), "sh", "-euc", ". "+clientsDir+"waypost.sh\n"+line)
			cmd.Env = append(slices.Clone(client), "PATH="+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			var m members
			if err == nil {
				err = json.Unmarshal(out, &m)
			}
			if err != nil || m.text("code") != "" {
				t.Fatalf("%s: %v, answer %s", line, err, out)
			}
			note(m)
		}
		switch {
		case last.text("outcomes") != "":
			launch = last
		case last.text("duplicate") != "":
			event = last
		case last.text("duplicates") == "1":
			imported = last
		}
	}
	// The answers look as the page shows them.
	blocks := blocksOf(t, text, "json")
	for i, got := range []members{launch, event, imported} {
		var shown members
		if err := json.Unmarshal([]byte(blocks[i]), &shown); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(shown.names()) != fmt.Sprint(got.names()) {
			t.Errorf("the page shows %v, the answer has %v", shown.names(), got.names())
		}
	}
	if event.text("duplicate") != "true" {
		t.Error("the page's second report of the event is no duplicate")
	}
}

func (m members) names() []string {
	var names []string
	for _, x := range m {
		names = append(names, x.name)
	}
	return names
}
