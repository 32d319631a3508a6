package main

import (
	"strings"
	"testing"
)

func TestSegmentFlags(t *testing.T) {
	t.Parallel()
	const made = `{"id":"seg_1","name":"s","when":"lead.gender == 1","createdAt":"2026-01-31T12:00:00.000Z","updatedAt":"2026-01-31T12:00:00.000Z"}`
	p := newPeer(t, map[string]func(request) reply{
		"POST /v1/segments":              always(201, made),
		"GET /v1/segments":               always(200, `{"items":[`+made+`],"nextCursor":null}`),
		"GET /v1/segments/seg_1":         func(request) reply { return reply{200, made, map[string]string{"ETag": `"abc"`}} },
		"GET /v1/segments/seg_1/count":   always(200, `{"count":2,"at":"2026-01-31T12:00:00.000Z","sample":[1001,1002]}`),
		"GET /v1/segments/seg_1/members": always(200, `{"items":[{"leadsId":1001,"name":"Ada","mobilePhone":["+8613800138000"]}],"nextCursor":null}`),
		"PUT /v1/segments/seg_1":         always(200, made),
		"DELETE /v1/segments/seg_1":      always(204, ""),
	})
	for _, tt := range []struct {
		args []string
		call string
	}{
		{[]string{"create", "--name", "s", "--when", "lead.gender == 1"}, "POST"},
		{[]string{"replace", "seg_1", "--name", "s", "--when", "lead.gender == 1", "--if-match", `"abc"`}, "PUT"},
	} {
		runCLI(t, p.environ(), "", append([]string{"segments"}, tt.args...)...).want(t, 0, []string{"seg_1"}, nil)
		if got := p.last(t).method; got != tt.call {
			t.Errorf("%v: %s", tt.args, got)
		}
		sameJSON(t, p.last(t).body, `{"name":"s","when":"lead.gender == 1"}`)
	}
	if got := p.last(t).header.Get("If-Match"); got != `"abc"` {
		t.Errorf("If-Match %s", got)
	}
	runCLI(t, p.environ(), "", "segments", "list").want(t, 0, []string{"seg_1", "lead.gender == 1"}, nil)
	runCLI(t, p.environ(), "", "segments", "show", "seg_1").want(t, 0, []string{"lead.gender == 1"}, nil)
	runCLI(t, p.environ(), "", "segments", "show", "seg_1", "--etag").want(t, 0, []string{`"abc"`}, nil)
	runCLI(t, p.environ(), "", "segments", "count", "seg_1").want(t, 0, []string{"1001", "2"}, nil)
	runCLI(t, p.environ(), "", "segments", "members", "seg_1", "--limit", "7").want(t, 0, []string{"1001", "Ada"}, nil)
	if got := p.last(t).target; got != "/v1/segments/seg_1/members?limit=7" {
		t.Errorf("asked for %s", got)
	}
	runCLI(t, p.environ(), "", "segments", "delete", "seg_1").want(t, 0, []string{"deleted seg_1"}, nil)
	sent := len(p.requests())
	runCLI(t, p.environ(), "", "segments", "create", "--name", "s").want(t, 2, nil, []string{"a segment needs --name and --when"})
	runCLI(t, p.environ(), "", "segments", "replace", "seg_1", "--when", "true").want(t, 2, nil, []string{"a segment needs --name and --when"})
	if len(p.requests()) != sent {
		t.Error("something was sent")
	}
}

// What is stored and would be refused now is told beside it, to people.
func TestStoredProblems(t *testing.T) {
	t.Parallel()
	const problems = `"problems":[{"code":"OutOfRange","target":"when","message":"events are kept for 90 days\u001b"},{"code":"InvalidFormat","target":"nodes[0]","message":"no"}]`
	const segment = `{"id":"seg_1","name":"s","when":"true",` + problems + `}`
	p := newPeer(t, map[string]func(request) reply{
		"GET /v1/segments/seg_1":            always(200, segment),
		"GET /v1/segments/seg_2":            always(200, `{"id":"seg_2","when":"true","problems":[]}`),
		"GET /v1/segments/seg_3":            always(200, `{"id":"seg_3","when":"true","problems":null}`),
		"GET /v1/journeys/jrn_1":            always(200, `{"id":"jrn_1","draft":{"name":"Bye"},`+problems+`}`),
		"GET /v1/journeys/jrn_1/versions/1": always(200, `{"version":1,"definition":{"name":"Bye"},`+problems+`}`),
	})
	warnings := []string{
		"warning: it goes on, but would be refused now: when: events are kept for 90 days \n",
		"warning: it goes on, but would be refused now: nodes[0]: no\n",
	}
	for _, args := range [][]string{{"segments", "show", "seg_1"}, {"journeys", "show", "jrn_1"}, {"journeys", "versions", "jrn_1", "1"}} {
		r := runCLI(t, p.environ(), "", args...)
		if r.want(t, 0, nil, warnings); strings.Contains(r.stdout, "problems") {
			t.Errorf("%v: %s", args, r.stdout)
		}
	}
	r := runCLI(t, p.environ(), "", "-o", "json", "segments", "show", "seg_1")
	if sameJSON(t, r.stdout, segment); r.stderr != "" {
		t.Errorf("beside JSON: %s", r.stderr)
	}
	for _, id := range []string{"seg_2", "seg_3"} {
		r := runCLI(t, p.environ(), "", "segments", "show", id)
		if r.want(t, 0, []string{"true"}, nil); r.stderr != "" || strings.Contains(r.stdout, "problems") {
			t.Errorf("%s: %s%s", id, r.stdout, r.stderr)
		}
	}
}
