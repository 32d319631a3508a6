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
	"unicode"
	"unicode/utf8"

	"waypost"
)

// The CSV of leads (docs/contract.md, "CSV"): RFC 4180, UTF-8, a header row of field
// names; a null is an empty cell. A text that a spreadsheet would run as a formula, that
// has blanks at its ends, or that would be read as another type, gets a leading ' in an
// export. An import takes it off, so that an imported export changes nothing.
//
// The standard library's reader does not do here: it makes one line feed of the
// \r\n in a cell, and its cells have no bound.

// Prefixes of columns whose names clients choose: those of custom fields and consents.
const (
	customColumn  = "customFields."
	consentColumn = "consents."
)

// csvField is a column that each lead has.
type csvField struct {
	name    string
	integer bool                        // the cells hold integers
	text    func(*waypost.Lead) *string // of a lead's cell, nil for null
}

// csvFields are the columns of every export, in their order.
var csvFields = []csvField{
	{"leadsId", true, func(l *waypost.Lead) *string { return decimal(&l.LeadsID) }},
	{"leadsGroup", true, func(l *waypost.Lead) *string { return decimal(l.LeadsGroup) }},
	{"region", true, func(l *waypost.Lead) *string { return decimal(l.Region) }},
	{"address", false, func(l *waypost.Lead) *string { return l.Address }},
	{"remark", false, func(l *waypost.Lead) *string { return l.Remark }},
	{"name", false, func(l *waypost.Lead) *string { return &l.Name }},
	{columnMobilePhone, false, func(l *waypost.Lead) *string { return orNull(strings.Join(l.MobilePhone, phoneSeparator)) }},
	{"gender", true, func(l *waypost.Lead) *string { return decimal(l.Gender) }},
	{"birthday", false, func(l *waypost.Lead) *string { return l.Birthday }},
	{"email", false, func(l *waypost.Lead) *string { return l.Email }},
	{"wechat", false, func(l *waypost.Lead) *string { return l.Wechat }},
	{"qq", false, func(l *waypost.Lead) *string { return l.QQ }},
	{"telephone", false, func(l *waypost.Lead) *string { return l.Telephone }},
	{"company", false, func(l *waypost.Lead) *string { return l.Company }},
	{"companyPhone", false, func(l *waypost.Lead) *string { return l.CompanyPhone }},
	{"companyEmail", false, func(l *waypost.Lead) *string { return l.CompanyEmail }},
	{"companyWebsite", false, func(l *waypost.Lead) *string { return l.CompanyWebsite }},
	{"externalId", false, func(l *waypost.Lead) *string { return l.ExternalID }},
	{"openId", false, func(l *waypost.Lead) *string { return l.OpenID }},
	{columnTest, false, func(l *waypost.Lead) *string { return orNull(strconv.FormatBool(l.Test)) }},
	{"createdAt", false, func(l *waypost.Lead) *string { return stampOrNull(&l.CreatedAt) }},
	{"updatedAt", false, func(l *waypost.Lead) *string { return stampOrNull(&l.UpdatedAt) }},
}

const (
	columnMobilePhone = "mobilePhone"
	columnTest        = "test"
	// phoneSeparator stands between the numbers of a cell; no number has it. An import
	// takes others, too.
	phoneSeparator = ";"
)

func decimal[T int | int64](n *T) *string {
	if n == nil {
		return nil
	}
	text := strconv.FormatInt(int64(*n), 10)
	return &text
}

// deliveryFields are the columns of an export of deliveries.
var deliveryFields = []struct {
	name string
	text func(*deliveryAnswer) *string // of a delivery's cell, nil for null
}{
	{"messageId", func(d *deliveryAnswer) *string { return &d.MessageID }},
	{"enrollmentId", func(d *deliveryAnswer) *string { return d.EnrollmentID }},
	{"journeyId", func(d *deliveryAnswer) *string { return d.JourneyID }},
	{"journeyVersion", func(d *deliveryAnswer) *string { return decimal(d.JourneyVersion) }},
	{"nodeId", func(d *deliveryAnswer) *string { return d.NodeID }},
	{"subscriptionId", func(d *deliveryAnswer) *string { return d.SubscriptionID }},
	{"webhookId", func(d *deliveryAnswer) *string { return &d.WebhookID }},
	{"leadsId", func(d *deliveryAnswer) *string { return decimal(d.LeadsID) }},
	{"status", func(d *deliveryAnswer) *string { return (*string)(&d.Status) }},
	{"deferredReason", func(d *deliveryAnswer) *string { return d.DeferredReason }},
	{"succeed", func(d *deliveryAnswer) *string {
		if d.Succeed == nil {
			return nil
		}
		return orNull(strconv.FormatBool(*d.Succeed))
	}},
	{"message", func(d *deliveryAnswer) *string { return d.Message }},
	{"httpStatus", func(d *deliveryAnswer) *string { return decimal(d.HTTPStatus) }},
	{"errorClass", func(d *deliveryAnswer) *string { return d.ErrorClass }},
	{"attempts", func(d *deliveryAnswer) *string { return decimal(&d.Attempts) }},
	{"nextAttemptAt", func(d *deliveryAnswer) *string { return d.NextAttemptAt }},
	{"firstAttemptAt", func(d *deliveryAnswer) *string { return d.FirstAttemptAt }},
	{"lastAttemptAt", func(d *deliveryAnswer) *string { return d.LastAttemptAt }},
	{"durationMs", func(d *deliveryAnswer) *string { return decimal(d.DurationMs) }},
	{"gaveUp", func(d *deliveryAnswer) *string { return (*string)(d.GaveUp) }},
	{"temporalUrl", func(d *deliveryAnswer) *string { return d.TemporalURL }},
}

// csvWriter writes leads or deliveries as rows.
type csvWriter struct {
	w     *bufio.Writer
	named []string // columns that leads name, after the other ones
	row   []byte
}

// header writes the first row.
func (c *csvWriter) header(named []string) error {
	c.named = named
	for _, f := range csvFields {
		c.cell(&f.name)
	}
	for _, name := range named {
		c.cell(&name)
	}
	return c.end()
}

func (c *csvWriter) lead(l waypost.Lead) error {
	for _, f := range csvFields {
		c.cell(f.text(&l))
	}
	for _, column := range c.named {
		if name, custom := strings.CutPrefix(column, customColumn); custom {
			c.cell(customText(l.CustomFields[name]))
		} else {
			c.cell(customText(l.Consents[strings.TrimPrefix(column, consentColumn)]))
		}
	}
	return c.end()
}

func (c *csvWriter) deliveryHeader([]string) error {
	for _, f := range deliveryFields {
		c.cell(&f.name)
	}
	return c.end()
}

func (c *csvWriter) delivery(d deliveryAnswer) error {
	for _, f := range deliveryFields {
		c.cell(f.text(&d))
	}
	return c.end()
}

// customText writes the value of a custom field; a string that would be read as a
// number or a boolean gets a leading '.
func customText(value any) *string {
	text, isText := value.(string)
	switch {
	case value == nil:
		return nil
	case !isText:
		b, _ := json.Marshal(value) // a number or a boolean
		text = string(b)
	case !hasEdges(bare(text)) && isTyped(bare(text)):
		text = "'" + text
	}
	return &text
}

// bare is a text without the 's that it begins with.
func bare(text string) string { return strings.TrimLeft(text, "'") }

// cell writes a cell, nil for an empty one.
func (c *csvWriter) cell(text *string) {
	if text != nil {
		quote := ""
		if strings.ContainsAny(*text, ",\"\r\n") {
			quote = `"`
		}
		c.row = append(c.row, quote...)
		if isMarked(*text) {
			c.row = append(c.row, '\'')
		}
		c.row = append(c.row, strings.ReplaceAll(*text, `"`, `""`)...)
		c.row = append(c.row, quote...)
	}
	c.row = append(c.row, ',')
}

func (c *csvWriter) end() error {
	c.row[len(c.row)-1] = '\n'
	_, err := c.w.Write(c.row)
	c.row = c.row[:0]
	return err
}

// isMarked tells whether a text gets one more ' in its cell: leading 's aside, a spreadsheet
// could run it as a formula, it shows nothing, or it has blanks at its ends, which an
// import takes off.
func isMarked(text string) bool {
	text = bare(text)
	first, _ := utf8.DecodeRuneInString(text)
	return strings.ContainsRune("=+-@\t\r\n＝＋－＠", first) || isBlank([]byte(text)) || hasEdges(text)
}

// hasEdges tells whether a text has blanks at its ends, of whatever kind.
func hasEdges(text string) bool { return strings.TrimSpace(text) != text }

// isTyped tells whether a custom field's cell is a number, true or false.
func isTyped(text string) bool { return typed(text) != "" }

// typed is the JSON of a cell that is a number, or true or false in any case of letters, as
// Excel writes TRUE; "" for a text. What does not print as it is written is a text, as 007,
// 1.50, 1E5 and an id of 18 digits are.
func typed(text string) string {
	if len(text) > 0 && text[0] > '9' && text[0] < utf8.RuneSelf && !strings.ContainsRune("tTfF", rune(text[0])) { // most are
		return ""
	}
	text = waypost.CleanKey(text)
	if lower := strings.ToLower(text); lower == "true" || lower == "false" {
		return lower
	}
	if len(text) > maxNumber || !isNumber(text) {
		return ""
	}
	n, err := strconv.ParseFloat(text, 64)
	if printed, _ := json.Marshal(n); err != nil || string(printed) != text || !waypost.IsExact(text) {
		return ""
	}
	return text
}

// isNumber tells whether text is a JSON number.
func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789+-.eE") == "" && json.Valid([]byte(text))
}

// csvRows reads the rows of a lead import.
type csvRows struct {
	in      csvReader
	columns []csvColumn
	region  string // of phone numbers

	members, custom, consents []byte // of the row before, whose memory is used again
}

// csvColumn is a column of an import.
type csvColumn struct {
	name    string // of a custom field or a consent, without what stands before it
	key     []byte // the name as JSON
	custom  bool
	consent bool
	integer bool
	lines   bool // of address and remark, which keep the blanks that they were sent with
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
	if needs := form.needs(); !slices.ContainsFunc(needs, func(name string) bool { return seen[name] }) {
		p.Add(waypost.DetailNullValue, needs[0], "there is no column %s", strings.Join(needs, " or "))
	}
	return rows, p.Err("")
}

// readColumn reads a cell of the header row. Blanks and invisible characters around a
// name are not part of it, except at the end of a custom field's.
func readColumn(p *waypost.Problems, number int, cell string, seen map[string]bool) csvColumn {
	name := waypost.CleanKey(cell)
	custom, isCustom := strings.CutPrefix(name, customColumn)
	if _, exact, found := strings.Cut(cell, customColumn); isCustom && found {
		custom = exact
		name = customColumn + custom
	}
	channel, isConsent := strings.CutPrefix(name, consentColumn)
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
	case isConsent && waypost.CheckChannel(p, clip(name), channel):
		column.name, column.consent = channel, true
	case isConsent: // CheckChannel has said what is wrong
	case at < 0:
		p.Add(waypost.DetailUnknownField, clip(name), "column %d has not the name of a field; a custom field's is customFields.NAME, a consent's consents.CHANNEL", number)
	case csvFields[at].name != name:
		p.Add(waypost.DetailUnknownField, clip(name), "column %d: the name of the field is written %s", number, csvFields[at].name)
	default:
		column.integer, column.lines = csvFields[at].integer, name == "address" || name == "remark"
	}
	column.key, _ = encode(column.name)
	seen[name] = true
	return column
}

// needs are the columns without which no row can succeed: one of them.
func (f importForm) needs() []string {
	switch {
	case f.match == "" || f.mode == waypost.ImportCreate:
		return csvNeeds[f.mode]
	case f.mode == waypost.ImportUpdate:
		return []string{string(f.match)}
	}
	return []string{"name", string(f.match)}
}

// csvNeeds are those columns where leads are matched by leadsId, else externalId.
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

// isBlank tells whether a cell shows nothing.
func isBlank(cell []byte) bool {
	if len(cell) > 0 && cell[0] > ' ' && cell[0] < utf8.RuneSelf { // most are
		return false
	}
	return len(cell) == 0 || waypost.CleanKey(string(cell)) == ""
}

// maxCustomName bounds the name of a custom field, in bytes: as many as 64 characters
// can have.
const maxCustomName = 256

// maxCustomCells bounds the custom fields and consents of a row: a lead has less. With the names
// of its columns, a short row could otherwise become a long one.
const maxCustomCells = 100

// object makes a JSON object of a row; a blank cell is an absent member.
func (c *csvRows) object(record *csvRecord) ([]byte, *waypost.Error) {
	members, custom, consents, customs := c.members[:0], c.custom[:0], c.consents[:0], 0
	for i, column := range c.columns {
		if isBlank(record.cell(i)) {
			continue
		}
		cell := column.value(string(record.cell(i)))
		switch {
		case column.custom:
			if customs++; customs > maxCustomCells {
				return nil, rowFault(waypost.DetailOutOfRange, "customFields", "the row has more than %d custom fields and consents", maxCustomCells)
			}
			custom = appendCustom(appendKey(custom, column.key), cell)
		case column.consent:
			if customs++; customs > maxCustomCells {
				return nil, rowFault(waypost.DetailOutOfRange, "consents", "the row has more than %d custom fields and consents", maxCustomCells)
			}
			consents = appendCustom(appendKey(consents, column.key), cell)
		case column.name == columnTest:
			members = appendCustom(appendKey(members, column.key), cell)
		case column.name == columnMobilePhone:
			numbers, _ := encode(append([]string{}, waypost.SplitPhones(cell, c.region)...))
			members = append(appendKey(members, column.key), numbers...)
		case column.integer:
			members = appendInteger(appendKey(members, column.key), cell)
		default:
			members = appendText(appendKey(members, column.key), cell)
		}
	}
	if len(custom) > 0 {
		members = fmt.Appendf(appendKey(members, []byte(`"customFields"`)), "{%s}", custom)
	}
	if len(consents) > 0 {
		members = fmt.Appendf(appendKey(members, []byte(`"consents"`)), "{%s}", consents)
	}
	c.members, c.custom, c.consents = members, custom, consents
	return fmt.Appendf(nil, "{%s}", members), nil
}

// appendKey begins a member after those of a JSON object.
func appendKey(members, key []byte) []byte {
	if len(members) > 0 {
		members = append(members, ',')
	}
	return append(append(members, key...), ':')
}

// appendText writes a text as JSON. Most need no escape, and encode costs ten times as much.
func appendText(out []byte, text string) []byte {
	if strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) < 0 {
		return append(append(append(out, '"'), text...), '"')
	}
	quoted, _ := encode(text)
	return append(out, quoted...)
}

// value is what a cell says: without the blanks around it, or else without the ' with which
// an export marks it. Only in what is kept as it was sent can that be for the blanks' sake.
func (c *csvColumn) value(cell string) string {
	trimmed := strings.TrimSpace(cell)
	if c.custom || c.lines {
		cell = strings.TrimLeftFunc(cell, unicode.IsSpace)
	} else {
		cell = trimmed
	}
	if strings.HasPrefix(cell, "'") && isMarked(cell) {
		return cell[1:]
	}
	return trimmed
}

// appendCustom gives a custom field the type that its cell reads as.
func appendCustom(out []byte, cell string) []byte {
	text := bare(cell)
	if hasEdges(text) {
		return appendText(out, cell)
	}
	switch value := typed(text); {
	case value == "":
		return appendText(out, cell)
	case len(text) < len(cell):
		return appendText(out, cell[1:])
	default:
		return append(out, value...)
	}
}

// maxNumber is how long a number is still taken for one, in bytes.
const maxNumber = 32

// appendInteger writes a number where the cell is one. Faults are found when the row is
// checked.
func appendInteger(out []byte, cell string) []byte {
	text := waypost.CleanKey(cell)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return strconv.AppendInt(out, n, 10)
	}
	if len(text) <= maxNumber && isNumber(text) {
		return append(out, text...)
	}
	return appendText(out, text)
}

// layoutFault says what is wrong with a file that begins with head if no row of it can be
// read; "" otherwise.
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
		if strings.HasPrefix(name, customColumn) || strings.HasPrefix(name, consentColumn) || slices.ContainsFunc(csvFields, func(f csvField) bool { return strings.EqualFold(f.name, name) }) {
			known++
		}
	}
	return known, all
}

// csvRecord is one row of the file.
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
