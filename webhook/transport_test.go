package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
)

// authority issues certificates.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

// issued is a certificate and its key, as a server uses it and as a webhook is given it.
type issued struct {
	tls.Certificate
	certificate, key string
}

func newAuthority(t testing.TB, name string) *authority {
	a := &authority{t: t}
	made := a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	a.cert, a.key, a.pem = made.Leaf, made.PrivateKey.(*ecdsa.PrivateKey), made.certificate
	return a
}

// here is a certificate of this machine, for servers and for clients.
func (a *authority) here(notAfter time.Time) issued {
	return a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "here"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: notAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) issue(template *x509.Certificate) issued {
	a.t.Helper()
	must := func(err error) {
		if err != nil {
			a.t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	must(err)
	template.NotBefore = template.NotAfter.Add(-2 * time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	must(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	made := issued{
		certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		key:         string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})),
	}
	made.Certificate, err = tls.X509KeyPair([]byte(made.certificate), []byte(made.key))
	must(err)
	return made
}

// tlsReceiver is a receiver that counts its connections and the requests that it got.
type tlsReceiver struct {
	url             string
	conns, requests atomic.Int32
}

func newTLSReceiver(t testing.TB, conf *tls.Config) *tlsReceiver {
	r := &tlsReceiver{}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { r.requests.Add(1) }))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			r.conns.Add(1)
		}
	}
	srv.TLS = conf
	srv.StartTLS()
	t.Cleanup(srv.Close)
	r.url = srv.URL
	return r
}

func secured(url string, setting waypost.TLS) waypost.Webhook {
	w := hook(url)
	w.TLS = &setting
	return w
}

// A receiver with a certificate of a private authority is believed where the webhook has
// that authority, and nowhere else; one of another authority is then not believed.
func TestOwnAuthority(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "ours") // the name alone proves nothing
	good := ours.here(time.Now().Add(time.Hour))
	const unknown, expired, other, failed = "the certificate is not signed by a known authority", "the certificate has expired or is not valid yet",
		"the certificate is for another host name", "the TLS handshake failed"
	elsewhere := ours.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "x"}, DNSNames: []string{"x.example"}, NotAfter: time.Now().Add(time.Hour)})
	for _, tt := range []struct {
		name    string
		server  issued
		max     uint16
		setting *waypost.TLS
		want    string
	}{
		{"no setting", good, 0, nil, unknown},
		{"an empty setting", good, 0, &waypost.TLS{}, unknown},
		{"its authority", good, 0, &waypost.TLS{CACertificate: ours.pem}, ""},
		{"TLS 1.2", good, tls.VersionTLS12, &waypost.TLS{CACertificate: ours.pem}, ""},
		{"two authorities", good, 0, &waypost.TLS{CACertificate: "another one\n" + theirs.pem + ours.pem}, ""},
		{"the certificate itself", good, 0, &waypost.TLS{CACertificate: good.certificate}, ""},
		{"another authority", good, 0, &waypost.TLS{CACertificate: theirs.pem}, "the certificate is not signed by a known authority"},
		{"expired", ours.here(time.Now().Add(-time.Minute)), 0, &waypost.TLS{CACertificate: ours.pem}, expired},
		{"another host", elsewhere, 0, &waypost.TLS{CACertificate: ours.pem}, other},
		{"TLS 1.1", good, tls.VersionTLS11, &waypost.TLS{CACertificate: ours.pem}, failed},
		{"a setting that cannot be read", good, 0, &waypost.TLS{CACertificate: "x"}, "the webhook's tls.caCertificate cannot be read"},
		{"a key that cannot be read", good, 0, &waypost.TLS{ClientCertificate: good.certificate, ClientKey: elsewhere.key}, "the webhook's tls.clientCertificate and clientKey cannot be read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newTLSReceiver(t, &tls.Config{Certificates: []tls.Certificate{tt.server.Certificate}, MaxVersion: tt.max, MinVersion: tls.VersionTLS10})
			w := hook(r.url)
			w.TLS = tt.setting
			o := newSender(t).Send(context.Background(), w, "msg_1", []byte("{}"))
			checkOutcome(t, o)
			if o.Succeed != (tt.want == "") || !o.Succeed && (o.ErrorClass != waypost.ClassTLS || o.Message != tt.want) {
				t.Errorf("outcome %+v", o)
			}
			if got := r.requests.Load() == 1; got != o.Succeed {
				t.Errorf("%d requests", r.requests.Load())
			}
		})
	}
}

// A receiver that demands a certificate gets the webhook's, whichever authorities it
// names, with the intermediate one; without a good one it gets no message.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	ours, clients, others := newAuthority(t, "servers"), newAuthority(t, "clients"), newAuthority(t, "others")
	middle := clients.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "middle"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	behind := &authority{t: t, cert: middle.Leaf, key: middle.PrivateKey.(*ecdsa.PrivateKey)}
	trusted := x509.NewCertPool()
	trusted.AddCert(clients.cert)
	hour := time.Now().Add(time.Hour)
	good, chained, stranger, expired := clients.here(hour), behind.here(hour), others.here(hour), clients.here(time.Now().Add(-time.Minute))
	const refused = "the receiver misses a client certificate, or refuses it"
	for name, tt := range map[string]struct {
		certificate, key, want string
	}{
		"none":                     {"", "", refused},
		"good":                     {good.certificate, good.key, ""},
		"with an intermediate one": {chained.certificate + middle.certificate, chained.key, ""},
		"without it":               {chained.certificate, chained.key, refused},
		"another authority":        {stranger.certificate, stranger.key, refused},
		"expired":                  {expired.certificate, expired.key, refused},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(name+" in "+tls.VersionName(version), func(t *testing.T) {
				t.Parallel()
				server := ours.here(hour)
				r := newTLSReceiver(t, &tls.Config{
					Certificates: []tls.Certificate{server.Certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted, MaxVersion: version,
				})
				o := newSender(t).Send(context.Background(), secured(r.url, waypost.TLS{CACertificate: ours.pem, ClientCertificate: tt.certificate, ClientKey: tt.key}), "msg_1", []byte("{}"))
				checkOutcome(t, o)
				want := tt.want
				if tt.certificate == "" && version == tls.VersionTLS12 {
					want = "the TLS handshake failed" // TLS 1.2 has no alert for it
				}
				if o.Succeed != (want == "") || !o.Succeed && (o.ErrorClass != waypost.ClassTLS || o.Message != want) {
					t.Errorf("outcome %+v", o)
				}
				if got := r.requests.Load() == 1; got != o.Succeed {
					t.Errorf("%d requests", r.requests.Load())
				}
			})
		}
	}
}

// A refusal is told, too, where net/http knows only that the connection is closed: the
// receiver refused while the POST was begun.
func TestClientCertificateRefusedWhilePosting(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t, "servers")
	server := ours.here(time.Now().Add(time.Hour))
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			r := newTLSReceiver(t, &tls.Config{
				Certificates: []tls.Certificate{server.Certificate}, ClientAuth: tls.RequireAnyClientCert, NextProtos: []string{protocol},
			})
			var x exchange
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
				x.secured.Store(c.Conn.(*tls.Conn))
				inner := c.Conn.(*tls.Conn).NetConn().(*conn)
				for closed := false; !closed; runtime.Gosched() {
					inner.mu.Lock()
					closed = inner.closed
					inner.mu.Unlock()
				}
			}})
			o := newSender(t).Send(ctx, secured(r.url, waypost.TLS{CACertificate: ours.pem}), "msg_1", []byte("{}"))
			if o.ErrorClass != waypost.ClassTLS || o.Message != "the receiver misses a client certificate, or refuses it" {
				t.Errorf("outcome %+v", o)
			}
			// What net/http says if it gets to writing first.
			write := fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", net.ErrClosed)
			if got := faultOf(ctx, x.cause(write)); (got.class == waypost.ClassTLS) != (protocol == "http/1.1") {
				t.Errorf("a write that found it closed: %+v", got)
			}
		})
	}
}

// Webhooks of one host share connections only if they trust and show the same.
func TestSettingsShareNoConnection(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	server, client := ours.here(time.Now().Add(time.Hour)), theirs.here(time.Now().Add(time.Hour))
	attempts(t, func() string {
		r := newTLSReceiver(t, &tls.Config{Certificates: []tls.Certificate{server.Certificate}, ClientAuth: tls.RequestClientCert})
		s := newSender(t)
		trusting := secured(r.url, waypost.TLS{CACertificate: ours.pem})
		alike := secured(r.url+"/other", *trusting.TLS)
		for _, tt := range []struct {
			name  string
			w     waypost.Webhook
			class string
			conns int32
		}{
			{"the first", trusting, "", 1},
			{"another one with the same setting", alike, "", 1},
			{"another authority", secured(r.url, waypost.TLS{CACertificate: theirs.pem}), waypost.ClassTLS, 2},
			{"no setting", hook(r.url), waypost.ClassTLS, 3},
			{"both authorities", secured(r.url, waypost.TLS{CACertificate: ours.pem + theirs.pem}), "", 4},
			{"a client certificate", secured(r.url, waypost.TLS{CACertificate: ours.pem, ClientCertificate: client.certificate, ClientKey: client.key}), "", 5},
			{"the first again", trusting, "", 5},
		} {
			o := s.Send(context.Background(), tt.w, "msg_1", []byte("{}"))
			if o.ErrorClass != tt.class || r.conns.Load() != tt.conns {
				return fmt.Sprintf("%s: %+v, %d connections, want %d", tt.name, o, r.conns.Load(), tt.conns)
			}
		}
		return ""
	})
}

// A client certificate is shown for the webhook that has it, and for no other one, on
// whichever host.
func TestClientCertificateIsOneWebhooks(t *testing.T) {
	t.Parallel()
	ours, clients := newAuthority(t, "ours"), newAuthority(t, "clients")
	server, client := ours.here(time.Now().Add(time.Hour)), clients.here(time.Now().Add(time.Hour))
	shown := make(chan int, 1)
	var urls []string
	for range 2 {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			shown <- len(r.TLS.PeerCertificates)
			http.Redirect(rw, r, urls[1], http.StatusPermanentRedirect)
		}))
		srv.TLS = &tls.Config{Certificates: []tls.Certificate{server.Certificate}, ClientAuth: tls.RequestClientCert}
		srv.StartTLS()
		t.Cleanup(srv.Close)
		urls = append(urls, srv.URL)
	}
	s := newSender(t)
	bare := waypost.TLS{CACertificate: ours.pem}
	with := waypost.TLS{CACertificate: ours.pem, ClientCertificate: client.certificate, ClientKey: client.key}
	for i, tt := range []struct {
		url     string
		setting waypost.TLS
		want    int
	}{{urls[0], with, 1}, {urls[0], bare, 0}, {urls[1], bare, 0}, {urls[0], with, 1}, {urls[1], with, 1}, {urls[0], bare, 0}} {
		if o := s.Send(context.Background(), secured(tt.url, tt.setting), "msg_1", nil); o.HTTPStatus != http.StatusPermanentRedirect {
			t.Errorf("message %d: %+v", i+1, o)
		}
		if got := <-shown; got != tt.want {
			t.Errorf("message %d: %d certificates were shown, want %d", i+1, got, tt.want)
		}
	}
}

// A setting does not lead around the address guard, nor the check of ports.
func TestGuardWithOwnAuthority(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t, "ours")
	r := newTLSReceiver(t, &tls.Config{Certificates: []tls.Certificate{ours.here(time.Now().Add(time.Hour)).Certificate}})
	named := strings.Replace(r.url, "127.0.0.1", "localhost", 1)
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	for name, o := range map[string]Options{"address": {}, "port": {AllowCIDRs: loopback, Ports: []int{443}}} {
		s := NewSender(o)
		t.Cleanup(s.Close)
		if o := s.Send(context.Background(), secured(named, waypost.TLS{CACertificate: ours.pem}), "msg_1", nil); o.ErrorClass != waypost.ClassAddress {
			t.Errorf("%s: %+v", name, o)
		}
	}
	s := newSender(t)
	conf, fault := configOf(waypost.TLS{CACertificate: ours.pem})
	if fault != nil {
		t.Fatal(fault)
	}
	if own := s.options.newTransport(conf, 1); own.Proxy != nil || own.TLSClientConfig.InsecureSkipVerify || own.TLSClientConfig.MinVersion != tls.VersionTLS12 {
		t.Errorf("a proxy would be asked, or anybody be believed")
	}
	if r.conns.Load() != 0 {
		t.Errorf("reached %d times", r.conns.Load())
	}
}

// What is not used is closed and forgotten, keys included; so is the oldest if there
// are too many, once it has ended what it does.
func TestUnusedSettingsAreDropped(t *testing.T) {
	t.Parallel()
	now := clock
	s := NewSender(Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Now: func() time.Time { return now }})
	t.Cleanup(s.Close)
	ours := newAuthority(t, "ours")
	closed := make(chan struct{}, 10)
	inside, leave := make(chan struct{}), make(chan struct{})
	slow := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside <- struct{}{}; <-leave }))
	slow.TLS = &tls.Config{Certificates: []tls.Certificate{ours.here(time.Now().Add(time.Hour)).Certificate}}
	slow.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			closed <- struct{}{}
		}
	}
	slow.StartTLS()
	t.Cleanup(slow.Close)
	setting := func(n int) waypost.TLS {
		return waypost.TLS{CACertificate: strings.Repeat("\n", n) + ours.pem}
	}
	known := func(n int) bool {
		s.own.mu.Lock()
		defer s.own.mu.Unlock()
		return s.own.m.Contains(setting(n))
	}

	// One that is in use is dropped for newer ones: it ends, and closes its connection.
	ended := make(chan waypost.Outcome)
	go func() { ended <- s.Send(context.Background(), secured(slow.URL, setting(0)), "msg_1", nil) }()
	<-inside
	for n := 1; n <= maxOwn; n++ {
		_, done, fault := s.own.take(setting(n), now.Add(time.Duration(n)))
		if fault != nil {
			t.Fatal(fault)
		}
		done()
	}
	if s.own.m.Len() != maxOwn || known(0) {
		t.Errorf("%d settings are kept; the oldest: %t", s.own.m.Len(), known(0))
	}
	close(leave)
	if o := <-ended; !o.Succeed {
		t.Errorf("the one in use: %+v", o)
	}
	<-closed

	// After a while what nobody uses goes, and what somebody uses stays.
	_, done, _ := s.own.take(setting(7), now)
	now = now.Add(idleTimeout + time.Second)
	s.Send(context.Background(), hook("http://127.0.0.1:1/"), "msg_1", nil)
	if s.own.m.Len() != 1 || !known(7) {
		t.Errorf("%d settings are kept", s.own.m.Len())
	}
	done()
	now = now.Add(idleTimeout + time.Second)
	s.Send(context.Background(), hook("http://127.0.0.1:1/"), "msg_1", nil)
	if s.own.m.Len() != 0 {
		t.Errorf("%d settings are kept in the end", s.own.m.Len())
	}
}

// A thousand settings, several of them in use at a time, hold no more connections than
// are allowed, and leave none behind, and no goroutine.
func TestSettingsDoNotPileUp(t *testing.T) {
	for http2, settings := range map[bool]int{false: 1000, true: 2 * maxOwn} {
		t.Run(fmt.Sprintf("HTTP/2 %t", http2), func(t *testing.T) {
			ours := newAuthority(t, "ours")
			var open, most atomic.Int32
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			srv.TLS = &tls.Config{Certificates: []tls.Certificate{ours.here(time.Now().Add(time.Hour)).Certificate}}
			srv.EnableHTTP2 = http2
			srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				switch s {
				case http.StateNew:
					most.Store(max(most.Load(), open.Add(1)))
				case http.StateClosed:
					open.Add(-1)
				}
			}
			srv.StartTLS()
			t.Cleanup(srv.Close)
			before := runtime.NumGoroutine()
			s := newSender(t)
			const senders = 10
			var group sync.WaitGroup
			for sender := range senders {
				group.Go(func() {
					for n := range settings / senders {
						setting := waypost.TLS{CACertificate: fmt.Sprintf("%d of %d\n%s", n, sender, ours.pem)}
						if o := s.Send(context.Background(), secured(srv.URL, setting), "msg_1", nil); !o.Succeed {
							t.Errorf("outcome %+v", o)
						}
					}
				})
			}
			group.Wait()
			if n := s.own.m.Len(); n > maxOwn {
				t.Errorf("%d settings are kept", n)
			}
			if n := most.Load(); n > maxOwn+5*senders {
				t.Errorf("up to %d connections at a time", n)
			}
			s.Close()
			for end := time.Now().Add(20 * time.Second); open.Load() > 0 || runtime.NumGoroutine() > before+5; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d connections and %d goroutines are left of %d", open.Load(), runtime.NumGoroutine(), before)
				}
			}
		})
	}
}
