package gateway

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
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
func (a *server) limit(ctx context.Context, r *request, name, key string, perSecond, burst int) error {
	p := policy{name: name, perSecond: perSecond, burst: burst}
	p.quota = a.Rates.Allow(ctx, name+":"+key, perSecond, burst)
	r.policies = append(r.policies, p)
	if p.quota.Allowed {
		return nil
	}
	return waypost.Errorf(waypost.CodeTooManyRequests, "", "more than %d requests a second from this %s; see the header Retry-After", perSecond, name)
}

// limitAddress is the limit that comes before everything else.
func (a *server) limitAddress(ctx context.Context, r *request) error {
	return a.limit(ctx, r, policyAddress, a.clientAddress(r), a.AddressRate, 2*a.AddressRate)
}

// clientAddress names who sent the request.
func (a *server) clientAddress(r *request) string {
	var forwarded []string
	for _, h := range r.headers {
		if strings.EqualFold(h.Name, "X-Forwarded-For") {
			forwarded = append(forwarded, h.Value)
		}
	}
	return waypost.ClientAddress(r.c.Context().RemoteAddr().String(), forwarded, a.TrustedProxies)
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
