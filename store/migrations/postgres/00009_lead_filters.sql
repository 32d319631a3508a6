-- +goose Up

-- The leads of one group in one region, in the order in which lists and audiences go.
CREATE INDEX leads_by_region_group ON leads (org, stage, region, leads_group, leads_id) WHERE region IS NOT NULL AND leads_group IS NOT NULL;
