package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"waypost"
	signed "waypost/client"
	"waypost/signature"
)

// Bounds of a part, which is sent in one request.
const (
	// maxPartLines lets the answer to a part hold an error for each of its lines.
	maxPartLines = waypost.MaxLineErrors
	maxPartSize  = 16 << 20 // bytes
)

// lineKind is a kind of things that the gateway imports from a file with one of them a line,
// as it reads it.
type lineKind struct {
	path    string // of the import
	things  string
	results []string // what the answer counts besides total and failed
	maxLine int      // the longest line that an import takes, in bytes
}

// counted names what an answer counts.
func (k lineKind) counted() []string {
	return slices.Concat([]string{"total"}, k.results, []string{"failed"})
}

// importCommand makes cmd the command "import", which sends a file of such lines.
func (c *cli) importCommand(cmd *cobra.Command, kind lineKind) *cobra.Command {
	var errorsFile string
	cmd.Use, cmd.Args = "import FILE", cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, err := c.openInput(args[0])
		if err != nil {
			return err
		}
		defer file.Close()
		cl, err := c.client()
		if err != nil {
			return err
		}
		im := &lineImport{c: c, client: cl, kind: kind, name: inputName(args[0]), failures: io.Discard, counts: map[string]int{}, errors: []members{}}
		if _, info := regularFile(file); info != nil {
			im.size = info.Size()
		}
		if errorsFile == "" {
			return im.run(cmd.Context(), file)
		}
		var ended error // kept apart: the file is saved although the import has failed
		err = saveTo(errorsFile, func(w io.Writer) error {
			im.failures = w
			ended = im.run(cmd.Context(), file)
			return im.unwritten
		})
		return errors.Join(err, ended)
	}
	cmd.Flags().StringVar(&errorsFile, "errors", "", "write the errors of the lines that failed to this file (NDJSON)")
	notEmpty(cmd, "errors")
	return cmd
}

// lineImport is a file on its way to the gateway.
type lineImport struct {
	c        *cli
	client   *client
	kind     lineKind
	name     string    // for people
	size     int64     // of the file; 0: unknown
	failures io.Writer // gets every line that failed, as NDJSON

	sent      int64          // bytes of the file up to the end of the last answered part
	lines     int            // lines of the file up to there
	counts    map[string]int // by what an answer counts
	errors    []members      // the first lines that failed, at most MaxLineErrors
	unwritten error          // why failures could not be written
}

// run imports a file and shows the result.
func (im *lineImport) run(ctx context.Context, file io.Reader) error {
	shown := &progress{c: im.c}
	if err := im.send(ctx, file, shown); err != nil {
		return shown.end(fmt.Errorf("%w; %s", err, im.soFar()))
	}
	if im.c.terminal {
		shown.show(1, im.line(im.sent))
	}
	if err := shown.end(nil); err != nil {
		return err
	}
	if err := im.print(); err != nil {
		return err
	}
	if im.counts["failed"] > 0 {
		return fmt.Errorf("%d of %s failed", im.counts["failed"], quantity(im.counts["total"], "line", "lines"))
	}
	return nil
}

// send sends the parts of a file, one after the other.
func (im *lineImport) send(ctx context.Context, file io.Reader, shown *progress) error {
	rows := &lineParts{in: bufio.NewReaderSize(&interruptible{ctx, file}, 64<<10), maxLine: im.kind.maxLine}
	if mark, _ := rows.in.Peek(3); string(mark) == "\ufeff" {
		if _, err := rows.in.Discard(len(mark)); err != nil {
			return err
		}
		im.sent += int64(len(mark))
	}
	for {
		part, err := rows.part()
		if err != nil {
			return fmt.Errorf("read %s: %w", im.name, err)
		}
		var answered partAnswer
		if len(part.lines) > 0 {
			if answered, err = im.sendPart(ctx, part, shown); err != nil {
				return err
			}
		}
		if err := im.add(part, answered); err != nil {
			return err
		}
		if part.last {
			break
		}
	}
	if im.counts["total"] == 0 {
		return fmt.Errorf("%s holds no %s", im.name, im.kind.things)
	}
	return nil
}

// linePart is a part of a file, sent in one request.
type linePart struct {
	body    []byte
	lines   []int // the numbers in the file of the body's lines
	tooLong []int // the numbers of lines that are too long and not sent
	size    int64 // bytes of the file, lines that are not sent included
	end     int   // the number of the part's last line in the file
	last    bool
}

// lineParts cuts a file into parts.
type lineParts struct {
	in      *bufio.Reader
	maxLine int // bytes
	line    int // the number of the line that was read last
}

// part reads the next part, which ends where one more line might be too much. Blank lines
// are left out.
func (r *lineParts) part() (p linePart, err error) {
	for !p.last && len(p.lines)+len(p.tooLong) < maxPartLines && len(p.body)+r.maxLine < maxPartSize {
		line, size, tooLong, err := r.readLine()
		p.last = errors.Is(err, io.EOF)
		if err != nil && !p.last {
			return p, err
		}
		p.size += size
		switch {
		case tooLong:
			p.tooLong = append(p.tooLong, r.line)
		case len(bytes.TrimSpace(line)) > 0:
			p.lines = append(p.lines, r.line)
			p.body = append(append(p.body, bytes.TrimRight(line, "\r\n")...), '\n')
		}
	}
	p.end = r.line
	return p, nil
}

// readLine reads a line with its end. It counts the bytes of a line that is too long, and
// drops them. io.EOF comes with the last line, which may be empty.
func (r *lineParts) readLine() (line []byte, size int64, tooLong bool, err error) {
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); {
		var piece []byte
		piece, err = r.in.ReadSlice('\n')
		size += int64(len(piece))
		if len(line)+len(bytes.TrimRight(piece, "\r\n")) > r.maxLine {
			line, tooLong = nil, true
		}
		if !tooLong {
			line = append(line, piece...)
		}
	}
	if size > 0 || !errors.Is(err, io.EOF) {
		r.line++
	}
	return line, size, tooLong, err
}

// partAnswer is what the gateway answers to a part.
type partAnswer struct {
	counts map[string]int
	errors []members
}

// partTries is how often a part is sent if no answer comes.
const partTries = 5

// sendPart sends a part until the gateway has answered. All tries have the same
// Idempotency-Key, so that a lost answer is repeated.
func (im *lineImport) sendPart(ctx context.Context, part linePart, shown *progress) (answered partAnswer, err error) {
	header := http.Header{"Content-Type": {"application/x-ndjson"}, "Idempotency-Key": {im.kind.things + "-" + signature.NewNonce()}}
	hash := signature.HashBody(part.body)
	a, err := im.c.untilAnswered(ctx, partTries, func() (answer, error) {
		body := &counted{from: bytes.NewReader(part.body)}
		sent := func() int64 { return im.sent + min(body.n.Load(), part.size) }
		return shown.during(func() (answer, error) {
			return im.client.upload(ctx, im.kind.path, header, signed.File{Reader: body, Size: int64(len(part.body)), Hash: hash})
		}, func() float64 { return im.share(sent()) }, func() string { return im.line(sent()) })
	})
	if err == nil {
		err = a.err()
	}
	var m members
	if err == nil {
		err = a.decode(&m, "import")
	}
	if err != nil {
		return answered, err
	}
	answered.counts = map[string]int{}
	for _, what := range im.kind.counted() {
		n, err := strconv.Atoi(m.text(what))
		if err != nil {
			return answered, fmt.Errorf("the gateway's answer is no import: it has no %s", what)
		}
		answered.counts[what] = n
	}
	answered.errors, err = m.list("errors")
	return answered, err
}

// add counts the results of a part.
func (im *lineImport) add(part linePart, answered partAnswer) error {
	for what, n := range answered.counts {
		im.counts[what] += n
	}
	im.counts["total"] += len(part.tooLong)
	im.counts["failed"] += len(part.tooLong)
	im.sent += part.size
	im.lines = part.end
	failures := answered.errors
	for _, m := range failures {
		for i, x := range m {
			var n int
			if x.name == "line" && json.Unmarshal(x.value, &n) == nil && n >= 1 && n <= len(part.lines) {
				m[i].value = json.RawMessage(strconv.Itoa(part.lines[n-1]))
			}
		}
	}
	for _, line := range part.tooLong {
		says := fmt.Sprintf("the line is longer than %d bytes", im.kind.maxLine)
		m, err := failedRow(fmt.Appendf(nil, `{"line":%d,"code":%q,"message":%[3]q,"target":"","detail":[{"code":%q,"target":"","message":%[3]q}]}`,
			line, waypost.CodeBadRequest, says, waypost.DetailTooLong))
		if err != nil {
			return err
		}
		failures = append(failures, m)
	}
	slices.SortStableFunc(failures, func(a, b members) int { return cmp.Compare(lineOf(a), lineOf(b)) })
	for _, m := range failures {
		if err := im.failed(m); err != nil {
			return err
		}
	}
	return nil
}

func lineOf(m members) int {
	n, _ := strconv.Atoi(m.text("line")) // errors without a line come first
	return n
}

// failed keeps and writes a line that failed.
func (im *lineImport) failed(m members) error {
	if len(im.errors) < waypost.MaxLineErrors {
		im.errors = append(im.errors, m)
	}
	line, err := json.Marshal(m)
	if err == nil {
		_, err = im.failures.Write(append(line, '\n'))
	}
	if err != nil {
		im.unwritten = fmt.Errorf("write the errors: %w", err)
	}
	return im.unwritten
}

func (im *lineImport) share(sent int64) float64 {
	if im.size == 0 {
		return unknown
	}
	return share(sent, im.size)
}

// line says how far the import is.
func (im *lineImport) line(sent int64) string {
	counts := quantity(im.counts["total"], "line", "lines") + ", " + im.results()
	if im.size == 0 {
		return fmt.Sprintf("sent %s, %s", sizeOf(sent), counts)
	}
	return fmt.Sprintf("%3d %%  sent %s of %s, %s", int(100*im.share(sent)), sizeOf(sent), sizeOf(im.size), counts)
}

// soFar says which lines were imported before an error.
func (im *lineImport) soFar() string {
	if im.lines == 0 {
		return "importing " + im.name + " again is harmless, should the gateway have got some of it"
	}
	return fmt.Sprintf("of %s, the lines up to %d are imported (%s), and perhaps some behind them; importing it again is harmless",
		im.name, im.lines, im.results())
}

// results says what has become of the lines so far.
func (im *lineImport) results() string {
	var list []string
	for _, what := range im.kind.counted()[1:] {
		list = append(list, fmt.Sprintf("%d %s", im.counts[what], what))
	}
	return strings.Join(list, ", ")
}

// print writes the counts, and the first lines that failed.
func (im *lineImport) print() error {
	if im.c.output == outputJSON {
		var m members
		for _, what := range im.kind.counted() {
			m = append(m, member{what, json.RawMessage(strconv.Itoa(im.counts[what]))})
		}
		failures, err := json.Marshal(im.errors)
		if err != nil {
			return err
		}
		return im.c.printJSON(append(m, member{"errors", failures}))
	}
	t := im.c.table()
	for _, what := range im.kind.counted() {
		t.row(what, strconv.Itoa(im.counts[what]))
	}
	if err := t.flush(); err != nil || im.counts["failed"] == 0 {
		return err
	}
	fmt.Fprintln(im.c.stdout)
	first := im.errors[:min(len(im.errors), shownErrors)]
	if err := im.c.printRows(first, failedColumns...); err != nil {
		return err
	}
	if im.counts["failed"] > len(first) {
		fmt.Fprintf(im.c.stderr, "These are %d of %d lines that failed; --errors FILE writes all to a file.\n", len(first), im.counts["failed"])
	}
	return nil
}
