package store

import (
	"path/filepath"
	"slices"
	"testing"
)

// Every column of bytes holds what is sealed, and is sealed again with a new key, or
// is known to hold something else.
func TestSealedColumns(t *testing.T) {
	t.Parallel()
	loc := location{path: filepath.Join(t.TempDir(), "waypost.db")}
	if _, _, err := Migrate(t.Context(), "sqlite:"+loc.path); err != nil {
		t.Fatal(err)
	}
	want := []string{"import_errors.data", "import_parts.data", "launch_leads.ids"} // in the clear
	for _, c := range sealedColumns {
		want = append(want, c.table+"."+c.column)
	}
	slices.Sort(want)
	db := loc.openSQLite(true)
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT m.name || '.' || c.name FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table' AND c.type = 'BLOB' ORDER BY 1")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		got = append(got, name)
	}
	if err := rows.Err(); err != nil || !slices.Equal(got, want) {
		t.Errorf("the columns of bytes are %q, known are %q: %v", got, want, err)
	}
}
