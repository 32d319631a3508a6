package store

import (
	"context"
	"strconv"

	"github.com/uptrace/bun"

	"waypost"
)

// ListVersions returns the published versions of a journey, newest first and
// without their definitions, which can be large. page.After is a version's number.
// NotFound if the scope has no such journey, BadRequest of "cursor" for an After
// that is no number.
func (s *journeys) ListVersions(
	ctx context.Context, sc waypost.Scope, id string, page waypost.Page,
) (_ []waypost.JourneyVersion, err error) {
	defer wrap(&err, "list versions of journey %s", clip(id))
	if _, err := s.journeyRow(ctx, sc, id); err != nil {
		return nil, err
	}
	var rows []versionRow
	q := s.r.NewSelect().Model(&rows).Column("journey_id", "version", "name", "hash", "published_at").
		Where("journey_id = ?", id).Order("version DESC").Limit(pageSize(page))
	if page.After != "" {
		after, err := strconv.Atoi(page.After)
		if err != nil {
			return nil, errCursor
		}
		q.Where("version < ?", after)
	}
	err = q.Scan(ctx)
	return mapped(rows, func(r versionRow) waypost.JourneyVersion {
		v := r.version(sc)
		v.Definition = nil
		return v
	}), err
}

// ArchiveJourney takes a journey out of use: there are no new enrollments and
// launches of it, and those that it has go on. One that is archived stays so;
// publishing it again ends that. NotFound if the scope has none of this id, Conflict
// if it was never published.
func (s *journeys) ArchiveJourney(ctx context.Context, by waypost.Caller, id string) (_ waypost.Journey, err error) {
	defer wrap(&err, "archive journey %s", clip(id))
	sc, author := by.Within()
	var row journeyRow
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if row, err = s.lockJourney(ctx, tx, sc, id); err != nil {
			return err
		}
		switch waypost.JourneyStatus(row.Status) {
		case waypost.JourneyDraft:
			return waypost.Errorf(waypost.CodeConflict, "id", "the journey was never published; delete it instead")
		case waypost.JourneyArchived:
		default:
			before := row.audited()
			if err := s.setStatus(ctx, tx, &row, waypost.JourneyArchived); err != nil {
				return err
			}
			if err := dropEntryRules(ctx, tx, row.ID); err != nil {
				return err
			}
			if err := s.audit.add(ctx, tx, author, "journey.archive", id, before, row.audited()); err != nil {
				return err
			}
		}
		return s.idempotency.keepResult(ctx, tx, row.journey())
	})
	return row.journey(), err
}

func (s *journeys) setStatus(ctx context.Context, tx bun.Tx, row *journeyRow, status waypost.JourneyStatus) error {
	row.Status, row.UpdatedAt = string(status), stamp{s.time()}
	_, err := tx.NewUpdate().Model(row).Column("status", "updated_at").WherePK().Exec(ctx)
	return err
}

// inUse is the status that a journey has once it is published: an archived one is
// taken into use again, and is paused if it was paused meanwhile.
func (s *journeys) inUse(ctx context.Context, tx bun.Tx, row journeyRow) (waypost.JourneyStatus, error) {
	status := waypost.JourneyStatus(row.Status)
	if status != waypost.JourneyDraft && status != waypost.JourneyArchived {
		return status, nil
	}
	paused, err := tx.NewSelect().Model((*controlRow)(nil)).Where("target = ? AND kind = 'pause' AND until_at IS NULL", row.ID).Exists(ctx)
	if err != nil || !paused {
		return waypost.JourneyActive, err
	}
	return waypost.JourneyPaused, nil
}

// refuseArchived is a Conflict if a journey is archived.
func refuseArchived(ctx context.Context, tx bun.Tx, id string) error {
	archived, err := tx.NewSelect().Model((*journeyRow)(nil)).Where("id = ? AND status = ?", id, waypost.JourneyArchived).Exists(ctx)
	if err == nil && archived {
		err = waypost.Errorf(waypost.CodeConflict, "id", "the journey is archived")
	}
	return err
}

// JourneyNamesakes returns what another stage has of the names of journeys, by their ids.
// Archived ones do not count there.
func (s *journeys) JourneyNamesakes(
	ctx context.Context, sc waypost.Scope, stage waypost.Stage, ids []string,
) (_ map[string]waypost.Namesake, err error) {
	defer wrap(&err, "look for journeys of other stages")
	return s.namesakes(ctx, "journeys", " AND b.status <> 'archived'", sc, stage, ids)
}

// MissingJourneys returns those of ids that the scope has no journey for, sorted
// and without duplicates.
func (s *journeys) MissingJourneys(ctx context.Context, sc waypost.Scope, ids []string) (_ []string, err error) {
	defer wrap(&err, "look for journeys")
	return missing(ctx, s.r.NewSelect().Model((*journeyRow)(nil)), sc, ids)
}
