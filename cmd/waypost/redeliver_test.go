package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
	"waypost/store"
)

func TestRedeliver(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{
		"POST /v1/deliveries/msg_1/redeliver": always(202, `{"messageId":"msg_1","status":"pending","attempts":3,"leadsId":7,"nodeId":"hello","webhookId":"whk_1"}`),
		"POST /v1/deliveries/msg_2/redeliver": always(409, `{"code":"Conflict","message":"it is being delivered","target":"id","detail":[]}`),
		"GET /v1/deliveries":                  always(200, `{"items":[{"messageId":"msg_1","status":"deferred","deferredReason":"quietHours","attempts":0}],"nextCursor":null}`),
		"POST /v1/redeliveries":               always(202, `{"id":"rdl_1","status":"pending"}`),
		"GET /v1/redeliveries":                always(200, `{"items":[{"id":"rdl_1","status":"running","total":9,"redelivered":4}],"nextCursor":null}`),
		"GET /v1/redeliveries/rdl_1":          always(200, `{"id":"rdl_1","status":"running","total":9}`),
		"POST /v1/redeliveries/rdl_1/cancel":  always(200, `{"id":"rdl_1","status":"canceled"}`),
	})
	const row = "MESSAGE  STATUS   ATTEMPTS  LEAD  NODE   WEBHOOK\nmsg_1    pending  3         7     hello  whk_1\n"
	runCLI(t, p.environ(), "", "deliveries", "redeliver", "msg_1").want(t, 0, []string{row}, nil)
	if key := p.last(t).header.Get("Idempotency-Key"); !strings.HasPrefix(key, "redeliver-") {
		t.Errorf("key %q", key)
	}
	runCLI(t, p.environ(), "", "deliveries", "list").want(t, 0, []string{"msg_1    deferred (quietHours)               0 "}, nil)
	// What cannot be sent keeps nothing else from it.
	runCLI(t, p.environ(), "", "deliveries", "redeliver", "msg_2", "msg_1", "msg_3").want(t, 1, []string{row},
		[]string{"msg_2: Conflict: it is being delivered\n", "msg_3: NotFound", "2 of 3 messages are not sent again"})
	runCLI(t, p.environ(), "", "deliveries", "redeliver", "msg_2").want(t, 1, nil, []string{"waypost: Conflict"})
	r := runCLI(t, p.environ(), "", "-o", "json", "deliveries", "redeliver", "msg_2", "msg_3")
	sameJSON(t, r.stdout, `{"items":[]}`)
	r = runCLI(t, p.environ(), "", "-o", "json", "deliveries", "redeliver", "msg_1")
	sameJSON(t, r.stdout, `{"items":[{"messageId":"msg_1","status":"pending","attempts":3,"leadsId":7,"nodeId":"hello","webhookId":"whk_1"}]}`)

	for args, body := range map[string]string{
		"--all-failed":                 `{"filter":{}}`,
		"--webhook= --status canceled": `{"filter":{"webhookId":"","status":"canceled"}}`,
		"--journey jrn_1 --webhook whk_1 --lead 7 --enrollment enr_1 --launch lch_1 --status canceled --from a --to b": `{"filter":{"journeyId":"jrn_1","webhookId":"whk_1","leadsId":7,"enrollmentId":"enr_1","launchId":"lch_1","status":"canceled","from":"a","to":"b"}}`,
		"--node hello --error-class httpStatus --http-status 503 --status failed,canceled":                             `{"filter":{"nodeId":"hello","errorClass":"httpStatus","httpStatus":503,"status":"failed,canceled"}}`,
	} {
		runCLI(t, p.environ(), "", append([]string{"deliveries", "redeliver"}, strings.Fields(args)...)...).want(t, 0, []string{"id      rdl_1\n"}, nil)
		sameJSON(t, p.last(t).body, body)
	}
	runCLI(t, p.environ(), "", "deliveries", "redeliveries", "list").want(t, 0, []string{"rdl_1  running  9      4 "}, nil)
	runCLI(t, p.environ(), "", "deliveries", "redeliveries", "show", "rdl_1").want(t, 0, []string{"status  running\n"}, nil)
	runCLI(t, p.environ(), "", "deliveries", "redeliveries", "cancel", "rdl_1").want(t, 0, []string{"status  canceled\n"}, nil)
	sent := len(p.requests())
	for args, says := range map[string]string{
		"": "redeliver needs messages", "msg_1 --webhook whk_1": "not both", "msg_1 --all-failed": "not both", "msg_1 --watch": "--watch is for filters",
		"--all-failed --status failed": "leave it out", "--lead x": "no leadsId", "--lead= --status failed": "no leadsId", "--http-status 5xx": "no HTTP status", "--watch": "redeliver needs messages",
	} {
		runCLI(t, p.environ(), "", append([]string{"deliveries", "redeliver"}, strings.Fields(args)...)...).want(t, 2, nil, []string{says})
	}
	if n := len(p.requests()); n != sent {
		t.Errorf("%d of the faulty calls were sent", n-sent)
	}
}

// An answer that got lost is asked for again, with the same key.
func TestRedeliverAgain(t *testing.T) {
	t.Parallel()
	replies := []reply{{status: 503, body: "{}"}, {status: 409, body: "{}"}, {status: 202, body: `{"id":"rdl_1","status":"pending"}`}}
	calls := 0
	p := newPeer(t, map[string]func(request) reply{"POST /v1/redeliveries": func(request) reply {
		calls++
		return replies[calls-1]
	}})
	var stdout, stderr strings.Builder
	c := &cli{environ: p.environ(), stdout: &stdout, stderr: &stderr, output: outputTable, poll: time.Nanosecond}
	cl, err := c.client()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.redeliverAll(t.Context(), cl, map[string]any{}, false); err != nil || !strings.Contains(stdout.String(), "rdl_1") {
		t.Fatalf("%v, %q", err, stdout.String())
	}
	for _, r := range p.requests() {
		if r.header.Get("Idempotency-Key") != p.requests()[0].header.Get("Idempotency-Key") {
			t.Error("another key")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.redeliverAll(ctx, cl, map[string]any{}, false); err == nil || err.Error() != "interrupted" {
		t.Errorf("error %v", err)
	}
}

func TestRedeliveryWatch(t *testing.T) {
	t.Parallel()
	looks := 0
	bodies := []string{
		`{"id":"rdl_1","status":"pending"}`,
		`{"id":"rdl_1","status":"running","total":8,"redelivered":5,"skipped":1,"succeeded":2,"failed":1}`,
		`{"id":"rdl_1","status":"completed","total":8,"redelivered":7,"skipped":1,"succeeded":5,"failed":1,"canceled":1}`,
	}
	p := newPeer(t, map[string]func(request) reply{
		"GET /v1/redeliveries/rdl_1": func(request) reply { looks++; return reply{status: 200, body: bodies[looks-1]} },
		"GET /v1/redeliveries/rdl_2": always(200, `{"id":"rdl_2","status":"failed","message":"no \u001bkey"}`),
		"GET /v1/redeliveries/rdl_3": always(200, `{"id":"rdl_3","status":"running"}`),
	})
	var stdout, stderr strings.Builder
	c := &cli{environ: p.environ(), stdout: &stdout, stderr: &stderr, output: outputTable, poll: time.Nanosecond, terminal: true}
	cl, err := c.client()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.watchRedelivery(t.Context(), cl, "rdl_1"); err != nil {
		t.Fatal(err)
	}
	const want = "\r\x1b[K░░░░░░░░░░░░░░░░░░░░   0 %  rdl_1 pending" +
		"\r\x1b[K██████████░░░░░░░░░░  50 %  rdl_1 running, 5 of 8 sent again, 2 succeeded, 1 failed, 1 skipped" +
		"\r\x1b[K████████████████████ 100 %  rdl_1 completed, 7 of 8 sent again, 5 succeeded, 1 failed, 1 canceled, 1 skipped\n"
	if stderr.String() != want || !strings.Contains(stdout.String(), "completed") {
		t.Errorf("got %q, want %q; %q", stderr.String(), want, stdout.String())
	}
	if err := c.watchRedelivery(t.Context(), cl, "rdl_2"); err == nil || err.Error() != "the redelivery failed: no  key" {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.poll = time.Hour
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := c.watchRedelivery(ctx, cl, "rdl_3"); err == nil || !strings.Contains(err.Error(), "the redelivery goes on: `waypost deliveries redeliveries show rdl_3 --watch`") {
		t.Errorf("error %v", err)
	}
}

// decidedDeliveries makes deliveries in a gateway's database that have failed, or were
// canceled, as a worker does, and returns their messages.
func decidedDeliveries(t *testing.T, db *store.Store, status waypost.DeliveryStatus, journey, webhook string, leads ...int64) []string {
	t.Helper()
	sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	var messages, enrollments []string
	var openings []delivery.Opening
	var records []delivery.AttemptRecord
	for _, lead := range leads {
		e, err := db.Enroll(t.Context(), sc, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead, AppID: "app_1"}, waypost.Reentry{Policy: waypost.ReentryAlways})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		key, id := waypost.Touchpoint{EnrollmentID: e.ID, Visit: 1}, waypost.NewID(waypost.PrefixMessage, now)
		messages = append(messages, id)
		openings = append(openings, delivery.Opening{
			Touchpoint: key, Scope: sc, Attempt: 1, At: now, By: "test", Body: fmt.Appendf(nil, `{"messageId":%q}`, id),
			Delivery: waypost.Delivery{MessageID: id, JourneyID: journey, JourneyVersion: 1, NodeID: "hello", WebhookID: webhook, LeadsID: lead},
		})
		record := delivery.AttemptRecord{
			Touchpoint: key, Scope: sc, Round: 1, Attempt: 1, Status: waypost.DeliveryFailed,
			Outcome: waypost.Outcome{HTTPStatus: 404, ErrorClass: waypost.ClassHTTPStatus, At: now},
		}
		if status == waypost.DeliveryCanceled {
			record.Status, record.NextAttemptAt = waypost.DeliveryRetrying, now.Add(time.Hour)
			enrollments = append(enrollments, e.ID)
		}
		records = append(records, record)
	}
	if _, err := db.OpenAttempts(t.Context(), openings); err != nil {
		t.Fatal(err)
	}
	if err := db.RecordAttempts(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	for _, id := range enrollments {
		if _, err := db.CancelEnrollment(t.Context(), sc, id); err != nil {
			t.Fatal(err)
		}
	}
	return messages
}

// openStore opens the database of a deployment beside its gateway.
func openStore(t *testing.T, environ []string) *store.Store {
	t.Helper()
	settings := map[string]string{}
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		settings[name] = value
	}
	keys, err := waypost.ParseKeyring(settings["WAYPOST_ENCRYPTION_KEYS"])
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), settings["WAYPOST_DATABASE_URL"], keys, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Redelivering against the gateway that it is written for.
func TestRedeliverOfGateway(t *testing.T) {
	t.Parallel()
	environ := deployment(t)
	client := clientOf(t, environ)
	db := openStore(t, environ)
	do := func(member, stdin string, args ...string) string { return memberOf(t, client, member, stdin, args...) }
	webhook := do("id", "", "webhooks", "create", "--name", "w", "--url", "http://127.0.0.1:1/hook")
	journey := do("journeyId", strings.ReplaceAll(definition, "whk_1", webhook), "journeys", "apply", "-f", "-", "--publish")
	var leads []int64
	for i := range 3 {
		var n int64
		if _, err := fmt.Sscan(do("leadsId", "", "leads", "create", "--name", fmt.Sprint("Lead ", i)), &n); err != nil {
			t.Fatal(err)
		}
		leads = append(leads, n)
	}
	messages := decidedDeliveries(t, db, waypost.DeliveryFailed, journey, webhook, leads...)
	runCLI(t, client, "", "deliveries", "redeliver", messages[0]).want(t, 0, []string{messages[0] + "  pending "}, nil)
	runCLI(t, client, "", "deliveries", "redeliver", messages[0], "msg_none").want(t, 1, nil, []string{messages[0] + ": Conflict", "msg_none: NotFound", "2 of 2"})
	runCLI(t, client, "", "deliveries", "redeliver", "--status", "pending", "--webhook", "whk_1").want(t, 1, nil, []string{"filter.status", "filter.webhookId"})
	runCLI(t, client, "", "deliveries", "redeliver", "--status", "failed", "--webhook", "").want(t, 1, nil, []string{"filter.webhookId"})
	runCLI(t, client, "", "deliveries", "list", "--webhook", "").want(t, 1, nil, []string{"webhookId: is empty"})
	bulk := do("id", "", "deliveries", "redeliver", "--webhook", webhook, "--from", "2026-01-01T00:00:00Z")
	runCLI(t, client, "", "deliveries", "redeliveries", "list").want(t, 0, []string{bulk}, nil)
	runCLI(t, client, "", "deliveries", "redeliveries", "show", bulk).want(t, 0, []string{`"webhookId":"` + webhook + `"`}, nil)
	runCLI(t, client, "", "deliveries", "redeliveries", "cancel", bulk).want(t, 0, []string{"canceled"}, nil)
	runCLI(t, client, "", "deliveries", "redeliveries", "show", bulk, "--watch").want(t, 0, []string{"endedAt"}, []string{bulk + " canceled"})
	runCLI(t, client, "", "deliveries", "redeliveries", "show", "rdl_none").want(t, 1, nil, []string{"NotFound"})
}
