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
	"maps"
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
	entries  int
	beside   int
	refuse   int
	down     time.Duration
	retry    []string
	roles    string
	postgres string
	redis    string
	binaries string
	dir      string
	keep     bool
	history  int
	sleeping int
	sleep    time.Duration
	rows     int
	articles int
	asking   int
	plot     string
}

// What --roles can be.
const (
	rolesAll   = "all"   // waypost-dev, everything in one process
	rolesServe = "serve" // waypost-dev for Temporal, and `waypost serve`
	rolesSplit = "split" // the same with `waypost gateway` and `waypost worker`
)

const about = `bench measures how fast Waypost is and what that costs.

It starts bin/waypost-dev (and bin/waypost, see --roles) on a new data
directory, makes leads, a webhook and journeys over the signed API, and receives
the messages itself, in a ledger that is compared with the records after each case.

The suites and their cases:
  deliveries
    launch          a launch: from the request to the last recorded outcome
    launch-fail10   the same; the first attempt of 10 % of the messages is answered 503
    launch-fail20   the same with 20 %
    single          single enrollments as fast as 32 clients can ask for them
    latency         single enrollments at a fixed rate: from the request being sent
                    to the POST being received; its first 5 seconds are left out
    latency-launch  the same while a launch runs
    temporal-batch  the same bytes POSTed by Temporal activities, 50 in each, without
                    Waypost: nothing is recorded
    bare            the same bytes POSTed over 64 connections, without both
    history         Temporal's history events and bytes per lead and node, on a stack
                    of its own
  sleeping
    sleeping        enrollments in a delay: bytes of each in the databases and in
                    memory, and how long it takes when all are due within a minute;
                    on a stack of its own
  gateway
    get, create     signed requests of 32 clients, for one lead each
    list            one client reads pages of 50 leads, with filters in turns
    bare-http       requests to the bench itself: what client and loopback cost
  imports
    import, export  rows of CSV until they are leads; leads as NDJSON
  search
    index, search   articles until they are found; keywords in turns, 8 clients
  growth
    growth          launches with more and more leads, touchpoints and failing first
                    attempts: what each costs altogether; --plot draws it
  asking, once, one client, on a stack of its own that is filled by SQL; PostgreSQL only
    statistics      of a journey of 50 nodes, with and without a series
    enrollments     pages of 50 of its enrollments, the first ones and deep ones
    summary         errors of a week of deliveries in groups, 5 % and 50 % in trouble
    delivery-pages  pages of 20 and 500 deliveries
    lists           launches and journeys by filters that few of them match
    count           leads of an audience
    events          NDJSON of events until they are stored
Only if it is asked for:
  launch-down       a launch in the middle of which the receiver refuses connections
                    for a while (see --down)

CPU seconds are the processes' own user and system time, per 1,000 deliveries,
requests or rows; the process "bench" is this one, with the receiver and the clients
in it. They are read from /proc, so other systems than Linux show none.

Flags:
`

// parse reads the command line. The error is for people, and names the flag.
func parse(args []string, stderr io.Writer) (options, error) {
	o := options{}
	var suite, cases, retry string
	f := newFlags(&o, stderr)
	f.StringVar(&suite, "suite", "deliveries", "the suite to run: "+strings.Join(slices.Sorted(maps.Keys(suites)), ", "))
	f.StringVar(&cases, "cases", "", "the cases to run, separated by commas, instead of a suite")
	f.StringVar(&retry, "retry", "1s,2s", "the webhook's retry schedule; its last entry repeats")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%q is no flag; --help lists them", f.Arg(0))
	}
	o.retry = strings.Split(retry, ",")
	if err := o.choose(suite, cases); err != nil {
		return o, err
	}
	if err := o.check(); err != nil {
		return o, err
	}
	var err error
	if o.binaries, err = filepath.Abs(o.binaries); err != nil {
		return o, fmt.Errorf("--binaries: %w", err)
	}
	return o, nil
}

// newFlags makes the flags that set a member of o, with its default.
func newFlags(o *options, stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, about)
		f.PrintDefaults()
	}
	f.IntVar(&o.repeat, "repeat", 3, "how often each case runs; the tables show least, median and most")
	f.IntVar(&o.leads, "leads", 20_000, "leads of a launch")
	f.IntVar(&o.singles, "singles", 5_000, "single enrollments of the case single")
	f.IntVar(&o.rate, "rate", 50, "single enrollments per second of the case latency, and events of entry-latency")
	f.IntVar(&o.seconds, "seconds", 60, "how many seconds the cases latency, entry and entry-latency are measured; cases of requests last half as long")
	f.IntVar(&o.entries, "entries", 1000, "events per second of the case entry, of which each begins a journey")
	f.IntVar(&o.beside, "beside", 20, "single enrollments per second beside the launch of latency-launch")
	f.IntVar(&o.refuse, "refuse", 0, "percent of messages that launch-fail10 answers with succeed:false for good")
	f.DurationVar(&o.down, "down", 2*time.Minute, "how long the receiver is down in launch-down")
	f.StringVar(&o.roles, "roles", rolesAll,
		"all: everything in one process; serve: 'waypost serve' beside waypost-dev's Temporal; split: gateway and worker of their own")
	f.StringVar(&o.postgres, "postgres", os.Getenv("WAYPOST_TEST_POSTGRES_URL"),
		"a postgres:// URL on whose server new databases are made, for Waypost and for Temporal; SQLite if it is empty")
	f.StringVar(&o.redis, "redis", os.Getenv("WAYPOST_TEST_REDIS_URL"), "a redis:// URL; waypost-dev's stand-in if it is empty")
	f.StringVar(&o.binaries, "binaries", "bin", "where waypost-dev and waypost are")
	f.StringVar(&o.dir, "dir", "", "where the data directory is made (the system's folder for temporary files)")
	f.BoolVar(&o.keep, "keep", false, "keep the data directory and the databases")
	f.IntVar(&o.history, "history", 2_000, "leads of the launch whose histories the case history reads")
	f.IntVar(&o.sleeping, "sleeping", 100_000, "enrollments that the case sleeping puts to sleep, twice")
	f.DurationVar(&o.sleep, "sleep", time.Minute, "how long those sleep that sleeping wakes up: longer than it takes to enroll them")
	f.IntVar(&o.rows, "rows", 100_000, "leads of the cases list, import and export, and events of the case events")
	f.IntVar(&o.articles, "articles", 10_000, "articles of the case index")
	f.IntVar(&o.asking, "asking", 1_000_000, "leads, enrollments and deliveries of the suite asking, and as many deliveries of another stage")
	f.StringVar(&o.plot, "plot", "", "the SVG file that the case growth draws")
	return f
}

// choose sets the cases to run: those that are named, or else those of a suite.
func (o *options) choose(suite, cases string) error {
	var known bool
	if o.cases, known = suites[suite]; !known {
		return fmt.Errorf("--suite: there is no suite %q; they are %s", suite, strings.Join(slices.Sorted(maps.Keys(suites)), ", "))
	}
	if cases != "" {
		o.cases = strings.Split(cases, ",")
	}
	for _, name := range o.cases {
		if !slices.Contains(caseNames(), name) {
			return fmt.Errorf("--cases: there is no case %q; they are %s", name, strings.Join(caseNames(), ", "))
		}
	}
	return nil
}

// check finds values that no case can be run with.
func (o *options) check() error {
	if !slices.Contains([]string{rolesAll, rolesServe, rolesSplit}, o.roles) {
		return fmt.Errorf("--roles %s: it is all, serve or split", o.roles)
	}
	for name, n := range map[string]int{
		"repeat": o.repeat, "leads": o.leads, "singles": o.singles, "rate": o.rate, "seconds": o.seconds,
		"entries": o.entries, "beside": o.beside, "history": o.history, "sleeping": o.sleeping, "rows": o.rows, "articles": o.articles, "asking": o.asking,
	} {
		if n < 1 {
			return fmt.Errorf("--%s %d: it is at least 1", name, n)
		}
	}
	if o.refuse < 0 || o.refuse > 90 {
		return fmt.Errorf("--refuse %d: it is 0 to 90", o.refuse)
	}
	if asks := o.asks(); len(asks) > 0 {
		if o.postgres == "" {
			return fmt.Errorf("--postgres: %s is measured on PostgreSQL only", strings.Join(asks, ", "))
		}
		if o.asking%leastAsked != 0 {
			return fmt.Errorf("--asking %d: it is a multiple of %d", o.asking, leastAsked)
		}
	}
	return nil
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

// asks are the cases of the suite asking that are to run.
func (o options) asks() (cases []string) {
	for _, name := range suites["asking"] {
		if slices.Contains(o.cases, name) {
			cases = append(cases, name)
		}
	}
	return cases
}

type say func(format string, args ...any)

// measure runs the cases: all that are compared with each other on one stack, those
// that look at what has grown on others.
func measure(ctx context.Context, o options, r *receiver, rep *report, tell say) error {
	alone := map[string]func(*bench) error{
		caseHistory:  func(b *bench) error { return b.histories(ctx) },
		caseSleeping: func(b *bench) error { return b.sleepers(ctx) },
		caseGrowth:   func(b *bench) error { return b.grow(ctx) },
	}
	asks := o.asks()
	var compared []string
	for _, name := range o.cases {
		if alone[name] == nil && !slices.Contains(asks, name) {
			compared = append(compared, name)
		}
	}
	if len(compared) > 0 {
		if err := onStack(ctx, o, r, rep, tell, func(b *bench) error { return b.compare(ctx, compared) }); err != nil {
			return err
		}
	}
	for _, name := range caseNames() {
		if do := alone[name]; do != nil && slices.Contains(o.cases, name) {
			if err := onStack(ctx, o, r, rep, tell, do); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if len(asks) > 0 {
		return onStack(ctx, o, r, rep, tell, func(b *bench) error { return b.ask(ctx, asks) })
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
