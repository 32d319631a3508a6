-- Times are microseconds since 1970 in UTC, so that both databases hold and
-- compare them alike. Ids sort like their bytes, hence the collation.

-- +goose Up
CREATE TABLE applications (
  id TEXT COLLATE "C" PRIMARY KEY,
  org TEXT NOT NULL,
  name TEXT NOT NULL,
  grants TEXT NOT NULL,
  disabled BOOLEAN NOT NULL,
  rate_per_second BIGINT NOT NULL,
  rate_burst BIGINT NOT NULL,
  require_if_match BOOLEAN NOT NULL,
  created_at BIGINT NOT NULL
);
CREATE INDEX applications_by_org ON applications (org, id);

CREATE TABLE access_keys (
  access_key TEXT COLLATE "C" PRIMARY KEY,
  application_id TEXT COLLATE "C" NOT NULL REFERENCES applications (id),
  number BIGINT NOT NULL,
  secret BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  revoked_at BIGINT,
  UNIQUE (application_id, number)
);

CREATE TABLE leads (
  leads_id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  org TEXT COLLATE "C" NOT NULL,
  stage TEXT COLLATE "C" NOT NULL,
  leads_group BIGINT,
  region BIGINT,
  address TEXT,
  remark TEXT,
  name TEXT NOT NULL,
  name_folded TEXT COLLATE "C" NOT NULL, -- what lists compare: case does not count
  mobile_phone TEXT NOT NULL,
  gender BIGINT,
  birthday TEXT,
  email TEXT,
  email_folded TEXT COLLATE "C",
  wechat TEXT,
  qq TEXT,
  telephone TEXT,
  company TEXT,
  company_phone TEXT,
  company_email TEXT,
  company_website TEXT,
  external_id TEXT COLLATE "C",
  open_id TEXT,
  custom_fields TEXT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  UNIQUE (org, stage, external_id)
);

CREATE TABLE lead_phones (
  org TEXT COLLATE "C" NOT NULL,
  stage TEXT COLLATE "C" NOT NULL,
  phone TEXT COLLATE "C" NOT NULL,
  leads_id BIGINT NOT NULL REFERENCES leads (leads_id) ON DELETE CASCADE,
  PRIMARY KEY (org, stage, phone)
);
CREATE INDEX lead_phones_by_lead ON lead_phones (leads_id);

CREATE TABLE webhooks (
  id TEXT COLLATE "C" PRIMARY KEY,
  org TEXT COLLATE "C" NOT NULL,
  stage TEXT COLLATE "C" NOT NULL,
  name TEXT NOT NULL,
  url TEXT NOT NULL,
  basic_username TEXT,
  basic_password BYTEA,
  params TEXT NOT NULL,
  timeout_ms BIGINT NOT NULL,
  retry TEXT NOT NULL,
  rate_limit TEXT,
  max_concurrency BIGINT NOT NULL,
  enabled BOOLEAN NOT NULL,
  disabled_reason TEXT NOT NULL,
  signing_secret BYTEA,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
);
CREATE INDEX webhooks_by_scope ON webhooks (org, stage, id);

CREATE TABLE journeys (
  id TEXT COLLATE "C" PRIMARY KEY,
  org TEXT COLLATE "C" NOT NULL,
  stage TEXT COLLATE "C" NOT NULL,
  name TEXT NOT NULL,
  draft TEXT NOT NULL,
  published_version BIGINT NOT NULL,
  status TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
);
CREATE INDEX journeys_by_scope ON journeys (org, stage, id);

CREATE TABLE journey_versions (
  journey_id TEXT COLLATE "C" NOT NULL REFERENCES journeys (id),
  version BIGINT NOT NULL,
  name TEXT NOT NULL,
  hash TEXT NOT NULL,
  definition TEXT NOT NULL,
  published_at BIGINT NOT NULL,
  PRIMARY KEY (journey_id, version)
);

-- Which webhooks a published version names: those cannot be deleted.
CREATE TABLE journey_webhooks (
  webhook_id TEXT COLLATE "C" NOT NULL REFERENCES webhooks (id),
  journey_id TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  PRIMARY KEY (webhook_id, journey_id, version),
  FOREIGN KEY (journey_id, version) REFERENCES journey_versions (journey_id, version)
);

-- A group of enrollments that one workflow drives.
CREATE TABLE cohorts (
  id TEXT COLLATE "C" PRIMARY KEY,
  journey_id TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  claimed_at BIGINT NOT NULL,
  started_at BIGINT,
  FOREIGN KEY (journey_id, version) REFERENCES journey_versions (journey_id, version)
);
CREATE INDEX cohorts_not_started ON cohorts (claimed_at) WHERE started_at IS NULL;

CREATE TABLE enrollments (
  id TEXT COLLATE "C" PRIMARY KEY,
  org TEXT COLLATE "C" NOT NULL,
  stage TEXT COLLATE "C" NOT NULL,
  journey_id TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  leads_id BIGINT NOT NULL,
  app_id TEXT NOT NULL,
  entry_key TEXT NOT NULL,
  params TEXT NOT NULL,
  status TEXT NOT NULL,
  node_id TEXT NOT NULL,
  last_seq BIGINT NOT NULL,
  cohort_id TEXT COLLATE "C" REFERENCES cohorts (id),
  workflow_id TEXT,
  created_at BIGINT NOT NULL,
  ended_at BIGINT,
  FOREIGN KEY (journey_id, version) REFERENCES journey_versions (journey_id, version)
);
CREATE INDEX enrollments_unclaimed ON enrollments (id) WHERE cohort_id IS NULL;
CREATE INDEX enrollments_unclaimed_by_version ON enrollments (journey_id, version, id) WHERE cohort_id IS NULL;
CREATE INDEX enrollments_by_cohort ON enrollments (cohort_id, id) WHERE cohort_id IS NOT NULL;

-- The memory of who entered what: it outlives the enrollments.
CREATE TABLE journey_entries (
  journey_id TEXT COLLATE "C" NOT NULL,
  leads_id BIGINT NOT NULL,
  entry_key TEXT COLLATE "C" NOT NULL,
  last_entry_at BIGINT NOT NULL,
  enrollment_id TEXT NOT NULL,
  active BIGINT NOT NULL CHECK (active >= 0),
  PRIMARY KEY (journey_id, leads_id, entry_key)
);

CREATE TABLE timeline (
  enrollment_id TEXT COLLATE "C" NOT NULL REFERENCES enrollments (id) ON DELETE CASCADE,
  seq BIGINT NOT NULL,
  at BIGINT NOT NULL,
  node_id TEXT NOT NULL,
  what TEXT NOT NULL,
  next TEXT NOT NULL,
  reason TEXT NOT NULL,
  version BIGINT NOT NULL,
  PRIMARY KEY (enrollment_id, seq)
);

-- The free half of a page takes a row's next version beside its first (a HOT
-- update), which spares all indexes.
CREATE TABLE deliveries (
  message_id TEXT COLLATE "C" PRIMARY KEY,
  org TEXT COLLATE "C" NOT NULL,
  stage TEXT COLLATE "C" NOT NULL,
  enrollment_id TEXT COLLATE "C" NOT NULL REFERENCES enrollments (id),
  visit BIGINT NOT NULL,
  journey_id TEXT COLLATE "C" NOT NULL,
  journey_version BIGINT NOT NULL,
  node_id TEXT NOT NULL,
  webhook_id TEXT COLLATE "C" NOT NULL,
  leads_id BIGINT NOT NULL,
  status TEXT COLLATE "C" NOT NULL,
  deferred_reason TEXT NOT NULL DEFAULT '',
  deferred_since BIGINT,
  succeed BOOLEAN,
  message TEXT NOT NULL DEFAULT '',
  http_status BIGINT NOT NULL DEFAULT 0,
  error_class TEXT NOT NULL DEFAULT '',
  round BIGINT NOT NULL DEFAULT 1,
  attempts BIGINT NOT NULL DEFAULT 0,
  next_attempt_at BIGINT,
  first_attempt_at BIGINT,
  last_attempt_at BIGINT,
  duration_ms BIGINT NOT NULL DEFAULT 0,
  open_attempt BIGINT NOT NULL,
  open_at BIGINT,
  open_by TEXT NOT NULL,
  trouble TEXT COLLATE "C" GENERATED ALWAYS AS (CASE WHEN status NOT IN ('pending', 'succeeded') THEN status END) STORED,
  UNIQUE (enrollment_id, visit)
) WITH (fillfactor = 50);
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
  message_id TEXT COLLATE "C" PRIMARY KEY REFERENCES deliveries (message_id) ON DELETE CASCADE,
  body BYTEA NOT NULL
);

CREATE TABLE attempts (
  message_id TEXT COLLATE "C" NOT NULL REFERENCES deliveries (message_id) ON DELETE CASCADE,
  round BIGINT NOT NULL,
  attempt BIGINT NOT NULL,
  at BIGINT NOT NULL,
  http_status BIGINT NOT NULL,
  error_class TEXT NOT NULL,
  message TEXT NOT NULL,
  duration_ms BIGINT NOT NULL,
  response_excerpt TEXT NOT NULL,
  PRIMARY KEY (message_id, round, attempt)
);
