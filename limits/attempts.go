package limits

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/redis/go-redis/v9"
)

// Attempts slows down who guesses passwords: from some number of tries on, each must wait
// twice as long as the one before.
type Attempts struct{ redis redis.UniversalClient }

// NewAttempts returns the attempts that a Redis counts.
func NewAttempts(client redis.UniversalClient) *Attempts { return &Attempts{client} }

// Of the tries beyond the free ones, the first waits a second, the last maxWait. A key's
// count is forgotten a day after its last try.
const (
	maxWait     = 15 * time.Minute
	forgetTries = 24 * time.Hour
)

// tryScript counts a try, unless its time has not come: it then returns how long that is, in
// ms. A try is counted before it is known whether it fails, so that many at once are many.
var tryScript = redis.NewScript(`
local wait = redis.call('PTTL', KEYS[2])
if wait > 0 then return wait end
local tries = redis.call('INCR', KEYS[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local over = tries - tonumber(ARGV[1])
if over >= 0 then
  redis.call('SET', KEYS[2], '1', 'PX', math.min(1000 * 2 ^ math.min(over, 20), tonumber(ARGV[3])))
end
return 0`)

// keys are hashed: they hold addresses of people.
func attemptKeys(key string) []string {
	sum := sha256.Sum256([]byte(key))
	name := "waypost:attempts:{" + hex.EncodeToString(sum[:16]) + "}"
	return []string{name, name + ":wait"}
}

// Try counts a try, of which free ones may follow each other at once. It returns how long to
// wait if the time for another one has not come; that one is not counted.
func (a *Attempts) Try(ctx context.Context, key string, free int) (wait time.Duration, err error) {
	ms, err := tryScript.Run(ctx, a.redis, attemptKeys(key), free, forgetTries.Milliseconds(), maxWait.Milliseconds()).Int64()
	return time.Duration(ms) * time.Millisecond, err
}

// undoScript takes a try back, with the wait that it began.
var undoScript = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('DECR', KEYS[1]) end
return redis.call('DEL', KEYS[2])`)

// Undo takes back one try of a key, which was no guess.
func (a *Attempts) Undo(ctx context.Context, key string) error {
	return undoScript.Run(ctx, a.redis, attemptKeys(key)).Err()
}

// Forget ends the count of a key, whose owner has shown to be who they say.
func (a *Attempts) Forget(ctx context.Context, key string) error {
	return a.redis.Del(ctx, attemptKeys(key)...).Err()
}
