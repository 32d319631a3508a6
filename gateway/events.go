package gateway

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"waypost"
)

// Events stores what leads did.
type Events interface {
	// AcceptEvent stores an event once for its EventID, and tells whether it was
	// not there before. NotFound: the lead.
	AcceptEvent(ctx context.Context, by waypost.Caller, e waypost.Event) (fresh bool, err error)
}

// Bounds of an event's members.
const (
	maxEventID         = 255      // characters
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
	err := checked(waypost.DecodeJSON(r.body, &body), func(p *waypost.Problems) {
		switch id := body.EventID; {
		case strings.TrimSpace(id) == "":
			p.Add(waypost.DetailNullValue, "eventId", "is missing or blank")
		case utf8.RuneCountInString(id) > maxEventID:
			p.Add(waypost.DetailTooLong, "eventId", "must be at most %d characters", maxEventID)
		case strings.ContainsFunc(id, unicode.IsControl):
			p.Add(waypost.DetailInvalidFormat, "eventId", "must not contain control characters")
		}
		checkEventName(p, "name", body.Name)
		if body.LeadsID == nil {
			p.Add(waypost.DetailNullValue, "leadsId", "is missing")
		}
		checkObject(p, "properties", body.Properties, maxEventProperties)
	})
	if err != nil {
		return waypost.Event{}, err
	}
	if body.Properties == nil {
		body.Properties = map[string]any{}
	}
	return waypost.Event{EventID: body.EventID, Name: body.Name, LeadsID: *body.LeadsID, Properties: body.Properties}, nil
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
func (a *api) acceptEvent(ctx context.Context, r *request) (answer, error) {
	e, err := decodeEvent(r)
	if err != nil {
		return answer{}, err
	}
	return effect(ctx, r, func(ctx context.Context) (bool, error) {
		fresh, err := a.Events.AcceptEvent(ctx, r.by(), e)
		if err == nil && fresh {
			a.Waker.Wake()
		}
		return fresh, err
	}, func(fresh bool) (answer, error) {
		return answer{status: http.StatusAccepted, body: eventAnswer{e.EventID, !fresh}}, nil
	})
}
