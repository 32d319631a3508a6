package gateway_test

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"waypost"
	"waypost/gateway"
)

// app makes an application with limits of its own.
func (f *fixture) limitedApp(perSecond, burst int) waypost.Credential {
	f.t.Helper()
	c, err := f.store.CreateApplication(f.t.Context(), "", waypost.Application{
		Org: testOrg, Name: "limited", Grants: []waypost.Grant{"*"}, RatePerSecond: perSecond, RateBurst: burst,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func TestApplicationLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.redis.SetTime(f.clock.Now()) // no token comes back meanwhile
	limited := keyOf(f.limitedApp(1, 3))
	get := call{method: "GET", target: "/v1/webhooks", key: &limited}
	for i := range 3 {
		a := f.do(get).expect(t, http.StatusOK)
		if got, want := a.header.Get("RateLimit-Policy"), `"address";q=200000;w=2, "application";q=3;w=3`; got != want {
			t.Fatalf("RateLimit-Policy %s, want %s", got, want)
		}
		if got, want := a.header.Get("RateLimit"), `"application";r=`+string('2'-byte(i))+`;t=`; !strings.Contains(got, want) {
			t.Fatalf("RateLimit %s, want %s", got, want)
		}
	}
	a := f.do(get).fault(t, http.StatusTooManyRequests, "TooManyRequests")
	if got := a.header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After %q", got)
	}
	if got := a.header.Get("RateLimit"); !strings.Contains(got, `"application";r=0;t=3`) {
		t.Errorf("RateLimit %s", got)
	}
	// The limit is the application's, over all its keys, and no other's.
	rotated, err := f.store.RotateKey(t.Context(), "", f.limitedAppID(limited.AccessKey))
	if err != nil {
		t.Fatal(err)
	}
	second := keyOf(rotated)
	f.do(call{method: "GET", target: "/v1/webhooks", key: &second}).fault(t, http.StatusTooManyRequests, "TooManyRequests")
	f.get("/v1/webhooks").expect(t, http.StatusOK)
	// The grant is not looked at before, the signature is.
	f.do(call{method: "GET", target: "/v1/webhooks", key: &limited, tamper: setHeader("X-Cloud-Nonce", "another-nonce-012345")}).
		fault(t, http.StatusUnauthorized, "Unauthorized", "SignatureMismatch X-Cloud-Signature")
}

func (f *fixture) limitedAppID(accessKey string) string {
	f.t.Helper()
	c, err := f.store.Credential(f.t.Context(), accessKey)
	if err != nil {
		f.t.Fatal(err)
	}
	return c.Application.ID
}

// Of many at once exactly the burst passes, over two gateways too.
func TestLimitHoldsOverGateways(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.redis.SetTime(f.clock.Now())
	limited := keyOf(f.limitedApp(1, 20))
	other := *f
	other.addr = f.serve()
	var passed, refused atomic.Int64
	var all sync.WaitGroup
	for i := range 60 {
		gate := f
		if i%2 == 1 {
			gate = &other
		}
		all.Go(func() {
			a, err := gate.try(t.Context(), call{method: "GET", target: "/v1/webhooks", key: &limited})
			switch {
			case err != nil:
				t.Error(err)
			case a.status == http.StatusOK:
				passed.Add(1)
			case a.status == http.StatusTooManyRequests:
				refused.Add(1)
			default:
				t.Errorf("status %d: %s", a.status, a.raw)
			}
		})
	}
	all.Wait()
	if p := passed.Load(); p != 20 || p+refused.Load() != 60 {
		t.Errorf("%d passed and %d were refused, want 20 of 60", p, refused.Load())
	}
}

// The address limit comes before everything, and knows addresses behind proxies
// that are trusted.
func TestAddressLimit(t *testing.T) {
	t.Parallel()
	from := func(forwarded string) call {
		return call{method: "GET", target: "/v1/nothing", unsigned: true, headers: map[string]string{"X-Forwarded-For": forwarded}}
	}
	for _, tc := range []struct {
		name    string
		proxies []netip.Prefix
		first   string
		second  string
		same    bool // whether both are one address
	}{
		{"nobody is trusted", nil, "192.0.2.1", "192.0.2.2", true},
		{"two clients of a proxy", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "192.0.2.1", "192.0.2.2", false},
		{"the client's own word does not count", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "198.51.100.1, 192.0.2.1", "198.51.100.2, 192.0.2.1", true},
		{"a chain of trusted proxies", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}, "192.0.2.1, 10.1.1.1", "192.0.2.2, 10.1.1.1", false},
		{"with a port", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "192.0.2.1:1234", "192.0.2.1:4321", true},
		{"two with ports", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "192.0.2.1:1234", "[2001:db8::1]:1234", false},
		{"one /64", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "2001:db8::1", "2001:db8::ffff:1", true},
		{"two of them", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "2001:db8::1", "2001:db8:0:1::1", false},
		{"IPv4 in IPv6", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "::ffff:192.0.2.1", "192.0.2.1", true},
		{"rubbish is the proxy's own address", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "me", "you", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(o *gateway.Options) { o.AddressRate, o.TrustedProxies = 1, tc.proxies })
			f.redis.SetTime(f.clock.Now())
			f.do(from(tc.first)).fault(t, http.StatusNotFound, "NotFound")
			f.do(from(tc.first)).fault(t, http.StatusNotFound, "NotFound")
			refused := f.do(from(tc.first)).fault(t, http.StatusTooManyRequests, "TooManyRequests")
			if got := refused.header.Get("RateLimit"); !strings.HasPrefix(got, `"address";r=0;t=`) || refused.header.Get("Retry-After") != "1" {
				t.Errorf("RateLimit %s, Retry-After %s", got, refused.header.Get("Retry-After"))
			}
			if a := f.do(from(tc.second)); (a.status == http.StatusTooManyRequests) != tc.same {
				t.Errorf("the second address was answered %d", a.status)
			}
		})
	}
}

// While Redis is away the limits go on in the process, and come back with it.
func TestLimitsWithoutRedis(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limited := keyOf(f.limitedApp(1, 2))
	get := call{method: "GET", target: "/v1/webhooks", key: &limited}
	f.redis.SetError("LOADING away")
	f.do(get).expect(t, http.StatusOK)
	a := f.do(get).expect(t, http.StatusOK)
	for range 50 { // on a busy machine a second passes between two requests
		if a = f.do(get); a.status == http.StatusTooManyRequests {
			break
		}
	}
	a.fault(t, http.StatusTooManyRequests, "TooManyRequests")
	f.do(call{method: "POST", target: "/v1/leads", body: "{}"}).fault(t, http.StatusServiceUnavailable, "ServiceUnavailable")
	f.do(call{method: "GET", target: "/v1/leads/export"}).fault(t, http.StatusServiceUnavailable, "ServiceUnavailable")
	f.redis.SetError("")
}
