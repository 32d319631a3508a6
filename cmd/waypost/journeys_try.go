package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"waypost"
	"waypost/app"
)

// journeysValidate checks a definition with the rules of this program, which may be of another
// version than the gateway's.
func (c *cli) journeysValidate() *cobra.Command {
	var set []string
	var offline bool
	cmd := &cobra.Command{
		Use: "validate FILE", Short: "Tell everything that keeps a file from being published",
		Long: `Checks a journey definition in a YAML or JSON file as publishing does, and stores nothing. This
program knows the rules; it asks the gateway only whether the webhooks and journeys exist that the
file names. With --offline it takes all of them for existing and asks nobody.`,
		Example: `  waypost journeys validate welcome.yaml
  waypost journeys validate examples/birthday.yaml --set email=whk_…
  waypost journeys validate welcome.yaml --offline`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			definition, err := c.readDefinition(args[0], set)
			if err != nil {
				return err
			}
			if offline {
				err = app.CheckJourney(definition, nil, nil)
			} else {
				err = c.validate(cmd.Context(), definition)
			}
			if err != nil {
				return err
			}
			name := clean(args[0])
			if name == "-" {
				name = "The journey"
			}
			return c.printDone(name+" can be published", map[string]any{"valid": true})
		},
	}
	setFlag(cmd, &set)
	cmd.Flags().BoolVar(&offline, "offline", false, "do not ask whether webhooks and journeys exist")
	return cmd
}

// validate checks a definition, and asks the gateway whether its webhooks and journeys exist.
func (c *cli) validate(ctx context.Context, definition json.RawMessage) error {
	cl, err := c.client()
	if err != nil {
		return fmt.Errorf("%w; --offline checks the rest", err)
	}
	var failed error
	known := map[string]bool{}
	exists := func(prefix, list string) func(string) bool {
		return func(id string) bool {
			if !waypost.IsID(prefix, id) || failed != nil {
				return failed != nil
			}
			path := list + "/" + url.PathEscape(id)
			there, asked := known[path]
			if !asked {
				_, err := cl.do(ctx, http.MethodGet, path, nil, nil)
				if there = err == nil; err != nil && waypost.CodeOf(err) != waypost.CodeNotFound {
					failed = fmt.Errorf("ask for %s: %w", clean(id), err)
				}
				known[path] = there
			}
			return there || failed != nil
		}
	}
	err = app.CheckJourney(definition, exists(waypost.PrefixWebhook, webhooksPath), exists(waypost.PrefixJourney, journeysPath))
	if failed != nil {
		return failed
	}
	return hintSet(err)
}

// definitionInput holds the flags that choose a version of a journey or its draft.
type definitionInput struct {
	version int
	draft   bool
}

func (in *definitionInput) flags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&in.version, "version", 0, "this version; without it the newest, and the draft if none is published")
	cmd.Flags().BoolVar(&in.draft, "draft", false, "the draft, as it would be published")
}

// put adds what the flags say to a request.
func (in *definitionInput) put(cmd *cobra.Command, body map[string]any) error {
	if cmd.Flags().Changed("version") {
		if in.draft {
			return usagef("--version and --draft: it is one or the other")
		}
		body["version"] = in.version
	}
	if in.draft {
		body["draft"] = true
	}
	return nil
}

// journeysDryRun posts to the journey's /dryrun and prints the path and the messages. Flags that
// are not given are left to the gateway's defaults.
func (c *cli) journeysDryRun() *cobra.Command {
	var which definitionInput
	var in enrollmentInput
	var file, startAt, entry string
	var events, outcomes []string
	cmd := &cobra.Command{
		Use: "dryrun ID (--lead N | -f LEAD) [--event NAME@WHEN...]", Short: "Tell what a journey would do to a lead, and send nothing",
		Long: `Runs a journey for one lead, with the interpreter of production on a clock of its own: which way the
lead goes, when and why, and each message as it would be sent. Nothing is sent or stored.

The lead is one that exists, or one of a file, with fields as for ` + "`leads create`" + `. Without more, nothing
happens to it and every message is delivered at once. What shall happen instead:

  --entry NAME[=JSON]        an event that the enrollment is to begin by, if the journey's entry takes it
  --event NAME@WHEN[=JSON]   the lead reports an event: so long after the start (26h, P3D), or at a time
                             (RFC 3339); JSON is its properties
  --outcome NODE=STATUS      messages of this touchpoint are answered with this HTTP status; 0 is no answer`,
		Example: `  waypost journeys dryrun jrn_… --lead 1001
  waypost journeys dryrun jrn_… --lead 1001 --entry 'cart={"cartId":"c1","total":120}'
  waypost journeys dryrun jrn_… --lead 1001 --event login@30h --event 'purchase@P3D={"amount":120}'
  waypost journeys dryrun jrn_… -f lead.yaml --outcome hello=503 --start-at 2026-12-24T22:30:00+08:00 --draft`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			if err := which.put(cmd, body); err != nil {
				return err
			}
			if err := c.putLead(cmd, body, file); err != nil {
				return err
			}
			if startAt != "" {
				body["startAt"] = startAt
			}
			if err := in.put(cmd, body); err != nil {
				return err
			}
			if err := putEntry(body, entry); err != nil {
				return err
			}
			if err := putEvents(body, events); err != nil {
				return err
			}
			if err := putOutcomes(body, outcomes); err != nil {
				return err
			}
			a, err := c.request(cmd.Context(), http.MethodPost, journeyPath(args[0])+"/dryrun", body)
			if err != nil {
				return err
			}
			return c.print(a, c.printDryRun)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "YAML or JSON file with the fields of a lead; - is standard input")
	f.StringVar(&entry, "entry", "", "the event that it begins by: NAME or NAME=JSON")
	f.StringArrayVar(&events, "event", nil, "what the lead does: NAME@WHEN or NAME@WHEN=JSON; may stand several times")
	f.StringArrayVar(&outcomes, "outcome", nil, "how messages are answered: NODE=STATUS; may stand several times")
	f.StringVar(&startAt, "start-at", "", "when the lead enters (RFC 3339); now without it")
	in.flags(cmd)
	which.flags(cmd)
	notEmpty(cmd, "file", "start-at", "entry")
	return cmd
}

// putLead adds the lead of a file to a request, unless --lead names one.
func (c *cli) putLead(cmd *cobra.Command, body map[string]any, file string) error {
	if cmd.Flags().Changed("lead") == (file != "") {
		return usagef("%s needs one of --lead N, a leadsId, and -f FILE with a lead", cmd.Name())
	}
	if file == "" {
		return nil
	}
	fields, err := c.readLead(file)
	body["lead"] = fields
	return err
}

// readLead reads a file with a lead's fields, or with the whole body of its creation.
func (c *cli) readLead(file string) (json.RawMessage, error) {
	object, err := c.readObject(file)
	if err != nil {
		return nil, err
	}
	var body map[string]json.RawMessage
	if json.Unmarshal(object, &body) == nil {
		if fields, whole := body[businessParam]; whole {
			return fields, nil
		}
	}
	return object, nil
}

// putEntry adds the event of --entry to a dry run.
func putEntry(body map[string]any, text string) error {
	if text == "" {
		return nil
	}
	name, properties, more := strings.Cut(text, "=")
	entry := map[string]any{"event": name}
	if more {
		if !json.Valid([]byte(properties)) {
			return usagef("--entry %q: what follows = must be JSON, such as {\"total\":120}", text)
		}
		entry["properties"] = json.RawMessage(properties)
	}
	body["entry"] = entry
	return nil
}

// putEvents adds the events of --event to a dry run. A time has a colon, which no
// duration has.
func putEvents(body map[string]any, events []string) error {
	var list []map[string]any
	for _, text := range events {
		name, rest, ok := strings.Cut(text, "@")
		when, properties, more := strings.Cut(rest, "=")
		if !ok || name == "" || when == "" {
			return usagef("--event %q: it is NAME@WHEN or NAME@WHEN=JSON, such as login@30h", text)
		}
		event := map[string]any{"name": name}
		if strings.Contains(when, ":") {
			event["at"] = when
		} else {
			event["after"] = when
		}
		if more {
			if !json.Valid([]byte(properties)) {
				return usagef("--event %q: what follows = must be JSON, such as {\"amount\":120}", text)
			}
			event["properties"] = json.RawMessage(properties)
		}
		list = append(list, event)
	}
	if list != nil {
		body["events"] = list
	}
	return nil
}

// putOutcomes adds the outcomes of --outcome to a dry run.
func putOutcomes(body map[string]any, outcomes []string) error {
	const form = "NODE=STATUS, such as hello=503"
	statuses, err := pairsOf("--outcome", outcomes, form)
	if err != nil || len(statuses) == 0 {
		return err
	}
	byNode := map[string]any{}
	for node, written := range statuses {
		status, err := strconv.Atoi(written)
		if err != nil {
			return usagef("--outcome %s=%s: it is %s", node, written, form)
		}
		byNode[node] = map[string]any{"succeed": status == http.StatusOK, "httpStatus": status}
	}
	body["outcomes"] = byNode
	return nil
}

func (c *cli) printDryRun(run members) error {
	if err := c.printObject(run, "path", "timeline", "messages"); err != nil {
		return err
	}
	if err := c.printList(run, "timeline", timelineColumns...); err != nil {
		return err
	}
	if err := c.printValues(run); err != nil {
		return err
	}
	if messages, err := run.list("messages"); err == nil && len(messages) == 0 {
		fmt.Fprintln(c.stdout, "\nno messages")
	}
	return c.printList(run, "messages",
		col("MESSAGE AT", "at"), col("NODE", "nodeId"), col("WEBHOOK", "webhookId"), col("SUCCEED", "succeed"), column{"PARAMS", paramsOf})
}

// printValues prints what updateLead nodes would set and emit nodes would store.
func (c *cli) printValues(run members) error {
	path, err := run.list("path")
	path = slices.DeleteFunc(path, func(step members) bool { return step.text("values") == "" })
	if err != nil || len(path) == 0 {
		return err
	}
	fmt.Fprintln(c.stdout)
	return c.printRows(path, col("VALUES AT", "leftAt"), col("NODE", "nodeId"), col("TYPE", "type"), col("VALUES", "values"))
}

// paramsOf returns the params of a dry run's message, or why it could not be rendered.
func paramsOf(message members) string {
	var body members
	if json.Unmarshal(message.raw("body"), &body) == nil {
		return body.text("params")
	}
	return message.text("error")
}

// journeysTest posts to the journey's /test, which answers once the receiver has, and fails unless
// the message was taken.
func (c *cli) journeysTest() *cobra.Command {
	var which definitionInput
	var in enrollmentInput
	var file, node string
	cmd := &cobra.Command{
		Use: "test ID --node NODE (--lead N | -f LEAD)", Short: "Send one message of a journey as a test",
		Long: `Sends the message of one touchpoint, rendered for a lead, through its webhook, and shows what came
back. The lead is one that exists, or one of a file, with fields as for ` + "`leads create`" + `. It is not
enrolled, and no statistics count the message. It fails if the receiver did not take it.`,
		Example: `  waypost journeys test jrn_… --node hello --lead 1001
  waypost journeys test jrn_… --node hello -f lead.yaml --draft --param coupon=SPRING`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if node == "" {
				return usagef("test needs --node, the id of a touchpoint")
			}
			body := map[string]any{"nodeId": node}
			if err := which.put(cmd, body); err != nil {
				return err
			}
			if err := c.putLead(cmd, body, file); err != nil {
				return err
			}
			if err := in.put(cmd, body); err != nil {
				return err
			}
			a, err := c.request(cmd.Context(), http.MethodPost, journeyPath(args[0])+"/test", body)
			if err != nil {
				return err
			}
			return c.printTrial(a)
		},
	}
	f := cmd.Flags()
	f.StringVar(&node, "node", "", "the touchpoint whose message is sent")
	f.StringVarP(&file, "file", "f", "", "YAML or JSON file with the fields of a lead; - is standard input")
	in.flags(cmd)
	which.flags(cmd)
	notEmpty(cmd, "file", "node")
	return cmd
}

// journeysForecast posts to the journey's /forecast and prints a row for each day.
func (c *cli) journeysForecast() *cobra.Command {
	var which definitionInput
	var in audienceInput
	var days int
	cmd := &cobra.Command{
		Use: "forecast ID --leads FILE | --filter NAME=VALUE... | --segment SEGMENT | --all", Short: "Tell how many messages a journey would send on which day",
		Long: `Runs a journey for leads that would all enter now, and counts its messages by day (UTC) and webhook.
Of many leads a sample is followed, and the numbers are scaled. Messages are taken for delivered,
and no lead does anything: waits for events run out. Nothing is sent or stored. How many would reach
the goal is told by how many have.

The leads are those of a file (--leads), those that match all filters (--filter), those of a segment (--segment), or all (--all).`,
		Example: `  waypost journeys forecast jrn_… --all --days 90
  waypost journeys forecast jrn_… --filter leadsGroup=3 --draft`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			audience, err := c.audience("a forecast", in)
			if err != nil {
				return err
			}
			body := map[string]any{"audience": audience}
			if cmd.Flags().Changed("days") {
				body["days"] = days
			}
			if err := which.put(cmd, body); err != nil {
				return err
			}
			a, err := c.request(cmd.Context(), http.MethodPost, journeyPath(args[0])+"/forecast", body)
			if err != nil {
				return err
			}
			return printAs(c, a, "forecast", c.printForecast)
		},
	}
	in.flags(cmd)
	cmd.Flags().IntVar(&days, "days", 30, "how many days, 1 to 366; today is the first")
	which.flags(cmd)
	return cmd
}

// forecast is the gateway's answer.
type forecast struct {
	Total, Sample, Cut, HeldOut int
	Goal                        *struct {
		Enrollments, Converted int
		Expected, Low, High    *int
	}
	Days []struct {
		Date        string
		Touchpoints map[string]int
		Skipped     int
	}
}

// printForecast writes a row for each day and a column for each webhook.
func (c *cli) printForecast(f forecast) error {
	sums := map[string]int{}
	skipped := 0
	for _, d := range f.Days {
		skipped += d.Skipped
		for id, n := range d.Touchpoints {
			sums[id] += n
		}
	}
	webhooks := slices.Sorted(maps.Keys(sums))
	row := func(date string, touchpoints map[string]int, skipped int) []string {
		cells, all := []string{date}, 0
		for _, id := range webhooks {
			cells = append(cells, strconv.Itoa(touchpoints[id]))
			all += touchpoints[id]
		}
		return append(cells, strconv.Itoa(all), strconv.Itoa(skipped))
	}
	headings := []string{"DAY"}
	for _, id := range webhooks {
		headings = append(headings, clean(id))
	}
	t := c.table(append(headings, "ALL", "SKIPPED")...)
	for _, d := range f.Days {
		t.row(row(clean(d.Date), d.Touchpoints, d.Skipped)...)
	}
	t.row(row("sum", sums, skipped)...)
	err := t.flush()
	switch {
	case f.Total == 0:
		fmt.Fprintln(c.stderr, "The audience has no leads.")
	case f.Sample < f.Total:
		fmt.Fprintf(c.stderr, "%d of %d leads were followed; the numbers are scaled to all.\n", f.Sample, f.Total)
	case f.Total == 1:
		fmt.Fprintln(c.stderr, "The only lead was followed.")
	default:
		fmt.Fprintf(c.stderr, "All %d leads were followed.\n", f.Total)
	}
	if f.HeldOut > 0 {
		fmt.Fprintf(c.stderr, "%s held out by the journey's control group.\n", quantity(f.HeldOut, "lead is", "leads are"))
	}
	if g := f.Goal; g != nil && g.Expected != nil && g.Low != nil && g.High != nil {
		fmt.Fprintf(c.stderr, "About %d would reach the goal, %d to %d with 95%% confidence: of %s before, %d did.\n",
			*g.Expected, *g.Low, *g.High, quantity(g.Enrollments, "enrollment", "enrollments"), g.Converted)
	} else if g != nil {
		fmt.Fprintf(c.stderr, "There are no numbers yet of how many would reach the goal: %s had the time for it, and %d are needed.\n",
			quantity(g.Enrollments, "enrollment", "enrollments"), waypost.LeastLeads)
	}
	if f.Cut > 0 {
		fmt.Fprintf(c.stderr, "%s not followed to the last day: too many nodes were passed.\n", quantity(f.Cut, "of them was", "of them were"))
	}
	return err
}
