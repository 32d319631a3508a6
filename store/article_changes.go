package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// changeRow is an entry of the index's outbox. An article has one at most.
type changeRow struct {
	bun.BaseModel `bun:"table:article_changes,alias:ac"`

	Number    int64 `bun:"number,pk"`
	Revision  int64 `bun:"revision"`
	Bulk      bool  `bun:"bulk"`
	ChangedAt stamp `bun:"changed_at"` // of the first change that it stands for
	Tries     int   `bun:"tries"`
	DueAt     int64 `bun:"due_at"` // microseconds since 1970; 0: at once
}

// An article that changes again keeps its place, and is no longer what the index has
// refused.
var insertChanges = bulk{
	table:   "article_changes",
	columns: []string{"number bigint", "revision bigint", "bulk boolean", "changed_at bigint"},
	suffix: "ON CONFLICT (number) DO UPDATE SET revision = excluded.revision, bulk = article_changes.bulk AND excluded.bulk, " +
		"tries = 0, due_at = 0",
}

// noteChanges notes, in the transaction that changes articles, that the index has
// another revision than they.
func (s *index) noteChanges(ctx context.Context, tx bun.Tx, articles []*articleRow, bulk bool) error {
	articles = slices.SortedFunc(slices.Values(articles), func(x, y *articleRow) int { return cmp.Compare(x.Number, y.Number) })
	now := stamp{s.time()}
	return insertChanges.run(ctx, s.db, tx, len(articles), func(i int) []any {
		return []any{articles[i].Number, articles[i].Revision, &bulk, now}
	}, nil)
}

// maxIndexBytes bounds the texts of the articles that the indexer gets at once, save
// that it gets one of any size.
const maxIndexBytes = 8 << 20

// ArticleChanges returns changes that the index does not hold yet, at most limit and
// as many as hold about 8 MiB of text together: those of single articles before those
// of imports, oldest first, what was deferred last. An article may be newer than its
// Revision, never older.
func (s *index) ArticleChanges(ctx context.Context, limit int) (changes []waypost.ArticleChange, err error) {
	defer wrap(&err, "look for changed articles")
	var due []changeRow
	now := s.time().UnixMicro()
	for _, bulk := range []bool{false, true} {
		if len(due) >= limit {
			break
		}
		var some []changeRow
		err := s.r.NewSelect().Model(&some).Where("bulk = ? AND due_at <= ?", bulk, now).
			Order("due_at", "changed_at", "number").Limit(int64(limit - len(due))).Scan(ctx)
		if err != nil {
			return nil, err
		}
		due = append(due, some...)
	}
	articles, read, err := s.indexed(ctx, mapped(due, func(c changeRow) int64 { return c.Number }))
	return mapped(due[:read], func(c changeRow) waypost.ArticleChange {
		return waypost.ArticleChange{Number: c.Number, Revision: c.Revision, Tries: c.Tries, Article: articles[c.Number]}
	}), err
}

// indexed reads the articles of the first numbers, as many as maxIndexBytes permits,
// and says of how many. Deleted articles are missing in the answer.
func (s *index) indexed(ctx context.Context, numbers []int64) (articles map[int64]*waypost.IndexedArticle, read int, err error) {
	articles = map[int64]*waypost.IndexedArticle{}
	if len(numbers) == 0 {
		return articles, 0, nil
	}
	var rows []articleRow
	err = s.r.NewSelect().Model(&rows).Column("number", "size").Where("number IN (?)", bun.List(numbers)).Scan(ctx)
	if err != nil {
		return nil, 0, err
	}
	heads := keyed(rows, func(r articleRow) int64 { return r.Number })
	for size := 0; read < len(numbers); read++ {
		if size += heads[numbers[read]].Size; size > maxIndexBytes && read > 0 {
			break
		}
	}
	rows = nil
	if err := s.r.NewSelect().Model(&rows).Where("number IN (?)", bun.List(numbers[:read])).Scan(ctx); err != nil {
		return nil, 0, err
	}
	for i := range rows {
		a, err := rows[i].article()
		if err != nil {
			return nil, 0, err
		}
		articles[rows[i].Number] = &waypost.IndexedArticle{Number: rows[i].Number, Stage: rows[i].Stage, Article: a}
	}
	return articles, read, nil
}

// DoneArticleChanges notes that the index holds what ArticleChanges returned: an
// article that has changed since stays among the changes. mark is the one that the searched
// generation was given then, 0 if none. Conflict if holder does not hold the index.
func (s *index) DoneArticleChanges(ctx context.Context, holder string, done []waypost.ArticleChange, mark int64) (err error) {
	defer wrap(&err, "note that articles are in the index")
	if len(done) == 0 {
		return nil
	}
	byNumber := keyed(done, func(c waypost.ArticleChange) int64 { return c.Number })
	return s.writeRows(ctx, len(done), func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockIndex(ctx, tx, holder)
		if err != nil {
			return err
		}
		if mark > row.Mark {
			row.Mark = mark
			if _, err := tx.NewUpdate().Model(&row).Column("mark").WherePK().Exec(ctx); err != nil {
				return err
			}
		}
		// Locked first, in the order in which writers do it, and then compared: a writer
		// that is under way makes another revision of it.
		var rows []changeRow
		q := tx.NewSelect().Model(&rows).Column("number", "revision").Order("number").
			Where("number IN (?)", bun.List(slices.Collect(maps.Keys(byNumber))))
		if err := s.lock(q, "ac").Scan(ctx); err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, func(r changeRow) bool { return r.Revision != byNumber[r.Number].Revision })
		if len(rows) == 0 {
			return nil
		}
		_, err = tx.NewDelete().Model(&rows).WherePK().Exec(ctx)
		return err
	})
}

// Delays of a change that the index has refused: they double from the first to the
// last.
const (
	minChangeDelay = time.Second
	maxChangeDelay = time.Hour
)

func changeDelay(tries int) time.Duration {
	// After as many doublings it is the longest. The tries are those of the row, and a
	// library's back-off counts its own.
	return min(minChangeDelay<<min(max(tries, 0), 12), maxChangeDelay)
}

var deferChanges = bulk{
	table:   "article_changes AS ac",
	columns: []string{"number bigint", "revision bigint", "tries bigint", "due_at bigint"},
	keys:    2,
	ordered: true,
}

// DeferArticleChanges has ArticleChanges return changes that the index has refused again later:
// after a second, and twice as long after each further try, up to an hour. An article
// that has changed since is due at once. Conflict if holder does not hold the index.
func (s *index) DeferArticleChanges(ctx context.Context, holder string, failed []waypost.ArticleChange) (err error) {
	defer wrap(&err, "defer articles")
	if len(failed) == 0 {
		return nil
	}
	return s.writeRows(ctx, len(failed), func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockIndex(ctx, tx, holder); err != nil {
			return err
		}
		now := s.time()
		return deferChanges.run(ctx, s.db, tx, len(failed), func(i int) []any {
			c := failed[i]
			return []any{c.Number, c.Revision, c.Tries + 1, stamp{now.Add(changeDelay(c.Tries))}}
		}, nil)
	})
}

// PendingArticleChanges returns how many articles the index may not hold as they are,
// and since when the oldest of them; the zero time if there is none.
func (s *index) PendingArticleChanges(ctx context.Context) (n int, oldest time.Time, err error) {
	var row struct {
		N      int   `bun:"n"`
		Oldest stamp `bun:"oldest"`
	}
	defer wrap(&err, "count changed articles")
	err = s.r.NewSelect().Model((*changeRow)(nil)).ColumnExpr("count(*) AS n, min(changed_at) AS oldest").Scan(ctx, &row)
	return row.N, row.Oldest.Time, err
}
