package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"waypost"
	"waypost/yamljson"
)

func versionsPath(journey string) string { return journeyPath(journey) + "/versions" }

// draftVersion stands for the draft in the place of a version's number.
const draftVersion = "draft"

// versionArg reads the number of a version, or draftVersion where orDraft allows it.
func versionArg(text string, orDraft bool) (string, error) {
	says := "it is a number from 1 on, as `waypost journeys versions ID` lists them"
	if orDraft {
		if text == draftVersion {
			return text, nil
		}
		says += ", or " + draftVersion
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return "", usagef("%q is no version; %s", text, says)
	}
	return strconv.Itoa(n), nil
}

// journeysVersions prints pages of the list, or one version with its definition as JSON.
func (c *cli) journeysVersions() *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use: "versions ID [VERSION]", Short: "List the versions of a journey, newest first, or show one",
		Long: `Lists the published versions of a journey. Enrollments stay on the version that they began with.
With the number of a version, shows that one with its definition.`,
		Example: `  waypost journeys versions jrn_…
  waypost journeys versions jrn_… 2`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return c.list(cmd.Context(), versionsPath(args[0]), nil, l, col("VERSION", "version"), col("NAME", "name"), col("PUBLISHED", "publishedAt"))
			}
			n, err := versionArg(args[1], false)
			if err != nil {
				return err
			}
			a, err := c.request(cmd.Context(), http.MethodGet, versionsPath(args[0])+"/"+n, nil)
			if err != nil {
				return err
			}
			return c.print(a, func(version members) error { return c.printDefinition(version, "definition") })
		},
	}
	l.flags(cmd)
	return cmd
}

// journeysDiff has the gateway compare the versions; the command only prints the differences.
func (c *cli) journeysDiff() *cobra.Command {
	return &cobra.Command{
		Use: "diff ID A B", Short: "Tell what is different between two versions",
		Long: `Lists what is different in version B of a journey from version A, a line for each member of the
definition and of a node: what was and what is. Nodes are compared by their ids. A and B are
numbers of versions, or the word draft for what is not published yet.`,
		Example: `  waypost journeys diff jrn_… 1 2
  waypost journeys diff jrn_… 2 draft`,
		Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := versionArg(args[1], true)
			if err != nil {
				return err
			}
			b, err := versionArg(args[2], true)
			if err != nil {
				return err
			}
			answered, err := c.request(cmd.Context(), http.MethodGet, versionsPath(args[0])+"/"+a+"/diff/"+b, nil)
			if err != nil {
				return err
			}
			return printAs(c, answered, "difference", c.printDiff)
		},
	}
}

// diff is the difference of two versions, in lines for people.
type diff struct{ Text []string }

func (c *cli) printDiff(d diff) error {
	for _, line := range d.Text {
		if _, err := fmt.Fprintln(c.stdout, clean(line)); err != nil {
			return err
		}
	}
	if len(d.Text) == 0 {
		fmt.Fprintln(c.stderr, "They say the same.")
	}
	return nil
}

func (c *cli) journeysArchive() *cobra.Command {
	return c.postCommand(&cobra.Command{
		Use: "archive ID", Short: "Take a journey out of use",
		Long: `Archives a journey: nobody can be enrolled in it and it cannot be launched any more. Enrollments
that run go on to their end. Publishing it takes it into use again.`,
		Example: `  waypost journeys archive jrn_…`,
	}, journeyPath, func(a answer) error { return c.print(a, c.printDraft) })
}

func (c *cli) journeysReverse() *cobra.Command {
	var version int
	cmd := &cobra.Command{
		Use: "reverse ID NODE", Short: "Take back the winner of a split",
		Long: `Has all arms of a split take leads again, by their weights, after one of them has won and took
everybody. In this version the arms are not compared again.`,
		Example: `  waypost journeys reverse jrn_… arms
  waypost journeys reverse jrn_… arms --version 3`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			if cmd.Flags().Changed("version") {
				body["version"] = version
			}
			return c.send(cmd.Context(), http.MethodPost, journeyPath(args[0])+"/winners/"+url.PathEscape(args[1])+"/reverse", body)
		},
	}
	cmd.Flags().IntVar(&version, "version", 0, "this version; without it the published one")
	return cmd
}

// journeysMigrate checks the flags; migrateJourney makes the calls, a dry run first.
func (c *cli) journeysMigrate() *cobra.Command {
	var from, to int
	var pairs []string
	var dryRun, yes bool
	cmd := &cobra.Command{
		Use: "migrate ID --from N --to N --map NODE=NODE", Short: "Move enrollments that wait to another version",
		Long: `Moves enrollments of one version of a journey that wait, in a delay, a waitUntil, a waitForEvent or a waitFor,
to another version. --map says on which node they wait, and where they go on: --map wait=reminder.
Who waits on other nodes stays, and so does who is not waiting.

If both nodes wait alike, such as delays of the same length, the wait goes on and keeps its end;
otherwise the node is entered anew. What is paused stays paused.

It first tells how many wait there, and asks on a terminal; --yes does not ask. Each enrollment goes
over within seconds. A command that was cut off can be given again: it moves all that
still wait there.`,
		Example: `  waypost journeys diff jrn_… 1 2
  waypost journeys migrate jrn_… --from 1 --to 2 --map wait=wait --dry-run
  waypost journeys migrate jrn_… --from 1 --to 2 --map wait=wait --map later=wait --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(pairs) == 0 {
				return usagef("migrate needs --map NODE=NODE: a node that enrollments wait on, and the one to go on at")
			}
			nodes, err := pairsOf("--map", pairs, "NODE=NODE, such as wait=reminder")
			if err != nil {
				return err
			}
			if from < 1 || to < 1 {
				return usagef("migrate needs --from N and --to N, numbers of versions as `waypost journeys versions ID` lists them")
			}
			return c.migrateJourney(cmd.Context(), args[0], migration{From: from, To: to, NodeMap: nodes, DryRun: true}, dryRun, yes)
		},
	}
	f := cmd.Flags()
	f.IntVar(&from, "from", 0, "the version that the enrollments are on")
	f.IntVar(&to, "to", 0, "the version to move them to")
	f.StringArrayVar(&pairs, "map", nil, "NODE=NODE: a node that they wait on, and the one to go on at; may stand several times")
	f.BoolVar(&dryRun, "dry-run", false, "only tell how many wait there")
	f.BoolVarP(&yes, "yes", "y", false, "move them without asking")
	return cmd
}

// migration is the body of a request to move enrollments to another version.
type migration struct {
	From    int               `json:"from"`
	To      int               `json:"to"`
	NodeMap map[string]string `json:"nodeMap"`
	DryRun  bool              `json:"dryRun"`
}

// migrateJourney counts the enrollments that would move, and then moves them, unless
// dryRun is set or the answer on the terminal is no.
func (c *cli) migrateJourney(ctx context.Context, id string, m migration, dryRun, yes bool) error {
	path := journeyPath(id) + "/migrate"
	counted, err := c.request(ctx, http.MethodPost, path, m)
	if err != nil {
		return err
	}
	var count struct{ Matched int }
	if err := counted.decode(&count, "count"); err != nil {
		return err
	}
	if dryRun || count.Matched == 0 {
		return c.printAnswer(counted)
	}
	fmt.Fprintf(c.stderr, "%s there on version %d.\n", quantity(count.Matched, "enrollment waits", "enrollments wait"), m.From)
	if c.terminal && !yes {
		fmt.Fprintf(c.stderr, "Move to version %d? [y/N] ", m.To)
		line, err := bufio.NewReader(c.stdin).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read standard input: %w", err)
		}
		if said := strings.ToLower(strings.TrimSpace(line)); said != "y" && said != "yes" {
			fmt.Fprintln(c.stderr, "Nothing is moved.")
			return nil
		}
	}
	m.DryRun = false
	return c.send(ctx, http.MethodPost, path, m)
}

// printDefinition writes an object whose member of that name is a definition.
func (c *cli) printDefinition(m members, name string) error {
	if err := c.printWithProblems(m, name); err != nil {
		return err
	}
	definition := m.raw(name)
	if definition == nil {
		return nil
	}
	fmt.Fprintln(c.stdout, name)
	return c.printJSON(definition)
}

func setFlag(cmd *cobra.Command, set *[]string) {
	cmd.Flags().StringArrayVar(set, "set", nil, "NAME=ID: the id of the webhook, journey or segment that the file calls NAME; may stand several times")
}

// readDefinition reads a file with a journey, and puts ids in the place of names.
func (c *cli) readDefinition(file string, set []string) (json.RawMessage, error) {
	definition, err := c.readAs(file, yamljson.DefinitionToJSON)
	if err != nil {
		return nil, err
	}
	return setPlaceholders(definition, set)
}

// named are the members of the lists of a definition in which a file can have names of its own.
var named = []struct {
	list    string
	members []string
}{{"nodes", []string{"webhook", "journey"}}, {"entry", []string{"segment"}}, {"exitOn", []string{"segment"}}}

// setPlaceholders replaces names of webhooks, journeys and segments in a definition by ids, as
// --set NAME=ID says. JSON that is not a definition is left as it is; the gateway refuses it.
func setPlaceholders(definition json.RawMessage, pairs []string) (json.RawMessage, error) {
	ids, err := pairsOf("--set", pairs, "NAME=ID, such as email=whk_…")
	if err != nil || len(ids) == 0 {
		return definition, err
	}
	var d members
	if json.Unmarshal(definition, &d) != nil {
		return definition, nil
	}
	used := map[string]bool{}
	for _, n := range named {
		at := slices.IndexFunc(d, func(m member) bool { return m.name == n.list })
		if at < 0 {
			continue
		}
		var items []members
		if json.Unmarshal(d[at].value, &items) != nil {
			return definition, nil
		}
		for _, item := range items {
			if err := setIDs(item, n.members, ids, used); err != nil {
				return nil, err
			}
		}
		if d[at].value, err = json.Marshal(items); err != nil {
			return nil, fmt.Errorf("encode the definition: %w", err)
		}
	}
	for name := range ids {
		if !used[name] {
			return nil, usagef("--set %s: no node has %s as its webhook or journey, and neither entry nor exitOn as a segment", name, name)
		}
	}
	return json.Marshal(d)
}

// setIDs replaces the names that some members of an item have by ids, and notes which names it has met.
func setIDs(item members, of []string, ids map[string]string, used map[string]bool) (err error) {
	for i, m := range item {
		var name string
		if !slices.Contains(of, m.name) || json.Unmarshal(m.value, &name) != nil || ids[name] == "" {
			continue
		}
		if item[i].value, err = json.Marshal(ids[name]); err != nil {
			return fmt.Errorf("encode --set %s: %w", name, err)
		}
		used[name] = true
	}
	return nil
}

// unknownName matches the errors about webhooks, journeys and segments that do not exist.
var unknownName = regexp.MustCompile(`^(?:there is no (webhook|journey)|must be the id of a (segment), such as seg_…, not) "([^"]+)"$`)

// hintSet adds a hint at --set to an error about a name in a definition.
func hintSet(err error) error {
	var fault *waypost.Error
	if !errors.As(err, &fault) {
		return err
	}
	for i, d := range fault.Details {
		said := unknownName.FindStringSubmatch(d.Message)
		if said == nil {
			continue
		}
		name := said[3]
		prefix := map[string]string{"webhook": waypost.PrefixWebhook, "journey": waypost.PrefixJourney, "segment": waypost.PrefixSegment}[said[1]+said[2]]
		if strings.HasPrefix(name, prefix) {
			continue
		}
		hint := fmt.Sprintf("; if it is a name, `waypost journeys apply -f FILE --set %s=%s…` gives it an id", name, prefix)
		fault.Details[i].Message += hint
		fault.Message = strings.Replace(fault.Message, d.Message, d.Message+hint, 1) // a single detail is repeated there
	}
	return err
}
