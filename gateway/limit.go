package gateway

import (
	"context"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"waypost"
)

// Rates limits how often something may happen, over all processes (GCRA). It always
// answers: while Redis is away, every process limits by itself.
type Rates interface {
	// Allow takes a token of the key's bucket, which holds burst tokens and gets
	// perSecond a second.
	Allow(ctx context.Context, key string, perSecond, burst int) Quota
}

// Quota is what a rate limit says to one request.
type Quota struct {
	Allowed   bool
	Remaining int           // requests that could follow at once
	Reset     time.Duration // until all of the burst is there again
	// RetryAfter is how long a request that is not allowed should wait.
	RetryAfter time.Duration
}

// policy is a rate limit, and what it said to a request.
type policy struct {
	name             string
	perSecond, burst int
	quota            Quota
}

// Names of the policies in the RateLimit fields.
const (
	policyAddress     = "address"
	policyApplication = "application"
)

// limit asks a rate limit, and refuses the request if it is over it.
func (a *api) limit(ctx context.Context, r *request, name, key string, perSecond, burst int) error {
	p := policy{name: name, perSecond: perSecond, burst: burst}
	p.quota = a.Rates.Allow(ctx, name+":"+key, perSecond, burst)
	r.policies = append(r.policies, p)
	if p.quota.Allowed {
		return nil
	}
	return waypost.Errorf(waypost.CodeTooManyRequests, "", "more than %d requests a second from this %s; see the header Retry-After", perSecond, name)
}

// limitAddress is the limit that comes before everything else.
func (a *api) limitAddress(ctx context.Context, r *request) error {
	return a.limit(ctx, r, policyAddress, a.clientAddress(r), a.AddressRate, 2*a.AddressRate)
}

// clientAddress names who sent the request: the peer, or, if that is a proxy that
// we trust, whom the nearest one of those that we do not trust has in
// X-Forwarded-For. An IPv6 address counts as its /64, which one customer has.
func (a *api) clientAddress(r *request) string {
	peer, err := netip.ParseAddrPort(r.c.Context().RemoteAddr().String())
	if err != nil {
		return "unknown"
	}
	addr := peer.Addr().Unmap()
	var chain []string
	for _, h := range r.headers {
		if strings.EqualFold(h.Name, "X-Forwarded-For") {
			chain = append(chain, strings.Split(h.Value, ",")...)
		}
	}
	for i := len(chain) - 1; i >= 0 && a.trusts(addr); i-- {
		text := strings.TrimSpace(chain[i])
		next, err := netip.ParseAddr(text)
		if withPort, portErr := netip.ParseAddrPort(text); err != nil && portErr == nil {
			next, err = withPort.Addr(), nil
		}
		if err != nil {
			break
		}
		addr = next.Unmap().WithZone("")
	}
	if addr.Is6() {
		if prefix, err := addr.WithZone("").Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return addr.String()
}

func (a *api) trusts(addr netip.Addr) bool {
	for _, p := range a.TrustedProxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// writePolicies writes the RateLimit fields (IETF draft "RateLimit header fields for
// HTTP") and, for a request over a limit, Retry-After in whole seconds.
func (r *request) writePolicies() {
	if len(r.policies) == 0 {
		return
	}
	var policies, quotas []byte
	for i, p := range r.policies {
		if i > 0 {
			policies, quotas = append(policies, ", "...), append(quotas, ", "...)
		}
		// In w seconds as many requests as the burst are allowed again.
		window := max(1, (p.burst+p.perSecond-1)/p.perSecond)
		policies = appendItem(policies, p.name, "q", p.burst, "w", window)
		quotas = appendItem(quotas, p.name, "r", p.quota.Remaining, "t", wholeSeconds(p.quota.Reset))
		if !p.quota.Allowed {
			r.c.Set("Retry-After", strconv.Itoa(max(1, wholeSeconds(p.quota.RetryAfter))))
		}
	}
	r.c.Response().Header.SetBytesV("RateLimit-Policy", policies)
	r.c.Response().Header.SetBytesV("RateLimit", quotas)
}

// appendItem writes "name";a=1;b=2, an item of a structured field with parameters
// (RFC 9651).
func appendItem(to []byte, name, a string, x int, b string, y int) []byte {
	to = strconv.AppendQuote(to, name)
	to = strconv.AppendInt(append(append(append(to, ';'), a...), '='), int64(x), 10)
	return strconv.AppendInt(append(append(append(to, ';'), b...), '='), int64(y), 10)
}

func wholeSeconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

// places bound what goes on at a time: most in the process, mostOf of an application.
type places struct {
	most, mostOf int

	mu    sync.Mutex
	taken int
	byApp map[string]int
}

// enter takes a place; false if there is none.
func (p *places) enter(app string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.most || p.byApp[app] >= p.mostOf {
		return false
	}
	if p.byApp == nil {
		p.byApp = map[string]int{}
	}
	p.taken++
	p.byApp[app]++
	return true
}

// leave gives a place back.
func (p *places) leave(app string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.byApp[app]--; p.byApp[app] == 0 {
		delete(p.byApp, app)
	}
}
