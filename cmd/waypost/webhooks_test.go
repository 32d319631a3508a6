package main

import "testing"

// What is given as files goes out as their text; what a file and flags say of one
// object goes together.
func TestWebhookTLSFlags(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{
		"POST /v1/webhooks":        always(201, `{"id":"whk_1"}`),
		"PATCH /v1/webhooks/whk_1": always(200, `{"id":"whk_1"}`),
		"GET /v1/webhooks/whk_1":   func(request) reply { return reply{200, `{"id":"whk_1"}`, map[string]string{"ETag": `"abc"`}} },
		"PATCH /v1/webhooks/whk_2": always(412, `{"code":"PreconditionFailed","message":"it was changed","target":"If-Match","detail":[]}`),
	})
	ca, cert, key := file(t, "ca.pem", "authority\n"), file(t, "cert.pem", "certificate\n"), file(t, "key.pem", "key\n")
	for _, tt := range []struct {
		stdin string
		args  []string
		call  string
		body  string
	}{
		{"", []string{"create", "--name", "w", "--url", "https://x", "--ca-file", ca, "--client-cert-file", cert, "--client-key-file", key}, "POST",
			`{"name":"w","url":"https://x","tls":{"caCertificate":"authority\n","clientCertificate":"certificate\n","clientKey":"key\n"}}`},
		{"name: w\nurl: https://x\nparams: {a: x, b: y}\ntls: {caCertificate: theirs, clientCertificate: other}\n", []string{"create", "-f", "-", "--client-cert-file", cert, "--client-key-file", key, "--param", "b=z"}, "POST",
			`{"name":"w","url":"https://x","params":{"a":"x","b":"z"},"tls":{"caCertificate":"theirs","clientCertificate":"certificate\n","clientKey":"key\n"}}`},
		{"tls: null\n", []string{"update", "whk_1", "-f", "-", "--ca-file", ca}, "PATCH", `{"tls":{"caCertificate":"authority\n"}}`},
		{"", []string{"update", "whk_1", "--ca-file", ca, "--clear", "tls.clientKey", "--clear", "tls.clientCertificate", "--clear", "rateLimit"}, "PATCH",
			`{"rateLimit":null,"tls":{"caCertificate":"authority\n","clientCertificate":null,"clientKey":null}}`},
		{"", []string{"update", "whk_1", "--clear", "tls", "--basic-auth", "u:p"}, "PATCH", `{"tls":null,"basicAuth":{"username":"u","password":"p"}}`},
	} {
		runCLI(t, p.environ(), tt.stdin, append([]string{"webhooks"}, tt.args...)...).want(t, 0, []string{"whk_1"}, nil)
		if got := p.last(t); got.method != tt.call {
			t.Errorf("%v: %s", tt.args, got.method)
		}
		sameJSON(t, p.last(t).body, tt.body)
	}
	runCLI(t, p.environ(), "", "webhooks", "show", "whk_1", "--etag").want(t, 0, []string{`"abc"`}, nil)
	runCLI(t, p.environ(), "", "webhooks", "update", "whk_1", "--timeout-ms", "5", "--if-match", `"abc"`).want(t, 0, nil, nil)
	if got := p.last(t).header.Get("If-Match"); got != `"abc"` {
		t.Errorf("If-Match %s", got)
	}
	runCLI(t, p.environ(), "", "webhooks", "update", "whk_2", "--timeout-ms", "5").want(t, 1, nil, []string{`--if-match "$(waypost webhooks show whk_2 --etag)"`})
	sent := len(p.requests())
	runCLI(t, p.environ(), "", "webhooks", "update", "whk_1", "--ca-file", file(t, "none.pem", "")).want(t, 1, nil, []string{"none.pem is empty: it must hold PEM"})
	runCLI(t, p.environ(), "", "webhooks", "update", "whk_1", "--ca-file", "nowhere.pem").want(t, 1, nil, []string{"read nowhere.pem"})
	runCLI(t, p.environ(), "", "webhooks", "update", "whk_1", "--client-key-file=").want(t, 2, nil, []string{`--client-key-file" flag: it is empty`})
	if len(p.requests()) != sent {
		t.Error("something was sent")
	}
}

func TestWebhookHealth(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{
		"GET /v1/webhooks/whk_1/health": always(200, `{"webhookId":"whk_1","enabled":false,"disabledReason":"410",
			"breaker":{"state":"open","since":"2026-01-31T11:58:02.000Z","nextProbeAt":"2026-01-31T12:00:09.000Z"},
			"waiting":{"retrying":20,"deferred":10000,"reasons":[{"reason":"breakerOpen","count":10000,"since":"2026-01-31T11:58:02.000Z"}]},
			"lastHour":{"attempts":2000,"succeeded":1977,"failed":23,"successRate":0.9885,"latencyMs":{"p50":42,"p95":130,"p99":480,"max":15001},"errors":{"timeout":3,"network":20}},
			"lastDay":{"attempts":0,"succeeded":0,"failed":0,"successRate":null,"latencyMs":null,"errors":{}},
			"lastSuccessAt":"2026-01-31T11:58:00.000Z","sampledSince":"2026-01-31T11:00:00.000Z",
			"lastErrors":[{"at":"2026-01-31T11:59:32.000Z","messageId":"msg_1","attempt":2,"httpStatus":null,"errorClass":"network","durationMs":2}]}`),
		"GET /v1/webhooks/whk_2/health": always(200, `{"webhookId":"whk_2","enabled":true,"disabledReason":null,"breaker":{"state":"closed","since":null,"nextProbeAt":null},
			"waiting":{"retrying":0,"deferred":0,"reasons":[]},"lastErrors":[]}`),
	})
	r := runCLI(t, p.environ(), "", "webhooks", "health", "whk_1")
	r.want(t, 0, nil, nil)
	const want = `webhook        whk_1
enabled        no, disabled because of 410
breaker        open since 2026-01-31T11:58:02.000Z, next probe 2026-01-31T12:00:09.000Z
deferred       10000 or more for breakerOpen, since 2026-01-31T11:58:02.000Z
retrying       20
last hour      2000 attempts, 98.85% succeeded; p50 42 ms, p95 130 ms, p99 480 ms, max 15001 ms; 20 network, 3 timeout
last 24 hours  no attempts
last success   2026-01-31T11:58:00.000Z
counted since  2026-01-31T11:00:00.000Z, of the newest messages only

LAST ERRORS               MESSAGE  ATTEMPT  CLASS    STATUS  MS
2026-01-31T11:59:32.000Z  msg_1    2        network          2
`
	if r.stdout != want {
		t.Errorf("got\n%swant\n%s", r.stdout, want)
	}
	r = runCLI(t, p.environ(), "", "webhooks", "health", "whk_2")
	if want := "webhook        whk_2\nenabled        yes\nbreaker        closed\nretrying       0\nlast hour      no attempts\nlast 24 hours  no attempts\n"; r.stdout != want {
		t.Errorf("got\n%swant\n%s", r.stdout, want)
	}
	runCLI(t, p.environ(), "", "webhooks", "health", "whk_3").want(t, 1, nil, []string{"NotFound"})
}

func TestWebhookHistory(t *testing.T) {
	t.Parallel()
	const history = `{"series":[{"from":"2026-01-31T10:00:00.000Z","attempts":0,"succeeded":0,"failed":0,"p50Ms":null,"p99Ms":null},
		{"from":"2026-01-31T11:00:00.000Z","attempts":1000,"succeeded":750,"failed":250,"p50Ms":41,"p99Ms":480},
		{"from":"2026-01-31T12:00:00.000Z","attempts":100,"succeeded":99,"failed":1,"p50Ms":40,"p99Ms":60},
		{"from":"2026-01-31T13:00:00.000Z","attempts":1,"succeeded":1,"failed":0,"p50Ms":40,"p99Ms":40}]}`
	p := newPeer(t, map[string]func(request) reply{
		"GET /v1/webhooks/whk_1/history": always(200, history),
		"GET /v1/webhooks/whk_2/history": always(200, `{"series":[]}`),
		"GET /v1/webhooks/history":       always(200, `{"series":[{"from":"2026-01-31T11:00:00.000Z","attempts":4,"succeeded":3,"failed":1}]}`),
	})
	r := runCLI(t, p.environ(), "", "webhooks", "history", "whk_1")
	r.want(t, 0, nil, nil)
	const want = "FROM                      ATTEMPTS  SUCCEEDED  FAILED  P50 MS  P99 MS  \n" +
		"2026-01-31T11:00:00.000Z  1000      750        250     41      480     ███████████████░░░░░\n" +
		"2026-01-31T12:00:00.000Z  100       99         1       40      60      █░\n" +
		"2026-01-31T13:00:00.000Z  1         1          0       40      40      █\n"
	if r.stdout != want {
		t.Errorf("got\n%swant\n%s", r.stdout, want)
	}
	r = runCLI(t, p.environ(), "", "webhooks", "history", "whk_1", "--every", "day", "--from", "a", "--to", "b", "-o", "json")
	sameJSON(t, r.stdout, history)
	if got := p.last(t).target; got != "/v1/webhooks/whk_1/history?every=day&from=a&to=b" {
		t.Errorf("asked for %s", got)
	}
	const all = "FROM                      ATTEMPTS  SUCCEEDED  FAILED  P50 MS  P99 MS  \n" +
		"2026-01-31T11:00:00.000Z  4         3          1                       ███████████████░░░░░\n"
	if r = runCLI(t, p.environ(), "", "webhooks", "history"); r.stdout != all {
		t.Errorf("got\n%swant\n%s", r.stdout, all)
	}
	runCLI(t, p.environ(), "", "webhooks", "history", "whk_2").want(t, 0, []string{"FROM"}, nil)
	runCLI(t, p.environ(), "", "webhooks", "history", "whk_3").want(t, 1, nil, []string{"NotFound"})
}
