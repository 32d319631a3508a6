package limits

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Horizon keeps, outside of Redis, the latest times at which requests can have been signed that
// were accepted.
type Horizon interface {
	// NonceHorizons are those of the signers whose clocks were ahead, and at "" that of all others;
	// empty if none was ever accepted.
	NonceHorizons(ctx context.Context) (map[string]time.Time, error)
	// RaiseNonceHorizon never lowers one.
	RaiseNonceHorizon(ctx context.Context, signer string, to time.Time) error
}

const (
	// clockSlack is how many seconds a client's clock may be ahead of Redis' without a horizon
	// of its own.
	clockSlack = 1
	// raiseAhead is how much further a horizon is raised than it must be, so that a client
	// whose clock is ahead has it raised now and then only.
	raiseAhead = 10 * time.Second
	// maxAhead bounds the signers that an epoch names: what holds for more of them holds for all.
	maxAhead = 100
	// epochKey has no end: if it is missing, Redis has forgotten.
	epochKey = "waypost:nonces"
)

// epoch is what stands at epochKey: since when the nonces of one Redis are all there. Whatever
// was accepted before has been signed in or before the second until (0: nothing was accepted before),
// or that of Ahead for a signer who stands there.
type epoch struct {
	ID      string           `json:"id"` // no two are the same
	Until   int64            `json:"until"`
	Ahead   map[string]int64 `json:"ahead,omitempty"`
	Run     string           `json:"run"`     // the run_id of the Redis: another one has been restarted, or is another server
	Evicted int64            `json:"evicted"` // how many keys it had evicted: more are nonces that are gone
}

// of is the second up to which requests of a signer are refused.
func (e epoch) of(signer string) int64 { return max(e.Until, e.Ahead[signer]) }

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
	return epoch{Run: infoField(l.server.Val(), "run_id"), Evicted: evicted}
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
	last    atomic.Pointer[readEpoch]

	horizonMu sync.Mutex
	raised    map[string]raised // the horizons of signers are there at least
}

// raised is a horizon, and when this process wrote it.
type raised struct{ to, at time.Time }

// readEpoch is an epoch as it was read last: it is the same for most requests.
type readEpoch struct {
	text string
	epoch
}

// parse returns the zero epoch for a text that is none.
func (e *epochs) parse(text string) (found epoch) {
	if last := e.last.Load(); last != nil && last.text == text {
		return last.epoch
	}
	if json.Unmarshal([]byte(text), &found) != nil {
		return epoch{}
	}
	e.last.Store(&readEpoch{text, found})
	return found
}

// check returns the epoch. It begins another one if Redis has forgotten since the last one began.
func (e *epochs) check(ctx context.Context, l look) (epoch, error) {
	text, err := l.known.Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return epoch{}, err
	}
	known, present := e.parse(text), l.present()
	why := ""
	switch {
	case known.ID == "":
		why = "it is empty"
	case known.Run != present.Run:
		why = "it was restarted, or is another server"
	case present.Evicted != known.Evicted: // fewer where the statistics were reset
		why = "it has evicted keys"
	default:
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 4*CallTime)
	defer cancel()
	present.ID, present.Until = rand.Text(), known.Until
	return e.begin(ctx, text, present, why)
}

// beginScript stores another epoch, unless somebody else has done so meanwhile, and returns the present one.
var beginScript = redis.NewScript(`
local known = redis.call('GET', KEYS[1]) or ''
if known ~= ARGV[1] then return known end
redis.call('SET', KEYS[1], ARGV[2])
return ARGV[2]`)

// begin begins another epoch in the place of last. Everything that was accepted before had been signed
// up to Redis' present second, or up to the horizons. The horizon says first that requests are accepted.
// Until the epoch is there, a mark that is like no other stands for it: if Redis forgets once more after
// the horizons were read, the epoch is not stored.
func (e *epochs) begin(ctx context.Context, last string, next epoch, why string) (epoch, error) {
	mark := fmt.Sprintf(`{"begins":%q}`, next.ID)
	text, err := beginScript.Run(ctx, e.client, []string{epochKey}, last, mark).Text()
	if err != nil {
		return epoch{}, err
	}
	if begun := e.parse(text); begun.ID != "" {
		return begun, nil
	}
	if text == "" {
		return epoch{}, errForgotAgain
	}
	now, err := e.client.Time(ctx).Result()
	if err != nil {
		return epoch{}, err
	}
	horizons, err := e.horizon.NonceHorizons(ctx)
	if err != nil {
		return epoch{}, err
	}
	if len(horizons) > 0 {
		next.Until = max(next.Until, now.Unix()+clockSlack, secondOf(horizons[""]))
		next.nameAhead(horizons)
	}
	if err := e.horizon.RaiseNonceHorizon(ctx, "", now.Add(clockSlack*time.Second)); err != nil {
		return epoch{}, err
	}
	written, err := json.Marshal(next)
	if err != nil {
		return epoch{}, err
	}
	if text, err = beginScript.Run(ctx, e.client, []string{epochKey}, text, string(written)).Text(); err != nil {
		return epoch{}, err
	}
	if text == "" {
		return epoch{}, errForgotAgain
	}
	stored := e.parse(text)
	if stored.ID == "" {
		return epoch{}, fmt.Errorf("redis holds %.200q at %s, which is nothing of Waypost's; delete it", text, epochKey)
	}
	if stored.ID == next.ID && next.Until > 0 {
		e.log.WarnContext(ctx, "Redis has forgotten nonces: requests that were signed before are refused",
			"why", why, "signedUntil", time.Unix(next.Until, 0).UTC().Format(time.RFC3339), "signersAhead", len(next.Ahead))
	}
	return stored, nil
}

// errForgotAgain says that Redis has forgotten while an epoch began: the next request begins another one.
var errForgotAgain = errors.New("redis has forgotten once more")

// secondOf is the first second that is not before a time.
func secondOf(t time.Time) int64 { return int64(math.Ceil(float64(t.UnixMilli()) / 1000)) }

// nameAhead names the signers whose horizons are beyond that of all, the furthest first.
func (e *epoch) nameAhead(horizons map[string]time.Time) {
	signers := slices.SortedFunc(maps.Keys(horizons), func(a, b string) int { return horizons[b].Compare(horizons[a]) })
	e.Ahead = map[string]int64{}
	for _, s := range signers {
		second := secondOf(horizons[s])
		if second <= e.Until {
			return
		}
		if len(e.Ahead) == maxAhead {
			e.Until = second
			return
		}
		e.Ahead[s] = second
	}
}

// raise moves the horizon of a signer to a time, or leaves it behind that, and tells whether that was
// written since a time, by this call or another one.
func (e *epochs) raise(ctx context.Context, signer string, to, since time.Time) (wrote bool, err error) {
	e.horizonMu.Lock()
	defer e.horizonMu.Unlock()
	if to.Add(-raiseAhead).After(e.raised[signer].to) {
		if err := e.horizon.RaiseNonceHorizon(ctx, signer, to); err != nil {
			return false, err
		}
		e.raised[signer] = raised{to, time.Now()}
	}
	return !e.raised[signer].at.Before(since), nil
}
