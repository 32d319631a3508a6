package main

import "testing"

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
