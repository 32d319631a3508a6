package console

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"
)

// What the form says becomes the launch that is sent; what it has wrong is named by field.
func TestPlan(t *testing.T) {
	t.Parallel()
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	v := &visit{chosen: preferences{Language: "en", Zone: shanghai}}
	for want, values := range map[string]map[string]string{
		`{"audience":{"filter":{}}}`: {"when": "now"},
		`{"audience":{"filter":{"gender":0,"region":3}},"ratePerSecond":0.5,"controlGroup":0.1}`:                                                 {"region": "3", "gender": "0", "rate": "0.5", "group": "10"},
		`{"audience":{"filter":{"birthday":"--05-21","customFields":{"city":"杭州","plan":""}}}}`:                                                  {"birthday": "--05-21", "field1": "city", "value1": "杭州", "field8": "plan", "value2": "x"},
		`{"audience":{"filter":{"createdFrom":"2026-11-01T16:00:00Z"}},"startAt":"2026-11-30T01:30:00Z"}`:                                        {"createdFrom": "2026-11-02", "when": "at", "at": "2026-11-30T09:30"},
		`{"audience":{"filter":{"leadsGroup":9007199254740993}},"schedule":{"cron":"0 9 * * 1-5","timezone":"Asia/Shanghai"}}`:                   {"leadsGroup": "9007199254740993", "when": "recurring", "preset": "weekdays", "cron": "x", "timezone": "Asia/Shanghai"},
		`{"audience":{"filter":{"email":"a@example.com","externalId":"x","mobilePhone":"138","name":"Ada","updatedTo":"2026-11-01T16:00:00Z"}}}`: {"who": "filter", "name": "Ada", "mobilePhone": "138", "email": "a@example.com", "externalId": "x", "updatedTo": "2026-11-02", "leadsIds": "7"},
		`{"audience":{"segment":"seg_1"}}`:                                            {"who": "segment", "segment": "seg_1", "region": "3", "leadsIds": "7"},
		`{"audience":{"leadsIds":[7,9007199254740993,8]}}`:                            {"who": "list", "leadsIds": "7, 9007199254740993\n\n8;", "region": "3"},
		`{"audience":{"filter":{}},"schedule":{"cron":"5 4 * * *","timezone":"UTC"}}`: {"when": "recurring", "preset": "cron", "cron": "5 4 * * *", "timezone": "UTC"},
	} {
		data := newLaunchPage{Values: values, Faults: map[string]string{}}
		got, err := json.Marshal(v.planOf(&data))
		if err != nil || string(got) != want || len(data.Faults) > 0 {
			t.Errorf("%v: %s, %v, %v; want %s", values, got, data.Faults, err, want)
		}
	}
	for _, tt := range []struct {
		values map[string]string
		faulty []string
	}{
		{map[string]string{"region": "x", "leadsGroup": "1.5"}, []string{"leadsGroup", "region"}},
		{map[string]string{"when": "at"}, []string{"at"}},
		{map[string]string{"when": "at", "at": "2026-02-30T10:00"}, []string{"at"}},
		{map[string]string{"rate": "-1", "group": "100"}, []string{"group", "rate"}},
		{map[string]string{"rate": "NaN", "group": "1e999"}, []string{"group", "rate"}},
		{map[string]string{"createdTo": "yesterday"}, []string{"createdTo"}},
		{map[string]string{"who": "segment", "region": "x"}, []string{"segment"}},
		{map[string]string{"who": "list", "leadsIds": " \n"}, []string{"leadsIds"}},
		{map[string]string{"who": "list", "leadsIds": "1 Ada", "region": "x"}, []string{"leadsIds"}},
	} {
		data := newLaunchPage{Values: tt.values, Faults: map[string]string{}}
		v.planOf(&data)
		if got := slices.Sorted(maps.Keys(data.Faults)); !slices.Equal(got, tt.faulty) {
			t.Errorf("%v: faults %v, want %v", tt.values, data.Faults, tt.faulty)
		}
	}
}

func TestToDraft(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"name: a\nstart: b": `{"name":"a","start":"b"}`, "\ufeff{\"name\": \"a\"}\n": `{"name": "a"}`, "{name: a}": `{"name":"a"}`, "[1, 2]": `[1,2]`,
	} {
		if got, err := toDraft([]byte(in)); err != nil || string(got) != want {
			t.Errorf("%q: %s, %v", in, got, err)
		}
	}
	if got, err := toDraft([]byte("a: [")); len(detailsOf(err)) != 0 || err == nil {
		t.Errorf("broken: %s, %v", got, err)
	}
}
