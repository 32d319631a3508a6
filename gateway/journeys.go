package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"waypost"
	"waypost/journey"
)

// Journeys stores journeys with their drafts and their published versions.
type Journeys interface {
	CreateJourney(ctx context.Context, by waypost.Caller, name string, draft []byte) (waypost.Journey, error)
	CreateJourneyAs(ctx context.Context, by waypost.Caller, id, name string, draft []byte) (waypost.Journey, error)
	Journey(ctx context.Context, sc waypost.Scope, id string) (waypost.Journey, error)
	// JourneyDropped returns nil if nothing was dropped of the journey.
	JourneyDropped(ctx context.Context, id string) (*waypost.DroppedCounts, error)
	ListJourneys(ctx context.Context, sc waypost.Scope, f waypost.JourneyFilter, page waypost.Page) ([]waypost.Journey, error)
	// check sees the journey as it is, where nobody can change it, and may refuse.
	UpdateJourneyDraft(ctx context.Context, by waypost.Caller, id, name string, draft []byte, check func(waypost.Journey) error) (waypost.Journey, error)
	DeleteJourney(ctx context.Context, by waypost.Caller, id string, check func(waypost.Journey) error) error
	PublishJourney(ctx context.Context, by waypost.Caller, id string, p waypost.Publication) (waypost.JourneyVersion, error)
	JourneyVersion(ctx context.Context, sc waypost.Scope, id string, version int) (waypost.JourneyVersion, error)
	// ListVersions returns them without their definitions.
	ListVersions(ctx context.Context, sc waypost.Scope, id string, page waypost.Page) ([]waypost.JourneyVersion, error)
	ArchiveJourney(ctx context.Context, by waypost.Caller, id string) (waypost.Journey, error)
	// MigrateEnrollments only counts if dryRun is set.
	MigrateEnrollments(ctx context.Context, by waypost.Caller, m waypost.Migration, dryRun bool) (waypost.Migrated, error)
	// MissingJourneys returns those of ids that the scope has no journey for.
	MissingJourneys(ctx context.Context, sc waypost.Scope, ids []string) ([]string, error)
	// Statistics takes a journey that was found in the scope.
	Statistics(ctx context.Context, q waypost.StatisticsQuery) (waypost.Statistics, error)
	// Winners returns the splits that compare their arms and that somebody has come to.
	Winners(ctx context.Context, journeyID string) ([]waypost.Winner, error)
	ReverseWinner(ctx context.Context, by waypost.Caller, journeyID string, version int, node string) (waypost.Winner, error)
	// JourneyNamesakes returns what another stage has of the names of journeys, by their ids.
	JourneyNamesakes(ctx context.Context, sc waypost.Scope, stage waypost.Stage, ids []string) (map[string]waypost.Namesake, error)
}

// journeyAnswer is a journey as it is answered, without its draft in answers to controls.
type journeyAnswer struct {
	ID               string                `json:"id"`
	Name             string                `json:"name"`
	Draft            json.RawMessage       `json:"draft,omitempty"`
	PublishedVersion *int                  `json:"publishedVersion"`
	Status           waypost.JourneyStatus `json:"status"`
	CreatedAt        string                `json:"createdAt"`
	UpdatedAt        string                `json:"updatedAt"`
}

func answerJourney(j waypost.Journey) journeyAnswer {
	return journeyAnswer{j.ID, j.Name, j.Draft, orNull(j.PublishedVersion), j.Status, stamp(j.CreatedAt), stamp(j.UpdatedAt)}
}

// journeyDetail is a journey with counts of what retention has dropped of it, with the splits
// that compare their arms, and with what it would not be published for now.
type journeyDetail struct {
	journeyAnswer
	Dropped  *waypost.DroppedCounts `json:"dropped,omitempty"`
	Winners  []winnerAnswer         `json:"winners,omitempty"`
	Problems waypost.Problems       `json:"problems"` // of the published version
}

// versionAnswer is a published version, in a list without its definition, which can be
// large.
type versionAnswer struct {
	JourneyID   string          `json:"journeyId"`
	Version     int             `json:"version"`
	Name        string          `json:"name"`
	Definition  json.RawMessage `json:"definition,omitempty"`
	PublishedAt string          `json:"publishedAt"`
}

func answerVersion(v waypost.JourneyVersion) versionAnswer {
	return versionAnswer{v.JourneyID, v.Version, v.Name, v.Definition, stamp(v.PublishedAt)}
}

// versionDetail is a version with what it would not be published for now.
type versionDetail struct {
	versionAnswer
	Problems waypost.Problems `json:"problems"`
}

// storedWait is how long the answer with a journey waits for a slot in which its conditions are
// compiled; a variable for tests on a busy machine.
var storedWait = 100 * time.Millisecond

// versionProblems is what a published version would be refused for now: checks that came after it
// was published, and shorter retention, may have added some. nil if there was no share to check it by.
func (a *server) versionProblems(ctx context.Context, r *request, journeyID string, version int) (waypost.Problems, error) {
	definition, err := a.definition(ctx, r.scope, journeyID, version)
	if no := (*unreadable)(nil); errors.As(err, &no) {
		return no.problems, nil
	}
	if err != nil {
		return nil, err
	}
	return problemsOf(a.checkWithin(ctx, r, definition, storedWait))
}

// problemsOf is what a check of something that is stored has refused; nil if it was not made for
// lack of time.
func problemsOf(refused error) (waypost.Problems, error) {
	problems := waypost.Problems{} // [] in the answer
	switch waypost.CodeOf(refused) {
	case "":
	case waypost.CodeBadRequest:
		problems.AddAll(refused)
	case waypost.CodeServiceUnavailable:
		return nil, nil
	default:
		return nil, refused
	}
	return problems, nil
}

// decodeDraft checks a draft's shape and no more; publishing checks the rest.
func decodeDraft(r *request) (name string, draft []byte, err error) {
	definition, problems := journey.Parse(r.body)
	if err := problems.Err(""); err != nil {
		return "", nil, err
	}
	var b bytes.Buffer
	if err := json.Compact(&b, r.body); err != nil {
		return "", nil, fmt.Errorf("compact draft: %w", err)
	}
	return definition.Name(), b.Bytes(), nil
}

func (a *server) createJourney(ctx context.Context, r *request) (answer, error) {
	name, draft, err := decodeDraft(r)
	if err != nil {
		return answer{}, err
	}
	return effect(ctx, r, func(ctx context.Context) (waypost.Journey, error) {
		return a.Journeys.CreateJourney(ctx, r.by(), name, draft)
	}, func(j waypost.Journey) (answer, error) {
		return resource(http.StatusCreated, "/v1/journeys/"+j.ID, answerJourney(j))
	})
}

// journeyStatuses and launchStatuses are what the filters status can be.
var (
	journeyStatuses = []waypost.JourneyStatus{waypost.JourneyDraft, waypost.JourneyActive, waypost.JourneyPaused, waypost.JourneyArchived}
	launchStatuses  = []waypost.LaunchStatus{
		waypost.LaunchPending, waypost.LaunchScheduled, waypost.LaunchRunning, waypost.LaunchPaused, waypost.LaunchCompleted, waypost.LaunchCanceled,
	}
)

func (a *server) listJourneys(ctx context.Context, r *request) (answer, error) {
	filter := waypost.JourneyFilter{
		Name: r.short("name", journey.MaxName), Status: oneOf(r, "status", journeyStatuses), Tag: r.short("tag", waypost.MaxTag),
		WebhookID: r.params["webhookId"],
	}
	return answerPage(r, func(page waypost.Page) ([]waypost.Journey, error) {
		return a.Journeys.ListJourneys(ctx, r.scope, filter, page)
	}, func(j waypost.Journey) string { return j.ID }, answerJourney)
}

// showJourney adds to the journey what is wrong now with its published version, the winners of its
// splits, and counts of what retention has dropped.
func (a *server) showJourney(ctx context.Context, r *request) (answer, error) {
	j, err := a.Journeys.Journey(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	dropped, err := a.Journeys.JourneyDropped(ctx, j.ID)
	if err != nil {
		return answer{}, err
	}
	detail := journeyDetail{journeyAnswer: answerJourney(j), Dropped: dropped, Problems: waypost.Problems{}}
	var winners []waypost.Winner
	if j.PublishedVersion > 0 {
		if winners, err = a.Journeys.Winners(ctx, j.ID); err != nil {
			return answer{}, err
		}
		if detail.Problems, err = a.versionProblems(ctx, r, j.ID, j.PublishedVersion); err != nil {
			return answer{}, err
		}
	}
	for _, w := range winners {
		definition, err := a.definition(ctx, r.scope, j.ID, w.Version)
		if err != nil {
			return answer{}, err
		}
		detail.Winners = append(detail.Winners, answerWinner(definition, w))
	}
	ans, err := resource(http.StatusOK, "", detail.journeyAnswer)
	// The ETag stays the journey's: a sweep does not make an If-Match fail.
	ans.body = detail
	return ans, err
}

// matchJourney compares If-Match with a journey.
func (r *request) matchJourney(j waypost.Journey) error { return r.checkMatch(answerJourney(j)) }

func (a *server) replaceJourney(ctx context.Context, r *request) (answer, error) {
	name, draft, err := decodeDraft(r)
	if err != nil {
		return answer{}, err
	}
	j, err := a.Journeys.UpdateJourneyDraft(ctx, r.by(), r.param("id"), name, draft, r.matchJourney)
	return resourceWith(j, err, answerJourney)
}

func (a *server) deleteJourney(ctx context.Context, r *request) (answer, error) {
	return noContent(a.Journeys.DeleteJourney(ctx, r.by(), r.param("id"), r.matchJourney))
}

// publishJourney makes the draft an immutable version, or answers with the newest
// one if the draft says the same. An archived journey is in use again.
func (a *server) publishJourney(ctx context.Context, r *request) (answer, error) {
	id := r.param("id")
	j, err := a.Journeys.Journey(ctx, r.scope, id)
	if err != nil {
		return answer{}, err
	}
	definition, err := parseDraft(j)
	if err != nil {
		return answer{}, err
	}
	if err := a.checkDefinition(ctx, r, definition); err != nil {
		return answer{}, err
	}
	return effect(ctx, r, func(ctx context.Context) (waypost.JourneyVersion, error) {
		return a.Journeys.PublishJourney(ctx, r.by(), id, waypost.Publication{
			Name: definition.Name(), Hash: definition.Hash(), Definition: definition.Canonical(), Webhooks: definition.Webhooks(), Entry: definition.EntryRules(),
		})
	}, func(v waypost.JourneyVersion) (answer, error) {
		status := http.StatusOK
		if v.Created {
			status = http.StatusCreated
		}
		return resource(status, "/v1/journeys/"+id+"/versions/"+strconv.Itoa(v.Version), answerVersion(v))
	})
}

// checkDefinition reports everything that keeps a definition from being published.
// Compiling its conditions can take seconds, so it needs a share as a dry run does.
func (a *server) checkDefinition(ctx context.Context, r *request, d *journey.Definition) error {
	return a.checkWithin(ctx, r, d, simulationWait)
}

// checkWithin is checkDefinition that waits so long for a share.
func (a *server) checkWithin(ctx context.Context, r *request, d *journey.Definition, wait time.Duration) error {
	webhooks, err := a.Webhooks.MissingWebhooks(ctx, r.scope, d.Webhooks())
	if err != nil {
		return err
	}
	journeys, err := a.Journeys.MissingJourneys(ctx, r.scope, d.Journeys())
	if err != nil {
		return err
	}
	without := func(missing []string) func(string) bool {
		return func(id string) bool { return !slices.Contains(missing, id) }
	}
	return a.simulations.run(ctx, r.app, wait, simulationTime, func(ctx context.Context) error {
		p := d.Check(without(webhooks), without(journeys))
		if err := a.checkRecords(ctx, r.scope, d, &p); err != nil {
			return err
		}
		return p.Err("")
	})
}

// checkRecords notes the segments and journeys that conditions name, and the segments that entry
// and exitOn name, and the scope lacks.
func (a *server) checkRecords(ctx context.Context, sc waypost.Scope, d *journey.Definition, p *waypost.Problems) error {
	needs, entered := d.AllNeeds(), d.EnteredSegments()
	if needs.None() && len(entered) == 0 {
		return nil
	}
	ids := slices.Clone(needs.Segments)
	for _, s := range entered {
		ids = append(ids, s.ID)
	}
	segments, err := a.Segments.MissingSegments(ctx, sc, ids)
	if err != nil {
		return err
	}
	for _, s := range entered {
		if waypost.IsID(waypost.PrefixSegment, s.ID) && slices.Contains(segments, s.ID) {
			p.Add(waypost.DetailOutOfRange, s.Path, "there is no segment %s", s.ID)
		}
	}
	journeys, err := a.Journeys.MissingJourneys(ctx, sc, needs.Journeys())
	if err != nil {
		return err
	}
	for _, needs := range d.NeedsByCondition() {
		for _, fault := range a.EventAges.Faults(needs.RecordNeeds) {
			p.Add(waypost.DetailOutOfRange, needs.Path, "%s", fault)
		}
		for _, id := range needs.Segments {
			if slices.Contains(segments, id) {
				p.Add(waypost.DetailOutOfRange, needs.Path, "names segment %s, which there is not", id)
			}
		}
		for _, id := range needs.Journeys() {
			if slices.Contains(journeys, id) {
				p.Add(waypost.DetailOutOfRange, needs.Path, "names journey %s, which there is not", id)
			}
		}
	}
	return nil
}

func (a *server) showVersion(ctx context.Context, r *request) (answer, error) {
	n, err := versionOf(r.param("version"))
	if err != nil {
		return answer{}, err
	}
	v, err := a.Journeys.JourneyVersion(ctx, r.scope, r.param("id"), n)
	ans, err := resourceWith(v, err, answerVersion)
	if err != nil {
		return answer{}, err
	}
	problems, err := a.versionProblems(ctx, r, v.JourneyID, v.Version)
	ans.body = versionDetail{answerVersion(v), problems} // the ETag stays the version's
	return ans, err
}
