package store

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

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

// What an entry of a part holds.
const (
	stagedRow   = 0
	stagedFault = 1
)

// importParts divides the rows of an import into compressed parts. An entry is the row's
// line, what it holds, its length and its bytes.
type importParts struct {
	list []importPartRow
	rows int

	packed  bytes.Buffer
	writer  *gzip.Writer
	entries int // of the part that is being written
	size    int
	head    []byte
}

func newImportParts() *importParts {
	writer, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		panic(err) // only for a level that does not exist
	}
	return &importParts{writer: writer}
}

func (p *importParts) add(row waypost.ImportRow) error {
	kind, data, fault := byte(stagedRow), row.Data, row.Fault
	if fault == nil && len(data) > maxImportRow {
		fault = waypost.Errorf(waypost.CodePayloadTooLarge, "", "the row is larger than %d bytes", maxImportRow)
	}
	if fault != nil {
		text, err := toJSON(fault)
		if err != nil {
			return err
		}
		kind, data = stagedFault, []byte(text)
	}
	if p.entries == 0 {
		p.packed.Reset()
		p.writer.Reset(&p.packed)
	}
	p.head = binary.AppendUvarint(p.head[:0], uint64(max(row.Line, 0)))
	p.head = binary.AppendUvarint(append(p.head, kind), uint64(len(data)))
	// A buffer takes everything.
	_, _ = p.writer.Write(p.head)
	_, _ = p.writer.Write(data)
	p.rows++
	p.entries++
	p.size += len(data)
	if p.entries >= maxPartRows || p.size >= maxPartBytes {
		p.end()
	}
	return nil
}

// end completes the part that is being written.
func (p *importParts) end() {
	if p.entries == 0 {
		return
	}
	_ = p.writer.Close()
	p.list = append(p.list, importPartRow{Number: len(p.list) + 1, Data: bytes.Clone(p.packed.Bytes())})
	p.entries, p.size = 0, 0
}

// errDamaged is a part that is not what was stored.
var errDamaged = errors.New("damaged part")

// readImportPart returns the rows of a part; errDamaged if it cannot be read.
func readImportPart(data []byte) (rows []waypost.ImportRow, err error) {
	unpacked, err := unpackImportPart(data)
	if err != nil {
		return nil, err
	}
	rest := bytes.NewReader(unpacked)
	for rest.Len() > 0 {
		line, lineErr := binary.ReadUvarint(rest)
		kind, kindErr := rest.ReadByte()
		size, sizeErr := binary.ReadUvarint(rest)
		if err := errors.Join(lineErr, kindErr, sizeErr); err != nil || size > uint64(rest.Len()) {
			return nil, errDamaged
		}
		at := len(unpacked) - rest.Len()
		row := waypost.ImportRow{Line: int(line), Data: unpacked[at : at+int(size)]}
		if kind == stagedFault {
			if err := json.Unmarshal(row.Data, &row.Fault); err != nil {
				return nil, errDamaged
			}
			row.Data = nil
		}
		rows = append(rows, row)
		rest.Reset(unpacked[at+int(size):])
	}
	return rows, nil
}

func unpackImportPart(data []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, errDamaged
	}
	unpacked, err := io.ReadAll(reader)
	if err != nil {
		return nil, errDamaged
	}
	return unpacked, nil
}

type importPartRow struct {
	bun.BaseModel `bun:"table:import_parts,alias:ip"`

	ImportID string `bun:"import_id,pk"`
	Number   int    `bun:"number,pk"`
	Data     []byte `bun:"data"`
}

var insertImportParts = bulk{
	table:   "import_parts",
	columns: []string{"import_id text", "number bigint", "data bytea"},
}

// partsAtOnce bounds what one statement stores: about as many MiB at most.
const partsAtOnce = 32

// insertAll stores the parts of an import.
func (p *importParts) insertAll(ctx context.Context, s *Store, tx bun.Tx, id string) error {
	for from := 0; from < len(p.list); from += partsAtOnce {
		list := p.list[from:min(from+partsAtOnce, len(p.list))]
		err := insertImportParts.run(ctx, s, tx, len(list), func(i int) []any {
			return []any{id, list[i].Number, list[i].Data}
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// importErrorsRow holds the failed rows of a part, in the order of their lines: one JSON
// object each, compressed. They are read one part at a time.
type importErrorsRow struct {
	bun.BaseModel `bun:"table:import_errors,alias:ie"`

	ImportID string `bun:"import_id,pk"`
	Part     int    `bun:"part,pk"`
	Data     []byte `bun:"data"`
}

// failedRow is an ImportError as it is stored.
type failedRow struct {
	Line    int               `json:"l"`
	Code    waypost.ErrorCode `json:"c"`
	Target  string            `json:"t,omitempty"`
	Message string            `json:"m"`
	Details []waypost.Detail  `json:"d,omitempty"`
}

func packErrors(list []waypost.ImportError) ([]byte, error) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	encoder := json.NewEncoder(writer)
	for _, e := range list {
		if err := encoder.Encode(failedRow{e.Line, e.Code, e.Target, e.Message, e.Details}); err != nil {
			return nil, fmt.Errorf("encode failed rows: %w", err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// eachError calls each for the failed rows of a part.
func (r importErrorsRow) eachError(each func(waypost.ImportError) error) error {
	reader, err := gzip.NewReader(bytes.NewReader(r.Data))
	if err != nil {
		return fmt.Errorf("read failed rows: %w", err)
	}
	decoder := json.NewDecoder(bufio.NewReader(reader))
	for {
		var row failedRow
		switch err := decoder.Decode(&row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read failed rows: %w", err)
		}
		err := each(waypost.ImportError{Line: row.Line, Error: &waypost.Error{Code: row.Code, Target: row.Target, Message: row.Message, Details: row.Details}})
		if err != nil {
			return err
		}
	}
}
