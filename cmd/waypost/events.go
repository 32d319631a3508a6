package main

import (
	"encoding/json"
	"net/http"

	"github.com/spf13/cobra"
)

const eventsPath = "/v1/events"

func (c *cli) events() *cobra.Command {
	return group(&cobra.Command{
		Use: "events", Short: "Report what leads did, for journeys that wait for it, and see it",
		Example: `  waypost events send --id order-77 --name purchase --lead 1001 --properties '{"amount":120}'
  waypost events import orders.ndjson
  waypost events list --lead 1001`,
	}, c.eventsSend(), c.eventsImport(), c.eventsList(), c.eventsNames())
}

// eventLines are what an import of events takes.
var eventLines = lineKind{eventsPath + "/import", "events", []string{"accepted", "duplicates"}, 1 << 20}

func (c *cli) eventsImport() *cobra.Command {
	return c.importCommand(&cobra.Command{
		Short: "Report what many leads did, from an NDJSON file",
		Long: `Sends a file with one event a line, of any size, to the gateway, part by part (- is standard input), and
shows the progress. A line is like
{"eventId":"order-77","name":"purchase","leadsId":1001,"properties":{},"occurredAt":"2026-01-31T12:00:00Z"}, with
externalId, email or mobilePhone in the place of leadsId if you like, and "create":true beside externalId,
and has the same effects as waypost events send; one whose eventId is known has none, and counts as a
duplicate. Lines that fail do not keep the others from being imported: the first of them are shown with
their numbers in the file, --errors writes all of them to a file, and the exit code is 1.

After Ctrl-C, or if the gateway cannot be reached any more, it says how far it got. Importing the whole
file again is harmless.`,
		Example: `  waypost events import orders.ndjson --errors failed.ndjson
  gunzip -c orders.ndjson.gz | waypost events import -`,
	}, eventLines)
}

func (c *cli) eventsList() *cobra.Command {
	return c.listCommand(&cobra.Command{
		Short: "List events: what leads did",
		Example: `  waypost events list --lead 1001
  waypost events list --name purchase --from 2026-01-01T00:00:00Z --sort occurredAt`,
	}, eventsPath, filters{
		{"lead", "leadsId", "only those of this lead"},
		{"name", "name", "only those of this name"},
		{"from", "from", "only those that occurred at or after this time (RFC 3339)"},
		{"to", "to", "only those that occurred before this time (RFC 3339)"},
		{"sort", "sort", "order: occurredAt or -occurredAt, which is newest first (default -occurredAt)"},
	}, col("OCCURRED", "occurredAt"), col("NAME", "name"), col("LEAD", "leadsId"), col("EVENT", "eventId"), col("PROPERTIES", "properties"))
}

func (c *cli) eventsNames() *cobra.Command {
	return &cobra.Command{
		Use: "names", Short: "List the names that events have",
		Long:    `Lists the names that events have, those with the most events first, with their number and the time of the last one.`,
		Example: `  waypost events names`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.printItems(cmd.Context(), eventsPath+"/names", col("NAME", "name"), col("COUNT", "count"), col("LAST", "lastAt"))
		},
	}
}

// eventsSend posts one event. An event needs an id of the caller's, so that the command can be
// repeated.
func (c *cli) eventsSend() *cobra.Command {
	var id, name, properties, externalID, email, phone, occurredAt string
	var lead int64
	var create bool
	cmd := &cobra.Command{
		Use: "send --id ID --name NAME --lead N", Short: "Report one thing that a lead did",
		Long: `Reports an event of a lead. It begins the journeys whose entry names it, enrollments that wait for
it (waitForEvent) look at it at once, and it counts for goals; its properties are what their
conditions see as event.
The id makes it safe to report an event again: the same id has no second effect. The lead is named by
one of --lead, --external-id, --email and --mobile-phone; with --create, one of an external id that no
lead has yet is made. --occurred-at is for what happened before: windows and goals go by it, and what
happened more than 24 hours ago counts only, but begins, wakes and ends nothing.`,
		Example: `  waypost events send --id order-77 --name purchase --lead 1001 --properties '{"amount":120}'
  waypost events send --id login-2026-01-31-1001 --name login --lead 1001
  waypost events send --id order-78 --name purchase --lead 1001 --properties @order.json
  waypost events send --id order-79 --name purchase --external-id crm-42 --create --occurred-at 2026-01-31T12:00:00Z`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body := map[string]any{"eventId": id, "name": name}
			for flag, member := range map[string]string{"lead": "leadsId", "external-id": "externalId", "email": "email", "mobile-phone": "mobilePhone"} {
				if cmd.Flags().Changed(flag) {
					body[member] = map[string]any{"lead": lead, "external-id": externalID, "email": email, "mobile-phone": phone}[flag]
				}
			}
			if id == "" || name == "" || len(body) == 2 {
				return usagef("an event needs --id ID, --name NAME, and --lead N or --external-id, --email or --mobile-phone")
			}
			if create {
				body["create"] = true
			}
			if occurredAt != "" {
				body["occurredAt"] = occurredAt
			}
			if properties != "" {
				object, err := c.readValue(properties)
				if err != nil {
					return err
				}
				if !json.Valid(object) {
					return usagef("--properties must be JSON, such as '{\"amount\":120}'")
				}
				body["properties"] = json.RawMessage(object)
			}
			return c.send(cmd.Context(), http.MethodPost, eventsPath, body)
		},
	}
	f := cmd.Flags()
	f.StringVar(&id, "id", "", "the event's eventId: yours, and the same whenever this event is reported again")
	f.StringVar(&name, "name", "", "its name, as a waitForEvent names it: letters, digits, _, - and .")
	f.Int64Var(&lead, "lead", 0, "the leadsId of who did it")
	f.StringVar(&externalID, "external-id", "", "the externalId of who did it")
	f.StringVar(&email, "email", "", "the e-mail address of who did it, which one lead has")
	f.StringVar(&phone, "mobile-phone", "", "a mobile number of who did it")
	f.BoolVar(&create, "create", false, "with --external-id: make the lead if there is none (needs the grant leads.import)")
	f.StringVar(&occurredAt, "occurred-at", "", "when it happened, such as 2026-01-31T12:00:00Z (default: now)")
	f.StringVar(&properties, "properties", "", "a JSON object about it; @FILE reads a file, - standard input")
	cmd.MarkFlagsMutuallyExclusive("lead", "external-id", "email", "mobile-phone")
	notEmpty(cmd, "properties", "external-id", "email", "mobile-phone", "occurred-at")
	return cmd
}
