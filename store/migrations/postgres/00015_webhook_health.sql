-- +goose Up

-- What the health of a webhook is read from: who waits and why, and whose last
-- attempt has failed. Those that go from pending to succeeded have no
-- entry in it.
CREATE INDEX deliveries_by_webhook_trouble ON deliveries (webhook_id, trouble, deferred_reason, message_id)
  WHERE trouble IS NOT NULL;

-- A secret that was replaced goes on signing for a while, in nanoseconds.
ALTER TABLE webhooks
  ADD COLUMN signing_overlap BIGINT NOT NULL DEFAULT 86400000000000,
  ADD COLUMN previous_signing_secret BYTEA,
  ADD COLUMN signing_rotated_at BIGINT;
