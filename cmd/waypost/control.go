package main

import (
	"net/http"
	"strings"

	"github.com/spf13/cobra"
)

// controlled says how the commands that pause, resume and cancel speak of one kind
// of things.
type controlled struct {
	command string // the group that they stand in
	id      string // of an example
	noun    string
	pause   string // what pausing does
	cancel  string // what canceling does
}

// controls are the commands pause, resume and cancel of what stands at path(id).
func (c *cli) controls(path func(id string) string, what controlled) []*cobra.Command {
	name := "  waypost " + what.command + " "
	pause := &cobra.Command{
		Use: "pause ID", Short: "Pause " + what.noun,
		Long:    what.pause + "\nWhat is paused already stays so.",
		Example: name + "pause " + what.id,
	}
	resume := &cobra.Command{
		Use: "resume ID", Short: "Resume " + what.noun + " that is paused",
		Long: `Lets everything go on that the pause held. Waits whose time came meanwhile are dealt with as
--elapsed-delays says:

  shift   they go on where the pause found them: two days that were left are two days again (default)
  skip    they are over; those whose time has not come end at the time that was planned`,
		Example: name + "resume " + what.id + " --elapsed-delays skip",
	}
	cancel := &cobra.Command{
		Use: "cancel ID", Short: "Cancel " + what.noun,
		Long:    what.cancel + "\nThis cannot be taken back. A POST that is under way is not called back; its outcome is recorded.",
		Example: name + "cancel " + what.id,
	}
	var delays string
	resume.Flags().StringVar(&delays, "elapsed-delays", "shift", "what becomes of waits: shift or skip")
	commands := []*cobra.Command{pause, resume, cancel}
	for _, cmd := range commands {
		verb, _, _ := strings.Cut(cmd.Use, " ")
		cmd.Args = cobra.ExactArgs(1)
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			if verb == "resume" {
				if delays != "shift" && delays != "skip" {
					return usagef("--elapsed-delays %s: it is shift or skip", delays)
				}
				body["elapsedDelays"] = delays
			}
			return c.send(cmd.Context(), http.MethodPost, path(args[0])+"/"+verb, body)
		}
	}
	return commands
}
