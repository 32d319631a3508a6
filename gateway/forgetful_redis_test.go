package gateway_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"waypost/gateway"
	"waypost/limits"
	"waypost/limits/limitstest"
)

// twoGateways are gateways of two processes over one database and one Redis, whose socket can
// change as in a failover.
type twoGateways struct {
	first, second *fixture
	socket        atomic.Pointer[string] // of the Redis
}

func newTwoGateways(t *testing.T, socket string) *twoGateways {
	t.Helper()
	two := &twoGateways{}
	two.socket.Store(&socket)
	two.first = newFixture(t, func(o *gateway.Options) { o.Now = time.Now })
	two.first, two.second = two.process(t), two.process(t)
	return two
}

// process is another gateway, with a memory of its own.
func (two *twoGateways) process(t *testing.T) *fixture {
	t.Helper()
	o := limits.ClientOptions(&redis.Options{})
	o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", *two.socket.Load())
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	f := two.first.in(t)
	nonces := limits.NewNonces(client, f.store, f.options.Log)
	if _, err := nonces.Begin(t.Context()); err != nil { // as a gateway does at its start
		t.Fatal(err)
	}
	f.options.Nonces = nonces
	f.addr = f.serve()
	return f
}

// at is a call of a client whose clock is off by so much. Its Host is the same for both gateways.
func (two *twoGateways) at(name string, off time.Duration) call {
	return call{
		method: "POST", target: "/v1/leads", body: fmt.Sprintf(`{"businessParam":{"name":%q}}`, name), at: time.Now().Add(off),
		nonce: fmt.Sprintf("nonce-%d-%s", time.Now().UnixNano(), strings.Repeat("x", 16))[:40],
	}
}

// send sends the bytes that were signed for the first gateway to one of them.
func (two *twoGateways) send(f *fixture, c call) answer {
	f.t.Helper()
	as := f.in(f.t)
	real := as.addr
	as.addr = two.first.addr // which is signed
	c.tamper = func(r *http.Request) { r.Host, r.URL.Host = two.first.addr, real }
	return as.do(c)
}

// A request that was captured counts once, whatever Redis forgets: at the other gateway it is 401.
// Whoever signs anew is served.
func TestForgetfulRedis(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		args   []string
		forget func(t *testing.T, two *twoGateways, s *limitstest.Redis)
	}{
		{"FLUSHALL", nil, func(_ *testing.T, _ *twoGateways, s *limitstest.Redis) { s.Do("FLUSHALL") }},
		{"a restart without persistence", nil, func(_ *testing.T, _ *twoGateways, s *limitstest.Redis) { s.Kill(); s.Start() }},
		// It may have lost the last second, though the nonce of this test is there.
		{"a restart with persistence", []string{"--appendonly", "yes"}, func(t *testing.T, _ *twoGateways, s *limitstest.Redis) {
			s.Kill()
			s.Start()
			s.Do("FLUSHDB")
			s.Do("SET", "waypost:nonces", `{"id":"before","until":0,"run":"the-run-before","evicted":0}`)
		}},
		{"a failover to an empty replica", nil, func(t *testing.T, two *twoGateways, s *limitstest.Redis) {
			replica := limitstest.StartRedis(t)
			two.socket.Store(&replica.Socket)
			s.Kill()
		}},
		{"eviction", []string{"--maxmemory-policy", "allkeys-lru"}, evict},
		// The nonces alone have an end.
		{"eviction of what has an end", []string{"--maxmemory-policy", "volatile-lru"}, evict},
	} {
		for _, off := range []time.Duration{0, -200 * time.Second, 200 * time.Second} {
			t.Run(fmt.Sprintf("%s, clock off by %s", tt.name, off), func(t *testing.T) {
				t.Parallel()
				s := limitstest.StartRedis(t, tt.args...)
				two := newTwoGateways(t, s.Socket)
				captured := two.at("Ada", off)
				two.send(two.first, captured).expect(t, http.StatusCreated) // a new installation works at once
				if again := two.send(two.second, captured).fault(t, http.StatusUnauthorized, "Unauthorized"); detailOf(again) != "NonceReused" {
					t.Errorf("before: %s", again.raw)
				}
				other := two.process(t) // a process that has not seen the request
				forgot := time.Now()
				tt.forget(t, two, s)
				refused := two.afterOutage(other, captured).fault(t, http.StatusUnauthorized, "Unauthorized")
				if detailOf(refused) != "RequestExpired" || !strings.Contains(refused.raw, "sign it anew") {
					t.Fatalf("the captured request: %s", refused.raw)
				}
				until := regexp.MustCompile(`is not after (\d+)`).FindStringSubmatch(refused.raw)
				second, err := strconv.ParseInt(until[1], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				wait, err := strconv.ParseInt(refused.header.Get("Retry-After"), 10, 64)
				if err != nil || wait < max(0, second+1-time.Now().Unix()) || wait > max(0, second+1-forgot.Unix()) {
					t.Errorf("Retry-After: %q, though requests are refused up to %d", refused.header.Get("Retry-After"), second)
				}
				// An accurate clock need not wait for longer than needed, where no other was ahead.
				if wait := second - time.Now().Unix(); off <= 0 && wait > 2 || wait > 212 {
					t.Errorf("requests are refused for %d seconds more", wait)
				}
				for _, f := range []*fixture{other, two.first} {
					anew := two.at("Bea", 0)
					anew.at = time.Unix(second+1, 0)
					two.send(f, anew).expect(t, http.StatusCreated)
				}
				if again := two.send(other, captured).fault(t, http.StatusUnauthorized, "Unauthorized"); detailOf(again) != "NonceReused" && detailOf(again) != "RequestExpired" {
					t.Errorf("once more: %s", again.raw)
				}
			})
		}
	}
}

// evict has Redis drop keys, the nonces among them.
func evict(t *testing.T, _ *twoGateways, s *limitstest.Redis) {
	s.Do("CONFIG", "SET", "maxmemory", "2mb")
	for i := 0; ; i++ {
		s.Do("SET", fmt.Sprint("filler", i), strings.Repeat("x", 1<<14), "EX", 600)
		if count := regexp.MustCompile(`evicted_keys:(\d+)`).FindStringSubmatch(s.Do("INFO", "stats")); i > 500 && count[1] != "0" {
			break
		}
	}
	s.Do("CONFIG", "SET", "maxmemory", "0")
	for _, key := range strings.Fields(strings.Trim(s.Do("KEYS", "waypost:nonce:*"), "[]")) {
		s.Do("DEL", key) // whichever it was
	}
}

// afterOutage sends a call until Redis has answered: a 503 says that it has not.
func (two *twoGateways) afterOutage(f *fixture, c call) answer {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		if a := two.send(f, c); a.status != http.StatusServiceUnavailable || time.Now().After(deadline) {
			return a
		}
	}
}
