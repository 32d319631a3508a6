package main

import "testing"

func TestSubscriptionFlags(t *testing.T) {
	t.Parallel()
	const made = `{"id":"sub_1","name":"s","webhookId":"whk_1","on":["import.ended"],"journeyId":null,"createdAt":"2026-01-31T12:00:00.000Z","updatedAt":"2026-01-31T12:00:00.000Z"}`
	p := newPeer(t, map[string]func(request) reply{
		"POST /v1/subscriptions":         always(201, made),
		"GET /v1/subscriptions":          always(200, `{"items":[`+made+`],"nextCursor":null}`),
		"GET /v1/subscriptions/sub_1":    func(request) reply { return reply{200, made, map[string]string{"ETag": `"abc"`}} },
		"PATCH /v1/subscriptions/sub_1":  always(200, made),
		"DELETE /v1/subscriptions/sub_1": always(204, ""),
		"GET /v1/deliveries":             always(200, `{"items":[{"messageId":"msg_1","status":"succeeded","leadsId":null,"nodeId":null}],"nextCursor":null}`),
	})
	for _, tt := range []struct {
		args       []string
		call, body string
		shows      string
	}{
		{[]string{"create", "--name", "s", "--webhook", "whk_1", "--on", "import.ended,launch.ended", "--journey", "jrn_1"}, "POST",
			`{"name":"s","webhookId":"whk_1","on":["import.ended","launch.ended"],"journeyId":"jrn_1"}`, "sub_1"},
		{[]string{"update", "sub_1", "--on", "launch.ended", "--all-journeys"}, "PATCH", `{"on":["launch.ended"],"journeyId":null}`, "sub_1"},
		{[]string{"update", "sub_1", "--webhook", "whk_2", "--if-match", `"abc"`}, "PATCH", `{"webhookId":"whk_2"}`, "sub_1"},
	} {
		runCLI(t, p.environ(), "", append([]string{"subscriptions"}, tt.args...)...).want(t, 0, []string{tt.shows}, nil)
		if got := p.last(t); got.method != tt.call {
			t.Errorf("%v: %s", tt.args, got.method)
		}
		sameJSON(t, p.last(t).body, tt.body)
	}
	if got := p.last(t).header.Get("If-Match"); got != `"abc"` {
		t.Errorf("If-Match %s", got)
	}
	runCLI(t, p.environ(), "", "subscriptions", "list").want(t, 0, []string{"sub_1", "whk_1", "import.ended"}, nil)
	runCLI(t, p.environ(), "", "subscriptions", "show", "sub_1").want(t, 0, []string{"import.ended"}, nil)
	runCLI(t, p.environ(), "", "subscriptions", "show", "sub_1", "--etag").want(t, 0, []string{`"abc"`}, nil)
	runCLI(t, p.environ(), "", "subscriptions", "delete", "sub_1").want(t, 0, []string{"deleted sub_1"}, nil)
	runCLI(t, p.environ(), "", "deliveries", "list", "--subscription", "sub_1").want(t, 0, []string{"msg_1"}, nil)
	if got := p.last(t).target; got != "/v1/deliveries?limit=50&subscriptionId=sub_1" {
		t.Errorf("asked for %s", got)
	}
	sent := len(p.requests())
	runCLI(t, p.environ(), "", "subscriptions", "create", "--name", "s").want(t, 2, nil, []string{"a subscription needs --name, --webhook and --on"})
	runCLI(t, p.environ(), "", "subscriptions", "update", "sub_1").want(t, 2, nil, []string{"update needs what is to change"})
	runCLI(t, p.environ(), "", "subscriptions", "update", "sub_1", "--journey", "jrn_1", "--all-journeys").want(t, 2, nil, []string{"give one of them"})
	if len(p.requests()) != sent {
		t.Error("something was sent")
	}
}
