-- +goose Up

-- What a receiver has answered can repeat the message, so it is sealed like that:
-- its message and the beginning of its body. In rows of before this these stand in
-- message and response_excerpt, which go on holding texts of ours.
ALTER TABLE deliveries ADD COLUMN response BYTEA;
ALTER TABLE attempts ADD COLUMN response BYTEA;
ALTER TABLE delivery_rounds ADD COLUMN response BYTEA;
