package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"waypost"
)

// enrollmentAnswer is an enrollment as a list has it.
type enrollmentAnswer struct {
	ID          string                   `json:"enrollmentId"`
	JourneyID   string                   `json:"journeyId"`
	Version     int                      `json:"version"`
	LeadsID     int64                    `json:"leadsId"`
	EntryKey    string                   `json:"entryKey"`
	Params      json.RawMessage          `json:"params"`
	Status      waypost.EnrollmentStatus `json:"status"`
	NodeID      string                   `json:"nodeId"`
	WorkflowID  string                   `json:"workflowId"`
	TemporalURL string                   `json:"temporalUrl"`
	CreatedAt   time.Time                `json:"createdAt"`
	EndedAt     time.Time                `json:"endedAt"`
}

// enrollmentDetail is an enrollment with everything that happened to it.
type enrollmentDetail struct {
	enrollmentAnswer
	Timeline []waypost.TimelineEntry `json:"timeline"`
}

func (g gateway) enrollment(ctx context.Context, id string) (enrollmentDetail, error) {
	return get[enrollmentDetail](ctx, g, waypost.GrantJourneysRead, "/v1/enrollments/"+url.PathEscape(id), nil)
}

func (g gateway) enrollmentsOf(ctx context.Context, query url.Values) (list[enrollmentAnswer], error) {
	return get[list[enrollmentAnswer]](ctx, g, waypost.GrantJourneysRead, "/v1/enrollments", query)
}

// controlEnrollment pauses, resumes or cancels an enrollment.
func (g gateway) controlEnrollment(ctx context.Context, id, verb string, body any) error {
	return g.do(ctx, waypost.GrantJourneysRun, http.MethodPost, "/v1/enrollments/"+url.PathEscape(id)+"/"+verb, body, nil)
}
