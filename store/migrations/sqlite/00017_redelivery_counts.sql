-- +goose Up

-- What a bulk redelivery came to, counted when everything that it has begun was
-- decided.
ALTER TABLE redeliveries ADD COLUMN ended_at INTEGER;
ALTER TABLE redeliveries ADD COLUMN succeeded INTEGER NOT NULL DEFAULT 0;
ALTER TABLE redeliveries ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE redeliveries ADD COLUMN canceled INTEGER NOT NULL DEFAULT 0;
