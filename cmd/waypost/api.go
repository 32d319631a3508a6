package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// api makes the command that prints an answer's body before it fails by the answer's status.
func (c *cli) api() *cobra.Command {
	var data string
	var headers []string
	var include bool
	cmd := &cobra.Command{
		Use: "api METHOD PATH", Short: "Make any call of the gateway, signed",
		Long: `Makes one signed call and prints the answer's body as it came. The path may have a query.
It fails if the answer is no success; the body is printed nevertheless.`,
		Example: `  waypost api GET '/v1/deliveries?status=failed'
  waypost api POST /v1/leads -d '{"businessParam":{"name":"Ada"}}'
  waypost api POST /v1/journeys -d @journey.json
  waypost api PATCH /v1/webhooks/whk_… -H 'If-Match: "3"' -d '{"enabled":false}'`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			method, path := strings.ToUpper(args[0]), args[1]
			if !strings.HasPrefix(path, "/") {
				return usagef("the path %q must begin with a slash", path)
			}
			header := http.Header{}
			for _, h := range headers {
				name, value, ok := strings.Cut(h, ":")
				if name = strings.TrimSpace(name); !ok || name == "" {
					return usagef("-H %q: it is 'Name: value'", h)
				}
				header.Add(name, strings.TrimSpace(value))
			}
			body, err := c.readValue(data)
			if err != nil {
				return err
			}
			cl, err := c.client()
			if err != nil {
				return err
			}
			a, err := cl.call(cmd.Context(), method, path, header, json.RawMessage(body))
			if err != nil {
				return err
			}
			if err := c.printRaw(a, include); err != nil {
				return err
			}
			return a.err()
		},
	}
	f := cmd.Flags()
	f.StringVarP(&data, "data", "d", "", "the body; @FILE reads a file, - standard input")
	f.StringArrayVarP(&headers, "header", "H", nil, "a header, 'Name: value'; may stand several times")
	f.BoolVarP(&include, "include", "i", false, "show the answer's status and headers too")
	return cmd
}

// printRaw writes the body of an answer as it came, after its status and headers if
// include is set.
func (c *cli) printRaw(a answer, include bool) error {
	var out bytes.Buffer
	if include {
		fmt.Fprintf(&out, "%s %d %s\n", a.proto, a.status, http.StatusText(a.status))
		for _, name := range slices.Sorted(maps.Keys(a.header)) {
			for _, v := range a.header[name] {
				fmt.Fprintf(&out, "%s: %s\n", name, v)
			}
		}
		out.WriteByte('\n')
	}
	out.Write(a.body)
	if len(a.body) > 0 && !bytes.HasSuffix(a.body, []byte("\n")) {
		out.WriteByte('\n')
	}
	_, err := c.stdout.Write(out.Bytes())
	return err
}
