package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// indexRow is the only row of its table: the lease of whoever writes the search
// index, the index's generations, and the last reindex.
type indexRow struct {
	bun.BaseModel `bun:"table:article_index,alias:ai"`

	ID           int    `bun:"id,pk"`
	Installation string `bun:"installation"`
	Holder       string `bun:"holder"`        // "" if nobody holds it
	HolderEngine string `bun:"holder_engine"` // the engine that the holder writes
	HeldUntil    stamp  `bun:"held_until"`
	Epoch        int64  `bun:"epoch"`

	Engine   string `bun:"engine"`
	Live     string `bun:"live"`
	Building string `bun:"building"`
	Cursor   int64  `bun:"cursor"`
	Mark     int64  `bun:"mark"`

	Status    string `bun:"status"` // "" if there was no reindex
	Message   string `bun:"message"`
	Total     int    `bun:"total"`
	Processed int    `bun:"processed"`
	CreatedAt stamp  `bun:"created_at"`
	StartedAt stamp  `bun:"started_at"`
	EndedAt   stamp  `bun:"ended_at"`
}

func (r *indexRow) index() waypost.ArticleIndex {
	return waypost.ArticleIndex{
		Engine: r.Engine, Live: r.Live, Building: r.Building, Cursor: r.Cursor,
		Requested: waypost.ReindexStatus(r.Status) == waypost.ReindexPending, Epoch: r.Epoch, Mark: r.Mark,
	}
}

func (r *indexRow) reindex() waypost.Reindex {
	return waypost.Reindex{
		Status: waypost.ReindexStatus(r.Status), Message: r.Message, Total: r.Total, Processed: r.Processed,
		CreatedAt: r.CreatedAt.Time, StartedAt: r.StartedAt.pointer(), EndedAt: r.EndedAt.pointer(),
	}
}

// open tells whether a reindex was asked for or runs.
func (r *indexRow) open() bool {
	status := waypost.ReindexStatus(r.Status)
	return status == waypost.ReindexPending || status == waypost.ReindexRunning
}

// RequestReindex asks for a reindex, which whoever holds the index begins. One that
// was asked for or runs is returned as it is.
func (s *index) RequestReindex(ctx context.Context, by waypost.Caller) (reindex waypost.Reindex, err error) {
	defer wrap(&err, "request a reindex")
	_, author := by.Within()
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockIndexRow(ctx, tx)
		if err != nil {
			return err
		}
		if !row.open() {
			row.Status, row.Message, row.Total, row.Processed = string(waypost.ReindexPending), "", 0, 0
			row.CreatedAt, row.StartedAt, row.EndedAt = stamp{s.time()}, stamp{}, stamp{}
			if _, err := tx.NewUpdate().Model(&row).WherePK().Exec(ctx); err != nil {
				return err
			}
			if err := s.audit.add(ctx, tx, author, "article.reindex", "articles", nil, nil); err != nil {
				return err
			}
		}
		reindex = row.reindex()
		return s.idempotency.keepResult(ctx, tx, reindex)
	})
	return reindex, err
}

// Reindex returns the last reindex as it stands; NotFound if there was none.
func (s *index) Reindex(ctx context.Context) (waypost.Reindex, error) {
	row, err := s.indexRow(ctx)
	if err == nil && row.Status == "" {
		err = waypost.Errorf(waypost.CodeNotFound, "", "there was no reindex")
	}
	return row.reindex(), err
}

// ArticleIndex returns how the search index stands.
func (s *index) ArticleIndex(ctx context.Context) (waypost.ArticleIndex, error) {
	row, err := s.indexRow(ctx)
	return row.index(), err
}

// Installation returns an id that no other database has, and this one always.
func (s *index) Installation(ctx context.Context) (id string, err error) {
	defer wrap(&err, "name the installation")
	row, err := s.indexRow(ctx)
	if err != nil || row.Installation != "" {
		return row.Installation, err
	}
	row, err = updateOnly(ctx, s.db, "ai", func(r *indexRow) (bool, error) {
		if r.Installation != "" {
			return false, nil
		}
		r.Installation = waypost.NewID("", s.time())
		return true, nil
	})
	return row.Installation, err
}

func (s *index) indexRow(ctx context.Context) (row indexRow, err error) {
	defer wrap(&err, "look how the search index stands")
	err = s.r.NewSelect().Model(&row).Scan(ctx)
	return row, err
}

func (s *index) lockIndexRow(ctx context.Context, tx bun.Tx) (row indexRow, err error) {
	err = s.lock(tx.NewSelect().Model(&row), "ai").Scan(ctx)
	return row, err
}

// lockIndex keeps others from taking the index over until the transaction ends.
// Conflict if holder does not hold it.
func (s *index) lockIndex(ctx context.Context, tx bun.Tx, holder string) (indexRow, error) {
	row, err := s.lockIndexRow(ctx, tx)
	if err == nil {
		err = row.checkHolder(holder)
	}
	return row, err
}

// checkHolder is a Conflict if holder does not hold the index. A lease that has run out is
// still its holder's while nobody else has taken it.
func (r *indexRow) checkHolder(holder string) error {
	if holder == "" || r.Holder != holder {
		return waypost.Errorf(waypost.CodeConflict, "", "another process writes the search index now")
	}
	return nil
}

// HoldArticleIndex takes the index for holder, an id that only its process has, or
// renews its hold, and tells how the index stands and whether holder holds it: for two
// thirds of ttl at least. It is free if nobody holds it or the hold has run out; an
// exclusive holder, who knows that no other process can have its engine open, also
// takes it from one that had the same. Each time that it gets another holder its epoch
// rises. It can be called often: it writes only where something is to change, and not
// for a hold that lasts long enough.
func (s *index) HoldArticleIndex(
	ctx context.Context, holder, engine string, exclusive bool, ttl time.Duration,
) (ix waypost.ArticleIndex, held bool, err error) {
	decide := func(r *indexRow) (held, renew bool) {
		left := r.HeldUntil.Sub(s.time())
		switch {
		case r.Holder == holder && r.HolderEngine == engine && left >= ttl*2/3:
			return true, false
		case r.Holder == "" || r.Holder == holder || left <= 0 || exclusive && r.HolderEngine == engine:
			return true, true
		}
		return false, false
	}
	row, err := s.indexRow(ctx)
	if err != nil {
		return ix, false, err
	}
	held, renew := decide(&row)
	if !renew {
		return row.index(), held, nil
	}
	defer wrap(&err, "hold the search index")
	row, err = updateOnly(ctx, s.db, "ai", func(r *indexRow) (bool, error) {
		if held, renew = decide(r); !renew {
			return false, nil
		}
		if r.Holder != holder {
			r.Epoch++
		}
		r.Holder, r.HolderEngine, r.HeldUntil = holder, engine, stamp{s.time().Add(ttl)}
		return true, nil
	})
	return row.index(), held, err
}

// ReleaseArticleIndex gives the index back, if holder holds it.
func (s *index) ReleaseArticleIndex(ctx context.Context, holder string) (err error) {
	defer wrap(&err, "release the search index")
	_, err = updateOnly(ctx, s.db, "ai", func(r *indexRow) (bool, error) {
		if r.Holder != holder {
			return false, nil
		}
		r.Holder, r.HolderEngine, r.HeldUntil = "", "", stamp{}
		return true, nil
	})
	return err
}

// updateIndex changes the row of the index for its holder: change tells whether there is
// something to write.
func (s *index) updateIndex(ctx context.Context, holder string, change func(*indexRow) bool) error {
	_, err := updateOnly(ctx, s.db, "ai", func(r *indexRow) (bool, error) {
		if err := r.checkHolder(holder); err != nil {
			return false, err
		}
		return change(r), nil
	})
	return err
}

// BeginReindex notes that a generation is filled from now on, from the first article:
// for the reindex that was asked for or runs, else for a new one. Where the holder
// writes another engine than the one whose generations SQL knows, it forgets those:
// they miss changes from now on. Conflict if holder does not hold the index.
func (s *index) BeginReindex(ctx context.Context, holder, generation string) (err error) {
	defer wrap(&err, "begin a reindex")
	total, err := s.r.NewSelect().Model((*articleRow)(nil)).Count(ctx)
	if err != nil {
		return fmt.Errorf("count articles: %w", err)
	}
	return s.updateIndex(ctx, holder, func(r *indexRow) bool {
		now := stamp{s.time()}
		if !r.open() {
			r.CreatedAt = now
		}
		if r.Engine != r.HolderEngine {
			r.Engine, r.Live = r.HolderEngine, ""
		}
		r.Building, r.Cursor = generation, 0
		r.Status, r.Message, r.Total, r.Processed = string(waypost.ReindexRunning), "", int(total), 0
		r.StartedAt, r.EndedAt = now, stamp{}
		return true
	})
}

// ReindexPage returns articles of all organisations and stages whose numbers are
// higher than after, by number: at most limit, and as many as hold about 8 MiB of text
// together; none after the last. An article that is stored at the same time may be
// missing, but then it is among ArticleChanges.
func (s *index) ReindexPage(ctx context.Context, after int64, limit int) (page []waypost.IndexedArticle, err error) {
	defer wrap(&err, "load articles")
	for {
		var numbers []int64
		err := s.r.NewSelect().Model((*articleRow)(nil)).Column("number").Where("number > ?", after).Order("number").Limit(int64(limit)).Scan(ctx, &numbers)
		if err != nil || len(numbers) == 0 {
			return nil, err
		}
		articles, read, err := s.indexed(ctx, numbers)
		for _, n := range numbers[:read] {
			if a := articles[n]; a != nil {
				page = append(page, *a)
			}
		}
		if err != nil || len(page) > 0 {
			return page, err
		}
		after = numbers[read-1] // all of them were deleted meanwhile: that is not the end
	}
}

// AdvanceReindex notes that the generation holds the articles up to cursor, and that
// these were so many more. A second call changes nothing. Conflict if holder does not
// hold the index.
func (s *index) AdvanceReindex(ctx context.Context, holder string, cursor int64, processed int) (err error) {
	defer wrap(&err, "note the place of the reindex")
	return s.updateIndex(ctx, holder, func(r *indexRow) bool {
		if r.Building == "" || cursor <= r.Cursor {
			return false
		}
		r.Cursor = cursor
		r.Processed += processed
		return true
	})
}

// FinishReindex notes that searches use the generation that was filled, on engine,
// and which mark it has, and that the reindex has succeeded. A second call changes
// nothing. Conflict if holder does not hold the index.
func (s *index) FinishReindex(ctx context.Context, holder, engine string, mark int64) (err error) {
	defer wrap(&err, "finish the reindex")
	return s.updateIndex(ctx, holder, func(r *indexRow) bool {
		if r.Building == "" {
			return false
		}
		r.Engine, r.Live, r.Building, r.Cursor, r.Mark = engine, r.Building, "", 0, mark
		r.Status, r.EndedAt = string(waypost.ReindexSucceeded), stamp{s.time()}
		return true
	})
}

// FailReindex ends the reindex that was asked for or runs, if there is one, as failed;
// message says why, without data of an article. Conflict if holder does not hold the
// index.
func (s *index) FailReindex(ctx context.Context, holder, message string) (err error) {
	defer wrap(&err, "end the reindex")
	return s.updateIndex(ctx, holder, func(r *indexRow) bool {
		if !r.open() {
			return false
		}
		r.Building, r.Cursor = "", 0
		r.Status, r.Message, r.EndedAt = string(waypost.ReindexFailed), cleanText(message), stamp{s.time()}
		return true
	})
}
