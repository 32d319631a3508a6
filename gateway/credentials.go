package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"

	"waypost"
	"waypost/signature"
)

// Applications finds the application behind an access key.
type Applications interface {
	// Credential returns NotFound for a key that is unknown or revoked.
	Credential(ctx context.Context, accessKey string) (waypost.Credential, error)
}

// Bounds of the credential cache. A revocation must hold within a second on every
// process (contract, chapter 4).
const (
	credentialLife = 500 * time.Millisecond
	maxCredentials = 10_000
)

// credentials keeps what was found, and what was not, for a moment.
type credentials struct {
	source Applications
	now    func() time.Time
	// nobody is what unknown keys are verified with.
	nobody waypost.Credential

	mu    sync.Mutex
	known map[string]cachedCredential
}

type cachedCredential struct {
	waypost.Credential
	until time.Time
}

func newCredentials(source Applications, now func() time.Time) *credentials {
	return &credentials{
		source: source, now: now, known: map[string]cachedCredential{},
		nobody: waypost.Credential{SecretKey: signature.NewNonce() + signature.NewNonce(), Application: waypost.Application{Disabled: true}},
	}
}

// find returns the credential of an access key, for an unknown one a disabled
// application with a secret that nobody has.
func (s *credentials) find(ctx context.Context, accessKey string) (waypost.Credential, error) {
	now := s.now()
	s.mu.Lock()
	cached, ok := s.known[accessKey]
	s.mu.Unlock()
	if ok && now.Before(cached.until) {
		return cached.Credential, nil
	}
	found, err := s.source.Credential(ctx, accessKey)
	if waypost.CodeOf(err) == waypost.CodeNotFound {
		found, err = s.nobody, nil
	}
	if err != nil {
		return waypost.Credential{}, fmt.Errorf("look up access key: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxCredentials {
		clear(s.known) // made-up keys flood it; the real ones come back by themselves
	}
	// From before the look-up: what changed during it may have been missed.
	s.known[accessKey] = cachedCredential{found, now.Add(credentialLife)}
	return found, nil
}
