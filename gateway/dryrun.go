package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"waypost"
	"waypost/journey"
)

// dryRunBody names the lead of a dry run, and what happens during it.
type dryRunBody struct {
	choiceBody
	subjectBody
	Entry    *dryRunEntry           `json:"entry"`
	StartAt  *string                `json:"startAt"`
	Events   []dryRunEvent          `json:"events"`
	Outcomes map[string]outcomeBody `json:"outcomes"` // by the touchpoint's node
}

// subjectBody names a lead that is stored or invented, and what its enrollment would have.
type subjectBody struct {
	LeadsID  *int64              `json:"leadsId"`
	Lead     *waypost.LeadFields `json:"lead"`
	EntryKey string              `json:"entryKey"`
	Params   map[string]any      `json:"params"`
}

// dryRunEntry is an event for the journey to begin by, if its entry takes it.
type dryRunEntry struct {
	Event      string         `json:"event"`
	EventID    string         `json:"eventId"`
	Properties map[string]any `json:"properties"`
}

type dryRunEvent struct {
	Name       string         `json:"name"`
	At         *string        `json:"at"`
	After      *string        `json:"after"`
	Properties map[string]any `json:"properties"`
}

// outcomeBody is what a touchpoint's message comes to.
type outcomeBody struct {
	Succeed    *bool  `json:"succeed"`
	HTTPStatus int    `json:"httpStatus"`
	Message    string `json:"message"`
}

// Bounds of a dry run.
const (
	maxDryRunEvents   = 1000
	maxDryRunOutcomes = journey.MaxNodes
	maxDryRunDistance = 100 * 365 * 24 * time.Hour // of its times from now
)

// decodeDryRun reads all but the lead that has an id and the definition.
func (a *server) decodeDryRun(r *request) (body dryRunBody, o journey.SimulateOptions, err error) {
	var impossible *waypost.Error
	err = checked(waypost.DecodeJSON(r.body, &body), func(p *waypost.Problems) {
		body.check(p)
		impossible = a.checkSubject(p, body.subjectBody)
		body.Entry.check(p, body.EntryKey)
		o.Start = a.Now()
		if body.StartAt != nil {
			o.Start = a.nearMoment(p, "startAt", body.StartAt)
		}
		if len(body.Events) > maxDryRunEvents {
			p.Add(waypost.DetailTooLong, "events", "must be at most %d", maxDryRunEvents)
			body.Events = nil
		}
		for i, e := range body.Events {
			o.Events = append(o.Events, a.dryRunEvent(p, fmt.Sprintf("events[%d].", i), e))
		}
		if len(body.Outcomes) > maxDryRunOutcomes {
			p.Add(waypost.DetailTooLong, "outcomes", "must be at most %d", maxDryRunOutcomes)
			body.Outcomes = nil
		}
		o.Outcomes = dryRunOutcomes(p, body.Outcomes)
	})
	if err == nil && impossible != nil {
		err = impossible
	}
	return body, o, err
}

// checkSubject adds what is wrong with a subject. It returns what checkLead does.
func (a *server) checkSubject(p *waypost.Problems, body subjectBody) (impossible *waypost.Error) {
	switch {
	case body.LeadsID != nil && body.Lead != nil:
		p.Add(waypost.DetailInvalidFormat, "lead", "must not stand beside leadsId")
	case body.LeadsID == nil && body.Lead == nil:
		p.Add(waypost.DetailNullValue, "leadsId", "is missing, and so is lead")
	case body.Lead != nil && !isNamed(*p, "lead"):
		impossible = a.checkLead(p, body.Lead)
	}
	waypost.CheckEntryKey(p, body.EntryKey)
	checkObject(p, "params", body.Params, maxEnrollmentParams)
	return impossible
}

func (e *dryRunEntry) check(p *waypost.Problems, key string) {
	if e == nil {
		return
	}
	checkEventName(p, "entry.event", e.Event)
	if e.EventID != "" {
		checkEventID(p, "entry.eventId", e.EventID)
	}
	checkObject(p, "entry.properties", e.Properties, waypost.MaxEventProperties)
	if key != "" {
		p.Add(waypost.DetailInvalidFormat, "entryKey", "must not stand beside entry, which gives it")
	}
}

// checkLead adds what is wrong with the fields of an invented lead. It returns an
// UnprocessableEntity, which is answered if there is no other fault.
func (a *server) checkLead(p *waypost.Problems, fields *waypost.LeadFields) (impossible *waypost.Error) {
	const path = "lead"
	_, err := fields.Validate(a.PhoneRegion, a.Now())
	var invalid *waypost.Error
	if !errors.As(err, &invalid) {
		return nil
	}
	details := slices.Clone(invalid.Details)
	for i, d := range details {
		details[i].Target = path + "." + d.Target
	}
	if invalid.Code == waypost.CodeUnprocessableEntity {
		return &waypost.Error{Code: invalid.Code, Message: path + "." + invalid.Message, Target: path, Details: details}
	}
	*p = append(*p, details...)
	return nil
}

// nearMoment reads a time from which a journey can be followed.
func (a *server) nearMoment(p *waypost.Problems, target string, raw *string) time.Time {
	before := len(*p)
	t := moment(p, target, raw, "")
	if len(*p) == before && t.Sub(a.Now()).Abs() > maxDryRunDistance {
		p.Add(waypost.DetailOutOfRange, target, "must lie within 100 years from now")
	}
	return t
}

func (a *server) dryRunEvent(p *waypost.Problems, path string, e dryRunEvent) journey.SimulatedEvent {
	out := journey.SimulatedEvent{Name: e.Name, Properties: e.Properties}
	checkEventName(p, path+"name", e.Name)
	switch {
	case e.At != nil && e.After != nil:
		p.Add(waypost.DetailInvalidFormat, path+"after", "must not stand beside at")
	case e.At != nil:
		out.At = a.nearMoment(p, path+"at", e.At)
	case e.After != nil:
		after, err := waypost.ParseDuration(*e.After)
		if err != nil {
			p.Add(waypost.DetailInvalidFormat, path+"after", "%s", err)
		}
		out.After = time.Duration(after)
	default:
		p.Add(waypost.DetailNullValue, path+"at", "is missing, and so is after")
	}
	checkObject(p, path+"properties", e.Properties, waypost.MaxEventProperties)
	return out
}

func dryRunOutcomes(p *waypost.Problems, body map[string]outcomeBody) map[string]journey.TouchpointResult {
	out := map[string]journey.TouchpointResult{}
	for _, node := range slices.Sorted(maps.Keys(body)) {
		o, path := body[node], "outcomes."+clip(node)+"."
		if o.Succeed == nil {
			p.Add(waypost.DetailNullValue, path+"succeed", "is missing")
			continue
		}
		if o.HTTPStatus != 0 && (o.HTTPStatus < 100 || o.HTTPStatus > 599) {
			p.Add(waypost.DetailOutOfRange, path+"httpStatus", "must be 100 to 599, or 0 for no answer")
		} else if *o.Succeed && o.HTTPStatus != 0 && o.HTTPStatus != 200 {
			p.Add(waypost.DetailOutOfRange, path+"httpStatus", "must be 200 where succeed is true: any other answer is a failure")
		}
		if *o.Succeed && o.HTTPStatus == 0 {
			o.HTTPStatus = 200
		}
		out[node] = journey.TouchpointResult{Succeed: *o.Succeed, HTTPStatus: o.HTTPStatus, Message: o.Message}
	}
	return out
}

// dryRunAnswer is one lead's way through a journey.
type dryRunAnswer struct {
	JourneyID string                    `json:"journeyId"`
	Version   int                       `json:"version"`
	Draft     bool                      `json:"draft"`
	LeadsID   *int64                    `json:"leadsId"`
	Entry     *dryRunEntryAnswer        `json:"entry"` // nil: it begins by no event
	StartAt   string                    `json:"startAt"`
	EndAt     string                    `json:"endAt"`
	Status    *waypost.EnrollmentStatus `json:"status"` // nil: the lead does not enter
	Limit     *journey.SimulatedLimit   `json:"limit"`
	Path      []pathStep                `json:"path"`
	Timeline  []timelineEntry           `json:"timeline"`
	Messages  []dryRunMessage           `json:"messages"`
	HeldOut   bool                      `json:"heldOut"`
	Goal      *dryRunGoal               `json:"goal"`
}

// dryRunGoal is what the lead's events come to for the goal.
type dryRunGoal struct {
	Until       string  `json:"until"`
	Converted   bool    `json:"converted"`
	ConvertedAt *string `json:"convertedAt"`
	Value       float64 `json:"value"`
}

// dryRunEntryAnswer says whether the entry takes the event.
type dryRunEntryAnswer struct {
	Kind     waypost.EntryKind `json:"kind"`
	Event    string            `json:"event"`
	EventID  *string           `json:"eventId"`
	Enters   bool              `json:"enters"`
	EntryKey string            `json:"entryKey"`
	Reason   *string           `json:"reason"`
}

type pathStep struct {
	NodeID    string           `json:"nodeId"`
	Type      journey.NodeType `json:"type"`
	Visit     int              `json:"visit"`
	EnteredAt string           `json:"enteredAt"`
	LeftAt    *string          `json:"leftAt"`
	Result    *string          `json:"result"`
	Reason    *string          `json:"reason"`
	Next      *string          `json:"next"`
	Way       *string          `json:"way"`
	Values    map[string]any   `json:"values"` // that are set or emitted; nil: none
}

// dryRunMessage is a message that would be sent. Its body is null if it could not be
// made.
type dryRunMessage struct {
	NodeID    string          `json:"nodeId"`
	WebhookID string          `json:"webhookId"`
	Visit     int             `json:"visit"`
	At        string          `json:"at"`
	Succeed   bool            `json:"succeed"`
	Error     *string         `json:"error"`
	Body      json.RawMessage `json:"body"`
}

// dryRun follows one lead through a journey with the interpreter of production, on a
// virtual clock. It sends and stores nothing.
func (a *server) dryRun(ctx context.Context, r *request) (answer, error) {
	body, options, err := a.decodeDryRun(r)
	if err != nil {
		return answer{}, err
	}
	c, err := a.choose(ctx, r, body.choiceBody)
	if err != nil {
		return answer{}, err
	}
	if err := touchpointsOnly(c, options.Outcomes); err != nil {
		return answer{}, err
	}
	lead := waypost.Lead{CreatedAt: options.Start, UpdatedAt: options.Start}
	if body.LeadsID == nil {
		lead.LeadFields = *body.Lead
	} else if lead, options.Sent, err = a.dryRunLead(ctx, r, c, *body.LeadsID, options.Start); err != nil {
		return answer{}, err
	}
	options.Facts = c.facts(lead)
	options.Facts.EntryKey, options.Facts.Params = body.EntryKey, body.Params
	var entry *dryRunEntryAnswer
	if body.Entry != nil {
		if entry = c.enterDry(&options, *body.Entry); !entry.Enters {
			return ok(notEntered(c, lead, entry, options.Start))
		}
	}
	if body.LeadsID != nil {
		records, rules, err := a.recordsOf(ctx, r, c, []int64{lead.LeadsID}, options.Start)
		if err != nil {
			return answer{}, err
		}
		options.Facts.Record, options.Facts.Segments = records[lead.LeadsID], rules
	}
	hooks, err := a.webhooksOf(ctx, r, c)
	if err != nil {
		return answer{}, err
	}
	if options.Winners, err = a.winners(ctx, c); err != nil {
		return answer{}, err
	}
	options.HeldOut = body.LeadsID != nil && !lead.Test && waypost.HeldOut(c.journeyID, lead.LeadsID, c.ControlGroup())
	options.WebhookParams = func(id string) map[string]any { return hooks[id].Params }
	if options.Unwanted, err = a.unwanted(ctx, hooks, []waypost.Lead{lead}); err != nil {
		return answer{}, err
	}

	var run journey.Run
	err = a.simulations.run(ctx, r.app, simulationWait, simulationTime, func(ctx context.Context) (err error) {
		run, err = journey.Simulate(ctx, c.Definition, options)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	ans, err := answerDryRun(r, c, lead, run)
	if err != nil {
		return answer{}, err
	}
	ans.StartAt, ans.Entry = stamp(options.Start), entry
	if entry != nil && len(run.Timeline) > 0 {
		ans.Timeline[0].Reason = new(waypost.Entry{Kind: waypost.EntryEvent, Event: body.Entry.Event}.Reason(run.Timeline[0].Reason))
	}
	return ok(ans)
}

// enterDry decides whether an event begins the journey, as production does when it is accepted,
// and gives the facts what the enrollment has by it.
func (c choice) enterDry(o *journey.SimulateOptions, e dryRunEntry) *dryRunEntryAnswer {
	event := waypost.Event{EventID: e.EventID, Name: e.Event, LeadsID: o.Facts.Lead.LeadsID, Properties: e.Properties, OccurredAt: o.Start, AcceptedAt: o.Start}
	decision := c.Enters(waypost.Occasion{Kind: waypost.EntryEvent, Lead: o.Facts.Lead, Event: &event, At: o.Start}, o.Facts)
	o.Facts.Began, o.Facts.EntryKey = &event, decision.Key
	return &dryRunEntryAnswer{
		Kind: waypost.EntryEvent, Event: e.Event, EventID: orNull(e.EventID), Enters: decision.Enters, EntryKey: decision.Key, Reason: orNull(decision.Reason),
	}
}

// notEntered is the answer where the entry does not take the event: nothing happens.
func notEntered(c choice, lead waypost.Lead, entry *dryRunEntryAnswer, at time.Time) dryRunAnswer {
	return dryRunAnswer{
		JourneyID: c.journeyID, Version: c.version, Draft: c.draft, LeadsID: orNull(lead.LeadsID), Entry: entry,
		StartAt: stamp(at), EndAt: stamp(at), Path: []pathStep{}, Timeline: []timelineEntry{}, Messages: []dryRunMessage{},
	}
}

// touchpointsOnly refuses outcomes of nodes that send nothing.
func touchpointsOnly(c choice, outcomes map[string]journey.TouchpointResult) error {
	var p waypost.Problems
	for _, node := range slices.Sorted(maps.Keys(outcomes)) {
		if n, found := c.Node(node); !found || n.Type != journey.Touchpoint {
			p.Add(waypost.DetailOutOfRange, "outcomes."+clip(node), "there is no touchpoint of this id")
		}
	}
	return p.Err("")
}

// dryRunLead returns a lead, and when it got messages that count for the cap: those
// from before the start.
func (a *server) dryRunLead(ctx context.Context, r *request, c choice, id int64, start time.Time) (lead waypost.Lead, sent []time.Time, err error) {
	if lead, err = a.Leads.Lead(ctx, r.scope, id); err != nil {
		return lead, nil, err
	}
	if limit := c.FrequencyCap(); !limit.None() {
		sent, err = a.Deliveries.RecentTouchpoints(ctx, r.scope, id, start.Add(-time.Duration(limit.Per)), start, limit.Touchpoints)
	}
	return lead, sent, err
}

// webhooksOf returns the webhooks of a definition by their ids.
func (a *server) webhooksOf(ctx context.Context, r *request, c choice) (map[string]*waypost.Webhook, error) {
	hooks := map[string]*waypost.Webhook{}
	for _, id := range c.Webhooks() {
		w, err := a.Webhooks.Webhook(ctx, r.scope, id)
		if err != nil {
			return nil, err
		}
		hooks[id] = &w
	}
	return hooks, nil
}

// unwanted looks which channels leads are suppressed in, and returns what says why a touchpoint
// of one of them would be skipped. An invented lead, without an id, is suppressed in none.
func (a *server) unwanted(ctx context.Context, hooks map[string]*waypost.Webhook, leads []waypost.Lead) (func(webhookID string, lead waypost.Lead) string, error) {
	var ids []int64
	if slices.ContainsFunc(slices.Collect(maps.Values(hooks)), func(w *waypost.Webhook) bool { return w.Channel != "" }) {
		for _, lead := range leads {
			if lead.LeadsID != 0 { // an invented lead is not suppressed
				ids = append(ids, lead.LeadsID)
			}
		}
	}
	suppressed, err := a.Suppressions.SuppressedChannels(ctx, ids)
	if err != nil {
		return nil, err
	}
	return func(webhookID string, lead waypost.Lead) string {
		hook := hooks[webhookID]
		return hook.Unwanted(&lead.LeadFields, slices.Contains(suppressed[lead.LeadsID], hook.Channel))
	}, nil
}

func answerPathStep(s journey.PathStep) pathStep {
	return pathStep{
		s.NodeID, s.Type, s.Visit, stamp(s.Entered), stampOrNull(&s.Left), orNull(s.Result), orNull(s.Reason), orNull(s.Next), orNull(s.Way), s.Values,
	}
}

func answerDryRun(r *request, c choice, lead waypost.Lead, run journey.Run) (dryRunAnswer, error) {
	ans := dryRunAnswer{
		JourneyID: c.journeyID, Version: c.version, Draft: c.draft, LeadsID: orNull(lead.LeadsID),
		EndAt: stamp(run.At), Status: &run.Status, Limit: orNull(run.Limit),
		Path: described(run.Path, answerPathStep), Timeline: described(run.Timeline, answerTimelineEntry),
		Messages: make([]dryRunMessage, len(run.Touchpoints)), HeldOut: run.Status == waypost.EnrollmentHeldOut,
	}
	if g := run.Goal; g != nil {
		ans.Goal = &dryRunGoal{stamp(g.Until), !g.ConvertedAt.IsZero(), stampOrNull(&g.ConvertedAt), g.Worth.Float()}
	}
	for i, t := range run.Touchpoints {
		message := dryRunMessage{NodeID: t.NodeID, WebhookID: t.WebhookID, Visit: t.Visit, At: stamp(t.At), Succeed: t.Succeed, Error: orNull(t.Error)}
		if t.Error == "" {
			var err error
			if message.Body, err = dryRunMessageBody(r, c, lead, t); err != nil {
				return ans, err
			}
		}
		ans.Messages[i] = message
	}
	return ans, nil
}

// dryRunMessageBody makes the documented message, as an enrollment by the same
// application would.
func dryRunMessageBody(r *request, c choice, lead waypost.Lead, t journey.SimulatedTouchpoint) ([]byte, error) {
	enrollment := waypost.PrefixEnrollment + placeholder
	return waypost.Message{
		MessageID: waypost.PrefixMessage + placeholder, Version: waypost.MessageVersion, Timestamp: stamp(t.At), UserProfile: profileOf(r, lead),
		JourneyInfo: waypost.JourneyInfo{
			JourneyID: enrollment, JourneyName: c.Name(),
			ActionDefID: fmt.Sprintf("%s/%d/%s", c.journeyID, c.version, t.NodeID), ActionID: fmt.Sprintf("%s/%d", enrollment, t.Visit),
		},
		Params: t.Params,
	}.Encode()
}
