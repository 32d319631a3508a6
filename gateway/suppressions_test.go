package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"waypost"
)

func TestSuppressions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const body = `{"channel":"sms","mobilePhone":"138 0013 8000"}`
	c := call{method: "POST", target: "/v1/suppressions", body: body, headers: map[string]string{"Idempotency-Key": "k"}}
	created := f.do(c).expect(t, 201)
	id := created.str(t, "id")
	at := f.clock.Now().UTC().Format(waypost.TimeFormat)
	want := `{"id":"` + id + `","channel":"sms","mobilePhone":"+8613800138000","email":null,"externalId":null,"createdAt":"` + at + `"}`
	if created.raw != want || created.header.Get("Location") != "/v1/suppressions/"+id || !waypost.IsID(waypost.PrefixSuppression, id) {
		t.Errorf("got  %s\nwant %s, at %s", created.raw, want, created.header.Get("Location"))
	}
	if again := f.do(c).expect(t, 201); again.raw != created.raw {
		t.Errorf("the same request: %s", again.raw)
	}
	// How an address is written does not matter: it is the one that there is.
	c.headers["Idempotency-Key"] = "another"
	c.body = `{"channel":"sms","mobilePhone":"+86 138-0013-8000"}`
	for range 2 {
		if again := f.do(c).expect(t, 200); again.raw != created.raw || again.header.Get("ETag") != created.header.Get("ETag") {
			t.Errorf("the same address: %s", again.raw)
		}
	}
	path := "/v1/suppressions/" + id
	if got := f.get(path).expect(t, 200); got.raw != created.raw || got.header.Get("ETag") != created.header.Get("ETag") {
		t.Errorf("GET %s", got.raw)
	}
	f.clock.advance(time.Second)
	mail := f.send("POST", "/v1/suppressions", `{"channel":"email","email":"Ada@example.com"}`).expect(t, 201)
	lead := f.send("POST", "/v1/leads", `{"businessParam":{"name":"Ada","mobilePhone":["13800138000"]}}`).expect(t, 201)
	for query, want := range map[string][]answer{
		"": {mail, created}, "?channel=email": {mail}, "?channel=wechat": nil, fmt.Sprintf("?leadsId=%v", lead.json["leadsId"]): {created}, "?leadsId=99": nil, "?limit=1": {mail},
	} {
		var items []string
		for _, a := range want {
			items = append(items, a.raw)
		}
		if got := f.get("/v1/suppressions"+query).expect(t, 200); !strings.HasPrefix(got.raw, `{"items":[`+strings.Join(items, ",")+`],"nextCursor":`) {
			t.Errorf("%s: %s", query, got.raw)
		}
	}
	f.get("/v1/suppressions?leadsId=0").fault(t, 400, "BadRequest", "OutOfRange leadsId")
	f.get("/v1/suppressions?email=ada@example.com").fault(t, 400, "BadRequest", "UnknownField email")

	for body, detail := range map[string][]string{
		`{}`:                                  {"NullValue channel", "NullValue "},
		`{"channel":"SMS","externalId":"x"}`:  {"InvalidFormat channel"},
		`{"channel":" sms","externalId":"x"}`: {"InvalidFormat channel"},
		`{"channel":"` + strings.Repeat("x", 41) + `","email":"a@b.c"}`: {"InvalidFormat channel"},
		`{"channel":"sms","email":"a@b.c","externalId":"x"}`:            {"NullValue "},
		`{"channel":"sms","email":"nobody"}`:                            {"InvalidFormat email"},
		`{"channel":"sms","externalId":" "}`:                            {"InvalidFormat externalId"},
		`{"channel":"sms","mobilePhone":"12"}`:                          {"InvalidFormat mobilePhone"},
		`{"channel":"sms","telephone":"12"}`:                            {"UnknownField telephone", "NullValue "},
	} {
		f.send("POST", "/v1/suppressions", body).fault(t, 400, "BadRequest", detail...)
	}

	f.do(call{method: "DELETE", target: path, headers: map[string]string{"If-Match": mail.header.Get("ETag")}}).fault(t, 412, "PreconditionFailed")
	f.do(call{method: "DELETE", target: path, headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
	f.send("DELETE", path, "").expect(t, http.StatusNoContent)
	f.send("DELETE", path, "").fault(t, 404, "NotFound")
	f.get(path).fault(t, 404, "NotFound")
}

func TestChannels(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const url = `"name":"sms","url":"https://example.com/hook"`
	hook := f.send("POST", "/v1/webhooks", `{`+url+`,"channel":"sms","requiresConsent":true}`).expect(t, 201)
	if hook.json["channel"] != "sms" || hook.json["requiresConsent"] != true {
		t.Errorf("webhook %s", hook.raw)
	}
	path := "/v1/webhooks/" + hook.str(t, "id")
	if kept := f.send("PATCH", path, `{"enabled":false}`).expect(t, 200); kept.json["channel"] != "sms" || kept.json["requiresConsent"] != true {
		t.Errorf("webhook %s", kept.raw)
	}
	f.send("PATCH", path, `{"channel":null}`).fault(t, 400, "BadRequest", "NullValue channel")
	f.send("POST", "/v1/webhooks", `{`+url+`,"requiresConsent":true}`).fault(t, 400, "BadRequest", "NullValue channel")
	f.send("POST", "/v1/webhooks", `{`+url+`,"channel":"SMS"}`).fault(t, 400, "BadRequest", "InvalidFormat channel")
	if cleared := f.send("PATCH", path, `{"channel":null,"requiresConsent":null}`).expect(t, 200); cleared.json["channel"] != nil || cleared.json["requiresConsent"] != false {
		t.Errorf("webhook %s", cleared.raw)
	}
}

// Consents and the mark of test leads are merged as custom fields are.
func TestConsents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made := f.send("POST", "/v1/leads", `{"businessParam":{"name":"Ada","consents":{"sms":true,"email":false},"test":true}}`).expect(t, 201)
	path := fmt.Sprintf("/v1/leads/%v", made.json["leadsId"])
	for _, c := range []struct{ patch, consents, test string }{
		{`{"consents":{"email":null,"wechat":true}}`, "map[sms:true wechat:true]", "true"},
		{`{"test":false}`, "map[sms:true wechat:true]", "false"},
		{`{"consents":{"sms":false,"wechat":null}}`, "map[sms:false]", "false"},
		{`{"consents":{"sms":null}}`, "<nil>", "false"},
		{`{"consents":{"sms":true},"test":true}`, "map[sms:true]", "true"},
		{`{"consents":null,"test":null}`, "<nil>", "false"},
	} {
		got := f.send("PATCH", path, `{"businessParam":`+c.patch+`}`).expect(t, 201)
		if fmt.Sprint(got.json["consents"]) != c.consents || fmt.Sprint(got.json["test"]) != c.test {
			t.Errorf("%s: %s", c.patch, got.raw)
		}
	}
	for patch, detail := range map[string]string{
		`{"consents":{"sms":"yes"}}`: "InvalidType consents.sms", `{"consents":{"Sms":true}}`: "InvalidFormat consents.Sms", `{"consents":[]}`: "InvalidType consents",
		`{"consents":{"` + strings.Repeat("x", 41) + `":true}}`: "InvalidFormat consents." + strings.Repeat("x", 41), `{"test":1}`: "InvalidType test",
	} {
		f.send("PATCH", path, `{"businessParam":`+patch+`}`).fault(t, 400, "BadRequest", detail)
	}
	var many []string
	for i := range 33 {
		many = append(many, fmt.Sprintf(`"c%d":true`, i))
	}
	f.send("PATCH", path, `{"businessParam":{"consents":{`+strings.Join(many, ",")+`}}}`).fault(t, 400, "BadRequest", "OutOfRange consents")

	f.send("PATCH", path, `{"businessParam":{"test":true,"consents":{"sms":true}}}`).expect(t, 201)
	f.newLead("Bob")
	for query, n := range map[string]int{"": 2, "?test=true": 1, "?test=false": 1} {
		if got := f.get("/v1/leads"+query).expect(t, 200); len(got.json["items"].([]any)) != n {
			t.Errorf("%s: %s", query, got.raw)
		}
	}
	f.get("/v1/leads?test=yes").fault(t, 400, "BadRequest", "InvalidType test")
	for audience, n := range map[string]float64{`{}`: 2, `{"test":true}`: 1, `{"test":false}`: 1} {
		if got := f.send("POST", "/v1/leads/count", `{"audience":{"filter":`+audience+`}}`).expect(t, 200); got.json["count"] != n {
			t.Errorf("%s: %s", audience, got.raw)
		}
	}
	exported := f.get("/v1/leads/export?format=csv").expect(t, 200)
	if lines := strings.Split(exported.raw, "\n"); !strings.HasSuffix(lines[0], ",updatedAt,consents.sms") || !strings.HasSuffix(lines[1], ",true") || !strings.HasSuffix(lines[2], ",") {
		t.Errorf("exported %s", exported.raw)
	}
}

// A dry run and a forecast tell whom a suppression or a missing consent keeps out.
func TestDryRunOfUnwanted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook := f.send("POST", "/v1/webhooks", `{"name":"sms","url":"https://example.com/hook","channel":"sms","requiresConsent":true}`).expect(t, 201).str(t, "id")
	j := f.send("POST", "/v1/journeys", fmt.Sprintf(`{"name":"J","start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":%q,"next":"end"},{"id":"end","type":"exit"}]}`, hook)).expect(t, 201)
	path := j.header.Get("Location")
	agreed := f.send("POST", "/v1/leads", `{"businessParam":{"name":"Ada","externalId":"a","consents":{"sms":true}}}`).expect(t, 201)
	f.newLead("Bob")
	run := func(body string) string {
		t.Helper()
		got := f.send("POST", path+"/dryrun", body).expect(t, 200)
		step := got.json["path"].([]any)[0].(map[string]any)
		return fmt.Sprint(step["result"], " ", step["reason"], " ", len(got.json["messages"].([]any)))
	}
	for body, want := range map[string]string{
		`{"lead":{"name":"Eve"}}`:                             "skipped consent 0",
		`{"lead":{"name":"Eve","consents":{"sms":false}}}`:    "skipped consent 0",
		`{"lead":{"name":"Eve","consents":{"sms":true}}}`:     "delivered <nil> 1",
		fmt.Sprintf(`{"leadsId":%v}`, agreed.json["leadsId"]): "delivered <nil> 1",
	} {
		if got := run(body); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	forecast := func() string {
		days := f.send("POST", path+"/forecast", `{"audience":{"filter":{}},"days":1}`).expect(t, 200).json["days"].([]any)
		return fmt.Sprint(days[0].(map[string]any)["touchpoints"], days[0].(map[string]any)["skipped"])
	}
	if got := forecast(); got != fmt.Sprintf("map[%s:1] 1", hook) {
		t.Errorf("forecast %s", got)
	}
	f.send("POST", "/v1/suppressions", `{"channel":"sms","externalId":"a"}`).expect(t, 201)
	if got := run(fmt.Sprintf(`{"leadsId":%v}`, agreed.json["leadsId"])); got != "skipped suppressed 0" {
		t.Errorf("suppressed: %s", got)
	}
	if got := forecast(); got != "map[] 2" {
		t.Errorf("forecast of suppressed leads %s", got)
	}
}
