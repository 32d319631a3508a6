-- +goose Up

-- A bulk redelivery: reached is the last message that it has looked at. done_at
-- says that it looks for no further one: all are done, or it was canceled (with
-- canceled_at) or failed (with a message).
CREATE TABLE redeliveries (
  id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  app_id TEXT NOT NULL,
  filter TEXT NOT NULL,
  message TEXT NOT NULL,
  total INTEGER NOT NULL,
  redelivered INTEGER NOT NULL,
  skipped INTEGER NOT NULL,
  reached TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  stepped_at INTEGER NOT NULL,
  done_at INTEGER,
  canceled_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX redeliveries_by_scope ON redeliveries (org, stage, id);
CREATE INDEX redeliveries_to_step ON redeliveries (stepped_at, id) WHERE done_at IS NULL;

-- A group of messages that one workflow redelivers; members is what starts it.
CREATE TABLE redelivery_batches (
  id TEXT PRIMARY KEY,
  redelivery_id TEXT,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  members TEXT,
  created_at INTEGER NOT NULL,
  claimed_at INTEGER,
  workflow_started_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX redelivery_batches_not_started ON redelivery_batches (id) WHERE workflow_started_at IS NULL;

-- Rounds after the first. Each says which workflow works at it and how the round
-- before it ended: its journey goes by the first one for good.
CREATE TABLE delivery_rounds (
  enrollment_id TEXT NOT NULL,
  visit INTEGER NOT NULL,
  round INTEGER NOT NULL,
  workflow_id TEXT NOT NULL,
  redelivery_id TEXT,
  began_at INTEGER NOT NULL,
  canceled_at INTEGER,
  status TEXT NOT NULL,
  succeed INTEGER,
  attempts INTEGER NOT NULL,
  first_attempt_at INTEGER,
  last_attempt_at INTEGER,
  duration_ms INTEGER NOT NULL,
  http_status INTEGER NOT NULL,
  error_class TEXT NOT NULL,
  message TEXT NOT NULL,
  PRIMARY KEY (enrollment_id, visit, round),
  FOREIGN KEY (enrollment_id, visit) REFERENCES deliveries (enrollment_id, visit) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_rounds_by_redelivery ON delivery_rounds (redelivery_id) WHERE redelivery_id IS NOT NULL;
