-- +goose Up

-- What was decided about enrollments that run: target is the id of an enrollment,
-- a launch or a journey. sweep_at says when the sweeper next carries out a cancel
-- of a launch or a journey, sweep_after how far it got.
CREATE TABLE controls (
  id INTEGER PRIMARY KEY,
  target TEXT NOT NULL,
  kind TEXT NOT NULL,
  from_at INTEGER NOT NULL,
  until_at INTEGER,
  shift INTEGER NOT NULL,
  sweep_at INTEGER,
  sweep_after TEXT NOT NULL
) STRICT;
CREATE INDEX controls_by_target ON controls (target);
CREATE UNIQUE INDEX controls_paused ON controls (target) WHERE kind = 'pause' AND until_at IS NULL;
CREATE INDEX controls_to_sweep ON controls (sweep_at) WHERE sweep_at IS NOT NULL;

-- Workflows that wait for the resume of a target.
CREATE TABLE holds (
  target TEXT NOT NULL,
  workflow_id TEXT NOT NULL,
  PRIMARY KEY (target, workflow_id)
) STRICT, WITHOUT ROWID;

-- What a cancel of a journey is about, besides its launches.
CREATE INDEX enrollments_by_journey ON enrollments (journey_id, id) WHERE launch_id IS NULL;

-- Doorbells that workflows have not heard yet.
CREATE TABLE notices (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  workflow_id TEXT NOT NULL,
  enrollment_id TEXT NOT NULL,
  event_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  claimed_until INTEGER NOT NULL
) STRICT;
CREATE INDEX notices_by_workflow ON notices (workflow_id, id);

-- seq orders the events of a lead: it is drawn while the lead's row is locked.
CREATE TABLE events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  event_id TEXT NOT NULL,
  name TEXT NOT NULL,
  leads_id INTEGER NOT NULL REFERENCES leads (leads_id) ON DELETE CASCADE,
  properties TEXT NOT NULL,
  accepted_at INTEGER NOT NULL,
  UNIQUE (org, stage, event_id)
) STRICT;
CREATE INDEX events_by_lead ON events (leads_id, name, seq);

-- Visits to waitForEvent nodes. A closed one stays, with the event that satisfied
-- it, if one did: that one does not count for the same node again. Those to waitUntil
-- nodes have no event but fields: what of the lead their end depends on, one a line.
CREATE TABLE waits (
  enrollment_id TEXT NOT NULL REFERENCES enrollments (id) ON DELETE CASCADE,
  visit INTEGER NOT NULL,
  node_id TEXT NOT NULL,
  event TEXT NOT NULL,
  leads_id INTEGER NOT NULL,
  workflow_id TEXT NOT NULL,
  seen INTEGER NOT NULL DEFAULT 0,
  closed INTEGER NOT NULL DEFAULT 0,
  event_id TEXT NOT NULL DEFAULT '',
  fields TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (enrollment_id, visit)
) STRICT, WITHOUT ROWID;
CREATE INDEX waits_open ON waits (leads_id, event) WHERE NOT closed;
CREATE UNIQUE INDEX waits_matched ON waits (enrollment_id, node_id, event_id) WHERE event_id <> '';
