package gateway_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestForecast(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook, other := f.newWebhook("https://example.com"), f.newWebhook("https://example.com")
	id := f.publishedJourney(fmt.Sprintf(`{"name":"n","start":"a","frequencyCap":{"touchpoints":1,"per":"P30D"},"nodes":[
		{"id":"a","type":"branch","cases":[{"when":"lead.leadsGroup == 1","next":"b"}],"otherwise":"c"},
		{"id":"b","type":"touchpoint","webhook":%q,"params":{"p":"{{ 1 | divided_by: lead.customFields.none }}"},"next":"d"},
		{"id":"c","type":"delay","for":"24h","next":"e"},
		{"id":"d","type":"delay","for":"P2D","next":"e"},
		{"id":"e","type":"touchpoint","webhook":%q}]}`, hook, other))
	path := "/v1/journeys/" + id + "/forecast"
	rows := make([]string, 2500)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"name":"lead","leadsGroup":%d}`, i%5)
	}
	f.imported("create", "application/x-ndjson", strings.Join(rows, "\n"))
	// A fifth gets one at once, and none two days later; the others get one tomorrow.
	day := func(date, touchpoints string, skipped int) string {
		return fmt.Sprintf(`{"date":"2026-%s","touchpoints":{%s},"skipped":%d}`, date, touchpoints, skipped)
	}
	got := f.send("POST", path, `{"audience":{"filter":{}},"days":3}`).expect(t, 200)
	now := got.json["days"].([]any)[0].(map[string]any)["touchpoints"].(map[string]any)[hook].(float64)
	tomorrow := got.json["days"].([]any)[1].(map[string]any)["touchpoints"].(map[string]any)[other].(float64)
	if now < 400 || now > 600 || now+tomorrow < 2498 || now+tomorrow > 2502 {
		t.Errorf("%v now and %v tomorrow, of 500 and 2000", now, tomorrow)
	}
	want := fmt.Sprintf(`{"journeyId":%q,"version":1,"draft":false,"startAt":"2026-01-31T12:00:00.000Z","total":2500,"sample":1000,"cut":0,"heldOut":0,"goal":null,"days":[`, id) +
		day("01-31", fmt.Sprintf(`"%s":%v`, hook, now), 0) + "," + day("02-01", fmt.Sprintf(`"%s":%v`, other, tomorrow), 0) + "," + day("02-02", "", int(now)) + "]}"
	if got.raw != want {
		t.Errorf("got  %s\nwant %s", got.raw, want)
	}
	// All of a small audience are followed.
	if got := f.send("POST", path, `{"audience":{"filter":{"leadsGroup":1}},"days":1}`).expect(t, 200); !strings.Contains(got.raw,
		`"total":500,"sample":500,"cut":0,"heldOut":0,"goal":null,"days":[`+day("01-31", fmt.Sprintf(`"%s":500`, hook), 0)+`]`) {
		t.Errorf("a group: %s", got.raw)
	}
	first := f.newLead("Ada")
	got = f.send("POST", path, fmt.Sprintf(`{"audience":{"leadsIds":[%d,%d,999999]}}`, first, first-1)).expect(t, 200)
	if days := got.json["days"].([]any); got.json["total"] != 2.0 || got.json["sample"] != 2.0 || len(days) != 30 {
		t.Errorf("listed: %s", got.raw)
	}
	// Of a long list it is told how many there are by the sample.
	long := make([]string, 5000)
	for i := range long {
		long[i] = fmt.Sprint(first - 2000 + int64(i))
	}
	got = f.send("POST", path, `{"audience":{"leadsIds":[`+strings.Join(long, ",")+`]},"days":2}`).expect(t, 200)
	if total := got.json["total"].(float64); total < 1850 || total > 2150 || got.json["sample"].(float64) < 350 {
		t.Errorf("a long list: %.200s", got.raw)
	}
	empty := f.send("POST", path, `{"audience":{"filter":{"region":77}},"days":1,"version":1}`).expect(t, 200)
	if !strings.HasSuffix(empty.raw, `"total":0,"sample":0,"cut":0,"heldOut":0,"goal":null,"days":[`+day("01-31", "", 0)+`]}`) {
		t.Errorf("nobody: %s", empty.raw)
	}
	draft := f.send("POST", "/v1/journeys", nothing).expect(t, 201).str(t, "id")
	if got := f.send("POST", "/v1/journeys/"+draft+"/forecast", `{"audience":{"filter":{}},"days":366}`).expect(t, 200); got.json["draft"] != true || got.json["version"] != 1.0 {
		t.Errorf("a draft: %.200s", got.raw)
	}
	if got := f.get("/v1/launches"); got.raw != `{"items":[],"nextCursor":null}` || f.wakes.n.Load() > 1 { // of the import
		t.Errorf("launched: %s", got.raw)
	}

	for body, details := range map[string][]string{
		`{}`:                       {"NullValue audience"},
		`{"audience":{},"days":0}`: {"NullValue audience", "OutOfRange days"},
		`{"audience":{"filter":{},"leadsIds":[1]},"days":367,"version":-1}`: {"OutOfRange version", "InvalidFormat audience", "OutOfRange days"},
		`{"audience":{"filter":{"region":"x"}},"days":"30","sample":5}`:     {"InvalidType audience.filter.region", "InvalidType days", "UnknownField sample"},
		`{"audience":{"leadsIds":["1",0]},"days":1.5}`:                      {"InvalidType days", "InvalidType audience.leadsIds[0]", "OutOfRange audience.leadsIds[1]"},
		`{"audience":{"leadsIds":[]},"version":1,"draft":true}`:             {"InvalidFormat draft", "NullValue audience.leadsIds"},
		`{"audience":`: {"InvalidFormat "},
	} {
		f.send("POST", path, body).fault(t, 400, "BadRequest", details...)
	}
	f.send("POST", path, `{"audience":{"filter":{}},"version":2}`).fault(t, 404, "NotFound")
	f.send("POST", path, `{"audience":{"filter":{}}}`+strings.Repeat(" ", 1<<20)).fault(t, 413, "PayloadTooLarge")
	f.do(call{method: "POST", target: path, body: `{"audience":{"filter":{}}}`, headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
}
