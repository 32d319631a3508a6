package gateway

import (
	"context"
	"net/http"
	"time"

	"waypost"
	"waypost/api"
	"waypost/journey"
)

// Segments stores conditions that leads meet or not, and finds the leads.
type Segments interface {
	// CreateSegment, as ReplaceSegment, refuses a condition that names what is not there,
	// leads in a circle, or asks too much with the segments that it names.
	CreateSegment(ctx context.Context, by waypost.Caller, s waypost.Segment) (waypost.Segment, error)
	Segment(ctx context.Context, sc waypost.Scope, id string) (waypost.Segment, error)
	ListSegments(ctx context.Context, sc waypost.Scope, page waypost.Page) ([]waypost.Segment, error)
	// check sees the segment as it is, where nobody can change it, and may refuse.
	ReplaceSegment(ctx context.Context, by waypost.Caller, id string, s waypost.Segment, check func(waypost.Segment) error) (waypost.Segment, error)
	DeleteSegment(ctx context.Context, by waypost.Caller, id string, check func(waypost.Segment) error) error
	// CountSegment counts the leads of a segment, and picks up to n of them.
	CountSegment(ctx context.Context, sc waypost.Scope, id string, n int) (waypost.SegmentCount, error)
	// CountCondition is CountSegment for a condition that no segment has, and refuses what
	// CreateSegment refuses.
	CountCondition(ctx context.Context, sc waypost.Scope, when string, n int) (waypost.SegmentCount, error)
	// CheckCondition refuses what CountCondition refuses, and counts nothing.
	CheckCondition(ctx context.Context, sc waypost.Scope, when string) error
	// SegmentMembers lists them in the order of their leadsId; a lead's place is its leadsId.
	SegmentMembers(ctx context.Context, sc waypost.Scope, id string, page waypost.Page) ([]waypost.Lead, error)
	// MissingSegments returns those of ids that there is no segment for.
	MissingSegments(ctx context.Context, sc waypost.Scope, ids []string) ([]string, error)
}

// segmentTime bounds reading a segment, whose leads may have to be evaluated one after
// another; a variable for tests on a busy machine.
var segmentTime = 25 * time.Second

func answerSegment(s waypost.Segment) api.Segment {
	return api.Segment{ID: s.ID, Name: s.Name, When: s.When, CreatedAt: api.At(s.CreatedAt), UpdatedAt: api.At(s.UpdatedAt)}
}

// decodeSegment reads and checks a segment, but for what the stage must have.
func decodeSegment(r *request) (s waypost.Segment, err error) {
	var body api.SegmentBody
	err = checked(waypost.DecodeJSON(r.body, &body), func(p *waypost.Problems) {
		s.Name, s.When = body.Name, body.When
		checkSegment(p, s)
	})
	return s, err
}

// checkSegment reports what is wrong with a segment, but for what the stage must have.
func checkSegment(p *waypost.Problems, s waypost.Segment) {
	before := len(*p)
	if p.AddAll(s.Validate()); len(*p) == before {
		compileWhen(p, s.When)
	}
}

// compileWhen reports what is wrong with a condition, but for what the stage must have.
func compileWhen(p *waypost.Problems, when string) {
	if err := journey.CheckSegment(when); err != nil {
		p.Add(waypost.DetailInvalidFormat, "when", "%s", err)
	}
}

func (a *server) createSegment(ctx context.Context, r *request) (answer, error) {
	s, err := decodeSegment(r)
	if err != nil {
		return answer{}, err
	}
	return effect(ctx, r, func(ctx context.Context) (waypost.Segment, error) {
		return a.Segments.CreateSegment(ctx, r.by(), s)
	}, func(s waypost.Segment) (answer, error) {
		return resource(http.StatusCreated, "/v1/segments/"+s.ID, answerSegment(s))
	})
}

func (a *server) listSegments(ctx context.Context, r *request) (answer, error) {
	return answerPage(r, func(page waypost.Page) ([]waypost.Segment, error) {
		return a.Segments.ListSegments(ctx, r.scope, page)
	}, func(s waypost.Segment) string { return s.ID }, answerSegment)
}

func (a *server) showSegment(ctx context.Context, r *request) (answer, error) {
	s, err := a.Segments.Segment(ctx, r.scope, r.param("id"))
	ans, err := resourceWith(s, err, answerSegment)
	if err != nil {
		return answer{}, err
	}
	var p waypost.Problems
	checkSegment(&p, s)
	if err = p.Err(""); err == nil {
		err = a.Segments.CheckCondition(ctx, r.scope, s.When)
	}
	problems, err := problemsOf(err)
	detail := answerSegment(s) // the ETag is that of a segment without its problems
	detail.Problems = (*api.StoredProblems)(&problems)
	ans.body = detail
	return ans, err
}

// matchSegment compares If-Match with a segment.
func (r *request) matchSegment(s waypost.Segment) error { return r.checkMatch(answerSegment(s)) }

func (a *server) replaceSegment(ctx context.Context, r *request) (answer, error) {
	s, err := decodeSegment(r)
	if err != nil {
		return answer{}, err
	}
	s, err = a.Segments.ReplaceSegment(ctx, r.by(), r.param("id"), s, r.matchSegment)
	return resourceWith(s, err, answerSegment)
}

func (a *server) deleteSegment(ctx context.Context, r *request) (answer, error) {
	return noContent(a.Segments.DeleteSegment(ctx, r.by(), r.param("id"), r.matchSegment))
}

func (a *server) countSegment(ctx context.Context, r *request) (answer, error) {
	var c waypost.SegmentCount
	err := a.simulations.run(ctx, r.app, simulationWait, segmentTime, func(ctx context.Context) (err error) {
		c, err = a.Segments.CountSegment(ctx, r.scope, r.param("id"), countSample)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	if c.Sample == nil {
		c.Sample = []int64{}
	}
	return ok(api.SegmentCount{Count: c.Count, At: api.At(c.At), Sample: c.Sample})
}

func (a *server) listMembers(ctx context.Context, r *request) (answer, error) {
	return answerPage(r, func(page waypost.Page) (leads []waypost.Lead, err error) {
		err = a.simulations.run(ctx, r.app, simulationWait, segmentTime, func(ctx context.Context) (err error) {
			leads, err = a.Segments.SegmentMembers(ctx, r.scope, r.param("id"), page)
			return err
		})
		return leads, err
	}, waypost.SortLeadsID.Cursor, answerLead)
}
