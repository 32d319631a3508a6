-- +goose Up

-- What was decided about enrollments that run: target is the id of an enrollment,
-- a launch or a journey. sweep_at says when the sweeper next carries out a cancel
-- of a launch or a journey, sweep_after how far it got.
CREATE TABLE controls (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  target TEXT COLLATE "C" NOT NULL,
  kind TEXT NOT NULL,
  from_at BIGINT NOT NULL,
  until_at BIGINT,
  shift BOOLEAN NOT NULL,
  sweep_at BIGINT,
  sweep_after TEXT COLLATE "C" NOT NULL
);
CREATE INDEX controls_by_target ON controls (target);
CREATE UNIQUE INDEX controls_paused ON controls (target) WHERE kind = 'pause' AND until_at IS NULL;
CREATE INDEX controls_to_sweep ON controls (sweep_at) WHERE sweep_at IS NOT NULL;

-- Workflows that wait for the resume of a target.
CREATE TABLE holds (
  target TEXT COLLATE "C" NOT NULL,
  workflow_id TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (target, workflow_id)
);

-- What a cancel of a journey is about, besides its launches.
CREATE INDEX enrollments_by_journey ON enrollments (journey_id, id) WHERE launch_id IS NULL;

-- Doorbells that workflows have not heard yet.
CREATE TABLE notices (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workflow_id TEXT COLLATE "C" NOT NULL,
  enrollment_id TEXT COLLATE "C" NOT NULL,
  event_id TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  claimed_until BIGINT NOT NULL
);
CREATE INDEX notices_by_workflow ON notices (workflow_id, id);

-- seq orders the events of a lead: it is drawn while the lead's row is locked.
CREATE TABLE events (
  seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  org TEXT COLLATE "C" NOT NULL,
  stage TEXT COLLATE "C" NOT NULL,
  event_id TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  leads_id BIGINT NOT NULL REFERENCES leads (leads_id) ON DELETE CASCADE,
  properties TEXT NOT NULL,
  accepted_at BIGINT NOT NULL,
  UNIQUE (org, stage, event_id)
);
CREATE INDEX events_by_lead ON events (leads_id, name, seq);

-- Visits to waitForEvent nodes. A closed one stays, with the event that satisfied
-- it, if one did: that one does not count for the same node again. Those to waitUntil
-- nodes have no event but fields: what of the lead their end depends on, one a line.
CREATE TABLE waits (
  enrollment_id TEXT COLLATE "C" NOT NULL REFERENCES enrollments (id) ON DELETE CASCADE,
  visit BIGINT NOT NULL,
  node_id TEXT COLLATE "C" NOT NULL,
  event TEXT COLLATE "C" NOT NULL,
  leads_id BIGINT NOT NULL,
  workflow_id TEXT COLLATE "C" NOT NULL,
  seen BIGINT NOT NULL DEFAULT 0,
  closed BOOLEAN NOT NULL DEFAULT FALSE,
  event_id TEXT COLLATE "C" NOT NULL DEFAULT '',
  fields TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (enrollment_id, visit)
);
CREATE INDEX waits_open ON waits (leads_id, event) WHERE NOT closed;
CREATE UNIQUE INDEX waits_matched ON waits (enrollment_id, node_id, event_id) WHERE event_id <> '';
