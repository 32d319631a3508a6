package gateway

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"waypost"
	"waypost/journey"
)

// copyBody says what a copy of a journey is called, and which stage it is for.
type copyBody struct {
	Name  *string `json:"name"`
	Stage *string `json:"stage"`
}

// copyAnswer is a copy, and what its stage lacks: webhooks and journeys that its nodes
// name. In their place stand the names that the other stage has for them.
type copyAnswer struct {
	journeyAnswer
	Missing []waypost.Detail `json:"missing"`
}

// decodeCopy reads a copy's name, "" if none is given, and its scope. A copy needs no body.
func decodeCopy(r *request) (name string, to waypost.Scope, err error) {
	to = r.scope
	if len(r.body) == 0 {
		return "", to, nil
	}
	var body copyBody
	err = checked(waypost.DecodeJSON(r.body, &body), func(p *waypost.Problems) {
		if body.Name != nil {
			name = *body.Name
			journey.CheckName(p, name)
		}
		if body.Stage == nil {
			return
		}
		stage, err := waypost.ParseStage(*body.Stage)
		if err != nil || *body.Stage == "" {
			p.Add(waypost.DetailOutOfRange, "stage", "must be release, pre-release or test")
		}
		to.Stage = stage
	})
	return name, to, err
}

// copyJourney makes a journey with the draft of another one. In the same stage it names
// the same webhooks and journeys, in another one those of the same names and, where it
// names itself, the copy.
func (a *server) copyJourney(ctx context.Context, r *request) (answer, error) {
	name, to, err := decodeCopy(r)
	if err != nil {
		return answer{}, err
	}
	j, err := a.Journeys.Journey(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	definition, err := parseDraft(j)
	if err != nil {
		return answer{}, err
	}
	id, ids := waypost.NewID(waypost.PrefixJourney, a.Now()), map[string]string{}
	missing := waypost.Problems{}
	if to != r.scope {
		ids[j.ID] = id
		if err := a.counterparts(ctx, r, to.Stage, definition, ids, &missing); err != nil {
			return answer{}, err
		}
	}
	if name == "" {
		name = copyName(j.Name, to == r.scope)
	}
	if definition, err = definition.Copy(name, ids); err != nil {
		var p waypost.Problems
		p.Add(waypost.DetailTooLong, "", "%s", err)
		return answer{}, p.Err("")
	}
	return effect(ctx, r, func(ctx context.Context) (waypost.Journey, error) {
		by := r.by()
		by.Scope = to
		return a.Journeys.CreateJourneyAs(ctx, by, id, name, definition.Canonical())
	}, func(j waypost.Journey) (answer, error) {
		ans, err := resource(http.StatusCreated, "/v1/journeys/"+j.ID, answerJourney(j))
		ans.body = copyAnswer{answerJourney(j), missing}
		return ans, err
	})
}

// copySuffix tells a copy without a name of its own from the journey beside it.
const copySuffix = " (copy)"

// copyName is the name of a copy that is given none.
func copyName(name string, beside bool) string {
	if !beside || strings.TrimSpace(name) == "" {
		return name
	}
	if runes := []rune(name); len(runes) > journey.MaxName-len(copySuffix) {
		name = string(runes[:journey.MaxName-len(copySuffix)])
	}
	return name + copySuffix
}

// counterparts adds to ids what stands in another stage for the other webhooks and journeys
// that a definition names: the id of the only one of the same name, or that name, and then it
// notes what is missing.
func (a *server) counterparts(
	ctx context.Context, r *request, stage waypost.Stage, d *journey.Definition, ids map[string]string, missing *waypost.Problems,
) error {
	webhooks, err := a.Webhooks.WebhookNamesakes(ctx, r.scope, stage, d.Webhooks())
	if err != nil {
		return err
	}
	journeys, err := a.Journeys.JourneyNamesakes(ctx, r.scope, stage, d.Journeys())
	if err != nil {
		return err
	}
	given := maps.Clone(ids)
	for i, n := range d.Nodes() {
		for _, of := range []struct {
			kind, id string
			known    map[string]waypost.Namesake
		}{{"webhook", n.Webhook, webhooks}, {"journey", n.Journey, journeys}} {
			if of.id == "" || given[of.id] != "" {
				continue
			}
			at := fmt.Sprintf("nodes[%d].%s", i, of.kind)
			switch found, known := of.known[of.id]; {
			case !known:
				missing.Add(waypost.DetailOutOfRange, at, "there is no %s %q to copy", of.kind, clip(of.id))
			case found.N == 1:
				ids[of.id] = found.ID
			case found.N == 0:
				ids[of.id] = found.Name
				missing.Add(waypost.DetailOutOfRange, at, "the stage %s has no %s of the name %q", stage, of.kind, clip(found.Name))
			default:
				ids[of.id] = found.Name
				missing.Add(waypost.DetailOutOfRange, at, "the stage %s has %d %ss of the name %q; write the id of one", stage, found.N, of.kind, clip(found.Name))
			}
		}
	}
	for _, s := range d.EnteredSegments() {
		missing.Add(waypost.DetailOutOfRange, s.Path, "segment %s is not of the stage %s; write the id of another one", clip(s.ID), stage)
	}
	// Conditions keep the ids in their text, which belong to the other stage: all are reported.
	return a.simulations.run(ctx, r.app, simulationWait, simulationTime, func(context.Context) error {
		if d.AllNeeds().None() {
			return nil
		}
		for _, needs := range d.NeedsByCondition() {
			for _, id := range slices.Concat(needs.Segments, needs.Journeys()) {
				missing.Add(waypost.DetailOutOfRange, needs.Path, "names %s, which is not of the stage %s; write the id of another one", id, stage)
			}
		}
		return nil
	})
}
