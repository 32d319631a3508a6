package console

import (
	"context"

	"github.com/alexedwards/argon2id"
)

// Bounds of passwords, in bytes.
const (
	minPassword = 12
	maxPassword = 256
)

// hashing are the parameters of new hashes. It is a variable for tests.
var hashing = argon2id.DefaultParams

// passwords hashes passwords by argon2id, a few at a time: each takes 64 MiB for a moment. Known
// devices and people who are signed in have permits of their own: however many strangers wait, they
// do not wait behind them.
type passwords struct {
	strangers, known chan struct{}
	dummy            string // the hash that is compared where there is none, to take the same time
}

func newPasswords() (*passwords, error) {
	dummy, err := argon2id.CreateHash("", hashing)
	return &passwords{make(chan struct{}, 4), make(chan struct{}, 2), dummy}, err
}

// enter waits for a permit, until the context ends.
func enter(ctx context.Context, permits chan struct{}) (leave func(), err error) {
	select {
	case permits <- struct{}{}:
		return func() { <-permits }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// hash hashes a password that somebody with a link or a session has chosen.
func (p *passwords) hash(ctx context.Context, password string) (string, error) {
	leave, err := enter(ctx, p.known)
	if err != nil {
		return "", err
	}
	defer leave()
	return argon2id.CreateHash(password, hashing)
}

// matches tells, with one of the permits, whether a password has this hash. For the hash "" it takes
// as long and is false.
func (p *passwords) matches(ctx context.Context, permits chan struct{}, password, hash string) (bool, error) {
	leave, err := enter(ctx, permits)
	if err != nil {
		return false, err
	}
	defer leave()
	if hash == "" {
		_, err := argon2id.ComparePasswordAndHash(password, p.dummy)
		return false, err
	}
	return argon2id.ComparePasswordAndHash(password, hash)
}
