package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// page is one page of a list (docs/contract.md, "Lists").
type page struct {
	Items      []members `json:"items"`
	NextCursor *string   `json:"nextCursor"`
}

// listing holds the flags that choose a page of a list.
type listing struct {
	limit  int
	cursor string
}

func (l *listing) flags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&l.limit, "limit", 50, "rows of a page, 1 to 500")
	cmd.Flags().StringVar(&l.cursor, "cursor", "", "where the page begins, as the page before it said")
	notEmpty(cmd, "cursor")
}

// filters are flags that select the items of a list, an export or a redelivery, each with
// its parameter of the API. One whose parameter ends with a dot takes NAME=VALUE, several
// times, for the parameters that go on with NAME.
type filters []struct{ flag, name, help string }

func (fs filters) flags(cmd *cobra.Command) {
	for _, f := range fs {
		if strings.HasSuffix(f.name, ".") {
			cmd.Flags().StringArray(f.flag, nil, f.help)
		} else {
			cmd.Flags().String(f.flag, "", f.help)
		}
	}
}

// query returns the filters that the command line has. An empty value is sent too, and
// the gateway refuses it: without the filter, a script whose variable is not set would
// select far more than was meant.
func (fs filters) query(cmd *cobra.Command) url.Values {
	query := url.Values{}
	for _, f := range fs {
		flag := cmd.Flag(f.flag)
		if pairs, several := flag.Value.(interface{ GetSlice() []string }); several {
			for _, pair := range pairs.GetSlice() {
				name, value, _ := strings.Cut(pair, "=")
				query.Add(f.name+name, value)
			}
		} else if flag.Changed {
			query.Set(f.name, flag.Value.String())
		}
	}
	return query
}

// listCommand makes cmd the command "list", which prints one page of the list at a path.
func (c *cli) listCommand(cmd *cobra.Command, path string, fs filters, columns ...column) *cobra.Command {
	var l listing
	cmd.Use, cmd.Args = "list", cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return c.list(cmd.Context(), path, fs.query(cmd), l, columns...)
	}
	fs.flags(cmd)
	l.flags(cmd)
	return cmd
}

// list prints one page of a list.
func (c *cli) list(ctx context.Context, path string, filter url.Values, l listing, columns ...column) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	a, p, err := cl.page(ctx, path, filter, l)
	if err != nil {
		return err
	}
	if c.output == outputJSON {
		return c.printJSON(json.RawMessage(a.body))
	}
	if err := c.printRows(p.Items, columns...); err != nil {
		return err
	}
	if p.NextCursor != nil {
		fmt.Fprintf(c.stderr, "There is more: --cursor %s\n", clean(*p.NextCursor))
	}
	return nil
}

// printItems prints a list that has one page, at a path.
func (c *cli) printItems(ctx context.Context, path string, columns ...column) error {
	a, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return c.print(a, func(m members) error {
		rows, err := m.list("items")
		if err != nil {
			return err
		}
		return c.printRows(rows, columns...)
	})
}

func (c *client) page(ctx context.Context, path string, filter url.Values, l listing) (a answer, p page, err error) {
	query := url.Values{"limit": {strconv.Itoa(l.limit)}}
	maps.Copy(query, filter)
	if l.cursor != "" {
		query.Set("cursor", l.cursor)
	}
	if a, err = c.do(ctx, http.MethodGet, path+"?"+query.Encode(), nil, nil); err != nil {
		return a, p, err
	}
	err = a.decode(&p, "list")
	return a, p, err
}
