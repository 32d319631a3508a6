// Package app is the wiring: one function a role, from top to bottom, so that
// both binaries run the same code.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/redis/go-redis/v9"
	sdkworker "go.temporal.io/sdk/worker"

	"waypost"
	"waypost/activities"
	"waypost/config"
	"waypost/delivery"
	"waypost/gateway"
	"waypost/limits"
	"waypost/store"
	"waypost/webhook"
	"waypost/worker"
	"waypost/workflows"
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

func run(ctx context.Context, cfg config.Config, log *slog.Logger, ready func(string), role parts) error {
	var stop stack
	defer stop.unwind()
	adoptStandardLog(log)

	keys, err := waypost.ParseKeyring(string(cfg.Encryption.Keys))
	if err != nil {
		return fmt.Errorf("WAYPOST_ENCRYPTION_KEYS: %w", err)
	}
	cert, err := loadCertificate(cfg.TLS, log, time.Now)
	if err != nil {
		return err
	}
	clock := worker.NewClock(Now, log)
	db, err := store.Open(ctx, string(cfg.Database.URL), keys, clock.Now)
	if err != nil {
		return err
	}
	stop.push(func() { closing(log, "database", db.Close()) })

	// It answers until all that is under way has ended.
	var admin *adminServer
	stop.push(func() {
		if admin != nil {
			admin.stop()
		}
	})
	spans := startTraces(ctx, role.service(), log)
	stop.push(spans.stop)
	counts := newMetrics()
	counts.watchCertificate(cert)

	temporal, err := dialTemporal(cfg, keys, spans.interceptors(), log)
	if err != nil {
		return err
	}
	stop.push(temporal.Close)

	// A POST that cannot be dialled for want of a file descriptor would count as the
	// receiver's fault. Half of them are for POSTs, a quarter is for connections that are
	// kept.
	files := descriptors()
	if role.worker && files > 0 && files < wantedDescriptors {
		log.Warn("few file descriptors: fewer POSTs are made at a time; raise nofile", "nofile", files, "wanted", wantedDescriptors, "posts", files/2)
	}
	policy := webhook.Options{AllowCIDRs: cfg.Webhook.AllowCIDRs, Ports: cfg.Webhook.Ports, Now: clock.Now, MaxIdle: files / 4}
	if cfg.Webhook.Proxy != "" {
		if policy.Proxy, err = url.Parse(string(cfg.Webhook.Proxy)); err != nil {
			return errors.New("WAYPOST_WEBHOOK_PROXY: is no URL")
		}
	}
	connections := webhook.NewSender(policy)
	stop.push(connections.Close)
	sender := spans.sender(connections)

	counts.watchBacklog(db)
	checks := []check{{name: "database", ask: db.Ping}, {name: "temporal", ask: pingTemporal(temporal)}}

	var shared redis.UniversalClient
	if cfg.Redis.URL != "" {
		options, err := redis.ParseURL(string(cfg.Redis.URL))
		if err != nil {
			return fmt.Errorf("WAYPOST_REDIS_URL: %w", err)
		}
		shared = redis.NewClient(limits.ClientOptions(options))
		stop.push(func() { closing(log, "redis", shared.Close()) })
	}

	search, err := openArticles(ctx, cfg, role, db, log)
	if err != nil {
		return err
	}
	if search != nil {
		stop.push(func() { closing(log, "article index", search.close()) })
		counts.watchArticles(db, search.indexer)
	}

	rates := limits.NewRates(shared, log)
	counts.watchRedis("rates", rates)

	breakers := limits.NewBreakers(shared, log, clock.Now)
	counts.watchRedis("breakers", breakers)

	// What is written wakes the pump of this process, or of one that has a worker.
	everything, enrolled := limits.NewBell(shared, "all"), limits.NewBell(shared, "enrollments")
	wakeAll := waker(everything.Ring)
	var enrolling gateway.Enrollments = ringing{db, db, enrolled}
	counts.watchRedis("bells", enrolled)
	background := []func(context.Context){everything.Run, enrolled.Run}

	var working *runningWorker
	if role.worker {
		starter := workflows.NewClient(temporal, cfg.Temporal.TaskQueue)
		starter.Now = clock.Now
		pump := worker.NewPump(db, starter, counts, log)
		pump.Now = clock.Now
		if shared != nil {
			pump.All, pump.Enrollments = everything, enrolled
		}
		wakeAll, enrolling = pump.Wake, starting{db, pump}
		sweeper := worker.NewSweeper(db, retention(cfg.Retention), clock.Now, starter.LastPoll, counts, log)
		background = []func(context.Context){pump.Run, sweeper.Run}
		counts.watchBreakers(breakers)
		engine := delivery.New(delivery.Options{
			Store: recording{db, counts}, Sender: sender, Admission: delivery.NewTurnstile(tokensOf(rates), clock.Now, files/2),
			Breakers: breakers, Observer: counts, Wake: pump.Wake, OnSent: pump.TookOff, Yield: pump.GiveWay, Away: store.Away, Log: log, Now: clock.Now,
		})
		acts := activities.New(activities.Options{Engine: engine, Store: db, Wake: pump.Wake, Log: log, Now: clock.Now})
		pump.Failed = engine.Failed
		ahead := spans.ahead(engine.SendAhead)
		pump.SendAhead = func(ctx context.Context, c waypost.Cohort) bool {
			return clock.Compared() && ahead(ctx, c) // a workflow compares it before its activities
		}
		stop.push(func() {
			ctx, cancel := context.WithTimeout(context.Background(), drainTime)
			defer cancel()
			closing(log, "recorder", engine.Close(ctx))
		})
		working = startWorker(ctx, func() sdkworker.Worker { return worker.New(temporal, cfg.Temporal.TaskQueue, acts, clock, pump) }, log)
		stop.push(working.stop)
	}

	var serving *fiber.App
	var listener net.Listener
	if role.gateway {
		if shared == nil {
			return errors.New("WAYPOST_REDIS_URL is not set")
		}
		checks = append(checks, check{name: "redis", ask: func(ctx context.Context) error { return shared.Ping(ctx).Err() }},
			check{name: "search", ask: search.service.Works, optional: true})
		nonces := limits.NewNonces(shared)
		counts.watchRedis("nonces", nonces)
		tokenKeys, err := keys.Derive("search-token")
		if err != nil {
			return err
		}

		serving = gateway.New(gateway.Options{
			Applications:   db,
			Leads:          db,
			Imports:        db,
			Webhooks:       db,
			Breakers:       breakerStates{breakers},
			Journeys:       db,
			Enrollments:    enrolling,
			Launches:       db,
			Controls:       db,
			Events:         db,
			Deliveries:     db,
			Articles:       db,
			Reindexes:      db,
			Search:         search.service,
			TokenKeys:      tokenKeys,
			IndexWaker:     search.indexer,
			Nonces:         nonces,
			Rates:          requestRates{limits.NewLeases(rates)},
			Keys:           db,
			Sender:         sender,
			CheckURL:       policy.CheckURL,
			Waker:          wakeAll,
			TemporalURL:    temporalURL(cfg.Temporal),
			WorkflowURL:    pageURL(cfg.Temporal, "workflows"),
			ScheduleURL:    pageURL(cfg.Temporal, "schedules"),
			AddressRate:    cfg.HTTP.AddressRate,
			TrustedProxies: cfg.HTTP.TrustedProxies,
			SearchOrigins:  cfg.Search.Origins,
			Away:           store.Away,
			PhoneRegion:    cfg.Lead.PhoneRegion,
			Now:            Now,
			Log:            log,
			Observe:        counts.Request,
			Trace:          spans.requests(),
		})
		// Who keeps a connection open is told to open no further request on it.
		serving.Server().CloseOnShutdown = true
		if listener, err = listen(ctx, "WAYPOST_HTTP_ADDR", cfg.HTTP.Addr); err != nil {
			return err
		}
		stop.push(func() { _ = listener.Close() })
	}

	if admin, err = serveAdmin(ctx, cfg.Admin.Addr, checks, counts.handler()); err != nil {
		return err
	}

	inBackground, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, run := range background {
		running.Go(func() { run(inBackground) })
	}
	stop.push(func() { stopBackground(); running.Wait() })
	if search != nil {
		stop.push(search.run(ctx))
	}

	failed := make(chan error, 1)
	if role.gateway {
		go func() { failed <- gateway.Serve(serving, cert.listen(listener)) }()
		stop.push(func() { closing(log, "gateway", serving.ShutdownWithTimeout(drainTime)) })
		// It accepts enrollments whether Temporal is there or not.
		ready(listener.Addr().String())
	}
	stop.push(func() { admin.announce(role.gateway) })
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
				ready(admin.addr)
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
