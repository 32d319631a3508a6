package journey

import (
	"bytes"
	"encoding/json"

	"waypost"
)

// Param is one custom parameter of a touchpoint: a string, which is a Liquid
// template, or a number, which keeps its digits as they were written. A draft may hold
// anything else; Check reports it.
type Param struct {
	value any // a string, a json.Number, or what else JSON decodes to
}

// Text returns the template, and whether the param is one.
func (p Param) Text() (string, bool) {
	text, ok := p.value.(string)
	return text, ok
}

// Number returns the number, and whether the param is one.
func (p Param) Number() (json.Number, bool) {
	number, ok := p.value.(json.Number)
	return number, ok
}

// MarshalJSON writes the param in its canonical form.
func (p Param) MarshalJSON() ([]byte, error) { return waypost.EncodeJSON(p.value) }

// UnmarshalJSON reads any JSON value.
func (p *Param) UnmarshalJSON(b []byte) error {
	p.value = nil
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	return dec.Decode(&p.value)
}
