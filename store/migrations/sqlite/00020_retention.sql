-- +goose Up

-- What was dropped because its time was over stays counted: enrollments and
-- deliveries, by how they ended, of each launch of a journey ('': of none). ended_at is
-- when the last of these enrollments ended.
CREATE TABLE dropped (
  journey_id TEXT NOT NULL,
  launch_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  status TEXT NOT NULL,
  n INTEGER NOT NULL,
  ended_at INTEGER,
  PRIMARY KEY (journey_id, launch_id, kind, status)
) STRICT, WITHOUT ROWID;

-- The one row of the sweep that drops: who is at it, and when the last one ended.
CREATE TABLE retention (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  holder TEXT NOT NULL DEFAULT '',
  held_until INTEGER,
  swept_at INTEGER
) STRICT;
INSERT INTO retention (id) VALUES (1);
