package store

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/gob"
	"errors"
	"io"
	"slices"

	"github.com/uptrace/bun"

	"waypost"
)

// Bounds of what an import is divided into. A part is what one step processes: its
// transaction takes some hundredths of a second.
const (
	maxPartRows  = 500
	maxPartBytes = 1 << 20 // of a part before it is compressed, save that one row may exceed it
	maxImportRow = 1 << 20 // of a row's JSON: as much as a request may have to create a lead
)

// importParts divides the rows of an import into compressed parts.
type importParts struct {
	list  []importPartRow
	total int // rows

	rows []waypost.ImportRow // of the part that is being filled
	size int                 // bytes in rows
}

func (p *importParts) add(row waypost.ImportRow) error {
	if row.Fault == nil && len(row.Data) > maxImportRow {
		row.Fault = waypost.Errorf(waypost.CodePayloadTooLarge, "", "the row is larger than %d bytes", maxImportRow)
	}
	row.Data = bytes.Clone(row.Data)
	if row.Fault != nil {
		row.Data = nil
	}
	p.rows = append(p.rows, row)
	p.total++
	p.size += len(row.Data)
	if len(p.rows) >= maxPartRows || p.size >= maxPartBytes {
		return p.end()
	}
	return nil
}

// end completes the part that is being filled.
func (p *importParts) end() error {
	if len(p.rows) == 0 {
		return nil
	}
	data, err := pack(p.rows)
	p.list = append(p.list, importPartRow{Number: len(p.list) + 1, Data: data})
	p.rows, p.size = p.rows[:0], 0
	return err
}

// pack encodes and compresses a value for a column.
func pack(v any) ([]byte, error) {
	var packed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err == nil {
		err = errors.Join(gob.NewEncoder(writer).Encode(v), writer.Close())
	}
	return packed.Bytes(), err
}

// errDamaged is a column that does not hold what was stored.
var errDamaged = errors.New("damaged part")

// unpack reverses pack; errDamaged if that cannot be done.
func unpack(data []byte, v any) error {
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return errDamaged
	}
	unpacked, err := io.ReadAll(reader) // to its end, where the checksum is
	if err != nil || gob.NewDecoder(bytes.NewReader(unpacked)).Decode(v) != nil {
		return errDamaged
	}
	return nil
}

type importPartRow struct {
	bun.BaseModel `bun:"table:import_parts,alias:ip"`

	ImportID string `bun:"import_id,pk"`
	Number   int    `bun:"number,pk"`
	Data     []byte `bun:"data"` // packed waypost.ImportRow values
}

var insertImportParts = bulk{
	table:   "import_parts",
	columns: []string{"import_id text", "number bigint", "data bytea"},
}

// partsAtOnce bounds what one statement stores: about as many MiB at most.
const partsAtOnce = 32

// insertAll stores the parts of an import.
func (p *importParts) insertAll(ctx context.Context, s *db, tx bun.Tx, id string) error {
	for list := range slices.Chunk(p.list, partsAtOnce) {
		err := insertImportParts.run(ctx, s, tx, len(list), func(i int) []any {
			return []any{id, list[i].Number, list[i].Data}
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// importLeadRow is a lead that an import has created or updated.
type importLeadRow struct {
	bun.BaseModel `bun:"table:import_leads,alias:il"`

	ImportID string `bun:"import_id,pk"`
	LeadsID  int64  `bun:"leads_id,pk"`
}

// A lead may stand in several rows.
var insertImportLeads = bulk{
	table:   "import_leads",
	columns: []string{"import_id text", "leads_id bigint"},
	suffix:  "ON CONFLICT DO NOTHING",
}

// importErrorsRow holds the failed rows of a part, in the order of their lines. They are
// read one part at a time.
type importErrorsRow struct {
	bun.BaseModel `bun:"table:import_errors,alias:ie"`

	ImportID string `bun:"import_id,pk"`
	Part     int    `bun:"part,pk"`
	Data     []byte `bun:"data"` // packed waypost.ImportError values
}
