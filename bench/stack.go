package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"waypost/signature"
)

// Bounds of what the bench waits for.
const (
	startTime = 2 * time.Minute
	stopTime  = time.Minute
)

// stack is a running Waypost.
type stack struct {
	dir       string
	profile   profile
	database  string // what people are to know about it
	postgres  *postgres
	processes []*process
	watched   []measured
}

// profile is what we read of waypost-dev's profile.json.
type profile struct {
	URL             string `json:"url"`
	AccessKey       string `json:"accessKey"`
	SecretKey       string `json:"secretKey"`
	TemporalAddress string `json:"temporalAddress"`
}

// process is a program that the bench started.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    string // where its output goes
	exited chan struct{}
}

// startStack starts Waypost on a new data directory and returns when it answers.
func startStack(ctx context.Context, o options, tell say) (_ *stack, err error) {
	s := &stack{database: "SQLite for Waypost and for Temporal"}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop(context.WithoutCancel(ctx), true, o.keep, tell))
		}
	}()
	if s.dir, err = os.MkdirTemp(o.dir, "waypost-bench-"); err != nil {
		return nil, err
	}
	env := environment()
	if o.postgres != "" {
		if s.postgres, err = newPostgres(ctx, o.postgres); err != nil {
			return nil, err
		}
		s.database = s.postgres.kind + " for Waypost and for Temporal"
		env = append(env, "WAYPOST_DATABASE_URL="+s.postgres.ours, "WAYPOST_DEV_TEMPORAL_DATABASE_URL="+s.postgres.temporal)
	}
	only, shared := "temporal,redis", measured{}
	if o.redis != "" {
		var version string
		if version, shared, err = lookAtRedis(ctx, o.redis); err != nil {
			return nil, err
		}
		only = "temporal"
		s.database += ", " + version
		env = append(env, "WAYPOST_REDIS_URL="+o.redis)
	}
	tell("start Waypost (%s) in %s", s.database, s.dir)
	if o.roles == rolesAll {
		only += ",gateway,worker"
	}
	dev := append(env, "WAYPOST_DATA_DIR="+s.dir)
	for _, name := range []string{
		"WAYPOST_HTTP_ADDR", "WAYPOST_ADMIN_ADDR", "WAYPOST_DEV_TEMPORAL_ADDR", "WAYPOST_DEV_TEMPORAL_UI_ADDR",
		"WAYPOST_DEV_RECEIVER_ADDR", "WAYPOST_DEV_REDIS_ADDR", "WAYPOST_CONSOLE_ADDR",
	} {
		dev = append(dev, name+"=127.0.0.1:0")
	}
	main, err := s.start(filepath.Join(o.binaries, "waypost-dev"), "waypost-dev", dev, "--no-demo", "--only", only)
	if err != nil {
		return nil, err
	}
	// The profile is there once everything is up.
	if err := main.until(ctx, "waypost-dev is not up", func() (bool, error) { return s.readProfile() }); err != nil {
		return nil, err
	}
	if err := s.startRoles(ctx, o); err != nil {
		return nil, err
	}
	s.watched = append(s.watched, measured{name: self, pid: os.Getpid()})
	if s.postgres != nil && s.postgres.postmaster > 0 {
		s.watched = append(s.watched, measured{name: "postgres", pid: s.postgres.postmaster, family: true})
	}
	if shared.pid > 0 {
		s.watched = append(s.watched, shared)
	}
	return s, nil
}

// startRoles starts the roles that have a process of their own, and returns when the gateway
// answers. Nothing waits for the worker: the first enrollment does.
func (s *stack) startRoles(ctx context.Context, o options) error {
	roles := map[string][]string{rolesServe: {"serve"}, rolesSplit: {"gateway", "worker"}}[o.roles]
	if len(roles) == 0 {
		return nil
	}
	joined, err := s.joinSettings()
	if err != nil {
		return err
	}
	for _, role := range roles {
		env := append(append(environment(), joined...), "WAYPOST_ADMIN_ADDR=127.0.0.1:0")
		p, err := s.start(filepath.Join(o.binaries, "waypost"), "waypost "+role, env, role)
		if err != nil {
			return err
		}
		if role == "worker" {
			continue
		}
		c := s.client()
		if err := p.until(ctx, "the gateway does not answer", func() (bool, error) {
			return c.Do(ctx, http.MethodGet, "/v1/webhooks", nil, nil) == nil, nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s *stack) client() *caller {
	return newCaller(s.profile.URL, signature.Key{AccessKey: s.profile.AccessKey, SecretKey: s.profile.SecretKey})
}

// temporal connects to Temporal itself.
func (s *stack) temporal() (sdk.Client, error) {
	c, err := sdk.Dial(sdk.Options{
		HostPort: s.profile.TemporalAddress,
		Logger:   log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return nil, fmt.Errorf("dial Temporal: %w", err)
	}
	return c, nil
}

// environment is ours without settings for another Waypost or Temporal.
func environment() []string {
	var out []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "WAYPOST_") && !strings.HasPrefix(e, "TEMPORAL_") {
			out = append(out, e)
		}
	}
	return out
}

func (s *stack) start(path, name string, env []string, args ...string) (*process, error) {
	p := &process{name: name, exited: make(chan struct{})}
	p.log = filepath.Join(s.dir, strings.ReplaceAll(name, " ", "-")+".out")
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd = exec.Command(path, args...)
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, out, out
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s (`make build` makes it): %w", name, err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // its output says why
	}()
	s.processes = append(s.processes, p)
	s.watched = append(s.watched, measured{name: name, pid: p.cmd.Process.Pid})
	return p, nil
}

// until waits for the process to be ready.
func (p *process) until(ctx context.Context, what string, ask func() (bool, error)) error {
	return until(ctx, 50*time.Millisecond, startTime, what, func() (bool, error) {
		select {
		case <-p.exited:
			b, _ := os.ReadFile(p.log)
			return false, fmt.Errorf("%s ended:\n%s", p.name, b)
		default:
			return ask()
		}
	})
}

func (s *stack) readProfile() (bool, error) {
	b, err := os.ReadFile(filepath.Join(s.dir, "profile.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, json.Unmarshal(b, &s.profile)
}

// joinSettings are those with which roles of their own join waypost-dev.
func (s *stack) joinSettings() ([]string, error) {
	b, err := os.ReadFile(filepath.Join(s.dir, "waypost.env"))
	if err != nil {
		return nil, err
	}
	var env []string
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "="); ok && !strings.HasPrefix(name, "#") {
			env = append(env, name+"="+strings.Trim(value, "'"))
		}
	}
	return env, nil
}

// stop ends the processes, the last one first, and removes data directory and
// databases unless they are to be kept.
func (s *stack) stop(ctx context.Context, keepDir, keepDatabases bool, tell say) error {
	var problems []error
	for i := len(s.processes) - 1; i >= 0; i-- {
		p := s.processes[i]
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		select {
		case <-p.exited:
		case <-time.After(stopTime):
			problems = append(problems, fmt.Errorf("%s does not stop, and is killed", p.name), p.cmd.Process.Kill())
			<-p.exited
		}
	}
	switch {
	case s.postgres == nil:
	case keepDatabases:
		tell("the databases %s are kept", strings.Join(s.postgres.names, ", "))
	default:
		problems = append(problems, s.postgres.drop(ctx))
	}
	if keepDir && s.dir != "" {
		tell("data and logs are kept in %s", s.dir)
	} else {
		problems = append(problems, os.RemoveAll(s.dir))
	}
	return errors.Join(problems...)
}

// bytes is the size of the databases, Waypost's and Temporal's.
func (s *stack) bytes(ctx context.Context) (ours, temporal int64, err error) {
	if s.postgres != nil {
		return s.postgres.bytes(ctx)
	}
	files, err := filepath.Glob(filepath.Join(s.dir, "*.db*"))
	if err != nil {
		return 0, 0, err
	}
	for _, file := range files {
		info, err := os.Stat(file)
		switch {
		case errors.Is(err, fs.ErrNotExist): // a journal that has just gone
		case err != nil:
			return 0, 0, err
		case strings.Contains(filepath.Base(file), "temporal"):
			temporal += info.Size()
		default:
			ours += info.Size()
		}
	}
	return ours, temporal, nil
}

// postgres is a server with databases that were made for this run.
type postgres struct {
	server         *url.URL
	kind           string
	postmaster     int // its process, 0 if it is not on this machine
	ours, temporal string
	names          []string // of the databases: ours, Temporal's, Temporal's visibility
}

// newPostgres makes Waypost's database, with a name that no other run has; waypost-dev makes Temporal's.
func newPostgres(ctx context.Context, raw string) (*postgres, error) {
	server, err := url.Parse(raw)
	if err != nil || server.Host == "" {
		return nil, errors.New("--postgres: it is no postgres:// URL")
	}
	base := "waypost_bench_" + strings.ToLower(rand.Text()[:10])
	p := &postgres{server: server, names: []string{base, base + "_temporal", base + "_temporal_visibility"}}
	p.ours, p.temporal = p.at(p.names[0]), p.at(p.names[1])
	return p, with(ctx, server.String(), func(db *pgx.Conn) error {
		var version, commit, fsync, huge, buffers string
		var backend int
		err := db.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('synchronous_commit'), current_setting('fsync'),
			current_setting('huge_pages'), current_setting('shared_buffers'), pg_backend_pid()`).
			Scan(&version, &commit, &fsync, &huge, &buffers, &backend)
		if err != nil {
			return err
		}
		version, _, _ = strings.Cut(version, " ")
		p.kind = fmt.Sprintf("PostgreSQL %s (synchronous_commit %s, fsync %s, huge_pages %s, shared_buffers %s)", version, commit, fsync, huge, buffers)
		if runsHere(backend, "postgres") {
			if st, err := readStat(backend); err == nil {
				p.postmaster = st.parent
			}
		}
		_, err = db.Exec(ctx, "CREATE DATABASE "+p.names[0])
		return err
	})
}

// lookAtRedis tells which Redis answers at raw, and its process; pid is 0 if that is not
// on this machine.
func lookAtRedis(ctx context.Context, raw string) (version string, process measured, err error) {
	o, err := redis.ParseURL(raw)
	if err != nil {
		return "", measured{}, fmt.Errorf("--redis: %w", err)
	}
	client := redis.NewClient(o)
	defer client.Close()
	info, err := client.InfoMap(ctx, "server").Result()
	if err != nil {
		return "", measured{}, fmt.Errorf("--redis: %w", err)
	}
	server := info["Server"]
	process.name = "redis"
	if pid, err := strconv.Atoi(server["process_id"]); err == nil && runsHere(pid, "redis") {
		process.pid = pid
	}
	return "Redis " + server["redis_version"], process, nil
}

// with connects to the server.
func (p *postgres) with(ctx context.Context, do func(*pgx.Conn) error) error {
	return with(ctx, p.server.String(), do)
}

// vacuum does what one case has left for autovacuum to do, as pgbench does before it
// measures: it would be done while the next one is measured. On SQLite nothing is left.
func (p *postgres) vacuum(ctx context.Context) error {
	if p == nil {
		return nil
	}
	for _, name := range p.names {
		err := with(ctx, p.at(name), func(db *pgx.Conn) error {
			_, err := db.Exec(ctx, "VACUUM ANALYZE")
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// at is the URL of a database of the server.
func (p *postgres) at(name string) string {
	u := *p.server
	u.Path = "/" + name
	return u.String()
}

func with(ctx context.Context, server string, do func(*pgx.Conn) error) error {
	db, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("--postgres: %w", err)
	}
	defer db.Close(context.WithoutCancel(ctx))
	if err := do(db); err != nil {
		return fmt.Errorf("--postgres: %w", err)
	}
	return nil
}

func (p *postgres) drop(ctx context.Context) error {
	return p.with(ctx, func(db *pgx.Conn) error {
		for _, name := range p.names {
			if _, err := db.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *postgres) bytes(ctx context.Context) (ours, temporal int64, err error) {
	err = p.with(ctx, func(db *pgx.Conn) error {
		var visibility int64
		err := db.QueryRow(ctx, "SELECT pg_database_size($1), pg_database_size($2), pg_database_size($3)", p.names[0], p.names[1], p.names[2]).
			Scan(&ours, &temporal, &visibility)
		temporal += visibility
		return err
	})
	return ours, temporal, err
}
