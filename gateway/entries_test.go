package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/store/storetest"
)

// cartJourney begins by an event, once for each cart at a time.
func cartJourney(hook string) string {
	return `{"name":"Cart","start":"hello","entry":[
		{"event":"cart","when":"event.total > 50 && lead.name != 'Eve'","entryKey":"event.cartId"},
		{"leadCreated":true,"when":"lead.name == 'Vera'"},
		{"leadChanged":["customFields.plan"],"when":"lead.customFields.plan == 'pro'","entryKey":"lead.customFields.plan"}],
		"nodes":[{"id":"hello","type":"touchpoint","webhook":"` + hook + `","params":{
			"what":"{{ enrollment.event.name }} {{ enrollment.event.id }}: {{ enrollment.event.properties.total }}"},"next":"worth"},
		{"id":"worth","type":"branch","cases":[{"when":"enrollment.event.properties.total > 100","next":"end"}],"otherwise":"end"},
		{"id":"end","type":"exit"}]}`
}

// An accepted event begins the journey once, with the entry key and the reason, and what
// begins nothing is counted.
func TestEntryByEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hook := f.newWebhook("https://example.com")
	id := f.publishedJourney(cartJourney(hook))
	lead := f.newLead("Ada")
	event := func(id string, lead int64, properties string) {
		t.Helper()
		f.send("POST", "/v1/events", fmt.Sprintf(`{"eventId":"%s","name":"cart","leadsId":%d,"properties":%s}`, id, lead, properties)).expect(t, 202)
	}
	event("e1", lead, `{"total":60,"cartId":"c1"}`)
	event("e1", lead, `{"total":60,"cartId":"c9"}`)                           // the same event
	event("e2", lead, `{"total":70,"cartId":"c1"}`)                           // the same cart
	event("e3", lead, `{"total":50,"cartId":"c2"}`)                           // not worth it
	event("e4", lead, `{"cartId":"c3"}`)                                      // no total
	event("e5", lead, `{"total":99}`)                                         // no cart
	event("e6", lead, `{"total":99,"cartId":[1]}`)                            // no key
	event("e7", f.newLead("Eve"), `{"total":60,"cartId":"c1"}`)               // not her
	event("e8", lead, `{"total":80,"cartId":"`+strings.Repeat("c", 129)+`"}`) // too long a key
	f.do(call{
		method: "POST", target: "/v1/events/import", headers: map[string]string{"Content-Type": "application/x-ndjson"},
		body: fmt.Sprintf(`{"eventId":"e9","name":"cart","leadsId":%d,"properties":{"total":150.5,"cartId":8}}`, lead),
	}).expect(t, 202)
	list := f.get("/v1/enrollments?sort=createdAt&journeyId="+id).expect(t, 200)
	items := list.json["items"].([]any)
	if len(items) != 2 || !strings.Contains(list.raw, `"entry":{"kind":"event","event":"cart","eventId":"e1","segment":null},"entryKey":"c1"`) ||
		!strings.Contains(list.raw, `"entry":{"kind":"event","event":"cart","eventId":"e9","segment":null},"entryKey":"8"`) {
		t.Fatalf("enrolled %s", list.raw)
	}
	one := f.get("/v1/enrollments/"+items[0].(map[string]any)["enrollmentId"].(string)).expect(t, 200)
	if !strings.Contains(one.raw, `"entry":{"kind":"event","event":"cart","eventId":"e`) || strings.Contains(one.raw, "total") {
		t.Errorf("got %s", one.raw)
	}
	want := `"entered":2,"completed":0,"exited":0,"failed":0,"canceled":0,"heldOut":0,"begun":{"event":2,"leadCreated":0,"leadChanged":0,"segment":0},"refused":1,"undecided":4`
	if got := f.get("/v1/journeys/"+id+"/statistics").expect(t, 200); !strings.Contains(got.raw, want) {
		t.Errorf("got  %s\nwant %s", got.raw, want)
	}
	called := f.send("POST", "/v1/journeys/"+id+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, lead)).expect(t, 202).str(t, "enrollmentId")
	if got := f.get("/v1/enrollments/"+called).expect(t, 200); !strings.Contains(got.raw, `"entry":{"kind":"api","event":null,"eventId":null,"segment":null}`) {
		t.Errorf("a call: %s", got.raw)
	}
}

// Leads that are created and changed begin the journey, and the pump is woken.
func TestEntryByLead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.publishedJourney(cartJourney(f.newWebhook("https://example.com")))
	begun := func(what string, want int) {
		t.Helper()
		if got := len(f.get("/v1/enrollments?journeyId="+id).expect(t, 200).json["items"].([]any)); got != want {
			t.Errorf("%s: %d enrollments, want %d", what, got, want)
		}
	}
	woken := f.wakes.n.Load()
	f.send("POST", "/v1/leads", `{"businessParam":{"name":"Ada"}}`).expect(t, 201)
	begun("another name", 0)
	if f.wakes.n.Load() != woken {
		t.Error("woken for nothing")
	}
	lead := f.send("POST", "/v1/leads", `{"businessParam":{"name":"Vera"}}`).expect(t, 201).json["leadsId"]
	begun("created", 1)
	if f.wakes.n.Load() == woken {
		t.Error("not woken")
	}
	path := fmt.Sprintf("/v1/leads/%v", lead)
	f.send("PATCH", path, `{"businessParam":{"customFields":{"plan":"basic"}}}`).expect(t, 201)
	begun("another plan", 1)
	f.send("PATCH", path, `{"businessParam":{"customFields":{"plan":"pro"}}}`).expect(t, 201)
	begun("changed", 2)
	f.send("PATCH", path, `{"businessParam":{"remark":"x"}}`).expect(t, 201)
	begun("another field", 2)
	if got := f.get("/v1/enrollments?sort=createdAt&journeyId=" + id); !strings.Contains(got.raw, `{"kind":"leadCreated","event":null,"eventId":null,"segment":null}`) ||
		!strings.Contains(got.raw, `{"kind":"leadChanged","event":null,"eventId":null,"segment":null},"entryKey":"pro"`) {
		t.Errorf("got %s", got.raw)
	}
	if c, err := storetest.ClaimCohort(t.Context(), f.store); err != nil || c == nil || len(c.Members) != 2 {
		t.Errorf("to be started %+v, %v", c, err)
	}
}

// A dry run begins by an event as production does, or says why it does not.
func TestDryRunEntry(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.publishedJourney(cartJourney(f.newWebhook("https://example.com")))
	path := "/v1/journeys/" + id + "/dryrun"
	got := f.send("POST", path, `{"lead":{"name":"Ada"},"entry":{"event":"cart","eventId":"e1","properties":{"total":120.5,"cartId":"c1"}}}`).expect(t, 200)
	for _, want := range []string{
		`"entry":{"kind":"event","event":"cart","eventId":"e1","enters":true,"entryKey":"c1","reason":"entry 1: event cart: event.total > 50 → true, lead.name != \"Eve\" → true"}`,
		`"what":"`, `"params":{"what":"cart e1: 120.5"}`, `case 1: enrollment.event.properties.total > 100 → true`, `"status":"completed"`,
	} {
		if !strings.Contains(got.raw, want) {
			t.Errorf("%s lacks %s", got.raw, want)
		}
	}
	for body, want := range map[string]string{
		`"entry":{"event":"cart","properties":{"total":20,"cartId":"c1"}}`: `"enters":false,"entryKey":"","reason":"entry 1: event cart: event.total > 50 → false`,
		`"entry":{"event":"cart","properties":{"total":60}}`:               `"enters":false,"entryKey":"","reason":"entry 1: event cart: event.total > 50 → true, lead.name != \"Eve\" → true: entryKey → error: no such key"`,
		`"entry":{"event":"other"}`:                                        `"enters":false,"entryKey":"","reason":null`,
	} {
		got := f.send("POST", path, `{"lead":{"name":"Ada"},`+body+`}`).expect(t, 200)
		if !strings.Contains(got.raw, want) || !strings.Contains(got.raw, `"status":null,"limit":null,"path":[],"timeline":[],"messages":[]`) {
			t.Errorf("%s: %s", body, got.raw)
		}
	}
	for body, target := range map[string]string{
		`"entry":{"event":""}`: "entry.event",
		`"entry":{"event":"cart","eventId":"` + strings.Repeat("x", 256) + `"}`: "entry.eventId",
		`"entry":{"event":"cart"},"entryKey":"k"`:                               "entryKey",
		`"entry":{"event":"cart","lead":1}`:                                     "entry.lead",
	} {
		if got := f.send("POST", path, `{"lead":{"name":"Ada"},`+body+`}`).expect(t, 400); !strings.Contains(got.raw, `"target":"`+target+`"`) {
			t.Errorf("%s: %s", body, got.raw)
		}
	}
}

// Publishing names what is wrong with an entry.
func TestEntryFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.send("POST", "/v1/journeys", `{"name":"J","start":"end","entry":[{"event":"a","when":"event.total >"},{},{"event":"a b"},
		{"event":"c","leadCreated":true},{"leadChanged":["plan","email","email"]},{"leadCreated":true,"when":"event.x == 1"}],"nodes":[{"id":"end","type":"exit"}]}`).expect(t, 201).str(t, "id")
	got := f.send("POST", "/v1/journeys/"+id+"/publish", "").expect(t, 400)
	for _, target := range []string{"entry[0].when", "entry[1]", "entry[2].event", "entry[3]", "entry[4].leadChanged[0]", "entry[4].leadChanged[2]", "entry[5].when"} {
		if !strings.Contains(got.raw, `"target":"`+target+`"`) {
			t.Errorf("%s is not named: %s", target, got.raw)
		}
	}
	f.send("POST", "/v1/journeys", `{"name":"J","entry":[{"segment":1}]}`).expect(t, 400)
}

// A lead that enters a segment begins the journey and ends another one, once, and the answers name
// the segment.
func TestEntryBySegment(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	g := f.newSegment(`lead.customFields.plan == "gold"`)
	begins := f.publishedJourney(`{"name":"Gold","start":"end","entry":[{"segment":"` + g + `","on":"enter","when":"lead.name != 'Eve'","entryKey":"lead.name"}],"nodes":[{"id":"end","type":"exit"}]}`)
	ends := f.publishedJourney(`{"name":"Silver","start":"wait","exitOn":[{"segment":"` + g + `","on":"enter"}],"nodes":[{"id":"wait","type":"delay","for":"72h"}]}`)
	lead, eve := f.newLead("Ada"), f.newLead("Eve")
	running := f.send("POST", "/v1/journeys/"+ends+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, lead)).expect(t, 202).str(t, "enrollmentId")
	for {
		more, _, err := f.store.CheckSegments(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
	}
	f.clock.advance(time.Second)
	woken := f.wakes.n.Load()
	for _, id := range []int64{lead, eve} {
		f.send("PATCH", fmt.Sprint("/v1/leads/", id), `{"businessParam":{"customFields":{"plan":"gold"}}}`).expect(t, 201)
	}
	if f.wakes.n.Load() != woken+2 {
		t.Error("nobody is woken to look")
	}
	if _, acted, err := f.store.CheckSegments(t.Context(), 100); err != nil || !acted {
		t.Fatalf("acted %t, %v", acted, err)
	}
	list := f.get("/v1/enrollments?journeyId="+begins).expect(t, 200)
	if items := list.json["items"].([]any); len(items) != 1 || !strings.Contains(list.raw, `"entry":{"kind":"segment","event":null,"eventId":null,"segment":"`+g+`"},"entryKey":"Ada"`) {
		t.Errorf("enrolled %s", list.raw)
	}
	if got := f.get("/v1/journeys/"+begins+"/statistics").expect(t, 200); !strings.Contains(got.raw, `"begun":{"event":0,"leadCreated":0,"leadChanged":0,"segment":1},"refused":0,"undecided":0`) {
		t.Errorf("statistics %s", got.raw)
	}
	if got := f.get("/v1/enrollments/"+running).expect(t, 200); !strings.Contains(got.raw, `"status":"exited"`) || !strings.Contains(got.raw, `"what":"exited","next":null,"way":null,"reason":"segment `+g+`"`) {
		t.Errorf("ended %s", got.raw)
	}
	if a := f.send("DELETE", "/v1/segments/"+g, "").fault(t, 409, "Conflict"); !strings.Contains(a.raw, "journey ") {
		t.Errorf("deleted %s", a.raw)
	}
	f.send("PUT", "/v1/segments/"+g, `{"name":"n","when":"lead.name == \"Ada\""}`).expect(t, 200)
	if a := f.send("POST", "/v1/journeys/"+begins+"/copy", `{"stage":"test"}`).expect(t, 201); !strings.Contains(a.raw, "segment "+g+" is not of the stage test") {
		t.Errorf("a copy: %s", a.raw)
	}
}

// Publishing names what is wrong with the segments that a journey begins and ends by.
func TestSegmentFaultsOfEntry(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	g, absent := f.newSegment(`lead.gender == 1`), waypost.NewID(waypost.PrefixSegment, f.clock.Now())
	id := f.send("POST", "/v1/journeys", strings.NewReplacer("SEGMENT", g, "ABSENT", absent).Replace(`{"name":"J","start":"end",
		"entry":[{"segment":"SEGMENT","on":"leave"},{"segment":"ABSENT","on":"enter"},{"segment":"SEGMENT"},{"segment":"SEGMENT","on":"enter"},{"segment":"SEGMENT","on":"enter"}],
		"exitOn":[{"segment":"ABSENT","on":"enter"},{"segment":"SEGMENT","on":"leave"},{"segment":"SEGMENT","on":"enter"},{"segment":"SEGMENT","on":"enter"}],
		"nodes":[{"id":"end","type":"exit"}]}`)).expect(t, 201).str(t, "id")
	got := f.send("POST", "/v1/journeys/"+id+"/publish", "").fault(t, 400, "BadRequest", "OutOfRange entry[0].on", "NullValue entry[2].on", "Duplicate entry[4]",
		"OutOfRange exitOn[1].on", "Duplicate exitOn[3].segment", "OutOfRange entry[1].segment", "OutOfRange exitOn[0].segment")
	if !strings.Contains(got.raw, `must be enter: only entering a segment counts, not \"leave\"`) || !strings.Contains(got.raw, "there is no segment "+absent) {
		t.Errorf("got %s", got.raw)
	}
}
