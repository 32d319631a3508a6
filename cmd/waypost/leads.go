package main

import (
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

const leadsPath = "/v1/leads"

func (c *cli) leads() *cobra.Command {
	cmd := &cobra.Command{
		Use: "leads", Short: "Create and read leads",
		Example: `  echo '{name: Ada, mobilePhone: ["13800138000"]}' | waypost leads create -f -`,
	}
	cmd.AddCommand(c.leadsCreate(), c.leadsShow())
	return cmd
}

func (c *cli) leadsCreate() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "create -f FILE", Short: "Create a lead from a file",
		Long: "Creates a lead from a YAML or JSON file: the lead's fields, or the whole body with its member\nbusinessParam.",
		Example: `  cat > lead.yaml <<'END'
  name: Ada Lovelace
  gender: 2
  mobilePhone: ["13800138000"]
  email: ada@example.com
  END
  waypost leads create -f lead.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usagef("create needs -f FILE; - is standard input")
			}
			body, err := c.readObject(file)
			if err != nil {
				return err
			}
			var m members
			if err := json.Unmarshal(body, &m); err != nil {
				return err
			}
			if m.raw("businessParam") == nil {
				return c.send(cmd.Context(), http.MethodPost, leadsPath, map[string]json.RawMessage{"businessParam": body})
			}
			return c.send(cmd.Context(), http.MethodPost, leadsPath, body)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "YAML or JSON file; - is standard input")
	return cmd
}

func (c *cli) leadsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a lead", Args: cobra.ExactArgs(1),
		Example: `  waypost leads show 1001`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.show(cmd.Context(), leadsPath+"/"+url.PathEscape(args[0]))
		},
	}
}
