-- +goose Up

-- A launch enrolls an audience step by step: its row holds how far it got. The
-- leads that are listed stand in launch_leads; without a filter there is a list.
CREATE TABLE launches (
  id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  journey_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  app_id TEXT NOT NULL,
  reentry TEXT NOT NULL,
  filter TEXT,
  start_at INTEGER,
  rate_per_second REAL NOT NULL,
  created_at INTEGER NOT NULL,
  claimed_at INTEGER,
  workflow_started_at INTEGER,
  started_at INTEGER,
  total INTEGER NOT NULL,
  highest INTEGER NOT NULL,
  reached INTEGER,
  enrolled INTEGER NOT NULL,
  skipped INTEGER NOT NULL,
  done_at INTEGER,
  FOREIGN KEY (journey_id, version) REFERENCES journey_versions (journey_id, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX launches_by_scope ON launches (org, stage, id);
CREATE INDEX launches_by_journey ON launches (journey_id, id);
CREATE INDEX launches_not_started ON launches (id) WHERE workflow_started_at IS NULL;

-- Leads that a launch lists, in ascending parts: the differences as varints.
CREATE TABLE launch_leads (
  launch_id TEXT NOT NULL REFERENCES launches (id) ON DELETE CASCADE,
  last INTEGER NOT NULL,
  ids BLOB NOT NULL,
  PRIMARY KEY (launch_id, last)
) STRICT;

CREATE INDEX leads_by_scope ON leads (org, stage, leads_id);

-- A cohort is claimed before its workflow starts: one of a launch is made without
-- a claim. Its members are what starts the workflow and nobody needs after that.
ALTER TABLE cohorts ADD COLUMN launch_id TEXT;
ALTER TABLE cohorts ADD COLUMN accepted_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cohorts ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cohorts ADD COLUMN claim INTEGER;
ALTER TABLE cohorts ADD COLUMN members TEXT;
UPDATE cohorts SET claim = claimed_at, accepted_at = claimed_at;
UPDATE cohorts SET (accepted_at, size, members) = (
  SELECT COALESCE(MIN(m.created_at), cohorts.claimed_at), COUNT(*), json_group_array(json_object('e', m.id, 'l', m.leads_id))
  FROM (SELECT id, leads_id, created_at FROM enrollments WHERE cohort_id = cohorts.id ORDER BY id) AS m
) WHERE started_at IS NULL;
DROP INDEX cohorts_not_started;
ALTER TABLE cohorts DROP COLUMN claimed_at;
ALTER TABLE cohorts RENAME COLUMN claim TO claimed_at;
CREATE INDEX cohorts_not_started ON cohorts (claimed_at) WHERE started_at IS NULL;
CREATE INDEX cohorts_ready ON cohorts (accepted_at, id) WHERE claimed_at IS NULL;

ALTER TABLE enrollments ADD COLUMN launch_id TEXT;
ALTER TABLE enrollments DROP COLUMN workflow_id; -- it is cohort_id, once the cohort has started
DROP INDEX enrollments_by_cohort; -- the cohort lists its members
DROP INDEX enrollments_unclaimed;
DROP INDEX enrollments_unclaimed_by_version;
CREATE INDEX enrollments_unclaimed ON enrollments (id) WHERE cohort_id IS NULL AND ended_at IS NULL;
CREATE INDEX enrollments_unclaimed_by_version ON enrollments (journey_id, version, id) WHERE cohort_id IS NULL AND ended_at IS NULL;
CREATE INDEX enrollments_by_launch ON enrollments (launch_id, ended_at) WHERE launch_id IS NOT NULL;
