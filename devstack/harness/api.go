package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"waypost"
)

// API makes signed calls that must succeed.
type API struct {
	call func(ctx context.Context, method, path string, body, answer any) error
}

// Do makes a call.
func (a API) Do(t *testing.T, method, path string, body, answer any) {
	t.Helper()
	if err := a.call(t.Context(), method, path, body, answer); err != nil {
		t.Error(err)
	}
}

// Publish makes a webhook that retries soon, and a published journey; the
// definition's %q is the webhook's id.
func (a API) Publish(t *testing.T, url, definition string) (journeyID string) {
	t.Helper()
	var made struct{ ID string }
	a.Do(t, http.MethodPost, "/v1/webhooks", map[string]any{
		"name": "crm", "url": url, "timeoutMs": 8000,
		"retry": map[string]any{"schedule": []string{"1s", "2s", "3s"}, "giveUpAfter": "1h"},
	}, &made)
	a.Do(t, http.MethodPost, "/v1/journeys", json.RawMessage(fmt.Sprintf(definition, made.ID)), &made)
	a.Do(t, http.MethodPost, "/v1/journeys/"+made.ID+"/publish", nil, nil)
	if t.Failed() {
		t.FailNow()
	}
	return made.ID
}

// Record is a delivery as the API returns it.
type Record struct {
	MessageID    string                 `json:"messageId"`
	EnrollmentID string                 `json:"enrollmentId"`
	NodeID       string                 `json:"nodeId"`
	WebhookID    string                 `json:"webhookId"`
	LeadsID      int64                  `json:"leadsId"`
	Status       waypost.DeliveryStatus `json:"status"`
	Attempts     int                    `json:"attempts"`
	AttemptLog   []waypost.Attempt      `json:"attemptLog"`
}

// Made returns the posts that one attempt POSTed: those after its beginning and before
// the next attempt's.
func (rec Record) Made(attempt int, posts []Received) []Received {
	var own []Received
	for _, a := range posts {
		at := a.At.Truncate(time.Millisecond) // as it is recorded
		if !at.Before(rec.AttemptLog[attempt].At) && (attempt+1 == len(rec.AttemptLog) || at.Before(rec.AttemptLog[attempt+1].At)) {
			own = append(own, a)
		}
	}
	return own
}

// History counts the attempts in the history of a webhook of the last week, by whether they
// succeeded.
func (a API) History(t *testing.T, webhookID string) map[bool]int {
	t.Helper()
	var history struct {
		Series []struct{ Succeeded, Failed int }
	}
	if err := a.call(t.Context(), http.MethodGet, "/v1/webhooks/"+webhookID+"/history?every=day", nil, &history); err != nil {
		t.Fatal(err)
	}
	counts := map[bool]int{}
	for _, i := range history.Series {
		counts[true] += i.Succeeded
		counts[false] += i.Failed
	}
	return counts
}

// Records reads all deliveries of a journey with their attempts.
func (a API) Records(t *testing.T, journeyID string) []Record {
	t.Helper()
	var all []Record
	for cursor := ""; ; {
		var page struct {
			Items      []Record
			NextCursor string
		}
		if err := a.call(t.Context(), http.MethodGet, "/v1/deliveries?limit=500&journeyId="+journeyID+cursor, nil, &page); err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Items...)
		if page.NextCursor == "" {
			break
		}
		cursor = "&cursor=" + page.NextCursor
	}
	errs := make([]error, len(all))
	Parallel(len(all), func(i int) {
		errs[i] = a.call(t.Context(), http.MethodGet, "/v1/deliveries/"+all[i].MessageID, nil, &all[i])
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return all
}
