package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"waypost"
)

func (c *cli) enrollments() *cobra.Command {
	return c.withControls(group(&cobra.Command{
		Use: "enrollments", Short: "See where leads stand in a journey, and pause, resume or cancel one",
		Example: `  waypost enrollments list --journey jrn_… --node wait
  waypost enrollments show enr_… --watch
  waypost enrollments pause enr_…`,
	}, c.enrollmentsList(), c.enrollmentsShow()), enrollmentPath, controlled{
		id: "enr_…", noun: "an enrollment",
		pause:  "Nothing is sent for the enrollment, retries included, until it is resumed.",
		cancel: "The enrollment ends where it is, as canceled; nothing more is sent for it.",
	})
}

const enrollmentsPath = "/v1/enrollments"

func enrollmentPath(id string) string { return enrollmentsPath + "/" + url.PathEscape(id) }

func (c *cli) enrollmentsList() *cobra.Command {
	return c.listCommand(&cobra.Command{
		Short: "List enrollments: who is where",
		Long: `Lists enrollments, newest first. With --node they stand at the node now; with a --status that says how
they have ended, too, that is where they ended.

A page can have fewer rows than --limit where few match; there is more as long as a cursor is printed.`,
		Example: `  waypost enrollments list --journey jrn_… --node wait
  waypost enrollments list --journey jrn_… --status failed,canceled --from 2026-01-01T00:00:00Z
  waypost enrollments list --lead 1001 --sort createdAt`,
	}, enrollmentsPath, filters{
		{"journey", "journeyId", "only those of this journey"},
		{"version", "version", "only those in this version of their journey"},
		{"node", "nodeId", "only those that stand at this node"},
		{"status", "status", "only those that are pending, running, waiting, paused, completed, exited, failed or canceled;\nseveral with commas between"},
		{"lead", "leadsId", "only those of this lead"},
		{"launch", "launchId", "only those of this launch"},
		{"from", "from", "only those made at or after this time (RFC 3339)"},
		{"to", "to", "only those made before this time (RFC 3339)"},
		{"sort", "sort", "order: createdAt or -createdAt, which is newest first (default -createdAt)"},
	},
		col("ENROLLMENT", "enrollmentId"), col("STATUS", "status"), col("NODE", "nodeId"), col("LEAD", "leadsId"), col("JOURNEY", "journeyId"),
		col("VERSION", "version"), col("CREATED", "createdAt"), col("ENDED", "endedAt"))
}

func (c *cli) enrollmentsShow() *cobra.Command {
	return c.showCommand(showing{
		short:   "Show an enrollment with its timeline",
		long:    "Shows an enrollment: where it stands, and what happened at each node, when and why.\nWith --watch it goes on until the enrollment has ended.",
		example: `  waypost enrollments show enr_… --watch`,
		path:    enrollmentPath,
		print:   c.printEnrollment,
		watch:   c.watchEnrollment,
	})
}

func (c *cli) printEnrollment(e members) error {
	if err := c.printObject(e, "timeline"); err != nil {
		return err
	}
	return c.printList(e, "timeline", timelineColumns...)
}

var timelineColumns = []column{col("AT", "at"), col("NODE", "nodeId"), col("WHAT", "what"), col("NEXT", "next"), col("REASON", "reason")}

// watchEnrollment prints an enrollment's timeline as it grows, until the enrollment has
// ended: lines for people, or one JSON object a line for each entry and the enrollment at
// the end. An enrollment that has failed is an error.
func (c *cli) watchEnrollment(ctx context.Context, cl *client, id string) error {
	shown, status := 0, ""
	return c.eachLook(ctx, cl, enrollmentPath(id), &progress{c: c}, "", func(a answer) (bool, error) {
		e, err := a.object()
		if err != nil {
			return false, err
		}
		timeline, err := e.list("timeline")
		if err != nil {
			return false, err
		}
		for ; shown < len(timeline); shown++ {
			if err := c.printTimelineEntry(timeline[shown]); err != nil {
				return false, err
			}
		}
		if now := e.text("status"); now != status {
			status = now
			fmt.Fprintf(c.stderr, "%s is %s\n", e.text("enrollmentId"), status)
		}
		if !waypost.EnrollmentStatus(status).Ended() {
			return false, nil
		}
		if c.output == outputJSON {
			err = c.printLine(e)
		}
		if err == nil && waypost.EnrollmentStatus(status) == waypost.EnrollmentFailed {
			err = errors.New("the enrollment failed")
		}
		return true, err
	})
}

func (c *cli) printTimelineEntry(entry members) error {
	if c.output == outputJSON {
		return c.printLine(entry)
	}
	next := entry.text("next")
	if next != "" {
		next = " → " + next
	}
	_, err := fmt.Fprintf(c.stdout, "%s  %-8s %s%s  %s\n", entry.text("at"), entry.text("what"), entry.text("nodeId"), next, entry.text("reason"))
	return err
}
