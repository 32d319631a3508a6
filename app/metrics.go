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
	"waypost/listen"
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

// none is the value of a label that has no other one: for Prometheus an empty label is a
// missing one.
const none = "none"

// newMetrics registers what every role counts.
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

	// Counters start at 0, so that the first event shows in a rate.
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

// countedStore is the store of the delivery engine: it counts the attempts that it records.
type countedStore struct {
	*store.Store
	metrics *metrics
}

func (r countedStore) RecordAttempts(ctx context.Context, records []delivery.AttemptRecord) error {
	if err := r.Store.RecordAttempts(ctx, records); err != nil {
		return err
	}
	for _, record := range records {
		r.metrics.recorded.WithLabelValues(string(record.Status)).Inc()
	}
	return nil
}

// counterFunc exposes a count that another part of the process keeps.
func (m *metrics) counterFunc(name, help string, labels prometheus.Labels, count func() uint64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(
		prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return float64(count()) }))
}

// fallbacks counts how often a part of limits went on without Redis.
type fallbacks interface {
	Fallbacks() (calls, outages uint64)
}

// watchRedis exposes how often use, "nonces", "rates", "breakers" or "signals", went on without
// Redis.
func (m *metrics) watchRedis(use string, f fallbacks) {
	labels := prometheus.Labels{"use": use}
	m.counterFunc("waypost_redis_fallbacks_total",
		"Calls that Redis did not answer: the process went on with what it knows itself, or refused.",
		labels, func() uint64 { calls, _ := f.Fallbacks(); return calls })
	m.counterFunc("waypost_redis_outages_total", "How often Redis went away.",
		labels, func() uint64 { _, outages := f.Fallbacks(); return outages })
}

// watchBreakers exposes the breakers that this process knows.
func (m *metrics) watchBreakers(b *limits.Breakers) {
	m.counterFunc("waypost_breakers_opened_total", "How often this process opened a webhook's breaker.",
		nil, func() uint64 { opened, _ := b.Changes(); return opened })
	m.counterFunc("waypost_breakers_closed_total", "How often this process closed a webhook's breaker.",
		nil, func() uint64 { _, closed := b.Changes(); return closed })
	m.sample(func(ctx context.Context) ([]float64, error) { return []float64{float64(b.Open(ctx))}, nil },
		gauge("waypost_breakers_open", "Breakers that are open and that somebody has come to within ten minutes, of those that this process has seen open."))
}

// watchCertificate exposes when the certificate of HTTPS expires, if there is one: one
// that is not renewed shows nowhere else before it has.
func (m *metrics) watchCertificate(c *certificate) {
	if c == nil {
		return
	}
	m.sample(func(context.Context) ([]float64, error) { return []float64{float64(c.notAfter().Unix())}, nil },
		gauge("waypost_tls_not_after_seconds", "When the certificate that is served expires, in seconds since 1970."))
}

// watchConnections exposes the connections of a port, which one of a few names tells.
func (m *metrics) watchConnections(port string, counts func() listen.Counts) {
	labels := prometheus.Labels{"port": port}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waypost_connections", Help: "Connections of clients that are open, by port.", ConstLabels: labels,
	}, func() float64 { return float64(counts().Open) }))
	for reason, count := range map[string]func(listen.Counts) uint64{
		"most":    func(c listen.Counts) uint64 { return c.Refused },
		"address": func(c listen.Counts) uint64 { return c.RefusedAddress },
	} {
		m.counterFunc("waypost_connections_refused_total", "Connections of clients that were closed as they came, by port and the bound that was reached.",
			prometheus.Labels{"port": port, "reason": reason}, func() uint64 { return count(counts()) })
	}
	m.counterFunc("waypost_connections_displaced_total", "Connections that were closed while they waited for a request, to make room, by port.",
		labels, func() uint64 { return counts().Displaced })
	m.counterFunc("waypost_accept_errors_total", "Connections that could not be accepted, mostly for want of file descriptors, by port.",
		labels, func() uint64 { return counts().Failed })
}

// sampleTime bounds what a scrape asks of the database. It is a variable for tests.
var sampleTime = 2 * time.Second

// sampled is a collector of gauges that are read when Prometheus asks. What cannot be
// read is left out.
type sampled struct {
	gauges []*prometheus.Desc
	read   func(context.Context) ([]float64, error)
}

// sample exposes gauges, with the values that read returns for them.
func (m *metrics) sample(read func(context.Context) ([]float64, error), gauges ...*prometheus.Desc) {
	m.registry.MustRegister(sampled{gauges, read})
}

func gauge(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }

// Describe lists the gauges.
func (s sampled) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range s.gauges {
		ch <- desc
	}
}

// Collect reads the gauges.
func (s sampled) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), sampleTime)
	defer cancel()
	values, err := s.read(ctx)
	if err != nil {
		return
	}
	for i, desc := range s.gauges {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, values[i])
	}
}

// outbox holds accepted enrollments until their workflow is started.
type outbox interface {
	OutboxLag(ctx context.Context) (pending int, oldest time.Duration, err error)
}

// watchOutbox exposes the enrollments that wait for a pump.
func (m *metrics) watchOutbox(db outbox) {
	m.sample(func(ctx context.Context) ([]float64, error) {
		pending, oldest, err := db.OutboxLag(ctx)
		return []float64{float64(pending), oldest.Seconds()}, err
	},
		gauge("waypost_outbox_pending", "Accepted enrollments that no workflow was started for."),
		gauge("waypost_outbox_lag_seconds", "How long the oldest of them waits."))
}

// articleOutbox holds changes of articles until they are in the index.
type articleOutbox interface {
	PendingArticleChanges(ctx context.Context) (n int, oldest time.Time, err error)
}

// watchArticles exposes the changes that the index lacks, and what this process has indexed.
func (m *metrics) watchArticles(db articleOutbox, indexer *searchsvc.Indexer) {
	m.sample(func(ctx context.Context) ([]float64, error) {
		n, oldest, err := db.PendingArticleChanges(ctx)
		lag := 0.0
		if n > 0 {
			lag = max(0, time.Since(oldest).Seconds())
		}
		return []float64{float64(n), lag}, err
	},
		gauge("waypost_articles_pending", "Changed articles that the index does not have yet."),
		gauge("waypost_articles_lag_seconds", "How long the oldest of them waits."))
	m.counterFunc("waypost_articles_indexed_total", "Articles that this process has written to the index, reindexes included.",
		nil, func() uint64 { return uint64(indexer.Stats().Indexed) })
	m.counterFunc("waypost_articles_refused_total", "Articles that the index has refused; they are tried again.",
		nil, func() uint64 { return uint64(indexer.Stats().Refused) })
}
