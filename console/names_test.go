package console

import (
	"net/http"
	"strings"
	"testing"

	"waypost"
)

// Launches, leads and subscriptions are called by their names, with the id beside it.
func TestNamesBesideIDs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.answering(func(r *http.Request) (int, string) {
		switch r.URL.Path {
		case "/v1/journeys":
			return http.StatusOK, `{"items":[{"id":"jrn_1","name":"Welcome"}]}`
		case "/v1/journeys/jrn_1":
			return http.StatusOK, `{"id":"jrn_1","name":"Welcome"}`
		case "/v1/launches/lch_1":
			return http.StatusOK, `{"launchId":"lch_1","journeyId":"jrn_1","status":"completed","createdAt":"2026-01-30T00:00:00Z","startAt":"2026-01-31T12:00:00Z"}`
		case "/v1/launches/lch_2":
			return http.StatusOK, `{"launchId":"lch_2","journeyId":"jrn_1","status":"running","createdAt":"2026-01-30T00:00:00Z","schedule":{"cron":"5 4 * * *","timezone":"UTC"}}`
		case "/v1/subscriptions/sub_1":
			return http.StatusOK, `{"id":"sub_1","name":"Complaints"}`
		case "/v1/deliveries/msg_1":
			return http.StatusOK, `{"messageId":"msg_1","journeyId":"jrn_1","journeyVersion":1,"leadsId":1007,"status":"succeeded"}`
		case "/v1/deliveries":
			return http.StatusOK, `{"items":[{"messageId":"msg_1","leadsId":1007},{"messageId":"msg_2","leadsId":1008},{"messageId":"msg_3","leadsId":1007},{"messageId":"msg_4","subscriptionId":"sub_1"}]}`
		case "/v1/leads": // 1008 is erased
			switch r.URL.Query().Get("leadsIds") {
			case "1007", "1007,1008":
				return http.StatusOK, `{"items":[{"leadsId":1007,"name":"Ada <b>"}]}`
			case "1008,1009":
				return http.StatusOK, `{"items":[{"leadsId":1009,"name":"Bob"}]}`
			case "1008":
				return http.StatusOK, `{"items":[]}`
			}
		case "/v1/segments":
			return http.StatusOK, `{"items":[{"id":"seg_1","name":"Silent"}]}`
		case "/v1/audit":
			return http.StatusOK, `{"items":[{"action":"lead.update","target":"1009"},{"action":"lead.delete","target":"1008"},{"action":"segment.update","target":"seg_1"}]}`
		case "/v1/enrollments":
			return http.StatusOK, `{"items":[{"enrollmentId":"enr_1","journeyId":"jrn_1","version":1,"leadsId":1007,"status":"waiting"}]}`
		case "/v1/enrollments/enr_1":
			return http.StatusOK, `{"enrollmentId":"enr_1","journeyId":"jrn_1","version":1,"leadsId":1008,"status":"completed"}`
		}
		return 0, ""
	})
	admin, _ := s.as(waypost.RoleAdmin)
	for path, want := range map[string][]string{
		"/launches/lch_1":                  {"<h1>Launch of Welcome, 31 Jan 2026, "},
		"/launches/lch_2":                  {"<h1>Launch of Welcome</h1>"},
		"/deliveries?launchId=lch_1":       {"Launch of Welcome, 31 Jan 2026, ", `value="lch_1"`},
		"/deliveries?subscriptionId=sub_1": {"<bdi>Complaints</bdi>", `value="sub_1"`},
		"/deliveries/msg_1":                {`<a href="/leads/1007"><bdi>Ada &lt;b&gt;</bdi></a>`, `data-copy="1007"`},
		"/deliveries":                      {`<a href="/leads/1007"><bdi>Ada &lt;b&gt;</bdi></a>`, `<a href="/leads/1008"><bdi>Lead 1008</bdi></a>`},
		"/journeys/jrn_1/enrollments":      {`href="/leads/1007"><bdi>Ada &lt;b&gt;</bdi></a>`},
		"/audit":                           {`href="/leads/1009" title="1009"><bdi>Bob</bdi></a>`, `<bdi title="1008">Lead 1008</bdi>`, `href="/segments/seg_1" title="seg_1"><bdi>Silent</bdi></a>`},
		"/enrollments/enr_1":               {`<a href="/leads/1008"><bdi>Lead 1008</bdi></a>`, `data-copy="1008"`},
	} {
		got := admin.get(path)
		for _, text := range want {
			if got.Status != http.StatusOK || !strings.Contains(got.Body, text) {
				t.Errorf("%s: HTTP %d without %s: %s", path, got.Status, text, got.Body)
			}
		}
	}
}
