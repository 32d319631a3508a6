package console

import (
	"cmp"
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

	"waypost"
	"waypost/api"
	"waypost/journey/nodes"
)

// tryPage is a dry run on one lead, and the form that asks for it.
type tryPage struct {
	Head        journeyHead // Definition is the one that is tried
	Draft       bool
	Stored      bool  // the lead is one that there is, else one that is invented
	Lead        field // who that is
	Name        string
	Invented    leadForm
	Further     []field // of Invented, which are folded
	StartAt     field
	Touchpoints []choiceOf
	Failing     int // of Touchpoints
	Events      []eventRow
	Names       []string // of events, those of the definition first
	Expected    int      // of Names, how many the definition has
	Problems    []waypost.Detail
	Run         *dryRun
	Trail       []trailItem
	Line        timeLine
	Span        time.Duration // of the line that the form has shown: it gets no shorter while one moves events on it
	Lit         string        // the nodes and edges of the path, for try.js
	Webhooks    names
	Trial       *api.Trial
	Tried       string // the node whose message was sent as a test
	Place       string // the address of the page, where it answers a form

	t func(key string, args ...any) string
}

// choiceOf is a node that can be chosen.
type choiceOf struct {
	node
	Chosen bool
}

// eventRow is an event that the lead will report, as the form has it.
type eventRow struct{ Name, After, Unit, Properties string }

// eventUnits are the units of the time of an event, by the names that the form has.
var eventUnits = map[string]time.Duration{"minutes": time.Minute, "hours": time.Hour, "days": 24 * time.Hour}

// mostEventRows bounds the events of the form.
const mostEventRows = 50

// mostTried bounds when an event comes: dry runs end after two years.
const mostTried = 2 * 365 * 24 * time.Hour

func (r eventRow) after() (time.Duration, bool) {
	unit, known := eventUnits[r.Unit]
	n, err := strconv.ParseFloat(r.After, 64)
	if err != nil || !known || n < 0 || math.IsNaN(n) || n*float64(unit) > float64(mostTried) {
		return 0, false
	}
	return time.Duration(n * float64(unit)).Round(time.Second), true
}

// properties reads a line for each property, such as amount = 120. A value that is a number,
// true or false is one; any other is a text.
func (r eventRow) properties() (map[string]any, bool) {
	properties := map[string]any{}
	for line := range strings.Lines(r.Properties) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, found := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); !found || name == "" {
			return nil, false
		}
		value = strings.TrimSpace(value)
		properties[name] = value
		var is any
		if json.Unmarshal([]byte(value), &is) == nil {
			switch is.(type) {
			case float64:
				properties[name] = json.Number(value)
			case bool, string:
				properties[name] = is
			}
		}
	}
	return properties, true
}

// eventRowsOf reads the rows that a form has sent.
func eventRowsOf(form url.Values) (rows []eventRow) {
	all, after, units, properties := form["event.name"], form["event.after"], form["event.unit"], form["event.properties"]
	for i := range min(len(all), len(after), len(units), len(properties), mostEventRows) {
		if name := strings.TrimSpace(all[i]); name != "" {
			rows = append(rows, eventRow{name, strings.TrimSpace(after[i]), units[i], properties[i]})
		}
	}
	return rows
}

// eventsIn are the names of events in a definition, in its order: those of all its members
// event.
func eventsIn(definition json.RawMessage) (found []string) {
	var walk func(raw json.RawMessage)
	walk = func(raw json.RawMessage) {
		var list []json.RawMessage
		var members map[string]json.RawMessage
		switch {
		case json.Unmarshal(raw, &list) == nil:
			for _, item := range list {
				walk(item)
			}
		case json.Unmarshal(raw, &members) == nil:
			var name string
			if json.Unmarshal(members["event"], &name) == nil && name != "" && !slices.Contains(found, name) {
				found = append(found, name)
			}
			for _, member := range []string{"entry", "exitOn", "goal", "nodes", "events"} {
				walk(members[member])
			}
		}
	}
	walk(definition)
	return found
}

// trailItem is a step of the path, or an event.
type trailItem struct {
	At              time.Time
	Event           string // its name; "" of a step
	Late            bool   // the event comes when nobody is there any more
	NodeID, Type    string
	What, Why, Raw  string // as in a timeline
	Values          string // that it sets or emits
	Stays           string // how long it waits there, in words
	Message, Failed bool
}

// became says in words what became of a visit of a node, and why; raw is as why returns it.
func (v *visit) became(s dryRunStep) (what, why, raw string) {
	if why, raw = v.why(waypost.TimelineEntry{What: s.Result, Reason: s.Reason}, nil); s.Type == "split" {
		why, raw = "", "" // how the arm was drawn
	}
	kind, n, numbered := strings.Cut(s.Result, " ")
	switch {
	case s.Type == "branch" && why != "", s.Type == "enroll" && why != "":
		return why, "", raw
	case numbered && kind == "case":
		return v.t("try.case", "n", n), why, raw
	case numbered && kind == "event":
		return v.came("matched", s.Type), why, raw
	case numbered && kind == "arm":
		return v.t("try.arm", "arm", armName(n)), why, raw
	case s.Result == "":
		return "", why, raw
	}
	return v.came(s.Result, s.Type), why, raw
}

// came says what a result of a visit to a node of a type is.
func (v *visit) came(result, kind string) string {
	if words, own := nodes.Of(kind).Results[result]; own {
		return words.In(v.chosen.Language)
	}
	return v.t("try.result." + result)
}

// Title is what people call a node of the run.
func (p tryPage) Title(id string) string { return p.Head.Definition.title(id) }

// span is a time in words, by its two largest units.
func (v *visit) span(d time.Duration) string {
	var parts []string
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if n := d / u.unit; n > 0 && len(parts) < 2 {
			parts = append(parts, v.t("journey.span."+u.name, "n", int64(n)))
			d -= n * u.unit
		} else if len(parts) == 1 {
			break
		}
	}
	if len(parts) == 0 {
		return v.t("journey.span.second", "n", 0)
	}
	return strings.Join(parts, " ")
}

func (v *visit) try() error {
	data, err := v.loadTry()
	if err != nil {
		return err
	}
	if data.Lead.Value != "" || v.r.Method == http.MethodPost {
		if body, sound := v.tryBody(&data); sound {
			if err := v.dryRun(&data, body); err != nil {
				return err
			}
		}
	}
	return v.renderTry(data)
}

func (v *visit) renderTry(data tryPage) error {
	return v.editing(page{Name: "try", Title: v.t("try.title", "name", data.Head.Journey.Name), Scripts: []string{"canvas.js", "pairs.js", "try.js"}, Styles: []string{"canvas.css"}, Data: data}, data.Head)
}

// sendTest sends one message to the lead of the form, and tries the journey on it once more.
func (v *visit) sendTest() error {
	_ = http.NewResponseController(v.w).SetWriteDeadline(time.Now().Add(testTime + callTime)) // a connection that cannot do it keeps its own
	data, err := v.loadTry()
	if err != nil {
		return err
	}
	body, sound := v.tryBody(&data)
	if !sound {
		return v.renderTry(data)
	}
	sent := map[string]any{"nodeId": v.r.PostFormValue("send"), "draft": body["draft"]}
	if sent["nodeId"] == "" {
		sent["nodeId"] = v.r.PostFormValue("any")
	}
	for _, name := range []string{"leadsId", "lead"} {
		if value, given := body[name]; given {
			sent[name] = value
		}
	}
	result, err := v.gateway.testJourney(v.r.Context(), data.Head.Journey.ID, sent)
	if err == nil {
		data.Trial, data.Tried = &result, fmt.Sprint(sent["nodeId"])
	} else if err := v.noteTryFault(&data, err); err != nil {
		return err
	}
	if len(data.Problems) == 0 && data.Lead.Fault == "" {
		if err := v.dryRun(&data, body); err != nil {
			return err
		}
	}
	return v.renderTry(data)
}

// loadTry reads the journey, what the form offers, and what was sent of it. A get offers a sample
// lead and no faults.
func (v *visit) loadTry() (data tryPage, err error) {
	ctx := v.r.Context()
	form := v.r.URL.Query()
	if v.r.Method == http.MethodPost {
		form = v.r.PostForm
	}
	var h journeyHead
	var seen []string
	var webhooks names
	err = together(func() (err error) {
		h, err = v.loadDraft("try")
		return err
	}, func() (err error) {
		seen, err = v.gateway.eventNames(ctx)
		return err
	}, func() (err error) {
		webhooks, err = v.gateway.webhookNames(ctx)
		return err
	})
	if err != nil {
		return data, err
	}
	data = tryPage{
		Head: h, t: v.t, Draft: form.Get("draft") == "true" || h.Journey.PublishedVersion == 0, Stored: form.Get("who") != "invented",
		Lead:    field{Name: "leadsId", Label: v.t("try.lead"), Value: strings.TrimSpace(form.Get("leadsId")), Hint: v.t("try.leadHint")},
		StartAt: field{Name: "startAt", Label: v.t("try.startAt"), Type: "datetime-local", Value: form.Get("startAt"), Hint: v.t("try.startHint")},
		Events:  eventRowsOf(form), Tried: form.Get("send"), Webhooks: webhooks, Span: shownSpan(form),
	}
	text := h.Journey.Draft
	if !data.Draft {
		if text, err = v.definitionOf(ctx, h.Journey); err != nil {
			return data, err
		}
	}
	if data.Head.Definition, err = define(text); err != nil {
		return data, err
	}
	data.offerTouchpoints(form["fails"])
	data.offerEvents(eventsIn(text), seen)
	if v.r.Method != http.MethodPost {
		v.offerLead(&data, url.Values{"name": {v.t("try.sample")}})
		return data, nil
	}
	v.offerLead(&data, form)
	place := url.Values{"draft": {strconv.FormatBool(data.Draft)}}
	if data.Stored && data.Lead.Value != "" {
		place.Set("leadsId", data.Lead.Value)
	}
	data.Place = h.At + "/try?" + place.Encode()
	return data, nil
}

// shownSpan is the length of the time line that a form was sent with, at most mostTried, or 0.
func shownSpan(form url.Values) time.Duration {
	ms, err := strconv.ParseInt(form.Get("span"), 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(min(max(ms, 0), mostTried.Milliseconds())) * time.Millisecond
}

// offerTouchpoints lists the touchpoints of the definition; those with an id in failing are chosen
// to fail.
func (p *tryPage) offerTouchpoints(failing []string) {
	for _, n := range p.Head.Definition.Nodes {
		if n.Type == "touchpoint" {
			c := choiceOf{n, slices.Contains(failing, n.ID)}
			p.Touchpoints = append(p.Touchpoints, c)
			if c.Chosen {
				p.Failing++
			}
		}
	}
}

// offerEvents lists the events that the definition expects, and after them others of the stage.
func (p *tryPage) offerEvents(expected, seen []string) {
	p.Names, p.Expected = expected, len(expected)
	for _, name := range seen {
		if !slices.Contains(p.Names, name) {
			p.Names = append(p.Names, name)
		}
	}
}

// offerLead fills in the fields of an invented lead. The page folds all but the first six, which
// are asked for most.
func (v *visit) offerLead(p *tryPage, fields url.Values) {
	p.Invented = v.leadInputs(fields, pairsOf("customFields", fields), nil)
	p.Further = p.Invented.Fields[6:]
	p.Invented.Fields = p.Invented.Fields[:6:6]
}

// tryBody is what the gateway is asked, unless the form has faults, which are noted.
func (v *visit) tryBody(data *tryPage) (body map[string]any, sound bool) {
	body = map[string]any{"draft": data.Draft}
	fault := func(target, text string) {
		data.Problems = append(data.Problems, waypost.Detail{Target: target, Message: text})
	}
	if !data.Stored {
		lead, _ := leadBody(v.r.PostForm, nil)
		body["lead"] = withoutNull(lead)
	} else if id, err := strconv.ParseInt(data.Lead.Value, 10, 64); err == nil && id > 0 {
		body["leadsId"] = id
	} else {
		data.Lead.Fault = v.t("try.chooseLead")
	}
	if data.StartAt.Value != "" {
		at, err := time.ParseInLocation(localMinute, data.StartAt.Value, v.chosen.Zone)
		if err != nil {
			fault(data.StartAt.Label, v.t("form.dateTime"))
		}
		body["startAt"] = at.UTC().Format(time.RFC3339)
	}
	var events []map[string]any
	for i, row := range data.Events {
		named := v.t("try.eventN", "n", i+1) + " " + row.Name
		after, ok := row.after()
		if !ok {
			fault(named, v.t("try.badTime"))
		}
		properties, ok := row.properties()
		if !ok {
			fault(named, v.t("try.badProperties"))
		}
		events = append(events, map[string]any{"name": row.Name, "after": after.String(), "properties": properties})
	}
	if events != nil {
		body["events"] = events
	}
	outcomes := map[string]any{}
	for _, n := range data.Touchpoints {
		if n.Chosen {
			outcomes[n.ID] = map[string]any{"succeed": false, "httpStatus": http.StatusServiceUnavailable}
		}
	}
	body["outcomes"] = outcomes
	return body, len(data.Problems) == 0 && data.Lead.Fault == ""
}

// dryRun runs the journey, and notes what is wrong where it cannot.
func (v *visit) dryRun(data *tryPage, body map[string]any) error {
	run, err := v.gateway.dryRun(v.r.Context(), data.Head.Journey.ID, body)
	if err != nil {
		return v.noteTryFault(data, err)
	}
	if run.LeadsID != 0 {
		if data.Name, err = v.leadName(run.LeadsID); err != nil {
			return err
		}
	}
	data.Run = &run
	data.Trail = v.trailOf(run, data.Events)
	data.Line = v.timeLineOf(*data)
	data.Lit, err = litOf(run)
	return err
}

// noteTryFault notes what the gateway says of the lead, the events or the definition.
func (v *visit) noteTryFault(data *tryPage, err error) error {
	var asked *waypost.Error
	switch {
	case errors.As(err, &asked) && asked.Code == waypost.CodeNotFound:
		data.Lead.Fault = v.t("try.noLead")
	case len(detailsOf(err)) > 0:
		for _, d := range detailsOf(err) {
			if name, is := strings.CutPrefix(d.Target, "lead."); is {
				name, _, _ = strings.Cut(name, "[")
				if slices.ContainsFunc(leadFields, func(f struct{ name, kind string }) bool { return f.name == name }) {
					d.Target = v.t("leads.field." + name)
				}
			}
			var n int
			if _, err := fmt.Sscanf(d.Target, "events[%d]", &n); err == nil && n >= 0 && n < len(data.Events) {
				d.Target = v.t("try.eventN", "n", n+1) + " " + data.Events[n].Name
			}
			data.Problems = append(data.Problems, d)
		}
	default:
		return err
	}
	return nil
}

// trailOf puts the steps of a run and the events in their order.
func (v *visit) trailOf(run dryRun, rows []eventRow) (trail []trailItem) {
	var events []trailItem
	for _, row := range rows {
		if after, ok := row.after(); ok {
			at := run.StartAt.Add(after)
			events = append(events, trailItem{At: at, Event: row.Name, Late: at.After(run.EndAt)})
		}
	}
	slices.SortStableFunc(events, func(a, b trailItem) int { return a.At.Compare(b.At) })
	for _, s := range run.Path {
		for len(events) > 0 && events[0].At.Before(s.EnteredAt) {
			trail, events = append(trail, events[0]), events[1:]
		}
		item := trailItem{At: s.EnteredAt, NodeID: s.NodeID, Type: s.Type, Message: s.Type == "touchpoint", Failed: s.Result == "failed", Values: s.Text()}
		item.What, item.Why, item.Raw = v.became(s)
		if stays := s.left(run).Sub(s.EnteredAt); stays >= time.Second {
			item.Stays = v.span(stays)
		}
		trail = append(trail, item)
	}
	return append(trail, events...)
}

// litOf are the nodes and edges that a run has passed, as the canvas calls them.
func litOf(run dryRun) (string, error) {
	nodes, edges := []string{"start:"}, []string{"start:"}
	for _, s := range run.Path {
		nodes = append(nodes, s.NodeID)
		switch {
		case s.Next != "":
			edges = append(edges, s.NodeID+":"+s.Way+">"+s.Next)
		case s.Type != "exit" && s.Result != "" && s.Result != "exited":
			nodes, edges = append(nodes, "end:"+s.NodeID), append(edges, s.NodeID+":"+s.Way+">end:"+s.NodeID)
		}
	}
	text, err := json.Marshal(map[string][]string{"nodes": nodes, "edges": edges})
	return string(text), err
}

// timeLine is a run on a line of time, which try.js drops events on.
type timeLine struct {
	Span  int64 // of the whole line, in milliseconds
	Marks []lineMark
	Ticks []lineTick
}

// lineMark stands at X per cent of the line, a wait for Wide per cent from there on.
type lineMark struct {
	Kind, X, Wide, Title string
	Row                  int // of an event
}

// layer orders marks for drawing; those of 0 are drawn first.
func (m lineMark) layer() int {
	return slices.Index([]string{"wait", "exit", "touchpoint", "event"}, m.Kind)
}

type lineTick struct{ X, Text string }

// tickSteps are the times between two ticks, the shortest of which that has few enough is taken.
var tickSteps = []time.Duration{
	time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 2 * 24 * time.Hour, 7 * 24 * time.Hour, 14 * 24 * time.Hour,
	30 * 24 * time.Hour, 60 * 24 * time.Hour, 90 * 24 * time.Hour, 180 * 24 * time.Hour,
}

const mostTicks = 5

// timeLineOf places steps and events by their share of the line in percent. The line ends a tenth
// behind the last of them, or where the one of the form did, if that is later.
func (v *visit) timeLineOf(data tryPage) timeLine {
	run := *data.Run
	last := run.EndAt.Sub(run.StartAt)
	for _, row := range data.Events {
		after, _ := row.after()
		last = max(last, after)
	}
	if last == 0 {
		last = 24 * time.Hour
	}
	whole := max(last+last/10, data.Span) // room behind the end, to drop something there
	share := func(d time.Duration) string {
		return strconv.FormatFloat(100*float64(d)/float64(whole), 'f', 3, 64) + "%"
	}
	line := timeLine{Span: whole.Milliseconds()}
	for _, s := range run.Path {
		at, stays := s.EnteredAt.Sub(run.StartAt), s.left(run).Sub(s.EnteredAt)
		title := data.Title(s.NodeID) + ", " + v.t("try.after", "span", v.span(at))
		if stays > 0 {
			line.Marks = append(line.Marks, lineMark{Kind: "wait", X: share(at), Wide: share(stays), Title: data.Title(s.NodeID) + ": " + v.span(stays)})
		}
		if s.Type == "touchpoint" || s.Type == "exit" {
			line.Marks = append(line.Marks, lineMark{Kind: s.Type, X: share(at + stays), Title: title})
		}
	}
	for i, row := range data.Events {
		if after, ok := row.after(); ok {
			line.Marks = append(line.Marks, lineMark{Kind: "event", X: share(after), Title: row.Name + ", " + v.t("try.after", "span", v.span(after)), Row: i})
		}
	}
	// Waits are drawn first, so that marks at their ends lie over them.
	slices.SortStableFunc(line.Marks, func(a, b lineMark) int { return cmp.Compare(a.layer(), b.layer()) })
	step := tickSteps[len(tickSteps)-1]
	for _, s := range slices.Backward(tickSteps) {
		if whole/s <= mostTicks {
			step = s
		}
	}
	for at := step; at < whole*19/20; at += step {
		line.Ticks = append(line.Ticks, lineTick{share(at), v.span(at)})
	}
	return line
}

// leadsFound is how many leads the search for one offers.
const leadsFound = 8

// foundLead is a lead as the search offers it.
type foundLead struct {
	ID     int64  `json:"id"`
	Name   string `json:"name"`
	Detail string `json:"detail"`
}

// findLeads searches leads by id, name, mobile number, e-mail address or externalId, for
// try.js. It is a POST, so that no address has what was searched for.
func (v *visit) findLeads() error {
	q := strings.TrimSpace(v.r.PostFormValue("q"))
	leads := []foundLead{}
	add := func(l waypost.Lead) {
		if len(leads) == leadsFound || slices.ContainsFunc(leads, func(f foundLead) bool { return f.ID == l.LeadsID }) {
			return
		}
		var parts []string
		for _, s := range []*string{l.ExternalID, l.Email} {
			if s != nil {
				parts = append(parts, *s)
			}
		}
		leads = append(leads, foundLead{l.LeadsID, l.Name, strings.Join(append(parts, l.MobilePhone...), " · ")})
	}
	if q != "" {
		filters := []string{"externalId", "mobilePhone", "email", "name"}
		found := make([][]waypost.Lead, len(filters)+1)
		var calls []func() error
		if id, err := strconv.ParseInt(q, 10, 64); err == nil && id > 0 {
			calls = append(calls, func() error {
				l, _, err := v.gateway.lead(v.r.Context(), id)
				if err == nil {
					found[0] = []waypost.Lead{l}
				}
				return unlessGone(err)
			})
		}
		for i, name := range filters {
			calls = append(calls, func() error {
				page, err := v.gateway.listLeads(v.r.Context(), url.Values{name: {q}, "limit": {strconv.Itoa(leadsFound)}})
				found[i+1] = page.Items
				if waypost.CodeOf(err) == waypost.CodeBadRequest { // what is no e-mail address is nobody's
					return nil
				}
				return err
			})
		}
		if err := together(calls...); err != nil {
			return err
		}
		for _, some := range found {
			for _, l := range some {
				add(l)
			}
		}
	}
	body, err := json.Marshal(map[string]any{"items": leads})
	if err != nil {
		return err
	}
	return v.json(etagOf(body), body)
}
