package gateway

import (
	"context"
	"fmt"
	"strings"

	"waypost"
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

// trialAnswer is the outcome of a test message.
type trialAnswer struct {
	Succeed    bool    `json:"succeed"`
	HTTPStatus *int    `json:"httpStatus"`
	Message    *string `json:"message"`
	ErrorClass *string `json:"errorClass"`
	DurationMs int64   `json:"durationMs"`
}

// testWebhook sends one message, with the webhook's params rendered for a sample lead,
// also to a disabled webhook, so that it can be tested before it is enabled.
func (a *api) testWebhook(ctx context.Context, r *request) (answer, error) {
	w, err := a.Webhooks.Webhook(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	if w.Sendable(a.Now()) != nil {
		return answer{}, waypost.Errorf(waypost.CodeServiceUnavailable, "", "%s of the webhook cannot be read at the moment; set it again, or try again when its encryption key is back",
			strings.Join(w.UnreadableAt(a.Now()).Members(), " and "))
	}
	if !a.trials.take(r.app.ID) {
		return answer{}, waypost.Errorf(waypost.CodeServiceUnavailable, "", "other test messages still wait for their receivers; send this one again when they have ended")
	}
	defer a.trials.release(r.app.ID)
	if err := a.Audit.RecordAudit(ctx, r.by(), "webhook.test", w.ID, nil); err != nil {
		return answer{}, err
	}
	outcome, err := a.try(ctx, r, w)
	if err != nil {
		return answer{}, err
	}
	return ok(trialAnswer{
		outcome.Succeed, orNull(outcome.HTTPStatus), orNull(outcome.Message), orNull(outcome.ErrorClass), outcome.Duration.Milliseconds(),
	})
}

// Names in a test message.
const (
	trialJourney = "Webhook test"
	trialNode    = "test"
)

func (a *api) try(ctx context.Context, r *request, w waypost.Webhook) (waypost.Outcome, error) {
	now := a.Now()
	definition, err := trialDefinition(w.ID)
	if err != nil {
		return waypost.Outcome{}, err
	}
	params, err := definition.Render(trialNode, w.Params, journey.Facts{
		Lead:      waypost.Lead{LeadFields: waypost.LeadFields{Name: "Test"}, CreatedAt: now, UpdatedAt: now},
		JourneyID: trialNode, JourneyName: trialJourney, Version: 1, EnrollmentID: trialNode, Now: now,
	})
	if err != nil {
		return waypost.Outcome{ErrorClass: waypost.ClassRender, Message: err.Error()}, nil
	}
	message := waypost.Message{
		MessageID:   waypost.NewID(waypost.PrefixMessage, now),
		Version:     waypost.MessageVersion,
		Timestamp:   stamp(now),
		UserProfile: waypost.UserProfile{OrgID: r.scope.Org, AppID: r.app.ID, AffID: "0"},
		JourneyInfo: waypost.JourneyInfo{JourneyID: trialNode, JourneyName: trialJourney, ActionDefID: trialNode, ActionID: trialNode},
		Params:      params,
	}
	body, err := message.Encode()
	if err != nil {
		return waypost.Outcome{}, err
	}
	return a.Sender.Send(ctx, w, message.MessageID, body), nil
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
