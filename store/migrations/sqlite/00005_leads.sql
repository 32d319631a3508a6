-- +goose Up

-- Every order of a list has an index, and so has every order of the leads of one
-- group or one region: those can be half of all leads, or all of the last ones.
-- store/lead_list.go names them. All end with leads_id, said or not.
CREATE INDEX leads_by_created ON leads (org, stage, created_at, leads_id, updated_at);
CREATE INDEX leads_by_updated ON leads (org, stage, updated_at, leads_id, created_at);
CREATE INDEX leads_by_group ON leads (org, stage, leads_group) WHERE leads_group IS NOT NULL;
CREATE INDEX leads_by_group_created ON leads (org, stage, leads_group, created_at) WHERE leads_group IS NOT NULL;
CREATE INDEX leads_by_group_updated ON leads (org, stage, leads_group, updated_at) WHERE leads_group IS NOT NULL;
CREATE INDEX leads_by_region ON leads (org, stage, region) WHERE region IS NOT NULL;
CREATE INDEX leads_by_region_created ON leads (org, stage, region, created_at) WHERE region IS NOT NULL;
CREATE INDEX leads_by_region_updated ON leads (org, stage, region, updated_at) WHERE region IS NOT NULL;
-- Whoever begins with a letter is sorted without a look at the leads themselves.
CREATE INDEX leads_by_name ON leads (org, stage, name_folded, leads_id, created_at, updated_at);
CREATE INDEX leads_by_email ON leads (org, stage, email_folded) WHERE email_folded IS NOT NULL;
