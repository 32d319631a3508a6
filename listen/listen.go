// Package listen accepts connections from clients that may want to do harm. It bounds how many there are, goes
// on when the process runs out of descriptors, bounds the time of TLS handshakes, and follows
// requests of HTTP/1.1 to refuse those that two servers could see end in different places.
//
// # Files by topic
//
//   - accepting, and the bounds of connections: listen.go
//   - TLS: tls.go
//   - where requests end: framing.go, handler.go
package listen

import (
	"container/list"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Options are the bounds of a Listener. The zero Options bound nothing, and serve no TLS.
type Options struct {
	Most          int            // connections at a time; 0: any number
	MostOfAddress int            // of one address, where an IPv6 address is its /64; 0: any number
	Trusted       []netip.Prefix // networks of proxies, to which MostOfAddress does not apply
	TLS           *tls.Config    // nil: none
	Log           *slog.Logger   // nil: none
}

// Listener is a listener for fasthttp, which calls Idle after each answer, and for net/http (Serve). A
// connection beyond a bound takes the place of the one that has waited longest for a request, but not that
// of an address with far fewer connections (longestIdle). If there is none, one beyond Most takes the place
// of the longest request of the address with the most connections, if that has far more (displaceBusy);
// else it is closed.
type Listener struct {
	net.Listener
	Options

	closed chan struct{}
	close  sync.Once
	ready  chan net.Conn // whose TLS handshakes are done; nil without TLS

	mu     sync.Mutex
	peers  map[netip.Prefix]*peer // the addresses that MostOfAddress applies to
	idle   list.List              // of *conn, the one that has waited longest first
	counts Counts
	warned time.Time // when an error of accept was logged last
}

// Counts are what has happened to a listener so far, and how many connections are open now.
type Counts struct {
	Open           int
	Refused        uint64 // by Most
	RefusedAddress uint64 // by MostOfAddress
	Displaced      uint64 // closed for others or for want of descriptors
	Failed         uint64 // errors of accept
}

// peer is an address with connections.
type peer struct {
	open int
	idle list.List // as Listener.idle
	busy list.List // of *conn, the one whose requests have been under way longest first
}

// New bounds a listener, which ends with the Listener.
func New(l net.Listener, o Options) *Listener {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	out := &Listener{Listener: l, Options: o, closed: make(chan struct{}), peers: map[netip.Prefix]*peer{}}
	if o.TLS != nil {
		out.ready = make(chan net.Conn)
		go out.handshakes()
	}
	return out
}

// Counts reads the counts.
func (l *Listener) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// Close ends the listener; connections that were accepted go on.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// Accept waits for the next connection. Its error is that the listener was closed.
func (l *Listener) Accept() (net.Conn, error) {
	if l.ready != nil {
		select {
		case c := <-l.ready:
			return c, nil
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
	c, err := l.accept()
	if err != nil {
		return nil, err
	}
	return &framed{Conn: c, of: c}, nil
}

// Pauses after an error of accept, as those of net/http.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// accept waits for a connection within the bounds. What fails passes (EMFILE, ENFILE,
// ECONNABORTED, …), so it goes on until the listener is closed.
func (l *Listener) accept() (*conn, error) {
	pause := firstPause
	for {
		accepted, err := l.Listener.Accept()
		switch {
		case err == nil:
			pause = firstPause
			if c := l.admit(accepted); c != nil {
				return c, nil
			}
			continue
		case errors.Is(err, net.ErrClosed):
			l.close.Do(func() { close(l.closed) })
			return nil, err
		}
		l.relieve(err)
		select {
		case <-time.After(pause):
			pause = min(2*pause, lastPause)
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

// warnEvery is the least time between two log lines about errors of accept.
const warnEvery = time.Minute

// relieve counts an error of accept and closes an eighth of the connections that wait for a
// request, or one as displaceBusy does: most errors are for want of descriptors.
func (l *Listener) relieve(err error) {
	l.mu.Lock()
	l.counts.Failed++
	warn := time.Since(l.warned) >= warnEvery
	if warn {
		l.warned = time.Now()
	}
	var gone []*conn
	for n := (l.idle.Len() + 7) / 8; n > 0; n-- {
		gone = append(gone, l.displace(l.idle.Front()))
	}
	if len(gone) == 0 {
		if c := l.displaceBusy(0); c != nil {
			gone = append(gone, c)
		}
	}
	l.mu.Unlock()
	for _, c := range gone {
		_ = c.Conn.Close()
	}
	if warn {
		l.Log.Warn("connections cannot be accepted; it is tried again", "address", l.Addr().String(), "error", err)
	}
}

// admit makes room for a connection, or closes it and returns nil.
func (l *Listener) admit(accepted net.Conn) *conn {
	address, bounded := l.address(accepted)
	c := &conn{Conn: accepted, of: l, address: address}
	l.mu.Lock()
	if bounded {
		if c.peer = l.peers[address]; c.peer == nil {
			c.peer = &peer{}
			l.peers[address] = c.peer
		}
	}
	var gone *conn
	refused := false
	switch {
	case bounded && l.MostOfAddress > 0 && c.peer.open >= l.MostOfAddress:
		if gone = l.displace(c.peer.idle.Front()); gone == nil {
			refused = true
			l.counts.RefusedAddress++
		}
	case l.Most > 0 && l.counts.Open >= l.Most:
		if gone = l.displace(l.longestIdle(c.has())); gone == nil {
			gone = l.displaceBusy(c.has())
		}
		if gone == nil {
			refused = true
			l.counts.Refused++
		}
	}
	if !refused {
		l.add(c)
	} else if bounded && c.peer.open == 0 {
		delete(l.peers, address)
	}
	l.mu.Unlock()
	if gone != nil {
		_ = gone.Conn.Close()
	}
	if refused {
		_ = accepted.Close()
		return nil
	}
	return c
}

// address is whom a connection counts for, and whether MostOfAddress applies.
func (l *Listener) address(c net.Conn) (_ netip.Prefix, bounded bool) {
	peer, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Prefix{}, false // no address of the internet
	}
	addr := peer.Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	prefix, err := addr.Prefix(bits)
	trusted := slices.ContainsFunc(l.Trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
	return prefix, err == nil && !trusted
}

// displace takes a connection in one of the lists out of the listener; none stays nil. The caller holds mu,
// and closes the connection behind it without.
func (l *Listener) displace(at *list.Element) *conn {
	if at == nil {
		return nil
	}
	c := at.Value.(*conn)
	l.remove(c)
	l.counts.Displaced++
	return c
}

// longestIdle is the connection that has waited longest for a request, for an address that has some: who has
// many takes none of an address with less than half as many. The caller holds mu.
func (l *Listener) longestIdle(has int) *list.Element {
	at := l.idle.Front()
	for ; at != nil; at = at.Next() {
		if p := at.Value.(*conn).peer; p == nil || 2*p.open >= has {
			break
		}
	}
	return at
}

// displaceBusy takes the connection whose requests have been under way longest out of the listener, of the
// address that has most, for an address that has some. It returns nil unless that has more than twice as
// many and more than a sixteenth of all: few addresses cannot keep all connections, by bodies that
// never come or answers that they do not read, and others lose none. The caller holds mu.
func (l *Listener) displaceBusy(has int) *conn {
	var most *peer
	for _, p := range l.peers {
		if p.busy.Len() > 0 && (most == nil || p.open > most.open) {
			most = p
		}
	}
	if most == nil || most.open <= 2*(has+1) || most.open <= l.Most/16 {
		return nil
	}
	return l.displace(most.busy.Front())
}

// has is how many connections its address has, 0 of a proxy.
func (c *conn) has() int {
	if c.peer == nil {
		return 0
	}
	return c.peer.open
}

func (l *Listener) add(c *conn) {
	l.counts.Open++
	if c.peer != nil {
		l.peers[c.address] = c.peer // again, if its only other connection was displaced for this one
		c.peer.open++
	}
	c.wait()
}

// remove takes a connection out of the listener, once.
func (l *Listener) remove(c *conn) {
	if c.removed {
		return
	}
	c.removed = true
	c.leave()
	l.counts.Open--
	if c.peer == nil {
		return
	}
	if c.peer.open--; c.peer.open == 0 && l.peers[c.address] == c.peer {
		delete(l.peers, c.address)
	}
}

// conn is a connection that a Listener counts. All but Conn and address is guarded by the listener's mu.
type conn struct {
	net.Conn
	of      *Listener
	address netip.Prefix
	peer    *peer // nil: MostOfAddress does not apply
	removed bool
	open    int // requests that have begun and are not answered
	// The places in the lists of those that wait for a request, and of the peer's others; nil while it
	// is not in it.
	inAll, inPeer, inBusy *list.Element
}

// wait puts it behind the others that wait for a request.
func (c *conn) wait() {
	c.leave()
	c.inAll = c.of.idle.PushBack(c)
	if c.peer != nil {
		c.inPeer = c.peer.idle.PushBack(c)
	}
}

// work takes it out of those that wait for a request.
func (c *conn) work() {
	if c.inAll == nil {
		return
	}
	c.leave()
	if c.peer != nil {
		c.inBusy = c.peer.busy.PushBack(c)
	}
}

// leave takes it out of the lists.
func (c *conn) leave() {
	if c.inAll != nil {
		c.of.idle.Remove(c.inAll)
	}
	if c.inPeer != nil {
		c.peer.idle.Remove(c.inPeer)
	}
	if c.inBusy != nil {
		c.peer.busy.Remove(c.inBusy)
	}
	c.inAll, c.inPeer, c.inBusy = nil, nil, nil
}

// change sets how many requests are under way by what change makes of it.
func (c *conn) change(change func(open int) int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.removed {
		return
	}
	c.open = max(0, change(c.open))
	switch {
	case c.open > 0:
		c.work()
	case c.inAll == nil:
		c.wait()
	}
}

// Close makes room for another connection.
func (c *conn) Close() error {
	c.of.mu.Lock()
	c.of.remove(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// Idle says that a request was answered, and that its connection waits for the next one.
func Idle(c net.Conn) {
	if counted := countedOf(c); counted != nil {
		counted.change(func(open int) int { return open - 1 })
	}
}

// Serve has a server of net/http answer what comes in, until one of them is closed.
func (l *Listener) Serve(server *http.Server) error {
	server.Handler, server.ConnState = refusing(server.Handler), state
	return server.Serve(l)
}

// state is the ConnState of a server of net/http.
func state(c net.Conn, s http.ConnState) {
	_, http2 := c.(*tls.Conn) // whose requests nobody counts: it is Active while it has one
	switch counted := countedOf(c); {
	case counted == nil:
	case http2 && s == http.StateActive:
		counted.change(func(int) int { return 1 })
	case s == http.StateIdle:
		Idle(c)
	}
}

// countedOf finds a Listener's connection below those that others have wrapped around it.
func countedOf(c net.Conn) *conn {
	for {
		switch inner := c.(type) {
		case *conn:
			return inner
		case interface{ NetConn() net.Conn }:
			c = inner.NetConn()
		default:
			return nil
		}
	}
}
