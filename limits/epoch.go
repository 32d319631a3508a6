package limits

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Horizon keeps, outside of Redis, the latest time at which a request can have been signed that
// was accepted.
type Horizon interface {
	// NonceHorizon is the zero time if none was ever accepted.
	NonceHorizon(ctx context.Context) (time.Time, error)
	// RaiseNonceHorizon never lowers it.
	RaiseNonceHorizon(ctx context.Context, to time.Time) error
}

const (
	// clockSlack is how many seconds a client's clock may be ahead of Redis' without the horizon
	// being raised for each of its requests.
	clockSlack = 1
	// raiseAhead is how much further the horizon is raised than it must be, so that a client
	// whose clock is ahead has it raised now and then only.
	raiseAhead = 10 * time.Second
	// epochKey has no end: if it is missing, Redis has forgotten.
	epochKey = "waypost:nonces"
)

// epoch is what stands at epochKey: since when the nonces of one Redis are all there. Whatever
// was accepted before has been signed in or before the second until (0: nothing was accepted before).
type epoch struct {
	until   int64
	run     string // the run_id of the Redis: another one has been restarted, or is another server
	evicted int64  // how many keys it had evicted: more are nonces that are gone
}

func (e epoch) String() string { return fmt.Sprintf("%d %s %d", e.until, e.run, e.evicted) }

func parseEpoch(text string) (e epoch, ok bool) {
	words := strings.Split(text, " ")
	if len(words) != 3 {
		return e, false
	}
	var untilErr, evictedErr error
	e.run = words[1]
	e.until, untilErr = strconv.ParseInt(words[0], 10, 64)
	e.evicted, evictedErr = strconv.ParseInt(words[2], 10, 64)
	return e, untilErr == nil && evictedErr == nil
}

// look is what is read of Redis beside the nonces.
type look struct {
	clock         *redis.TimeCmd
	known         *redis.StringCmd
	server, stats *redis.StringCmd // INFO
}

func lookIn(ctx context.Context, p redis.Pipeliner) look {
	return look{p.Time(ctx), p.Get(ctx, epochKey), p.Info(ctx, "server"), p.Info(ctx, "stats")}
}

// present is the Redis as it is; what a server does not tell is "" and 0.
func (l look) present() epoch {
	evicted, _ := strconv.ParseInt(infoField(l.stats.Val(), "evicted_keys"), 10, 64)
	return epoch{run: infoField(l.server.Val(), "run_id"), evicted: evicted}
}

// infoField is the value of a line "name:value" of INFO.
func infoField(info, name string) string {
	_, rest, _ := strings.Cut("\n"+info, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// epochs know whether Redis has forgotten.
type epochs struct {
	client  redis.UniversalClient
	horizon Horizon
	log     *slog.Logger

	horizonMu sync.Mutex
	raised    time.Time // the horizon is there at least
}

// check returns the second up to which requests must have been signed to be refused. It begins
// another epoch if Redis has forgotten since the last one began.
func (e *epochs) check(ctx context.Context, l look) (until int64, err error) {
	text, err := l.known.Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, err
	}
	present := l.present()
	known, sound := parseEpoch(text)
	why := ""
	switch {
	case !sound:
		why = "it is empty"
	case known.run != present.run:
		why = "it was restarted, or is another server"
	case present.evicted > known.evicted:
		why = "it has evicted keys"
	default:
		return known.until, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 4*CallTime)
	defer cancel()
	return e.begin(ctx, text, present, known.until, l.clock.Val(), why)
}

// beginScript stores another epoch, unless somebody else has done so meanwhile, and returns the present one.
var beginScript = redis.NewScript(`
local known = redis.call('GET', KEYS[1]) or ''
if known ~= ARGV[1] then return known end
redis.call('SET', KEYS[1], ARGV[2])
return ARGV[2]`)

// begin begins another epoch. Everything that was accepted before had been signed up to Redis'
// present second, or up to the horizon. The horizon says first that requests are accepted.
func (e *epochs) begin(ctx context.Context, last string, next epoch, until int64, now time.Time, why string) (int64, error) {
	horizon, err := e.horizon.NonceHorizon(ctx)
	if err != nil {
		return 0, err
	}
	if !horizon.IsZero() {
		next.until = max(until, now.Unix()+clockSlack, int64(math.Ceil(float64(horizon.UnixMilli())/1000)))
	}
	if err := e.horizon.RaiseNonceHorizon(ctx, now.Add(clockSlack*time.Second)); err != nil {
		return 0, err
	}
	text, err := beginScript.Run(ctx, e.client, []string{epochKey}, last, next.String()).Text()
	if err != nil {
		return 0, err
	}
	stored, sound := parseEpoch(text)
	if !sound {
		return 0, fmt.Errorf("redis holds %q at %s, which is nothing of Waypost's; delete it", text, epochKey)
	}
	if stored == next && next.until > 0 {
		e.log.WarnContext(ctx, "Redis has forgotten nonces: requests that were signed before are refused",
			"why", why, "signedUntil", time.Unix(next.until, 0).UTC().Format(time.RFC3339))
	}
	return stored.until, nil
}

// raise moves the horizon to a time, or leaves it behind that, and tells whether it wrote it.
func (e *epochs) raise(ctx context.Context, to time.Time) (wrote bool, err error) {
	e.horizonMu.Lock()
	defer e.horizonMu.Unlock()
	if to.Add(-raiseAhead).After(e.raised) {
		if err := e.horizon.RaiseNonceHorizon(ctx, to); err != nil {
			return false, err
		}
		e.raised, wrote = to, true
	}
	return wrote, nil
}
