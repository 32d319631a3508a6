package gateway

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"waypost"
	"waypost/journey"
	"waypost/journey/nodes"
)

func (a *server) listVersions(ctx context.Context, r *request) (answer, error) {
	return answerPage(r, func(page waypost.Page) ([]waypost.JourneyVersion, error) {
		return a.Journeys.ListVersions(ctx, r.scope, r.param("id"), page)
	}, func(v waypost.JourneyVersion) string { return strconv.Itoa(v.Version) }, answerVersion)
}

// versionOf reads a version's number in a path; NotFound if it is no number.
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

func (a *server) diffVersions(ctx context.Context, r *request) (answer, error) {
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
	ans.Text = described(ans.Changes, journey.Change.String)
	return ok(ans)
}

// versionOrDraft returns the definition that a path names, and how it is called.
func (a *server) versionOrDraft(ctx context.Context, r *request, j waypost.Journey, raw string, called *any) (*journey.Definition, error) {
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

func (a *server) archiveJourney(ctx context.Context, r *request) (answer, error) {
	return control(ctx, r, a.Journeys.ArchiveJourney, answerJourneyState)
}

type migrateBody struct {
	From    *int              `json:"from"`
	To      *int              `json:"to"`
	NodeMap map[string]string `json:"nodeMap"`
	DryRun  *bool             `json:"dryRun"`
}

const nodeMapTarget = "nodeMap"

func decodeMigrate(r *request) (m waypost.Migration, dryRun bool, err error) {
	var body migrateBody
	err = checked(waypost.DecodeJSON(r.body, &body), func(p *waypost.Problems) {
		m = waypost.Migration{From: readVersion(p, "from", body.From), To: readVersion(p, "to", body.To), Nodes: body.NodeMap}
		if m.From > 0 && m.From == m.To {
			p.Add(waypost.DetailOutOfRange, "to", "must be another version than from")
		}
		if len(m.Nodes) == 0 {
			p.Add(waypost.DetailNullValue, nodeMapTarget, `must name the nodes whose enrollments are to move, such as {"wait":"wait"}`)
		}
	})
	return m, body.DryRun != nil && *body.DryRun, err
}

// readVersion checks the number of a version; 0 stands for a faulty one.
func readVersion(p *waypost.Problems, target string, n *int) int {
	switch {
	case n == nil:
		p.Add(waypost.DetailNullValue, target, "is missing; it is the number of a version")
	case *n < 1:
		p.Add(waypost.DetailOutOfRange, target, "must be 1 or more")
	default:
		return *n
	}
	return 0
}

// checkNodes reports nodes of a migration that its versions do not have, or where nobody
// waits.
func (a *server) checkNodes(ctx context.Context, r *request, m waypost.Migration) error {
	find := func(target string, version int) (*journey.Definition, error) {
		definition, err := a.definition(ctx, r.scope, m.JourneyID, version)
		if waypost.CodeOf(err) == waypost.CodeNotFound {
			err = waypost.Errorf(waypost.CodeNotFound, target, "the journey has no version %d", version)
		}
		return definition, err
	}
	from, err := find("from", m.From)
	if err != nil {
		return err
	}
	to, err := find("to", m.To)
	if err != nil {
		return err
	}
	var p waypost.Problems
	for _, node := range slices.Sorted(maps.Keys(m.Nodes)) {
		target := nodeMapTarget + "." + clip(node)
		switch n, ok := from.Node(node); {
		case !ok:
			p.Add(waypost.DetailOutOfRange, target, "version %d has no such node", m.From)
		case !n.Holding():
			waiting := nodes.Names(func(t *nodes.Type) bool { return t.Waits != "" })
			last := len(waiting) - 1
			p.Add(waypost.DetailOutOfRange, target, "is of type %s, where nobody waits: it must be a %s or a %s",
				n.Type, strings.Join(waiting[:last], ", a "), waiting[last])
		}
		if _, ok := to.Node(m.Nodes[node]); !ok {
			p.Add(waypost.DetailOutOfRange, target, "version %d has no node %q", m.To, clip(m.Nodes[node]))
		}
	}
	return p.Err("")
}

// migrateJourney orders enrollments that wait to go on in another version; the pump
// tells their workflows.
func (a *server) migrateJourney(ctx context.Context, r *request) (answer, error) {
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
	ans, err := effect(ctx, r, func(ctx context.Context) (waypost.Migrated, error) {
		return a.Journeys.MigrateEnrollments(ctx, r.by(), m, dryRun)
	}, func(done waypost.Migrated) (answer, error) { return ok(done) })
	if err == nil && !dryRun {
		a.Waker.Wake()
	}
	return ans, err
}
