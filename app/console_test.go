package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"waypost"
	"waypost/config"
)

// consoleConfig is a deployment with an application for a console, and a gateway that is
// away.
func consoleConfig(t *testing.T) config.Config {
	t.Helper()
	cfg := deployment(t)
	db, err := OpenStore(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	made, err := db.CreateApplication(t.Context(), "", waypost.Application{Org: "acme", Name: "console", Grants: []waypost.Grant{"*"}})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	cfg.Console = config.Console{Addr: "127.0.0.1:0", GatewayURL: "http://127.0.0.1:1", AccessKey: made.AccessKey, SecretKey: config.Secret(made.SecretKey)}
	cfg.Admin.Addr = freeAddr(t)
	return cfg
}

func TestConsole(t *testing.T) {
	t.Parallel()
	cfg := consoleConfig(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended, ready := make(chan error, 1), make(chan string, 1)
	go func() { ended <- Console(ctx, cfg, slog.New(slog.DiscardHandler), func(addr string) { ready <- addr }) }()
	select {
	case err := <-ended:
		t.Fatal(err)
	case addr := <-ready:
		if status, body := get(t, addr, "/sign-in"); status != http.StatusOK || !strings.Contains(body, "Sign in") {
			t.Errorf("/sign-in answers %d %s", status, body)
		}
	}
	if status, body := get(t, cfg.Admin.Addr, "/readyz"); status != http.StatusOK || !strings.Contains(body, `"redis":"ok"`) || !strings.Contains(body, `"database":"ok"`) {
		t.Errorf("/readyz answers %d %s", status, body)
	}
	if status, body := get(t, cfg.Admin.Addr, "/metrics"); status != http.StatusOK || !strings.Contains(body, `waypost_http_requests_total{method="GET",route="/sign-in",status="200"} 1`) {
		t.Errorf("/metrics answers %d %s", status, body)
	}
	cancel()
	for status := http.StatusOK; status == http.StatusOK; { // it waits for this answer
		status, _ = get(t, cfg.Admin.Addr, "/readyz")
	}
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// A key that no application has is said at once.
func TestConsoleKey(t *testing.T) {
	t.Parallel()
	cfg := consoleConfig(t)
	cfg.Console.AccessKey = "AKNONE"
	err := Console(t.Context(), cfg, slog.New(slog.DiscardHandler), func(string) { t.Error("it serves") })
	if err == nil || !strings.Contains(err.Error(), "WAYPOST_CONSOLE_ACCESS_KEY: no application has this key") {
		t.Errorf("it ended with %v", err)
	}
}

func TestGatewayURL(t *testing.T) {
	t.Parallel()
	cfg := consoleConfig(t)
	p := newProcess(cfg, slog.New(slog.DiscardHandler), parts{})
	l, err := p.ports.open(t.Context(), "gateway", "X", "0.0.0.0:0", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := p.gatewayURL(l); got != "http://127.0.0.1:1" {
		t.Errorf("named: %s", got)
	}
	p.cfg.Console.GatewayURL = ""
	if got := p.gatewayURL(l); !strings.HasPrefix(got, "http://localhost:") {
		t.Errorf("of all addresses: %s", got)
	}
	if p.cert = new(certificate); !strings.HasPrefix(p.gatewayURL(l), "https://localhost:") {
		t.Errorf("with a certificate: %s", p.gatewayURL(l))
	}
}
