package console

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"waypost"
	"waypost/api"
)

// journey is a journey with its draft; PublishedVersion is 0 if there is none.
type journey struct {
	ID               string                `json:"id"`
	Name             string                `json:"name"`
	Draft            json.RawMessage       `json:"draft"`
	PublishedVersion int                   `json:"publishedVersion"`
	Status           waypost.JourneyStatus `json:"status"`
	CreatedAt        time.Time             `json:"createdAt"`
	UpdatedAt        time.Time             `json:"updatedAt"`
	Problems         []waypost.Detail      `json:"problems"` // what the published version would be refused for now
}

// version is a published version; in a list it has no definition.
type version struct {
	Version     int             `json:"version"`
	Name        string          `json:"name"`
	Definition  json.RawMessage `json:"definition"`
	PublishedAt time.Time       `json:"publishedAt"`
}

// Before is the number of the version before.
func (v version) Before() int { return v.Version - 1 }

// definition is what the pages show of a journey's definition.
type definition struct {
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	Start       string   `json:"start"`
	Nodes       []node   `json:"nodes"`

	Entry        []entryOf `json:"entry"`
	Goal         *goalOf   `json:"goal"`
	ControlGroup float64   `json:"controlGroup"` // a share of 1
}

// node is a node of a definition, with the members that the pages show.
type node struct {
	ID        string         `json:"id"`
	Type      string         `json:"type"`
	Label     string         `json:"label"`
	Note      string         `json:"note"`
	Webhook   string         `json:"webhook"`
	For       string         `json:"for"`
	Event     string         `json:"event"`
	When      string         `json:"when"`
	Set       map[string]any `json:"set"`
	Timeout   string         `json:"timeout"`
	Time      string         `json:"time"`
	Weekdays  []string       `json:"weekdays"`
	Lead      string         `json:"lead"`
	Offset    string         `json:"offset"`
	Journey   string         `json:"journey"`
	Otherwise string         `json:"otherwise"`
	Next      string         `json:"next"`
	OnFailure string         `json:"onFailure"`
	OnTimeout string         `json:"onTimeout"`
	OnMissed  string         `json:"onMissed"`
	Winner    any            `json:"winner"` // of a split; nil: it has none
	Arms      []struct {
		Weight int    `json:"weight"`
		Next   string `json:"next"`
	} `json:"arms"`
	Cases []struct {
		When string `json:"when"`
		Next string `json:"next"`
	} `json:"cases"`
	Events []struct {
		Event string `json:"event"`
		When  string `json:"when"`
		Next  string `json:"next"`
	} `json:"events"`
}

// Title is what people call the node.
func (n node) Title() string {
	if n.Label != "" {
		return n.Label
	}
	return n.ID
}

// way is the node that a way on leads to, which is no item of a list; "" is none.
func (n node) way(member string) string {
	return map[string]string{
		waypost.WayNext: n.Next, waypost.WayOnFailure: n.OnFailure, waypost.WayOnTimeout: n.OnTimeout, waypost.WayOnMissed: n.OnMissed,
		waypost.WayOtherwise: n.Otherwise,
	}[member]
}

// define reads a definition, of which the gateway has checked the shape.
func define(text json.RawMessage) (d definition, err error) {
	if len(text) == 0 {
		return d, nil
	}
	return d, json.Unmarshal(text, &d)
}

// node is the node of this id; one without a type if there is none.
func (d definition) node(id string) node {
	for _, n := range d.Nodes {
		if n.ID == id {
			return n
		}
	}
	return node{ID: id}
}

// title is what people call a node of this id.
func (d definition) title(id string) string { return d.node(id).Title() }

// options are the nodes, as a filter or a form offers them.
func (d definition) options() []option {
	var out []option
	for _, n := range d.Nodes {
		out = append(out, option{n.ID, n.Title()})
	}
	return out
}

// statistics are the counts of a journey.
type statistics struct {
	counts
	Series []struct {
		From time.Time `json:"from"`
		counts
	} `json:"series"`
}

type counts struct {
	Nodes       []countedNode `json:"nodes"`
	Enrollments struct {
		Entered   int64 `json:"entered"`
		Completed int64 `json:"completed"`
		Exited    int64 `json:"exited"`
		Failed    int64 `json:"failed"`
		Canceled  int64 `json:"canceled"`
		HeldOut   int64 `json:"heldOut"`
		// Begun counts those that began by themselves, by what they began by.
		Begun     map[waypost.EntryKind]int64 `json:"begun"`
		Refused   int64                       `json:"refused"`
		Undecided int64                       `json:"undecided"`
		Goal      *goalCounts                 `json:"goal"` // nil without one
	} `json:"enrollments"`
	ControlGroup *struct {
		Goal goalCounts `json:"goal"`
	} `json:"controlGroup"` // nil without one, or without a goal
	Lift        *liftCounts `json:"lift"`        // nil without a control group
	SampleRatio *groupRatio `json:"sampleRatio"` // nil without a control group
}

type nodeCounts struct {
	NodeID    string `json:"nodeId"`
	Entered   int64  `json:"entered"`
	Standing  int64  `json:"standing"`
	Waiting   int64  `json:"waiting"`
	Sending   int64  `json:"sending"`
	Deferred  int64  `json:"deferred"`
	Delivered int64  `json:"delivered"`
	Failed    int64  `json:"failed"`
	Skipped   int64  `json:"skipped"`
	// SkippedFor has, by the reason, the messages among Skipped.
	SkippedFor map[string]int64 `json:"skippedFor"`
	Edges      []edgeCount      `json:"edges"`
	Ends       []edgeCount      `json:"ends"` // without Next
}

// edgeCount is how often a way on from a node was taken.
type edgeCount struct {
	Next  string `json:"next"`
	Way   string `json:"way"`
	Count int64  `json:"count"`
}

// took is how often a way was taken; next is "" where it ended the journey.
func (c nodeCounts) took(way, next string) int64 {
	for _, e := range slices.Concat(c.Edges, c.Ends) {
		if e.Way == way && e.Next == next {
			return e.Count
		}
	}
	return 0
}

// countedNode is the part of counts that concerns one node.
type countedNode struct {
	nodeCounts
	// Of a split in a journey with a goal.
	Arms        []armCounts  `json:"arms"`
	SampleRatio *armsRatio   `json:"sampleRatio"`
	Winner      *winnerState `json:"winner"` // nil until an enrollment took an arm
}

// ByThemselves tells whether an event, a change of a lead or a segment began the journey, or tried.
func (c counts) ByThemselves() bool {
	n := c.Enrollments.Refused + c.Enrollments.Undecided
	for _, begun := range c.Enrollments.Begun {
		n += begun
	}
	return n > 0
}

// Standing is the number of enrollments at all nodes.
func (c counts) Standing() (n int64) {
	for _, node := range c.Nodes {
		n += node.Standing
	}
	return n
}

// difference is what changes from one version to another one.
type difference struct {
	Changes []struct {
		NodeID string          `json:"nodeId"`
		Member string          `json:"member"`
		What   string          `json:"what"`
		From   json.RawMessage `json:"from"`
		To     json.RawMessage `json:"to"`
	} `json:"changes"`
}

// launch is a launch; Completed and Outcomes are not in lists.
type launch struct {
	LaunchID      string                 `json:"launchId"`
	JourneyID     string                 `json:"journeyId"`
	Version       int                    `json:"version"`
	Status        waypost.LaunchStatus   `json:"status"`
	Total         int64                  `json:"total"`
	Enrolled      int64                  `json:"enrolled"`
	Skipped       int64                  `json:"skipped"`
	HeldOut       int64                  `json:"heldOut"`
	Held          int64                  `json:"held"`
	SkippedBy     waypost.LaunchSkips    `json:"skippedBy"`
	Empty         bool                   `json:"empty"`
	Test          *launchTest            `json:"test"`
	Completed     int64                  `json:"completed"`
	Outcomes      *waypost.OutcomeCounts `json:"outcomes"`
	StartAt       time.Time              `json:"startAt"`
	RatePerSecond float64                `json:"ratePerSecond"`
	ControlGroup  float64                `json:"controlGroup"`
	RecurringID   string                 `json:"recurringId"`
	CreatedAt     time.Time              `json:"createdAt"`
	StartedAt     time.Time              `json:"startedAt"`
	EndedAt       time.Time              `json:"endedAt"`
	Schedule      *struct {
		Cron        string    `json:"cron"`
		Timezone    string    `json:"timezone"`
		NextAt      time.Time `json:"nextAt"`
		Occurrences int       `json:"occurrences"`
		LastSkipped *struct {
			At     time.Time `json:"at"`
			Reason string    `json:"reason"`
		} `json:"lastSkipped"`
	} `json:"schedule"`
}

// launchTest is the test of a launch: the rest is held until a split has a winner.
type launchTest struct {
	Leads     int64              `json:"leads"`
	Share     float64            `json:"share"`
	Undecided string             `json:"undecided"`
	NodeID    string             `json:"nodeId"`
	Status    waypost.TestStatus `json:"status"`
	Until     time.Time          `json:"until"`
	Arm       int                `json:"arm"` // from 1, once it was decided
}

// ArmName is what people call the arm that has won.
func (t launchTest) ArmName() string { return armName(strconv.Itoa(t.Arm)) }

// Size is how many leads enter first, or which share.
func (t launchTest) Size() string {
	if t.Leads > 0 {
		return strconv.FormatInt(t.Leads, 10)
	}
	return groupShare(t.Share)
}

// TestState is where the test stands, or, of a launch that has ended meanwhile, how that was.
func (l launch) TestState() string {
	switch t := l.Test.Status; {
	case t != waypost.TestEntering && t != waypost.TestWaiting:
		return string(t)
	case l.Status == waypost.LaunchCompleted:
		return "nobodyLeft"
	case l.Status == waypost.LaunchCanceled:
		return "canceled"
	default:
		return string(t)
	}
}

// Decided is how many leads of the audience were enrolled, skipped, held out, or left out by the test.
func (l launch) Decided() int64 {
	done := l.Enrolled + l.Skipped + l.HeldOut
	if l.Test != nil && l.Test.Status == waypost.TestStopped {
		done += l.Held
	}
	return done
}

// Ended tells whether nothing more will happen.
func (l launch) Ended() bool { return l.Status.Ended() }

// Left is how many leads are still to be enrolled.
func (l launch) Left() int64 { return max(l.Total-l.Decided(), 0) }

// OnTheWay is how many enrollments have not ended.
func (l launch) OnTheWay() int64 { return max(l.Enrolled-l.Completed, 0) }

// Open is how many deliveries are not decided.
func (l launch) Open() int {
	if l.Outcomes == nil {
		return 0
	}
	return l.Outcomes.Pending + l.Outcomes.Retrying + l.Outcomes.Deferred
}

// Group is the share of the control group, as a percentage.
func (l launch) Group() string { return groupShare(l.ControlGroup) }

// groupShare writes the share of a control group as a percentage.
func groupShare(of1 float64) string {
	return strconv.FormatFloat(math.Round(of1*1e6)/1e4, 'f', -1, 64) + "%"
}

// audienceCount is how many leads an audience has, and some of them.
type audienceCount struct {
	Count  int64   `json:"count"`
	Sample []int64 `json:"sample"`
}

// forecast is what a launch would send, by days in UTC.
type forecast struct {
	Total   int64         `json:"total"`
	Sample  int64         `json:"sample"`
	Cut     int64         `json:"cut"`
	HeldOut int64         `json:"heldOut"`
	Goal    *forecastGoal `json:"goal"`
	Days    []forecastDay `json:"days"`
}

// forecastGoal is how many are expected to convert, and the enrollments that this goes by.
type forecastGoal struct {
	Leads       int64 `json:"leads"` // of the audience, without test leads and those who are held out
	Enrollments int   `json:"enrollments"`
	Converted   int   `json:"converted"`
	Expected    *int  `json:"expected"` // nil of too few, as the bounds
	Low         *int  `json:"low"`
	High        *int  `json:"high"`
}

type forecastDay struct {
	Date        string           `json:"date"`
	Touchpoints map[string]int64 `json:"touchpoints"` // by the webhook's id
	Skipped     int64            `json:"skipped"`
}

// dryRun is what would happen to one lead.
type dryRun struct {
	LeadsID  int64           `json:"leadsId"` // 0 of one that is invented
	StartAt  time.Time       `json:"startAt"`
	EndAt    time.Time       `json:"endAt"`
	Status   string          `json:"status"`
	Limit    any             `json:"limit"`
	Path     []dryRunStep    `json:"path"`
	Messages []dryRunMessage `json:"messages"`
}

type dryRunStep struct {
	NodeID    string    `json:"nodeId"`
	Type      string    `json:"type"`
	EnteredAt time.Time `json:"enteredAt"`
	LeftAt    time.Time `json:"leftAt"` // zero if the run stopped there
	Result    string    `json:"result"`
	Reason    string    `json:"reason"`
	Next      string    `json:"next"`
	Way       string    `json:"way"`
	// Values are what the step sets of the lead, or the properties of the event that it emits.
	Values json.RawMessage `json:"values"`
}

// Text is the values as people read them, "" if there are none.
func (s dryRunStep) Text() string { return indented(s.Values) }

// left is when the step was left, or when the run stopped.
func (s dryRunStep) left(run dryRun) time.Time {
	if s.LeftAt.IsZero() {
		return run.EndAt
	}
	return s.LeftAt
}

type dryRunMessage struct {
	NodeID    string          `json:"nodeId"`
	WebhookID string          `json:"webhookId"`
	At        time.Time       `json:"at"`
	Succeed   bool            `json:"succeed"`
	Error     string          `json:"error"`
	Body      json.RawMessage `json:"body"`
}

// Text is the message as it would be sent, indented.
func (m dryRunMessage) Text() string { return indented(m.Body) }

// Params are those of the message, by name.
func (m dryRunMessage) Params() ([]pair, error) {
	var body struct {
		Params map[string]any `json:"params"`
	}
	if len(m.Body) == 0 {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(m.Body))
	dec.UseNumber()
	err := dec.Decode(&body)
	return newPairs("", body.Params).Rows, err
}

const (
	journeysPath = "/v1/journeys/"
	launchesPath = "/v1/launches/"
)

func (g gateway) listJourneys(ctx context.Context, query url.Values) (api.List[journey], error) {
	return get[api.List[journey]](ctx, g, waypost.GrantJourneysRead, "/v1/journeys", query)
}

func (g gateway) journey(ctx context.Context, id string) (journey, error) {
	return get[journey](ctx, g, waypost.GrantJourneysRead, journeysPath+url.PathEscape(id), nil)
}

// createJourney takes a draft.
func (g gateway) createJourney(ctx context.Context, draft any) (made journey, err error) {
	return made, g.do(ctx, waypost.GrantJourneysWrite, http.MethodPost, "/v1/journeys", draft, &made)
}

func (g gateway) listVersions(ctx context.Context, id string, query url.Values) (api.List[version], error) {
	return get[api.List[version]](ctx, g, waypost.GrantJourneysRead, journeysPath+url.PathEscape(id)+"/versions", query)
}

func (g gateway) version(ctx context.Context, id string, n int) (version, error) {
	return get[version](ctx, g, waypost.GrantJourneysRead, journeysPath+url.PathEscape(id)+"/versions/"+strconv.Itoa(n), nil)
}

// diff takes the numbers of versions, or draft.
func (g gateway) diff(ctx context.Context, id, from, to string) (difference, error) {
	path := journeysPath + url.PathEscape(id) + "/versions/" + url.PathEscape(from) + "/diff/" + url.PathEscape(to)
	return get[difference](ctx, g, waypost.GrantJourneysRead, path, nil)
}

func (g gateway) statistics(ctx context.Context, id string, query url.Values) (statistics, error) {
	return get[statistics](ctx, g, waypost.GrantJourneysRead, journeysPath+url.PathEscape(id)+"/statistics", query)
}

func (g gateway) listLaunches(ctx context.Context, query url.Values) (api.List[launch], error) {
	return get[api.List[launch]](ctx, g, waypost.GrantJourneysRead, "/v1/launches", query)
}

func (g gateway) launch(ctx context.Context, id string) (launch, error) {
	return get[launch](ctx, g, waypost.GrantJourneysRead, launchesPath+url.PathEscape(id), nil)
}

func (g gateway) countLeads(ctx context.Context, audience any) (c audienceCount, err error) {
	return c, g.do(ctx, waypost.GrantJourneysRun, http.MethodPost, "/v1/leads/count", map[string]any{"audience": audience}, &c)
}

// forecast takes an audience, and what else the body can have.
func (g gateway) forecast(ctx context.Context, id string, body map[string]any) (f forecast, err error) {
	return f, g.do(ctx, waypost.GrantJourneysRead, http.MethodPost, journeysPath+url.PathEscape(id)+"/forecast", body, &f)
}

func (g gateway) dryRun(ctx context.Context, id string, body any) (d dryRun, err error) {
	return d, g.do(ctx, waypost.GrantJourneysRead, http.MethodPost, journeysPath+url.PathEscape(id)+"/dryrun", body, &d)
}

// testJourney sends one message as a test.
func (g gateway) testJourney(ctx context.Context, id string, body any) (api.Trial, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return api.Trial{}, err
	}
	return g.sendTrial(ctx, waypost.GrantJourneysRun, journeysPath+url.PathEscape(id)+"/test", text)
}

// moveCounts counts the enrollments of a migration.
type moveCounts struct {
	Matched int64 `json:"matched"`
	Moved   int64 `json:"moved"`
}

// migrate moves enrollments that wait to another version; with dryRun it counts them.
func (g gateway) migrate(ctx context.Context, id string, from, to int, nodes map[string]string, dryRun bool) (m moveCounts, err error) {
	body := map[string]any{"from": from, "to": to, "nodeMap": nodes, "dryRun": dryRun}
	return m, g.do(ctx, waypost.GrantJourneysRun, http.MethodPost, journeysPath+url.PathEscape(id)+"/migrate", body, &m)
}
