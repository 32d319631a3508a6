-- +goose Up

-- An enrollment that an enroll node made: source is the enrollment and the visit
-- that it was made for, depth the number of enrollments before it in a row.
ALTER TABLE enrollments ADD COLUMN source TEXT;
ALTER TABLE enrollments ADD COLUMN depth INTEGER NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX enrollments_by_source ON enrollments (source) WHERE source IS NOT NULL;
