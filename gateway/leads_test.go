package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
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
		"companyEmail":"c@example.com","companyWebsite":"www.example.com","externalId":"ext-1","openId":"o1","customFields":{"s":"x","n":1.5,"b":true,"gone":null}}`
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
