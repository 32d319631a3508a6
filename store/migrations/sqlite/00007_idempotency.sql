-- +goose Up

-- Answers to requests with an Idempotency-Key, sealed. id is a hash of the key, the
-- application, the stage, the method, the path and the query.
CREATE TABLE idempotency_keys (
  id TEXT PRIMARY KEY,
  token TEXT NOT NULL,
  body TEXT NOT NULL,
  claimed_at INTEGER NOT NULL,
  answer BLOB
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (claimed_at);
