package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/proto"

	"waypost"
	"waypost/delivery"
)

// collector takes traces as an OpenTelemetry collector does over HTTP.
type collector struct {
	*httptest.Server
	status atomic.Int32

	mu       sync.Mutex
	raw      []byte // all that was sent
	spans    []*tracepb.Span
	resource map[string]string // of the last ones
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	before := flushTime // these tests are not parallel
	flushTime = time.Minute
	t.Cleanup(func() { flushTime = before })
	c := &collector{}
	c.status.Store(http.StatusOK)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var in collectorpb.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &in)
		}
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("the collector got %s %s, %v", r.Method, r.URL, err)
		}
		status := int(c.status.Load())
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.WriteHeader(status)
		if status != http.StatusOK {
			_, _ = io.WriteString(w, "words of the collector")
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw = append(c.raw, body...)
		for _, of := range in.ResourceSpans {
			c.resource = attributesOf(of.Resource.Attributes)
			for _, scope := range of.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	return c
}

func attributesOf(list []*commonpb.KeyValue) map[string]string {
	m := map[string]string{}
	for _, a := range list {
		switch v := a.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			m[a.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			m[a.Key] = fmt.Sprint(v.IntValue)
		}
	}
	return m
}

// describe is a span in a line: its name, its attributes but for ids, and its status.
func describe(s *tracepb.Span) string {
	attrs := attributesOf(s.Attributes)
	line := s.Name
	for _, key := range slices.Sorted(maps.Keys(attrs)) {
		if !strings.HasSuffix(key, ".id") {
			line += " " + key + "=" + attrs[key]
		}
	}
	return line + " " + s.Status.GetCode().String() + s.Status.GetMessage()
}

// named is the only span of that name.
func (c *collector) named(t *testing.T, name string) *tracepb.Span {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*tracepb.Span
	for _, s := range c.spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans %s", len(found), name)
	}
	return found[0]
}

// A gateway's requests and what they have POSTed are spans of their client's trace; they
// hold nothing that clients or receivers have said, and receivers are told nothing.
func TestTraces(t *testing.T) {
	c := startCollector(t)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	headers := make(chan http.Header, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "91827 says the receiver")
	}))
	defer receiver.Close()
	g := startGateway(t)
	_, hook, err := g.call("POST", "/v1/webhooks", fmt.Sprintf(`{"name":"crm","url":%q}`, receiver.URL+"/91827?key=91827"))
	if err != nil {
		t.Fatal(err)
	}
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{7, 1}, SpanID: trace.SpanID{7, 2}, TraceFlags: trace.FlagsSampled})
	g.header = http.Header{
		"Traceparent": {fmt.Sprintf("00-%s-%s-01", parent.TraceID(), parent.SpanID())},
		"Tracestate":  {"state=91827"}, "Baggage": {"user=91827"}, "X-Request-Id": {"91827"},
	}
	if _, _, err := g.call("POST", fmt.Sprintf("/v1/webhooks/%s/test", hook["id"]), ""); err != nil {
		t.Fatal(err)
	}
	for name := range <-headers {
		if name == "Traceparent" || name == "Tracestate" || name == "Baggage" {
			t.Errorf("the receiver got %s", name)
		}
	}
	g.header = http.Header{"Traceparent": {"91827"}}
	for _, target := range []string{"/v1/leads/91827", "/91827?email=91827", "/v1/leads?name=91827&sort=91827"} {
		if _, _, err := g.call("GET", target, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := g.call("M91827", "/v1/leads/1", ""); err != nil {
		t.Fatal(err)
	}
	g.stop()
	if err := <-g.ended; err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, s := range c.spans {
		got = append(got, describe(s))
		if s.TraceState != "" || len(s.Events) > 0 || len(s.Links) > 0 {
			t.Errorf("%s holds more than attributes: %v", s.Name, s)
		}
	}
	slices.Sort(got)
	if want := []string{
		"GET /v1/leads http.request.method=GET http.response.status_code=400 http.route=/v1/leads STATUS_CODE_UNSET",
		"GET /v1/leads/:id http.request.method=GET http.response.status_code=404 http.route=/v1/leads/:id STATUS_CODE_UNSET",
		"GET http.request.method=GET http.response.status_code=404 STATUS_CODE_UNSET",
		"HTTP http.request.method=_OTHER http.response.status_code=405 STATUS_CODE_UNSET",
		"POST /v1/webhooks http.request.method=POST http.response.status_code=201 http.route=/v1/webhooks STATUS_CODE_UNSET",
		"POST /v1/webhooks/:id/test http.request.method=POST http.response.status_code=200 http.route=/v1/webhooks/:id/test STATUS_CODE_UNSET",
		"POST webhook error.type=httpStatus http.request.method=POST http.response.status_code=418 STATUS_CODE_ERROR",
	}; !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	request, post := c.named(t, "POST /v1/webhooks/:id/test"), c.named(t, "POST webhook")
	if id, of := parent.TraceID(), parent.SpanID(); !bytes.Equal(request.TraceId, id[:]) || !bytes.Equal(request.ParentSpanId, of[:]) {
		t.Errorf("the client's trace does not go on in %v", request)
	}
	if !bytes.Equal(post.TraceId, request.TraceId) || !bytes.Equal(post.ParentSpanId, request.SpanId) || attributesOf(post.Attributes)["waypost.webhook.id"] != hook["id"] {
		t.Errorf("%v is no child of %v", post, request)
	}
	if leads := c.named(t, "GET /v1/leads"); len(leads.ParentSpanId) > 0 {
		t.Errorf("a request without a trace has the parent %x", leads.ParentSpanId)
	}
	if bytes.Contains(c.raw, []byte("91827")) || bytes.Contains(c.raw, []byte(receiver.URL)) {
		t.Errorf("spans hold what was said: %q", c.raw)
	}
	for key, want := range map[string]string{
		"service.name": "waypost-gateway", "service.version": waypost.ProductVersion, "deployment.environment.name": "test",
	} {
		if c.resource[key] != want {
			t.Errorf("the resource's %s is %q, want %q", key, c.resource[key], want)
		}
	}
}

// refusing is a Sender whose receivers refuse.
type refusing struct{}

func (refusing) Send(context.Context, waypost.Webhook, string, []byte) waypost.Outcome {
	return waypost.Outcome{HTTPStatus: 503, ErrorClass: waypost.ClassHTTPStatus, Message: "private words"}
}

// An activity is a span, and what it POSTs is a child of it. Of errors their type shows.
func TestTracesOfActivities(t *testing.T) {
	c := startCollector(t)
	t.Setenv("OTEL_SERVICE_NAME", "ours")
	spans := startTraces(t.Context(), "waypost-worker", slog.New(slog.DiscardHandler))
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{spans.interceptors()[0].(interceptor.WorkerInterceptor)}})
	sender := spans.sender(refusing{})
	env.RegisterActivityWithOptions(func(ctx context.Context) error {
		sender.Send(ctx, waypost.Webhook{ID: "whk_1"}, "msg_1", nil)
		return fmt.Errorf("private words: %w", &waypost.Error{Message: "private words"})
	}, activity.RegisterOptions{Name: "Deliver"})
	if _, err := env.ExecuteActivity("Deliver"); err == nil {
		t.Fatal("the activity did not fail")
	}
	spans.stop()
	run, post := c.named(t, "RunActivity Deliver"), c.named(t, "POST webhook")
	if got, want := describe(run), "RunActivity Deliver error.type=*waypost.Error waypost.attempt=1 STATUS_CODE_ERROR"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := describe(post), "POST webhook error.type=httpStatus http.request.method=POST http.response.status_code=503 STATUS_CODE_ERROR"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !bytes.Equal(post.ParentSpanId, run.SpanId) || len(run.ParentSpanId) > 0 {
		t.Errorf("%v is no child of %v", post, run)
	}
	if bytes.Contains(c.raw, []byte("private words")) || c.resource["service.name"] != "ours" {
		t.Errorf("exported %q of %v", c.raw, c.resource)
	}
}

// logLines counts what is logged.
func logLines(out *lockedBuffer, text string) int { return strings.Count(out.String(), text) }

// lockedBuffer takes the log of several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A collector that refuses is told of once, and once more when it takes spans again.
func TestTracesRefused(t *testing.T) {
	c, out := startCollector(t), &lockedBuffer{}
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20private")
	spans := startTraces(t.Context(), "waypost-worker", slog.New(slog.NewTextHandler(out, nil)))
	export := func(status int) {
		t.Helper()
		c.status.Store(int32(status))
		_, span := spans.tracer.Start(t.Context(), fmt.Sprint("answered ", status))
		span.End()
		if err := spans.provider.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, status := range []int{401, 401, 400, 200, 200, 500} {
		export(status)
	}
	spans.stop()
	if lost, again := logLines(out, "cannot be exported"), logLines(out, "exported again"); lost != 2 || again != 1 {
		t.Errorf("told %d and %d times:\n%s", lost, again, out)
	}
	if !strings.Contains(out.String(), `reason="the collector answers HTTP 401"`) || strings.Contains(out.String(), "words of") || strings.Contains(out.String(), "private") {
		t.Errorf("logged\n%s", out)
	}
	if len(c.spans) != 2 {
		t.Errorf("%d spans", len(c.spans))
	}
}

// A collector that is away, or never answers, keeps nobody waiting, and a stop only for
// flushTime.
func TestTracesAway(t *testing.T) {
	hold := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
	defer silent.Close()
	defer close(hold)
	for name, endpoint := range map[string]string{"silent": silent.URL, "away": "http://" + freeAddr(t)} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
			t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "2")
			g := startGateway(t)
			began := time.Now()
			for range 20 {
				if res, _, err := g.call("GET", "/v1/webhooks", ""); err != nil || res.StatusCode != http.StatusOK {
					t.Fatalf("%v, %v", res, err)
				}
			}
			served := time.Since(began)
			began = time.Now()
			g.stop()
			if err := <-g.ended; err != nil {
				t.Error(err)
			}
			// The rest of a stop takes no second; the bound leaves room for a busy machine.
			if took := time.Since(began); served > time.Minute || took > flushTime+10*time.Second {
				t.Errorf("20 requests took %s, the stop %s", served, took)
			}
		})
	}
}

// OTEL_ variables turn traces on; those that cannot be used are named, without their
// value.
func TestTracesWanted(t *testing.T) {
	t.Parallel()
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318"
	for _, tt := range []struct {
		environ string
		want    bool
		problem string // the variable that is named
	}{
		{"", false, ""},
		{"OTEL_SERVICE_NAME=x OTEL_TRACES_SAMPLER=always_on", false, ""},
		{endpoint, true, ""},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://collector.example.com/in", true, ""},
		{"OTEL_TRACES_EXPORTER=otlp", true, ""},
		{"OTEL_TRACES_EXPORTER=none " + endpoint, false, ""},
		{"OTEL_SDK_DISABLED=True " + endpoint, false, ""},
		{"OTEL_SDK_DISABLED=false " + endpoint, true, ""},
		{"OTEL_TRACES_EXPORTER=zipkin-SECRET", false, "OTEL_TRACES_EXPORTER"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=SECRET:4317", false, "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://SECRET:x", false, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf " + endpoint, true, ""},
		{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc " + endpoint, false, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc " + endpoint, false, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", false, ""},
		{"OTEL_EXPORTER_OTLP_HEADERS=a=b,c=d%20e " + endpoint, true, ""},
		{"OTEL_EXPORTER_OTLP_HEADERS=Bearer-SECRET " + endpoint, false, "OTEL_EXPORTER_OTLP_HEADERS"},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS=a=SECRET%zz " + endpoint, false, "OTEL_EXPORTER_OTLP_TRACES_HEADERS"},
		{"OTEL_EXPORTER_OTLP_HEADERS=a(b=SECRET " + endpoint, false, "OTEL_EXPORTER_OTLP_HEADERS"},
		{"OTEL_RESOURCE_ATTRIBUTES=a.b/c=d%2Ce " + endpoint, true, ""},
		{"OTEL_RESOURCE_ATTRIBUTES=SECRET " + endpoint, false, "OTEL_RESOURCE_ATTRIBUTES"},
		{"OTEL_TRACES_SAMPLER=parentbased_traceidratio OTEL_TRACES_SAMPLER_ARG=0.25 " + endpoint, true, ""},
		{"OTEL_TRACES_SAMPLER=traceidratio " + endpoint, true, ""},
		{"OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=25 " + endpoint, false, "OTEL_TRACES_SAMPLER_ARG"},
		{"OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=NaN " + endpoint, false, "OTEL_TRACES_SAMPLER_ARG"},
		{"OTEL_TRACES_SAMPLER=sometimes-SECRET " + endpoint, false, "OTEL_TRACES_SAMPLER"},
	} {
		set := map[string]string{}
		for variable := range strings.FieldsSeq(tt.environ) {
			name, value, _ := strings.Cut(variable, "=")
			set[name] = value
		}
		got, err := tracesWanted(func(name string) string { return set[name] })
		if err == nil && (got != tt.want || tt.problem != "") || err != nil && (tt.problem == "" || !strings.HasPrefix(err.Error(), tt.problem+": ") || strings.Contains(err.Error(), "SECRET")) {
			t.Errorf("%s: %t, %v", tt.environ, got, err)
		}
	}
}

// What cannot be used is logged, and the role goes on without traces.
func TestTracesOff(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "console")
	out := &lockedBuffer{}
	spans := startTraces(t.Context(), "waypost-serve", slog.New(slog.NewTextHandler(out, nil)))
	if spans != nil || logLines(out, "traces are off") != 1 {
		t.Errorf("got %v, logged %s", spans, out)
	}
	if spans.requests() != nil || spans.interceptors() != nil || spans.sender(refusing{}) != delivery.Sender(refusing{}) {
		t.Error("something is traced")
	}
	spans.stop()
}
