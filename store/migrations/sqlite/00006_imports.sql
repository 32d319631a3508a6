-- +goose Up

-- parts_done is the place of an import: what is next is the part after it.
CREATE TABLE imports (
  id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  app_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  dry_run INTEGER NOT NULL,
  phone_region TEXT NOT NULL,
  status TEXT NOT NULL,
  message TEXT NOT NULL,
  total INTEGER NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  parts INTEGER NOT NULL,
  parts_done INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  claimed_at INTEGER,
  workflow_started_at INTEGER,
  started_at INTEGER,
  ended_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX imports_not_started ON imports (id) WHERE workflow_started_at IS NULL AND ended_at IS NULL;

-- Rows that are not processed yet, some hundred together: numbered from 1, and
-- compressed.
CREATE TABLE import_parts (
  import_id TEXT NOT NULL REFERENCES imports (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (import_id, number)
) STRICT;

-- The failed rows of a part, compressed.
CREATE TABLE import_errors (
  import_id TEXT NOT NULL REFERENCES imports (id) ON DELETE CASCADE,
  part INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (import_id, part)
) STRICT;
