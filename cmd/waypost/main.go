package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"waypost"
	"waypost/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first Ctrl-C stops in order, a second one kills the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

// run runs the program and returns its exit code.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &cli{environ: environ, stdin: stdin, stdout: stdout, stderr: stderr, poll: time.Second, terminal: config.IsTerminal(stderr), bold: config.IsTerminal(stdout)}
	root := c.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "waypost:", describe(err))
	if errors.As(err, new(usageError)) {
		fmt.Fprintf(stderr, "`%s --help` explains it, with an example.\n", cmd.CommandPath())
		return exitUsage
	}
	return exitFailure
}

// cli holds what every command needs of its process.
type cli struct {
	environ []string
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	output  string        // the value of -o
	poll    time.Duration // between two requests of --watch
	// terminal says that stderr is a terminal: progress is then shown as a bar.
	terminal bool
	// bold says that stdout is a terminal, which can show bold text.
	bold bool
}

const (
	outputTable = "table"
	outputJSON  = "json"
)

// root makes the command tree, with -o and the error texts of flags that all commands share.
func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "waypost",
		Short: "Customer journeys that deliver webhooks, on Temporal",
		Long: `Waypost runs customer journeys as Temporal workflows and delivers their webhook messages.

Roles of a deployment read their settings from WAYPOST_… variables. Client commands
call a gateway, signed, with the keys of an application: from the file that
WAYPOST_PROFILE names, from WAYPOST_URL, WAYPOST_ACCESS_KEY and WAYPOST_SECRET_KEY,
or from ./.waypost/profile.json, which waypost-dev writes.`,
		Example: `  waypost webhooks create --name crm --url https://crm.example.com/hook
  waypost journeys apply -f welcome.yaml --publish
  waypost journeys start jrn_… --lead 1001
  waypost enrollments show enr_… --watch`,
		Version:           waypost.ProductVersion,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if c.output != outputTable && c.output != outputJSON {
				return usagef("-o %s: it is table or json", c.output)
			}
			return nil
		},
	}
	root.SetIn(c.stdin)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		says := notFloat.ReplaceAllString(err.Error(), "it is no number")
		return usageError{errors.New(notNumber.ReplaceAllString(says, "it is no whole number"))}
	})
	root.PersistentFlags().StringVarP(&c.output, "output", "o", outputTable, "output format: table or json")
	root.AddGroup(&cobra.Group{ID: "roles", Title: "Roles:"}, &cobra.Group{ID: "client", Title: "Client commands:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, cmd := range commands {
			cmd.GroupID = group
			root.AddCommand(cmd)
		}
	}
	add("roles", c.gateway(), c.worker(), c.serve(), c.codec(), c.console(), c.migrate(), c.apps(), c.users(), c.keys())
	add("client", c.webhooks(), c.subscriptions(), c.suppressions(), c.segments(), c.journeys(), c.launches(), c.enrollments(), c.events(), c.deliveries(), c.leads(), c.articles(), c.audit(), c.api(), c.receiver())
	checkUsage(root)
	return root
}

// What the parser of flags says about a value that is not a number.
var (
	notFloat  = regexp.MustCompile(`strconv\.ParseFloat: parsing "[^"]*": (invalid syntax|value out of range)`)
	notNumber = regexp.MustCompile(`strconv\.\w+: parsing "[^"]*": (invalid syntax|value out of range)`)
)

// group is a command that only holds other commands.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	return cmd
}

// checkUsage makes wrong arguments of all commands below cmd, and the call of a command
// that only holds others, a usage error.
func checkUsage(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		checkUsage(sub)
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if check(cmd, args) != nil {
				return usagef("wrong number of arguments (%d); usage: %s", len(args), cmd.UseLine())
			}
			if slices.Contains(args, "") { // "$ID" of a variable that is not set
				return usagef("an argument is empty; usage: %s", cmd.UseLine())
			}
			return nil
		}
	}
	if cmd.Runnable() {
		return
	}
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var names []string
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		if len(args) == 0 {
			if !cmd.HasParent() {
				return cmd.Help()
			}
			return usagef("%s needs one of its commands: %s", cmd.CommandPath(), strings.Join(names, ", "))
		}
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			names = near
		}
		return usagef("%s has no command %q; it has %s", cmd.CommandPath(), args[0], strings.Join(names, ", "))
	}
}

// notEmpty makes flags refuse an empty value, such as "$ID" of a shell variable that is not
// set: without the value the command would do something else, or more, than was meant.
func notEmpty(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		f := cmd.Flags().Lookup(name)
		f.Value = notEmptyValue{f.Value}
	}
}

// flagValue is the interface of a flag's value (pflag.Value).
type flagValue interface {
	String() string
	Set(string) error
	Type() string
}

type notEmptyValue struct{ flagValue }

// Set refuses the empty text.
func (v notEmptyValue) Set(text string) error {
	if text == "" {
		return errors.New("it is empty; leave the flag out if it is not meant")
	}
	return v.flagValue.Set(text)
}

// load reads the settings of a role and shows the warnings.
func (c *cli) load(role config.Role) (config.Config, error) {
	cfg, warnings, err := config.Load(role, c.environ)
	for _, w := range warnings {
		fmt.Fprintln(c.stderr, "warning:", w)
	}
	if err != nil {
		return cfg, fmt.Errorf("settings:\n  %s", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	return cfg, nil
}

// usageError is a wrong call of the program: its exit code is exitUsage.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// describe writes an error for people. Of a fault of the gateway it writes the code, and
// every faulty field on a line of its own; text that wraps the fault stays around it.
func describe(err error) string {
	var e *waypost.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	before, after, found := strings.Cut(err.Error(), e.Error())
	if !found { // the wrapping error does not repeat the fault's text
		before = ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s: %s%s", before, e.Code, e.Message, after)
	for _, d := range e.Details {
		line := d.Message
		if d.Target != "" {
			line = d.Target + ": " + line
		}
		if len(e.Details) == 1 && strings.HasSuffix(e.Message, line) { // the message has it already
			fmt.Fprintf(&b, " (%s)", d.Code)
			continue
		}
		fmt.Fprintf(&b, "\n  %s (%s)", line, d.Code)
	}
	return b.String()
}
