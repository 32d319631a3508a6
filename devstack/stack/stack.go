// Package stack starts and stops everything that waypost-dev consists of, in
// this process: Temporal with its Web UI, a Redis stand-in, SQL, the demo
// receiver, gateway, worker and console, and the demo.
package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"waypost"
	"waypost/app"
	"waypost/config"
	"waypost/devstack/datadir"
	"waypost/devstack/demo"
	"waypost/devstack/redis"
	"waypost/devstack/temporal"
	"waypost/store"
	"waypost/workflows"
)

// Options says what to start.
type Options struct {
	// Environ holds the settings, as os.Environ gives them.
	Environ []string
	// Parts to start; none means all.
	Parts []Part
	// NoDemo leaves out the demo, which needs all parts.
	NoDemo bool
	// Out gets the progress, the demo and the banner.
	Out io.Writer
	// ErrOut gets warnings while the stack runs; the log has them too.
	ErrOut io.Writer
	// Fatal ends the process when Temporal's server cannot go on; nil: it panics.
	Fatal func(error)
}

// Stack is a running stack.
type Stack struct {
	Profile datadir.Profile
	// SignIn is the token of a sign-in link of the console's administrator, "" without a
	// console.
	SignIn string
	// EnrollmentID is the demo's, "" without one.
	EnrollmentID string

	parts     []Part
	dir       *datadir.Dir
	out       io.Writer
	log       *slog.Logger
	serverLog *slog.Logger // of Temporal's server
	temporal  *temporal.Server
	stops     []stop
	failed    chan error
}

type stop struct {
	name string
	do   func(context.Context) error
}

// stopTimeout bounds the stop after a start that failed.
const stopTimeout = 30 * time.Second

// Start starts the parts one after the other. The error is for people: one line
// for each problem. ctx bounds the start only; Stop ends the stack.
func Start(ctx context.Context, o Options) (*Stack, error) {
	s := &Stack{parts: o.Parts, out: o.Out, failed: make(chan error, 1)}
	if len(s.parts) == 0 {
		s.parts = Parts
	}
	err := s.start(ctx, o)
	if err != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return nil, errors.Join(err, s.Stop(stopping))
	}
	return s, nil
}

func (s *Stack) has(p Part) bool { return slices.Contains(s.parts, p) }

// hasConsole tells whether the console is there: it is part of a gateway and a worker in one
// process.
func (s *Stack) hasConsole() bool { return s.has(Gateway) && s.has(Worker) }

// DataDir is the data directory's absolute path.
func (s *Stack) DataDir() string { return s.dir.Path() }

// Failed gets an error when gateway or worker end by themselves.
func (s *Stack) Failed() <-chan error { return s.failed }

// Stop stops everything in reverse order. It goes on to the end if a part does
// not stop before ctx ends.
func (s *Stack) Stop(ctx context.Context) error {
	var problems []error
	for _, stop := range slices.Backward(s.stops) {
		if err := stop.do(ctx); err != nil {
			problems = append(problems, fmt.Errorf("stop %s: %w", stop.name, err))
		}
	}
	s.stops = nil
	return errors.Join(problems...)
}

func (s *Stack) push(name string, do func(context.Context) error) {
	s.stops = append(s.stops, stop{name, do})
}

// step does one step of the start, and tells how long it took.
func (s *Stack) step(name string, do func() error) error {
	fmt.Fprintf(s.out, "  %s … ", name)
	began := time.Now()
	if err := do(); err != nil {
		fmt.Fprintln(s.out, "failed")
		return err
	}
	fmt.Fprintf(s.out, "%.1f s\n", time.Since(began).Seconds())
	return nil
}

// start starts the parts in an order in which each finds those that it calls. What it has
// started before an error is left to Stop.
func (s *Stack) start(ctx context.Context, o Options) error {
	began := time.Now()
	environ := toMap(o.Environ)
	if s.has(Temporal) {
		if err := forgetTemporalSettings(); err != nil {
			return err
		}
	}
	cfg, warnings, err := config.Load(config.RoleDev, o.Environ)
	if err != nil {
		return err
	}
	state, first, err := s.claim(ctx, o, &cfg, environ)
	if err != nil {
		return err
	}
	set := s.settings(cfg, state, environ)
	s.Profile = datadir.Profile{
		URL:             "http://" + temporal.Reachable(cfg.HTTP.Addr),
		TemporalUI:      set["WAYPOST_TEMPORAL_UI_URL"],
		TemporalAddress: set["WAYPOST_TEMPORAL_ADDRESS"],
		Receiver:        "http://" + temporal.Reachable(cfg.Dev.ReceiverAddr),
	}

	if first {
		fmt.Fprintf(s.out, "Starting in %s, for the first time.\n", s.dir.Path())
	} else {
		fmt.Fprintf(s.out, "Starting in %s, continuing.\n", s.dir.Path())
	}
	for _, w := range warnings {
		fmt.Fprintf(s.out, "  Note: %s\n", w)
	}
	if err := s.startTemporal(ctx, o, cfg, state, set); err != nil {
		return err
	}
	if err := s.startRedis(cfg); err != nil {
		return err
	}
	// Unlike roles of their own, the parts in this process do without Typesense. The
	// settings are loaded in any case: the database is set up for roles of their own too.
	roleCfg, _, err := config.Load(config.RoleServe, over(o.Environ, set))
	if err != nil {
		return err
	}
	roleCfg.Admin.Addr = cfg.Admin.Addr
	if err := s.migrate(ctx, roleCfg, &state); err != nil {
		return err
	}
	if s.hasConsole() {
		// The console is the demo's application.
		roleCfg.Console.Addr = cfg.Console.Addr
		roleCfg.Console.AccessKey, roleCfg.Console.SecretKey = state.AccessKey, config.Secret(state.SecretKey)
		s.Profile.Console = "http://" + temporal.Reachable(cfg.Console.Addr)
	}
	if err := s.startReceiver(ctx, cfg, state); err != nil {
		return err
	}
	if err := s.dir.WriteEnv(s.envFile(set)); err != nil {
		return err
	}
	if err := s.startApp(ctx, roleCfg); err != nil {
		return err
	}
	return s.present(ctx, o, cfg, state, began)
}

// claim takes the data directory and the ports for this process, sets their addresses in
// cfg, and opens the log. It returns what the directory remembers of earlier starts; first
// says that there was none.
func (s *Stack) claim(ctx context.Context, o Options, cfg *config.Config, environ map[string]string) (
	state datadir.State, first bool, err error,
) {
	if s.dir, err = datadir.Claim(cfg.DataDir); err != nil {
		return state, false, err
	}
	s.push("data directory", func(context.Context) error { return s.dir.Release() })
	if state, first, err = s.dir.LoadState(); err != nil {
		return state, false, err
	}
	if err := s.openLog(*cfg, o.ErrOut); err != nil {
		return state, false, err
	}
	if err := s.claimPorts(ctx, cfg, environ, state); err != nil {
		return state, false, err
	}
	// Until the profile is written again, its absence means: not ready.
	return state, first, errors.Join(s.dir.Remove(datadir.ProfileFile), s.dir.SaveState(state))
}

// forgetTemporalSettings keeps TLS and API-key settings for another Temporal
// server, which the SDK reads from the environment and from a file, away from the
// one in this process.
func forgetTemporalSettings() error {
	for name := range toMap(os.Environ()) {
		if strings.HasPrefix(name, "TEMPORAL_") {
			if err := os.Unsetenv(name); err != nil {
				return err
			}
		}
	}
	return os.Setenv("TEMPORAL_CONFIG_FILE", os.DevNull)
}

func (s *Stack) openLog(cfg config.Config, errOut io.Writer) error {
	file, err := s.dir.OpenLog(datadir.LogFile)
	if err != nil {
		return err
	}
	s.push("log", func(context.Context) error { return file.Close() })
	shown := cfg.Log
	shown.Level = max(shown.Level, slog.LevelWarn)
	s.log = slog.New(slog.NewMultiHandler(cfg.Log.Logger(file).Handler(), shown.Logger(errOut).Handler()))
	// Temporal's server logs to the file only: it reports every interrupted call as an
	// error.
	s.serverLog = cfg.Log.Logger(file).With("part", "temporal")
	return nil
}

func (s *Stack) claimPorts(ctx context.Context, cfg *config.Config, environ map[string]string, state datadir.State) error {
	if !s.has(Gateway) && environ["WAYPOST_ADMIN_ADDR"] == "" {
		// A gateway of its own takes the default address.
		cfg.Admin.Addr = "127.0.0.1:9091"
	}
	return claimAddresses(ctx, []address{
		{"WAYPOST_DEV_TEMPORAL_ADDR", &cfg.Dev.TemporalAddr, s.has(Temporal)},
		{"WAYPOST_DEV_TEMPORAL_UI_ADDR", &cfg.Dev.TemporalUIAddr, s.has(Temporal)},
		{"WAYPOST_DEV_REDIS_ADDR", &cfg.Dev.RedisAddr, s.has(Redis)},
		{"WAYPOST_DEV_RECEIVER_ADDR", &cfg.Dev.ReceiverAddr, s.has(Receiver)},
		{"WAYPOST_HTTP_ADDR", &cfg.HTTP.Addr, s.has(Gateway)},
		{"WAYPOST_CONSOLE_ADDR", &cfg.Console.Addr, s.hasConsole()},
		{"WAYPOST_ADMIN_ADDR", &cfg.Admin.Addr, s.has(Gateway) || s.has(Worker)},
	}, state.Addresses)
}

// startTemporal starts the server and its Web UI, with a codec endpoint that decrypts
// payloads for that UI only.
func (s *Stack) startTemporal(ctx context.Context, o Options, cfg config.Config, state datadir.State, set map[string]string) error {
	if !s.has(Temporal) {
		return nil
	}
	keys, err := waypost.ParseKeyring(set["WAYPOST_ENCRYPTION_KEYS"])
	if err != nil {
		return fmt.Errorf("WAYPOST_ENCRYPTION_KEYS: %w", err)
	}
	if err := s.step("Temporal server", func() error {
		s.temporal, err = temporal.Start(ctx, temporal.Options{
			Addr:        cfg.Dev.TemporalAddr,
			DataDir:     s.dir.Path(),
			DatabaseURL: string(cfg.Dev.TemporalDatabaseURL),
			Log:         s.serverLog,
			Fatal:       o.Fatal,
		})
		return err
	}); err != nil {
		return err
	}
	s.push("Temporal", s.temporal.Stop)
	return s.step("Temporal Web UI", func() error {
		codec, err := temporal.NewCodec(state.CodecPath, origins(cfg.Dev.TemporalUIAddr), workflows.NewCodec(keys))
		if err != nil {
			return err
		}
		// On a loopback address: it shows payloads in the clear.
		codecAddr, err := s.serve(ctx, "codec endpoint", "127.0.0.1:0", &http.Server{
			Handler: codec, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		})
		if err != nil {
			return err
		}
		ui, err := temporal.StartUI(ctx, cfg.Dev.TemporalUIAddr, s.temporal.Addr(), "http://"+codecAddr+"/"+state.CodecPath)
		if err != nil {
			return err
		}
		s.push("Web UI", ui.Stop)
		return nil
	})
}

func (s *Stack) startRedis(cfg config.Config) error {
	if !s.has(Redis) {
		return nil
	}
	return s.step("Redis stand-in", func() error {
		server, err := redis.Start(cfg.Dev.RedisAddr)
		if err != nil {
			return err
		}
		s.push("Redis stand-in", func(context.Context) error { server.Stop(); return nil })
		return nil
	})
}

// migrate brings the database up to date and makes the demo application where it
// has none.
func (s *Stack) migrate(ctx context.Context, cfg config.Config, state *datadir.State) error {
	return s.step("Database", func() error {
		var err error
		if s.has(Temporal) {
			err = app.Migrate(ctx, cfg, s.log)
		} else {
			_, _, err = store.Migrate(ctx, string(cfg.Database.URL))
		}
		if err != nil {
			return err
		}
		db, err := app.OpenStore(ctx, cfg)
		if err != nil {
			return err
		}
		defer db.Close()
		if err := application(ctx, db, state); err != nil {
			return err
		}
		s.Profile.AccessKey, s.Profile.SecretKey = state.AccessKey, state.SecretKey
		if s.hasConsole() {
			if s.SignIn, err = consoleUser(ctx, db); err != nil {
				return err
			}
		}
		return s.dir.SaveState(*state)
	})
}

// demoOrg is the organisation of the demo's data and of the console's user.
const demoOrg = "demo"

// application makes the demo application if the database does not know its key:
// all grants, and rate limits far above what is needed to try things out.
func application(ctx context.Context, db *store.Store, state *datadir.State) error {
	if state.AccessKey != "" {
		c, err := db.Credential(ctx, state.AccessKey)
		if err == nil && !c.Application.Disabled {
			return nil
		}
		if err != nil && waypost.CodeOf(err) != waypost.CodeNotFound {
			return err
		}
	}
	c, err := db.CreateApplication(ctx, "", waypost.Application{
		Org: demoOrg, Name: "waypost-dev", Grants: []waypost.Grant{"*"}, RatePerSecond: 10_000, RateBurst: 20_000,
	})
	if err != nil {
		return err
	}
	state.AccessKey, state.SecretKey = c.AccessKey, c.SecretKey
	state.Data = demo.Data{TenantID: state.TenantID}
	return nil
}

// consoleUser makes the user of the console if there is none, and returns the token of a
// sign-in link.
func consoleUser(ctx context.Context, db *store.Store) (link string, err error) {
	you := waypost.User{Org: demoOrg, Email: "you@localhost", Name: "Developer", Role: waypost.RoleAdmin}
	found, err := db.UserByEmail(ctx, you.Org, you.Email)
	if waypost.CodeOf(err) == waypost.CodeNotFound {
		_, link, err = db.CreateUser(ctx, waypost.Scope{}, you)
		return link, err
	}
	if err != nil {
		return "", err
	}
	return db.LinkUser(ctx, waypost.Scope{}, found.ID)
}

func (s *Stack) startReceiver(ctx context.Context, cfg config.Config, state datadir.State) error {
	if !s.has(Receiver) {
		return nil
	}
	return s.step("Demo receiver", func() error {
		ledger, err := s.dir.OpenLog(datadir.LedgerFile)
		if err != nil {
			return err
		}
		s.push("receiver's ledger", func(context.Context) error { return ledger.Close() })
		_, err = s.serve(ctx, "demo receiver", cfg.Dev.ReceiverAddr, newReceiver(ctx, state, ledger))
		return err
	})
}

// startApp starts gateway and worker, those of them that are parts, and returns when they
// are ready. If they end by themselves later, Failed gets the error.
func (s *Stack) startApp(ctx context.Context, cfg config.Config) error {
	var name string
	var serve func(ctx context.Context, cfg config.Config, log *slog.Logger, ready func(addr string)) error
	switch {
	case s.has(Gateway) && s.has(Worker):
		name, serve = "Gateway and worker", app.Serve
	case s.has(Gateway):
		name, serve = "Gateway", app.Gateway
	case s.has(Worker):
		name, serve = "Worker", app.Worker
	default:
		return nil
	}
	return s.step(name, func() error {
		running, cancel := context.WithCancel(context.WithoutCancel(ctx))
		ready := make(chan struct{})
		ended := make(chan error, 1)
		go func() { ended <- serve(running, cfg, s.log, func(string) { close(ready) }) }()
		select {
		case err := <-ended:
			cancel()
			return err
		case <-ctx.Done():
			cancel()
			<-ended
			return ctx.Err()
		case <-ready:
		}
		stopped := make(chan error, 1)
		go func() {
			err := <-ended
			if running.Err() == nil {
				s.failed <- fmt.Errorf("gateway and worker ended: %w", err)
			}
			stopped <- err
		}()
		s.push("gateway and worker", func(ctx context.Context) error {
			cancel()
			select {
			case err := <-stopped:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		return nil
	})
}
