package gateway_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

// exhibits are two of everything that lists show, made before and after a moment, which no filter
// finds both.
type exhibits struct {
	*fixture
	moment                        string // between the two
	hook, journey, other, segment string
	leads                         [2]int64
	launch, recurring             string
	subscription, importID        string
	enrollment                    string // of the first lead
}

// open makes a message of an enrollment, or of a subscription, whose only attempt ended so.
func (x *exhibits) open(touchpoint waypost.Touchpoint, d waypost.Delivery, status waypost.DeliveryStatus, outcome waypost.Outcome) {
	x.t.Helper()
	d.MessageID, d.EnrollmentID, outcome.At = waypost.NewID(waypost.PrefixMessage, x.clock.Now()), touchpoint.EnrollmentID, x.clock.Now()
	_, err := x.store.OpenAttempts(x.t.Context(), []delivery.Opening{{
		Touchpoint: touchpoint, Scope: release, Delivery: d, Body: []byte(`{}`), Attempt: 1, At: outcome.At, By: "test",
	}})
	if err != nil {
		x.t.Fatal(err)
	}
	err = x.store.RecordAttempts(x.t.Context(), []delivery.AttemptRecord{{
		Touchpoint: touchpoint, Scope: release, MessageID: d.MessageID, Delivery: d, Round: 1, Attempt: 1, Status: status, Outcome: outcome,
	}})
	if err != nil {
		x.t.Fatal(err)
	}
}

// made makes something and returns a member of the answer.
func (x *exhibits) made(path, body, member string) string {
	x.t.Helper()
	x.clock.advance(time.Second)
	a := x.do(call{method: "POST", target: path, body: body, headers: map[string]string{"X-Cloud-Actor": "ada"}})
	if a.status >= http.StatusBadRequest {
		x.t.Fatalf("POST %s: %s", path, a.raw)
	}
	return fmt.Sprint(a.json[member])
}

func newExhibits(t *testing.T) *exhibits {
	x := &exhibits{fixture: newFixture(t)}
	x.hook = x.made("/v1/webhooks", `{"name":"CRM","url":"https://example.com"}`, "id")
	one := func(name, node, hook, more string) string {
		return fmt.Sprintf(`{"name":%q,"start":%q,"nodes":[
			{"id":%[2]q,"type":"touchpoint","webhook":%[3]q,"next":"end"},{"id":"end","type":"exit"}]%s}`, name, node, hook, more)
	}
	off := x.made("/v1/webhooks", `{"name":"Mail","url":"https://example.com","enabled":false}`, "id")
	x.other = x.publishedJourney(one("Bye", "bye", off, ""))
	x.journey = x.publishedJourney(one("Welcome", "hello", x.hook, `,"tags":["spring"]`))
	x.leads[0] = x.lead(`{"name":"Ada","leadsGroup":3,"region":310000,"mobilePhone":["13800000000"],"email":"ada@example.com",
		"externalId":"x-1","gender":1,"birthday":"1990-12-31","customFields":{"tier":"gold"}}`)
	x.importID = x.imported("create", "text/csv", "name,test\nIda,true\n").ID
	x.enrollment = x.made("/v1/journeys/"+x.journey+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, x.leads[0]), "enrollmentId")
	d := waypost.Delivery{JourneyID: x.journey, JourneyVersion: 1, NodeID: "hello", WebhookID: x.hook, LeadsID: x.leads[0]}
	down, late := waypost.Outcome{ErrorClass: waypost.ClassHTTPStatus, HTTPStatus: 503}, waypost.Outcome{ErrorClass: waypost.ClassTimeout}
	x.open(waypost.Touchpoint{EnrollmentID: x.enrollment, Visit: 1}, d, waypost.DeliveryFailed, down)
	x.record(x.enrollment, waypost.EnrollmentRunning, "hello", waypost.TimelineEntry{Seq: 1, NodeID: "hello", What: waypost.WhatEntered})
	x.made("/v1/events", fmt.Sprintf(`{"eventId":"1","name":"viewed","leadsId":%d}`, x.leads[0]), "eventId")
	x.made("/v1/suppressions", `{"channel":"email","email":"ada@example.com"}`, "id")
	x.subscription = x.newSubscription(x.hook, `"import.ended"`)
	x.segment = x.newSegment(`lead.name != "Ida"`)
	x.launch = x.newLaunch(x.other, `{"audience":{"leadsIds":[`+fmt.Sprint(x.leads[0])+`]}}`)
	x.made("/v1/redeliveries", `{"filter":{"status":"failed"}}`, "id")

	x.clock.advance(26 * time.Hour)
	x.moment = x.clock.Now().UTC().Format(waypost.TimeFormat)
	x.clock.advance(26 * time.Hour)

	x.send("PUT", "/v1/journeys/"+x.journey, one("Welcome", "again", x.hook, `,"tags":["spring"]`)).expect(t, http.StatusOK)
	x.send("POST", "/v1/journeys/"+x.journey+"/publish", "").expect(t, http.StatusCreated)
	x.leads[1] = x.lead(`{"name":"Bob"}`)
	second := x.made("/v1/journeys/"+x.journey+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, x.leads[1]), "enrollmentId")
	x.record(second, waypost.EnrollmentWaiting, "again", waypost.TimelineEntry{Seq: 1, NodeID: "again", What: waypost.WhatEntered})
	d = waypost.Delivery{JourneyID: x.other, JourneyVersion: 1, NodeID: "bye", WebhookID: off, LeadsID: x.leads[1], LaunchID: x.launch}
	x.open(waypost.Touchpoint{EnrollmentID: second, Visit: 1}, d, waypost.DeliveryRetrying, late)
	d = waypost.Delivery{SubscriptionID: x.subscription, WebhookID: x.hook}
	taken := waypost.Outcome{Succeed: true, HTTPStatus: 204}
	x.open(waypost.Touchpoint{EnrollmentID: x.subscription, Visit: 1}, d, waypost.DeliverySucceeded, taken)
	x.made("/v1/events", fmt.Sprintf(`{"eventId":"2","name":"bought","leadsId":%d}`, x.leads[1]), "eventId")
	x.made("/v1/suppressions", `{"channel":"sms","externalId":"y-1"}`, "id")
	x.newSubscription(x.hook, `"launch.ended"`)
	x.newSegment(`lead.gender == 1`)
	if _, err := x.store.EnrollAudience(t.Context(), x.launch, 10); err != nil {
		t.Fatal(err)
	}
	x.send("POST", "/v1/journeys/"+x.other+"/pause", "").expect(t, http.StatusOK)
	x.recurring = x.newLaunch(x.journey, `{"audience":{"filter":{}},"schedule":{"cron":"@daily"}}`)
	due := x.clock.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)
	x.clock.advance(due.Sub(x.clock.Now()))
	if _, err := x.store.OpenOccurrence(t.Context(), x.recurring, due); err != nil {
		t.Fatal(err)
	}
	x.made("/v1/redeliveries", `{"filter":{"status":"canceled"}}`, "id")
	if _, err := x.store.FoldStatistics(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	return x
}

// lead makes one, and returns its id.
func (x *exhibits) lead(fields string) int64 {
	x.t.Helper()
	x.clock.advance(time.Second)
	return int64(x.send("POST", "/v1/leads", `{"businessParam":`+fields+`}`).expect(x.t, http.StatusCreated).json["leadsId"].(float64))
}

// values are what is asked for of each parameter: by operation, else by "".
func (x *exhibits) values() map[string]map[string]string {
	return map[string]map[string]string{
		"": {
			"leadsIds": fmt.Sprint(x.leads[0]), "leadsGroup": "3", "region": "310000", "name": "aD", "mobilePhone": "138 0000 0000",
			"email":      "Ada@example.com",
			"externalId": "x-1", "gender": "1", "test": "true", "birthday": "--12-31", "importId": x.importID, "customFields.NAME": "gold",
			"createdFrom": x.moment, "createdTo": x.moment, "updatedFrom": x.moment, "updatedTo": x.moment, "from": x.moment, "to": x.moment,
			"journeyId": x.journey, "version": "1", "nodeId": "hello", "leadsId": fmt.Sprint(x.leads[0]), "launchId": x.launch,
			"enrollmentId": x.enrollment,
			"webhookId":    x.hook, "subscriptionId": x.subscription, "recurringId": x.recurring, "errorClass": "httpStatus", "httpStatus": "503",
			"status": "failed", "format": "csv", "bom": "true", "groupBy": "nodeId", "every": "day", "enabled": "true", "channel": "sms",
			"tag":   "spring",
			"limit": "1", "target": x.hook, "actor": "ada", "sort": "-createdAt",
		},
		"listEvents":      {"name": "viewed", "sort": "occurredAt"},
		"listEnrollments": {"status": "waiting", "sort": "createdAt"},
		"listJourneys":    {"name": "wEL", "status": "paused"},
		"listWebhooks":    {"name": "cR"},
		"listLaunches":    {"status": "scheduled"},
	}
}

// shows are the items of a list, or the rows of an export, and otherwise the answer.
func (x *exhibits) shows(o *operation, query url.Values) (items []string) {
	x.t.Helper()
	id := map[string]string{"journeys": x.journey, "webhooks": x.hook, "segments": x.segment}[strings.Split(o.path, "/")[2]]
	target := strings.ReplaceAll(o.path, "{id}", id)
	if strings.HasSuffix(target, "/export") {
		body, _ := x.exported("release", target, query.Encode())
		rows := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
		return rows[:len(rows)-1] // the last line says how many there are
	}
	a := x.get(target+"?"+query.Encode()).expect(x.t, http.StatusOK)
	list, isList := a.json["items"].([]any)
	if !isList {
		return []string{a.raw}
	}
	for _, item := range list {
		items = append(items, fmt.Sprint(item))
	}
	if next, more := a.json["nextCursor"].(string); more {
		query = maps.Clone(query)
		query.Set("cursor", next)
		page := x.get(target+"?"+query.Encode()).expect(x.t, http.StatusOK)
		if rest := page.json["items"].([]any); len(rest) == 0 || slices.Contains(items, fmt.Sprint(rest[0])) {
			x.t.Errorf("%s: cursor has no effect: %s", o.OperationId, page.raw)
		}
	}
	return items
}

// Every parameter that a reading operation declares has an effect: a filter finds some and not all, an order
// moves them, a limit ends a page, whatever else changes the answer.
func TestEveryParameterHasAnEffect(t *testing.T) {
	t.Parallel()
	x := newExhibits(t)
	values, tried := x.values(), 0
	for _, o := range signedOperations() {
		if o.method != http.MethodGet {
			continue
		}
		for _, p := range slices.Concat(o.item.Parameters, o.Parameters) {
			if p.In != "query" || p.Name == "cursor" {
				continue
			}
			value := cmp.Or(values[o.OperationId][p.Name], values[""][p.Name])
			if value == "" {
				t.Errorf("%s declares %s: give values() one that has an effect on what newExhibits makes", o.OperationId, p.Name)
				continue
			}
			tried++
			with, without := url.Values{strings.Replace(p.Name, "NAME", "tier", 1): {value}}, url.Values{}
			if p.Name == "bom" {
				with.Set("format", "csv")
				without.Set("format", "csv")
			}
			if o.OperationId == "listAudit" && p.Name != "limit" {
				with.Set("limit", "500")
				without.Set("limit", "500")
			}
			some, all := x.shows(o, with), x.shows(o, without)
			switch isPart := !slices.ContainsFunc(some, func(item string) bool { return !slices.Contains(all, item) }); {
			case p.Name == "sort":
				if slices.Equal(some, all) || !slices.Equal(slices.Sorted(slices.Values(some)), slices.Sorted(slices.Values(all))) {
					t.Errorf("%s: sort=%s orders nothing:\n%q\n%q", o.OperationId, value, some, all)
				}
			case len(all) == 1 || p.Name == "format" || p.Name == "bom":
				if slices.Equal(some, all) {
					t.Errorf("%s: %s=%s changes nothing of %q", o.OperationId, p.Name, value, all)
				}
			case len(some) == 0 || len(some) >= len(all) || !isPart:
				t.Errorf("%s: %s=%s finds %d of %d", o.OperationId, p.Name, value, len(some), len(all))
			}
		}
	}
	if tried < 90 {
		t.Errorf("only %d parameters were tried", tried)
	}
}
