package gateway

import (
	"context"
	"errors"
	"runtime"
	"time"

	"waypost"
	"waypost/journey"
)

// Bounds of dry runs and forecasts; variables for tests on a busy machine.
var (
	simulationWait = 3 * time.Second  // for others to end
	simulationTime = 10 * time.Second // of one
)

// simulations are the shares of dry runs, forecasts, counts of leads and checks of drafts in the process.
type simulations struct{ *shares }

// newSimulations makes a share for each processor, since all of them compute, and one that an organisation
// with work under way does not get.
func newSimulations() simulations {
	most := runtime.GOMAXPROCS(0) + 1
	return simulations{newShares(most, most)}
}

// run runs fn for at most a time, once an application gets a share.
func (s simulations) run(ctx context.Context, app waypost.Application, wait, most time.Duration, fn func(context.Context) error) error {
	if got, err := s.wait(ctx, app, wait); err != nil {
		return err
	} else if !got {
		return waypost.Errorf(waypost.CodeServiceUnavailable, "", "other dry runs, forecasts, counts and checks of drafts are running already; try again in a moment")
	}
	defer s.release(app)
	within, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := fn(within)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return waypost.Errorf(waypost.CodeServiceUnavailable, "", "it takes longer than %s; try again in a moment, or with less", most)
	}
	return err
}

// choiceBody says which definition is simulated: a version, the draft, or, without
// either, the newest version, and the draft of a journey that has none.
type choiceBody struct {
	Version *int  `json:"version"`
	Draft   *bool `json:"draft"`
}

func (b choiceBody) check(p *waypost.Problems) {
	switch {
	case b.Version == nil:
	case *b.Version < 1:
		p.Add(waypost.DetailOutOfRange, "version", "must be 1 or more")
	case b.wantsDraft():
		p.Add(waypost.DetailInvalidFormat, "draft", "must not be true where version names one")
	}
}

func (b choiceBody) wantsDraft() bool { return b.Draft != nil && *b.Draft }

// choice is what is simulated.
type choice struct {
	*journey.Definition
	journeyID string
	version   int  // of a draft, the one that publishing it would give
	draft     bool // whether it is the draft
}

// choose finds the definition. A draft is one that could be published.
func (a *server) choose(ctx context.Context, r *request, b choiceBody) (choice, error) {
	j, err := a.Journeys.Journey(ctx, r.scope, r.param("id"))
	if err != nil {
		return choice{}, err
	}
	c := choice{journeyID: j.ID, version: j.PublishedVersion}
	if b.Version != nil {
		c.version = *b.Version
	}
	c.draft = b.wantsDraft() || c.version == 0
	if !c.draft {
		c.Definition, err = a.definition(ctx, r.scope, j.ID, c.version)
		return c, err
	}
	if c.Definition, err = parseDraft(j); err != nil {
		return choice{}, err
	}
	if err := a.checkDefinition(ctx, r, c.Definition); err != nil {
		return choice{}, err
	}
	if c.version > 0 {
		newest, err := a.definition(ctx, r.scope, j.ID, c.version)
		if err != nil {
			return choice{}, err
		}
		if newest.Hash() == c.Hash() {
			return c, nil
		}
	}
	c.version++
	return c, nil
}

// recordsOf reads what the conditions ask of the records of leads, and the segments that they ask for.
// Simulated events come to the real ones, so all of these are read.
func (a *server) recordsOf(
	ctx context.Context, r *request, c choice, leads []int64, now time.Time,
) (records map[int64]*waypost.LeadRecord, rules map[string]waypost.SegmentRule, err error) {
	needs := c.AllNeeds()
	if needs.None() || len(leads) == 0 {
		return nil, nil, nil
	}
	if len(needs.Segments) > 0 {
		if rules, err = a.Leads.SegmentRules(ctx, r.scope, needs.Segments); err != nil {
			return nil, nil, err
		}
	}
	for _, rule := range rules {
		needs.Add(rule.Needs(true))
	}
	for i := range needs.Events {
		if !a.EventAges.Far(needs.Events[i].Window) {
			needs.Events[i].Use = waypost.EventAll
		}
	}
	records, err = a.Leads.LeadRecords(ctx, r.scope, leads, needs, now)
	return records, rules, err
}

// placeholder stands where ids will be that are minted when a journey really runs.
const placeholder = "00000000000000000000000000"

// facts are those of an enrollment that is not there.
func (c choice) facts(lead waypost.Lead) journey.Facts {
	return journey.Facts{
		Lead: lead, JourneyID: c.journeyID, JourneyName: c.Name(), Version: c.version, EnrollmentID: waypost.PrefixEnrollment + placeholder,
	}
}
