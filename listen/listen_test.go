package listen

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// served is a server of net/http behind a Listener. It answers /wait once release is closed.
type served struct {
	*Listener
	t       *testing.T
	reached chan struct{} // one for each request that waits
	release chan struct{}
}

func start(t *testing.T, on net.Listener, o Options) *served {
	t.Helper()
	s := &served{t: t, Listener: New(on, o), reached: make(chan struct{}, 100), release: make(chan struct{})}
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/wait" {
				s.reached <- struct{}{}
				<-s.release
			}
			_, _ = io.WriteString(w, r.Proto)
		}),
	}
	if o.TLS != nil {
		server.TLSConfig = o.TLS.Clone()
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(server) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("it ended with %v", err)
		}
	})
	return s
}

func loopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// client is a connection from an address of the loopback network.
type client struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

func (s *served) from(address string) *client {
	s.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c, err := dialer.Dial("tcp", s.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		s.t.Fatal(err)
	}
	return &client{c, s.t, bufio.NewReader(c)}
}

// ask sends a request on the connection, and tells whether it was answered; the
// connection is closed if not.
func (c *client) ask(path string) bool {
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", path); err != nil {
		return false
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err == nil && res.StatusCode == http.StatusOK
}

// closed waits for the end of the connection.
func (c *client) closed() bool {
	_, err := c.in.ReadByte()
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// until waits for what another goroutine makes true.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for ends := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(ends) {
			t.Fatal("never: " + what)
		}
	}
}

// A connection beyond a bound takes the place of the one that has waited longest, of its
// address if that has too many; one that is answered keeps its place.
func TestBounds(t *testing.T) {
	t.Parallel()
	s := start(t, loopback(t), Options{Most: 4, MostOfAddress: 2})
	first, second := s.from("127.0.0.2"), s.from("127.0.0.2")
	if !first.ask("/") || !second.ask("/") || !first.ask("/") {
		t.Fatal("not answered")
	}
	until(t, "both wait", func() bool { return s.idles() == 2 })
	third := s.from("127.0.0.2")
	if !second.closed() || !first.ask("/") || !third.ask("/") {
		t.Error("of one address, the third has not taken the place of the one that waited longest")
	}
	others := []*client{s.from("127.0.0.3"), s.from("127.0.0.4")}
	for _, c := range others {
		if !c.ask("/") {
			t.Error("others are not answered")
		}
	}
	until(t, "all wait", func() bool { return s.idles() == 4 })
	fifth := s.from("127.0.0.5")
	if !fifth.ask("/") || !first.closed() {
		t.Error("the fifth has not taken the place of the one that waited longest")
	}
	if got := s.Counts(); got != (Counts{Open: 4, Displaced: 2}) {
		t.Errorf("counts %+v", got)
	}

	for _, c := range []*client{third, others[0], others[1], fifth} {
		go c.ask("/wait")
		<-s.reached
	}
	if !s.from("127.0.0.6").closed() {
		t.Error("a connection was accepted although all others are being answered")
	}
	if got := s.Counts(); got != (Counts{Open: 4, Displaced: 2, Refused: 1}) {
		t.Errorf("counts %+v", got)
	}
	close(s.release)
	until(t, "all are answered", func() bool { return s.idles() == 4 })
	if !s.from("127.0.0.6").ask("/") {
		t.Error("nobody is let in afterwards")
	}
}

func (l *Listener) idles() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idle.Len()
}

// An address that answers hold is refused more; a proxy that is trusted is not.
func TestAddressBound(t *testing.T) {
	t.Parallel()
	for trusted, want := range map[string]Counts{
		"10.0.0.0/8":   {Open: 2, RefusedAddress: 1},
		"127.0.0.0/16": {Open: 3},
	} {
		s := start(t, loopback(t), Options{Most: 10, MostOfAddress: 2, Trusted: []netip.Prefix{netip.MustParsePrefix(trusted)}})
		for range 2 {
			go s.from("127.0.0.2").ask("/wait")
			<-s.reached
		}
		third := s.from("127.0.0.2")
		if want.Open == 2 && !third.closed() || want.Open == 3 && !third.ask("/") {
			t.Errorf("%s: the third connection", trusted)
		}
		if got := s.Counts(); got != want {
			t.Errorf("%s: counts %+v, want %+v", trusted, got, want)
		}
		close(s.release)
	}
}

// Half a request holds no place: it is displaced as one is that says nothing.
func TestHalfRequestsAreDisplaced(t *testing.T) {
	t.Parallel()
	s := start(t, loopback(t), Options{Most: 2})
	for range 2 {
		if _, err := io.WriteString(s.from("127.0.0.2"), "GET / HTTP/1.1\r\nHost:"); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "both are there", func() bool { return s.Counts().Open == 2 })
	for range 3 {
		c := s.from("127.0.0.3")
		if !c.ask("/") {
			t.Fatal("whole requests are not answered")
		}
		until(t, "it waits", func() bool { return s.idles() == 2 })
	}
}

// An IPv6 address counts as its /64, one that is IPv4 as that.
func TestAddresses(t *testing.T) {
	t.Parallel()
	l := New(loopback(t), Options{})
	defer l.Close()
	for addr, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1/32", "[::ffff:192.0.2.1]:80": "192.0.2.1/32", "[2001:db8::1:2:3:4]:80": "2001:db8::/64", "[fe80::1%eth0]:80": "fe80::/64",
	} {
		got, bounded := l.address(named{remote: addr})
		if got.String() != want || !bounded {
			t.Errorf("%s counts as %s, %t", addr, got, bounded)
		}
	}
}

type named struct {
	net.Conn
	remote string
}

func (n named) RemoteAddr() net.Addr { return address(n.remote) }

type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

// exhausted is a listener whose process has no descriptors until room is set.
type exhausted struct {
	net.Listener
	room   atomic.Bool
	errors atomic.Int32
}

func (e *exhausted) Accept() (net.Conn, error) {
	if !e.room.Load() {
		errs := []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED, syscall.ENOBUFS}
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", errs[int(e.errors.Add(1))%len(errs)])}
	}
	return e.Listener.Accept()
}

// Errors of accept are waited out, and idle connections make room.
func TestAcceptGoesOn(t *testing.T) {
	t.Parallel()
	on := &exhausted{Listener: loopback(t)}
	on.room.Store(true)
	s := start(t, on, Options{})
	waiting := s.from("127.0.0.2")
	if !waiting.ask("/") {
		t.Fatal("not answered")
	}
	until(t, "it waits", func() bool { return s.idles() == 1 })
	on.room.Store(false)
	if !s.from("127.0.0.3").ask("/") { // accept was called while there was room
		t.Error("not answered")
	}
	until(t, "four errors", func() bool { return on.errors.Load() >= 4 })
	if !waiting.closed() {
		t.Error("the idle connection stays")
	}
	on.room.Store(true)
	if !s.from("127.0.0.3").ask("/") {
		t.Error("not answered after the errors")
	}
	if got := s.Counts(); got.Failed < 4 || got.Displaced == 0 {
		t.Errorf("counts %+v", got)
	}
}

// Who connects and makes no handshake, or makes it slowly, is cut off, and keeps nobody waiting.
func TestHandshakes(t *testing.T) {
	handshakeTime = time.Second
	t.Cleanup(func() { handshakeTime = 5 * time.Second })
	certified := httptest.NewUnstartedServer(nil)
	certified.EnableHTTP2 = true
	certified.StartTLS()
	defer certified.Close()
	s := start(t, loopback(t), Options{Most: 10, TLS: &tls.Config{Certificates: certified.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}})
	silent, slow := s.from("127.0.0.2"), s.from("127.0.0.2")
	if _, err := slow.Write([]byte{0x16, 3, 1}); err != nil {
		t.Fatal(err)
	}
	for _, http2 := range []bool{true, false} {
		transport := certified.Client().Transport.(*http.Transport).Clone()
		transport.ForceAttemptHTTP2 = http2
		if !http2 {
			transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
		}
		res, err := (&http.Client{Transport: transport}).Get("https://" + s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if res.ProtoMajor == 2 != http2 {
			t.Errorf("answered by %s", res.Proto)
		}
		_ = res.Body.Close()
		transport.CloseIdleConnections()
	}
	if !silent.closed() || !slow.closed() {
		t.Error("a connection without a handshake goes on")
	}
	plain := s.from("127.0.0.2")
	if _, err := io.WriteString(plain, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if res, err := http.ReadResponse(plain.in, nil); err != nil || res.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP is answered %v, %v", res, err)
	}
	until(t, "all are closed", func() bool { return s.Counts().Open == 0 })
}

// An address whose requests hold most connections gives one to each other address that has far fewer; what
// addresses with few connections have under way goes on.
func TestFewAddressesKeepNobodyOut(t *testing.T) {
	t.Parallel()
	s := start(t, loopback(t), Options{Most: 40, MostOfAddress: 20})
	small := make(chan bool, 1)
	go func() { small <- s.from("127.0.0.9").ask("/wait") }()
	<-s.reached
	for i := range 39 {
		go s.from(fmt.Sprintf("127.0.0.%d", 2+i%2)).ask("/wait")
		<-s.reached
	}
	for i := range 3 {
		if !s.from(fmt.Sprintf("127.0.1.%d", 1+i)).ask("/") {
			t.Error("another address is kept out")
		}
	}
	if got := s.Counts(); got.Open != 40 || got.Refused != 0 || got.Displaced == 0 {
		t.Errorf("counts %+v", got)
	}
	// Who has many already gets no more of them.
	for range 12 {
		c, refused := s.from("127.0.1.9"), make(chan bool, 1)
		go func() { refused <- !c.ask("/wait") }()
		select {
		case <-s.reached:
		case <-refused:
		}
	}
	if got := s.Counts(); got.Refused == 0 || got.Open != 40 {
		t.Errorf("counts %+v", got)
	}
	close(s.release)
	if !<-small {
		t.Error("the request of a small address was cut off")
	}
}

// Who holds most connections, and dials again whenever one is cut, takes none of a small address that has yet
// to send its request.
func TestSmallAddressIsNotDisplaced(t *testing.T) {
	t.Parallel()
	s := start(t, loopback(t), Options{Most: 40, MostOfAddress: 20})
	for i := range 40 {
		go s.from(fmt.Sprintf("127.0.0.%d", 2+i%2)).ask("/wait")
		<-s.reached
	}
	small := s.from("127.0.1.1")
	until(t, "it is there", func() bool { return s.Counts().Displaced == 1 })
	for i := range 6 {
		if !s.from(fmt.Sprintf("127.0.0.%d", 2+i%2)).closed() {
			t.Error("an address with many connections got another one")
		}
	}
	if !small.ask("/") {
		t.Error("the small address was displaced")
	}
	close(s.release)
}

// A connection that takes the place of the only other one of its address counts for it.
func TestDisplacedByItself(t *testing.T) {
	t.Parallel()
	s := start(t, loopback(t), Options{Most: 3, MostOfAddress: 2})
	go s.from("127.0.0.9").ask("/wait")
	<-s.reached
	go s.from("127.0.0.8").ask("/wait")
	<-s.reached
	first := s.from("127.0.0.2")
	until(t, "the port is full", func() bool { return s.Counts().Open == 3 })
	go s.from("127.0.0.2").ask("/wait") // takes the place of first
	<-s.reached
	if !first.closed() {
		t.Error("the first one goes on")
	}
	s.mu.Lock()
	open := 0
	for _, p := range s.peers {
		open += p.open
	}
	s.mu.Unlock()
	if open != 3 {
		t.Errorf("%d of 3 connections count for their addresses", open)
	}
	close(s.release)
}
