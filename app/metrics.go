package app

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"waypost"
	"waypost/delivery"
	"waypost/limits"
	"waypost/searchsvc"
	"waypost/store"
	"waypost/worker"
)

// metrics are what /metrics exposes, listed in docs/operations.md. Their labels
// take few values that are known beforehand; none holds an id, a path or anything
// that a client can choose.
type metrics struct {
	registry *prometheus.Registry

	requests       *prometheus.CounterVec
	requestSeconds *prometheus.HistogramVec
	attempts       *prometheus.CounterVec
	attemptSeconds *prometheus.HistogramVec
	recorded       *prometheus.CounterVec
	deferrals      *prometheus.CounterVec
	started        *prometheus.CounterVec
	signals        prometheus.Counter
	notices        prometheus.Counter
	dropped        *prometheus.CounterVec
}

// none stands for a label without a value, which Prometheus cannot tell from a
// label that is not there.
const none = "none"

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(h)
		return h
	}
	m.requests = counter("waypost_http_requests_total",
		"Answered requests by route pattern, method and status.", "route", "method", "status")
	m.requestSeconds = histogram("waypost_http_request_seconds",
		"From a request's headers to its answer, by route pattern and method.",
		[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}, "route", "method")
	m.attempts = counter("waypost_attempts_total",
		"POSTs to webhooks that have ended, by what the delivery came to and the error class.", "outcome", "class")
	m.attemptSeconds = histogram("waypost_attempt_seconds",
		"How long POSTs to webhooks took, by what the delivery came to.",
		[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30, 60, 120}, "outcome")
	m.recorded = counter("waypost_outcomes_recorded_total",
		"Ends of attempts that were written to the database, by the delivery's status after it.", "status")
	m.deferrals = counter("waypost_deferrals_total",
		"Deliveries that were held back without an attempt, by reason.", "reason")
	m.started = counter("waypost_started_total",
		"What Temporal has taken, by kind: workflows that were started and Schedules that were made or renewed.", "kind")
	m.signals = counter("waypost_signals_total",
		"Signals to workflows that Temporal has taken.").WithLabelValues()
	m.notices = counter("waypost_notices_total",
		"Notices that those signals stood for.").WithLabelValues()
	m.dropped = counter("waypost_retention_dropped_total",
		"What was dropped because its time was over, by kind.", "kind")
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	// What has not happened yet is 0, so that the first time shows in a rate.
	for _, outcome := range []string{delivery.OutcomeDelivered, delivery.OutcomeRetrying, delivery.OutcomeFailed} {
		m.attemptSeconds.WithLabelValues(outcome)
	}
	for _, status := range []waypost.DeliveryStatus{waypost.DeliverySucceeded, waypost.DeliveryRetrying, waypost.DeliveryFailed} {
		m.recorded.WithLabelValues(string(status))
	}
	for _, reason := range []string{waypost.DeferWebhookDisabled, waypost.DeferPaused, waypost.DeferRateLimit, waypost.DeferMaxConcurrency, waypost.DeferBreaker, waypost.DeferUnreadable, waypost.DeferQuietHours} {
		m.deferrals.WithLabelValues(reason)
	}
	for _, kind := range []string{worker.KindEnrollment, worker.KindLaunch, worker.KindImport, worker.KindRedelivery, worker.KindRenewal} {
		m.started.WithLabelValues(kind)
	}
	for _, kind := range waypost.DropKinds {
		m.dropped.WithLabelValues(kind)
	}
	return m
}

// handler serves the metrics in Prometheus' text format.
func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		// One collector that fails must not hide the others.
		ErrorHandling: promhttp.ContinueOnError,
		// Each asks the database.
		MaxRequestsInFlight: 4,
	})
}

// Request is the gateway's Observe.
func (m *metrics) Request(route, method string, status int, took time.Duration) {
	if route == "" {
		route = none
	}
	if method == "" {
		method = none
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.requestSeconds.WithLabelValues(route, method).Observe(took.Seconds())
}

// Attempt and Deferred make m a delivery.Observer.
func (m *metrics) Attempt(outcome, class string, took time.Duration) {
	if class == "" {
		class = none
	}
	m.attempts.WithLabelValues(outcome, class).Inc()
	m.attemptSeconds.WithLabelValues(outcome).Observe(took.Seconds())
}

func (m *metrics) Deferred(reason string, n int) {
	m.deferrals.WithLabelValues(reason).Add(float64(n))
}

// Started and Signaled make m a worker.PumpObserver.
func (m *metrics) Started(kind string, n int) { m.started.WithLabelValues(kind).Add(float64(n)) }

func (m *metrics) Signaled(n int) {
	m.signals.Inc()
	m.notices.Add(float64(n))
}

// Dropped makes m a worker.DropObserver.
func (m *metrics) Dropped(kind string, n int) { m.dropped.WithLabelValues(kind).Add(float64(n)) }

// recording is the store as the activities are given it: it counts what was
// written of attempts.
type recording struct {
	*store.Store
	metrics *metrics
}

func (r recording) RecordAttempts(ctx context.Context, records []waypost.AttemptRecord) error {
	if err := r.Store.RecordAttempts(ctx, records); err != nil {
		return err
	}
	for _, record := range records {
		r.metrics.recorded.WithLabelValues(string(record.Status)).Inc()
	}
	return nil
}

// fallbacks is what limits tells of a helper that Redis did not answer.
type fallbacks interface {
	Fallbacks() (calls, outages uint64)
}

// watchRedis exposes how often use, "nonces", "rates", "breakers" or "bells", went on without
// Redis.
func (m *metrics) watchRedis(use string, f fallbacks) {
	labels := prometheus.Labels{"use": use}
	m.registry.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "waypost_redis_fallbacks_total", ConstLabels: labels,
			Help: "Calls that Redis did not answer: the process went on with what it knows itself, or refused.",
		}, func() float64 { calls, _ := f.Fallbacks(); return float64(calls) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "waypost_redis_outages_total", ConstLabels: labels,
			Help: "How often Redis went away.",
		}, func() float64 { _, outages := f.Fallbacks(); return float64(outages) }),
	)
}

// watchBreakers exposes the breakers that this process knows.
func (m *metrics) watchBreakers(b *limits.Breakers) {
	m.registry.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "waypost_breakers_opened_total", Help: "How often this process opened a webhook's breaker.",
		}, func() float64 { opened, _ := b.Changes(); return float64(opened) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "waypost_breakers_closed_total", Help: "How often this process closed a webhook's breaker.",
		}, func() float64 { _, closed := b.Changes(); return float64(closed) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "waypost_breakers_open", Help: "Breakers that are open and that somebody has come to within ten minutes, of those that this process has seen open.",
		}, func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), backlogTime)
			defer cancel()
			return float64(b.Open(ctx))
		}),
	)
}

// watchCertificate exposes when the certificate of HTTPS expires, if there is one: one
// that is not renewed shows nowhere else before it has.
func (m *metrics) watchCertificate(c *certificate) {
	if c == nil {
		return
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waypost_tls_not_after_seconds", Help: "When the certificate that is served expires, in seconds since 1970.",
	}, func() float64 { return float64(c.notAfter().Unix()) }))
}

// backlogTime bounds what a scrape asks of the database. It is a variable for tests.
var backlogTime = 2 * time.Second

// outbox is where accepted enrollments wait for their workflow.
type outbox interface {
	OutboxLag(ctx context.Context) (pending int, oldest time.Duration, err error)
}

// doorbell is where notices wait for somebody to tell workflows of them.
type doorbell interface {
	PendingNotices(ctx context.Context) (int, error)
}

// backlog exposes what waits in the database for a pump. What cannot be read at a
// scrape is left out of it.
type backlog struct {
	outbox   outbox
	doorbell doorbell // nil if the database does not count notices
}

var (
	outboxPending  = prometheus.NewDesc("waypost_outbox_pending", "Accepted enrollments that no workflow was started for.", nil, nil)
	outboxLag      = prometheus.NewDesc("waypost_outbox_lag_seconds", "How long the oldest of them waits.", nil, nil)
	noticesPending = prometheus.NewDesc("waypost_notices_pending", "Notices that no workflow was signaled about.", nil, nil)
)

// watchBacklog exposes the backlog in db.
func (m *metrics) watchBacklog(db outbox) {
	counts, _ := db.(doorbell)
	m.registry.MustRegister(backlog{db, counts})
}

// Describe lists the metrics of the backlog.
func (backlog) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{outboxPending, outboxLag, noticesPending} {
		ch <- desc
	}
}

// Collect reads the backlog.
func (b backlog) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), backlogTime)
	defer cancel()
	gauge := func(desc *prometheus.Desc, value float64) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	if pending, oldest, err := b.outbox.OutboxLag(ctx); err == nil {
		gauge(outboxPending, float64(pending))
		gauge(outboxLag, oldest.Seconds())
	}
	if b.doorbell == nil {
		return
	}
	if pending, err := b.doorbell.PendingNotices(ctx); err == nil {
		gauge(noticesPending, float64(pending))
	}
}

// articleOutbox is where changed articles wait for the index.
type articleOutbox interface {
	PendingArticleChanges(ctx context.Context) (n int, oldest time.Time, err error)
}

// watchArticles exposes what the index lacks, and what this process does about it.
func (m *metrics) watchArticles(outbox articleOutbox, indexer *searchsvc.Indexer) {
	m.registry.MustRegister(
		articleBacklog{outbox, time.Now},
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "waypost_articles_indexed_total", Help: "Articles that this process has written to the index, reindexes included.",
		}, func() float64 { return float64(indexer.Stats().Indexed) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "waypost_articles_refused_total", Help: "Articles that the index has refused; they are tried again.",
		}, func() float64 { return float64(indexer.Stats().Refused) }),
	)
}

// articleBacklog exposes what the index does not have yet.
type articleBacklog struct {
	outbox articleOutbox
	now    func() time.Time
}

var (
	articlesPending = prometheus.NewDesc("waypost_articles_pending", "Changed articles that the index does not have yet.", nil, nil)
	articlesLag     = prometheus.NewDesc("waypost_articles_lag_seconds", "How long the oldest of them waits.", nil, nil)
)

// Describe lists the metrics of the backlog.
func (articleBacklog) Describe(ch chan<- *prometheus.Desc) {
	ch <- articlesPending
	ch <- articlesLag
}

// Collect reads the backlog.
func (b articleBacklog) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), backlogTime)
	defer cancel()
	n, oldest, err := b.outbox.PendingArticleChanges(ctx)
	if err != nil {
		return
	}
	lag := 0.0
	if n > 0 {
		lag = max(0, b.now().Sub(oldest).Seconds())
	}
	ch <- prometheus.MustNewConstMetric(articlesPending, prometheus.GaugeValue, float64(n))
	ch <- prometheus.MustNewConstMetric(articlesLag, prometheus.GaugeValue, lag)
}
