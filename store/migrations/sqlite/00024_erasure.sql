-- +goose Up

-- personal says that the filter has members that tell who somebody is: a name, a
-- number, an e-mail, an externalId.
ALTER TABLE launches ADD COLUMN personal INTEGER NOT NULL DEFAULT 0;
UPDATE launches SET personal = 1
  WHERE COALESCE(filter ->> 'Name', '') || COALESCE(filter ->> 'MobilePhone', '') || COALESCE(filter ->> 'Email', '') || COALESCE(filter ->> 'ExternalID', '') <> '';
CREATE INDEX launches_personal ON launches (id) WHERE personal;

-- Who has params, which an API call gave, is found by its lead, and in the order of
-- the ids. Launches give none, and pay nothing for this.
CREATE INDEX enrollments_with_params ON enrollments (id) WHERE params <> '{}';
CREATE INDEX enrollments_with_params_by_lead ON enrollments (leads_id, id) WHERE params <> '{}';
