package faults

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"waypost/config"
	"waypost/devstack/harness"
)

// exposed is a serve with few descriptors, and the addresses of its ports.
type exposed struct {
	*harness.Process
	t                       *testing.T
	gateway, console, admin string
}

func startExposed(t *testing.T, descriptors int, env ...string) *exposed {
	t.Helper()
	f := harness.StartApart(t, 0, 0)
	e := &exposed{t: t, console: harness.FreeAddr(t), admin: harness.FreeAddr(t)}
	e.Process = f.Start(t, config.RoleServe, append([]string{
		harness.Descriptors + "=" + strconv.Itoa(descriptors), "WAYPOST_DATA_DIR=" + filepath.Join(t.TempDir(), "serve"), "WAYPOST_TYPESENSE_URL=",
		"WAYPOST_CONSOLE_ADDR=" + e.console, "WAYPOST_ADMIN_ADDR=" + e.admin,
		"WAYPOST_CONSOLE_ACCESS_KEY=" + f.Base.Profile.AccessKey, "WAYPOST_CONSOLE_SECRET_KEY=" + f.Base.Profile.SecretKey,
	}, env...)...)
	at, err := url.Parse(e.Client.URL)
	if err != nil {
		t.Fatal(err)
	}
	e.gateway = at.Host
	return e
}

// flood opens n connections to each port, one in eight of another address, and keeps those that are not closed. Some say
// nothing, some send half a request, some a whole one.
func (e *exposed) flood(n int) (kept []net.Conn) {
	e.t.Helper()
	says := []string{"", "GET / HTTP/1.1\r\nHost:", "GET /docs HTTP/1.1\r\nHost: h\r\n\r\n"}
	var mu sync.Mutex
	for _, addr := range []string{e.gateway, e.console, e.admin} {
		harness.Parallel(n, func(i int) {
			dialer := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%8))}}
			c, err := dialer.Dial("tcp", addr)
			if err != nil {
				return // that it cannot be opened is as good
			}
			_, _ = io.WriteString(c, says[i%len(says)])
			mu.Lock()
			defer mu.Unlock()
			kept = append(kept, c)
		})
	}
	return kept
}

// answersSoon makes signed requests on connections of their own, which must all be answered, the quickest within a
// second: the machine may have others to serve.
func (e *exposed) answersSoon() {
	e.t.Helper()
	quickest := time.Hour
	for range 5 {
		caller := *e.Client
		caller.HTTP.Transport = &http.Transport{DisableKeepAlives: true}
		began := time.Now()
		if err := caller.Do(e.t.Context(), http.MethodPost, "/v1/leads", map[string]any{"businessParam": map[string]any{"name": "Ada"}}, nil); err != nil {
			e.t.Fatal(err)
		}
		quickest = min(quickest, time.Since(began))
	}
	if quickest > time.Second {
		e.t.Errorf("a signed request is answered in %s", quickest)
	}
}

// read is the body of an answer of another port.
func (e *exposed) read(at string) (string, error) {
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}).Get("http://" + at)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", at, res.Status)
	}
	return string(b), err
}

// metric is the sum of a metric over its labels.
func (e *exposed) metric(name string) (sum int) {
	e.t.Helper()
	text, err := e.read(e.admin + "/metrics")
	if err != nil {
		e.t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, name+"{") {
			n, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]))
			if err != nil {
				e.t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// works fails the test unless all ports answer and a message is delivered.
func (e *exposed) works() {
	e.t.Helper()
	e.answersSoon()
	for _, at := range []string{e.console + "/sign-in", e.admin + "/readyz"} {
		harness.Eventually(e.t, time.Minute, func() (bool, string) {
			_, err := e.read(at)
			return err == nil, fmt.Sprint(err)
		})
	}
	r := harness.NewReceiver(e.t, taken)
	journey := e.Publish(e.t, r.URL, single.definition)
	e.AwaitEnd(e.t, e.Enroll(e.t, journey, 1)[0], time.Minute)
	if r.Messages() != 1 {
		e.t.Errorf("%d messages came", r.Messages())
	}
}

// manyFiles has this process open as many files as it may, and returns of n connections to each of the three ports
// as many as that allows.
func manyFiles(t *testing.T, n int) int {
	t.Helper()
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	files.Cur = files.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	return min(n, (int(min(files.Max, 1<<20))-500)/3)
}

// Thousands of connections to each port keep nobody out, and leave nothing behind.
func TestConnectionsAreFlooded(t *testing.T) {
	harness.Besides(t)
	n := manyFiles(t, harness.Scaled(1200, 5000))
	e := startExposed(t, 1024)
	e.works()
	kept := e.flood(n)
	t.Logf("%d connections were opened to three ports", len(kept))
	e.works()
	if open := e.metric("waypost_connections"); open > 128+32 {
		t.Errorf("%d connections are open", open)
	}
	if displaced := e.metric("waypost_connections_displaced_total"); displaced < len(kept)/2 {
		t.Errorf("%d of %d connections made room", displaced, len(kept))
	}
	if failed := e.metric("waypost_accept_errors_total"); failed > 0 {
		t.Errorf("%d connections could not be accepted", failed)
	}
	for _, c := range kept {
		_ = c.Close()
	}
	harness.Eventually(t, time.Minute, func() (bool, string) {
		open := e.metric("waypost_connections")
		return open <= 20, fmt.Sprintf("%d connections are open", open) // of the console, and of this test
	})
	e.works()
}

// A process that may hold more connections than it has descriptors goes on without any, and as before once there are some.
func TestDescriptorsRunOut(t *testing.T) {
	harness.Besides(t)
	n := manyFiles(t, 500)
	e := startExposed(t, 256, "WAYPOST_MAX_CONNECTIONS=100000", "WAYPOST_MAX_CONNECTIONS_PER_ADDRESS=100000")
	e.works()
	kept := e.flood(n)
	harness.Eventually(t, time.Minute, func() (bool, string) {
		text, err := e.read(e.admin + "/metrics")
		return err == nil && strings.Contains(text, "waypost_accept_errors_total{port=\"gateway\"} ") &&
			!strings.Contains(text, "waypost_accept_errors_total{port=\"gateway\"} 0\n"), fmt.Sprintf("no error of accept: %v", err)
	})
	for _, c := range kept {
		_ = c.Close()
	}
	harness.Eventually(t, time.Minute, func() (bool, string) {
		_, err := e.read(e.gateway + "/docs")
		return err == nil, fmt.Sprint(err)
	})
	e.works()
}
