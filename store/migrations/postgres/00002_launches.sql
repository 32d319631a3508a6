-- +goose Up

-- A launch enrolls an audience step by step: its row holds how far it got. The
-- leads that are listed stand in launch_leads; without a filter there is a list.
CREATE TABLE launches (
  id TEXT COLLATE "C" PRIMARY KEY,
  org TEXT COLLATE "C" NOT NULL,
  stage TEXT COLLATE "C" NOT NULL,
  journey_id TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  app_id TEXT NOT NULL,
  reentry TEXT NOT NULL,
  filter TEXT,
  start_at BIGINT,
  rate_per_second DOUBLE PRECISION NOT NULL,
  created_at BIGINT NOT NULL,
  claimed_at BIGINT,
  workflow_started_at BIGINT,
  started_at BIGINT,
  total BIGINT NOT NULL,
  highest BIGINT NOT NULL,
  reached BIGINT,
  enrolled BIGINT NOT NULL,
  skipped BIGINT NOT NULL,
  done_at BIGINT,
  FOREIGN KEY (journey_id, version) REFERENCES journey_versions (journey_id, version)
);
CREATE INDEX launches_by_scope ON launches (org, stage, id);
CREATE INDEX launches_by_journey ON launches (journey_id, id);
CREATE INDEX launches_not_started ON launches (id) WHERE workflow_started_at IS NULL;

-- Leads that a launch lists, in ascending parts: the differences as varints.
CREATE TABLE launch_leads (
  launch_id TEXT COLLATE "C" NOT NULL REFERENCES launches (id) ON DELETE CASCADE,
  last BIGINT NOT NULL,
  ids BYTEA NOT NULL,
  PRIMARY KEY (launch_id, last)
);

CREATE INDEX leads_by_scope ON leads (org, stage, leads_id);

-- A cohort is claimed before its workflow starts: one of a launch is made without
-- a claim. Its members are what starts the workflow and nobody needs after that.
ALTER TABLE cohorts
  ADD COLUMN launch_id TEXT COLLATE "C",
  ADD COLUMN accepted_at BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN size BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN members TEXT,
  ALTER COLUMN claimed_at DROP NOT NULL;
UPDATE cohorts SET accepted_at = claimed_at;
UPDATE cohorts AS c SET (accepted_at, size, members) = (
  SELECT COALESCE(MIN(m.created_at), c.claimed_at), COUNT(*), COALESCE(json_agg(json_build_object('e', m.id, 'l', m.leads_id) ORDER BY m.id)::text, '[]')
  FROM enrollments AS m WHERE m.cohort_id = c.id
) WHERE c.started_at IS NULL;
CREATE INDEX cohorts_ready ON cohorts (accepted_at, id) WHERE claimed_at IS NULL;

-- The free half of a page takes a row's next version beside its first (a HOT
-- update), which spares the indexes until its end: a fifth of the log.
ALTER TABLE enrollments SET (fillfactor = 50);
ALTER TABLE journey_entries SET (fillfactor = 50);
ALTER TABLE enrollments ADD COLUMN launch_id TEXT COLLATE "C";
ALTER TABLE enrollments DROP COLUMN workflow_id; -- it is cohort_id, once the cohort has started
-- A foreign key costs as much as the row itself. A published version is never
-- deleted, and a cohort is written in the transaction of its enrollments.
ALTER TABLE enrollments DROP CONSTRAINT enrollments_cohort_id_fkey;
ALTER TABLE enrollments DROP CONSTRAINT enrollments_journey_id_version_fkey;
DROP INDEX enrollments_by_cohort; -- the cohort lists its members
DROP INDEX enrollments_unclaimed;
DROP INDEX enrollments_unclaimed_by_version;
CREATE INDEX enrollments_unclaimed ON enrollments (id) WHERE cohort_id IS NULL AND ended_at IS NULL;
CREATE INDEX enrollments_unclaimed_by_version ON enrollments (journey_id, version, id) WHERE cohort_id IS NULL AND ended_at IS NULL;
CREATE INDEX enrollments_by_launch ON enrollments (launch_id, ended_at) WHERE launch_id IS NOT NULL;
