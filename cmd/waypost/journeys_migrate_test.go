package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestJourneysMigrate(t *testing.T) {
	t.Parallel()
	counts := func(n int) func(request) reply {
		return func(r request) reply {
			moved := 0
			if strings.Contains(r.body, `"dryRun":false`) {
				moved = n
			}
			return reply{status: 200, body: fmt.Sprintf(`{"matched":%d,"moved":%d}`, n, moved)}
		}
	}
	p := newPeer(t, map[string]func(request) reply{
		"POST /v1/journeys/jrn_1/migrate": counts(500), "POST /v1/journeys/jrn_2/migrate": counts(0),
		"POST /v1/journeys/jrn_3/migrate": counts(1),
	})
	const body = `{"from":1,"to":2,"nodeMap":{"wait":"wait","later":"end"},"dryRun":%t}`
	flags := []string{"--from", "1", "--to", "2", "--map", "wait=wait", "--map", "later=end"}
	for _, tt := range []struct {
		name, journey, stdin string
		flags                []string
		terminal             bool
		asks                 bool
		moved                string
		says                 string
	}{
		{name: "in a script", journey: "jrn_1", moved: "500", says: "500 enrollments wait there on version 1.\n"},
		{name: "yes", journey: "jrn_1", stdin: "y\n", terminal: true, asks: true, moved: "500"},
		{name: "YES", journey: "jrn_1", stdin: " YES", terminal: true, asks: true, moved: "500"},
		{name: "no", journey: "jrn_1", stdin: "n\n", terminal: true, asks: true, says: "Nothing is moved."},
		{name: "no answer", journey: "jrn_1", terminal: true, asks: true, says: "Nothing is moved."},
		{name: "not asked", journey: "jrn_1", flags: []string{"--yes"}, terminal: true, moved: "500"},
		{name: "a dry run", journey: "jrn_1", flags: []string{"--dry-run", "-y"}, terminal: true, moved: "0"},
		{name: "nobody", journey: "jrn_2", terminal: true, moved: "0"},
		{name: "one", journey: "jrn_3", moved: "1", says: "1 enrollment waits there"},
	} {
		var stdout, stderr strings.Builder
		c := &cli{environ: p.environ(), stdin: strings.NewReader(tt.stdin), stdout: &stdout, stderr: &stderr, terminal: tt.terminal}
		before := len(p.requests())
		root := c.root()
		root.SetArgs(append(append([]string{"journeys", "migrate", tt.journey}, flags...), tt.flags...))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		sent := p.requests()[before:]
		sameJSON(t, sent[0].body, fmt.Sprintf(body, true))
		switch moves := tt.moved != "" && tt.moved != "0"; {
		case moves && len(sent) == 2:
			sameJSON(t, sent[1].body, fmt.Sprintf(body, false))
		case moves != (len(sent) == 2) || len(sent) > 2:
			t.Errorf("%s: %d calls", tt.name, len(sent))
		}
		if tt.moved != "" && !strings.Contains(stdout.String(), "moved    "+tt.moved+"\n") || tt.moved == "" && stdout.String() != "" {
			t.Errorf("%s: it says %s", tt.name, stdout.String())
		}
		if asked := strings.Contains(stderr.String(), "Move to version 2? [y/N] "); asked != tt.asks || !strings.Contains(stderr.String(), tt.says) {
			t.Errorf("%s: %s", tt.name, stderr.String())
		}
	}
	sameJSON(t, runCLI(t, p.environ(), "", append([]string{"-o", "json", "journeys", "migrate", "jrn_1"}, flags...)...).stdout, `{"matched":500,"moved":500}`)
	sent := len(p.requests())
	for args, says := range map[string]string{
		"": "needs --map NODE=NODE", "--map a=b --from 1": "needs --from N and --to N", "--map a=b --from 0 --to 2": "needs --from N and --to N",
		"--from 1 --to 2 --map a": "NODE=NODE", "--from 1 --to 2 --map =a": "NODE=NODE", "--from 1 --to 2 --map a=": "NODE=NODE",
		"--from 1 --to 2 --map a=b --map a=c": "stands twice", "--from x --to 2 --map a=b": "no whole number",
	} {
		runCLI(t, p.environ(), "", append([]string{"journeys", "migrate", "jrn_1"}, strings.Fields(args)...)...).want(t, 2, nil, []string{says})
	}
	if n := len(p.requests()); n != sent {
		t.Errorf("%d of the faulty calls were sent", n-sent)
	}
}
