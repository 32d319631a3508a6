package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
		if err != nil || string(out) != tt.answer {
			t.Errorf("%s: %v, answer %s", tt.call, err, out)
			continue
		}
		if got := p.last(t).body; got != tt.body {
			t.Errorf("%s: body %q", tt.call, got)
		}
	}
}
