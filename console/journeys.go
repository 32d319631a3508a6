package console

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"waypost"
	"waypost/api"
	"waypost/yamljson"
)

// journeysPage is the data of the list of journeys.
type journeysPage struct {
	Filters filterBar
	Items   []journeyRow
	More    string
}

// journeyRow is a journey of the list.
type journeyRow struct {
	journey
	Definition definition
	Counts     counts
	Since      time.Time // when its newest version was published
}

// journeyTones are the colours of the badges of journeys and launches.
var journeyTones = map[string]string{
	"active": "ok", "paused": "warn", "running": "info", "scheduled": "info", "pending": "info", "completed": "ok",
}

// journeyStatuses are the states that a filter offers.
var journeyStatuses = []waypost.JourneyStatus{waypost.JourneyActive, waypost.JourneyPaused, waypost.JourneyDraft, waypost.JourneyArchived}

// journeysOfPage is how many journeys a page shows: each one's numbers are calls of their own.
const journeysOfPage = "25"

// journeys shows a page of the list with the counts of each published journey. A journey that is
// deleted meanwhile has none.
func (v *visit) journeys() error {
	ctx := v.r.Context()
	filters := newFilterBar(v.r,
		filter{Name: "name", Label: v.t("journeys.nameBegins"), Type: "search"},
		filter{Name: "status", Label: v.t("journeys.state"), Type: "select", Options: options(v, "journeys.status.", journeyStatuses)},
		filter{Name: "tag", Label: v.t("journeys.tag"), Type: "search"},
	)
	query := filters.query(v.r)
	query.Set("limit", journeysOfPage)
	found, err := v.gateway.listJourneys(ctx, query)
	if err != nil {
		return err
	}
	data := journeysPage{Filters: filters, Items: make([]journeyRow, len(found.Items)), More: filters.more(found.NextCursor)}
	var calls []func() error
	for i, j := range found.Items {
		row := &data.Items[i]
		row.journey = j
		if row.Definition, err = define(j.Draft); err != nil {
			return err
		}
		if j.PublishedVersion == 0 {
			continue
		}
		calls = append(calls, func() error {
			s, err := v.gateway.statistics(ctx, j.ID, nil)
			row.Counts = s.counts
			return unlessGone(err)
		}, func() error {
			newest, err := v.gateway.listVersions(ctx, j.ID, url.Values{"limit": {"1"}})
			if len(newest.Items) > 0 {
				row.Since = newest.Items[0].PublishedAt
			}
			return unlessGone(err)
		})
	}
	if err := together(calls...); err != nil {
		return err
	}
	return v.render(page{Name: "journeys", Title: v.t("journeys.title"), Place: "journeys", Live: 10, Data: data})
}

// unlessGone is nil for what was deleted meanwhile.
func unlessGone(err error) error {
	if waypost.CodeOf(err) == waypost.CodeNotFound {
		return nil
	}
	return err
}

// newJourneyPage is the form for a new journey.
type newJourneyPage struct {
	Name     field
	Webhook  field
	Template string // that is chosen
	Offered  []string
	Webhooks bool // there are any
	Faults   []waypost.Detail
	Fault    string
}

// templates are the journeys that one can begin with, by names that the catalogue has.
var templates = []string{"message", "followUp", "remind", "compare"}

func (v *visit) newJourney() error { return v.newJourneyForm(http.StatusOK, nil) }

// newJourneyForm shows the form, with what is wrong with what was sent.
func (v *visit) newJourneyForm(status int, fault error) error {
	webhooks, err := v.gateway.webhookNames(v.r.Context())
	if err != nil {
		return err
	}
	sent := v.r.PostFormValue
	data := newJourneyPage{
		Name:     field{Name: "name", Label: v.t("journeys.new.name"), Value: sent("name"), Hint: v.t("journeys.new.nameHint"), Required: true},
		Webhook:  field{Name: "webhook", Label: v.t("journeys.new.webhook"), Type: "select", Value: sent("webhook"), Options: webhooks.options(), Required: true},
		Template: sent("template"), Offered: templates, Webhooks: len(webhooks) > 0,
	}
	if data.Template == "" {
		data.Template = templates[0]
	}
	if fault != nil {
		var faults map[string]string
		if faults, data.Fault, err = faultsOf(fault); err != nil {
			return err
		}
		data.Name.Fault = faults["name"]
		data.Faults = detailsOf(fault, "name")
	}
	return v.render(page{Name: "journey_new", Title: v.t("journeys.new.title"), Place: "journeys", Status: status,
		Back: &link{Path: "/journeys", Text: v.t("journeys.title")}, Data: data})
}

// createJourney makes a draft, of a file or of a template.
func (v *visit) createJourney() error {
	draft, err := v.sentDraft()
	if err != nil {
		return v.newJourneyForm(http.StatusBadRequest, err)
	}
	made, err := v.gateway.createJourney(v.r.Context(), json.RawMessage(draft))
	if err != nil {
		return v.newJourneyForm(http.StatusBadRequest, err)
	}
	v.flash("ok", v.t("journeys.new.made"))
	return v.redirect("/journeys/"+made.ID+"/edit", nil)
}

// sentDraft is the definition that the form asks for.
func (v *visit) sentDraft() ([]byte, error) {
	file, header, err := v.r.FormFile("file")
	if err == nil && header.Size > 0 {
		defer file.Close()
		text, err := io.ReadAll(file)
		if err != nil {
			return nil, err
		}
		return toDraft(text)
	}
	name := strings.TrimSpace(v.r.PostFormValue("name"))
	if name == "" {
		return nil, &waypost.Error{Code: waypost.CodeBadRequest, Details: []waypost.Detail{{Target: "name", Message: v.t("form.required")}}}
	}
	return json.Marshal(v.template(v.r.PostFormValue("template"), name, v.r.PostFormValue("webhook")))
}

// toDraft reads a definition that a person has written, as YAML or as JSON.
func toDraft(text []byte) ([]byte, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if trimmed := bytes.TrimSpace(text); bytes.HasPrefix(trimmed, []byte("{")) && json.Valid(trimmed) {
		return trimmed, nil
	}
	out, err := yamljson.DefinitionToJSON(text)
	if err != nil {
		return nil, waypost.Errorf(waypost.CodeBadRequest, "", "%s", err)
	}
	return out, nil
}

// template is the definition of a template, with its texts in the person's language.
func (v *visit) template(kind, name, webhook string) map[string]any {
	type m = map[string]any
	message := func(id, next string) m {
		return m{"id": id, "type": "touchpoint", "label": v.t("journeys.template.label." + id), "webhook": webhook,
			"params": m{"text": v.t("journeys.template.text." + id)}, "next": next}
	}
	exit := m{"id": "end", "type": "exit"}
	start, nodes := "hello", []m{message("hello", "end"), exit}
	switch kind {
	case "followUp":
		nodes = []m{message("hello", "wait"), {"id": "wait", "type": "delay", "for": "72h", "next": "again"}, message("again", "end"), exit}
	case "remind":
		start = "bought"
		nodes = []m{{"id": "bought", "type": "waitForEvent", "event": "purchase", "timeout": "24h", "next": "end", "onTimeout": "remind"}, message("remind", "end"), exit}
	case "compare":
		start = "choose"
		nodes = []m{{"id": "choose", "type": "split", "arms": []m{{"weight": 50, "next": "first"}, {"weight": 50, "next": "second"}}},
			message("first", "end"), message("second", "end"), exit}
	}
	return m{"name": name, "start": start, "nodes": nodes}
}

// detailsOf are the faults that an error names, without those of targets that a form shows
// beside their fields.
func detailsOf(err error, without ...string) []waypost.Detail {
	var asked *waypost.Error
	if !errors.As(err, &asked) {
		return nil
	}
	var out []waypost.Detail
	for _, d := range asked.Details {
		if !slices.Contains(without, d.Target) {
			out = append(out, d)
		}
	}
	return out
}

// journeyHead is what stands above every page of a journey.
type journeyHead struct {
	Journey    journey
	Definition definition
	Text       json.RawMessage // the definition that is shown: the published one, or the draft
	Tabs       []link
	Changes    int // that the draft has and the published version has not
	Counts     counts
	Aims       aims
	Stalled    time.Time // since when leads wait to be started, zero if none waits for long
	At         string    // its path
	ETag       string    // of the journey
}

// Title is what people call a node.
func (h journeyHead) Title(id string) string { return h.Definition.title(id) }

// loadHead reads a journey without its statistics.
func (v *visit) loadHead(ctx context.Context) (h journeyHead, err error) {
	h.Journey, h.ETag, err = tagged[journey](ctx, v.gateway, waypost.GrantJourneysRead, journeysPath+url.PathEscape(v.r.PathValue("id")))
	h.At = "/journeys/" + h.Journey.ID
	h.Journey.Problems = v.inWords(h.Journey.Problems)
	return h, err
}

// definitionOf is the definition that is shown of a journey: the published one, or the draft.
func (v *visit) definitionOf(ctx context.Context, j journey) (json.RawMessage, error) {
	if j.PublishedVersion == 0 {
		return j.Draft, nil
	}
	published, err := v.gateway.version(ctx, j.ID, j.PublishedVersion)
	return published.Definition, err
}

// loadJourney reads a journey for a page of it.
func (v *visit) loadJourney(ctx context.Context, here string) (h journeyHead, err error) {
	if h, err = v.loadHead(ctx); err != nil {
		return h, err
	}
	calls := []func() error{func() error {
		s, err := v.gateway.statistics(ctx, h.Journey.ID, nil)
		h.Counts = s.counts
		return err
	}, func() (err error) {
		h.Text, err = v.definitionOf(ctx, h.Journey)
		return err
	}}
	if n := h.Journey.PublishedVersion; n > 0 {
		calls = append(calls, func() error {
			d, err := v.gateway.diff(ctx, h.Journey.ID, strconv.Itoa(n), "draft")
			h.Changes = len(d.Changes)
			return err
		}, func() (err error) {
			h.Stalled, err = v.gateway.stalled(ctx, url.Values{"journeyId": {h.Journey.ID}})
			return err
		})
	}
	if err := together(calls...); err != nil {
		return h, err
	}
	for _, name := range []string{"", "canvas", "enrollments", "statistics", "launches", "versions", "definition"} {
		path, key := h.At, "outline"
		if name != "" {
			path, key = h.At+"/"+name, name
		}
		h.Tabs = append(h.Tabs, link{path, v.t("journey.tab." + key), name == here})
	}
	h.Definition, err = define(h.Text)
	if err != nil {
		return h, err
	}
	var segments names
	if slices.ContainsFunc(h.Definition.Entry, func(e entryOf) bool { return e.Segment != "" }) {
		if segments, err = v.gateway.segmentNames(ctx); err != nil {
			return h, err
		}
	}
	h.Aims = v.aims(h.Definition, segments)
	return h, nil
}

// renderJourney shows a page of a journey.
func (v *visit) renderJourney(p page, h journeyHead) error {
	if p.Title == "" {
		p.Title = h.Journey.Name
	}
	if p.Back == nil {
		p.Back = &link{Path: "/journeys", Text: v.t("journeys.title")}
	}
	p.Place = "journeys"
	return v.render(p)
}

// outlinePage is the outline of a journey, with people.
type outlinePage struct {
	Head    journeyHead
	Steps   []outlineStep
	Loose   []outlineStep // nodes that nothing leads to
	Chosen  *chosenNode
	Numbers bool
}

// chosenNode is what is known of one node: who stands there, and what went wrong there.
type chosenNode struct {
	node
	nodeCounts
	Path   string            // of the page without it
	Paths  map[string]string // nodePaths
	People []enrollmentAnswer
	Leads  leadNames // of People
	More   bool
	Groups []failureGroup
	// Of a split in a journey with a goal.
	ArmCounts []armCounts
	ArmsRatio *armsRatio
	Contest   *winnerState
}

// Apart tells whether the arms are not compared with the control group, though there is one.
func (c chosenNode) Apart() bool {
	for _, a := range c.ArmCounts {
		if l := a.OverControlGroup; l != nil && l.Verdict == waypost.VerdictApart {
			return true
		}
	}
	return false
}

// Controlled tells whether the arms are compared with the control group.
func (c chosenNode) Controlled() bool {
	return len(c.ArmCounts) > 0 && c.ArmCounts[0].OverControlGroup != nil && !c.Apart()
}

// Won is the arm that takes everybody, from 1; 0 if there is none.
func (c chosenNode) Won() int {
	if c.Contest != nil && c.Contest.Status == waypost.ContestDecided {
		return c.Contest.Arm
	}
	return 0
}

// peopleOfNode is how many enrollments are shown of a node.
const peopleOfNode = 20

// journey shows a journey as an outline; nodes that its start does not reach follow apart.
func (v *visit) journey() error {
	ctx := v.r.Context()
	if v.r.URL.Query().Has("edit") {
		return v.redirect("/journeys/"+url.PathEscape(v.r.PathValue("id"))+"/edit", nil)
	}
	var h journeyHead
	var journeys, webhooks names
	err := together(func() (err error) {
		h, err = v.loadJourney(ctx, "")
		return err
	}, func() (err error) {
		journeys, webhooks, err = v.gateway.bothNames(ctx)
		return err
	})
	if err != nil {
		return err
	}
	o := v.newOutline(h, webhooks, journeys)
	data := outlinePage{Head: h, Steps: o.whole(h.Definition), Numbers: h.Journey.PublishedVersion > 0}
	for _, n := range h.Definition.Nodes {
		if !o.placed[n.ID] {
			data.Loose = append(data.Loose, o.from(n.ID, nil)...)
		}
	}
	if id := v.r.URL.Query().Get("node"); id != "" {
		if data.Chosen, err = v.chooseNode(ctx, h, o, id); err != nil {
			return err
		}
	}
	return v.renderJourney(page{Name: "journey", Live: 4, Data: data}, h)
}

// chooseNode reads what is known of a node, nil if there is none of this id.
func (v *visit) chooseNode(ctx context.Context, h journeyHead, o *outline, id string) (*chosenNode, error) {
	n, found := o.nodes[id]
	if !found {
		return nil, nil
	}
	c := &chosenNode{node: n, nodeCounts: o.counts[id], Path: h.At, Paths: nodePaths(h.Journey.ID, url.QueryEscape(id))}
	for _, n := range h.Counts.Nodes {
		if n.NodeID == id {
			c.ArmCounts, c.ArmsRatio, c.Contest = n.Arms, n.SampleRatio, n.Winner
		}
	}
	return c, together(func() error {
		people, err := v.gateway.enrollmentsOf(ctx, url.Values{
			"journeyId": {h.Journey.ID}, "nodeId": {id}, "status": {standing}, "limit": {strconv.Itoa(peopleOfNode)},
		})
		c.People, c.More = people.Items, people.NextCursor != ""
		if err == nil {
			c.Leads, err = v.leadNames(leadsOf(people.Items))
		}
		return err
	}, func() error {
		groups, err := v.gateway.groupDeliveries(ctx, url.Values{
			"journeyId": {h.Journey.ID}, "nodeId": {id}, "groupBy": {waypost.GroupErrorClass + "," + waypost.GroupHTTPStatus},
		})
		for _, g := range groups {
			c.Groups = append(c.Groups, failureGroup{failureCount: g, Path: c.Paths["deliveries"] + "&status=failed,retrying&" + g.query().Encode()})
		}
		return err
	})
}

// standing are the states of enrollments that stand at a node.
const standing = "running,waiting,paused"

// nodePaths are the addresses of lists about a node, whose id is escaped.
func nodePaths(journey, node string) map[string]string {
	deliveries := "/deliveries?journeyId=" + url.QueryEscape(journey) + "&nodeId=" + node
	return map[string]string{
		"standing":   "/journeys/" + url.PathEscape(journey) + "/enrollments?nodeId=" + node + "&status=" + standing,
		"deliveries": deliveries, "delivered": deliveries + "&status=succeeded", "failed": deliveries + "&status=failed", "deferred": deliveries + "&status=deferred",
	}
}

// enrollmentsPage lists those who are in a journey, or were.
type enrollmentsPage struct {
	Head    journeyHead
	Filters filterBar
	Items   []enrollmentAnswer
	Leads   leadNames // of Items
	More    string
}

// leadsOf are the ids of the leads of enrollments.
func leadsOf(enrollments []enrollmentAnswer) []int64 {
	ids := make([]int64, len(enrollments))
	for i, e := range enrollments {
		ids[i] = e.LeadsID
	}
	return ids
}

var enrollmentStatuses = []waypost.EnrollmentStatus{
	waypost.EnrollmentPending, waypost.EnrollmentRunning, waypost.EnrollmentWaiting, waypost.EnrollmentPaused,
	waypost.EnrollmentCompleted, waypost.EnrollmentExited, waypost.EnrollmentFailed, waypost.EnrollmentCanceled,
}

func (v *visit) enrollments() error {
	ctx := v.r.Context()
	h, err := v.loadJourney(ctx, "enrollments")
	if err != nil {
		return err
	}
	filters := newFilterBar(v.r,
		filter{Name: "nodeId", Label: v.t("enrollment.stands"), Type: "select", Options: h.Definition.options()},
		filter{Name: "status", Label: v.t("deliveries.status"), Type: "several", Options: options(v, "enrollment.status.", enrollmentStatuses)},
		filter{Name: "leadsId", Label: v.t("deliveries.leadsId"), Type: "number"},
		filter{Name: "sort", Label: v.t("leads.order"), Type: "select", Always: true, Options: options(v, "enrollment.sort.", []string{"-createdAt", "createdAt"})},
	)
	query := filters.query(v.r)
	query.Set("journeyId", h.Journey.ID)
	found, err := v.gateway.enrollmentsOf(ctx, query)
	if err != nil {
		return err
	}
	leads, err := v.leadNames(leadsOf(found.Items))
	if err != nil {
		return err
	}
	return v.renderJourney(page{Name: "journey_enrollments", Live: 5, Data: enrollmentsPage{h, filters, found.Items, leads, filters.more(found.NextCursor)}}, h)
}

// canvasPage is the picture of a journey, to look at or to edit.
type canvasPage struct {
	Head  journeyHead
	Links string // for the canvas: addresses of lists of a node
}

// links are the addresses that the canvas offers for a node; it puts its id in place of {node}.
func links(h journeyHead) string {
	text, _ := json.Marshal(nodePaths(h.Journey.ID, "{node}")) // texts have a JSON form
	return string(text)
}

func (v *visit) canvas() error {
	h, err := v.loadJourney(v.r.Context(), "canvas")
	if err != nil {
		return err
	}
	return v.renderJourney(page{Name: "journey_canvas", Live: 5, Scripts: []string{"canvas.js"}, Styles: []string{"canvas.css"}, Data: canvasPage{h, links(h)}}, h)
}

// json answers with a JSON document, 304 if the browser has it.
func (v *visit) json(etag string, body []byte) error {
	return v.document("application/json", etag, body)
}

func (v *visit) document(kind, etag string, body []byte) error {
	h := v.w.Header()
	h.Set("Content-Type", kind)
	h.Set("ETag", etag)
	v.status = http.StatusOK
	if v.r.Header.Get("If-None-Match") == etag {
		v.status = http.StatusNotModified
		v.w.WriteHeader(v.status)
		return nil
	}
	v.send(body)
	return nil
}

// pass answers with what the gateway says to a GET.
func (v *visit) pass(path string) error {
	body, etag, err := v.gateway.exchange(v.r.Context(), waypost.GrantJourneysRead, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	if etag == "" {
		etag = etagOf(body)
	}
	return v.json(etag, body)
}

// canvasJSON is the definition that the canvas shows: the published one, or the draft if there
// is none or the query asks for it.
func (v *visit) canvasJSON() error {
	j, err := v.gateway.journey(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return err
	}
	path := journeysPath + url.PathEscape(j.ID)
	if j.PublishedVersion > 0 && v.r.URL.Query().Get("draft") != "true" {
		path += "/versions/" + strconv.Itoa(j.PublishedVersion)
	}
	return v.pass(path)
}

// definitionJSON is the draft, or the version that is asked for, to be compared on the canvas.
func (v *visit) definitionJSON() error {
	path := journeysPath + url.PathEscape(v.r.PathValue("id"))
	if n := v.r.URL.Query().Get("version"); n != draftVersion {
		path += "/versions/" + url.PathEscape(n)
	}
	return v.pass(path)
}

func (v *visit) statisticsJSON() error {
	return v.pass(journeysPath + url.PathEscape(v.r.PathValue("id")) + "/statistics")
}

// optionsJSON has the names that the canvas shows, and what its forms offer.
func (v *visit) optionsJSON() error {
	ctx := v.r.Context()
	var webhooks, journeys, segments names
	var fields, events []string
	var properties map[string][]string
	err := together(func() (err error) {
		journeys, webhooks, err = v.gateway.bothNames(ctx)
		return err
	}, func() (err error) {
		segments, err = v.gateway.segmentNames(ctx)
		return err
	}, func() (err error) {
		fields, err = v.gateway.leadFieldNames(ctx)
		return err
	}, func() (err error) {
		events, err = v.gateway.eventNames(ctx)
		return err
	}, func() (err error) {
		properties, err = v.gateway.eventProperties(ctx)
		return err
	})
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"webhooks": webhooks, "journeys": journeys, "segments": segments, "fields": fields, "events": events, "properties": properties})
	if err != nil {
		return err
	}
	return v.json(etagOf(body), body)
}

// statisticsPage is what happened over time.
type statisticsPage struct {
	Head    journeyHead
	Filters filterBar
	Counts  counts            // of the version that is chosen, since it was published
	Points  []statisticsPoint // the newest first
	Nodes   []countedNode
}

type statisticsPoint struct {
	From                       time.Time
	Entered, Completed, Failed int64
	Delivered, NotDelivered    int64
}

// Spans of statistics, in intervals.
const (
	hoursShown = 48
	daysShown  = 30
)

// statistics shows the last hours or days of a journey, of all versions or of one, in the order of
// the newest definition's nodes.
func (v *visit) statistics() error {
	ctx := v.r.Context()
	h, err := v.loadJourney(ctx, "statistics")
	if err != nil {
		return err
	}
	var versions []option
	for n := h.Journey.PublishedVersion; n > 0 && len(versions) < 50; n-- {
		versions = append(versions, option{strconv.Itoa(n), v.t("journeys.versionN", "n", n)})
	}
	filters := newFilterBar(v.r,
		filter{Name: "every", Label: v.t("statistics.every"), Type: "select", Always: true, Options: options(v, "statistics.", []string{"hour", "day"})},
		filter{Name: "version", Label: v.t("journeys.version"), Type: "select", Options: versions},
	)
	data := statisticsPage{Head: h, Filters: filters, Counts: h.Counts}
	from := time.Now().Add(-hoursShown * time.Hour)
	if filters.Filters[0].Value == "day" {
		from = time.Now().AddDate(0, 0, -daysShown)
	}
	query := url.Values{}
	if n := filters.Filters[1].Value; n != "" {
		query.Set("version", n)
	}
	err = together(func() error {
		if len(query) == 0 {
			return nil
		}
		whole, err := v.gateway.statistics(ctx, h.Journey.ID, query)
		data.Counts = whole.counts
		return err
	}, func() (err error) {
		data.Points, data.Nodes, err = v.points(h.Journey.ID, from, query)
		return err
	})
	if err != nil {
		return err
	}
	place := func(n countedNode) int { // in the definition; nodes of other versions stand last
		if at := slices.IndexFunc(h.Definition.Nodes, func(of node) bool { return of.ID == n.NodeID }); at >= 0 {
			return at
		}
		return len(h.Definition.Nodes)
	}
	slices.SortStableFunc(data.Nodes, func(a, b countedNode) int { return cmp.Compare(place(a), place(b)) })
	return v.renderJourney(page{Name: "journey_statistics", Scripts: []string{"chart.js"}, Live: 30, Data: data}, h)
}

// points are what happened from a time on, the newest first: in each hour, or day if that is
// longer ago than hoursShown; and the numbers of the nodes.
func (v *visit) points(journeyID string, from time.Time, query url.Values) (points []statisticsPoint, nodes []countedNode, err error) {
	every := "hour"
	if time.Since(from) > (hoursShown+1)*time.Hour {
		every = "day"
		from = later(from, time.Now().AddDate(0, 0, -daysShown))
	}
	query = maps.Clone(query)
	query.Set("every", every)
	query.Set("from", from.UTC().Format(time.RFC3339))
	found, err := v.gateway.statistics(v.r.Context(), journeyID, query)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range slices.Backward(found.Series) {
		p := statisticsPoint{From: s.From, Entered: s.Enrollments.Entered, Completed: s.Enrollments.Completed + s.Enrollments.Exited, Failed: s.Enrollments.Failed}
		for _, n := range s.Nodes {
			p.Delivered += n.Delivered
			p.NotDelivered += n.Failed
		}
		points = append(points, p)
	}
	return points, found.Nodes, nil
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// versionsPage lists versions, and what two of them differ in.
type versionsPage struct {
	Head     journeyHead
	Items    []version
	More     string
	From, To string
	Diff     *difference
	People   []standingIn
}

// Standing is who is in a version, nobody if it is not known.
func (p versionsPage) Standing(version int) (in standingIn) {
	for _, s := range p.People {
		if s.Version == version {
			in = s
		}
	}
	return in
}

// versions shows a page of the versions, and what is different between two of them: the last two if
// none are chosen.
func (v *visit) versions() error {
	ctx := v.r.Context()
	h, err := v.loadJourney(ctx, "versions")
	if err != nil {
		return err
	}
	q := v.r.URL.Query()
	query := url.Values{}
	if cursor := q.Get("cursor"); cursor != "" {
		query.Set("cursor", cursor)
	}
	data := versionsPage{Head: h, From: q.Get("from"), To: q.Get("to")}
	if data.From == "" && h.Journey.PublishedVersion > 1 {
		data.From, data.To = strconv.Itoa(h.Journey.PublishedVersion-1), strconv.Itoa(h.Journey.PublishedVersion)
	}
	err = together(func() error {
		found, err := v.gateway.listVersions(ctx, h.Journey.ID, query)
		data.Items = found.Items
		if found.NextCursor != "" {
			data.More = v.r.URL.Path + "?" + url.Values{"cursor": {string(found.NextCursor)}}.Encode()
		}
		return err
	}, func() (err error) {
		data.People, err = v.people(h.Journey.ID, h.Journey.PublishedVersion+1)
		return err
	}, func() error {
		if data.From == "" || data.To == "" {
			return nil
		}
		d, err := v.gateway.diff(ctx, h.Journey.ID, data.From, data.To)
		data.Diff = &d
		return err
	})
	if err != nil {
		return err
	}
	return v.renderJourney(page{Name: "journey_versions", Data: data}, h)
}

// draftVersion stands for the draft where versions are compared.
const draftVersion = "draft"

// comparePage shows two versions in one picture, with what they differ in beside it.
type comparePage struct {
	Head     journeyHead
	From, To string
	Diff     difference
	Versions []option // that From and To can be
}

// compare shows two versions, or one and the draft, on one canvas. Old versions that the list has
// no more can be named in the address.
func (v *visit) compare() error {
	ctx, id, q := v.r.Context(), v.r.PathValue("id"), v.r.URL.Query()
	data := comparePage{From: q.Get("from"), To: q.Get("to")}
	var found api.List[version]
	err := together(func() (err error) {
		data.Head, err = v.loadJourney(ctx, "versions")
		return err
	}, func() (err error) {
		data.Diff, err = v.gateway.diff(ctx, id, data.From, data.To)
		return err
	}, func() (err error) {
		found, err = v.gateway.listVersions(ctx, id, nil)
		return err
	})
	if err != nil {
		return err
	}
	data.Versions = []option{{draftVersion, v.t("try.draft")}}
	for _, made := range found.Items {
		data.Versions = append(data.Versions, option{strconv.Itoa(made.Version), v.t("journeys.versionN", "n", made.Version)})
	}
	for _, n := range []string{data.From, data.To} { // of old ones, the list has not all
		if !slices.ContainsFunc(data.Versions, func(o option) bool { return o.Value == n }) {
			data.Versions = append(data.Versions, option{n, v.t("journeys.versionN", "n", n)})
		}
	}
	return v.renderJourney(page{Name: "journey_compare", Scripts: []string{"canvas.js"}, Styles: []string{"canvas.css"}, Data: data}, data.Head)
}

// definitionPage shows the definition as a text.
type definitionPage struct {
	Head journeyHead
	JSON bool
	Text string
}

func (v *visit) definition() error {
	h, err := v.loadJourney(v.r.Context(), "definition")
	if err != nil {
		return err
	}
	data := definitionPage{Head: h, JSON: v.r.URL.Query().Get("as") == "json"}
	if data.JSON {
		data.Text = indented(h.Text)
	} else if data.Text, err = toYAML(h.Text); err != nil {
		return err
	}
	return v.renderJourney(page{Name: "journey_definition", Data: data}, h)
}

func toYAML(text json.RawMessage) (string, error) {
	out, err := yamljson.DefinitionFromJSON(text)
	if err != nil {
		return "", fmt.Errorf("write YAML: %w", err)
	}
	return string(out), nil
}

// exportJourney answers with the definition as a file.
func (v *visit) exportJourney() error {
	j, err := v.gateway.journey(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return err
	}
	definition, err := v.definitionOf(v.r.Context(), j)
	if err != nil {
		return err
	}
	text, err := toYAML(definition)
	if err != nil {
		return err
	}
	header := v.w.Header()
	header.Set("Content-Type", "application/yaml; charset=utf-8")
	header.Set("Content-Disposition", `attachment; filename="`+j.ID+`.yaml"; filename*=UTF-8''`+url.PathEscape(fileName(j.Name))+".yaml")
	v.status = http.StatusOK
	_, _ = io.WriteString(v.w, text) // the browser may have gone
	return nil
}

// fileName is a name without what has a meaning in names of files, at most 80 characters.
func fileName(name string) string {
	kept := strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\:*?"<>|`, r) || r >= 0x200b && r <= 0x206f {
			return -1
		}
		return r
	}, name)
	if runes := []rune(kept); len(runes) > 80 {
		kept = string(runes[:80])
	}
	if strings.Trim(kept, ". ") == "" {
		return "journey"
	}
	return kept
}

// controlJourney makes the handler of a form that changes a journey's state.
func controlJourney(action string, grant waypost.Grant) func(*visit) error {
	return func(v *visit) error {
		id := v.r.PathValue("id")
		if err := v.gateway.do(v.r.Context(), grant, http.MethodPost, journeysPath+url.PathEscape(id)+"/"+action, v.controlBody(action), nil); err != nil {
			return err
		}
		v.flash("ok", v.t("journey.done."+action))
		return v.redirect("/journeys/"+id, nil)
	}
}

// controlBody is what a form says of a pause that ends; nil for any other action.
func (v *visit) controlBody(action string) any {
	if action != "resume" {
		return nil
	}
	return map[string]string{"elapsedDelays": cmp.Or(v.r.PostFormValue("elapsedDelays"), "shift")}
}

func (v *visit) copyJourney() error {
	var made journey
	path := journeysPath + url.PathEscape(v.r.PathValue("id")) + "/copy"
	if err := v.gateway.do(v.r.Context(), waypost.GrantJourneysWrite, http.MethodPost, path, nil, &made); err != nil {
		return err
	}
	v.flash("ok", v.t("journey.done.copy", "name", made.Name))
	return v.redirect("/journeys/"+made.ID, nil)
}

func (v *visit) deleteJourney() error {
	path := journeysPath + url.PathEscape(v.r.PathValue("id"))
	if err := v.gateway.do(v.r.Context(), waypost.GrantJourneysWrite, http.MethodDelete, path, nil, nil); err != nil {
		return err
	}
	v.flash("ok", v.t("journey.done.delete"))
	return v.redirect("/journeys", nil)
}
