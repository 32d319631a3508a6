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

// endedTime is how long it is remembered that a session was ended: longer than any request
// that began before, whose answer would store it again.
const endedTime = 15 * time.Minute

// commitScript stores a session that was not ended; an ended one is empty.
var commitScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) == '' then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`)

func sessionKey(token string) string { return "waypost:session:" + token }

// FindCtx returns the value of a session that has not ended.
func (s *Sessions) FindCtx(ctx context.Context, token string) (value []byte, found bool, err error) {
	value, err = s.redis.Get(ctx, sessionKey(token)).Bytes()
	if errors.Is(err, redis.Nil) || err == nil && len(value) == 0 {
		return nil, false, nil
	}
	return value, err == nil, err
}

// CommitCtx stores the value of a session, new or not, until it ends. One that was ended
// meanwhile stays so.
func (s *Sessions) CommitCtx(ctx context.Context, token string, value []byte, end time.Time) error {
	return commitScript.Run(ctx, s.redis, []string{sessionKey(token)}, value, max(time.Until(end).Milliseconds(), 1)).Err()
}

// DeleteCtx ends a session. One that has ended is no error.
func (s *Sessions) DeleteCtx(ctx context.Context, token string) error {
	return s.redis.Set(ctx, sessionKey(token), "", endedTime).Err()
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
