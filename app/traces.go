package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"waypost"
	"waypost/delivery"
)

// traces makes the spans of a process, if OTEL_… variables ask for them
// (docs/operations.md, "Traces"); nil makes none. A span's name and attributes are routes,
// types, ids, numbers and classes of errors: no text of a client, a receiver or an error.
type traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	log      *slog.Logger
}

// Attributes of spans beside OpenTelemetry's own.
const (
	attrWorkflowID    = attribute.Key("waypost.workflow.id")
	attrEnrollmentIDs = attribute.Key("waypost.enrollment.ids")
	attrWebhookID     = attribute.Key("waypost.webhook.id")
	attrMessageID     = attribute.Key("waypost.message.id")
	attrAttempt       = attribute.Key("waypost.attempt")
)

// flushTime bounds the export of the last spans when a process stops.
// It is a variable for tests.
var flushTime = 3 * time.Second

// startTraces sets up the traces of a role. Variables that cannot be used turn them off
// and are logged, as OpenTelemetry wants it: a role works without traces.
func startTraces(ctx context.Context, service string, log *slog.Logger) *traces {
	wanted, err := tracesWanted(os.Getenv)
	if err != nil {
		log.Warn("traces are off", "error", err)
	}
	if !wanted || err != nil {
		return nil
	}
	of, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName(service), semconv.ServiceVersion(waypost.ProductVersion)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		log.Warn("traces are off", "error", fmt.Errorf("describe this process: %w", err))
		return nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		log.Warn("traces are off", "error", fmt.Errorf("make their exporter: %w", err))
		return nil
	}
	// The sampler and the limits are read from OTEL_… by the provider.
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(of), sdktrace.WithBatcher(&loggedExporter{SpanExporter: exporter, log: log}))
	return &traces{provider, provider.Tracer("waypost", trace.WithInstrumentationVersion(waypost.ProductVersion)), log}
}

// tracesWanted tells whether traces are to be exported. The error names the invalid
// variable, but not its value, which may be secret. For variables that are not checked here
// OpenTelemetry falls back to its defaults.
func tracesWanted(getenv func(string) string) (bool, error) {
	get := func(name string) string { return strings.TrimSpace(getenv(name)) }
	if strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	endpoints := []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"}
	switch get("OTEL_TRACES_EXPORTER") {
	case "none":
		return false, nil
	case "":
		if !slices.ContainsFunc(endpoints, func(name string) bool { return get(name) != "" }) {
			return false, nil
		}
	case "otlp":
	default:
		return false, errors.New("OTEL_TRACES_EXPORTER: set it to otlp or none; others are not supported")
	}
	for _, name := range endpoints {
		u, err := url.Parse(get(name))
		if get(name) != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			return false, fmt.Errorf("%s: is no URL; for example %s=http://127.0.0.1:4318", name, name)
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		if get(name) != "" && get(name) != "http/protobuf" {
			return false, fmt.Errorf("%s: set it to http/protobuf, and the endpoint to the collector's port for that, usually 4318; others are not supported", name)
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_RESOURCE_ATTRIBUTES"} {
		if value := get(name); value != "" && !isPairs(value) {
			return false, fmt.Errorf("%s: is no list of KEY=VALUE, separated by commas, with %%2C for a comma in a value", name)
		}
	}
	return true, checkSampler(get("OTEL_TRACES_SAMPLER"), get("OTEL_TRACES_SAMPLER_ARG"))
}

var pairName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+./^_`|~-]+$")

// isPairs tells whether OpenTelemetry can read the list. It logs the text of lists that it
// cannot read, which may be secret.
func isPairs(list string) bool {
	for pair := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if _, err := url.PathUnescape(value); !ok || err != nil || !pairName.MatchString(strings.TrimSpace(name)) {
			return false
		}
	}
	return true
}

func checkSampler(name, arg string) error {
	switch strings.ToLower(name) {
	case "", "always_on", "always_off", "parentbased_always_on", "parentbased_always_off":
		return nil
	case "traceidratio", "parentbased_traceidratio":
		if ratio, err := strconv.ParseFloat(arg, 64); arg != "" && (err != nil || !(ratio >= 0 && ratio <= 1)) {
			return errors.New("OTEL_TRACES_SAMPLER_ARG: is no number from 0 to 1; for example OTEL_TRACES_SAMPLER_ARG=0.1")
		}
		return nil
	}
	return errors.New("OTEL_TRACES_SAMPLER: set it to always_on, always_off or traceidratio, or to one of these with parentbased_ before it")
}

// stop exports the last spans.
func (t *traces) stop() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("stop traces: the last spans may be lost", "error", err)
	}
}

// loggedExporter logs when exports begin to fail, and when they succeed again.
type loggedExporter struct {
	sdktrace.SpanExporter
	log  *slog.Logger
	lost atomic.Bool
}

func (e *loggedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch lost := err != nil; {
	case lost == e.lost.Swap(lost):
	case lost:
		e.log.Warn("traces cannot be exported; spans are dropped until they can", "reason", exportFault(err))
	default:
		e.log.Info("traces are exported again")
	}
	return nil // it is logged
}

var refusedStatus = regexp.MustCompile(`: ([45]\d\d) `)

// exportFault says why an export failed, without the endpoint's path and the collector's
// text, which the error holds.
func exportFault(err error) string {
	var failed *url.Error
	switch status := refusedStatus.FindStringSubmatch(err.Error()); {
	case errors.As(err, &failed):
		return failed.Err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case strings.Contains(err.Error(), "failed to send to") && status != nil:
		return "the collector answers HTTP " + status[1]
	}
	return "the collector does not take them"
}

// requests is the gateway's Trace.
func (t *traces) requests() func(context.Context, string) (context.Context, func(route, method string, status int)) {
	if t == nil {
		return nil
	}
	return t.request
}

// request begins the span of a request, in the client's trace. The client's tracestate and
// baggage are free text, and ignored.
func (t *traces) request(ctx context.Context, traceparent string) (context.Context, func(route, method string, status int)) {
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
	ctx, span := t.tracer.Start(ctx, "HTTP", trace.WithSpanKind(trace.SpanKindServer))
	return ctx, func(route, method string, status int) {
		defer span.End()
		name, of := method, semconv.HTTPRequestMethodKey.String(method)
		if name == "" || name == "UNKNOWN" {
			name, of = "HTTP", semconv.HTTPRequestMethodOther
		}
		if route != "" {
			name += " " + route
			span.SetAttributes(semconv.HTTPRoute(route))
		}
		span.SetName(name)
		span.SetAttributes(of, semconv.HTTPResponseStatusCode(status))
		if status >= http.StatusInternalServerError {
			span.SetAttributes(semconv.ErrorTypeKey.String(strconv.Itoa(status)))
			span.SetStatus(codes.Error, "")
		}
	}
}

// sender wraps s in spans.
func (t *traces) sender(s delivery.Sender) delivery.Sender {
	if t == nil {
		return s
	}
	return tracedSender{s, t}
}

// tracedSender makes a span for each POST to a webhook. The documented request has no header
// for traces, so the receiver gets none.
type tracedSender struct {
	delivery.Sender
	traces *traces
}

func (s tracedSender) Send(ctx context.Context, w waypost.Webhook, messageID string, body []byte) waypost.Outcome {
	ctx, span := s.traces.tracer.Start(ctx, "POST webhook", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		semconv.HTTPRequestMethodKey.String(http.MethodPost), attrWebhookID.String(w.ID), attrMessageID.String(messageID)))
	defer span.End()
	if attempt := delivery.AttemptOf(ctx); attempt > 0 {
		span.SetAttributes(attrAttempt.Int(attempt))
	}
	outcome := s.Sender.Send(ctx, w, messageID, body)
	if outcome.HTTPStatus != 0 {
		span.SetAttributes(semconv.HTTPResponseStatusCode(outcome.HTTPStatus))
	}
	if outcome.ErrorClass != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(outcome.ErrorClass))
		span.SetStatus(codes.Error, "")
	}
	return outcome
}

// interceptors make spans of calls to Temporal, and of activities.
func (t *traces) interceptors() []interceptor.ClientInterceptor {
	if t == nil {
		return nil
	}
	return []interceptor.ClientInterceptor{&temporalSpans{traces: t}}
}

// temporalSpans makes spans without headers in histories, unlike the SDK's own tracing: a
// journey that waits for months is not one trace. Spans of a workflow share its id.
type temporalSpans struct {
	interceptor.InterceptorBase
	traces *traces
}

func (s *temporalSpans) InterceptClient(next interceptor.ClientOutboundInterceptor) interceptor.ClientOutboundInterceptor {
	return &tracedClient{interceptor.ClientOutboundInterceptorBase{Next: next}, s.traces}
}

func (s *temporalSpans) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &tracedActivity{interceptor.ActivityInboundInterceptorBase{Next: next}, s.traces}
}

type tracedClient struct {
	interceptor.ClientOutboundInterceptorBase
	traces *traces
}

func (c *tracedClient) ExecuteWorkflow(ctx context.Context, in *interceptor.ClientExecuteWorkflowInput) (client.WorkflowRun, error) {
	ctx, span := c.start(ctx, "StartWorkflow "+in.WorkflowType, in.Options.ID)
	run, err := c.Next.ExecuteWorkflow(ctx, in)
	end(span, err)
	return run, err
}

func (c *tracedClient) SignalWorkflow(ctx context.Context, in *interceptor.ClientSignalWorkflowInput) error {
	ctx, span := c.start(ctx, "SignalWorkflow "+in.SignalName, in.WorkflowID)
	err := c.Next.SignalWorkflow(ctx, in)
	end(span, err)
	return err
}

func (c *tracedClient) CreateSchedule(ctx context.Context, in *interceptor.ScheduleClientCreateInput) (client.ScheduleHandle, error) {
	ctx, span := c.start(ctx, "CreateSchedule", in.Options.ID)
	handle, err := c.Next.CreateSchedule(ctx, in)
	end(span, err)
	return handle, err
}

func (c *tracedClient) start(ctx context.Context, name, id string) (context.Context, trace.Span) {
	return c.traces.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrWorkflowID.String(id)))
}

type tracedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	traces *traces
}

func (a *tracedActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	ctx, span := a.traces.tracer.Start(ctx, "RunActivity "+info.ActivityType.Name, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attrWorkflowID.String(info.WorkflowExecution.ID), attrAttempt.Int(int(info.Attempt))))
	result, err := a.Next.ExecuteActivity(ctx, in)
	end(span, err)
	return result, err
}

// sendAhead begins the span of what is sent ahead of workflows.
func (t *traces) sendAhead(ctx context.Context, claimed waypost.Cohort) (inSpan context.Context, end func()) {
	if t == nil {
		return ctx, func() {}
	}
	ids := make([]string, len(claimed.Members))
	for i, m := range claimed.Members {
		ids[i] = m.EnrollmentID
	}
	ctx, span := t.tracer.Start(ctx, "SendAhead", trace.WithAttributes(attrEnrollmentIDs.StringSlice(ids)))
	return ctx, func() { span.End() }
}

// end ends a span. An error's type is that of the innermost error.
func end(span trace.Span, err error) {
	defer span.End()
	if err == nil || repeated(err) {
		return
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	span.SetAttributes(semconv.ErrorTypeKey.String(fmt.Sprintf("%T", err)))
	span.SetStatus(codes.Error, "")
}

// repeated tells whether an error of Temporal is none for us: the workflow was started
// before, or the one to be signaled has ended.
func repeated(err error) bool {
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	var ended *serviceerror.NotFound
	return errors.As(err, &started) || errors.As(err, &ended) || errors.Is(err, temporal.ErrScheduleAlreadyRunning)
}
