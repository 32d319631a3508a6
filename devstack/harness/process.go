package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"waypost"
	"waypost/client"
	"waypost/devstack/datadir"
	"waypost/devstack/demo"
	"waypost/signature"
)

// Bounds of what a test waits for.
const (
	startTimeout = time.Minute
	stopTimeout  = time.Minute
	pollPause    = 25 * time.Millisecond
)

// readyText is in the banner: everything is up.
const readyText = "Waypost is up"

// Process is a running waypost-dev.
type Process struct {
	Dir     string
	Profile datadir.Profile
	Client  *client.Client
	API     // of Client
	Output  *output
	cmd     *exec.Cmd
	stdin   io.Closer
	exited  chan struct{}
}

// FreePorts are settings of a waypost-dev that does not collide with another one: free ports
// everywhere, and the same ones at the next start on the directory.
func FreePorts(dir string) []string {
	env := []string{"WAYPOST_DATA_DIR=" + dir}
	for _, name := range []string{
		"WAYPOST_HTTP_ADDR", "WAYPOST_ADMIN_ADDR", "WAYPOST_DEV_TEMPORAL_ADDR", "WAYPOST_DEV_TEMPORAL_UI_ADDR",
		"WAYPOST_DEV_RECEIVER_ADDR", "WAYPOST_DEV_REDIS_ADDR", "WAYPOST_CONSOLE_ADDR",
	} {
		env = append(env, name+"=127.0.0.1:0")
	}
	return env
}

// settings have this program run as a waypost-dev with free ports.
func settings(dir string) []string {
	env := append(FreePorts(dir), RunMain+"="+RunDev)
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// StartProcess starts waypost-dev on dir and returns when it is ready. env is laid
// over the settings. It is killed when the test ends, if it still runs then.
func StartProcess(t *testing.T, dir string, args []string, env ...string) *Process {
	t.Helper()
	p := launch(t, dir, args, env...)
	p.await(t)
	return p
}

// await waits until a waypost-dev is ready, and reads how it is reached.
func (p *Process) await(t *testing.T) {
	t.Helper()
	p.awaitReady(t)
	b, err := os.ReadFile(filepath.Join(p.Dir, datadir.ProfileFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &p.Profile); err != nil {
		t.Fatal(err)
	}
	c := client.New(p.Profile.URL, signature.Key{AccessKey: p.Profile.AccessKey, SecretKey: p.Profile.SecretKey})
	c.HTTP.Transport = &http.Transport{MaxIdleConnsPerHost: 16}
	c.HTTP.Timeout = 30 * time.Second
	p.use(c)
}

// use has calls made by a client.
func (p *Process) use(c *client.Client) {
	p.Client, p.API = c, API{c.Do}
}

func (p *Process) awaitReady(t *testing.T) {
	t.Helper()
	select {
	case <-p.Output.ready:
	case <-p.exited:
		t.Fatalf("the process %q ended:\n%s", p.cmd.Args[1:], p.Output)
	case <-time.After(startTimeout):
		t.Fatalf("the process %q is not ready after %s:\n%s", p.cmd.Args[1:], startTimeout, p.Output)
	}
}

// launch starts waypost-dev without waiting for it.
func launch(t *testing.T, dir string, args []string, env ...string) *Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{Dir: dir, Output: &output{ready: make(chan struct{})}, exited: make(chan struct{})}
	p.cmd = exec.Command(self, args...)
	p.cmd.Env = append(settings(dir), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.Output, p.Output
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the state is in p.cmd.ProcessState
	}()
	t.Cleanup(func() {
		p.Kill9(t)
		if t.Failed() {
			t.Logf("%s in %s said:\n%s", args, dir, p.Output)
		}
	})
	return p
}

// Kill9 ends the process as a power cut ends it, and waits until it is gone.
func (p *Process) Kill9(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil && p.running() {
		t.Errorf("kill -9: %v", err)
	}
	<-p.exited
}

// Interrupt sends what Ctrl-C sends and returns the exit status.
func (p *Process) Interrupt(t *testing.T) int {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatalf("interrupt: %v", err)
	}
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		t.Fatalf("waypost-dev runs %s after Ctrl-C:\n%s", stopTimeout, p.Output)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *Process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// output collects what a process prints.
type output struct {
	ready chan struct{}

	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(b)
	select {
	case <-o.ready:
	default:
		if bytes.Contains(o.buf.Bytes(), []byte(readyText)) {
			close(o.ready)
		}
	}
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// Eventually asks until ok or the time is up; it then fails with what ask says.
func Eventually(t *testing.T, within time.Duration, ask func() (ok bool, state string)) {
	t.Helper()
	eventually(t, within, pollPause, ask)
}

func eventually(t *testing.T, within, pause time.Duration, ask func() (ok bool, state string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		ok, state := ask()
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after %s: %s", within, state)
		case <-tick.C:
		}
	}
}

// Enrollment is an enrollment with its timeline.
type Enrollment struct {
	ID         string                   `json:"enrollmentId"`
	Status     waypost.EnrollmentStatus `json:"status"`
	WorkflowID string                   `json:"workflowId"`
	Timeline   []waypost.TimelineEntry  `json:"timeline"`
}

// Enrollment reads an enrollment.
func (p *Process) Enrollment(t *testing.T, id string) (e Enrollment) {
	t.Helper()
	p.Do(t, http.MethodGet, "/v1/enrollments/"+id, nil, &e)
	return e
}

// AwaitEnd waits until an enrollment has ended.
func (p *Process) AwaitEnd(t *testing.T, id string, within time.Duration) (e Enrollment) {
	t.Helper()
	Eventually(t, within, func() (bool, string) {
		e = Enrollment{}
		err := p.Client.Do(t.Context(), http.MethodGet, "/v1/enrollments/"+id, nil, &e)
		return err == nil && e.Status.Ended(), fmt.Sprintf("enrollment %s is %s, %v", id, e.Status, err)
	})
	return e
}

// Deliveries lists an enrollment's deliveries by node, each with its attempts
// and its message.
func (p *Process) Deliveries(t *testing.T, enrollmentID string) map[string]demo.Delivery {
	t.Helper()
	var list struct{ Items []demo.Delivery }
	if err := p.Client.Do(t.Context(), http.MethodGet, "/v1/deliveries?enrollmentId="+enrollmentID, nil, &list); err != nil {
		t.Fatal(err)
	}
	out := map[string]demo.Delivery{}
	for _, d := range list.Items {
		if err := p.Client.Do(t.Context(), http.MethodGet, "/v1/deliveries/"+d.MessageID, nil, &d); err != nil {
			t.Fatal(err)
		}
		if _, doubled := out[d.NodeID]; doubled {
			t.Errorf("two deliveries of %s for %s", d.NodeID, enrollmentID)
		}
		out[d.NodeID] = d
	}
	return out
}

// Post is one POST in the receiver's ledger.
type Post struct {
	MessageID string `json:"messageId"`
	Path      string `json:"path"`
	Attempt   int    `json:"attempt"`
	Answered  int    `json:"answered"`
	Body      string `json:"body"`
}

// Ledger reads the receiver's own ledger, which outlives the process: every POST
// that it ever got, by the enrollment that the message names.
func (p *Process) Ledger(t *testing.T) map[string][]Post {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.Dir, datadir.LedgerFile))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]Post{}
	for line := range strings.Lines(string(b)) {
		if !strings.HasSuffix(line, "\n") {
			continue // killed while it wrote: not answered either
		}
		var post Post
		var message waypost.Message
		if err := json.Unmarshal([]byte(line), &post); err != nil {
			t.Fatalf("the ledger's line %q: %v", line, err)
		}
		if err := json.Unmarshal([]byte(post.Body), &message); err != nil {
			t.Fatalf("the ledger's message %q: %v", post.Body, err)
		}
		out[message.JourneyInfo.JourneyID] = append(out[message.JourneyInfo.JourneyID], post)
	}
	return out
}

// Enroll makes n leads and enrolls them, several at a time; it returns the enrollments' ids.
func (p *Process) Enroll(t *testing.T, journeyID string, n int) []string {
	t.Helper()
	ids := make([]string, n)
	Parallel(n, func(i int) {
		var lead struct{ LeadsID int64 }
		var made struct{ EnrollmentID string }
		p.Do(t, http.MethodPost, "/v1/leads", map[string]any{"businessParam": map[string]any{"name": "Ada"}}, &lead)
		p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/enrollments", map[string]any{"leadsId": lead.LeadsID}, &made)
		ids[i] = made.EnrollmentID
	})
	if t.Failed() {
		t.FailNow()
	}
	return ids
}
