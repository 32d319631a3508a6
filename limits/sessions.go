package limits

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Sessions keeps the sessions of the console's users in Redis: each is an opaque value that
// ends by itself. Of its token only a hash is stored: whoever reads Redis can take over no session.
type Sessions struct {
	redis redis.UniversalClient
	org   string
}

// NewSessions returns the sessions that a Redis holds of an organisation's console: those of another
// one are not found, and cannot be ended.
func NewSessions(client redis.UniversalClient, org string) *Sessions { return &Sessions{client, org} }

// endedTime is how long it is remembered that a session was ended: longer than any request
// that began before, whose answer would store it again.
const endedTime = 15 * time.Minute

// commitScript stores a session that was not ended; an ended one is empty.
var commitScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) == '' then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`)

// sessionID is what a session is told apart by: a hash of its token, which is random, so without salt.
func (s *Sessions) sessionID(token string) string { return hashed(s.org, token) }

// hashed is a hash of texts, as keys have it.
func hashed(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return hex.EncodeToString(sum[:])
}

func sessionKey(id string) string { return "waypost:session:" + id }

// ownerKey has what is noted of the sessions of one person, by their ids.
func ownerKey(owner string) string { return "waypost:sessions:" + owner }

// FindCtx returns the value of a session that has not ended.
func (s *Sessions) FindCtx(ctx context.Context, token string) (value []byte, found bool, err error) {
	value, err = s.redis.Get(ctx, sessionKey(s.sessionID(token))).Bytes()
	if errors.Is(err, redis.Nil) || err == nil && len(value) == 0 {
		return nil, false, nil
	}
	return value, err == nil, err
}

// CommitCtx stores the value of a session, new or not, until it ends. One that was ended
// meanwhile stays so.
func (s *Sessions) CommitCtx(ctx context.Context, token string, value []byte, end time.Time) error {
	return commitScript.Run(ctx, s.redis, []string{sessionKey(s.sessionID(token))}, value, max(time.Until(end).Milliseconds(), 1)).Err()
}

// DeleteCtx ends a session. One that has ended is no error.
func (s *Sessions) DeleteCtx(ctx context.Context, token string) error {
	return s.redis.Set(ctx, sessionKey(s.sessionID(token)), "", endedTime).Err()
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

// Note keeps what is to be known of a session of a person, for at most life, and returns the
// session's id.
func (s *Sessions) Note(ctx context.Context, owner, token string, about []byte, life time.Duration) (id string, err error) {
	id = s.sessionID(token)
	_, err = s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, ownerKey(owner), id, about)
		p.Expire(ctx, ownerKey(owner), life)
		return nil
	})
	return id, err
}

// Of returns the notes of a person's open sessions, by session id, and deletes the notes of
// ended ones.
func (s *Sessions) Of(ctx context.Context, owner string) (map[string]string, error) {
	all, err := s.redis.HGetAll(ctx, ownerKey(owner)).Result()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	lengths := map[string]*redis.IntCmd{}
	_, err = s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for id := range all {
			lengths[id] = p.StrLen(ctx, sessionKey(id))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var ended []string
	for id, length := range lengths {
		if length.Val() == 0 {
			ended = append(ended, id)
			delete(all, id)
		}
	}
	if len(ended) > 0 {
		err = s.redis.HDel(ctx, ownerKey(owner), ended...).Err()
	}
	return all, err
}

// End ends a session of a person. It returns false if the person has none of this id.
func (s *Sessions) End(ctx context.Context, owner, id string) (bool, error) {
	n, err := s.redis.HDel(ctx, ownerKey(owner), id).Result()
	if err != nil || n == 0 {
		return false, err
	}
	return true, s.redis.Set(ctx, sessionKey(id), "", endedTime).Err()
}

// Once remembers a key for a time. It returns false if the key is remembered already.
func (s *Sessions) Once(ctx context.Context, key string, life time.Duration) (bool, error) {
	return s.redis.SetNX(ctx, s.onceKey(key), "1", life).Result()
}

// Forget has a key not be remembered by Once.
func (s *Sessions) Forget(ctx context.Context, key string) error {
	return s.redis.Del(ctx, s.onceKey(key)).Err()
}

func (s *Sessions) onceKey(key string) string { return "waypost:once:" + hashed(s.org, key) }
