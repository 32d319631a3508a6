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

// UIOptions says what Web UI to start.
type UIOptions struct {
	Addr     string // host:port, the port not 0
	Temporal string // the frontend's address
	Codec    string // the codec endpoint's URL, "" for none
}

// UI is a running Web UI.
type UI struct {
	server *server.Server
	done   chan struct{}
}

// StartUI starts the Web UI and returns when it answers. The caller has checked
// that the address is free: the UI ends the process if it cannot listen.
func StartUI(ctx context.Context, o UIOptions) (*UI, error) {
	host, portText, err := net.SplitHostPort(o.Addr)
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
		TemporalGRPCAddress: o.Temporal,
		Host:                bind,
		Port:                port,
		EnableUI:            true,
		DefaultNamespace:    Namespace,
		DisableNewsFetch:    true, // no network beyond this machine
		HideLogs:            true,
		CORS:                config.CORS{CookieInsecure: true},
		Codec:               config.Codec{Endpoint: o.Codec},
	}))}
	go func() {
		defer close(u.done)
		_ = u.server.Start() // returns nil after Stop
	}()
	if err := u.ready(ctx, net.JoinHostPort(reachable(host), portText)); err != nil {
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

// reachable turns an address to listen on into one to connect to.
func reachable(host string) string {
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return "127.0.0.1"
	}
	return host
}
