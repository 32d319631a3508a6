package api

import (
	"encoding/json"
	"time"

	"waypost"
)

// Time is an instant, written in UTC with milliseconds.
type Time struct{ time.Time }

// At is the time as it is answered.
func At(t time.Time) Time { return Time{t} }

// String is the time as docs/contract.md, "Values" says.
func (t Time) String() string { return t.UTC().Format(waypost.TimeFormat) }

// MarshalJSON writes the time as String does.
func (t Time) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// TimeOrNull is a Time whose zero value is null.
type TimeOrNull struct{ time.Time }

// AtOrNull is the time as it is answered, null of the zero time.
func AtOrNull(t time.Time) TimeOrNull { return TimeOrNull{t} }

// String is the time as that of Time, or "".
func (t TimeOrNull) String() string {
	if t.IsZero() {
		return ""
	}
	return Time(t).String()
}

// MarshalJSON writes the time, or null.
func (t TimeOrNull) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return null, nil
	}
	return Time(t).MarshalJSON()
}

// TextOrNull is a text whose zero value is null.
type TextOrNull string

// MarshalJSON writes the text, or null.
func (t TextOrNull) MarshalJSON() ([]byte, error) {
	if t == "" {
		return null, nil
	}
	return waypost.EncodeJSON(string(t))
}

// IntOrNull is a number whose zero value is null.
type IntOrNull int

// MarshalJSON writes the number, or null.
func (n IntOrNull) MarshalJSON() ([]byte, error) {
	if n == 0 {
		return null, nil
	}
	return waypost.EncodeJSON(int(n))
}

// ObjectOrNull is an object with members of any kind, as it is stored; null without one.
type ObjectOrNull json.RawMessage

// MarshalJSON writes the object, or null.
func (o ObjectOrNull) MarshalJSON() ([]byte, error) {
	if o == nil {
		return null, nil
	}
	return o, nil
}

// UnmarshalJSON keeps the object as it is written.
func (o *ObjectOrNull) UnmarshalJSON(text []byte) error {
	*o = nil
	if string(text) != "null" {
		*o = append(*o, text...)
	}
	return nil
}

// Schema is what reflection cannot tell of it.
func (ObjectOrNull) Schema() string { return `{type: object}` }

var null = []byte("null")

// Cursor is where the next page of a list begins, null on the last one.
type Cursor string

// MarshalJSON writes the cursor, or null.
func (c Cursor) MarshalJSON() ([]byte, error) { return TextOrNull(c).MarshalJSON() }

// List is one page of a list.
type List[T any] struct {
	Items      []T    `json:"items" jsonschema:"maxItems=500"`
	NextCursor Cursor `json:"nextCursor"`
}
