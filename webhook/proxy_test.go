package webhook

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
)

// proxy is a forward proxy that makes the connections it is asked for.
type proxy struct {
	url string

	mu     sync.Mutex
	asked  []string // the targets
	logins []string
}

func newProxy(t *testing.T) *proxy {
	p := &proxy{}
	srv := httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(srv.Close)
	p.url = srv.URL
	return p
}

func (p *proxy) serve(rw http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.Host)
	p.logins = append(p.logins, r.Header.Get("Proxy-Authorization"))
	p.mu.Unlock()
	to, err := net.Dial("tcp", r.Host)
	if err != nil {
		rw.WriteHeader(http.StatusBadGateway)
		return
	}
	defer to.Close()
	rw.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(rw).Flush(); err != nil {
		return
	}
	from, rest, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return
	}
	defer from.Close()
	go func() {
		_, _ = io.Copy(to, rest)
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}

func (p *proxy) requests() (asked, logins []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked), slices.Clone(p.logins)
}

// through has a sender use a proxy.
func (s *Sender) through(t *testing.T, address string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	s.options.Proxy = u
}

// A proxy gets the address that was checked, whatever the receiver speaks, and its
// connections are kept.
func TestProxy(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t, "ours")
	over := newTLSReceiver(t, &tls.Config{Certificates: []tls.Certificate{ours.here(time.Now().Add(time.Hour)).Certificate}})
	plain := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "" {
			rw.WriteHeader(http.StatusTeapot)
		}
	}))
	t.Cleanup(plain.Close)
	for _, tt := range []struct {
		name, user, login string
		hook              waypost.Webhook
	}{
		{"http", "", "", hook(named(plain.URL))},
		{"https", "", "", secured(over.url, waypost.TLS{CACertificate: ours.pem})},
		{"with a password", "ada:pa%20ss@", "Basic YWRhOnBhIHNz", hook(named(plain.URL))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			attempts(t, func() string {
				p, s := newProxy(t), newSender(t)
				s.through(t, strings.Replace(p.url, "//", "//"+tt.user, 1))
				s.options.resolver = resolverOf(t, func(int) []netip.Addr { return addrs("127.0.0.1") })
				for range 3 {
					if o := s.Send(context.Background(), tt.hook, "msg_1", []byte("{}")); !o.Succeed {
						return fmt.Sprintf("%+v", o)
					}
				}
				u, err := url.Parse(tt.hook.URL)
				if err != nil {
					t.Fatal(err)
				}
				asked, logins := p.requests()
				if want := []string{"CONNECT 127.0.0.1:" + u.Port()}; !slices.Equal(asked, want) || logins[0] != tt.login {
					return fmt.Sprintf("the proxy was asked %q with %q, want %q with %q", asked, logins, want, tt.login)
				}
				return ""
			})
		})
	}
}

// The guard looks at what a name resolves to, and the proxy hears of nothing else; of
// several addresses those are tried in turn that may be.
func TestProxyUnderTheGuard(t *testing.T) {
	t.Parallel()
	receiver := listen(t, func(_ int, conn *net.TCPConn) {
		if readRequest(bufio.NewReader(conn)) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
		}
	})
	u, err := url.Parse(receiver)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		answers []netip.Addr
		class   string
		asked   []string
	}{
		{"refused", addrs("10.0.0.1", "169.254.169.254", "::1"), waypost.ClassAddress, nil},
		{"one that may be", addrs("10.0.0.1", "127.0.0.1"), "", []string{"127.0.0.1"}},
		{"one that does not listen", addrs("127.0.0.2", "10.0.0.1"), waypost.ClassNetwork, []string{"127.0.0.2"}},
		{"none", nil, waypost.ClassNetwork, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, s := newProxy(t), newSender(t)
			s.through(t, p.url)
			s.options.resolver = resolverOf(t, func(int) []netip.Addr { return tt.answers })
			o := s.Send(context.Background(), hook(named(receiver)), "msg_1", nil)
			checkOutcome(t, o)
			var want []string
			for _, a := range tt.asked {
				want = append(want, "CONNECT "+a+":"+u.Port())
			}
			if asked, _ := p.requests(); o.ErrorClass != tt.class || !slices.Equal(asked, want) {
				t.Errorf("%+v, the proxy was asked %q, want %q", o, asked, want)
			}
		})
	}
	s := newSender(t)
	s.options.Ports = []int{1}
	p := newProxy(t)
	s.through(t, p.url)
	if o := s.Send(context.Background(), hook(receiver), "msg_1", nil); o.ErrorClass != waypost.ClassAddress {
		t.Errorf("another port: %+v", o)
	}
	if asked, _ := p.requests(); asked != nil {
		t.Errorf("asked %q", asked)
	}
}

// Whatever a proxy does is a fault of the network, for which the receiver's certificate
// and answers are not blamed, and costs no more than the webhook's time.
func TestProxyThatFails(t *testing.T) {
	t.Parallel()
	answer := func(text string) func(int, *net.TCPConn) {
		return func(_ int, conn *net.TCPConn) {
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				io.WriteString(conn, text)
			}
		}
	}
	for _, tt := range []struct {
		name, says string
		serve      func(n int, conn *net.TCPConn)
	}{
		{"refuses", "gave no connection to the receiver (403)", answer("HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno\n")},
		{"wants a password", "gave no connection to the receiver (407)", answer("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")},
		{"redirects", "gave no connection to the receiver (302)", answer("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n")},
		{"speaks first", "does not answer", answer("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")},
		{"says nothing", "does not answer", answer("")},
		{"speaks something else", "does not answer", answer("SSH-2.0-OpenSSH\r\n")},
		{"never ends its header", "does not answer", func(_ int, conn *net.TCPConn) {
			_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
			for err == nil {
				_, err = io.WriteString(conn, "A: b\r\n")
			}
		}},
		{"hangs up", "does not answer", func(_ int, conn *net.TCPConn) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSender(t)
			s.through(t, listen(t, tt.serve))
			for _, scheme := range []string{"http", "https"} {
				o := s.Send(context.Background(), hook(scheme+"://127.0.0.1:1/"), "msg_1", nil)
				checkOutcome(t, o)
				if want := "the proxy for webhooks " + tt.says; o.ErrorClass != waypost.ClassNetwork || o.Message != want {
					t.Errorf("%s: %+v, want %s", scheme, o, want)
				}
			}
		})
	}
	s := newSender(t)
	s.through(t, "http://127.0.0.1:1")
	if o := s.Send(context.Background(), hook("http://127.0.0.1:1/"), "msg_1", nil); o.ErrorClass != waypost.ClassNetwork || o.Message != "the proxy for webhooks cannot be reached" {
		t.Errorf("away: %+v", o)
	}
	left := make(chan struct{})
	s.through(t, listen(t, func(_ int, conn *net.TCPConn) {
		_, _ = io.Copy(io.Discard, conn)
		close(left)
	}))
	w := hook("http://127.0.0.1:1/")
	w.TimeoutMs = 100
	if o := s.Send(context.Background(), w, "msg_1", nil); o.ErrorClass != waypost.ClassTimeout {
		t.Errorf("silent: %+v", o)
	}
	select {
	case <-left:
	case <-time.After(time.Minute):
		t.Error("the connection to a silent proxy stays")
	}
}

// An address that a proxy cannot reach, and does not say so, leaves time for the next.
func TestProxyHasTimeForAllAddresses(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)
	p, s := newProxy(t), newSender(t)
	hanging := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Host, "127.0.0.2:") {
			<-r.Context().Done()
			return
		}
		p.serve(rw, r)
	}))
	t.Cleanup(hanging.Close)
	s.through(t, hanging.URL)
	s.options.resolver = resolverOf(t, func(int) []netip.Addr { return addrs("127.0.0.2", "127.0.0.1") })
	w := hook(named(receiver.URL))
	w.TimeoutMs = 6000
	if o := s.Send(context.Background(), w, "msg_1", nil); !o.Succeed {
		t.Errorf("%+v", o)
	}
	if asked, _ := p.requests(); len(asked) != 1 {
		t.Errorf("the proxy was asked %q", asked)
	}
}
