package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"

	"github.com/spf13/cobra"

	"waypost"
)

// showing describes a command "show" (showCommand).
type showing struct {
	short, long, example string
	path                 func(id string) string
	print                func(members) error // nil: one member a line
	// draw, if there is one, reads and prints what else there is for people to see.
	draw func(ctx context.Context, cl *client, shown members) error
	// watch implements --watch; nil: there is no such flag.
	watch func(ctx context.Context, cl *client, id string) error
	// etag adds --etag, which prints the value for --if-match.
	etag bool
}

// showCommand makes a command "show", which gets one thing and prints it.
func (c *cli) showCommand(s showing) *cobra.Command {
	var etag, watch bool
	cmd := &cobra.Command{
		Use: "show ID", Short: s.short, Long: s.long, Example: s.example, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := c.client()
			if err != nil {
				return err
			}
			if watch {
				return s.watch(cmd.Context(), cl, args[0])
			}
			a, err := cl.do(cmd.Context(), http.MethodGet, s.path(args[0]), nil, nil)
			switch {
			case err != nil:
				return err
			case etag:
				_, err = fmt.Fprintln(c.stdout, clean(a.header.Get("ETag")))
				return err
			case s.print == nil:
				return c.printAnswer(a)
			}
			return c.print(a, func(shown members) error {
				if err := s.print(shown); err != nil || s.draw == nil {
					return err
				}
				return s.draw(cmd.Context(), cl, shown)
			})
		},
	}
	if s.etag {
		cmd.Flags().BoolVar(&etag, "etag", false, "only the ETag of its current version")
	}
	if s.watch != nil {
		cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on until it has ended")
	}
	return cmd
}

// postCommand has cmd POST to the path of a thing, followed by the command's own name such
// as /cancel, and print the answer.
func (c *cli) postCommand(cmd *cobra.Command, path func(id string) string, print func(answer) error) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, err := c.request(cmd.Context(), http.MethodPost, path(args[0])+"/"+cmd.Name(), nil)
		if err != nil {
			return err
		}
		return print(a)
	}
	return cmd
}

// deleteCommand makes a command "delete ID" of what, such as "lead", which long explains.
func (c *cli) deleteCommand(what string, path func(id string) string, long, example string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete ID", Short: "Delete a " + what, Long: long, Example: example, Args: cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := c.change(cmd, http.MethodDelete, path(args[0]), nil); err != nil {
			return err
		}
		return c.printDone("deleted "+clean(args[0]), map[string]any{"id": args[0], "deleted": true})
	}
	matchFlag(cmd, what)
	return cmd
}

// matchFlag adds --if-match to a command that changes what, such as "lead"; the
// command beside it that shows one has --etag.
func matchFlag(cmd *cobra.Command, what string) {
	cmd.Flags().String("if-match", "", "an ETag: do it only if the "+what+" is still this version ("+what+"s show ID --etag)")
}

// change makes a call that changes something, if it is still the version of --if-match.
func (c *cli) change(cmd *cobra.Command, method, target string, body any) (answer, error) {
	return c.changeWith(cmd, method, target, http.Header{}, body)
}

// changeWith is change with further headers.
func (c *cli) changeWith(cmd *cobra.Command, method, target string, header http.Header, body any) (answer, error) {
	show := cmd.Parent().CommandPath() + " show"
	if match := cmd.Flag("if-match"); match.Changed {
		if match.Value.String() == "" {
			return answer{}, usagef("--if-match is empty; `%s ID --etag` prints what belongs there", show)
		}
		header.Set("If-Match", match.Value.String())
	}
	cl, err := c.client()
	if err != nil {
		return answer{}, err
	}
	a, err := cl.do(cmd.Context(), method, target, header, body)
	var fault *waypost.Error
	if errors.As(err, &fault) && (fault.Code == waypost.CodePreconditionRequired || fault.Code == waypost.CodePreconditionFailed) {
		fault.Message += fmt.Sprintf(" (`%s %s`, then --if-match \"$(%[1]s %[2]s --etag)\")", show, path.Base(target))
	}
	return a, err
}
