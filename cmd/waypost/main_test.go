package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"waypost"
	"waypost/config"
	"waypost/limits"
	"waypost/signature"
)

// A machine that stands still for a moment is no Redis that is away.
func init() { limits.CallTime = time.Minute }

const (
	testAccessKey = "AKTEST0000000000001"
	testSecretKey = "sk_test_0123456789abcdef"
)

// request is what a gateway got.
type request struct {
	method, target string
	header         http.Header
	body           string
}

// peer is a real HTTP server in a gateway's place. It answers 401 to what is not
// signed (docs/contract.md, "Signature"), and else what the test says for "METHOD path".
type peer struct {
	*httptest.Server
	mu   sync.Mutex
	seen []request
	// turn is whose answer is made: what the routes count is theirs, also after one that
	// says nothing.
	turn sync.Mutex
}

type reply struct {
	status int
	body   string
	header map[string]string
}

func newPeer(t *testing.T, routes map[string]func(request) reply) *peer {
	t.Helper()
	p := &peer{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if fault := unsigned(r, body); fault != "" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"code":"Unauthorized","message":"`+fault+`","target":"","detail":[]}`)
			return
		}
		got := request{r.Method, r.RequestURI, r.Header, string(body)}
		p.mu.Lock()
		p.seen = append(p.seen, got)
		p.mu.Unlock()
		path, _, _ := strings.Cut(r.RequestURI, "?")
		route, ok := routes[r.Method+" "+path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"code":"NotFound","message":"no such thing","target":"","detail":[]}`)
			return
		}
		answer := p.answer(route, got)
		for name, value := range answer.header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(answer.status)
		_, _ = io.WriteString(w, answer.body)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *peer) answer(route func(request) reply, r request) reply {
	p.turn.Lock()
	defer p.turn.Unlock()
	return route(r)
}

// unsigned says what is wrong with a request's signature.
func unsigned(r *http.Request, body []byte) string {
	path, query, _ := strings.Cut(r.RequestURI, "?")
	signed := signature.Request{Method: r.Method, Path: path, Query: query, Headers: []signature.Header{{Name: "Host", Value: r.Host}}}
	for name, values := range r.Header {
		for _, v := range values {
			signed.Headers = append(signed.Headers, signature.Header{Name: name, Value: v})
		}
	}
	claim, err := signature.Parse(signed)
	switch {
	case err != nil:
		return err.Error()
	case claim.CheckTime(time.Now()) != nil:
		return "expired"
	case claim.AccessKey != testAccessKey || !claim.Verify(signed, testSecretKey) || !claim.VerifyBody(body):
		return "mismatch"
	}
	return ""
}

// requests returns what arrived, as "METHOD target".
func (p *peer) requests() []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

func (p *peer) last(t *testing.T) request {
	t.Helper()
	all := p.requests()
	if len(all) == 0 {
		t.Fatal("no request arrived")
	}
	return all[len(all)-1]
}

func (p *peer) environ(more ...string) []string {
	return append([]string{"WAYPOST_URL=" + p.URL, "WAYPOST_ACCESS_KEY=" + testAccessKey, "WAYPOST_SECRET_KEY=" + testSecretKey}, more...)
}

// always is a route that gives the same answer each time.
func always(status int, body string) func(request) reply {
	return func(request) reply { return reply{status: status, body: body} }
}

type result struct {
	code           int
	stdout, stderr string
}

func runCLI(t *testing.T, environ []string, stdin string, args ...string) result {
	t.Helper()
	var stdout, stderr strings.Builder
	code := run(t.Context(), args, environ, strings.NewReader(stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// want checks the exit code and that the output holds some texts.
func (r result) want(t *testing.T, code int, stdout, stderr []string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	for _, s := range stdout {
		if !strings.Contains(r.stdout, s) {
			t.Errorf("no %q on stdout", s)
		}
	}
	for _, s := range stderr {
		if !strings.Contains(r.stderr, s) {
			t.Errorf("no %q on stderr", s)
		}
	}
	if strings.Contains(r.stdout+r.stderr, testSecretKey) {
		t.Error("the secret key is shown")
	}
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
	}
}

func sameJSON(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%v in %s", err, got)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	gb, _ := json.Marshal(g)
	wb, _ := json.Marshal(w)
	if string(gb) != string(wb) {
		t.Errorf("got  %s\nwant %s", gb, wb)
	}
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args string
		code int
		says string // on stderr if the code is not 0
	}{
		{"", 0, "Client commands:"},
		{"--help", 0, "Client commands:"},
		{"help journeys apply", 0, "name: Welcome"},
		{"--version", 0, "waypost version "},
		{"nonsense", 2, `waypost has no command "nonsense"`},
		{"webhook list", 2, `waypost has no command "webhook"; it has webhooks`},
		{"webhooks", 2, "waypost webhooks needs one of its commands: create, health, history, list, show, test, update"},
		{"webhooks crate", 2, `waypost webhooks has no command "crate"`},
		{"webhooks list --nope", 2, "unknown flag: --nope"},
		{"webhooks show", 2, "usage: waypost webhooks show ID"},
		{"webhooks create --name x", 2, "-f FILE, or --name and --url"},
		{"webhooks create --name x --url http://x --basic-auth u", 2, "USER:PASSWORD"},
		{"webhooks create --name x --url http://x --param p", 2, "name=text or name:=JSON"},
		{"webhooks update whk_1", 2, "update needs what is to change"},
		{"webhooks update whk_1 --timeout-ms 5 --clear timeoutMs", 2, "--clear timeoutMs: it is set or cleared by another flag"},
		{"webhooks update whk_1 --param a=b --clear params.a", 2, "--clear params.a: it is set or cleared by another flag"},
		{"webhooks update whk_1 --clear tls --clear tls.clientKey", 2, "--clear tls.clientKey: it is set or cleared by another flag"},
		{"webhooks create --name x --url http://x --param p:=x", 2, "must be JSON"},
		{"journeys apply", 2, "-f FILE"},
		{"journeys start jrn_1", 2, "--lead N"},
		{"leads create", 2, "-f FILE"},
		{"api GET", 2, "wrong number of arguments (1); usage: waypost api METHOD PATH"},
		{"journeys start jrn_1 --lead x", 2, `invalid argument "x" for "--lead" flag: it is no whole number` + "\n`waypost journeys start --help` explains it"},
		{"webhooks list --limit 99999999999999999999", 2, "it is no whole number"},
		{"api GET v1/leads", 2, "must begin with a slash"},
		{"api GET /v1/leads -H x", 2, "'Name: value'"},
		{"-o xml webhooks list", 2, "table or json"},
		{"apps create --org o --name n --grant nothing", 2, `no grant "nothing"`},
		{"apps create --org o", 2, "grants"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			r := runCLI(t, nil, "", strings.Fields(tt.args)...)
			if tt.code == 0 {
				r.want(t, 0, []string{tt.says}, nil)
			} else {
				r.want(t, tt.code, nil, []string{tt.says, "--help` explains it"})
			}
		})
	}
}

// An id in a variable that is not set asks for nothing instead of for a list.
func TestEmptyArgument(t *testing.T) {
	t.Parallel()
	runCLI(t, nil, "", "webhooks", "show", "").want(t, 2, nil, []string{"an argument is empty; usage: waypost webhooks show ID"})
}

// Nor does a flag with such a variable act as if it were not given.
func TestEmptyFlag(t *testing.T) {
	t.Parallel()
	p := newPeer(t, nil)
	definition := file(t, "j.yaml", "name: Welcome\n")
	for _, args := range []string{
		"journeys apply -f " + definition + " --id=", "journeys start jrn_1 --lead 7 --entry-key=", "journeys dryrun jrn_1 --lead 7 --file=",
		"journeys dryrun jrn_1 --lead 7 --start-at=", "journeys dryrun jrn_1 --lead 7 --entry-key=", "journeys forecast jrn_1 --all --leads=",
		"launches create jrn_1 --all --leads=", "launches create jrn_1 --all --cron @daily --timezone=", "launches list --journey=", "launches list --recurring=",
		"leads import leads.csv --format=", "leads import leads.csv --errors=", "leads create --name x --file=", "leads update 7 --name x --data=",
		"leads export --format=", "articles search x --tenant=", "apps list --org=", "receiver --basic-auth=", "receiver --ledger=",
		"events send --id e1 --name n --lead 7 --properties=", "webhooks list --cursor=",
		"webhooks create -f w.yaml --name=", "webhooks create -f w.yaml --url=", "webhooks create -f w.yaml --basic-auth=", "webhooks create --name x --url u --file=",
	} {
		name := args[strings.LastIndex(args, "--") : len(args)-1]
		runCLI(t, p.environ(), "", strings.Fields(args)...).want(t, 2, nil, []string{name + `" flag: it is empty`, "--help` explains it"})
	}
	if n := len(p.requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		message string
		details []waypost.Detail
		want    string
	}{
		{"nothing more", "there is no such path", nil, "BadRequest: there is no such path"},
		{"said already", "url: is bad", []waypost.Detail{{Code: "InvalidFormat", Target: "url", Message: "is bad"}}, "BadRequest: url: is bad (InvalidFormat)"},
		{"without a target", "no JSON", []waypost.Detail{{Code: "InvalidFormat", Message: "no JSON"}}, "BadRequest: no JSON (InvalidFormat)"},
		{"one, said otherwise", "is taken", []waypost.Detail{{Code: "Duplicate", Target: "email", Message: "lead 7 has it"}}, "BadRequest: is taken\n  email: lead 7 has it (Duplicate)"},
		{"several", "2 fields", []waypost.Detail{{Code: "TooLong", Target: "a", Message: "x"}, {Code: "NullValue", Target: "b", Message: "y"}}, "BadRequest: 2 fields\n  a: x (TooLong)\n  b: y (NullValue)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			fault := &waypost.Error{Code: waypost.CodeBadRequest, Message: tt.message, Details: tt.details}
			if got := describe(fault); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			// What stands around it stays, and the faulty fields stand below.
			first, below, _ := strings.Cut(tt.want, "\n")
			want := strings.TrimSuffix("ask for it: "+first+"; go on\n"+below, "\n")
			if head, code, ok := strings.Cut(first, " ("); ok {
				want = "ask for it: " + head + "; go on (" + code
			}
			if got := describe(fmt.Errorf("ask for it: %w; go on", fault)); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestQuantity(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 leads", 1: "1 lead", 2: "2 leads"} {
		if got := quantity(n, "lead", "leads"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	shown := reindexProgress{Status: "running", Total: 1}.String() + importProgress{Total: 1}.String()
	if !strings.Contains(shown, "0 of 1 article") || strings.Contains(shown, "articles") || !strings.Contains(shown, "0 of 1 row,") {
		t.Errorf("got %q", shown)
	}
}

// Every command explains itself, and shows how it is used.
func TestHelp(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Short == "" || !strings.Contains(cmd.Example, "waypost") {
			t.Errorf("%s needs a description and an example", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&cli{}).root())
}

// The help of a role names all that the role does not start without.
func TestHelpOfRolesNamesWhatTheyNeed(t *testing.T) {
	t.Parallel()
	for _, cmd := range (&cli{}).root().Commands() {
		role := config.Role(cmd.Name())
		if !slices.Contains([]config.Role{config.RoleGateway, config.RoleWorker, config.RoleServe, config.RoleCodec, config.RoleConsole}, role) {
			continue
		}
		for _, v := range config.Variables() {
			if slices.Contains(v.Required, role) && !strings.Contains(cmd.Long+cmd.Example, v.Name) {
				t.Errorf("the help of %s lacks %s", role, v.Name)
			}
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	t.Run("all problems at once", func(t *testing.T) {
		t.Parallel()
		r := runCLI(t, []string{"WAYPOST_HTTP_ADDR=x", "WAYPOST_LOG_LEVEL=loud", "WAYPOST_HTP_ADDR=y"}, "", "gateway")
		r.want(t, 1, nil, []string{
			"WAYPOST_HTTP_ADDR: ", "WAYPOST_LOG_LEVEL: ", "WAYPOST_DATABASE_URL: is not set", "WAYPOST_REDIS_URL: is not set",
			"warning: WAYPOST_HTP_ADDR is no setting of Waypost; the nearest one is WAYPOST_HTTP_ADDR",
		})
	})
	t.Run("no profile", func(t *testing.T) {
		t.Parallel()
		runCLI(t, []string{"WAYPOST_DATA_DIR=" + t.TempDir()}, "", "webhooks", "list").want(t, 1, nil, []string{"WAYPOST_PROFILE", "profile.json"})
	})
	t.Run("half a profile", func(t *testing.T) {
		t.Parallel()
		runCLI(t, []string{"WAYPOST_URL=http://127.0.0.1:1"}, "", "webhooks", "list").want(t, 1, nil, []string{"set WAYPOST_ACCESS_KEY and WAYPOST_SECRET_KEY too"})
	})
	t.Run("a broken profile", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"", "[]", "{}", `{"url":"http://x","accessKey":"AK"}`} {
			runCLI(t, []string{"WAYPOST_PROFILE=" + file(t, "p.json", text)}, "", "webhooks", "list").want(t, 1, nil, []string{"WAYPOST_PROFILE: ", "url, accessKey and secretKey"})
		}
		runCLI(t, []string{"WAYPOST_PROFILE=" + filepath.Join(t.TempDir(), "none.json")}, "", "webhooks", "list").want(t, 1, nil, []string{"WAYPOST_PROFILE: ", "none.json: no such file"})
	})
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{"GET /v1/leads/7": always(200, `{"leadsId":7,"name":"Ada"}`)})
	text := `{"url":"` + p.URL + `/","accessKey":"` + testAccessKey + `","secretKey":"` + testSecretKey + `","searchToken":"x"}`
	path := file(t, "profile.json", text)
	for name, environ := range map[string][]string{
		"variables": p.environ(),
		"profile":   {"WAYPOST_PROFILE=" + path, "WAYPOST_URL=http://127.0.0.1:1"},
		"data dir":  {"WAYPOST_DATA_DIR=" + filepath.Dir(path)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runCLI(t, environ, "", "leads", "show", "7").want(t, 0, []string{"leadsId  7\n", "name     Ada\n"}, nil)
		})
	}
	t.Run("stage", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, map[string]func(request) reply{"GET /v1/leads/7": always(200, `{"leadsId":7}`)})
		runCLI(t, p.environ("WAYPOST_STAGE=test"), "", "leads", "show", "7").want(t, 0, nil, nil)
		if got := p.last(t).header.Get("X-Cloud-Stage"); got != "test" {
			t.Errorf("stage %q", got)
		}
	})
	t.Run("wrong secret", func(t *testing.T) {
		t.Parallel()
		environ := []string{"WAYPOST_URL=" + p.URL, "WAYPOST_ACCESS_KEY=" + testAccessKey, "WAYPOST_SECRET_KEY=sk_other"}
		runCLI(t, environ, "", "leads", "show", "7").want(t, 1, nil, []string{"waypost: Unauthorized: mismatch"})
	})
}

func TestFailures(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{
		"GET /v1/leads/1": always(400, `{"code":"BadRequest","message":"2 fields are faulty; see detail","target":"journey","detail":[`+
			`{"code":"InvalidFormat","target":"nodes[2].when","message":"does not compile"},{"code":"NullValue","target":"name","message":"must be set"}]}`),
		"GET /v1/leads/2": always(502, "<html>bad gateway\x1b[31m</html>"),
		"GET /v1/leads/3": always(200, "not json"),
		"GET /v1/leads/4": func(request) reply {
			return reply{429, `{"code":"TooManyRequests","message":"slow down","target":"","detail":[]}`, map[string]string{"Retry-After": "3"}}
		},
		"GET /v1/leads/5": func(request) reply { return reply{302, "", map[string]string{"Location": "/v1/leads/1"}} },
		"GET /v1/leads/6": always(200, `{"leadsId":6,"remark":"a\u001b[31mb\u202ec"}`),
	})
	for id, want := range map[string][]string{
		"1": {"BadRequest: 2 fields are faulty; see detail\n", "  nodes[2].when: does not compile (InvalidFormat)\n", "  name: must be set (NullValue)\n"},
		"2": {"answered 502 Bad Gateway: <html>bad gateway"},
		"3": {"no JSON object: not json"},
		"4": {"TooManyRequests: slow down (retry after 3 s)"},
		"5": {"answered 302 Found"},
		"9": {"NotFound: no such thing"},
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			r := runCLI(t, p.environ(), "", "leads", "show", id)
			r.want(t, 1, nil, want)
			if strings.Contains(r.stderr, "\x1b") {
				t.Error("a control character of the answer reaches the terminal")
			}
		})
	}
	t.Run("6", func(t *testing.T) {
		t.Parallel()
		r := runCLI(t, p.environ(), "", "leads", "show", "6")
		r.want(t, 0, []string{"a [31mb c"}, nil)
	})
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		gone := httptest.NewServer(nil)
		gone.Close()
		environ := []string{"WAYPOST_URL=" + gone.URL, "WAYPOST_ACCESS_KEY=a", "WAYPOST_SECRET_KEY=b"}
		runCLI(t, environ, "", "leads", "show", "1").want(t, 1, nil, []string{"cannot reach the gateway at " + gone.URL, "make run"})
	})
}
