package main

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

const segmentsPath = "/v1/segments"

func segmentPath(id string) string { return segmentsPath + "/" + url.PathEscape(id) }

func (c *cli) segments() *cobra.Command {
	return group(&cobra.Command{
		Use: "segments", Short: "Name conditions that leads meet or not",
		Example: `  waypost segments create --name often --when 'events("purchase", duration("720h")).count() > 2'
  waypost segments count seg_…
  waypost segments members seg_…
  waypost launches create jrn_… --segment seg_…`,
	}, c.segmentsCreate(), c.segmentsReplace(), c.segmentsList(), c.segmentsShow(), c.segmentsCount(), c.segmentsMembers(), c.segmentsDelete())
}

// segmentInput is a segment as flags say it.
type segmentInput struct{ name, when string }

func (in *segmentInput) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&in.name, "name", "", "what people call it")
	cmd.Flags().StringVar(&in.when, "when", "", "its condition, in CEL")
	notEmpty(cmd, "name", "when")
}

func (in *segmentInput) body() (map[string]any, error) {
	if in.name == "" || in.when == "" {
		return nil, usagef("a segment needs --name and --when")
	}
	return map[string]any{"name": in.name, "when": in.when}, nil
}

func (c *cli) segmentsCreate() *cobra.Command {
	var in segmentInput
	cmd := &cobra.Command{
		Use: "create --name NAME --when CONDITION", Short: "Create a segment",
		Example: `  waypost segments create --name gold --when 'lead.customFields.plan == "gold" && lead.email != null'
  waypost segments create --name silent --when 'events("purchase").count() > 0 && events("purchase", duration("2160h")).count() == 0'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body, err := in.body()
			if err != nil {
				return err
			}
			return c.send(cmd.Context(), http.MethodPost, segmentsPath, body)
		},
	}
	in.flags(cmd)
	return cmd
}

func (c *cli) segmentsReplace() *cobra.Command {
	var in segmentInput
	cmd := &cobra.Command{
		Use: "replace ID --name NAME --when CONDITION", Short: "Give a segment another name and condition",
		Long: `Gives a segment another name and condition, which whatever uses it has at once. With --if-match nothing
happens if the segment was changed meanwhile.`,
		Example: `  waypost segments replace seg_… --name gold --when 'lead.customFields.plan in ["gold", "platinum"]'
  waypost segments replace seg_… --name gold --when true --if-match "$(waypost segments show seg_… --etag)"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := in.body()
			if err != nil {
				return err
			}
			a, err := c.change(cmd, http.MethodPut, segmentPath(args[0]), body)
			if err != nil {
				return err
			}
			return c.printAnswer(a)
		},
	}
	in.flags(cmd)
	matchFlag(cmd, "segment")
	return cmd
}

func (c *cli) segmentsList() *cobra.Command {
	return c.listCommand(&cobra.Command{
		Short: "List segments, newest first",
		Example: `  waypost segments list
  waypost segments list -o json`,
	}, segmentsPath, nil, col("ID", "id"), col("NAME", "name"), col("WHEN", "when"), col("UPDATED", "updatedAt"))
}

func (c *cli) segmentsShow() *cobra.Command {
	return c.showCommand(showing{
		short: "Show a segment",
		long:  "Shows a segment. With --etag it shows only the ETag of its current version, for --if-match.",
		example: `  waypost segments show seg_…
  waypost segments show seg_… --etag`,
		path:  segmentPath,
		print: func(segment members) error { return c.printWithProblems(segment) },
		etag:  true,
	})
}

func (c *cli) segmentsCount() *cobra.Command {
	return &cobra.Command{
		Use: "count ID", Short: "Count the leads of a segment, and name some of them",
		Long:    `Counts the leads that are in a segment now, and names up to 20 of them.`,
		Example: `  waypost segments count seg_…`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.send(cmd.Context(), http.MethodGet, segmentPath(args[0])+"/count", nil)
		},
	}
}

func (c *cli) segmentsMembers() *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use: "members ID", Short: "List the leads of a segment",
		Example: `  waypost segments members seg_…
  waypost segments members seg_… --limit 500 -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.list(cmd.Context(), segmentPath(args[0])+"/members", nil, l, leadListColumns...)
		},
	}
	l.flags(cmd)
	return cmd
}

func (c *cli) segmentsDelete() *cobra.Command {
	return c.deleteCommand("segment", segmentPath, `Deletes a segment that no other one, no journey and no launch that has not ended uses.`,
		`  waypost segments delete seg_…`)
}
