package main

import (
	"net/http"

	"github.com/spf13/cobra"
)

// controlled holds the words of the commands pause, resume and cancel for one kind of
// thing.
type controlled struct {
	id     string // of an example
	noun   string
	pause  string // what pausing does
	cancel string // what canceling does
}

// withControls adds pause, resume and cancel to a group of commands.
func (c *cli) withControls(group *cobra.Command, path func(id string) string, what controlled) *cobra.Command {
	name := "  waypost " + group.Name() + " "
	pause := c.postCommand(&cobra.Command{
		Use: "pause ID", Short: "Pause " + what.noun,
		Long:    what.pause + "\nWhat is paused already stays so.",
		Example: name + "pause " + what.id,
	}, path, c.printAnswer)
	cancel := c.postCommand(&cobra.Command{
		Use: "cancel ID", Short: "Cancel " + what.noun,
		Long:    what.cancel + "\nThis cannot be taken back. A POST that is under way is not called back; its outcome is recorded.",
		Example: name + "cancel " + what.id,
	}, path, c.printAnswer)
	var delays string
	resume := &cobra.Command{
		Use: "resume ID", Short: "Resume " + what.noun + " that is paused",
		Long: `Lets everything go on that the pause held. Waits whose time came meanwhile are dealt with as
--elapsed-delays says:

  shift   they go on where the pause found them: two days that were left are two days again (default)
  skip    they are over; those whose time has not come end at the time that was planned`,
		Example: name + "resume " + what.id + " --elapsed-delays skip",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if delays != "shift" && delays != "skip" {
				return usagef("--elapsed-delays %s: it is shift or skip", delays)
			}
			return c.send(cmd.Context(), http.MethodPost, path(args[0])+"/resume", map[string]any{"elapsedDelays": delays})
		},
	}
	resume.Flags().StringVar(&delays, "elapsed-delays", "shift", "what becomes of waits: shift or skip")
	group.AddCommand(pause, resume, cancel)
	return group
}
