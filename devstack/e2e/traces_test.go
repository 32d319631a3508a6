package e2e

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"

	"waypost"
	"waypost/config"
	"waypost/devstack/harness"
)

// collector takes traces as an OpenTelemetry collector does over HTTP.
type collector struct {
	URL string

	mu  sync.Mutex
	raw map[string][]byte // what was sent, by service
	all map[string][]*tracepb.Span
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{raw: map[string][]byte{}, all: map[string][]*tracepb.Span{}}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var in collectorpb.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &in)
		}
		if err != nil {
			return // of a process that was killed
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, of := range in.ResourceSpans {
			service := ""
			for _, a := range of.Resource.Attributes {
				if a.Key == "service.name" {
					service = a.Value.GetStringValue()
				}
			}
			c.raw[service] = append(c.raw[service], body...)
			for _, scope := range of.ScopeSpans {
				c.all[service] = append(c.all[service], scope.Spans...)
			}
		}
	}))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// settings have a process export its traces, soon after they are made.
func (c *collector) settings() []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_BSP_SCHEDULE_DELAY=50"}
}

// spans are those of a service whose name begins like that.
func (c *collector) spans(service, name string) (list []*tracepb.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.all[service] {
		if strings.HasPrefix(s.Name, name) {
			list = append(list, s)
		}
	}
	return list
}

// bytes are what was sent, by service.
func (c *collector) bytes() map[string][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := map[string][]byte{}
	for service, raw := range c.raw {
		sent["spans of "+service] = bytes.Clone(raw)
	}
	return sent
}

func textOf(s *tracepb.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			if list := a.Value.GetArrayValue().GetValues(); len(list) > 0 {
				return list[0].GetStringValue()
			}
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// What a gateway and a worker do for an enrollment is told by both: the request, the
// start of its workflow, the activity, and in it each POST with its attempt. Nobody tells the
// receiver, nor Temporal: its histories have no header.
func TestTraces(t *testing.T) {
	t.Parallel()
	c := startCollector(t)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Traceparent", "Tracestate", "Baggage"} {
			if len(r.Header[name]) > 0 {
				t.Errorf("the receiver got %v", r.Header)
			}
		}
		_, _ = io.WriteString(w, `{"succeed":true}`)
	}))
	defer receiver.Close()

	f := harness.StartFleet(t, 0, 0)
	f.Env = append(f.Env, c.settings()...)
	worker, gateway := f.Start(t, config.RoleWorker), f.Start(t, config.RoleGateway)
	id := gateway.Publish(t, receiver.URL, `{"name":"Traced","start":"a","nodes":[{"id":"a","type":"touchpoint","webhook":%q,"next":"end"},{"id":"end","type":"exit"}]}`)
	// The first one is sent by its workflow, which compares the clocks; the next ahead of it.
	temporal := dialTemporal(t, f.Base)
	parents := map[string]string{} // the beginning of a span's name, by message
	for _, parent := range []string{"RunActivity DeliverBatch", "SendAhead"} {
		enrollment := gateway.Enroll(t, id, 1)[0]
		if e := gateway.AwaitEnd(t, enrollment, time.Minute); e.Status != waypost.EnrollmentCompleted {
			t.Fatalf("the enrollment is %+v", e)
		}
		awaitWorkflow(t, temporal, enrollment)
		parents[gateway.Deliveries(t, enrollment)["a"].MessageID] = parent
	}
	for _, p := range []*harness.Process{gateway, worker} {
		if status := p.Interrupt(t); status != 0 {
			t.Errorf("a process ended with %d", status)
		}
	}

	if n := len(c.spans("waypost-gateway", "POST /v1/journeys/:id/enrollments")); n != len(parents) {
		t.Errorf("the gateway told of %d requests to enroll", n)
	}
	posts := c.spans("waypost-worker", "POST webhook")
	if len(posts) != len(parents) {
		t.Fatalf("the worker told of %d POSTs", len(posts))
	}
	starts := slices.Concat(c.spans("waypost-gateway", "StartWorkflow Journey"), c.spans("waypost-worker", "StartWorkflow Journey"))
	for _, post := range posts {
		name := parents[textOf(post, "waypost.message.id")]
		all := c.spans("waypost-worker", name)
		i := slices.IndexFunc(all, func(s *tracepb.Span) bool { return bytes.Equal(s.SpanId, post.ParentSpanId) })
		if name == "" || i < 0 || !bytes.Equal(post.TraceId, all[i].TraceId) || textOf(post, "waypost.webhook.id") == "" {
			t.Fatalf("%v belongs to none of %v", post, all)
		}
		if !slices.ContainsFunc(post.Attributes, func(a *commonpb.KeyValue) bool { return a.Key == "waypost.attempt" && a.Value.GetIntValue() == 1 }) {
			t.Errorf("%v is not the first attempt", post)
		}
		workflow := cmp.Or(textOf(all[i], "waypost.workflow.id"), textOf(all[i], "waypost.enrollment.ids")) // which was alone
		if workflow == "" || !slices.ContainsFunc(starts, func(s *tracepb.Span) bool { return textOf(s, "waypost.workflow.id") == workflow }) {
			t.Errorf("nobody told of the start of %q: %v", workflow, starts)
		}
		noHeaders(t, temporal, workflow)
	}
}

// noHeaders finds that Temporal was told nothing of traces.
func noHeaders(t *testing.T, temporal client.Client, workflow string) {
	t.Helper()
	for events := temporal.GetWorkflowHistory(t.Context(), workflow, "", false, 0); events.HasNext(); {
		event, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		if n := len(event.GetWorkflowExecutionStartedEventAttributes().GetHeader().GetFields()) + len(event.GetActivityTaskScheduledEventAttributes().GetHeader().GetFields()); n > 0 {
			t.Errorf("there are %d headers in %v", n, event)
		}
	}
}

// Without its collector everything goes on, and the log has one line about it.
func TestTracesAway(t *testing.T) {
	t.Parallel()
	const enrollments = 20
	r := harness.NewReceiver(t, func(waypost.Message, int) harness.Answer { return harness.Answer{Status: http.StatusOK} })
	f := harness.StartFleet(t, 0, 0)
	f.Env = append(f.Env, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+freeAddr(t), "OTEL_BSP_SCHEDULE_DELAY=1", "OTEL_BSP_MAX_QUEUE_SIZE=1")
	worker, gateway := f.Start(t, config.RoleWorker), f.Start(t, config.RoleGateway)
	id := gateway.Publish(t, r.URL, `{"name":"Untraced","start":"a","nodes":[{"id":"a","type":"touchpoint","webhook":%q,"next":"end"},{"id":"end","type":"exit"}]}`)
	for _, enrollment := range gateway.Enroll(t, id, enrollments) {
		if e := gateway.AwaitEnd(t, enrollment, time.Minute); e.Status != waypost.EnrollmentCompleted {
			t.Errorf("an enrollment is %+v", e)
		}
	}
	for _, p := range []*harness.Process{gateway, worker} {
		if status := p.Interrupt(t); status != 0 {
			t.Errorf("a process ended with %d", status)
		}
		if n := strings.Count(p.Output.String(), "traces cannot be exported"); n != 1 {
			t.Errorf("%d lines tell of the collector:\n%s", n, p.Output)
		}
	}
	if n := r.Messages(); n != enrollments {
		t.Errorf("the receiver got %d messages of %d", n, enrollments)
	}
}
