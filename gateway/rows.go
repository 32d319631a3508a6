package gateway

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"waypost"
)

// Bounds of what is read of an import, in bytes.
const (
	readBuffer = 64 << 10
	// maxRow is the longest row: a longer one fails. It is several times as long as
	// the longest valid lead.
	maxRow = 1 << 20
	// maxHeld is how much of a row is read to find its end.
	maxHeld = 4 << 20
)

// importForm says how the body of an import is to be read.
type importForm struct {
	media, charset string
	mode           waypost.ImportMode
	match          waypost.ImportMatch
	phoneRegion    string
}

// importRows splits the body of an import into rows, with constant memory. A row that
// cannot be read is one with a Fault; an error, a BadRequest, means that what follows
// cannot be read either, or that the file is not what it should be, and ends the rows.
func importRows(file io.Reader, form importForm) iter.Seq2[waypost.ImportRow, error] {
	return upTo(waypost.MaxImportRows, "rows", func() (func() (waypost.ImportRow, error), error) {
		return rowReader(file, form)
	})
}

// upTo gives the rows of the reader that open makes, until that returns io.EOF. Any other
// error ends them, and so does, as PayloadTooLarge, one row more than most.
func upTo[R any](most int, rows string, open func() (next func() (R, error), err error)) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var none R
		next, err := open()
		for n := 0; err == nil; n++ {
			var row R
			if row, err = next(); err == nil && n == most {
				err = waypost.Errorf(waypost.CodePayloadTooLarge, "", "the import has more than %d %s; split it", most, rows)
			}
			if err == nil && !yield(row, nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(none, err)
		}
	}
}

// rowReader returns what reads the next row, and io.EOF after the last.
func rowReader(file io.Reader, form importForm) (next func() (waypost.ImportRow, error), err error) {
	in, err := textReader(file, form.charset)
	if err != nil {
		return nil, err
	}
	switch form.media {
	case "text/csv":
		rows, err := newCSVRows(in, form)
		if err != nil {
			return nil, err
		}
		return rows.next, nil
	case contentTypeNDJSON:
		return (&lineRows{newLineReader(in, maxRow)}).next, nil
	}
	return newListRows(in).next, nil
}

// rowFault is what is wrong with one row.
func rowFault(code waypost.DetailCode, target, format string, args ...any) *waypost.Error {
	var p waypost.Problems
	p.Add(code, target, format, args...)
	var fault *waypost.Error
	errors.As(p.Err(""), &fault)
	return fault
}

// brokenAt ends an import at a line after which nothing can be read.
func brokenAt(line int, message string) *waypost.Error {
	return rowFault(waypost.DetailInvalidFormat, "", "line %d: %s", line, message)
}

// lineRows reads an import of one JSON object a line.
type lineRows struct{ lineReader }

func (l *lineRows) next() (waypost.ImportRow, error) {
	for {
		line, err := l.lineReader.next()
		if err != nil {
			return waypost.ImportRow{}, err
		}
		if line.fault == nil && isEnd(line.text) {
			continue
		}
		row := waypost.ImportRow{Line: line.number, Fault: line.fault}
		if line.fault == nil {
			row.Data = bytes.Clone(unwrapped(line.text))
		}
		return row, nil
	}
}

// lineReader reads lines of JSON. Blank ones are skipped.
type lineReader struct {
	in   *bufio.Reader
	most int // bytes of a line; a longer one is a fault
	line int
	text []byte
}

// importLine is a line that is valid JSON, or what is wrong with it.
type importLine struct {
	number int    // from 1
	text   []byte // until the next line is read
	fault  *waypost.Error
}

func newLineReader(text io.Reader, most int) lineReader {
	return lineReader{in: bufio.NewReaderSize(text, readBuffer), most: most}
}

// next returns io.EOF after the last line.
func (l *lineReader) next() (importLine, error) {
	for {
		tooLong, err := l.readLine()
		if err != nil {
			return importLine{}, err
		}
		line := importLine{number: l.line, text: bytes.TrimSpace(l.text)}
		switch {
		case tooLong:
			line.fault = rowFault(waypost.DetailTooLong, "", "the line is longer than %d bytes", l.most)
		case len(line.text) == 0:
			continue
		case !json.Valid(line.text):
			line.fault = rowFault(waypost.DetailInvalidFormat, "", "the line is not valid JSON: each line must hold one object, as a whole")
		}
		return line, nil
	}
}

// checkText reads a file to its end, and goes back to its beginning.
func checkText(file io.ReadSeeker, charset string) error {
	in, err := textReader(file, charset)
	if err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	if err != nil {
		return err
	}
	_, err = file.Seek(0, io.SeekStart)
	return err
}

// eachLine reads an import of one JSON object a line, which is stored as it is read, with
// constant memory. read makes a row of a line, which has its fault if it cannot be one; an error
// means that the file cannot be read, or, PayloadTooLarge, that it has more than most lines:
// short ones that all fail would keep the database busy for minutes. longest is how many bytes
// a line can have.
func eachLine[R any](file io.Reader, charset string, most, longest int, read func(importLine) (R, error)) iter.Seq2[R, error] {
	return upTo(most, "lines", func() (func() (R, error), error) {
		in, err := textReader(file, charset)
		lines := newLineReader(in, longest)
		return func() (row R, err error) {
			line, err := lines.next()
			if err != nil {
				return row, err
			}
			return read(line)
		}, err
	})
}

// readLine reads a line into l.text; the rest of a line that is too long is thrown away.
func (l *lineReader) readLine() (tooLong bool, err error) {
	l.text = l.text[:0]
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); {
		var piece []byte
		piece, err = l.in.ReadSlice('\n')
		if tooLong = tooLong || len(l.text)+len(piece) > l.most; !tooLong {
			l.text = append(l.text, piece...)
		}
	}
	if errors.Is(err, io.EOF) && (len(l.text) > 0 || tooLong) {
		err = nil // the last line has no end
	}
	l.line++
	return tooLong, err
}

// isEnd tells whether a line is the last one of an export, which is no lead.
func isEnd(text []byte) bool {
	if !bytes.Contains(text, []byte(`"end"`)) || len(text) > 64 {
		return false
	}
	var end struct {
		End   *bool  `json:"end"`
		Count *int64 `json:"count"`
	}
	return len(waypost.DecodeJSON(text, &end)) == 0 && end.End != nil && *end.End && end.Count != nil
}

// unwrapped is the businessParam of a row that has nothing else, as the body of a
// creation, or the row itself.
func unwrapped(row []byte) []byte {
	if !bytes.Contains(row, []byte(`"`+businessParam+`"`)) {
		return row
	}
	dec := json.NewDecoder(bytes.NewReader(row))
	var inner json.RawMessage
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return row
	}
	if token, err := dec.Token(); err != nil || token != businessParam {
		return row
	}
	if err := dec.Decode(&inner); err != nil || dec.More() || inner[0] != '{' {
		return row
	}
	return inner
}

// listRows reads an import of the form {"leads":[…]}.
type listRows struct {
	dec   *json.Decoder
	held  *heldReader
	row   int
	inner bool // whether it is in the list
}

func newListRows(in io.Reader) *listRows {
	held := &heldReader{in: in}
	return &listRows{dec: json.NewDecoder(held), held: held}
}

const leadsMember = "leads"

// next returns io.EOF after the last lead. One that is too long is a fault of its row only.
func (l *listRows) next() (waypost.ImportRow, error) {
	if !l.inner {
		if err := l.begin(); err != nil {
			return waypost.ImportRow{}, l.broken(err)
		}
		l.inner = true
	}
	l.held.since = 0
	if !l.dec.More() {
		if err := l.end(); err != nil {
			return waypost.ImportRow{}, l.broken(err)
		}
		return waypost.ImportRow{}, io.EOF
	}
	l.row++
	var text json.RawMessage
	if err := l.dec.Decode(&text); err != nil {
		return waypost.ImportRow{}, l.broken(err)
	}
	row := waypost.ImportRow{Line: l.row}
	if len(text) > maxRow {
		row.Fault = rowFault(waypost.DetailTooLong, "", "the lead is longer than %d bytes", maxRow)
	} else {
		row.Data = bytes.Clone(unwrapped(text))
	}
	return row, nil
}

// begin reads what stands before the first lead.
func (l *listRows) begin() error {
	if token, err := l.dec.Token(); err != nil {
		return err
	} else if token != json.Delim('{') {
		return rowFault(waypost.DetailInvalidType, "", "must be an object with the member %s", leadsMember)
	}
	if !l.dec.More() {
		if _, err := l.dec.Token(); err != nil {
			return err
		}
		return rowFault(waypost.DetailNullValue, leadsMember, "is missing")
	}
	if err := l.member(false); err != nil {
		return err
	}
	if token, err := l.dec.Token(); err != nil {
		return err
	} else if token != json.Delim('[') {
		return rowFault(waypost.DetailInvalidType, leadsMember, "must be an array")
	}
	return nil
}

// end reads what stands behind the last lead: nothing may.
func (l *listRows) end() error {
	if _, err := l.dec.Token(); err != nil { // the list's
		return err
	}
	if l.dec.More() {
		return l.member(true)
	}
	if _, err := l.dec.Token(); err != nil { // the object's
		return err
	}
	switch _, err := l.dec.Token(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return errors.New("something follows the document")
}

// member reads a member's name, which must be leads, the first time.
func (l *listRows) member(again bool) error {
	token, err := l.dec.Token()
	switch {
	case err != nil:
		return err
	case token == leadsMember && again:
		return rowFault(waypost.DetailDuplicate, leadsMember, "the member stands twice")
	case token != leadsMember:
		return rowFault(waypost.DetailUnknownField, clip(fmt.Sprint(token)), "there is no member of this name")
	}
	return nil
}

// broken is the error for a client that stands for one of the decoder.
func (l *listRows) broken(err error) error {
	var known *waypost.Error
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = io.ErrUnexpectedEOF
	case !errors.As(err, &syntax) && l.held.err != nil:
		return fmt.Errorf("read an import's file: %w", err)
	}
	return rowFault(waypost.DetailInvalidFormat, "", "the body is not valid JSON: %s", err)
}

// heldReader bounds how much is read for one row.
type heldReader struct {
	in    io.Reader
	since int // bytes since the row began
	err   error
}

func (h *heldReader) Read(p []byte) (int, error) {
	if h.since > maxHeld {
		return 0, rowFault(waypost.DetailTooLong, "", "a lead is longer than %d bytes", maxHeld)
	}
	n, err := h.in.Read(p)
	if h.since += n; err != nil && !errors.Is(err, io.EOF) {
		h.err = err
	}
	return n, err
}
