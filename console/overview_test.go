package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"waypost"
)

// The overview tells what all webhooks were sent, and which of them are down, however many there
// are: it asks for the health of those alone that are disabled, or that messages wait for or
// failed at.
func TestOverviewOfManyWebhooks(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var webhooks []string
	for i := range 200 {
		webhooks = append(webhooks, fmt.Sprintf(`{"id":"whk_%d","name":"Hook <%d>"}`, i, i))
	}
	group := func(webhook string) string {
		return `{"groups":[{"errorClass":"timeout","webhookId":"` + webhook + `","count":3,"sampleMessageId":"msg_1"}]}`
	}
	s.answering(func(r *http.Request) (int, string) {
		query := r.URL.Query()
		switch path := r.URL.Path; path {
		case "/v1/journeys":
			return http.StatusOK, `{"items":[{"id":"jrn_1","name":"Welcome"}]}`
		case "/v1/webhooks":
			if query.Get("enabled") == "false" {
				return http.StatusOK, `{"items":[{"id":"whk_180","name":"Hook <180>"}]}`
			}
			return http.StatusOK, `{"items":[` + strings.Join(webhooks, ",") + `]}`
		case "/v1/webhooks/history":
			return http.StatusOK, `{"series":[{"from":"2026-01-31T11:00:00Z","attempts":7005,"succeeded":7001,"failed":4},{"from":"2026-01-31T12:00:00Z","attempts":3000,"succeeded":2000,"failed":1000}]}`
		case "/v1/webhooks/whk_180/health":
			return http.StatusOK, `{"enabled":false,"breaker":{"state":"closed"},"waiting":{"retrying":1,"deferred":4}}`
		case "/v1/webhooks/whk_190/health":
			return http.StatusOK, `{"enabled":true,"breaker":{"state":"open","since":"2026-01-31T11:59:00Z"},"waiting":{"retrying":0,"deferred":9}}`
		case "/v1/webhooks/whk_7/health":
			return http.StatusOK, `{"enabled":true,"breaker":{"state":"closed"},"waiting":{"retrying":0,"deferred":0}}`
		case "/v1/deliveries/summary":
			return http.StatusOK, group(map[string]string{"deferred": "whk_190", "retrying": "whk_190", "failed": "whk_7"}[query.Get("status")])
		default:
			if strings.HasSuffix(path, "/health") {
				t.Errorf("asked for %s", path)
			}
		}
		return 0, ""
	})
	viewer, _ := s.as(waypost.RoleViewer)
	got := viewer.get("/")
	for _, text := range []string{"<dd>9,001</dd>", "<dd>1,004</dd>", "<strong>Hook &lt;180&gt;</strong>", "<strong>Hook &lt;190&gt;</strong>"} {
		if got.Status != http.StatusOK || !strings.Contains(got.Body, text) {
			t.Errorf("HTTP %d without %s: %s", got.Status, text, got.Body)
		}
	}
	if n := strings.Count(got.Body, `class="note bad"`); n != 2 {
		t.Errorf("%d webhooks are said to be down: %s", n, got.Body)
	}
}
