package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"waypost"
)

// Events stores what leads did.
type Events interface {
	// AcceptEvent stores an event once for its EventID, and tells whether it was
	// not there before. NotFound: the lead.
	AcceptEvent(ctx context.Context, sc waypost.Scope, e waypost.Event) (fresh bool, err error)
}

// Bounds of an event's members.
const (
	maxEventID         = 255      // characters
	maxEventName       = 64       // characters
	maxEventProperties = 16 << 10 // bytes of JSON
)

type eventBody struct {
	EventID    string         `json:"eventId"`
	Name       string         `json:"name"`
	LeadsID    *int64         `json:"leadsId"`
	Properties map[string]any `json:"properties"`
}

func decodeEvent(r *request) (waypost.Event, error) {
	var body eventBody
	problems := waypost.DecodeJSON(r.body, &body)
	if noDocument(problems) {
		return waypost.Event{}, problems.Err("")
	}
	e := waypost.Event{EventID: body.EventID, Name: body.Name, Properties: body.Properties}
	if e.Properties == nil {
		e.Properties = map[string]any{}
	}
	var p waypost.Problems
	switch {
	case strings.TrimSpace(e.EventID) == "":
		p.Add(waypost.DetailNullValue, "eventId", "is missing or blank")
	case utf8.RuneCountInString(e.EventID) > maxEventID:
		p.Add(waypost.DetailTooLong, "eventId", "must be at most %d characters", maxEventID)
	case strings.ContainsFunc(e.EventID, unicode.IsControl):
		p.Add(waypost.DetailInvalidFormat, "eventId", "must not contain control characters")
	}
	checkEventName(&p, "name", e.Name)
	if body.LeadsID != nil {
		e.LeadsID = *body.LeadsID
	} else {
		p.Add(waypost.DetailNullValue, "leadsId", "is missing")
	}
	if err := checkObject(&p, "properties", body.Properties, maxEventProperties); err != nil {
		return waypost.Event{}, err
	}
	return e, append(problems, withoutTargets(p, problems)...).Err("")
}

// checkEventName notes a name that no node of a journey can have (package journey).
func checkEventName(p *waypost.Problems, target, name string) {
	switch {
	case name == "":
		p.Add(waypost.DetailNullValue, target, "is missing")
	case !isEventName(name):
		p.Add(waypost.DetailInvalidFormat, target, "must be 1 to %d letters, digits, _, - and .", maxEventName)
	}
}

func isEventName(name string) bool {
	return name != "" && len(name) <= maxEventName && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("_-.", r)
	})
}

// sizeOf is how many bytes of JSON an object takes, without the escapes that only
// HTML needs: as many as were sent.
func sizeOf(object map[string]any) (int, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(object); err != nil {
		return 0, fmt.Errorf("measure an object: %w", err)
	}
	return b.Len() - len("\n"), nil
}

// eventAnswer is what a client gets for an accepted event.
type eventAnswer struct {
	EventID string `json:"eventId"`
	// Duplicate says that an event of this id was accepted before: this one had no
	// effect, whatever it says.
	Duplicate bool `json:"duplicate"`
}

// acceptEvent stores an event; enrollments that wait for it are told by the pump.
func (a *api) acceptEvent(ctx context.Context, r *request) (answer, error) {
	e, err := decodeEvent(r)
	if err != nil {
		return answer{}, err
	}
	return effect(ctx, r, func(ctx context.Context) (bool, error) {
		fresh, err := a.Events.AcceptEvent(ctx, r.scope, e)
		if err == nil && fresh {
			a.Waker.Wake()
		}
		return fresh, err
	}, func(fresh bool) (answer, error) {
		return answer{status: http.StatusAccepted, body: eventAnswer{e.EventID, !fresh}}, nil
	})
}
