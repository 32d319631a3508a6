-- +goose Up

-- The occurrences of a recurring launch, newest first. Without the scope, SQLite
-- prefers the index of all launches of the scope.
DROP INDEX launches_by_recurring;
CREATE INDEX launches_by_recurring ON launches (org, stage, recurring_id, id) WHERE recurring_id IS NOT NULL;

-- What occurrences came to together is summed up without reading their rows.
CREATE INDEX launches_occurrence_counts ON launches (recurring_id, started_at, total, enrolled, skipped, held_out) WHERE recurring_id IS NOT NULL;
