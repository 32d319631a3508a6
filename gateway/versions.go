package gateway

import (
	"context"
	"net/http"
	"strconv"

	"waypost"
	"waypost/journey"
)

// listedVersion is a published version in a list: without its definition, which can
// be large.
type listedVersion struct {
	JourneyID   string `json:"journeyId"`
	Version     int    `json:"version"`
	Name        string `json:"name"`
	PublishedAt string `json:"publishedAt"`
}

func answerListedVersion(v waypost.JourneyVersion) listedVersion {
	return listedVersion{v.JourneyID, v.Version, v.Name, stamp(v.PublishedAt)}
}

func (a *api) listVersions(ctx context.Context, r *request) (answer, error) {
	var p waypost.Problems
	page := r.page(&p)
	if err := p.Err("query"); err != nil {
		return answer{}, err
	}
	rows, err := a.Journeys.ListVersions(ctx, r.scope, r.param("id"), oneMore(page))
	if err != nil {
		return answer{}, err
	}
	return ok(listOf(r, page.Limit, rows, func(v waypost.JourneyVersion) string { return strconv.Itoa(v.Version) }, answerListedVersion))
}

// versionOf reads a version's number in a path. What is none names no version.
func versionOf(raw string) (int, error) {
	n, err := strconv.Atoi(raw)
	if err != nil || strconv.Itoa(n) != raw {
		return 0, waypost.Errorf(waypost.CodeNotFound, "version", "there is no version of this number")
	}
	return n, nil
}

// draftVersion stands for the draft where a path names a version.
const draftVersion = "draft"

// diffAnswer is what changes from one version to another; From and To are their
// numbers, or draftVersion.
type diffAnswer struct {
	From    any              `json:"from"`
	To      any              `json:"to"`
	Changes []journey.Change `json:"changes"`
	Text    []string         `json:"text"` // the same for people, a line each
}

func (a *api) diffVersions(ctx context.Context, r *request) (answer, error) {
	j, err := a.Journeys.Journey(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	var ans diffAnswer
	before, err := a.versionOrDraft(ctx, r, j, r.param("a"), &ans.From)
	if err != nil {
		return answer{}, err
	}
	after, err := a.versionOrDraft(ctx, r, j, r.param("b"), &ans.To)
	if err != nil {
		return answer{}, err
	}
	ans.Changes = journey.Diff(before, after)
	ans.Text = make([]string, len(ans.Changes))
	for i, c := range ans.Changes {
		ans.Text[i] = c.String()
	}
	return ok(ans)
}

// versionOrDraft returns the definition that a path names, and how it is called.
func (a *api) versionOrDraft(ctx context.Context, r *request, j waypost.Journey, raw string, called *any) (*journey.Definition, error) {
	if raw == draftVersion {
		*called = draftVersion
		return parseDraft(j)
	}
	n, err := versionOf(raw)
	if err != nil {
		return nil, err
	}
	*called = n
	return a.definition(ctx, r.scope, j.ID, n)
}

// parseDraft reads a stored draft, whose shape was checked when it came.
func parseDraft(j waypost.Journey) (*journey.Definition, error) {
	definition, problems := journey.Parse(j.Draft)
	return definition, problems.Err("")
}

func (a *api) archiveJourney(ctx context.Context, r *request) (answer, error) {
	return effect(ctx, r, func(ctx context.Context) (waypost.Journey, error) {
		return a.Journeys.ArchiveJourney(ctx, r.scope, r.param("id"))
	}, func(j waypost.Journey) (answer, error) {
		return answer{status: http.StatusOK, body: stateOf(j)}, nil
	})
}
