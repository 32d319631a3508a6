package gateway

import (
	"context"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"waypost"
	"waypost/signature"
)

// Applications finds the application behind an access key or a token.
type Applications interface {
	// Credential returns NotFound for a key that is unknown or revoked.
	Credential(ctx context.Context, accessKey string) (waypost.Credential, error)
	// Application returns NotFound for an id that is unknown.
	Application(ctx context.Context, id string) (waypost.Application, error)
}

// Bounds of the caches of applications. A revocation must hold within a second on
// every process (docs/contract.md, "Grants").
const (
	recentLife = 500 * time.Millisecond
	maxRecent  = 10_000
)

// recent keeps the results of look-ups for recentLife.
type recent[T any] struct {
	now    func() time.Time
	load   func(ctx context.Context, key string) (T, error)
	nobody T // the result for a key that does not exist
	known  *lru.Cache[string, recently[T]]
}

type recently[T any] struct {
	value T
	until time.Time
}

func newRecent[T any](now func() time.Time, load func(context.Context, string) (T, error), nobody T) *recent[T] {
	return &recent[T]{now, load, nobody, newKept[string, recently[T]](maxRecent)}
}

func (s *recent[T]) find(ctx context.Context, key string) (T, error) {
	now := s.now()
	if cached, ok := s.known.Get(key); ok && now.Before(cached.until) {
		return cached.value, nil
	}
	found, err := s.load(ctx, key)
	switch {
	case waypost.CodeOf(err) == waypost.CodeNotFound:
		found = s.nobody
	case err != nil:
		return found, fmt.Errorf("look up an application: %w", err)
	}
	// From before the look-up: what changed during it may have been missed.
	s.known.Add(key, recently[T]{found, now.Add(recentLife)})
	return found, nil
}

// newCredentials finds the credential of an access key; for an unknown one a
// disabled application with a secret that nobody has.
func newCredentials(source Applications, now func() time.Time) *recent[waypost.Credential] {
	nobody := waypost.Credential{SecretKey: signature.NewNonce() + signature.NewNonce(), Application: waypost.Application{Disabled: true}}
	return newRecent(now, source.Credential, nobody)
}
