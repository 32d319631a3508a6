// Package limitstest starts redis-servers for tests of what a Redis may forget.
package limitstest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Redis is a redis-server of a test.
type Redis struct {
	// Socket is the path of its Unix socket. No other process can take that, as it could a port,
	// while the server is down.
	Socket string

	t       *testing.T
	program string
	args    []string
	running *exec.Cmd
}

// StartRedis starts a redis-server with settings of its own, which ends with the test. Where none is
// installed the test is skipped, or fails if WAYPOST_TEST_REQUIRE_SERVERS says so.
func StartRedis(t *testing.T, args ...string) *Redis {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("WAYPOST_TEST_REQUIRE_SERVERS") == "1" {
			t.Fatal(err)
		}
		t.Skip("redis-server is not installed")
	}
	// That of t.TempDir has the test's name in it, and the path of a socket may have 107 bytes.
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &Redis{Socket: filepath.Join(dir, "socket"), t: t, program: program}
	r.args = append([]string{"--port", "0", "--unixsocket", r.Socket, "--save", "", "--dir", dir}, args...)
	r.Start()
	t.Cleanup(r.Kill)
	return r
}

// Start waits until the server takes connections.
func (r *Redis) Start() {
	r.t.Helper()
	cmd := exec.Command(r.program, r.args...) //nolint:gosec // redis-server
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.running = cmd
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(strings.ToLower(lines.Text()), "ready to accept connections") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return
		}
	}
	r.t.Fatalf("redis-server ended: %v", lines.Err())
}

// Kill ends the server at once.
func (r *Redis) Kill() {
	_ = r.running.Process.Kill()
	_ = r.running.Wait()
}

// Do carries out a command and returns its answer as text.
func (r *Redis) Do(args ...any) string {
	r.t.Helper()
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: r.Socket})
	defer c.Close()
	got, err := c.Do(r.t.Context(), args...).Result()
	if err != nil {
		r.t.Fatalf("%v: %v", args, err)
	}
	return fmt.Sprint(got)
}
