package temporal

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
)

// unusedIndexes are the indexes of Temporal's table of workflows for attributes that nothing
// here has, or that no query asks for by themselves. Of 73 indexes, one for each attribute
// that could be defined, each is written twice for every workflow.
var unusedIndexes = regexp.MustCompile(`^by_(` +
	`(temporal_)?(bool|datetime|double|int|text)_\d+|temporal_(low_cardinality_)?keyword(_list)?_\d+|keyword_(0[6-9]|10)|keyword_list_03|` +
	`binary_checksums|build_ids|batcher_user|temporal_change_version|temporal_external_payload_\w+|` +
	`temporal_worker_deployment(_version)?|temporal_workflow_versioning_behavior|used_deployment_versions|` +
	`history_length|history_size_bytes|state_transition_count|parent_run_id|root_run_id|temporal_scheduled_start_time)$`)

// dropUnusedIndexes drops them; list selects the names of the table's indexes.
func dropUnusedIndexes(ctx context.Context, db *sql.DB, list string) error {
	names, err := indexes(ctx, db, list)
	if err != nil {
		return fmt.Errorf("list indexes: %w", err)
	}
	for _, name := range names {
		if !unusedIndexes.MatchString(name) {
			continue
		}
		if _, err := db.ExecContext(ctx, `DROP INDEX IF EXISTS "`+name+`"`); err != nil {
			return fmt.Errorf("drop index %s: %w", name, err)
		}
	}
	return nil
}

func indexes(ctx context.Context, db *sql.DB, list string) (names []string, err error) {
	rows, err := db.QueryContext(ctx, list)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}
