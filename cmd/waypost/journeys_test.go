package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestJourneysSet(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{"PUT /v1/journeys/jrn_1": always(200, `{"id":"jrn_1"}`), "GET /v1/journeys/jrn_1": always(200, `{"id":"jrn_1"}`)})
	const text = "name: email\nstart: a\nentry: [{segment: silent, on: enter}, {event: email}]\nexitOn: [{segment: silent, on: enter}]\nnodes:\n  - {id: a, type: touchpoint, webhook: email, params: {webhook: email, big: 1.50}, next: b}\n" +
		"  - {id: b, type: touchpoint, webhook: sms, next: c}\n  - {id: c, type: enroll, journey: other}\n"
	runCLI(t, p.environ(), text, "journeys", "apply", "-f", "-", "--id", "jrn_1", "--set", "email=whk_1", "--set", "other=jrn_2", "--set", "silent=seg_3").want(t, 0, []string{"jrn_1"}, nil)
	const want = `{"name":"email","start":"a","entry":[{"segment":"seg_3","on":"enter"},{"event":"email"}],"exitOn":[{"segment":"seg_3","on":"enter"}],"nodes":[{"id":"a","type":"touchpoint","webhook":"whk_1","params":{"webhook":"email","big":1.50},"next":"b"},` +
		`{"id":"b","type":"touchpoint","webhook":"sms","next":"c"},{"id":"c","type":"enroll","journey":"jrn_2"}]}`
	if got := p.last(t).body; got != want {
		t.Errorf("sent %s", got)
	}
	// What is no definition is for the gateway to refuse.
	runCLI(t, p.environ(), `{"nodes":[1],"start":{}}`, "journeys", "apply", "-f", "-", "--id", "jrn_1", "--set", "a=b").want(t, 0, nil, nil)
	if got := p.last(t).body; got != `{"nodes":[1],"start":{}}` {
		t.Errorf("sent %s", got)
	}
	sent := len(p.requests())
	for args, says := range map[string]string{
		"--set email": "it is NAME=ID", "--set =x": "it is NAME=ID", "--set email=": "it is NAME=ID",
		"--set email=a --set email=b": "stands twice", "--set mail=whk_1": "no node has mail",
	} {
		runCLI(t, p.environ(), text, append([]string{"journeys", "apply", "-f", "-"}, strings.Fields(args)...)...).want(t, 2, nil, []string{says})
	}
	if n := len(p.requests()); n != sent {
		t.Errorf("%d of the faulty calls were sent", n-sent)
	}
}

func TestJourneysShowDropped(t *testing.T) {
	t.Parallel()
	const body = `{"id":"jrn_1","draft":{"name":"Bye"},"dropped":{"enrollments":{"completed":3},"deliveries":{"succeeded":5,"failed":1}}}`
	p := newPeer(t, map[string]func(request) reply{"GET /v1/journeys/jrn_1": always(200, body)})
	runCLI(t, p.environ(), "", "journeys", "show", "jrn_1").
		want(t, 0, []string{`dropped  {"enrollments":{"completed":3},"deliveries":{"succeeded":5,"failed":1}}`, `"name": "Bye"`}, nil)
}

func TestJourneysCopy(t *testing.T) {
	t.Parallel()
	const answer = `{"id":"jrn_2","name":"W","draft":{"name":"W"},"missing":[{"code":"OutOfRange","target":"nodes[0].webhook","message":"the stage test has no webhook of the name \"crm\""}]}`
	p := newPeer(t, map[string]func(request) reply{"POST /v1/journeys/jrn_1/copy": always(201, answer)})
	runCLI(t, p.environ(), "", "journeys", "copy", "jrn_1", "--stage", "test", "--name", "W").
		want(t, 0, []string{"id    jrn_2\nname  W\ndraft\n{\n  \"name\": \"W\"\n}\n"}, []string{"nodes[0].webhook: the stage test has no webhook of the name \"crm\"\n"})
	sameJSON(t, p.last(t).body, `{"name":"W","stage":"test"}`)
	sameJSON(t, runCLI(t, p.environ(), "", "-o", "json", "journeys", "copy", "jrn_1").stdout, answer)
	sameJSON(t, p.last(t).body, `{}`)
	for _, empty := range []string{"--name=", "--stage="} {
		runCLI(t, p.environ(), "", "journeys", "copy", "jrn_1", empty).want(t, 2, nil, []string{"empty"})
	}
}

func TestJourneysList(t *testing.T) {
	t.Parallel()
	const found = `{"items":[{"id":"jrn_1","name":"W","status":"active","publishedVersion":2,"updatedAt":"t","draft":{"tags":["spring","new\u001b"]}},{"id":"jrn_0","name":"V","draft":{"tags":7}}],"nextCursor":null}`
	p := newPeer(t, map[string]func(request) reply{"GET /v1/journeys": always(200, found), "GET /v1/webhooks": always(200, `{"items":[],"nextCursor":null}`)})
	runCLI(t, p.environ(), "", "journeys", "list", "--name", "W & co", "--status", "active", "--tag", "spring", "--webhook", "whk_1").
		want(t, 0, []string{"ID     NAME  STATUS  VERSION  TAGS          UPDATED\njrn_1  W     active  2        spring, new   t\n"}, nil)
	if got := p.last(t).target; got != "/v1/journeys?limit=50&name=W+%26+co&status=active&tag=spring&webhookId=whk_1" {
		t.Errorf("asked for %s", got)
	}
	runCLI(t, p.environ(), "", "webhooks", "list", "--name", "crm", "--enabled", "false").want(t, 0, []string{"ID  NAME"}, nil)
	if got := p.last(t).target; got != "/v1/webhooks?enabled=false&limit=50&name=crm" {
		t.Errorf("asked for %s", got)
	}
}

func TestJourneysVersions(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{
		"GET /v1/journeys/jrn_1/versions":              always(200, `{"items":[{"journeyId":"jrn_1","version":2,"name":"W","publishedAt":"t2"}],"nextCursor":"c"}`),
		"GET /v1/journeys/jrn_1/versions/2":            always(200, `{"journeyId":"jrn_1","version":2,"definition":{"name":"W"}}`),
		"GET /v1/journeys/jrn_1/versions/1/diff/draft": always(200, `{"from":1,"to":"draft","changes":[{"nodeId":"a"}],"text":["a.for: \"1h\" → \"2h\"","b: removed {\u001b}"]}`),
		"GET /v1/journeys/jrn_1/versions/2/diff/2":     always(200, `{"from":2,"to":2,"changes":[],"text":[]}`),
		"POST /v1/journeys/jrn_1/archive":              always(200, `{"id":"jrn_1","status":"archived"}`),
	})
	for _, tt := range []struct {
		args, stdout, stderr string
	}{
		{"versions jrn_1 --limit 1", "VERSION  NAME  PUBLISHED\n2        W     t2\n", "--cursor c"},
		{"versions jrn_1 2", "journeyId  jrn_1\nversion    2\ndefinition\n{\n  \"name\": \"W\"\n}\n", ""},
		{"diff jrn_1 1 draft", "a.for: \"1h\" → \"2h\"\nb: removed { }\n", ""},
		{"diff jrn_1 1 draft -o json", `"nodeId": "a"`, ""},
		{"diff jrn_1 2 2", "", "They say the same."},
		{"archive jrn_1", "status  archived\n", ""},
	} {
		runCLI(t, p.environ(), "", append([]string{"journeys"}, strings.Fields(tt.args)...)...).want(t, 0, []string{tt.stdout}, []string{tt.stderr})
	}
	for args, says := range map[string]string{
		"versions jrn_1 draft": `"draft" is no version`, "diff jrn_1 0 2": "number from 1 on", "diff jrn_1 1 now": "or draft", "diff jrn_1 1": "wrong number of arguments",
	} {
		runCLI(t, p.environ(), "", append([]string{"journeys"}, strings.Fields(args)...)...).want(t, 2, nil, []string{says})
	}
}

func TestJourneysDryRun(t *testing.T) {
	t.Parallel()
	const answer = `{"journeyId":"jrn_1","version":2,"draft":false,"status":"waiting","limit":"period","path":[{"nodeId":"hello"}],"timeline":[` + hello + `],
		"messages":[{"nodeId":"hello","webhookId":"whk_1","at":"t1","succeed":true,"error":null,"body":{"version":"1.0","params":{"a":"Hi Ada"}}},
		{"nodeId":"last","webhookId":"whk_1","at":"t2","succeed":false,"error":"params.p: division by zero","body":null}]}`
	p := newPeer(t, map[string]func(request) reply{
		"POST /v1/journeys/jrn_1/dryrun": always(200, answer),
		"POST /v1/journeys/jrn_2/dryrun": always(200, `{"journeyId":"jrn_2","timeline":[],"messages":[]}`),
	})
	for _, tt := range []struct {
		stdin string
		args  []string
		body  string
	}{
		{"", []string{"--lead", "7"}, `{"leadsId":7}`},
		{"name: Ada\n", []string{"-f", "-", "--draft", "--entry-key", "k", "--param", "a=1", "--param", "b:=2"}, `{"lead":{"name":"Ada"},"draft":true,"entryKey":"k","params":{"a":"1","b":2}}`},
		{`{"businessParam":{"name":"Ada"}}`, []string{"-f", "-", "--version", "3", "--start-at", "2026-01-01T00:00:00Z"}, `{"lead":{"name":"Ada"},"version":3,"startAt":"2026-01-01T00:00:00Z"}`},
		{"", []string{"--lead", "7", "--event", "login@30h", "--event", `a.b@2026-01-01T00:00:00Z={"x":"=@"}`, "--event", "c@P3D"},
			`{"leadsId":7,"events":[{"name":"login","after":"30h"},{"name":"a.b","at":"2026-01-01T00:00:00Z","properties":{"x":"=@"}},{"name":"c","after":"P3D"}]}`},
		{"", []string{"--lead", "7", "--entry", `cart={"total":60}`}, `{"leadsId":7,"entry":{"event":"cart","properties":{"total":60}}}`},
		{"", []string{"--lead", "7", "--entry", "open"}, `{"leadsId":7,"entry":{"event":"open"}}`},
		{"", []string{"--lead", "7", "--outcome", "a=503", "--outcome", "b=200", "--outcome", "c=0"},
			`{"leadsId":7,"outcomes":{"a":{"succeed":false,"httpStatus":503},"b":{"succeed":true,"httpStatus":200},"c":{"succeed":false,"httpStatus":0}}}`},
	} {
		runCLI(t, p.environ(), tt.stdin, append([]string{"journeys", "dryrun", "jrn_1"}, tt.args...)...).want(t, 0, []string{
			"limit      period\n\nAT ", "hello  sent  end", "MESSAGE AT  NODE   WEBHOOK  SUCCEED  PARAMS\n",
			"t1          hello  whk_1    true     {\"a\":\"Hi Ada\"}\n", "t2          last   whk_1    false    params.p: division by zero\n",
		}, nil)
		sameJSON(t, p.last(t).body, tt.body)
	}
	runCLI(t, p.environ(), "", "journeys", "dryrun", "jrn_2", "--lead", "1").want(t, 0, []string{"\nno messages\n"}, nil)
	sameJSON(t, runCLI(t, p.environ(), "", "-o", "json", "journeys", "dryrun", "jrn_1", "--lead", "1").stdout, answer)
	sent := len(p.requests())
	for args, says := range map[string]string{
		"": "one of --lead N", "--lead 1 -f x": "one of --lead N", "--lead x": "no whole number", "--lead 1 --version 1 --draft": "one or the other",
		"--lead 1 --event login": "NAME@WHEN", "--lead 1 --event login@": "NAME@WHEN", "--lead 1 --event @1h": "NAME@WHEN", "--lead 1 --event a@1h={x}": "must be JSON", "--lead 1 --entry a={x}": "must be JSON",
		"--lead 1 --outcome a": "NODE=STATUS", "--lead 1 --outcome a=b": "NODE=STATUS", "--lead 1 --outcome a=1 --outcome a=2": "stands twice",
	} {
		runCLI(t, p.environ(), "", append([]string{"journeys", "dryrun", "jrn_1"}, strings.Fields(args)...)...).want(t, 2, nil, []string{says})
	}
	if n := len(p.requests()); n != sent {
		t.Errorf("%d of the faulty calls were sent", n-sent)
	}
}

func TestJourneysTest(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{
		"POST /v1/journeys/jrn_1/test": always(200, `{"succeed":true,"httpStatus":200,"message":null,"errorClass":null,"durationMs":12}`),
		"POST /v1/journeys/jrn_2/test": always(200, `{"succeed":false,"httpStatus":503,"message":"busy","errorClass":"httpStatus","durationMs":12}`),
	})
	runCLI(t, p.environ(), "", "journeys", "test", "jrn_1", "--node", "hello", "--lead", "7", "--draft").want(t, 0, []string{"succeed     true\n", "durationMs  12\n"}, nil)
	sameJSON(t, p.last(t).body, `{"nodeId":"hello","leadsId":7,"draft":true}`)
	runCLI(t, p.environ(), "name: Ada\n", "journeys", "test", "jrn_2", "--node", "hello", "-f", "-", "--version", "3", "--entry-key", "k", "--param", "a:=1").
		want(t, 1, []string{"message     busy\n"}, []string{"the receiver did not take the message"})
	sameJSON(t, p.last(t).body, `{"nodeId":"hello","lead":{"name":"Ada"},"version":3,"entryKey":"k","params":{"a":1}}`)
	sent := len(p.requests())
	for args, says := range map[string]string{
		"--lead 1": "test needs --node", "--node a": "test needs one of --lead N", "--node a --lead 1 -f x": "one of --lead N", "--node a --lead 1 --version 1 --draft": "one or the other",
	} {
		runCLI(t, p.environ(), "", append([]string{"journeys", "test", "jrn_1"}, strings.Fields(args)...)...).want(t, 2, nil, []string{says})
	}
	if n := len(p.requests()); n != sent {
		t.Errorf("%d of the faulty calls were sent", n-sent)
	}
}

func TestJourneysForecast(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{
		"POST /v1/journeys/jrn_1/forecast": always(200, `{"journeyId":"jrn_1","total":20000,"sample":1000,"cut":2,"days":[
			{"date":"2026-01-01","touchpoints":{"whk_b":20000,"whk_a":7},"skipped":3},{"date":"2026-01-02","touchpoints":{},"skipped":0}]}`),
		"POST /v1/journeys/jrn_2/forecast": always(200, `{"total":0,"sample":0,"cut":0,"days":[{"date":"2026-01-01","touchpoints":{},"skipped":0}]}`),
		"POST /v1/journeys/jrn_3/forecast": always(200, `{"total":5,"sample":5,"cut":0,"heldOut":1,"days":[],"goal":{"leads":4,"enrollments":120,"converted":40,"expected":1,"low":0,"high":4,"confidence":0.95}}`),
		"POST /v1/journeys/jrn_4/forecast": always(200, `{"total":5,"sample":5,"cut":0,"days":[],"goal":{"leads":5,"enrollments":1,"converted":1,"expected":null,"low":null,"high":null,"confidence":0.95}}`),
	})
	runCLI(t, p.environ(), "", "journeys", "forecast", "jrn_1", "--filter", "leadsGroup=3", "--days", "2", "--draft").want(t, 0, []string{
		"DAY         whk_a  whk_b  ALL    SKIPPED\n" +
			"2026-01-01  7      20000  20007  3\n" +
			"2026-01-02  0      0      0      0\n" +
			"sum         7      20000  20007  3\n",
	}, []string{"1000 of 20000 leads were followed", "2 of them were not followed to the last day"})
	sameJSON(t, p.last(t).body, `{"audience":{"filter":{"leadsGroup":3}},"days":2,"draft":true}`)
	runCLI(t, p.environ(), "7\n8\n", "journeys", "forecast", "jrn_2", "--leads", "-").want(t, 0, []string{"DAY         ALL  SKIPPED\n"}, []string{"no leads"})
	sameJSON(t, p.last(t).body, `{"audience":{"leadsIds":[7,8]}}`)
	runCLI(t, p.environ(), "", "journeys", "forecast", "jrn_3", "--all").want(t, 0, nil, []string{"All 5 leads", "1 lead is held out",
		"About 1 would reach the goal, 0 to 4 with 95% confidence: of 120 enrollments before, 40 did.\n"})
	runCLI(t, p.environ(), "", "journeys", "forecast", "jrn_4", "--all").want(t, 0, nil, []string{
		"no numbers yet of how many would reach the goal: 1 enrollment had the time for it, and 30 are needed.\n"})
	runCLI(t, p.environ(), "", "journeys", "forecast", "jrn_3").want(t, 2, nil, []string{"a forecast needs one of"})
}

func TestJourneysDryRunValues(t *testing.T) {
	t.Parallel()
	const body = `{"journeyId":"jrn_1","status":"completed","path":[{"nodeId":"set","type":"updateLead","leftAt":"2026-01-31T12:00:00.000Z","values":{"gender":2}},` +
		`{"nodeId":"end","type":"exit","leftAt":"2026-01-31T12:00:00.000Z","values":null}],"timeline":[],"messages":[]}`
	p := newPeer(t, map[string]func(request) reply{"POST /v1/journeys/jrn_1/dryrun": always(200, body)})
	r := runCLI(t, p.environ(), "", "journeys", "dryrun", "jrn_1", "--lead", "1")
	r.want(t, 0, []string{"VALUES AT", "2026-01-31T12:00:00.000Z  set   updateLead  {\"gender\":2}\n", "no messages"}, nil)
	if strings.Contains(r.stdout, "exit") {
		t.Errorf("it prints what has no values:\n%s", r.stdout)
	}
}

// Everything that is wrong with a file is told as publishing tells it, and nothing is
// stored.
func TestJourneysValidate(t *testing.T) {
	t.Parallel()
	client := newClientOf(t)
	offline := []string{"WAYPOST_DATA_DIR=" + t.TempDir()}
	set := "whk_1=" + memberOf(t, client, "id", "", "webhooks", "create", "--name", "w", "--url", "http://127.0.0.1:1/hook")
	runCLI(t, client, definition, "journeys", "validate", "-", "--set", set).want(t, 0, []string{"The journey can be published\n"}, nil)
	runCLI(t, client, "", "-o", "json", "journeys", "validate", file(t, "w.yaml", definition), "--set", set).want(t, 0, []string{`"valid": true`}, nil)
	runCLI(t, client, definition, "journeys", "validate", "-").want(t, 1, nil, []string{"BadRequest: ", `nodes[0].webhook`, `"whk_1"`})
	runCLI(t, offline, definition, "journeys", "validate", "-", "--offline").want(t, 0, []string{"can be published"}, nil)
	runCLI(t, offline, definition, "journeys", "validate", "-").want(t, 1, nil, []string{"no gateway to call", "--offline checks the rest"})

	wrong := definition + "  - {id: b, type: enroll, journey: jrn_06c1x6nfxr1v5t3hq0m8d2k7wz, nxet: 1}\n"
	runCLI(t, client, wrong, "journeys", "validate", "-").want(t, 1, nil, []string{"nodes[1].nxet", "UnknownField"})
	wrong = strings.Replace(wrong, ", nxet: 1", "", 1)
	r := runCLI(t, client, wrong, "journeys", "validate", "-", "--set", set)
	r.want(t, 1, nil, []string{"\n  nodes[1].journey: ", "\n  nodes[1]: "})

	// As publishing says it.
	id := runCLI(t, client, wrong, "journeys", "apply", "-f", "-", "--set", set, "--publish")
	if id.code != 1 || !strings.HasSuffix(id.stderr, ", and not published:\n"+r.stderr) {
		t.Errorf("publishing says\n%svalidating\n%s", id.stderr, r.stderr)
	}
	runCLI(t, append(client, "WAYPOST_SECRET_KEY=sk_wrong"), definition, "journeys", "validate", "-", "--set", set).want(t, 1, nil, []string{"SignatureMismatch"})
	if list := runCLI(t, client, "", "-o", "json", "journeys", "list"); strings.Count(list.stdout, `"draft":`) != 1 { // of apply
		t.Errorf("validating stored something: %s", list.stdout)
	}
}

// The journeys of examples/ do against a gateway what their README says.
func TestExamplesOfGateway(t *testing.T) {
	t.Parallel()
	client := newClientOf(t)
	do := func(member, stdin string, args ...string) string { return memberOf(t, client, member, stdin, args...) }
	webhook := do("id", "", "webhooks", "create", "--name", "w", "--url", "http://127.0.0.1:1/hook", "--param", "from={{ journey.name }}")
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) != 7 {
		t.Fatalf("%v, %v", files, err)
	}
	segment := do("id", "", "segments", "create", "--name", "silent", "--when", "lead.gender == 2")
	journeys := map[string]string{}
	for _, path := range files {
		text := readFile(t, path)
		args := []string{"-f", path, "--publish"}
		for _, name := range []string{"email", "sms", "crm"} {
			if strings.Contains(text, "webhook: "+name) {
				args = append(args, "--set", name+"="+webhook)
			}
		}
		if strings.Contains(text, "segment: silent") {
			args = append(args, "--set", "silent="+segment)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		journeys[name] = do("journeyId", "", append([]string{"journeys", "apply"}, args...)...)
		again := runCLI(t, client, "", append([]string{"journeys", "apply"}, args...)...)
		again.want(t, 0, []string{"unchanged " + journeys[name] + " version 1\n"}, nil)
	}

	lead := do("leadsId", `{name: Ada, birthday: "1990-05-17", customFields: {timezone: Asia/Kathmandu}}`, "leads", "create", "-f", "-")
	r := runCLI(t, client, "", "journeys", "dryrun", journeys["birthday"], "--lead", lead, "--start-at", "2027-01-01T00:00:00Z",
		"--event", "couponRedeemed@3270h", "--event", "unsubscribed@2027-06-01T12:00:00Z")
	r.want(t, 0, []string{
		"status     exited\n", "leadsId    " + lead + "\n",
		"2027-05-17T03:15:00.000Z  birthday  waited", "2027-05-17T06:00:00.000Z  redeemed  matched", "2027-06-01T12:00:00.000Z  birthday  exited ", "event unsubscribed\n",
		`"from":"Birthday"`, `"subject":"Happy birthday, Ada!"`,
	}, nil)
	if n := strings.Count(r.stdout, "Happy birthday"); n != 1 {
		t.Errorf("%d wishes in\n%s", n, r.stdout)
	}
	invented := runCLI(t, client, "name: Bob\n", "journeys", "dryrun", journeys["welcome"], "-f", "-", "--start-at", "2027-01-04T02:00:00Z", "--outcome", "hello=400")
	invented.want(t, 0, []string{"hello      failed", "helloText", "2027-01-11T02:00:00.000Z  used"}, nil)
	runCLI(t, client, "", "journeys", "dryrun", journeys["welcome"], "--lead", lead, "--outcome", "nobody=400", "--event", "no name@1h").want(t, 1, nil, []string{"events[0].name"})

	forecast := runCLI(t, client, "", "journeys", "forecast", journeys["welcome"], "--all", "--days", "20")
	forecast.want(t, 0, []string{"DAY         " + webhook + "  ALL  SKIPPED\n"}, []string{"The only lead was followed."})
	lines := strings.Split(strings.TrimSpace(forecast.stdout), "\n")
	if len(lines) != 22 || !slices.Equal(strings.Fields(lines[21]), []string{"sum", "3", "3", "0"}) {
		t.Errorf("forecast\n%s", forecast.stdout)
	}

	// A second version, its difference, and the archive.
	welcome := file(t, "welcome.yaml", strings.Replace(readFile(t, "../../examples/welcome.yaml"), "for: 48h", "for: 24h", 1))
	runCLI(t, client, "", "journeys", "apply", "-f", welcome, "--set", "email="+webhook, "--set", "sms="+webhook).want(t, 0, nil, nil)
	runCLI(t, client, "", "journeys", "diff", journeys["welcome"], "1", "draft").want(t, 0, []string{"settle.for: \"48h\" → \"24h\"\n"}, nil)
	runCLI(t, client, "", "journeys", "publish", journeys["welcome"]).want(t, 0, []string{"version 2"}, nil)
	runCLI(t, client, "", "journeys", "versions", journeys["welcome"]).want(t, 0, []string{"\n2        Welcome", "\n1        Welcome"}, nil)
	runCLI(t, client, "", "journeys", "versions", journeys["welcome"], "1").want(t, 0, []string{`"for": "48h"`}, nil)
	runCLI(t, client, "", "journeys", "archive", journeys["welcome"]).want(t, 0, []string{"archived"}, nil)
	runCLI(t, client, "", "journeys", "launch", journeys["welcome"], "--all").want(t, 1, nil, []string{"Conflict", "archived"})
	runCLI(t, client, "", "journeys", "start", journeys["welcome"], "--lead", lead).want(t, 1, nil, []string{"Conflict"})
	runCLI(t, client, "", "journeys", "launch", journeys["birthday"], "--all").want(t, 0, []string{"launchId", "pending"}, nil)
}

// memberOf runs a command that must succeed, and returns a member of its answer.
func memberOf(t *testing.T, environ []string, member, stdin string, args ...string) string {
	t.Helper()
	r := runCLI(t, environ, stdin, append([]string{"-o", "json"}, args...)...)
	r.want(t, 0, nil, nil)
	var m members
	if err := json.Unmarshal([]byte(r.stdout), &m); err != nil {
		t.Fatalf("%v in %s%s", err, r.stdout, r.stderr)
	}
	return m.text(member)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The published version is drawn as a tree, and the JSON output is the journey as it was.
func TestJourneysShowTree(t *testing.T) {
	t.Parallel()
	const journey = `{"id":"jrn_1","draft":{"name":"Tree"},"publishedVersion":2}`
	counts := func(node, rest string) string { return `{"nodeId":"` + node + `",` + rest + `}` }
	p := newPeer(t, map[string]func(request) reply{
		"GET /v1/journeys/jrn_1": always(200, journey),
		"GET /v1/journeys/jrn_1/versions/2": always(200, `{"journeyId":"jrn_1","version":2,"definition":{"name":"Tree","start":"hello","nodes":[
			{"id":"hello","type":"touchpoint","label":"Say hello","webhook":"whk_1","next":"which","onFailure":"end"},
			{"id":"which","type":"branch","cases":[{"when":"true","next":"wait"},{"when":"true","next":"wait"},{"when":"true"}],"otherwise":"end"},
			{"id":"wait","type":"waitFor","label":"1\u001bhour","timeout":"1h","next":"which","onTimeout":"which"},{"id":"end","type":"exit"}]}}`),
		"GET /v1/journeys/jrn_1/statistics": always(200, `{"nodes":[`+strings.Join([]string{
			counts("hello", `"entered":12,"standing":3,"waiting":0,"sending":2,"deferred":1,"delivered":8,"failed":1,"skipped":0,"edges":[{"next":"which","way":"next","count":8},{"next":"end","way":"onFailure","count":1}],"ends":[]`),
			counts("which", `"entered":8,"edges":[{"next":"wait","way":"case:0","count":4},{"next":"wait","way":"case:1","count":1},{"next":"end","way":"otherwise","count":1}],"ends":[{"way":"case:2","count":2}]`),
			counts("wait", `"entered":7,"standing":5,"waiting":5,"edges":[{"next":"which","way":"next","count":2},{"next":"which","way":"onTimeout","count":3}]`), counts("end", `"entered":2`),
		}, ",")+`],"enrollments":{"entered":10,"completed":2,"exited":0,"failed":0,"canceled":1,"heldOut":4,
			"begun":{"event":7,"leadCreated":0,"leadChanged":2,"segment":5},"refused":3,"undecided":1}}`),
	})
	runCLI(t, p.environ(), "", "journeys", "show", "jrn_1").want(t, 0, []string{`"name": "Tree"`, `
version 2: 10 enrollments, 2 completed, 0 exited, 0 failed, 1 canceled, 4 held out
began by themselves: 7 by an event, 0 by a new lead, 2 by a changed lead, 5 by a segment; 3 refused by the re-entry rule, 1 undecided

NODE                              TYPE        EDGE  ENTERED  STANDING  WAITING  SENDING  DEFERRED  DELIVERED  FAILED  SKIPPED
hello (Say hello)                 touchpoint  10    12       3         0        2        1         8          1       0
├─ which                          branch      8     8        0         0        0        0         0          0       0
│  ├─ case 1: wait (1 hour)       waitFor     4     7        5         5        0        0         0          0       0
│  │  ├─ which ↑                              2
│  │  └─ onTimeout: which ↑                   3
│  ├─ case 2: wait ↑                          1
│  ├─ case 3: (the journey ends)              2
│  └─ otherwise: end              exit        1     2        0         0        0        0         0          0       0
└─ onFailure: end ↑                           1
`}, nil)
	r := runCLI(t, p.environ(), "", "-o", "json", "journeys", "show", "jrn_1")
	if r.code != 0 || strings.Contains(r.stdout, "entered") || strings.Contains(r.stdout, "NODE") {
		t.Errorf("with -o json: %s%s", r.stdout, r.stderr)
	}
}

// Of a journey with a goal the tree is followed by what it came to.
func TestJourneysShowGoal(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{
		"GET /v1/journeys/jrn_1": always(200, `{"id":"jrn_1","draft":{"name":"Sell","when":"1 \u003e 0 \u0026\u0026 '\\u003e' != ''"},"publishedVersion":1}`),
		"GET /v1/journeys/jrn_1/versions/1": always(200, `{"journeyId":"jrn_1","version":1,"definition":{"name":"Sell","start":"arms","nodes":[
			{"id":"arms","type":"split","arms":[{"weight":1,"next":"a"},{"weight":1}]},{"id":"a","type":"exit"}]}}`),
		"GET /v1/journeys/jrn_1/statistics": always(200, `{"nodes":[{"nodeId":"arms","entered":900,"edges":[],"arms":[
			{"arm":1,"next":"a","goal":{"leads":450,"enrollments":470,"converted":45,"rate":0.1,"value":45.5,"open":7},"lift":null},
			{"arm":2,"next":null,"goal":{"enrollments":0,"converted":0,"rate":null,"value":0},"lift":{"difference":null,"low":-1,"high":1,"confidence":0.95,"text":"Too little."},
				"liftOverControlGroup":{"difference":null,"low":-1,"high":1,"confidence":0.95,"text":"Not alike."}}],
			"sampleRatio":{"expected":[0.5,0.5],"seen":[1,0],"p":0,"mismatch":true},
			"winner":{"status":"decided","arm":1,"next":"a","decidedAt":"2026-02-02T12:00:00.000Z","arms":[
				{"leads":50,"enrollments":50,"converted":20,"rate":0.4,"value":45.5,"open":3},{"leads":1,"enrollments":1,"converted":0,"rate":0,"value":0,"open":0}]}},{"nodeId":"a","edges":[]}],
			"enrollments":{"entered":900,"goal":{"leads":900,"enrollments":900,"converted":90,"rate":0.1,"value":1234.5,"open":0}},
			"controlGroup":{"goal":{"leads":100,"enrollments":100,"converted":4,"rate":0.04,"value":40,"open":12}},
			"sampleRatio":{"expected":0.3,"seen":0.1,"p":0.00001,"mismatch":true},
			"lift":{"difference":0.06,"low":0.0012,"high":0.0912,"confidence":0.95,"verdict":"higher","text":"It is higher."}}`),
		"POST /v1/journeys/jrn_1/winners/arms/reverse": always(200, `{"version":3,"nodeId":"arms","status":"reversed"}`),
	})
	runCLI(t, p.environ(), "", "journeys", "show", "jrn_1").want(t, 0, []string{`"when": "1 > 0 && '\\u003e' != ''"`, `
goal: 90 of 900 leads converted (10.0 %), worth 1234.5
control group: 4 of 100 leads converted (4.0 %), worth 40; 12 can still convert
WARNING: the control group has 10.0 % of the leads, not 30.0 %
lift: +6.0 points, between +0.1 and +9.1 with 95 % confidence. It is higher.
WARNING: the arms of arms have 100.0 %, 0.0 % of the leads, not 50.0 %, 50.0 %
arms arm 1 → a: 45 of 450 leads converted (10.0 %), worth 45.5; they entered 470 times; 7 can still convert
arms arm 2: nobody
  lift over arm 1: Too little.
  lift over the control group: Not alike.
arms: arm 1 has won, and takes everybody
  decided 2026-02-02T12:00:00.000Z by:
  arm 1: 20 of 50 leads converted (40.0 %), worth 45.5; 3 can still convert
  arm 2: 0 of 1 lead converted (0.0 %)
`}, nil)
	runCLI(t, p.environ(), "", "journeys", "reverse", "jrn_1", "arms", "--version", "3").want(t, 0, []string{"reversed"}, nil)
}
