package console

import (
	"context"
	"net/http"
	"net/url"

	"waypost"
	"waypost/api"
)

// segment is a condition with a name, which leads meet or not.
type segment struct{ api.Segment }

// shortWhen is how much of a condition the list of segments shows, in bytes.
const shortWhen = 160

// Short is the beginning of the condition.
func (s segment) Short() string { return waypost.Clip(s.When, shortWhen) }

const segmentsPath = "/v1/segments"

func segmentPath(id string) string { return segmentsPath + "/" + url.PathEscape(id) }

func (g gateway) listSegments(ctx context.Context, query url.Values) (api.List[segment], error) {
	return get[api.List[segment]](ctx, g, waypost.GrantSegmentsRead, segmentsPath, query)
}

func (g gateway) segment(ctx context.Context, id string) (s segment, etag string, err error) {
	return tagged[segment](ctx, g, waypost.GrantSegmentsRead, segmentPath(id))
}

func (g gateway) countSegment(ctx context.Context, id string) (api.SegmentCount, error) {
	return get[api.SegmentCount](ctx, g, waypost.GrantSegmentsRead, segmentPath(id)+"/count", nil)
}

// countWhen counts the leads that meet a condition that no segment has to have.
func (g gateway) countWhen(ctx context.Context, when string) (c api.SegmentCount, err error) {
	return c, g.do(ctx, waypost.GrantJourneysRun, http.MethodPost, "/v1/leads/count", map[string]any{"when": when}, &c)
}

func (g gateway) listMembers(ctx context.Context, id string, query url.Values) (api.List[waypost.Lead], error) {
	return get[api.List[waypost.Lead]](ctx, g, waypost.GrantLeadsExport, segmentPath(id)+"/members", query)
}

func (g gateway) createSegment(ctx context.Context, body any) (made segment, err error) {
	return made, g.do(ctx, waypost.GrantSegmentsWrite, http.MethodPost, segmentsPath, body, &made)
}

func (g gateway) replaceSegment(ctx context.Context, id string, body any) error {
	return g.do(ctx, waypost.GrantSegmentsWrite, http.MethodPut, segmentPath(id), body, nil)
}

func (g gateway) deleteSegment(ctx context.Context, id string) error {
	return g.do(ctx, waypost.GrantSegmentsWrite, http.MethodDelete, segmentPath(id), nil, nil)
}
