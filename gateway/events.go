package gateway

import (
	"context"
	"errors"
	"iter"
	"math"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"waypost"
)

// Events stores what leads did.
type Events interface {
	// AcceptEvent stores an event once for its EventID, and tells whether it was
	// not there before. NotFound: the lead. Conflict with a detail Ambiguous: several leads have the
	// e-mail address.
	AcceptEvent(ctx context.Context, by waypost.Caller, e waypost.Event) (inserted bool, err error)
	// ImportEvents does so with each line that has no Err. Those of a lead that is not there
	// fail by themselves. An error of rows ends it; what was stored before stays.
	ImportEvents(ctx context.Context, by waypost.Caller, rows iter.Seq2[waypost.EventRow, error]) (waypost.EventImport, error)
	ListEvents(ctx context.Context, sc waypost.Scope, f waypost.EventFilter, page waypost.Page) ([]waypost.Event, error)
	// EventNames lists the names that events have, the most frequent first.
	EventNames(ctx context.Context, sc waypost.Scope) ([]waypost.EventName, error)
}

// maxEventID bounds an eventId, in characters.
const maxEventID = 255

type eventBody struct {
	EventID     string         `json:"eventId"`
	Name        string         `json:"name"`
	LeadsID     *int64         `json:"leadsId"`
	ExternalID  *string        `json:"externalId"`
	Email       *string        `json:"email"`
	MobilePhone *string        `json:"mobilePhone"`
	Create      bool           `json:"create"`
	Properties  map[string]any `json:"properties"`
	OccurredAt  *string        `json:"occurredAt"`
}

// readEvent reads and checks an event that the sender of the request reports.
func (a *server) readEvent(r *request, document []byte) (e waypost.Event, err error) {
	var body eventBody
	err = checked(waypost.DecodeJSON(document, &body), func(p *waypost.Problems) {
		checkEventID(p, "eventId", body.EventID)
		checkEventName(p, "name", body.Name)
		a.eventLead(p, body, &e)
		checkObject(p, "properties", body.Properties, waypost.MaxEventProperties)
		e.OccurredAt = a.occurredAt(p, body.OccurredAt)
	})
	if err != nil {
		return waypost.Event{}, err
	}
	if e.To.Create && !r.app.Allows(waypost.GrantLeadsImport) {
		return waypost.Event{}, lacksGrant(waypost.GrantLeadsImport, "create")
	}
	if body.Properties == nil {
		body.Properties = map[string]any{}
	}
	e.EventID, e.Name, e.Properties = body.EventID, body.Name, body.Properties
	return e, nil
}

// eventLead reads whose an event is: one address of a lead.
func (a *server) eventLead(p *waypost.Problems, body eventBody, e *waypost.Event) {
	given := 0
	for _, there := range []bool{body.LeadsID != nil, body.ExternalID != nil, body.Email != nil, body.MobilePhone != nil} {
		if there {
			given++
		}
	}
	switch {
	case given == 0:
		p.Add(waypost.DetailNullValue, "leadsId", "is missing; an event has one of leadsId, externalId, email and mobilePhone")
		return
	case given > 1:
		p.Add(waypost.DetailInvalidFormat, "leadsId", "must be the only one of leadsId, externalId, email and mobilePhone")
		return
	case body.Create && body.ExternalID == nil:
		p.Add(waypost.DetailInvalidFormat, "create", "needs externalId: only a lead that has one is made")
	}
	if body.LeadsID != nil {
		e.LeadsID = *body.LeadsID
		return
	}
	lead := waypost.ReadAddress(p, body.MobilePhone, body.Email, body.ExternalID, a.PhoneRegion)
	lead.Create = body.Create
	e.To = lead
}

// occurredAt reads when an event has occurred; the zero time says that it is when it is accepted.
func (a *server) occurredAt(p *waypost.Problems, raw *string) time.Time {
	before := len(*p)
	at := moment(p, "occurredAt", raw, "")
	if raw == nil || len(*p) > before {
		return time.Time{}
	}
	switch now := a.Now(); {
	case at.Before(now.AddDate(-waypost.MaxEventYears, 0, 0)):
		p.Add(waypost.DetailOutOfRange, "occurredAt", "must be at most %d years ago", waypost.MaxEventYears)
	case at.After(now.Add(waypost.MaxEventAhead)):
		p.Add(waypost.DetailOutOfRange, "occurredAt", "must be at most %d minutes ahead of now, which is %s here", int(waypost.MaxEventAhead.Minutes()), stamp(now))
	}
	return at
}

func checkEventID(p *waypost.Problems, target, id string) {
	switch {
	case strings.TrimSpace(id) == "":
		p.Add(waypost.DetailNullValue, target, "is missing or blank")
	case utf8.RuneCountInString(id) > maxEventID:
		p.Add(waypost.DetailTooLong, target, "must be at most %d characters", maxEventID)
	case strings.ContainsFunc(id, unicode.IsControl):
		p.Add(waypost.DetailInvalidFormat, target, "must not contain control characters")
	}
}

// checkEventName notes a name that no node of a journey can have (package journey).
func checkEventName(p *waypost.Problems, target, name string) {
	switch {
	case name == "":
		p.Add(waypost.DetailNullValue, target, "is missing")
	case !eventName.MatchString(name):
		p.Add(waypost.DetailInvalidFormat, target, "must be 1 to 64 letters, digits, _, - and .")
	}
}

var eventName = regexp.MustCompile(`^[0-9A-Za-z_.-]{1,64}$`)

// eventAnswer is what a client gets for an accepted event.
type eventAnswer struct {
	EventID string `json:"eventId"`
	// Duplicate says that an event of this id was accepted before: this one had no
	// effect, whatever it says.
	Duplicate bool `json:"duplicate"`
}

// acceptEvent stores an event; enrollments that wait for it are told by the pump.
func (a *server) acceptEvent(ctx context.Context, r *request) (answer, error) {
	e, err := a.readEvent(r, r.body)
	if err != nil {
		return answer{}, err
	}
	return effect(ctx, r, func(ctx context.Context) (bool, error) {
		inserted, err := a.Events.AcceptEvent(ctx, r.by(), e)
		if err == nil && inserted {
			a.Waker.Wake()
		}
		return inserted, err
	}, func(inserted bool) (answer, error) {
		return answer{status: http.StatusAccepted, body: eventAnswer{e.EventID, !inserted}}, nil
	})
}

// listedEvent is an event as a list has it.
type listedEvent struct {
	EventID    string         `json:"eventId"`
	Name       string         `json:"name"`
	LeadsID    int64          `json:"leadsId"`
	Properties map[string]any `json:"properties"`
	OccurredAt string         `json:"occurredAt"`
	AcceptedAt string         `json:"acceptedAt"`
}

func answerEvent(e waypost.Event) listedEvent {
	return listedEvent{e.EventID, e.Name, e.LeadsID, e.Properties, stamp(e.OccurredAt), stamp(e.AcceptedAt)}
}

func (a *server) listEvents(ctx context.Context, r *request) (answer, error) {
	filter := waypost.EventFilter{
		LeadsID: r.integer("leadsId", 1, math.MaxInt64, 0), Name: r.params["name"],
		From: r.moment("from"), To: r.moment("to"), OldestFirst: r.oldestFirst("occurredAt"),
	}
	if filter.Name != "" {
		checkEventName(&r.queryFaults, "name", filter.Name)
	}
	inOrder(&r.queryFaults, "", "from", "to", filter.From, filter.To)
	return answerPage(r, func(page waypost.Page) ([]waypost.Event, error) {
		return a.Events.ListEvents(ctx, r.scope, filter, page)
	}, waypost.Event.Place, answerEvent)
}

// eventNames is the answer with the names that events have.
type eventNames struct {
	Items []eventNameAnswer `json:"items"`
}

type eventNameAnswer struct {
	Name   string `json:"name"`
	Count  int    `json:"count"`
	LastAt string `json:"lastAt"`
}

func (a *server) listEventNames(ctx context.Context, r *request) (answer, error) {
	names, err := a.Events.EventNames(ctx, r.scope)
	if err != nil {
		return answer{}, err
	}
	return ok(eventNames{described(names, func(n waypost.EventName) eventNameAnswer { return eventNameAnswer{n.Name, n.Count, stamp(n.LastAt)} })})
}

// eventImportAnswer is the result of an import of events.
type eventImportAnswer struct {
	Total      int           `json:"total"`
	Accepted   int           `json:"accepted"`
	Duplicates int           `json:"duplicates"`
	Failed     int           `json:"failed"`
	Errors     []importError `json:"errors"`
}

// answerEventImport answers 202 as for one event if all are accepted, else 207.
func answerEventImport(im waypost.EventImport) (answer, error) {
	status := http.StatusAccepted
	if im.Failed > 0 {
		status = http.StatusMultiStatus
	}
	return answer{status: status, body: eventImportAnswer{im.Total, im.Accepted, im.Duplicates, im.Failed, described(im.Errors, answerImportError)}}, nil
}

// importEvents accepts the events before it answers, as importArticles does with articles.
func (a *server) importEvents(ctx context.Context, r *request) (answer, error) {
	if err := checkText(r.spool, r.charset); err != nil {
		return answer{}, err
	}
	ans, err := effect(ctx, r, func(ctx context.Context) (waypost.EventImport, error) {
		return a.Events.ImportEvents(ctx, r.by(), a.eventRows(r, waypost.MaxImportRows))
	}, answerEventImport)
	a.Waker.Wake() // also after an error: some may be accepted
	return ans, err
}

// eventRows reads an import of one event a line.
func (a *server) eventRows(r *request, most int) iter.Seq2[waypost.EventRow, error] {
	return eachLine(r.spool, r.charset, most, maxBody, func(line importLine) (row waypost.EventRow, err error) {
		row = waypost.EventRow{Line: line.number, Err: line.fault}
		if line.fault == nil {
			if row.Event, err = a.readEvent(r, line.text); errors.As(err, &row.Err) {
				err = nil
			}
		}
		return row, err
	})
}
