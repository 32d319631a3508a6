package limits

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxRecent bounds the keys that one recent holds: about 10 MB.
const maxRecent = 1 << 17

// fingerprint stands for a key of any length: 128 bits of its SHA-256.
type fingerprint [16]byte

func fingerprintOf(key string) fingerprint {
	sum := sha256.Sum256([]byte(key))
	return fingerprint(sum[:16])
}

// recent is a bounded set whose members leave after a lifetime that is the same
// for all of them, so that members leave in the order in which they came. Where a
// library's cache forgets a member, this one may refuse the new one instead: a nonce
// that is forgotten could be used again.
type recent struct {
	max int

	mu      sync.Mutex
	members map[fingerprint]struct{}
	queue   []member // oldest first
}

type member struct {
	key fingerprint
	at  time.Time
}

func newRecent(limit int) *recent {
	return &recent{max: limit, members: map[fingerprint]struct{}{}}
}

func (r *recent) has(key fingerprint, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire(now)
	_, ok := r.members[key]
	return ok
}

// add tells whether key was not there yet, and whether it is now: a full set
// takes no new member unless evict lets the oldest one go.
func (r *recent) add(key fingerprint, now time.Time, evict bool) (unused, added bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire(now)
	if _, ok := r.members[key]; ok {
		return false, true
	}
	if len(r.members) >= r.max {
		if !evict {
			return true, false
		}
		r.pop()
	}
	r.members[key] = struct{}{}
	r.queue = append(r.queue, member{key, now})
	return true, true
}

func (r *recent) expire(now time.Time) {
	for len(r.queue) > 0 && now.Sub(r.queue[0].at) >= nonceLifetime {
		r.pop()
	}
}

func (r *recent) pop() {
	delete(r.members, r.queue[0].key)
	r.queue = r.queue[1:]
}
