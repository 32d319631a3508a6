package console

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"waypost"
)

// launchesPage is a list of launches: of a journey, or of all.
type launchesPage struct {
	Head     *journeyHead
	Filters  filterBar
	Items    []launch
	Journeys names
	More     string
}

var launchStatuses = []waypost.LaunchStatus{
	waypost.LaunchRunning, waypost.LaunchScheduled, waypost.LaunchPaused, waypost.LaunchPending, waypost.LaunchCompleted, waypost.LaunchCanceled,
}

func (v *visit) launches() error {
	var data launchesPage
	var journeys names
	err := together(func() (err error) {
		journeys, err = v.gateway.journeyNames(v.r.Context())
		return err
	}, func() (err error) {
		data, err = v.loadLaunches("", filter{Name: "journeyId", Label: v.t("launches.journey"), Type: "select"})
		return err
	})
	if err != nil {
		return err
	}
	data.Journeys, data.Filters.Filters[1].Options = journeys, journeys.options()
	return v.render(page{Name: "launches", Title: v.t("launches.title"), Place: "launches", Live: 5, Data: data})
}

func (v *visit) journeyLaunches() error {
	var h journeyHead
	var data launchesPage
	err := together(func() (err error) {
		h, err = v.loadJourney(v.r.Context(), "launches")
		return err
	}, func() (err error) {
		data, err = v.loadLaunches(v.r.PathValue("id"))
		return err
	})
	if err != nil {
		return err
	}
	data.Head = &h
	return v.renderJourney(page{Name: "journey_launches", Live: 5, Data: data}, h)
}

// loadLaunches reads a page of launches, of one journey if it is named.
func (v *visit) loadLaunches(journeyID string, more ...filter) (data launchesPage, err error) {
	data.Filters = newFilterBar(v.r, append([]filter{{Name: "status", Label: v.t("launches.state"), Type: "select", Options: options(v, "launches.status.", launchStatuses)}}, more...)...)
	query := data.Filters.query(v.r)
	if journeyID != "" {
		query.Set("journeyId", journeyID)
	}
	found, err := v.gateway.listLaunches(v.r.Context(), query)
	data.Items, data.More = found.Items, data.Filters.more(found.NextCursor)
	return data, err
}

// launchPage is one launch.
type launchPage struct {
	launch
	Journey     string // its name
	Occurrences []launch
	EndsAt      time.Time // when its rate has let everybody in, zero if that is not known
	Points      []statisticsPoint
	Why         []string  // why nobody was let in, or not everybody
	Stalled     time.Time // since when it waits for a worker, or leads of it do; zero if that is not long
}

// occurrencesShown is how many occurrences of a recurring launch its page lists.
const occurrencesShown = "20"

// beforeLaunch is how much is shown of what was before a launch, to compare with.
const beforeLaunch = 6 * time.Hour

// launch shows how far a launch is, every 3 s anew until it has ended.
func (v *visit) launch() error {
	ctx := v.r.Context()
	l, err := v.gateway.launch(ctx, v.r.PathValue("id"))
	if err != nil {
		return err
	}
	data := launchPage{launch: l, Why: v.leftOut(l)}
	var j journey
	err = together(func() (err error) {
		j, err = v.gateway.journey(ctx, l.JourneyID)
		return unlessGone(err)
	}, func() error {
		if l.Schedule == nil {
			return nil
		}
		found, err := v.gateway.listLaunches(ctx, url.Values{"recurringId": {l.LaunchID}, "limit": {occurrencesShown}})
		data.Occurrences = found.Items
		return err
	})
	if err != nil {
		return err
	}
	data.Journey = cmp.Or(j.Name, l.JourneyID)
	if left := l.Left(); l.Status == waypost.LaunchRunning && left > 0 && l.RatePerSecond > 0 {
		data.EndsAt = time.Now().Add(time.Duration(float64(left) / l.RatePerSecond * float64(time.Second))).Truncate(time.Minute)
	}
	if !l.StartedAt.IsZero() && j.ID != "" {
		if data.Points, _, err = v.points(j.ID, l.StartedAt.Add(-beforeLaunch), url.Values{"version": {strconv.Itoa(l.Version)}}); err != nil {
			return err
		}
	}
	live := 3
	switch {
	case l.Ended():
		live = 0
	case l.Status == waypost.LaunchPending:
		data.Stalled = overdue(l.CreatedAt)
	case l.Status == waypost.LaunchScheduled && !l.StartAt.IsZero():
		data.Stalled = overdue(l.StartAt)
	default:
		if data.Stalled, err = v.gateway.stalled(ctx, url.Values{"launchId": {l.LaunchID}}); err != nil {
			return err
		}
	}
	return v.render(page{Name: "launch", Title: v.launchName(l, data.Journey), Place: "launches", Live: live, Scripts: []string{"chart.js"},
		Back: &link{Path: "/launches", Text: v.t("launches.title")}, Data: data})
}

// leftOut says why a launch has let nobody in, or not everybody, in sentences.
func (v *visit) leftOut(l launch) (sentences []string) {
	if l.Empty {
		for _, part := range []struct {
			key string
			n   int64
		}{
			{"reentry", int64(l.SkippedBy.Reentry)}, {"missing", int64(l.SkippedBy.Missing)}, {"left", int64(l.SkippedBy.Left)}, {"heldOut", l.HeldOut},
		} {
			if part.n > 0 {
				sentences = append(sentences, v.t("launches.why."+part.key, "n", part.n))
			}
		}
		if l.Total == 0 {
			sentences = append(sentences, v.t("launches.why.nobody"))
		}
	}
	if l.Test != nil && l.Test.Status == waypost.TestStopped {
		sentences = append(sentences, v.t("launches.why.stopped", "n", l.Held))
	}
	return sentences
}

// changeRate takes the form that changes how fast a launch lets leads in.
func (v *visit) changeRate() error {
	id := v.r.PathValue("id")
	body := map[string]any{"ratePerSecond": nil}
	if text := strings.TrimSpace(v.r.PostFormValue("rate")); text != "" {
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil || rate <= 0 || math.IsNaN(rate) || math.IsInf(rate, 0) {
			v.flash("bad", v.t("launch.rate")+": "+v.t("form.positive"))
			return v.redirect("/launches/"+id, nil)
		}
		body["ratePerSecond"] = rate
	}
	err := v.gateway.do(v.r.Context(), waypost.GrantJourneysRun, http.MethodPatch, launchesPath+url.PathEscape(id), body, nil)
	if err != nil {
		faults, general, err := faultsOf(err)
		if err != nil {
			return err
		}
		v.flash("bad", cmp.Or(faults["ratePerSecond"], general))
		return v.redirect("/launches/"+id, nil)
	}
	v.flash("ok", v.t("launches.done.rate"))
	return v.redirect("/launches/"+id, nil)
}

// launchName is what people call a launch: its journey and, unless it recurs, when it begins or began.
func (v *visit) launchName(l launch, journey string) string {
	at := l.CreatedAt
	for _, begins := range []time.Time{l.StartAt, l.StartedAt} {
		if !begins.IsZero() {
			at = begins
		}
	}
	if l.Schedule != nil || at.IsZero() {
		return v.t("launches.of", "journey", journey)
	}
	return v.t("launches.ofAt", "journey", journey, "time", at.In(v.chosen.Zone).Format(timeLayouts[v.chosen.Language]))
}

// controlLaunch makes the handler of a form that changes a launch's state.
func controlLaunch(action string) func(*visit) error {
	return func(v *visit) error {
		id := v.r.PathValue("id")
		if err := v.gateway.do(v.r.Context(), waypost.GrantJourneysRun, http.MethodPost, launchesPath+url.PathEscape(id)+"/"+action, v.controlBody(action), nil); err != nil {
			return err
		}
		v.flash("ok", v.t("launches.done."+action))
		return v.redirect("/launches/"+id, nil)
	}
}

// newLaunchPage is the form of a launch, and what it would do once that is asked for.
type newLaunchPage struct {
	Head      journeyHead
	Values    map[string]string // of the form
	Faults    map[string]string // by field
	Fault     string
	Fields    []string
	Segments  names
	Custom    []customRow // those that are shown
	Further   []customRow // and those that are folded
	Zones     []string
	Count     *audienceCount
	Slow      bool        // counting the segment took too long, which does not keep it from being launched to
	Sample    []foundLead // some of the leads, with their names
	Review    bool
	Words     string // what confirming does
	HeldOut   string
	Forecast  *forecastView
	Key       string // the Idempotency-Key of this launch
	Everybody bool
	Tests     bool // the journey has a split with a winner, so that a part can enter first
}

// OnePerson tells whether a filter is set that few leads match.
func (p newLaunchPage) OnePerson() bool {
	return slices.ContainsFunc(launchTexts, func(name string) bool { return p.Values[name] != "" })
}

// customRow is a filter by a custom field.
type customRow struct {
	N           int
	Name, Value string
}

// launchFields are the inputs of the form, which its review hands on.
var launchFields = slices.Concat(
	[]string{"who", "segment", "leadsIds"}, launchTexts, launchNumbers, launchDates, launchOthers,
	customNames(), []string{"when", "at", "preset", "cron", "timezone", "rate", "group", "testLeads", "testAfter", "testUndecided"},
)

// Filters of the audience by how their values are written.
var (
	launchTexts   = []string{"name", "mobilePhone", "email", "externalId"}
	launchOthers  = []string{"birthday", "importId"} // of more than one lead
	launchNumbers = []string{"leadsGroup", "region", "gender"}
	launchDates   = []string{"createdFrom", "createdTo", "updatedFrom", "updatedTo"}
)

// Filters by custom fields: of mostCustom rows, customShown are not folded.
const mostCustom, customShown = 8, 2

// customNames are the inputs of the filters by custom fields.
func customNames() (all []string) {
	for n := 1; n <= mostCustom; n++ {
		all = append(all, fmt.Sprint("field", n), fmt.Sprint("value", n))
	}
	return all
}

// commonZones are offered beside the zone of the browser.
var commonZones = []string{"Asia/Shanghai", "Asia/Singapore", "Asia/Tokyo", "Europe/Berlin", "Europe/London", "America/New_York", "America/Los_Angeles", "UTC"}

// presets are cron expressions that have a name in the catalogue.
var presets = map[string]string{"daily": "0 9 * * *", "weekdays": "0 9 * * 1-5", "weekly": "0 9 * * 1", "monthly": "0 9 1 * *"}

// loadLaunchForm reads the journey, what the form offers, and what was sent of it.
func (v *visit) loadLaunchForm() (data newLaunchPage, err error) {
	ctx := v.r.Context()
	var segments names
	err = together(func() (err error) {
		data.Head, err = v.loadHead(ctx)
		return err
	}, func() (err error) {
		data.Fields, err = v.gateway.leadFieldNames(ctx)
		return err
	}, func() (err error) {
		segments, err = v.gateway.segmentNames(ctx)
		return err
	})
	if err != nil {
		return data, err
	}
	text, err := v.definitionOf(ctx, data.Head.Journey)
	if err != nil {
		return data, err
	}
	d, err := define(text)
	if err != nil {
		return data, err
	}
	data.Tests = slices.ContainsFunc(d.Nodes, func(n node) bool { return n.Winner != nil })
	data.Values = map[string]string{}
	for _, name := range launchFields {
		data.Values[name] = strings.TrimSpace(v.r.PostFormValue(name))
	}
	data.Segments = segments.with(data.Values["segment"])
	if data.Values["who"] == "" {
		data.Values["who"] = "filter"
	}
	if data.Values["when"] == "" {
		data.Values["when"] = "now"
	}
	if data.Values["testAfter"] == "" {
		data.Values["testAfter"] = testHours(d)
	}
	if data.Values["timezone"] == "" {
		data.Values["timezone"] = v.chosen.Zone.String()
	}
	for n := 1; n <= mostCustom; n++ {
		row := customRow{n, data.Values[fmt.Sprint("field", n)], data.Values[fmt.Sprint("value", n)]}
		if n <= customShown || row.Name != "" {
			data.Custom = append(data.Custom, row)
		} else {
			data.Further = append(data.Further, row)
		}
	}
	data.Zones = commonZones
	return data, nil
}

// testHours is what the form begins with for how long the others are held at most: two days, and a day longer
// than the split waits before it compares its arms.
func testHours(d definition) string {
	hours := 48.0
	for _, n := range d.Nodes {
		if winner, ok := n.Winner.(map[string]any); ok {
			text, _ := winner["after"].(string)
			after, _ := waypost.ParseDuration(text) // published ones are right
			hours = max(hours, math.Ceil(time.Duration(after).Hours())+24)
			break
		}
	}
	return strconv.FormatFloat(hours, 'f', -1, 64)
}

func (v *visit) newLaunch() error {
	data, err := v.loadLaunchForm()
	if err != nil {
		return err
	}
	if err := v.countAudience(&data); err != nil {
		return err
	}
	return v.launchForm(http.StatusOK, data)
}

func (v *visit) launchForm(status int, data newLaunchPage) error {
	return v.renderJourney(page{
		Name: "launch_new", Title: v.t("launch.title", "journey", data.Head.Journey.Name), Back: &link{Path: data.Head.At, Text: data.Head.Journey.Name},
		Scripts: []string{"launch.js", "chart.js"}, Status: status, Data: data,
	}, data.Head)
}

// audienceOf is the audience that the form describes; faults are noted by field.
func (v *visit) audienceOf(values, faults map[string]string) map[string]any {
	if values["who"] == "list" {
		ids := []int64{}
		for _, word := range strings.FieldsFunc(values["leadsIds"], func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(",;，；、", r) }) {
			id, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				faults["leadsIds"] = v.t("launch.badId", "id", waypost.Clip(word, 40))
			}
			ids = append(ids, id)
		}
		if len(ids) == 0 {
			faults["leadsIds"] = v.t("form.required")
		}
		return map[string]any{"leadsIds": ids}
	}
	if values["who"] == "segment" {
		if values["segment"] == "" {
			faults["segment"] = v.t("form.required")
		}
		return map[string]any{"segment": values["segment"]}
	}
	filter := map[string]any{}
	for _, name := range slices.Concat(launchTexts, launchOthers) {
		if values[name] != "" {
			filter[name] = values[name]
		}
	}
	for _, name := range launchNumbers {
		if values[name] == "" {
			continue
		}
		n, err := strconv.ParseInt(values[name], 10, 64)
		if err != nil {
			faults[name] = v.t("form.wholeNumber")
		}
		filter[name] = n
	}
	for _, name := range launchDates {
		if values[name] == "" {
			continue
		}
		day, err := time.ParseInLocation(time.DateOnly, values[name], v.chosen.Zone)
		if err != nil {
			faults[name] = v.t("form.date")
			continue
		}
		filter[name] = day.UTC().Format(time.RFC3339)
	}
	custom := map[string]any{}
	for n := 1; n <= mostCustom; n++ {
		if name := values[fmt.Sprint("field", n)]; name != "" {
			custom[name] = values[fmt.Sprint("value", n)]
		}
	}
	if len(custom) > 0 {
		filter["customFields"] = custom
	}
	return map[string]any{"filter": filter}
}

// noteFaults notes what the gateway says of a launch, by the fields of the form; err is what
// it says of none.
func noteFaults(err error, data *newLaunchPage) error {
	faults, general, err := faultsOf(err)
	if err != nil {
		return err
	}
	names := map[string]string{"schedule.cron": "cron", "schedule.timezone": "timezone", "startAt": "at", "ratePerSecond": "rate", "controlGroup": "group", "audience.segment": "segment",
		"test": "testLeads", "test.leads": "testLeads", "test.share": "testLeads", "test.after": "testAfter", "test.undecided": "testUndecided"}
	for target, text := range faults {
		name := strings.TrimPrefix(target, "audience.filter.")
		if strings.HasPrefix(target, "audience.leadsIds") {
			name = "leadsIds"
		}
		if known := names[target]; known != "" {
			name = known
		}
		if strings.HasPrefix(name, "customFields") {
			name = "custom"
		}
		if name != "custom" && !slices.Contains(launchFields, name) {
			general = text
			continue
		}
		data.Faults[name] = text
	}
	data.Fault = general
	return nil
}

// countAudience counts the leads of the audience, if it has no faults.
func (v *visit) countAudience(data *newLaunchPage) error {
	data.Faults = map[string]string{}
	audience := v.audienceOf(data.Values, data.Faults)
	filter, filters := audience["filter"].(map[string]any)
	data.Everybody = filters && len(filter) == 0
	if len(data.Faults) == 0 {
		c, err := v.gateway.countLeads(v.r.Context(), audience)
		if err == nil {
			data.Count = &c
			data.Sample, err = v.named(c.Sample)
			return err
		}
		if audience["segment"] != nil && busy(err) {
			data.Slow = true
			return nil
		}
		if err := noteFaults(err, data); err != nil {
			return err
		}
	}
	return nil
}

// sampleNamed is how many leads of a sample are shown.
const sampleNamed = 6

// named are the first leads of a sample with their names.
func (v *visit) named(sample []int64) ([]foundLead, error) {
	sample = sample[:min(len(sample), sampleNamed)]
	names, err := v.leadNames(sample)
	found := make([]foundLead, len(sample))
	for i, id := range sample {
		found[i] = foundLead{ID: id, Name: names[id]}
	}
	return found, err
}

// countLaunch answers with the form and the number of leads, for launch.js and for the button
// beside it.
func (v *visit) countLaunch() error {
	data, err := v.loadLaunchForm()
	if err != nil {
		return err
	}
	if err := v.countAudience(&data); err != nil {
		return err
	}
	return v.launchForm(http.StatusOK, data)
}

// plan is a launch as the form describes it.
type plan struct {
	Audience      map[string]any    `json:"audience"`
	StartAt       string            `json:"startAt,omitempty"`
	RatePerSecond float64           `json:"ratePerSecond,omitempty"`
	ControlGroup  float64           `json:"controlGroup,omitempty"`
	Schedule      map[string]string `json:"schedule,omitempty"`
	Test          map[string]any    `json:"test,omitempty"`
	at            time.Time
}

// planOf is the body of a launch by the form. What is wrong with it is put into the faults of data
// by field; the plan is to be used only if there are none.
func (v *visit) planOf(data *newLaunchPage) plan {
	values, faults := data.Values, data.Faults
	p := plan{Audience: v.audienceOf(values, faults)}
	switch values["when"] {
	case "at":
		at, err := time.ParseInLocation(localMinute, values["at"], v.chosen.Zone)
		if err != nil {
			faults["at"] = v.t("form.dateTime")
		}
		p.at, p.StartAt = at, at.UTC().Format(time.RFC3339)
	case "recurring":
		cron := values["cron"]
		if preset := presets[values["preset"]]; preset != "" {
			cron = preset
		}
		p.Schedule = map[string]string{"cron": cron, "timezone": values["timezone"]}
	}
	number := func(name string) float64 {
		if values[name] == "" {
			return 0
		}
		n, err := strconv.ParseFloat(values[name], 64)
		if err != nil || n <= 0 || math.IsNaN(n) || math.IsInf(n, 0) {
			faults[name] = v.t("form.positive")
		}
		return n
	}
	p.RatePerSecond, p.ControlGroup = number("rate"), number("group")/100
	if p.ControlGroup >= 1 {
		faults["group"] = v.t("launch.groupRange")
	}
	if values["testLeads"] != "" {
		p.Test = v.testOf(values, faults, p.Schedule != nil)
	}
	return p
}

// testOf is the test of a launch that the form describes: so many leads, or such a share, enter first.
func (v *visit) testOf(values, faults map[string]string, recurs bool) map[string]any {
	test := map[string]any{}
	if percent, share := strings.CutSuffix(strings.ReplaceAll(values["testLeads"], "％", "%"), "%"); share {
		n, err := strconv.ParseFloat(strings.TrimSpace(percent), 64)
		if err != nil || !(n > 0 && n < 100) {
			faults["testLeads"] = v.t("launch.testShareRange")
		}
		test["share"] = n / 100
	} else {
		leads, err := strconv.ParseInt(values["testLeads"], 10, 64)
		if err != nil || leads < 1 {
			faults["testLeads"] = v.t("launch.testLeadsRange")
		}
		test["leads"] = leads
	}
	hours, err := strconv.ParseFloat(values["testAfter"], 64)
	if err != nil || !(hours > 0 && hours <= 90*24) {
		faults["testAfter"] = v.t("launch.testAfterRange")
	}
	if recurs {
		faults["testLeads"] = v.t("launch.testRecurring")
	}
	after := time.Duration(hours * float64(time.Hour)).Round(time.Second)
	test["after"], test["undecided"] = waypost.Duration(after).String(), cmp.Or(values["testUndecided"], string(waypost.UndecidedSplit))
	return test
}

// sendLaunch takes the form, and launches once its review is confirmed.
func (v *visit) sendLaunch() error {
	data, err := v.loadLaunchForm()
	if err != nil {
		return err
	}
	if err := v.countAudience(&data); err != nil {
		return err
	}
	p := v.planOf(&data)
	step := v.r.PostFormValue("step")
	if len(data.Faults) > 0 || data.Fault != "" {
		return v.launchForm(http.StatusBadRequest, data)
	}
	if step == "change" {
		return v.launchForm(http.StatusOK, data)
	}
	if step != "launch" {
		return v.reviewLaunch(data, p)
	}
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	header := http.Header{"Idempotency-Key": {v.r.PostFormValue("key")}}
	answer, _, err := v.gateway.exchange(v.r.Context(), waypost.GrantJourneysRun, http.MethodPost, journeysPath+url.PathEscape(data.Head.Journey.ID)+"/launches", header, body)
	if err != nil {
		if err := noteFaults(err, &data); err != nil {
			return err
		}
		return v.launchForm(http.StatusBadRequest, data)
	}
	var made launch
	if err := json.Unmarshal(answer, &made); err != nil {
		return err
	}
	v.flash("ok", v.t("launch.launched"))
	return v.redirect("/launches/"+made.LaunchID, nil)
}

// reviewLaunch says in words what the launch does, with a forecast.
func (v *visit) reviewLaunch(data newLaunchPage, p plan) (err error) {
	data.Review, data.Key = true, rand.Text()
	text, err := v.definitionOf(v.r.Context(), data.Head.Journey)
	if err != nil {
		return err
	}
	d, err := define(text)
	if err != nil {
		return err
	}
	var count, held int64
	if !data.Slow {
		count = data.Count.Count
		held = int64(float64(count)*max(p.ControlGroup, d.ControlGroup) + 0.5)
	}
	if held > 0 {
		data.HeldOut = v.t("launch.words.heldOut", "n", held)
	}
	who := v.t("launch.words.who", "n", count-held)
	if segment := data.Segments.Of(data.Values["segment"]); data.Slow {
		who = v.t("launch.words.segment", "name", segment)
	} else if data.Values["who"] == "segment" {
		who = v.t("launch.words.whoOf", "n", count-held, "name", segment)
	}
	start := time.Now()
	key, args := "now", []any{"who", who}
	switch {
	case p.StartAt != "":
		key, start = "at", p.at
		args = append(args, "at", v.clock(p.at))
	case p.Schedule != nil:
		key = "recurring"
		args = append(args, "cron", v.cron(p.Schedule["cron"]), "timezone", p.Schedule["timezone"])
	}
	data.Words = v.t("launch.words."+key, args...)
	if p.RatePerSecond > 0 {
		end := start.Add(time.Duration(float64(count-held) / p.RatePerSecond * float64(time.Second)))
		rate := strconv.FormatFloat(p.RatePerSecond, 'f', -1, 64)
		if p.Schedule != nil || data.Slow {
			data.Words += v.t("launch.words.rate", "rate", rate)
		} else {
			data.Words += v.t("launch.words.until", "rate", rate, "until", v.clock(end))
		}
	} else {
		data.Words += v.t("launch.words.fast")
	}
	if p.Test != nil {
		if share, ok := p.Test["share"].(float64); ok {
			data.Words += " " + v.t("launch.words.testShare", "share", groupShare(share), "hours", data.Values["testAfter"])
		} else {
			data.Words += " " + v.t("launch.words.test", "n", p.Test["leads"], "hours", data.Values["testAfter"])
		}
	}
	if data.Slow { // so would be the forecast
		return v.launchForm(http.StatusOK, data)
	}
	data.Forecast, err = v.forecastOf(data.Head.Journey.ID, map[string]any{"audience": p.Audience}, p.ControlGroup)
	if asked := (*waypost.Error)(nil); err != nil && !errors.As(err, &asked) {
		return err // without a forecast, of which few run at once, the launch can be confirmed all the same
	}
	return v.launchForm(http.StatusOK, data)
}

// cron is a cron expression in the words of a sentence, if it has a name.
func (v *visit) cron(expression string) string {
	for name, preset := range presets {
		if preset == expression {
			return v.t("launch.words.preset." + name)
		}
	}
	return expression
}

// clock is a time in the viewer's zone for a sentence: with its day, if that is not today.
func (v *visit) clock(at time.Time) string {
	at = at.In(v.chosen.Zone)
	if at.Format(time.DateOnly) == time.Now().In(v.chosen.Zone).Format(time.DateOnly) {
		return at.Format("15:04")
	}
	return at.Format(dayLayouts[v.chosen.Language])
}

var dayLayouts = map[string]string{"en": "15:04 on 2 Jan 2006", "zh": "2006年1月2日 15:04"}
