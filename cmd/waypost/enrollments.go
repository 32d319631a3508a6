package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"waypost"
)

func (c *cli) enrollments() *cobra.Command {
	cmd := &cobra.Command{
		Use: "enrollments", Short: "See where a lead stands in a journey, and pause, resume or cancel it",
		Example: `  waypost enrollments show enr_… --watch
  waypost enrollments pause enr_…`,
	}
	cmd.AddCommand(c.enrollmentsShow())
	cmd.AddCommand(c.controls(enrollmentPath, controlled{
		command: "enrollments", id: "enr_…", noun: "an enrollment",
		pause:  "Nothing is sent for the enrollment, retries included, until it is resumed.",
		cancel: "The enrollment ends where it is, as canceled; nothing more is sent for it.",
	})...)
	return cmd
}

func enrollmentPath(id string) string { return "/v1/enrollments/" + url.PathEscape(id) }

func (c *cli) enrollmentsShow() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show an enrollment with its timeline",
		Long:    "Shows an enrollment: where it stands, and what happened at each node, when and why.\nWith --watch it goes on until the enrollment has ended.",
		Example: `  waypost enrollments show enr_… --watch`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := c.client()
			if err != nil {
				return err
			}
			path := enrollmentPath(args[0])
			if watch {
				return c.watch(cmd.Context(), cl, path)
			}
			a, err := cl.do(cmd.Context(), http.MethodGet, path, nil, nil)
			if err != nil {
				return err
			}
			if c.output == outputJSON {
				return c.printAnswer(a)
			}
			e, err := a.object()
			if err != nil {
				return err
			}
			if err := c.printObject(e, "timeline"); err != nil {
				return err
			}
			timeline, err := timelineOf(e)
			if err != nil || len(timeline) == 0 {
				return err
			}
			fmt.Fprintln(c.stdout)
			return c.printRows(timeline, timelineColumns...)
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on until it has ended")
	return cmd
}

var timelineColumns = []column{of("AT", "at"), of("NODE", "nodeId"), of("WHAT", "what"), of("NEXT", "next"), of("REASON", "reason")}

func timelineOf(enrollment members) ([]members, error) {
	raw := enrollment.raw("timeline")
	if raw == nil {
		return nil, nil
	}
	var timeline []members
	if err := json.Unmarshal(raw, &timeline); err != nil {
		return nil, fmt.Errorf("the answer's timeline is no list: %w", err)
	}
	return timeline, nil
}

// watch prints an enrollment's timeline as it grows, until it has ended: lines
// for people, or one JSON object a line for each entry and the enrollment at the
// end.
func (c *cli) watch(ctx context.Context, cl *client, path string) error {
	shown, status := 0, ""
	return c.eachLook(ctx, cl, path, &progress{c: c}, "", func(a answer) (bool, error) {
		e, err := a.object()
		if err != nil {
			return false, err
		}
		timeline, err := timelineOf(e)
		if err != nil {
			return false, err
		}
		for ; shown < len(timeline); shown++ {
			if err := c.printEntry(timeline[shown]); err != nil {
				return false, err
			}
		}
		if now := e.text("status"); now != status {
			status = now
			fmt.Fprintf(c.stderr, "%s is %s\n", e.text("enrollmentId"), status)
		}
		if waypost.EnrollmentStatus(status).Ended() {
			return true, c.ended(a, status)
		}
		return false, nil
	})
}

func (c *cli) printEntry(entry members) error {
	if c.output == outputJSON {
		line, err := json.Marshal(entry)
		if err != nil {
			return fmt.Errorf("encode a timeline entry: %w", err)
		}
		_, err = fmt.Fprintf(c.stdout, "%s\n", line)
		return err
	}
	next := entry.text("next")
	if next != "" {
		next = " → " + next
	}
	_, err := fmt.Fprintf(c.stdout, "%s  %-8s %s%s  %s\n", entry.text("at"), entry.text("what"), entry.text("nodeId"), next, entry.text("reason"))
	return err
}

// ended closes what watch has printed. An enrollment that could not go on is a
// failure of the command too.
func (c *cli) ended(a answer, status string) error {
	if c.output == outputJSON {
		line, err := json.Marshal(json.RawMessage(a.body))
		if err != nil {
			return fmt.Errorf("the gateway's answer is no JSON: %w", err)
		}
		if _, err := fmt.Fprintf(c.stdout, "%s\n", line); err != nil {
			return err
		}
	}
	if waypost.EnrollmentStatus(status) == waypost.EnrollmentFailed {
		return errors.New("the enrollment failed")
	}
	return nil
}
