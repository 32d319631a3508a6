package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"waypost/listen"
)

// check is a readiness check of one dependency.
type check struct {
	name string
	ask  func(context.Context) error
	// optional says that without this dependency the role is degraded, but ready.
	optional bool
}

// adminServer serves /healthz (the process runs), /readyz (what it depends on
// answers, and it is not stopping) and /metrics.
type adminServer struct {
	addr   string
	checks []check
	server *http.Server

	mu       sync.Mutex
	asked    time.Time // when /readyz was asked last
	stopping bool
	said     chan struct{} // receives after an answer that said so
}

// watchedTime: after a request for /readyz, another one is expected within this time.
const watchedTime = 30 * time.Second

// Variables for tests on a busy machine.
var (
	// checkTime bounds one readiness check.
	checkTime = 2 * time.Second
	// optionalTime bounds one that leaves the process ready: Kubernetes waits for an answer
	// for a second.
	optionalTime = 700 * time.Millisecond
	// noticeTime is how long a stopping process goes on accepting requests if /readyz is
	// not asked any more.
	noticeTime = 5 * time.Second
)

// serveAdmin begins to serve on a listener; stop ends it.
func serveAdmin(listener *listen.Listener, checks []check, metrics http.Handler) *adminServer {
	a := &adminServer{addr: listener.Addr().String(), checks: checks, said: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeStatus(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.Handle("GET /metrics", metrics)
	a.server = &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	go func() { _ = listener.Serve(a.server) }() // ends with Close
	return a
}

// readyz answers 503 while a check that is not optional fails, and once the process stops; announce
// waits for that last answer.
func (a *adminServer) readyz(w http.ResponseWriter, r *http.Request) {
	status, answers := http.StatusOK, map[string]string{}
	if !a.isStopping() {
		for i, failed := range a.ask(r.Context()) {
			switch c := a.checks[i]; { // the answer does not tell the cause
			case failed && c.optional:
				answers[c.name] = "degraded"
			case failed:
				answers[c.name], status = "away", http.StatusServiceUnavailable
			default:
				answers[c.name] = "ok"
			}
		}
	}
	stopping := a.isStopping() // it may have changed during the checks
	if stopping {
		status, answers = http.StatusServiceUnavailable, map[string]string{"process": "stopping"}
	}
	writeStatus(w, status, answers)
	if stopping && http.NewResponseController(w).Flush() == nil {
		select {
		case a.said <- struct{}{}:
		default: // another answer did
		}
	}
}

// ask makes all checks at the same time, and returns which of them failed.
func (a *adminServer) ask(ctx context.Context) []bool {
	failed := make([]bool, len(a.checks))
	var group sync.WaitGroup
	for i, c := range a.checks {
		group.Go(func() {
			limit := checkTime
			if c.optional {
				limit = optionalTime
			}
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			failed[i] = c.ask(ctx) != nil
		})
	}
	group.Wait()
	return failed
}

// isStopping also records the time of the question.
func (a *adminServer) isStopping() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = time.Now()
	return a.stopping
}

// announce has /readyz say that the process stops. With wait, and if /readyz was asked
// lately, announce returns once that was answered, so that a load balancer sends no request
// to a listener that closes.
func (a *adminServer) announce(wait bool) {
	a.mu.Lock()
	watched := time.Since(a.asked) < watchedTime
	a.stopping = true
	a.mu.Unlock()
	if !wait || !watched {
		return
	}
	select {
	case <-a.said:
	case <-time.After(noticeTime):
	}
}

func (a *adminServer) stop() { _ = a.server.Close() }

// writeStatus writes an answer of a known length: once it is flushed it is whole, and the
// process may end.
func writeStatus(w http.ResponseWriter, status int, body map[string]string) {
	text, _ := json.Marshal(body) // of strings, which does not fail
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text) // the asker may have gone
}
