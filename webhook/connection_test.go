package webhook

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"waypost"
)

func TestConnectionIsReused(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		ok(""), ok(`{"succeed":true}`), answer("503 Busy", "", "busy"), "HTTP/1.1 204 No Content\r\n\r\n",
		answer("200 OK", "Content-Encoding: gzip\r\n", zipped(t, `{"succeed":false}`)),
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
	} {
		attempts(t, func() string {
			var conns, requests atomic.Int32
			url := listen(t, func(n int, conn *net.TCPConn) {
				conns.Store(int32(n))
				for r := bufio.NewReader(conn); readRequest(r); {
					requests.Add(1)
					io.WriteString(conn, raw)
				}
			})
			s := newSender(t)
			for range 20 {
				checkOutcome(t, s.Send(context.Background(), hook(url), "msg_1", []byte("{}")))
			}
			if conns.Load() != 1 || requests.Load() != 20 {
				return fmt.Sprintf("%.30q: %d connections for %d requests", raw, conns.Load(), requests.Load())
			}
			return ""
		})
	}
}

// TestKeptConnectionClosed has a receiver that drops a kept connection when the
// next request arrives on it, politely and not.
func TestKeptConnectionClosed(t *testing.T) {
	t.Parallel()
	for name, drop := range map[string]func(*net.TCPConn){
		"closed": func(*net.TCPConn) {},
		"reset":  func(conn *net.TCPConn) { conn.SetLinger(0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attempts(t, func() string {
				var seen atomic.Int32
				url := listen(t, func(_ int, conn *net.TCPConn) {
					r := bufio.NewReader(conn)
					if readRequest(r) {
						seen.Add(1)
						io.WriteString(conn, ok(`{"succeed":true}`))
					}
					if readRequest(r) {
						seen.Add(1)
						drop(conn)
					}
				})
				s := newSender(t)
				for i, want := range []int32{1, 3, 4, 6} { // every other one is dropped once and repeated, on a connection that is not kept
					o := s.Send(context.Background(), hook(url), "msg_1", []byte(`{"a":1}`))
					if !o.Succeed {
						t.Fatalf("message %d: %+v", i+1, o)
					}
					if got := seen.Load(); got != want {
						return fmt.Sprintf("message %d: %d requests so far, want %d", i+1, got, want)
					}
				}
				return ""
			})
		})
	}
}

func TestNewConnectionClosedIsNotRepeated(t *testing.T) {
	t.Parallel()
	var seen atomic.Int32
	url := listen(t, func(_ int, conn *net.TCPConn) {
		if readRequest(bufio.NewReader(conn)) {
			seen.Add(1)
			conn.SetLinger(0)
		}
	})
	o := newSender(t).Send(context.Background(), hook(url), "msg_1", []byte(`{"a":1}`))
	if o.ErrorClass != waypost.ClassNetwork || o.Message != "connection reset" || seen.Load() != 1 {
		t.Errorf("%d requests, outcome %+v", seen.Load(), o)
	}
}

func TestConnectionRefused(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for scheme, want := range map[string]string{"http": "connection refused", "https": "connection refused"} {
		w := hook(scheme + "://" + l.Addr().String() + "/secret-path?token=secret")
		w.BasicAuth = &waypost.BasicAuth{Username: "u", Password: "secret"}
		o := newSender(t).Send(context.Background(), w, "msg_1", []byte("secret"))
		if o.ErrorClass != waypost.ClassNetwork || o.Message != want || o.HTTPStatus != 0 {
			t.Errorf("%s: %+v", scheme, o)
		}
	}
}

// TestFaultTexts checks the errors that this machine cannot bring about, and that
// no text repeats what an error holds.
func TestFaultTexts(t *testing.T) {
	t.Parallel()
	const secret = "secret.example"
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	tests := []struct {
		err  error
		want fault
	}{
		{dial(&net.DNSError{Name: secret, Err: "no such host", IsNotFound: true}), fault{waypost.ClassNetwork, "the host name does not resolve"}},
		{dial(&net.DNSError{Name: secret, Err: "i/o timeout", IsTimeout: true}), fault{waypost.ClassNetwork, "the host name cannot be resolved at the moment"}},
		{dial(syscall.EHOSTUNREACH), fault{waypost.ClassNetwork, "no route to the host"}},
		{dial(syscall.ETIMEDOUT), fault{waypost.ClassTimeout, "the connection could not be made in time"}},
		{dial(syscall.EMFILE), fault{waypost.ClassNetwork, "the connection failed"}},
		{dial(&refusedError{"refused"}), fault{waypost.ClassAddress, "refused"}},
		{errors.New(secret), fault{waypost.ClassNetwork, "the connection failed"}},
		{errors.New("tls: " + secret), fault{waypost.ClassTLS, "the TLS handshake failed"}},
	}
	for _, tt := range tests {
		if got := *faultOf(context.Background(), tt.err); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.err, got, tt.want)
		}
	}
}

func TestTLSFaults(t *testing.T) {
	t.Parallel()
	serve := func(t *testing.T, setup func(*httptest.Server)) string {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		srv.TLS = &tls.Config{}
		setup(srv)
		srv.StartTLS()
		t.Cleanup(srv.Close)
		return srv.URL
	}
	roots := x509.NewCertPool()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certificate := func(notAfter time.Time, ip net.IP) tls.Certificate {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(notAfter.Unix()), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{ip},
			NotBefore: notAfter.Add(-time.Hour), NotAfter: notAfter, IsCA: true, BasicConstraintsValid: true,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		roots.AddCert(leaf)
		return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
	}
	here := net.IPv4(127, 0, 0, 1)
	good := certificate(time.Now().Add(time.Hour), here)
	tests := []struct {
		name  string
		setup func(*httptest.Server)
		want  string
	}{
		{"unknown authority", func(*httptest.Server) {}, "the certificate is not signed by a known authority"},
		{"expired", func(s *httptest.Server) {
			s.TLS.Certificates = []tls.Certificate{certificate(time.Now().Add(-time.Minute), here)}
		}, "the certificate has expired or is not valid yet"},
		{"another host", func(s *httptest.Server) {
			s.TLS.Certificates = []tls.Certificate{certificate(time.Now().Add(time.Hour), net.IPv4(127, 0, 0, 2))}
		}, "the certificate is for another host name"},
		{"old version", func(s *httptest.Server) {
			s.TLS.Certificates, s.TLS.MaxVersion = []tls.Certificate{good}, tls.VersionTLS11
		}, "the TLS handshake failed"},
		{"wants our certificate", func(s *httptest.Server) {
			s.TLS.Certificates, s.TLS.ClientAuth = []tls.Certificate{good}, tls.RequireAnyClientCert
		}, "the receiver misses a client certificate, or refuses it"},
		{"good", func(s *httptest.Server) { s.TLS.Certificates = []tls.Certificate{good} }, ""},
	}
	for _, tt := range tests {
		url := serve(t, tt.setup)
		s := newSender(t)
		s.transport.TLSClientConfig.RootCAs = roots
		o := s.Send(context.Background(), hook(url), "msg_1", nil)
		if tt.want == "" && !o.Succeed || tt.want != "" && (o.ErrorClass != waypost.ClassTLS || o.Message != tt.want) {
			t.Errorf("%s: %+v", tt.name, o)
		}
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	o := newSender(t).Send(context.Background(), hook(strings.Replace(plain.URL, "http", "https", 1)), "msg_1", nil)
	if o.ErrorClass != waypost.ClassTLS || o.Message != "the receiver does not speak TLS" {
		t.Errorf("plain HTTP: %+v", o)
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var followed atomic.Int32
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	t.Cleanup(target.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		srv := httptest.NewServer(http.RedirectHandler(target.URL, status))
		t.Cleanup(srv.Close)
		o := newSender(t).Send(context.Background(), hook(srv.URL), "msg_1", []byte("{}"))
		if o.HTTPStatus != status || o.ErrorClass != waypost.ClassHTTPStatus || followed.Load() != 0 {
			t.Errorf("%d: %+v, followed %d times", status, o, followed.Load())
		}
	}
}

// TestGuardAtTheDial sends to a real listener, whose address is an inner one.
func TestGuardAtTheDial(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	url := listen(t, func(_ int, conn *net.TCPConn) { reached.Add(1) })
	port := netip.MustParseAddrPort(strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/hook")).Port()
	named := strings.Replace(url, "127.0.0.1", "localhost", 1) // found inner only once it is resolved
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	for _, tt := range []struct {
		name, url string
		o         Options
	}{
		{"literal", url, Options{}},
		{"name", named, Options{}},
		{"name, something else allowed", named, Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}},
		{"port", named, Options{AllowCIDRs: loopback, Ports: []int{int(port) ^ 1, 443}}},
	} {
		s := NewSender(tt.o)
		t.Cleanup(s.Close)
		if o := s.Send(context.Background(), hook(tt.url), "msg_1", nil); o.ErrorClass != waypost.ClassAddress || o.Message == "" {
			t.Errorf("%s: %+v", tt.name, o)
		}
	}
	if reached.Load() != 0 {
		t.Fatalf("reached %d times", reached.Load())
	}
	s := NewSender(Options{AllowCIDRs: loopback, Ports: []int{int(port)}})
	t.Cleanup(s.Close)
	if o := s.Send(context.Background(), hook(named), "msg_1", nil); o.ErrorClass != waypost.ClassNetwork || reached.Load() != 1 {
		t.Errorf("allowed: %+v, reached %d times", o, reached.Load())
	}
	if s.transport.Proxy != nil {
		t.Error("a proxy would be asked")
	}
}

// TestAbandonedDialEnds holds net/http's habit in check of letting dials go on
// after their request has timed out.
func TestAbandonedDialEnds(t *testing.T) {
	t.Parallel()
	s := newSender(t)
	by := time.Now().Add(-time.Second)
	_, err := s.transport.DialContext(context.WithValue(context.Background(), exchangeKey{}, &exchange{by: by}), "tcp", "127.0.0.1:1")
	if !errors.Is(err, context.DeadlineExceeded) {
		if slow := net.Error(nil); !errors.As(err, &slow) || !slow.Timeout() {
			t.Errorf("dial: %v", err)
		}
	}
}
