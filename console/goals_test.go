package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"waypost"
)

// goalGateway is what the gateway says of a journey with an entry, a goal and a control group.
func goalGateway(enrollments, verdict string) map[string]string {
	definition := `{"name":"First order","start":"offer","entry":[{"event":"cart","when":"event.total > 50","entryKey":"event.cartId"},{"leadCreated":true},{"leadChanged":["email","customFields.plan"]}],` +
		`"goal":{"event":"purchase","when":"event.total > 0","value":"event.total"},"controlGroup":0.1,` +
		`"nodes":[{"id":"offer","type":"split","arms":[{"weight":1,"next":"a"},{"weight":1,"next":"b"}]},{"id":"a","type":"exit"},{"id":"b","type":"exit"}]}`
	return map[string]string{
		"/v1/journeys/jrn_1":                       `{"id":"jrn_1","name":"First order","status":"active","publishedVersion":3,"draft":` + definition + `}`,
		"/v1/journeys/jrn_1/versions/3":            `{"version":3,"definition":` + definition + `}`,
		"/v1/journeys/jrn_1/versions/3/diff/draft": `{"changes":[]}`,
		"/v1/journeys/jrn_1/statistics": `{"nodes":[{"nodeId":"offer","entered":60,"edges":[],"arms":[{"arm":1,"next":"a","goal":{"leads":30,"enrollments":30,"converted":3,"rate":0.1,"value":30,"open":4},"lift":null,"liftOverControlGroup":{"difference":null,"low":-1,"high":1,"verdict":"notComparable"}},` +
			`{"arm":2,"next":"b","goal":{"leads":30,"enrollments":30,"converted":20,"rate":0.6666,"value":1234.5},"lift":{"difference":0.5666,"low":0.33,"high":0.72,"verdict":"higher"},"liftOverControlGroup":{"difference":null,"low":-1,"high":1,"verdict":"notComparable"}}],` +
			`"winner":{"version":3,"nodeId":"offer","status":"decided","arm":2,"looks":1,"decidedAt":"2026-01-31T12:00:00.000Z","arms":[{"leads":30,"converted":2,"rate":0.0666,"open":5},{"leads":29,"converted":19,"rate":0.6551,"open":1}]}}],` +
			`"enrollments":{"entered":900,"begun":{"event":7,"leadCreated":0,"leadChanged":2,"segment":0},"refused":4,"undecided":5,"goal":` + enrollments + `},` +
			`"controlGroup":{"goal":{"leads":100,"enrollments":130,"converted":3,"rate":0.03,"value":120,"open":17}},"sampleRatio":{"expected":0.1,"seen":0.1,"p":1,"mismatch":` + strconv.FormatBool(verdict == "mismatch") + `},` +
			`"lift":{"difference":0.07,"low":0.0126,"high":0.0991,"confidence":0.95,"verdict":"` + verdict + `","text":"IN ENGLISH"}}`,
	}
}

var convertedGoal = `{"leads":900,"enrollments":900,"converted":90,"rate":0.1,"value":4095.5}`

// has fails for each text that a page has not.
func has(t *testing.T, page string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(strings.ReplaceAll(page, "&#43;", "+"), want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

// The outline and the statistics say what a journey begins by, what it is for, and whether
// that worked, in the person's language.
func TestGoal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.answers(goalGateway(convertedGoal, "higher"))
	v, _ := s.as(waypost.RoleViewer)
	for _, path := range []string{"/journeys/jrn_1", "/journeys/jrn_1/statistics"} {
		page := v.get(path).Body
		has(t, page, "The event cart", "event.total &gt; 50", "event.cartId", "A new lead", "A change of email, customFields.plan",
			"The event purchase within 7 days", "10% of the leads are held out",
			"Begun by an event</dt><dd>7<", "Begun by a change</dt><dd>2<", "Refused: entered before</dt><dd>4<", "<dd>5<",
			"<dd>10.0%<", "<dd>4,095.5<", "<dd>3.0% <", `<span class="badge ok">The rate is higher`,
			"+7.0 percentage points", "95% interval: +1.3 to +9.9", `<circle cx="242"`)
		if strings.Contains(page, "IN ENGLISH") {
			t.Errorf("%s shows the gateway's sentence", path)
		}
	}
	has(t, v.get("/journeys/jrn_1").Body, "17 can still convert")
	s.answers(goalGateway(convertedGoal, "mismatch"))
	has(t, v.get("/journeys/jrn_1").Body, "The control group has 10.0% of the leads, and 10.0% were to be held out.", `<span class="badge bad">The groups do not have the sizes`)
	s.answers(goalGateway(convertedGoal, "notEnoughData"))
	v.setCookie("language", "zh")
	has(t, v.get("/journeys/jrn_1").Body, "数据不足", "对照组", "+7.0 个百分点")
	if page := v.get("/journeys/jrn_1").Body; strings.Contains(page, `class="badge ok">数据不足`) {
		t.Error("too little data looks like a success")
	}
}

// The forecast of a journey with a goal tells how many would reach it, or that there are no numbers.
func TestGoalForecast(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v, _ := s.as(waypost.RoleViewer)
	for goal, want := range map[string]string{
		`{"leads":3,"enrollments":1200,"converted":400,"expected":1,"low":0,"high":4}`:     "About 1 would reach the goal, 0 to 4 with 95% confidence: 400 of 1,200 who entered before did.|预计约 1 条转化（95% 置信区间：0 至 4）",
		`{"leads":3,"enrollments":1,"converted":1,"expected":null,"low":null,"high":null}`: "only 1 who entered has had the time for it, and 30 are needed.|目标期限已过的入组仅 1 次",
	} {
		answers := goalGateway(convertedGoal, "unclear")
		answers["/v1/journeys/jrn_1/forecast"] = `{"total":5,"sample":5,"cut":0,"heldOut":2,"goal":` + goal + `,"days":[{"date":"2026-01-31","touchpoints":{},"skipped":0}]}`
		s.answers(answers)
		en, zh, _ := strings.Cut(want, "|")
		v.setCookie("language", "en")
		has(t, v.get("/journeys/jrn_1/forecast").Body, en, "2 leads are held out by the control group.")
		v.setCookie("language", "zh")
		has(t, v.get("/journeys/jrn_1/forecast").Body, zh, "2 条线索属于对照组")
	}
}

// A journey that neither begins by itself nor has a goal says nothing of both.
func TestNoGoal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.answers(map[string]string{
		"/v1/journeys/jrn_1":            `{"id":"jrn_1","name":"Plain","status":"draft","draft":{"start":"a","nodes":[{"id":"a","type":"exit"}]}}`,
		"/v1/journeys/jrn_1/statistics": `{"nodes":[],"enrollments":{"begun":{"event":0,"leadCreated":0,"leadChanged":0,"segment":0},"goal":null},"controlGroup":null,"lift":null}`,
	})
	v, _ := s.as(waypost.RoleViewer)
	page := v.get("/journeys/jrn_1")
	if page.Status != http.StatusOK || strings.Contains(page.Body, `id="goal"`) {
		t.Errorf("HTTP %d; the page has a goal: %v", page.Status, strings.Contains(page.Body, `id="goal"`))
	}
}

// A split tells its arms and which one won; those who may run journeys take that back, in the
// version in which it was decided.
func TestWinner(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.answers(goalGateway(convertedGoal, "unclear"))
	reverse := "/journeys/jrn_1/winners/offer/reverse"
	viewer, _ := s.as(waypost.RoleViewer)
	page := viewer.get("/journeys/jrn_1?node=offer").Body
	has(t, page, `<td class="num">66.7%<br>`, `<td class="num">1,234.5</td>`, "Arm B has won and takes everybody.", `<span class="badge ok">Winner</span>`, "The difference may be chance.",
		"4 can still convert", "+56.7 percentage points", "Higher", "The arms are not compared with the control group", `<li>A: 6.7% <span class="muted">2 / 30 · 5 can still convert</span></li>`)
	if strings.Contains(page, reverse) {
		t.Error("a viewer can take the winner back")
	}
	marketer, _ := s.as(waypost.RoleMarketer)
	has(t, marketer.get("/journeys/jrn_1?node=offer").Body, `action="`+reverse+`"`, `name="version" value="3"`)
	s.take()
	res := marketer.post(reverse, url.Values{"version": {"3"}})
	if res.Status != http.StatusSeeOther || !strings.HasPrefix(res.To(), "/journeys/jrn_1?node=offer") {
		t.Errorf("HTTP %d, to %q", res.Status, res.To())
	}
	if calls := s.take(); len(calls) != 1 || calls[0].Method != http.MethodPost || calls[0].Target != "/v1/journeys/jrn_1/winners/offer/reverse" {
		t.Errorf("the calls are %v", calls)
	}
	if res := marketer.post(reverse, url.Values{"version": {"x"}}); res.Status != http.StatusBadRequest || len(s.take()) > 0 {
		t.Errorf("a version that is no number: HTTP %d", res.Status)
	}
}

// An enrollment tells what it began by, and when it reached its goal.
func TestConversion(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	e := `{"enrollmentId":"enr_1","journeyId":"jrn_1","version":3,"leadsId":1001,"status":"completed","entry":{"kind":"event","event":"cart","eventId":"evt_1"},"timeline":[],`
	answers := goalGateway(convertedGoal, "higher")
	answers["/v1/enrollments/enr_1"] = e + `"conversion":{"at":"2026-01-31T12:00:00.000Z","eventId":"evt_2","value":12345.25}}`
	answers["/v1/enrollments/enr_2"] = e + `"conversion":null}`
	s.answers(answers)
	v, _ := s.as(waypost.RoleViewer)
	has(t, v.get("/enrollments/enr_1").Body, `The event <bdi class="mono">cart</bdi>`, `datetime="2026-01-31T12:00:00.000Z"`, "12,345.25")
	has(t, v.get("/enrollments/enr_2").Body, "Converted</dt><dd>–")
}

// Zero is in the middle of the picture, and all of the interval in it.
func TestPicture(t *testing.T) {
	t.Parallel()
	difference := 0.0
	for _, l := range []liftCounts{{Low: -1, High: 1}, {Low: -0.2, High: 0.01}, {Low: 0, High: 0}, {Difference: &difference, Low: -0.0001, High: 0.0001}} {
		p := l.Picture()
		if p.Low < 0 || p.High > 300 || p.Width < 1 || (p.Low < 150) != (l.Low < 0) || (p.High > 150) != (l.High > 0) {
			t.Errorf("%+v: %+v", l, p)
		}
	}
	for of1, want := range map[float64]string{0.07: "+7.0", -0.0126: "-1.3", 0: "0.0", 0.0001: "0.0", -0.0001: "0.0"} {
		if got := points(of1); got != want {
			t.Errorf("%v: %q", of1, got)
		}
	}
	for f, want := range map[float64]string{0: "0", 1234.5: "1,234.5", -0.25: "-0.25", 1e14: "100,000,000,000,000"} {
		if got := amount(f); got != want {
			t.Errorf("%v: %q", f, got)
		}
	}
}
