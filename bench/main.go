// Command bench measures what Waypost delivers, how soon, and what that costs. It
// starts Waypost as processes of its own, plays the customer's receiver itself and
// compares what arrived there with what Waypost recorded.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends it at once
	log.SetOutput(io.Discard)    // net/http tells of idle connections there
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	cases    []string
	repeat   int
	leads    int
	singles  int
	rate     int
	seconds  int
	beside   int
	refuse   int
	down     time.Duration
	retry    []string
	roles    string
	postgres string
	binaries string
	dir      string
	keep     bool
	history  int
	sleeping int
}

// What --roles can be.
const (
	rolesAll   = "all"   // waypost-dev, everything in one process
	rolesServe = "serve" // waypost-dev for Temporal and Redis, and `waypost serve`
	rolesSplit = "split" // the same with `waypost gateway` and `waypost worker`
)

const about = `bench-deliveries measures deliveries per second, latency and cost.

It starts bin/waypost-dev (and bin/waypost, see --roles) on a fresh data
directory, makes leads, a webhook and journeys over the signed API, and receives
the messages itself, in a ledger that is compared with the records after each case.

The cases:
  launch          a launch: from the request to the last recorded outcome
  launch-fail10   the same; the first attempt of 10 % of the messages is answered 503
  single          single enrollments as fast as 32 clients can ask for them
  latency         single enrollments at a fixed rate: from the request being sent
                  to the POST being received
  latency-launch  the same while a launch runs
  launch-down     a launch in the middle of which the receiver refuses connections
                  for a while (see --down; only if it is asked for)
  bare            the same bytes POSTed over 64 connections, without Waypost
  history         Temporal's history events and bytes per lead and node, and the
                  bytes of an enrollment that sleeps, on a stack of its own

CPU seconds are the processes' own user and system time, per 1,000 deliveries;
the process "bench" is this one, with the receiver and the clients in it. They
are read from /proc, so other systems than Linux show none.

Flags:
`

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{}
	var cases, retry string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, about)
		f.PrintDefaults()
	}
	f.StringVar(&cases, "cases", strings.Join(usualCases(), ","), "the cases to run")
	f.IntVar(&o.repeat, "repeat", 3, "how often each case runs; the tables show least, median and most")
	f.IntVar(&o.leads, "leads", 20_000, "leads of a launch")
	f.IntVar(&o.singles, "singles", 5_000, "single enrollments of the case single")
	f.IntVar(&o.rate, "rate", 50, "single enrollments per second of the case latency")
	f.IntVar(&o.seconds, "seconds", 20, "how many seconds the case latency lasts")
	f.IntVar(&o.beside, "beside", 20, "single enrollments per second beside the launch of latency-launch")
	f.IntVar(&o.refuse, "refuse", 0, "percent of messages that launch-fail10 answers with succeed:false for good")
	f.DurationVar(&o.down, "down", 2*time.Minute, "how long the receiver is down in launch-down")
	f.StringVar(&retry, "retry", "1s,2s", "the webhook's retry schedule; its last entry repeats")
	f.StringVar(&o.roles, "roles", rolesAll, "all: everything in one process; serve: 'waypost serve' beside Temporal and Redis; split: gateway and worker of their own")
	f.StringVar(&o.postgres, "postgres", "", "a postgres:// URL on whose server fresh databases are made, for Waypost and for Temporal; SQLite without it")
	f.StringVar(&o.binaries, "binaries", "bin", "where waypost-dev and waypost are")
	f.StringVar(&o.dir, "dir", "", "where the data directory is made (the system's folder for temporary files)")
	f.BoolVar(&o.keep, "keep", false, "keep the data directory and the databases")
	f.IntVar(&o.history, "history", 2_000, "leads of the launch whose histories the case history reads")
	f.IntVar(&o.sleeping, "sleeping", 10_000, "enrollments that the case history puts to sleep")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%q is no flag; --help lists them", f.Arg(0))
	}
	o.cases, o.retry = strings.Split(cases, ","), strings.Split(retry, ",")
	for _, name := range o.cases {
		if !slices.Contains(caseNames(), name) {
			return o, fmt.Errorf("--cases: there is no case %q; they are %s", name, strings.Join(caseNames(), ", "))
		}
	}
	if !slices.Contains([]string{rolesAll, rolesServe, rolesSplit}, o.roles) {
		return o, fmt.Errorf("--roles %s: it is all, serve or split", o.roles)
	}
	for name, n := range map[string]int{
		"repeat": o.repeat, "leads": o.leads, "singles": o.singles, "rate": o.rate, "seconds": o.seconds,
		"beside": o.beside, "history": o.history, "sleeping": o.sleeping,
	} {
		if n < 1 {
			return o, fmt.Errorf("--%s %d: it is at least 1", name, n)
		}
	}
	if o.refuse < 0 || o.refuse > 90 {
		return o, fmt.Errorf("--refuse %d: it is 0 to 90", o.refuse)
	}
	var err error
	if o.binaries, err = filepath.Abs(o.binaries); err != nil {
		return o, fmt.Errorf("--binaries: %w", err)
	}
	return o, nil
}

// run measures and prints the tables. Cases that ran before an error are printed
// too.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	r, err := newReceiver()
	if err != nil {
		return err
	}
	defer r.close()
	rep := &report{}
	err = measure(ctx, o, r, rep, func(format string, args ...any) {
		fmt.Fprintf(stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
	})
	rep.print(stdout, o)
	return err
}

type say func(format string, args ...any)

// measure runs the cases: all that are compared with each other on one stack, the
// one that looks at the databases' size on another.
func measure(ctx context.Context, o options, r *receiver, rep *report, tell say) error {
	var compared []string
	for _, name := range o.cases {
		if name != caseHistory {
			compared = append(compared, name)
		}
	}
	if len(compared) > 0 {
		if err := onStack(ctx, o, r, rep, tell, func(b *bench) error { return b.compare(ctx, compared) }); err != nil {
			return err
		}
	}
	if slices.Contains(o.cases, caseHistory) {
		return onStack(ctx, o, r, rep, tell, func(b *bench) error { return b.histories(ctx) })
	}
	return nil
}

// onStack does something on a stack of its own and stops that.
func onStack(ctx context.Context, o options, r *receiver, rep *report, tell say, do func(*bench) error) (err error) {
	s, err := startStack(ctx, o, tell)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop(context.WithoutCancel(ctx), err != nil || o.keep, o.keep, tell)) }()
	rep.database = s.database
	return do(&bench{o: o, stack: s, client: s.client(), receiver: r, report: rep, tell: tell})
}
