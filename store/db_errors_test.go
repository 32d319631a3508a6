package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"waypost"
)

// An SQLite database whose disk is full is away until there is space.
func TestAwaySQLite(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "waypost.db")
	if _, _, err := Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	keys, err := waypost.ParseKeyring("k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), url, keys, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	bound := func(pages int) {
		t.Helper()
		if _, err := s.w.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count(%d)", pages)); err != nil {
			t.Fatal(err)
		}
	}
	write := func() error {
		_, err := s.CreateApplication(t.Context(), "", waypost.Application{Org: "acme", Name: "CRM", Grants: []waypost.Grant{"*"}})
		return err
	}
	bound(1) // it is not made smaller than it is
	for range 1000 {
		if err = write(); err != nil {
			break
		}
	}
	if !Away(err) {
		t.Errorf("a full disk: %v", err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("a read while the disk is full: %v", err)
	}
	bound(1 << 20)
	if err := write(); err != nil {
		t.Errorf("there is space again: %v", err)
	}
}

func TestAway(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := fmt.Sprintf("postgres://postgres@%s/waypost?sslmode=disable", l.Addr())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, refused := Open(t.Context(), nobody, nil, time.Now)
	for what, c := range map[string]struct {
		err  error
		want bool
	}{
		"nothing":                  {nil, false},
		"nobody listens":           {refused, true},
		"it is shut down":          {&pgconn.PgError{Code: "57P01"}, true},
		"it starts":                {&pgconn.PgError{Code: "57P03"}, true},
		"its disk is full":         {&pgconn.PgError{Code: "53100"}, true},
		"too many connections":     {&pgconn.PgError{Code: "53300"}, true},
		"no longer the primary":    {&pgconn.PgError{Code: pgReadOnly}, true},
		"the connection broke":     {io.ErrUnexpectedEOF, true},
		"the connection was reset": {&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, true},
		"a query was canceled":     {&pgconn.PgError{Code: "57014"}, false},
		"a row is there":           {&pgconn.PgError{Code: pgUnique}, false},
		"a broken query":           {&pgconn.PgError{Code: "42601"}, false},
		"nothing was found":        {sql.ErrNoRows, false},
		"the client left":          {context.Canceled, false},
		"what the vocabulary says": {waypost.Errorf(waypost.CodeNotFound, "", "no lead"), false},
	} {
		if got := Away(fmt.Errorf("write: %w", c.err)); got != c.want {
			t.Errorf("%s: Away(%v) is %t", what, c.err, got)
		}
	}
}
