-- +goose Up

-- What a bulk redelivery came to, counted when everything that it has begun was
-- decided.
ALTER TABLE redeliveries ADD COLUMN ended_at BIGINT;
ALTER TABLE redeliveries ADD COLUMN succeeded BIGINT NOT NULL DEFAULT 0;
ALTER TABLE redeliveries ADD COLUMN failed BIGINT NOT NULL DEFAULT 0;
ALTER TABLE redeliveries ADD COLUMN canceled BIGINT NOT NULL DEFAULT 0;
