-- +goose Up

-- Launches come first: a step of one locks it before it writes enrollments.
-- personal says that the filter has members that tell who somebody is: a name, a
-- number, an e-mail, an externalId.
ALTER TABLE launches ADD COLUMN personal BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE launches SET personal = TRUE
  WHERE concat(filter::json ->> 'Name', filter::json ->> 'MobilePhone', filter::json ->> 'Email', filter::json ->> 'ExternalID') <> '';
CREATE INDEX launches_personal ON launches (id) WHERE personal;

-- Who has params, which an API call gave, is found by its lead, and in the order of
-- the ids. Launches give none, and pay nothing for this.
CREATE INDEX enrollments_with_params ON enrollments (id) WHERE params <> '{}';
CREATE INDEX enrollments_with_params_by_lead ON enrollments (leads_id, id) WHERE params <> '{}';
