package limits

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Sessions keeps the sessions of the console's users in Redis: each is an opaque value that
// ends by itself.
type Sessions struct{ redis redis.UniversalClient }

// NewSessions returns the sessions that a Redis holds.
func NewSessions(client redis.UniversalClient) *Sessions { return &Sessions{client} }

func sessionKey(token string) string { return "waypost:session:" + token }

// FindCtx returns the value of a session that has not ended.
func (s *Sessions) FindCtx(ctx context.Context, token string) (value []byte, found bool, err error) {
	value, err = s.redis.Get(ctx, sessionKey(token)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, false, nil
	}
	return value, err == nil, err
}

// CommitCtx stores the value of a session, new or not, until it ends.
func (s *Sessions) CommitCtx(ctx context.Context, token string, value []byte, end time.Time) error {
	return s.redis.Set(ctx, sessionKey(token), value, max(time.Until(end), time.Millisecond)).Err()
}

// DeleteCtx ends a session. One that has ended is no error.
func (s *Sessions) DeleteCtx(ctx context.Context, token string) error {
	return s.redis.Del(ctx, sessionKey(token)).Err()
}

// Find, Commit and Delete are the same for callers without a context.
func (s *Sessions) Find(token string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), token)
}

// Commit is CommitCtx without a context.
func (s *Sessions) Commit(token string, value []byte, end time.Time) error {
	return s.CommitCtx(context.Background(), token, value, end)
}

// Delete is DeleteCtx without a context.
func (s *Sessions) Delete(token string) error { return s.DeleteCtx(context.Background(), token) }
