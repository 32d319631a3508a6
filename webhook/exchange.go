package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// exchange is one POST as its connections know it: the value of exchangeKey in its
// context, and what net/http tells of it.
type exchange struct {
	by    time.Time // when its dials must be done
	dials atomic.Int32

	kept     atomic.Bool // it has a connection that served another one before
	begun    atomic.Bool // something of the message may have been sent
	answered atomic.Bool // a byte of an answer has come

	secured atomic.Pointer[tls.Conn] // what it goes out on, if that is TLS
}

type exchangeKey struct{}

// errDials says that the receiver takes connections and gives them up, over and over.
// net/http would go on with that as long as the exchange may last.
var errDials = errors.New("too many connections for one exchange")

// errRefused is what is left of the error of a receiver that had the message, or a part
// of it, and said that it did not look at it: with HTTP/2 by GOAWAY or by a stream that
// is reset with REFUSED_STREAM or PROTOCOL_ERROR.
var errRefused = errors.New("the receiver did not look at the message")

// roundTrip POSTs. If a connection that was kept from an earlier message ends before
// the receiver has begun to answer, or the receiver says there that it did not look at
// the message, it POSTs once more, on a new connection: others that were kept may be
// dead, too, and a receiver that reads a request and hangs up would get it on each of
// them. done is to be called when the answer was read.
func (x *exchange) roundTrip(t *http.Transport, req *http.Request) (resp *http.Response, done func(), err error) {
	ctx := context.WithValue(req.Context(), exchangeKey{}, x)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			x.kept.Store(false)
			x.secured.Store(nil)
		},
		GotConn:              func(got httptrace.GotConnInfo) { x.got(ctx, got) },
		WroteHeaders:         func() { x.begun.Store(true) },
		GotFirstResponseByte: func() { x.answered.Store(true) },
	})
	first, body := req.WithContext(ctx), req.GetBody
	// net/http repeats a request whose body it can have again, with HTTP/2 up to seven
	// times and then on other connections. Here it may as long as nothing was sent.
	first.GetBody = func() (io.ReadCloser, error) {
		if x.begun.Load() {
			return nil, errRefused
		}
		return body()
	}
	resp, err = t.RoundTrip(first)
	if err == nil || ctx.Err() != nil || !x.kept.Load() || x.answered.Load() || errors.As(err, new(streamError)) {
		return resp, func() {}, x.cause(err)
	}
	x.begun.Store(false)
	again := first.Clone(ctx)
	if again.Body, err = body(); err != nil {
		return nil, func() {}, err
	}
	once := t.Clone()
	once.MaxIdleConnsPerHost = -1 // none is kept
	resp, err = once.RoundTrip(again)
	return resp, once.CloseIdleConnections, x.cause(err)
}

// cause is why a POST failed with err. With TLS 1.3 a receiver refuses a client
// certificate after the client's part of the handshake is done. Where the POST is begun
// while that is being read, net/http tells only that it found the connection closed; the
// connection knows why.
func (x *exchange) cause(err error) error {
	secured := x.secured.Load()
	if err == nil || secured == nil {
		return err
	}
	if slow := net.Error(nil); errors.As(err, &slow) && slow.Timeout() || errors.Is(err, context.Canceled) {
		return err
	}
	// With HTTP/2 others may use the connection, unless it ended before the first of them.
	if secured.ConnectionState().NegotiatedProtocol == "h2" && !strings.Contains(err.Error(), "could not be established") {
		return err
	}
	// The connection is closed by now, so Read returns what ended the reading before. If it
	// is not, the deadline ends the Read at once.
	_ = secured.SetReadDeadline(time.Unix(1, 0))
	if _, ended := secured.Read(make([]byte, 1)); ended != nil && tlsFault(ended) != "" {
		return ended
	}
	return err
}

// got notes which connection the POST goes out on.
func (x *exchange) got(ctx context.Context, c httptrace.GotConnInfo) {
	x.kept.Store(c.Reused)
	inner, http2 := c.Conn, false
	secured, ok := inner.(*tls.Conn)
	x.secured.Store(secured)
	if ok {
		inner, http2 = secured.NetConn(), secured.ConnectionState().NegotiatedProtocol == "h2"
	}
	if own, ok := inner.(*conn); ok {
		own.take()
		if c.Reused && !http2 {
			own.settle(ctx)
		}
	}
}

// streamError is what net/http makes of a receiver that resets a stream of HTTP/2, an
// answer of a kind. That type has no name there; its method As fills in this one.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "stream reset" }

// dial makes the connections of exchanges, under the address guard.
func (o *Options) dial(ctx context.Context, network, address string) (net.Conn, error) {
	by := time.Time{}
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		if x.dials.Add(1) > maxDials {
			return nil, errDials
		}
		// net/http lets a dial outlive its request. Without this a receiver that
		// drops packets would collect open sockets at the rate of its messages.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, x.by)
		defer cancel()
		by = x.by
	}
	dial := (&net.Dialer{Timeout: dialTimeout, ControlContext: o.control, Resolver: o.resolver}).DialContext
	if o.Proxy != nil {
		dial = o.dialProxy
	}
	made, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	// The TLS handshake ends with the exchange, too.
	if err := made.SetDeadline(by); err != nil {
		return nil, errors.Join(err, made.Close())
	}
	return &conn{Conn: made, reading: make(chan struct{})}, nil
}

// conn is a connection that knows whether a Read waits for bytes of it.
type conn struct {
	net.Conn

	mu      sync.Mutex
	taken   bool
	closed  bool
	waits   bool
	reading chan struct{} // closed while waits
}

// take is called when an exchange gets the connection: it is good for longer than its
// dial may take.
func (c *conn) take() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.taken {
		c.taken = true
		_ = c.SetDeadline(time.Time{}) // fails if it is closed, which the exchange will see
	}
}

// settle waits until everything that came on a kept HTTP/1 connection was looked at.
// net/http gives a connection back before that; what the receiver sent beyond its
// answer (behind a Content-Length that is too small) would then be taken for the
// answer to the next message. As it is, net/http sees that nobody asked for it, and
// closes the connection.
func (c *conn) settle(ctx context.Context) {
	c.mu.Lock()
	reading := c.reading
	c.mu.Unlock()
	select {
	case <-reading:
	case <-ctx.Done():
	}
}

func (c *conn) Read(p []byte) (int, error) {
	c.set(true)
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.set(false)
	}
	return n, err
}

func (c *conn) set(waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed || waits == c.waits:
	case waits:
		close(c.reading)
		c.waits = true
	default:
		c.reading = make(chan struct{})
		c.waits = false
	}
}

func (c *conn) Close() error {
	c.set(true)
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	return c.Conn.Close()
}
