// Package command is waypost-dev's command line.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"waypost"
	"waypost/config"
	"waypost/devstack/stack"
)

// stopTimeout bounds a stop; a second Ctrl-C ends it at once.
const stopTimeout = 45 * time.Second

const long = `waypost-dev runs all of Waypost in one process, for trying it out: Temporal's
server with its Web UI, a stand-in for Redis, SQL on SQLite, the embedded index
of articles, worker, gateway, console and a demo webhook receiver. It starts a demo
journey, prints the delivered message and every URL, and stays up until Ctrl-C.

Everything is kept in the data directory (./.waypost): a second start continues
where the first stopped, even if that was killed. Keys and passwords are
generated there at the first start. profile.json is for clients, and waypost.env
has the settings with which gateway and worker join as processes of their own.
Webhooks may go to 127.0.0.0/8.`

const example = `  waypost-dev
  WAYPOST_HTTP_ADDR=127.0.0.1:8081 waypost-dev
  waypost-dev --only temporal,redis,receiver
  . .waypost/waypost.env && waypost gateway`

// Run runs waypost-dev until it is told to stop by a signal, and returns its
// exit status.
func Run(args, environ []string, stdout, stderr io.Writer) int {
	// Temporal's server allocates much. 400 made the process half as large again, and nothing measurably faster.
	if !slices.ContainsFunc(environ, func(e string) bool { return strings.HasPrefix(e, "GOGC=") }) {
		debug.SetGCPercent(200)
	}
	var only []string
	var noDemo bool
	root := &cobra.Command{
		Use:           "waypost-dev",
		Short:         "Run all of Waypost in one process",
		Long:          long + "\n\nSettings (environment variables):\n" + settings(),
		Example:       example,
		Version:       waypost.ProductVersion,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("only") && len(only) == 0 {
				return errors.New("--only names no part; leave it out to start everything")
			}
			parts, err := stack.ParseParts(only)
			if err != nil {
				return err
			}
			return serve(stack.Options{Environ: environ, Parts: parts, NoDemo: noDemo, Out: stdout, ErrOut: stderr}, stderr)
		},
	}
	root.Flags().StringSliceVar(&only, "only", nil, "start these parts only: temporal, redis, receiver, gateway, worker")
	root.Flags().BoolVar(&noDemo, "no-demo", false, "make no demo data and start no demo journey")
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.CompletionOptions.DisableDefaultCmd = true
	if err := root.Execute(); err != nil {
		report(stderr, err)
		return 1
	}
	return 0
}

// serve starts the stack and stops it after a signal.
func serve(o stack.Options, stderr io.Writer) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		if _, ok := <-signals; !ok {
			return
		}
		cancel()
		<-signals
		os.Exit(130) // the second one: at once, as after kill -9
	}()
	o.Fatal = func(err error) {
		report(stderr, err)
		os.Exit(1)
	}

	s, err := stack.Start(ctx, o)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(o.Out, "\nStopped before everything was up.")
		return nil
	}
	if err != nil {
		return err
	}
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-s.Failed():
	}
	fmt.Fprint(o.Out, "\nStopping … ")
	began := time.Now()
	stopping, done := context.WithTimeout(context.Background(), stopTimeout)
	defer done()
	if err := s.Stop(stopping); err != nil {
		fmt.Fprintln(o.Out, "not cleanly")
		return errors.Join(failed, err)
	}
	fmt.Fprintf(o.Out, "stopped in %.1f s.\n", time.Since(began).Seconds())
	return failed
}

// report prints each problem on a line of its own.
func report(w io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(w, "waypost-dev: %s\n", strings.TrimSpace(line))
	}
}

// settings lists the variables that waypost-dev reads.
func settings() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, v := range config.Variables() {
		if !slices.Contains(v.Roles, config.RoleDev) {
			continue
		}
		value := cmp.Or(v.Defaults[config.RoleDev], v.Default, "–")
		fmt.Fprintf(w, "  %s\t%s\t%s\n", v.Name, value, v.Help)
	}
	_ = w.Flush()
	return b.String()
}
