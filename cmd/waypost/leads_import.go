package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// otherFiles are what people take for a file with leads, by its name, and what to do
// with it.
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

func (c *cli) leadsImport() *cobra.Command {
	var im leadImport
	var format, encoding, errorsFile string
	var noWait bool
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Import leads from a CSV, NDJSON or JSON file",
		Long: `Sends a file of up to 64 MiB to the gateway, which stores its rows and then processes them, and shows
the progress until the import has ended. Rows that fail do not keep the others from being imported:
the first of them are shown, --errors writes all of them to a file, and the exit code is 1.

  --mode create   every row is a new lead (default); a leadsId in the row is ignored
  --mode update   every row changes the lead that its leadsId, or else its externalId, names
  --mode upsert   update where there is such a lead, create elsewhere

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
  waypost leads import from-excel.csv --encoding gb18030
  gunzip -c leads.ndjson.gz | waypost leads import - --format ndjson --no-wait`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := im.read(args[0], format, encoding); err != nil {
				return err
			}
			if im.key == "" {
				im.key = "import-" + signature.NewNonce()
			}
			if noWait && errorsFile != "" {
				return usagef("--errors needs the end of the import, and --no-wait does not wait for it; use `waypost leads imports errors ID` later")
			}
			cl, err := c.client()
			if err != nil {
				return err
			}
			accepted, err := c.sendImport(cmd.Context(), cl, im)
			if err != nil {
				return err
			}
			if noWait {
				return c.printAnswer(accepted)
			}
			var started importProgress
			if err := json.Unmarshal(accepted.body, &started); err != nil || started.ID == "" {
				return fmt.Errorf("the gateway's answer is no import: %s", clean(clip(string(accepted.body), 200)))
			}
			return c.watchImport(cmd.Context(), cl, started.ID, errorsFile)
		},
	}
	f := cmd.Flags()
	f.StringVar(&format, "format", "", "csv, ndjson or json; by default what the file's name says")
	f.StringVar(&encoding, "encoding", "", "the file's encoding, such as gb18030 or utf-16 (default utf-8)")
	f.StringVar(&im.mode, "mode", string(waypost.ImportCreate), "create, update or upsert")
	f.BoolVar(&im.dryRun, "dry-run", false, "only check the rows, and change nothing")
	f.BoolVar(&noWait, "no-wait", false, "print the import's id as soon as the rows are stored")
	f.StringVar(&errorsFile, "errors", "", "write the errors of the rows that failed to this file (NDJSON)")
	f.StringVar(&im.key, "key", "", "the Idempotency-Key of an attempt whose answer is not known")
	filled(cmd, "format", "encoding", "errors", "key")
	return cmd
}

// leadImport is what `leads import` is asked to do.
type leadImport struct {
	name, format, mode, key string
	media                   string // the Content-Type
	dryRun                  bool
}

func (im leadImport) target() string {
	query := url.Values{"mode": {im.mode}}
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

// openRows opens the rows of an import and finds out what must be known of them
// before they are sent. What cannot be read twice goes to a file of its own.
func (c *cli) openRows(ctx context.Context, name string) (*rowsFile, error) {
	from, err := c.openInput(name)
	if err != nil {
		return nil, err
	}
	r := &rowsFile{name: name}
	if name == "-" {
		r.name = "standard input"
	}
	sum := sha256.New()
	to := io.Writer(sum)
	if file, isFile := from.(*os.File); isFile && isRegular(file) {
		r.file = file
	} else {
		defer from.Close()
		if r.file, err = unnamedFile(); err != nil {
			return nil, err
		}
		to = io.MultiWriter(sum, r.file)
	}
	// One byte more than an import takes tells that it is too large.
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

// openInput opens a file, or standard input for "-".
func (c *cli) openInput(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(c.stdin), nil
	}
	file, err := os.Open(name)
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return nil, fmt.Errorf("read %s: %w", name, p.Err)
	}
	return file, err
}

func isRegular(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode().IsRegular()
}

// unnamedFile makes a file that goes away with the process.
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

// changed tells whether the file is another one than when it was opened.
func (r *rowsFile) changed() bool {
	now := sha256.New()
	_, err := io.Copy(now, io.NewSectionReader(r.file, 0, r.size))
	return err != nil || hex.EncodeToString(now.Sum(nil)) != r.hash
}

// interruptible ends when its context does.
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
	// uploadTries is how often an import is sent, with one Idempotency-Key, until the
	// answer has come.
	uploadTries = 5
)

// sendImport sends a file until the gateway has said what it thinks of it.
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

// sent says what became of the upload if it is no success.
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

// upload sends the file once, and shows how much of it is sent.
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

// counted counts what is read.
type counted struct {
	from io.Reader
	n    atomic.Int64
}

func (r *counted) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.n.Add(int64(n))
	return n, err
}

// importProgress is what of an import a progress bar shows.
type importProgress struct {
	ID        string               `json:"id"`
	Status    waypost.ImportStatus `json:"status"`
	DryRun    bool                 `json:"dryRun"`
	Message   string               `json:"message"`
	Total     int                  `json:"total"`
	Processed int                  `json:"processed"`
	Created   int                  `json:"created"`
	Updated   int                  `json:"updated"`
	Failed    int                  `json:"failed"`
}

func (p importProgress) state() (string, bool) { return string(p.Status), p.Status.Ended() }

func (p importProgress) done() float64 {
	if p.Status == waypost.ImportSucceeded { // of no rows, too
		return 1
	}
	return share(int64(p.Processed), int64(p.Total))
}

func (p importProgress) String() string {
	counts := "%d created, %d updated, %d failed"
	if p.DryRun {
		counts = "%d would be created, %d updated, %d failed"
	}
	return fmt.Sprintf("%3d %%  %s %s, %d of %s, "+counts,
		int(100*p.done()), clean(p.ID), clean(string(p.Status)), p.Processed, some(p.Total, "row", "rows"), p.Created, p.Updated, p.Failed)
}

// err is nil for an import that has done all that it was asked to.
func (p importProgress) err() error {
	switch {
	case p.Status == waypost.ImportSucceeded && p.Failed == 0:
		return nil
	case p.Status == waypost.ImportSucceeded:
		return fmt.Errorf("%d of %s failed", p.Failed, some(p.Total, "row", "rows"))
	case p.Message != "":
		return fmt.Errorf("the import %s: %s", verbOf(p.Status), clean(p.Message))
	}
	return fmt.Errorf("the import %s", verbOf(p.Status))
}

func verbOf(s waypost.ImportStatus) string {
	if s == waypost.ImportCanceled {
		return "was canceled"
	}
	return "failed"
}

// shownErrors is how many of the rows that failed are shown at the end of an import.
const shownErrors = 10

// watchImport shows an import's progress until it has ended, and then the import,
// the first rows that failed, and if there is a file for them, all of them there.
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

// failedRows shows the first rows that failed, and writes all of them to a file if
// there is one for them.
func (c *cli) failedRows(ctx context.Context, cl *client, id string, failed int, name string) error {
	if name != "" {
		err := saveTo(name, func(w io.Writer) error {
			return cl.importErrors(ctx, id, func(line []byte) error {
				_, err := w.Write(append(line, '\n'))
				return err
			})
		})
		if err != nil {
			return fmt.Errorf("%w; `waypost leads imports errors %s -o json` has the rows that failed", err, id)
		}
	}
	if failed == 0 || c.output == outputJSON {
		return nil
	}
	fmt.Fprintln(c.stdout)
	var first []members
	err := cl.importErrors(ctx, id, func(line []byte) error {
		m, err := failedRow(line)
		if first = append(first, m); err == nil && len(first) == shownErrors {
			err = errEnough
		}
		return err
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if err := c.printRows(first, failedColumns...); err != nil {
		return err
	}
	if failed > len(first) {
		fmt.Fprintf(c.stderr, "These are %d of %d rows that failed; `waypost leads imports errors %s` shows all.\n", len(first), failed, id)
	}
	return nil
}

// errEnough ends the reading of rows that failed.
var errEnough = errors.New("enough")

// importErrors calls each with every line of the errors of an import.
func (c *client) importErrors(ctx context.Context, id string, each func(line []byte) error) error {
	s, err := c.stream(ctx, importPath(id)+"/errors")
	if err != nil {
		return err
	}
	defer s.Close()
	return eachLine(s, each)
}

// failedRow reads a line of the errors of an import.
func failedRow(line []byte) (members, error) {
	var m members
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, fmt.Errorf("the gateway's answer is no error of a row: %s", clean(clip(string(line), 200)))
	}
	return m, nil
}

var failedColumns = []column{of("LINE", "line"), of("CODE", "code"), {"SAID", func(m members) string {
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

// read takes over what the command line says of the file and of the mode.
func (im *leadImport) read(name, format, encoding string) (err error) {
	im.name = name
	if what := otherFiles[strings.ToLower(filepath.Ext(name))]; what != "" && format == "" {
		return usagef("%s is %s", name, what)
	}
	if im.format, err = formatOf(name, format, "csv", "ndjson", "json"); err != nil {
		return err
	}
	im.media = importMedia[im.format]
	if encoding != "" {
		im.media = mime.FormatMediaType(im.media, map[string]string{"charset": encoding})
	}
	switch waypost.ImportMode(im.mode) {
	case waypost.ImportCreate, waypost.ImportUpdate, waypost.ImportUpsert:
		return nil
	}
	return usagef("--mode %s: it is create, update or upsert", im.mode)
}

func (c *cli) leadsImports() *cobra.Command {
	cmd := &cobra.Command{
		Use: "imports", Short: "Follow and cancel imports that were started",
		Example: `  waypost leads imports show imp_… --watch
  waypost leads imports errors imp_…`,
	}
	cmd.AddCommand(c.importsShow(), c.importsErrors(), c.importsCancel())
	return cmd
}

func (c *cli) importsShow() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show how far an import is",
		Long: `Shows an import: how many of its rows are processed, and what became of them. With --watch it shows
the progress until the import has ended, and then the first rows that failed; the exit code is 1 if
there are any.`,
		Example: `  waypost leads imports show imp_… --watch`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !watch {
				return c.show(cmd.Context(), importPath(args[0]))
			}
			cl, err := c.client()
			if err != nil {
				return err
			}
			return c.watchImport(cmd.Context(), cl, args[0], "")
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on until it has ended")
	return cmd
}

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
				return cl.importErrors(cmd.Context(), args[0], func(line []byte) error {
					_, err := c.stdout.Write(append(line, '\n'))
					return err
				})
			}
			t := c.table("LINE", "CODE", "SAID")
			n := 0
			err = cl.importErrors(cmd.Context(), args[0], func(line []byte) error {
				m, err := failedRow(line)
				if err != nil {
					return err
				}
				t.row(failedColumns[0].value(m), failedColumns[1].value(m), failedColumns[2].value(m))
				if n++; n%1000 == 0 { // there may be very many
					err = t.flush()
				}
				return err
			})
			return errors.Join(t.flush(), err)
		},
	}
}

func (c *cli) importsCancel() *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID", Short: "Cancel an import",
		Long:    "Processes no more rows of an import. What was created and updated already stays.",
		Example: `  waypost leads imports cancel imp_…`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.send(cmd.Context(), http.MethodPost, importPath(args[0])+"/cancel", map[string]any{})
		},
	}
}
