package console

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"reflect"
	"testing"
	"time"

	"waypost"
	"waypost/api"
)

func shanghai(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func TestFilterBar(t *testing.T) {
	t.Parallel()
	zone := shanghai(t)
	r := httptest.NewRequest("GET", "/deliveries?status=failed&status=retrying&from=2026-01-31T20:00&to=2026-01-31T12:30:00Z&enrollmentId=enr_1&unknown=1&cursor=c", nil)
	bar := newFilterBar(r,
		filter{Name: "status", Type: "several", Options: []option{{"failed", "Failed"}, {"sent", "Sent"}, {"retrying", "Retrying"}}},
		filter{Name: "from", Type: "datetime-local", Zone: zone},
		filter{Name: "to", Type: "datetime-local", Zone: zone, Further: true},
		filter{Name: "enrollmentId", Type: "id"},
		filter{Name: "nodeId"},
	)
	if got := bar.Filters[0].Chosen(); got != "Failed, Retrying" {
		t.Errorf("chosen: %q", got)
	}
	for what, tt := range map[string]struct{ got, want string }{
		"asked":   {bar.query(r).Encode(), "cursor=c&enrollmentId=enr_1&from=2026-01-31T12%3A00%3A00Z&status=failed%2Cretrying&to=2026-01-31T12%3A30%3A00Z"},
		"more":    {bar.more("d"), "/deliveries?cursor=d&enrollmentId=enr_1&from=2026-01-31T20%3A00&status=failed%2Cretrying&to=2026-01-31T20%3A30%3A00"},
		"without": {bar.Filters[3].Without(), "/deliveries?from=2026-01-31T20%3A00&status=failed%2Cretrying&to=2026-01-31T20%3A30%3A00"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", what, tt.got, tt.want)
		}
	}
	if !bar.Active || !bar.Further || !bar.Shown {
		t.Errorf("active %v, further %v, shown %v", bar.Active, bar.Further, bar.Shown)
	}
}

func TestPieces(t *testing.T) {
	t.Parallel()
	for highlight, want := range map[string][]piece{
		"":                               nil,
		"plain &lt;b&gt; &amp;":          {{"plain <b> &", false}},
		`<b class="highlight">a</b>`:     {{"a", true}},
		`x <b class="highlight">退</b> y`: {{"x ", false}, {"退", true}, {" y", false}},
		`<b class="highlight">cut`:       {{"cut", true}},
		`<script>x</script>`:             {{"<script>x</script>", false}}, // escaped again where it is shown
	} {
		if got := pieces(highlight); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v", highlight, got)
		}
	}
}

func TestPairs(t *testing.T) {
	t.Parallel()
	before := map[string]any{"plan": "pro", "score": 12.5, "vip": true}
	form := url.Values{}
	for _, row := range newPairs("params", before).withSpare().Rows {
		form.Add("params.name", row.Name)
		form.Add("params.kind", row.Kind)
		form.Add("params.value", row.Value)
	}
	text, err := json.Marshal(pairsOf("params", form).object())
	if err != nil || string(text) != `{"plan":"pro","score":12.5,"vip":true}` {
		t.Errorf("written again: %s, %v", text, err)
	}
	form["params.name"][0] = "offer"
	form["params.value"][1] = "many"
	text, err = json.Marshal(merging(pairsOf("params", form).object(), before))
	if err != nil || string(text) != `{"offer":"pro","plan":null,"score":"many","vip":true}` {
		t.Errorf("changed: %s, %v", text, err)
	}
}

func TestWebhookBody(t *testing.T) {
	t.Parallel()
	w := api.Webhook{
		Name: "CRM", URL: "https://example.com", TimeoutMs: 15000, Retry: waypost.DefaultRetry(), SigningOverlap: waypost.DefaultSigningOverlap,
		Params: map[string]any{"gone": "x"},
	}
	w.Retry.On = append(w.Retry.On, "409")
	form := formOf(w)
	form.Set("rateLimit.perSecond", "fast")
	form.Set("channel", " sms ")
	form.Set("requiresConsent", "yes")
	body, _ := webhookBody(form, &w)
	text, err := json.Marshal(body)
	want := `{"basicAuth":null,"channel":"sms","maxConcurrency":null,"name":"CRM","params":{"gone":null},"rateLimit":{"burst":null,"perSecond":"fast"},"requiresConsent":true,` +
		`"retry":{"giveUpAfter":"72h","jitter":0.2,"maxAttempts":null,"on":["network","timeout","408","425","429","5xx","409"],"onSucceedFalse":false,` +
		`"schedule":["5s","30s","2m","10m","30m","1h","2h","4h","8h","12h"]},"signingOverlap":"24h","timeoutMs":15000,"tls":null,"url":"https://example.com"}`
	if err != nil || string(text) != want {
		t.Errorf("%v\n got %s\nwant %s", err, text, want)
	}
	// A password that is not written stays; a certificate without a key keeps its key.
	form = url.Values{"basicAuth.username": {"ada"}, "tls.clientCertificate": {"PEM"}}
	body, _ = webhookBody(form, &w)
	if got, _ := json.Marshal([]any{body["basicAuth"], body["tls"]}); string(got) != `[{"username":"ada"},{"caCertificate":null,"clientCertificate":"PEM"}]` {
		t.Errorf("secrets: %s", got)
	}
}

func TestFaultOf(t *testing.T) {
	t.Parallel()
	faults := map[string]string{"name": "n", "retry.schedule[1]": "s", "mobilePhoneX": "x"}
	for name, want := range map[string]string{"name": "n", "retry.schedule": "s", "retry": "s", "mobilePhone": ""} {
		if got := faultOf(faults, name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// visitIn is a visit of somebody who reads a language, in Shanghai.
func visitIn(t *testing.T, language string) *visit {
	t.Helper()
	return &visit{chosen: preferences{Language: language, Zone: shanghai(t)}}
}

func TestWhy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ what, reason, words, raw string }{
		{waypost.WhatEntered, "", "", ""},
		{waypost.WhatEntered, "until 2026-01-31T12:00:00.000Z", "Until 31 Jan 2026, 20:00:00", ""},
		{waypost.WhatEntered, "event purchase until 2026-01-31T12:00:00.000Z", "Waits for the event purchase until 31 Jan 2026, 20:00:00", ""},
		{waypost.WhatEntered, "customFields.renewalDate -72h; until 2026-01-31T12:00:00.000Z", "Until 31 Jan 2026, 20:00:00", "customFields.renewalDate -72h"},
		{waypost.WhatEntered, "event cart; until 2026-01-31T12:00:00.000Z", "Event cart · Until 31 Jan 2026, 20:00:00", ""},
		{waypost.WhatEntered, "leadCreated; event purchase until 2026-01-31T12:00:00.000Z", "A new lead · Waits for the event purchase until 31 Jan 2026, 20:00:00", ""},
		{waypost.WhatEntered, "moved from version 1; event purchase until 2026-01-31T12:00:00.000Z", "Comes from version 1 · Waits for the event purchase until 31 Jan 2026, 20:00:00", ""},
		{waypost.WhatTook, "arm 2: weight 10 of 100", "Arm B, weight 10 of 100", ""},
		{waypost.WhatTook, "arm 2: the winner", "Arm B, the winner", ""},
		{waypost.WhatEntered, "event cart", "Event cart", ""},
		{waypost.WhatEntered, "leadChanged", "A change of the lead", ""},
		{waypost.WhatEntered, "segment seg_1", "The lead entered the segment gold", ""},
		{waypost.WhatExited, "segment seg_2", "The lead entered the segment seg_2", ""},
		{waypost.WhatTook, "case 1: lead.gender == 1 → true", "Case 1 is true", "lead.gender == 1 → true"},
		{waypost.WhatTook, "otherwise; case 1: x → false", "No case is true: otherwise", "case 1: x → false"},
		{waypost.WhatMatched, "event purchase: event.amount > 100 → true", "Event purchase", "event.amount > 100 → true"},
		{waypost.WhatFailed, "httpStatus 503", "HTTP 503", ""},
		{waypost.WhatFailed, "network", "Network error", ""},
		{waypost.WhatFailed, "gender: must be 0, 1 or 2", "", "gender: must be 0, 1 or 2"},
		{waypost.WhatTook, "enrolled: enr_1", "It has entered", "enr_1"},
		{waypost.WhatTook, "held out by the control group: enr_1", "Held out by the control group", "enr_1"},
		{waypost.WhatExited, waypost.ReasonControlGroup, "Held out by the control group", ""},
		{waypost.WhatDeferred, "breakerOpen", "Receiver is down", ""},
		{waypost.WhatSkipped, "frequencyCap", "Skipped: the lead got enough messages", ""},
		{waypost.WhatSkipped, "consent", "Skipped: the lead has not agreed to the channel", ""},
		{waypost.WhatSkipped, "suppressed", "Skipped: the lead is suppressed in the channel", ""},
		{waypost.WhatSkipped, "birthday: in the past", "", "birthday: in the past"},
		{waypost.WhatExited, "event unsubscribed", "Event unsubscribed", ""},
		{waypost.WhatExited, "canceled", "Somebody canceled it", ""},
		{waypost.WhatPaused, "journey", "With the whole journey", ""},
	} {
		words, raw := visitIn(t, "en").why(waypost.TimelineEntry{What: tt.what, Reason: tt.reason}, names{{"seg_1", "gold"}})
		if words != tt.words || raw != tt.raw {
			t.Errorf("%s %q: %q, %q", tt.what, tt.reason, words, raw)
		}
	}
}

// A story ends where one kind of what happened was cut off.
func TestStory(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 1, 31, 12, minute, 0, 0, time.UTC) }
	p := leadPage{Lead: waypost.Lead{CreatedAt: at(0)}, Enrollments: []enrollmentAnswer{{JourneyID: "jrn_1", CreatedAt: at(5), EndedAt: at(30), Status: waypost.EnrollmentCompleted}}}
	sent := api.List[delivery]{Items: []delivery{{Status: waypost.DeliverySucceeded, LastAttemptAt: at(20)}, {Status: waypost.DeliveryFailed, ErrorClass: "network", LastAttemptAt: at(10)}}}
	events := api.List[event]{Items: []event{{Name: "purchase", OccurredAt: at(15), AcceptedAt: at(16), Properties: json.RawMessage(`{}`)}}}
	minutes := func(story []chapter) (out []int) {
		for _, c := range story {
			out = append(out, c.At.Minute())
		}
		return out
	}
	story, cut := visitIn(t, "en").story(p, sent, events)
	if got := minutes(story); cut || !reflect.DeepEqual(got, []int{30, 20, 15, 10, 5, 0}) {
		t.Errorf("whole: %v, %v", got, cut)
	}
	if !story[2].Came.Equal(at(16)) || !story[1].Came.IsZero() {
		t.Errorf("when the event came: %v", story[2].Came)
	}
	if story[3].What != "Failed · Network error" || story[2].Detail != "" {
		t.Errorf("told: %+v", story)
	}
	sent.NextCursor = "more"
	story, cut = visitIn(t, "en").story(p, sent, events)
	if got := minutes(story); !cut || !reflect.DeepEqual(got, []int{30, 20, 15, 10}) {
		t.Errorf("cut off: %v, %v", got, cut)
	}
}

func TestLeadBody(t *testing.T) {
	t.Parallel()
	form := url.Values{"name": {" Ada "}, "mobilePhone": {"13800138000\r\n13900139000；1"}, "gender": {"2"}, "region": {"x"}, "remark": {"a\r\nb "}, "consents.sms": {"true"}, "consents.email": {""}, "consents.微信": {"false"}, "test": {"yes"}}
	body, _ := leadBody(form, map[string]any{"plan": "pro"})
	text, err := json.Marshal(withoutNull(body))
	if err != nil || string(text) != `{"consents":{"sms":true,"微信":false},"customFields":{},"gender":2,"mobilePhone":["13800138000","13900139000","1"],"name":"Ada","region":"x","remark":"a\nb ","test":true}` {
		t.Errorf("%s, %v", text, err)
	}
}

func TestEnding(t *testing.T) {
	t.Parallel()
	for stream, want := range map[string]bool{"{\"end\":true,\"count\":0}\n": true, "{\"a\":1}\n{\"end\":true,\"count\":1}\n": true, "{\"a\":1}\n": false, "": false, "{\"end\":tr": false} {
		e := &ending{}
		for i := range len(stream) {
			_, _ = e.Write([]byte{stream[i]})
		}
		if e.end() != want {
			t.Errorf("%q: %v", stream, !want)
		}
	}
}

func TestAddressesOfArticles(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"": "", "example.com/a": "https://example.com/a", "http://example.com": "http://example.com", "javascript://x": "", "https://[": ""} {
		if got := webAddress(address); got != want {
			t.Errorf("%q: %q", address, got)
		}
	}
	for text, want := range map[string]string{"": "", "a": "a", "=SUM(A1)": "'=SUM(A1)", "-1": "'-1", " =1": "' =1", "\n=1": "'\n=1", "＝1": "'＝1", "x=1": "x=1"} {
		if got := asCell(text); got != want {
			t.Errorf("cell %q: %q", text, got)
		}
	}
}
