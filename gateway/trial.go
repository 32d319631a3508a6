package gateway

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"waypost"
	"waypost/api"
	"waypost/journey"
)

// Sender sends one message to a webhook. Every fault is an outcome.
type Sender interface {
	Send(ctx context.Context, w waypost.Webhook, messageID string, body []byte) waypost.Outcome
}

// A test message waits for its receiver as long as the webhook's timeoutMs says, past
// the limits that hold for what workers send.
const (
	maxTrials       = 200
	maxTrialsPerApp = 10
)

// trial is what a test message is made of: a touchpoint, rendered for somebody.
type trial struct {
	definition *journey.Definition
	node       string
	facts      journey.Facts
	info       waypost.JourneyInfo
}

// testWebhook sends one message, with the webhook's params rendered for a sample lead,
// also to a disabled webhook, so that it can be tested before it is enabled.
func (a *server) testWebhook(ctx context.Context, r *request) (answer, error) {
	w, err := a.Webhooks.Webhook(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	definition, err := trialDefinition(w.ID)
	if err != nil {
		return answer{}, err
	}
	now := a.Now()
	return a.sendTrial(ctx, r, w, "webhook.test", w.ID, nil, trial{
		definition, trialNode, journey.Facts{
			Lead:      waypost.Lead{LeadFields: waypost.LeadFields{Name: "Test"}, CreatedAt: now, UpdatedAt: now},
			JourneyID: trialNode, JourneyName: trialJourney, Version: 1, EnrollmentID: trialNode, Now: now,
		},
		waypost.JourneyInfo{JourneyID: trialNode, JourneyName: trialJourney, ActionDefID: trialNode, ActionID: trialNode},
	})
}

// testBody says which message of a journey is tested, and for whom.
type testBody struct {
	choiceBody
	subjectBody
	NodeID string `json:"nodeId"`
}

const nodeIDTarget = "nodeId"

// testJourney sends the message of one touchpoint, rendered for a lead that is not enrolled:
// nothing of it is stored but the entry in the audit log.
func (a *server) testJourney(ctx context.Context, r *request) (answer, error) {
	var body testBody
	var impossible *waypost.Error
	err := checked(waypost.DecodeJSON(r.body, &body), func(p *waypost.Problems) {
		body.check(p)
		impossible = a.checkSubject(p, body.subjectBody)
		if body.NodeID == "" && !isNamed(*p, nodeIDTarget) {
			p.Add(waypost.DetailNullValue, nodeIDTarget, "is missing; it is the id of a touchpoint")
		}
	})
	if err == nil && impossible != nil {
		err = impossible
	}
	if err != nil {
		return answer{}, err
	}
	c, err := a.choose(ctx, r, body.choiceBody)
	if err != nil {
		return answer{}, err
	}
	node, found := c.Node(body.NodeID)
	if !found || node.Type != journey.Touchpoint {
		var p waypost.Problems
		p.Add(waypost.DetailOutOfRange, nodeIDTarget, "there is no touchpoint of this id")
		return answer{}, p.Err("")
	}
	now := a.Now()
	lead := waypost.Lead{CreatedAt: now, UpdatedAt: now}
	if body.LeadsID == nil {
		lead.LeadFields = *body.Lead
	} else if lead, err = a.Leads.Lead(ctx, r.scope, *body.LeadsID); err != nil {
		return answer{}, err
	}
	w, err := a.Webhooks.Webhook(ctx, r.scope, node.Webhook)
	if err != nil {
		return answer{}, err
	}
	if body.LeadsID != nil {
		unwanted, err := a.unwanted(ctx, map[string]*waypost.Webhook{w.ID: &w}, []waypost.Lead{lead})
		if err != nil {
			return answer{}, err
		}
		if reason := unwanted(w.ID, lead); reason != "" {
			return answer{}, waypost.Errorf(waypost.CodeConflict, "leadsId", "lead %d wants no message of this webhook (%s); choose another lead, or invent one", lead.LeadsID, reason)
		}
	}
	t := trial{c.Definition, node.ID, c.facts(lead), waypost.JourneyInfo{
		JourneyID: trialNode, JourneyName: c.Name(), ActionDefID: fmt.Sprintf("%s/%d/%s", c.journeyID, c.version, node.ID), ActionID: trialNode,
	}}
	t.facts.EnrollmentID, t.facts.EntryKey, t.facts.Params, t.facts.Now = trialNode, body.EntryKey, body.Params, now
	return a.sendTrial(ctx, r, w, "journey.test", c.journeyID, map[string]any{"nodeId": node.ID, "version": c.version, "draft": c.draft, "leadsId": orNull(lead.LeadsID)}, t)
}

// sendTrial sends a test message, past the limits of its webhook, and answers with what it came
// to. The audit log has it before it goes out.
func (a *server) sendTrial(ctx context.Context, r *request, w waypost.Webhook, action, target string, details any, t trial) (answer, error) {
	if w.Sendable(a.Now()) != nil {
		return answer{}, waypost.Errorf(waypost.CodeServiceUnavailable, "", "%s of the webhook cannot be read at the moment; set it again, or try again when its encryption key is back",
			strings.Join(w.UnreadableAt(a.Now()).Members(), " and "))
	}
	if !a.trials.take(r.app) {
		return answer{}, waypost.Errorf(waypost.CodeServiceUnavailable, "", "other test messages still wait for their receivers; send this one again when they have ended")
	}
	defer a.trials.release(r.app)
	if err := a.Audit.RecordAudit(ctx, r.by(), action, target, details); err != nil {
		return answer{}, err
	}
	outcome, err := a.try(ctx, r, w, t)
	if err != nil {
		return answer{}, err
	}
	ans, err := ok(api.Trial{
		Succeed: outcome.Succeed, HTTPStatus: api.IntOrNull(outcome.HTTPStatus), Message: api.TextOrNull(outcome.Message),
		ErrorClass: api.ErrorClass(outcome.ErrorClass), DurationMs: outcome.Duration.Milliseconds(),
	})
	if id := t.facts.Lead.LeadsID; id != 0 {
		ans.about = []int64{id} // a receiver can repeat in its message what it got
	}
	return ans, err
}

// Names in a test message: its journeyId and its actionId are trialNode.
const (
	trialJourney = "Webhook test"
	trialNode    = "test"
)

func (a *server) try(ctx context.Context, r *request, w waypost.Webhook, t trial) (waypost.Outcome, error) {
	params, err := t.definition.Render(t.node, w.Params, t.facts)
	if err != nil {
		return waypost.Outcome{ErrorClass: waypost.ClassRender, Message: err.Error()}, nil
	}
	message := waypost.Message{
		MessageID:   waypost.NewID(waypost.PrefixMessage, t.facts.Now),
		Version:     waypost.MessageVersion,
		Timestamp:   stamp(t.facts.Now),
		UserProfile: profileOf(r, t.facts.Lead),
		JourneyInfo: t.info,
		Params:      params,
	}
	body, err := message.Encode()
	if err != nil {
		return waypost.Outcome{}, err
	}
	return a.Sender.Send(ctx, w, message.MessageID, body), nil
}

// profileOf is the userProfile of a message for a lead, as an enrollment by the same
// application would have it.
func profileOf(r *request, lead waypost.Lead) waypost.UserProfile {
	profile := waypost.UserProfile{OrgID: r.scope.Org, AppID: r.app.ID, AffID: strconv.FormatInt(lead.LeadsID, 10)}
	if lead.ExternalID != nil {
		profile.UserID = *lead.ExternalID
	}
	if lead.OpenID != nil {
		profile.OpenID = *lead.OpenID
	}
	return profile
}

// trialDefinition is a journey of one touchpoint: what renders params in it is
// what renders them in any other.
func trialDefinition(webhookID string) (*journey.Definition, error) {
	definition, problems := journey.Parse(fmt.Appendf(nil,
		`{"name":%q,"start":%[2]q,"nodes":[{"id":%[2]q,"type":"touchpoint","webhook":%q}]}`, trialJourney, trialNode, webhookID))
	if err := problems.Err(""); err != nil {
		return nil, fmt.Errorf("parse test journey: %s", err) // ours to mend, not the client's
	}
	return definition, nil
}
