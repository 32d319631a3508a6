package journey

import (
	"bytes"
	"encoding/json"
)

// Param is one custom parameter of a touchpoint: a string, which is a Liquid
// template, or a number, whose text is kept as it was written. A draft may hold
// anything else; Check reports it.
type Param struct {
	text   string
	number json.Number
	other  string // canonical JSON of what is neither
	isText bool
}

// Text returns the template, and whether the param is one.
func (p Param) Text() (string, bool) { return p.text, p.isText }

// Number returns the number, and whether the param is one.
func (p Param) Number() (json.Number, bool) { return p.number, p.number != "" }

// MarshalJSON writes the param in its canonical form.
func (p Param) MarshalJSON() ([]byte, error) {
	switch {
	case p.isText:
		return marshal(p.text)
	case p.number != "":
		return []byte(p.number), nil
	case p.other != "":
		return []byte(p.other), nil
	}
	return []byte("null"), nil
}

// UnmarshalJSON reads any JSON value.
func (p *Param) UnmarshalJSON(b []byte) error {
	*p = Param{}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		p.text, p.isText = v, true
	case json.Number:
		p.number = v
	case nil:
	default:
		canonical, err := marshal(v)
		p.other = string(canonical)
		return err
	}
	return nil
}

// marshal writes JSON without the escapes that only HTML needs.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
