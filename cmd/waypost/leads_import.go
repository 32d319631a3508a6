package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"waypost"
	signed "waypost/client"
	"waypost/signature"
)

const importsPath = leadsPath + "/imports"

func importPath(id string) string { return importsPath + "/" + url.PathEscape(id) }

// importMedia are the media types of files with leads, by their formats.
var importMedia = map[string]string{"csv": "text/csv", "ndjson": "application/x-ndjson", "json": "application/json"}

// otherFiles are kinds of files that cannot be imported, by extension, with advice.
var otherFiles = map[string]string{
	".xlsx": inSpreadsheet, ".xlsm": inSpreadsheet, ".xls": inSpreadsheet, ".ods": inSpreadsheet, ".numbers": inSpreadsheet,
	".gz": packed, ".zip": packed, ".zst": packed, ".bz2": packed, ".xz": packed,
}

const (
	inSpreadsheet = `a workbook: save its sheet as "CSV UTF-8" in the spreadsheet, and import that`
	packed        = "compressed: unpack it, and import what is in it"
)

// formatOf finds the format of a file with leads, by its name if none is given.
func formatOf(name, given string, formats ...string) (string, error) {
	format, says := given, fmt.Sprintf("--format %s: it is", given)
	if given == "" {
		format, says = strings.TrimPrefix(strings.ToLower(filepath.Ext(name)), "."), fmt.Sprintf("the name %q does not tell the format: --format is", name)
		if format == "jsonl" {
			format = "ndjson"
		}
	}
	if !slices.Contains(formats, format) {
		last := len(formats) - 1
		return "", usagef("%s %s or %s", says, strings.Join(formats[:last], ", "), formats[last])
	}
	return format, nil
}

// leadsImport makes the command that posts a file of leads and watches the import of its rows.
func (c *cli) leadsImport() *cobra.Command {
	var im leadImport
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Import leads from a CSV, NDJSON or JSON file",
		Long: `Sends a file of up to 64 MiB to the gateway, which stores its rows and then processes them, and shows
the progress until the import has ended. Rows that fail do not keep the others from being imported:
the first of them are shown, --errors writes all of them to a file, and the exit code is 1.

  --mode create   every row is a new lead (default); a leadsId in the row is ignored
  --mode update   every row changes the lead that its leadsId, or else its externalId, names
  --mode upsert   update where there is such a lead, create elsewhere

With --match a row names its lead by that alone: leadsId, externalId, email (in any case of letters) or
mobilePhone (any of its numbers). A row that several leads match fails.

The format is told by the name (.csv, .ndjson or .jsonl, .json) or by --format: CSV has a header row of
field names, NDJSON an object a line, JSON is {"leads":[…]}. What ` + "`waypost leads export`" + ` writes can be
imported again. docs/leads.md has examples.

The file is UTF-8, or in what --encoding names: gb18030 for what Excel writes in China (GBK), utf-16,
big5, shift_jis, windows-1252 and so on. If it is not in that as a whole, nothing of it is imported.
A workbook (.xlsx, .ods) is saved as "CSV UTF-8" first.

Ctrl-C during the upload gives it up. Afterwards it only stops watching: the import goes on, and
` + "`waypost leads imports show ID --watch`" + ` watches it again. An answer that got lost is asked for again by
itself. If all fails, repeat the command with the --key that it prints: within 24 hours the same
file with the same key is imported once.`,
		Example: `  waypost leads import leads.csv --mode upsert --dry-run
  waypost leads import leads.csv --mode upsert --errors failed.ndjson
  waypost leads import webinar.csv --mode upsert --match email
  waypost leads import from-excel.csv --encoding gb18030
  gunzip -c leads.ndjson.gz | waypost leads import - --format ndjson --no-wait`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := im.read(args[0]); err != nil {
				return err
			}
			return c.importLeads(cmd.Context(), im)
		},
	}
	im.flags(cmd)
	return cmd
}

// importLeads sends the file and prints the import, at once or, if that is waited for, when it has
// ended. Rows that failed are an error.
func (c *cli) importLeads(ctx context.Context, im leadImport) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	accepted, err := c.sendImport(ctx, cl, im)
	if err != nil {
		return err
	}
	if im.noWait {
		return c.printAnswer(accepted)
	}
	var started importProgress
	if accepted.decode(&started, "import") != nil || started.ID == "" {
		return accepted.unreadable("import")
	}
	return c.watchImport(ctx, cl, started.ID, im.errorsFile)
}

// leadImport holds the arguments and flags of `leads import`.
type leadImport struct {
	name, mode, match, key       string
	format, encoding, errorsFile string
	media                        string // the Content-Type
	dryRun, noWait               bool
}

func (im *leadImport) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&im.format, "format", "", "csv, ndjson or json; by default what the file's name says")
	f.StringVar(&im.encoding, "encoding", "", "the file's encoding, such as gb18030 or utf-16 (default utf-8)")
	f.StringVar(&im.mode, "mode", string(waypost.ImportCreate), "create, update or upsert")
	f.StringVar(&im.match, "match", "",
		"what names a row's lead: leadsId, externalId, email or mobilePhone (default leadsId, else externalId)")
	f.BoolVar(&im.dryRun, "dry-run", false, "only check the rows, and change nothing")
	f.BoolVar(&im.noWait, "no-wait", false, "print the import's id as soon as the rows are stored")
	f.StringVar(&im.errorsFile, "errors", "", "write the errors of the rows that failed to this file (NDJSON)")
	f.StringVar(&im.key, "key", "", "the Idempotency-Key of an attempt whose answer is not known")
	notEmpty(cmd, "format", "encoding", "errors", "key", "match")
}

func (im leadImport) target() string {
	query := url.Values{"mode": {im.mode}}
	if im.match != "" {
		query.Set("match", im.match)
	}
	if im.dryRun {
		query.Set("dryRun", "true")
	}
	return importsPath + "?" + query.Encode()
}

// rowsFile is the body of an import.
type rowsFile struct {
	name string // for people
	file *os.File
	size int64
	hash string // as it is signed
}

// openRows opens the rows of an import and computes their size and hash, which are sent
// before them. Input that cannot be read twice is copied to a temporary file.
func (c *cli) openRows(ctx context.Context, name string) (*rowsFile, error) {
	from, err := c.openInput(name)
	if err != nil {
		return nil, err
	}
	r := &rowsFile{name: inputName(name)}
	sum := sha256.New()
	to := io.Writer(sum)
	if r.file, _ = regularFile(from); r.file == nil {
		defer from.Close()
		if r.file, err = unnamedFile(); err != nil {
			return nil, err
		}
		to = io.MultiWriter(sum, r.file)
	}
	// One byte more than the limit is enough to see that the file is too large.
	if r.size, err = io.Copy(to, &interruptible{ctx, io.LimitReader(from, waypost.MaxImportBody+1)}); err != nil {
		err = fmt.Errorf("read %s: %w", r.name, err)
	}
	switch {
	case err != nil:
	case r.size == 0:
		err = fmt.Errorf("%s is empty", r.name)
	case r.size > waypost.MaxImportBody:
		err = fmt.Errorf("%s is larger than %d MiB, the most that one import takes: split it, and import one part after the other "+
			"(of a CSV, every part needs the header row)", r.name, waypost.MaxImportBody>>20)
	}
	if err != nil {
		return nil, errors.Join(err, r.file.Close())
	}
	r.hash = hex.EncodeToString(sum.Sum(nil))
	return r, nil
}

// unnamedFile makes a temporary file that the system removes when the process ends.
func unnamedFile() (*os.File, error) {
	file, err := os.CreateTemp("", "waypost-import-*")
	if err == nil {
		err = os.Remove(file.Name())
	}
	if err != nil {
		return nil, fmt.Errorf("make a file for the rows: %w", err)
	}
	return file, nil
}

// changed tells whether the file's content is not the one that was hashed.
func (r *rowsFile) changed() bool {
	now := sha256.New()
	_, err := io.Copy(now, io.NewSectionReader(r.file, 0, r.size))
	return err != nil || hex.EncodeToString(now.Sum(nil)) != r.hash
}

// interruptible is a reader that fails once its context has ended.
type interruptible struct {
	ctx  context.Context
	from io.Reader
}

func (r *interruptible) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, errors.New("interrupted")
	}
	return r.from.Read(p)
}

const (
	// uploadTime bounds one attempt to send an import.
	uploadTime = 15 * time.Minute
	// uploadTries is how often an import is sent if no answer comes.
	uploadTries = 5
)

// sendImport sends a file until the gateway has answered.
func (c *cli) sendImport(ctx context.Context, cl *client, im leadImport) (answer, error) {
	rows, err := c.openRows(ctx, im.name)
	if err != nil {
		return answer{}, err
	}
	defer rows.file.Close()
	fmt.Fprintf(c.stderr, "%s: %s, --key %s\n", rows.name, sizeOf(rows.size), im.key)
	header := http.Header{"Content-Type": {im.media}, "Idempotency-Key": {im.key}}
	a, err := c.untilAnswered(ctx, uploadTries, func() (answer, error) { return c.upload(ctx, cl, im.target(), header, rows) })
	return a, c.sent(ctx, im, rows, a, err)
}

// sent is the error of an upload that was not accepted.
func (c *cli) sent(ctx context.Context, im leadImport, rows *rowsFile, a answer, err error) error {
	switch {
	case err != nil && ctx.Err() != nil:
		err = errors.New("interrupted")
	case (err != nil || a.status == http.StatusUnauthorized) && rows.changed():
		return fmt.Errorf("%s changed while it was being sent; nothing was imported", rows.name)
	case err == nil:
		if a.header.Get("Idempotency-Replayed") == "true" && a.err() == nil {
			fmt.Fprintln(c.stderr, "The gateway has this file already, and does not import it again.")
		}
		return a.err()
	}
	return fmt.Errorf("%w; should the gateway have got all of it, it is imported: to make sure, repeat the command with --key %s, which imports nothing twice", err, im.key)
}

// upload sends the file once, and shows the progress.
func (c *cli) upload(ctx context.Context, cl *client, target string, header http.Header, rows *rowsFile) (answer, error) {
	body := &counted{from: io.NewSectionReader(rows.file, 0, rows.size)}
	shown := progress{c: c}
	done := func() float64 { return share(body.n.Load(), rows.size) }
	line := func() string {
		return fmt.Sprintf("%3d %%  sent %s of %s", int(100*done()), sizeOf(body.n.Load()), sizeOf(rows.size))
	}
	a, err := shown.during(func() (answer, error) {
		return cl.upload(ctx, target, header, signed.File{Reader: body, Size: rows.size, Hash: rows.hash})
	}, done, line)
	if err == nil && body.n.Load() == rows.size && c.terminal {
		shown.show(1, line())
	}
	return a, shown.end(err)
}

// counted is a reader that counts the bytes that were read, for a progress that another goroutine
// shows.
type counted struct {
	from io.Reader
	n    atomic.Int64
}

func (r *counted) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.n.Add(int64(n))
	return n, err
}

// importProgress is the part of an import that its progress bar shows.
type importProgress struct {
	ID, Message                                string
	Status                                     waypost.ImportStatus
	DryRun                                     bool
	Total, Processed, Created, Updated, Failed int
}

func (p importProgress) state() (string, bool) { return string(p.Status), p.Status.Ended() }

func (p importProgress) done() float64 {
	if p.Status == waypost.ImportSucceeded { // also an import without rows
		return 1
	}
	return share(int64(p.Processed), int64(p.Total))
}

func (p importProgress) String() string {
	counts := "%d created, %d updated, %d failed"
	if p.DryRun {
		counts = "%d would be created, %d updated, %d failed"
	}
	return fmt.Sprintf("%s %s, %d of %s, "+counts,
		clean(p.ID), clean(string(p.Status)), p.Processed, quantity(p.Total, "row", "rows"), p.Created, p.Updated, p.Failed)
}

// err is nil if every row of the import succeeded.
func (p importProgress) err() error {
	switch {
	case p.Status == waypost.ImportSucceeded && p.Failed == 0:
		return nil
	case p.Status == waypost.ImportSucceeded:
		return fmt.Errorf("%d of %s failed", p.Failed, quantity(p.Total, "row", "rows"))
	}
	said := "the import failed"
	if p.Status == waypost.ImportCanceled {
		said = "the import was canceled"
	}
	if p.Message != "" {
		said += ": " + clean(p.Message)
	}
	return errors.New(said)
}

// shownErrors is how many of the rows that failed are shown at the end of an import.
const shownErrors = 10

// watchImport shows an import's progress until it has ended, then the import and the first
// rows that failed. errorsFile, if not empty, gets all rows that failed.
func (c *cli) watchImport(ctx context.Context, cl *client, id, errorsFile string) error {
	p, err := watchJob[importProgress](ctx, c, cl, importPath(id), "import",
		fmt.Sprintf("the import goes on: `waypost leads imports show %s --watch` watches it again, `waypost leads imports cancel %[1]s` cancels it", clean(id)))
	if err != nil {
		return err
	}
	if err := c.failedRows(ctx, cl, id, p.Failed, errorsFile); err != nil {
		return err
	}
	return p.err()
}

// failedRows shows the first rows that failed, and writes all of them to the file name,
// if it is not empty.
func (c *cli) failedRows(ctx context.Context, cl *client, id string, failed int, name string) error {
	if name != "" {
		err := saveTo(name, func(w io.Writer) error { return cl.writeErrors(ctx, id, w) })
		if err != nil {
			return fmt.Errorf("%w; `waypost leads imports errors %s -o json` has the rows that failed", err, id)
		}
	}
	if failed == 0 || c.output == outputJSON {
		return nil
	}
	fmt.Fprintln(c.stdout)
	var first []members
	for line, err := range cl.importErrors(ctx, id) {
		var m members
		if err == nil {
			m, err = failedRow(line)
		}
		if err != nil {
			return err
		}
		if first = append(first, m); len(first) == shownErrors {
			break
		}
	}
	if err := c.printRows(first, failedColumns...); err != nil {
		return err
	}
	if failed > len(first) {
		fmt.Fprintf(c.stderr, "These are %d of %d rows that failed; `waypost leads imports errors %s` shows all.\n", len(first), failed, id)
	}
	return nil
}

// importErrors yields the rows of an import that failed, each as a line of JSON.
func (c *client) importErrors(ctx context.Context, id string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		s, err := c.stream(ctx, importPath(id)+"/errors")
		if err != nil {
			yield(nil, err)
			return
		}
		defer s.Close()
		for lines := bufio.NewReader(s); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				yield(nil, err)
				return
			}
			if line = bytes.TrimSpace(line); len(line) > 0 && !yield(line, nil) || err != nil {
				return
			}
		}
	}
}

// writeErrors writes the rows that failed as NDJSON.
func (c *client) writeErrors(ctx context.Context, id string, w io.Writer) error {
	for line, err := range c.importErrors(ctx, id) {
		if err == nil {
			_, err = w.Write(append(line, '\n'))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// failedRow decodes a row that failed.
func failedRow(line []byte) (members, error) {
	var m members
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, fmt.Errorf("the gateway's answer is no error of a row: %s", clean(clip(string(line), 200)))
	}
	return m, nil
}

var failedColumns = []column{col("LINE", "line"), col("CODE", "code"), {"SAID", func(m members) string {
	var details []waypost.Detail
	message := m.text("message")
	if json.Unmarshal(m.raw("detail"), &details) != nil || len(details) == 0 {
		return message
	}
	if len(details) == 1 && strings.Contains(message, details[0].Message) {
		return message
	}
	faults := make([]string, len(details))
	for i, d := range details {
		faults[i] = d.Target + ": " + d.Message
	}
	return clean(strings.Join(faults, "; "))
}}}

// read sets what depends on the file's name and on flags, and refuses flags that contradict it or
// each other. Without --key the import gets a random one.
func (im *leadImport) read(name string) error {
	im.name = name
	if what := otherFiles[strings.ToLower(filepath.Ext(name))]; what != "" && im.format == "" {
		return usagef("%s is %s", name, what)
	}
	format, err := formatOf(name, im.format, "csv", "ndjson", "json")
	if err != nil {
		return err
	}
	im.media = importMedia[format]
	if im.encoding != "" {
		im.media = mime.FormatMediaType(im.media, map[string]string{"charset": im.encoding})
	}
	switch waypost.ImportMode(im.mode) {
	case waypost.ImportCreate, waypost.ImportUpdate, waypost.ImportUpsert:
	default:
		return usagef("--mode %s: it is create, update or upsert", im.mode)
	}
	if im.noWait && im.errorsFile != "" {
		return usagef("--errors needs the end of the import, and --no-wait does not wait for it; use `waypost leads imports errors ID` later")
	}
	if im.key == "" {
		im.key = "import-" + signature.NewNonce()
	}
	return nil
}

func (c *cli) leadsImports() *cobra.Command {
	return group(&cobra.Command{
		Use: "imports", Short: "Follow and cancel imports that were started",
		Example: `  waypost leads imports show imp_… --watch
  waypost leads imports errors imp_…`,
	}, c.importsShow(), c.importsErrors(), c.importsCancel())
}

func (c *cli) importsShow() *cobra.Command {
	return c.showCommand(showing{
		short: "Show how far an import is",
		long: `Shows an import: how many of its rows are processed, and what became of them. With --watch it shows
the progress until the import has ended, and then the first rows that failed; the exit code is 1 if
there are any.`,
		example: `  waypost leads imports show imp_… --watch`,
		path:    importPath,
		watch:   func(ctx context.Context, cl *client, id string) error { return c.watchImport(ctx, cl, id, "") },
	})
}

// importsErrors prints rows while it reads them, aligned by thousands: memory does not grow with
// the import.
func (c *cli) importsErrors() *cobra.Command {
	return &cobra.Command{
		Use: "errors ID", Short: "Show the rows of an import that failed, and why",
		Long: `Shows the rows of an import that failed so far, by their lines in the file; of a JSON file, LINE is the
place in the list, from 1. With -o json, one object a line (NDJSON).`,
		Example: `  waypost leads imports errors imp_…
  waypost leads imports errors imp_… -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := c.client()
			if err != nil {
				return err
			}
			if c.output == outputJSON {
				return cl.writeErrors(cmd.Context(), args[0], c.stdout)
			}
			t := c.table(headings(failedColumns)...)
			for line, err := range cl.importErrors(cmd.Context(), args[0]) {
				var m members
				if err == nil {
					m, err = failedRow(line)
				}
				if err != nil {
					return errors.Join(t.flush(), err)
				}
				t.row(cells(m, failedColumns)...)
				if len(t.rows) < 1000 { // there may be very many
					continue
				}
				if err := t.flush(); err != nil {
					return err
				}
			}
			return t.flush()
		},
	}
}

func (c *cli) importsCancel() *cobra.Command {
	return c.postCommand(&cobra.Command{
		Use: "cancel ID", Short: "Cancel an import",
		Long:    "Processes no more rows of an import. What was created and updated already stays.",
		Example: `  waypost leads imports cancel imp_…`,
	}, importPath, c.printAnswer)
}
