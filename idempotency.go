package waypost

import (
	"context"
	"time"
)

// KeyLife is how long an answer is kept for its Idempotency-Key.
const KeyLife = 24 * time.Hour

// Answer is what a client got: it is kept for repetitions of the request
// (docs/contract.md, "Idempotency keys").
type Answer struct {
	Status  int
	Headers map[string]string
	Body    []byte
	// Leads are those that the body tells of: the answer is erased with each of them.
	Leads []int64 `json:"-"`
}

// Claim is a request's hold on its Idempotency-Key. It is in the request's context, so
// that the store can write the answer in the transaction of the effect: a crash leaves
// both or none.
type Claim struct {
	ID    string // names key, application, stage, method, path and query
	Token string // names the request that holds it
	Scope Scope  // that the request acts in
	// Answer makes the answer from what the method that has the effect returns.
	Answer func(result any) (Answer, error)
	// Kept tells that the answer was written with the effect.
	Kept bool
}

type claimKey struct{}

// WithClaim returns a context that carries a claim.
func WithClaim(ctx context.Context, c *Claim) context.Context {
	return context.WithValue(ctx, claimKey{}, c)
}

// ClaimOf returns the claim of the request that ctx belongs to, nil if it has none.
func ClaimOf(ctx context.Context) *Claim {
	c, _ := ctx.Value(claimKey{}).(*Claim)
	return c
}
