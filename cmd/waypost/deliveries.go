package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/spf13/cobra"
)

const deliveriesPath = "/v1/deliveries"

func (c *cli) deliveries() *cobra.Command {
	cmd := &cobra.Command{
		Use: "deliveries", Short: "See what was delivered, what failed and why",
		Example: `  waypost deliveries list --status retrying
  waypost deliveries show msg_…
  waypost deliveries redeliver msg_…`,
	}
	cmd.AddCommand(c.deliveriesList(), c.deliveriesShow(), c.deliveriesRedeliver(), c.deliveriesRedeliveries())
	return cmd
}

// deliveryFilter is a flag that selects deliveries, and the filter that it stands for.
type deliveryFilter struct{ flag, name, help, value string }

type deliverySelection []deliveryFilter

func deliveryFilters(statuses string) deliverySelection {
	return deliverySelection{
		{"journey", "journeyId", "of this journey", ""},
		{"webhook", "webhookId", "to this webhook", ""},
		{"lead", "leadsId", "to this lead", ""},
		{"enrollment", "enrollmentId", "of this enrollment", ""},
		{"launch", "launchId", "of this launch", ""},
		{"status", "status", "that are " + statuses, ""},
		{"from", "from", "made at or after this time (RFC 3339)", ""},
		{"to", "to", "made before this time (RFC 3339)", ""},
	}
}

func (s deliverySelection) flags(cmd *cobra.Command) {
	for i := range s {
		cmd.Flags().StringVar(&s[i].value, s[i].flag, "", "only those "+s[i].help)
	}
}

// given are the filters whose flags stand on the command line. One without a value is
// among them, for the gateway to refuse: where a script's variable is not set, left out
// it would select far more than was meant.
func (s deliverySelection) given(cmd *cobra.Command) []deliveryFilter {
	return slices.DeleteFunc(slices.Clone(s), func(f deliveryFilter) bool { return !cmd.Flags().Changed(f.flag) })
}

func (c *cli) deliveriesList() *cobra.Command {
	var l listing
	filters := deliveryFilters("pending, retrying, deferred, succeeded, failed or canceled")
	cmd := &cobra.Command{
		Use: "list", Short: "List deliveries, newest first", Args: cobra.NoArgs,
		Example: `  waypost deliveries list --journey jrn_… --status failed --from 2026-01-01T00:00:00Z`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			for _, f := range filters.given(cmd) {
				query.Set(f.name, f.value)
			}
			return c.list(cmd.Context(), deliveriesPath, query, l,
				of("MESSAGE", "messageId"), column{"STATUS", statusOf}, of("HTTP", "httpStatus"), of("ATTEMPTS", "attempts"),
				of("NEXT ATTEMPT", "nextAttemptAt"), of("LEAD", "leadsId"), of("NODE", "nodeId"), of("ENROLLMENT", "enrollmentId"), of("SAID", "message"))
		},
	}
	filters.flags(cmd)
	l.flags(cmd)
	return cmd
}

// statusOf is a delivery's status, and why it is deferred.
func statusOf(d members) string {
	if reason := d.text("deferredReason"); reason != "" {
		return d.text("status") + " (" + reason + ")"
	}
	return d.text("status")
}

func (c *cli) deliveriesShow() *cobra.Command {
	return &cobra.Command{
		Use: "show MESSAGE", Short: "Show a delivery with every attempt and the message", Args: cobra.ExactArgs(1),
		Example: `  waypost deliveries show msg_…`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := c.client()
			if err != nil {
				return err
			}
			a, err := cl.do(cmd.Context(), http.MethodGet, deliveriesPath+"/"+url.PathEscape(args[0]), nil, nil)
			if err != nil {
				return err
			}
			if c.output == outputJSON {
				return c.printAnswer(a)
			}
			d, err := a.object()
			if err != nil {
				return err
			}
			return c.printDelivery(d)
		},
	}
}

func (c *cli) printDelivery(d members) error {
	if err := c.printObject(d, "attemptLog", "request"); err != nil {
		return err
	}
	var attempts []members
	if raw := d.raw("attemptLog"); raw != nil {
		if err := json.Unmarshal(raw, &attempts); err != nil {
			return fmt.Errorf("the answer's attemptLog is no list: %w", err)
		}
	}
	if len(attempts) > 0 {
		fmt.Fprintln(c.stdout)
		if err := c.printRows(attempts, of("ATTEMPT", "attempt"), of("ROUND", "round"), of("AT", "at"), of("HTTP", "httpStatus"),
			of("ERROR", "errorClass"), of("MS", "durationMs"), of("SAID", "message"), of("RESPONSE", "responseExcerpt")); err != nil {
			return err
		}
	}
	if request := d.raw("request"); request != nil && text(request) != "" {
		fmt.Fprintln(c.stdout, "\nrequest")
		return c.printJSON(request)
	}
	return nil
}
