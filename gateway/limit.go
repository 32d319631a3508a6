package gateway

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"
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

// Quota is the answer of a rate limit to one request.
type Quota struct {
	Allowed   bool
	Remaining int           // requests that could follow at once
	Reset     time.Duration // until all of the burst is there again
	// RetryAfter is how long a request that is not allowed should wait.
	RetryAfter time.Duration
}

// policy is a rate limit, and its quota for a request.
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

// clientAddress names who sent the request: the peer, or, if that is a trusted proxy,
// the last address in X-Forwarded-For that is not one. An IPv6 address counts as its
// /64, which one customer has.
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
	trusted := func() bool {
		return slices.ContainsFunc(a.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(addr) })
	}
	for i := len(chain) - 1; i >= 0 && trusted(); i-- {
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

// writePolicies writes the RateLimit fields (IETF draft "RateLimit header fields for
// HTTP"), lists of items with parameters (RFC 9651), and, for a request over a limit,
// Retry-After in whole seconds.
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
		policies = fmt.Appendf(policies, "%q;q=%d;w=%d", p.name, p.burst, window)
		quotas = fmt.Appendf(quotas, "%q;r=%d;t=%d", p.name, p.quota.Remaining, wholeSeconds(p.quota.Reset))
		if !p.quota.Allowed {
			r.c.Set("Retry-After", strconv.Itoa(max(1, wholeSeconds(p.quota.RetryAfter))))
		}
	}
	r.c.Response().Header.SetBytesV("RateLimit-Policy", policies)
	r.c.Response().Header.SetBytesV("RateLimit", quotas)
}

func wholeSeconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

// slots bound what goes on at a time: most in the process, mostOf of an application.
type slots struct {
	most, mostOf int

	mu    sync.Mutex
	taken int
	byApp map[string]int
}

// take takes a slot; false if none is free.
func (s *slots) take(app string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.most || s.byApp[app] >= s.mostOf {
		return false
	}
	if s.byApp == nil {
		s.byApp = map[string]int{}
	}
	s.taken++
	s.byApp[app]++
	return true
}

func (s *slots) release(app string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.byApp[app]--; s.byApp[app] == 0 {
		delete(s.byApp, app)
	}
}
