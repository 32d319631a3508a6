package journey_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"waypost/journey"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	everything := string(read(t, "testdata/valid_everything.json"))
	for _, test := range []struct {
		name string
		edit []string // pairs of what is replaced by what
		want []string
	}{
		{name: "nothing"},
		{name: "order and white space", edit: []string{
			`{"id": "old", "type": "waitUntil", "lead": "createdAt", "offset": "P30D", "weekdays": ["sun"], "onMissed": "end"},`, "", `{"id": "end", "type": "exit"}`,
			`{"id": "end", "type":   "exit"}, {"onMissed": "end", "offset": "P30D", "weekdays": ["sun"], "id": "old", "type": "waitUntil", "lead": "createdAt"}`,
		}},
		{name: "the definition", edit: []string{
			`"name": "Everything"`, `"name": "All"`, `"policy": "always"`, `"every": "1h"`, `{"event": "app.closed"}`, `{"event": "left"}`,
			`"to": "08:00", "timezone": "Asia/Shanghai"`, `"to": "07:30"`, `"frequencyCap": {"touchpoints": 3, "per": "24h"},`, "",
		}, want: []string{
			`name: "Everything" → "All"`, `reentry.policy: removed "always"`, `reentry.every: added "1h"`, `exitOn[1].event: "app.closed" → "left"`,
			`quietHours.to: "08:00" → "07:30"`, `quietHours.timezone: removed "Asia/Shanghai"`, `frequencyCap: removed {"touchpoints":3,"per":"24h"}`,
		}},
		{name: "nodes", edit: []string{
			`"for": "72h"`, `"for": "24h"`, `"greeting": "Hi {{ lead.name }}"`, `"n": 1.50, "greeting": "Dear"`, `"webhook": "whk_1", "params": {"template"`, `"webhook": "whk_2", "params": {"template"`,
			`"weekdays": ["mon", "tue", "wed", "thu", "fri"]`, `"weekdays": ["mon"]`, `"weight": 49, "next": "sorry"`, `"weight": 40, "next": "end"`,
			`touchpoints.hello.httpStatus < 300", "next": "thanks"`, `true", "next": "end"`,
			`{"id": "old", "type": "waitUntil", "lead": "createdAt", "offset": "P30D", "weekdays": ["sun"], "onMissed": "end"},`, `{"id": "young", "type": "exit"},`, `"next": "old"`, `"next": "young"`,
		}, want: []string{
			`hello.params.greeting: "Hi {{ lead.name }}" → "Dear"`, `hello.params.n: added 1.50`, `wait.for: "72h" → "24h"`,
			`morning.weekdays: ["mon","tue","wed","thu","fri"] → ["mon"]`, `arms.arms[1].weight: 49 → 40`, `arms.arms[1].next: "sorry" → "end"`,
			`check.cases[0].when: "lead.gender == 1 && touchpoints.hello.succeed && touchpoints.hello.httpStatus < 300" → "lead.gender == 1 && touchpoints.hello.succeed && true"`,
			`check.cases[0].next: "thanks" → "end"`, `thanks.webhook: "whk_1" → "whk_2"`, `other.next: "old" → "young"`,
			`young: added {"id":"young","type":"exit"}`, `old: removed {"id":"old","type":"waitUntil","weekdays":["sun"],"lead":"createdAt","offset":"P30D","onMissed":"end"}`,
		}},
		{name: "another type, more arms", edit: []string{
			`"type": "delay", "for": "72h"`, `"type": "waitUntil", "time": "09:00"`, `{"weight": 1}]`, `{"weight": 1}, {"weight": 2, "next": "end"}]`,
		}, want: []string{
			`wait.type: "delay" → "waitUntil"`, `wait.for: removed "72h"`, `wait.time: added "09:00"`,
			`arms.arms: [{"weight":50,"next":"check"},{"weight":49,"next":"sorry"},{"weight":1}] → [{"weight":50,"next":"check"},{"weight":49,"next":"sorry"},{"weight":1},{"weight":2,"next":"end"}]`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			edited := everything
			for i := 0; i < len(test.edit); i += 2 {
				if !strings.Contains(edited, test.edit[i]) {
					t.Fatalf("there is no %s", test.edit[i])
				}
				edited = strings.Replace(edited, test.edit[i], test.edit[i+1], 1)
			}
			changes := journey.Diff(parse(t, everything), parse(t, edited))
			if changes == nil {
				t.Error("the list is nil, which JSON writes as null")
			}
			var got []string
			for _, c := range changes {
				got = append(got, c.String())
			}
			if got, want := strings.Join(got, "\n"), strings.Join(test.want, "\n"); got != want {
				t.Errorf("changes:\n%s\nwant:\n%s", got, want)
			}
		})
	}
	changes := journey.Diff(parse(t, `{"name":"x","nodes":[{"id":"a","type":"exit"}]}`), parse(t, `{"name":"x","start":"b","nodes":[{"id":"b","type":"exit"}]}`))
	body, err := json.Marshal(changes)
	const want = `[{"nodeId":"","member":"start","what":"added","from":null,"to":"b"},{"nodeId":"b","member":"","what":"added","from":null,"to":{"id":"b","type":"exit"}},{"nodeId":"a","member":"","what":"removed","from":{"id":"a","type":"exit"},"to":null}]`
	if err != nil || string(body) != want {
		t.Errorf("%s, %v; want %s", body, err, want)
	}
}

// TestDiff_properties compares random definitions: what is different one way is
// different the other way, and what is not different is the same.
func TestDiff_properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := validDefinition(t), validDefinition(t)
		there, back := journey.Diff(a, b), journey.Diff(b, a)
		if len(there) != len(back) || len(there) == 0 && a.Hash() != b.Hash() || len(journey.Diff(a, a)) != 0 {
			t.Fatalf("%v\n%v", there, back)
		}
		undone := map[string]bool{}
		for _, c := range back {
			undone[c.NodeID+"."+c.Member+string(c.From)+string(c.To)] = true
		}
		for _, c := range there {
			if !undone[c.NodeID+"."+c.Member+string(c.To)+string(c.From)] || c.String() == "" {
				t.Fatalf("%s is not undone by %v", c, back)
			}
		}
	})
}
