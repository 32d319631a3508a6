package temporal

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/temporalio/ui-server/v2/server"
	"github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/server_options"
)

// UI is a running Web UI.
type UI struct {
	server *server.Server
	done   chan struct{}
}

// StartUI starts the Web UI at a host:port, whose port is not 0, and returns when it answers.
// frontend is the address of Temporal's, codecURL the codec endpoint. The caller has checked
// that the address is free: the UI ends the process if it cannot listen.
func StartUI(ctx context.Context, addr, frontend, codecURL string) (*UI, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("the address of the Web UI: %w", err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, fmt.Errorf("the address of the Web UI: %w", err)
	}
	bind := host
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		bind = "[" + host + "]"
	}
	u := &UI{done: make(chan struct{}), server: server.NewServer(server_options.WithConfigProvider(&config.Config{
		TemporalGRPCAddress: frontend,
		Host:                bind,
		Port:                port,
		EnableUI:            true,
		DefaultNamespace:    Namespace,
		DisableNewsFetch:    true, // no network beyond this machine
		HideLogs:            true,
		CORS:                config.CORS{CookieInsecure: true},
		Codec:               config.Codec{Endpoint: codecURL},
	}))}
	go func() {
		defer close(u.done)
		_ = u.server.Start() // returns nil after Stop
	}()
	if err := u.ready(ctx, Reachable(addr)); err != nil {
		u.server.Stop()
		return nil, err
	}
	return u, nil
}

// Stop stops the UI. It returns when the UI has ended or ctx has.
func (u *UI) Stop(ctx context.Context) error {
	u.server.Stop()
	select {
	case <-u.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop the Web UI: %w", ctx.Err())
	}
}

// ready returns when the Web UI answers, within 30 s. It fails at once if the UI has ended.
func (u *UI) ready(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/healthz", nil)
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-u.done:
			return fmt.Errorf("the Web UI cannot listen on %s", addr)
		case <-ctx.Done():
			return fmt.Errorf("wait for the Web UI: %w", ctx.Err())
		case <-tick.C:
		}
	}
}
