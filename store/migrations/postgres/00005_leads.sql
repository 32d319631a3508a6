-- +goose Up

-- Every order of a list has an index, and so has every order of the leads of one
-- group or one region: those can be half of all leads, or all of the last ones.
-- store/lead_list.go names them.
CREATE INDEX leads_by_created ON leads (org, stage, created_at, leads_id) INCLUDE (updated_at);
CREATE INDEX leads_by_updated ON leads (org, stage, updated_at, leads_id) INCLUDE (created_at);
CREATE INDEX leads_by_group ON leads (org, stage, leads_group, leads_id) WHERE leads_group IS NOT NULL;
CREATE INDEX leads_by_group_created ON leads (org, stage, leads_group, created_at, leads_id) WHERE leads_group IS NOT NULL;
CREATE INDEX leads_by_group_updated ON leads (org, stage, leads_group, updated_at, leads_id) WHERE leads_group IS NOT NULL;
CREATE INDEX leads_by_region ON leads (org, stage, region, leads_id) WHERE region IS NOT NULL;
CREATE INDEX leads_by_region_created ON leads (org, stage, region, created_at, leads_id) WHERE region IS NOT NULL;
CREATE INDEX leads_by_region_updated ON leads (org, stage, region, updated_at, leads_id) WHERE region IS NOT NULL;
-- Whoever begins with a letter is sorted without a look at the leads themselves.
CREATE INDEX leads_by_name ON leads (org, stage, name_folded, leads_id) INCLUDE (created_at, updated_at);
CREATE INDEX leads_by_email ON leads (org, stage, email_folded, leads_id) WHERE email_folded IS NOT NULL;
