package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// sealedColumn is a column that holds what the keyring has sealed.
type sealedColumn struct {
	table, column string
	// keys are the primary key's columns: an id, and numbers.
	keys    []string
	purpose func(r sealedRow) string
	// messageID says that the purpose needs the id of the touchpoint's message.
	messageID bool
}

// sealedColumns are all of them. Values move from deliveries to attempts and to
// delivery_rounds, so these come after it.
var sealedColumns = []sealedColumn{
	{table: "access_keys", column: "secret", keys: []string{"access_key"}, purpose: func(r sealedRow) string { return accessKeyPurpose(r.id) }},
	{table: "users", column: "totp_secret", keys: []string{"id"}, purpose: func(r sealedRow) string { return totpPurpose(r.id) }},
	{table: "webhooks", column: "basic_password", keys: []string{"id"}, purpose: func(r sealedRow) string { return passwordPurpose(r.id) }},
	{table: "webhooks", column: "signing_secret", keys: []string{"id"}, purpose: func(r sealedRow) string { return signingPurpose(r.id) }},
	{table: "webhooks", column: "previous_signing_secret", keys: []string{"id"}, purpose: func(r sealedRow) string { return previousPurpose(r.id) }},
	{table: "webhooks", column: "tls_client_key", keys: []string{"id"}, purpose: func(r sealedRow) string { return clientKeyPurpose(r.id) }},
	{table: "idempotency_keys", column: "answer", keys: []string{"id"}, purpose: func(r sealedRow) string { return answerPurpose(r.id) }},
	{table: "enrollments", column: "event", keys: []string{"id"}, purpose: func(r sealedRow) string { return enrollmentEventPurpose(r.id) }},
	{table: "messages", column: "body", keys: []string{"enrollment_id", "visit"}, purpose: func(r sealedRow) string { return messagePurpose(r.messageID) }, messageID: true},
	{table: "deliveries", column: "response", keys: []string{"enrollment_id", "visit"}, purpose: sealedRow.response},
	{table: "attempts", column: "response", keys: []string{"enrollment_id", "visit", "round", "attempt"}, purpose: sealedRow.response},
	{table: "delivery_rounds", column: "response", keys: []string{"enrollment_id", "visit", "round"}, purpose: sealedRow.response},
}

// sealedRow is a sealed value and where it stands.
type sealedRow struct {
	id        string
	numbers   []int64
	messageID string
	sealed    []byte
	resealed  []byte // sealed again
}

func (r sealedRow) response() string {
	return responsePurpose(waypost.Touchpoint{EnrollmentID: r.id, Visit: int(r.numbers[0])})
}

// args are the primary key's values.
func (r sealedRow) args() []any {
	args := []any{r.id}
	for _, n := range r.numbers {
		args = append(args, n)
	}
	return args
}

// KeyUses counts what each key has sealed in each table, in the order of the
// tables. It reads all of it.
func (s *sealedRows) KeyUses(ctx context.Context) ([]waypost.KeyUse, error) {
	at := s.in(dialects{"position('\\x3a'::bytea IN t.?)", "instr(t.?, x'3a')"}) // of the colon
	var uses []waypost.KeyUse
	for _, c := range sealedColumns {
		var found []struct {
			Key []byte `bun:"key"`
			N   int64  `bun:"n"`
		}
		name := bun.Ident(c.column)
		// Of a value that names no key, the first byte stands for all of it.
		err := s.r.NewRaw("SELECT substr(t.?, 1, CASE WHEN "+at+" BETWEEN 2 AND 33 THEN "+at+" ELSE 1 END) AS key, count(*) AS n FROM ? AS t WHERE t.? IS NOT NULL GROUP BY 1 ORDER BY 1",
			name, name, name, bun.Ident(c.table), name).Scan(ctx, &found)
		if err != nil {
			return nil, fmt.Errorf("count what is sealed in %s: %w", c.table, err)
		}
		for _, f := range found {
			key := waypost.KeyOf(f.Key)
			// Of a key and a table with several columns there is one count.
			at := slices.IndexFunc(uses, func(u waypost.KeyUse) bool { return u.Key == key && u.Table == c.table })
			if at < 0 {
				at, uses = len(uses), append(uses, waypost.KeyUse{Key: key, Table: c.table})
			}
			uses[at].Values += f.N
		}
	}
	return uses, nil
}

const (
	// resealStep bounds how many rows are locked at a time, for some milliseconds.
	resealStep = 200
	// maxUnreadable bounds how many values an error names.
	maxUnreadable = 10
)

// Reseal seals everything with the keyring's first key that another one has sealed,
// in small steps that hold up nobody, whatever is read and written meanwhile. It can
// be ended at any time and called again, by several at once: it goes on with what is
// left. tell is called after each step with the number of values that it has sealed.
// What cannot be opened is left as it is; the error, at the end, names the first of
// these. What is sealed with another key meanwhile, by a process that has one in
// front, can be left, too: see KeyUses.
func (s *sealedRows) Reseal(ctx context.Context, tell func(n int)) error {
	var unreadable []error
	missed := 0
	for _, c := range sealedColumns {
		err := s.resealColumn(ctx, c, tell, func(r sealedRow, err error) {
			if missed++; missed <= maxUnreadable {
				unreadable = append(unreadable, fmt.Errorf("%s of %s in %s: %w", c.column, cmp.Or(r.messageID, r.id), c.table, err))
			}
		})
		if err != nil {
			return fmt.Errorf("seal %s of %s again: %w", c.column, c.table, err)
		}
	}
	if missed > maxUnreadable {
		unreadable = append(unreadable, fmt.Errorf("and %d more", missed-maxUnreadable))
	}
	return errors.Join(unreadable...)
}

// resealColumn is Reseal for one column: resealStep values in a transaction, in the order of their keys.
// miss is called for each value that cannot be opened, which stays as it is.
func (s *sealedRows) resealColumn(ctx context.Context, c sealedColumn, tell func(n int), miss func(r sealedRow, err error)) error {
	update := c.update()
	after := sealedRow{numbers: make([]int64, len(c.keys)-1)}
	for {
		rows, err := s.sealedAfter(ctx, c, after)
		if err != nil || len(rows) == 0 {
			return err
		}
		after = rows[len(rows)-1]
		var opened []sealedRow
		for _, r := range rows {
			plain, err := s.keys.Open(r.sealed, c.purpose(r))
			if err != nil {
				miss(r, err)
				continue
			}
			r.resealed = s.keys.Seal(plain, c.purpose(r))
			opened = append(opened, r)
		}
		if len(opened) == 0 {
			continue
		}
		began := time.Now()
		err = s.writeRows(ctx, len(opened), func(ctx context.Context, tx bun.Tx) error {
			return update.run(ctx, s.db, tx, len(opened), func(i int) []any {
				return append(opened[i].args(), opened[i].sealed, opened[i].resealed)
			}, nil)
		})
		if err != nil {
			return err
		}
		tell(len(opened))
		// SQLite has no queue for the writers of several processes: this leaves others half
		// of the time.
		if err := s.rest(ctx, time.Since(began)); err != nil {
			return err
		}
	}
}

// update writes a column where it still holds what was read.
func (c sealedColumn) update() *bulk {
	b := &bulk{table: c.table + " AS t", keys: len(c.keys) + 1, was: c.column, ordered: true}
	for i, key := range c.keys {
		kind := " bigint"
		if i == 0 {
			kind = " text"
		}
		b.columns = append(b.columns, key+kind)
	}
	b.columns = append(b.columns, "was bytea", c.column+" bytea")
	return b
}

// sealedAfter reads the next values after a row that another key than the first has sealed.
func (s *sealedRows) sealedAfter(ctx context.Context, c sealedColumn, after sealedRow) (list []sealedRow, err error) {
	keys := "t." + strings.Join(c.keys, ", t.")
	messageID := "''"
	if c.messageID {
		messageID = "(SELECT d.message_id FROM deliveries AS d WHERE d.enrollment_id = t.enrollment_id AND d.visit = t.visit)"
	}
	first := []byte(s.keys.IDs()[0] + ":")
	rows, err := s.r.QueryContext(ctx, "SELECT "+keys+", "+messageID+", t."+c.column+" FROM "+c.table+" AS t WHERE ("+keys+") > (?)"+
		" AND t."+c.column+" IS NOT NULL AND substr(t."+c.column+", 1, ?) <> ? ORDER BY "+keys+" LIMIT ?",
		bun.List(after.args()), len(first), first, resealStep)
	if err != nil {
		return nil, err
	}
	err = scanAll(rows, func(rows *sql.Rows) error {
		r := sealedRow{numbers: make([]int64, len(c.keys)-1)}
		dest := []any{&r.id}
		for i := range r.numbers {
			dest = append(dest, &r.numbers[i])
		}
		err := rows.Scan(append(dest, &r.messageID, &r.sealed)...)
		list = append(list, r)
		return err
	})
	return list, err
}
