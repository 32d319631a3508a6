package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"waypost"
)

// Options are what an installation decides about all its webhooks. The zero
// value refuses every inner address and allows every port.
type Options struct {
	// AllowCIDRs are addresses that may be called although they are inner ones.
	AllowCIDRs []netip.Prefix
	// Ports are the ports that may be called; empty means any.
	Ports []int
	// Proxy, an http URL with a port, and a user and a password if it asks for them, makes
	// the connections (CONNECT), to addresses that were checked before. Nil: none does.
	Proxy *url.URL
	// MaxIdle bounds the connections that are kept; 2,048 by default and at most.
	MaxIdle int
	// Now is the clock of Outcome.At, of signatures and of what is not used for long;
	// time.Now by default.
	Now func() time.Time

	resolver *net.Resolver // for tests
}

// Limits of connections and answers.
const (
	dialTimeout  = 30 * time.Second
	tlsTimeout   = 10 * time.Second
	maxIdle      = 2048
	maxIdleHost  = 512              // a host that many leads go to is called by several batches of 100 at once
	maxIdleOwn   = 128              // of a TLS setting of its own
	idleTimeout  = 30 * time.Second // below what common servers and proxies keep, so that they rarely close first
	maxHeader    = 64 << 10
	pingAfter    = 15 * time.Second // HTTP/2: a silent connection is asked whether it lives
	pingTimeout  = 5 * time.Second  // and closed if it does not say so
	writeTimeout = 10 * time.Second // HTTP/2: a receiver that reads nothing for so long is given up
	maxHeld      = 1 << 20          // HTTP/2: what all answers of a connection may send ahead of being read
	dialOverhang = time.Second
	maxDials     = 10  // connections for one exchange
	maxOwn       = 128 // TLS settings with connections
)

// Sender sends messages. Webhooks share its connections, but for those with a TLS
// setting: they share them with others of the same setting. It is safe for concurrent
// use.
type Sender struct {
	options   Options
	transport *http.Transport
	own       ownTransports
}

// NewSender makes a Sender. Its user calls Close in the end.
func NewSender(o Options) *Sender {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Sender{options: o}
	s.transport = s.options.newTransport(&tls.Config{}, min(cmp.Or(o.MaxIdle, maxIdle), maxIdle))
	s.own = newOwnTransports(&s.options)
	return s
}

// Close closes the idle connections. Messages under way are not cut off.
func (s *Sender) Close() {
	s.transport.CloseIdleConnections()
	s.own.close()
}

// Send POSTs body, as it is, to w and tells what came of it. The whole exchange,
// name resolution and reading the answer included, takes at most w.TimeoutMs (0:
// the default). Redirects are not followed. If the receiver closes a connection
// that was kept from an earlier message before it answers at all, the POST is
// repeated once, at once, on a new connection, within the same time.
//
// Send returns no error: every fault is an outcome. A ctx that is cancelled
// before the answer is known gives ClassInterrupted, one whose deadline passes
// ClassTimeout.
func (s *Sender) Send(ctx context.Context, w waypost.Webhook, messageID string, body []byte) waypost.Outcome {
	at := s.options.Now()
	o := s.post(ctx, &w, messageID, body, at)
	o.At, o.Duration = at, max(0, s.options.Now().Sub(at)) // the clock may have been corrected meanwhile
	return o
}

// post makes one POST within the webhook's time-out, from the resolution of the name to the end of the
// answer. at is the time of the signature.
func (s *Sender) post(ctx context.Context, w *waypost.Webhook, messageID string, body []byte, at time.Time) waypost.Outcome {
	timeout := time.Duration(w.TimeoutMs) * time.Millisecond
	if timeout <= 0 {
		timeout = waypost.DefaultTimeoutMs * time.Millisecond
	}
	by := time.Now().Add(timeout)
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()

	req, fault := s.request(ctx, w, messageID, body, at)
	if fault != nil {
		return fault.outcome()
	}
	transport := s.transport
	s.own.sweep(at)
	if w.TLS != nil {
		own, done, fault := s.own.take(*w.TLS, at)
		if fault != nil {
			return fault.outcome()
		}
		defer done()
		transport = own
	}
	x := exchange{by: by.Add(dialOverhang)}
	resp, done, err := x.roundTrip(transport, req)
	defer done()
	if err != nil {
		return faultOf(ctx, err).outcome()
	}
	defer resp.Body.Close()
	return readOutcome(ctx, resp, s.options.Now)
}
