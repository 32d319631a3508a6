package console

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"time"

	"waypost"
	"waypost/api"
)

// enrollmentAnswer is an enrollment as a list has it.
type enrollmentAnswer struct {
	ID          string                   `json:"enrollmentId"`
	JourneyID   string                   `json:"journeyId"`
	Version     int                      `json:"version"`
	LeadsID     int64                    `json:"leadsId"`
	Entry       waypost.Entry            `json:"entry"`
	EntryKey    string                   `json:"entryKey"`
	Params      json.RawMessage          `json:"params"`
	Status      waypost.EnrollmentStatus `json:"status"`
	NodeID      string                   `json:"nodeId"`
	WorkflowID  string                   `json:"workflowId"`
	TemporalURL string                   `json:"temporalUrl"`
	CreatedAt   time.Time                `json:"createdAt"`
	EndedAt     time.Time                `json:"endedAt"`
	Conversion  *struct {
		At    time.Time `json:"at"`
		Value float64   `json:"value"`
	} `json:"conversion"` // nil until it reached its goal
}

// Worth is what its conversion is worth so far, with separators.
func (e enrollmentAnswer) Worth() string { return amount(e.Conversion.Value) }

// enrollmentDetail is an enrollment with everything that happened to it.
type enrollmentDetail struct {
	enrollmentAnswer
	Timeline []waypost.TimelineEntry `json:"timeline"`
}

func (g gateway) enrollment(ctx context.Context, id string) (enrollmentDetail, error) {
	return get[enrollmentDetail](ctx, g, waypost.GrantJourneysRead, "/v1/enrollments/"+url.PathEscape(id), nil)
}

func (g gateway) enrollmentsOf(ctx context.Context, query url.Values) (api.List[enrollmentAnswer], error) {
	return get[api.List[enrollmentAnswer]](ctx, g, waypost.GrantJourneysRead, "/v1/enrollments", query)
}

// overdueAfter is how long work may wait for a worker before pages say so. A worker that is not
// busy takes work on within seconds.
const overdueAfter = 30 * time.Second

// overdue is since when something waits to be taken on, the zero time if that is not long.
func overdue(since time.Time) time.Time {
	if time.Since(since) < overdueAfter {
		return time.Time{}
	}
	return since
}

// stalled is since when the first of the enrollments that match waits to be started, the zero
// time if none waits longer than overdueAfter. Without a worker, or if all are busy, they wait.
func (g gateway) stalled(ctx context.Context, filters url.Values) (time.Time, error) {
	query := url.Values{"status": {string(waypost.EnrollmentPending)}, "sort": {"createdAt"}, "limit": {"1"}}
	maps.Copy(query, filters)
	found, err := g.enrollmentsOf(ctx, query)
	if err != nil || len(found.Items) == 0 {
		return time.Time{}, err
	}
	return overdue(found.Items[0].CreatedAt), nil
}

// controlEnrollment pauses, resumes or cancels an enrollment.
func (g gateway) controlEnrollment(ctx context.Context, id, verb string, body any) error {
	return g.do(ctx, waypost.GrantJourneysRun, http.MethodPost, "/v1/enrollments/"+url.PathEscape(id)+"/"+verb, body, nil)
}
