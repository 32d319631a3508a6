-- +goose Up

-- What was dropped because its time was over stays counted: enrollments and
-- deliveries, by how they ended, of each launch of a journey ('': of none). ended_at is
-- when the last of these enrollments ended.
CREATE TABLE dropped (
  journey_id TEXT COLLATE "C" NOT NULL,
  launch_id TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  status TEXT COLLATE "C" NOT NULL,
  n BIGINT NOT NULL,
  ended_at BIGINT,
  PRIMARY KEY (journey_id, launch_id, kind, status)
);

-- The one row of the sweep that drops: who is at it, and when the last one ended.
CREATE TABLE retention (
  id BIGINT PRIMARY KEY CHECK (id = 1),
  holder TEXT NOT NULL DEFAULT '',
  held_until BIGINT,
  swept_at BIGINT
);
INSERT INTO retention (id) VALUES (1);
