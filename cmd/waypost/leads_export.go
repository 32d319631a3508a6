package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
)

const exportPath = leadsPath + "/export"

func (c *cli) leadsExport() *cobra.Command {
	return c.exportCommand(&cobra.Command{
		Short: "Export leads as NDJSON or CSV",
		Long: `Writes all leads that match the filters, as they were when the export began, to standard output or,
with --to, to a file that only you can read. ` + "`waypost leads import`" + ` takes both formats, and takes the byte
order mark of --excel off again. ` + exportHelp("leads"),
		Example: `  waypost leads export --to leads.csv
  waypost leads export --leads-group 3 --updated-from 2026-01-01T00:00:00Z --to changed.ndjson
  waypost leads export --excel --to for-excel.csv
  waypost leads export --format csv --email ada@example.com > ada.csv`,
	}, exporting{exportPath, leadFilters, "lead", "leads"})
}

// exportHelp tells what all exports have in common.
func exportHelp(things string) string {
	return `The format is told by the file's name (.ndjson
or .jsonl, .csv) or by --format; without both it is NDJSON. With --excel the CSV begins with a byte order
mark, by which Excel sees that it is UTF-8.

Every export tells at its end how many ` + things + ` it has (NDJSON in its last line), and that is checked: one
that was cut off is an error. With --to the file appears, or is replaced, only when the export is
complete; after Ctrl-C or a failure it is as it was before. An export is one moment's picture, so it
cannot go on where another one stopped: start it again.`
}

// exporting is what an export command exports: from a path, by filters.
type exporting struct {
	path      string
	filters   filters
	one, many string // what it has
}

// exportCommand makes cmd the command "export".
func (c *cli) exportCommand(cmd *cobra.Command, what exporting) *cobra.Command {
	var to, format string
	var excel bool
	cmd.Use, cmd.Args = "export", cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if format == "" && to == "" {
			format = "ndjson"
			if excel {
				format = "csv"
			}
		}
		var err error
		if format, err = formatOf(to, format, "ndjson", "csv"); err != nil {
			return err
		}
		query := what.filters.query(cmd)
		query.Set("format", format)
		if excel {
			if format != "csv" {
				return usagef("--excel writes CSV, for a file such as %s.csv", what.many)
			}
			query.Set("bom", "true")
		}
		cl, err := c.client()
		if err != nil {
			return err
		}
		if to == "" {
			_, err := c.export(cmd.Context(), cl, what, query, c.stdout)
			return err
		}
		var count int64
		err = saveTo(to, func(w io.Writer) (err error) {
			count, err = c.export(cmd.Context(), cl, what, query, w)
			return err
		})
		if err != nil {
			return err
		}
		return c.printDone("exported "+quantity(count, what.one, what.many)+" to "+to, map[string]any{"to": to, "format": format, "count": count})
	}
	f := cmd.Flags()
	f.StringVar(&to, "to", "", "a file to write instead of standard output")
	f.StringVar(&format, "format", "", "ndjson or csv")
	f.BoolVar(&excel, "excel", false, "CSV that Excel opens as UTF-8")
	what.filters.flags(cmd)
	notEmpty(cmd, "to", "format")
	return cmd
}

// export writes an export to w and returns how many it has. An export that was cut off is
// an error.
func (c *cli) export(ctx context.Context, cl *client, what exporting, query url.Values, w io.Writer) (int64, error) {
	s, err := cl.stream(ctx, what.path+"?"+query.Encode())
	if err != nil {
		return 0, err
	}
	defer s.Close()
	var rows tally = &ndjsonTally{}
	if query.Get("format") == "csv" {
		rows = &csvTally{}
	}
	shown := progress{c: c}
	var total int64
	line := func() string { return quantity(rows.count(), what.one, what.many) + ", " + sizeOf(total) }
	buffer := make([]byte, 64<<10)
	for {
		n, err := s.Read(buffer)
		total += int64(n)
		rows.add(buffer[:n])
		if _, err := w.Write(buffer[:n]); err != nil {
			return 0, shown.end(fmt.Errorf("write the export: %w", err))
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, shown.end(fmt.Errorf("%w; the export is not complete", err))
		}
		shown.flow(unknown, line)
	}
	says, complete := rows.end(s.res.Trailer.Get("X-Waypost-Count"))
	if !complete || says != rows.count() {
		return 0, shown.end(errors.New("the answer was cut off; the export is not complete"))
	}
	if c.terminal {
		shown.show(1, line())
	}
	return says, shown.end(nil)
}

// tally counts what an export has while it is read.
type tally interface {
	add(piece []byte)
	count() int64
	// end returns the number of leads that the export states at its end; complete is false if it states
	// none, since it was cut off.
	end(trailer string) (n int64, complete bool)
}

// ndjsonTally counts lines, and keeps the last one, which tells how many there are.
type ndjsonTally struct {
	lines int64
	last  []byte // the newest line, at most maxMarker bytes of it
	ended bool   // whether all of it has come
}

const maxMarker = 100

func (t *ndjsonTally) add(piece []byte) {
	for part := range bytes.Lines(piece) {
		if t.ended {
			t.lines++
			t.last = t.last[:0]
		}
		t.last = append(t.last, part[:min(len(part), maxMarker-len(t.last))]...)
		t.ended = bytes.HasSuffix(part, []byte("\n"))
	}
}

func (t *ndjsonTally) count() int64 { return t.lines }

func (t *ndjsonTally) end(string) (int64, bool) {
	var marker struct {
		End   bool  `json:"end"`
		Count int64 `json:"count"`
	}
	if json.Unmarshal(t.last, &marker) != nil {
		return 0, false
	}
	return marker.Count, marker.End
}

// csvTally counts records: line ends outside of quotes. The first record is the header.
type csvTally struct {
	records int64
	quoted  bool
}

func (t *csvTally) add(piece []byte) {
	for _, b := range piece {
		switch {
		case b == '"': // a doubled quote toggles twice
			t.quoted = !t.quoted
		case b == '\n' && !t.quoted:
			t.records++
		}
	}
}

func (t *csvTally) count() int64 { return max(0, t.records-1) }

func (t *csvTally) end(trailer string) (int64, bool) {
	n, err := strconv.ParseInt(trailer, 10, 64)
	return n, err == nil && t.records > 0
}
