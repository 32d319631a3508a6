package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

const journeysPath = "/v1/journeys"

func (c *cli) journeys() *cobra.Command {
	cmd := &cobra.Command{
		Use: "journeys", Short: "Write, publish and start journeys",
		Example: `  waypost journeys validate welcome.yaml
  waypost journeys apply -f welcome.yaml --publish
  waypost journeys dryrun jrn_… --lead 1001
  waypost journeys start jrn_… --lead 1001`,
	}
	cmd.AddCommand(c.journeysApply(), c.journeysValidate(), c.journeysPublish(), c.journeysList(), c.journeysShow(), c.journeysStart(),
		c.journeysLaunch(), c.journeysDryRun(), c.journeysForecast(), c.journeysVersions(), c.journeysDiff(), c.journeysMigrate(), c.journeysArchive())
	cmd.AddCommand(c.controls(journeyPath, controlled{
		command: "journeys", id: "jrn_…", noun: "a journey",
		pause: "Nothing is sent for any enrollment of the journey, retries included, until it is resumed. Leads\n" +
			"can be enrolled and launches made meanwhile: they are held, too.",
		cancel: "Cancels the enrollments and launches of the journey that have not ended. The journey stays as it\n" +
			"is: leads can be enrolled again.",
	})...)
	return cmd
}

func journeyPath(id string) string { return journeysPath + "/" + url.PathEscape(id) }

func (c *cli) journeysApply() *cobra.Command {
	var file, id string
	var set []string
	var publish bool
	cmd := &cobra.Command{
		Use: "apply -f FILE", Short: "Create a journey from a file, or update its draft",
		Long: `Reads a journey definition from a YAML or JSON file. The journey with --id, or else the one
with the same name, gets it as its draft; where there is none, a journey is created.
Enrollments that run stay on the version that they began with.

A file can have names of its own for webhooks and for the journeys of enroll nodes, so that it
serves several stages: --set NAME=ID puts an id in wherever a node's webhook or journey is NAME.`,
		Example: `  cat > welcome.yaml <<'END'
  name: Welcome
  start: hello
  nodes:
    - {id: hello, type: touchpoint, webhook: whk_…, params: {greeting: "Hi {{ lead.name }}"}, next: wait}
    - {id: wait, type: delay, for: 72h, next: check}
    - {id: check, type: branch, cases: [{when: "lead.gender == 1", next: thanks}], otherwise: end}
    - {id: thanks, type: touchpoint, webhook: whk_…, next: end}
    - {id: end, type: exit}
  END
  waypost journeys apply -f welcome.yaml --publish
  waypost journeys apply -f examples/birthday.yaml --set email=whk_… --publish`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usagef("apply needs -f FILE; - is standard input")
			}
			definition, err := c.readDefinition(file, set)
			if err != nil {
				return err
			}
			cl, err := c.client()
			if err != nil {
				return err
			}
			a, err := cl.apply(cmd.Context(), id, definition)
			if err != nil {
				return err
			}
			if !publish {
				return c.printJourney(a)
			}
			journey, err := a.object()
			if err != nil {
				return err
			}
			if err := c.publish(cmd.Context(), cl, journey.text("id")); err != nil {
				fmt.Fprintf(c.stderr, "%s is the draft of %s, and not published:\n", clean(file), clean(journey.text("id")))
				return err
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "YAML or JSON file; - is standard input")
	f.StringVar(&id, "id", "", "the journey to update, whatever its name")
	f.BoolVar(&publish, "publish", false, "publish it too")
	setFlag(cmd, &set)
	filled(cmd, "id")
	return cmd
}

// apply creates the journey or replaces its draft.
func (c *client) apply(ctx context.Context, id string, definition json.RawMessage) (answer, error) {
	if id == "" {
		var named struct {
			Name string `json:"name"`
		}
		// A definition without a usable name is refused by the gateway, with all
		// else that is wrong with it.
		if json.Unmarshal(definition, &named) == nil && named.Name != "" {
			var err error
			if id, err = c.journeyNamed(ctx, named.Name); err != nil {
				return answer{}, err
			}
		}
	}
	if id == "" {
		return c.do(ctx, http.MethodPost, journeysPath, nil, definition)
	}
	now, err := c.do(ctx, http.MethodGet, journeyPath(id), nil, nil)
	if err != nil {
		return now, err
	}
	header := http.Header{}
	if tag := now.header.Get("ETag"); tag != "" {
		header.Set("If-Match", tag)
	}
	return c.do(ctx, http.MethodPut, journeyPath(id), header, definition)
}

// journeyNamed finds a journey by its name, "" if there is none.
func (c *client) journeyNamed(ctx context.Context, name string) (string, error) {
	var found string
	for l := (listing{limit: 500}); ; {
		_, p, err := c.page(ctx, journeysPath, nil, l)
		if err != nil {
			return "", err
		}
		for _, j := range p.Items {
			var got string
			if json.Unmarshal(j.raw("name"), &got) != nil || got != name || j.text("status") == "archived" {
				continue
			}
			if found != "" {
				return "", fmt.Errorf("several journeys are named %q, %s and %s among them: say which one with --id", clean(name), found, j.text("id"))
			}
			found = j.text("id")
		}
		if p.NextCursor == nil {
			return found, nil
		}
		l.cursor = *p.NextCursor
	}
}

func (c *cli) journeysPublish() *cobra.Command {
	return &cobra.Command{
		Use: "publish ID", Short: "Make the draft a version that leads can be enrolled in",
		Long:    "Checks the draft and makes it an immutable version. Everything that is wrong with it is\ntold at once. A draft that has not changed since keeps its version.",
		Example: `  waypost journeys publish jrn_…`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := c.client()
			if err != nil {
				return err
			}
			return c.publish(cmd.Context(), cl, args[0])
		},
	}
}

func (c *cli) publish(ctx context.Context, cl *client, id string) error {
	a, err := cl.do(ctx, http.MethodPost, journeyPath(id)+"/publish", nil, nil)
	if err != nil {
		return hintSet(err)
	}
	if c.output == outputJSON {
		return c.printAnswer(a)
	}
	version, err := a.object()
	if err != nil {
		return err
	}
	was := "published"
	if a.status == http.StatusOK {
		was = "unchanged"
	}
	_, err = fmt.Fprintf(c.stdout, "%s %s version %s\n", was, clean(id), version.text("version"))
	return err
}

func (c *cli) journeysList() *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use: "list", Short: "List journeys", Args: cobra.NoArgs,
		Example: `  waypost journeys list`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.list(cmd.Context(), journeysPath, nil, l,
				of("ID", "id"), of("NAME", "name"), of("STATUS", "status"), of("VERSION", "publishedVersion"), of("UPDATED", "updatedAt"))
		},
	}
	l.flags(cmd)
	return cmd
}

func (c *cli) journeysShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a journey with its draft", Args: cobra.ExactArgs(1),
		Example: `  waypost journeys show jrn_…`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := c.client()
			if err != nil {
				return err
			}
			a, err := cl.do(cmd.Context(), http.MethodGet, journeyPath(args[0]), nil, nil)
			if err != nil {
				return err
			}
			return c.printJourney(a)
		},
	}
}

func (c *cli) printJourney(a answer) error { return c.printDefinition(a, "draft") }

func (c *cli) journeysStart() *cobra.Command {
	var lead int64
	var entryKey string
	var pairs []string
	cmd := &cobra.Command{
		Use: "start ID --lead N", Short: "Enroll a lead in a journey",
		Long:    "Enrolls a lead in the published version of a journey. The answer says where the enrollment\ncan be seen, in Temporal's Web UI too.",
		Example: `  waypost journeys start jrn_… --lead 1001 --entry-key order-7 --param coupon=SPRING --param amount:=99.5`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("lead") {
				return usagef("start needs --lead N, a leadsId")
			}
			body := map[string]any{"leadsId": lead}
			if entryKey != "" {
				body["entryKey"] = entryKey
			}
			if len(pairs) > 0 {
				values, err := params(pairs)
				if err != nil {
					return err
				}
				body["params"] = values
			}
			return c.send(cmd.Context(), http.MethodPost, journeyPath(args[0])+"/enrollments", body)
		},
	}
	f := cmd.Flags()
	f.Int64Var(&lead, "lead", 0, "the lead's leadsId")
	f.StringVar(&entryKey, "entry-key", "", "what the lead enters for; re-entry is counted apart for each")
	f.StringArrayVar(&pairs, "param", nil, "a parameter of the enrollment: name=text or name:=JSON; may stand several times")
	filled(cmd, "entry-key")
	return cmd
}
