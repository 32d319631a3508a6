package main

import "github.com/spf13/cobra"

func (c *cli) audit() *cobra.Command {
	return group(&cobra.Command{
		Use: "audit", Short: "Look who changed what",
		Long: `Shows the audit log: who changed what, when, in which request. It needs the grant audit.read. What
you change yourself is told with the name that WAYPOST_ACTOR holds.`,
		Example: `  waypost audit list --target whk_…`,
	}, c.auditList())
}

func (c *cli) auditList() *cobra.Command {
	return c.listCommand(&cobra.Command{
		Short: "List changes, newest first",
		Long: `Lists changes, newest first. With -o json each has the members that changed, as they were before
and are after.`,
		Example: `  waypost audit list --actor ada@example.com --from 2026-01-31T00:00:00Z
  waypost audit list --target whk_… -o json`,
	}, "/v1/audit", filters{
		{"target", "target", "only what was done to this: an id, or what an export is of, such as leads"},
		{"actor", "actor", "only what this person did"},
		{"from", "from", "only what was done at this time (RFC 3339) or later"},
		{"to", "to", "only what was done before this time"},
	},
		col("AT", "at"), col("ACTION", "action"), col("TARGET", "target"), col("ACTOR", "actor"), col("APPLICATION", "application"),
		col("ADDRESS", "address"), col("REQUEST", "requestId"))
}
