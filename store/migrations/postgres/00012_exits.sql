-- +goose Up

-- The events that end the enrollments of a version, wherever they stand.
CREATE TABLE journey_exits (
  journey_id TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  event TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (journey_id, version, event),
  FOREIGN KEY (journey_id, version) REFERENCES journey_versions (journey_id, version)
);

-- exits says that the enrollment's version has such events. Only those enrollments,
-- and only while they run, are found by their lead: the others cost nothing.
ALTER TABLE enrollments ADD COLUMN exits BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX enrollments_to_exit ON enrollments (leads_id, id) WHERE exits AND ended_at IS NULL;

-- The event of a control of kind exit, of which an enrollment has at most one.
ALTER TABLE controls ADD COLUMN event TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE UNIQUE INDEX controls_exited ON controls (target) WHERE kind = 'exit';

-- Frequency caps count when a lead's messages first went out. Most go out when they
-- are made, which their ids tell (deliveries_by_lead); only late ones, which were
-- held back or redelivered, have an index for it.
ALTER TABLE deliveries ADD COLUMN late BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX deliveries_late ON deliveries (leads_id, first_attempt_at) WHERE late;
CREATE INDEX deliveries_redelivered ON deliveries (leads_id) WHERE round > 1;
