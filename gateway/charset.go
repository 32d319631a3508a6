package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"waypost"
)

const charsetUTF8 = "utf-8"

// someCharsets are the charsets that an error names. All names of the WHATWG Encoding
// Standard are known.
const someCharsets = "utf-8, gb18030 (GBK and GB2312 are parts of it), utf-16, big5, shift_jis, euc-kr, windows-1252 or another name of the WHATWG Encoding Standard"

// decoderOf returns what decodes a charset, nil for UTF-8; known tells whether there is
// such a charset. As the Encoding Standard has it, GBK is read as GB18030, whose part it
// is; utf-16 alone needs a byte order mark.
func decoderOf(charset string) (e encoding.Encoding, known bool) {
	charset = strings.ToLower(strings.TrimSpace(charset))
	if charset == "utf-16" {
		return unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM), true
	}
	if name, found := codePages[charset]; found {
		charset = name
	}
	e, err := htmlindex.Get(charset)
	if err != nil || e == encoding.Replacement {
		return nil, false
	}
	switch name, _ := htmlindex.Name(e); name {
	case charsetUTF8:
		return nil, true
	case "gbk":
		return simplifiedchinese.GB18030, true
	}
	return e, true
}

// codePages are names by the numbers of Windows that the Encoding Standard does not have.
var codePages = map[string]string{"cp932": "shift_jis", "cp936": "gbk", "cp949": "euc-kr", "cp950": "big5"}

// textReader reads a file of text as UTF-8, without its byte order mark, which
// spreadsheets write. A file that is something else, or that is not wholly in its
// charset, is a BadRequest.
func textReader(file io.Reader, charset string) (io.Reader, error) {
	in := bufio.NewReaderSize(file, readBuffer)
	head, _ := in.Peek(sniffed) // an error comes again
	decoder, _ := decoderOf(charset)
	if what := formatOf(head, charset); what != "" {
		return nil, rowFault(waypost.DetailInvalidFormat, "", "%s", what)
	}
	if bytes.HasPrefix(head, []byte(byteOrderMark)) {
		_, err := in.Discard(len(byteOrderMark))
		return &wholeText{in: in, line: 1}, err
	}
	if decoder != nil {
		raw := &maybeUTF8{in: in, charset: charset, valid: !strings.HasPrefix(strings.ToLower(charset), "utf-16")}
		text := bufio.NewReaderSize(transform.NewReader(raw, decoder.NewDecoder()), readBuffer)
		if mark, _ := text.Peek(len(byteOrderMark)); string(mark) == byteOrderMark { // of UTF-16LE, GB18030 and so on
			_, _ = text.Discard(len(mark))
		}
		return &wholeText{in: text, decoded: true, raw: raw, line: 1}, nil
	}
	return &wholeText{in: in, line: 1}, nil
}

// maybeUTF8 passes on a file that is said to be in another charset, and ends with a
// BadRequest if all of it is UTF-8 and some of it not ASCII: a text of another charset is
// almost never UTF-8 by chance, so that it would be stored garbled.
type maybeUTF8 struct {
	in      io.Reader
	charset string
	valid   bool   // what was read so far is UTF-8
	beyond  bool   // some of it is not ASCII
	cut     []byte // the beginning of a character at its end
}

func (m *maybeUTF8) Read(p []byte) (int, error) {
	n, err := m.in.Read(p)
	if m.valid && n > 0 {
		text := append(m.cut, p[:n]...)
		whole := text[:len(text)-partial(text)]
		m.beyond = m.beyond || bytes.ContainsFunc(whole, func(r rune) bool { return r >= utf8.RuneSelf })
		m.valid = utf8.Valid(whole)
		m.cut = append([]byte(nil), text[len(whole):]...)
	}
	if errors.Is(err, io.EOF) && len(m.cut) == 0 && m.isUTF8() {
		err = m.fault()
	}
	return n, err
}

// isUTF8 tells whether what was read so far is UTF-8 that is not only ASCII.
func (m *maybeUTF8) isUTF8() bool { return m.valid && m.beyond }

func (m *maybeUTF8) fault() error {
	return rowFault(waypost.DetailInvalidFormat, "", "the file is UTF-8, not %s as the Content-Type says: send it with charset=utf-8 or without a charset "+
		"(CLI: without --encoding)", clip(m.charset))
}

const (
	byteOrderMark = "\uFEFF"
	// asUTF8 is what to do with most files that are not text.
	asUTF8  = `save it as UTF-8 ("CSV UTF-8" in a spreadsheet)`
	sniffed = 4 << 10 // bytes
)

// formats are files that are no text, by their first bytes.
var formats = []struct{ magic, name string }{
	{"PK\x03\x04", "a ZIP archive"},
	{"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", "an Excel workbook (xls)"},
	{"\x1F\x8B", "compressed with gzip"},
	{"BZh", "compressed with bzip2"},
	{"\xFD7zXZ\x00", "compressed with xz"},
	{"\x28\xB5\x2F\xFD", "compressed with zstd"},
	{"7z\xBC\xAF\x27\x1C", "a 7z archive"},
	{"Rar!\x1A\x07", "a RAR archive"},
	{"%PDF-", "a PDF"},
	{"PAR1", "a Parquet file"},
	{"SQLite format 3\x00", "a SQLite database"},
	{"\xFF\xFE\x00\x00", "UTF-32"},
}

// zipped are documents that are ZIP archives, by a text in their first entries.
var zipped = []struct{ entry, name string }{
	{"opendocument.spreadsheet", "a LibreOffice spreadsheet (ods)"},
	{"xl/", "an Excel workbook (xlsx)"},
	{"[Content_Types].xml", "an Excel workbook (xlsx)"},
	{"docProps/", "an Excel workbook (xlsx)"},
}

// formatOf names a file that is no text, or UTF-16 though the charset is another one, and
// what to do with it, by its first bytes; "" for any other.
func formatOf(head []byte, charset string) string {
	name := ""
	for _, f := range formats {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			name = f.name
		}
	}
	if name == formats[0].name {
		for _, z := range zipped {
			if bytes.Contains(head, []byte(z.entry)) {
				name = z.name
				break
			}
		}
	}
	switch {
	case strings.Contains(name, "archive"), strings.HasPrefix(name, "compressed"):
		return fmt.Sprintf("the file is %s: unpack it, and send what is in it", name)
	case name != "":
		return fmt.Sprintf("the file is %s: %s, and send that", name, asUTF8)
	case bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(head, []byte(byteOrderMark)), " \t\r\n"), []byte("<")):
		return "the file is HTML or XML: open it in a spreadsheet, and " + asUTF8
	case !strings.HasPrefix(strings.ToLower(charset), "utf-16") && isUTF16(head):
		return "the file is UTF-16: send it with charset=utf-16 (without a byte order mark utf-16le or utf-16be) in the Content-Type (CLI: --encoding), or " + asUTF8
	}
	return ""
}

// isUTF16 tells whether text begins with a byte order mark of UTF-16, or with two
// characters of ASCII in it.
func isUTF16(head []byte) bool {
	if bytes.HasPrefix(head, []byte("\xFF\xFE")) || bytes.HasPrefix(head, []byte("\xFE\xFF")) {
		return true
	}
	zeros := func(first int) bool { return head[first] == 0 && head[first+2] == 0 }
	return len(head) >= 4 && zeros(0) != zeros(1)
}

// wholeText passes text on as long as it is UTF-8, and ends with a BadRequest that names
// the line where it is not. decoded tells that a decoder has made it, which writes
// U+FFFD where it cannot read.
type wholeText struct {
	in      io.Reader
	decoded bool
	raw     *maybeUTF8 // what a decoder reads
	line    int
	buffer  []byte
	from    int // where in buffer what is not passed on yet begins
	checked int // up to where in buffer it is checked
	err     error
}

func (w *wholeText) Read(p []byte) (int, error) {
	if w.buffer == nil {
		w.buffer = make([]byte, 0, readBuffer)
	}
	for w.from == w.checked {
		if w.err != nil {
			return 0, w.err
		}
		w.fill()
	}
	n := copy(p, w.buffer[w.from:w.checked])
	w.from += n
	return n, nil
}

// fill reads more text behind what is left: a part of a character.
func (w *wholeText) fill() {
	w.buffer = append(w.buffer[:0], w.buffer[w.checked:]...)
	w.from, w.checked = 0, 0
	n, err := w.in.Read(w.buffer[len(w.buffer):cap(w.buffer)])
	w.buffer = w.buffer[:len(w.buffer)+n]
	w.err = err
	text := w.buffer
	if !errors.Is(err, io.EOF) {
		text = text[:len(text)-partial(text)]
	}
	if !utf8.Valid(text) || w.decoded && bytes.Contains(text, []byte("\uFFFD")) {
		w.err = w.broken(text)
		return
	}
	if errors.Is(err, unicode.ErrMissingBOM) {
		w.err = rowFault(waypost.DetailInvalidFormat, "", "the file has no byte order mark: name its encoding as utf-16le or utf-16be")
	}
	w.checked = len(text)
	w.line += bytes.Count(text, []byte{'\n'})
}

// partial is the length of the character at the end of text that is not complete, in
// bytes.
func partial(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if begin := text[len(text)-n:]; utf8.RuneStart(begin[0]) {
			if utf8.FullRune(begin) {
				return 0
			}
			return n
		}
	}
	return 0
}

// broken is what is wrong with text, which has a line that is not in its charset.
func (w *wholeText) broken(text []byte) error {
	for at := range bytes.Lines(text) {
		if !utf8.Valid(at) || w.decoded && bytes.Contains(at, []byte("\uFFFD")) {
			switch {
			case w.decoded && w.raw.isUTF8():
				return w.raw.fault()
			case w.decoded:
				return brokenAt(w.line, "the file is not in the charset that the Content-Type names; nothing of it is imported")
			case looksGBK(at):
				return brokenAt(w.line, "the file is not UTF-8, but looks like GBK: send it with charset=gb18030 (Korean: euc-kr) in the Content-Type (CLI: --encoding), or "+asUTF8)
			}
			break
		}
		w.line++
	}
	return brokenAt(w.line, "the file is not UTF-8: "+asUTF8+", or name its charset in the Content-Type (CLI: --encoding): gb18030, big5, shift_jis, windows-1252 …")
}

// looksGBK tells whether all characters of a line beyond ASCII are pairs of bytes such as
// GB2312 has them, which is the older part of GBK.
func looksGBK(line []byte) bool {
	for len(line) > 0 {
		switch {
		case line[0] < utf8.RuneSelf:
			line = line[1:]
		case len(line) > 1 && line[0] >= 0xB0 && line[0] <= 0xF7 && line[1] >= 0xA1, len(line) > 1 && line[0] >= 0xA1 && line[0] <= 0xA9 && line[1] >= 0xA1:
			line = line[2:]
		default:
			return false
		}
	}
	return true
}
