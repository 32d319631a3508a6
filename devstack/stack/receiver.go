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

	"waypost/receiver"
)

// demoPath is the receiver's path for the demo webhook; only there is Basic auth
// required. Others can use every other path of the receiver as they like.
const demoPath = "/demo"

type demoReceiver struct {
	server *http.Server
	done   chan struct{}
}

func startReceiver(ctx context.Context, addr, user, password string, ledger io.Writer) (*demoReceiver, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("start the demo receiver: %w", err)
	}
	// Delayed answers end when the receiver does.
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &demoReceiver{done: make(chan struct{}), server: &http.Server{
		Handler:           withAuth(user, password, receiver.New(receiver.Options{Ledger: ledger})),
		BaseContext:       func(net.Listener) context.Context { return serving },
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // broken connections are part of trying things out
	}}
	r.server.RegisterOnShutdown(cancel)
	go func() {
		defer close(r.done)
		_ = r.server.Serve(l) // http.ErrServerClosed after stop
	}()
	return r, nil
}

func (r *demoReceiver) stop(ctx context.Context) error {
	err := r.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("stop the demo receiver: %w", err), r.server.Close())
	}
	<-r.done
	return err
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
