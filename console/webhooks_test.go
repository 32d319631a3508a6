package console

import (
	"net/http"
	"strings"
	"testing"

	"waypost"
)

// A receiver that takes nothing is not said to be up, whether its breaker is open or not; nor one that was not asked.
func TestReceiverOfWebhook(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.answering(func(r *http.Request) (int, string) {
		id := strings.Split(r.URL.Path+"///", "/")[3]
		switch {
		case strings.HasSuffix(r.URL.Path, "/health"):
			return http.StatusOK, map[string]string{
				"whk_up":      `{"breaker":{"state":"closed"},"lastHour":{"attempts":4,"successRate":0.25},"lastDay":{"attempts":9}}`,
				"whk_idle":    `{"breaker":{"state":"closed"},"lastHour":{"attempts":0,"successRate":null},"lastDay":{"attempts":0}}`,
				"whk_failing": `{"breaker":{"state":"closed"},"lastHour":{"attempts":9,"successRate":0}}`,
				"whk_down":    `{"breaker":{"state":"open"},"lastHour":{"attempts":9,"successRate":0}}`,
			}[id]
		case strings.HasPrefix(r.URL.Path, "/v1/webhooks/whk_") && !strings.HasSuffix(r.URL.Path, "/history"):
			return http.StatusOK, `{"id":"` + id + `","name":"Hook","enabled":true}`
		}
		return 0, ""
	})
	viewer, _ := s.as(waypost.RoleViewer)
	for id, want := range map[string]string{"whk_up": "Up", "whk_idle": "Not used lately", "whk_failing": "Failing", "whk_down": "Down"} {
		if got := viewer.get("/webhooks/" + id); got.Status != http.StatusOK || !strings.Contains(got.Body, `<p class="stat-value text">`+want+`</p>`) {
			t.Errorf("%s: HTTP %d without %s: %s", id, got.Status, want, got.Body)
		}
	}
}
