package gateway_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
)

func (f *fixture) newLead(name string) int64 {
	f.t.Helper()
	a := f.send("POST", "/v1/leads", `{"businessParam":{"name":"`+name+`"}}`).expect(f.t, 201)
	return int64(a.json["leadsId"].(float64))
}

func TestCreateLead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	sent := `{"leadsGroup":3,"region":310000,"address":"Nanjing Rd 1","remark":"two\nlines","name":"张三","mobilePhone":["138 0000 0000","+1 202 456 1111"],
		"gender":1,"birthday":"1990-12-31","email":"a@example.com","wechat":"w","qq":"12345","telephone":"021-12345678","company":"C","companyPhone":"1",
		"companyEmail":"c@example.com","companyWebsite":"www.example.com","externalId":"ext-1","openId":"o1","customFields":{"s":"x","n":1.5,"b":true,"gone":null},
		"consents":{"sms":true,"email":false,"gone":null},"test":true}`
	a := f.send("POST", "/v1/leads", `{"businessParam":`+sent+`}`).expect(t, 201)
	id := int64(a.json["leadsId"].(float64))
	if want := fmt.Sprintf("/v1/leads/%d", id); a.header.Get("Location") != want {
		t.Errorf("Location %q, want %q", a.header.Get("Location"), want)
	}
	var want map[string]any
	if err := json.Unmarshal([]byte(sent), &want); err != nil {
		t.Fatal(err)
	}
	delete(want["customFields"].(map[string]any), "gone")
	delete(want["consents"].(map[string]any), "gone")
	want["leadsId"], want["createdAt"], want["updatedAt"] = float64(id), "2026-01-31T12:00:00.000Z", "2026-01-31T12:00:00.000Z"
	if fmt.Sprint(a.json) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", a.json, want)
	}
	if got := f.get(fmt.Sprintf("/v1/leads/%d", id)).expect(t, 200); got.raw != a.raw {
		t.Errorf("GET %s\nPOST %s", got.raw, a.raw)
	}

	bare := f.send("POST", "/v1/leads", `{"businessParam":{"name":"x"}}`).expect(t, 201)
	if len(bare.json) != len(want) {
		t.Errorf("a bare lead has %d members, want %d: %s", len(bare.json), len(want), bare.raw)
	}
	if list, isList := bare.json["mobilePhone"].([]any); !isList || len(list) != 0 {
		t.Errorf("mobilePhone of a bare lead: %s", bare.raw)
	}
	for _, name := range []string{"leadsGroup", "email", "customFields", "birthday"} {
		if v, there := bare.json[name]; !there || v != nil {
			t.Errorf("%s of a bare lead is %v, want null", name, v)
		}
	}
}

func TestCreateLeadFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, tc := range []struct {
		name, body string
		status     int
		target     string
		details    []string
	}{
		{"no businessParam", `{}`, 400, "businessParam", []string{"NullValue businessParam"}},
		{"null businessParam", `{"businessParam":null}`, 400, "businessParam", []string{"NullValue businessParam"}},
		{"another member", `{"name":"a"}`, 400, "businessParam", []string{"UnknownField name", "NullValue businessParam"}},
		{"no JSON", `{"businessParam"`, 400, "", []string{"InvalidFormat "}},
		{"custom field beyond 2^53", `{"businessParam":{"name":"a","customFields":{"n":9007199254740993}}}`, 400, "businessParam", []string{"OutOfRange customFields.n"}},
		{"no name", `{"businessParam":{}}`, 400, "businessParam", []string{"NullValue name"}},
		{"null name", `{"businessParam":{"name":null}}`, 400, "businessParam", []string{"NullValue name"}},
		{"blank name", `{"businessParam":{"name":" \t"}}`, 400, "businessParam", []string{"NullValue name"}},
		{"wrong type", `{"businessParam":{"name":5}}`, 400, "businessParam", []string{"InvalidType name"}},
		{"fraction", `{"businessParam":{"name":"a","region":1.5}}`, 400, "businessParam", []string{"InvalidType region"}},
		{"unknown field", `{"businessParam":{"name":"a","nmae":"b"}}`, 400, "businessParam", []string{"UnknownField nmae"}},
		{"businessParam is a list", `{"businessParam":[]}`, 400, "businessParam", nil},
		{"everything at once", `{"businessParam":{"gender":3,"email":"x","birthday":"2001-02-29","mobilePhone":["1",null],"customFields":{"a":[1]},"x":1}}`, 400, "businessParam", nil},
		{"tomorrow's birthday", `{"businessParam":{"name":"a","birthday":"2026-02-02"}}`, 422, "businessParam", []string{"OutOfRange birthday"}},
		{"today at UTC+14", `{"businessParam":{"name":"a","birthday":"2026-02-01"}}`, 201, "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := f.in(t)
			a := f.send("POST", "/v1/leads", tc.body).expect(t, tc.status)
			if tc.status == 201 {
				return
			}
			code := map[int]string{400: "BadRequest", 422: "UnprocessableEntity"}[tc.status]
			a.fault(t, tc.status, code, tc.details...)
			if a.json["target"] != tc.target {
				t.Errorf("target %v, want %s", a.json["target"], tc.target)
			}
			if tc.name == "everything at once" {
				for _, want := range []string{`"name"`, `"gender"`, `"email"`, `"birthday"`, `"mobilePhone[0]"`, `"mobilePhone[1]"`, `"customFields.a"`, `"x"`} {
					if !strings.Contains(a.raw, `"target":`+want) {
						t.Errorf("no detail for %s: %s", want, a.raw)
					}
				}
			}
		})
	}
}

func TestDuplicateLeads(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.send("POST", "/v1/leads", `{"businessParam":{"name":"a","mobilePhone":["13800000000"],"externalId":"e1"}}`).expect(t, 201)
	id := fmt.Sprintf("%.0f", first.json["leadsId"])
	for target, body := range map[string]string{
		"mobilePhone": `{"businessParam":{"name":"b","mobilePhone":["+8613800000000"]}}`,
		"externalId":  `{"businessParam":{"name":"b","externalId":"e1"}}`,
	} {
		a := f.send("POST", "/v1/leads", body).fault(t, 409, "Conflict")
		if a.json["target"] != target || !strings.Contains(a.raw, id) {
			t.Errorf("%s: %s", target, a.raw)
		}
	}
	stage := map[string]string{"X-Cloud-Stage": "test"}
	f.do(call{method: "POST", target: "/v1/leads", headers: stage, body: `{"businessParam":{"name":"b","externalId":"e1"}}`}).expect(t, 201)

	var created atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			a, err := f.try(t.Context(), call{method: "POST", target: "/v1/leads", body: `{"businessParam":{"name":"c","mobilePhone":["13900000000"]}}`})
			if err != nil {
				t.Error(err)
				return
			}
			switch a.status {
			case 201:
				created.Add(1)
			case 409:
			default:
				t.Errorf("status %d: %s", a.status, a.raw)
			}
		})
	}
	group.Wait()
	if created.Load() != 1 {
		t.Errorf("%d leads of one number, want 1", created.Load())
	}
}

func TestShowLead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.newLead("Ada")
	for _, path := range []string{"abc", "1.5", "+1", "01", "-1", "0", "99999999999999999999", fmt.Sprint(id + 1)} {
		f.get("/v1/leads/"+path).fault(t, 404, "NotFound")
	}
	f.get(fmt.Sprintf("/v1/leads/%d", id)).expect(t, 200)
	// Another stage and another organisation do not see it.
	f.do(call{method: "GET", target: fmt.Sprintf("/v1/leads/%d", id), headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
	f.do(call{method: "GET", target: fmt.Sprintf("/v1/leads/%d", id), headers: map[string]string{"X-Cloud-Stage": "release"}}).expect(t, 200)
	f.do(call{method: "GET", target: "/v1/leads/1", headers: map[string]string{"X-Cloud-Stage": "Release"}}).fault(t, 400, "BadRequest")
}

// Every filter finds whom it says, in every order, however it is paged.
func TestListLeads(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := map[string]int64{}
	for i, lead := range []string{
		`{"name":"Ada","leadsGroup":3,"mobilePhone":["13800000000"],"email":"ada@example.com"}`,
		`{"name":"Adam","leadsGroup":3,"region":-7,"externalId":"x 1"}`,
		`{"name":"Grace","leadsGroup":4,"region":-7,"mobilePhone":["+12024561111","13900000000"]}`,
		`{"name":"张三","region":9007199254740993}`,
	} {
		a := f.send("POST", "/v1/leads", `{"businessParam":`+lead+`}`).expect(t, 201)
		ids[[]string{"Ada", "Adam", "Grace", "张三"}[i]] = int64(a.json["leadsId"].(float64))
		f.clock.advance(time.Hour)
	}
	f.send("PATCH", fmt.Sprintf("/v1/leads/%d", ids["Ada"]), `{"businessParam":{"remark":"changed"}}`).expect(t, 201)
	for _, tc := range []struct{ query, names string }{
		{"", "Ada Adam Grace 张三"},
		{"sort=leadsId", "Ada Adam Grace 张三"},
		{"sort=-leadsId", "张三 Grace Adam Ada"},
		{"sort=createdAt", "Ada Adam Grace 张三"},
		{"sort=-createdAt", "张三 Grace Adam Ada"},
		{"sort=updatedAt", "Adam Grace 张三 Ada"},
		{"sort=-updatedAt", "Ada 张三 Grace Adam"},
		{"leadsGroup=3", "Ada Adam"},
		{"region=-7&sort=-leadsId", "Grace Adam"},
		{"region=-7&leadsGroup=3", "Adam"},
		{"region=9007199254740993", "张三"},
		{"name=Ada", "Ada Adam"},
		{"name=ada", "Ada Adam"},
		{"name=%E5%BC%A0", "张三"},
		{"mobilePhone=139-0000-0000", "Grace"},
		{"mobilePhone=%2B86+138+0000+0000", "Ada"},
		{"mobilePhone=13700000000", ""},
		{"email=ADA%40Example.com", "Ada"},
		{"externalId=x+1", "Adam"},
		{fmt.Sprintf("leadsIds=%d,7000,%[1]d,-1,%[2]d", ids["Grace"], ids["Ada"]), "Ada Grace"},
		{fmt.Sprintf("leadsIds=%d,%d&sort=-updatedAt&name=a", ids["Ada"], ids["Adam"]), "Ada Adam"},
		{"leadsIds=7000", ""},
		{"externalId=x%201", "Adam"},
		{"createdFrom=2026-01-31T13:00:00Z&createdTo=2026-01-31T15:00:00.000Z", "Adam Grace"},
		{"createdFrom=2026-01-31T21:00:00%2B08:00&sort=-createdAt", "张三 Grace Adam"},
		{"updatedFrom=2026-01-31T16:00:00Z", "Ada"},
		{"updatedTo=2026-01-31T14:00:00Z&sort=-updatedAt", "Adam"},
	} {
		for _, limit := range []int{1, 2, 3, 4, 500} {
			var got []string
			for cursor := ""; ; {
				a := f.get(fmt.Sprintf("/v1/leads?%s&limit=%d%s", tc.query, limit, cursor)).expect(t, 200)
				items := a.json["items"].([]any)
				for _, item := range items {
					got = append(got, item.(map[string]any)["name"].(string))
				}
				next, more := a.json["nextCursor"].(string)
				if !more {
					break
				}
				if len(items) != limit {
					t.Fatalf("%s: a page of %d that others follow has %d", tc.query, limit, len(items))
				}
				cursor = "&cursor=" + next
			}
			if all := strings.Join(got, " "); all != tc.names {
				t.Errorf("%s by %d: got %s, want %s", tc.query, limit, all, tc.names)
			}
		}
	}
	one := f.get("/v1/leads?limit=1").expect(t, 200)
	if lead := f.get(fmt.Sprintf("/v1/leads/%d", ids["Ada"])); !strings.HasPrefix(one.raw, `{"items":[`+lead.raw+`],"nextCursor":"`) {
		t.Errorf("list %s\nlead %s", one.raw, lead.raw)
	}
	next := one.str(t, "nextCursor")
	for query, details := range map[string]string{
		"cursor=" + next + "&name=Ada":      "InvalidFormat cursor",
		"cursor=" + next + "&sort=-leadsId": "InvalidFormat cursor",
		"cursor=x":                          "InvalidFormat cursor",
		"createdFrom=2026-02-01T00:00:00Z&createdTo=2026-01-31T23:59:59.999Z": "OutOfRange createdFrom",
		"updatedFrom=2026-01-31T12:00:00.001Z&updatedTo=2026-01-31T12:00:00Z": "OutOfRange updatedFrom",
		"sort=name": "OutOfRange sort",
		"sort=":     "NullValue sort",
		"region=1.5&leadsGroup=99999999999999999999&mobilePhone=1&email=x&externalId=+&createdFrom=yesterday&updatedTo=2026-01-31&limit=0&sort=leadsid&age=3": "UnknownField age; OutOfRange limit; OutOfRange leadsGroup; InvalidType region; InvalidFormat externalId; InvalidFormat email; InvalidFormat mobilePhone; InvalidFormat createdFrom; InvalidFormat updatedTo; OutOfRange sort",
		"name=" + strings.Repeat("x", 129):       "TooLong name",
		"name=a&name=b":                          "Duplicate name",
		"email=%00":                              "InvalidFormat email",
		"leadsIds=1,,2":                          "InvalidType leadsIds",
		"leadsIds=1" + strings.Repeat(",1", 100): "OutOfRange leadsIds",
		"mobilePhone=13800000000%3Bext%3D1":      "InvalidFormat mobilePhone",
	} {
		if a := f.get("/v1/leads?"+query).fault(t, 400, "BadRequest", strings.Split(details, "; ")...); a.json["target"] != "query" {
			t.Errorf("%s: target %v", query, a.json["target"])
		}
	}
}

// A page that is full to the last lead has no page after it.
func TestListLeadsFullPage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.imported("create", "text/csv", "name"+strings.Repeat("\nx", 500))
	for _, total := range []int{500, 501} {
		a := f.get("/v1/leads?limit=500").expect(t, 200)
		if _, more := a.json["nextCursor"].(string); more != (total > 500) || len(a.json["items"].([]any)) != 500 {
			t.Errorf("of %d leads: %d, then %v", total, len(a.json["items"].([]any)), a.json["nextCursor"])
		}
		if total > 500 {
			rest := f.get("/v1/leads?limit=500&cursor="+a.str(t, "nextCursor")).expect(t, 200)
			if rest.json["nextCursor"] != nil || len(rest.json["items"].([]any)) != 1 {
				t.Errorf("the rest: %s", rest.raw)
			}
		}
		f.newLead("one more")
	}
}

func TestChangeLead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	created := f.send("POST", "/v1/leads", `{"businessParam":{"name":"Ada","region":1,"mobilePhone":["13800000000"],"externalId":"e1","customFields":{"a":1,"b":"x"}}}`).expect(t, 201)
	target := created.header.Get("Location")
	f.clock.advance(time.Second)

	// PATCH merges, custom fields one by one.
	patched := f.send("PATCH", target, `{"businessParam":{"region":null,"gender":2,"customFields":{"a":null,"c":true}}}`).expect(t, 201)
	want := strings.NewReplacer(`"region":1`, `"region":null`, `"gender":null`, `"gender":2`, `{"a":1,"b":"x"}`, `{"b":"x","c":true}`, `"updatedAt":"2026-01-31T12:00:00`, `"updatedAt":"2026-01-31T12:00:01`).Replace(created.raw)
	if patched.raw != want {
		t.Errorf("got  %s\nwant %s", patched.raw, want)
	}
	shown := f.get(target).expect(t, 200)
	if shown.raw != want || shown.header.Get("ETag") != patched.header.Get("ETag") || shown.header.Get("ETag") == created.header.Get("ETag") {
		t.Errorf("GET %s, ETag %s, of the PATCH %s", shown.raw, shown.header.Get("ETag"), patched.header.Get("ETag"))
	}
	if head := f.do(call{method: "HEAD", target: target}).expect(t, 200); head.header.Get("ETag") != shown.header.Get("ETag") || head.raw != "" {
		t.Errorf("HEAD: %v %q", head.header, head.raw)
	}
	f.clock.advance(time.Second)
	cleared := f.send("PATCH", target, `{"businessParam":{"customFields":{"b":null,"c":null},"mobilePhone":null}}`).expect(t, 201)
	if cleared.json["customFields"] != nil || fmt.Sprint(cleared.json["mobilePhone"]) != "[]" || cleared.json["externalId"] != "e1" {
		t.Errorf("cleared: %s", cleared.raw)
	}

	// PUT replaces all of it.
	replaced := f.send("PUT", target, `{"businessParam":{"name":"Eve","mobilePhone":["13900000000"]}}`).expect(t, 201)
	for name, value := range replaced.json {
		switch name {
		case "leadsId", "name", "mobilePhone", "createdAt", "updatedAt":
		case "test":
			if value != false {
				t.Errorf("test is %v", value)
			}
		default:
			if value != nil {
				t.Errorf("%s is still %v", name, value)
			}
		}
	}
	if replaced.json["leadsId"] != created.json["leadsId"] || replaced.json["createdAt"] != created.json["createdAt"] || replaced.json["name"] != "Eve" {
		t.Errorf("replaced: %s", replaced.raw)
	}
	// The numbers and the externalId that it had are free, the one that it has is not.
	other := f.send("POST", "/v1/leads", `{"businessParam":{"name":"b","mobilePhone":["13800000000"],"externalId":"e1"}}`).expect(t, 201)
	for body, target := range map[string]string{`{"mobilePhone":["+86 139 0000 0000"]}`: "mobilePhone", `{"mobilePhone":["13700000000","13900000000"]}`: "mobilePhone"} {
		a := f.send("PATCH", other.header.Get("Location"), `{"businessParam":`+body+`}`).fault(t, 409, "Conflict")
		if a.json["target"] != target || !strings.Contains(a.raw, fmt.Sprintf("%.0f", created.json["leadsId"])) {
			t.Errorf("%s: %s", body, a.raw)
		}
	}
	f.send("PUT", target, `{"businessParam":{"name":"Eve","externalId":"e1"}}`).fault(t, 409, "Conflict", "Duplicate externalId")
	f.send("PUT", target, `{"businessParam":{"name":"Eve","mobilePhone":["139 0000 0000"]}}`).expect(t, 201) // its own

	f.send("DELETE", target, "").expect(t, 204)
	for _, method := range []string{"GET", "DELETE"} {
		f.do(call{method: method, target: target}).fault(t, 404, "NotFound")
	}
	again := f.send("POST", "/v1/leads", `{"businessParam":{"name":"c","mobilePhone":["13900000000"]}}`).expect(t, 201)
	if again.json["leadsId"].(float64) <= other.json["leadsId"].(float64) {
		t.Error("an id is used again")
	}
}

// What is wrong with a change is said before whether its lead exists.
func TestChangeLeadFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	full := make([]string, 64)
	for i := range full {
		full[i] = fmt.Sprintf(`"f%d":1`, i)
	}
	id := f.newLead("Ada")
	f.send("PATCH", fmt.Sprintf("/v1/leads/%d", id), `{"businessParam":{"customFields":{`+strings.Join(full, ",")+`}}}`).expect(t, 201)
	for _, tc := range []struct {
		methods, body string
		status        int
		target        string
		details       []string
	}{
		{"PATCH PUT", `{}`, 400, "businessParam", []string{"NullValue businessParam"}},
		{"PATCH PUT", `{"businessParam":null}`, 400, "businessParam", []string{"NullValue businessParam"}},
		{"PATCH PUT", `{"name":"x"}`, 400, "businessParam", []string{"UnknownField name", "NullValue businessParam"}},
		{"PATCH PUT", `{"businessParam":{"name":null}}`, 400, "businessParam", []string{"NullValue name"}},
		{"PATCH PUT", `{"businessParam":{"name":" "}}`, 400, "businessParam", []string{"NullValue name"}},
		{"PATCH PUT", `{"businessParam":{"name":5}}`, 400, "businessParam", []string{"InvalidType name"}},
		{"PUT", `{"businessParam":{}}`, 400, "businessParam", []string{"NullValue name"}},
		{"PATCH", `{"businessParam":{"leadsId":1,"gender":3,"mobilePhone":["x"],"customFields":{"a":[],"b":null}}}`, 400, "businessParam", []string{"UnknownField leadsId", "OutOfRange gender", "InvalidFormat mobilePhone[0]", "InvalidType customFields.a"}},
		{"PATCH", `{"businessParam":{"qq":"1","qq":"2"},"more":1}`, 400, "businessParam", []string{"Duplicate qq", "UnknownField more"}},
		{"PATCH", `{"businessParam":{"qq":"\u0000"}}`, 400, "businessParam", nil},
		{"PATCH PUT", `{"businessParam":{"name":"x","birthday":"2026-02-02"}}`, 422, "businessParam", []string{"OutOfRange birthday"}},
		{"PATCH PUT", `[`, 400, "", []string{"InvalidFormat "}},
	} {
		for method := range strings.FieldsSeq(tc.methods) {
			code := map[int]string{400: "BadRequest", 422: "UnprocessableEntity"}[tc.status]
			for _, path := range []string{fmt.Sprint(id), "999", "abc"} {
				if a := f.send(method, "/v1/leads/"+path, tc.body).fault(t, tc.status, code, tc.details...); a.json["target"] != tc.target {
					t.Errorf("%s %s: target %v, want %s", method, tc.body, a.json["target"], tc.target)
				}
			}
		}
	}
	f.send("PATCH", fmt.Sprintf("/v1/leads/%d", id), `{"businessParam":{"customFields":{"one more":1}}}`).fault(t, 400, "BadRequest", "OutOfRange customFields")
	f.send("PATCH", fmt.Sprintf("/v1/leads/%d", id), `{"businessParam":{"customFields":{"one more":1,"f0":null}}}`).expect(t, 201)
	for _, path := range []string{"999", "abc", "0", "-1", "01", "99999999999999999999"} {
		f.send("PATCH", "/v1/leads/"+path, `{"businessParam":{}}`).fault(t, 404, "NotFound")
		f.send("PUT", "/v1/leads/"+path, `{"businessParam":{"name":"x"}}`).fault(t, 404, "NotFound")
		f.send("DELETE", "/v1/leads/"+path, "").fault(t, 404, "NotFound")
	}
}

// Bodies that are made to break a reader.
func TestHostileLeads(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, tc := range []struct {
		body   string
		status int
	}{
		{`{"businessParam":{"name":"a","customFields":{"x":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}}}`, 400},
		{`{"businessParam":` + strings.Repeat(`{"name":`, 5_000) + `1` + strings.Repeat("}", 5_000) + `}`, 400},
		{`{"businessParam":{"name":"a","region":` + strings.Repeat("9", 100_000) + `}}`, 400},
		{`{"businessParam":{"name":"a","customFields":{"x":1e400}}}`, 400},
		{`{"businessParam":{"name":"a","customFields":{"x":-1e-400}}}`, 201},
		{`{"businessParam":{"name":"a","name":"b"}}`, 400},
		{`{"businessParam":{"name":"a","Name":"b"}}`, 400},
		{`{"businessParam":{"name":"a"},"businessParam":{"name":"b"}}`, 400},
		{`{"businessParam":{"name":"a\u0000"}}`, 400},
		{"{\"businessParam\":{\"name\":\"a\x00\"}}", 400},
		{"{\"businessParam\":{\"name\":\"a\xff\"}}", 400},
		{`{"businessParam":{"name":"\ud800"}}`, 400},
		{`{"businessParam":{"name":"\ufffd\ud83d\ude00"}}`, 201},
		{`{"businessParam":{"name":"a","constructor":1}}`, 400},
		{`{"businessParam":{"name":"` + strings.Repeat("x", 129) + `"}}`, 400},
		{`{"businessParam":{"name":"` + strings.Repeat("张", 128) + `"}}`, 201},
		{`{"businessParam":{"name":"a","remark":"` + strings.Repeat("x", 1<<20) + `"}}`, 413},
		{`{"businessParam":{"name":"a","mobilePhone":[` + strings.Repeat(`"x",`, 10_000) + `"x"]}}`, 400},
	} {
		f.send("POST", "/v1/leads", tc.body).expect(t, tc.status)
	}
}

func TestPreferMinimal(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	minimal := map[string]string{"Prefer": "respond-async, return=minimal"}
	created := f.do(call{method: "POST", target: "/v1/leads", body: `{"businessParam":{"name":"Ada"}}`, headers: minimal}).expect(t, 201)
	target := created.header.Get("Location")
	shown := f.get(target).expect(t, 200)
	if want := fmt.Sprintf(`{"leadsId":%.0f}`, shown.json["leadsId"]); created.raw != want {
		t.Errorf("got %s, want %s", created.raw, want)
	}
	check := func(what string, a, shown answer) {
		t.Helper()
		if a.header.Get("ETag") != shown.header.Get("ETag") || shown.header.Get("ETag") == "" || a.header.Get("Preference-Applied") != "return=minimal" {
			t.Errorf("%s: ETag %s, Preference-Applied %q; of the lead %s", what, a.header.Get("ETag"), a.header.Get("Preference-Applied"), shown.header.Get("ETag"))
		}
	}
	check("POST", created, shown)
	for method, body := range map[string]string{"PATCH": `{"businessParam":{"qq":"1"}}`, "PUT": `{"businessParam":{"name":"Eve"}}`} {
		changed := f.do(call{method: method, target: target, body: body, headers: minimal}).expect(t, 204)
		if changed.raw != "" {
			t.Errorf("%s: %s", method, changed.raw)
		}
		check(method, changed, f.get(target).expect(t, 200))
	}
	whole := f.do(call{method: "PATCH", target: target, body: `{"businessParam":{"qq":"2"}}`, headers: map[string]string{"Prefer": "return=representation"}}).expect(t, 201)
	if whole.json["qq"] != "2" || whole.header.Get("Preference-Applied") != "" {
		t.Errorf("%s %v", whole.raw, whole.header)
	}
}

func TestLeadPreconditions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	created := f.send("POST", "/v1/leads", `{"businessParam":{"name":"Ada"}}`).expect(t, 201)
	target, first := created.header.Get("Location"), created.header.Get("ETag")
	with := func(method, body, tag string) answer {
		t.Helper()
		c := call{method: method, target: target, body: body}
		if tag != "" {
			c.headers = map[string]string{"If-Match": tag}
		}
		return f.do(c)
	}
	f.clock.advance(time.Second)
	second := with("PATCH", `{"businessParam":{"qq":"1"}}`, first).expect(t, 201).header.Get("ETag")
	for method, body := range map[string]string{"PATCH": `{"businessParam":{"qq":"2"}}`, "PUT": `{"businessParam":{"name":"Eve"}}`, "DELETE": ""} {
		for _, tag := range []string{first, `"x"`, "W/" + second, `"x", "y"`} {
			if a := with(method, body, tag).fault(t, 412, "PreconditionFailed"); a.json["target"] != "If-Match" {
				t.Errorf("%s: %s", method, a.raw)
			}
		}
	}
	if a := f.get(target); a.header.Get("ETag") != second {
		t.Errorf("a refused change had an effect: %s", a.raw)
	}
	// Faults come before, duplicates after.
	f.send("POST", "/v1/leads", `{"businessParam":{"name":"b","externalId":"e"}}`).expect(t, 201)
	with("PATCH", `{"businessParam":{"gender":7}}`, first).fault(t, 400, "BadRequest")
	with("PATCH", `{"businessParam":{"externalId":"e"}}`, first).fault(t, 412, "PreconditionFailed")
	with("PATCH", `{"businessParam":{"externalId":"e"}}`, second).fault(t, 409, "Conflict")
	with("PUT", `{"businessParam":{"name":"Eve"}}`, `"x", , `+second+",").expect(t, 201)
	with("PATCH", `{"businessParam":{"qq":"3"}}`, "*").expect(t, 201)

	credential, err := f.store.CreateApplication(t.Context(), "", waypost.Application{Org: testOrg, Name: "strict", Grants: []waypost.Grant{"*"}, RequireIfMatch: true, RatePerSecond: 1000, RateBurst: 1000})
	if err != nil {
		t.Fatal(err)
	}
	strict := *f
	strict.key = keyOf(credential)
	for method, body := range map[string]string{"PATCH": `{"businessParam":{"qq":"2"}}`, "PUT": `{"businessParam":{"name":"Eve"}}`, "DELETE": ""} {
		if a := strict.send(method, target, body).fault(t, 428, "PreconditionRequired"); a.json["target"] != "If-Match" {
			t.Errorf("%s: %s", method, a.raw)
		}
		strict.send(method, "/v1/leads/999", body).fault(t, 404, "NotFound")
	}
	strict.send("PATCH", target, `{"businessParam":{"gender":7}}`).fault(t, 400, "BadRequest")
	strict.do(call{method: "DELETE", target: target, headers: map[string]string{"If-Match": strict.get(target).header.Get("ETag")}}).expect(t, 204)
}

// Of many who change what they have read, each change stands on the one before.
func TestNoLostUpdate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	target := fmt.Sprintf("/v1/leads/%d", f.newLead("0"))
	const clients = 50
	var group sync.WaitGroup
	var stale atomic.Int64
	for range clients {
		group.Go(func() {
			for {
				shown, err := f.try(t.Context(), call{method: "GET", target: target})
				if err != nil {
					t.Error(err)
					return
				}
				count, _ := strconv.Atoi(shown.json["name"].(string))
				changed, err := f.try(t.Context(), call{
					method: "PATCH", target: target, body: fmt.Sprintf(`{"businessParam":{"name":"%d"}}`, count+1),
					headers: map[string]string{"If-Match": shown.header.Get("ETag")},
				})
				switch {
				case err != nil:
					t.Error(err)
					return
				case changed.status == 201:
					return
				case changed.status != 412:
					t.Errorf("status %d: %s", changed.status, changed.raw)
					return
				}
				stale.Add(1)
			}
		})
	}
	group.Wait()
	if got := f.get(target).json["name"]; got != fmt.Sprint(clients) {
		t.Errorf("after %d changes: %v", clients, got)
	}
	if stale.Load() == 0 {
		t.Log("nobody was too late: the clients did not meet")
	}
}

// What is in one stage, or one organisation, is nowhere else.
func TestLeadsKeptApart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.newLead("Ada")
	im := f.send("POST", "/v1/leads/imports", `{"leads":[{"name":""}]}`).expect(t, 202).str(t, "id")
	foreign, err := f.store.CreateApplication(t.Context(), "", waypost.Application{Org: "other", Name: "foreign", Grants: []waypost.Grant{"*"}, RatePerSecond: 1000, RateBurst: 1000})
	if err != nil {
		t.Fatal(err)
	}
	key := keyOf(foreign)
	here := map[string]int{
		"GET " + fmt.Sprintf("/v1/leads/%d", id): 200, "GET /v1/leads/imports/" + im: 200, "GET /v1/leads/imports/" + im + "/errors": 200,
		"POST /v1/leads/imports/" + im + "/cancel": 200, "PATCH " + fmt.Sprintf("/v1/leads/%d", id): 201, "PUT " + fmt.Sprintf("/v1/leads/%d", id): 201,
	}
	body := func(method string) string {
		if method == "PATCH" || method == "PUT" {
			return `{"businessParam":{"name":"x"}}`
		}
		return ""
	}
	for _, there := range []call{
		{headers: map[string]string{"X-Cloud-Stage": "test"}},
		{headers: map[string]string{"X-Cloud-Stage": "pre-release"}},
		{key: &key},
	} {
		for route := range here {
			there.method, there.target, _ = strings.Cut(route, " ")
			there.body = body(there.method)
			f.do(there).fault(t, 404, "NotFound")
		}
		there.method, there.target, there.body = "DELETE", fmt.Sprintf("/v1/leads/%d", id), ""
		f.do(there).fault(t, 404, "NotFound")
		there.method, there.target = "GET", "/v1/leads"
		if a := f.do(there).expect(t, 200); a.raw != `{"items":[],"nextCursor":null}` {
			t.Errorf("another's list: %s", a.raw)
		}
		there.target = "/v1/leads/export"
		if a := f.do(there).expect(t, 200); a.raw != `{"end":true,"count":0}`+"\n" {
			t.Errorf("another's export: %s", a.raw)
		}
	}
	for route, status := range here {
		method, target, _ := strings.Cut(route, " ")
		f.send(method, target, body(method)).expect(t, status)
	}
}

// What docs/leads.md says of leads that are updated between two pages.
func TestPagesWhileLeadsAreUpdated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var ids []int64
	for range 4 {
		ids = append(ids, f.newLead("Ada"))
		f.clock.advance(time.Second)
	}
	for _, tc := range []struct {
		sort string
		want []int
	}{
		{"leadsId", []int{0, 1, 2, 3}}, {"-leadsId", []int{3, 2, 1, 0}}, {"createdAt", []int{0, 1, 2, 3}}, {"-createdAt", []int{3, 2, 1, 0}},
		{"updatedAt", []int{0, 1, 2, 3, 0}}, {"-updatedAt", []int{0, 3, 2}},
	} {
		// The first of all is updated behind the first page in ascending order, before its
		// own in descending order.
		updated := ids[0]
		if tc.sort == "-updatedAt" {
			updated = ids[1]
		}
		var got []int
		for cursor, first := "", true; ; first = false {
			a := f.get("/v1/leads?limit=1&sort="+tc.sort+cursor).expect(t, 200)
			id := int64(a.json["items"].([]any)[0].(map[string]any)["leadsId"].(float64))
			got = append(got, slices.Index(ids, id))
			if first {
				f.clock.advance(time.Second)
				f.send("PATCH", fmt.Sprintf("/v1/leads/%d", updated), `{"businessParam":{}}`).expect(t, 201)
			}
			next, more := a.json["nextCursor"].(string)
			if !more {
				break
			}
			cursor = "&cursor=" + next
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.sort, got, tc.want)
		}
		if tc.sort == "leadsId" || tc.sort == "-leadsId" || strings.HasSuffix(tc.sort, "createdAt") { // as they were
			for _, id := range ids {
				f.clock.advance(time.Second)
				f.send("PATCH", fmt.Sprintf("/v1/leads/%d", id), `{"businessParam":{}}`).expect(t, 201)
			}
		}
	}
}

// Custom fields, birthdays and genders select leads of lists, exports, counts and launches.
func TestLeadFilters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	journeyID := f.publishedJourney(nothing)
	var ids []int64
	for _, fields := range []string{
		`"birthday":"1990-12-31","gender":2,"customFields":{"plan":"gold","seats":5,"a b+c":"x=y"}`,
		`"birthday":"2000-02-29","gender":1,"customFields":{"plan":"gold","seats":"5","vip":true}`,
		`"customFields":{"plan":"silver","NAME":"x"}`,
	} {
		a := f.send("POST", "/v1/leads", `{"businessParam":{"name":"Ada",`+fields+`}}`).expect(t, 201)
		ids = append(ids, int64(a.json["leadsId"].(float64)))
	}
	for _, tc := range []struct{ query, filter, want string }{
		{"customFields.plan=gold", `{"customFields.plan":"gold"}`, "0 1"},
		{"customFields.plan=gold", `{"customFields":{"plan":"gold"}}`, "0 1"},
		{"customFields.plan=gold&customFields.vip=true", `{"customFields.plan":"gold","customFields":{"vip":true,"gone":null}}`, "1"},
		{"customFields.seats=5", `{"customFields.seats":5}`, "0 1"},
		{"customFields.seats=5.0", `{"customFields.seats":"5.0","customFields.gone":null}`, "0"},
		{"customFields.NAME=x", `{"customFields.NAME":"x"}`, "2"},
		{"customFields.a+b%2Bc=x%3Dy", `{"customFields.a b+c":"x=y"}`, "0"},
		{"customFields.plan=bronze", `{"customFields.plan":"bronze"}`, ""},
		{"gender=2", `{"gender":2}`, "0"},
		{"birthday=1990-12-31", `{"birthday":"1990-12-31"}`, "0"},
		{"birthday=--02-29&gender=1&sort=-createdAt", `{"birthday":"--02-29","gender":1}`, "1"},
	} {
		var listed, exported []string
		place := func(id any) string { return fmt.Sprint(slices.Index(ids, int64(id.(float64)))) }
		for _, item := range f.get("/v1/leads?"+tc.query).expect(t, 200).json["items"].([]any) {
			listed = append(listed, place(item.(map[string]any)["leadsId"]))
		}
		for line := range strings.Lines(f.get("/v1/leads/export?"+tc.query).expect(t, 200).raw) {
			var lead map[string]any
			if err := json.Unmarshal([]byte(line), &lead); err != nil {
				t.Fatal(err)
			}
			if lead["leadsId"] != nil {
				exported = append(exported, place(lead["leadsId"]))
			}
		}
		count := f.send("POST", "/v1/leads/count", `{"audience":{"filter":`+tc.filter+`}}`).expect(t, 200)
		sample := []string{}
		for _, id := range count.json["sample"].([]any) {
			sample = append(sample, place(id))
		}
		for what, got := range map[string][]string{"list": listed, "export": exported, "sample": sample} {
			if strings.Join(got, " ") != tc.want {
				t.Errorf("%s of %s: got %v, want %s", what, tc.query, got, tc.want)
			}
		}
		if got := int(count.json["count"].(float64)); got != len(strings.Fields(tc.want)) {
			t.Errorf("%s: %s", tc.filter, count.raw)
		}
		launch := f.newLaunch(journeyID, `{"audience":{"filter":`+tc.filter+`}}`)
		step, err := f.store.EnrollAudience(t.Context(), launch, 10)
		if err != nil || step.Enrolled+step.Skipped != len(strings.Fields(tc.want)) {
			t.Errorf("a launch to %s: %+v, %v", tc.filter, step, err)
		}
	}
	page := f.get("/v1/leads?customFields.plan=gold&limit=1").expect(t, 200)
	f.get("/v1/leads?customFields.plan=gold&limit=1&cursor="+page.str(t, "nextCursor")).expect(t, 200)
	f.get("/v1/leads?customFields.plan=silver&limit=1&cursor="+page.str(t, "nextCursor")).fault(t, 400, "BadRequest", "InvalidFormat cursor")
	f.get("/v1/leads?customFields.=x&customFields.plan=&customFields=y&gender=3&birthday=1990-02-30").fault(t, 400, "BadRequest",
		"NullValue customFields.plan", "UnknownField customFields", "OutOfRange gender", "InvalidFormat customFields.", "InvalidFormat birthday")
	f.get("/v1/leads?customFields.plan=a&customFields.plan=b&birthday=--13-01").fault(t, 400, "BadRequest", "Duplicate customFields.plan", "InvalidFormat birthday")
	f.get("/v1/deliveries?customFields.plan=a").fault(t, 400, "BadRequest", "UnknownField customFields.plan")
	f.send("POST", "/v1/leads/count", `{"audience":{"filter":{"customFields.a":[1],"customFields.":"x","customFields":{"b":1e400},"gender":7,"birthday":"x"}}}`).fault(t, 400, "BadRequest",
		"UnknownField audience.filter.customFields.", "OutOfRange audience.filter.customFields.b", "OutOfRange audience.filter.gender", "InvalidType audience.filter.customFields.a", "InvalidFormat audience.filter.birthday")
	f.send("POST", "/v1/leads/count", `{"audience":{"filter":{"customFields.a":1,"customFields":{"a":2}}}}`).fault(t, 400, "BadRequest", "Duplicate audience.filter.customFields.a")
	f.send("POST", "/v1/leads/count", `{"audience":{}}`).fault(t, 400, "BadRequest", "NullValue audience")
}

func TestCountLeads(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var ids []string
	for range 45 {
		ids = append(ids, fmt.Sprint(f.newLead("Ada")))
	}
	listed := append(slices.Clone(ids), "1000000", ids[0])
	for _, audience := range []string{`{"filter":{}}`, `{"leadsIds":[` + strings.Join(listed, ",") + `]}`} {
		a := f.send("POST", "/v1/leads/count", `{"audience":`+audience+`}`).expect(t, 200)
		sample := a.json["sample"].([]any)
		if a.json["count"] != 45.0 || len(sample) != 20 {
			t.Errorf("%s: %s", audience, a.raw)
		}
		for i, id := range sample {
			if !slices.Contains(ids, fmt.Sprint(int64(id.(float64)))) || i > 0 && id.(float64) <= sample[i-1].(float64) {
				t.Errorf("%s: %s", audience, a.raw)
			}
		}
	}
	if a := f.send("POST", "/v1/leads/count", `{"audience":{"leadsIds":[1000000]}}`).expect(t, 200); a.raw != `{"count":0,"sample":[]}` {
		t.Errorf("nobody: %s", a.raw)
	}
	f.send("POST", "/v1/leads", `{"businessParam":{"name":"Grace","customFields":{"first name":"x"}}}`).expect(t, 201)
	for when, want := range map[string]int{`lead.name == "Ada"`: 45, `"first name" in lead.customFields`: 1, `lead.name.size() > 3`: 1, `events("buy").count() > 0`: 0} {
		a := f.send("POST", "/v1/leads/count", fmt.Sprintf(`{"when":%q}`, when)).expect(t, 200)
		if sample := a.json["sample"].([]any); a.json["count"] != float64(want) || len(sample) != min(want, 20) {
			t.Errorf("%s: %s", when, a.raw)
		}
	}
	for body, fault := range map[string]string{
		`{"when":" "}`: "NullValue when", `{"when":"` + strings.Repeat("x", 4097) + `"}`: "TooLong when", `{"when":"lead.nme == 1"}`: "InvalidFormat when",
		`{"when":"entered(\"jrn_06jvh5r0g1s0q2k3m4n5p6q7r8\")"}`: "InvalidFormat when", `{"when":"inSegment(\"seg_06jvh5r0g1s0q2k3m4n5p6q7r8\")"}`: "InvalidFormat when",
		`{"when":"true","audience":{"filter":{}}}`: "InvalidFormat when", `{"when":1}`: "InvalidType when",
	} {
		f.send("POST", "/v1/leads/count", body).fault(t, 400, "BadRequest", fault)
	}
}

func TestCustomFields(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if a := f.get("/v1/leads/fields").expect(t, 200); a.raw != `{"items":[],"sampled":0}` {
		t.Errorf("of nobody: %s", a.raw)
	}
	for _, fields := range []string{`{"plan":"gold","seats":5}`, `{"plan":"silver","seats":"many","vip":true}`, `{}`, `{"plan":"gold"}`} {
		f.send("POST", "/v1/leads", `{"businessParam":{"name":"Ada","customFields":`+fields+`}}`).expect(t, 201)
	}
	want := `{"items":[{"name":"plan","type":"string","share":0.75},{"name":"seats","type":"mixed","share":0.5},{"name":"vip","type":"boolean","share":0.25}],"sampled":4}`
	if a := f.get("/v1/leads/fields").expect(t, 200); a.raw != want {
		t.Errorf("got  %s\nwant %s", a.raw, want)
	}
}
