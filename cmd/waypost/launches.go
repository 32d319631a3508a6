package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"waypost"
)

const launchesPath = "/v1/launches"

func launchPath(id string) string { return launchesPath + "/" + url.PathEscape(id) }

func (c *cli) launches() *cobra.Command {
	return c.withControls(group(&cobra.Command{
		Use: "launches", Short: "Enroll many leads in a journey at once",
		Long: `A launch enrolls an audience in the published version of a journey: the leads of a list, up to
1,000,000, or all that match a filter or are in a segment when it starts. A lead whom the journey's re-entry policy
forbids to enter, or who does not exist, is skipped and counted.

With a schedule it recurs: at each time an occurrence is opened, which is a launch of its own.`,
		Example: `  waypost launches create jrn_… --filter leadsGroup=3 --rate 100
  waypost launches create jrn_… --all --cron '0 9 * * mon-fri' --timezone Asia/Shanghai
  waypost launches show lch_… --watch
  waypost launches pause lch_…`,
	}, c.launch("launches create"), c.launchesList(), c.launchesShow(), c.launchesUpdate()), launchPath, controlled{
		id: "lch_…", noun: "a launch",
		pause: "Nobody more is enrolled, and nothing is sent to those who are, until it is resumed. Of one that\n" +
			"recurs, this holds its occurrences, and those that are due meanwhile are skipped.",
		cancel: "Nobody more is enrolled, and the enrollments of the launch that have not ended are canceled. One\n" +
			"that recurs ends for good, with its occurrences.",
	})
}

// launch makes the command that launches a journey, which is in two groups. It posts to the
// journey's launches and prints the launch.
func (c *cli) launch(name string) *cobra.Command {
	var in launchInput
	verb := name[strings.LastIndexByte(name, ' ')+1:]
	cmd := &cobra.Command{
		Use:   verb + " JOURNEY --leads FILE | --filter NAME=VALUE... | --segment SEGMENT | --all",
		Short: "Launch a journey for a list of leads, or for those that match a filter or are in a segment",
		Long: `Launches the published version of a journey for the leads of a file (--leads), for those that match
all filters (--filter), for those of a segment (--segment), or for every lead (--all).

It starts at once or at --start-at, and enrolls as fast as it goes or --rate leads a second. Filters
and segments are looked at when it starts.

With --cron it recurs: minute, hour, day of the month, month and day of the week (sun to sat, 0 to 7,
or mon#1 for the first Monday), or @hourly, @daily, @weekly, @monthly, @yearly, in --timezone. Each
time on the wall comes once, also where clocks change. Each occurrence gets the newest version and the
leads that match then; what falls into a pause is skipped. Until --start-at there is none.

With --control-group a share of the audience, such as 0.1 for a tenth, is held out and counted: the
same leads in every launch of the journey with this share.

With --test-leads or --test-share so many, by chance, enter first, and the rest is held until an arm
of the journey's split has won, no longer than --test-after from when the last of them has entered.`,
		Example: strings.ReplaceAll(`  waypost NAME jrn_… --filter leadsGroup=3 --filter createdFrom=2026-01-01T00:00:00Z
  waypost NAME jrn_… --leads leads.txt --start-at 2026-12-24T09:00:00+08:00 --rate 50
  printf '1001\n1002\n' | waypost NAME jrn_… --leads -
  waypost NAME jrn_… --segment seg_… --cron '0 9 * * mon' --timezone Asia/Shanghai --control-group 0.1
  waypost NAME jrn_… --all --test-leads 1000 --test-after 72h --test-undecided stop`, "NAME", name),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := c.launchBody(cmd, in)
			if err != nil {
				return err
			}
			return c.send(cmd.Context(), http.MethodPost, journeyPath(args[0])+"/launches", body)
		},
	}
	in.flags(cmd)
	return cmd
}

// launchInput holds the flags of a launch.
type launchInput struct {
	audience                      audienceInput
	startAt, expression, timezone string
	rate, control                 float64
	test                          testInput
}

func (in *launchInput) flags(cmd *cobra.Command) {
	in.audience.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&in.startAt, "start-at", "", "when it begins (RFC 3339); at once without it")
	f.Float64Var(&in.rate, "rate", 0, "leads a second; as fast as it goes without it")
	f.StringVar(&in.expression, "cron", "", "when it recurs, such as '0 9 * * mon-fri' or @daily; once without it")
	f.StringVar(&in.timezone, "timezone", "", "the time zone of --cron, such as Asia/Shanghai; UTC without it")
	f.Float64Var(&in.control, "control-group", 0, "the share of the audience that is held out, such as 0.1; nobody without it")
	in.test.flags(cmd)
	notEmpty(cmd, "timezone")
}

// launchBody is the body of a launch with the members that flags set; flags that contradict each
// other, and numbers that JSON does not have, are usage errors.
func (c *cli) launchBody(cmd *cobra.Command, in launchInput) (map[string]any, error) {
	audience, err := c.audience("a launch", in.audience)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"audience": audience}
	if cmd.Flags().Changed("start-at") {
		body["startAt"] = in.startAt
	}
	if cmd.Flags().Changed("rate") {
		if math.IsNaN(in.rate) || math.IsInf(in.rate, 0) {
			return nil, usagef("--rate is a number of leads a second")
		}
		body["ratePerSecond"] = in.rate
	}
	if cmd.Flags().Changed("control-group") {
		if math.IsNaN(in.control) || math.IsInf(in.control, 0) {
			return nil, usagef("--control-group is a share of the audience, such as 0.1")
		}
		body["controlGroup"] = in.control
	}
	if err := in.test.set(cmd, body); err != nil {
		return nil, err
	}
	switch cron := cmd.Flags().Changed("cron"); {
	case cron && in.timezone != "":
		body["schedule"] = map[string]any{"cron": in.expression, "timezone": in.timezone}
	case cron:
		body["schedule"] = map[string]any{"cron": in.expression}
	case in.timezone != "":
		return nil, usagef("--timezone is that of --cron, which is missing")
	}
	return body, nil
}

// testInput has a part of the audience enter first.
type testInput struct {
	leads            int
	share            float64
	after, undecided string
}

func (in *testInput) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&in.leads, "test-leads", 0, "how many leads enter first, until an arm of the split has won; all at once without it")
	f.Float64Var(&in.share, "test-share", 0, "the share of the audience that enters first, such as 0.1")
	f.StringVar(&in.after, "test-after", "", "how long the rest is held at most, such as P3D; 48h without it")
	f.StringVar(&in.undecided, "test-undecided", "", "what becomes of the rest if no arm has won by then: split (all arms take it) or stop; split without it")
	notEmpty(cmd, "test-after", "test-undecided")
}

// set adds the test to the body of a launch, if flags ask for one.
func (in *testInput) set(cmd *cobra.Command, body map[string]any) error {
	test := map[string]any{}
	for name, value := range map[string]any{"leads": in.leads, "share": in.share, "after": in.after, "undecided": in.undecided} {
		if cmd.Flags().Changed("test-" + name) {
			test[name] = value
		}
	}
	if math.IsNaN(in.share) || math.IsInf(in.share, 0) {
		return usagef("--test-share is a share of the audience, such as 0.1")
	}
	_, leads := test["leads"]
	_, share := test["share"]
	switch {
	case len(test) == 0:
		return nil
	case leads == share:
		return usagef("a test needs one of --test-leads and --test-share: how many enter first")
	}
	body["test"] = test
	return nil
}

// launchesUpdate patches ratePerSecond, with null for no limit.
func (c *cli) launchesUpdate() *cobra.Command {
	var rate string
	cmd := &cobra.Command{
		Use: "update ID --rate RATE", Short: "Change how fast a launch enrolls",
		Long: `Changes how many leads a launch enrolls in a second, from the next seconds on; none is as fast as it goes.
Of one that recurs it counts for the next occurrences. With --if-match nothing happens if somebody
else has changed it meanwhile.`,
		Example: `  waypost launches update lch_… --rate 50
  waypost launches update lch_… --rate none`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set := map[string]any{"ratePerSecond": nil}
			if rate != "none" {
				n, err := strconv.ParseFloat(rate, 64)
				if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
					return usagef("update needs --rate: leads a second, such as 50, or none for as fast as it goes")
				}
				set["ratePerSecond"] = n
			}
			a, err := c.change(cmd, http.MethodPatch, launchPath(args[0]), set)
			if err != nil {
				return err
			}
			return c.printAnswer(a)
		},
	}
	cmd.Flags().StringVar(&rate, "rate", "", "leads a second, or none for as fast as it goes")
	matchFlag(cmd, "launch")
	return cmd
}

func (c *cli) launchesList() *cobra.Command {
	cmd := c.listCommand(&cobra.Command{
		Short: "List launches, newest first",
		Example: `  waypost launches list --journey jrn_…
  waypost launches list --recurring lch_…
  waypost launches list --status running`,
	}, launchesPath, filters{
		{"journey", "journeyId", "only those of this journey"},
		{"recurring", "recurringId", "only the occurrences of this launch"},
		{"status", "status", "only those that are pending, scheduled, running, paused, completed or canceled"},
	},
		col("LAUNCH", "launchId"), col("JOURNEY", "journeyId"), col("VERSION", "version"), col("STATUS", "status"),
		col("TOTAL", "total"), col("ENROLLED", "enrolled"), col("SKIPPED", "skipped"), col("HELD OUT", "heldOut"),
		column{"START", nextStart}, column{"SCHEDULE", recurs}, col("CREATED", "createdAt"))
	notEmpty(cmd, "journey", "recurring")
	return cmd
}

// launchSchedule is the part of a launch's schedule that is shown.
type launchSchedule struct {
	Cron, Timezone string
	NextAt         *string
}

func scheduleOf(m members) (s launchSchedule) {
	_ = json.Unmarshal([]byte(m.text("schedule")), &s) // most launches have none
	return s
}

// nextStart is the time of a launch's next occurrence, or of its start.
func nextStart(m members) string {
	if next := scheduleOf(m).NextAt; next != nil {
		return clean(*next)
	}
	return m.text("startAt")
}

// recurs is a launch's cron expression and time zone.
func recurs(m members) string {
	s := scheduleOf(m)
	return clean(strings.TrimSpace(s.Cron + " " + s.Timezone))
}

func (c *cli) launchesShow() *cobra.Command {
	return c.showCommand(showing{
		short: "Show how far a launch is",
		long: `Shows a launch: how many of its audience are enrolled, how many enrollments have ended, and what
became of the messages. With --watch it shows the progress until the launch has ended; one that
recurs ends when it is canceled.`,
		example: `  waypost launches show lch_… --watch`,
		path:    launchPath,
		watch:   c.watchLaunch,
	})
}

// launchProgress is the part of a launch that its progress bar shows.
type launchProgress struct {
	LaunchID                                     string
	Status                                       waypost.LaunchStatus
	Total, Enrolled, Skipped, HeldOut, Completed int
	Schedule                                     *launchSchedule
	Outcomes                                     waypost.OutcomeCounts

	Held    int
	Message *string
	Test    *launchTest
}

// launchTest is what a launch with a test waits for.
type launchTest struct {
	NodeID, Status string
	Until          *string
	Arm            *int
}

func (t launchTest) String() string {
	switch {
	case t.Status == "waiting" && t.Until != nil:
		return fmt.Sprintf(", until an arm of %s has won, or until %s", clean(t.NodeID), clean(*t.Until))
	case t.Arm != nil:
		return fmt.Sprintf(", arm %d of %s has won", *t.Arm, clean(t.NodeID))
	case t.Status == "undecided" || t.Status == "stopped":
		return fmt.Sprintf(", no arm of %s had won in time", clean(t.NodeID))
	}
	return ""
}

// watchLaunch shows how far a launch is until it has ended, and then the launch.
func (c *cli) watchLaunch(ctx context.Context, cl *client, id string) error {
	_, err := watchJob[launchProgress](ctx, c, cl, launchPath(id), "launch", fmt.Sprintf("the launch goes on: `waypost launches show %s --watch` watches it again", clean(id)))
	return err
}

func (p launchProgress) state() (string, bool) { return string(p.Status), p.Status.Ended() }

// done is how much of the launch is over, 0 to 1.
func (p launchProgress) done() float64 {
	return share(int64(p.Skipped+p.HeldOut+p.Completed), int64(p.Total))
}

func (p launchProgress) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", clean(p.LaunchID), clean(string(p.Status)))
	if p.Schedule != nil && p.Schedule.NextAt != nil {
		fmt.Fprintf(&b, ", next %s", clean(*p.Schedule.NextAt))
	}
	if p.Total > 0 {
		fmt.Fprintf(&b, ", %d of %d enrolled, %d skipped%s, %d ended",
			p.Enrolled, p.Total, p.Skipped, counts{{p.HeldOut, "held out"}, {p.Held, "held"}}, p.Completed)
	}
	if p.Test != nil {
		b.WriteString(p.Test.String())
	}
	o := p.Outcomes
	fmt.Fprint(&b, counts{
		{o.Succeeded, "succeeded"}, {o.Failed, "failed"}, {o.Retrying, "retrying"},
		{o.Deferred, "deferred"}, {o.Pending, "pending"}, {o.Canceled, "canceled"},
	})
	if p.Message != nil {
		fmt.Fprintf(&b, ". %s", clean(*p.Message))
	}
	return b.String()
}
