-- +goose Up

-- The times of creation in each block of 8,192 leads_ids. Both grow together, nearly:
-- a list in the order of leads_id passes over blocks of other times than it asks for.
-- Nothing else is looked up here: the scope does not come first, and no other index has
-- the order of created_at + 0.
CREATE INDEX leads_by_block ON leads ((leads_id / 8192), org, stage, (created_at + 0));
