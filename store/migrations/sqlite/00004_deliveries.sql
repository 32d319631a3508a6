-- +goose Up

-- Few rows and few index entries for a delivery: it is found by its enrollment and
-- visit. The outcome columns describe the attempt last_round, last_attempt (0:
-- none); only other attempts have rows of their own.
DROP INDEX deliveries_by_scope;
DROP INDEX deliveries_by_journey;
DROP INDEX deliveries_by_webhook;
DROP INDEX deliveries_by_lead;
DROP INDEX deliveries_by_trouble;
ALTER TABLE deliveries RENAME TO old_deliveries;
ALTER TABLE messages RENAME TO old_messages;
ALTER TABLE attempts RENAME TO old_attempts;

CREATE TABLE deliveries (
  enrollment_id TEXT NOT NULL REFERENCES enrollments (id),
  visit INTEGER NOT NULL,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  message_id TEXT NOT NULL,
  journey_id TEXT NOT NULL,
  journey_version INTEGER NOT NULL,
  node_id TEXT NOT NULL,
  webhook_id TEXT NOT NULL,
  leads_id INTEGER NOT NULL,
  launch_id TEXT,
  status TEXT NOT NULL,
  deferred_reason TEXT NOT NULL DEFAULT '',
  deferred_since INTEGER,
  succeed INTEGER,
  round INTEGER NOT NULL DEFAULT 1,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_attempt_at INTEGER,
  first_attempt_at INTEGER,
  open_attempt INTEGER NOT NULL,
  open_at INTEGER,
  open_by TEXT NOT NULL,
  last_round INTEGER NOT NULL DEFAULT 0,
  last_attempt INTEGER NOT NULL DEFAULT 0,
  last_attempt_at INTEGER,
  http_status INTEGER NOT NULL DEFAULT 0,
  error_class TEXT NOT NULL DEFAULT '',
  message TEXT NOT NULL DEFAULT '',
  duration_ms INTEGER NOT NULL DEFAULT 0,
  response_excerpt TEXT NOT NULL DEFAULT '',
  trouble TEXT GENERATED ALWAYS AS (CASE WHEN status NOT IN ('pending', 'succeeded') THEN status END) VIRTUAL,
  PRIMARY KEY (enrollment_id, visit)
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
  enrollment_id TEXT NOT NULL,
  visit INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (enrollment_id, visit),
  FOREIGN KEY (enrollment_id, visit) REFERENCES deliveries (enrollment_id, visit) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
  enrollment_id TEXT NOT NULL,
  visit INTEGER NOT NULL,
  round INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  at INTEGER NOT NULL,
  http_status INTEGER NOT NULL,
  error_class TEXT NOT NULL,
  message TEXT NOT NULL,
  duration_ms INTEGER NOT NULL,
  response_excerpt TEXT NOT NULL,
  PRIMARY KEY (enrollment_id, visit, round, attempt),
  FOREIGN KEY (enrollment_id, visit) REFERENCES deliveries (enrollment_id, visit) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- The newest attempt moves into the delivery's row if the delivery shows it.
INSERT INTO deliveries (enrollment_id, visit, org, stage, message_id, journey_id, journey_version, node_id, webhook_id, leads_id, launch_id,
  status, deferred_reason, deferred_since, succeed, round, attempts, next_attempt_at, first_attempt_at, open_attempt, open_at, open_by,
  last_round, last_attempt, last_attempt_at, http_status, error_class, message, duration_ms, response_excerpt)
SELECT d.enrollment_id, d.visit, d.org, d.stage, d.message_id, d.journey_id, d.journey_version, d.node_id, d.webhook_id, d.leads_id, e.launch_id,
  d.status, d.deferred_reason, d.deferred_since, d.succeed, d.round, d.attempts, d.next_attempt_at, d.first_attempt_at, d.open_attempt, d.open_at, d.open_by,
  COALESCE(a.round, 0), COALESCE(a.attempt, 0), d.last_attempt_at, d.http_status, d.error_class, d.message, d.duration_ms, COALESCE(a.response_excerpt, '')
FROM old_deliveries AS d
JOIN enrollments AS e ON e.id = d.enrollment_id
LEFT JOIN old_attempts AS a ON a.message_id = d.message_id AND (a.round, a.attempt) = (
  SELECT l.round, l.attempt FROM old_attempts AS l WHERE l.message_id = d.message_id AND l.at = d.last_attempt_at AND l.http_status = d.http_status
    AND l.error_class = d.error_class AND l.message = d.message AND l.duration_ms = d.duration_ms
  ORDER BY l.round DESC, l.attempt DESC LIMIT 1
);
INSERT INTO messages (enrollment_id, visit, body)
SELECT d.enrollment_id, d.visit, m.body FROM old_messages AS m JOIN deliveries AS d ON d.message_id = m.message_id;
INSERT INTO attempts (enrollment_id, visit, round, attempt, at, http_status, error_class, message, duration_ms, response_excerpt)
SELECT d.enrollment_id, d.visit, a.round, a.attempt, a.at, a.http_status, a.error_class, a.message, a.duration_ms, a.response_excerpt
FROM old_attempts AS a JOIN old_deliveries AS o ON o.message_id = a.message_id
JOIN deliveries AS d ON d.enrollment_id = o.enrollment_id AND d.visit = o.visit
WHERE (a.round, a.attempt) <> (d.last_round, d.last_attempt);
DROP TABLE old_attempts;
DROP TABLE old_messages;
DROP TABLE old_deliveries;

-- The ids in front belong to one organisation and stage each.
CREATE UNIQUE INDEX deliveries_by_scope ON deliveries (org, stage, message_id);
CREATE INDEX deliveries_by_journey ON deliveries (journey_id, message_id);
CREATE INDEX deliveries_by_webhook ON deliveries (webhook_id, message_id);
CREATE INDEX deliveries_by_lead ON deliveries (leads_id, message_id);
CREATE INDEX deliveries_by_launch ON deliveries (launch_id, message_id) WHERE launch_id IS NOT NULL;
-- Nearly all deliveries go from pending to succeeded: leaving those out keeps all
-- indexes untouched by that change. They are found by deliveries_by_scope.
CREATE INDEX deliveries_by_trouble ON deliveries (org, stage, trouble, message_id) WHERE trouble IS NOT NULL;

-- One row for entries that were recorded together: seq to last_seq, a JSON array.
-- Those that were recorded when it ended stand in the enrollment.
ALTER TABLE timeline RENAME TO old_timeline;
CREATE TABLE timeline (
  enrollment_id TEXT NOT NULL REFERENCES enrollments (id) ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  version INTEGER NOT NULL,
  entries TEXT NOT NULL,
  PRIMARY KEY (enrollment_id, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO timeline (enrollment_id, seq, last_seq, version, entries)
SELECT enrollment_id, seq, seq, version, json_array(json_object('t', at, 'n', node_id, 'w', what, 'x', next, 'r', reason)) FROM old_timeline;
DROP TABLE old_timeline;
ALTER TABLE enrollments ADD COLUMN end_seq INTEGER;
ALTER TABLE enrollments ADD COLUMN end_entries TEXT;
