-- +goose Up

-- Leads of one group in one region are few: with their times beside them they are
-- gathered and sorted without being read.
DROP INDEX leads_by_region_group;
CREATE INDEX leads_by_region_group ON leads (org, stage, region, leads_group, leads_id) INCLUDE (created_at, updated_at) WHERE region IS NOT NULL AND leads_group IS NOT NULL;
