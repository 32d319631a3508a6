package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
)

// record has the store record what the workflow of an enrollment says of it.
func (f *fixture) record(enrollment string, status waypost.EnrollmentStatus, node string, entries ...waypost.TimelineEntry) {
	f.t.Helper()
	for i := range entries {
		entries[i].At = f.clock.Now()
	}
	last := entries[len(entries)-1].Seq
	err := f.store.RecordProgress(f.t.Context(), []waypost.Progress{{EnrollmentID: enrollment, Status: status, NodeID: node, LastSeq: last, Entries: entries}})
	if err != nil {
		f.t.Fatal(err)
	}
}

func TestStatistics(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	definition := `{"name":"Count","start":"hello","nodes":[
		{"id":"hello","type":"touchpoint","webhook":"` + f.newWebhook("https://example.com/hook") + `","next":"wait","onFailure":"end"},
		{"id":"wait","type":"delay","for":"1h","next":"end"},
		{"id":"end","type":"exit"}]}`
	draft := f.send("POST", "/v1/journeys", definition).expect(t, 201).str(t, "id")
	path := "/v1/journeys/" + draft + "/statistics"
	const nothing = `"nodes":[],"enrollments":{"entered":0,"completed":0,"exited":0,"failed":0,"canceled":0,"heldOut":0,"begun":{"event":0,"leadCreated":0,"leadChanged":0,"segment":0},"refused":0,"undecided":0,"goal":null},"controlGroup":null,"lift":null,"sampleRatio":null,"series":null}`
	if a := f.get(path).expect(t, 200); a.raw != `{"journeyId":"`+draft+`","version":null,`+nothing {
		t.Errorf("of a draft: %s", a.raw)
	}
	f.get(path+"?version=1").fault(t, 404, "NotFound")
	f.send("POST", "/v1/journeys/"+draft+"/publish", "").expect(t, 201)
	zeros := func(node string, edges ...string) string {
		for i, edge := range edges {
			next, way, _ := strings.Cut(edge, " ")
			edges[i] = `{"next":"` + next + `","way":"` + way + `","count":0}`
		}
		return `{"nodeId":"` + node + `","entered":0,"standing":0,"waiting":0,"sending":0,"deferred":0,"delivered":0,"failed":0,"skipped":0,"skippedFor":{},"edges":[` + strings.Join(edges, ",") + `],"ends":[]}`
	}
	if a := f.get(path+"?version=1").expect(t, 200); !strings.Contains(a.raw, `"version":1,"nodes":[`+zeros("hello", "wait next", "end onFailure")+","+zeros("wait", "end next")+","+zeros("end")+"]") {
		t.Errorf("of nobody: %s", a.raw)
	}
	if a := f.get(path).expect(t, 200); !strings.Contains(a.raw, `"nodes":[`+zeros("end")+","+zeros("hello", "end onFailure", "wait next")+",") {
		t.Errorf("of nobody, of all versions: %s", a.raw)
	}

	var ids []string
	for i := range 5 {
		body := fmt.Sprintf(`{"leadsId":%d}`, f.newLead(fmt.Sprint("Ada ", i)))
		ids = append(ids, f.send("POST", "/v1/journeys/"+draft+"/enrollments", body).expect(t, 202).str(t, "enrollmentId"))
	}
	entered := waypost.TimelineEntry{Seq: 1, NodeID: "hello", What: waypost.WhatEntered}
	f.record(ids[0], waypost.EnrollmentRunning, "hello", entered)
	f.record(ids[1], waypost.EnrollmentRunning, "hello", entered, waypost.TimelineEntry{Seq: 2, NodeID: "hello", What: waypost.WhatDeferred})
	for _, id := range ids[2:4] {
		f.record(id, waypost.EnrollmentWaiting, "wait", entered, waypost.TimelineEntry{Seq: 2, NodeID: "hello", What: waypost.WhatSent, Next: "wait", Way: waypost.WayNext},
			waypost.TimelineEntry{Seq: 3, NodeID: "wait", What: waypost.WhatEntered})
	}
	f.send("POST", "/v1/enrollments/"+ids[4]+"/cancel", "").expect(t, 200)
	first := `"nodes":[{"nodeId":"hello","entered":4,"standing":2,"waiting":0,"sending":1,"deferred":1,"delivered":2,"failed":0,"skipped":0,"skippedFor":{},"edges":[{"next":"wait","way":"next","count":2}%s],"ends":[]},` +
		`{"nodeId":"wait","entered":2,"standing":2,"waiting":2,"sending":0,"deferred":0,"delivered":0,"failed":0,"skipped":0,"skippedFor":{},"edges":[%s],"ends":[]}`
	counts := `"enrollments":{"entered":5,"completed":0,"exited":0,"failed":0,"canceled":1,"heldOut":0,"begun":{"event":0,"leadCreated":0,"leadChanged":0,"segment":0},"refused":0,"undecided":0,"goal":null},"controlGroup":null,"lift":null,"sampleRatio":null`
	all := fmt.Sprintf(first, `,{"next":"end","way":"onFailure","count":0}`, `{"next":"end","way":"next","count":0}`) + "," + zeros("end") + "]," + counts
	for range 2 {
		if a := f.get(path+"?version=1").expect(t, 200); !strings.Contains(a.raw, all) {
			t.Errorf("got %s\nwant %s", a.raw, all)
		}
		if _, err := f.store.FoldStatistics(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
	}

	f.clock.advance(time.Hour)
	f.record(ids[2], waypost.EnrollmentCompleted, "end", waypost.TimelineEntry{Seq: 4, NodeID: "wait", What: waypost.WhatWaited, Next: "end", Way: waypost.WayNext},
		waypost.TimelineEntry{Seq: 5, NodeID: "end", What: waypost.WhatExited})
	// The first hour as it was, and the second.
	a := f.get(path+"?version=1&every=hour").expect(t, 200)
	second := `{"from":"2026-01-31T13:00:00.000Z","nodes":[{"nodeId":"hello","entered":0,"standing":2,"waiting":0,"sending":1,"deferred":1,"delivered":0,"failed":0,"skipped":0,"skippedFor":{},"edges":[],"ends":[]},` +
		`{"nodeId":"wait","entered":0,"standing":1,"waiting":1,"sending":0,"deferred":0,"delivered":0,"failed":0,"skipped":0,"skippedFor":{},"edges":[{"next":"end","way":"next","count":1}],"ends":[]},` +
		`{"nodeId":"end","entered":1,"standing":0,"waiting":0,"sending":0,"deferred":0,"delivered":0,"failed":0,"skipped":0,"skippedFor":{},"edges":[],"ends":[]}],` +
		`"enrollments":{"entered":0,"completed":1,"exited":0,"failed":0,"canceled":0,"heldOut":0,"begun":{"event":0,"leadCreated":0,"leadChanged":0,"segment":0},"refused":0,"undecided":0,"goal":null},"controlGroup":null,"lift":null,"sampleRatio":null}`
	if want := `"series":[{"from":"2026-01-31T12:00:00.000Z",` + fmt.Sprintf(first, "", "") + "]," + counts + "}," + second + "]}"; !strings.HasSuffix(a.raw, want) {
		t.Errorf("got %s\nwant %s", a.raw, want)
	}
	if !strings.Contains(a.raw, `"enrollments":{"entered":5,"completed":1,`) {
		t.Errorf("in all: %s", a.raw)
	}
	for query, want := range map[string]string{
		"?version=1&to=2026-01-31T13:00:00Z":                           all,
		"?version=1&from=2026-01-01T00:00:00Z&to=2026-01-31T12:00:01Z": all,
		"?from=2026-01-31T13:00:00Z":                                   `"enrollments":{"entered":0,"completed":1,"exited":0,`,
		"?from=2025-01-01T00:00:00Z":                                   `"enrollments":{"entered":5,"completed":1,"exited":0,`,
		"?every=day&from=2026-01-30T00:00:00Z&to=2026-01-31T00:00:00Z": `"series":[{"from":"2026-01-30T00:00:00.000Z","nodes":[],`,
		"?every=day": `"series":[{"from":"2026-01-31T00:00:00.000Z",`,
		"?every=hour&from=2026-01-31T12:00:00Z&to=2026-01-31T12:00:00Z":  `"series":[{"from":"2026-01-31T12:00:00.000Z",`,
		"?every=hour&from=2026-01-31T12:00:00%2B08:00&to=2026-01-31T05Z": "",
	} {
		if want == "" {
			f.get(path+query).fault(t, 400, "BadRequest", "InvalidFormat to")
		} else if a := f.get(path+query).expect(t, 200); !strings.Contains(a.raw, want) {
			t.Errorf("%s: %s", query, a.raw)
		}
	}
}

func TestStatisticsFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, id := f.welcoming()
	path := "/v1/journeys/" + id + "/statistics"
	for query, want := range map[string]string{
		"version=0":  "OutOfRange version",
		"version=x":  "InvalidType version",
		"every=week": "OutOfRange every",
		"from=now":   "InvalidFormat from",
		"from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z":            "OutOfRange from",
		"from=2027-01-01T00:00:00Z":                                    "OutOfRange from", // later than now
		"every=hour&from=2025-10-01T00:00:00Z&to=2025-10-02T00:00:00Z": "OutOfRange from", // not kept
		"every=hour&from=2025-12-01T00:00:00Z":                         "OutOfRange from", // too many
		"every=day&from=2020-12-01T00:00:00Z":                          "OutOfRange from",
		"from=0001-01-02T00:00:00Z":                                    "OutOfRange from",
		"cursor=x":                                                     "UnknownField cursor",
	} {
		f.get(path+"?"+query).fault(t, 400, "BadRequest", want)
	}
	f.get("/v1/journeys/jrn_none/statistics").fault(t, 404, "NotFound")
	f.get(path+"?version=2").fault(t, 404, "NotFound")
	f.do(call{method: "GET", target: path, headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
	f.otherOrg().get(path).fault(t, 404, "NotFound")
}
