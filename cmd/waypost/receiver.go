package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"waypost/receiver"
)

// receiver runs package receiver in this process until its context ends; it calls no gateway.
func (c *cli) receiver() *cobra.Command {
	var addr, ledger string
	var o receiver.Options
	cmd := &cobra.Command{
		Use: "receiver", Short: "Run a webhook receiver that prints what it gets",
		Long: receiver.Help + `
The flags say the same for all messages; what a webhook's URL says goes before. It runs until
it is stopped. Webhooks reach a loopback address only where WAYPOST_WEBHOOK_ALLOW_CIDRS
allows it, as waypost-dev does.`,
		Example: `  waypost receiver --addr 127.0.0.1:8091 --status 503,500,200
  waypost webhooks create --name try --url 'http://127.0.0.1:8091/hook?delay=2s'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ledger != "" {
				f, err := os.OpenFile(ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
				if err != nil {
					return fmt.Errorf("open the ledger: %w", err)
				}
				defer f.Close() // each entry was written as it came
				o.Ledger = f
			}
			return receiver.Run(cmd.Context(), addr, o, c.stdout, func(addr string) {
				fmt.Fprintf(c.stderr, "receiving on http://%s (Ctrl-C ends it)\n", addr)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&addr, "addr", "127.0.0.1:8091", "where to listen; port 0 picks a free one")
	f.IntSliceVar(&o.Status, "status", nil, "answer with these statuses, one after the other; the last one repeats")
	f.IntVar(&o.Fail, "fail", 0, "only the first N attempts of each message get --status (503 if there is none)")
	f.DurationVar(&o.Delay, "delay", 0, "wait this long before each answer")
	f.BoolVar(&o.SucceedFalse, "succeed-false", false, "answer 200 with succeed false")
	f.StringVar(&o.Message, "message", "", "the message of each answer")
	f.IntVar(&o.RetryAfter, "retry-after", 0, "seconds of Retry-After beside every status but 200")
	f.BoolVar(&o.NoBody, "no-body", false, "answer without a body")
	f.StringVar(&o.BasicAuth, "basic-auth", "", "USER:PASSWORD that requests must carry")
	f.BoolVarP(&o.Verbose, "verbose", "V", false, "print the messages' bodies too")
	f.StringVar(&ledger, "ledger", "", "append every POST to this file, a line of JSON each")
	notEmpty(cmd, "basic-auth", "ledger")
	return cmd
}
