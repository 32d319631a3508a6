package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"

	"waypost"
	"waypost/signature"
)

// Keys remembers the answers to requests with an Idempotency-Key.
type Keys interface {
	// ClaimKey gives the key to the request, or returns the answer that an earlier
	// one got. Conflict: the key came with another body, or the earlier request is
	// still running. A claim without an answer is free again after a minute.
	ClaimKey(ctx context.Context, c *waypost.Claim, body []byte) (*waypost.Answer, error)
	// KeepAnswer stores the answer of a claim whose effect needs none or did not
	// store it.
	KeepAnswer(ctx context.Context, c *waypost.Claim, ans waypost.Answer) error
	// ReleaseKey frees the key if there is no answer yet.
	ReleaseKey(ctx context.Context, c *waypost.Claim) error
}

const (
	headerIdempotencyKey      = "Idempotency-Key"
	headerIdempotencyReplayed = "Idempotency-Replayed"
	maxIdempotencyKey         = 255 // characters
)

// claimKey finds the answer of an earlier request with the same Idempotency-Key,
// or takes the key for this one.
func (a *server) claimKey(ctx context.Context, r *request) error {
	key, given := r.header(headerIdempotencyKey), r.sent(headerIdempotencyKey)
	if !given || r.method != fiber.MethodPost {
		return nil
	}
	if key == "" || len(key) > maxIdempotencyKey || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) {
		return waypost.Errorf(waypost.CodeBadRequest, headerIdempotencyKey, "the Idempotency-Key must be 1 to %d printable ASCII characters", maxIdempotencyKey)
	}
	// What the signature does not tell apart is one key: else somebody in between could make two of a
	// call that is sent again.
	scope := sha256.Sum256([]byte(strings.Join([]string{
		r.app.ID, string(r.scope.Stage), r.method, r.path, signature.CanonicalQuery(r.query), signature.CanonicalValue(key),
	}, "\x00")))
	claim := &waypost.Claim{ID: hex.EncodeToString(scope[:]), Token: signature.NewNonce(), Scope: r.scope}
	kept, err := a.Keys.ClaimKey(ctx, claim, []byte(r.claim.BodyHash))
	if err != nil {
		return err
	}
	if r.held = claim; kept != nil {
		r.held, r.replay = nil, kept
	}
	return nil
}

// settle stores the answer of a request that has an Idempotency-Key, or frees the key,
// even if the client is gone.
func (a *server) settle(ctx context.Context, r *request, ans answer, err error) error {
	if r.held == nil || r.held.Kept && err == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handlerTime)
	defer cancel()
	final := ans
	if err != nil {
		var known *waypost.Error
		if !errors.As(err, &known) || !isKept(statuses[known.Code]) {
			return errors.Join(err, a.Keys.ReleaseKey(ctx, r.held))
		}
		final = errorAnswer(known)
	}
	kept, encodeErr := final.kept()
	if encodeErr != nil {
		return errors.Join(err, encodeErr)
	}
	return errors.Join(err, a.Keys.KeepAnswer(ctx, r.held, kept))
}

// isKept tells whether an answer of this status is given again to the same key.
func isKept(status int) bool {
	return status/100 == 2 || status == http.StatusNotFound || status == http.StatusConflict || status == http.StatusUnprocessableEntity
}

// effect carries out what a POST asks for, and makes its answer part of the same
// transaction if the request has an Idempotency-Key: run's method calls
// waypost.ClaimOf(ctx).Answer with what it returns.
func effect[T any](ctx context.Context, r *request, run func(ctx context.Context) (T, error), tell func(T) (answer, error)) (answer, error) {
	if r.held != nil {
		r.held.Answer = func(result any) (waypost.Answer, error) {
			ans, err := tell(result.(T))
			if err != nil {
				return waypost.Answer{}, err
			}
			return ans.kept()
		}
		ctx = waypost.WithClaim(ctx, r.held)
	}
	result, err := run(ctx)
	if err != nil {
		return answer{}, err
	}
	return tell(result)
}
