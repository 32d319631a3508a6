package app

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"waypost"
	"waypost/config"
	"waypost/delivery"
	"waypost/gateway"
	"waypost/limits"
	"waypost/listen"
	"waypost/store"
	"waypost/worker"
)

// drainTime bounds how long a stopping process answers open requests and records outcomes.
const drainTime = 25 * time.Second

// wantedDescriptors are enough for as many POSTs as a worker makes, and for idle connections
// (docs/performance.md, "What to set in production").
const wantedDescriptors = 8192

// Gateway serves the HTTP API until ctx ends. It stores what it accepts, and wakes the
// workers through Redis, which carry it out. ready is called with the API's address once
// the gateway serves.
func Gateway(ctx context.Context, cfg config.Config, log *slog.Logger, ready func(httpAddr string)) error {
	return run(ctx, cfg, log, ready, parts{gateway: true})
}

// Worker carries out journeys until ctx ends. ready is called with the admin address once
// the worker has started.
func Worker(ctx context.Context, cfg config.Config, log *slog.Logger, ready func(adminAddr string)) error {
	return run(ctx, cfg, log, ready, parts{worker: true})
}

// Serve is Gateway and Worker in one process, with one connection to Temporal:
// a journey's first task then starts without a round trip. With the key of an application
// for it, the console is part of it.
func Serve(ctx context.Context, cfg config.Config, log *slog.Logger, ready func(httpAddr string)) error {
	return run(ctx, cfg, log, ready, parts{gateway: true, worker: true, console: cfg.Console.AccessKey != ""})
}

type parts struct{ gateway, worker, console bool }

// service is the process's service name in traces.
func (p parts) service() string {
	switch {
	case !p.worker:
		return "waypost-gateway"
	case !p.gateway:
		return "waypost-worker"
	}
	return "waypost-serve"
}

// Now is the clock of the roles. Tests of a wrong clock set another one, in a process of
// their own.
var Now = time.Now

func newProcess(cfg config.Config, log *slog.Logger, role parts) *process {
	adoptStandardLog(log)
	counts := newMetrics()
	return &process{
		cfg: cfg, log: log, role: role, clock: worker.NewClock(Now, log), counts: counts, files: descriptors(),
		ports: newPorts(cfg.HTTP, role.worker, counts, log),
	}
}

// run opens the parts of a role, starts them, and waits until ctx ends or a part fails. It
// closes the parts in reverse order.
func run(ctx context.Context, cfg config.Config, log *slog.Logger, ready func(string), role parts) error {
	p := newProcess(cfg, log, role)
	defer p.stop.unwind()
	for _, open := range []func(context.Context) error{p.openStore, p.openTemporal, p.openSender, p.openRedis, p.openSearch} {
		if err := open(ctx); err != nil {
			return err
		}
	}
	p.openLimits()
	var working *runningWorker
	if role.worker {
		working = p.startWorker(ctx)
	}
	var serving *fiber.App
	var listener *listen.Listener
	var err error
	if role.gateway {
		if serving, err = p.newGateway(ctx); err != nil {
			return err
		}
		if listener, err = p.listenGateway(ctx); err != nil {
			return err
		}
	}
	if err = p.openAdmin(ctx); err != nil {
		return err
	}
	if p.search != nil {
		p.background = append(p.background, p.search.indexer.Run)
	}
	p.stop.run(ctx, p.background...)
	failed := make(chan error, 1)
	if role.gateway {
		go func() { failed <- gateway.Serve(serving, listener) }()
		p.stop.push(func() { closing(log, "gateway", serving.ShutdownWithTimeout(drainTime)) })
	}
	var consoleFailed <-chan error
	if role.console {
		if consoleFailed, _, err = p.startConsole(ctx, p.gatewayURL(listener)); err != nil {
			return err
		}
	}
	if role.gateway {
		// The gateway accepts enrollments while Temporal is away, too.
		ready(listener.Addr().String())
	}
	p.stop.push(func() { p.admin.announce(role.gateway) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("serve the gateway on %s: %w", cfg.HTTP.Addr, err)
		case err := <-consoleFailed:
			return err
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

// retention turns the settings into the store's type.
func retention(r config.Retention) waypost.Retention {
	return waypost.Retention{
		Payloads: time.Duration(r.Payloads), Attempts: time.Duration(r.Attempts), Deliveries: time.Duration(r.Deliveries),
		Enrollments: time.Duration(r.Enrollments), Events: time.Duration(r.Events), EventCounts: time.Duration(r.EventCounts), Audit: time.Duration(r.Audit),
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

// tokensOf makes the rates that all processes share the Tokens of an Admission.
func tokensOf(rates *limits.Rates) delivery.Tokens {
	return func(ctx context.Context, key string, perSecond float64, burst, n int) (int, time.Duration) {
		taken := rates.Take(ctx, key, perSecond, burst, n)
		return taken.Allowed, taken.RetryAfter
	}
}

// waker makes a function a gateway.Waker.
type waker func()

func (w waker) Wake() { w() }

// enrollments reads enrollments; starting and signaling add how they are stored.
type enrollments interface {
	Enrollment(ctx context.Context, sc waypost.Scope, id string) (waypost.Enrollment, []waypost.TimelineEntry, error)
	Conversions(ctx context.Context, enrollmentIDs []string) (map[string]waypost.Conversion, error)
	ListEnrollments(ctx context.Context, sc waypost.Scope, f waypost.EnrollmentFilter, page waypost.Page) (list []waypost.Enrollment, next string, err error)
}

// starting stores enrollments through the pump of this process, which starts them.
type starting struct {
	enrollments
	*worker.Pump
}

// events reads and imports events; accepting stores single ones through the pump of this
// process, which starts what they begin.
type events interface {
	ImportEvents(ctx context.Context, by waypost.Caller, rows iter.Seq2[waypost.EventRow, error]) (waypost.EventImport, error)
	ListEvents(ctx context.Context, sc waypost.Scope, f waypost.EventFilter, page waypost.Page) ([]waypost.Event, error)
	EventNames(ctx context.Context, sc waypost.Scope) ([]waypost.EventName, error)
}

type accepting struct {
	events
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
func (a aheadSender) SendAhead(ctx context.Context, claimed waypost.Cohort, coalesce bool) (canWait bool) {
	if !a.clock.Compared() {
		return false
	}
	ctx, end := a.spans.sendAhead(ctx, claimed)
	defer end()
	return a.Engine.SendAhead(ctx, claimed, coalesce)
}

// signaling stores enrollments, and wakes the pumps of other processes.
type signaling struct {
	enrollments
	db     *store.Store
	signal *limits.Signal
}

// Enroll stores an enrollment and sends the signal.
func (r signaling) Enroll(ctx context.Context, by waypost.Caller, e waypost.Enrollment, re waypost.Reentry) (waypost.Enrollment, error) {
	e, err := r.db.Enroll(ctx, by, e, re)
	if err == nil {
		r.signal.Send()
	}
	return e, err
}

// requestRates implements gateway.Rates.
type requestRates struct{ leases *limits.Leases }

func (r requestRates) Allow(ctx context.Context, key string, perSecond, burst int) gateway.Quota {
	taken := r.leases.Take(ctx, key, perSecond, burst)
	return gateway.Quota{Allowed: taken.Allowed == 1, Remaining: taken.Remaining, Reset: taken.Reset, RetryAfter: taken.RetryAfter}
}

// listenGateway opens the gateway's port, with the connections that a console in the process leaves it.
func (p *process) listenGateway(ctx context.Context) (*listen.Listener, error) {
	most := p.ports.most
	if p.role.console {
		most -= most / 4
	}
	listener, err := p.ports.open(ctx, "gateway", "WAYPOST_HTTP_ADDR", p.cfg.HTTP.Addr, most, p.cert.tls("http/1.1"))
	if err != nil {
		return nil, err
	}
	p.stop.push(func() { _ = listener.Close() })
	return listener, nil
}

// breakerStates implements gateway.Breakers.
type breakerStates struct{ breakers *limits.Breakers }

func (b breakerStates) BreakerState(ctx context.Context, w waypost.Webhook) waypost.BreakerState {
	s, known := b.breakers.State(ctx, w.Circuit())
	if !known {
		return waypost.BreakerState{State: waypost.BreakerUnknown}
	}
	return waypost.BreakerState{State: s.Name, Since: s.Since, NextProbe: s.NextProbe}
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

// stack holds functions that stop parts of a process. unwind calls them in reverse order.
type stack []func()

func (s *stack) push(f func()) { *s = append(*s, f) }

// run runs functions until the stack unwinds, which waits for them.
func (s *stack) run(ctx context.Context, functions ...func(context.Context)) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, f := range functions {
		running.Go(func() { f(ctx) })
	}
	s.push(func() {
		cancel()
		running.Wait()
	})
}

func (s *stack) unwind() {
	for i := len(*s) - 1; i >= 0; i-- {
		(*s)[i]()
	}
}
