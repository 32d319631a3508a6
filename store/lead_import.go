package store

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// importRow is an import and how far it is: PartsDone of Parts.
type importRow struct {
	bun.BaseModel `bun:"table:imports,alias:i"`

	ID string `bun:"id,pk"`
	waypost.Scope
	AppID       string               `bun:"app_id"`
	Mode        waypost.ImportMode   `bun:"mode"`
	Match       waypost.ImportMatch  `bun:"match"`
	DryRun      bool                 `bun:"dry_run"`
	PhoneRegion string               `bun:"phone_region"`
	Status      waypost.ImportStatus `bun:"status"`
	Message     string               `bun:"message"`
	Total       int                  `bun:"total"`
	Created     int                  `bun:"created"`
	Updated     int                  `bun:"updated"`
	Failed      int                  `bun:"failed"`
	Parts       int                  `bun:"parts"`
	PartsDone   int                  `bun:"parts_done"`
	CreatedAt   stamp                `bun:"created_at"`

	ClaimedAt         stamp `bun:"claimed_at"`
	WorkflowStartedAt stamp `bun:"workflow_started_at"`

	StartedAt stamp `bun:"started_at"` // of the first step
	EndedAt   stamp `bun:"ended_at"`
}

func (r importRow) imported() waypost.Import {
	return waypost.Import{
		ID: r.ID, Scope: r.Scope, AppID: r.AppID, Mode: r.Mode, Match: r.Match, DryRun: r.DryRun, PhoneRegion: r.PhoneRegion,
		Status: r.Status, Message: r.Message, Total: r.Total, Processed: r.Created + r.Updated + r.Failed,
		Created: r.Created, Updated: r.Updated, Failed: r.Failed,
		CreatedAt: r.CreatedAt.Time, StartedAt: r.StartedAt.pointer(), EndedAt: r.EndedAt.pointer(),
	}
}

// CreateImport stores the rows of an import for its workflow to process. It takes
// AppID, Mode, Match, DryRun and PhoneRegion of im; the rest is made here. The rows are
// compressed in memory before its transaction begins; an error among them ends it
// and is returned. A row of more than 1 MiB is stored as one that fails. An import
// without rows has succeeded at once. BadRequest if there is no such mode.
func (s *imports) CreateImport(
	ctx context.Context, by waypost.Caller, im waypost.Import, rows iter.Seq2[waypost.ImportRow, error],
) (made waypost.Import, err error) {
	defer wrap(&err, "create import")
	sc, author := by.Within()
	switch im.Mode {
	case waypost.ImportCreate, waypost.ImportUpdate, waypost.ImportUpsert:
	default:
		return made, waypost.Errorf(waypost.CodeBadRequest, "mode", "mode must be create, update or upsert")
	}
	if im.Match != "" && !slices.Contains(waypost.ImportMatches, im.Match) {
		return made, waypost.Errorf(waypost.CodeBadRequest, "match", "match must be leadsId, externalId, email or mobilePhone")
	}
	var parts importParts
	for row, err := range rows {
		if err == nil {
			err = errors.Join(ctx.Err(), parts.add(row))
		}
		if err != nil {
			return made, err
		}
	}
	if err := parts.end(); err != nil {
		return made, err
	}
	now := s.time()
	row := importRow{
		ID: waypost.NewID(waypost.PrefixImport, now), Scope: sc, AppID: im.AppID, Mode: im.Mode, Match: im.Match,
		DryRun: im.DryRun, PhoneRegion: im.PhoneRegion, Status: waypost.ImportPending, Total: parts.total, Parts: len(parts.list),
		CreatedAt: stamp{now},
	}
	if row.Parts == 0 {
		row.Status, row.EndedAt = waypost.ImportSucceeded, stamp{now}
	}
	made = row.imported()
	err = s.writeRows(ctx, parts.total, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		if err := parts.insertAll(ctx, s.db, tx, row.ID); err != nil {
			return err
		}
		after := fields{"mode": im.Mode, "match": im.Match, "dryRun": im.DryRun, "total": row.Total}
		if err := s.audit.add(ctx, tx, author, "lead.import", row.ID, nil, after); err != nil {
			return err
		}
		if row.Status.Ended() {
			if err := s.announcements.announceImport(ctx, tx, &row); err != nil {
				return err
			}
		}
		return s.idempotency.keepResult(ctx, tx, made)
	})
	return made, err
}

// Import returns an import as it stands; NotFound if the scope has none of this id.
func (s *imports) Import(ctx context.Context, sc waypost.Scope, id string) (_ waypost.Import, err error) {
	defer wrap(&err, "load import %s", clip(id))
	row, err := s.importOf(ctx, sc, id)
	return row.imported(), err
}

func (s *imports) importOf(ctx context.Context, sc waypost.Scope, id string) (row importRow, err error) {
	err = scanByID(ctx, s.r.NewSelect().Model(&row), sc, "import", id)
	return row, err
}

// CancelImport ends an import: rows that were processed stay, the others are
// deleted. One that was canceled before is returned as it is; NotFound if the scope
// has none of this id; Conflict if it has succeeded or failed.
func (s *imports) CancelImport(ctx context.Context, by waypost.Caller, id string) (im waypost.Import, err error) {
	defer wrap(&err, "cancel import %s", clip(id))
	sc, author := by.Within()
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockImport(ctx, tx, id)
		switch {
		case err != nil:
			return err
		case row.Scope != sc:
			return noSuch("import", id)
		case !row.Status.Ended():
			before := fields{"status": row.Status}
			if err = s.endImport(ctx, tx, &row, waypost.ImportCanceled, ""); err == nil {
				err = s.audit.add(ctx, tx, author, "import.cancel", id, before, fields{"status": row.Status})
			}
		case row.Status != waypost.ImportCanceled:
			return waypost.Errorf(waypost.CodeConflict, "status", "the import has %s", row.Status)
		}
		if err != nil {
			return err
		}
		im = row.imported()
		return s.idempotency.keepResult(ctx, tx, im)
	})
	return im, err
}

// FailImport ends an import that cannot go on, as CancelImport does; message says
// why, without data of a row. One that has ended is left as it is. NotFound if there
// is no such import.
func (s *imports) FailImport(ctx context.Context, id, message string) (err error) {
	defer wrap(&err, "mark import %s as failed", clip(id))
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockImport(ctx, tx, id)
		if err != nil || row.Status.Ended() {
			return err
		}
		return s.endImport(ctx, tx, &row, waypost.ImportFailed, message)
	})
}

func (s *imports) lockImport(ctx context.Context, tx bun.Tx, id string) (row importRow, err error) {
	err = scanOne(ctx, s.lock(tx.NewSelect().Model(&row).Where("id = ?", cleanText(id)), "i"), "import", id)
	return row, err
}

// endImport ends an import before all of its rows are processed.
func (s *imports) endImport(ctx context.Context, tx bun.Tx, row *importRow, status waypost.ImportStatus, message string) error {
	row.Status, row.Message, row.EndedAt = status, cleanText(message), stamp{s.time()}
	if _, err := tx.NewUpdate().Model(row).Column("status", "message", "ended_at").WherePK().Exec(ctx); err != nil {
		return err
	}
	if _, err := tx.NewDelete().Model((*importPartRow)(nil)).Where("import_id = ?", row.ID).Exec(ctx); err != nil {
		return err
	}
	return s.announcements.announceImport(ctx, tx, row)
}

// ImportErrors calls each for every row of an import that has failed so far, by
// line. Its error ends it and is returned. It holds those of one step at a time.
// NotFound if the scope has no import of this id, or if they were dropped.
func (s *imports) ImportErrors(ctx context.Context, sc waypost.Scope, id string, each func(waypost.ImportError) error) (err error) {
	defer wrap(&err, "read failed rows of import %s", clip(id))
	row, err := s.importOf(ctx, sc, id)
	if err != nil {
		return err
	}
	for after := 0; ; {
		var rows []importErrorsRow
		err := s.r.NewSelect().Model(&rows).Where("import_id = ? AND part > ?", id, after).Order("part").Limit(1).Scan(ctx)
		if err == nil && len(rows) == 0 && after == 0 && row.Failed > 0 {
			err = waypost.Errorf(waypost.CodeNotFound, "id", "why the %d rows failed is no longer kept", row.Failed)
		}
		if err != nil || len(rows) == 0 {
			return err
		}
		after = rows[0].Part
		var failed []waypost.ImportError
		if err := unpack(rows[0].Data, &failed); err != nil {
			return err
		}
		for _, e := range failed {
			if err := each(e); err != nil {
				return err
			}
		}
	}
}

// UnstartedImports claims up to limit imports that have not ended and that no workflow was
// started for; see claimUnstarted.
func (s *imports) UnstartedImports(ctx context.Context, claimedBefore time.Time, limit int) (_ []waypost.Import, err error) {
	defer wrap(&err, "look for imports")
	rows, err := claimUnstarted(ctx, s.db, "ended_at IS NULL", claimedBefore, limit, func(r importRow) string { return r.ID })
	return mapped(rows, importRow.imported), err
}

// MarkImportStarted notes that the workflow of an import runs (its id is the
// import's). A second call changes nothing. NotFound if there is no such import.
func (s *imports) MarkImportStarted(ctx context.Context, id string) (err error) {
	defer wrap(&err, "mark import %s as started", clip(id))
	return s.updateOne(ctx, "import", id, func(tx bun.Tx) *bun.UpdateQuery { return s.cohorts.workflowStarted(tx, (*importRow)(nil)) })
}

// staleTries bounds how often a step begins again because of leads that others
// stored meanwhile.
const staleTries = 20

// ImportStep processes the next rows of an import, at most 500, in one transaction
// that writes the leads, the rows that failed and the import's place: a crash
// neither loses nor repeats a row, and of calls at the same time each does other
// rows. It returns the import as it stands then; one that has ended is returned as
// it is. An import whose rows are damaged is marked as failed. NotFound if there is
// no such import; other errors are worth another try.
func (s *imports) ImportStep(ctx context.Context, id string) (_ waypost.Import, err error) {
	defer wrap(&err, "process import %s", clip(id))
	for try := 1; ; {
		im, err := s.tryImport(ctx, id)
		switch {
		case errors.Is(err, errDamaged):
			if err := s.FailImport(ctx, id, "the stored rows are damaged"); err != nil {
				return waypost.Import{}, err
			}
		case errors.Is(err, errOvertaken):
		case errors.Is(err, errStale) && try < staleTries:
			try++
		default:
			return im, err
		}
	}
}

// nextPart is an import and the rows that come next.
type nextPart struct {
	importRow `bun:",extend"`
	Data      []byte `bun:"data,scanonly"`
}

var (
	// errStale ends a transaction that rests on what is no longer so.
	errStale = errors.New("leads that others stored came between")
	// errOvertaken ends one whose rows another call has processed.
	errOvertaken = errors.New("another step has processed the rows")
)

// tryImport reads and checks the next rows, which needs no lock, and writes what
// becomes of them.
func (s *imports) tryImport(ctx context.Context, id string) (im waypost.Import, err error) {
	var seen nextPart
	err = s.r.NewSelect().Model(&seen).ColumnExpr("?TableColumns").ColumnExpr("ip.data").
		Join("LEFT JOIN import_parts AS ip ON ip.import_id = i.id AND ip.number = i.parts_done + 1").
		Where("i.id = ?", cleanText(id)).Scan(ctx)
	if err != nil {
		return im, notFound(err, "id", "there is no import %s", clip(id))
	}
	if seen.Status.Ended() {
		return seen.imported(), nil
	}
	var rows []waypost.ImportRow
	if err := unpack(seen.Data, &rows); err != nil {
		return im, err
	}
	lines, err := readLines(seen.importRow, rows, s.now())
	if err != nil {
		return im, err
	}
	err = s.writeRows(ctx, len(lines), func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockImport(ctx, tx, id)
		if err != nil {
			return err
		}
		if row.Status.Ended() || row.PartsDone != seen.PartsDone {
			return errOvertaken
		}
		now := s.time()
		b := newImportBatch(s, tx, row, now)
		if err := b.process(ctx, lines); err != nil {
			return err
		}
		im, err = s.recordPart(ctx, tx, row, b, now)
		return err
	})
	if err == nil {
		s.countGrown(ctx, im.Status.Ended(), "leads", "lead_phones")
	}
	return im, err
}

// recordPart notes what became of the rows of a part and deletes them.
func (s *imports) recordPart(ctx context.Context, tx bun.Tx, row importRow, b *importBatch, now time.Time) (im waypost.Import, err error) {
	row.PartsDone++
	part := importPartRow{ImportID: row.ID, Number: row.PartsDone}
	if _, err := tx.NewDelete().Model(&part).WherePK().Exec(ctx); err != nil {
		return im, err
	}
	if len(b.failures) > 0 {
		failed := importErrorsRow{ImportID: row.ID, Part: row.PartsDone}
		if failed.Data, err = pack(b.errors()); err != nil {
			return im, err
		}
		if _, err := tx.NewInsert().Model(&failed).Exec(ctx); err != nil {
			return im, err
		}
	}
	row.Created += b.created
	row.Updated += b.updated
	row.Failed += len(b.failures)
	row.Status = waypost.ImportRunning
	if row.StartedAt.IsZero() {
		row.StartedAt = stamp{now}
	}
	if row.PartsDone == row.Parts {
		row.Status, row.EndedAt = waypost.ImportSucceeded, stamp{now}
	}
	_, err = tx.NewUpdate().Model(&row).
		Column("status", "created", "updated", "failed", "parts_done", "started_at", "ended_at").WherePK().Exec(ctx)
	if err == nil && row.Status.Ended() {
		err = s.announcements.announceImport(ctx, tx, &row)
	}
	return row.imported(), err
}
