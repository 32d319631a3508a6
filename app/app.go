package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"waypost"
	"waypost/config"
	"waypost/delivery"
	"waypost/gateway"
	"waypost/limits"
	"waypost/store"
	"waypost/worker"
)

// drainTime bounds what a stopping process still does: answering requests that
// it has begun and recording outcomes that it has seen.
const drainTime = 25 * time.Second

// wantedDescriptors let a worker make as many POSTs as it may, and keep the connections
// (docs/performance.md, "What to set in production").
const wantedDescriptors = 8192

// Gateway serves the HTTP API until ctx ends. It stores what it accepts; workers,
// which it tells through Redis, start it and carry it out. ready is called with the
// API's address once it serves.
func Gateway(ctx context.Context, cfg config.Config, log *slog.Logger, ready func(httpAddr string)) error {
	return run(ctx, cfg, log, ready, parts{gateway: true})
}

// Worker carries out journeys until ctx ends. ready is called with the admin
// address once it works.
func Worker(ctx context.Context, cfg config.Config, log *slog.Logger, ready func(adminAddr string)) error {
	return run(ctx, cfg, log, ready, parts{worker: true})
}

// Serve is Gateway and Worker in one process, with one connection to Temporal:
// a journey's first task then starts without a round trip.
func Serve(ctx context.Context, cfg config.Config, log *slog.Logger, ready func(httpAddr string)) error {
	return run(ctx, cfg, log, ready, parts{gateway: true, worker: true})
}

type parts struct{ gateway, worker bool }

// service is what traces call a process with these parts.
func (p parts) service() string {
	switch {
	case !p.worker:
		return "waypost-gateway"
	case !p.gateway:
		return "waypost-worker"
	}
	return "waypost-serve"
}

// Now is the clock of the roles. Only tests of what a wrong clock does set another
// one, in a process of their own.
var Now = time.Now

// run opens what the role needs, starts it, and waits until ctx ends or something fails.
// What was opened is closed in reverse order.
func run(ctx context.Context, cfg config.Config, log *slog.Logger, ready func(string), role parts) error {
	p := &process{cfg: cfg, log: log, role: role, clock: worker.NewClock(Now, log), counts: newMetrics()}
	defer p.stop.unwind()
	adoptStandardLog(log)
	if err := p.openStore(ctx); err != nil {
		return err
	}
	if err := p.openTemporal(ctx); err != nil {
		return err
	}
	if err := p.openSender(); err != nil {
		return err
	}
	if err := p.openRedis(); err != nil {
		return err
	}
	if err := p.openSearch(ctx); err != nil {
		return err
	}
	p.openLimits()
	var working *runningWorker
	if role.worker {
		working = p.startWorker(ctx)
	}
	var serving *fiber.App
	var listener net.Listener
	var err error
	if role.gateway {
		if serving, err = p.newGateway(); err != nil {
			return err
		}
		if listener, err = listen(ctx, "WAYPOST_HTTP_ADDR", cfg.HTTP.Addr); err != nil {
			return err
		}
		p.stop.push(func() { _ = listener.Close() })
	}
	if p.admin, err = serveAdmin(ctx, cfg.Admin.Addr, p.checks, p.counts.handler()); err != nil {
		return err
	}
	p.runInBackground(ctx)
	failed := make(chan error, 1)
	if role.gateway {
		go func() { failed <- gateway.Serve(serving, p.cert.listen(listener)) }()
		p.stop.push(func() { closing(log, "gateway", serving.ShutdownWithTimeout(drainTime)) })
		// It accepts enrollments whether Temporal is there or not.
		ready(listener.Addr().String())
	}
	p.stop.push(func() { p.admin.announce(role.gateway) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("serve the gateway on %s: %w", cfg.HTTP.Addr, err)
		case <-working.started():
			if working.err != nil {
				return fmt.Errorf("start the worker: %w", working.err)
			}
			if !role.gateway {
				ready(p.admin.addr)
			}
			working = nil
		}
	}
}

// retention says in the store's words how long what has ended is kept.
func retention(r config.Retention) waypost.Retention {
	return waypost.Retention{
		Payloads: time.Duration(r.Payloads), Attempts: time.Duration(r.Attempts), Deliveries: time.Duration(r.Deliveries),
		Enrollments: time.Duration(r.Enrollments), Events: time.Duration(r.Events),
	}
}

// OpenStore opens the database as the roles do, for commands that work on it
// directly.
func OpenStore(ctx context.Context, cfg config.Config) (*store.Store, error) {
	keys, err := waypost.ParseKeyring(string(cfg.Encryption.Keys))
	if err != nil {
		return nil, fmt.Errorf("WAYPOST_ENCRYPTION_KEYS: %w", err)
	}
	return store.Open(ctx, string(cfg.Database.URL), keys, Now)
}

// tokensOf gives an Admission the rates that all processes share.
func tokensOf(rates *limits.Rates) delivery.Tokens {
	return func(ctx context.Context, key string, perSecond float64, burst, n int) (int, time.Duration) {
		taken := rates.Take(ctx, key, perSecond, burst, n)
		return taken.Allowed, taken.RetryAfter
	}
}

// waker tells somebody that there is something to do.
type waker func()

func (w waker) Wake() { w() }

// enrollments are read from the database, however they are stored.
type enrollments interface {
	Enrollment(ctx context.Context, sc waypost.Scope, id string) (waypost.Enrollment, []waypost.TimelineEntry, error)
}

// starting has enrollments started by the pump of this process.
type starting struct {
	enrollments
	*worker.Pump
}

// aheadSender sends ahead of workflows by a clock that was compared with Temporal's, as
// workflows compare it before their activities.
type aheadSender struct {
	*delivery.Engine
	clock *worker.Clock
	spans *traces
}

// SendAhead is the engine's, in a span.
func (a aheadSender) SendAhead(ctx context.Context, claimed waypost.Cohort, coalesce bool) (patient bool) {
	if !a.clock.Compared() {
		return false
	}
	ctx, end := a.spans.sendAhead(ctx, claimed)
	defer end()
	return a.Engine.SendAhead(ctx, claimed, coalesce)
}

// ringing has enrollments started by another process, one with a pump.
type ringing struct {
	enrollments
	db   *store.Store
	bell *limits.Bell
}

// Enroll is the store's, and rings the bell.
func (r ringing) Enroll(ctx context.Context, sc waypost.Scope, e waypost.Enrollment, re waypost.Reentry) (waypost.Enrollment, error) {
	e, err := r.db.Enroll(ctx, sc, e, re)
	if err == nil {
		r.bell.Ring()
	}
	return e, err
}

// requestRates are the rates as the gateway asks for them, one request at a time.
type requestRates struct{ leases *limits.Leases }

func (r requestRates) Allow(ctx context.Context, key string, perSecond, burst int) gateway.Quota {
	taken := r.leases.Take(ctx, key, perSecond, burst)
	return gateway.Quota{Allowed: taken.Allowed == 1, Remaining: taken.Remaining, Reset: taken.Reset, RetryAfter: taken.RetryAfter}
}

// breakerStates are the breakers as the gateway asks for them.
type breakerStates struct{ breakers *limits.Breakers }

func (b breakerStates) BreakerState(ctx context.Context, w waypost.Webhook) waypost.BreakerState {
	s, known := b.breakers.State(ctx, w.Circuit())
	if !known {
		return waypost.BreakerState{State: waypost.BreakerUnknown}
	}
	return waypost.BreakerState{State: s.Name, Since: s.Since, NextProbe: s.NextProbe}
}

// listen opens a listener, or says which setting to change.
func listen(ctx context.Context, setting, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: set %s to another address: %w", addr, setting, err)
	}
	return l, nil
}

// pageURL makes the Web UI links to workflows or to schedules.
func pageURL(cfg config.Temporal, of string) func(id string) string {
	base := strings.TrimRight(cfg.UIURL, "/") + "/namespaces/" + url.PathEscape(cfg.Namespace) + "/" + of + "/"
	return func(id string) string { return base + url.PathEscape(id) }
}

// temporalURL makes the Web UI link that finds a lead's workflow of a journey.
func temporalURL(cfg config.Temporal) func(journeyID string, leadsID int64) string {
	base := strings.TrimRight(cfg.UIURL, "/") + "/namespaces/" + url.PathEscape(cfg.Namespace) + "/workflows?query="
	return func(journeyID string, leadsID int64) string {
		return base + url.QueryEscape(fmt.Sprintf("WaypostJourney=%q AND WaypostLead=\"%d\"", journeyID, leadsID))
	}
}

func closing(log *slog.Logger, what string, err error) {
	if err != nil {
		log.Warn("stop "+what, "error", err)
	}
}

// stack stops what was started, in reverse order.
type stack []func()

func (s *stack) push(f func()) { *s = append(*s, f) }

func (s *stack) unwind() {
	for i := len(*s) - 1; i >= 0; i-- {
		(*s)[i]()
	}
}
