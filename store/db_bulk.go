package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
)

// bulk is a statement that writes many rows of one shape: the hot path of
// deliveries. PostgreSQL gets the rows as arrays, one a column, in a text that
// never changes and so is parsed once a connection; reading VALUES took a third of
// its time. SQLite gets one prepared statement and runs it for each row: reading
// VALUES took a third of its time too, and binding them takes the driver a time
// that grows with their square.
type bulk struct {
	table string // with its alias, such as "deliveries AS d"
	// columns are "name type" with PostgreSQL's types text, bigint, boolean, bytea.
	columns []string
	// An insert ends with suffix: ON CONFLICT and RETURNING. The first unique columns
	// tell its rows apart, for apply.
	suffix string
	unique int
	// An update changes the rows whose first keys columns match. set lists further
	// assignments; in exprs, the value of a column is written as $. An ordered one
	// locks the rows in the order of their keys first, where no other lock orders the
	// transactions that change them.
	keys    int
	set     string
	exprs   map[string]string
	ordered bool
	// was is the column that the last key is compared with, if there is one: only rows
	// that still hold an old value are changed.
	was string

	written                sync.Once
	forPostgres, forSQLite string // its texts, once they were needed
}

func (b *bulk) texts() (postgres, sqlite string) {
	b.written.Do(func() { b.forPostgres, b.forSQLite = b.postgres(), b.sqlite() })
	return b.forPostgres, b.forSQLite
}

// rowArgs returns the values of a row in the order of the columns: string, int, int64,
// []byte, stamp, and *bool, *int64 or *string, nil for NULL.
type rowArgs func(i int) []any

// run writes n rows and calls scan for each row that RETURNING gives.
func (b *bulk) run(ctx context.Context, s *db, tx bun.Tx, n int, args rowArgs, scan func(*sql.Rows) error) error {
	if n == 0 {
		return nil
	}
	if s.postgres {
		arrays, err := b.arrays(n, args)
		if err != nil {
			return err
		}
		text, _ := b.texts()
		rows, err := tx.Tx.QueryContext(ctx, text, append([]any{pgx.QueryExecModeCacheDescribe}, arrays...)...)
		if err != nil {
			return err
		}
		return scanAll(rows, scan)
	}
	// Watching the context costs the driver as much as the row. The transaction
	// watches it too.
	ctx = context.WithoutCancel(ctx)
	return b.each(ctx, s, tx, n, args, func(stmt *sql.Stmt, _ int, values []any) error {
		if scan == nil {
			_, err := stmt.ExecContext(ctx, values...)
			return err
		}
		rows, err := stmt.QueryContext(ctx, values...)
		if err != nil {
			return err
		}
		return scanAll(rows, scan)
	})
}

// apply inserts n rows and calls inserted for each that was not there yet.
func (b *bulk) apply(ctx context.Context, s *db, tx bun.Tx, n int, args rowArgs, inserted func(i int)) error {
	if s.postgres {
		return b.run(ctx, s, tx, n, args, func(rows *sql.Rows) error {
			var number int
			err := rows.Scan(&number)
			inserted(number - 1)
			return err
		})
	}
	ctx = context.WithoutCancel(ctx)
	return b.each(ctx, s, tx, n, args, func(stmt *sql.Stmt, i int, values []any) error {
		res, err := stmt.ExecContext(ctx, values...)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err
		}
		inserted(i)
		return nil
	})
}

// each runs the prepared statement for each of n rows on SQLite.
func (b *bulk) each(ctx context.Context, s *db, tx bun.Tx, n int, args rowArgs, run func(stmt *sql.Stmt, i int, values []any) error) error {
	if n == 0 {
		return nil
	}
	_, text := b.texts()
	stmt, err := s.statement(ctx, tx, text)
	if err != nil {
		return err
	}
	values := make([]any, 0, len(b.columns))
	for i := range n {
		row := args(i)
		values = values[:0]
		for _, v := range row[b.keys:] { // what is assigned stands before what is matched
			values = append(values, plain(v))
		}
		for _, v := range row[:b.keys] {
			values = append(values, plain(v))
		}
		if err := run(stmt, i, values); err != nil {
			return err
		}
	}
	return nil
}

func scanAll(rows *sql.Rows, scan func(*sql.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (b *bulk) names() []string {
	names := make([]string, len(b.columns))
	for i, column := range b.columns {
		names[i], _, _ = strings.Cut(column, " ")
	}
	return names
}

// assignments writes SET; value gives what stands for a column's value.
func (b *bulk) assignments(value func(name string) string) string {
	var list []string
	for _, name := range b.names()[b.keys:] {
		expr := "$"
		if e, ok := b.exprs[name]; ok {
			expr = e
		}
		list = append(list, name+" = "+strings.ReplaceAll(expr, "$", value(name)))
	}
	if b.set != "" {
		list = append(list, b.set)
	}
	return strings.Join(list, ", ")
}

// match joins the keys of an alias with what value gives for them.
func (b *bulk) match(alias string, value func(name string) string) string {
	var list []string
	for i, key := range b.names()[:b.keys] {
		column := key
		if i == b.own() {
			column = b.was
		}
		list = append(list, alias+"."+column+" = "+value(key))
	}
	return strings.Join(list, " AND ")
}

// own is how many of the keys are columns of the same name.
func (b *bulk) own() int {
	if b.was != "" {
		return b.keys - 1
	}
	return b.keys
}

// alias returns the table's name and its alias.
func (b *bulk) alias() (name, alias string) {
	name, _, _ = strings.Cut(b.table, " ")
	return name, b.table[strings.LastIndex(b.table, " ")+1:]
}

// arrayed is the table function that makes rows of one array a column.
func (b *bulk) arrayed() string {
	var sources []string
	for i, column := range b.columns {
		_, kind, _ := strings.Cut(column, " ")
		sources = append(sources, fmt.Sprintf("$%d::%s[]", i+1, kind))
	}
	return "unnest(" + strings.Join(sources, ", ") + ")"
}

func (b *bulk) postgres() string {
	names := strings.Join(b.names(), ", ")
	from := b.arrayed() + " AS u (" + names + ")"
	if b.unique > 0 {
		keys := strings.Join(b.names()[:b.unique], ", ")
		return "WITH u AS MATERIALIZED (SELECT * FROM " + b.arrayed() + " WITH ORDINALITY AS u (" + names + ", ordinal)), " +
			"i AS (INSERT INTO " + b.table + " (" + names + ") SELECT " + names + " FROM u " + b.suffix + " RETURNING " + keys + ") " +
			"SELECT u.ordinal FROM i JOIN u USING (" + keys + ")"
	}
	if b.keys == 0 {
		return "INSERT INTO " + b.table + " (" + names + ") SELECT * FROM " + from + " " + b.suffix
	}
	name, alias := b.alias()
	given := func(name string) string { return "u." + name }
	if b.ordered {
		keys := "l." + strings.Join(b.names()[:b.own()], ", l.")
		from = "(SELECT u.* FROM " + from + " JOIN " + name + " AS l ON " + b.match("l", given) +
			" ORDER BY " + keys + " FOR NO KEY UPDATE OF l) AS u"
	}
	return "UPDATE " + b.table + " SET " + b.assignments(given) + " FROM " + from + " WHERE " + b.match(alias, given)
}

func (b *bulk) sqlite() string {
	if b.keys == 0 {
		return "INSERT INTO " + b.table + " (" + strings.Join(b.names(), ", ") + ") VALUES (?" + strings.Repeat(", ?", len(b.columns)-1) + ") " + b.suffix
	}
	_, alias := b.alias()
	given := func(string) string { return "?" }
	return "UPDATE " + b.table + " SET " + b.assignments(given) + " WHERE " + b.match(alias, given)
}

// plain is a value as both drivers take it, without the detours of database/sql.
func plain(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case []byte:
		if v == nil {
			return nil
		}
	case stamp:
		if v.IsZero() {
			return nil
		}
		return v.UnixMicro()
	case *bool:
		if v == nil {
			return nil
		}
		return *v
	case *int64:
		if v == nil {
			return nil
		}
		return *v
	case *string:
		if v == nil {
			return nil
		}
		return *v
	}
	return v
}

// arrays turns rows into one typed array a column.
func (b *bulk) arrays(n int, args rowArgs) ([]any, error) {
	rows := make([][]any, n)
	for i := range rows {
		rows[i] = args(i)
	}
	arrays := make([]any, len(b.columns))
	for c, column := range b.columns {
		err := errors.New("the type is unknown")
		switch _, kind, _ := strings.Cut(column, " "); kind {
		case "text":
			arrays[c], err = array[string](rows, c)
		case "bigint":
			arrays[c], err = array[int64](rows, c)
		case "boolean":
			arrays[c], err = array[bool](rows, c)
		case "bytea":
			arrays[c], err = array[[]byte](rows, c)
		}
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", column, err)
		}
	}
	return arrays, nil
}

// array holds the values of a column, nil for NULL.
func array[T any](rows [][]any, column int) ([]*T, error) {
	values := make([]*T, len(rows))
	for i, row := range rows {
		switch v := plain(row[column]).(type) {
		case nil:
		case T:
			values[i] = &v
		default:
			return nil, fmt.Errorf("a value is a %T", v)
		}
	}
	return values, nil
}
