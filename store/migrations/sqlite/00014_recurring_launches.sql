-- +goose Up

-- A launch with a cron expression recurs. It has no workflow but a Schedule at
-- Temporal: workflow_started_at says that this exists, done_at that it was deleted.
-- What it opens are launches that name it, one for each time; they read its list of
-- leads. skipped_at and skip_reason tell of the last occurrence that was not opened.
ALTER TABLE launches ADD COLUMN cron TEXT;
ALTER TABLE launches ADD COLUMN timezone TEXT NOT NULL DEFAULT '';
ALTER TABLE launches ADD COLUMN skipped_at INTEGER;
ALTER TABLE launches ADD COLUMN skip_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE launches ADD COLUMN recurring_id TEXT;
ALTER TABLE launches ADD COLUMN occurs_at INTEGER;
CREATE INDEX launches_recurring ON launches (id) WHERE cron IS NOT NULL AND done_at IS NULL;
CREATE UNIQUE INDEX launches_occurrences ON launches (recurring_id, occurs_at) WHERE recurring_id IS NOT NULL;
CREATE INDEX launches_by_recurring ON launches (recurring_id, id) WHERE recurring_id IS NOT NULL;

-- The share of the audience that is not enrolled, and how many these were.
ALTER TABLE launches ADD COLUMN control_group REAL NOT NULL DEFAULT 0;
ALTER TABLE launches ADD COLUMN held_out INTEGER NOT NULL DEFAULT 0;
