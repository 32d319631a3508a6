package temporal

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The indexes that are left are those of the attributes that workflows have, and of what the
// Web UI looks for.
func TestIndexesThatAreUsed(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/temporal.db"
	if _, err := sqliteStore(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	db, err := openSQLite(path, "ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	left, err := indexes(t.Context(), db, "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'executions_visibility'")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"default_idx", "by_workflow_id", "by_workflow_type", "by_status", "by_execution_time", "by_task_queue",
		"by_parent_workflow_id", "by_root_workflow_id", "by_temporal_scheduled_by_id", "by_temporal_schedule_paused",
		"by_temporal_namespace_division", "by_keyword_01", "by_keyword_05",
	} {
		if !slices.Contains(left, name) {
			t.Errorf("there is no index %s any more", name)
		}
	}
	for _, name := range left {
		if unusedIndexes.MatchString(name) {
			t.Errorf("index %s is left", name)
		}
	}
	if len(left) > 30 {
		t.Errorf("%d indexes are left: %s", len(left), strings.Join(left, " "))
	}
	// One more attribute needs one more index.
	words := regexp.MustCompile(`List|\d+`)
	for column, name := range columns(SearchAttributes()) {
		index := "by_" + strings.ToLower(words.ReplaceAllString(column, "_$0"))
		// SQLite finds what is in a list with a table of its own.
		if strings.Contains(index, "list") == slices.Contains(left, index) || unusedIndexes.MatchString(index) {
			t.Errorf("%s is in the column %s, which has no index %s", name, column, index)
		}
	}
}
