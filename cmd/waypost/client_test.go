package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestWebhooksCreate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, stdin string
		args        []string
		body        string
	}{
		{"flags", "", []string{"--name", "crm", "--url", "https://x/y", "--basic-auth", "u:p:w", "--param", "a={{ lead.name }}", "--param", "b:=2", "--timeout-ms", "500"},
			`{"name":"crm","url":"https://x/y","basicAuth":{"username":"u","password":"p:w"},"params":{"a":"{{ lead.name }}","b":2},"timeoutMs":500}`},
		{"YAML from standard input", "name: crm\nurl: https://x/y\nretry: {maxAttempts: 3}\n", []string{"-f", "-"},
			`{"name":"crm","url":"https://x/y","retry":{"maxAttempts":3}}`},
		{"a flag wins over the file", `{"name":"crm","url":"https://x/y"}`, []string{"-f", "-", "--name", "other"}, `{"name":"other","url":"https://x/y"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, map[string]func(request) reply{"POST /v1/webhooks": always(201, `{"id":"whk_1","name":"crm","basicAuth":{"username":"u","passwordSet":true}}`)})
			runCLI(t, p.environ(), tt.stdin, append([]string{"webhooks", "create"}, tt.args...)...).
				want(t, 0, []string{"id         whk_1\n", `{"username":"u","passwordSet":true}`}, nil)
			sameJSON(t, p.last(t).body, tt.body)
			if got := p.last(t).header.Get("Content-Type"); got != "application/json" {
				t.Errorf("content type %q", got)
			}
		})
	}
	for name, text := range map[string]string{
		"neither YAML nor JSON": "a: [", "holds several YAML documents": "---\na: 1\n---\nb: 2\n", "must hold an object": "- a\n", "stands twice": "a: 1\na: 2\n",
	} {
		runCLI(t, []string{"WAYPOST_URL=http://127.0.0.1:1", "WAYPOST_ACCESS_KEY=a", "WAYPOST_SECRET_KEY=b"}, text, "webhooks", "create", "-f", "-").
			want(t, 1, nil, []string{name})
	}
}

func TestWebhooksTest(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{
		"POST /v1/webhooks/whk_1/test": always(200, `{"succeed":true,"httpStatus":200,"message":"","errorClass":"","durationMs":3}`),
		"POST /v1/webhooks/whk_2/test": always(200, `{"succeed":false,"httpStatus":503,"message":"busy","errorClass":"httpStatus","durationMs":3}`),
	})
	runCLI(t, p.environ(), "", "webhooks", "test", "whk_1").want(t, 0, []string{"succeed     true", "httpStatus  200"}, nil)
	runCLI(t, p.environ(), "", "webhooks", "test", "whk_2").want(t, 1, []string{"httpStatus"}, []string{"the receiver did not take the message"})
}

const definition = "name: Welcome\nstart: hello\nnodes:\n  - {id: hello, type: touchpoint, webhook: whk_1}\n"

const definitionJSON = `{"name":"Welcome","start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":"whk_1"}]}`

func TestJourneysApply(t *testing.T) {
	t.Parallel()
	empty := always(200, `{"items":[],"nextCursor":null}`)
	made := always(201, `{"id":"jrn_1","name":"Welcome","draft":`+definitionJSON+`,"publishedVersion":null,"status":"draft"}`)
	// The journey stands on the second page, behind an archived one of its name.
	pages := func(r request) reply {
		if strings.Contains(r.target, "cursor=two") {
			return reply{status: 200, body: `{"items":[{"id":"jrn_1","name":"Welcome","status":"active"}],"nextCursor":null}`}
		}
		return reply{status: 200, body: `{"items":[{"id":"jrn_0","name":"Welcome","status":"archived"},{"id":"jrn_9","name":"Other","status":"active"}],"nextCursor":"two"}`}
	}
	current := func(request) reply {
		return reply{200, `{"id":"jrn_1","name":"Welcome"}`, map[string]string{"ETag": `"5"`}}
	}
	t.Run("creates", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, map[string]func(request) reply{"GET /v1/journeys": empty, "POST /v1/journeys": made})
		runCLI(t, p.environ(), "", "journeys", "apply", "-f", file(t, "j.yaml", definition)).
			want(t, 0, []string{"id                jrn_1\n", "draft\n{\n  \"name\": \"Welcome\",\n  \"start\""}, nil)
		sameJSON(t, p.last(t).body, definitionJSON)
	})
	t.Run("sends JSON as it stands", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, map[string]func(request) reply{"GET /v1/journeys": empty, "POST /v1/journeys": made})
		text := `{"name":"Welcome", "name":"Welcome", "start": 1.50}`
		runCLI(t, p.environ(), text, "journeys", "apply", "-f", "-").want(t, 0, nil, nil)
		if got := p.last(t).body; got != text {
			t.Errorf("sent %s", got)
		}
	})
	t.Run("updates the one of its name and publishes", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, map[string]func(request) reply{
			"GET /v1/journeys": pages, "GET /v1/journeys/jrn_1": current, "PUT /v1/journeys/jrn_1": always(200, `{"id":"jrn_1"}`),
			"POST /v1/journeys/jrn_1/publish": always(201, `{"journeyId":"jrn_1","version":2}`),
		})
		runCLI(t, p.environ(), definition, "journeys", "apply", "-f", "-", "--publish").want(t, 0, []string{"published jrn_1 version 2\n"}, nil)
		all := p.requests()
		put := all[len(all)-2]
		if put.method != "PUT" || put.header.Get("If-Match") != `"5"` {
			t.Errorf("%s with If-Match %q", put.method, put.header.Get("If-Match"))
		}
		sameJSON(t, put.body, definitionJSON)
	})
	t.Run("updates the one with the id", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, map[string]func(request) reply{
			"GET /v1/journeys/jrn_7": always(200, `{"id":"jrn_7"}`), "PUT /v1/journeys/jrn_7": always(200, `{"id":"jrn_7"}`),
		})
		runCLI(t, p.environ(), definition, "journeys", "apply", "-f", "-", "--id", "jrn_7").want(t, 0, []string{"jrn_7"}, nil)
	})
	t.Run("does not guess between two", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, map[string]func(request) reply{
			"GET /v1/journeys": always(200, `{"items":[{"id":"jrn_1","name":"Welcome"},{"id":"jrn_2","name":"Welcome"}],"nextCursor":null}`),
		})
		runCLI(t, p.environ(), definition, "journeys", "apply", "-f", "-").want(t, 1, nil, []string{"jrn_1 and jrn_2", "--id"})
	})
	t.Run("an unchanged draft", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, map[string]func(request) reply{"POST /v1/journeys/jrn_1/publish": always(200, `{"journeyId":"jrn_1","version":2}`)})
		runCLI(t, p.environ(), "", "journeys", "publish", "jrn_1").want(t, 0, []string{"unchanged jrn_1 version 2\n"}, nil)
	})
}

func TestJourneysStart(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{
		"POST /v1/journeys/jrn_1/enrollments": always(202, `{"enrollmentId":"enr_1","status":"pending","workflowId":null,"temporalUrl":"http://ui/x"}`),
	})
	runCLI(t, p.environ(), "", "journeys", "start", "jrn_1", "--lead", "7", "--entry-key", "k", "--param", "a=7", "--param", "b:=[1]").
		want(t, 0, []string{"enrollmentId  enr_1\n", "workflowId    \n", "temporalUrl   http://ui/x\n"}, nil)
	sameJSON(t, p.last(t).body, `{"leadsId":7,"entryKey":"k","params":{"a":"7","b":[1]}}`)
}

const hello = `{"at":"2026-01-01T00:00:00.000Z","nodeId":"hello","what":"sent","next":"end","reason":"","version":1}`

func TestEnrollmentsShow(t *testing.T) {
	t.Parallel()
	body := `{"enrollmentId":"enr_1","status":"completed","timeline":[` + hello + `]}`
	p := newPeer(t, map[string]func(request) reply{"GET /v1/enrollments/enr_1": always(200, body)})
	r := runCLI(t, p.environ(), "", "enrollments", "show", "enr_1")
	r.want(t, 0, []string{"status        completed\n", "AT                        NODE   WHAT  NEXT  REASON\n", "hello  sent  end"}, nil)
	r = runCLI(t, p.environ(), "", "-o", "json", "enrollments", "show", "enr_1")
	r.want(t, 0, []string{"{\n  \"enrollmentId\": \"enr_1\",\n  \"status\""}, nil)
	sameJSON(t, r.stdout, body)
}

// growing is an enrollment that gets further each time it is looked at.
func growing(last string) func(request) reply {
	looks := 0
	return func(request) reply {
		looks++
		switch looks {
		case 1:
			return reply{status: 200, body: `{"enrollmentId":"enr_1","status":"pending","timeline":[]}`}
		case 2:
			return reply{status: 200, body: `{"enrollmentId":"enr_1","status":"running","timeline":[` + hello + `]}`}
		}
		return reply{status: 200, body: `{"enrollmentId":"enr_1","status":"` + last + `","timeline":[` + hello + `,` + strings.ReplaceAll(hello, "hello", "end") + `]}`}
	}
}

// watching runs enrollments show --watch without waiting between the looks.
func watching(t *testing.T, ctx context.Context, p *peer, output string) (string, string, error) {
	t.Helper()
	var stdout, stderr strings.Builder
	c := &cli{environ: p.environ(), stdout: &stdout, stderr: &stderr, output: output, poll: time.Nanosecond}
	cl, err := c.client()
	if err != nil {
		t.Fatal(err)
	}
	err = c.watchEnrollment(ctx, cl, "enr_1")
	return stdout.String(), stderr.String(), err
}

func TestEnrollmentsWatch(t *testing.T) {
	t.Parallel()
	t.Run("lines", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, map[string]func(request) reply{"GET /v1/enrollments/enr_1": growing("completed")})
		stdout, stderr, err := watching(t, t.Context(), p, outputTable)
		if err != nil {
			t.Fatal(err)
		}
		want := "2026-01-01T00:00:00.000Z  sent     hello → end  \n2026-01-01T00:00:00.000Z  sent     end → end  \n"
		if stdout != want {
			t.Errorf("got %q, want %q", stdout, want)
		}
		if want := "enr_1 is pending\nenr_1 is running\nenr_1 is completed\n"; stderr != want {
			t.Errorf("got %q, want %q", stderr, want)
		}
	})
	t.Run("JSON", func(t *testing.T) {
		t.Parallel()
		p := newPeer(t, map[string]func(request) reply{"GET /v1/enrollments/enr_1": growing("failed")})
		stdout, _, err := watching(t, t.Context(), p, outputJSON)
		if err == nil || err.Error() != "the enrollment failed" {
			t.Errorf("error %v", err)
		}
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		if len(lines) != 3 || lines[0] != hello {
			t.Errorf("got %q", lines)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		p := newPeer(t, map[string]func(request) reply{"GET /v1/enrollments/enr_1": func(request) reply {
			cancel()
			return reply{status: 200, body: `{"enrollmentId":"enr_1","status":"running","timeline":[]}`}
		}})
		if _, _, err := watching(t, ctx, p, outputTable); err == nil || err.Error() != "interrupted" {
			t.Errorf("error %v", err)
		}
	})
}

func TestDeliveries(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{
		"GET /v1/deliveries": always(200, `{"items":[{"messageId":"msg_1","status":"retrying","httpStatus":503,"errorClass":"httpStatus","attempts":2,"nextAttemptAt":null}],"nextCursor":"abc"}`),
		"GET /v1/deliveries/msg_1": always(200, `{"messageId":"msg_1","status":"failed","attemptLog":[{"attempt":1,"round":1,"at":"t","httpStatus":503,`+
			`"errorClass":"httpStatus","message":"busy","durationMs":4,"responseExcerpt":"no\tway"}],"request":{"messageId":"msg_1","version":"1.0"}}`),
	})
	runCLI(t, p.environ(), "", "deliveries", "list", "--journey", "jrn_1", "--webhook", "whk_1", "--lead", "7", "--enrollment", "enr_1",
		"--status", "retrying", "--from", "2026-01-01T00:00:00+02:00", "--to", "2027-01-01T00:00:00Z", "--launch", "lch_1", "--limit", "5", "--cursor", "x y").
		want(t, 0, []string{"MESSAGE  STATUS    HTTP  ERROR       ATTEMPTS", "msg_1    retrying  503   httpStatus  2"}, []string{"--cursor abc"})
	u, err := url.Parse(p.last(t).target)
	if err != nil {
		t.Fatal(err)
	}
	want := url.Values{
		"journeyId": {"jrn_1"}, "webhookId": {"whk_1"}, "leadsId": {"7"}, "enrollmentId": {"enr_1"}, "launchId": {"lch_1"}, "status": {"retrying"},
		"from": {"2026-01-01T00:00:00+02:00"}, "to": {"2027-01-01T00:00:00Z"}, "limit": {"5"}, "cursor": {"x y"},
	}
	if got := fmt.Sprint(u.Query()); got != fmt.Sprint(want) {
		t.Errorf("got  %s\nwant %s", got, fmt.Sprint(want))
	}
	runCLI(t, p.environ(), "", "deliveries", "show", "msg_1").
		want(t, 0, []string{"status     failed\n", "1        1      t   503   httpStatus  4   busy  no way\n", "request\n{\n  \"messageId\": \"msg_1\","}, nil)
}

func TestEnrollmentsList(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{
		"GET /v1/enrollments": always(200, `{"items":[{"enrollmentId":"enr_1","status":"waiting","nodeId":"wait","leadsId":7}],"nextCursor":"abc"}`),
	})
	runCLI(t, p.environ(), "", "enrollments", "list", "--journey", "jrn_1", "--version", "2", "--node", "wait", "--status", "waiting,paused", "--lead", "7", "--launch", "lch_1",
		"--from", "2026-01-01T00:00:00+02:00", "--to", "2027-01-01T00:00:00Z", "--sort", "createdAt", "--limit", "5", "--cursor", "x y").
		want(t, 0, []string{"ENROLLMENT  STATUS   NODE  LEAD", "enr_1       waiting  wait  7"}, []string{"--cursor abc"})
	u, err := url.Parse(p.last(t).target)
	if err != nil {
		t.Fatal(err)
	}
	want := url.Values{
		"journeyId": {"jrn_1"}, "version": {"2"}, "nodeId": {"wait"}, "status": {"waiting,paused"}, "leadsId": {"7"}, "launchId": {"lch_1"},
		"from": {"2026-01-01T00:00:00+02:00"}, "to": {"2027-01-01T00:00:00Z"}, "sort": {"createdAt"}, "limit": {"5"}, "cursor": {"x y"},
	}
	if got := fmt.Sprint(u.Query()); got != fmt.Sprint(want) {
		t.Errorf("got  %s\nwant %s", got, fmt.Sprint(want))
	}
}

func TestLeadsCreate(t *testing.T) {
	t.Parallel()
	for _, stdin := range []string{"name: Ada\nmobilePhone: [\"13800138000\"]\n", `{"businessParam":{"name":"Ada","mobilePhone":["13800138000"]}}`} {
		p := newPeer(t, map[string]func(request) reply{"POST /v1/leads": always(201, `{"leadsId":7,"name":"Ada"}`)})
		runCLI(t, p.environ(), stdin, "leads", "create", "-f", "-").want(t, 0, []string{"leadsId  7\n"}, nil)
		sameJSON(t, p.last(t).body, `{"businessParam":{"name":"Ada","mobilePhone":["13800138000"]}}`)
	}
}

func TestAPI(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{
		"GET /v1/things": always(200, `{"a":1,"b":"ü"}`), "POST /v1/things": always(201, ""),
		"DELETE /v1/things": always(409, `{"code":"Conflict","message":"in use","target":"","detail":[]}`),
	})
	r := runCLI(t, p.environ(), "", "api", "get", "/v1/things?b=2&a=1&&flag")
	r.want(t, 0, nil, nil)
	if r.stdout != "{\"a\":1,\"b\":\"ü\"}\n" {
		t.Errorf("got %q", r.stdout)
	}
	if got := p.last(t).target; got != "/v1/things?b=2&a=1&&flag" {
		t.Errorf("target %q", got)
	}
	for name, tt := range map[string]struct{ stdin, data, want string }{
		"argument": {"", `{"x":1}`, `{"x":1}`}, "stdin": {`{"x":2}`, "-", `{"x":2}`}, "file": {"", "@" + file(t, "b.json", `{"x":3}`), `{"x":3}`},
	} {
		runCLI(t, p.environ(), tt.stdin, "api", "POST", "/v1/things", "-d", tt.data, "-H", "Idempotency-Key: k1", "-H", "content-type: application/json;charset=UTF-8").
			want(t, 0, nil, nil)
		got := p.last(t)
		if got.body != tt.want || got.header.Get("Idempotency-Key") != "k1" || got.header.Get("Content-Type") != "application/json;charset=UTF-8" {
			t.Errorf("%s: body %q, headers %v", name, got.body, got.header)
		}
	}
	runCLI(t, p.environ(), "", "api", "-i", "DELETE", "/v1/things").
		want(t, 1, []string{"HTTP/1.1 409 Conflict\n", "Content-Length: ", `"in use"`}, []string{"waypost: Conflict: in use"})
}
