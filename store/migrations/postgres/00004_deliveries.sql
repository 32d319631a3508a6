-- +goose Up

-- Few rows and few index entries for a delivery: it is found by its enrollment and
-- visit. The outcome columns describe the attempt last_round, last_attempt (0:
-- none); only other attempts have rows of their own.
ALTER TABLE messages
  DROP CONSTRAINT messages_message_id_fkey,
  ADD COLUMN enrollment_id TEXT COLLATE "C",
  ADD COLUMN visit BIGINT;
UPDATE messages AS m SET enrollment_id = d.enrollment_id, visit = d.visit FROM deliveries AS d WHERE d.message_id = m.message_id;
ALTER TABLE attempts
  DROP CONSTRAINT attempts_message_id_fkey,
  ADD COLUMN enrollment_id TEXT COLLATE "C",
  ADD COLUMN visit BIGINT;
UPDATE attempts AS a SET enrollment_id = d.enrollment_id, visit = d.visit FROM deliveries AS d WHERE d.message_id = a.message_id;

DROP INDEX deliveries_by_scope;
DROP INDEX deliveries_by_journey;
DROP INDEX deliveries_by_webhook;
DROP INDEX deliveries_by_lead;
ALTER TABLE deliveries
  DROP CONSTRAINT deliveries_pkey,
  DROP CONSTRAINT deliveries_enrollment_id_visit_key,
  ADD PRIMARY KEY (enrollment_id, visit),
  ADD COLUMN launch_id TEXT COLLATE "C",
  ADD COLUMN last_round BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN last_attempt BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN response_excerpt TEXT NOT NULL DEFAULT '';
UPDATE deliveries AS d SET launch_id = e.launch_id FROM enrollments AS e WHERE e.id = d.enrollment_id AND e.launch_id IS NOT NULL;
-- The newest attempt moves into the delivery's row if the delivery shows it.
UPDATE deliveries AS d SET last_round = a.round, last_attempt = a.attempt, response_excerpt = a.response_excerpt
FROM (
  SELECT DISTINCT ON (d.enrollment_id, d.visit) a.* FROM deliveries AS d
  JOIN attempts AS a ON a.message_id = d.message_id AND a.at = d.last_attempt_at AND a.http_status = d.http_status
    AND a.error_class = d.error_class AND a.message = d.message AND a.duration_ms = d.duration_ms
  ORDER BY d.enrollment_id, d.visit, a.round DESC, a.attempt DESC
) AS a WHERE d.enrollment_id = a.enrollment_id AND d.visit = a.visit;
DELETE FROM attempts AS a USING deliveries AS d
  WHERE d.enrollment_id = a.enrollment_id AND d.visit = a.visit AND d.last_round = a.round AND d.last_attempt = a.attempt;

ALTER TABLE messages DROP COLUMN message_id;
ALTER TABLE messages
  ADD PRIMARY KEY (enrollment_id, visit);
ALTER TABLE attempts DROP COLUMN message_id;
ALTER TABLE attempts
  ADD PRIMARY KEY (enrollment_id, visit, round, attempt);
-- Checking foreign keys takes a third of the time of the inserts of a delivery, one
-- query a row. SQLite, where it is cheap, checks the same code against them. The
-- room in each page keeps the update that follows every insert off the indexes.
ALTER TABLE deliveries DROP CONSTRAINT deliveries_enrollment_id_fkey, SET (fillfactor = 60);

-- The ids in front belong to one organisation and stage each.
CREATE UNIQUE INDEX deliveries_by_scope ON deliveries (org, stage, message_id);
CREATE INDEX deliveries_by_journey ON deliveries (journey_id, message_id);
CREATE INDEX deliveries_by_webhook ON deliveries (webhook_id, message_id);
CREATE INDEX deliveries_by_lead ON deliveries (leads_id, message_id);
CREATE INDEX deliveries_by_launch ON deliveries (launch_id, message_id) WHERE launch_id IS NOT NULL;

-- One row for entries that were recorded together: seq to last_seq, a JSON array.
-- Those that were recorded when it ended stand in the enrollment.
ALTER TABLE timeline RENAME TO old_timeline;
CREATE TABLE timeline (
  enrollment_id TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  last_seq BIGINT NOT NULL,
  version BIGINT NOT NULL,
  entries TEXT NOT NULL
);
INSERT INTO timeline (enrollment_id, seq, last_seq, version, entries)
SELECT enrollment_id, seq, seq, version, json_build_array(json_build_object('t', at, 'n', node_id, 'w', what, 'x', next, 'r', reason))::text FROM old_timeline;
DROP TABLE old_timeline;
ALTER TABLE timeline ADD PRIMARY KEY (enrollment_id, seq);
ALTER TABLE enrollments ADD COLUMN end_seq BIGINT, ADD COLUMN end_entries TEXT;
