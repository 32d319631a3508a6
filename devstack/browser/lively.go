package browser

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"waypost/client"
	"waypost/devstack/datadir"
	"waypost/signature"
)

// enliven makes data as a shop would have it: journeys of which some go well, receivers of
// which one is down and one says no, leads in several cities. It returns once most
// deliveries have been decided.
func enliven(ctx context.Context, profile datadir.Profile) error {
	c := client.New(profile.URL, signature.Key{AccessKey: profile.AccessKey, SecretKey: profile.SecretKey})
	c.HTTP.Transport = &http.Transport{} // its connections end with the data
	defer c.HTTP.CloseIdleConnections()
	m := maker{ctx: ctx, c: c}
	sms := m.webhook("SMS gateway", profile.Receiver+"/sms")
	wechat := m.webhook("企业微信 WeCom", profile.Receiver+"/wecom")
	crm := m.webhook("CRM", profile.Receiver+"/crm?fail=503")
	loyalty := m.webhook("Loyalty points", profile.Receiver+"/loyalty?succeed=false")
	m.post("/v1/subscriptions", node{"name": "Data warehouse", "webhookId": m.webhook("Data warehouse", profile.Receiver+"/warehouse"), "on": []string{"enrollment.ended", "delivery.failed", "launch.ended"}})

	trial := m.journey("Trial ends soon", "trial", []node{
		{"id": "remind", "type": "touchpoint", "webhook": sms, "params": map[string]any{"text": "{{ lead.name }}, your trial ends on Friday."}, "next": "wait"},
		{"id": "wait", "type": "delay", "for": "1s", "next": "answered"},
		{"id": "answered", "type": "branch", "otherwise": "call", "cases": []node{{"when": "touchpoints.remind.succeed", "next": "thanks"}}},
		{"id": "thanks", "type": "touchpoint", "webhook": wechat, "next": "end"},
		{"id": "call", "type": "touchpoint", "webhook": crm, "next": "end"},
		{"id": "end", "type": "exit"},
	})
	festival := m.journey("双十一老客户召回", "festival", []node{
		{"id": "coupon", "type": "touchpoint", "webhook": wechat, "next": "points"},
		{"id": "points", "type": "touchpoint", "webhook": loyalty, "next": "later"},
		{"id": "later", "type": "delay", "for": "72h", "next": "end"},
		{"id": "end", "type": "exit"},
	})
	onboarding := m.journey("Onboarding", "onboarding", []node{
		{"id": "record", "type": "touchpoint", "webhook": crm, "next": "end"},
		{"id": "end", "type": "exit"},
	})
	m.draft("Birthday greeting", "birthday", []node{
		{"id": "greet", "type": "touchpoint", "webhook": sms, "next": "end"},
		{"id": "end", "type": "exit"},
	})
	cities := []string{"Hangzhou", "Shanghai", "Shenzhen", "Lagos", "Bergen", "Lisbon"}
	given := []string{"Wang Fang", "李娜", "Amina Okafor", "Ingrid Dahl", "张伟", "Tiago Lopes", "陈静", "Noor Haddad"}
	for i := range 64 {
		lead := m.lead(map[string]any{
			"name": given[i%len(given)], "externalId": fmt.Sprintf("shop-%d", i+1), "email": fmt.Sprintf("lead%d@example.com", i+1),
			"region": i%5 + 1, "customFields": map[string]any{"city": cities[i%len(cities)], "plan": []string{"free", "pro"}[i%2]},
		})
		if i%16 == 0 {
			m.post("/v1/events", node{"eventId": fmt.Sprintf("order-%d", i), "name": "purchase", "leadsId": lead, "properties": node{"amount": 40 + i}})
		}
		for j, journey := range []string{trial, festival, onboarding} {
			if (i+j)%3 != 0 {
				m.enroll(journey, lead)
			}
		}
	}
	m.lead(map[string]any{"name": "Test of Lin", "externalId": "test-lin", "email": "lin@example.com", "test": true, "consents": map[string]any{"sms": true, "email": false}})
	m.post("/v1/suppressions", node{"channel": "sms", "externalId": "shop-2"})
	m.post("/v1/suppressions", node{"channel": "email", "email": "lead9@example.com"})
	m.post("/v1/subscriptions", node{"name": "Festival team", "webhookId": wechat, "journeyId": festival, "on": []string{"delivery.failed", "journey.published"}})
	m.post("/v1/segments", node{"name": "Pro plan 专业版", "when": `lead.customFields.plan == "pro" && lead.email != null`})
	m.launch(sms, wechat)
	for m.err == nil && m.open() > 60 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond): // between two looks
		}
	}
	return m.err
}

type node = map[string]any

// maker makes things until one cannot be made.
type maker struct {
	ctx context.Context
	c   *client.Client
	err error
}

func (m *maker) do(method, path string, body, answer any) {
	if m.err == nil {
		m.err = m.c.Do(m.ctx, method, path, body, answer)
	}
}

func (m *maker) webhook(name, url string) string {
	var made struct{ ID string }
	m.do(http.MethodPost, "/v1/webhooks", map[string]any{"name": name, "url": url, "retry": map[string]any{"schedule": []string{"1s", "30s", "1h"}, "maxAttempts": 8}}, &made)
	return made.ID
}

func (m *maker) draft(name, tag string, nodes []node) string {
	var made struct{ ID string }
	m.do(http.MethodPost, "/v1/journeys", map[string]any{"name": name, "tags": []string{tag}, "start": nodes[0]["id"], "nodes": nodes}, &made)
	return made.ID
}

func (m *maker) journey(name, tag string, nodes []node) string {
	id := m.draft(name, tag, nodes)
	m.do(http.MethodPost, "/v1/journeys/"+id+"/publish", nil, nil)
	return id
}

func (m *maker) lead(fields map[string]any) int64 {
	var made struct{ LeadsID int64 }
	m.do(http.MethodPost, "/v1/leads", map[string]any{"businessParam": fields}, &made)
	return made.LeadsID
}

func (m *maker) enroll(journey string, lead int64) {
	m.do(http.MethodPost, "/v1/journeys/"+journey+"/enrollments", map[string]any{"leadsId": lead}, nil)
}

// open counts the deliveries that are not decided.
func (m *maker) open() int {
	var list struct{ Items []any }
	m.do(http.MethodGet, "/v1/deliveries?limit=500&status=pending", nil, &list)
	return len(list.Items)
}

// Enroll sends one of the demo's leads, by its number, on the demo's journey.
func Enroll(t *testing.T, lead int64) {
	t.Helper()
	s, err := start()
	if err != nil {
		t.Fatal(err)
	}
	m := maker{ctx: t.Context(), c: client.New(s.profile.URL, signature.Key{AccessKey: s.profile.AccessKey, SecretKey: s.profile.SecretKey})}
	if m.enroll(s.profile.JourneyID, lead); m.err != nil {
		t.Fatal(m.err)
	}
}
