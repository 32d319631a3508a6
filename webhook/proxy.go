package webhook

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// leastTunnel is the time that a proxy has at least for a connection to an address.
const leastTunnel = 2 * time.Second

// proxyError says that there is no connection because of the proxy. It wraps nothing:
// an address or a certificate of the proxy is none of the receiver's.
type proxyError struct{ text string }

func (e *proxyError) Error() string { return e.text }

// dialProxy has the proxy make a connection to an address that the guard lets through.
// The proxy gets no name: looked up by the proxy, it could lead elsewhere.
func (o *Options) dialProxy(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := o.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var allowed []string
	for _, addr := range addrs {
		to := net.JoinHostPort(addr.Unmap().String(), port)
		if refused := o.control(ctx, network, to, nil); refused == nil {
			allowed = append(allowed, to)
		} else if err == nil {
			err = refused
		}
	}
	for i, to := range allowed {
		// The guard has no say in the proxy itself: the installation has named it.
		made, failed := new(net.Dialer).DialContext(ctx, network, o.Proxy.Host)
		if failed != nil {
			return nil, &proxyError{"the proxy for webhooks cannot be reached"}
		}
		// An address that does not answer leaves time for the others.
		by, _ := ctx.Deadline()
		share, done := context.WithTimeout(ctx, max(leastTunnel, time.Until(by)/time.Duration(len(allowed)-i)))
		err = tunnel(share, made, o.Proxy, to)
		done()
		if err == nil {
			return made, nil
		}
		_ = made.Close()
	}
	return nil, err
}

// tunnel asks a proxy, over a connection to it, for one to an address (RFC 9110, CONNECT).
func tunnel(ctx context.Context, made net.Conn, proxy *url.URL, to string) error {
	stop := context.AfterFunc(ctx, func() { _ = made.SetDeadline(time.Unix(1, 0)) })
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: to}, Host: to, Header: http.Header{}}
	if user := proxy.User; user != nil {
		password, _ := user.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	silent := &proxyError{"the proxy for webhooks does not answer"}
	if err := req.Write(made); err != nil {
		return silent
	}
	from := bufio.NewReader(io.LimitReader(made, maxHeader))
	resp, err := http.ReadResponse(from, req)
	if err != nil {
		return silent
	}
	if resp.StatusCode/100 != 2 {
		return &proxyError{fmt.Sprintf("the proxy for webhooks gave no connection to the receiver (%d)", resp.StatusCode)}
	}
	// The receiver speaks second, and what is read here is lost.
	if from.Buffered() > 0 || !stop() {
		return silent
	}
	return nil
}
