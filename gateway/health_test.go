package gateway_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"waypost"
	"waypost/delivery"
	"waypost/limits"
)

// health asks for a webhook's health, as far as it is read here.
func (f *fixture) health(id string) (h struct {
	Enabled        bool
	DisabledReason *string
	Breaker        struct{ State, Since, NextProbeAt string }
	Waiting        struct {
		Retrying, Deferred int
		Reasons            []struct{ Reason, Since string }
	}
	LastHour, LastDay struct {
		Attempts, Succeeded, Failed int
		SuccessRate                 *float64
		LatencyMs                   *struct{ P50, P95, P99, Max int }
	}
	LastErrors []map[string]any
}) {
	f.t.Helper()
	if err := json.Unmarshal([]byte(f.get("/v1/webhooks/"+id+"/health").expect(f.t, 200).raw), &h); err != nil {
		f.t.Fatal(err)
	}
	return h
}

func TestWebhookHealth(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.redis.SetTime(f.clock.Now())
	hook := f.newWebhook("https://example.com/hook")
	unused := f.get("/v1/webhooks/"+hook+"/health").expect(t, 200)
	const stats = `{"attempts":0,"succeeded":0,"failed":0,"successRate":null,"latencyMs":null,"errors":{}}`
	if want := `{"webhookId":"` + hook + `","enabled":true,"disabledReason":null,"breaker":{"state":"closed","since":null,"nextProbeAt":null},` +
		`"waiting":{"retrying":0,"deferred":0,"reasons":[]},"lastHour":` + stats + `,"lastDay":` + stats + `,"lastSuccessAt":null,"lastErrors":[],"sampledSince":null}`; unused.raw != want {
		t.Errorf("got  %s\nwant %s", unused.raw, want)
	}

	// Two messages: one has failed, of which the receiver said something personal, and one is
	// deferred since.
	journey := f.publishedJourney(welcome(hook))
	scope := waypost.Scope{Org: testOrg, Stage: waypost.StageRelease}
	var messages []string
	for i := range 2 {
		lead := f.newLead(fmt.Sprint("lead ", i))
		enrollment := f.send("POST", "/v1/journeys/"+journey+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, lead)).expect(t, 202).str(t, "enrollmentId")
		message := waypost.NewID(waypost.PrefixMessage, f.clock.Now())
		messages = append(messages, message)
		touchpoint := waypost.Touchpoint{EnrollmentID: enrollment, Visit: 1}
		sent := waypost.Delivery{MessageID: message, JourneyID: journey, JourneyVersion: 1, NodeID: "hello", WebhookID: hook, LeadsID: lead}
		var err error
		if i == 0 {
			err = f.store.RecordAttempts(t.Context(), []delivery.AttemptRecord{{
				Touchpoint: touchpoint, Scope: scope, MessageID: message, Delivery: sent, Round: 1, Attempt: 1, Status: waypost.DeliveryFailed,
				Outcome: waypost.Outcome{ErrorClass: waypost.ClassSucceedFalse, HTTPStatus: 200, Message: "ada@example.com unknown", At: f.clock.Now(), Duration: 12 * time.Millisecond},
			}})
		} else {
			err = f.store.RecordDeferrals(t.Context(), []delivery.Deferral{{
				Touchpoint: touchpoint, Scope: scope, Delivery: sent, Reason: waypost.DeferBreaker, At: f.clock.Now(), Until: f.clock.Now().Add(time.Hour),
			}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	h := f.health(hook)
	if s := h.LastHour; s.Attempts != 1 || s.Failed != 1 || *s.SuccessRate != 0 || s.LatencyMs.P50 != 12 || h.LastDay.Attempts != 1 {
		t.Errorf("got %+v", s)
	}
	if w := h.Waiting; w.Deferred != 1 || w.Reasons[0].Reason != waypost.DeferBreaker || w.Reasons[0].Since != "2026-01-31T12:00:00.000Z" {
		t.Errorf("got %+v", w)
	}
	// What the receiver said is not among it: the webhook's grant does not show deliveries.
	if want := map[string]any{"at": "2026-01-31T12:00:00.000Z", "messageId": messages[0], "attempt": 1., "httpStatus": 200., "errorClass": "succeedFalse", "durationMs": 12.}; fmt.Sprint(h.LastErrors) != fmt.Sprint([]map[string]any{want}) {
		t.Errorf("got %v", h.LastErrors)
	}

	// A worker opens the breaker, in the same Redis.
	client := redis.NewClient(limits.ClientOptions(&redis.Options{Addr: f.redis.Addr()}))
	t.Cleanup(func() { _ = client.Close() })
	worker := limits.NewBreakers(client, slog.New(slog.DiscardHandler), f.clock.Now)
	stored, err := f.store.Webhook(t.Context(), scope, hook)
	if err != nil {
		t.Fatal(err)
	}
	_, ticket, _ := worker.Admit(t.Context(), stored.Circuit(), 100, time.Minute)
	for range 100 {
		worker.Failed(t.Context(), stored.Circuit(), ticket, true, false, 0)
	}
	if b := f.health(hook).Breaker; b.State != "open" || b.Since != "2026-01-31T12:00:00.000Z" || b.NextProbeAt != "2026-01-31T12:00:01.000Z" {
		t.Errorf("got %+v", b)
	}
	f.redis.SetTime(f.clock.Now().Add(time.Second))
	if b := f.health(hook).Breaker; b.State != "halfOpen" || b.NextProbeAt != "" {
		t.Errorf("got %+v", b)
	}
	f.redis.SetError("away")
	if b := f.health(hook).Breaker; b.State != "unknown" || b.Since != "" {
		t.Errorf("got %+v", b)
	}
	f.redis.SetError("")

	// A webhook that its receiver has ended says so.
	if err := f.store.DisableWebhook(t.Context(), scope, stored, "410"); err != nil {
		t.Fatal(err)
	}
	if h := f.health(hook); h.Enabled || h.DisabledReason == nil || *h.DisabledReason != "410" {
		t.Errorf("got %+v", h)
	}
	f.do(call{method: "GET", target: "/v1/webhooks/" + hook + "/health", headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
	f.get("/v1/webhooks/whk_nope/health").fault(t, 404, "NotFound")
}

func TestWebhookHistory(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook, id := f.welcoming()
	path := "/v1/webhooks/" + hook + "/history"
	f.deliver(id, hook, f.newLead("Ada"), waypost.DeliverySucceeded)
	f.deliver(id, hook, f.newLead("Alan"), waypost.DeliverySucceeded)
	f.clock.advance(time.Hour)
	f.deliver(id, hook, f.newLead("Grace"), waypost.DeliverySucceeded)
	const none = `"attempts":0,"succeeded":0,"failed":0,"p50Ms":null,"p99Ms":null}`
	const noon = `{"from":"2026-01-31T12:00:00.000Z","attempts":2,"succeeded":2,"failed":0,"p50Ms":0,"p99Ms":0}`
	for query, want := range map[string]string{
		"?from=2026-01-31T11:30:00Z&to=2026-01-31T12:30:00Z":            `{"from":"2026-01-31T11:00:00.000Z",` + none + `,` + noon,
		"?from=2026-01-31T12:00:00Z&to=2026-01-31T13:00:00Z&every=hour": noon,
		"?from=2026-01-30T08:00:00%2B09:00&to=2026-02-01T00:00:00Z&every=day": `{"from":"2026-01-29T00:00:00.000Z",` + none + `,{"from":"2026-01-30T00:00:00.000Z",` + none +
			`,{"from":"2026-01-31T00:00:00.000Z","attempts":3,"succeeded":3,"failed":0,"p50Ms":0,"p99Ms":0}`,
	} {
		if got := f.get(path+query).expect(t, 200); got.raw != `{"series":[`+want+`]}` {
			t.Errorf("%s:\n got %s\nwant %s", query, got.raw, want)
		}
	}
	// All webhooks together.
	second := f.newWebhook("https://example.com/second")
	f.deliver(f.publishedJourney(welcome(second)), second, f.newLead("Edith"), waypost.DeliverySucceeded)
	for query, want := range map[string]string{
		"?from=2026-01-31T12:00:00Z&to=2026-01-31T14:00:00Z": `{"from":"2026-01-31T12:00:00.000Z","attempts":2,"succeeded":2,"failed":0},{"from":"2026-01-31T13:00:00.000Z","attempts":2,"succeeded":2,"failed":0}`,
		"?from=2026-01-30T23:00:00Z&every=day":               `{"from":"2026-01-30T00:00:00.000Z","attempts":0,"succeeded":0,"failed":0},{"from":"2026-01-31T00:00:00.000Z","attempts":4,"succeeded":4,"failed":0}`,
	} {
		if got := f.get("/v1/webhooks/history"+query).expect(t, 200); got.raw != `{"series":[`+want+`]}` {
			t.Errorf("%s:\n got %s\nwant %s", query, got.raw, want)
		}
	}
	f.get("/v1/webhooks/history?every=minute&from=x").fault(t, 400, "BadRequest", "InvalidFormat from", "OutOfRange every")
	if got := f.otherOrg().get("/v1/webhooks/history?every=day&from=2026-01-31T00:00:00Z").expect(t, 200); got.raw != `{"series":[{"from":"2026-01-31T00:00:00.000Z","attempts":0,"succeeded":0,"failed":0}]}` {
		t.Errorf("of another organisation: %s", got.raw)
	}
	// Without a beginning, seven days; whatever is folded.
	if _, err := f.store.FoldWebhookHistory(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	for query, n := range map[string]int{"": 7*24 + 1, "?every=day": 8, "?to=2026-01-31T13:00:00Z": 7 * 24, "?from=2025-11-03T00:00:00Z&to=2026-02-01T00:00:00Z": 90 * 24} {
		series := f.get(path+query).expect(t, 200).json["series"].([]any)
		sum := 0.0
		for _, i := range series {
			sum += i.(map[string]any)["attempts"].(float64)
		}
		if len(series) != n || sum != map[bool]float64{true: 2, false: 3}[query == "?to=2026-01-31T13:00:00Z"] {
			t.Errorf("%s: %d intervals with %v attempts", query, len(series), sum)
		}
	}
	for query, faults := range map[string][]string{
		"?every=minute&from=x":                               {"InvalidFormat from", "OutOfRange every"},
		"?from=2026-02-01T00:00:00Z&to=2026-01-31T00:00:00Z": {"OutOfRange from"},
		"?from=2025-11-02T23:59:59Z&to=2026-02-01T00:00:00Z": {"OutOfRange from"},
		"?from=0001-01-02T00:00:00Z":                         {"OutOfRange from"},
		"?limit=5":                                           {"UnknownField limit"},
	} {
		f.get(path+query).fault(t, 400, "BadRequest", faults...)
	}
	f.get("/v1/webhooks/whk_nope/history").fault(t, 404, "NotFound")
	f.do(call{method: "GET", target: path, headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
	with, without := keyOf(f.newApp(waypost.GrantWebhooksRead)), keyOf(f.newApp(waypost.GrantDeliveriesRead))
	f.do(call{method: "GET", target: path, key: &with}).expect(t, 200)
	f.do(call{method: "GET", target: path, key: &without}).fault(t, 401, "Unauthorized")
}
