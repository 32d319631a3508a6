package app

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// check asks one thing that a role depends on.
type check struct {
	name string
	ask  func(context.Context) error
}

type adminServer struct {
	addr string
	stop func()
}

// checkTime bounds one readiness check.
const checkTime = 2 * time.Second

// serveAdmin serves /healthz (the process runs) and /readyz (what it depends on
// answers).
func serveAdmin(ctx context.Context, addr string, checks []check) (adminServer, error) {
	listener, err := listen(ctx, "WAYPOST_ADMIN_ADDR", addr)
	if err != nil {
		return adminServer{}, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeStatus(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), checkTime)
		defer cancel()
		status, answers := http.StatusOK, map[string]string{}
		for _, c := range checks {
			answers[c.name] = "ok"
			if c.ask(ctx) != nil { // the cause is for the log, not for whoever asks
				answers[c.name], status = "away", http.StatusServiceUnavailable
			}
		}
		writeStatus(w, status, answers)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends with Close
	return adminServer{addr: listener.Addr().String(), stop: func() { _ = server.Close() }}, nil
}

func writeStatus(w http.ResponseWriter, status int, body map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the asker may have gone
}
