package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.temporal.io/sdk/converter"

	"waypost"
	"waypost/config"
	"waypost/workflows"
)

const (
	// maxCodecBody bounds a request's body. The Web UI asks for the payloads of one event at
	// a time, which Temporal keeps below 2 MiB each.
	maxCodecBody = 16 << 20
	// maxCodecHeader has room for two tokens.
	maxCodecHeader = 64 << 10
)

// Codec serves the codec endpoint of Temporal's Web UI until ctx ends: it decodes payloads
// for people with a token of the issuer. It needs the keys and no database. ready is called
// with its address once it serves, whether the issuer has answered or not.
func Codec(ctx context.Context, cfg config.Config, log *slog.Logger, ready func(addr string)) error {
	var stop stack
	defer stop.unwind()

	keys, err := waypost.ParseKeyring(string(cfg.Encryption.Keys))
	if err != nil {
		return fmt.Errorf("WAYPOST_ENCRYPTION_KEYS: %w", err)
	}
	origin, err := originOf(cfg.Temporal.UIURL)
	if err != nil {
		return fmt.Errorf("WAYPOST_TEMPORAL_UI_URL: %w", err)
	}
	cert, err := loadCertificate(cfg.TLS, log, time.Now)
	if err != nil {
		return err
	}
	counts := newMetrics()
	counts.watchCertificate(cert)
	tokens := newTokens(cfg.Codec, time.Now, log)
	ports := newPorts(cfg.HTTP, false, counts, log)
	listener, err := ports.open(ctx, "codec", "WAYPOST_CODEC_ADDR", cfg.Codec.Addr, ports.most, cert.tls("h2", "http/1.1"))
	if err != nil {
		return err
	}
	stop.push(func() { _ = listener.Close() })
	adminListener, err := ports.admin(ctx, cfg.Admin.Addr)
	if err != nil {
		return err
	}
	admin := serveAdmin(adminListener, []check{{name: "issuer", ask: tokens.ready}}, counts.handler())
	stop.push(admin.stop)

	stop.push(tokens.client.CloseIdleConnections)
	stop.run(ctx, tokens.find)

	server := &http.Server{
		Handler: &codecEndpoint{
			origin: origin, tokens: tokens, decode: converter.NewPayloadCodecHTTPHandler(workflows.NewCodec(keys)),
			observe: counts.Request, log: log,
		},
		TLSConfig:         cert.tls("h2", "http/1.1"),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: maxCodecHeader,
		HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		// Failed handshakes are mistakes of clients, and the texts hold their addresses.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- listener.Serve(server) }()
	stop.push(func() {
		ctx, cancel := context.WithTimeout(context.Background(), drainTime)
		defer cancel()
		err := server.Shutdown(ctx)
		if err != nil {
			err = errors.Join(err, server.Close())
		}
		closing(log, "codec endpoint", err)
	})
	ready(listener.Addr().String())
	stop.push(func() { admin.announce(true) })
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return fmt.Errorf("serve the codec endpoint on %s: %w", cfg.Codec.Addr, err)
	}
}

// originOf is the origin that browsers send for a page.
func originOf(page string) (string, error) {
	u, err := url.Parse(page)
	if err != nil {
		return "", err
	}
	host := strings.ToLower(u.Host)
	if standard := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]; u.Port() != "" {
		host = strings.TrimSuffix(host, standard)
	}
	return u.Scheme + "://" + host, nil
}

// codecEndpoint answers POST /decode. There is no /encode: the Web UI needs it only to start
// and signal workflows, which people must not do with Waypost's.
type codecEndpoint struct {
	origin  string // of the Web UI
	tokens  *tokens
	decode  http.Handler
	observe func(route, method string, status int, took time.Duration)
	log     *slog.Logger
}

// ServeHTTP answers, counts and logs one request. The log has neither the token nor
// anything else about the sender.
func (e *codecEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began, answer := time.Now(), &answered{ResponseWriter: w, status: http.StatusOK}
	route, method := "/decode", r.Method
	if r.URL.Path != route {
		route = ""
	}
	if method != http.MethodPost && method != http.MethodOptions && method != http.MethodGet {
		method = "UNKNOWN" // anybody can invent one
	}
	refused := e.serve(answer, r)
	if refused != nil {
		refuse(answer, refused)
	}
	took := time.Since(began)
	e.observe(route, method, answer.status, took)
	level, attrs := slog.LevelInfo, []slog.Attr{
		slog.String("method", method), slog.String("route", route), slog.Int("status", answer.status), slog.Int64("ms", took.Milliseconds()),
	}
	if refused != nil {
		attrs = append(attrs, slog.String("reason", refused.reason))
		if refused.err != nil {
			attrs = append(attrs, slog.String("error", shorten(refused.err.Error())))
		}
		if refused.status == http.StatusServiceUnavailable {
			level = slog.LevelWarn
		}
	}
	e.log.LogAttrs(r.Context(), level, "request", attrs...)
}

// serve answers a request, or returns why it is refused.
func (e *codecEndpoint) serve(w http.ResponseWriter, r *http.Request) *refusal {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Origin")
	// Programs send no origin; for them the token alone counts.
	if origin := r.Header.Get("Origin"); origin != "" {
		if origin != e.origin {
			return &refusal{status: http.StatusForbidden, reason: "origin", says: "this page is not of Temporal's Web UI, which is at " + e.origin + " (WAYPOST_TEMPORAL_UI_URL)"}
		}
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Methods", "POST")
		h.Set("Access-Control-Allow-Headers", "Content-Type, X-Namespace, Caller-Type, "+headerAccessToken+", "+headerIDToken)
		h.Set("Access-Control-Max-Age", "600")
	}
	switch {
	case r.URL.Path != "/decode":
		return &refusal{status: http.StatusNotFound, reason: "path", says: "the codec endpoint has POST /decode, and nothing else"}
	case r.Method == http.MethodOptions:
		w.WriteHeader(http.StatusNoContent)
		return nil
	case r.Method != http.MethodPost:
		h.Set("Allow", "POST, OPTIONS")
		return &refusal{status: http.StatusMethodNotAllowed, reason: "method", says: "/decode takes POST"}
	}
	if refused := e.tokens.check(r.Context(), r.Header); refused != nil {
		return refused
	}
	if r.ContentLength > maxCodecBody {
		return &refusal{status: http.StatusRequestEntityTooLarge, reason: "body", says: fmt.Sprintf("the body has more than %d bytes", maxCodecBody)}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxCodecBody)
	e.decode.ServeHTTP(w, r)
	return nil
}

func refuse(w http.ResponseWriter, refused *refusal) {
	switch refused.status {
	case http.StatusUnauthorized:
		challenge := `Bearer realm="waypost codec"`
		if refused.reason != "missing" {
			challenge += `, error="invalid_token"`
		}
		w.Header().Set("WWW-Authenticate", challenge)
	case http.StatusForbidden:
		if refused.reason == "claim" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="waypost codec", error="insufficient_scope"`)
		}
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "5")
	}
	http.Error(w, refused.says, refused.status)
}

// answered keeps the status of an answer.
type answered struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status.
func (a *answered) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }
