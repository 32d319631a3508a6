package temporal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"go.temporal.io/sdk/converter"
)

// maxCodecBody bounds what the Web UI can send to be decoded: a page of history
// with payloads of 2 MiB each stays well below.
const maxCodecBody = 64 << 20

// CodecOptions says what codec endpoint to start.
type CodecOptions struct {
	// Addr is the loopback host:port to listen on; port 0 picks a free one.
	Addr string
	// Secret is the path's only segment: who knows it can read the payloads.
	Secret string
	// Origins are the Web UI's; a browser page of another one is refused.
	Origins []string
	Codec   converter.PayloadCodec
}

// CodecEndpoint lets the Web UI of the same user's browser read encrypted
// payloads.
type CodecEndpoint struct {
	server *http.Server
	url    string
	done   chan struct{}
}

// StartCodec starts the endpoint.
func StartCodec(ctx context.Context, o CodecOptions) (*CodecEndpoint, error) {
	addr, err := net.ResolveTCPAddr("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("the address of the codec endpoint: %w", err)
	}
	if !addr.IP.IsLoopback() {
		return nil, fmt.Errorf("the codec endpoint shows payloads in the clear: it listens on loopback addresses only, not on %s", o.Addr)
	}
	if o.Secret == "" {
		return nil, errors.New("the codec endpoint needs a secret path")
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("start the codec endpoint: %w", err)
	}
	prefix := "/" + o.Secret
	mux := http.NewServeMux()
	payloads := converter.NewPayloadCodecHTTPHandler(o.Codec)
	mux.Handle("POST "+prefix+"/decode", payloads)
	mux.Handle("POST "+prefix+"/encode", payloads)
	mux.HandleFunc("OPTIONS "+prefix+"/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	e := &CodecEndpoint{
		server: &http.Server{Handler: fromOrigins(o.Origins, mux), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second},
		url:    "http://" + l.Addr().String() + prefix,
		done:   make(chan struct{}),
	}
	go func() {
		defer close(e.done)
		_ = e.server.Serve(l) // http.ErrServerClosed after Stop
	}()
	return e, nil
}

// URL is the endpoint, as the Web UI is told it.
func (e *CodecEndpoint) URL() string { return e.url }

// Stop stops the endpoint.
func (e *CodecEndpoint) Stop(ctx context.Context) error {
	err := e.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, e.server.Close())
	}
	<-e.done
	return err
}

// fromOrigins answers browsers for the given origins only. Programs send no
// Origin; the secret path is what keeps them out.
func fromOrigins(origins []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Add("Vary", "Origin")
		if origin := r.Header.Get("Origin"); origin != "" {
			if !slices.Contains(origins, origin) {
				http.Error(w, "this origin is not the Web UI's", http.StatusForbidden)
				return
			}
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Set("Access-Control-Allow-Methods", "POST")
			w.Header().Set("Access-Control-Allow-Headers", "Content-Type, X-Namespace, Authorization, Authorization-Extras, Caller-Type")
			w.Header().Set("Access-Control-Max-Age", "600")
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxCodecBody)
		next.ServeHTTP(w, r)
	})
}
