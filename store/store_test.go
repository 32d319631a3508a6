package store_test

import (
	"testing"

	"waypost/store/storetest"
)

func TestSQLite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.SQLite)
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	storetest.RequirePostgres(t)
	storetest.Run(t, storetest.PostgresPool(t))
}
