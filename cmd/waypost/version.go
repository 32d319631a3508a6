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

// showETag prints what --if-match takes: the ETag of a thing's current version.
func (c *cli) showETag(ctx context.Context, target string) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	a, err := cl.do(ctx, http.MethodGet, target, nil, nil)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.stdout, clean(a.header.Get("ETag")))
	return err
}

// matchFlag adds --if-match to a command that changes what, such as "lead"; the
// command beside it that shows one has --etag.
func matchFlag(cmd *cobra.Command, match *string, what string) {
	cmd.Flags().StringVar(match, "if-match", "", "an ETag: do it only if the "+what+" is still this version ("+what+"s show ID --etag)")
}

// change makes a call that changes something, if it is still the version of match.
func (c *cli) change(cmd *cobra.Command, method, target, match string, body []byte) (answer, error) {
	header := http.Header{}
	show := cmd.Parent().CommandPath() + " show"
	if cmd.Flags().Changed("if-match") {
		if match == "" {
			return answer{}, usagef("--if-match is empty; `%s ID --etag` prints what belongs there", show)
		}
		header.Set("If-Match", match)
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
