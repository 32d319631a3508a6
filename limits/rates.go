package limits

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

const (
	// parts is how many parts a token has in Redis. redis_rate counts in whole units
	// and in floating-point seconds, where a bucket that is just full can be short of
	// a token by a rounding error; so it is given a burst that is longer by slack.
	parts = 1_000_000
	slack = time.Microsecond
	// maxSpan bounds the time that a whole burst takes to come back: what Redis
	// counts must fit a time.Duration.
	maxSpan = 200 * 365 * 24 * time.Hour
	// triesInRedis bounds the calls of one Take: one to ask for all, one for what is
	// there of it, and one more if another process took of that in between.
	triesInRedis = 3
	// setBack is how far Redis's clock may be set back without being noticed.
	setBack = time.Second
)

// Rates are rate limits that all processes share: of each key, tokens come back
// at an even pace up to a burst (GCRA). While Redis is away, every process limits
// by itself. It is safe for concurrent use.
type Rates struct {
	gate
	limiter *redis_rate.Limiter // nil: there is no Redis
	now     func() time.Time
	local   *buckets
}

// NewRates returns rates kept in client, which should have been made with
// ClientOptions; with a nil client this process limits by itself. It logs when
// Redis goes away and when it is back, once each.
func NewRates(client redis.UniversalClient, log *slog.Logger) *Rates {
	return newRates(client, log, time.Now, maxBuckets)
}

func newRates(client redis.UniversalClient, log *slog.Logger, now func() time.Time, limit int) *Rates {
	r := &Rates{now: now, local: newBuckets(limit), gate: gate{
		now: now, log: log,
		away: "the rate limits' Redis is away: every process limits by itself", back: "the rate limits' Redis is back",
	}}
	if client != nil {
		r.limiter = redis_rate.NewLimiter(client)
	}
	return r
}

// Taken is what a call of Take got, and what is left.
type Taken struct {
	Allowed   int           // tokens that were taken, 0 to what was asked for
	Limit     int           // tokens of a full bucket: the burst
	Remaining int           // tokens that are left now, 0 to Limit
	Reset     time.Duration // until the bucket is full again if no more are taken
	// RetryAfter is how long it takes at least until there is another token; 0 if
	// all was allowed that was asked for.
	RetryAfter time.Duration
}

// Take takes up to n tokens of key's bucket, which holds burst tokens (at least
// 1) and gets perSecond a second: more than 0, and a fraction where it pleases. A
// burst that would take longer than 200 years to come back is cut to that. A key
// with another rate or burst is another bucket: a limit that is changed holds at
// once. With n = 0 it only looks.
//
// It always answers. While Redis does not, from this process's own buckets, which
// go on where Redis was last seen; of N processes each then allows the whole rate.
func (r *Rates) Take(ctx context.Context, key string, perSecond float64, burst, n int) Taken {
	l := limitOf(perSecond, burst)
	key = fmt.Sprintf("%s/%g/%d", key, perSecond, l.burst)
	print := fingerprintOf(key)
	var taken Taken
	ask := func() (err error) {
		taken, err = r.ask(ctx, "waypost:rate:"+hex.EncodeToString(print[:]), l, n) // hashed: it may hold an address
		return err
	}
	if r.limiter != nil && r.gate.call(ctx, ask) {
		r.local.set(print, r.now(), taken.Reset)
		return taken
	}
	return r.local.take(print, r.now(), l, n)
}

// ask takes tokens in Redis. redis_rate's AllowAtMost is not used: it also takes
// the fraction of a token that is there, which is lost. Of a bucket that is
// asked for more than it has, as bulk senders do, that costs up to half the rate.
func (r *Rates) ask(ctx context.Context, key string, l limit, n int) (Taken, error) {
	shared := redis_rate.Limit{
		Rate: parts, Period: l.interval, Burst: l.burst*parts + int(slack*parts/l.interval) + 1,
	}
	var owed time.Duration
	for want, try := min(n, l.burst), 1; try <= triesInRedis; try++ {
		res, err := r.limiter.AllowN(ctx, key, shared, want*parts)
		if err != nil {
			return Taken{}, fmt.Errorf("take tokens: %w", err)
		}
		owed = res.ResetAfter
		if res.RetryAfter < 0 {
			return l.taken(n, want, owed), nil
		}
		// More than a whole bucket is owed only where Redis's clock was set back since
		// (or another Redis took over), which would refuse all until it is there again.
		if owed > l.span()+setBack {
			if err := r.limiter.Reset(ctx, key); err != nil {
				return Taken{}, fmt.Errorf("take tokens: %w", err)
			}
			continue
		}
		// The wait until all of want are there tells how many of them are missing.
		missing := int(math.Ceil(float64(res.RetryAfter) / float64(l.interval)))
		if want -= max(1, missing); want <= 0 {
			break
		}
	}
	return l.taken(n, 0, owed), nil
}

// limit is a rate in the terms of the algorithm. A bucket is one duration: how
// long it takes until it is full again ("owed").
type limit struct {
	interval time.Duration // in which one token comes back
	burst    int
}

func limitOf(perSecond float64, burst int) limit {
	l := limit{interval: maxSpan, burst: max(1, burst)}
	// Rounded up: rather a little too slow.
	if ns := math.Ceil(float64(time.Second) / perSecond); ns > 0 && ns < float64(maxSpan) {
		l.interval = time.Duration(ns)
	}
	l.burst = min(l.burst, int(maxSpan/l.interval))
	return l
}

// available is the number of whole tokens in a bucket.
func (l limit) available(owed time.Duration) int {
	return max(0, int((l.span()-owed+slack)/l.interval))
}

// span is how long an empty bucket takes to be full.
func (l limit) span() time.Duration { return time.Duration(l.burst) * l.interval }

// taken answers for a call that wanted n tokens and got allowed, with owed as it
// is after that.
func (l limit) taken(n, allowed int, owed time.Duration) Taken {
	owed = max(0, owed)
	t := Taken{Allowed: allowed, Limit: l.burst, Remaining: min(l.burst, l.available(owed)), Reset: owed}
	if allowed < n {
		t.RetryAfter = max(owed-time.Duration(l.burst-1)*l.interval, time.Millisecond)
	}
	return t
}
