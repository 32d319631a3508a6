package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/uptrace/bun"

	"waypost"
)

// rowByID reads the row of a scope that has an id in a column; sql.ErrNoRows if there is
// none. The scope is no part of the query: with it, any index that begins with the scope
// would seem as good as the one of the ids.
func rowByID[R interface{ scope() waypost.Scope }, ID any](
	ctx context.Context, s *db, sc waypost.Scope, column string, id ID,
) (row R, err error) {
	rows, err := rowsByID[R](ctx, s, column, []ID{id})
	if err != nil {
		return row, err
	}
	if len(rows) == 0 || rows[0].scope() != sc {
		return row, sql.ErrNoRows
	}
	return rows[0], nil
}

// rowsByID reads the rows of a table of which a column, that tells them apart, is one of
// ids. For few rows planning would take longer than reading: query plans it once.
func rowsByID[R, ID any](ctx context.Context, s *db, column string, ids []ID) (rows []R, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	q := s.r.NewSelect().Model(&rows)
	if !s.postgres {
		err = q.Where("? IN (?)", bun.Ident(column), bun.List(ids)).Scan(ctx)
		return rows, err
	}
	found, err := s.query(ctx, nil, q.Where("? = ANY ($1)", bun.Ident(column)).String(), ids)
	if err != nil {
		return nil, err
	}
	err = s.r.ScanRows(ctx, found, &rows)
	return rows, err
}

// scanByID scans the row that q selects by an id of the scope; NotFound if there is none.
// what says what the id names.
func scanByID(ctx context.Context, q *bun.SelectQuery, sc waypost.Scope, what, id string) error {
	q.Where("?TableAlias.id = ? AND ?TableAlias.org = ? AND ?TableAlias.stage = ?", cleanText(id), sc.Org, sc.Stage)
	return scanOne(ctx, q, what, id)
}

// scanOne scans the only row that q selects; NotFound if there is none. what and id say of
// what.
func scanOne(ctx context.Context, q *bun.SelectQuery, what, id string) error {
	return notFound(q.Scan(ctx), "id", "there is no %s %s", what, clip(id))
}

// noSuch is the answer for an id that names nothing.
func noSuch(what, id string) error {
	return waypost.Errorf(waypost.CodeNotFound, "id", "there is no %s %s", what, clip(id))
}

// notFound turns "no rows" into a NotFound of what was looked for.
func notFound(err error, target, format string, args ...any) error {
	if errors.Is(err, sql.ErrNoRows) {
		return waypost.Errorf(waypost.CodeNotFound, target, format, args...)
	}
	return err
}

// updateOnly shows change the only row of a table (with its alias), which is locked, and
// stores it if change says so.
func updateOnly[R any](ctx context.Context, s *db, alias string, change func(*R) (bool, error)) (row R, err error) {
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := s.lock(tx.NewSelect().Model(&row), alias).Scan(ctx); err != nil {
			return err
		}
		changed, err := change(&row)
		if err != nil || !changed {
			return err
		}
		_, err = tx.NewUpdate().Model(&row).WherePK().Exec(ctx)
		return err
	})
	return row, err
}

// updateOne changes the row of an id as update says; NotFound if there is none. what says
// what the id names.
func (s *db) updateOne(ctx context.Context, what, id string, update func(tx bun.Tx) *bun.UpdateQuery) error {
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := affected(update(tx).Where("id = ?", cleanText(id)).Exec(ctx))
		if err == nil && n == 0 {
			err = noSuch(what, id)
		}
		return err
	})
}

// missing returns those of ids that q finds no row of the scope for, sorted and without
// duplicates.
func missing(ctx context.Context, q *bun.SelectQuery, sc waypost.Scope, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var there []string
	q.Column("id").Where("id IN (?) AND org = ? AND stage = ?", bun.List(mapped(ids, cleanText)), sc.Org, sc.Stage).Order("id")
	err := q.Scan(ctx, &there)
	return slices.DeleteFunc(distinct(ids), func(id string) bool { return slices.Contains(there, id) }), err
}

// namesakes returns what another stage has of the names of a table's rows, by the rows'
// ids. and narrows what counts there (alias b).
func (s *db) namesakes(
	ctx context.Context, table, and string, sc waypost.Scope, stage waypost.Stage, ids []string,
) (map[string]waypost.Namesake, error) {
	found := map[string]waypost.Namesake{}
	if len(ids) == 0 {
		return found, nil
	}
	var rows []struct {
		Origin, Name, ID string
		N                int
	}
	err := s.r.NewSelect().TableExpr(table+" AS a").ColumnExpr("a.id AS origin, a.name AS name, COALESCE(min(b.id), '') AS id, count(b.id) AS n").
		Join("LEFT JOIN "+table+" AS b ON b.org = a.org AND b.stage = ? AND b.name_folded = a.name_folded AND b.name = a.name"+and, stage).
		Where("a.id IN (?) AND a.org = ? AND a.stage = ?", bun.List(mapped(ids, cleanText)), sc.Org, sc.Stage).GroupExpr("a.id, a.name").Scan(ctx, &rows)
	for _, row := range rows {
		found[row.Origin] = waypost.Namesake{Name: row.Name, ID: row.ID, N: row.N}
	}
	return found, err
}

// pageOf restricts q to a page of the scope's rows, newest first by their id.
func pageOf(q *bun.SelectQuery, sc waypost.Scope, id string, page waypost.Page) *bun.SelectQuery {
	q.Where("org = ? AND stage = ?", sc.Org, sc.Stage)
	if page.After != "" {
		q.Where("? < ?", bun.Ident(id), cleanText(page.After))
	}
	return q.OrderExpr("? DESC", bun.Ident(id)).Limit(pageSize(page))
}

// pageSize bounds how many rows one page can hold: one more than a client may
// ask for, so that the caller can look whether another page follows.
func pageSize(p waypost.Page) int64 {
	if p.Limit <= 0 {
		return waypost.DefaultPageSize
	}
	return int64(min(p.Limit, waypost.MaxPageSize+1))
}

// affected counts the rows that a statement has changed.
func affected(res sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// mapped returns what of makes of each element of a list.
func mapped[T, V any](list []T, of func(T) V) []V {
	values := make([]V, len(list))
	for i, element := range list {
		values[i] = of(element)
	}
	return values
}

// decoded is mapped for rows that can hold what cannot be read: it ends with the first.
func decoded[R, T any](rows []R, decode func(R) (T, error)) (list []T, err error) {
	list = make([]T, len(rows))
	for i, row := range rows {
		if list[i], err = decode(row); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// keyed returns the elements of a list by their keys.
func keyed[K comparable, T any](list []T, key func(T) K) map[K]T {
	byKey := make(map[K]T, len(list))
	for _, element := range list {
		byKey[key(element)] = element
	}
	return byKey
}

// distinct returns the values in ascending order, which is that in which rows are locked,
// and without duplicates.
func distinct[T cmp.Ordered](values []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(values)))
}

// foldRows has fold add up to limit rows of a table, oldest first, to what they belong to, and
// deletes them. more tells that there may be others. Calls at the same time share the work, and
// one that is cut off folds nothing.
func foldRows[R any](
	ctx context.Context, s *db, limit int, fold func(ctx context.Context, tx bun.Tx, rows []R) error,
) (more bool, err error) {
	// Without a lock first: with nothing to do it costs one read.
	if more, err = s.r.NewSelect().Model((*R)(nil)).Column("id").Order("id").Limit(1).Exists(ctx); err != nil || !more {
		return false, err
	}
	err = s.writeRows(ctx, limit, func(ctx context.Context, tx bun.Tx) error {
		var rows []R
		q := tx.NewSelect().Model(&rows).Order("id").Limit(int64(limit))
		if err := s.lockFor(q, forDelete+skipLocked).Scan(ctx); err != nil || len(rows) == 0 {
			more = false
			return err
		}
		more = len(rows) == limit
		if err := fold(ctx, tx, rows); err != nil {
			return err
		}
		_, err := tx.NewDelete().Model(&rows).WherePK().Exec(ctx)
		return err
	})
	return more, err
}
