package console

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"waypost"
)

// tooSlow is the gateway's answer if a segment takes too long to read.
const tooSlow = `{"code":"ServiceUnavailable","message":"it takes longer than 25s"}`

// What the gateway says of a segment is shown where it is of use: at the field, on the page of a
// segment that is used, and in place of a count that takes too long.
func TestSegmentsPage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.answering(func(r *http.Request) (int, string) {
		switch {
		case r.Method == http.MethodPost || r.Method == http.MethodPut:
			return http.StatusBadRequest, `{"code":"BadRequest","message":"when: is wrong","target":"segment","detail":[{"code":"InvalidFormat","target":"when","message":"line 1, column 6: undefined field 'x'"}]}`
		case r.Method == http.MethodDelete:
			return http.StatusConflict, `{"code":"Conflict","message":"journey jrn_7 uses the segment","target":"id"}`
		case strings.HasSuffix(r.URL.Path, "/count") || strings.HasSuffix(r.URL.Path, "/members"):
			return http.StatusServiceUnavailable, tooSlow
		case r.URL.Path == "/v1/segments/seg_1":
			return http.StatusOK, `{"id":"seg_1","name":"gold <b>","when":"lead.region == 1","createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z"}`
		}
		return 0, ""
	})
	marketer, _ := s.as(waypost.RoleMarketer)
	form := url.Values{"name": {" gold "}, "when": {"lead.x"}, "etag": {`"e1"`}}
	for _, path := range []string{"/segments", "/segments/seg_1"} {
		got := marketer.post(path, form)
		if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, `id="fault-when"`) || !strings.Contains(got.Body, "line 1, column 6: undefined field") || !strings.Contains(got.Body, ">lead.x</textarea>") {
			t.Errorf("%s: HTTP %d, %s", path, got.Status, got.Body)
		}
	}
	var changed bool
	for _, c := range s.take() {
		changed = changed || c.Method == http.MethodPut && c.Header.Get("If-Match") == `"e1"`
	}
	if !changed {
		t.Error("the segment was not changed as the one that was shown")
	}
	if got := marketer.post("/segments/seg_1/delete", url.Values{}); got.Status != http.StatusSeeOther || got.To() != "/segments/seg_1" {
		t.Errorf("delete: HTTP %d, to %q", got.Status, got.To())
	}
	if got := marketer.get("/segments/seg_1"); !strings.Contains(got.Body, "journey jrn_7 uses the segment") || !strings.Contains(got.Body, "gold &lt;b&gt;") || !strings.Contains(got.Body, `data-count="/segments/seg_1/count"`) {
		t.Errorf("HTTP %d, %s", got.Status, got.Body)
	}
	viewer, _ := s.as(waypost.RoleViewer)
	for _, path := range []string{"/segments/seg_1/count", "/segments/seg_1/members"} {
		got := viewer.get(path)
		if got.Status != http.StatusOK || !strings.Contains(got.Body, "takes too long") || strings.Contains(got.Body, "data-count") || strings.Contains(got.Body, "/edit") {
			t.Errorf("%s: HTTP %d, %s", path, got.Status, got.Body)
		}
	}
}

// The condition of the form is counted before it is stored, with lines as it was written; what is
// wrong with it is said at the field.
func TestCountOfCondition(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.answering(func(r *http.Request) (int, string) {
		switch r.URL.Path {
		case "/v1/leads/count":
			switch sent, _ := io.ReadAll(r.Body); {
			case strings.Contains(string(sent), "slow"):
				return http.StatusServiceUnavailable, tooSlow
			case string(sent) == `{"when":"lead.region == 1\n\u0026\u0026 true"}`:
				return http.StatusOK, `{"count":1234,"sample":[7]}`
			}
			return http.StatusBadRequest, `{"code":"BadRequest","message":"when: is wrong","detail":[{"code":"InvalidFormat","target":"when","message":"line 1, column 6: undefined field"}]}`
		case "/v1/leads":
			return http.StatusOK, `{"items":[{"leadsId":7,"name":"Ada <b>"}]}`
		case "/v1/leads/fields":
			return http.StatusOK, `{"items":[{"name":"plan \"<","type":"string","share":1}],"sampled":1}`
		}
		return 0, ""
	})
	v, _ := s.as(waypost.RoleMarketer)
	for when, parts := range map[string][]string{
		"lead.region == 1\r\n&& true": {">1,234<", "Ada &lt;b&gt;", "lead.region == 1"},
		"lead.x":                      {`id="fault-when"`, "line 1, column 6: undefined field", ">lead.x</textarea>", "Mend the condition"},
		"slow":                        {"takes too long"},
	} {
		got := v.post("/segments/count", url.Values{"name": {"kept"}, "when": {when}})
		for _, part := range append(parts, `value="kept"`) {
			if got.Status != http.StatusOK || !strings.Contains(got.Body, part) {
				t.Errorf("%q: HTTP %d without %s: %s", when, got.Status, part, got.Body)
			}
		}
	}
	if got := v.get("/segments/options.json"); got.Status != http.StatusOK || !strings.Contains(got.Body, `"fields":[{"name":"plan \"\u003c","type":"string"}]`) || strings.Contains(got.Body, "null") {
		t.Errorf("HTTP %d, %s", got.Status, got.Body)
	}
	viewer, _ := s.as(waypost.RoleViewer)
	if got := viewer.post("/segments/count", url.Values{"when": {"true"}}); got.Status != http.StatusForbidden {
		t.Errorf("a viewer: HTTP %d", got.Status)
	}
}

// A segment that takes too long to count can be launched to all the same.
func TestLaunchToSlowSegment(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.answering(func(r *http.Request) (int, string) {
		switch r.URL.Path {
		case "/v1/leads/count":
			return http.StatusServiceUnavailable, tooSlow
		case "/v1/journeys/jrn_1":
			return http.StatusOK, `{"id":"jrn_1","name":"Hello","status":"active","publishedVersion":1}`
		case "/v1/segments":
			return http.StatusOK, `{"items":[{"id":"seg_1","name":"Slow ones"}],"nextCursor":null}`
		case "/v1/journeys/jrn_1/launches":
			return http.StatusAccepted, `{"launchId":"lch_1"}`
		}
		return 0, ""
	})
	v, _ := s.as(waypost.RoleMarketer)
	form := url.Values{"who": {"segment"}, "segment": {"seg_1"}, "rate": {"5"}, "group": {"10"}}
	if got := v.post("/journeys/jrn_1/launch/count", form); got.Status != http.StatusOK || !strings.Contains(got.Body, "takes too long") || strings.Contains(got.Body, `id="fault-segment"`) {
		t.Errorf("HTTP %d, %s", got.Status, got.Body)
	}
	form.Set("step", "review")
	if got := v.post("/journeys/jrn_1/launch", form); got.Status != http.StatusOK || !strings.Contains(got.Body, "All leads of the segment Slow ones now, at most 5 a second.") {
		t.Errorf("HTTP %d, %s", got.Status, got.Body)
	}
	form.Set("step", "launch")
	if got := v.post("/journeys/jrn_1/launch", form); got.To() != "/launches/lch_1" {
		t.Errorf("HTTP %d, %s", got.Status, got.Body)
	}
}

// The pages of what was stored before a check tell what it would be refused for now, in the language of
// the person; others tell nothing.
func TestStoredProblems(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const problems = `[{"code":"OutOfRange","target":"when","message":"a window that is longer than the 90 days for which events are kept (WAYPOST_RETENTION_EVENTS) must be whole days, ` +
		`a multiple of 24h, because older events are counted by day; write duration(\"2184h\")"},{"code":"InvalidFormat","target":"nodes[0].when","message":"line 1, column 13: lead.gender is a number: write <lead.gender == 1>"}]`
	journey := func(problems string) string {
		return `{"id":"jrn_1","name":"J","status":"active","publishedVersion":1,"draft":{"name":"J"},"problems":` + problems + `}`
	}
	segment := func(problems string) string {
		return `{"id":"seg_1","name":"gold","when":"true","createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z","problems":` + problems + `}`
	}
	s.answers(map[string]string{
		"/v1/journeys/jrn_1": journey(problems), "/v1/journeys/jrn_1/versions/1": `{"version":1,"definition":{"name":"J"}}`,
		"/v1/journeys/jrn_2": journey("[]"), "/v1/journeys/jrn_3": journey("null"), // whose id is jrn_1, too
		"/v1/segments/seg_1": segment(problems), "/v1/segments/seg_2": segment("[]"), "/v1/segments/seg_3": segment("null"),
	})
	v, _ := s.as(waypost.RoleViewer)
	for language, says := range map[string][]string{
		"en": {"goes on as it did", "must be whole days", "lead.gender is a number: write &lt;lead.gender == 1&gt;", `<span class="mono">nodes[0].when</span>`},
		"zh": {"现在再次", "时间窗口超过事件保留的 90 天（WAYPOST_RETENTION_EVENTS）时，必须是整天", "lead.gender 是数字，请写 &lt;lead.gender == 1&gt;", `<span class="mono">nodes[0].when</span>`},
	} {
		v.setCookie("language", language)
		for _, path := range []string{"/segments/seg_1", "/journeys/jrn_1", "/journeys/jrn_1/statistics"} {
			got := v.get(path)
			for _, part := range append(says, `id="stored-problems"`) {
				if got.Status != http.StatusOK || !strings.Contains(got.Body, part) {
					t.Errorf("%s %s: HTTP %d, no %s in %s", language, path, got.Status, part, got.Body)
				}
			}
		}
	}
	for _, path := range []string{"/segments/seg_2", "/segments/seg_3", "/journeys/jrn_2", "/journeys/jrn_3"} {
		if got := v.get(path); got.Status != http.StatusOK || strings.Contains(got.Body, "stored-problems") {
			t.Errorf("%s: HTTP %d, %s", path, got.Status, got.Body)
		}
	}
}
