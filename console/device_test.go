package console

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"waypost"
)

// tryFrom is a try of a password from an address.
func (v *visitor) tryFrom(from, email, password string) shown {
	return v.do(http.MethodPost, "/sign-in", url.Values{"email": {email}, "password": {password}}, http.Header{"X-Forwarded-For": {from}})
}

func behindProxy(o *Options) {
	o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// However many strangers guess, also from the same address, who has signed in before at a browser
// signs in there at once; elsewhere they wait, as strangers do.
func TestStrangersDelayNobody(t *testing.T) {
	t.Parallel()
	s := newSite(t, behindProxy)
	u := s.withPassword(waypost.RoleAdmin)
	v := s.guest()
	if got := v.tryFrom("192.0.2.1", u.Email, secret); got.Status != http.StatusSeeOther {
		t.Fatalf("HTTP %d", got.Status)
	}
	v.post("/sign-out", nil)
	stranger := s.guest()
	for i := range 1000 {
		from := fmt.Sprintf("198.51.100.%d", i%200)
		if i%5 == 0 {
			from = "192.0.2.1"
		}
		got := stranger.tryFrom(from, u.Email, fmt.Sprintf("guess %d", i))
		if got.Status != http.StatusUnauthorized && got.Status != http.StatusTooManyRequests {
			t.Fatalf("guess %d: HTTP %d", i, got.Status)
		}
	}
	if got := s.guest().tryFrom("203.0.113.9", u.Email, secret); got.Status != http.StatusTooManyRequests {
		t.Errorf("from an unknown device: HTTP %d", got.Status)
	}
	if got := v.tryFrom("192.0.2.1", u.Email, secret); got.Status != http.StatusSeeOther {
		t.Errorf("from the known device: HTTP %d", got.Status)
	}
	// That they have signed in gives strangers no further tries.
	if got := stranger.tryFrom("203.0.113.10", u.Email, "guess"); got.Status != http.StatusTooManyRequests {
		t.Errorf("a stranger after that: HTTP %d", got.Status)
	}
}

// A device is slowed down as strangers are, by itself, and a device of one person is none of another.
func TestDevicesAreLimited(t *testing.T) {
	t.Parallel()
	s := newSite(t, behindProxy)
	u, other := s.withPassword(waypost.RoleAdmin), s.withPassword(waypost.RoleViewer)
	device := s.guest()
	device.tryFrom("192.0.2.1", u.Email, secret)
	device.post("/sign-out", nil)
	for i := range freeTries {
		if got := device.tryFrom("192.0.2.1", u.Email, "wrong"); got.Status != http.StatusUnauthorized {
			t.Errorf("guess %d: HTTP %d", i, got.Status)
		}
	}
	if got := device.tryFrom("192.0.2.1", u.Email, secret); got.Status != http.StatusTooManyRequests {
		t.Errorf("a device that guesses: HTTP %d", got.Status)
	}
	if got := s.guest().tryFrom("192.0.2.1", u.Email, secret); got.Status != http.StatusSeeOther {
		t.Errorf("the person elsewhere: HTTP %d", got.Status)
	}
	s.redis.FastForward(time.Second)
	if got := device.tryFrom("192.0.2.1", u.Email, secret); got.Status != http.StatusSeeOther {
		t.Errorf("a second later: HTTP %d", got.Status)
	}

	// Of another person it is no device, whatever its cookie says.
	cookie := device.cookie("device")
	for range freeTries {
		s.guest().tryFrom("198.51.100.1", other.Email, "wrong")
	}
	id, code, _ := strings.Cut(cookie, ".")
	for name, value := range map[string]string{
		"of another person": cookie, "with another id": "OTHER." + code, "without a code": id, "forged": id + "." + code[1:] + "A",
		"many codes": id + strings.Repeat("."+code, 1000), "nonsense": "%%%", "empty": ".",
	} {
		v := s.guest()
		v.setCookie("device", value)
		if got := v.tryFrom("198.51.100.2", other.Email, secret); got.Status != http.StatusTooManyRequests {
			t.Errorf("a cookie %s: HTTP %d", name, got.Status)
		}
	}
}

// A browser is a known device of the last few people who have signed in there, by whatever way.
func TestSharedDevice(t *testing.T) {
	t.Parallel()
	s := newSite(t, behindProxy)
	v := s.guest()
	var people []waypost.User
	for range maxDevicePeople + 1 {
		u := s.withPassword(waypost.RoleViewer)
		people = append(people, u)
		link, err := s.store.LinkUser(t.Context(), ops, u.ID)
		if err != nil {
			t.Fatal(err)
		}
		v.post("/sign-in/link", url.Values{"token": {link}})
		v.post("/sign-out", nil)
		for i := range freeTries {
			s.guest().tryFrom(fmt.Sprintf("198.51.100.%d", i), u.Email, "wrong")
		}
	}
	if n := strings.Count(v.cookie("device"), "."); n != maxDevicePeople {
		t.Errorf("the cookie has %d people", n)
	}
	for i, u := range people {
		want := http.StatusSeeOther
		if i == 0 {
			want = http.StatusTooManyRequests
		}
		w := s.guest()
		w.setCookie("device", v.cookie("device"))
		if got := w.tryFrom("192.0.2.1", u.Email, secret); got.Status != want {
			t.Errorf("person %d: HTTP %d, want %d", i, got.Status, want)
		}
	}
	if strings.Contains(v.cookie("device"), "example") {
		t.Error("the cookie names people")
	}
}

// While strangers' passwords are hashed with all of their permits, a known device does not wait.
func TestPermitsOfKnownDevices(t *testing.T) {
	t.Parallel()
	p, err := newPasswords()
	if err != nil {
		t.Fatal(err)
	}
	hash, err := p.hash(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	for range cap(p.strangers) {
		leave, err := enter(t.Context(), p.strangers)
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
	}
	if right, err := p.matches(t.Context(), p.known, secret, hash); !right || err != nil {
		t.Errorf("%v, %v", right, err)
	}
}
