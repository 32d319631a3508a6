package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"waypost"
	"waypost/signature"
)

const redeliveriesPath = "/v1/redeliveries"

func redeliveryPath(id string) string { return redeliveriesPath + "/" + url.PathEscape(id) }

// deliveriesRedeliver sends named messages in a call each, and makes one job of the filters.
// Neither messages nor filters is an error, so that a forgotten flag does not send everything.
func (c *cli) deliveriesRedeliver() *cobra.Command {
	var watch, everything bool
	selection := deliveryFilters("failed, succeeded or canceled; failed without it")
	cmd := &cobra.Command{
		Use: "redeliver MESSAGE... | --FILTER ... | --all-failed", Short: "Send messages once more, one by one or all that match filters",
		Long: `Sends messages that were decided once more: the same bytes with the same messageId, in a new round
of attempts. What comes of it changes the delivery's status, and never the way of the journey.

With filters it is a job of its own for all deliveries that match when it is made, failed ones if
--status says nothing else. It survives any crash and sends nothing twice. --watch shows how far
it is until it has ended; Ctrl-C then only stops watching.`,
		Example: `  waypost deliveries redeliver msg_…
  waypost deliveries redeliver --webhook whk_… --from 2026-01-31T08:00:00Z --to 2026-01-31T12:00:00Z --watch
  waypost deliveries redeliver --journey jrn_… --status failed,canceled
  waypost deliveries redeliver --error-class httpStatus --http-status 401 --watch
  waypost deliveries redeliver --all-failed --watch`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, messages []string) error {
			given := selection.query(cmd)
			switch {
			case len(messages) > 0 && (len(given) > 0 || everything):
				return usagef("redeliver takes messages or filters, not both")
			case len(messages) == 0 && len(given) == 0 && !everything:
				return usagef("redeliver needs messages, filters such as --webhook whk_…, or --all-failed")
			case everything && len(given) > 0:
				return usagef("--all-failed is for every failed delivery; leave it out with filters")
			case len(messages) > 0 && watch:
				return usagef("--watch is for filters; `waypost deliveries show MESSAGE` tells about one message")
			}
			filter := map[string]any{}
			for name := range given {
				filter[name] = given.Get(name)
			}
			for _, number := range []struct{ name, flag, what string }{{"leadsId", "lead", "leadsId"}, {"httpStatus", "http-status", "HTTP status"}} {
				if !given.Has(number.name) {
					continue
				}
				n, err := strconv.ParseInt(given.Get(number.name), 10, 64)
				if err != nil {
					return usagef("--%s %s: it is no %s", number.flag, given.Get(number.name), number.what)
				}
				filter[number.name] = n
			}
			cl, err := c.client()
			if err != nil {
				return err
			}
			if len(messages) > 0 {
				return c.redeliver(cmd.Context(), cl, messages)
			}
			return c.redeliverAll(cmd.Context(), cl, filter, watch)
		},
	}
	selection.flags(cmd)
	cmd.Flags().BoolVar(&everything, "all-failed", false, "every failed delivery")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show how far it is, until it has ended")
	return cmd
}

// redeliver sends messages once more, one after the other. It goes on after a message that the
// gateway refuses, and fails at the end.
func (c *cli) redeliver(ctx context.Context, cl *client, messages []string) error {
	rows := []members{}
	failed := 0
	for _, id := range messages {
		a, err := c.postOnce(ctx, cl, deliveryPath(id)+"/redeliver", nil)
		if err == nil {
			var row members
			if row, err = a.object(); err == nil {
				rows = append(rows, row)
				continue
			}
		}
		if len(messages) == 1 {
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(c.printRedelivered(rows), err)
		}
		fmt.Fprintf(c.stderr, "%s: %s\n", clean(id), describe(err))
		failed++
	}
	if err := c.printRedelivered(rows); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d messages are not sent again", failed, len(messages))
	}
	return nil
}

// postTries is how often a call is made until its answer has come.
const postTries = 3

// postOnce makes a call that must not have its effect twice.
func (c *cli) postOnce(ctx context.Context, cl *client, path string, body any) (answer, error) {
	header := http.Header{"Idempotency-Key": {"redeliver-" + signature.NewNonce()}}
	a, err := c.untilAnswered(ctx, postTries, func() (answer, error) { return cl.call(ctx, http.MethodPost, path, header, body) })
	if err == nil {
		err = a.err()
	}
	return a, err
}

func (c *cli) printRedelivered(rows []members) error {
	if c.output == outputJSON {
		return c.printJSON(map[string]any{"items": rows})
	}
	if len(rows) == 0 {
		return nil
	}
	return c.printRows(rows, col("MESSAGE", "messageId"), col("STATUS", "status"), col("ATTEMPTS", "attempts"),
		col("LEAD", "leadsId"), col("NODE", "nodeId"), col("WEBHOOK", "webhookId"))
}

// redeliverAll makes a job that sends all messages of a filter once more.
func (c *cli) redeliverAll(ctx context.Context, cl *client, filter map[string]any, watch bool) error {
	a, err := c.postOnce(ctx, cl, redeliveriesPath, map[string]any{"filter": filter})
	if err != nil {
		return err
	}
	if !watch {
		return c.printAnswer(a)
	}
	var made redeliveryProgress
	if a.decode(&made, "redelivery") != nil || made.ID == "" {
		return a.unreadable("redelivery")
	}
	return c.watchRedelivery(ctx, cl, made.ID)
}

// redeliveryProgress is the part of a bulk redelivery that its progress bar shows.
type redeliveryProgress struct {
	ID, Message                                              string
	Status                                                   waypost.RedeliveryStatus
	Total, Redelivered, Skipped, Succeeded, Failed, Canceled int
}

func (p redeliveryProgress) state() (string, bool) { return string(p.Status), p.Status.Ended() }

// done is how much of it is over, 0 to 1.
func (p redeliveryProgress) done() float64 {
	if p.Status == waypost.RedeliveryCompleted {
		return 1
	}
	return share(int64(p.Skipped+p.Succeeded+p.Failed+p.Canceled), int64(p.Total))
}

func (p redeliveryProgress) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", clean(p.ID), clean(string(p.Status)))
	if p.Total > 0 {
		fmt.Fprintf(&b, ", %d of %d sent again, %d succeeded, %d failed", p.Redelivered, p.Total, p.Succeeded, p.Failed)
	}
	fmt.Fprint(&b, counts{{p.Canceled, "canceled"}, {p.Skipped, "skipped"}})
	return b.String()
}

// watchRedelivery shows how far a redelivery is until it has ended, and then the
// redelivery.
func (c *cli) watchRedelivery(ctx context.Context, cl *client, id string) error {
	p, err := watchJob[redeliveryProgress](ctx, c, cl, redeliveryPath(id), "redelivery",
		fmt.Sprintf("the redelivery goes on: `waypost deliveries redeliveries show %s --watch` watches it again, `waypost deliveries redeliveries cancel %[1]s` cancels it", clean(id)))
	if err == nil && p.Status == waypost.RedeliveryFailed {
		err = fmt.Errorf("the redelivery failed: %s", clean(p.Message))
	}
	return err
}

func (c *cli) deliveriesRedeliveries() *cobra.Command {
	return group(&cobra.Command{
		Use: "redeliveries", Short: "See how far redeliveries of many messages are, and cancel them",
		Example: `  waypost deliveries redeliveries list
  waypost deliveries redeliveries show rdl_… --watch`,
	}, c.redeliveriesList(), c.redeliveriesShow(), c.redeliveriesCancel())
}

func (c *cli) redeliveriesList() *cobra.Command {
	return c.listCommand(&cobra.Command{
		Short:   "List redeliveries of many messages, newest first",
		Example: `  waypost deliveries redeliveries list`,
	}, redeliveriesPath, nil,
		col("ID", "id"), col("STATUS", "status"), col("TOTAL", "total"), col("SENT", "redelivered"), col("SUCCEEDED", "succeeded"),
		col("FAILED", "failed"), col("CANCELED", "canceled"), col("SKIPPED", "skipped"), col("CREATED", "createdAt"))
}

func (c *cli) redeliveriesShow() *cobra.Command {
	return c.showCommand(showing{
		short: "Show how far a redelivery is",
		long: `Shows a redelivery of many messages: how many were sent again, and what came of it. With --watch it
shows the progress until the redelivery has ended.`,
		example: `  waypost deliveries redeliveries show rdl_… --watch`,
		path:    redeliveryPath,
		watch:   c.watchRedelivery,
	})
}

func (c *cli) redeliveriesCancel() *cobra.Command {
	return c.postCommand(&cobra.Command{
		Use: "cancel ID", Short: "Cancel a redelivery",
		Long: `Nothing more is sent for it. What was delivered stays so; a POST that is under way is not called back,
and its outcome is recorded.`,
		Example: `  waypost deliveries redeliveries cancel rdl_…`,
	}, redeliveryPath, c.printAnswer)
}
