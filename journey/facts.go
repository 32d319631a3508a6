package journey

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"waypost"
	"waypost/journey/liquid"
)

// Facts is what conditions and templates can ask about. It holds personal data
// and never enters a state, a reason or an error.
type Facts struct {
	Lead                   waypost.Lead
	JourneyID, JourneyName string
	Version                int
	EnrollmentID, EntryKey string
	Params                 map[string]any // of the enrollment
	// Touchpoints holds the latest execution of each touchpoint that was passed, by
	// node id.
	Touchpoints map[string]TouchpointResult
	// Event holds the properties of the event that a waitForEvent, an entry or a goal looks
	// at. Nothing else can ask about it.
	Event map[string]any
	// Began is the event that the enrollment began by, nil if it began by something else:
	// enrollment.event.
	Began *waypost.Event
	// Record is what is recorded of the lead, as far as Needs says. Nil: it is not known, and
	// a condition that asks for it is an error.
	Record *waypost.LeadRecord
	// Segments are those that a waitFor asks for, with those that they name, by their ids: to tell
	// who is in them at another time. The others need none.
	Segments map[string]waypost.SegmentRule
	// Now is the time of the decision or of the rendering: the virtual clock's in a dry
	// run. Zero: unknown, and a condition that asks for it is an error.
	Now time.Time
}

// TouchpointResult is what is known of a touchpoint that was passed.
type TouchpointResult = waypost.TouchpointResult

// The names that conditions and templates know (docs/contract.md, "Conditions").
const (
	varLead        = "lead"
	varJourney     = "journey"
	varEnrollment  = "enrollment"
	varTouchpoints = "touchpoints"
	varEvent       = "event" // in the conditions of a waitForEvent, an entry and a goal only, and in enrollment
)

// variables returns the facts by name, without the event, as templates take them:
// objects, lists, strings, booleans, int, float64, instants, and nil for a value that is
// not set.
func (f *Facts) variables() map[string]any {
	touchpoints := make(map[string]any, len(f.Touchpoints))
	for id, t := range f.Touchpoints {
		touchpoints[id] = map[string]any{
			"succeed": t.Succeed, "httpStatus": t.HTTPStatus, "message": t.Message, "attempts": t.Attempts,
		}
	}
	return map[string]any{
		varLead:        leadObject(&f.Lead),
		varJourney:     map[string]any{"id": f.JourneyID, "name": f.JourneyName, "version": f.Version},
		varEnrollment:  map[string]any{"id": f.EnrollmentID, "entryKey": f.EntryKey, "params": plainObject(f.Params), varEvent: eventObject(f.Began)},
		varTouchpoints: touchpoints,
	}
}

// eventObject is the event that an enrollment began by.
func eventObject(e *waypost.Event) any {
	if e == nil {
		return nil
	}
	return map[string]any{"id": e.EventID, "name": e.Name, "properties": plainObject(e.Properties), "occurredAt": timestamp(e.OccurredAt), "acceptedAt": timestamp(e.AcceptedAt)}
}

// leadObject is the lead as conditions and templates see it. Every member is there; one without a value
// is null.
func leadObject(l *waypost.Lead) map[string]any {
	phones := make([]any, len(l.MobilePhone))
	for i, phone := range l.MobilePhone {
		phones[i] = phone
	}
	return map[string]any{
		"leadsId":        int(l.LeadsID),
		"leadsGroup":     integer(l.LeadsGroup),
		"region":         integer(l.Region),
		"address":        text(l.Address),
		"remark":         text(l.Remark),
		"name":           l.Name,
		"mobilePhone":    phones,
		"gender":         integer(l.Gender),
		"birthday":       text(l.Birthday),
		"email":          text(l.Email),
		"wechat":         text(l.Wechat),
		"qq":             text(l.QQ),
		"telephone":      text(l.Telephone),
		"company":        text(l.Company),
		"companyPhone":   text(l.CompanyPhone),
		"companyEmail":   text(l.CompanyEmail),
		"companyWebsite": text(l.CompanyWebsite),
		"externalId":     text(l.ExternalID),
		"openId":         text(l.OpenID),
		"customFields":   plainObject(l.CustomFields),
		"consents":       plainObject(l.Consents),
		"test":           l.Test,
		"createdAt":      timestamp(l.CreatedAt),
		"updatedAt":      timestamp(l.UpdatedAt),
	}
}

func integer(p *int64) any {
	if p == nil {
		return nil
	}
	return int(*p)
}

func text(p *string) any {
	if p == nil {
		return nil
	}
	return *p
}

func timestamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return liquid.Instant(t)
}

// maxExact is the largest integer up to which a float64 holds every integer.
const maxExact = 1 << 53

// numeric is an int if f is an integer that a float64 holds exactly.
func numeric(f float64) any {
	if f == math.Trunc(f) && math.Abs(f) <= maxExact {
		return int(f)
	}
	return f
}

func plainObject(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for name, v := range m {
		out[name] = plain(v)
	}
	return out
}

// plain brings what JSON decodes to, whichever way it was decoded, into the few
// types that variables hold. Anything else becomes nil.
func plain(v any) any {
	switch v := v.(type) {
	case string, bool, int:
		return v
	case float64:
		return numeric(v)
	case int64:
		return int(v)
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return nil
		}
		return numeric(f)
	case map[string]any:
		return plainObject(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plain(e)
		}
		return out
	}
	return nil
}
