package gateway

import (
	"context"
	"maps"
	"net/http"
	"slices"
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

type migrateBody struct {
	From    *int              `json:"from"`
	To      *int              `json:"to"`
	NodeMap map[string]string `json:"nodeMap"`
	DryRun  *bool             `json:"dryRun"`
}

// migrateAnswer counts the enrollments that wait on the nodes of a migration, and those
// of them that were ordered to move.
type migrateAnswer struct {
	Matched int `json:"matched"`
	Moved   int `json:"moved"`
}

const nodeMapTarget = "nodeMap"

func decodeMigrate(r *request) (m waypost.Migration, dryRun bool, err error) {
	var body migrateBody
	problems := waypost.DecodeJSON(r.body, &body)
	if noDocument(problems) {
		return m, false, problems.Err("")
	}
	var p waypost.Problems
	for _, n := range []struct {
		name string
		is   *int
		into *int
	}{{"from", body.From, &m.From}, {"to", body.To, &m.To}} {
		switch {
		case n.is == nil:
			p.Add(waypost.DetailNullValue, n.name, "is missing; it is the number of a version")
		case *n.is < 1:
			p.Add(waypost.DetailOutOfRange, n.name, "must be 1 or more")
		default:
			*n.into = *n.is
		}
	}
	if m.From > 0 && m.From == m.To {
		p.Add(waypost.DetailOutOfRange, "to", "must be another version than from")
	}
	m.Nodes = body.NodeMap
	if len(m.Nodes) == 0 {
		p.Add(waypost.DetailNullValue, nodeMapTarget, `must name the nodes whose enrollments are to move, such as {"wait":"wait"}`)
	}
	dryRun = body.DryRun != nil && *body.DryRun
	return m, dryRun, append(problems, withoutTargets(p, problems)...).Err("")
}

// checkNodes tells of what a migration names that its versions do not have, or that
// nobody waits on.
func (a *api) checkNodes(ctx context.Context, r *request, m waypost.Migration) error {
	var versions [2]*journey.Definition
	for i, n := range []struct {
		name    string
		version int
	}{{"from", m.From}, {"to", m.To}} {
		var err error
		versions[i], err = a.definition(ctx, r.scope, m.JourneyID, n.version)
		if waypost.CodeOf(err) == waypost.CodeNotFound {
			err = waypost.Errorf(waypost.CodeNotFound, n.name, "the journey has no version %d", n.version)
		}
		if err != nil {
			return err
		}
	}
	var p waypost.Problems
	for _, node := range slices.Sorted(maps.Keys(m.Nodes)) {
		target := nodeMapTarget + "." + clip(node)
		switch n, ok := versions[0].Node(node); {
		case !ok:
			p.Add(waypost.DetailOutOfRange, target, "version %d has no such node", m.From)
		case n.Type != journey.Delay && n.Type != journey.WaitUntil && n.Type != journey.WaitForEvent:
			p.Add(waypost.DetailOutOfRange, target, "is of type %s, where nobody waits: it must be a delay, a waitUntil or a waitForEvent", n.Type)
		}
		if _, ok := versions[1].Node(m.Nodes[node]); !ok {
			p.Add(waypost.DetailOutOfRange, target, "version %d has no node %q", m.To, clip(m.Nodes[node]))
		}
	}
	return p.Err("")
}

// migrateJourney orders enrollments that wait to go on in another version; the pump
// tells their workflows.
func (a *api) migrateJourney(ctx context.Context, r *request) (answer, error) {
	m, dryRun, err := decodeMigrate(r)
	if err != nil {
		return answer{}, err
	}
	j, err := a.Journeys.Journey(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	m.JourneyID = j.ID
	if err := a.checkNodes(ctx, r, m); err != nil {
		return answer{}, err
	}
	tell := func(done waypost.Migrated) (answer, error) { return ok(migrateAnswer{done.Matched, done.Moved}) }
	if dryRun {
		counted, err := a.Journeys.MigrateEnrollments(ctx, r.scope, m, true)
		if err != nil {
			return answer{}, err
		}
		return tell(counted)
	}
	ans, err := effect(ctx, r, func(ctx context.Context) (waypost.Migrated, error) {
		return a.Journeys.MigrateEnrollments(ctx, r.scope, m, false)
	}, tell)
	if err == nil {
		a.Waker.Wake()
	}
	return ans, err
}
