package main

import (
	"strings"
	"testing"
)

func TestEventsSend(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{"POST /v1/events": always(202, `{"eventId":"e1","duplicate":false}`)})
	base := []string{"events", "send", "--id", "e1", "--name", "purchase", "--lead", "7"}
	for _, tt := range []struct {
		stdin string
		more  []string
		body  string
	}{
		{"", nil, `{"eventId":"e1","name":"purchase","leadsId":7}`},
		{"", []string{"--properties", `{"amount":120}`}, `{"eventId":"e1","name":"purchase","leadsId":7,"properties":{"amount":120}}`},
		{`{"a":[1]}`, []string{"--properties", "-"}, `{"eventId":"e1","name":"purchase","leadsId":7,"properties":{"a":[1]}}`},
		{"", []string{"--properties", "@" + file(t, "p.json", `{"b":2}`)}, `{"eventId":"e1","name":"purchase","leadsId":7,"properties":{"b":2}}`},
	} {
		runCLI(t, p.environ(), tt.stdin, append(base, tt.more...)...).want(t, 0, []string{"eventId    e1\n", "duplicate  false\n"}, nil)
		sameJSON(t, p.last(t).body, tt.body)
	}
	sent := len(p.requests())
	for args, says := range map[string]string{
		"events send --name purchase --lead 7":                            "--id ID, --name NAME, and --lead N",
		"events send --id e1 --name purchase":                             "--lead N",
		"events send --id e1 --name purchase --lead x":                    "it is no whole number",
		"events send --id e1 --name purchase --lead 7 --properties {a:1}": "must be JSON",
	} {
		runCLI(t, p.environ(), "", strings.Fields(args)...).want(t, 2, nil, []string{says})
	}
	runCLI(t, p.environ(), "", "events", "send", "--id", "e", "--name", "n", "--lead", "7", "--email", "a@example.com").want(t, 1, nil, []string{"[email lead]"})
	if n := len(p.requests()); n != sent {
		t.Errorf("%d of the faulty calls were sent", n-sent)
	}
	for args, body := range map[string]string{
		"--external-id crm-42 --create --occurred-at 2026-01-31T12:00:00Z": `{"create":true,"eventId":"e","externalId":"crm-42","name":"n","occurredAt":"2026-01-31T12:00:00Z"}`,
		"--email a@example.com":         `{"email":"a@example.com","eventId":"e","name":"n"}`,
		"--mobile-phone +8613800138000": `{"eventId":"e","mobilePhone":"+8613800138000","name":"n"}`,
	} {
		runCLI(t, p.environ(), "", append([]string{"events", "send", "--id", "e", "--name", "n"}, strings.Fields(args)...)...).want(t, 0, []string{"duplicate"}, nil)
		sameJSON(t, p.last(t).body, body)
	}
}

func TestEventsImport(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{"POST /v1/events/import": func(r request) reply {
		answered := importedLines(r.body, `"accepted":%d,"duplicates":7`)
		if strings.Contains(r.body, "bad") {
			answered.status = 207
		}
		return answered
	}})
	text := strings.Repeat("{}\n", 1200) + "{\"eventId\":\"bad\"}\n" + strings.Repeat("x", 1<<20+1)
	r := runCLI(t, p.environ(), "", "events", "import", file(t, "events.ndjson", text))
	r.want(t, 1, []string{
		"total       1202\naccepted    1200\nduplicates  14\nfailed      2\n",
		"1201  BadRequest  name: is missing\n1202  BadRequest  the line is longer than 1048576 bytes\n",
	}, []string{"2 of 1202 lines failed"})
	all := p.requests()
	if len(all) != 2 || all[0].header.Get("Content-Type") != "application/x-ndjson" || !strings.HasPrefix(all[0].header.Get("Idempotency-Key"), "events-") {
		t.Errorf("%d requests, the first with %v", len(all), all[0].header)
	}
	r = runCLI(t, p.environ(), "{}\n", "events", "import", "-", "-o", "json")
	r.want(t, 0, nil, nil)
	sameJSON(t, r.stdout, `{"total":1,"accepted":1,"duplicates":7,"failed":0,"errors":[]}`)
	runCLI(t, p.environ(), "\n", "events", "import", "-").want(t, 1, nil, []string{"holds no events"})
}

func TestEventsList(t *testing.T) {
	t.Parallel()
	p := newPeer(t, map[string]func(request) reply{
		"GET /v1/events":       always(200, `{"items":[{"eventId":"e1","name":"purchase","leadsId":7,"properties":{"amount":1},"occurredAt":"2026-01-31T12:00:00.000Z","acceptedAt":"2026-01-31T12:00:00.000Z"}],"nextCursor":"c2"}`),
		"GET /v1/events/names": always(200, `{"items":[{"name":"purchase","count":1204,"lastAt":"2026-01-31T12:00:00.000Z"}]}`),
	})
	r := runCLI(t, p.environ(), "", "events", "list", "--lead", "7", "--name", "purchase", "--from", "2026-01-01T00:00:00Z", "--to", "2026-02-01T00:00:00Z", "--sort", "occurredAt")
	r.want(t, 0, []string{"OCCURRED                  NAME      LEAD  EVENT  PROPERTIES\n2026-01-31T12:00:00.000Z  purchase  7     e1     {\"amount\":1}\n"}, []string{"--cursor c2"})
	if got, want := p.last(t).target, "/v1/events?from=2026-01-01T00%3A00%3A00Z&leadsId=7&limit=50&name=purchase&sort=occurredAt&to=2026-02-01T00%3A00%3A00Z"; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
	runCLI(t, p.environ(), "", "events", "names").want(t, 0, []string{"NAME      COUNT  LAST\npurchase  1204   2026-01-31T12:00:00.000Z\n"}, nil)
}
