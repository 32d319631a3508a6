-- +goose Up

-- Where people have ordered an enrollment that waits to go on in another version of
-- its journey: a JSON object, until its workflow has let it go, or it has gone on by
-- itself.
ALTER TABLE enrollments ADD COLUMN move TEXT;
