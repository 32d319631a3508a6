package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
)

// page is one page of a list (docs/contract.md, "Lists").
type page struct {
	Items      []members `json:"items"`
	NextCursor *string   `json:"nextCursor"`
}

// listing is the flags of a list: which page of it.
type listing struct {
	limit  int
	cursor string
}

func (l *listing) flags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&l.limit, "limit", 50, "rows of a page, 1 to 500")
	cmd.Flags().StringVar(&l.cursor, "cursor", "", "where the page begins, as the page before it said")
	filled(cmd, "cursor")
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

func (c *client) page(ctx context.Context, path string, filter url.Values, l listing) (answer, page, error) {
	query := url.Values{"limit": {strconv.Itoa(l.limit)}}
	for name, values := range filter {
		query[name] = values
	}
	if l.cursor != "" {
		query.Set("cursor", l.cursor)
	}
	var p page
	a, err := c.do(ctx, http.MethodGet, path+"?"+query.Encode(), nil, nil)
	if err != nil {
		return a, p, err
	}
	if err := json.Unmarshal(a.body, &p); err != nil {
		return a, p, fmt.Errorf("the gateway's answer is no list: %w", err)
	}
	return a, p, nil
}

// show gets one object and prints it.
func (c *cli) show(ctx context.Context, path string) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	a, err := cl.do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	return c.printAnswer(a)
}

// send calls with a JSON body and prints the object that comes back.
func (c *cli) send(ctx context.Context, method, path string, body any) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	a, err := cl.do(ctx, method, path, nil, data)
	if err != nil {
		return err
	}
	return c.printAnswer(a)
}
