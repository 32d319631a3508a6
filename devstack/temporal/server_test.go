package temporal_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"waypost/devstack/temporal"
	"waypost/workflows"
)

// complaints are the lines of a server's log that tell of more than of calls that were
// given up, by who made them or because the machine stood still.
func complaints(log string) string {
	var lines strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "context canceled") && !strings.Contains(line, "deadline exceeded") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

func TestServerKeepsWorkflowsOverARestart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	dir := t.TempDir() + "/with % and ?"
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	o := temporal.Options{Addr: freeAddr(t), DataDir: dir, Log: slog.New(slog.NewTextHandler(&logged, nil))}

	s := start(ctx, t, o)
	c := dial(ctx, t, s.Addr())
	ns, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: temporal.Namespace})
	if err != nil {
		t.Fatal(err)
	}
	if got := ns.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration(); got != 7*24*time.Hour {
		t.Errorf("retention is %s", got)
	}
	if got, want := slices.Sorted(maps.Keys(ns.GetConfig().GetCustomSearchAttributeAliases())),
		[]string{"Keyword01", "Keyword02", "Keyword03", "Keyword04", "Keyword05", "KeywordList01", "KeywordList02"}; !slices.Equal(got, want) {
		t.Errorf("the attributes are in the columns %v, those with an index are %v", got, want)
	}
	options := client.StartWorkflowOptions{
		ID: "enr_1", TaskQueue: "q",
		TypedSearchAttributes: sdktemporal.NewSearchAttributes(
			sdktemporal.NewSearchAttributeKeyKeyword("WaypostJourney").ValueSet("jrn_1"),
			sdktemporal.NewSearchAttributeKeyKeywordList("WaypostLead").ValueSet([]string{"1", "2"}),
			sdktemporal.NewSearchAttributeKeyKeywordList("WaypostOutcome").ValueSet([]string{"retrying"}),
		),
		Priority: sdktemporal.Priority{PriorityKey: 2, FairnessKey: "org/whk"},
	}
	if _, err := c.ExecuteWorkflow(ctx, options, "Journey"); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := s.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(filepath.Join(dir, temporal.DatabaseFile)); err != nil || fi.Mode().Perm() != 0o600 {
		t.Fatalf("the database: %v, %v", fi, err)
	}

	s = start(ctx, t, o)
	c = dial(ctx, t, s.Addr())
	defer c.Close()
	starter := workflows.NewClient(c, "q")
	if polled, err := starter.LastPoll(ctx); err != nil || !polled.IsZero() {
		t.Errorf("a worker was heard of at %v, %v", polled, err)
	}
	began := time.Now()
	w := worker.New(c, "q", worker.Options{})
	w.RegisterWorkflowWithOptions(func(workflow.Context) (string, error) { return "done", nil }, workflow.RegisterOptions{Name: "Journey"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	var result string
	if err := c.GetWorkflow(ctx, "enr_1", "").Get(ctx, &result); err != nil || result != "done" {
		t.Fatalf("%q, %v", result, err)
	}
	if polled, err := starter.LastPoll(ctx); err != nil || polled.Before(began) || polled.After(time.Now()) {
		t.Errorf("a worker was last heard of at %v, %v", polled, err)
	}
	w.Stop()
	query := `WaypostJourney="jrn_1" AND WaypostLead="2" AND WaypostOutcome="retrying"`
	for found := 0; found == 0; {
		list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query})
		if err != nil {
			t.Fatal(err)
		}
		found = len(list.GetExecutions())
	}
	if err := s.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := net.DialTimeout("tcp", s.Addr(), time.Second); err == nil {
		t.Error("the frontend listens after Stop")
	}
	if said := complaints(logged.String()); said != "" {
		t.Errorf("the server complained:\n%s", said)
	}
}

// A short timer that begins when another one has gone off is not moved to the end of what
// the server has read ahead.
func TestShortTimersAreShort(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := serve(ctx, t)
	c := dial(ctx, t, s.Addr())
	defer c.Close()
	w := worker.New(c, "q", worker.Options{})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) ([]time.Duration, error) {
		var took []time.Duration
		for range 9 {
			began := workflow.Now(ctx)
			if err := workflow.Sleep(ctx, 10*time.Millisecond); err != nil {
				return nil, err
			}
			took = append(took, workflow.Now(ctx).Sub(began))
		}
		return took, nil
	}, workflow.RegisterOptions{Name: "Journey"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "enr_1", TaskQueue: "q"}, "Journey")
	if err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	if err := run.Get(ctx, &took); err != nil {
		t.Fatal(err)
	}
	// On a machine that stands still for a while some may take long; by default nearly all do.
	if slices.Sort(took); took[len(took)/2] > 800*time.Millisecond {
		t.Errorf("timers of 10 ms took %v", took)
	}
}

func TestDatabaseOfANewerVersion(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	file := filepath.Join(dir, temporal.DatabaseFile)
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	_, err = temporal.Start(ctx, temporal.Options{Addr: freeAddr(t), DataDir: dir, Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "newer waypost-dev") || strings.Contains(err.Error(), "\n") {
		t.Errorf("the error is %v", err)
	}
}

func TestUIAndCodec(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := serve(ctx, t)
	uiAddr := freeAddr(t)
	origin := "http://" + uiAddr
	codec := converter.NewZlibCodec(converter.ZlibCodecOptions{AlwaysEncode: true})
	handler, err := temporal.NewCodec("s3cret", []string{origin}, codec)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := httptest.NewServer(handler)
	defer endpoint.Close()
	openURL := endpoint.URL
	secretURL := openURL + "/s3cret"
	ui, err := temporal.StartUI(ctx, uiAddr, s.Addr(), secretURL)
	if err != nil {
		t.Fatal(err)
	}
	if body := get(t, origin+"/api/v1/settings"); !strings.Contains(body, secretURL) {
		t.Errorf("the UI does not know the codec endpoint: %s", body)
	}
	if body := get(t, origin+"/api/v1/namespaces/default"); !strings.Contains(body, "WaypostOutcome") {
		t.Errorf("the UI shows the namespace as %s", body)
	}
	if body := get(t, origin+"/"); !strings.Contains(body, "<!") {
		t.Errorf("no page: %s", body)
	}

	plain := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`"hello"`)}
	sealed, err := codec.Encode([]*commonpb.Payload{plain})
	if err != nil {
		t.Fatal(err)
	}
	request, err := json.Marshal(commonpb.Payloads{Payloads: sealed})
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name, method, url, origin string
		status                    int
		want                      string
	}{
		{"the UI", "POST", secretURL + "/decode", origin, 200, "ImhlbGxvIg=="},
		{"the UI's preflight", "OPTIONS", secretURL + "/decode", origin, 204, ""},
		{"a program", "POST", secretURL + "/decode", "", 200, "ImhlbGxvIg=="},
		{"another page", "POST", secretURL + "/decode", "http://evil.example", 403, ""},
		{"another page's preflight", "OPTIONS", secretURL + "/decode", "http://evil.example", 403, ""},
		{"without the secret", "POST", openURL + "/decode", origin, 404, ""},
		{"a wrong secret", "POST", openURL + "/secret/decode", origin, 404, ""},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(ctx, tc.method, tc.url, bytes.NewReader(request))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			if tc.origin != "" {
				req.Header.Set("Origin", tc.origin)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != tc.status || !strings.Contains(string(body), tc.want) {
				t.Errorf("%d %s", res.StatusCode, body)
			}
			if allowed := res.Header.Get("Access-Control-Allow-Origin"); allowed != "" && (allowed != origin || tc.origin != origin) {
				t.Errorf("allows %q to %q", allowed, tc.origin)
			}
		})
	}
	if err := ui.Stop(ctx); err != nil {
		t.Error(err)
	}
	if _, err := net.DialTimeout("tcp", uiAddr, time.Second); err == nil {
		t.Error("the UI listens after Stop")
	}
}

func TestSearchAttributes(t *testing.T) {
	t.Parallel()
	var got []string
	for name, kind := range temporal.SearchAttributes() {
		got = append(got, fmt.Sprint(name, " ", kind))
	}
	slices.Sort(got)
	want := []string{"WaypostJourney Keyword", "WaypostLead KeywordList", "WaypostNode Keyword", "WaypostOrg Keyword",
		"WaypostOutcome KeywordList", "WaypostStage Keyword", "WaypostWebhook Keyword"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// serve starts a server on SQLite and stops it when the test has ended.
func serve(ctx context.Context, t *testing.T) *temporal.Server {
	t.Helper()
	s := start(ctx, t, temporal.Options{Addr: freeAddr(t), DataDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

func start(ctx context.Context, t *testing.T, o temporal.Options) *temporal.Server {
	t.Helper()
	began := time.Now()
	s, err := temporal.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %s", time.Since(began).Round(time.Millisecond))
	return s
}

func dial(ctx context.Context, t *testing.T, addr string) client.Client {
	t.Helper()
	c, err := client.DialContext(ctx, client.Options{HostPort: addr, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := temporal.ListenFree(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
