package main

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

const subscriptionsPath = "/v1/subscriptions"

func subscriptionPath(id string) string { return subscriptionsPath + "/" + url.PathEscape(id) }

func (c *cli) subscriptions() *cobra.Command {
	return group(&cobra.Command{
		Use: "subscriptions", Short: "Have webhooks told what happens",
		Example: `  waypost subscriptions create --name crm --webhook whk_… --on enrollment.ended,delivery.failed
  waypost subscriptions list
  waypost deliveries list --subscription sub_…`,
	}, c.subscriptionsCreate(), c.subscriptionsUpdate(), c.subscriptionsList(), c.subscriptionsShow(), c.subscriptionsDelete())
}

// subscriptionInput is a subscription, or a change of one, as flags say it.
type subscriptionInput struct {
	name, webhook, journey string
	on                     []string
}

func (in *subscriptionInput) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&in.name, "name", "", "what people call it")
	f.StringVar(&in.webhook, "webhook", "", "the webhook that is told")
	f.StringSliceVar(&in.on, "on", nil, "what it is told, with commas between: enrollment.ended, delivery.failed, webhook.disabled, webhook.failing, launch.ended, import.ended, journey.published")
	f.StringVar(&in.journey, "journey", "", "only what happens in this journey")
	notEmpty(cmd, "name", "webhook", "journey")
}

// set returns the members that flags name.
func (in *subscriptionInput) set() map[string]any {
	set := map[string]any{}
	for member, value := range map[string]string{"name": in.name, "webhookId": in.webhook, "journeyId": in.journey} {
		if value != "" {
			set[member] = value
		}
	}
	if len(in.on) > 0 {
		set["on"] = in.on
	}
	return set
}

func (c *cli) subscriptionsCreate() *cobra.Command {
	var in subscriptionInput
	cmd := &cobra.Command{
		Use: "create --name NAME --webhook WEBHOOK --on TYPE,...", Short: "Have a webhook told what happens from now on",
		Example: `  waypost subscriptions create --name crm --webhook whk_… --on enrollment.ended,delivery.failed
  waypost subscriptions create --name welcome --webhook whk_… --on launch.ended --journey jrn_…`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if in.name == "" || in.webhook == "" || len(in.on) == 0 {
				return usagef("a subscription needs --name, --webhook and --on")
			}
			return c.send(cmd.Context(), http.MethodPost, subscriptionsPath, in.set())
		},
	}
	in.flags(cmd)
	return cmd
}

// subscriptionsUpdate patches what flags name, with null as the journey for --all-journeys.
func (c *cli) subscriptionsUpdate() *cobra.Command {
	var in subscriptionInput
	var all bool
	cmd := &cobra.Command{
		Use: "update ID [--FLAG VALUE ...]", Short: "Change a subscription",
		Long: `Changes what flags name; the rest stays as it is. --on replaces the whole list. With --if-match nothing
happens if the subscription was changed meanwhile.`,
		Example: `  waypost subscriptions update sub_… --on enrollment.ended,launch.ended
  waypost subscriptions update sub_… --all-journeys --if-match "$(waypost subscriptions show sub_… --etag)"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set := in.set()
			if all {
				if in.journey != "" {
					return usagef("--journey is one and --all-journeys are all: give one of them")
				}
				set["journeyId"] = nil
			}
			if len(set) == 0 {
				return usagef("update needs what is to change: flags such as --on TYPE,...")
			}
			a, err := c.change(cmd, http.MethodPatch, subscriptionPath(args[0]), set)
			if err != nil {
				return err
			}
			return c.printAnswer(a)
		},
	}
	in.flags(cmd)
	cmd.Flags().BoolVar(&all, "all-journeys", false, "what happens in all journeys, where it was one")
	matchFlag(cmd, "subscription")
	return cmd
}

func (c *cli) subscriptionsList() *cobra.Command {
	return c.listCommand(&cobra.Command{
		Short: "List subscriptions, newest first",
		Example: `  waypost subscriptions list
  waypost subscriptions list -o json`,
	}, subscriptionsPath, nil,
		col("ID", "id"), col("NAME", "name"), col("WEBHOOK", "webhookId"), col("ON", "on"), col("JOURNEY", "journeyId"), col("CREATED", "createdAt"))
}

func (c *cli) subscriptionsShow() *cobra.Command {
	return c.showCommand(showing{
		short: "Show a subscription",
		long:  "Shows a subscription. With --etag it shows only the ETag of its current version, for --if-match.",
		example: `  waypost subscriptions show sub_…
  waypost subscriptions show sub_… --etag`,
		path: subscriptionPath,
		etag: true,
	})
}

func (c *cli) subscriptionsDelete() *cobra.Command {
	return c.deleteCommand("subscription", subscriptionPath, `Deletes a subscription. What it was not told yet it is not told, and its messages that are not decided
are canceled.`,
		`  waypost subscriptions delete sub_…`)
}
