package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"waypost/signature"
)

const idleEnv = "WAYPOST_TEST_IDLE_CLIENT"

// idleConnections is how many are tried; a process that may open fewer files opens
// fewer.
const idleConnections = 10_000

// TestIdleClient is the second process of TestIdleConnections: it opens
// connections, makes a request on each, says how many it has, and keeps them until
// its input ends.
func TestIdleClient(t *testing.T) {
	addr := os.Getenv(idleEnv)
	if addr == "" {
		return // it is no test of its own
	}
	conns := make(chan net.Conn, idleConnections)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range idleLimit() / 16 {
				var dial net.Dialer
				conn, err := dial.DialContext(t.Context(), "tcp", addr)
				if err != nil {
					return
				}
				if _, err := io.WriteString(conn, "GET /v1/nothing HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
					return
				}
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil || res.StatusCode != http.StatusNotFound {
					return
				}
				_ = res.Body.Close()
				conns <- conn
			}
		})
	}
	all.Wait()
	fmt.Printf("idle %d\n", len(conns))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// idleLimit is how many connections both processes can have.
func idleLimit() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0
	}
	return int(min(idleConnections, max(files.Cur, 1000)-500))
}

// Thousands of clients that keep a connection and say nothing do not keep others
// from being served.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	client := exec.CommandContext(t.Context(), self, "-test.run", "^TestIdleClient$")
	client.Env = append(os.Environ(), idleEnv+"="+f.addr)
	in, err := client.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	reached := 0
	for reached == 0 && lines.Scan() {
		if n, ok := strings.CutPrefix(lines.Text(), "idle "); ok {
			reached, _ = strconv.Atoi(n)
		}
	}
	t.Logf("%d idle connections", reached)
	if want := idleLimit() / 16 * 16; reached < want {
		t.Errorf("%d idle connections were reached, want %d", reached, want)
	}
	began := time.Now()
	for range 20 {
		f.get("/v1/webhooks").expect(t, http.StatusOK)
	}
	t.Logf("20 requests beside them took %s", time.Since(began))
	_ = in.Close()
	_, _ = io.Copy(io.Discard, out)
	if err := client.Wait(); err != nil {
		t.Error(err)
	}
}

// A connection on which no request has begun is closed without a word: its client
// would take an answer for that of its next request. One that has begun is told why.
func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	addr := newFixture(t).hasty(200 * time.Millisecond)
	for sent, status := range map[string]int{
		"":                                      0,
		"GET /v1/le":                            http.StatusBadRequest,
		"GET /v1/leads HTTP/1.1\r\nHost: h\r\n": http.StatusBadRequest,
		"GET /v1/nothing HTTP/1.1\r\nHost: h\r\n\r\n": http.StatusNotFound, // and then nothing
	} {
		t.Run(sent, func(t *testing.T) {
			t.Parallel()
			conn := dialed(t, addr)
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Fatal(err)
			}
			if status == 0 {
				if got, err := io.ReadAll(conn); err != nil || len(got) > 0 {
					t.Errorf("got %q, %v; want the end of the connection", got, err)
				}
				return
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != status {
				t.Errorf("status %d, want %d", res.StatusCode, status)
			}
		})
	}
}

// A client that sends its body byte by byte is not waited for.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	addr := f.hasty(200 * time.Millisecond)
	body := `{"businessParam":{"name":"Ada"}}`
	r := signature.Request{Method: "POST", Path: "/v1/leads", Headers: []signature.Header{{Name: "Host", Value: addr}, {Name: "Content-Type", Value: "application/json"}}}
	var head strings.Builder
	fmt.Fprintf(&head, "POST /v1/leads HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", addr, len(body))
	for _, h := range signature.Sign(r, f.key, []byte(body), f.clock.Now(), signature.NewNonce()) {
		fmt.Fprintf(&head, "%s: %s\r\n", h.Name, h.Value)
	}
	conn := dialed(t, addr)
	if _, err := io.WriteString(conn, head.String()+"\r\n"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() { // slower than the time there is
		ticks := time.NewTicker(100 * time.Millisecond)
		defer ticks.Stop()
		for i := range body {
			select {
			case <-ticks.C:
			case <-ended:
				return
			}
			if _, err := conn.Write([]byte{body[i]}); err != nil {
				return
			}
		}
	}()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusBadRequest || !res.Close {
		t.Errorf("status %d, closes %v; want 400 and a closed connection", res.StatusCode, res.Close)
	}
}
