package main

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"
)

const deliveriesPath = "/v1/deliveries"

func (c *cli) deliveries() *cobra.Command {
	return group(&cobra.Command{
		Use: "deliveries", Short: "See what was delivered, what failed and why",
		Example: `  waypost deliveries list --status retrying
  waypost deliveries show msg_…
  waypost deliveries redeliver msg_…`,
	}, c.deliveriesList(), c.deliveriesShow(), c.deliveriesRedeliver(), c.deliveriesRedeliveries())
}

func deliveryPath(id string) string { return deliveriesPath + "/" + url.PathEscape(id) }

func deliveryFilters(statuses string) filters {
	return filters{
		{"journey", "journeyId", "only those of this journey"},
		{"webhook", "webhookId", "only those to this webhook"},
		{"lead", "leadsId", "only those to this lead"},
		{"enrollment", "enrollmentId", "only those of this enrollment"},
		{"launch", "launchId", "only those of this launch"},
		{"status", "status", "only those that are " + statuses},
		{"from", "from", "only those made at or after this time (RFC 3339)"},
		{"to", "to", "only those made before this time (RFC 3339)"},
	}
}

func (c *cli) deliveriesList() *cobra.Command {
	return c.listCommand(&cobra.Command{
		Short:   "List deliveries, newest first",
		Example: `  waypost deliveries list --journey jrn_… --status failed --from 2026-01-01T00:00:00Z`,
	}, deliveriesPath, deliveryFilters("pending, retrying, deferred, succeeded, failed or canceled"),
		col("MESSAGE", "messageId"), column{"STATUS", statusOf}, col("HTTP", "httpStatus"), col("ATTEMPTS", "attempts"),
		col("NEXT ATTEMPT", "nextAttemptAt"), col("LEAD", "leadsId"), col("NODE", "nodeId"), col("ENROLLMENT", "enrollmentId"), col("SAID", "message"))
}

// statusOf is a delivery's status, and why it is deferred.
func statusOf(d members) string {
	if reason := d.text("deferredReason"); reason != "" {
		return d.text("status") + " (" + reason + ")"
	}
	return d.text("status")
}

func (c *cli) deliveriesShow() *cobra.Command {
	cmd := c.showCommand(showing{
		short:   "Show a delivery with every attempt and the message",
		example: `  waypost deliveries show msg_…`,
		path:    deliveryPath,
		print:   c.printDelivery,
	})
	cmd.Use = "show MESSAGE"
	return cmd
}

func (c *cli) printDelivery(d members) error {
	if err := c.printObject(d, "attemptLog", "request"); err != nil {
		return err
	}
	if err := c.printList(d, "attemptLog", col("ATTEMPT", "attempt"), col("ROUND", "round"), col("AT", "at"), col("HTTP", "httpStatus"),
		col("ERROR", "errorClass"), col("MS", "durationMs"), col("SAID", "message"), col("RESPONSE", "responseExcerpt")); err != nil {
		return err
	}
	if request := d.raw("request"); text(request) != "" {
		fmt.Fprintln(c.stdout, "\nrequest")
		return c.printJSON(request)
	}
	return nil
}
