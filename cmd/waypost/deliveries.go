package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"waypost"
)

const deliveriesPath = "/v1/deliveries"

func (c *cli) deliveries() *cobra.Command {
	return group(&cobra.Command{
		Use: "deliveries", Short: "See what was delivered, what failed and why",
		Example: `  waypost deliveries list --status retrying
  waypost deliveries summary
  waypost deliveries show msg_…
  waypost deliveries redeliver msg_…`,
	}, c.deliveriesList(), c.deliveriesSummary(), c.deliveriesShow(), c.deliveriesExport(), c.deliveriesRedeliver(), c.deliveriesRedeliveries())
}

func deliveryPath(id string) string { return deliveriesPath + "/" + url.PathEscape(id) }

func deliveryFilters(statuses string) filters {
	return filters{
		{"journey", "journeyId", "only those of this journey"},
		{"node", "nodeId", "only those of this node"},
		{"webhook", "webhookId", "only those to this webhook"},
		{"lead", "leadsId", "only those to this lead"},
		{"enrollment", "enrollmentId", "only those of this enrollment"},
		{"launch", "launchId", "only those of this launch"},
		{"subscription", "subscriptionId", "only those to this subscription"},
		{"status", "status", "only those that are " + statuses + "; several with commas between"},
		{"error-class", "errorClass", "only those whose last attempt failed with this class, such as timeout"},
		{"http-status", "httpStatus", "only those whose last attempt got this answer, such as 503"},
		{"from", "from", "only those made at or after this time (RFC 3339)"},
		{"to", "to", "only those made before this time (RFC 3339)"},
	}
}

func (c *cli) deliveriesList() *cobra.Command {
	return c.listCommand(&cobra.Command{
		Short: "List deliveries, newest first",
		Example: `  waypost deliveries list --journey jrn_… --status failed --from 2026-01-01T00:00:00Z
  waypost deliveries list --status failed,retrying --error-class httpStatus --http-status 503`,
	}, deliveriesPath, deliveryFilters(anyStatus),
		col("MESSAGE", "messageId"), column{"STATUS", statusOf}, col("HTTP", "httpStatus"), col("ERROR", "errorClass"), col("ATTEMPTS", "attempts"),
		col("NEXT ATTEMPT", "nextAttemptAt"), col("LEAD", "leadsId"), col("NODE", "nodeId"), col("ENROLLMENT", "enrollmentId"), col("SAID", "message"))
}

const anyStatus = "pending, retrying, deferred, succeeded, failed or canceled"

// deliveriesSummary has a column for each member that --by names, in that order.
func (c *cli) deliveriesSummary() *cobra.Command {
	var by []string
	selection := deliveryFilters(anyStatus + " (failed and retrying without it)")
	cmd := &cobra.Command{
		Use: "summary", Short: "Count deliveries by what went wrong",
		Long: `Counts deliveries in groups that agree in the error class of their last attempt and the HTTP status
that it got, or in what --by says: of errorClass, httpStatus, webhookId and nodeId. Each group has the
newest of its messages as a sample, with what its receiver said; "waypost deliveries list" lists all of
a group with the same filters, and "waypost deliveries redeliver" sends them again.

Without --status these are the deliveries that have failed and those that are retried.`,
		Example: `  waypost deliveries summary
  waypost deliveries summary --by errorClass,httpStatus,webhookId --from 2026-01-01T00:00:00Z
  waypost deliveries summary --by nodeId --journey jrn_… --status failed`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := selection.query(cmd)
			query.Set("groupBy", strings.Join(by, ","))
			a, err := c.request(cmd.Context(), http.MethodGet, deliveriesPath+"/summary?"+query.Encode(), nil)
			if err != nil {
				return err
			}
			return printAs(c, a, "summary", func(s struct{ Groups []members }) error {
				columns := []column{col("COUNT", "count")}
				for _, name := range by {
					columns = append(columns, col(groupHeadings[name], name))
				}
				return c.printRows(s.Groups, append(columns, col("LAST", "lastAt"), col("SAMPLE", "sampleMessageId"), col("SAID", "message"))...)
			})
		},
	}
	cmd.Flags().StringSliceVar(&by, "by", []string{waypost.GroupErrorClass, waypost.GroupHTTPStatus}, "what a group agrees in, with commas between")
	selection.flags(cmd)
	return cmd
}

var groupHeadings = map[string]string{
	waypost.GroupErrorClass: "ERROR", waypost.GroupHTTPStatus: "HTTP", waypost.GroupWebhookID: "WEBHOOK", waypost.GroupNodeID: "NODE",
}

func (c *cli) deliveriesExport() *cobra.Command {
	selection := deliveryFilters(anyStatus)
	for i, f := range selection {
		if f.name == "from" || f.name == "to" {
			selection[i].flag = "created-" + f.name // of an export, --to is the file
		}
	}
	return c.exportCommand(&cobra.Command{
		Short: "Export deliveries as NDJSON or CSV",
		Long: `Writes all deliveries that match the filters, newest first, as they were when the export began, to
standard output or, with --to, to a file that only you can read. ` + exportHelp("deliveries"),
		Example: `  waypost deliveries export --status failed --to failed.csv
  waypost deliveries export --journey jrn_… --created-from 2026-01-01T00:00:00Z --to january.ndjson
  waypost deliveries export --webhook whk_… --excel --to for-excel.csv`,
	}, exporting{deliveriesPath + "/export", selection, "delivery", "deliveries"})
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
