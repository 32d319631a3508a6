package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// Only files named db_* know which database it is; this one has what the other files need
// of both. SQLite has one writer: a write transaction is alone from its beginning and needs
// no row locks. PostgreSQL has many writers, and statistics to plan by.

// dialects is a statement, or a part of one, as each database has it.
type dialects struct{ postgres, sqlite string }

// in is the text for the database that the store is in.
func (s *db) in(d dialects) string {
	if s.postgres {
		return d.postgres
	}
	return d.sqlite
}

// Locks of rows, until the transaction ends.
const (
	forChange = "NO KEY UPDATE" // nobody else changes, deletes or locks the rows
	forDelete = "UPDATE"        // nobody else refers to them either
	forShare  = "SHARE"         // nobody changes them; others can lock them for share, too
	forKey    = "KEY SHARE"     // nobody deletes them

	skipLocked = " SKIP LOCKED" // after one of these: rows that others have locked are passed over
)

// lockFor makes q lock the rows that it finds. Where it joins tables, how says " OF alias".
func (s *db) lockFor(q *bun.SelectQuery, how string) *bun.SelectQuery {
	if s.postgres {
		q.For(how)
	}
	return q
}

// lock makes q lock the rows of the alias against changes.
func (s *db) lock(q *bun.SelectQuery, alias string) *bun.SelectQuery {
	return s.lockFor(q, forChange+" OF "+alias)
}

// lockRows locks the rows that q finds, in its order, and reads nothing of them.
func (s *db) lockRows(ctx context.Context, q *bun.SelectQuery, how string) error {
	if !s.postgres {
		return nil
	}
	_, err := q.ColumnExpr("1").For(how).Exec(ctx)
	return err
}

// Locks of tables, until the transaction ends. Those who read or write already are waited for.
const (
	againstUse    = "ACCESS EXCLUSIVE"    // nobody else reads the table or writes to it
	againstWrites = "SHARE ROW EXCLUSIVE" // nobody else writes to it: rows that are counted stay so many
)

// lockTable locks a table.
func (s *db) lockTable(ctx context.Context, tx bun.Tx, table, how string) error {
	if !s.postgres {
		return nil
	}
	_, err := tx.NewRaw("LOCK TABLE ? IN ? MODE", bun.Ident(table), bun.Safe(how)).Exec(ctx)
	return err
}

// othersWrite tells whether other transactions write while one does.
func (s *db) othersWrite() bool { return s.postgres }

// dropsCohorts tells whether a cohort goes with its last enrollment. SQLite would look
// through all enrollments for each, because one may refer to it.
func (s *db) dropsCohorts() bool { return s.postgres }

// hasLateral tells whether a subquery can depend on the table before it. Without that,
// statements follow one another, which SQLite need not send to a server.
func (s *db) hasLateral() bool { return s.postgres }

// list is the argument for a statement's many keys: an array, or for json_each of SQLite.
func (s *db) list(keys []string) (any, error) {
	if s.postgres {
		return keys, nil
	}
	return toJSON(keys)
}

// ofTouchpoints selects the deliveries (alias d) of the touchpoints that touchpointArgs
// lists. A CROSS JOIN of SQLite keeps its order: the keys first.
var ofTouchpoints = dialects{
	postgres: ` FROM unnest($1::text[], $2::bigint[]) AS u (enrollment_id, visit)
		JOIN deliveries AS d ON d.enrollment_id = u.enrollment_id AND d.visit = u.visit`,
	sqlite: " FROM json_each(?) AS u CROSS JOIN deliveries AS d ON d.enrollment_id = u.value ->> 0 AND d.visit = u.value ->> 1",
}

// touchpointArgs are the arguments of ofTouchpoints.
func (s *db) touchpointArgs(keys []waypost.Touchpoint) ([]any, error) {
	sorted := sortedKeys(keys)
	if s.postgres {
		ids, visits := make([]string, len(sorted)), make([]int64, len(sorted))
		for i, key := range sorted {
			ids[i], visits[i] = key.EnrollmentID, int64(key.Visit)
		}
		return []any{ids, visits}, nil
	}
	list := make([][2]any, len(sorted))
	for i, key := range sorted {
		list[i] = [2]any{key.EnrollmentID, key.Visit}
	}
	text, err := toJSON(list)
	return []any{text}, err
}

// unpack turns a column or literal with members in JSON into rows m, and says how
// their enrollment's and their lead's ids and their entry key are written.
func (s *db) unpack(list string) (from, id, lead, key string) {
	if s.postgres {
		return "json_to_recordset(" + list + "::json) AS m (e text, l bigint, k text)", "m.e", "m.l", "m.k"
	}
	return "json_each(" + list + ") AS m", "m.value ->> 'e'", "m.value ->> 'l'", "m.value ->> 'k'"
}

// withoutPlan keeps PostgreSQL from planning with a way ("sort", "seqscan") until the
// transaction ends: where its statistics are old, or there are none, that seems as good as
// the index that the statement is written for.
func (s *db) withoutPlan(ctx context.Context, tx bun.Tx, way string) error {
	if !s.postgres {
		return nil
	}
	_, err := tx.ExecContext(ctx, "SET LOCAL enable_"+way+" = off; SET LOCAL jit = off")
	return err
}

// hasStatistics tells whether the database knows how many rows each index would find.
func (s *db) hasStatistics() bool { return s.postgres }

// indexedBy makes q read a table (with its alias) by an index, on SQLite, which has no
// statistics to choose one by. Without a name it takes the primary or a unique key.
func (s *db) indexedBy(q *bun.SelectQuery, table, index string) {
	if !s.postgres && index != "" {
		q.ModelTableExpr(table+" INDEXED BY ?", bun.Ident(index))
	}
}

// hasField is the condition that a lead (alias l) has a custom field whose value is a text,
// or the number or boolean that the text spells. PostgreSQL has an index for it.
func (s *db) hasField(name, text string) condition {
	values := []any{text}
	var spelled any
	if strings.TrimSpace(text) == text && json.Unmarshal([]byte(text), &spelled) == nil {
		switch spelled.(type) {
		case bool:
			values = append(values, spelled)
		case float64:
			if waypost.IsExact(text) {
				values = append(values, spelled)
			}
		}
	}
	var parts []string
	c := condition{}
	for _, value := range values {
		if s.postgres {
			object, _ := toJSON(map[string]any{name: value}) // a text, a number or a boolean
			parts, c.args = append(parts, "l.custom_fields::jsonb @> ?::jsonb"), append(c.args, object)
			continue
		}
		switch value := value.(type) {
		case string:
			parts, c.args = append(parts, "f.type = 'text' AND f.value = ?"), append(c.args, value)
		case float64:
			parts, c.args = append(parts, "f.type IN ('integer', 'real') AND f.value = ?"), append(c.args, value)
		case bool:
			parts, c.args = append(parts, "f.type = ?"), append(c.args, text)
		}
	}
	c.text = "l.custom_fields IS NOT NULL AND (" + strings.Join(parts, " OR ") + ")"
	if !s.postgres {
		c.text = "EXISTS (SELECT 1 FROM json_each(l.custom_fields) AS f WHERE f.key = ? AND (" + strings.Join(parts, " OR ") + "))"
		c.args = append([]any{name}, c.args...)
	}
	return c
}

// snapshot runs fn in a transaction that only reads, all of it of one moment.
func (s *db) snapshot(ctx context.Context, fn func(ctx context.Context, tx bun.Tx) error) error {
	options := &sql.TxOptions{}
	if s.postgres { // a reader of SQLite sees one moment anyway
		options = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	return s.r.RunInTx(ctx, options, fn)
}

// nextNumbers draws n numbers that no row of the table has had.
func (s *db) nextNumbers(ctx context.Context, tx bun.Tx, table, column string, n int) ([]int64, error) {
	numbers := make([]int64, 0, n)
	if s.postgres {
		err := tx.NewRaw("SELECT nextval(pg_get_serial_sequence(?, ?)) FROM generate_series(1, ?)", table, column, n).Scan(ctx, &numbers)
		return numbers, err
	}
	// The only writer there is; the table remembers the numbers of deleted rows too.
	var last int64
	err := tx.NewRaw("SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = ?", table).Scan(ctx, &last)
	for i := range n {
		numbers = append(numbers, last+int64(i)+1)
	}
	return numbers, err
}

// rest lets a time pass in which others can write: SQLite has one writer.
func (s *db) rest(ctx context.Context, d time.Duration) error {
	if s.postgres {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sweepPage is how many rows a step of a sweep looks at together, and the most that it
// drops (with what belongs to them). That holds SQLite's only writer for about 10 ms; on
// PostgreSQL it is one transaction of many.
func (s *db) sweepPage() int64 {
	if s.postgres {
		return 250
	}
	return 50
}

// emptyLog takes what was overwritten out of SQLite's write-ahead log, too. While somebody reads
// from before it, or the caller is in a hurry, that is left to the next call, or to the end of the
// process: writers do not wait for readers, and what was committed is no error.
func (s *db) emptyLog(ctx context.Context) {
	if s.postgres {
		return
	}
	conn, err := s.w.Conn(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	for _, pragma := range []string{"busy_timeout(0)", "wal_checkpoint(TRUNCATE)", busyTimeout} {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA "+pragma)
	}
}
