package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

const journeysPath = "/v1/journeys"

func (c *cli) journeys() *cobra.Command {
	return c.withControls(group(&cobra.Command{
		Use: "journeys", Short: "Write, publish and start journeys",
		Example: `  waypost journeys validate welcome.yaml
  waypost journeys apply -f welcome.yaml --publish
  waypost journeys dryrun jrn_… --lead 1001
  waypost journeys start jrn_… --lead 1001`,
	}, c.journeysApply(), c.journeysValidate(), c.journeysPublish(), c.journeysList(), c.journeysShow(), c.journeysStart(),
		c.launch("journeys launch"), c.journeysDryRun(), c.journeysTest(), c.journeysForecast(), c.journeysCopy(), c.journeysVersions(), c.journeysDiff(), c.journeysMigrate(), c.journeysReverse(), c.journeysArchive()), journeyPath, controlled{
		id: "jrn_…", noun: "a journey",
		pause: "Nothing is sent for any enrollment of the journey, retries included, until it is resumed. Leads\n" +
			"can be enrolled and launches made meanwhile: they are held, too.",
		cancel: "Cancels the enrollments and launches of the journey that have not ended. The journey stays as it\n" +
			"is: leads can be enrolled again.",
	})
}

func journeyPath(id string) string { return journeysPath + "/" + url.PathEscape(id) }

// journeysApply stores the draft before it publishes: a draft that cannot be published stays, and
// the error says so.
func (c *cli) journeysApply() *cobra.Command {
	var file, id string
	var set []string
	var publish bool
	cmd := &cobra.Command{
		Use: "apply -f FILE", Short: "Create a journey from a file, or update its draft",
		Long: `Reads a journey definition from a YAML or JSON file. The journey with --id, or else the one
with the same name, gets it as its draft; where there is none, a journey is created.
Enrollments that run stay on the version that they began with.

A file can have names of its own for webhooks, for the journeys of enroll nodes and for the segments
of entry and exitOn, so that it serves several stages: --set NAME=ID puts an id in wherever one is
NAME.`,
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
				return c.print(a, c.printDraft)
			}
			journey, err := a.object()
			if err != nil {
				return err
			}
			err = c.publish(cmd.Context(), journey.text("id"))
			if err != nil {
				fmt.Fprintf(c.stderr, "%s is the draft of %s, and not published:\n", clean(file), clean(journey.text("id")))
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "YAML or JSON file; - is standard input")
	f.StringVar(&id, "id", "", "the journey to update, whatever its name")
	f.BoolVar(&publish, "publish", false, "publish it too")
	setFlag(cmd, &set)
	notEmpty(cmd, "id")
	return cmd
}

// apply creates the journey or replaces its draft.
func (c *client) apply(ctx context.Context, id string, definition json.RawMessage) (answer, error) {
	var named struct{ Name string }
	// A definition without a usable name is refused by the gateway, with all else that is
	// wrong with it.
	if id == "" && json.Unmarshal(definition, &named) == nil && named.Name != "" {
		var err error
		if id, err = c.journeyNamed(ctx, named.Name); err != nil {
			return answer{}, err
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

// maxName is how long a journey's name can be, in characters, to be published and looked for.
const maxName = 200

// journeyNamed finds a journey by its name, "" if there is none.
func (c *client) journeyNamed(ctx context.Context, name string) (string, error) {
	var found string
	query := url.Values{}
	if clean(name) == name && utf8.RuneCountInString(name) <= maxName { // the gateway looks for no other name
		query.Set("name", name)
	}
	for l := (listing{limit: 500}); ; {
		_, p, err := c.page(ctx, journeysPath, query, l)
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
		RunE:    func(cmd *cobra.Command, args []string) error { return c.publish(cmd.Context(), args[0]) },
	}
}

func (c *cli) publish(ctx context.Context, id string) error {
	a, err := c.request(ctx, http.MethodPost, journeyPath(id)+"/publish", nil)
	if err != nil {
		return hintSet(err)
	}
	return c.print(a, func(version members) error {
		was := "published"
		if a.status == http.StatusOK {
			was = "unchanged"
		}
		_, err := fmt.Fprintf(c.stdout, "%s %s version %s\n", was, clean(id), version.text("version"))
		return err
	})
}

func (c *cli) journeysList() *cobra.Command {
	return c.listCommand(&cobra.Command{
		Short: "List journeys, newest first",
		Example: `  waypost journeys list
  waypost journeys list --name wel --status active
  waypost journeys list --tag spring --webhook whk_…`,
	}, journeysPath, filters{
		{"name", "name", "only those whose name begins so, in upper or lower case"},
		{"status", "status", "only those that are draft, active, paused or archived"},
		{"tag", "tag", "only those with this tag in their draft"},
		{"webhook", "webhookId", "only those whose draft or a published version names this webhook"},
	}, col("ID", "id"), col("NAME", "name"), col("STATUS", "status"), col("VERSION", "publishedVersion"), column{"TAGS", tagsOf}, col("UPDATED", "updatedAt"))
}

// tagsOf are the tags of a journey's draft.
func tagsOf(journey members) string {
	var draft struct{ Tags []string }
	_ = json.Unmarshal(journey.raw("draft"), &draft) // it can have any
	return clean(strings.Join(draft.Tags, ", "))
}

// journeysCopy posts to the journey's /copy and prints what the copy could not resolve in its
// stage.
func (c *cli) journeysCopy() *cobra.Command {
	var name, stage string
	cmd := &cobra.Command{
		Use: "copy ID", Short: "Copy a journey, also into another stage",
		Long: `Makes a journey, never published, with the draft of another one. In the same stage it is called as
that one, with (copy) behind it, unless --name says something else.

With --stage the copy is in another stage. It names the webhooks and the journeys that have the same
names there. Where there is none, or several, the copy has the name in the place of the id, and the
command tells the node.`,
		Example: `  waypost journeys copy jrn_… --name 'Welcome, second try'
  waypost journeys copy jrn_… --stage test`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			if name != "" {
				body["name"] = name
			}
			if stage != "" {
				body["stage"] = stage
			}
			a, err := c.request(cmd.Context(), http.MethodPost, journeyPath(args[0])+"/copy", body)
			if err != nil {
				return err
			}
			return c.print(a, c.printCopy)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "the name of the copy")
	cmd.Flags().StringVar(&stage, "stage", "", "the stage of the copy: release, pre-release or test")
	notEmpty(cmd, "name", "stage")
	return cmd
}

// printCopy prints a copy, and tells what its stage lacks.
func (c *cli) printCopy(journey members) error {
	missing, err := journey.list("missing")
	if err != nil {
		return err
	}
	i := slices.IndexFunc(journey, func(m member) bool { return m.name == "missing" })
	if i >= 0 {
		journey = slices.Delete(journey, i, i+1)
	}
	err = c.printDraft(journey)
	for _, m := range missing {
		fmt.Fprintf(c.stderr, "%s: %s\n", m.text("target"), m.text("message"))
	}
	return err
}

func (c *cli) journeysShow() *cobra.Command {
	return c.showCommand(showing{
		short: "Show a journey with its draft, and who is where",
		long: `Shows a journey with its draft, and its published version as a tree: how often each node was
entered and what came of it, and how many enrollments stand there now. EDGE is how often the way
to the node was taken from the one above it. A label stands behind its node's id. A node that several lead to is drawn once; an arrow
stands for it elsewhere. Of a journey with a goal it tells how many have converted, also of the control
group and of each arm of a split, and the lift.

With -o json it is the journey alone. What the tree counts, also of other versions and over time,
is GET /v1/journeys/{id}/statistics.`,
		example: `  waypost journeys show jrn_…`,
		path:    journeyPath,
		print:   c.printDraft,
		draw:    c.drawJourney,
	})
}

func (c *cli) printDraft(journey members) error { return c.printDefinition(journey, "draft") }

// enrollmentInput holds the flags that say which lead enters a journey, and with what.
type enrollmentInput struct {
	lead     int64
	entryKey string
	params   []string
}

func (in *enrollmentInput) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Int64Var(&in.lead, "lead", 0, "the lead's leadsId")
	f.StringVar(&in.entryKey, "entry-key", "", "what the lead enters for; re-entry is counted apart for each")
	f.StringArrayVar(&in.params, "param", nil, "a parameter of the enrollment: name=text or name:=JSON; may stand several times")
	notEmpty(cmd, "entry-key")
}

// put adds what the flags say to a request.
func (in *enrollmentInput) put(cmd *cobra.Command, body map[string]any) error {
	if cmd.Flags().Changed("lead") {
		body["leadsId"] = in.lead
	}
	if in.entryKey != "" {
		body["entryKey"] = in.entryKey
	}
	params, err := typedPairs("--param", in.params)
	if len(params) > 0 {
		body["params"] = params
	}
	return err
}

func (c *cli) journeysStart() *cobra.Command {
	var in enrollmentInput
	cmd := &cobra.Command{
		Use: "start ID --lead N", Short: "Enroll a lead in a journey",
		Long:    "Enrolls a lead in the published version of a journey. The answer says where the enrollment\ncan be seen, in Temporal's Web UI too.",
		Example: `  waypost journeys start jrn_… --lead 1001 --entry-key order-7 --param coupon=SPRING --param amount:=99.5`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("lead") {
				return usagef("start needs --lead N, a leadsId")
			}
			body := map[string]any{}
			if err := in.put(cmd, body); err != nil {
				return err
			}
			return c.send(cmd.Context(), http.MethodPost, journeyPath(args[0])+"/enrollments", body)
		},
	}
	in.flags(cmd)
	return cmd
}
