package gateway

import (
	"cmp"
	"context"
	"net/http"

	"waypost"
	"waypost/api"
)

// Subscriptions stores who is told what happens.
type Subscriptions interface {
	CreateSubscription(ctx context.Context, by waypost.Caller, s waypost.Subscription) (waypost.Subscription, error)
	Subscription(ctx context.Context, sc waypost.Scope, id string) (waypost.Subscription, error)
	ListSubscriptions(ctx context.Context, sc waypost.Scope, page waypost.Page) ([]waypost.Subscription, error)
	UpdateSubscription(ctx context.Context, by waypost.Caller, id string, change func(*waypost.Subscription) error) (waypost.Subscription, error)
	// check sees the subscription as it is, where nobody can change it, and may refuse.
	DeleteSubscription(ctx context.Context, by waypost.Caller, id string, check func(waypost.Subscription) error) error
}

func answerSubscription(s waypost.Subscription) api.Subscription {
	return api.Subscription{
		ID: s.ID, Name: s.Name, WebhookID: s.WebhookID, On: s.On, JourneyID: api.TextOrNull(s.JourneyID),
		CreatedAt: api.At(s.CreatedAt), UpdatedAt: api.At(s.UpdatedAt),
	}
}

// readSubscription reads and checks a document, and sets what it says.
func readSubscription(document []byte, s *waypost.Subscription) error {
	var body api.SubscriptionBody
	return checked(waypost.DecodeJSON(document, &body), func(p *waypost.Problems) {
		s.Name, s.WebhookID, s.On, s.JourneyID = body.Name, body.WebhookID, body.On, ""
		if body.JourneyID != nil {
			if s.JourneyID = *body.JourneyID; s.JourneyID == "" {
				p.Add(waypost.DetailInvalidFormat, "journeyId", "must be the id of a journey, or null for all")
			}
		}
		p.AddAll(s.Validate())
	})
}

func (a *server) createSubscription(ctx context.Context, r *request) (answer, error) {
	var s waypost.Subscription
	if err := readSubscription(r.body, &s); err != nil {
		return answer{}, err
	}
	return effect(ctx, r, func(ctx context.Context) (waypost.Subscription, error) {
		return a.Subscriptions.CreateSubscription(ctx, r.by(), s)
	}, func(s waypost.Subscription) (answer, error) {
		return resource(http.StatusCreated, "/v1/subscriptions/"+s.ID, answerSubscription(s))
	})
}

func (a *server) listSubscriptions(ctx context.Context, r *request) (answer, error) {
	return answerPage(r, func(page waypost.Page) ([]waypost.Subscription, error) {
		return a.Subscriptions.ListSubscriptions(ctx, r.scope, page)
	}, func(s waypost.Subscription) string { return s.ID }, answerSubscription)
}

func (a *server) showSubscription(ctx context.Context, r *request) (answer, error) {
	s, err := a.Subscriptions.Subscription(ctx, r.scope, r.param("id"))
	return resourceWith(s, err, answerSubscription)
}

// matchSubscription compares If-Match with a subscription.
func (r *request) matchSubscription(s waypost.Subscription) error {
	return r.checkMatch(answerSubscription(s))
}

// patchSubscription merges the body into the subscription (RFC 7396): absent members stay,
// null as journeyId stands for all journeys.
func (a *server) patchSubscription(ctx context.Context, r *request) (answer, error) {
	var shape api.SubscriptionPatchBody
	if err := decode(r, &shape); err != nil {
		return answer{}, err
	}
	patch, err := readPatch(r.body)
	if err != nil {
		return answer{}, err
	}
	patched := func(s *waypost.Subscription) error {
		document, err := merged(api.SubscriptionBody{Name: s.Name, WebhookID: s.WebhookID, On: s.On, JourneyID: orNull(s.JourneyID)}, patch)
		if err != nil {
			return err
		}
		return readSubscription(document, s)
	}
	s, err := a.Subscriptions.UpdateSubscription(ctx, r.by(), r.param("id"), func(s *waypost.Subscription) error {
		before := *s
		if err := patched(s); err != nil {
			return err
		}
		return r.matchSubscription(before)
	})
	if waypost.CodeOf(err) == waypost.CodeNotFound { // faults come before it
		sample := waypost.Subscription{Name: "sample", WebhookID: waypost.NewID(waypost.PrefixWebhook, a.Now()), On: []waypost.Happening{waypost.EnrollmentEnded}}
		return answer{}, cmp.Or(patched(&sample), err)
	}
	return resourceWith(s, err, answerSubscription)
}

func (a *server) deleteSubscription(ctx context.Context, r *request) (answer, error) {
	return noContent(a.Subscriptions.DeleteSubscription(ctx, r.by(), r.param("id"), r.matchSubscription))
}
