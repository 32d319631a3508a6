package gateway

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"

	"waypost"
	"waypost/api"
)

// Enrollments stores enrollments, and has them started. A stored one is accepted: it will
// run.
type Enrollments interface {
	Enroll(ctx context.Context, by waypost.Caller, e waypost.Enrollment, r waypost.Reentry) (waypost.Enrollment, error)
	Enrollment(ctx context.Context, sc waypost.Scope, id string) (waypost.Enrollment, []waypost.TimelineEntry, error)
	// Conversions returns which of the enrollments, that were found, have reached their goal.
	Conversions(ctx context.Context, enrollmentIDs []string) (map[string]waypost.Conversion, error)
	// ListEnrollments lists up to page.Limit enrollments. next is what the next page
	// follows, "" at the end; a page can be shorter and have a next.
	ListEnrollments(ctx context.Context, sc waypost.Scope, f waypost.EnrollmentFilter, page waypost.Page) (list []waypost.Enrollment, next string, err error)
}

// Waker wakes a loop that looks for something to do. Wake returns at once.
type Waker interface {
	Wake()
}

// maxEnrollmentParams bounds an enrollment's params.
const maxEnrollmentParams = 16 << 10 // bytes of JSON

type enrollBody struct {
	LeadsID  *int64         `json:"leadsId"`
	EntryKey string         `json:"entryKey"`
	Params   map[string]any `json:"params"`
}

func decodeEnroll(r *request) (waypost.Enrollment, error) {
	var body enrollBody
	err := checked(waypost.DecodeJSON(r.body, &body), func(p *waypost.Problems) {
		if body.LeadsID == nil {
			p.Add(waypost.DetailNullValue, "leadsId", "is missing")
		}
		waypost.CheckEntryKey(p, body.EntryKey)
		checkObject(p, "params", body.Params, maxEnrollmentParams)
	})
	if err != nil {
		return waypost.Enrollment{}, err
	}
	return waypost.Enrollment{LeadsID: *body.LeadsID, EntryKey: body.EntryKey, Params: body.Params}, nil
}

// checkObject notes an object of free form that is longer than most bytes of JSON, without
// the escapes that only HTML needs.
func checkObject(p *waypost.Problems, target string, object map[string]any, most int) {
	text, _ := encode(object) // what was decoded can be encoded
	if len(text) > most {
		p.Add(waypost.DetailTooLong, target, "must be at most %d bytes of JSON", most)
	}
}

// enrolledAnswer is what a client gets for an accepted enrollment.
type enrolledAnswer struct {
	EnrollmentID string                   `json:"enrollmentId"`
	JourneyID    string                   `json:"journeyId"`
	Version      int                      `json:"version"`
	Status       waypost.EnrollmentStatus `json:"status"`
	WorkflowID   *string                  `json:"workflowId"`
	TemporalURL  *string                  `json:"temporalUrl"`
}

func (a *server) answerEnrolled(e waypost.Enrollment) enrolledAnswer {
	return enrolledAnswer{e.ID, e.JourneyID, e.Version, e.Status, orNull(e.WorkflowID), orNull(a.TemporalURL(e.JourneyID, e.LeadsID))}
}

// enroll stores an enrollment in the newest published version; the pump starts
// it. It is accepted even if nothing can be started now.
func (a *server) enroll(ctx context.Context, r *request) (answer, error) {
	e, err := decodeEnroll(r)
	if err != nil {
		return answer{}, err
	}
	e.JourneyID, e.AppID = r.param("id"), r.app.ID
	for {
		ans, err := a.enrollPublished(ctx, r, e)
		if !errors.Is(err, waypost.ErrNotPublished) {
			return ans, err
		}
		a.published.Remove(publishedKey{r.scope, e.JourneyID})
	}
}

// publishedKey names a journey whose published version is remembered.
type publishedKey struct {
	scope     waypost.Scope
	journeyID string
}

// enrollPublished enrolls in the published version. The one that was published last is
// remembered, which saves a read; if another one is since, storage says ErrNotPublished.
func (a *server) enrollPublished(ctx context.Context, r *request, e waypost.Enrollment) (answer, error) {
	key := publishedKey{r.scope, e.JourneyID}
	version, remembered := a.published.Get(key)
	if !remembered {
		j, err := a.Journeys.Journey(ctx, r.scope, e.JourneyID)
		if err != nil {
			return answer{}, err
		}
		if refused := takesLeads(j); refused != nil {
			// A lead that does not exist is reported rather than a journey in the wrong state.
			if _, err := a.Leads.Lead(ctx, r.scope, e.LeadsID); err != nil {
				return answer{}, err
			}
			return answer{}, refused
		}
		version = j.PublishedVersion
		a.published.Add(key, version)
	}
	definition, err := a.definition(ctx, r.scope, e.JourneyID, version)
	if err != nil {
		return answer{}, err
	}
	e.Version = version
	reentry := definition.Reentry()
	reentry.Current = true
	return effect(ctx, r, func(ctx context.Context) (waypost.Enrollment, error) {
		return a.Enrollments.Enroll(ctx, r.by(), e, reentry)
	}, func(e waypost.Enrollment) (answer, error) {
		return at(http.StatusAccepted, "/v1/enrollments/"+e.ID, a.answerEnrolled(e))
	})
}

// enrollmentAnswer is an enrollment as a list has it.
type enrollmentAnswer struct {
	enrolledAnswer
	LeadsID   int64          `json:"leadsId"`
	Entry     entryAnswer    `json:"entry"`
	EntryKey  string         `json:"entryKey"`
	Params    map[string]any `json:"params"`
	NodeID    *string        `json:"nodeId"`
	CreatedAt string         `json:"createdAt"`
	EndedAt   *string        `json:"endedAt"`

	Conversion *conversionAnswer `json:"conversion"` // nil until it reached its goal
}

// conversionAnswer says that an enrollment reached its goal.
type conversionAnswer struct {
	At      string  `json:"at"`
	EventID string  `json:"eventId"`
	Value   float64 `json:"value"`
}

// answerEnrollments describes enrollments, with the conversions of those that have one.
func (a *server) answerEnrollments(ctx context.Context, list ...waypost.Enrollment) ([]enrollmentAnswer, error) {
	ids := make([]string, len(list))
	for i, e := range list {
		ids[i] = e.ID
	}
	reached, err := a.Enrollments.Conversions(ctx, ids)
	if err != nil {
		return nil, err
	}
	answers := described(list, a.answerEnrollment)
	for i, id := range ids {
		if c, converted := reached[id]; converted {
			answers[i].Conversion = &conversionAnswer{stamp(c.At), c.EventID, c.Worth.Float()}
		}
	}
	return answers, nil
}

// entryAnswer says why an enrollment began.
type entryAnswer struct {
	Kind    waypost.EntryKind `json:"kind"`
	Event   *string           `json:"event"`
	EventID *string           `json:"eventId"`
	Segment *string           `json:"segment"`
}

func answerEntry(e waypost.Entry) entryAnswer {
	return entryAnswer{e.Kind, orNull(e.Event), orNull(e.EventID), orNull(e.Segment)}
}

func (a *server) answerEnrollment(e waypost.Enrollment) enrollmentAnswer {
	ans := enrollmentAnswer{
		enrolledAnswer: a.answerEnrolled(e), LeadsID: e.LeadsID, Entry: answerEntry(e.Entry), EntryKey: e.EntryKey, Params: e.Params, NodeID: orNull(e.NodeID),
		CreatedAt: stamp(e.CreatedAt), EndedAt: stampOrNull(e.EndedAt),
	}
	if ans.Params == nil {
		ans.Params = map[string]any{}
	}
	return ans
}

// enrollmentDetail is an enrollment with everything that happened to it.
type enrollmentDetail struct {
	enrollmentAnswer
	Timeline []timelineEntry `json:"timeline"`
}

type timelineEntry struct {
	At      string  `json:"at"`
	NodeID  string  `json:"nodeId"`
	What    string  `json:"what"`
	Next    *string `json:"next"`
	Way     *string `json:"way"`
	Reason  *string `json:"reason"`
	Version int     `json:"version"`
}

func answerTimelineEntry(t waypost.TimelineEntry) timelineEntry {
	return timelineEntry{stamp(t.At), t.NodeID, t.What, orNull(t.Next), orNull(t.Way), orNull(t.Reason), t.Version}
}

func (a *server) showEnrollment(ctx context.Context, r *request) (answer, error) {
	e, entries, err := a.Enrollments.Enrollment(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	shown, err := a.answerEnrollments(ctx, e)
	if err != nil {
		return answer{}, err
	}
	return resource(http.StatusOK, "", enrollmentDetail{shown[0], described(entries, answerTimelineEntry)})
}

func (a *server) listEnrollments(ctx context.Context, r *request) (answer, error) {
	filter := waypost.EnrollmentFilter{
		JourneyID: r.params["journeyId"], Version: int(r.integer("version", 1, math.MaxInt32, 0)), NodeID: r.params["nodeId"],
		Statuses: r.enrollmentStatuses(), LeadsID: r.integer("leadsId", 1, math.MaxInt64, 0), LaunchID: r.params["launchId"],
		From: r.moment("from"), To: r.moment("to"), OldestFirst: r.oldestFirst("createdAt"),
	}
	inOrder(&r.queryFaults, "", "from", "to", filter.From, filter.To)
	if err := r.queryFaults.Err("query"); err != nil {
		return answer{}, err
	}
	rows, next, err := a.Enrollments.ListEnrollments(ctx, r.scope, filter, r.page)
	if err != nil {
		return answer{}, err
	}
	shown, err := a.answerEnrollments(ctx, rows...)
	if err != nil {
		return answer{}, err
	}
	return ok(api.List[enrollmentAnswer]{Items: shown, NextCursor: r.cursor(next)})
}

// enrollmentStatuses reads the filter status: one or several, separated by commas.
func (r *request) enrollmentStatuses() (statuses []waypost.EnrollmentStatus) {
	raw, given := r.params["status"]
	if !given {
		return nil
	}
	for _, name := range strings.Split(raw, ",") {
		status := waypost.EnrollmentStatus(name)
		if !slices.Contains(waypost.EnrollmentStatuses, status) {
			r.queryFaults.Add(waypost.DetailInvalidFormat, "status",
				"must be pending, running, waiting, paused, completed, exited, failed, canceled or heldOut, or several of these with commas between")
			return nil
		}
		statuses = append(statuses, status)
	}
	return statuses
}
