package journey_test

import (
	"strings"
	"testing"

	"waypost"
	"waypost/journey"
)

// An occasion begins the journey by the first entry that names it and whose condition is true.
func TestEnters(t *testing.T) {
	t.Parallel()
	d, problems := journey.Parse([]byte(`{"name":"J","start":"end","reentry":{"policy":"always"},"entry":[
		{"event":"cart","when":"event.total > 100","entryKey":"'big ' + event.cart"},
		{"event":"cart","when":"event.total > 50 && lead.region == 3","entryKey":"event.cart"},
		{"event":"open"},
		{"event":"number","entryKey":"event.n"},
		{"leadCreated":true,"when":"lead.name == 'Ada'"},
		{"leadChanged":["customFields.plan","email","consents"],"when":"now > timestamp('2020-01-01')"},
		{"segment":"seg_06jvh5r0g1s0q2k3m4n5p6q7r8","on":"enter","when":"lead.region == 3","entryKey":"lead.name"}],"nodes":[{"id":"end","type":"exit"}]}`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if problems := d.Check(nil, nil); len(problems) > 0 {
		t.Fatal(problems)
	}
	event := func(name string, properties map[string]any) waypost.Occasion {
		return waypost.Occasion{Kind: waypost.EntryEvent, Event: &waypost.Event{Name: name, Properties: properties}, At: noon}
	}
	type object = map[string]any
	lead := waypost.Lead{LeadsID: 7, LeadFields: waypost.LeadFields{Name: "Ada", Region: new(int64(3))}}
	for name, c := range map[string]struct {
		o              waypost.Occasion
		lead           waypost.Lead
		enters, failed bool
		key, reason    string
	}{
		"first":             {event("cart", object{"total": 101.0, "cart": "c1"}), lead, true, false, "big c1", "entry 1: event cart: event.total > 100 → true"},
		"second":            {event("cart", object{"total": 60, "cart": "c1"}), lead, true, false, "c1", "entry 2: event cart: event.total > 50 → true, lead.region == 3 → true"},
		"neither":           {event("cart", object{"total": 1, "cart": "c1"}), lead, false, false, "", "entry 1: event cart: event.total > 100 → false; entry 2: event cart: event.total > 50 → false"},
		"nothing is there":  {event("cart", nil), lead, false, true, "", "entry 1: event cart: event.total > 100 → error: no such key; entry 2: event cart: event.total > 50 → error: no such key, lead.region == 3 → true"},
		"the key is not":    {event("cart", object{"total": 60.0}), lead, false, true, "", "entry 1: event cart: event.total > 100 → false; entry 2: event cart: event.total > 50 → true, lead.region == 3 → true: entryKey → error: no such key"},
		"a missing value":   {event("cart", object{"total": 60.0}), waypost.Lead{}, false, true, "", "entry 1: event cart: event.total > 100 → false; entry 2: event cart: event.total > 50 → true, lead.region == 3 → error: missing value"},
		"no condition":      {event("open", nil), lead, true, false, "", "entry 3: event open"},
		"a whole number":    {event("number", object{"n": 12.0}), lead, true, false, "12", "entry 4: event number"},
		"another number":    {event("number", object{"n": 4.5}), lead, true, false, "4.5", "entry 4: event number"},
		"no key":            {event("number", object{"n": true}), lead, false, true, "", "entry 4: event number: entryKey → error: neither a text nor a number"},
		"null":              {event("number", object{"n": nil}), lead, false, true, "", "entry 4: event number: entryKey → error: missing value"},
		"long":              {event("number", object{"n": strings.Repeat("é", 129)}), lead, false, true, "", "entry 4: event number: entryKey → error: must be at most 128 characters"},
		"control character": {event("number", object{"n": "a\n"}), lead, false, true, "", "entry 4: event number: entryKey → error: must not contain control characters"},
		"unknown":           {event("other", object{"total": 1000.0}), lead, false, false, "", ""},
		"created":           {waypost.Occasion{Kind: waypost.EntryLeadCreated, At: noon}, lead, true, false, "", "entry 5: leadCreated: lead.name == \"Ada\" → true"},
		"another created":   {waypost.Occasion{Kind: waypost.EntryLeadCreated, At: noon}, waypost.Lead{}, false, false, "", "entry 5: leadCreated: lead.name == \"Ada\" → false"},
		"changed":           {waypost.Occasion{Kind: waypost.EntryLeadChanged, Changed: []string{"email", "name"}, At: noon}, lead, true, false, "", "entry 6: leadChanged: now > timestamp(\"2020-01-01\") → true"},
		"a segment":         {waypost.Occasion{Kind: waypost.EntrySegment, Segment: "seg_06jvh5r0g1s0q2k3m4n5p6q7r8", At: noon}, lead, true, false, "Ada", "entry 7: segment seg_06jvh5r0g1s0q2k3m4n5p6q7r8: lead.region == 3 → true"},
		"another segment":   {waypost.Occasion{Kind: waypost.EntrySegment, Segment: "seg_16jvh5r0g1s0q2k3m4n5p6q7r8", At: noon}, lead, false, false, "", ""},
		"a consent":         {waypost.Occasion{Kind: waypost.EntryLeadChanged, Changed: []string{"consents.sms"}, At: noon}, lead, true, false, "", "entry 6: leadChanged: now > timestamp(\"2020-01-01\") → true"},
		"another field":     {waypost.Occasion{Kind: waypost.EntryLeadChanged, Changed: []string{"customFields.planet"}, At: noon}, lead, false, false, "", ""},
	} {
		want := waypost.EntryDecision{Enters: c.enters, Failed: c.failed, Key: c.key, Reason: c.reason, Reentry: waypost.Reentry{Policy: waypost.ReentryAlways}}
		if got := d.Enters(c.o, journey.Facts{Lead: c.lead}); got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
	rules := []waypost.EntryRule{
		{Kind: waypost.EntryEvent, Event: "cart"}, {Kind: waypost.EntryEvent, Event: "open"}, {Kind: waypost.EntryEvent, Event: "number"},
		{Kind: waypost.EntryLeadCreated}, {Kind: waypost.EntryLeadChanged},
		{Kind: waypost.EntrySegment, Segment: "seg_06jvh5r0g1s0q2k3m4n5p6q7r8"},
	}
	if got := d.EntryRules(); len(got) != len(rules) || got[0] != rules[0] || got[4] != rules[4] || got[5] != rules[5] {
		t.Errorf("rules %+v", got)
	}
}

// Entrances reads a definition once and decides by it.
func TestEntrances(t *testing.T) {
	t.Parallel()
	e := journey.NewEntrances()
	v := waypost.JourneyVersion{JourneyID: "jrn_1", Version: 1, Name: "J", Definition: []byte(`{"name":"J","start":"end","entry":[{"event":"open","when":"journey.version == 1"}],"nodes":[{"id":"end","type":"exit"}]}`)}
	o := waypost.Occasion{Kind: waypost.EntryEvent, Event: &waypost.Event{Name: "open"}, At: noon}
	for range 2 {
		if d, err := e.Enter(v, o); err != nil || !d.Enters {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	v.Version, v.Definition = 2, []byte(`{"nodes":7}`)
	if _, err := e.Enter(v, o); err == nil || !strings.Contains(err.Error(), "read the definition of journey jrn_1/2") {
		t.Errorf("%v", err)
	}
}

// What began an enrollment is a part of versions that differ.
func TestDiffEntry(t *testing.T) {
	t.Parallel()
	parse := func(entry string) *journey.Definition {
		d, problems := journey.Parse([]byte(`{"name":"J","start":"end","entry":` + entry + `,"nodes":[{"id":"end","type":"exit"}]}`))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return d
	}
	changes := journey.Diff(parse(`[{"event":"cart","when":"event.total > 50"}]`), parse(`[{"event":"cart","when":"event.total > 60","entryKey":"event.id"}]`))
	if len(changes) != 2 || changes[0].String() != `entry[0].when: "event.total > 50" → "event.total > 60"` || changes[1].String() != `entry[0].entryKey: added "event.id"` {
		t.Errorf("got %v", changes)
	}
}
