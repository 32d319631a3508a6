package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
)

// members is a JSON object in the order of its text.
type members []member

type member struct {
	name  string
	value json.RawMessage
}

// UnmarshalJSON reads an object.
func (m *members) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		*m = append(*m, member{name.(string), value})
	}
	return nil
}

// MarshalJSON writes the object as it was read.
func (m members) MarshalJSON() ([]byte, error) {
	out := bytes.NewBufferString("{")
	for i, x := range m {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := json.Marshal(x.name)
		if err != nil {
			return nil, err
		}
		out.Write(name)
		out.WriteByte(':')
		out.Write(x.value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// raw returns a member as it stands, nil if there is none.
func (m members) raw(name string) json.RawMessage {
	for _, x := range m {
		if x.name == name {
			return x.value
		}
	}
	return nil
}

// text returns a member as a person reads it: strings without quotes, null and
// what is missing as "".
func (m members) text(name string) string { return text(m.raw(name)) }

func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return clean(s)
	}
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil || compact.String() == "null" {
		return ""
	}
	return clean(compact.String())
}

// clean replaces what a terminal would act on instead of showing it.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, s)
}

// isTerminal tells whether a person sees what is written to w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// table writes aligned columns.
type table struct{ w *tabwriter.Writer }

func (c *cli) table(headings ...string) table {
	t := table{tabwriter.NewWriter(c.stdout, 0, 8, 2, ' ', 0)}
	if len(headings) > 0 {
		t.row(headings...)
	}
	return t
}

func (t table) row(cells ...string) {
	_, _ = io.WriteString(t.w, strings.Join(cells, "\t")+"\n") // flush reports the error
}

func (t table) flush() error { return t.w.Flush() }

// printJSON writes v as indented JSON. A json.RawMessage keeps the order of its
// members.
func (c *cli) printJSON(v any) error {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	_, err := c.stdout.Write(out.Bytes())
	return err
}

// printObject writes an object, one member a line, without the named ones.
func (c *cli) printObject(m members, without ...string) error {
	t := c.table()
	for _, x := range m {
		if !slices.Contains(without, x.name) {
			t.row(clean(x.name), text(x.value))
		}
	}
	return t.flush()
}

// printAnswer writes the object that a gateway answered.
func (c *cli) printAnswer(a answer) error {
	if c.output == outputJSON {
		return c.printJSON(json.RawMessage(a.body))
	}
	m, err := a.object()
	if err != nil {
		return err
	}
	return c.printObject(m)
}

// some is a number of things, such as "1 lead" or "2 leads".
func some[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// column is a column of a list: its heading and how to fill it.
type column struct {
	heading string
	value   func(members) string
}

// of is a column that shows one member.
func of(heading, name string) column {
	return column{heading, func(m members) string { return m.text(name) }}
}

// printRows writes objects below the headings of the columns.
func (c *cli) printRows(rows []members, columns ...column) error {
	headings := make([]string, len(columns))
	for i, col := range columns {
		headings[i] = col.heading
	}
	t := c.table(headings...)
	for _, row := range rows {
		cells := make([]string, len(columns))
		for i, col := range columns {
			cells[i] = col.value(row)
		}
		t.row(cells...)
	}
	return t.flush()
}
