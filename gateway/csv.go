package gateway

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"waypost"
)

// The CSV of leads (docs/contract.md, "CSV"): RFC 4180, UTF-8, a header row of field
// names; a null is an empty cell. What a spreadsheet would run as a formula, and
// what would be read as another type than it has, gets a leading ' on its way out,
// which is taken off on its way in, so that both ways together change nothing.
//
// The standard library's reader does not do here: it makes one line feed of the
// \r\n in a cell, and its cells have no bound.

// customColumn begins the names of columns of custom fields.
const customColumn = "customFields."

// csvField is a column that is not a custom field: text and, if it is not null,
// the cell's text of a lead's field.
type csvField struct {
	name string
	// integer tells that the cells hold integers.
	integer bool
	text    func(*waypost.Lead) (string, bool)
}

// csvFields are the columns of every export, in their order.
var csvFields = []csvField{
	{"leadsId", true, func(l *waypost.Lead) (string, bool) { return strconv.FormatInt(l.LeadsID, 10), true }},
	csvInteger("leadsGroup", func(l *waypost.Lead) *int64 { return l.LeadsGroup }),
	csvInteger("region", func(l *waypost.Lead) *int64 { return l.Region }),
	csvText("address", func(l *waypost.Lead) *string { return l.Address }),
	csvText("remark", func(l *waypost.Lead) *string { return l.Remark }),
	csvText("name", func(l *waypost.Lead) *string { return &l.Name }),
	{columnMobilePhone, false, func(l *waypost.Lead) (string, bool) {
		return strings.Join(l.MobilePhone, phoneSeparator), len(l.MobilePhone) > 0
	}},
	csvInteger("gender", func(l *waypost.Lead) *int64 { return l.Gender }),
	csvText("birthday", func(l *waypost.Lead) *string { return l.Birthday }),
	csvText("email", func(l *waypost.Lead) *string { return l.Email }),
	csvText("wechat", func(l *waypost.Lead) *string { return l.Wechat }),
	csvText("qq", func(l *waypost.Lead) *string { return l.QQ }),
	csvText("telephone", func(l *waypost.Lead) *string { return l.Telephone }),
	csvText("company", func(l *waypost.Lead) *string { return l.Company }),
	csvText("companyPhone", func(l *waypost.Lead) *string { return l.CompanyPhone }),
	csvText("companyEmail", func(l *waypost.Lead) *string { return l.CompanyEmail }),
	csvText("companyWebsite", func(l *waypost.Lead) *string { return l.CompanyWebsite }),
	csvText("externalId", func(l *waypost.Lead) *string { return l.ExternalID }),
	csvText("openId", func(l *waypost.Lead) *string { return l.OpenID }),
	{"createdAt", false, func(l *waypost.Lead) (string, bool) { return stamp(l.CreatedAt), true }},
	{"updatedAt", false, func(l *waypost.Lead) (string, bool) { return stamp(l.UpdatedAt), true }},
}

const (
	columnMobilePhone = "mobilePhone"
	// phoneSeparator stands between the numbers of a cell; no number has it. An import
	// takes others, too.
	phoneSeparator = ";"
)

func csvText(name string, of func(*waypost.Lead) *string) csvField {
	return csvField{name, false, func(l *waypost.Lead) (string, bool) {
		if s := of(l); s != nil {
			return *s, true
		}
		return "", false
	}}
}

func csvInteger(name string, of func(*waypost.Lead) *int64) csvField {
	return csvField{name, true, func(l *waypost.Lead) (string, bool) {
		if n := of(l); n != nil {
			return strconv.FormatInt(*n, 10), true
		}
		return "", false
	}}
}

// csvWriter writes leads as rows.
type csvWriter struct {
	w      *bufio.Writer
	custom []string // names of custom fields, after the other columns
	row    []byte
}

// header writes the first row.
func (c *csvWriter) header(custom []string) error {
	c.custom = custom
	for _, f := range csvFields {
		c.cell(f.name, true)
	}
	for _, name := range custom {
		c.cell(customColumn+name, true)
	}
	return c.end()
}

func (c *csvWriter) lead(l waypost.Lead) error {
	for _, f := range csvFields {
		c.cell(f.text(&l))
	}
	for _, name := range c.custom {
		value, given := l.CustomFields[name]
		text := ""
		if given && value != nil {
			var err error
			if text, err = customText(value); err != nil {
				return err
			}
		}
		c.cell(text, given && value != nil)
	}
	return c.end()
}

// customText writes the value of a custom field; a string that would be read as a
// number or a boolean gets a leading '.
func customText(value any) (string, error) {
	if s, isText := value.(string); isText {
		if isTyped(strings.TrimLeft(s, "'")) {
			return "'" + s, nil
		}
		return s, nil
	}
	b, err := json.Marshal(value)
	return string(b), err
}

func (c *csvWriter) cell(text string, given bool) {
	switch {
	case !given:
	case !strings.ContainsAny(text, ",\"\r\n"):
		if isFormula(text) {
			c.row = append(c.row, '\'')
		}
		c.row = append(c.row, text...)
	default:
		c.row = append(c.row, '"')
		if isFormula(text) {
			c.row = append(c.row, '\'')
		}
		for {
			before, after, found := strings.Cut(text, `"`)
			c.row = append(c.row, before...)
			if !found {
				break
			}
			c.row = append(c.row, `""`...)
			text = after
		}
		c.row = append(c.row, '"')
	}
	c.row = append(c.row, ',')
}

func (c *csvWriter) end() error {
	c.row[len(c.row)-1] = '\n'
	_, err := c.w.Write(c.row)
	c.row = c.row[:0]
	return err
}

// isFormula tells whether a spreadsheet could run the text, leading 's aside, as a
// formula, or whether nothing is seen of it: such a text has one more ' in its cell.
func isFormula(text string) bool {
	text = strings.TrimLeft(text, "'")
	if isBlank([]byte(text)) {
		return true
	}
	switch text[0] {
	case '=', '+', '-', '@', '\t', '\r', '\n':
		return true
	}
	for _, wide := range []string{"＝", "＋", "－", "＠"} {
		if strings.HasPrefix(text, wide) {
			return true
		}
	}
	return false
}

// isTyped tells whether text is a JSON number, true or false.
func isTyped(text string) bool { return text == "true" || text == "false" || isNumber(text) }

// isNumber tells whether text is a JSON number.
func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789+-.eE") == "" && json.Valid([]byte(text))
}

// csvRows reads the rows of a lead import.
type csvRows struct {
	in           csvReader
	columns      []csvColumn
	region       string // of phone numbers
	text, custom []byte // of the row that is made
}

// csvColumn is a column of an import.
type csvColumn struct {
	name    string // of a custom field, without what stands before it
	quoted  []byte // the name as JSON
	custom  bool
	integer bool
	blank   bool // it has no name, and must have no content
}

// newCSVRows reads the header row.
func newCSVRows(text io.Reader, form importForm) (*csvRows, error) {
	rows := &csvRows{in: csvReader{in: bufio.NewReaderSize(text, readBuffer)}, region: form.phoneRegion}
	head, _ := rows.in.in.Peek(readBuffer) // an error comes again
	if fault := layoutFault(head); fault != "" {
		return nil, brokenAt(1, fault)
	}
	header, err := rows.in.read()
	for err == nil && header.fault == nil && header.filled() == 0 {
		header, err = rows.in.read()
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil, waypost.Problems{{Code: waypost.DetailNullValue, Message: "the header row with the names of the fields is missing"}}.Err("")
	case err != nil:
		return nil, err
	case header.fault != nil:
		return nil, brokenAt(header.line, header.fault.Message)
	}
	var p waypost.Problems
	seen := map[string]bool{}
	for i := range header.cells() {
		rows.columns = append(rows.columns, readColumn(&p, i+1, string(header.cell(i)), seen))
	}
	if needs := csvNeeds[form.mode]; !slices.ContainsFunc(needs, func(name string) bool { return seen[name] }) {
		p.Add(waypost.DetailNullValue, needs[0], "there is no column %s", strings.Join(needs, " or "))
	}
	return rows, p.Err("")
}

// readColumn reads a cell of the header row. Blanks and invisible characters around a
// name are none of it, but for the end of a custom field's, which may have them.
func readColumn(p *waypost.Problems, number int, cell string, seen map[string]bool) csvColumn {
	name := waypost.CleanKey(cell)
	custom, isCustom := strings.CutPrefix(name, customColumn)
	if _, exact, found := strings.Cut(cell, customColumn); isCustom && found {
		custom = exact
		name = customColumn + custom
	}
	column := csvColumn{name: name, blank: name == ""}
	if column.blank {
		return column
	}
	at := slices.IndexFunc(csvFields, func(f csvField) bool { return strings.EqualFold(f.name, name) })
	switch {
	case seen[name]:
		p.Add(waypost.DetailDuplicate, clip(name), "the column stands twice")
	case isCustom && len(custom) > maxCustomName:
		// Each row would repeat it.
		p.Add(waypost.DetailTooLong, clip(name), "column %d: the name of a custom field has up to 64 characters", number)
	case isCustom && custom != "":
		column.name, column.custom = custom, true
	case at < 0:
		p.Add(waypost.DetailUnknownField, clip(name), "column %d has not the name of a field; a custom field's is customFields.NAME", number)
	case csvFields[at].name != name:
		p.Add(waypost.DetailUnknownField, clip(name), "column %d: the name of the field is written %s", number, csvFields[at].name)
	default:
		column.integer = csvFields[at].integer
	}
	column.quoted = appendString(nil, []byte(column.name))
	seen[name] = true
	return column
}

// csvNeeds are the columns without which no row can succeed: one of them.
var csvNeeds = map[waypost.ImportMode][]string{
	waypost.ImportCreate: {"name"},
	waypost.ImportUpdate: {"leadsId", "externalId"},
	waypost.ImportUpsert: {"name", "leadsId", "externalId"},
}

// next reads a row; io.EOF after the last. A row in which all cells are blank, as a
// spreadsheet leaves them, is passed over.
func (c *csvRows) next() (waypost.ImportRow, error) {
	record, err := c.in.read()
	for err == nil && record.fault == nil && record.filled() == 0 {
		record, err = c.in.read()
	}
	if err != nil {
		return waypost.ImportRow{}, err
	}
	row := waypost.ImportRow{Line: record.line, Fault: record.fault}
	if row.Fault == nil && (record.cells() < len(c.columns) || record.filled() > len(c.columns)) {
		row.Fault = rowFault(waypost.DetailInvalidFormat, "", "the row has not as many cells as the header row (%d, not %d); "+
			"a cell with a comma or a line break must be quoted", record.cells(), len(c.columns))
	}
	if row.Fault != nil {
		return row, nil
	}
	for i, column := range c.columns {
		if column.blank && !isBlank(record.cell(i)) {
			return row, brokenAt(record.line, fmt.Sprintf("column %d has content, and no name in the header row: name it, or empty it", i+1))
		}
	}
	row.Data, row.Fault = c.object(record)
	return row, nil
}

// isBlank tells whether nothing of a cell is seen.
func isBlank(cell []byte) bool {
	if len(cell) > 0 && cell[0] > ' ' && cell[0] < utf8.RuneSelf { // most are
		return false
	}
	return len(cell) == 0 || waypost.CleanKey(string(cell)) == ""
}

// maxCustomName bounds the name of a custom field, in bytes: as many as 64 characters
// can have.
const maxCustomName = 256

// maxCustomCells bounds the custom fields of a row: a lead has less. With the names
// of its columns, a short row could otherwise become a long one.
const maxCustomCells = 100

// object makes a JSON object of a row; a blank cell is an absent member.
func (c *csvRows) object(record *csvRecord) ([]byte, *waypost.Error) {
	out, custom, customs := append(c.text[:0], '{'), append(c.custom[:0], `"customFields":{`...), 0
	for i, column := range c.columns {
		cell := record.cell(i)
		if isBlank(cell) {
			continue
		}
		if cell[0] == '\'' && isFormula(string(cell)) {
			cell = cell[1:]
		}
		if column.custom {
			if customs++; customs > maxCustomCells {
				return nil, rowFault(waypost.DetailOutOfRange, "customFields", "the row has more than %d custom fields", maxCustomCells)
			}
			custom = append(append(custom, column.quoted...), ':')
			custom = append(appendCustom(custom, cell), ',')
			continue
		}
		out = append(append(out, column.quoted...), ':')
		switch {
		case column.name == columnMobilePhone:
			out = c.appendPhones(out, cell)
		case column.integer:
			out = appendInteger(out, cell)
		default:
			out = appendString(out, cell)
		}
		out = append(out, ',')
	}
	if customs > 0 {
		out = append(append(out, custom[:len(custom)-1]...), "},"...)
	}
	if out[len(out)-1] == ',' {
		out = out[:len(out)-1]
	}
	c.text, c.custom = append(out, '}'), custom
	return bytes.Clone(c.text), nil
}

// appendCustom gives a custom field the type that its cell reads as.
func appendCustom(out, cell []byte) []byte {
	bare := bytes.TrimLeft(cell, "'")
	switch {
	case !isTyped(string(bare)):
		return appendString(out, cell)
	case len(bare) < len(cell):
		return appendString(out, cell[1:])
	}
	return append(out, cell...)
}

// appendPhones splits a cell of mobile numbers.
func (c *csvRows) appendPhones(out, cell []byte) []byte {
	out = append(out, '[')
	for _, number := range waypost.SplitPhones(string(cell), c.region) {
		if out[len(out)-1] != '[' {
			out = append(out, ',')
		}
		out = appendString(out, []byte(number))
	}
	return append(out, ']')
}

// maxNumber is how long a number is still taken for one, in bytes.
const maxNumber = 32

// appendInteger writes a cell as a number where it is one: what is wrong with it is
// found when the row is checked.
func appendInteger(out, cell []byte) []byte {
	text := string(bytes.TrimSpace(cell))
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return strconv.AppendInt(out, n, 10)
	}
	if len(text) <= maxNumber && isNumber(text) {
		return append(out, text...)
	}
	return appendString(out, cell)
}

// appendString writes valid UTF-8 as a JSON string.
func appendString(out, text []byte) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	from := 0
	for i, c := range text {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		out = append(out, text[from:i]...)
		if from = i + 1; c < ' ' {
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		} else {
			out = append(out, '\\', c)
		}
	}
	return append(append(out, text[from:]...), '"')
}

// layoutFault says what is wrong with a file that begins with head, if it is laid out
// in a way that no row can be read of; "" otherwise.
func layoutFault(head []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), []byte("\n"))
	line = bytes.TrimRight(line, "\r")
	first := strings.ToLower(strings.Trim(string(line[:min(len(line), len(`"sep=`))]), `"`))
	switch {
	case strings.HasPrefix(first, "sep="):
		return "sep= is for a spreadsheet alone: take the line out, and separate the cells by commas"
	case strings.HasPrefix(first, "{"), strings.HasPrefix(first, "["):
		return "the file is JSON, not CSV: send it as application/x-ndjson (one object a line) or application/json"
	}
	for i, quoted := 0, false; i < len(line); i++ {
		switch {
		case line[i] == '"':
			quoted = !quoted
		case line[i] == '\r' && !quoted:
			return "the lines end with CR alone: save the file with LF or CRLF, such as \"CSV UTF-8\" in a spreadsheet"
		}
	}
	known, columns := knownColumns(line, ",")
	for _, by := range []struct{ sign, name string }{{";", ";"}, {"\t", "a tab"}, {"|", "|"}, {"，", "，"}, {"；", "；"}} {
		if n, all := knownColumns(line, by.sign); n > known || n == known && known == 0 && columns == 1 && all > 1 {
			return fmt.Sprintf("the cells are separated by %s: save the file with commas, such as \"CSV UTF-8\" in a spreadsheet", by.name)
		}
	}
	return ""
}

// knownColumns splits a header row, and counts its cells and the names of fields among
// them, in whatever case.
func knownColumns(line []byte, separator string) (known, all int) {
	for cell := range bytes.SplitSeq(line, []byte(separator)) {
		all++
		name := waypost.CleanKey(strings.Trim(waypost.CleanKey(string(cell)), `"`))
		if strings.HasPrefix(name, customColumn) || slices.ContainsFunc(csvFields, func(f csvField) bool { return strings.EqualFold(f.name, name) }) {
			known++
		}
	}
	return known, all
}

// csvRecord is one row as it stands in the file.
type csvRecord struct {
	line  int    // where it begins, from 1
	text  []byte // all cells, one after the other
	ends  []int  // of each cell in text
	fault *waypost.Error
}

func (r *csvRecord) cells() int { return len(r.ends) }

// filled is the number of cells up to the last one that is not blank.
func (r *csvRecord) filled() int {
	for n := r.cells(); n > 0; n-- {
		if !isBlank(r.cell(n - 1)) {
			return n
		}
	}
	return 0
}

func (r *csvRecord) cell(i int) []byte {
	from := 0
	if i > 0 {
		from = r.ends[i-1]
	}
	return r.text[from:r.ends[i]]
}

// csvReader splits CSV into rows.
type csvReader struct {
	in     *bufio.Reader
	line   int    // the last one that was read
	ending string // of that line
	long   []byte // a line that the buffer does not hold
	size   int    // bytes of the row so far
	record csvRecord
}

// read reads the next row that is no blank line, valid until the row after. A row
// that is faulty by itself says so; an error means that what follows cannot be read
// either, and io.EOF that nothing follows.
func (c *csvReader) read() (*csvRecord, error) {
	r := &c.record
	*r = csvRecord{text: r.text[:0], ends: r.ends[:0]}
	c.size = 0
	line, err := c.readLine()
	for err == nil && len(line) == 0 {
		line, err = c.readLine()
	}
	if err != nil {
		return nil, err
	}
	r.line = c.line
	for {
		if len(line) == 0 || line[0] != '"' {
			cell, rest, more := bytes.Cut(line, []byte{','})
			if r.fault == nil && bytes.IndexByte(cell, '"') >= 0 {
				r.fault = rowFault(waypost.DetailInvalidFormat, "", `a cell that holds " must be quoted as a whole, without blanks before it: "…""…"`)
			}
			r.text = append(r.text, cell...)
			r.ends = append(r.ends, len(r.text))
			if line = rest; !more {
				break
			}
			continue
		}
		if line, err = c.quoted(line[1:]); err != nil {
			return nil, err
		}
		r.ends = append(r.ends, len(r.text))
		if len(line) == 0 {
			break
		}
		line = line[1:] // the comma
	}
	if r.fault == nil && c.size > maxRow {
		r.fault = rowFault(waypost.DetailTooLong, "", "the row is longer than %d bytes", maxRow)
	}
	return r, nil
}

// quoted reads a cell from behind its opening quote, and returns what follows its
// closing one in the line: nothing, or a comma.
func (c *csvReader) quoted(line []byte) (rest []byte, err error) {
	r, from := &c.record, c.line
	for {
		i := bytes.IndexByte(line, '"')
		if i < 0 {
			r.text = append(append(r.text, line...), c.ending...)
			if line, err = c.readLine(); errors.Is(err, io.EOF) {
				err = brokenAt(from, "a quoted cell has no end")
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		r.text = append(r.text, line[:i]...)
		line = line[i+1:]
		switch {
		case len(line) == 0 || line[0] == ',':
			return line, nil
		case line[0] != '"':
			return nil, brokenAt(c.line, `something follows the " that ends a cell; a " in a cell is written as ""`)
		}
		r.text, line = append(r.text, '"'), line[1:]
	}
}

// readLine reads a line and takes its end off; it is valid until the next one.
func (c *csvReader) readLine() ([]byte, error) {
	c.long = c.long[:0]
	line, err := c.in.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) && c.size+len(c.long) <= maxHeld {
		c.long = append(c.long, line...)
		line, err = c.in.ReadSlice('\n')
	}
	if len(c.long) > 0 {
		c.long = append(c.long, line...)
		line = c.long
	}
	if errors.Is(err, io.EOF) && len(line) > 0 {
		err = nil // the last line has no end
	}
	c.line++
	if c.size += len(line); c.size > maxHeld {
		return nil, brokenAt(c.line, fmt.Sprintf("the row is longer than %d bytes; perhaps a quoted cell has no end", maxHeld))
	}
	if err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	c.ending = string(line[len(text):])
	return text, nil
}
