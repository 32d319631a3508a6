package store

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// On PostgreSQL, each step of a delivery is one statement instead of a transaction of
// several: each of those would cost a round trip, and half a millisecond of planning, which
// is done once for each connection here. These statements handle the usual case only, in
// which no other transaction changes the same rows. In any other case they change nothing,
// and the transaction, which is all that SQLite has, finds out what it is. The functions
// …InOneStatement stand beside their transactions; a test compares both.

// inOneStatement tells whether the database can do that.
func (s *db) inOneStatement() bool { return s.planned != nil }

// asExpected is a domain of the schema, and its constraint: a statement that casts FALSE to
// it fails, which takes back what it has done.
const asExpected = "as_expected"

// refused tells whether such a statement has failed because the case is not the usual one, or
// because it has to be planned anew.
func refused(err error) bool {
	var pg *pgconn.PgError
	return conflicts(err) || errors.As(err, &pg) && (pg.ConstraintName == asExpected || pg.Code == pgStalePlan || pg.Code == pgNoStatement)
}
