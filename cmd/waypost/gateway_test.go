package main

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"waypost/store"
	"waypost/store/storetest"
)

// deployment is a database, a Redis and what roles need to use them. Temporal is
// away: a gateway accepts enrollments nevertheless.
func deployment(t *testing.T) []string {
	t.Helper()
	database := "sqlite:" + filepath.Join(t.TempDir(), "waypost.db")
	if _, _, err := store.Migrate(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		t.Fatal(err)
	}
	return []string{
		"WAYPOST_DATABASE_URL=" + database,
		"WAYPOST_REDIS_URL=redis://" + miniredis.RunT(t).Addr() + "/0",
		"WAYPOST_ENCRYPTION_KEYS=k1:" + base64.StdEncoding.EncodeToString(key),
		"WAYPOST_TEMPORAL_ADDRESS=" + strings.TrimPrefix(gone.URL, "http://"),
		"WAYPOST_HTTP_ADDR=127.0.0.1:0", "WAYPOST_ADMIN_ADDR=127.0.0.1:0",
		"WAYPOST_WEBHOOK_ALLOW_CIDRS=127.0.0.0/8", "WAYPOST_LOG_FORMAT=json",
		// So is Typesense, without which a gateway alone has no index of articles.
		"WAYPOST_TYPESENSE_URL=" + gone.URL, "WAYPOST_TYPESENSE_API_KEY=none",
	}
}

// TestEarlierBuild starts what uses the database on one of an earlier build.
func TestEarlierBuild(t *testing.T) {
	t.Parallel()
	storetest.EarlierBuild(t, func(t *testing.T, url string) {
		environ := append(deployment(t), "WAYPOST_DATABASE_URL="+url)
		for _, command := range []string{"migrate", "gateway", "worker", "serve"} {
			r := runCLI(t, environ, "", command)
			if r.want(t, 1, nil, []string{"was made by an earlier build"}); strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("%s says more than one line:\n%s", command, r.stderr)
			}
		}
	})
}

func TestApps(t *testing.T) {
	t.Parallel()
	environ := deployment(t)
	made := runCLI(t, environ, "", "apps", "create", "--org", "acme", "--name", "crm", "--grant", "leads.*", "--grant", "journeys.run", "--rate", "7", "--require-if-match")
	made.want(t, 0, []string{"id         app_", "accessKey  AK", "secretKey  sk_"}, []string{"it is not shown again"})
	runCLI(t, environ, "", "apps", "create", "--org", "other", "--name", "web", "--grant", "*").want(t, 0, nil, nil)

	id := regexp.MustCompile(`app_\w+`).FindString(made.stdout)
	secret := regexp.MustCompile(`sk_\S+`).FindString(made.stdout)
	list := runCLI(t, environ, "", "apps", "list", "--org", "acme")
	list.want(t, 0, []string{id, "leads.*,journeys.run", "7/s, burst 14", "active"}, nil)
	if strings.Contains(list.stdout, secret) || strings.Count(list.stdout, "\n") != 2 {
		t.Errorf("the list shows a secret or another organisation:\n%s", list.stdout)
	}

	rotated := runCLI(t, environ, "", "-o", "json", "apps", "rotate", id)
	rotated.want(t, 0, []string{`"id": "` + id + `"`}, nil)
	var key struct{ AccessKey, SecretKey string }
	if err := json.Unmarshal([]byte(rotated.stdout), &key); err != nil || key.SecretKey == secret || !strings.Contains(key.SecretKey, "sk_") {
		t.Errorf("%v: rotating gave no other secret", err)
	}
	runCLI(t, environ, "", "apps", "list").want(t, 0, []string{"," + key.AccessKey, "other"}, nil)

	runCLI(t, environ, "", "apps", "disable", id).want(t, 0, []string{"disabled " + id}, nil)
	runCLI(t, environ, "", "apps", "list").want(t, 0, []string{"disabled"}, nil)
	runCLI(t, environ, "", "apps", "disable", "app_none").want(t, 1, nil, []string{"NotFound"})
	runCLI(t, append(environ, "WAYPOST_DATABASE_URL=sqlite:"+filepath.Join(t.TempDir(), "new.db")), "", "apps", "list").
		want(t, 1, nil, []string{"waypost migrate"})
}

// startRole runs a role that serves until the test ends and returns its URL.
func startRole(t *testing.T, role string, environ []string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{role}, environ, nil, io.Discard, write)
		write.Close()
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("the %s ended with exit code %d", role, code)
		}
	})
	lines := json.NewDecoder(read)
	for {
		var line struct{ Msg, URL string }
		if err := lines.Decode(&line); err != nil {
			t.Fatalf("the %s ended before it was ready: %v", role, err)
		}
		if line.Msg == "ready" {
			go func() { _, _ = io.Copy(io.Discard, read) }()
			return line.URL
		}
	}
}

// newClientOf starts a gateway and returns the settings of somebody who may call it.
func newClientOf(t *testing.T) []string {
	t.Helper()
	return clientOf(t, deployment(t))
}

func clientOf(t *testing.T, environ []string) []string {
	t.Helper()
	return clientOfRole(t, "gateway", environ)
}

func clientOfRole(t *testing.T, role string, environ []string) []string {
	t.Helper()
	made := runCLI(t, environ, "", "-o", "json", "apps", "create", "--org", "acme", "--name", "cli", "--grant", "*")
	var key struct{ AccessKey, SecretKey string }
	if err := json.Unmarshal([]byte(made.stdout), &key); err != nil {
		t.Fatalf("%v in %s%s", err, made.stdout, made.stderr)
	}
	return []string{"WAYPOST_URL=" + startRole(t, role, environ), "WAYPOST_ACCESS_KEY=" + key.AccessKey, "WAYPOST_SECRET_KEY=" + key.SecretKey}
}

// The client commands against the gateway that they are written for.
func TestClientOfGateway(t *testing.T) {
	t.Parallel()
	client := newClientOf(t)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "u" || password != "p" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(hook.Close)

	// do runs a command that must succeed and returns a member of its answer.
	do := func(member, stdin string, args ...string) string {
		t.Helper()
		r := runCLI(t, client, stdin, append([]string{"-o", "json"}, args...)...)
		r.want(t, 0, nil, nil)
		var m members
		if err := json.Unmarshal([]byte(r.stdout), &m); err != nil {
			t.Fatalf("%v in %s%s", err, r.stdout, r.stderr)
		}
		return m.text(member)
	}
	webhook := do("id", "", "webhooks", "create", "--name", "try", "--url", hook.URL+"/hook", "--basic-auth", "u:p", "--param", "a={{ lead.name }}", "--param", "b:=2")
	if got := do("httpStatus", "", "webhooks", "test", webhook); got != "200" {
		t.Errorf("the test message was answered with %s", got)
	}
	runCLI(t, client, "", "webhooks", "list").want(t, 0, []string{webhook, hook.URL}, nil)
	runCLI(t, client, "", "webhooks", "show", webhook).want(t, 0, []string{`"passwordSet":true`}, nil)

	text := strings.ReplaceAll(definition, "whk_1", webhook)
	journey := do("id", text, "journeys", "apply", "-f", "-")
	if again := do("id", strings.Replace(text, "start: hello", "start: hello\nreentry: {policy: always}", 1), "journeys", "apply", "-f", "-"); again != journey {
		t.Errorf("applying again made %s beside %s", again, journey)
	}
	runCLI(t, client, "", "journeys", "publish", journey).want(t, 0, []string{"published " + journey + " version 1"}, nil)
	runCLI(t, client, "", "journeys", "publish", journey).want(t, 0, []string{"unchanged " + journey + " version 1"}, nil)
	runCLI(t, client, "", "journeys", "list", "--name", "wel", "--webhook", webhook).want(t, 0, []string{journey, "Welcome", "active"}, nil)
	copied := do("id", "", "journeys", "copy", journey, "--name", "Another")
	runCLI(t, client, "", "journeys", "list", "--status", "draft").want(t, 0, []string{copied, "Another"}, nil)
	runCLI(t, client, "", "journeys", "copy", journey, "--stage", "test").want(t, 0, []string{`"webhook": "try"`}, []string{`nodes[0].webhook: the stage test has no webhook of the name "try"`})
	runCLI(t, client, "", "webhooks", "list", "--enabled", "maybe").want(t, 1, nil, []string{"enabled"})
	runCLI(t, client, "", "journeys", "show", journey).want(t, 0, []string{`"policy": "always"`}, nil)
	broken := strings.Replace(text, "webhook: "+webhook, "webhook: whk_none, next: nowhere", 1)
	runCLI(t, client, strings.Replace(broken, "Welcome", "Broken", 1), "journeys", "apply", "-f", "-", "--publish").
		want(t, 1, nil, []string{"- is the draft of jrn_", "BadRequest: ", "\n  nodes[0].next: ", "\n  nodes[0].webhook: "})

	named := strings.Replace(strings.ReplaceAll(definition, "whk_1", "email"), "Welcome", "Named", 1)
	const hint = "; if it is a name, `waypost journeys apply -f FILE --set email=whk_…` gives it an id"
	runCLI(t, client, named, "journeys", "apply", "-f", "-", "--publish").want(t, 1, nil, []string{`there is no webhook "email"` + hint + " (OutOfRange)\n"})
	runCLI(t, client, named, "journeys", "validate", "-").want(t, 1, nil, []string{`there is no webhook "email"` + hint + " (OutOfRange)\n"})
	runCLI(t, client, "{name: Named, start: e, entry: [{segment: silent, on: enter}], nodes: [{id: e, type: exit}]}", "journeys", "validate", "-").
		want(t, 1, nil, []string{`not "silent"; if it is a name, ` + "`waypost journeys apply -f FILE --set silent=seg_…` gives it an id"})
	enrolling := "{name: Named, start: e, nodes: [{id: e, type: enroll, journey: follow, next: n}, {id: n, type: enroll, journey: jrn_none}]}"
	r := runCLI(t, client, enrolling, "journeys", "validate", "-")
	r.want(t, 1, nil, []string{`there is no journey "follow"; if it is a name, ` + "`waypost journeys apply -f FILE --set follow=jrn_…`", `there is no journey "jrn_none" (`})

	lead := do("leadsId", "name: Ada\n", "leads", "create", "-f", "-")
	runCLI(t, client, "", "leads", "show", lead).want(t, 0, []string{"Ada"}, nil)
	runCLI(t, client, "gender: 7\n", "leads", "create", "-f", "-").want(t, 1, nil, []string{"BadRequest", "\n  name: ", "(NullValue)"})
	enrollment := do("enrollmentId", "", "journeys", "start", journey, "--lead", lead, "--param", "coupon=SPRING")
	runCLI(t, client, "", "enrollments", "show", enrollment).want(t, 0, []string{"pending"}, nil)
	runCLI(t, client, "", "enrollments", "pause", enrollment).want(t, 0, []string{"paused"}, nil)
	runCLI(t, client, "", "enrollments", "resume", enrollment).want(t, 0, []string{"pending"}, nil)
	launch := do("launchId", lead+"\n999\n", "launches", "create", journey, "--leads", "-", "--rate", "10")
	runCLI(t, client, "", "launches", "list", "--journey", journey).want(t, 0, []string{launch, "pending"}, nil)
	runCLI(t, client, "", "journeys", "pause", journey).want(t, 0, []string{"paused"}, nil)
	runCLI(t, client, "", "launches", "show", launch).want(t, 0, []string{"paused", `{"pending":0,`}, nil)
	runCLI(t, client, "", "journeys", "resume", journey, "--elapsed-delays", "skip").want(t, 0, []string{"active"}, nil)
	runCLI(t, client, "", "launches", "cancel", launch).want(t, 0, []string{"canceled"}, nil)
	runCLI(t, client, "", "launches", "show", launch, "--watch").want(t, 0, []string{"endedAt"}, []string{"  0 %  " + launch + " canceled\n"})
	runCLI(t, client, "", "launches", "resume", launch).want(t, 1, nil, []string{"Conflict"})
	runCLI(t, client, "", "launches", "create", journey, "--filter", "nope=1", "--rate", "0").want(t, 1, nil, []string{"audience.filter.nope: ", "ratePerSecond: "})
	runCLI(t, client, "", "events", "send", "--id", "e1", "--name", "login", "--lead", lead).want(t, 0, []string{"duplicate  false"}, nil)
	runCLI(t, client, "", "events", "send", "--id", "e1", "--name", "login", "--lead", lead).want(t, 0, []string{"duplicate  true"}, nil)
	runCLI(t, client, "", "deliveries", "list", "--enrollment", enrollment).want(t, 0, []string{"MESSAGE"}, nil)
	runCLI(t, client, "", "deliveries", "show", "msg_none").want(t, 1, nil, []string{"NotFound"})
	runCLI(t, append(client, "WAYPOST_STAGE=test"), "", "leads", "show", lead).want(t, 1, nil, []string{"NotFound"})
	runCLI(t, client, "", "api", "GET", "/v1/journeys?limit=1").want(t, 0, []string{`"nextCursor":`}, nil)
	runCLI(t, client, "", "api", "GET", "/v1/nowhere").want(t, 1, []string{`"code":"NotFound"`}, []string{"NotFound"})
	runCLI(t, append(client, "WAYPOST_SECRET_KEY=sk_wrong"), "", "leads", "show", lead).want(t, 1, nil, []string{"Unauthorized", "SignatureMismatch"})
}

func TestAudit(t *testing.T) {
	t.Parallel()
	client := newClientOf(t)
	runCLI(t, append(slices.Clone(client), "WAYPOST_ACTOR=李 Ada"), "", "leads", "create", "--name", "Grace").want(t, 0, nil, nil)
	runCLI(t, client, "", "leads", "create", "--name", "Edith").want(t, 0, nil, nil)
	all := runCLI(t, client, "", "audit", "list")
	all.want(t, 0, []string{"ACTION", "lead.create", "application.create"}, nil)
	if n := strings.Count(all.stdout, "lead.create"); n != 2 || strings.Contains(all.stdout, "Grace") {
		t.Errorf("%d entries of leads: %s", n, all.stdout)
	}
	hers := runCLI(t, client, "", "-o", "json", "audit", "list", "--actor", "李 Ada", "--limit", "1")
	hers.want(t, 0, []string{`"fields"`, `"actor": "李 Ada"`}, nil)
	if strings.Count(hers.stdout, "lead.create") != 1 || strings.Contains(hers.stdout, "application.create") {
		t.Error(hers.stdout)
	}
	runCLI(t, client, "", "audit", "list", "--target", "leads", "--from", "yesterday").want(t, 1, nil, []string{"from: "})
	runCLI(t, append(slices.Clone(client), "WAYPOST_ACTOR=a\tb"), "", "leads", "list").want(t, 1, nil, []string{"WAYPOST_ACTOR"})
}

// A gateway that serves HTTPS is called by whoever trusts its certificate: the system's
// authorities, or those of SSL_CERT_FILE.
func TestClientOverHTTPS(t *testing.T) {
	if args := os.Getenv("WAYPOST_TEST_ARGS"); args != "" { // the program: a process reads the authorities once
		os.Exit(run(t.Context(), strings.Fields(args), os.Environ(), nil, os.Stdout, os.Stderr))
	}
	t.Parallel()
	server := httptest.NewTLSServer(nil) // for its certificate
	server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"WAYPOST_TLS_CERT": filepath.Join(t.TempDir(), "tls.crt"), "WAYPOST_TLS_KEY": filepath.Join(t.TempDir(), "tls.key")}
	for name, block := range map[string]*pem.Block{"WAYPOST_TLS_CERT": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, "WAYPOST_TLS_KEY": {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(files[name], pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	environ := deployment(t)
	for name, path := range files {
		environ = append(environ, name+"="+path)
	}
	settings := clientOf(t, environ)
	if !strings.HasPrefix(settings[0], "WAYPOST_URL=https://") {
		t.Fatalf("the ready line tells of %s", settings[0])
	}
	for _, tt := range []struct {
		name string
		more []string
		want string
	}{
		{"it is trusted", []string{"SSL_CERT_FILE=" + files["WAYPOST_TLS_CERT"]}, `"items": []`},
		{"it is not", nil, "unknown authority"},
		{"by plain HTTP", []string{"WAYPOST_URL=" + strings.Replace(settings[0], "WAYPOST_URL=https", "http", 1)}, "the URL must begin with https://"},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestClientOverHTTPS$")
		cmd.Env = slices.Concat([]string{"WAYPOST_TEST_ARGS=-o json leads list"}, settings, tt.more)
		if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), tt.want) {
			t.Errorf("%s: %v\n%s", tt.name, err, out)
		}
	}
}
