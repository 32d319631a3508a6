package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"
)

// maxTries bounds how often a transaction is begun again after PostgreSQL chose
// it as the victim of a deadlock. Rows are locked in the order of their keys, so
// it should never happen.
const maxTries = 5

// deliveriesByScope is the index of deliveries by their message. Where two insert the
// same row at once, PostgreSQL may report this index as violated before the primary key, for which
// the insert has an ON CONFLICT; the second try finds the row.
const deliveriesByScope = "deliveries_by_scope"

// write runs fn, which writes few rows, in a transaction. fn may run again and must
// not keep anything of a run before.
func (s *db) write(ctx context.Context, fn func(ctx context.Context, tx bun.Tx) error) error {
	return s.writeRows(ctx, 1, fn)
}

// writeRows is write for about so many rows: on SQLite, large writes let small ones
// go before them.
func (s *db) writeRows(ctx context.Context, rows int, fn func(ctx context.Context, tx bun.Tx) error) error {
	if !s.postgres {
		if err := s.writers.enter(ctx, rows > smallWrite); err != nil {
			return err
		}
		defer s.writers.leave()
		if err := s.prepare(ctx); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		err := s.w.RunInTx(ctx, nil, fn)
		if try < maxTries && conflicts(err) {
			continue
		}
		return err
	}
}

// conflicts tells whether a statement failed because of another transaction, so that another try may pass.
func conflicts(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == pgDeadlock || pg.Code == pgSerialization || pg.ConstraintName == deliveriesByScope)
}

// maxPrepared bounds the statements that are kept prepared.
const maxPrepared = 50

// prepare prepares what a transaction before has missed: the transaction itself
// has the only connection.
func (s *db) prepare(ctx context.Context) error {
	for _, text := range s.missed {
		stmt, err := s.w.DB.PrepareContext(ctx, text)
		if err != nil {
			return err
		}
		s.prepared[text] = stmt
	}
	s.missed = s.missed[:0]
	return nil
}

// statement returns a prepared statement for a transaction of write on SQLite.
// Preparing it takes about as long as running it for twenty rows, so it is kept.
func (s *db) statement(ctx context.Context, tx bun.Tx, text string) (*sql.Stmt, error) {
	if stmt := s.prepared[text]; stmt != nil {
		return tx.Tx.StmtContext(ctx, stmt), nil
	}
	if len(s.prepared)+len(s.missed) < maxPrepared && !slices.Contains(s.missed, text) {
		s.missed = append(s.missed, text)
	}
	return tx.Tx.PrepareContext(ctx, text)
}

// exec runs a statement of the hot path in a transaction; its text never changes, and it
// returns no rows.
func (s *db) exec(ctx context.Context, tx bun.Tx, text string, args ...any) error {
	if s.postgres {
		_, err := tx.Tx.ExecContext(ctx, text, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
		return err
	}
	stmt, err := s.statement(ctx, tx, text)
	if err != nil {
		return err
	}
	_, err = stmt.ExecContext(context.WithoutCancel(ctx), args...)
	return err
}

// query runs a statement of the hot path, in a transaction or, if tx is nil, outside
// of one; its text never changes.
func (s *db) query(ctx context.Context, tx *bun.Tx, text string, args ...any) (*sql.Rows, error) {
	switch {
	case tx == nil && s.planned != nil:
		return s.planned.QueryContext(ctx, text, append([]any{pgx.QueryExecModeCacheStatement}, args...)...)
	case tx == nil:
		return s.r.DB.QueryContext(ctx, text, args...)
	case s.postgres:
		return tx.Tx.QueryContext(ctx, text, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	}
	stmt, err := s.statement(ctx, *tx, text)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(context.WithoutCancel(ctx), args...)
}
