-- +goose Up

-- bulk says that one change has made a notice for each of many workflows, of all that
-- waited for a webhook, say. The others do not wait behind those.
ALTER TABLE notices ADD COLUMN bulk INTEGER NOT NULL DEFAULT 0;
CREATE INDEX notices_bulk ON notices (id) WHERE bulk;
CREATE INDEX notices_others ON notices (id) WHERE NOT bulk;
