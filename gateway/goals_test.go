package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
)

// goalOf is the part of an answer that tells of a goal.
type goalOf struct {
	Leads, Enrollments, Converted, Open int

	Rate  *float64
	Value float64
}

// withGoal publishes a journey whose split compares its arms.
func (f *fixture) withGoal() string {
	f.t.Helper()
	definition := `{"name":"Sell","start":"arms","goal":{"event":"purchase","when":"event.total > 0","within":"72h","value":"event.total"},"controlGroup":0.3,"nodes":[
		{"id":"arms","type":"split","arms":[{"weight":1,"next":"a"},{"weight":1,"next":"b"}],"winner":{"by":"goal","leads":60}},
		{"id":"a","type":"touchpoint","webhook":"` + f.newWebhook("https://example.com/hook") + `"},
		{"id":"b","type":"exit"}]}`
	id := f.send("POST", "/v1/journeys", definition).expect(f.t, 201).str(f.t, "id")
	f.send("POST", "/v1/journeys/"+id+"/publish", "").expect(f.t, 201)
	return id
}

// takeArms has enrollments take an arm as their workflow does.
func (f *fixture) takeArms(journey string, arm int, enrollments map[string]int64) {
	f.t.Helper()
	b := waypost.ArmBatch{JourneyID: journey, Version: 1, NodeID: "arms", At: f.clock.Now(), Contest: &waypost.Contest{Arms: 2, Leads: 60}}
	for id, lead := range enrollments {
		b.Items = append(b.Items, waypost.ArmChoice{Touchpoint: waypost.Touchpoint{EnrollmentID: id, Visit: 1}, LeadsID: lead, Arm: arm})
	}
	if _, err := f.store.TakeArms(f.t.Context(), b); err != nil {
		f.t.Fatal(err)
	}
}

// withWinner publishes a journey whose second arm has won.
func (f *fixture) withWinner() string {
	f.t.Helper()
	id := f.withGoal()
	for arm, buyers := range []int{0, 20, 0} {
		some := map[string]int64{}
		for len(some) < 30 {
			lead := f.newLead("Ada")
			e, err := f.store.Enroll(f.t.Context(), release, waypost.Enrollment{JourneyID: id, Version: 1, LeadsID: lead}, waypost.Reentry{})
			if err != nil {
				f.t.Fatal(err)
			}
			if e.Status != waypost.EnrollmentHeldOut {
				some[e.ID] = lead
			}
		}
		f.takeArms(id, arm%2, some)
		for _, lead := range some {
			if buyers--; buyers >= 0 {
				f.purchase(lead, 1)
			}
		}
	}
	return id
}

// purchase reports an event of the goal.
func (f *fixture) purchase(lead int64, total float64) {
	f.t.Helper()
	f.send("POST", "/v1/events", fmt.Sprintf(`{"eventId":%q,"name":"purchase","leadsId":%d,"properties":{"total":%v}}`, waypost.NewID("evt_", f.clock.Now()), lead, total)).expect(f.t, 202)
}

func TestGoal(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.withGoal()
	path := "/v1/journeys/" + id
	if a := f.get(path+"/statistics").expect(t, 200); !strings.Contains(a.raw, `"undecided":0,"goal":{"leads":0,"enrollments":0,"converted":0,"rate":null,"value":0,"open":0}},"controlGroup":{"goal":{`) ||
		!strings.Contains(a.raw, `"arms":[{"arm":1,"next":"a","goal":{"leads":0,"enrollments":0,`) || strings.Contains(a.raw, "winner") {
		t.Errorf("of nobody: %s", a.raw)
	}

	running, held := [2]map[string]int64{{}, {}}, map[string]int64{}
	for i := 0; len(running[0]) < 35 || len(running[1]) < 35 || len(held) < 35; i++ {
		lead := f.newLead(fmt.Sprint("Ada ", i))
		a := f.send("POST", path+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, lead)).expect(t, 202)
		switch enrollment := a.str(t, "enrollmentId"); {
		case a.str(t, "status") == "heldOut":
			held[enrollment] = lead
		case len(running[0]) <= len(running[1]):
			running[0][enrollment] = lead
		default:
			running[1][enrollment] = lead
		}
	}
	var heldOut string
	for enrollment, lead := range held {
		heldOut = enrollment
		if !waypost.HeldOut(id, lead, 0.3) {
			t.Errorf("lead %d is held out", lead)
		}
	}
	if a := f.get("/v1/enrollments/"+heldOut).expect(t, 200); a.str(t, "status") != "heldOut" || !strings.Contains(a.raw, `"what":"exited","next":null,"way":null,"reason":"control group"`) {
		t.Errorf("held out: %s", a.raw)
	}
	if a := f.get("/v1/enrollments?status=heldOut&limit=500&journeyId="+id).expect(t, 200); strings.Count(a.raw, `"status":"heldOut"`) != len(held) {
		t.Errorf("the list: %s", a.raw)
	}
	f.takeArms(id, 0, running[0])
	f.takeArms(id, 1, running[1])
	bought := ""
	for arm, buyers := range []int{2, 25} {
		for enrollment, lead := range running[arm] {
			if buyers--; buyers < 0 {
				break
			}
			bought = enrollment
			f.purchase(lead, 10)
		}
	}
	f.purchase(held[heldOut], 2.5)
	f.purchase(held[heldOut], 0)
	if a := f.get("/v1/enrollments/"+bought).expect(t, 200); !strings.Contains(a.raw, `"conversion":{"at":"2026-01-31T12:00:00.000Z","eventId":"evt_`) || !strings.Contains(a.raw, `,"value":10},"timeline"`) {
		t.Errorf("converted: %s", a.raw)
	}

	var st struct {
		Enrollments  struct{ Goal *goalOf }
		ControlGroup struct{ Goal goalOf }
		Lift         struct {
			Difference, Low, High, Confidence float64
			Verdict, Text                     string
		}
		Nodes []struct {
			NodeID string
			Arms   []struct {
				Arm  int
				Next *string
				Goal goalOf

				Lift, LiftOverControlGroup *struct{ Verdict string }
			}
			SampleRatio struct {
				Expected, Seen []float64
				P              *float64
				Mismatch       bool
			}
			Winner *struct {
				Status, Next string
				Arm, Looks   int
				Arms         []goalOf
			}
		}
		Series []struct {
			From         string
			Enrollments  struct{ Goal *goalOf }
			ControlGroup struct{ Goal goalOf }
		}
	}
	read := func(query string) {
		t.Helper()
		st.Series, st.Nodes = nil, nil
		if err := json.Unmarshal([]byte(f.get(path+"/statistics"+query).expect(t, 200).raw), &st); err != nil {
			t.Fatal(err)
		}
	}
	n := len(running[0]) + len(running[1])
	f.clock.advance(time.Hour)
	f.purchase(held[heldOut], 2.5)
	for _, query := range []string{"?version=1", "?version=1&every=hour", "", "?from=2026-01-31T12:00:00Z"} {
		read(query)
		if g := st.Enrollments.Goal; g == nil || g.Enrollments != n || g.Converted != 27 || *g.Rate != float64(27)/float64(n) || g.Value != 270 {
			t.Errorf("%s: the goal %+v", query, g)
		}
		if g := st.ControlGroup.Goal; g.Enrollments != len(held) || g.Converted != 1 || g.Value != 5 {
			t.Errorf("%s: the control group %+v", query, g)
		}
		if l := st.Lift; l.Verdict != "higher" || l.Text == "" || l.Low <= 0 || l.Low >= l.Difference || l.High <= l.Difference || l.Confidence != 0.95 {
			t.Errorf("%s: the lift %+v", query, l)
		}
	}
	read("?version=1&every=hour")
	if len(st.Series) != 2 || st.Series[0].Enrollments.Goal.Converted != 27 || st.Series[0].ControlGroup.Goal.Value != 5 || st.Series[1].Enrollments.Goal.Converted != 0 {
		t.Errorf("by hours: %+v", st.Series)
	}
	arms := st.Nodes[0].Arms
	if len(arms) != 2 || arms[0].Goal.Converted != 2 || arms[1].Goal.Converted != 25 || *arms[1].Next != "b" ||
		arms[0].Lift != nil || arms[1].Lift.Verdict != "higher" || arms[1].LiftOverControlGroup.Verdict != "higher" || arms[0].LiftOverControlGroup.Verdict != "notEnoughData" {
		t.Errorf("the arms: %+v", arms)
	}
	if w := st.Nodes[0].Winner; w == nil || w.Status != "open" || w.Arm != 0 || w.Looks != 0 {
		t.Errorf("the winner: %+v", w)
	}
	f.send("POST", path+"/winners/arms/reverse", "").fault(t, 404, "NotFound")

	// The next one that comes finds the winner.
	lead := f.newLead("Eve")
	for waypost.HeldOut(id, lead, 0.3) {
		lead = f.newLead("Eve")
	}
	one := f.send("POST", path+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, lead)).expect(t, 202).str(t, "enrollmentId")
	f.takeArms(id, 0, map[string]int64{one: lead})
	read("?version=1")
	if w := st.Nodes[0].Winner; w == nil || w.Status != "decided" || w.Arm != 2 || w.Next != "b" || w.Looks != 1 || w.Arms[1].Converted != 25 {
		t.Errorf("the winner: %+v", w)
	}
	shown := f.get(path).expect(t, 200)
	if !strings.Contains(shown.raw, `"winners":[{"version":1,"nodeId":"arms","status":"decided","arm":2,"next":"b",`) {
		t.Errorf("the journey: %s", shown.raw)
	}
	for _, body := range []string{fmt.Sprintf(`{"leadsId":%d}`, lead), `{"lead":{"name":"Bob"}}`} {
		a := f.send("POST", path+"/dryrun", body).expect(t, 200)
		if !strings.Contains(a.raw, `"result":"arm 2","reason":"arm 2: the winner"`) {
			t.Errorf("a dry run: %s", a.raw)
		}
	}
	if a := f.send("POST", path+"/winners/arms/reverse", `{"version":1}`).expect(t, 200); a.str(t, "status") != "reversed" || a.str(t, "reversedAt") != "2026-01-31T13:00:00.000Z" {
		t.Errorf("taken back: %s", a.raw)
	}
	f.send("POST", path+"/winners/arms/reverse", "").expect(t, 200)
	if a := f.get("/v1/audit?target="+id).expect(t, 200); strings.Count(a.raw, `"journey.reverseWinner"`) != 1 {
		t.Errorf("the audit log: %s", a.raw)
	}
	for body, want := range map[string]string{`{"version":0}`: "OutOfRange version", `{"versoin":1}`: "UnknownField versoin"} {
		f.send("POST", path+"/winners/arms/reverse", body).fault(t, 400, "BadRequest", want)
	}
	f.send("POST", path+"/winners/arms/reverse", `{"version":2}`).fault(t, 404, "NotFound")
	f.send("POST", path+"/winners/none/reverse", "").fault(t, 404, "NotFound")
	f.otherOrg().send("POST", path+"/winners/arms/reverse", "").fault(t, 404, "NotFound")
	draft := f.send("POST", "/v1/journeys", `{"name":"x"}`).expect(t, 201).str(t, "id")
	f.send("POST", "/v1/journeys/"+draft+"/winners/arms/reverse", "").fault(t, 404, "NotFound")
}

func TestGoalTried(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.withGoal()
	path := "/v1/journeys/" + id
	const events = `"startAt":"2026-02-01T00:00:00Z","events":[
		{"name":"purchase","after":"1h","properties":{"total":3}},{"name":"purchase","after":"72h","properties":{"total":4}},
		{"name":"purchase","after":"73h","properties":{"total":5}},{"name":"purchase","after":"1m","properties":{"total":0}}]`
	const reached = `"goal":{"until":"2026-02-04T00:00:00.000Z","converted":true,"convertedAt":"2026-02-01T01:00:00.000Z","value":7}`
	if a := f.send("POST", path+"/dryrun", `{"lead":{"name":"Bob"},`+events+`}`).expect(t, 200); !strings.Contains(a.raw, `"heldOut":false,`+reached) {
		t.Errorf("an invented lead: %s", a.raw)
	}
	var held, other int64
	for i := 0; held == 0 || other == 0; i++ {
		lead := f.newLead(fmt.Sprint("Ada ", i))
		if waypost.HeldOut(id, lead, 0.3) {
			held = lead
		} else {
			other = lead
		}
	}
	if a := f.send("POST", path+"/dryrun", fmt.Sprintf(`{"leadsId":%d,%s}`, held, events)).expect(t, 200); a.str(t, "status") != "heldOut" ||
		!strings.Contains(a.raw, `"path":[],"timeline":[{"at":"2026-02-01T00:00:00.000Z","nodeId":"","what":"exited","next":null,"way":null,"reason":"control group","version":1}],"messages":[],"heldOut":true,`+reached) {
		t.Errorf("of the control group: %s", a.raw)
	}
	if a := f.send("POST", path+"/dryrun", fmt.Sprintf(`{"leadsId":%d}`, other)).expect(t, 200); a.str(t, "status") != "completed" ||
		!strings.Contains(a.raw, `"heldOut":false,"goal":{"until":"2026-02-03T12:00:00.000Z","converted":false,"convertedAt":null,"value":0}`) {
		t.Errorf("another one: %s", a.raw)
	}
	if a := f.send("POST", path+"/forecast", fmt.Sprintf(`{"audience":{"leadsIds":[%d,%d]},"days":1}`, held, other)).expect(t, 200); !strings.Contains(a.raw, `"total":2,"sample":2,"cut":0,"heldOut":1,"goal":{"leads":1,"enrollments":0,"converted":0,"expected":null,"low":null,"high":null,"confidence":0.95},`) {
		t.Errorf("a forecast: %s", a.raw)
	}
	// What is wrong with a goal is told by publishing.
	faulty := `{"name":"x","start":"a","goal":{"event":"","when":"1","within":"91d"},"controlGroup":2,"nodes":[{"id":"a","type":"split","arms":[{"weight":1},{"weight":1}],"winner":{"by":"goal"}}]}`
	draft := f.send("POST", "/v1/journeys", faulty).expect(t, 201).str(t, "id")
	f.send("POST", "/v1/journeys/"+draft+"/publish", "").fault(t, 400, "BadRequest",
		"OutOfRange controlGroup", "NullValue goal.event", "InvalidFormat goal.within", "InvalidFormat goal.when", "NullValue nodes[0].winner.after")
}

// A forecast of conversions goes by enrollments with the same goal that can reach it no more.
func TestGoalForecast(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.withWinner() // 20 of 90 convert
	path := "/v1/journeys/" + id
	forecast := func(what, body, goal string) {
		t.Helper()
		if a := f.send("POST", path+"/forecast", `{"audience":{"filter":{}},"days":1`+body+`}`).expect(t, 200); !strings.Contains(a.raw, `,"goal":`+goal+`,"days":[`) {
			t.Errorf("%s: %s", what, a.raw)
		}
	}
	for range 20 { // whose conversions never count
		f.send("POST", "/v1/leads", `{"businessParam":{"name":"Test","test":true}}`).expect(t, 201)
	}
	total := f.send("POST", path+"/forecast", `{"audience":{"filter":{}},"days":1}`).expect(t, 200)
	leads := int(total.json["total"].(float64)-total.json["heldOut"].(float64)) - 20
	e, ok := waypost.GoalSum{Leads: 90, Converted: 20}.Expect(leads)
	if !ok || e.Converted != 20 {
		t.Fatalf("%+v of %s", e, total.raw)
	}
	none := fmt.Sprintf(`{"leads":%d,"enrollments":0,"converted":0,"expected":null,"low":null,"high":null,"confidence":0.95}`, leads)
	known := fmt.Sprintf(`{"leads":%d,"enrollments":90,"converted":20,"expected":20,"low":%d,"high":%d,"confidence":0.95}`, leads, e.Low, e.High)
	forecast("at once", "", none)
	f.clock.advance(72 * time.Hour) // the day is not over that much before
	forecast("after the time of the goal", "", none)
	f.clock.advance(12 * time.Hour)
	forecast("a day later", "", known)
	for goal, want := range map[string]string{
		`{"event":"purchase","when":"event.total > 0","within":"P3D"}`: known, // whatever it is worth
		`{"event":"purchase","when":"event.total > 1","within":"72h"}`: none,
		`{"event":"visit","when":"event.total > 0","within":"72h"}`:    none,
		`{"event":"purchase","when":"event.total > 0","within":"71h"}`: none,
		`null`: "null",
	} {
		f.send("PUT", path, `{"name":"Sell","start":"b","controlGroup":0.3,"nodes":[{"id":"b","type":"exit"}],"goal":`+goal+`}`).expect(t, 200)
		forecast(goal, `,"draft":true`, want)
	}
	f.clock.advance(366 * 24 * time.Hour)
	forecast("a year later", "", none)
}

// Of two carts of a lead, the purchase of one converts the enrollment that this cart began.
func TestGoalOfEntry(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.publishedJourney(`{"name":"Cart","start":"end","entry":[{"event":"cart","entryKey":"event.cartId"}],
		"goal":{"event":"purchase","when":"event.cartId == enrollment.event.properties.cartId"},"nodes":[{"id":"end","type":"exit"}]}`)
	lead := f.newLead("Ada")
	for _, event := range []string{`"a","name":"cart"`, `"b","name":"cart"`, `"b","name":"purchase"`} {
		cart, _, _ := strings.Cut(event, ",")
		f.send("POST", "/v1/events", fmt.Sprintf(`{"eventId":%q,"leadsId":%d,"properties":{"cartId":%s},%s}`,
			waypost.NewID("evt_", f.clock.Now()), lead, cart, strings.TrimPrefix(event, cart+","))).expect(t, 202)
	}
	list := f.get("/v1/enrollments?journeyId="+id).expect(t, 200)
	for _, item := range list.json["items"].([]any) {
		e := item.(map[string]any)
		one := f.get("/v1/enrollments/"+e["enrollmentId"].(string)).expect(t, 200)
		if converted := one.json["conversion"] != nil; converted != (e["entryKey"] == "b") {
			t.Errorf("the enrollment of cart %s: %s", e["entryKey"], one.raw)
		}
	}
	// The lead counts by its first enrollment, which is that of the other cart.
	if st := f.get("/v1/journeys/"+id+"/statistics").expect(t, 200); !strings.Contains(st.raw, `"goal":{"leads":1,"enrollments":2,"converted":0,`) {
		t.Errorf("counted %s", st.raw)
	}
}
