package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/devstack/harness"
)

// The story of a channel on waypost-dev: a lead that has agreed gets a message; one that has not,
// and one that is suppressed, are skipped; one that is suppressed between two attempts gets no second
// one, though the process is killed meanwhile; a test lead gets its message and counts nowhere.
func TestConsent(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	r := harness.NewReceiver(t, func(m waypost.Message, attempt int) harness.Answer {
		if m.UserProfile.UserID == "late" {
			return harness.Answer{Status: http.StatusServiceUnavailable}
		}
		return harness.Answer{Status: http.StatusOK}
	})
	p := harness.StartProcess(t, dir, []string{"--no-demo"})
	var hook, journey struct{ ID string }
	p.Do(t, http.MethodPost, "/v1/webhooks", map[string]any{
		"name": "sms", "url": r.URL, "channel": "sms", "requiresConsent": true, "retry": map[string]any{"schedule": []string{"8s"}, "giveUpAfter": "1h"},
	}, &hook)
	p.Do(t, http.MethodPost, "/v1/journeys", map[string]any{"name": "Consent", "start": "hello", "nodes": []map[string]any{
		{"id": "hello", "type": "touchpoint", "webhook": hook.ID, "next": "end"}, {"id": "end", "type": "exit"},
	}}, &journey)
	p.Do(t, http.MethodPost, "/v1/journeys/"+journey.ID+"/publish", nil, nil)
	suppress := func(body map[string]any) (id string) {
		var made struct{ ID string }
		p.Do(t, http.MethodPost, "/v1/suppressions", body, &made)
		return made.ID
	}
	suppress(map[string]any{"channel": "sms", "mobilePhone": "138 0013 8000"})

	leads := map[string]map[string]any{
		"agreed":     {"consents": map[string]any{"sms": true}},
		"silent":     {},
		"suppressed": {"consents": map[string]any{"sms": true}, "mobilePhone": []string{"+86 13800138000"}},
		"late":       {"consents": map[string]any{"sms": true}},
		"test":       {"consents": map[string]any{"sms": true}, "test": true},
	}
	enrollments := map[string]string{}
	for name, fields := range leads {
		fields["name"], fields["externalId"] = name, name
		var lead struct{ LeadsID int64 }
		p.Do(t, http.MethodPost, "/v1/leads", map[string]any{"businessParam": fields}, &lead)
		var e struct{ EnrollmentID string }
		p.Do(t, http.MethodPost, "/v1/journeys/"+journey.ID+"/enrollments", map[string]any{"leadsId": lead.LeadsID}, &e)
		enrollments[name] = e.EnrollmentID
	}
	harness.Eventually(t, time.Minute, func() (bool, string) {
		d := p.Deliveries(t, enrollments["late"])["hello"]
		return d.Status == waypost.DeliveryRetrying, fmt.Sprintf("the first attempt is %s", d.Status)
	})
	late := suppress(map[string]any{"channel": "sms", "externalId": "late"})
	p.Kill9(t)
	p = harness.StartProcess(t, dir, []string{"--no-demo"})

	for name, want := range map[string]string{"agreed": "sent", "silent": "skipped consent", "suppressed": "skipped suppressed", "late": "skipped suppressed", "test": "sent"} {
		e := p.AwaitEnd(t, enrollments[name], time.Minute)
		var what []string
		for _, entry := range e.Timeline {
			if entry.What == waypost.WhatSent || entry.What == waypost.WhatSkipped {
				what = append(what, strings.TrimSpace(entry.What+" "+entry.Reason))
			}
		}
		if got := strings.Join(what, ", "); got != want || e.Status != waypost.EnrollmentCompleted {
			t.Errorf("%s: %s, %s, want %s", name, e.Status, got, want)
		}
	}
	var deliveries struct {
		Items []struct {
			MessageID, EnrollmentID, Status, DeferredReason, Message string
			Attempts                                                 int
		}
	}
	p.Do(t, http.MethodGet, "/v1/deliveries?status=canceled&journeyId="+journey.ID, nil, &deliveries)
	var again string
	for _, d := range deliveries.Items {
		if d.Message != waypost.ExplainSkip(d.DeferredReason) || d.Message == "" {
			t.Errorf("delivery %+v", d)
		}
		if d.EnrollmentID == enrollments["late"] {
			if again = d.MessageID; d.Attempts != 1 {
				t.Errorf("%d attempts to who was suppressed after the first one", d.Attempts)
			}
		}
	}
	if len(deliveries.Items) != 3 {
		t.Errorf("%d deliveries were skipped", len(deliveries.Items))
	}
	var statistics struct {
		Nodes []struct {
			NodeID                      string
			Entered, Delivered, Skipped int
			SkippedFor                  map[string]int
		}
		Enrollments struct{ Entered, Completed int }
	}
	p.Do(t, http.MethodGet, "/v1/journeys/"+journey.ID+"/statistics", nil, &statistics)
	if got := fmt.Sprint(statistics); got != "{[{end 4 0 0 map[]} {hello 4 1 3 map[consent:1 suppressed:2]}] {4 4}}" {
		t.Errorf("statistics %s", got)
	}

	// A redelivery of what was skipped stays skipped, until the suppression is gone.
	redeliver := func(want waypost.DeliveryStatus, round int) {
		t.Helper()
		p.Do(t, http.MethodPost, "/v1/deliveries/"+again+"/redeliver", nil, nil)
		harness.Eventually(t, time.Minute, func() (bool, string) {
			d := p.Deliveries(t, enrollments["late"])["hello"]
			return d.Status == want, fmt.Sprintf("the redelivery is %s", d.Status)
		})
		if posts := len(r.Received(again)); posts != round {
			t.Errorf("%d POSTs, want %d", posts, round)
		}
	}
	redeliver(waypost.DeliveryCanceled, 1)
	p.Do(t, http.MethodDelete, "/v1/suppressions/"+late, nil, nil)
	redeliver(waypost.DeliveryRetrying, 2)
}
