package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
)

// bulk is a statement that writes many rows of one shape: the hot path of
// deliveries. PostgreSQL gets the rows as arrays, one a column, in a text that
// never changes and so is parsed and planned once a connection; reading VALUES
// took a third of its time. SQLite gets VALUES: one statement a row, though
// prepared, costs it half as much again.
type bulk struct {
	table string // with its alias, such as "deliveries AS d"
	// columns are "name type" with PostgreSQL's types text, bigint, boolean, bytea.
	columns []string
	// An insert ends with suffix: ON CONFLICT and RETURNING.
	suffix string
	// An update changes the rows whose first keys columns match. set lists further
	// assignments; in exprs, the value of a column is written as $.
	keys  int
	set   string
	exprs map[string]string
}

// args returns the values of a row in the order of the columns: string, int,
// int64, []byte, *bool or stamp, nil for NULL.
type rowArgs func(i int) []any

// run writes n rows and calls scan for each row that RETURNING gives.
func (b bulk) run(ctx context.Context, s *Store, tx bun.Tx, n int, args rowArgs, scan func(*sql.Rows) error) error {
	if n == 0 {
		return nil
	}
	if s.postgres {
		arrays, err := b.arrays(n, args)
		if err != nil {
			return err
		}
		rows, err := tx.Tx.QueryContext(ctx, b.postgres(), append([]any{pgx.QueryExecModeCacheStatement}, arrays...)...)
		if err != nil {
			return err
		}
		return scanAll(rows, scan)
	}
	values := make([]any, 0, n*len(b.columns))
	for i := range n {
		values = append(values, args(i)...)
	}
	if scan == nil {
		_, err := tx.NewRaw(b.sqlite(n), values...).Exec(ctx)
		return err
	}
	rows, err := tx.QueryContext(ctx, b.sqlite(n), values...)
	if err != nil {
		return err
	}
	return scanAll(rows, scan)
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

func (b bulk) names() []string {
	names := make([]string, len(b.columns))
	for i, column := range b.columns {
		names[i], _, _ = strings.Cut(column, " ")
	}
	return names
}

// assignments writes SET; value gives what stands for a column's value.
func (b bulk) assignments(value func(name string) string) string {
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

func (b bulk) postgres() string {
	var sources []string
	for i, column := range b.columns {
		_, kind, _ := strings.Cut(column, " ")
		sources = append(sources, fmt.Sprintf("$%d::%s[]", i+1, kind))
	}
	names := strings.Join(b.names(), ", ")
	unnest := "unnest(" + strings.Join(sources, ", ") + ") AS u (" + names + ")"
	if b.keys == 0 {
		return "INSERT INTO " + b.table + " (" + names + ") SELECT * FROM " + unnest + " " + b.suffix
	}
	alias := b.table[strings.LastIndex(b.table, " ")+1:]
	var match []string
	for _, key := range b.names()[:b.keys] {
		match = append(match, alias+"."+key+" = u."+key)
	}
	return "UPDATE " + b.table + " SET " + b.assignments(func(name string) string { return "u." + name }) +
		" FROM " + unnest + " WHERE " + strings.Join(match, " AND ")
}

func (b bulk) sqlite(n int) string {
	names := strings.Join(b.names(), ", ")
	row := "(?" + strings.Repeat(", ?", len(b.columns)-1) + ")"
	values := "VALUES " + row + strings.Repeat(", "+row, n-1)
	if b.keys == 0 {
		return "INSERT INTO " + b.table + " (" + names + ") " + values + " " + b.suffix
	}
	alias := b.table[strings.LastIndex(b.table, " ")+1:]
	var match []string
	for _, key := range b.names()[:b.keys] {
		match = append(match, alias+"."+key+" = u."+key)
	}
	return "WITH u (" + names + ") AS (" + values + ") UPDATE " + b.table + " SET " + b.assignments(func(name string) string { return "u." + name }) +
		" FROM u WHERE " + strings.Join(match, " AND ")
}

// arrays turns rows into one typed array a column.
func (b bulk) arrays(n int, args rowArgs) ([]any, error) {
	arrays := make([]any, len(b.columns))
	for c, column := range b.columns {
		switch _, kind, _ := strings.Cut(column, " "); kind {
		case "text":
			arrays[c] = make([]*string, n)
		case "bigint":
			arrays[c] = make([]*int64, n)
		case "boolean":
			arrays[c] = make([]*bool, n)
		case "bytea":
			arrays[c] = make([][]byte, n)
		default:
			return nil, fmt.Errorf("column %s has no known type", column)
		}
	}
	for i := range n {
		for c, v := range args(i) {
			if !put(arrays[c], i, v) {
				return nil, fmt.Errorf("column %s got %T", b.columns[c], v)
			}
		}
	}
	return arrays, nil
}

// put sets an element of an array; false if the value is of another type.
func put(array any, i int, v any) bool {
	switch array := array.(type) {
	case []*string:
		text, ok := v.(string)
		array[i] = &text
		return ok
	case []*bool:
		flag, ok := v.(*bool)
		array[i] = flag
		return ok
	case [][]byte:
		data, ok := v.([]byte)
		array[i] = data
		return ok
	case []*int64:
		switch v := v.(type) {
		case int:
			number := int64(v)
			array[i] = &number
		case int64:
			array[i] = &v
		case stamp:
			if !v.IsZero() {
				micros := v.UnixMicro()
				array[i] = &micros
			}
		default:
			return false
		}
		return true
	}
	return false
}
