-- Times are microseconds since 1970 in UTC, so that both databases hold and
-- compare them alike.

-- +goose Up
CREATE TABLE applications (
  id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  name TEXT NOT NULL,
  grants TEXT NOT NULL,
  disabled INTEGER NOT NULL,
  rate_per_second INTEGER NOT NULL,
  rate_burst INTEGER NOT NULL,
  require_if_match INTEGER NOT NULL,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX applications_by_org ON applications (org, id);

CREATE TABLE access_keys (
  access_key TEXT PRIMARY KEY,
  application_id TEXT NOT NULL REFERENCES applications (id),
  number INTEGER NOT NULL,
  secret BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  revoked_at INTEGER,
  UNIQUE (application_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE leads (
  leads_id INTEGER PRIMARY KEY AUTOINCREMENT,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  leads_group INTEGER,
  region INTEGER,
  address TEXT,
  remark TEXT,
  name TEXT NOT NULL,
  name_folded TEXT NOT NULL, -- what lists compare: case does not count
  mobile_phone TEXT NOT NULL,
  gender INTEGER,
  birthday TEXT,
  email TEXT,
  email_folded TEXT,
  wechat TEXT,
  qq TEXT,
  telephone TEXT,
  company TEXT,
  company_phone TEXT,
  company_email TEXT,
  company_website TEXT,
  external_id TEXT,
  open_id TEXT,
  custom_fields TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (org, stage, external_id)
) STRICT;

CREATE TABLE lead_phones (
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  phone TEXT NOT NULL,
  leads_id INTEGER NOT NULL REFERENCES leads (leads_id) ON DELETE CASCADE,
  PRIMARY KEY (org, stage, phone)
) STRICT, WITHOUT ROWID;
CREATE INDEX lead_phones_by_lead ON lead_phones (leads_id);

CREATE TABLE webhooks (
  id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  name TEXT NOT NULL,
  url TEXT NOT NULL,
  basic_username TEXT,
  basic_password BLOB,
  params TEXT NOT NULL,
  timeout_ms INTEGER NOT NULL,
  retry TEXT NOT NULL,
  rate_limit TEXT,
  max_concurrency INTEGER NOT NULL,
  enabled INTEGER NOT NULL,
  disabled_reason TEXT NOT NULL,
  signing_secret BLOB,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX webhooks_by_scope ON webhooks (org, stage, id);

CREATE TABLE journeys (
  id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  name TEXT NOT NULL,
  draft TEXT NOT NULL,
  published_version INTEGER NOT NULL,
  status TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX journeys_by_scope ON journeys (org, stage, id);

CREATE TABLE journey_versions (
  journey_id TEXT NOT NULL REFERENCES journeys (id),
  version INTEGER NOT NULL,
  name TEXT NOT NULL,
  hash TEXT NOT NULL,
  definition TEXT NOT NULL,
  published_at INTEGER NOT NULL,
  PRIMARY KEY (journey_id, version)
) STRICT, WITHOUT ROWID;

-- Which webhooks a published version names: those cannot be deleted.
CREATE TABLE journey_webhooks (
  webhook_id TEXT NOT NULL REFERENCES webhooks (id),
  journey_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (webhook_id, journey_id, version),
  FOREIGN KEY (journey_id, version) REFERENCES journey_versions (journey_id, version)
) STRICT, WITHOUT ROWID;

-- A group of enrollments that one workflow drives.
CREATE TABLE cohorts (
  id TEXT PRIMARY KEY,
  journey_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  claimed_at INTEGER NOT NULL,
  started_at INTEGER,
  FOREIGN KEY (journey_id, version) REFERENCES journey_versions (journey_id, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX cohorts_not_started ON cohorts (claimed_at) WHERE started_at IS NULL;

CREATE TABLE enrollments (
  id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  journey_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  leads_id INTEGER NOT NULL,
  app_id TEXT NOT NULL,
  entry_key TEXT NOT NULL,
  params TEXT NOT NULL,
  status TEXT NOT NULL,
  node_id TEXT NOT NULL,
  last_seq INTEGER NOT NULL,
  cohort_id TEXT REFERENCES cohorts (id),
  workflow_id TEXT,
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  FOREIGN KEY (journey_id, version) REFERENCES journey_versions (journey_id, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX enrollments_unclaimed ON enrollments (id) WHERE cohort_id IS NULL;
CREATE INDEX enrollments_unclaimed_by_version ON enrollments (journey_id, version, id) WHERE cohort_id IS NULL;
CREATE INDEX enrollments_by_cohort ON enrollments (cohort_id, id) WHERE cohort_id IS NOT NULL;

-- The memory of who entered what: it outlives the enrollments.
CREATE TABLE journey_entries (
  journey_id TEXT NOT NULL,
  leads_id INTEGER NOT NULL,
  entry_key TEXT NOT NULL,
  last_entry_at INTEGER NOT NULL,
  enrollment_id TEXT NOT NULL,
  active INTEGER NOT NULL CHECK (active >= 0),
  PRIMARY KEY (journey_id, leads_id, entry_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE timeline (
  enrollment_id TEXT NOT NULL REFERENCES enrollments (id) ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,
  node_id TEXT NOT NULL,
  what TEXT NOT NULL,
  next TEXT NOT NULL,
  reason TEXT NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (enrollment_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE deliveries (
  message_id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  enrollment_id TEXT NOT NULL REFERENCES enrollments (id),
  visit INTEGER NOT NULL,
  journey_id TEXT NOT NULL,
  journey_version INTEGER NOT NULL,
  node_id TEXT NOT NULL,
  webhook_id TEXT NOT NULL,
  leads_id INTEGER NOT NULL,
  status TEXT NOT NULL,
  deferred_reason TEXT NOT NULL DEFAULT '',
  deferred_since INTEGER,
  succeed INTEGER,
  message TEXT NOT NULL DEFAULT '',
  http_status INTEGER NOT NULL DEFAULT 0,
  error_class TEXT NOT NULL DEFAULT '',
  round INTEGER NOT NULL DEFAULT 1,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_attempt_at INTEGER,
  first_attempt_at INTEGER,
  last_attempt_at INTEGER,
  duration_ms INTEGER NOT NULL DEFAULT 0,
  open_attempt INTEGER NOT NULL,
  open_at INTEGER,
  open_by TEXT NOT NULL,
  trouble TEXT GENERATED ALWAYS AS (CASE WHEN status NOT IN ('pending', 'succeeded') THEN status END) VIRTUAL,
  UNIQUE (enrollment_id, visit)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_by_scope ON deliveries (org, stage, message_id);
CREATE INDEX deliveries_by_journey ON deliveries (org, stage, journey_id, message_id);
CREATE INDEX deliveries_by_webhook ON deliveries (org, stage, webhook_id, message_id);
CREATE INDEX deliveries_by_lead ON deliveries (org, stage, leads_id, message_id);
-- Nearly all deliveries go from pending to succeeded: leaving those out keeps all
-- indexes untouched by that change. They are found by deliveries_by_scope.
CREATE INDEX deliveries_by_trouble ON deliveries (org, stage, trouble, message_id) WHERE trouble IS NOT NULL;

-- The bytes that are sent, sealed. They stand apart because they never change
-- while their delivery does.
CREATE TABLE messages (
  message_id TEXT PRIMARY KEY REFERENCES deliveries (message_id) ON DELETE CASCADE,
  body BLOB NOT NULL
) STRICT;

CREATE TABLE attempts (
  message_id TEXT NOT NULL REFERENCES deliveries (message_id) ON DELETE CASCADE,
  round INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  at INTEGER NOT NULL,
  http_status INTEGER NOT NULL,
  error_class TEXT NOT NULL,
  message TEXT NOT NULL,
  duration_ms INTEGER NOT NULL,
  response_excerpt TEXT NOT NULL,
  PRIMARY KEY (message_id, round, attempt)
) STRICT, WITHOUT ROWID;
