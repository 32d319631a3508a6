package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"waypost"
	"waypost/client"
	"waypost/config"
	"waypost/console"
	"waypost/limits"
	"waypost/signature"
	"waypost/store"
)

// Console serves the console until ctx ends. ready is called with its address once it
// serves, whether the gateway answers or not.
func Console(ctx context.Context, cfg config.Config, log *slog.Logger, ready func(addr string)) error {
	p := newProcess(cfg, log, parts{console: true})
	defer p.stop.unwind()
	for _, open := range []func(context.Context) error{p.openStore, p.openRedis} {
		if err := open(ctx); err != nil {
			return err
		}
	}
	p.checks = append(p.checks, p.redisCheck())
	failed, addr, err := p.startConsole(ctx, cfg.Console.GatewayURL)
	if err != nil {
		return err
	}
	if err = p.openAdmin(ctx); err != nil {
		return err
	}
	ready(addr)
	p.stop.push(func() { p.admin.announce(true) })
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// startConsole begins to serve the console, which calls a gateway. failed gets an error when
// it ends by itself.
func (p *process) startConsole(ctx context.Context, gatewayURL string) (failed <-chan error, addr string, err error) {
	cfg := p.cfg.Console
	key, err := p.db.Credential(ctx, cfg.AccessKey)
	switch {
	case waypost.CodeOf(err) == waypost.CodeNotFound || err == nil && key.Application.Disabled:
		return nil, "", errors.New("WAYPOST_CONSOLE_ACCESS_KEY: no application has this key, or it was disabled; make one with waypost apps create")
	case err != nil:
		return nil, "", err
	}
	most := p.ports.most
	if p.role.gateway {
		most /= 4
	}
	listener, err := p.ports.open(ctx, "console", "WAYPOST_CONSOLE_ADDR", cfg.Addr, most, p.cert.tls("h2", "http/1.1"))
	if err != nil {
		return nil, "", err
	}
	p.stop.push(func() { _ = listener.Close() })
	if cfg.URL == "" {
		cfg.URL = p.urlOf(listener)
	}
	handler, err := console.New(console.Options{
		Gateway:        client.New(gatewayURL, signature.Key{AccessKey: cfg.AccessKey, SecretKey: string(cfg.SecretKey)}),
		Application:    key.Application.ID,
		Org:            key.Application.Org,
		Users:          users{p.db, key.Application.Org},
		Sessions:       limits.NewSessions(p.redis, key.Application.Org),
		Attempts:       limits.NewAttempts(p.redis),
		Keys:           p.keys,
		OIDC:           consoleOIDC(cfg),
		SecondFactor:   cfg.SecondFactor,
		URL:            cfg.URL,
		TrustedProxies: p.cfg.HTTP.TrustedProxies,
		Log:            p.log,
		Observe:        p.counts.Request,
	})
	if err != nil {
		return nil, "", err
	}
	server := &http.Server{
		Handler: handler, TLSConfig: p.cert.tls("h2", "http/1.1"),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: maxConsoleHeader,
		HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:       slog.NewLogLogger(p.log.Handler(), slog.LevelDebug), // failed handshakes are mistakes of clients
	}
	ended := make(chan error, 1)
	go func() {
		ended <- fmt.Errorf("serve the console on %s: %w", cfg.Addr, listener.Serve(server))
	}()
	p.stop.push(func() {
		ctx, cancel := context.WithTimeout(context.Background(), drainTime)
		defer cancel()
		err := server.Shutdown(ctx)
		if err != nil {
			err = errors.Join(err, server.Close())
		}
		closing(p.log, "console", err)
	})
	return ended, listener.Addr().String(), nil
}

// gatewayURL is where the console finds the gateway: the one that is named, or this
// process's.
func (p *process) gatewayURL(listener net.Listener) string {
	return cmp.Or(p.cfg.Console.GatewayURL, p.urlOf(listener))
}

// urlOf is where this machine reaches what a listener serves.
func (p *process) urlOf(listener net.Listener) string {
	scheme := "http://"
	if p.cert != nil {
		scheme = "https://"
	}
	host, port, _ := net.SplitHostPort(listener.Addr().String()) // it is one
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return scheme + net.JoinHostPort(host, port)
}

// maxConsoleHeader has room for cookies and a long filter.
const maxConsoleHeader = 32 << 10

// consoleOIDC turns the settings into the console's type.
func consoleOIDC(cfg config.Console) console.OIDC {
	o := console.OIDC{Issuer: cfg.Issuer, ClientID: cfg.ClientID, ClientSecret: string(cfg.ClientSecret)}
	for _, r := range cfg.Roles {
		o.Roles = append(o.Roles, console.RoleClaim{Claim: r.Name, Value: r.Value, Role: waypost.Role(r.Role)})
	}
	return o
}

// users are those of one organisation, as the console knows them.
type users struct {
	*store.Store
	org string
}

// User is the store's, of this organisation only.
func (u users) User(ctx context.Context, id string) (waypost.User, error) {
	found, err := u.Store.User(ctx, id)
	if err == nil && found.Org != u.org {
		return waypost.User{}, waypost.Errorf(waypost.CodeNotFound, "id", "there is no such user")
	}
	return found, err
}

func (u users) UserByLink(ctx context.Context, token string) (waypost.User, error) {
	return u.Store.UserByLink(ctx, u.org, token)
}

func (u users) UserByEmail(ctx context.Context, email string) (waypost.User, error) {
	return u.Store.UserByEmail(ctx, u.org, email)
}

func (u users) UserBySubject(ctx context.Context, issuer, subject string) (waypost.User, error) {
	return u.Store.UserBySubject(ctx, u.org, issuer, subject)
}

func (u users) Users(ctx context.Context) ([]waypost.User, error) { return u.Store.Users(ctx, u.org) }
