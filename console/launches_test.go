package console

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
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
		`{"audience":{"filter":{}},"test":{"after":"72h","leads":1000,"undecided":"stop"}}`:                                                      {"testLeads": "1000", "testAfter": "72", "testUndecided": "stop"},
		`{"audience":{"filter":{}},"test":{"after":"1h30m","leads":5,"undecided":"split"}}`:                                                      {"testLeads": "5", "testAfter": "1.5"},
		`{"audience":{"filter":{}},"test":{"after":"48h","share":0.1,"undecided":"split"}}`:                                                      {"testLeads": "10 ％", "testAfter": "48"},
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
		{map[string]string{"testLeads": "0", "testAfter": "NaN"}, []string{"testAfter", "testLeads"}},
		{map[string]string{"testLeads": "100%", "testAfter": "1"}, []string{"testLeads"}},
		{map[string]string{"testLeads": "a tenth", "testAfter": "1"}, []string{"testLeads"}},
		{map[string]string{"testLeads": "1", "testAfter": "2161"}, []string{"testAfter"}},
		{map[string]string{"testLeads": "1", "testAfter": "1", "when": "recurring", "preset": "daily", "timezone": "UTC"}, []string{"testLeads"}},
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

// A launch that let nobody in says why, in the viewer's language.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]launch{
		"The journey’s rule for coming again keeps 2 leads out.; 1 listed lead does not exist.": {Empty: true, Total: 3, SkippedBy: waypost.LaunchSkips{Reentry: 2, Missing: 1}},
		"No lead was in the audience when the launch began.":                                    {Empty: true},
		"1 lead is of the control group.":                                                       {Empty: true, Total: 1, HeldOut: 1},
		"No arm had won in time, so 40 leads were not let in.":                                  {Total: 50, Enrolled: 10, Held: 40, Test: &launchTest{Status: waypost.TestStopped}},
		"": {Total: 3, Enrolled: 1, SkippedBy: waypost.LaunchSkips{Reentry: 2}},
	} {
		v := &visit{chosen: preferences{Language: "en", Zone: time.UTC}}
		if got := strings.Join(v.leftOut(l), "; "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		v.chosen.Language = "zh"
		if got := strings.Join(v.leftOut(l), ""); (got == "") != (want == "") || strings.Contains(got, "lead") || strings.Contains(got, "launches.") {
			t.Errorf("in Chinese: %q", got)
		}
	}
}

// The page of a launch shows what its test waits for and why nobody was let in, and the form of a journey
// with a winner offers a test.
func TestTestedLaunchPages(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.answers(map[string]string{
		"/v1/journeys/jrn_1": `{"id":"jrn_1","name":"Offer","status":"active","publishedVersion":1}`,
		"/v1/journeys/jrn_1/versions/1": `{"version":1,"definition":{"name":"Offer","start":"s","nodes":[
			{"id":"s","type":"split","arms":[{"weight":1},{"weight":1}],"winner":{"by":"goal","leads":60}}]}}`,
		"/v1/journeys/jrn_2":            `{"id":"jrn_2","name":"Plain","status":"active","publishedVersion":1}`,
		"/v1/journeys/jrn_2/versions/1": `{"version":1,"definition":{"name":"Plain","start":"s","nodes":[{"id":"s","type":"exit"}]}}`,
		"/v1/launches/lch_1": `{"launchId":"lch_1","journeyId":"jrn_1","version":1,"status":"running","total":1234,"enrolled":234,"held":1000,"createdAt":"2026-01-30T00:00:00Z",
			"test":{"leads":234,"undecided":"split","nodeId":"s","status":"waiting","until":"2026-02-02T12:00:00Z"}}`,
		"/v1/launches/lch_2": `{"launchId":"lch_2","journeyId":"jrn_1","version":1,"status":"completed","total":3,"skipped":3,"skippedBy":{"reentry":3},"empty":true,
			"createdAt":"2026-01-30T00:00:00Z","test":{"share":0.1,"undecided":"split","nodeId":"s","status":"decided","arm":2}}`,
		"/v1/journeys/jrn_3": `{"id":"jrn_3","name":"Slow","status":"active","publishedVersion":1}`,
		"/v1/journeys/jrn_3/versions/1": `{"version":1,"definition":{"name":"Slow","start":"s","nodes":[
			{"id":"s","type":"split","arms":[{"weight":1},{"weight":1}],"winner":{"by":"goal","after":"P3D"}}]}}`,
		"/v1/launches/lch_3": `{"launchId":"lch_3","journeyId":"jrn_1","version":1,"status":"completed","total":3,"enrolled":3,"createdAt":"2026-01-30T00:00:00Z",
			"test":{"leads":10,"undecided":"split","nodeId":"s","status":"entering"}}`,
		"/v1/launches/lch_4": `{"launchId":"lch_4","journeyId":"jrn_1","version":1,"status":"canceled","total":30,"enrolled":3,"held":27,"createdAt":"2026-01-30T00:00:00Z",
			"test":{"leads":3,"undecided":"split","nodeId":"s","status":"waiting","until":"2026-02-02T12:00:00Z"}}`,
		"/v1/launches":    `{"items":[{"launchId":"lch_2","journeyId":"jrn_1","status":"completed","total":3,"skipped":3,"empty":true,"createdAt":"2026-01-30T00:00:00Z"}]}`,
		"/v1/leads/count": `{"count":5,"sample":[]}`,
	})
	marketer, _ := s.as(waypost.RoleMarketer)
	for path, want := range map[string][]string{
		"/launches/lch_1":        {"234 first, until an arm of s has won", "The others wait for a winner,", "1,000", `href="/journeys/jrn_1?node=s"`, `action="/launches/lch_1/rate"`},
		"/launches/lch_2":        {"Nobody was let in. The journey’s rule for coming again keeps 3 leads out.", "10% first", "Arm B has won"},
		"/journeys/jrn_3/launch": {`name="testLeads"`, `value="96"`},
		"/launches/lch_3":        {"none was left for the arm that wins"},
		"/launches/lch_4":        {"canceled before an arm had won"},
		"/launches":              {"Nobody was let in."},
		"/journeys/jrn_1/launch": {`name="testLeads"`, `value="48"`},
	} {
		if got := marketer.get(path); got.Status != http.StatusOK || slices.ContainsFunc(want, func(text string) bool { return !strings.Contains(got.Body, text) }) {
			t.Errorf("%s: HTTP %d, want %q: %s", path, got.Status, want, got.Body)
		}
	}
	if got := marketer.get("/journeys/jrn_2/launch"); got.Status != http.StatusOK || strings.Contains(got.Body, "testLeads") {
		t.Errorf("a journey without a winner offers a test: HTTP %d", got.Status)
	}
	viewer, _ := s.as(waypost.RoleViewer)
	if got := viewer.get("/launches/lch_1"); strings.Contains(got.Body, "/rate") {
		t.Error("who only looks is offered the rate")
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
