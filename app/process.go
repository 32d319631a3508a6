package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/redis/go-redis/v9"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"

	"waypost"
	"waypost/activities"
	"waypost/config"
	"waypost/delivery"
	"waypost/gateway"
	"waypost/journey"
	"waypost/limits"
	"waypost/store"
	"waypost/webhook"
	"waypost/worker"
	"waypost/workflows"
)

// process holds the parts of a process. Its methods open them one by one, in the order of
// run's calls.
type process struct {
	cfg  config.Config
	log  *slog.Logger
	role parts
	stop stack

	clock    *worker.Clock
	keys     *waypost.Keyring
	cert     *certificate
	db       *store.Store
	admin    *adminServer
	spans    *traces
	counts   *metrics
	ports    ports
	temporal client.Client
	checks   []check // of the admin server

	policy webhook.Options
	sender delivery.Sender
	files  int // file descriptors; 0 if unknown

	redis    redis.UniversalClient // nil without one
	search   *articles             // nil if the role needs none
	rates    *limits.Rates
	breakers *limits.Breakers

	// New work wakes the pump of this process, or those of other processes.
	everything, enrolled *limits.Signal
	wakeAll              waker
	enrolling            gateway.Enrollments
	accepting            gateway.Events
	background           []func(context.Context)
}

// openStore opens the database.
func (p *process) openStore(ctx context.Context) (err error) {
	if p.keys, err = waypost.ParseKeyring(string(p.cfg.Encryption.Keys)); err != nil {
		return fmt.Errorf("WAYPOST_ENCRYPTION_KEYS: %w", err)
	}
	if p.cert, err = loadCertificate(p.cfg.TLS, p.log, time.Now); err != nil {
		return err
	}
	if p.db, err = store.Open(ctx, string(p.cfg.Database.URL), p.keys, p.clock.Now); err != nil {
		return err
	}
	p.db.SetEntrances(journey.NewEntrances())
	p.db.SetGoals(journey.NewGoals())
	p.db.SetEventAges(retention(p.cfg.Retention).EventAges())
	p.stop.push(func() { closing(p.log, "database", p.db.Close()) })
	// The admin server answers until all other parts have stopped.
	p.stop.push(func() {
		if p.admin != nil {
			p.admin.stop()
		}
	})
	p.counts.watchCertificate(p.cert)
	p.counts.watchOutbox(p.db)
	p.checks = append(p.checks, check{name: "database", ask: p.db.Ping})
	return nil
}

// openAdmin begins to serve the admin address.
func (p *process) openAdmin(ctx context.Context) error {
	listener, err := p.ports.admin(ctx, p.cfg.Admin.Addr)
	if err != nil {
		return err
	}
	p.admin = serveAdmin(listener, p.checks, p.counts.handler())
	return nil
}

// openTemporal starts the traces and makes the client of Temporal.
func (p *process) openTemporal(ctx context.Context) (err error) {
	p.spans = startTraces(ctx, p.role.service(), p.log)
	p.stop.push(p.spans.stop)
	if p.temporal, err = dialTemporal(p.cfg, p.keys, p.spans.interceptors(), p.log); err != nil {
		return err
	}
	p.stop.push(p.temporal.Close)
	p.checks = append(p.checks, check{name: "temporal", ask: pingTemporal(p.temporal)})
	return nil
}

// openSender makes the sender of messages.
func (p *process) openSender(context.Context) (err error) {
	// A POST that fails because there is no free file descriptor would count as the receiver's
	// fault. Half of the descriptors are for POSTs, a quarter for idle connections.
	if p.role.worker && p.files > 0 && p.files < wantedDescriptors {
		p.log.Warn("few file descriptors: fewer POSTs are made at a time; raise nofile", "nofile", p.files, "wanted", wantedDescriptors, "posts", p.files/2)
	}
	p.policy = webhook.Options{AllowCIDRs: p.cfg.Webhook.AllowCIDRs, Ports: p.cfg.Webhook.Ports, Now: p.clock.Now, MaxIdle: p.files / 4}
	if p.cfg.Webhook.Proxy != "" {
		if p.policy.Proxy, err = url.Parse(string(p.cfg.Webhook.Proxy)); err != nil {
			return errors.New("WAYPOST_WEBHOOK_PROXY: is no URL")
		}
	}
	connections := webhook.NewSender(p.policy)
	p.stop.push(connections.Close)
	p.sender = p.spans.sender(connections)
	return nil
}

func (p *process) openRedis(context.Context) error {
	if p.cfg.Redis.URL == "" {
		return nil
	}
	options, err := redis.ParseURL(string(p.cfg.Redis.URL))
	if err != nil {
		return fmt.Errorf("WAYPOST_REDIS_URL: %w", err)
	}
	p.redis = redis.NewClient(limits.ClientOptions(options))
	p.stop.push(func() { closing(p.log, "redis", p.redis.Close()) })
	return nil
}

func (p *process) redisCheck() check {
	return check{name: "redis", ask: func(ctx context.Context) error { return p.redis.Ping(ctx).Err() }}
}

func (p *process) openSearch(ctx context.Context) (err error) {
	if p.search, err = openArticles(ctx, p.cfg, p.role, p.db, p.log); err != nil || p.search == nil {
		return err
	}
	p.stop.push(func() { closing(p.log, "article index", p.search.close()) })
	p.counts.watchArticles(p.db, p.search.indexer)
	return nil
}

// openLimits makes the limits that processes share through Redis.
func (p *process) openLimits() {
	p.rates = limits.NewRates(p.redis, p.log)
	p.counts.watchRedis("rates", p.rates)
	p.breakers = limits.NewBreakers(p.redis, p.log, p.clock.Now)
	p.counts.watchRedis("breakers", p.breakers)
	p.everything, p.enrolled = limits.NewSignal(p.redis, "all"), limits.NewSignal(p.redis, "enrollments")
	p.counts.watchRedis("signals", p.enrolled)
	p.wakeAll, p.enrolling, p.accepting = p.everything.Send, signaling{p.db, p.db, p.enrolled}, p.db
	p.background = []func(context.Context){p.everything.Run, p.enrolled.Run}
}

// startWorker makes the worker with its pump, sweeper and engine, and starts it.
func (p *process) startWorker(ctx context.Context) *runningWorker {
	starter := workflows.NewClient(p.temporal, p.cfg.Temporal.TaskQueue)
	starter.Now = p.clock.Now
	var pump *worker.Pump
	wake := func() { pump.Wake() }
	engine := delivery.New(delivery.Options{
		Store: countedStore{p.db, p.counts}, Sender: p.sender, Admission: delivery.NewGate(tokensOf(p.rates), p.clock.Now, p.files/2),
		Breakers: p.breakers, Observer: p.counts, Wake: wake, Away: store.Away, Log: p.log, Now: p.clock.Now,
	})
	pump = worker.NewPump(p.db, starter, aheadSender{engine, p.clock, p.spans}, p.counts, p.log)
	pump.Now = p.clock.Now
	if p.redis != nil {
		pump.All, pump.Enrollments = p.everything, p.enrolled
	}
	p.wakeAll, p.enrolling, p.accepting = pump.Wake, starting{p.db, pump}, accepting{p.db, pump}
	sweeper := worker.NewSweeper(p.db, retention(p.cfg.Retention), p.clock.Now, starter.LastPoll, p.counts, p.log)
	p.background = []func(context.Context){pump.Run, sweeper.Run}
	p.counts.watchBreakers(p.breakers)
	acts := activities.New(activities.Options{Engine: engine, Store: p.db, Wake: wake, Log: p.log, Now: p.clock.Now})
	p.stop.push(func() {
		ctx, cancel := context.WithTimeout(context.Background(), drainTime)
		defer cancel()
		closing(p.log, "recorder", engine.Close(ctx))
	})
	working := startWorker(ctx, func() sdkworker.Worker {
		return worker.New(p.temporal, p.cfg.Temporal.TaskQueue, acts, p.clock, engine.Failed)
	}, p.log)
	p.stop.push(working.stop)
	return working
}

// longestBegin bounds how long a gateway waits before it serves.
const longestBegin = 5 * time.Second

// beginNonces warns of a Redis that may forget. If it has forgotten nonces, those who sign now
// would be refused: the gateway waits until they are not, unless that takes long, because
// a client's clock was ahead.
func (p *process) beginNonces(ctx context.Context, nonces *limits.Nonces) {
	if why, err := limits.Forgets(ctx, p.redis); err == nil {
		for _, w := range why {
			p.log.WarnContext(ctx, "Redis may forget what guards against replays", "why", w)
		}
	}
	until, err := nonces.Begin(ctx)
	if err != nil || until.IsZero() {
		return // requests find out, too
	}
	over := time.NewTimer(min(time.Until(until.Add(time.Second)), longestBegin))
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
	}
}

// newGateway makes the gateway; it does not serve yet.
func (p *process) newGateway(ctx context.Context) (*fiber.App, error) {
	if p.redis == nil {
		return nil, errors.New("WAYPOST_REDIS_URL is not set")
	}
	p.checks = append(p.checks, p.redisCheck(), check{name: "search", ask: p.search.service.Works, optional: true})
	nonces := limits.NewNonces(p.redis, p.db, p.log)
	p.counts.watchRedis("nonces", nonces)
	p.beginNonces(ctx, nonces)
	tokenKeys, err := p.keys.Derive("search-token")
	if err != nil {
		return nil, err
	}
	serving := gateway.New(gateway.Options{
		Applications:   p.db,
		Leads:          p.db,
		Imports:        p.db,
		Webhooks:       p.db,
		Subscriptions:  p.db,
		Suppressions:   p.db,
		Segments:       p.db,
		Breakers:       breakerStates{p.breakers},
		Journeys:       p.db,
		Enrollments:    p.enrolling,
		Launches:       p.db,
		Controls:       p.db,
		Events:         p.accepting,
		Audit:          p.db,
		Deliveries:     p.db,
		Articles:       p.db,
		Reindexes:      p.db,
		Search:         p.search.service,
		TokenKeys:      tokenKeys,
		IndexWaker:     p.search.indexer,
		Nonces:         nonces,
		Rates:          requestRates{limits.NewLeases(p.rates)},
		Keys:           p.db,
		Sender:         p.sender,
		CheckURL:       p.policy.CheckURL,
		Waker:          p.wakeAll,
		TemporalURL:    temporalURL(p.cfg.Temporal),
		WorkflowURL:    pageURL(p.cfg.Temporal, "workflows"),
		ScheduleURL:    pageURL(p.cfg.Temporal, "schedules"),
		AddressRate:    p.cfg.HTTP.AddressRate,
		LeastRate:      p.cfg.HTTP.LeastRate,
		TrustedProxies: p.cfg.HTTP.TrustedProxies,
		SearchOrigins:  p.cfg.Search.Origins,
		Away:           store.Away,
		PhoneRegion:    p.cfg.Lead.PhoneRegion,
		EventAges:      retention(p.cfg.Retention).EventAges(),
		Now:            Now,
		Log:            p.log,
		Observe:        p.counts.Request,
		Trace:          p.spans.requests(),
	})
	// Clients that keep a connection open are told to send no further request on it.
	serving.Server().CloseOnShutdown = true
	return serving, nil
}
