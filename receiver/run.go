package receiver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"waypost/listen"
)

// Limits of the server's connections.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = time.Minute
	idleTimeout   = 2 * time.Minute
	stopTimeout   = 5 * time.Second
	maxHeader     = 64 << 10

	maxConnections = 4096 // about as many as a worker sends at a time
)

// Run serves a receiver on addr ("127.0.0.1:8090"; port 0 picks a free one) until
// ctx ends, then stops within five seconds. It prints to out, and calls ready with
// the address once it listens. The error is of the options or of the address.
func Run(ctx context.Context, addr string, o Options, out io.Writer, ready func(addr string)) error {
	if err := o.check(); err != nil {
		return err
	}
	o.Out = out
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("start the receiver: %w", err)
	}
	srv := &http.Server{
		Handler: New(o),
		// Delayed answers end with ctx.
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(io.Discard, "", 0), // broken connections are part of trying things out
	}
	served := make(chan error, 1)
	go func() { served <- listen.New(l, listen.Options{Most: maxConnections}).Serve(srv) }()
	if ready != nil {
		ready(l.Addr().String())
	}
	select {
	case err := <-served:
		return fmt.Errorf("run the receiver: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := srv.Shutdown(stop); err != nil {
		srv.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("run the receiver: %w", err)
	}
	return nil
}
