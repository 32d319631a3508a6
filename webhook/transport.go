package webhook

import (
	"crypto/tls"
	"net/http"
	"sync"
	"time"

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

// ownTransports are the connections of webhooks with a TLS setting of their own. Each
// setting has its own: whoever trusts another authority, or shows another certificate,
// must not get a connection that this one would not have been given.
type ownTransports struct {
	options *Options

	mu    sync.Mutex
	m     map[waypost.TLS]*ownTransport
	swept time.Time
}

type ownTransport struct {
	*http.Transport
	users int
	last  time.Time
}

// take returns the transport of a setting; its user calls done in the end.
func (o *ownTransports) take(setting waypost.TLS, now time.Time) (t *http.Transport, done func(), f *fault) {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.m[setting]
	if own == nil {
		conf, f := configOf(setting)
		if f != nil {
			return nil, nil, f
		}
		if len(o.m) >= maxOwn {
			o.dropOldest()
		}
		own = &ownTransport{Transport: o.options.newTransport(conf, maxIdleOwn)}
		o.m[setting] = own
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
	if o.m[setting] != own {
		own.CloseIdleConnections()
	}
}

// sweep drops, now and then, what nobody has used for so long that its connections
// are gone: a key that was replaced does not stay in memory.
func (o *ownTransports) sweep(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.swept) < idleTimeout {
		return
	}
	o.swept = now
	for setting, own := range o.m {
		if own.users == 0 && now.Sub(own.last) >= idleTimeout {
			o.drop(setting)
		}
	}
}

// dropOldest makes room. The caller holds mu.
func (o *ownTransports) dropOldest() {
	var oldest waypost.TLS
	var found *ownTransport
	for setting, own := range o.m {
		if found == nil || own.last.Before(found.last) {
			oldest, found = setting, own
		}
	}
	o.drop(oldest)
}

// drop forgets a transport. The caller holds mu.
func (o *ownTransports) drop(setting waypost.TLS) {
	o.m[setting].CloseIdleConnections()
	delete(o.m, setting)
}

// close closes the idle connections of all.
func (o *ownTransports) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for setting := range o.m {
		o.drop(setting)
	}
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
