package main

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

func TestDeliveriesSummary(t *testing.T) {
	t.Parallel()
	const groups = `{"groups":[{"errorClass":"httpStatus","httpStatus":503,"count":1204,"lastAt":"2026-01-31T12:00:00.500Z","sampleMessageId":"msg_1","message":"no \u001bmore"},` +
		`{"errorClass":"timeout","httpStatus":null,"count":7,"lastAt":null,"sampleMessageId":"msg_2","message":null}]}`
	p := newPeer(t, map[string]func(request) reply{
		"GET /v1/deliveries/summary": always(200, groups),
		"GET /v1/deliveries":         always(200, `{"items":[],"nextCursor":null}`),
	})
	runCLI(t, p.environ(), "", "deliveries", "summary").want(t, 0, []string{
		"COUNT  ERROR       HTTP  LAST                      SAMPLE  SAID\n",
		"1204   httpStatus  503   2026-01-31T12:00:00.500Z  msg_1   no  more\n",
		"7      timeout                                     msg_2   \n",
	}, nil)
	if got := p.last(t).target; got != "/v1/deliveries/summary?groupBy=errorClass%2ChttpStatus" {
		t.Errorf("asked for %s", got)
	}
	r := runCLI(t, p.environ(), "", "deliveries", "summary", "--by", "nodeId,webhookId", "--status", "failed,canceled", "--http-status", "503", "-o", "json")
	sameJSON(t, r.stdout, groups)
	if got := p.last(t).target; got != "/v1/deliveries/summary?groupBy=nodeId%2CwebhookId&httpStatus=503&status=failed%2Ccanceled" {
		t.Errorf("asked for %s", got)
	}
	runCLI(t, p.environ(), "", "deliveries", "list", "--node", "hello", "--error-class", "timeout").want(t, 0, []string{"ERROR"}, nil)
	if got := p.last(t).target; got != "/v1/deliveries?errorClass=timeout&limit=50&nodeId=hello" {
		t.Errorf("asked for %s", got)
	}
}

func TestDeliveriesExport(t *testing.T) {
	t.Parallel()
	const rows = "messageId,message\nmsg_1,\"a\nb\"\n"
	trailer := map[string]string{http.TrailerPrefix + "X-Waypost-Count": "1"}
	p := newPeer(t, map[string]func(request) reply{"GET /v1/deliveries/export": func(request) reply { return reply{200, rows, trailer} }})
	path := filepath.Join(t.TempDir(), "failed.csv")
	runCLI(t, p.environ(), "", "deliveries", "export", "--status", "failed", "--created-to", "a", "--to", path, "--excel").want(t, 0, []string{"exported 1 delivery to " + path}, nil)
	if text, err := os.ReadFile(path); err != nil || string(text) != rows {
		t.Errorf("%q, %v", text, err)
	}
	if got := p.last(t).target; got != "/v1/deliveries/export?bom=true&format=csv&status=failed&to=a" {
		t.Errorf("asked for %s", got)
	}
	trailer[http.TrailerPrefix+"X-Waypost-Count"] = "2"
	runCLI(t, p.environ(), "", "deliveries", "export", "--format", "csv").want(t, 1, []string{rows}, []string{"the export is not complete"})
}
