package webhook

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
)

// resolverOf asks a name server that answers A and AAAA questions with what addrs
// returns for the nth question of that type, from 1.
func resolverOf(t testing.TB, addrs func(n int) []netip.Addr) *net.Resolver {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go func() {
		asked := map[uint16]int{}
		for buf := make([]byte, 512); ; {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			// A header of 12 bytes, and the question: a name, its type and class (RFC 1035).
			end := 12 + slices.Index(buf[12:n], 0) + 5
			kind := binary.BigEndian.Uint16(buf[end-4:])
			asked[kind]++
			reply := slices.Clone(buf[:end])
			copy(reply[2:12], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
			for _, addr := range addrs(asked[kind]) {
				if addr.Is4() == (kind == 1) {
					reply[7]++
					reply = append(append(reply, 0xc0, 12), buf[end-4:end]...)
					reply = binary.BigEndian.AppendUint32(reply, 0) // for no time at all
					reply = append(binary.BigEndian.AppendUint16(reply, uint16(addr.BitLen()/8)), addr.AsSlice()...)
				}
			}
			if _, err := server.WriteTo(reply, from); err != nil {
				return
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

func addrs(list ...string) (all []netip.Addr) {
	for _, a := range list {
		all = append(all, netip.MustParseAddr(a))
	}
	return all
}

// named is the URL under a name that only a resolver of a test knows.
func named(url string) string {
	return strings.Replace(url, "127.0.0.1", "receiver.example", 1)
}

// A name that leads elsewhere the second time is looked at the second time; of several
// addresses, of either family, only those are tried that may be.
func TestNamesAreCheckedAtEachDial(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	url := listen(t, func(_ int, conn *net.TCPConn) {
		reached.Add(1)
		if readRequest(bufio.NewReader(conn)) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
		}
	})
	// The receiver has 127.0.0.1, which is allowed here. 127.0.0.2, where it listens not,
	// would refuse connections.
	const allowed = "127.0.0.1/32"
	for _, tt := range []struct {
		name    string
		answers [][]netip.Addr // the last one repeats
		classes []string       // of one message after the other
	}{
		{"the same", [][]netip.Addr{addrs("127.0.0.1")}, []string{"", "", ""}},
		{"a neighbour", [][]netip.Addr{addrs("127.0.0.2")}, []string{waypost.ClassAddress}},
		{"another one the second time", [][]netip.Addr{addrs("127.0.0.1"), addrs("169.254.169.254")}, []string{"", waypost.ClassAddress}},
		{"the first time", [][]netip.Addr{addrs("10.0.0.1"), addrs("127.0.0.1")}, []string{waypost.ClassAddress, ""}},
		{"among others", [][]netip.Addr{addrs("127.0.0.2", "10.0.0.1", "127.0.0.1")}, []string{""}},
		{"IPv6 first", [][]netip.Addr{addrs("::1", "fd00::1", "127.0.0.1")}, []string{""}},
		{"IPv6 alone", [][]netip.Addr{addrs("::1", "64:ff9b::7f00:2", "2002:7f00:2::1", "::ffff:127.0.0.2")}, []string{waypost.ClassAddress}},
		{"IPv4 in IPv6", [][]netip.Addr{addrs("::ffff:127.0.0.1")}, []string{""}},
		{"nothing", [][]netip.Addr{nil}, []string{waypost.ClassNetwork}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := NewSender(Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix(allowed)}})
			t.Cleanup(s.Close)
			s.options.resolver = resolverOf(t, func(n int) []netip.Addr { return tt.answers[min(n, len(tt.answers))-1] })
			for i, class := range tt.classes {
				before := reached.Load()
				o := s.Send(context.Background(), hook(named(url)), "msg_1", nil)
				checkOutcome(t, o)
				if o.ErrorClass != class || (reached.Load() > before) != (class == "") {
					t.Errorf("message %d: %+v, reached %d times", i+1, o, reached.Load()-before)
				}
			}
		})
	}
}

// A resolver that does not answer does not hold a message for longer than its
// time-out.
func TestTimeoutCoversResolving(t *testing.T) {
	t.Parallel()
	s := newSender(t)
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	s.options.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", silent.LocalAddr().String())
	}}
	w := hook("http://receiver.example/")
	w.TimeoutMs = 100
	start := time.Now()
	if o := s.Send(context.Background(), w, "msg_1", nil); o.ErrorClass != waypost.ClassTimeout || time.Since(start) > 8*time.Second {
		t.Errorf("after %v: %+v", time.Since(start), o)
	}
}

// Proxies that the environment names get nothing. Programs read it once, so that the
// test runs itself again; net/http never asks a proxy for addresses of this machine,
// hence the name.
func TestNoProxyFromTheEnvironment(t *testing.T) {
	const again = "WEBHOOK_TEST_URLS"
	if urls := os.Getenv(again); urls != "" {
		plain, secure, _ := strings.Cut(urls, " ")
		s := newSender(t)
		s.options.resolver = resolverOf(t, func(int) []netip.Addr { return addrs("127.0.0.1") })
		if proxy, err := http.ProxyFromEnvironment(httptest.NewRequest(http.MethodPost, plain, nil)); err != nil || proxy == nil {
			t.Fatalf("the environment names no proxy: %v", err)
		}
		if o := s.Send(context.Background(), hook(plain), "msg_1", nil); !o.Succeed {
			t.Errorf("http: %+v", o)
		}
		if o := s.Send(context.Background(), hook(secure), "msg_1", nil); o.ErrorClass != waypost.ClassTLS {
			t.Errorf("https: %+v", o)
		}
		return
	}
	t.Parallel()
	var asked atomic.Int32
	proxy := listen(t, func(_ int, conn *net.TCPConn) { asked.Add(1) })
	receiver := listen(t, func(_ int, conn *net.TCPConn) {
		if readRequest(bufio.NewReader(conn)) {
			io.WriteString(conn, ok(""))
		}
	})
	secure := newTLSReceiver(t, nil)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoProxyFromTheEnvironment$")
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		cmd.Env = append(cmd.Env, name+"="+proxy)
	}
	cmd.Env = append(cmd.Env, again+"="+named(receiver)+" "+named(secure.url))
	if out, err := cmd.CombinedOutput(); err != nil || asked.Load() != 0 {
		t.Errorf("%v, a proxy was asked %d times\n%s", err, asked.Load(), out)
	}
}

// What a receiver sets with one answer is not sent with the next message.
func TestNothingIsRemembered(t *testing.T) {
	t.Parallel()
	var odd atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if len(r.Cookies()) > 0 || r.Referer() != "" || r.Header.Get("Authorization") != "" {
			odd.Add(1)
		}
		http.SetCookie(rw, &http.Cookie{Name: "session", Value: "1", Path: "/"})
		rw.Header().Set("Alt-Svc", `h2="elsewhere.example:443"`)
		rw.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		rw.Header().Set("Strict-Transport-Security", "max-age=1000")
	}))
	t.Cleanup(srv.Close)
	s := newSender(t)
	for _, path := range []string{"/a", "/b", "/a"} {
		if o := s.Send(context.Background(), hook(srv.URL+path), "msg_1", nil); !o.Succeed {
			t.Errorf("%s: %+v", path, o)
		}
	}
	if odd.Load() != 0 {
		t.Errorf("%d messages carried something", odd.Load())
	}
}
