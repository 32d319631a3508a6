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

// passwords hashes passwords by argon2id, a few at a time: each takes 64 MiB for a moment.
type passwords struct {
	slots chan struct{}
	dummy string // the hash that is compared where there is none, to take the same time
}

func newPasswords() (*passwords, error) {
	dummy, err := argon2id.CreateHash("", hashing)
	return &passwords{make(chan struct{}, 4), dummy}, err
}

// enter waits for a slot.
func (p *passwords) enter(ctx context.Context) (leave func(), err error) {
	select {
	case p.slots <- struct{}{}:
		return func() { <-p.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *passwords) hash(ctx context.Context, password string) (string, error) {
	leave, err := p.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	return argon2id.CreateHash(password, hashing)
}

// matches tells whether a password is the one of a hash; none is that of "".
func (p *passwords) matches(ctx context.Context, password, hash string) (bool, error) {
	leave, err := p.enter(ctx)
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
