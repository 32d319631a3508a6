package webhook

import (
	"crypto/tls"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"waypost"
)

// newTransport makes connections with a TLS setting, under the address guard.
func (o *Options) newTransport(setting *tls.Config, idle int) *http.Transport {
	setting.MinVersion = tls.VersionTLS12
	setting.ClientSessionCache = tls.NewLRUClientSessionCache(idle)
	return &http.Transport{
		Proxy:               nil, // one from the environment would take the address guard's place; see Options.Proxy
		DialContext:         o.dial,
		TLSClientConfig:     setting,
		TLSHandshakeTimeout: tlsTimeout,
		ForceAttemptHTTP2:   true,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout:               pingAfter,
			PingTimeout:                   pingTimeout,
			WriteByteTimeout:              writeTimeout,
			MaxReceiveBufferPerStream:     maxPacked,
			MaxReceiveBufferPerConnection: maxHeld,
		},
		MaxIdleConns:           idle,
		MaxIdleConnsPerHost:    maxIdleHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		// The documented request has no Accept-Encoding. What comes compressed
		// nevertheless is unpacked in readBody, where its size is watched.
		DisableCompression: true,
	}
}

// ownTransports are the connections of webhooks with a TLS setting of their own. Settings
// share none: a webhook must not use a connection that was made with another authority or
// certificate.
type ownTransports struct {
	options *Options

	mu    sync.Mutex
	m     *simplelru.LRU[waypost.TLS, *ownTransport] // one that leaves it keeps no idle connection
	swept time.Time
}

type ownTransport struct {
	*http.Transport
	users int
	last  time.Time
}

func newOwnTransports(o *Options) ownTransports {
	m, _ := simplelru.NewLRU(maxOwn, func(_ waypost.TLS, own *ownTransport) { own.CloseIdleConnections() }) // fails for a size below 1 only
	return ownTransports{options: o, m: m}
}

// take returns the transport of a setting; its user calls done in the end.
func (o *ownTransports) take(setting waypost.TLS, now time.Time) (t *http.Transport, done func(), f *fault) {
	o.mu.Lock()
	defer o.mu.Unlock()
	own, known := o.m.Get(setting)
	if !known {
		conf, f := configOf(setting)
		if f != nil {
			return nil, nil, f
		}
		own = &ownTransport{Transport: o.options.newTransport(conf, maxIdleOwn)}
		o.m.Add(setting, own)
	}
	own.users++
	own.last = now
	return own.Transport, func() { o.give(setting, own) }, nil
}

// give takes a user off. A transport that was dropped meanwhile keeps no connection.
func (o *ownTransports) give(setting waypost.TLS, own *ownTransport) {
	o.mu.Lock()
	defer o.mu.Unlock()
	own.users--
	if kept, _ := o.m.Peek(setting); kept != own {
		own.CloseIdleConnections()
	}
}

// sweep drops, now and then, transports that were not used for so long that their
// connections are gone: a key that was replaced does not stay in memory.
func (o *ownTransports) sweep(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.swept) < idleTimeout {
		return
	}
	o.swept = now
	for _, setting := range o.m.Keys() {
		if own, _ := o.m.Peek(setting); own.users == 0 && now.Sub(own.last) >= idleTimeout {
			o.m.Remove(setting)
		}
	}
}

// close closes the idle connections of all.
func (o *ownTransports) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.m.Purge()
}

// configOf reads a setting. It was checked when it was set.
func configOf(setting waypost.TLS) (*tls.Config, *fault) {
	roots, err := setting.Roots()
	if err != nil {
		return nil, &fault{waypost.ClassTLS, "the webhook's tls.caCertificate cannot be read"}
	}
	certificate, err := setting.Certificate()
	if err != nil {
		return nil, &fault{waypost.ClassTLS, "the webhook's tls.clientCertificate and clientKey cannot be read"}
	}
	conf := &tls.Config{RootCAs: roots}
	if certificate != nil {
		// It is shown whatever authorities the receiver names: if it is the wrong one, the
		// receiver says so, instead of missing one.
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil }
	}
	return conf, nil
}
