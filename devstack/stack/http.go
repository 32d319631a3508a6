package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"time"

	"waypost/devstack/datadir"
	"waypost/listen"
	"waypost/receiver"
)

// demoPath is the receiver's path for the demo webhook; only there is Basic auth
// required. Others can use every other path of the receiver as they like.
const demoPath = "/demo"

// newReceiver is the demo's receiver.
func newReceiver(ctx context.Context, state datadir.State, ledger io.Writer) *http.Server {
	// Delayed answers end when the receiver does.
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	server := &http.Server{
		Handler:           withAuth(state.ReceiverUser, state.ReceiverPassword, receiver.New(receiver.Options{Ledger: ledger})),
		BaseContext:       func(net.Listener) context.Context { return serving },
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // broken connections are part of trying things out
	}
	server.RegisterOnShutdown(cancel)
	return server
}

// serve starts an HTTP server, which ends with the stack, and returns its address.
func (s *Stack) serve(ctx context.Context, name, addr string, server *http.Server) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return "", fmt.Errorf("start the %s: %w", name, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = listen.New(l, listen.Options{}).Serve(server) // http.ErrServerClosed after the stop
	}()
	s.push(name, func(ctx context.Context) error {
		err := server.Shutdown(ctx)
		if err != nil {
			err = errors.Join(err, server.Close())
		}
		<-ended
		return err
	})
	return l.Addr().String(), nil
}

// withAuth tells the receiver to check Basic auth on the demo's path.
func withAuth(user, password string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == demoPath {
			query := r.URL.Query()
			query.Set("basicAuth", user+":"+password)
			at := url.URL{Path: r.URL.Path, RawQuery: query.Encode()}
			r = r.Clone(r.Context())
			r.URL = &at
		}
		next.ServeHTTP(w, r)
	})
}
