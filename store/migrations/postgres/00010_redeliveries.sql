-- +goose Up

-- A bulk redelivery: reached is the last message that it has looked at. done_at
-- says that it looks for no further one: all are done, or it was canceled (with
-- canceled_at) or failed (with a message).
CREATE TABLE redeliveries (
  id TEXT COLLATE "C" PRIMARY KEY,
  org TEXT COLLATE "C" NOT NULL,
  stage TEXT COLLATE "C" NOT NULL,
  app_id TEXT NOT NULL,
  filter TEXT NOT NULL,
  message TEXT NOT NULL,
  total BIGINT NOT NULL,
  redelivered BIGINT NOT NULL,
  skipped BIGINT NOT NULL,
  reached TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  started_at BIGINT,
  stepped_at BIGINT NOT NULL,
  done_at BIGINT,
  canceled_at BIGINT
);
CREATE INDEX redeliveries_by_scope ON redeliveries (org, stage, id);
CREATE INDEX redeliveries_to_step ON redeliveries (stepped_at, id) WHERE done_at IS NULL;

-- A group of messages that one workflow redelivers; members is what starts it.
CREATE TABLE redelivery_batches (
  id TEXT COLLATE "C" PRIMARY KEY,
  redelivery_id TEXT COLLATE "C",
  org TEXT COLLATE "C" NOT NULL,
  stage TEXT COLLATE "C" NOT NULL,
  members TEXT,
  created_at BIGINT NOT NULL,
  claimed_at BIGINT,
  workflow_started_at BIGINT
);
CREATE INDEX redelivery_batches_not_started ON redelivery_batches (id) WHERE workflow_started_at IS NULL;

-- Rounds after the first. Each says which workflow works at it and how the round
-- before it ended: its journey goes by the first one for good.
CREATE TABLE delivery_rounds (
  enrollment_id TEXT COLLATE "C" NOT NULL,
  visit BIGINT NOT NULL,
  round BIGINT NOT NULL,
  workflow_id TEXT COLLATE "C" NOT NULL,
  redelivery_id TEXT COLLATE "C",
  began_at BIGINT NOT NULL,
  canceled_at BIGINT,
  status TEXT COLLATE "C" NOT NULL,
  succeed BOOLEAN,
  attempts BIGINT NOT NULL,
  first_attempt_at BIGINT,
  last_attempt_at BIGINT,
  duration_ms BIGINT NOT NULL,
  http_status BIGINT NOT NULL,
  error_class TEXT NOT NULL,
  message TEXT NOT NULL,
  PRIMARY KEY (enrollment_id, visit, round)
);
CREATE INDEX delivery_rounds_by_redelivery ON delivery_rounds (redelivery_id) WHERE redelivery_id IS NOT NULL;
