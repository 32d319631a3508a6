package gateway_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"waypost"
)

func TestListEnrollments(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	journeyID, other := f.publishedJourney(nothing), f.publishedJourney(nothing)
	leads := []int64{f.newLead("Ada"), f.newLead("Bob")}
	var ids []string
	for i := range 5 {
		body := fmt.Sprintf(`{"leadsId":%d,"entryKey":"%d","params":{"n":%d}}`, leads[i%2], i, i)
		ids = append(ids, f.send("POST", "/v1/journeys/"+journeyID+"/enrollments", body).expect(t, 202).str(t, "enrollmentId"))
		f.clock.advance(time.Minute)
	}
	launch := f.newLaunch(other, fmt.Sprintf(`{"audience":{"leadsIds":[%d]}}`, leads[1]))
	if _, err := f.store.EnrollAudience(t.Context(), launch, 10); err != nil {
		t.Fatal(err)
	}
	for i, status := range []waypost.EnrollmentStatus{waypost.EnrollmentCompleted, waypost.EnrollmentWaiting, waypost.EnrollmentWaiting} {
		if err := f.store.RecordProgress(t.Context(), []waypost.Progress{{
			EnrollmentID: ids[i], Status: status, NodeID: "a", LastSeq: 1,
			Entries: []waypost.TimelineEntry{{Seq: 1, At: f.clock.Now(), NodeID: "a", What: waypost.WhatEntered}},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	f.send("POST", "/v1/enrollments/"+ids[2]+"/pause", "").expect(t, 200)
	f.send("POST", "/v1/enrollments/"+ids[3]+"/cancel", "").expect(t, 200)
	launched := f.get("/v1/enrollments?launchId="+launch).expect(t, 200).json["items"].([]any)[0].(map[string]any)["enrollmentId"].(string)
	ids = append(ids, launched)

	list := func(query string) string {
		t.Helper()
		var out []string
		for _, item := range f.get("/v1/enrollments"+query).expect(t, 200).json["items"].([]any) {
			shown := item.(map[string]any)
			one := f.get("/v1/enrollments/"+shown["enrollmentId"].(string)).expect(t, 200).json
			if delete(one, "timeline"); !reflect.DeepEqual(shown, one) {
				t.Errorf("%s lists %v,\na GET of it has %v", query, shown, one)
			}
			for i, id := range ids {
				if id == shown["enrollmentId"] {
					out = append(out, fmt.Sprint(i))
				}
			}
		}
		return strings.Join(out, " ")
	}
	of := "?journeyId=" + journeyID
	for query, want := range map[string]string{
		"":                                   "5 4 3 2 1 0",
		"?sort=createdAt":                    "0 1 2 3 4 5",
		"?sort=-createdAt&limit=2":           "5 4",
		of:                                   "4 3 2 1 0",
		of + "&nodeId=a":                     "2 1",
		of + "&nodeId=b":                     "",
		"?nodeId=a&status=completed":         "0",
		"?status=waiting":                    "1",
		"?status=paused":                     "2",
		"?status=canceled":                   "3",
		"?status=pending":                    "5 4",
		"?status=completed,canceled":         "3 0",
		"?status=running,failed":             "",
		of + "&version=1":                    "4 3 2 1 0",
		of + "&version=2":                    "",
		"?launchId=" + launch:                "5",
		"?launchId=lch_none":                 "",
		"?journeyId=jrn_none":                "",
		"?from=2026-01-31T12:02:00Z":         "5 4 3 2",
		"?to=2026-01-31T12:02:00Z":           "1 0",
		fmt.Sprintf("?leadsId=%d", leads[1]): "5 3 1",
		fmt.Sprintf("?leadsId=%d&status=waiting", leads[1]):      "1",
		fmt.Sprintf("?leadsId=%d&journeyId=%s", leads[1], other): "5",
	} {
		if got := list(query); got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
	cursor := f.get("/v1/enrollments"+of+"&limit=2").str(t, "nextCursor")
	if got := list(of + "&limit=2&cursor=" + cursor); got != "2 1" {
		t.Errorf("second page: %s", got)
	}
	f.get("/v1/enrollments?limit=2&cursor="+cursor).fault(t, 400, "BadRequest", "InvalidFormat cursor")
	f.get("/v1/enrollments?status=waiting,done&from=yesterday&leadsId=0&version=x&sort=name&nope=1").fault(t, 400, "BadRequest",
		"UnknownField nope", "InvalidType version", "InvalidFormat status", "OutOfRange leadsId", "InvalidFormat from", "OutOfRange sort")
	f.get("/v1/enrollments?status=&nodeId=").fault(t, 400, "BadRequest", "NullValue status", "NullValue nodeId")
	f.get("/v1/enrollments?status=waiting,").fault(t, 400, "BadRequest", "InvalidFormat status")
	f.get("/v1/enrollments?from=2026-01-31T12:00:01Z&to=2026-01-31T12:00:00Z").fault(t, 400, "BadRequest", "OutOfRange from")
	if a := f.do(call{method: "GET", target: "/v1/enrollments", headers: map[string]string{"X-Cloud-Stage": "test"}}).expect(t, 200); a.raw != `{"items":[],"nextCursor":null}` {
		t.Errorf("another stage: %s", a.raw)
	}
}
