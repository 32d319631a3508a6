package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/config"
	"waypost/delivery"
	"waypost/limits"
	"waypost/listen"
	"waypost/searchsvc"
	"waypost/worker"
)

// queue is a database's backlog.
type queue struct{ err error }

func (q queue) OutboxLag(context.Context) (int, time.Duration, error) {
	return 7, 1500 * time.Millisecond, q.err
}

func (q queue) PendingArticleChanges(context.Context) (n int, oldest time.Time, err error) {
	return 5, time.Now().Add(-time.Minute), q.err
}

type missed uint64

func (m missed) Fallbacks() (calls, outages uint64) { return uint64(m), 1 }

// exercised are metrics after everything that counts has happened once.
func exercised(q queue) *metrics {
	m := newMetrics()
	m.Request("/v1/leads/:id", "GET", 200, 3*time.Millisecond)
	m.Request("", "", 400, time.Millisecond)
	m.Attempt(delivery.OutcomeDelivered, "", 40*time.Millisecond)
	m.Attempt(delivery.OutcomeRetrying, waypost.ClassTimeout, 15*time.Second)
	m.Deferred(waypost.DeferRateLimit, 40)
	m.Started(worker.KindEnrollment, 100)
	m.Started(worker.KindLaunch, 1)
	m.Signaled(25)
	m.Signaled(5)
	m.Dropped(waypost.DropDelivery, 500)
	m.watchRedis("nonces", missed(2))
	m.watchRedis("rates", missed(4))
	m.watchBreakers(tripped())
	m.watchOutbox(q)
	m.watchArticles(q, searchsvc.NewIndexer(nil, nil, false, slog.New(slog.DiscardHandler)))
	m.watchConnections("gateway", func() listen.Counts {
		return listen.Counts{Open: 12, Refused: 5, RefusedAddress: 6, Displaced: 7, Failed: 8}
	})
	m.watchCertificate(&certificate{current: &tls.Certificate{Leaf: &x509.Certificate{NotAfter: time.Unix(1_800_000_000, 0)}}})
	return m
}

// tripped are breakers of which two have opened and one of those has closed.
func tripped() *limits.Breakers {
	ctx, now := context.Background(), time.Unix(1767225600, 0)
	b := limits.NewBreakers(nil, slog.New(slog.DiscardHandler), func() time.Time { return now })
	for _, circuit := range []string{"whk_1/", "whk_2/"} {
		_, ticket, _ := b.Admit(ctx, circuit, 100, time.Minute)
		for range 100 {
			b.Failed(ctx, circuit, ticket, true, false, 0)
		}
	}
	now = now.Add(time.Minute)
	_, ticket, _ := b.Admit(ctx, "whk_1/", 1, time.Minute)
	b.Alive(ctx, "whk_1/", ticket, true)
	return b
}

// get returns an answer of an admin server.
func get(t *testing.T, addr, path string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

func scrape(t *testing.T, m *metrics) string {
	t.Helper()
	listener, err := newPorts(config.HTTP{}, false, newMetrics(), slog.New(slog.DiscardHandler)).admin(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	admin := serveAdmin(listener, nil, m.handler())
	defer admin.stop()
	status, body := get(t, admin.addr, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("/metrics answers %d: %s", status, body)
	}
	return body
}

// What a process counts is what it exposes.
func TestMetrics(t *testing.T) {
	t.Parallel()
	lines := strings.Split(scrape(t, exercised(queue{})), "\n")
	for _, want := range []string{
		`waypost_http_requests_total{method="GET",route="/v1/leads/:id",status="200"} 1`,
		`waypost_http_requests_total{method="none",route="none",status="400"} 1`,
		`waypost_http_request_seconds_bucket{method="GET",route="/v1/leads/:id",le="0.0025"} 0`,
		`waypost_http_request_seconds_bucket{method="GET",route="/v1/leads/:id",le="0.005"} 1`,
		`waypost_attempts_total{class="none",outcome="delivered"} 1`,
		`waypost_attempts_total{class="timeout",outcome="retrying"} 1`,
		`waypost_attempt_seconds_sum{outcome="retrying"} 15`,
		`waypost_attempt_seconds_count{outcome="failed"} 0`,
		`waypost_outcomes_recorded_total{status="succeeded"} 0`,
		`waypost_deferrals_total{reason="rateLimit"} 40`,
		`waypost_deferrals_total{reason="paused"} 0`,
		`waypost_deferrals_total{reason="breakerOpen"} 0`,
		`waypost_breakers_opened_total 2`,
		`waypost_breakers_closed_total 1`,
		`waypost_breakers_open 1`,
		`waypost_started_total{kind="enrollment"} 100`,
		`waypost_started_total{kind="launch"} 1`,
		`waypost_started_total{kind="import"} 0`,
		`waypost_started_total{kind="renewal"} 0`,
		`waypost_signals_total 2`,
		`waypost_notices_total 30`,
		`waypost_retention_dropped_total{kind="delivery"} 500`,
		`waypost_retention_dropped_total{kind="payload"} 0`,
		`waypost_connections{port="gateway"} 12`,
		`waypost_connections_refused_total{port="gateway",reason="most"} 5`,
		`waypost_connections_refused_total{port="gateway",reason="address"} 6`,
		`waypost_connections_displaced_total{port="gateway"} 7`,
		`waypost_accept_errors_total{port="gateway"} 8`,
		`waypost_redis_fallbacks_total{use="nonces"} 2`,
		`waypost_redis_fallbacks_total{use="rates"} 4`,
		`waypost_redis_outages_total{use="rates"} 1`,
		`waypost_outbox_pending 7`,
		`waypost_outbox_lag_seconds 1.5`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("/metrics does not have %s", want)
		}
	}
}

// A database that is away hides the backlog, and nothing else.
func TestMetricsWithoutDatabase(t *testing.T) {
	t.Parallel()
	body := scrape(t, exercised(queue{errors.New("away")}))
	if strings.Contains(body, "waypost_outbox") || strings.Contains(body, "waypost_articles_pending") {
		t.Error("/metrics shows a backlog that nobody could read")
	}
	if !strings.Contains(body, "waypost_signals_total 2") || !strings.Contains(body, "go_goroutines") {
		t.Errorf("/metrics lacks what it knows:\n%s", body)
	}
}

var (
	typeLine   = regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`)
	sampleLine = regexp.MustCompile(`(?m)^(\w+)(?:\{(.*)\})? \S+$`)
	labelName  = regexp.MustCompile(`(\w+)="`)
	tableRow   = regexp.MustCompile("(?m)^\\| `(waypost_\\w+)` \\| (\\w+) \\| (.*?) ?\\| (.+) \\|$")
)

// exposed lists our metrics as `name type label,label`.
func exposed(body string) []string {
	labels := map[string]map[string]bool{}
	for _, sample := range sampleLine.FindAllStringSubmatch(body, -1) {
		name := sample[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
		if labels[name] == nil {
			labels[name] = map[string]bool{}
		}
		for _, label := range labelName.FindAllStringSubmatch(sample[2], -1) {
			if label[1] != "le" {
				labels[name][label[1]] = true
			}
		}
	}
	var list []string
	for _, found := range typeLine.FindAllStringSubmatch(body, -1) {
		if strings.HasPrefix(found[1], "waypost_") {
			list = append(list, fmt.Sprintf("%s %s %s", found[1], found[2], strings.Join(slices.Sorted(maps.Keys(labels[found[1]])), ",")))
		}
	}
	slices.Sort(list)
	return list
}

// The document's list of metrics is what /metrics exposes.
func TestMetricsDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range tableRow.FindAllStringSubmatch(string(text), -1) {
		var labels []string
		for label := range strings.SplitSeq(row[3], ",") {
			if label = strings.Trim(label, " `"); label != "" {
				labels = append(labels, label)
			}
		}
		slices.Sort(labels)
		documented = append(documented, fmt.Sprintf("%s %s %s", row[1], row[2], strings.Join(labels, ",")))
	}
	slices.Sort(documented)
	real := exposed(scrape(t, exercised(queue{})))
	for _, m := range real {
		if !slices.Contains(documented, m) {
			t.Errorf("/metrics has %s, the document does not", m)
		}
	}
	for _, m := range documented {
		if !slices.Contains(real, m) {
			t.Errorf("the document has %s, /metrics does not", m)
		}
	}
	for name := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) {
		if strings.HasPrefix(name, "waypost_") && name != "waypost_call" && !slices.ContainsFunc(real, func(m string) bool { return strings.HasPrefix(m, name+" ") }) {
			t.Errorf("the document speaks of %s, which does not exist", name)
		}
	}
	for _, prefix := range []string{"go_", "process_"} {
		if !strings.Contains(scrape(t, exercised(queue{})), "\n"+prefix) {
			t.Errorf("/metrics has no %s…", prefix)
		}
	}
}

// The example alerts ask for metrics that there are, and for labels that they have.
func TestAlerts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	real := map[string]string{}
	for _, m := range exposed(scrape(t, exercised(queue{}))) {
		fields := strings.Split(m, " ")
		real[fields[0]] = fields[2]
		if fields[1] == "histogram" {
			real[fields[0]+"_bucket"] = fields[2] + ",le"
		}
	}
	exprs := regexp.MustCompile(`(?m)^ +expr: (.+)$`).FindAllStringSubmatch(string(text), -1)
	if len(exprs) < 10 || len(exprs) != strings.Count(string(text), "- alert: ") {
		t.Fatalf("%d expressions", len(exprs))
	}
	for _, expr := range exprs {
		for _, used := range regexp.MustCompile(`(waypost_\w+)(?:\{(\w+)[=!])?`).FindAllStringSubmatch(expr[1], -1) {
			labels, there := real[used[1]]
			if !there || used[2] != "" && !slices.Contains(strings.Split(labels, ","), used[2]) {
				t.Errorf("/metrics has nothing like %s: %s", used[0], expr[1])
			}
		}
	}
}
