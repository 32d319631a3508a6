package main

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"waypost"
)

func TestLaunchesCreate(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{"POST /v1/journeys/jrn_1/launches": always(202, `{"launchId":"lch_1","status":"pending","outcomes":{"pending":0}}`)})
	for _, tt := range []struct {
		name, stdin string
		args        []string
		body        string
	}{
		{"filters", "", []string{"--filter", "leadsGroup=3", "--filter", "region=-1", "--filter", "name=a=b", "--filter", "createdFrom=2026-01-01T00:00:00Z"},
			`{"audience":{"filter":{"leadsGroup":3,"region":-1,"name":"a=b","createdFrom":"2026-01-01T00:00:00Z"}}}`},
		{"more filters", "", []string{"--filter", "gender=2", "--filter", "birthday=--12-31", "--filter", "customFields.seats=5"},
			`{"audience":{"filter":{"gender":2,"birthday":"--12-31","customFields.seats":"5"}}}`},
		{"a name that the gateway may know", "", []string{"--filter", "stage=x"}, `{"audience":{"filter":{"stage":"x"}}}`},
		{"an empty start", "", []string{"--all", "--start-at", ""}, `{"audience":{"filter":{}},"startAt":""}`},
		{"everybody", "", []string{"--all", "--start-at", "2026-12-24T09:00:00+08:00", "--rate", "0.5"},
			`{"audience":{"filter":{}},"startAt":"2026-12-24T09:00:00+08:00","ratePerSecond":0.5}`},
		{"a schedule", "", []string{"--all", "--cron", "@daily"}, `{"audience":{"filter":{}},"schedule":{"cron":"@daily"}}`},
		{"a schedule elsewhere", "", []string{"--all", "--cron", "0 9 * * mon-fri", "--timezone", "Asia/Shanghai", "--control-group", "0.1"},
			`{"audience":{"filter":{}},"schedule":{"cron":"0 9 * * mon-fri","timezone":"Asia/Shanghai"},"controlGroup":0.1}`},
		{"lines", "\ufeff1001\r\n\n 1002 \n1003", []string{"--leads", "-"}, `{"audience":{"leadsIds":[1001,1002,1003]}}`},
		{"a segment", "", []string{"--segment", "seg_1"}, `{"audience":{"segment":"seg_1"}}`},
		{"a file", "", []string{"--leads", file(t, "leads.txt", "7\n8\n")}, `{"audience":{"leadsIds":[7,8]}}`},
		{"JSON", " [1, 2,\n3]\n", []string{"--leads", "-"}, `{"audience":{"leadsIds":[1,2,3]}}`},
		{"JSON is the gateway's to check", `["x"]`, []string{"--leads", "-", "--rate", "0"}, `{"audience":{"leadsIds":["x"]},"ratePerSecond":0}`},
	} {
		r := runCLI(t, p.environ(), tt.stdin, append([]string{"launches", "create", "jrn_1"}, tt.args...)...)
		r.want(t, 0, []string{"launchId  lch_1\n"}, nil)
		sameJSON(t, p.last(t).body, tt.body)
	}
	sent := len(p.requests())
	for _, tt := range []struct {
		stdin, args, says string
		code              int
	}{
		{"", "", "--leads FILE, --filter NAME=VALUE, --segment SEGMENT and --all", 2},
		{"", "--all --leads -", "one of --leads FILE", 2},
		{"", "--filter name", "it is name=value", 2},
		{"", "--filter =x", "it is name=value", 2},
		{"", "--filter region=north", "no whole number", 2},
		{"", "--filter name=a --filter name=b", "stands twice", 2},
		{"", "--all --rate much", `"--rate" flag: it is no number`, 2},
		{"", "--all --rate NaN", "--rate is a number", 2},
		{"", "--all --timezone UTC", "--timezone is that of --cron", 2},
		{"", "--all --control-group Inf", "--control-group is a share", 2},
		{"", "--all --control-group x", `"--control-group" flag: it is no number`, 2},
		{"1\n2\nthree\n", "--leads -", `standard input, line 3: "three" is no leadsId`, 1},
		{" \n\n", "--leads -", "standard input holds no leadsIds", 1},
		{"[1,2", "--leads -", "is none", 1},
		{"", "--leads /does/not/exist", "read /does/not/exist", 1},
	} {
		runCLI(t, p.environ(), tt.stdin, append([]string{"launches", "create", "jrn_1"}, strings.Fields(tt.args)...)...).want(t, tt.code, nil, []string{tt.says})
	}
	if n := len(p.requests()); n != sent {
		t.Errorf("%d of the faulty calls were sent", n-sent)
	}
}

func TestLaunchesListAndShow(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{
		"GET /v1/launches": always(200, `{"items":[{"launchId":"lch_1","journeyId":"jrn_1","version":2,"status":"running","total":10,"enrolled":4,"skipped":1,"heldOut":0,"startAt":null,"schedule":null,"createdAt":"t"},`+
			`{"launchId":"lch_2","journeyId":"jrn_1","version":2,"status":"scheduled","total":9,"enrolled":4,"skipped":1,"heldOut":3,"startAt":"s",`+
			`"schedule":{"cron":"@daily","timezone":"UTC","nextAt":"n"},"createdAt":"t"}],"nextCursor":"abc"}`),
		"GET /v1/launches/lch_1": always(200, `{"launchId":"lch_1","status":"running","outcomes":{"pending":1,"failed":2}}`),
	})
	runCLI(t, p.environ(), "", "launches", "list", "--journey", "jrn 1", "--limit", "3", "--recurring", "lch_0").
		want(t, 0, []string{
			"LAUNCH  JOURNEY  VERSION  STATUS     TOTAL  ENROLLED  SKIPPED  HELD OUT  START  SCHEDULE    CREATED\n",
			"lch_1   jrn_1    2        running    10     4         1        0                            t\n",
			"lch_2   jrn_1    2        scheduled  9      4         1        3         n      @daily UTC  t\n",
		}, []string{"--cursor abc"})
	u, err := url.Parse(p.last(t).target)
	if err != nil || u.Query().Get("journeyId") != "jrn 1" || u.Query().Get("limit") != "3" || u.Query().Get("recurringId") != "lch_0" {
		t.Errorf("target %s, %v", p.last(t).target, err)
	}
	runCLI(t, p.environ(), "", "launches", "show", "lch_1").want(t, 0, []string{"launchId  lch_1\n", `outcomes  {"pending":1,"failed":2}`}, nil)
}

func TestLaunchProgressOfARecurringOne(t *testing.T) {
	t.Parallel()
	next := "2026-02-02T01:00:00.000Z"
	p := launchProgress{
		LaunchID: "lch_1", Status: waypost.LaunchScheduled, Total: 10, Enrolled: 6, Skipped: 1, HeldOut: 3, Completed: 1, Schedule: &launchSchedule{NextAt: &next},
	}
	want := "lch_1 scheduled, next 2026-02-02T01:00:00.000Z, 6 of 10 enrolled, 1 skipped, 3 held out, 1 ended"
	if got := p.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// launching is a launch that gets further each time it is looked at.
func launching() func(request) reply {
	looks := 0
	return func(request) reply {
		looks++
		body := `{"launchId":"lch_1","status":"completed","total":8,"enrolled":7,"skipped":1,"completed":7,"outcomes":{"succeeded":6,"failed":1}}`
		switch looks {
		case 1:
			body = `{"launchId":"lch_1","status":"pending","total":0,"enrolled":0,"skipped":0,"completed":0,"outcomes":{}}`
		case 2, 3: // nothing has changed: nothing is shown
			body = `{"launchId":"lch_1","status":"running","total":8,"enrolled":5,"skipped":1,"completed":1,"outcomes":{"succeeded":1,"retrying":2,"deferred":1,"pending":1,"canceled":1}}`
		}
		return reply{status: 200, body: body}
	}
}

func TestLaunchesWatch(t *testing.T) {
	t.Parallel()
	watch := func(t *testing.T, ctx context.Context, terminal bool, output string, route func(request) reply) (string, string, error) {
		t.Helper()
		p := newPeer(t, map[string]func(request) reply{"GET /v1/launches/lch_1": route})
		var stdout, stderr strings.Builder
		c := &cli{environ: p.environ(), stdout: &stdout, stderr: &stderr, output: output, poll: time.Nanosecond, terminal: terminal}
		cl, err := c.client()
		if err != nil {
			t.Fatal(err)
		}
		err = c.watchLaunch(ctx, cl, "lch_1")
		return stdout.String(), stderr.String(), err
	}
	const (
		begins = "  0 %  lch_1 pending"
		runs   = " 25 %  lch_1 running, 5 of 8 enrolled, 1 skipped, 1 ended, 1 succeeded, 2 retrying, 1 deferred, 1 pending, 1 canceled"
		ends   = "100 %  lch_1 completed, 7 of 8 enrolled, 1 skipped, 7 ended, 6 succeeded, 1 failed"
	)
	t.Run("lines", func(t *testing.T) {
		t.Parallel()
		stdout, stderr, err := watch(t, t.Context(), false, outputTable, launching())
		if want := begins + "\n" + runs + "\n" + ends + "\n"; err != nil || stderr != want {
			t.Errorf("%v, got %q, want %q", err, stderr, want)
		}
		if !strings.Contains(stdout, "status     completed\n") {
			t.Errorf("no launch at the end: %q", stdout)
		}
	})
	t.Run("a bar", func(t *testing.T) {
		t.Parallel()
		stdout, stderr, err := watch(t, t.Context(), true, outputJSON, launching())
		want := "\r\x1b[K░░░░░░░░░░░░░░░░░░░░ " + begins + "\r\x1b[K█████░░░░░░░░░░░░░░░ " + runs + "\r\x1b[K████████████████████ " + ends + "\n"
		if err != nil || stderr != want {
			t.Errorf("%v, got %q, want %q", err, stderr, want)
		}
		sameJSON(t, stdout, launching4())
	})
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		_, stderr, err := watch(t, ctx, true, outputTable, func(request) reply {
			cancel()
			return reply{status: 200, body: `{"launchId":"lch_1","status":"paused","total":8}`}
		})
		if err == nil || err.Error() != "interrupted; the launch goes on: `waypost launches show lch_1 --watch` watches it again" || stderr != "" && !strings.HasSuffix(stderr, "\n") {
			t.Errorf("error %v, stderr %q", err, stderr)
		}
	})
	t.Run("gone", func(t *testing.T) {
		t.Parallel()
		_, _, err := watch(t, t.Context(), false, outputTable, always(404, `{"code":"NotFound","message":"no","target":"id","detail":[]}`))
		if waypost.CodeOf(err) != waypost.CodeNotFound {
			t.Errorf("error %v", err)
		}
	})
}

// launching4 is what launching ends with.
func launching4() string {
	route := launching()
	for range 3 {
		route(request{})
	}
	return route(request{}).body
}

func TestControls(t *testing.T) {
	t.Parallel()
	routes := map[string]func(request) reply{}
	for _, path := range []string{"enrollments/enr_1", "launches/lch_1", "journeys/jrn_1"} {
		routes["POST /v1/"+path+"/pause"] = always(200, `{"status":"paused"}`)
		routes["POST /v1/"+path+"/resume"] = always(200, `{"status":"running"}`)
		routes["POST /v1/"+path+"/cancel"] = always(200, `{"status":"canceled"}`)
	}
	p := newPeer(t, routes)
	for _, tt := range []struct{ args, target, body, shows string }{
		{"enrollments pause enr_1", "/v1/enrollments/enr_1/pause", ``, "paused"},
		{"enrollments resume enr_1", "/v1/enrollments/enr_1/resume", `{"elapsedDelays":"shift"}`, "running"},
		{"enrollments cancel enr_1", "/v1/enrollments/enr_1/cancel", ``, "canceled"},
		{"launches pause lch_1", "/v1/launches/lch_1/pause", ``, "paused"},
		{"launches resume lch_1 --elapsed-delays skip", "/v1/launches/lch_1/resume", `{"elapsedDelays":"skip"}`, "running"},
		{"launches cancel lch_1", "/v1/launches/lch_1/cancel", ``, "canceled"},
		{"journeys pause jrn_1", "/v1/journeys/jrn_1/pause", ``, "paused"},
		{"journeys resume jrn_1 --elapsed-delays shift", "/v1/journeys/jrn_1/resume", `{"elapsedDelays":"shift"}`, "running"},
		{"journeys cancel jrn_1", "/v1/journeys/jrn_1/cancel", ``, "canceled"},
	} {
		runCLI(t, p.environ(), "", strings.Fields(tt.args)...).want(t, 0, []string{"status  " + tt.shows + "\n"}, nil)
		if got := p.last(t); got.target != tt.target || got.body != tt.body {
			t.Errorf("%s: called %s with %s", tt.args, got.target, got.body)
		}
	}
	sent := len(p.requests())
	runCLI(t, p.environ(), "", "journeys", "resume", "jrn_1", "--elapsed-delays", "later").want(t, 2, nil, []string{"it is shift or skip", "waypost journeys resume --help"})
	runCLI(t, p.environ(), "", "launches", "cancel", "").want(t, 2, nil, []string{"an argument is empty"})
	runCLI(t, p.environ(), "", "launches", "pause", "lch_1", "lch_2").want(t, 2, nil, []string{"wrong number of arguments"})
	if n := len(p.requests()); n != sent {
		t.Errorf("%d of the faulty calls were sent", n-sent)
	}
	runCLI(t, p.environ(), "", "launches", "pause", "lch_9").want(t, 1, nil, []string{"NotFound"})
}
