package browser

import (
	"net/http"
	"strings"
	"time"
)

// Hostile is the name of a journey that tries to break pages: markup, writing from right to
// left, emoji, no blank for a long while.
var Hostile = "<img src=x onerror=alert(1)> \"'&{{ x }} \u202eمرحبا 👩\u200d👩\u200d👧\u200d👦" + strings.Repeat("W", 120)

// launch makes journeys with launches in all states, versions that differ, and names that are
// hostile.
func (m *maker) launch(sms, wechat string) {
	anniversary := []node{
		{"id": "choose", "type": "split", "label": "Gift or discount", "arms": []node{{"weight": 70, "next": "gift"}, {"weight": 30, "next": "discount"}}},
		{"id": "gift", "type": "touchpoint", "label": "Gift card", "webhook": sms, "params": node{"text": "A gift for {{ lead.name }}"}, "next": "bought"},
		{"id": "discount", "type": "touchpoint", "label": "15 % off", "webhook": wechat, "params": node{"text": "15 % for {{ lead.name }}"}, "next": "bought", "onFailure": "end"},
		{"id": "bought", "type": "waitForEvent", "label": "Buys something", "event": "purchase", "timeout": "240h", "next": "thanks", "onTimeout": "plan"},
		{"id": "plan", "type": "branch", "cases": []node{{"when": `lead.customFields.plan == "pro"`, "next": "call"}, {"when": "lead.region > 3", "next": "thanks"}}, "otherwise": "end"},
		{"id": "call", "type": "touchpoint", "label": "Ask a colleague to call", "webhook": wechat, "next": "end"},
		{"id": "thanks", "type": "touchpoint", "label": "Thanks", "webhook": sms, "params": node{"text": "Thank you"}, "next": "end"},
		{"id": "end", "type": "exit"},
	}
	definition := node{"name": "Anniversary", "tags": []string{"loyalty", "2026"}, "description": "A year after the first order: a gift for most, a discount for some, and a call for those on the pro plan who have not bought.",
		"start": "choose", "reentry": node{"policy": "always"}, "nodes": anniversary}
	var made struct{ ID string }
	m.do(http.MethodPost, "/v1/journeys", definition, &made)
	m.do(http.MethodPost, "/v1/journeys/"+made.ID+"/publish", nil, nil)
	anniversary[3]["timeout"] = "168h"
	m.do(http.MethodPut, "/v1/journeys/"+made.ID, definition, nil)
	m.do(http.MethodPost, "/v1/journeys/"+made.ID+"/publish", nil, nil)
	m.post("/v1/journeys/"+made.ID+"/launches", node{"audience": node{"filter": node{}}, "controlGroup": 0.1})
	m.post("/v1/journeys/"+made.ID+"/launches", node{"audience": node{"filter": node{"region": 1}}, "ratePerSecond": 0.02})
	m.post("/v1/journeys/"+made.ID+"/launches", node{"audience": node{"filter": node{"region": 2}}, "startAt": time.Now().AddDate(0, 0, 3).UTC().Format(time.RFC3339)})
	m.post("/v1/journeys/"+made.ID+"/launches", node{"audience": node{"filter": node{"gender": 2}}, "schedule": node{"cron": "0 9 * * 1-5", "timezone": "Asia/Shanghai"}})
	anniversary[5]["label"] = "Call"
	m.do(http.MethodPut, "/v1/journeys/"+made.ID, definition, nil)

	m.draft(Hostile, `<b>"tag"</b>`, []node{{"id": "hello", "type": "touchpoint", "webhook": sms, "label": string([]rune(Hostile)[:50]), "note": strings.Repeat("<i>", 500), "next": "end"}, {"id": "end", "type": "exit"}})
	paused := m.journey("Summer sale", "sale", []node{{"id": "offer", "type": "touchpoint", "webhook": sms, "next": "end"}, {"id": "end", "type": "exit"}})
	m.post("/v1/journeys/"+paused+"/pause", nil)
}

// post makes a POST of which nothing is needed.
func (m *maker) post(path string, body any) { m.do(http.MethodPost, path, body, nil) }
