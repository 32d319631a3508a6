-- +goose Up

-- What a receiver has answered can repeat the message, so it is sealed like that:
-- its message and the beginning of its body. In rows of before this these stand in
-- message and response_excerpt, which go on holding texts of ours.
ALTER TABLE deliveries ADD COLUMN response BYTEA;
ALTER TABLE attempts ADD COLUMN response BYTEA;
ALTER TABLE delivery_rounds ADD COLUMN response BYTEA;

-- Why the delivery failed for good, in the row of the attempt that it failed with.
ALTER TABLE deliveries ADD COLUMN gave_up TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN gave_up TEXT NOT NULL DEFAULT '';
