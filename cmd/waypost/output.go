package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
)

// members is a JSON object that keeps the order of its members.
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

// raw returns a member's JSON, nil if there is none.
func (m members) raw(name string) json.RawMessage {
	for _, x := range m {
		if x.name == name {
			return x.value
		}
	}
	return nil
}

// list returns a member that is a list of objects, nil if there is none.
func (m members) list(name string) ([]members, error) {
	var list []members
	if raw := m.raw(name); raw != nil && json.Unmarshal(raw, &list) != nil {
		return nil, fmt.Errorf("the answer's %s is no list", name)
	}
	return list, nil
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

// clean replaces control characters, which could change a terminal's state.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, s)
}

// What is around bold text on a terminal.
const boldOn, boldOff = "\x1b[1m", "\x1b[22m"

var withoutBold = strings.NewReplacer(boldOn, "", boldOff, "")

// table writes aligned columns. Widths are those on a terminal, where a Chinese character
// takes two cells.
type table struct {
	w    io.Writer
	rows [][]string // not flushed yet
}

func (c *cli) table(headings ...string) *table {
	t := &table{w: c.stdout}
	if len(headings) > 0 {
		t.row(headings...)
	}
	return t
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) flush() error {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], widthOf(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-widthOf(cell)+2))
			}
		}
		b.WriteByte('\n')
	}
	t.rows = nil
	_, err := io.WriteString(t.w, b.String())
	return err
}

func widthOf(s string) int { return uniseg.StringWidth(withoutBold.Replace(s)) }

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
	_, err := c.stdout.Write(plainSigns(out.Bytes()))
	return err
}

// escapedSign is an escape sequence of JSON; those of <, > and &, with which encoders guard HTML, are taken apart.
var escapedSign = regexp.MustCompile(`\\(u003c|u003e|u0026|.)`)

// plainSigns writes <, > and & in JSON as they are.
func plainSigns(text []byte) []byte {
	return escapedSign.ReplaceAllFunc(text, func(escape []byte) []byte {
		switch string(escape[1:]) {
		case "u003c":
			return []byte("<")
		case "u003e":
			return []byte(">")
		case "u0026":
			return []byte("&")
		}
		return escape
	})
}

// printLine writes an object as JSON on one line.
func (c *cli) printLine(m members) error {
	line, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	_, err = c.stdout.Write(append(line, '\n'))
	return err
}

// printObject writes an object, one member a line, but for the named ones.
func (c *cli) printObject(m members, without ...string) error {
	t := c.table()
	for _, x := range m {
		if !slices.Contains(without, x.name) {
			t.row(clean(x.name), text(x.value))
		}
	}
	return t.flush()
}

// printWithProblems is printObject of something that tells its problems, which become warnings.
func (c *cli) printWithProblems(m members, without ...string) error {
	problems, err := m.list("problems")
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintf(c.stderr, "warning: it goes on, but would be refused now: %s: %s\n", p.text("target"), p.text("message"))
	}
	return c.printObject(m, append(without, "problems")...)
}

// printAnswer writes the object that a gateway answered.
func (c *cli) printAnswer(a answer) error {
	return c.print(a, func(m members) error { return c.printObject(m) })
}

// print writes an answer: with -o json as it came, otherwise print writes its object.
func (c *cli) print(a answer, print func(members) error) error {
	return printAs(c, a, "JSON object", print)
}

// printAs is print for an answer that is decoded into a T; noun is its name in an error.
func printAs[T any](c *cli, a answer, noun string, print func(T) error) error {
	if c.output == outputJSON {
		return c.printJSON(json.RawMessage(a.body))
	}
	var v T
	if err := a.decode(&v, noun); err != nil {
		return err
	}
	return print(v)
}

// printDone reports success where there is no answer to print: a text for people, an
// object with -o json.
func (c *cli) printDone(said string, object map[string]any) error {
	if c.output == outputJSON {
		return c.printJSON(object)
	}
	_, err := fmt.Fprintln(c.stdout, said)
	return err
}

// printList writes the list in a member of an object below an empty line; nothing if the
// list is empty or missing.
func (c *cli) printList(m members, name string, columns ...column) error {
	rows, err := m.list(name)
	if err != nil || len(rows) == 0 {
		return err
	}
	fmt.Fprintln(c.stdout)
	return c.printRows(rows, columns...)
}

// quantity writes a number of things, such as "1 lead" or "2 leads".
func quantity[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// column is a column of a list: its heading, and the cell of a row.
type column struct {
	heading string
	value   func(members) string
}

// col is a column that shows one member.
func col(heading, name string) column {
	return column{heading, func(m members) string { return m.text(name) }}
}

func headings(columns []column) []string {
	texts := make([]string, len(columns))
	for i, col := range columns {
		texts[i] = col.heading
	}
	return texts
}

func cells(row members, columns []column) []string {
	texts := make([]string, len(columns))
	for i, col := range columns {
		texts[i] = col.value(row)
	}
	return texts
}

// printRows writes objects below the headings of the columns.
func (c *cli) printRows(rows []members, columns ...column) error {
	t := c.table(headings(columns)...)
	for _, row := range rows {
		t.row(cells(row, columns)...)
	}
	return t.flush()
}
