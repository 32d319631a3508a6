package gateway_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
	"waypost/gateway"
)

func TestDeliveries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook, journeyID := f.welcoming()
	scope := waypost.Scope{Org: testOrg, Stage: waypost.StageRelease}

	var enrollments []string
	var leads []int64
	var messages []string
	for i := range 3 {
		lead := f.newLead(fmt.Sprint("lead ", i))
		e := f.send("POST", "/v1/journeys/"+journeyID+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, lead)).expect(t, 202).str(t, "enrollmentId")
		f.clock.advance(time.Minute)
		message := waypost.NewID(waypost.PrefixMessage, f.clock.Now())
		sent := waypost.Delivery{MessageID: message, JourneyID: journeyID, JourneyVersion: 1, NodeID: "hello", WebhookID: hook, LeadsID: lead}
		touchpoint := waypost.Touchpoint{EnrollmentID: e, Visit: 1}
		sendings, err := f.store.OpenAttempts(t.Context(), []delivery.Opening{{
			Touchpoint: touchpoint, Scope: scope, Delivery: sent, Body: []byte(`{"messageId":"` + message + `"}`),
			Attempt: 1, At: f.clock.Now(), By: "test",
		}})
		if err != nil || len(sendings) != 1 {
			t.Fatalf("%v, %v", sendings, err)
		}
		enrollments, leads, messages = append(enrollments, e), append(leads, lead), append(messages, message)
		if i == 2 {
			continue // the third one is under way
		}
		record := delivery.AttemptRecord{
			Touchpoint: touchpoint, Scope: scope, MessageID: message, Delivery: sent, Round: 1, Attempt: 1, Status: waypost.DeliverySucceeded,
			Outcome: waypost.Outcome{Succeed: true, HTTPStatus: 200, At: f.clock.Now(), Duration: 12 * time.Millisecond},
		}
		if i == 1 {
			record.Status, record.NextAttemptAt = waypost.DeliveryRetrying, f.clock.Now().Add(5*time.Second)
			record.Outcome = waypost.Outcome{ErrorClass: waypost.ClassHTTPStatus, HTTPStatus: 503, Message: "HTTP 503", Excerpt: "busy", At: f.clock.Now(), Duration: time.Millisecond}
		}
		if err := f.store.RecordAttempts(t.Context(), []delivery.AttemptRecord{record}); err != nil {
			t.Fatal(err)
		}
	}

	ids := func(query string) string {
		t.Helper()
		var out []string
		for _, item := range f.get("/v1/deliveries"+query).expect(t, 200).json["items"].([]any) {
			out = append(out, item.(map[string]any)["messageId"].(string))
		}
		return strings.Join(out, " ")
	}
	newest := func(want ...int) string {
		var out []string
		for _, i := range want {
			out = append(out, messages[i])
		}
		return strings.Join(out, " ")
	}
	for query, want := range map[string]string{
		"":                                   newest(2, 1, 0),
		"?limit=2":                           newest(2, 1),
		"?status=succeeded":                  newest(0),
		"?status=retrying":                   newest(1),
		"?status=pending":                    newest(2),
		"?status=canceled":                   "",
		"?journeyId=" + journeyID:            newest(2, 1, 0),
		"?journeyId=jrn_other":               "",
		"?webhookId=" + hook:                 newest(2, 1, 0),
		"?enrollmentId=" + enrollments[1]:    newest(1),
		fmt.Sprintf("?leadsId=%d", leads[0]): newest(0),
		"?launchId=lch_none":                 "",
		"?nodeId=hello":                      newest(2, 1, 0),
		"?nodeId=" + journeyID:               "",
		"?errorClass=httpStatus":             newest(1),
		"?errorClass=timeout":                "",
		"?httpStatus=503":                    newest(1),
		"?httpStatus=200":                    newest(0),
		"?status=pending,retrying":           newest(2, 1),
		"?status=succeeded,failed,retrying&errorClass=httpStatus":     newest(1),
		"?from=2026-01-31T12:02:00Z":                                  newest(2, 1),
		"?to=2026-01-31T12:02:00Z":                                    newest(0),
		"?from=2026-01-31T20:02:00%2B08:00&to=2026-01-31T12:02:30.5Z": newest(1),
	} {
		if got := ids(query); got != want {
			t.Errorf("%s:\n got %s\nwant %s", query, got, want)
		}
	}
	cursor := f.get("/v1/deliveries?limit=2&webhookId="+hook).str(t, "nextCursor")
	if got := ids("?limit=2&webhookId=" + hook + "&cursor=" + cursor); got != newest(0) {
		t.Errorf("second page: %s", got)
	}
	f.get("/v1/deliveries?limit=2&cursor="+cursor).fault(t, 400, "BadRequest", "InvalidFormat cursor")
	f.get("/v1/deliveries?limit=2&webhookId=whk_other&cursor="+cursor).fault(t, 400, "BadRequest", "InvalidFormat cursor")
	f.get("/v1/deliveries?status=done&from=yesterday&leadsId=0&nope=1").fault(t, 400, "BadRequest",
		"UnknownField nope", "OutOfRange leadsId", "InvalidFormat from", "InvalidFormat status")
	f.get("/v1/deliveries?status=failed,failed&errorClass=http&httpStatus=99").fault(t, 400, "BadRequest",
		"Duplicate status", "OutOfRange errorClass", "OutOfRange httpStatus")
	f.get("/v1/deliveries?status=failed,&httpStatus=5xx").fault(t, 400, "BadRequest", "InvalidFormat status", "InvalidType httpStatus")
	// PostgreSQL knows no year 0.
	f.get("/v1/deliveries?from=0000-12-31T23:59:59Z&to=0001-01-01T00:00:00%2B01:00").fault(t, 400, "BadRequest", "OutOfRange from", "OutOfRange to")
	f.get("/v1/deliveries?from=0001-01-01T00:00:00Z&to=9999-12-31T23:59:59.999Z").expect(t, 200)
	f.get("/v1/deliveries?from=2026-01-31T12:00:00.001Z&to=2026-01-31T20:00:00%2B08:00").fault(t, 400, "BadRequest", "OutOfRange from")
	f.get("/v1/deliveries?from=2026-01-31T12:00:00Z&to=2026-01-31T20:00:00%2B08:00").expect(t, 200)

	// One that succeeded, one in retry, one that is under way.
	common := func(i int) string {
		return fmt.Sprintf(`{"messageId":"%s","enrollmentId":"%s","journeyId":"%s","journeyVersion":1,"nodeId":"hello","subscriptionId":null,"webhookId":"%s","leadsId":%d,`, messages[i], enrollments[i], journeyID, hook, leads[i])
	}
	request := func(i int) string {
		return fmt.Sprintf(`"request":{"method":"POST","url":"https://example.com/hook","headers":{"Connection":"keep-alive","Content-Length":"%d","Content-Type":"application/json","Host":"example.com","User-Agent":"Waypost/%s"},"body":{"messageId":"%s"}},"payloadDropped":false,"payloadUnreadable":false}`,
			len(messages[i])+16, waypost.ProductVersion, messages[i])
	}
	for i, want := range []string{
		`"status":"succeeded","deferredReason":null,"succeed":true,"message":null,"httpStatus":200,"errorClass":null,"attempts":1,"nextAttemptAt":null,"firstAttemptAt":"2026-01-31T12:01:00.000Z","lastAttemptAt":"2026-01-31T12:01:00.000Z","durationMs":12,"gaveUp":null,` +
			fmt.Sprintf(`"temporalUrl":"http://ui/%s/%d",`, journeyID, leads[0]) +
			`"attemptLog":[{"attempt":1,"round":1,"at":"2026-01-31T12:01:00.000Z","httpStatus":200,"errorClass":null,"message":null,"durationMs":12,"responseExcerpt":null,"gaveUp":null}],`,
		`"status":"retrying","deferredReason":null,"succeed":null,"message":"HTTP 503","httpStatus":503,"errorClass":"httpStatus","attempts":1,"nextAttemptAt":"2026-01-31T12:02:05.000Z","firstAttemptAt":"2026-01-31T12:02:00.000Z","lastAttemptAt":"2026-01-31T12:02:00.000Z","durationMs":1,"gaveUp":null,` +
			fmt.Sprintf(`"temporalUrl":"http://ui/%s/%d",`, journeyID, leads[1]) +
			`"attemptLog":[{"attempt":1,"round":1,"at":"2026-01-31T12:02:00.000Z","httpStatus":503,"errorClass":"httpStatus","message":"HTTP 503","durationMs":1,"responseExcerpt":"busy","gaveUp":null}],`,
		"",
	} {
		a := f.get("/v1/deliveries/"+messages[i]).expect(t, 200)
		if want == "" {
			if a.json["status"] != "pending" || a.json["succeed"] != nil || a.json["httpStatus"] != nil || a.json["durationMs"] != nil || len(a.json["attemptLog"].([]any)) != 0 {
				t.Errorf("under way: %s", a.raw)
			}
			continue
		}
		if full := common(i) + want + request(i); a.raw != full {
			t.Errorf("delivery %d\n got %s\nwant %s", i, a.raw, full)
		}
	}
	// Why one has failed for good stands at the delivery and at its last attempt.
	err := f.store.RecordAttempts(t.Context(), []delivery.AttemptRecord{{
		Touchpoint: waypost.Touchpoint{EnrollmentID: enrollments[1], Visit: 1}, Scope: scope, MessageID: messages[1], Round: 1, Attempt: 2,
		Status: waypost.DeliveryFailed, GaveUp: waypost.GaveUpTime,
		Outcome: waypost.Outcome{HTTPStatus: 503, ErrorClass: waypost.ClassHTTPStatus, Message: "HTTP 503", At: f.clock.Now()},
	}})
	if err != nil {
		t.Fatal(err)
	}
	const why = "HTTP 503; given up: the time of retry.giveUpAfter is over"
	failed := f.get("/v1/deliveries/"+messages[1]).expect(t, 200)
	log := failed.json["attemptLog"].([]any)
	first, last := log[0].(map[string]any), log[1].(map[string]any)
	if failed.json["gaveUp"] != "giveUpAfter" || failed.json["message"] != why || last["gaveUp"] != "giveUpAfter" || last["message"] != why ||
		first["gaveUp"] != nil || first["message"] != "HTTP 503" {
		t.Errorf("given up: %s", failed.raw)
	}
	if got := f.get("/v1/deliveries?status=failed").expect(t, 200); !strings.Contains(got.raw, `"gaveUp":"giveUpAfter"`) || !strings.Contains(got.raw, why) {
		t.Errorf("listed: %s", got.raw)
	}
	group := `,"count":1,"lastAt":"2026-01-31T12:03:00.000Z","sampleMessageId":"` + messages[1] + `","message":"` + why + `"}]}`
	for query, want := range map[string]string{
		"":                              `{"groups":[{"errorClass":"httpStatus","httpStatus":503` + group,
		"?groupBy=nodeId":               `{"groups":[{"nodeId":"hello"` + group,
		"?groupBy=webhookId,errorClass": `{"groups":[{"errorClass":"httpStatus","webhookId":"` + hook + `"` + group,
		"?groupBy=httpStatus&status=failed,canceled&journeyId=" + journeyID: `{"groups":[{"httpStatus":503` + group,
		"?groupBy=httpStatus&status=retrying":                               `{"groups":[]}`,
		"?groupBy=errorClass,httpStatus&status=pending":                     `{"groups":[{"errorClass":null,"httpStatus":null,"count":1,"lastAt":null,"sampleMessageId":"` + messages[2] + `","message":null}]}`,
	} {
		if got := f.get("/v1/deliveries/summary"+query).expect(t, 200); got.raw != want {
			t.Errorf("%s:\n got %s\nwant %s", query, got.raw, want)
		}
	}
	unknown := f.get("/v1/deliveries/summary?groupBy=errorClass,leadsId&status=done").fault(t, 400, "BadRequest", "InvalidFormat status", "OutOfRange groupBy")
	if !strings.Contains(unknown.raw, "errorClass, httpStatus, webhookId, nodeId") {
		t.Errorf("it does not say what there is: %s", unknown.raw)
	}
	f.get("/v1/deliveries/summary?groupBy=nodeId,nodeId").fault(t, 400, "BadRequest", "Duplicate groupBy")
	f.get("/v1/deliveries/summary?limit=1&cursor=x").fault(t, 400, "BadRequest", "UnknownField limit", "UnknownField cursor")
	f.do(call{method: "GET", target: "/v1/deliveries/summary", headers: map[string]string{"X-Cloud-Stage": "test"}}).expect(t, 200)
	f.get("/v1/deliveries/msg_nope").fault(t, 404, "NotFound")
	f.do(call{method: "GET", target: "/v1/deliveries/" + messages[0], headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
}

// A message whose key is missing is told to be there and unreadable; the rest of its
// delivery is shown, and so is its webhook's URL.
func TestUnreadablePayload(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook, id := f.welcoming()
	lost := f.lost()
	message, _ := lost.deliver(id, hook, f.newLead("Ada"), waypost.DeliveryFailed)
	readable, _ := f.deliver(id, hook, f.newLead("Alan"), waypost.DeliveryFailed)
	if _, err := lost.store.UpdateWebhook(t.Context(), release, hook, func(w *waypost.Webhook) error { w.SigningSecret = secretOf32Bytes; return nil }); err != nil {
		t.Fatal(err)
	}
	a := f.get("/v1/deliveries/"+message).expect(t, 200)
	for _, want := range []string{
		`"status":"failed"`, `"attempts":1,`, `"url":"https://example.com/hook"`, `"body":null`, `"payloadDropped":false`, `"payloadUnreadable":true`,
		`"message":"the answer cannot be read at the moment"`,
	} {
		if !strings.Contains(a.raw, want) {
			t.Errorf("no %s in %s", want, a.raw)
		}
	}
	if strings.Contains(a.raw, "lost") || strings.Contains(a.raw, "KEYS") || strings.Contains(a.raw, "Content-Length") {
		t.Errorf("it tells too much: %s", a.raw)
	}
	if a := f.get("/v1/deliveries/"+readable).expect(t, 200); !strings.Contains(a.raw, `"body":{}`) || a.json["payloadUnreadable"] != false {
		t.Errorf("got %s", a.raw)
	}
}

// An export has what the list has, in both forms, and says how much that is.
func TestExportDeliveries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook, id := f.welcoming()
	for i := range 3 {
		f.deliver(id, hook, f.newLead(fmt.Sprint("lead ", i)), waypost.DeliverySucceeded)
	}
	failed, _ := f.deliver(id, hook, f.newLead("=1+1"), waypost.DeliveryFailed)
	listed := f.get("/v1/deliveries").expect(t, 200).json["items"].([]any)
	for _, query := range []string{"", "format=ndjson"} {
		got, res := f.exported("release", "/v1/deliveries/export", query)
		lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
		for i, item := range listed {
			var exported map[string]any
			if err := json.Unmarshal([]byte(lines[i]), &exported); err != nil || !reflect.DeepEqual(exported, item) {
				t.Errorf("%v, line %d is %s", err, i, lines[i])
			}
		}
		if len(lines) != 5 || lines[4] != `{"end":true,"count":4}` || res.Header.Get("Content-Disposition") != `attachment; filename="deliveries.ndjson"` {
			t.Errorf("%v, ends with %s", res.Header, lines[len(lines)-1])
		}
	}
	got, res := f.exported("release", "/v1/deliveries/export", "format=csv&bom=true")
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(got, "\uFEFF"))).ReadAll()
	if err != nil || len(rows) != 5 || !strings.HasPrefix(got, "\uFEFFmessageId,enrollmentId,") || res.Trailer.Get("X-Waypost-Count") != "4" {
		t.Fatalf("%v, %d rows, trailer %v: %s", err, len(rows), res.Trailer, got)
	}
	for i, item := range listed {
		for c, name := range rows[0] {
			value, there := item.(map[string]any)[name]
			want := ""
			switch v := value.(type) {
			case string:
				want = v
			case bool, float64:
				want = fmt.Sprint(v)
			}
			if !there || rows[i+1][c] != want || len(rows[0]) != len(item.(map[string]any)) {
				t.Errorf("row %d, column %s: %q, want %q", i, name, rows[i+1][c], want)
			}
		}
	}
	if got, res := f.exported("release", "/v1/deliveries/export", "format=csv&status=failed,canceled"); strings.Count(got, "msg_") != 1 || !strings.Contains(got, failed) || res.Trailer.Get("X-Waypost-Count") != "1" {
		t.Errorf("those that failed: %s", got)
	}
	if got, _ := f.exported("test", "/v1/deliveries/export", ""); got != `{"end":true,"count":0}`+"\n" {
		t.Errorf("another stage: %s", got)
	}
	f.get("/v1/deliveries/export?format=xml&bom=true&status=x").fault(t, 400, "BadRequest", "InvalidFormat status", "OutOfRange format", "OutOfRange bom")
	f.get("/v1/deliveries/export?limit=5").fault(t, 400, "BadRequest", "UnknownField limit")
}

// brokenDeliveries are deliveries whose export ends too soon, but not at once.
type brokenDeliveries struct{ gateway.Deliveries }

func (b brokenDeliveries) ExportDeliveries(_ context.Context, _ waypost.Scope, _ waypost.DeliveryFilter, each func(waypost.Delivery) error) error {
	for range 2000 {
		if err := each(waypost.Delivery{MessageID: "msg_1"}); err != nil {
			return err
		}
	}
	return errors.New("the connection is gone")
}

func TestExportDeliveriesCutOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *gateway.Options) { o.Deliveries = brokenDeliveries{o.Deliveries} })
	for _, format := range []string{"ndjson", "csv"} {
		f.cutOff("/v1/deliveries/export?format=" + format)
	}
}

// Who may read deliveries may group and export them, and nobody else; an export is refused
// while it could be a replay.
func TestGrantsOfDeliveries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var others []waypost.Grant
	for _, g := range waypost.AllGrants {
		if g != waypost.GrantDeliveriesRead {
			others = append(others, g)
		}
	}
	with, without := keyOf(f.newApp(waypost.GrantDeliveriesRead)), keyOf(f.newApp(others...))
	for _, target := range []string{"/v1/deliveries", "/v1/deliveries/summary", "/v1/deliveries/export"} {
		if a := f.do(call{method: "GET", target: target, key: &without}).fault(t, 401, "Unauthorized"); detailOf(a) != "GrantMissing" {
			t.Errorf("%s: %s", target, a.raw)
		}
		f.do(call{method: "HEAD", target: target, key: &with}).expect(t, 200)
	}
	f.redis.SetError("away")
	defer f.redis.SetError("")
	f.get("/v1/deliveries/summary").expect(t, 200)
	f.get("/v1/deliveries/export").fault(t, 503, "ServiceUnavailable")
}
