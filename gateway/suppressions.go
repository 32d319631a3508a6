package gateway

import (
	"context"
	"math"
	"net/http"

	"waypost"
	"waypost/api"
)

// Suppressions stores who is written to no more through a channel.
type Suppressions interface {
	CreateSuppression(ctx context.Context, by waypost.Caller, s waypost.Suppression) (waypost.Suppression, error)
	Suppression(ctx context.Context, sc waypost.Scope, id string) (waypost.Suppression, error)
	ListSuppressions(ctx context.Context, sc waypost.Scope, f waypost.SuppressionFilter, page waypost.Page) ([]waypost.Suppression, error)
	// check sees the suppression as it is, where nobody can change it, and may refuse.
	DeleteSuppression(ctx context.Context, by waypost.Caller, id string, check func(waypost.Suppression) error) error
	// SuppressedChannels returns the channels that leads are suppressed in.
	SuppressedChannels(ctx context.Context, leads []int64) (map[int64][]string, error)
}

func answerSuppression(s waypost.Suppression) api.Suppression {
	return api.Suppression{
		ID: s.ID, Channel: s.Channel, MobilePhone: api.TextOrNull(s.MobilePhone), Email: api.TextOrNull(s.Email),
		ExternalID: api.TextOrNull(s.ExternalID), CreatedAt: api.At(s.CreatedAt),
	}
}

// createSuppression answers 201, or 200 with the one that there is of the address: its id,
// which it is deleted by, is found in this way without an address in a URL.
func (a *server) createSuppression(ctx context.Context, r *request) (answer, error) {
	var body api.SuppressionBody
	var s waypost.Suppression
	err := checked(waypost.DecodeJSON(r.body, &body), func(p *waypost.Problems) {
		s = waypost.NewSuppression(p, body.Channel, body.MobilePhone, body.Email, body.ExternalID, a.PhoneRegion)
	})
	if err != nil {
		return answer{}, err
	}
	return effect(ctx, r, func(ctx context.Context) (waypost.Suppression, error) {
		return a.Suppressions.CreateSuppression(ctx, r.by(), s)
	}, func(s waypost.Suppression) (answer, error) {
		if s.Existed {
			return resource(http.StatusOK, "", answerSuppression(s))
		}
		return resource(http.StatusCreated, "/v1/suppressions/"+s.ID, answerSuppression(s))
	})
}

func (a *server) listSuppressions(ctx context.Context, r *request) (answer, error) {
	filter := waypost.SuppressionFilter{Channel: r.short("channel", waypost.MaxChannel), LeadsID: r.integer("leadsId", 1, math.MaxInt64, 0)}
	return answerPage(r, func(page waypost.Page) ([]waypost.Suppression, error) {
		return a.Suppressions.ListSuppressions(ctx, r.scope, filter, page)
	}, func(s waypost.Suppression) string { return s.ID }, answerSuppression)
}

func (a *server) showSuppression(ctx context.Context, r *request) (answer, error) {
	s, err := a.Suppressions.Suppression(ctx, r.scope, r.param("id"))
	return resourceWith(s, err, answerSuppression)
}

// matchSuppression compares If-Match with a suppression.
func (r *request) matchSuppression(s waypost.Suppression) error {
	return r.checkMatch(answerSuppression(s))
}

func (a *server) deleteSuppression(ctx context.Context, r *request) (answer, error) {
	return noContent(a.Suppressions.DeleteSuppression(ctx, r.by(), r.param("id"), r.matchSuppression))
}
