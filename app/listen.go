package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"

	"waypost/config"
	"waypost/listen"
)

// Connections of clients that a process holds at a time if no setting says so.
const (
	fewestConnections = 16
	mostConnections   = 10_000 // about 130 MiB
	// adminConnections is beside the others: it is for load balancers and Prometheus.
	adminConnections = 32
)

// ports opens the ports of a process.
type ports struct {
	cfg    config.HTTP
	most   int // connections at all ports but the admin address
	counts *metrics
	log    *slog.Logger
}

// maxStreams bounds the requests that one connection of HTTP/2 has under way: each holds some 20 KB, and
// bounds of connections count one.
const maxStreams = 16

// newPorts decides how many connections the process holds. POSTs of a worker, and connections
// kept for them, take up to three quarters of its descriptors; databases, Redis and Temporal less than an
// eighth.
func newPorts(cfg config.HTTP, worker bool, counts *metrics, log *slog.Logger) ports {
	most, files := cfg.MaxConnections, descriptors()
	switch {
	case most > 0:
	case files == 0:
		most = mostConnections
	case worker:
		most = min(max(files/8, fewestConnections), mostConnections)
	default:
		most = min(max(files/2, fewestConnections), mostConnections)
	}
	return ports{cfg, most, counts, log}
}

// open listens for clients. Its error names the setting to change; secured is nil for HTTP.
func (o ports) open(ctx context.Context, name, setting, addr string, most int, secured *tls.Config) (*listen.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: set %s to another address: %w", addr, setting, err)
	}
	ofAddress := o.cfg.MaxConnectionsPerAddress
	if ofAddress == 0 {
		ofAddress = most / 2
	}
	opened := listen.New(l, listen.Options{Most: most, MostOfAddress: ofAddress, Trusted: o.cfg.TrustedProxies, TLS: secured, Log: o.log})
	o.counts.watchConnections(name, opened.Counts)
	return opened, nil
}

// admin listens at the admin address.
func (o ports) admin(ctx context.Context, addr string) (*listen.Listener, error) {
	return o.open(ctx, "admin", "WAYPOST_ADMIN_ADDR", addr, adminConnections, nil)
}
