package main

import (
	"encoding/json"
	"net/http"

	"github.com/spf13/cobra"
)

const eventsPath = "/v1/events"

func (c *cli) events() *cobra.Command {
	return group(&cobra.Command{
		Use: "events", Short: "Report what leads did, for journeys that wait for it",
		Example: `  waypost events send --id order-77 --name purchase --lead 1001 --properties '{"amount":120}'`,
	}, c.eventsSend())
}

func (c *cli) eventsSend() *cobra.Command {
	var id, name, properties string
	var lead int64
	cmd := &cobra.Command{
		Use: "send --id ID --name NAME --lead N", Short: "Report one thing that a lead did",
		Long: `Reports an event of a lead. Enrollments of the lead that wait for an event of this name (a node
waitForEvent) look at it at once; its properties are what their conditions see as event.
The id makes it safe to report an event again: the same id has no second effect.`,
		Example: `  waypost events send --id order-77 --name purchase --lead 1001 --properties '{"amount":120}'
  waypost events send --id login-2026-01-31-1001 --name login --lead 1001
  waypost events send --id order-78 --name purchase --lead 1001 --properties @order.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if id == "" || name == "" || !cmd.Flags().Changed("lead") {
				return usagef("an event needs --id ID, --name NAME and --lead N")
			}
			body := map[string]any{"eventId": id, "name": name, "leadsId": lead}
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
	f.StringVar(&properties, "properties", "", "a JSON object about it; @FILE reads a file, - standard input")
	notEmpty(cmd, "properties")
	return cmd
}
