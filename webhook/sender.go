// Package webhook sends messages to the HTTP servers of touchpoint channels
// (journey webhook document): it makes one POST and turns every possible answer,
// and every way of not getting one, into a waypost.Outcome. It decides nothing
// about retries and stores nothing.
package webhook

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
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
	// UserAgent is "Waypost/" and the version by default.
	UserAgent string
	// Now is the clock of Outcome.At and of signatures; time.Now by default.
	Now func() time.Time
}

// Limits of connections and answers.
const (
	dialTimeout  = 30 * time.Second
	tlsTimeout   = 10 * time.Second
	maxIdle      = 1024
	maxIdleHost  = 128              // a host that many leads go to is called by several batches of 50 at once
	idleTimeout  = 30 * time.Second // below what common servers and proxies keep, so that they rarely close first
	maxHeader    = 64 << 10
	pingAfter    = 15 * time.Second // HTTP/2: a silent connection is asked whether it lives
	tlsSessions  = 1024
	dialOverhang = time.Second
)

// Sender sends messages. All webhooks share its connections. It is safe for
// concurrent use.
type Sender struct {
	options   Options
	transport *http.Transport
}

// NewSender makes a Sender. Its user calls Close in the end.
func NewSender(o Options) *Sender {
	if o.UserAgent == "" {
		o.UserAgent = "Waypost/" + waypost.ProductVersion
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	dialer := &net.Dialer{Timeout: dialTimeout, ControlContext: o.control}
	return &Sender{options: o, transport: &http.Transport{
		Proxy: nil, // a proxy from the environment would take the address guard's place
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			// net/http lets a dial outlive its request. Without this a receiver that
			// drops packets would gather open sockets at the rate of its messages.
			if by, ok := ctx.Value(dialBy{}).(time.Time); ok {
				var cancel context.CancelFunc
				ctx, cancel = context.WithDeadline(ctx, by)
				defer cancel()
			}
			return dialer.DialContext(ctx, network, address)
		},
		TLSClientConfig:        &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(tlsSessions)},
		TLSHandshakeTimeout:    tlsTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter},
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdleHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		// The documented request has no Accept-Encoding. What comes compressed
		// nevertheless is unpacked in readBody, where its size is watched.
		DisableCompression: true,
	}}
}

// dialBy is the context key of the time by which a dial must be done.
type dialBy struct{}

// Close closes the idle connections. Messages under way are not cut off.
func (s *Sender) Close() { s.transport.CloseIdleConnections() }

// Send POSTs body, as it is, to w and tells what came of it. The whole exchange,
// name resolution and reading the answer included, takes at most w.TimeoutMs (0:
// the default). Redirects are not followed. If the receiver closes a connection
// that was kept from an earlier message before it answers at all, the POST is
// repeated at once on another connection, within the same time.
//
// Send returns no error: every fault is an outcome. A ctx that is cancelled
// before the answer is known gives ClassInterrupted, one whose deadline passes
// ClassTimeout.
func (s *Sender) Send(ctx context.Context, w waypost.Webhook, messageID string, body []byte) waypost.Outcome {
	at := s.options.Now()
	o := s.post(ctx, &w, messageID, body, at)
	o.At, o.Duration = at, s.options.Now().Sub(at)
	return o
}

func (s *Sender) post(ctx context.Context, w *waypost.Webhook, messageID string, body []byte, at time.Time) waypost.Outcome {
	timeout := time.Duration(w.TimeoutMs) * time.Millisecond
	if timeout <= 0 {
		timeout = waypost.DefaultTimeoutMs * time.Millisecond
	}
	by := time.Now().Add(timeout)
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()

	req, fault := s.request(context.WithValue(ctx, dialBy{}, by.Add(dialOverhang)), w, messageID, body, at)
	if fault != nil {
		return fault.outcome()
	}
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return faultOf(ctx, err).outcome()
	}
	defer resp.Body.Close()
	return readOutcome(ctx, resp, s.options.Now)
}
