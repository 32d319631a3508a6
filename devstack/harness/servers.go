package harness

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"waypost/devstack/temporal"
)

// Server is a server of a test's own that can be stopped and started again: on the
// same address, and with the same data if it keeps any.
type Server struct {
	// URL is the setting with which Waypost uses it.
	URL string
	// Process is the server's, of the last start.
	Process *Process

	launch func(t *testing.T) *Process
	ping   func(context.Context) error
}

// Start starts it and returns when it answers.
func (s *Server) Start(t *testing.T) {
	t.Helper()
	s.Process = s.launch(t)
	t.Cleanup(func() {
		if s.Process.running() {
			s.Stop(t)
		}
	})
	Eventually(t, startTimeout, func() (bool, string) {
		if !s.Process.running() {
			t.Fatalf("the server ended:\n%s", s.Process.Output)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.ping(ctx)
		return err == nil, fmt.Sprintf("the server does not answer: %v", err)
	})
}

// Stop ends it at once and waits until it is gone.
func (s *Server) Stop(t *testing.T) {
	t.Helper()
	if err := s.Process.stdin.Close(); err != nil {
		t.Errorf("stop the server: %v", err)
	}
	<-s.Process.exited
}

// external has this test binary run a program, and end it by a signal when the tests end,
// also if they are killed: the program itself does not watch its standard input.
func external(t *testing.T, dir string, end syscall.Signal, args ...string) *Process {
	t.Helper()
	return launch(t, dir, append([]string{strconv.Itoa(int(end))}, args...), RunMain+"="+RunServer)
}

// serve is what external starts.
func serve(args []string) int {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// PostgreSQL does not run as root.
	if os.Getuid() == 0 && filepath.Base(args[1]) == "postgres" {
		if cmd.SysProcAttr, err = asPostgres(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		untilTestsEnd()
		_ = cmd.Process.Signal(syscall.Signal(n)) // it may have ended
	}()
	_ = cmd.Wait() // its messages are in the output
	return cmd.ProcessState.ExitCode()
}

// FreeAddr is an address of the loopback that a role can listen on.
func FreeAddr(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort(freeAddr(t))
}

func freeAddr(t *testing.T) (host, port string) {
	t.Helper()
	l, err := temporal.ListenFree(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	host, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

// StartRedis starts redis-server, or the stand-in where there is none, as a process
// of its own. Its data is gone when it stops.
func StartRedis(t *testing.T) *Server {
	t.Helper()
	dir := t.TempDir()
	host, port := freeAddr(t)
	s := &Server{URL: "redis://" + net.JoinHostPort(host, port) + "/0"}
	s.launch = func(t *testing.T) *Process {
		return launch(t, dir, []string{"--only", "redis"}, "WAYPOST_DEV_REDIS_ADDR="+net.JoinHostPort(host, port))
	}
	if program, err := exec.LookPath("redis-server"); err == nil {
		s.launch = func(t *testing.T) *Process {
			return external(t, dir, syscall.SIGKILL, program, "--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", dir)
		}
	}
	client := redis.NewClient(&redis.Options{Addr: net.JoinHostPort(host, port), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	s.ping = func(ctx context.Context) error { return client.Ping(ctx).Err() }
	s.Start(t)
	return s
}

// StartPostgres makes a cluster with an empty database and starts it. Stop ends it as
// a crash does: it recovers when it starts again. A test that cannot have one is
// skipped, or fails if WAYPOST_TEST_REQUIRE_SERVERS says so.
func StartPostgres(t *testing.T) *Server {
	t.Helper()
	bin := postgresPrograms()
	if bin == "" {
		if os.Getenv("WAYPOST_TEST_REQUIRE_SERVERS") == "1" {
			t.Fatal("WAYPOST_TEST_REQUIRE_SERVERS=1, but initdb and postgres are not installed")
		}
		t.Skip("initdb and postgres are not installed")
	}
	// Not t.TempDir: the user that PostgreSQL runs as must be allowed to get there.
	dir, err := os.MkdirTemp("", "waypost-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	initdb := exec.CommandContext(t.Context(), filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"),
		"-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	initdb.Dir = dir
	if os.Getuid() == 0 {
		if initdb.SysProcAttr, err = asPostgres(); err != nil {
			t.Fatal(err)
		}
		owner := initdb.SysProcAttr.Credential
		if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	host, port := freeAddr(t)
	s := &Server{URL: "postgres://postgres@" + net.JoinHostPort(host, port) + "/postgres?sslmode=disable"}
	s.launch = func(t *testing.T) *Process {
		// SIGQUIT is its immediate shutdown: nothing is written any more.
		return external(t, dir, syscall.SIGQUIT, filepath.Join(bin, "postgres"), "-D", filepath.Join(dir, "data"),
			"-h", host, "-p", port, "-k", "", "-c", "max_connections=200")
	}
	db, err := sql.Open("pgx", s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s.ping = db.PingContext
	s.Start(t)
	return s
}

// postgresPrograms is the folder of the newest PostgreSQL that is installed, or "".
func postgresPrograms() string {
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return ""
	}
	version := func(dir string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		return n
	}
	slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
	if program, err := exec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(program))
	}
	for _, dir := range dirs {
		if _, err := exec.LookPath(filepath.Join(dir, "postgres")); err == nil {
			return dir
		}
	}
	return ""
}

func asPostgres() (*syscall.SysProcAttr, error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if uidErr != nil || gidErr != nil {
		return nil, fmt.Errorf("the user postgres is %s:%s", u.Uid, u.Gid)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}
