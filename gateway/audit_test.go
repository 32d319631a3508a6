package gateway_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/signature"
)

// entry is an item of GET /v1/audit.
type entry struct {
	At                                            string
	Application, Actor, Action, Target, RequestID string
	Address                                       string
	Before, After                                 json.RawMessage
}

// audit lists all entries that a query selects, newest first.
func (f *fixture) audit(query string) (all []entry) {
	f.t.Helper()
	for cursor := ""; ; {
		a := f.get("/v1/audit?limit=500"+query+cursor).expect(f.t, 200)
		var page struct {
			Items      []entry
			NextCursor *string
		}
		if err := json.Unmarshal([]byte(a.raw), &page); err != nil {
			f.t.Fatal(err)
		}
		all = append(all, page.Items...)
		if page.NextCursor == nil {
			return all
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}

// entriesOf are those of one request.
func (f *fixture) entriesOf(requestID string) []entry {
	f.t.Helper()
	return slices.DeleteFunc(f.audit(""), func(e entry) bool { return e.RequestID != requestID })
}

// change is a call that has an effect once.
type change struct {
	action string // that its entry tells; "": it has no effect
	// again tells that the same call, without an Idempotency-Key, is well and changes nothing.
	again bool
	make  func(f *fixture) call
}

// post is a change by a POST of this body.
func post(action, path, body string) change {
	return change{action: action, make: func(*fixture) call { return call{method: "POST", target: path, body: body} }}
}

// controlled is a pause, resume or cancel of something that make makes.
func controlled(kind, verb string, make func(f *fixture) string) change {
	return change{kind + "." + verb, true, func(f *fixture) call {
		path := make(f)
		if verb == "resume" {
			f.send("POST", path+"/pause", "").expect(f.t, 200)
		}
		return call{method: "POST", target: path + "/" + verb}
	}}
}

func (f *fixture) enrolled() string {
	_, journey := f.welcoming()
	return f.send("POST", "/v1/journeys/"+journey+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, f.newLead("Ada"))).expect(f.t, 202).str(f.t, "enrollmentId")
}

func enrollmentPath(f *fixture) string { return "/v1/enrollments/" + f.enrolled() }

func launchPath(f *fixture) string {
	_, journey := f.welcoming()
	return "/v1/launches/" + f.newLaunch(journey, fmt.Sprintf(`{"audience":{"leadsIds":[%d]}}`, f.newLead("Ada")))
}

func journeyPath(f *fixture) string {
	_, journey := f.welcoming()
	f.send("POST", "/v1/journeys/"+journey+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, f.newLead("Ada"))).expect(f.t, 202)
	return "/v1/journeys/" + journey
}

func subscriptionTo(f *fixture) string {
	hook, _ := f.welcoming()
	return fmt.Sprintf(`{"name":"s","webhookId":%q,"on":["enrollment.ended"]}`, hook)
}

const exits = `{"name":"n","start":"a","nodes":[{"id":"a","type":"exit"}]}`

// changes has every route that changes something, or exports it, by its operation, and the
// POSTs that change nothing.
var changes = map[string]change{
	"createLead": post("lead.create", "/v1/leads", `{"businessParam":{"name":"Ada"}}`),
	"countLeads": post("", "/v1/leads/count", `{"audience":{"filter":{}}}`),
	"importLeads": {action: "lead.import", make: func(*fixture) call {
		return call{method: "POST", target: "/v1/leads/imports", body: `{"name":"Ada"}`, headers: map[string]string{"Content-Type": "application/x-ndjson"}}
	}},
	"cancelImport": {"import.cancel", true, func(f *fixture) call {
		c := call{method: "POST", target: "/v1/leads/imports", body: `{"name":"Ada"}`, headers: map[string]string{"Content-Type": "application/x-ndjson"}}
		return call{method: "POST", target: "/v1/leads/imports/" + f.do(c).expect(f.t, 202).str(f.t, "id") + "/cancel"}
	}},
	"patchLead": {"lead.update", true, func(f *fixture) call {
		return call{method: "PATCH", target: fmt.Sprint("/v1/leads/", f.newLead("Ada")), body: `{"businessParam":{"remark":"VIP"}}`}
	}},
	"replaceLead": {"lead.update", true, func(f *fixture) call {
		return call{method: "PUT", target: fmt.Sprint("/v1/leads/", f.newLead("Ada")), body: `{"businessParam":{"name":"Eve"}}`}
	}},
	"deleteLead": {"lead.delete", false, func(f *fixture) call {
		return call{method: "DELETE", target: fmt.Sprint("/v1/leads/", f.newLead("Ada"))}
	}},
	"exportLeads": {action: "lead.export", make: func(*fixture) call { return call{method: "GET", target: "/v1/leads/export?name=A"} }},

	"createWebhook": post("webhook.create", "/v1/webhooks", `{"name":"w","url":"https://example.com/"}`),
	"patchWebhook": {"webhook.update", true, func(f *fixture) call {
		return call{method: "PATCH", target: "/v1/webhooks/" + f.newWebhook("https://example.com/"), body: `{"enabled":false}`}
	}},
	"deleteWebhook": {"webhook.delete", false, func(f *fixture) call {
		return call{method: "DELETE", target: "/v1/webhooks/" + f.newWebhook("https://example.com/")}
	}},
	"testWebhook": {action: "webhook.test", make: func(f *fixture) call {
		receiver := httptest.NewServer(http.NotFoundHandler())
		f.t.Cleanup(receiver.Close)
		return call{method: "POST", target: "/v1/webhooks/" + f.newWebhook(receiver.URL) + "/test"}
	}},

	"createJourney": post("journey.create", "/v1/journeys", exits),
	"replaceJourney": {"journey.update", true, func(f *fixture) call {
		id := f.send("POST", "/v1/journeys", exits).expect(f.t, 201).str(f.t, "id")
		return call{method: "PUT", target: "/v1/journeys/" + id, body: strings.Replace(exits, `"n"`, `"m"`, 1)}
	}},
	"deleteJourney": {"journey.delete", false, func(f *fixture) call {
		return call{method: "DELETE", target: "/v1/journeys/" + f.send("POST", "/v1/journeys", exits).expect(f.t, 201).str(f.t, "id")}
	}},
	"publishJourney": {"journey.publish", true, func(f *fixture) call {
		return call{method: "POST", target: "/v1/journeys/" + f.send("POST", "/v1/journeys", exits).expect(f.t, 201).str(f.t, "id") + "/publish"}
	}},
	"copyJourney": {action: "journey.create", make: func(f *fixture) call {
		return call{method: "POST", target: "/v1/journeys/" + f.publishedJourney(exits) + "/copy"}
	}},
	"archiveJourney": {"journey.archive", true, func(f *fixture) call {
		return call{method: "POST", target: "/v1/journeys/" + f.publishedJourney(exits) + "/archive"}
	}},
	"reverseWinner": {"journey.reverseWinner", true, func(f *fixture) call {
		return call{method: "POST", target: "/v1/journeys/" + f.withWinner() + "/winners/arms/reverse"}
	}},
	"migrateJourney": {"journey.migrate", false, func(f *fixture) call {
		id := f.publishedJourney(waits)
		f.send("PUT", "/v1/journeys/"+id, strings.ReplaceAll(waits, "1h", "2h")).expect(f.t, 200)
		f.send("POST", "/v1/journeys/"+id+"/publish", "").expect(f.t, 201)
		e, err := f.store.Enroll(f.t.Context(), release, waypost.Enrollment{JourneyID: id, Version: 1, LeadsID: f.newLead("Ada")}, waypost.Reentry{})
		if err == nil {
			err = f.store.RecordProgress(f.t.Context(), []waypost.Progress{{EnrollmentID: e.ID, Status: waypost.EnrollmentWaiting, NodeID: "wait", LastSeq: 1}})
		}
		if err != nil {
			f.t.Fatal(err)
		}
		return call{method: "POST", target: "/v1/journeys/" + id + "/migrate", body: `{"from":1,"to":2,"nodeMap":{"wait":"wait"}}`}
	}},
	"testJourney": {action: "journey.test", make: func(f *fixture) call {
		_, id := f.welcoming()
		return call{method: "POST", target: "/v1/journeys/" + id + "/test", body: `{"nodeId":"hello","lead":{"name":"Ada"}}`}
	}},
	"dryRun": {make: func(f *fixture) call {
		_, id := f.welcoming()
		return call{method: "POST", target: "/v1/journeys/" + id + "/dryrun", body: `{"lead":{"name":"Ada"}}`}
	}},
	"forecast": {make: func(f *fixture) call {
		_, id := f.welcoming()
		return call{method: "POST", target: "/v1/journeys/" + id + "/forecast", body: `{"audience":{"filter":{}},"days":7}`}
	}},

	"enroll": {action: "enrollment.create", make: func(f *fixture) call {
		_, id := f.welcoming()
		return call{method: "POST", target: "/v1/journeys/" + id + "/enrollments", body: fmt.Sprintf(`{"leadsId":%d}`, f.newLead("Ada"))}
	}},
	"launch": {action: "launch.create", make: func(f *fixture) call {
		_, id := f.welcoming()
		return call{method: "POST", target: "/v1/journeys/" + id + "/launches", body: `{"audience":{"filter":{"name":"Ada"}}}`}
	}},
	"pauseEnrollment":  controlled("enrollment", "pause", enrollmentPath),
	"resumeEnrollment": controlled("enrollment", "resume", enrollmentPath),
	"cancelEnrollment": controlled("enrollment", "cancel", enrollmentPath),
	"patchLaunch": {"launch.update", true, func(f *fixture) call {
		return call{method: "PATCH", target: launchPath(f), body: `{"ratePerSecond":5}`}
	}},
	"pauseLaunch":   controlled("launch", "pause", launchPath),
	"resumeLaunch":  controlled("launch", "resume", launchPath),
	"cancelLaunch":  controlled("launch", "cancel", launchPath),
	"pauseJourney":  controlled("journey", "pause", journeyPath),
	"resumeJourney": controlled("journey", "resume", journeyPath),
	"cancelJourney": controlled("journey", "cancel", journeyPath),
	"acceptEvent": {"event.accept", true, func(f *fixture) call {
		return call{method: "POST", target: "/v1/events", body: fmt.Sprintf(`{"eventId":"e1","name":"paid","leadsId":%d}`, f.newLead("Ada"))}
	}},

	"exportDeliveries": {action: "delivery.export", make: func(*fixture) call {
		return call{method: "GET", target: "/v1/deliveries/export?format=csv&status=failed"}
	}},
	"redeliver": {action: "delivery.redeliver", make: func(f *fixture) call {
		hook, id := f.welcoming()
		message, _ := f.deliver(id, hook, f.newLead("Ada"), waypost.DeliveryFailed)
		return call{method: "POST", target: "/v1/deliveries/" + message + "/redeliver"}
	}},
	"createRedelivery": post("redelivery.create", "/v1/redeliveries", `{"filter":{}}`),
	"cancelRedelivery": {"redelivery.cancel", true, func(f *fixture) call {
		id := f.send("POST", "/v1/redeliveries", `{"filter":{}}`).expect(f.t, 202).str(f.t, "id")
		return call{method: "POST", target: "/v1/redeliveries/" + id + "/cancel"}
	}},

	"putArticle": {"article.create", true, func(*fixture) call {
		return call{method: "PUT", target: "/v1/articles/a1", body: `{"tenant_id":"t1","name":"n","identifier":"n"}`}
	}},
	"deleteArticle": {"article.delete", false, func(f *fixture) call {
		f.putArticle(`{"id":"a2","tenant_id":"t1","name":"n","identifier":"n"}`)
		return call{method: "DELETE", target: "/v1/articles/a2"}
	}},
	"importArticles": {action: "article.import", make: func(*fixture) call {
		return call{method: "POST", target: "/v1/articles/import", body: `{"id":"a3","tenant_id":"t1","name":"n","identifier":"n"}`, headers: map[string]string{"Content-Type": "application/x-ndjson"}}
	}},
	"createSegment": {action: "segment.create", make: func(f *fixture) call {
		return call{method: "POST", target: "/v1/segments", body: `{"name":"women","when":"lead.gender == 2"}`}
	}},
	"replaceSegment": {"segment.update", true, func(f *fixture) call {
		return call{method: "PUT", target: "/v1/segments/" + f.newSegment(`lead.gender == 1`), body: `{"name":"women","when":"lead.gender == 2"}`}
	}},
	"deleteSegment": {"segment.delete", false, func(f *fixture) call {
		return call{method: "DELETE", target: "/v1/segments/" + f.newSegment(`lead.gender == 1`)}
	}},
	"createSuppression": {action: "suppression.create", make: func(f *fixture) call {
		return call{method: "POST", target: "/v1/suppressions", body: `{"channel":"sms","mobilePhone":"13800138000"}`}
	}},
	"deleteSuppression": {"suppression.delete", false, func(f *fixture) call {
		id := f.send("POST", "/v1/suppressions", `{"channel":"email","email":"ada@example.com"}`).expect(f.t, 201).str(f.t, "id")
		return call{method: "DELETE", target: "/v1/suppressions/" + id}
	}},
	"createSubscription": {action: "subscription.create", make: func(f *fixture) call {
		return call{method: "POST", target: "/v1/subscriptions", body: subscriptionTo(f)}
	}},
	"patchSubscription": {"subscription.update", true, func(f *fixture) call {
		id := f.send("POST", "/v1/subscriptions", subscriptionTo(f)).expect(f.t, 201).str(f.t, "id")
		return call{method: "PATCH", target: "/v1/subscriptions/" + id, body: `{"name":"other"}`}
	}},
	"deleteSubscription": {"subscription.delete", false, func(f *fixture) call {
		id := f.send("POST", "/v1/subscriptions", subscriptionTo(f)).expect(f.t, 201).str(f.t, "id")
		return call{method: "DELETE", target: "/v1/subscriptions/" + id}
	}},
	"importEvents": {action: "event.import", make: func(f *fixture) call {
		line := fmt.Sprintf(`{"eventId":"e1","name":"cart","leadsId":%d}`, f.newLead("Ada"))
		return call{method: "POST", target: "/v1/events/import", body: line, headers: map[string]string{"Content-Type": "application/x-ndjson"}}
	}},
	"requestReindex": {action: "article.reindex", again: true, make: func(*fixture) call { return call{method: "POST", target: "/v1/articles/reindex"} }},
	"issueToken":     post("token.issue", "/v1/tokens", `{"tenantIds":["t1"],"from":["frontend"]}`),
}

// Every call that changes something writes one entry, which tells who asked. What is
// refused, changes nothing or is answered again writes none. A new route belongs into changes.
func TestEveryChangeIsAudited(t *testing.T) {
	t.Parallel()
	for _, o := range signedOperations() {
		what, known := changes[o.OperationId]
		if exports := strings.HasSuffix(o.path, "/export"); o.method == http.MethodGet && !exports {
			continue
		} else if !known {
			t.Errorf("changes has no %s", o.OperationId)
			continue
		}
		t.Run(o.OperationId, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			begun := what.make(f)
			send := func(id string, c call) answer {
				c.headers = maps.Clone(c.headers)
				if c.headers == nil {
					c.headers = map[string]string{}
				}
				c.headers["X-Request-Id"], c.headers[signature.HeaderActor] = id, "Ada 李 <ada@example.com>"
				if id != "alone" && c.method == http.MethodPost {
					c.headers["Idempotency-Key"] = "k"
				}
				return f.do(c)
			}
			refused := begun
			refused.target += cmp.Or(map[bool]string{true: "&"}[strings.Contains(refused.target, "?")], "?") + "nope=1"
			refused.headers = maps.Clone(begun.headers)
			if a := f.do(refused); a.status != http.StatusBadRequest {
				t.Fatalf("refused: %d %s", a.status, a.raw)
			}
			before := len(f.audit(""))
			if a := send("first", begun); a.status >= 300 {
				t.Fatalf("%d %s", a.status, a.raw)
			}
			entries := f.entriesOf("first")
			if what.action == "" {
				if len(f.audit("")) != before {
					t.Errorf("it has no effect, and an entry: %+v", entries)
				}
				return
			}
			if len(entries) != 1 || len(f.audit("")) != before+1 {
				t.Fatalf("%d entries, %d more: %+v", len(entries), len(f.audit(""))-before, entries)
			}
			e := entries[0]
			if e.Action != what.action || e.Actor != "Ada 李 <ada@example.com>" || e.Application != f.app.ID || e.Target == "" {
				t.Errorf("%+v", e)
			}
			var repeated []string
			if begun.method == http.MethodPost {
				repeated = append(repeated, "replayed")
			}
			if what.again || begun.method == http.MethodDelete {
				repeated = append(repeated, "alone")
			}
			for _, id := range repeated {
				a := send(id, begun)
				if gone := begun.method == http.MethodDelete && a.status == http.StatusNotFound; a.status >= 300 && !gone {
					t.Errorf("%s: %d %s", id, a.status, a.raw)
				}
				if entries := f.entriesOf(id); len(entries) > 0 {
					t.Errorf("%s: %+v", id, entries)
				}
			}
		})
	}
	operations := signedOperations()
	for name := range changes {
		if !slices.ContainsFunc(operations, func(o *operation) bool { return o.OperationId == name }) {
			t.Errorf("there is no operation %s", name)
		}
	}
}

// lastOf is the only entry of one call.
func (f *fixture) lastOf(c call) entry {
	f.t.Helper()
	id := signature.NewNonce()
	c.headers = map[string]string{"X-Request-Id": id}
	if a := f.do(c); a.status >= 300 {
		f.t.Fatalf("%d %s", a.status, a.raw)
	}
	entries := f.entriesOf(id)
	if len(entries) != 1 {
		f.t.Fatalf("%d entries", len(entries))
	}
	return entries[0]
}

func (e entry) wantSides(t *testing.T, before, after string) {
	t.Helper()
	if string(e.Before) != before || string(e.After) != after {
		t.Errorf("%s: before %s, after %s; want %s and %s", e.Action, e.Before, e.After, before, after)
	}
}

// What an entry tells: the members that changed, no secret, and of a lead no more than names.
func TestAuditTells(t *testing.T) {
	t.Parallel()
	t.Run("a webhook", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		id := f.send("POST", "/v1/webhooks", `{"name":"w","url":"https://example.com/","basicAuth":{"username":"u","password":"hidden-1"},"signingSecret":"`+secretOf32Bytes+`"}`).
			expect(t, 201).str(t, "id")
		path := "/v1/webhooks/" + id
		e := f.lastOf(call{method: "PATCH", target: path, body: `{"timeoutMs":5000,"params":{"a":"1"},"basicAuth":{"password":"hidden-2"}}`})
		e.wantSides(t, `{"basicAuth":{"password":"set"},"params":{},"timeoutMs":15000}`, `{"basicAuth":{"password":"replaced"},"params":{"a":"1"},"timeoutMs":5000}`)
		if e.Target != id || e.At != "2026-01-31T12:00:00.000Z" || e.Actor != "" {
			t.Errorf("%+v", e)
		}
		f.clock.advance(time.Second)
		f.lastOf(call{method: "PATCH", target: path, body: `{"signingSecret":null}`}).wantSides(t, `{"signingSecret":"set"}`, `null`)
		f.lastOf(call{method: "PATCH", target: path, body: `{"url":"https://example.com/in?k=hidden-3"}`}).
			wantSides(t, `{"url":"https://example.com/"}`, `{"url":"https://example.com/in?set"}`)
		f.lastOf(call{method: "PATCH", target: path, body: `{"url":"https://example.com/in?k=hidden-4"}`}).
			wantSides(t, `{"url":"https://example.com/in?set"}`, `{"url":"https://example.com/in?replaced"}`)
		if all := f.get("/v1/audit").raw; strings.Contains(all, "hidden") || strings.Contains(all, secretOf32Bytes) {
			t.Errorf("a secret in %s", all)
		}
	})
	t.Run("a lead", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		id := f.newLead("Ada Lovelace")
		path := fmt.Sprint("/v1/leads/", id)
		f.lastOf(call{method: "PATCH", target: path, body: `{"businessParam":{"name":"Grace Hopper","email":"grace@example.com","customFields":{"plan":"gold"}}}`}).
			wantSides(t, `null`, `{"fields":["customFields.plan","email","name"]}`)
		f.lastOf(call{method: "DELETE", target: path}).wantSides(t, `{"fields":["customFields.plan","email","name"]}`, `null`)
		f.newLaunch(f.publishedJourney(exits), `{"audience":{"filter":{"name":"Grace","customFields":{"plan":"gold"}}}}`)
		f.exported("release", "/v1/leads/export", "email=grace@example.com&format=csv")
		all := f.get("/v1/audit").raw
		for _, personal := range []string{"Ada Lovelace", "Grace", "grace@", "gold"} {
			if strings.Contains(all, personal) {
				t.Errorf("%s in %s", personal, all)
			}
		}
		if !strings.Contains(all, `"after":{"filters":["email"],"format":"csv"}`) || !strings.Contains(all, `"audience":{"filter":["name","customFields.plan"]}`) {
			t.Error(all)
		}
	})
	t.Run("a long draft", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		id := f.send("POST", "/v1/journeys", exits).expect(t, 201).str(t, "id")
		long := strings.Replace(exits, `"type"`, `"note":"`+strings.Repeat("x", 2000)+`","type"`, 1)
		long = strings.Replace(long, `"nodes":[`, `"nodes":[`+strings.Repeat(`{"id":"b","type":"exit","note":"`+strings.Repeat("y", 2000)+`"},`, 5), 1)
		e := f.lastOf(call{method: "PUT", target: "/v1/journeys/" + id, body: strings.Replace(long, `"n"`, `"m"`, 1)})
		if !strings.HasPrefix(string(e.After), `{"draft":{"name":"m","nodes":{"leftOut":12`) || !strings.HasSuffix(string(e.After), `}},"name":"m"}`) {
			t.Errorf("%s", e.After)
		}
	})
}

func TestAuditLists(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var ids []string
	for i, actor := range []string{"ada", "bob", "ada", ""} {
		c := call{method: "POST", target: "/v1/webhooks", body: fmt.Sprintf(`{"name":"w%d","url":"https://example.com/"}`, i), headers: map[string]string{}}
		if actor != "" {
			c.headers[signature.HeaderActor] = actor
		}
		ids = append(ids, f.do(c).expect(t, 201).str(t, "id"))
		f.clock.advance(time.Second)
	}
	for query, want := range map[string][]string{
		"":                  {ids[3], ids[2], ids[1], ids[0]},
		"&actor=ada":        {ids[2], ids[0]},
		"&target=" + ids[1]: {ids[1]},
		"&from=2026-01-31T12:00:01Z&to=2026-01-31T12:00:03Z": {ids[2], ids[1]},
		"&from=2026-01-31T12:00:00.0005Z":                    {ids[3], ids[2], ids[1]},
		"&actor=ada&to=2026-01-31T12:00:01Z":                 {ids[0]},
		"&actor=nobody":                                      nil,
		"&to=1900-01-01T00:00:00Z":                           nil,
	} {
		var got []string
		for _, e := range f.audit(query) {
			got = append(got, e.Target)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	var got []string
	for cursor := ""; ; {
		a := f.get("/v1/audit?actor=ada&limit=1"+cursor).expect(t, 200)
		for _, item := range a.json["items"].([]any) {
			got = append(got, item.(map[string]any)["target"].(string))
		}
		next, more := a.json["nextCursor"].(string)
		if cursor = "&cursor=" + next; !more {
			break
		}
	}
	if !slices.Equal(got, []string{ids[2], ids[0]}) {
		t.Errorf("by pages: %v", got)
	}
	f.get("/v1/audit?from=2026-01-31T12:00:01Z&to=2026-01-31T12:00:00Z").fault(t, 400, "BadRequest", "OutOfRange from")
	f.get("/v1/audit?from=yesterday").fault(t, 400, "BadRequest", "InvalidFormat from")
	key := keyOf(f.newApp("webhooks.*"))
	f.do(call{method: "GET", target: "/v1/audit", key: &key}).fault(t, 401, "Unauthorized", "GrantMissing grants")
	if a := f.do(call{method: "GET", target: "/v1/audit", headers: map[string]string{"X-Cloud-Stage": "test"}}).expect(t, 200); len(a.json["items"].([]any)) != 0 {
		t.Errorf("another stage: %s", a.raw)
	}
	if a := f.otherOrg().get("/v1/audit").expect(t, 200); len(a.json["items"].([]any)) != 0 {
		t.Errorf("another organisation: %s", a.raw)
	}
}

// A user of the console is told by the address, and found by it and by the id.
func TestAuditNamesUsers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	by := waypost.Author{Scope: waypost.Scope{Org: testOrg}, Application: f.app.ID, Actor: "root", Address: "2001:db8::/64"}
	u, _, err := f.store.CreateUser(t.Context(), by, waypost.User{Org: testOrg, Email: "ada@example.com", Name: "Ada", Role: waypost.RoleViewer})
	if err != nil {
		t.Fatal(err)
	}
	hook := f.do(call{method: "POST", target: "/v1/webhooks", body: `{"name":"w","url":"https://example.com/"}`, headers: map[string]string{signature.HeaderActor: u.ID}}).
		expect(t, 201).str(t, "id")
	if e := f.audit("&target=" + hook)[0]; e.Actor != "ada@example.com" || e.Address != "" {
		t.Errorf("%+v", e)
	}
	if e := f.audit("&target=" + u.ID)[0]; e.Action != "user.create" || e.Actor != "root" || e.Address != "2001:db8::/64" || e.Application != f.app.ID {
		t.Errorf("%+v", e)
	}
	for _, actor := range []string{"ada@example.com", "Ada@Example.com", u.ID} {
		if found := f.audit("&actor=" + actor); len(found) != 1 || found[0].Target != hook {
			t.Errorf("%s: %+v", actor, found)
		}
	}
}

func TestActor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	create := func(actor string, tamper func(*http.Request)) answer {
		return f.do(call{method: "POST", target: "/v1/webhooks", body: `{"name":"w","url":"https://example.com/"}`,
			headers: map[string]string{signature.HeaderActor: actor}, tamper: tamper})
	}
	for _, actor := range []string{"a", strings.Repeat("李", 200), "Ada Lovelace (CRM)"} {
		id := create(actor, nil).expect(t, 201).str(t, "id")
		if e := f.audit("&target=" + id)[0]; e.Actor != actor {
			t.Errorf("%q, want %q", e.Actor, actor)
		}
	}
	for _, actor := range []string{strings.Repeat("x", 201), "a\tb", "\xff", " "} {
		create(actor, nil).fault(t, 400, "BadRequest", []string{}...)
	}
	before := len(f.audit(""))
	create("ada", func(r *http.Request) { r.Header.Set(signature.HeaderActor, "eve") }).fault(t, 401, "Unauthorized", "SignatureMismatch X-Cloud-Signature")
	create("ada", func(r *http.Request) { r.Header.Del(signature.HeaderActor) }).fault(t, 401, "Unauthorized", "MalformedSignature x-cloud-actor")
	create("ada", func(r *http.Request) { r.Header.Add(signature.HeaderActor, "eve") }).fault(t, 401, "Unauthorized", "MalformedSignature x-cloud-actor")
	create("", func(r *http.Request) { r.Header.Set(signature.HeaderActor, "eve") }).fault(t, 401, "Unauthorized", "MalformedSignature x-cloud-actor")
	if after := len(f.audit("")); after != before {
		t.Errorf("%d entries of what was refused", after-before)
	}
}
