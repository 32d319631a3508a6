package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The client in docs/signing.md works as it stands there.
func TestShellClient(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"sh", "curl", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "signing.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(text), "```sh\n")
	script, _, closed := strings.Cut(block, "```")
	if !ok || !closed {
		t.Fatal("docs/signing.md has no block of shell code")
	}
	p := newPeer(t, map[string]func(request) reply{
		"GET /v1/leads/7": always(200, `{"leadsId":7}`), "GET /v1/leads": always(200, `{"items":[]}`),
		"POST /v1/leads": always(201, `{"leadsId":8}`), "POST /v1/journeys/jrn_1/publish": always(201, `{"version":1}`),
	})
	for _, tt := range []struct{ call, answer, body string }{
		{"GET /v1/leads/7", `{"leadsId":7}`, ""},
		{"GET '/v1/leads?sort=-createdAt&a-b=2&a=1&a=0&flag&name=%E5%BC%A0&&email=a%40b.co&x[]=1'", `{"items":[]}`, ""},
		{`POST /v1/leads '{"businessParam":{"name":"张 O’Neill","remark":"a  b"}}'`, `{"leadsId":8}`, `{"businessParam":{"name":"张 O’Neill","remark":"a  b"}}`},
		{"POST /v1/journeys/jrn_1/publish", `{"version":1}`, ""},
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", script+"\nwaypost_call "+tt.call)
		cmd.Env = append(p.environ(), "PATH="+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != tt.answer+"\n" {
			t.Errorf("%s: %v, answer %s", tt.call, err, out)
			continue
		}
		if got := p.last(t).body; got != tt.body {
			t.Errorf("%s: body %q", tt.call, got)
		}
	}
}

// What the README and the command's own examples say to type is understood.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	check := func(where, text string) (found int) {
		for _, line := range strings.Split(strings.ReplaceAll(text, "\\\n", ""), "\n") {
			line, _, _ = strings.Cut(line, " # ")
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
	if n := check("README", string(text)); n < 10 {
		t.Errorf("found %d commands in the README", n)
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
