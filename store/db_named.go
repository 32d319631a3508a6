package store

import (
	"context"

	"github.com/uptrace/bun"

	"waypost"
)

// namedPage is a page of a table's rows by how their name begins, newest first.
type namedPage struct {
	alias  string // of the table
	id     string // what orders the rows: their id, or a column that is equal to it
	prefix string // "": any name
	waypost.Page
}

// nameWay is how many rows, the newest first, are looked at for a page before all rows of
// the name are read.
const nameWay = 2000

// scanNamed reads a page of the rows that base selects. If many are of the name, the page is
// soon full of the newest; if few are, they are soon read and sorted. Left to itself,
// PostgreSQL would walk through all newer rows to a page of old ones.
func scanNamed[R any](ctx context.Context, s *db, p namedPage, base func() *bun.SelectQuery) (rows []R, err error) {
	n := pageSize(p.Page)
	after := func() *bun.SelectQuery {
		q := base()
		if p.After != "" {
			q.Where(p.id+" < ?", cleanText(p.After))
		}
		return q
	}
	if p.prefix == "" || !s.hasStatistics() {
		err = p.named(after()).OrderExpr(p.id+" DESC").Limit(n).Scan(ctx, &rows)
		return rows, err
	}
	way := after().OrderExpr(p.id + " DESC").Limit(nameWay)
	met := s.r.NewSelect().Model((*R)(nil)).ModelTableExpr("(?) AS "+p.alias, way)
	err = p.named(met).OrderExpr(p.alias+".id DESC").Limit(n).Scan(ctx, &rows)
	if err != nil || len(rows) == int(n) {
		return rows, err
	}
	// Without OFFSET, what rows are looked up by would depend on the order and the limit.
	found := p.named(after()).ColumnExpr(p.id + " AS id")
	ids := s.r.NewSelect().TableExpr("(? OFFSET 0) AS k", found).Column("k.id").OrderExpr("k.id DESC").Limit(n)
	rows = nil
	err = s.r.NewSelect().Model((*R)(nil)).Where(p.alias+".id IN (?)", ids).OrderExpr(p.alias+".id DESC").Scan(ctx, &rows)
	return rows, err
}

// named restricts q to the rows of the name, case aside.
func (p namedPage) named(q *bun.SelectQuery) *bun.SelectQuery {
	if p.prefix == "" {
		return q
	}
	name := foldName(p.prefix)
	q.Where(p.alias+".name_folded >= ?", name)
	if end := prefixEnd(name); end != "" {
		q.Where(p.alias+".name_folded < ?", end)
	}
	return q
}
