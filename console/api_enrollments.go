package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
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

// journeyNode is what pages show of a node of a journey.
type journeyNode struct {
	ID    string `json:"id"`
	Type  string `json:"type"`
	Label string `json:"label"`
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

// nodes are the nodes of a version of a journey.
func (g gateway) nodes(ctx context.Context, journey string, version int) ([]journeyNode, error) {
	answer, err := get[struct {
		Definition struct {
			Nodes []journeyNode `json:"nodes"`
		} `json:"definition"`
	}](ctx, g, waypost.GrantJourneysRead, "/v1/journeys/"+url.PathEscape(journey)+"/versions/"+strconv.Itoa(version), nil)
	return answer.Definition.Nodes, err
}
