package main

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

const suppressionsPath = "/v1/suppressions"

func suppressionPath(id string) string { return suppressionsPath + "/" + url.PathEscape(id) }

func (c *cli) suppressions() *cobra.Command {
	return group(&cobra.Command{
		Use: "suppressions", Short: "Keep addresses from getting messages of a channel",
		Example: `  waypost suppressions create --channel sms --mobile-phone '138 0013 8000'
  waypost suppressions list --channel sms
  waypost suppressions delete sup_…`,
	}, c.suppressionsCreate(), c.suppressionsList(), c.suppressionsShow(), c.suppressionsDelete())
}

// suppressionsCreate posts an address. The gateway answers 200 with the suppression that there is,
// or 201 with a new one; both are printed.
func (c *cli) suppressionsCreate() *cobra.Command {
	var channel, phone, email, external string
	cmd := &cobra.Command{
		Use: "create --channel CHANNEL --mobile-phone NUMBER | --email ADDRESS | --external-id ID", Short: "Suppress an address in a channel",
		Long: `From now on no touchpoint of a webhook with this channel goes to a lead that has the address, whether there is
such a lead yet or not. If the address is suppressed already, the suppression that there is is printed: so its id is found.`,
		Example: `  waypost suppressions create --channel sms --mobile-phone '138 0013 8000'
  waypost suppressions create --channel email --email ada@example.com
  waypost suppressions create --channel wechat --external-id crm-4711`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body := map[string]any{"channel": channel}
			for member, value := range map[string]string{"mobilePhone": phone, "email": email, "externalId": external} {
				if value != "" {
					body[member] = value
				}
			}
			if channel == "" || len(body) != 2 {
				return usagef("a suppression needs --channel and one of --mobile-phone, --email and --external-id")
			}
			return c.send(cmd.Context(), http.MethodPost, suppressionsPath, body)
		},
	}
	f := cmd.Flags()
	f.StringVar(&channel, "channel", "", "the channel, as webhooks name it, such as sms")
	f.StringVar(&phone, "mobile-phone", "", "a mobile number")
	f.StringVar(&email, "email", "", "an e-mail address")
	f.StringVar(&external, "external-id", "", "the id that your system has of a lead")
	notEmpty(cmd, "channel", "mobile-phone", "email", "external-id")
	return cmd
}

func (c *cli) suppressionsList() *cobra.Command {
	return c.listCommand(&cobra.Command{
		Short: "List suppressions, newest first",
		Example: `  waypost suppressions list --channel sms
  waypost suppressions list --lead 1001 -o json`,
	}, suppressionsPath, filters{
		{"channel", "channel", "only those of this channel"},
		{"lead", "leadsId", "only those of the addresses that this lead has"},
	}, col("ID", "id"), col("CHANNEL", "channel"), col("MOBILE", "mobilePhone"), col("EMAIL", "email"), col("EXTERNAL", "externalId"), col("CREATED", "createdAt"))
}

func (c *cli) suppressionsShow() *cobra.Command {
	return c.showCommand(showing{
		short: "Show a suppression",
		long:  "Shows a suppression. With --etag it shows only the ETag of its current version, for --if-match.",
		example: `  waypost suppressions show sup_…
  waypost suppressions show sup_… --etag`,
		path: suppressionPath,
		etag: true,
	})
}

func (c *cli) suppressionsDelete() *cobra.Command {
	return c.deleteCommand("suppression", suppressionPath, `Deletes a suppression: touchpoints go to the address again. What was skipped stays skipped.`,
		`  waypost suppressions delete sup_…`)
}
