package store

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
)

// Error codes that are told apart: PostgreSQL, appendix A; SQLite, result codes.
const (
	pgSerialization = "40001"
	pgStalePlan     = "0A000"
	pgNoStatement   = "26000"
	pgDeadlock      = "40P01"
	pgUnique        = "23505"
	pgReadOnly      = "25006"

	sqliteBusy     = 5
	sqliteReadOnly = 8
	sqliteIO       = 10
	sqliteFull     = 13
	sqliteCantOpen = 14
	sqliteNotADB   = 26
	sqliteUnique   = 2067 // an extended one
)

// wrap adds to the error of a method, when it returns, what was tried:
//
//	defer wrap(&err, "load launch %s", clip(id))
func wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *err)
	}
}

// Away tells whether an error of this package means that the database cannot be used
// for the moment: it is not there, it stops, its disk is full. What failed so may be
// tried again, and works once the database does.
func Away(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		// Connections, resources, an operator's intervention (a query that was canceled is
		// none), the system; and a server that is no longer the primary one.
		for _, class := range []string{"08", "53", "57P", "58"} {
			if strings.HasPrefix(refused.Code, class) {
				return true
			}
		}
		return refused.Code == pgReadOnly
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		switch lite.Code() & 0xff {
		case sqliteBusy, sqliteReadOnly, sqliteIO, sqliteFull, sqliteCantOpen:
			return true
		}
		return false
	}
	var dial *pgconn.ConnectError
	var network *net.OpError
	return errors.As(err, &dial) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) ||
		pgconn.SafeToRetry(err)
}
