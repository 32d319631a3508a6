-- Times (columns that end with _at) are microseconds since 1970 in UTC, so that both
-- databases hold and compare them alike. Columns that end with _ms are milliseconds. Ids
-- begin with the time when they were made. org and stage are the scope of a row: no request
-- sees a row of another scope. The schema of PostgreSQL has fewer foreign keys.

-- +goose Up

---- applications

CREATE TABLE applications (
  id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  name TEXT NOT NULL,
  grants TEXT NOT NULL, -- JSON array
  disabled INTEGER NOT NULL,
  rate_per_second INTEGER NOT NULL, -- requests
  rate_burst INTEGER NOT NULL, -- requests
  require_if_match INTEGER NOT NULL, -- a PUT, PATCH or DELETE needs If-Match
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX applications_by_org ON applications (org, id);

CREATE TABLE access_keys (
  access_key TEXT PRIMARY KEY,
  application_id TEXT NOT NULL REFERENCES applications (id),
  number INTEGER NOT NULL, -- counts the keys that the application ever had
  secret BLOB NOT NULL, -- sealed
  created_at INTEGER NOT NULL,
  revoked_at INTEGER,
  UNIQUE (application_id, number)
) STRICT, WITHOUT ROWID;

-- People who may sign in to the console.
CREATE TABLE users (
  id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  email TEXT NOT NULL, -- its ASCII letters in lower case
  name TEXT NOT NULL,
  role TEXT NOT NULL, -- none: the issuer gives no role any more
  role_by_claim INTEGER NOT NULL, -- the issuer gave it
  iss TEXT NOT NULL, -- the OpenID Connect issuer of the account that the user signs in with; '': none yet
  sub TEXT NOT NULL, -- the account there
  disabled INTEGER NOT NULL,
  password_hash TEXT NOT NULL, -- argon2id's, '' without a password
  sessions INTEGER NOT NULL, -- how often all sessions were ended
  totp_secret BLOB, -- of the person's app, sealed; NULL: none
  totp_step INTEGER NOT NULL DEFAULT 0, -- the last step of 30 seconds of which a code was taken
  passkeys TEXT NOT NULL DEFAULT '[]', -- JSON array, with public keys
  recovery_codes TEXT NOT NULL DEFAULT '[]', -- JSON array of the hashes of those that were not used
  link_hash TEXT, -- of the token of the sign-in link that can be used; NULL: none
  link_expires_at INTEGER,
  link_by TEXT NOT NULL, -- who made the link, as audit.actor has it; '': Waypost itself
  created_at INTEGER NOT NULL,
  UNIQUE (org, email)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX users_by_link ON users (link_hash);
CREATE UNIQUE INDEX users_by_subject ON users (org, iss, sub) WHERE iss <> '';

-- Answers to requests with an Idempotency-Key.
CREATE TABLE idempotency_keys (
  id TEXT PRIMARY KEY, -- a hash of the key, the application, the stage, the method, the path and the query
  token TEXT NOT NULL, -- of the request that has claimed the key
  body TEXT NOT NULL, -- a hash of the request's
  claimed_at INTEGER NOT NULL,
  answer BLOB, -- sealed; NULL until there is one
  erased INTEGER NOT NULL DEFAULT 0 -- the answer was, with a lead that it told of
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (claimed_at);

-- The leads that an answer tells of: it is erased with each of them.
CREATE TABLE answer_leads (
  leads_id INTEGER NOT NULL,
  key_id TEXT NOT NULL REFERENCES idempotency_keys (id) ON DELETE CASCADE,
  PRIMARY KEY (leads_id, key_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX answer_leads_by_key ON answer_leads (key_id);

-- The latest times at which requests can have been signed that were accepted.
CREATE TABLE nonce_horizon (
  signer TEXT PRIMARY KEY, -- an application whose clock was ahead, or '': all others
  latest_at INTEGER NOT NULL
) STRICT;

---- leads

CREATE TABLE leads (
  leads_id INTEGER PRIMARY KEY AUTOINCREMENT,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  leads_group INTEGER,
  region INTEGER,
  address TEXT,
  remark TEXT,
  name TEXT NOT NULL,
  name_folded TEXT NOT NULL, -- name as lists compare it: case does not count
  mobile_phone TEXT NOT NULL, -- JSON array; lead_phones has the numbers
  gender INTEGER, -- 0 to 2
  birthday TEXT, -- YYYY-MM-DD, or --MM-DD without a year
  email TEXT,
  email_folded TEXT, -- email as lists compare it
  wechat TEXT,
  qq TEXT,
  telephone TEXT,
  company TEXT,
  company_phone TEXT,
  company_email TEXT,
  company_website TEXT,
  external_id TEXT,
  open_id TEXT,
  custom_fields TEXT, -- JSON object
  consents TEXT, -- JSON object: booleans by channels
  test INTEGER NOT NULL DEFAULT 0, -- nothing counts what it goes through
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (org, stage, external_id)
) STRICT;
-- Every order of a list has an index, and so has every order of the leads of one group or
-- one region: those can be half of all leads, or all of the last ones. store/lead_list.go
-- names them. All end with leads_id, said or not.
CREATE INDEX leads_by_scope ON leads (org, stage, leads_id);
CREATE INDEX leads_by_created ON leads (org, stage, created_at, leads_id, updated_at);
CREATE INDEX leads_by_updated ON leads (org, stage, updated_at, leads_id, created_at);
CREATE INDEX leads_by_group ON leads (org, stage, leads_group) WHERE leads_group IS NOT NULL;
CREATE INDEX leads_by_group_created ON leads (org, stage, leads_group, created_at) WHERE leads_group IS NOT NULL;
CREATE INDEX leads_by_group_updated ON leads (org, stage, leads_group, updated_at) WHERE leads_group IS NOT NULL;
CREATE INDEX leads_by_region ON leads (org, stage, region) WHERE region IS NOT NULL;
CREATE INDEX leads_by_region_created ON leads (org, stage, region, created_at) WHERE region IS NOT NULL;
CREATE INDEX leads_by_region_updated ON leads (org, stage, region, updated_at) WHERE region IS NOT NULL;
-- Leads of one group in one region are few, and so are those whose name begins with a
-- letter: they are sorted by times in the index, without a look at the leads.
CREATE INDEX leads_by_region_group ON leads (org, stage, region, leads_group, leads_id, created_at, updated_at)
  WHERE region IS NOT NULL AND leads_group IS NOT NULL;
CREATE INDEX leads_by_name ON leads (org, stage, name_folded, leads_id, created_at, updated_at);
CREATE INDEX leads_by_email ON leads (org, stage, email_folded) WHERE email_folded IS NOT NULL;
CREATE INDEX leads_by_test ON leads (org, stage) WHERE test;
-- The birthdays of a day, in all years.
CREATE INDEX leads_by_birthday ON leads (org, stage, substr(birthday, length(birthday) - 4)) WHERE birthday IS NOT NULL;
-- The times of creation in each block of 8,192 leads_ids, see store/lead_blocks.go. Nothing
-- else is looked up here: the scope does not come first, and no other index has the order
-- of created_at + 0.
CREATE INDEX leads_by_block ON leads ((leads_id / 8192), org, stage, (created_at + 0));

-- No two leads of a scope have the same number.
CREATE TABLE lead_phones (
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  phone TEXT NOT NULL, -- E.164
  leads_id INTEGER NOT NULL REFERENCES leads (leads_id) ON DELETE CASCADE,
  PRIMARY KEY (org, stage, phone)
) STRICT, WITHOUT ROWID;
CREATE INDEX lead_phones_by_lead ON lead_phones (leads_id);

CREATE TABLE events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, -- orders the events of a lead: drawn while the lead's row is locked
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  event_id TEXT NOT NULL, -- the sender's
  name TEXT NOT NULL,
  leads_id INTEGER NOT NULL REFERENCES leads (leads_id) ON DELETE CASCADE,
  properties TEXT NOT NULL, -- JSON object
  occurred_at INTEGER NOT NULL, -- orders and counts them; the sender's, or accepted_at
  accepted_at INTEGER NOT NULL,
  depth INTEGER NOT NULL DEFAULT 0, -- of the enrollment that emitted it, and one more; 0: a client's
  UNIQUE (org, stage, event_id)
) STRICT;
CREATE INDEX events_by_lead ON events (leads_id, name, seq);
-- The orders of lists. Those of a lead need no scope: a lead is in one.
CREATE INDEX events_by_time ON events (org, stage, occurred_at, seq);
CREATE INDEX events_by_name ON events (org, stage, name, occurred_at, seq);
CREATE INDEX events_of_lead ON events (leads_id, occurred_at, seq);

-- How many events of a name a lead has had on a day, and when: they outlive the events.
CREATE TABLE event_days (
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  leads_id INTEGER NOT NULL REFERENCES leads (leads_id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  day INTEGER NOT NULL, -- of occurred_at in UTC, since 1970
  n INTEGER NOT NULL,
  first_at INTEGER NOT NULL, -- occurred_at of the first and the last event of the day
  last_at INTEGER NOT NULL,
  PRIMARY KEY (leads_id, name, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_days_by_name ON event_days (org, stage, name, day);
CREATE INDEX event_days_by_day ON event_days (day);

-- How many events of a name there are. A transaction that stores or deletes some adds a row
-- for each name to event_deltas; these are folded into event_names (store/lead_event_names.go).
CREATE TABLE event_deltas (
  id INTEGER PRIMARY KEY,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  name TEXT NOT NULL,
  n INTEGER NOT NULL -- events; negative: deleted
) STRICT;
CREATE TABLE event_names (
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  name TEXT NOT NULL,
  n INTEGER NOT NULL, -- events, as far as they are folded
  PRIMARY KEY (org, stage, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_names_by_n ON event_names (org, stage, n);

---- imports of leads

CREATE TABLE imports (
  id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  app_id TEXT NOT NULL,
  mode TEXT NOT NULL, -- create, update or upsert
  match TEXT NOT NULL, -- what of a row names its lead; '': the leadsId, else the externalId
  dry_run INTEGER NOT NULL,
  phone_region TEXT NOT NULL, -- of numbers without a country code; '': none
  status TEXT NOT NULL,
  message TEXT NOT NULL, -- why it failed
  total INTEGER NOT NULL, -- rows
  created INTEGER NOT NULL, -- rows
  updated INTEGER NOT NULL, -- rows
  failed INTEGER NOT NULL, -- rows
  parts INTEGER NOT NULL,
  parts_done INTEGER NOT NULL, -- the part after it is the next one
  created_at INTEGER NOT NULL,
  claimed_at INTEGER, -- by a pump, which starts the workflow
  workflow_started_at INTEGER,
  started_at INTEGER, -- of the first step
  ended_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX imports_not_started ON imports (id) WHERE workflow_started_at IS NULL AND ended_at IS NULL;

-- The leads that an import has created or updated.
CREATE TABLE import_leads (
  import_id TEXT NOT NULL REFERENCES imports (id) ON DELETE CASCADE,
  leads_id INTEGER NOT NULL REFERENCES leads (leads_id) ON DELETE CASCADE,
  PRIMARY KEY (import_id, leads_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX import_leads_by_lead ON import_leads (leads_id);

-- Rows that are not processed yet, some hundred together.
CREATE TABLE import_parts (
  import_id TEXT NOT NULL REFERENCES imports (id) ON DELETE CASCADE,
  number INTEGER NOT NULL, -- from 1
  data BLOB NOT NULL, -- compressed
  PRIMARY KEY (import_id, number)
) STRICT;

-- The failed rows of a part.
CREATE TABLE import_errors (
  import_id TEXT NOT NULL REFERENCES imports (id) ON DELETE CASCADE,
  part INTEGER NOT NULL,
  data BLOB NOT NULL, -- compressed
  PRIMARY KEY (import_id, part)
) STRICT;

---- webhooks

CREATE TABLE webhooks (
  id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  name TEXT NOT NULL,
  name_folded TEXT NOT NULL, -- name as lists compare it
  url TEXT NOT NULL,
  basic_username TEXT,
  basic_password BLOB, -- sealed
  params TEXT NOT NULL, -- JSON object
  timeout_ms INTEGER NOT NULL, -- of the whole exchange
  retry TEXT NOT NULL, -- JSON object
  rate_limit TEXT, -- JSON object; NULL: no limit
  max_concurrency INTEGER NOT NULL, -- 0: no cap
  channel TEXT NOT NULL, -- '': it does not say
  requires_consent INTEGER NOT NULL,
  enabled INTEGER NOT NULL,
  disabled_reason TEXT NOT NULL, -- why Waypost itself has disabled it, '' otherwise
  signing_secret BLOB, -- sealed
  previous_signing_secret BLOB, -- sealed; signs too, for signing_overlap from signing_rotated_at on
  signing_rotated_at INTEGER,
  signing_overlap INTEGER NOT NULL, -- nanoseconds
  failing_since INTEGER, -- the opening of its breaker that subscriptions were last told of
  tls_ca_certificate TEXT, -- PEM
  tls_client_certificate TEXT, -- PEM
  tls_client_key BLOB, -- PEM, sealed
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX webhooks_by_scope ON webhooks (org, stage, id);
CREATE INDEX webhooks_by_name ON webhooks (org, stage, name_folded, id);
CREATE INDEX webhooks_by_enabled ON webhooks (org, stage, enabled, id);

---- suppressions

-- Who is written to no more through a channel: a lead that has the address, now or later. One
-- address is set; all three are as leads and lead_phones have them.
CREATE TABLE suppressions (
  id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  channel TEXT NOT NULL,
  mobile_phone TEXT, -- E.164
  email TEXT,
  email_folded TEXT, -- email as lists compare it
  external_id TEXT,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX suppressions_by_scope ON suppressions (org, stage, id);
CREATE INDEX suppressions_by_channel ON suppressions (org, stage, channel, id);
CREATE UNIQUE INDEX suppressions_by_phone ON suppressions (org, stage, mobile_phone, channel) WHERE mobile_phone IS NOT NULL;
CREATE UNIQUE INDEX suppressions_by_email ON suppressions (org, stage, email_folded, channel) WHERE email_folded IS NOT NULL;
CREATE UNIQUE INDEX suppressions_by_external ON suppressions (org, stage, external_id, channel) WHERE external_id IS NOT NULL;

---- subscriptions

-- Webhooks that are told what happens.
CREATE TABLE subscriptions (
  id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  name TEXT NOT NULL,
  webhook_id TEXT NOT NULL REFERENCES webhooks (id),
  journey_id TEXT NOT NULL, -- '': of all journeys
  happenings TEXT NOT NULL, -- JSON array: the types that it is told
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX subscriptions_by_scope ON subscriptions (org, stage, id);
CREATE INDEX subscriptions_by_webhook ON subscriptions (webhook_id);

-- Who is told of a type: whoever records a happening looks here.
CREATE TABLE subscription_types (
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  type TEXT NOT NULL,
  subscription_id TEXT NOT NULL REFERENCES subscriptions (id) ON DELETE CASCADE,
  webhook_id TEXT NOT NULL, -- the subscription's
  journey_id TEXT NOT NULL, -- the subscription's
  since_at INTEGER NOT NULL, -- what happened before it is not told
  PRIMARY KEY (org, stage, type, subscription_id)
) STRICT, WITHOUT ROWID;

-- What happened and is to be told, a row for each subscription, written in the transaction of
-- what happened. The row of a subscription that was deleted is told to nobody.
CREATE TABLE announcements (
  id INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: it is the visit of the delivery
  subscription_id TEXT NOT NULL,
  type TEXT NOT NULL,
  at INTEGER NOT NULL,
  data TEXT NOT NULL -- JSON object
) STRICT;

---- segments

-- Conditions that leads meet or not.
CREATE TABLE segments (
  id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  name TEXT NOT NULL,
  condition TEXT NOT NULL, -- CEL
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX segments_by_scope ON segments (org, stage, id);

-- Segments that a journey begins or ends by: their members are remembered, so that whoever
-- becomes one is known (store/segment_watch.go).
CREATE TABLE segment_watches (
  segment_id TEXT PRIMARY KEY REFERENCES segments (id),
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  timed INTEGER NOT NULL, -- time alone can change who is in it
  revision INTEGER NOT NULL, -- counts the changes of what is asked
  filled_to INTEGER, -- the members up to this lead are known; NULL: all are
  due_at INTEGER NOT NULL -- when it is next read as a whole
) STRICT, WITHOUT ROWID;
CREATE INDEX segment_watches_by_scope ON segment_watches (org, stage, segment_id);
CREATE INDEX segment_watches_due ON segment_watches (due_at);

CREATE TABLE segment_members (
  segment_id TEXT NOT NULL,
  leads_id INTEGER NOT NULL,
  PRIMARY KEY (segment_id, leads_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX segment_members_by_lead ON segment_members (leads_id);

-- What can change who is in a watched segment, with those that it names. Whoever stores such a
-- thing looks here first.
CREATE TABLE segment_causes (
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  kind TEXT NOT NULL, -- lead, event, entered or delivered
  name TEXT NOT NULL, -- of the event, or the id of the journey; '': of leads
  segment_id TEXT NOT NULL,
  PRIMARY KEY (kind, org, stage, name, segment_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX segment_causes_by_segment ON segment_causes (segment_id);

-- Leads of which such a thing was stored, a row for each. None has a key but its own: whoever
-- looks at the lead does not stand in the way of those who store another one.
CREATE TABLE segment_checks (
  id INTEGER PRIMARY KEY,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  leads_id INTEGER NOT NULL,
  at INTEGER NOT NULL,
  depth INTEGER NOT NULL, -- of what it begins, as events have it
  late INTEGER NOT NULL DEFAULT 0 -- an event that begins and ends nothing
) STRICT;
CREATE INDEX segment_checks_by_lead ON segment_checks (leads_id);

---- journeys

CREATE TABLE journeys (
  id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  name TEXT NOT NULL,
  name_folded TEXT NOT NULL, -- name as lists compare it
  draft TEXT NOT NULL, -- a definition, as JSON
  published_version INTEGER NOT NULL, -- the current one; 0: none
  status TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX journeys_by_scope ON journeys (org, stage, id);
CREATE INDEX journeys_by_name ON journeys (org, stage, name_folded, id);
CREATE INDEX journeys_by_status ON journeys (org, stage, status, id);

-- What lists find a journey by: the tags of its draft, and the webhooks and segments that its
-- draft or a published version names.
CREATE TABLE journey_keys (
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  kind TEXT NOT NULL, -- tag, webhook or segment
  value TEXT NOT NULL, -- the tag, or the id
  journey_id TEXT NOT NULL REFERENCES journeys (id) ON DELETE CASCADE,
  published INTEGER NOT NULL, -- a published version has it: another draft does not end that
  PRIMARY KEY (org, stage, kind, value, journey_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX journey_keys_by_journey ON journey_keys (journey_id);

-- A published version is never changed or deleted.
CREATE TABLE journey_versions (
  journey_id TEXT NOT NULL REFERENCES journeys (id),
  version INTEGER NOT NULL, -- from 1
  name TEXT NOT NULL,
  hash TEXT NOT NULL, -- of the canonical definition
  definition TEXT NOT NULL, -- JSON
  published_at INTEGER NOT NULL,
  PRIMARY KEY (journey_id, version)
) STRICT, WITHOUT ROWID;

-- Which webhooks a published version names: those cannot be deleted.
CREATE TABLE journey_webhooks (
  webhook_id TEXT NOT NULL REFERENCES webhooks (id),
  journey_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (webhook_id, journey_id, version),
  FOREIGN KEY (journey_id, version) REFERENCES journey_versions (journey_id, version)
) STRICT, WITHOUT ROWID;

-- The events, and the segments that their lead enters, that end the enrollments of a version,
-- wherever they stand.
CREATE TABLE journey_exits (
  journey_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  event TEXT NOT NULL, -- its name; '': a segment
  segment_id TEXT NOT NULL, -- '': an event
  PRIMARY KEY (journey_id, version, event, segment_id),
  FOREIGN KEY (journey_id, version) REFERENCES journey_versions (journey_id, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX journey_exits_by_segment ON journey_exits (segment_id) WHERE segment_id <> '';

-- The events that can reach the goal of a version: accepting one looks here first.
CREATE TABLE journey_goals (
  journey_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  event TEXT NOT NULL, -- its name
  within_ms INTEGER NOT NULL, -- since the enrollment began
  since_version INTEGER NOT NULL, -- leads that a version before it has counted are counted anew
  PRIMARY KEY (journey_id, version),
  FOREIGN KEY (journey_id, version) REFERENCES journey_versions (journey_id, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX journey_goals_by_event ON journey_goals (org, stage, event, within_ms);

-- The splits that compare their arms and that somebody has come to.
CREATE TABLE winners (
  journey_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  node_id TEXT NOT NULL,
  status TEXT NOT NULL, -- open, decided or reversed
  began_at INTEGER NOT NULL, -- when the first enrollment took an arm
  looks INTEGER NOT NULL, -- how often the arms were compared
  converted INTEGER NOT NULL, -- enrollments, of all arms, at the last look
  looked_at INTEGER,
  arms TEXT NOT NULL, -- JSON array: waypost.GoalCounts of each at the last look
  arm INTEGER, -- from 0; NULL until it is decided
  decided_at INTEGER,
  reversed_at INTEGER,
  PRIMARY KEY (journey_id, version, node_id),
  FOREIGN KEY (journey_id, version) REFERENCES journey_versions (journey_id, version)
) STRICT, WITHOUT ROWID;

-- What begins a journey by itself: the entry of its published version, unless it is archived.
CREATE TABLE entry_rules (
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  kind TEXT NOT NULL, -- event, leadCreated, leadChanged or segment
  name TEXT NOT NULL, -- of the event, or the id of the segment; '': of leads
  journey_id TEXT NOT NULL REFERENCES journeys (id),
  version INTEGER NOT NULL,
  since_at INTEGER NOT NULL, -- who entered the segment before does not count
  PRIMARY KEY (org, stage, kind, name, journey_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX entry_rules_by_journey ON entry_rules (journey_id);

-- The memory of who entered what: it outlives the enrollments.
CREATE TABLE journey_entries (
  journey_id TEXT NOT NULL,
  leads_id INTEGER NOT NULL,
  entry_key TEXT NOT NULL,
  last_entry_at INTEGER NOT NULL,
  enrollment_id TEXT NOT NULL, -- of the last entry
  active INTEGER NOT NULL CHECK (active >= 0), -- enrollments that have not ended
  goal_version INTEGER NOT NULL DEFAULT 0, -- the highest version whose goal has counted the lead; 0: none
  PRIMARY KEY (journey_id, leads_id, entry_key)
) STRICT, WITHOUT ROWID;

---- launches

-- A launch enrolls an audience step by step: its row holds how far it got. One with a cron
-- expression recurs: it has no workflow but a Schedule at Temporal, and what it opens are
-- launches that name it, one for each time, which read its list of leads.
CREATE TABLE launches (
  id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  journey_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  app_id TEXT NOT NULL,
  reentry TEXT NOT NULL, -- JSON object
  filter TEXT, -- JSON object; NULL: the leads are listed in launch_leads, or in a segment
  segment_id TEXT, -- whose leads it is for
  personal INTEGER NOT NULL, -- the filter can tell who somebody is: by a name, a number, an e-mail, an externalId, a birthday or a custom field
  control_group REAL NOT NULL, -- the share of the audience that is not enrolled
  rate_per_second REAL NOT NULL, -- enrollments; 0: as fast as it goes
  start_at INTEGER,
  cron TEXT, -- NULL: it does not recur
  timezone TEXT NOT NULL, -- of cron
  skipped_at INTEGER, -- the time of the last occurrence that was not opened
  skip_reason TEXT NOT NULL, -- of that one
  recurring_id TEXT, -- the recurring launch of an occurrence
  occurs_at INTEGER, -- of an occurrence: its time in the schedule
  created_at INTEGER NOT NULL,
  claimed_at INTEGER, -- by a pump, which starts the workflow
  workflow_started_at INTEGER, -- if it recurs: the Schedule exists
  started_at INTEGER, -- of the first step
  done_at INTEGER, -- nobody is left to enroll; if it recurs: the Schedule is deleted
  ended TEXT NOT NULL, -- completed or canceled; '' if it has not ended, or nobody has noted yet that it is completed
  total INTEGER NOT NULL, -- leads of the audience
  highest INTEGER NOT NULL, -- of a filter: its highest leads_id at the start
  reached INTEGER, -- the last leads_id that was looked at
  enrolled INTEGER NOT NULL, -- leads
  skipped INTEGER NOT NULL, -- leads that could not enter
  held_out INTEGER NOT NULL, -- leads of the control group
  missing INTEGER NOT NULL, -- of skipped: listed leads that do not exist
  gone INTEGER NOT NULL, -- of skipped: leads that left the audience before it was their turn
  test TEXT, -- JSON object; NULL: everybody is enrolled alike
  held INTEGER NOT NULL, -- leads that wait for the end of the test; they stand in launch_leads
  test_ended_at INTEGER, -- when the last lead of the test has entered
  rest_at INTEGER, -- when the rest was let go on, or left out
  test_arm INTEGER, -- the arm that had won by then
  FOREIGN KEY (journey_id, version) REFERENCES journey_versions (journey_id, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX launches_by_scope ON launches (org, stage, id);
CREATE INDEX launches_by_journey ON launches (journey_id, id);
-- Lists of a status: most launches have ended long ago.
CREATE INDEX launches_by_end ON launches (org, stage, ended, id);
CREATE INDEX launches_by_journey_end ON launches (org, stage, journey_id, ended, id);
CREATE INDEX launches_by_recurring_end ON launches (org, stage, recurring_id, ended, id) WHERE recurring_id IS NOT NULL;
CREATE INDEX launches_to_settle ON launches (id) WHERE ended = '';
CREATE INDEX launches_held ON launches (id) WHERE test_ended_at IS NOT NULL AND rest_at IS NULL;
CREATE INDEX launches_not_started ON launches (id) WHERE workflow_started_at IS NULL;
CREATE INDEX launches_personal ON launches (id) WHERE personal;
-- What the deletion of a lead looks through.
CREATE INDEX launches_personal_by_scope ON launches (org, stage, id) WHERE personal;
CREATE INDEX launches_by_segment ON launches (segment_id, id) WHERE segment_id IS NOT NULL;
CREATE INDEX launches_recurring ON launches (id) WHERE cron IS NOT NULL AND done_at IS NULL;
-- An occurrence is opened once.
CREATE UNIQUE INDEX launches_occurrences ON launches (recurring_id, occurs_at) WHERE recurring_id IS NOT NULL;
-- The occurrences of a recurring launch, newest first. Without the scope, SQLite prefers
-- launches_by_scope.
CREATE INDEX launches_by_recurring ON launches (org, stage, recurring_id, id) WHERE recurring_id IS NOT NULL;
-- What occurrences came to together is summed up without reading their rows.
CREATE INDEX launches_occurrence_counts ON launches (recurring_id, started_at, total, enrolled, skipped, held_out) WHERE recurring_id IS NOT NULL;

-- Leads that a launch lists, or that are held until its test is over, in ascending parts.
CREATE TABLE launch_leads (
  launch_id TEXT NOT NULL REFERENCES launches (id) ON DELETE CASCADE,
  last INTEGER NOT NULL, -- the highest leads_id of the part
  ids BLOB NOT NULL, -- the differences as varints
  PRIMARY KEY (launch_id, last)
) STRICT;

---- enrollments

-- A group of enrollments that one workflow drives, whose id is the cohort's. A cohort of
-- single enrollments is claimed as it is made; a launch makes its cohorts without a claim.
CREATE TABLE cohorts (
  id TEXT PRIMARY KEY,
  journey_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  launch_id TEXT,
  accepted_at INTEGER NOT NULL, -- when the oldest of its enrollments was made
  claimed_at INTEGER, -- by a pump, which starts the workflow
  started_at INTEGER, -- the workflow
  size INTEGER NOT NULL, -- enrollments that are left in it
  retired INTEGER NOT NULL DEFAULT 0, -- no workflow drives it, and none will
  members TEXT, -- a JSON array that the workflow starts with; NULL once it has started
  FOREIGN KEY (journey_id, version) REFERENCES journey_versions (journey_id, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX cohorts_not_started ON cohorts (claimed_at) WHERE started_at IS NULL;
CREATE INDEX cohorts_ready ON cohorts (accepted_at, id) WHERE claimed_at IS NULL;

CREATE TABLE enrollments (
  id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  journey_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  leads_id INTEGER NOT NULL,
  launch_id TEXT,
  app_id TEXT NOT NULL,
  entry_key TEXT NOT NULL,
  params TEXT NOT NULL, -- JSON object
  source TEXT, -- the enrollment and the visit of an enroll node that it was made for
  entry TEXT, -- JSON object, what it began by; NULL: a call, its launch or its source
  event BLOB, -- sealed: the event that it began by
  event_seq INTEGER, -- of that event: what the enrollment waits for comes after it
  depth INTEGER NOT NULL DEFAULT 0, -- enrollments before it in a row, each of which made the next or emitted the event that did
  exits INTEGER NOT NULL DEFAULT 0, -- its version has journey_exits
  goal_version INTEGER NOT NULL DEFAULT 0, -- the version that it began with, whose goal counts for it; 0: none
  before_at INTEGER, -- when the lead entered before, as far as the goal counted it; NULL: never
  test INTEGER NOT NULL DEFAULT 0, -- of a test lead as it was made: no statistics count it
  cohort_id TEXT REFERENCES cohorts (id),
  claimed_at INTEGER, -- by a pump, which is to form a cohort of it
  status TEXT NOT NULL,
  node_id TEXT NOT NULL, -- where it stands
  last_seq INTEGER NOT NULL, -- of its timeline
  deferred INTEGER NOT NULL DEFAULT 0, -- the last entry is a deferral
  move TEXT, -- JSON object: the version that people have ordered it to; NULL once it has gone on
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  end_seq INTEGER, -- of the timeline entries that were recorded as it ended
  end_entries TEXT, -- those, as in timeline
  -- Where lists look for it: '' before its first node, the node where it stands, or how it has ended.
  place TEXT NOT NULL GENERATED ALWAYS AS (CASE WHEN ended_at IS NOT NULL THEN '=' || status WHEN status = 'pending' THEN '' ELSE node_id END) STORED,
  FOREIGN KEY (journey_id, version) REFERENCES journey_versions (journey_id, version)
) STRICT, WITHOUT ROWID;
-- Lists merge the places of a journey's versions, see store/enrollment_list.go.
CREATE INDEX enrollments_by_place ON enrollments (journey_id, version, place, created_at);
CREATE INDEX enrollments_by_lead ON enrollments (leads_id, created_at);
-- What is to be in a cohort: what has ended by a message that was sent ahead, too.
CREATE INDEX enrollments_without_cohort ON enrollments (id) WHERE cohort_id IS NULL AND (ended_at IS NULL OR claimed_at IS NOT NULL);
CREATE INDEX enrollments_without_cohort_by_version ON enrollments (journey_id, version, id) WHERE cohort_id IS NULL AND (ended_at IS NULL OR claimed_at IS NOT NULL);
CREATE INDEX enrollments_by_launch ON enrollments (launch_id, ended_at) WHERE launch_id IS NOT NULL;
-- What a cancel of a journey is about, besides its launches.
CREATE INDEX enrollments_by_journey ON enrollments (journey_id, id) WHERE launch_id IS NULL;
CREATE UNIQUE INDEX enrollments_by_source ON enrollments (source) WHERE source IS NOT NULL;
-- Only enrollments that an event may end are found by their lead, and only while they run.
CREATE INDEX enrollments_to_exit ON enrollments (leads_id, id) WHERE exits AND ended_at IS NULL;
-- Launches give no params, and pay nothing for these.
CREATE INDEX enrollments_with_params ON enrollments (id) WHERE params <> '{}' OR event IS NOT NULL;
CREATE INDEX enrollments_with_params_by_lead ON enrollments (leads_id, id) WHERE params <> '{}' OR event IS NOT NULL;

-- The first arm that an enrollment took at a split, in versions with a goal.
CREATE TABLE split_arms (
  enrollment_id TEXT NOT NULL REFERENCES enrollments (id) ON DELETE CASCADE,
  node_id TEXT NOT NULL,
  visit INTEGER NOT NULL,
  version INTEGER NOT NULL,
  arm INTEGER NOT NULL, -- from 0
  at INTEGER NOT NULL, -- when it took it, in microseconds
  won INTEGER NOT NULL, -- it was the winner's
  counts INTEGER NOT NULL, -- the enrollment has a goal, and the arm was taken by its weight
  PRIMARY KEY (enrollment_id, node_id)
) STRICT, WITHOUT ROWID;

-- The enrollments that reached their goal.
CREATE TABLE conversions (
  enrollment_id TEXT PRIMARY KEY REFERENCES enrollments (id) ON DELETE CASCADE,
  event_id TEXT NOT NULL, -- of the first event that did
  at INTEGER NOT NULL, -- when that was accepted, in microseconds
  worth INTEGER NOT NULL -- of all events that did, in ten-thousandths
) STRICT, WITHOUT ROWID;

-- One row for entries that were recorded together. Those that were recorded as the
-- enrollment ended stand in its row.
CREATE TABLE timeline (
  enrollment_id TEXT NOT NULL REFERENCES enrollments (id) ON DELETE CASCADE,
  seq INTEGER NOT NULL, -- of the first entry
  last_seq INTEGER NOT NULL, -- of the last entry
  version INTEGER NOT NULL, -- of the journey
  entries TEXT NOT NULL, -- JSON array
  PRIMARY KEY (enrollment_id, seq)
) STRICT, WITHOUT ROWID;

-- Visits to waitForEvent, waitUntil and waitFor nodes. A closed one stays, with the event that
-- satisfied it, if one did: that one does not count for the same node again.
CREATE TABLE waits (
  enrollment_id TEXT NOT NULL REFERENCES enrollments (id) ON DELETE CASCADE,
  visit INTEGER NOT NULL,
  node_id TEXT NOT NULL,
  events TEXT NOT NULL, -- their names, one a line; '' for waitUntil, * for waitFor
  leads_id INTEGER NOT NULL,
  workflow_id TEXT NOT NULL, -- whom a notice tells
  seen INTEGER NOT NULL DEFAULT 0, -- the seq of the last event that was looked at
  closed INTEGER NOT NULL DEFAULT 0,
  event_id TEXT NOT NULL DEFAULT '', -- the event that satisfied it
  arm INTEGER NOT NULL DEFAULT 0, -- which of those that the node waits for it is
  fields TEXT NOT NULL DEFAULT '', -- of waitUntil: the lead's that its end depends on, one a line; * for waitFor
  look_at INTEGER, -- of waitFor: when time can make its condition true
  PRIMARY KEY (enrollment_id, visit)
) STRICT, WITHOUT ROWID;
CREATE INDEX waits_open ON waits (leads_id) WHERE NOT closed;
CREATE INDEX waits_by_look ON waits (look_at) WHERE look_at IS NOT NULL;
CREATE UNIQUE INDEX waits_matched ON waits (enrollment_id, node_id, event_id) WHERE event_id <> '';

---- controls

-- What was decided about enrollments that run.
CREATE TABLE controls (
  id INTEGER PRIMARY KEY,
  target TEXT NOT NULL, -- an enrollment, a launch or a journey
  kind TEXT NOT NULL, -- pause, cancel or exit
  from_at INTEGER NOT NULL,
  until_at INTEGER, -- of a pause; NULL while it lasts
  shift INTEGER NOT NULL, -- of a pause: time stood still in it
  event TEXT NOT NULL, -- of an exit by an event
  segment_id TEXT NOT NULL DEFAULT '', -- of an exit by a segment
  sweep_at INTEGER, -- when the sweeper next carries out the cancel of a launch or a journey; NULL: all is done
  sweep_after TEXT NOT NULL -- the last enrollment that the sweeper has canceled
) STRICT;
CREATE INDEX controls_by_target ON controls (target);
CREATE INDEX controls_to_sweep ON controls (sweep_at) WHERE sweep_at IS NOT NULL;
-- A target has at most one pause that lasts, and at most one exit.
CREATE UNIQUE INDEX controls_paused ON controls (target) WHERE kind = 'pause' AND until_at IS NULL;
CREATE UNIQUE INDEX controls_exited ON controls (target) WHERE kind = 'exit';

-- Workflows that wait for the resume of a target.
CREATE TABLE holds (
  target TEXT NOT NULL,
  workflow_id TEXT NOT NULL,
  PRIMARY KEY (target, workflow_id)
) STRICT, WITHOUT ROWID;

-- What workflows have not been told yet: that they are to look at an enrollment.
CREATE TABLE notices (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  workflow_id TEXT NOT NULL,
  enrollment_id TEXT NOT NULL, -- '': of all
  event_id TEXT NOT NULL, -- the event that it is about, if any
  bulk INTEGER NOT NULL DEFAULT 0, -- one change made a notice for each of many workflows: the others do not wait behind those
  created_at INTEGER NOT NULL,
  claimed_until INTEGER NOT NULL -- microseconds since 1970
) STRICT;
CREATE INDEX notices_by_workflow ON notices (workflow_id, id);
CREATE INDEX notices_bulk ON notices (id) WHERE bulk;
CREATE INDEX notices_others ON notices (id) WHERE NOT bulk;

---- deliveries

-- Few rows and few index entries for a delivery: it is found by its enrollment and visit.
-- A message to a subscription has that's id instead, the number of its announcement as visit,
-- and neither journey ('') nor lead (0).
-- The columns from last_round to gave_up describe its last attempt; only other attempts
-- have rows of their own.
CREATE TABLE deliveries (
  enrollment_id TEXT NOT NULL, -- or a subscription's id: hence no foreign key
  visit INTEGER NOT NULL,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  message_id TEXT NOT NULL,
  journey_id TEXT NOT NULL,
  journey_version INTEGER NOT NULL,
  node_id TEXT NOT NULL,
  webhook_id TEXT NOT NULL,
  leads_id INTEGER NOT NULL,
  launch_id TEXT,
  status TEXT NOT NULL,
  deferred_reason TEXT NOT NULL DEFAULT '',
  deferred_since INTEGER, -- microseconds since 1970
  succeed INTEGER, -- NULL until the delivery is final
  round INTEGER NOT NULL DEFAULT 1, -- a redelivery begins another one
  attempts INTEGER NOT NULL DEFAULT 0, -- that are recorded, of all rounds
  next_attempt_at INTEGER,
  first_attempt_at INTEGER,
  late INTEGER NOT NULL DEFAULT 0, -- it was there before its first attempt: held back, or redelivered
  open_attempt INTEGER NOT NULL, -- that is under way; 0: none
  open_at INTEGER,
  open_by TEXT NOT NULL, -- the process
  last_round INTEGER NOT NULL DEFAULT 0,
  last_attempt INTEGER NOT NULL DEFAULT 0, -- 0: none
  last_attempt_at INTEGER,
  http_status INTEGER NOT NULL DEFAULT 0, -- 0: there was no answer
  error_class TEXT NOT NULL DEFAULT '',
  duration_ms INTEGER NOT NULL DEFAULT 0,
  response BLOB, -- sealed, since it can repeat the message: the answer's message and the beginning of its body
  gave_up TEXT NOT NULL DEFAULT '', -- why the delivery failed for good
  trouble TEXT GENERATED ALWAYS AS (CASE WHEN status NOT IN ('pending', 'succeeded') THEN status END) VIRTUAL,
  http_trouble INTEGER GENERATED ALWAYS AS (CASE WHEN status NOT IN ('pending', 'succeeded') OR http_status NOT IN (0, 200) THEN http_status END) VIRTUAL,
  PRIMARY KEY (enrollment_id, visit)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX deliveries_by_scope ON deliveries (org, stage, message_id);
-- The ids in front belong to one organisation and stage each.
CREATE INDEX deliveries_by_journey ON deliveries (journey_id, message_id);
CREATE INDEX deliveries_by_webhook ON deliveries (webhook_id, message_id);
CREATE INDEX deliveries_by_node ON deliveries (org, stage, node_id, message_id);
CREATE INDEX deliveries_by_lead ON deliveries (leads_id, message_id);
CREATE INDEX deliveries_by_launch ON deliveries (launch_id, message_id) WHERE launch_id IS NOT NULL;
-- Those to one subscription; deliveries_by_lead has those to all, as of lead 0.
CREATE INDEX deliveries_by_subscription ON deliveries (org, stage, enrollment_id, message_id) WHERE leads_id = 0;
-- Nearly all deliveries go from pending to succeeded: leaving those out keeps all indexes
-- untouched by that change. They are found by deliveries_by_scope. The columns behind
-- message_id are what else is filtered and grouped by: only rows that are told are read.
CREATE INDEX deliveries_by_trouble ON deliveries (org, stage, trouble, message_id, journey_id, webhook_id, node_id, error_class, http_trouble)
  WHERE trouble IS NOT NULL;
CREATE INDEX deliveries_by_error ON deliveries (org, stage, error_class, message_id) WHERE error_class <> '';
CREATE INDEX deliveries_by_http ON deliveries (org, stage, http_trouble, message_id) WHERE http_trouble NOT IN (0, 200);
-- What the health of a webhook is read from: which deliveries wait and why, and whose last
-- attempt has failed.
CREATE INDEX deliveries_by_webhook_trouble ON deliveries (webhook_id, trouble, deferred_reason, message_id) WHERE trouble IS NOT NULL;
-- Frequency caps count when a lead's messages first went out. Most go out when they are
-- made, which their ids tell (deliveries_by_lead); these find the others.
CREATE INDEX deliveries_late ON deliveries (leads_id, first_attempt_at) WHERE late;
CREATE INDEX deliveries_redelivered ON deliveries (leads_id) WHERE round > 1;

-- The bytes that are sent. They stand apart because they never change while their delivery
-- does.
CREATE TABLE messages (
  enrollment_id TEXT NOT NULL,
  visit INTEGER NOT NULL,
  body BLOB NOT NULL, -- sealed
  PRIMARY KEY (enrollment_id, visit),
  FOREIGN KEY (enrollment_id, visit) REFERENCES deliveries (enrollment_id, visit) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Attempts that the delivery's row does not describe; for the columns see there.
CREATE TABLE attempts (
  enrollment_id TEXT NOT NULL,
  visit INTEGER NOT NULL,
  round INTEGER NOT NULL,
  attempt INTEGER NOT NULL, -- from 1, through all rounds
  at INTEGER NOT NULL,
  http_status INTEGER NOT NULL,
  error_class TEXT NOT NULL,
  duration_ms INTEGER NOT NULL,
  response BLOB,
  gave_up TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (enrollment_id, visit, round, attempt),
  FOREIGN KEY (enrollment_id, visit) REFERENCES deliveries (enrollment_id, visit) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Rounds after the first, and the first one of a message to a subscription. The columns from
-- status on tell how the round before it ended, if there was one: a
-- journey goes by the first one for good.
CREATE TABLE delivery_rounds (
  enrollment_id TEXT NOT NULL,
  visit INTEGER NOT NULL,
  round INTEGER NOT NULL,
  workflow_id TEXT NOT NULL, -- the redelivery batch
  redelivery_id TEXT, -- NULL: of a single message
  began_at INTEGER NOT NULL,
  canceled_at INTEGER,
  deferred_reason TEXT NOT NULL DEFAULT '', -- why it was skipped
  status TEXT NOT NULL,
  succeed INTEGER,
  attempts INTEGER NOT NULL,
  first_attempt_at INTEGER,
  last_attempt_at INTEGER,
  duration_ms INTEGER NOT NULL,
  http_status INTEGER NOT NULL,
  error_class TEXT NOT NULL,
  response BLOB,
  PRIMARY KEY (enrollment_id, visit, round),
  FOREIGN KEY (enrollment_id, visit) REFERENCES deliveries (enrollment_id, visit) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_rounds_by_redelivery ON delivery_rounds (redelivery_id) WHERE redelivery_id IS NOT NULL;
-- What a workflow has left that was terminated.
CREATE INDEX delivery_rounds_by_workflow ON delivery_rounds (workflow_id);

-- The history of a webhook: how the attempts ended that began in an hour (ADR 19). Some that
-- are recorded together add a row to webhook_deltas; these are folded into webhook_hours.
-- An attempt can end after its webhook was deleted: what it adds is dropped then.
CREATE TABLE webhook_deltas (
  id INTEGER PRIMARY KEY,
  webhook_id TEXT NOT NULL,
  from_at INTEGER NOT NULL, -- of the hour
  succeeded INTEGER NOT NULL, -- attempts
  failed INTEGER NOT NULL, -- attempts
  took TEXT NOT NULL -- JSON array: the milliseconds of each
) STRICT;
CREATE TABLE webhook_hours (
  webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
  from_at INTEGER NOT NULL,
  succeeded INTEGER NOT NULL, -- attempts
  failed INTEGER NOT NULL, -- attempts
  took TEXT NOT NULL, -- a histogram of their milliseconds (HdrHistogram, V2)
  PRIMARY KEY (webhook_id, from_at)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_hours_by_age ON webhook_hours (from_at, webhook_id);

---- redeliveries

-- A bulk redelivery.
CREATE TABLE redeliveries (
  id TEXT PRIMARY KEY,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  app_id TEXT NOT NULL,
  filter TEXT NOT NULL, -- JSON object
  message TEXT NOT NULL, -- why it failed
  reached TEXT NOT NULL, -- the last message that was looked at
  created_at INTEGER NOT NULL,
  started_at INTEGER, -- of the first step
  stepped_at INTEGER NOT NULL, -- of the last step
  done_at INTEGER, -- no further message is looked for: all are done, or it was canceled or failed
  canceled_at INTEGER,
  ended_at INTEGER, -- everything that it has begun is decided
  total INTEGER NOT NULL, -- messages that match
  redelivered INTEGER NOT NULL, -- messages
  skipped INTEGER NOT NULL, -- messages that no round could begin for
  succeeded INTEGER NOT NULL, -- messages, counted at ended_at
  failed INTEGER NOT NULL, -- messages, counted at ended_at
  canceled INTEGER NOT NULL -- messages, counted at ended_at
) STRICT, WITHOUT ROWID;
CREATE INDEX redeliveries_by_scope ON redeliveries (org, stage, id);
CREATE INDEX redeliveries_to_step ON redeliveries (stepped_at, id) WHERE done_at IS NULL;

-- A group of messages that one workflow redelivers, whose id is the batch's.
CREATE TABLE redelivery_batches (
  id TEXT PRIMARY KEY,
  redelivery_id TEXT, -- NULL: of a single message, or of messages to subscriptions
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  members TEXT, -- a JSON array that the workflow starts with; NULL once it has started
  created_at INTEGER NOT NULL,
  claimed_at INTEGER, -- by a pump, which starts the workflow
  workflow_started_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX redelivery_batches_not_started ON redelivery_batches (id) WHERE workflow_started_at IS NULL;

---- statistics

-- What has changed in the counts of a journey version and is not in statistics yet: one row
-- for each transaction that changed anything. A JSON array of {"n": how often, "d": {hour:
-- waypost.Counts}}; the hours since 1970.
CREATE TABLE statistic_deltas (
  id INTEGER PRIMARY KEY,
  journey_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  counts TEXT NOT NULL
) STRICT;
CREATE INDEX statistic_deltas_by_journey ON statistic_deltas (journey_id);

-- One row has the counts of all nodes. Those of hours are dropped after 90 days.
CREATE TABLE statistics (
  journey_id TEXT NOT NULL,
  span TEXT NOT NULL, -- all, day or hour
  from_at INTEGER NOT NULL, -- 0: of all
  version INTEGER NOT NULL,
  counts TEXT NOT NULL, -- JSON: waypost.Counts; '' while it is being made
  PRIMARY KEY (journey_id, span, from_at, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX statistics_by_age ON statistics (from_at, journey_id) WHERE span = 'hour';

---- articles

-- Who has a tenant, in all stages: whoever wrote the first article of it, for good.
CREATE TABLE article_tenants (
  tenant_id TEXT PRIMARY KEY,
  org TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE articles (
  number INTEGER PRIMARY KEY AUTOINCREMENT, -- the key in the search index, never used again
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  id TEXT NOT NULL,
  revision INTEGER NOT NULL, -- counts the changes
  size INTEGER NOT NULL, -- of all texts, in bytes
  tenant_id TEXT NOT NULL REFERENCES article_tenants (tenant_id),
  name TEXT NOT NULL,
  identifier TEXT NOT NULL,
  access_level INTEGER NOT NULL, -- 0 to 10
  published INTEGER NOT NULL,
  frontend_url TEXT NOT NULL,
  channels TEXT NOT NULL, -- JSON array
  published_at INTEGER NOT NULL,
  content TEXT NOT NULL, -- the last column: what reads only those before it does not read its pages
  UNIQUE (id, org, stage)
) STRICT;

-- Articles that the search index may not hold as they are, or hold though they are gone: an
-- entry stays until the index has the revision.
CREATE TABLE article_changes (
  number INTEGER PRIMARY KEY,
  revision INTEGER NOT NULL,
  bulk INTEGER NOT NULL, -- of an import: single articles go before it
  changed_at INTEGER NOT NULL, -- of the first change that the entry stands for
  tries INTEGER NOT NULL DEFAULT 0, -- that the index has refused
  due_at INTEGER NOT NULL DEFAULT 0 -- 0: at once
) STRICT;
CREATE INDEX article_changes_due ON article_changes (bulk, due_at, changed_at, number);

-- The one row of the search index: who writes it, which generation of it is what, and the
-- last reindex.
CREATE TABLE article_index (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  installation TEXT NOT NULL DEFAULT '', -- names this database where several share a search engine; '': not named yet
  holder TEXT NOT NULL DEFAULT '', -- the process that writes it; '': none
  holder_engine TEXT NOT NULL DEFAULT '',
  held_until INTEGER, -- microseconds since 1970
  epoch INTEGER NOT NULL DEFAULT 0, -- counts the holders, one after the other
  engine TEXT NOT NULL DEFAULT '', -- that has the generations
  live TEXT NOT NULL DEFAULT '', -- the generation that is searched
  building TEXT NOT NULL DEFAULT '', -- the generation that a reindex fills
  cursor INTEGER NOT NULL DEFAULT 0, -- the last article that the reindex has read
  mark INTEGER NOT NULL DEFAULT 0, -- that the live generation must have
  status TEXT NOT NULL DEFAULT '', -- of the last reindex; '': there was none
  message TEXT NOT NULL DEFAULT '', -- why it failed
  total INTEGER NOT NULL DEFAULT 0, -- articles
  processed INTEGER NOT NULL DEFAULT 0, -- articles
  created_at INTEGER,
  started_at INTEGER,
  ended_at INTEGER
) STRICT;
INSERT INTO article_index (id) VALUES (1);

---- audit log

-- Who changed what. Rows are added, and dropped when their time is over; counts of one row grow
-- while it is new. They hold no personal data of leads but the names of their members, and of users
-- their ids alone.
CREATE TABLE audit (
  id TEXT PRIMARY KEY, -- sorts by when
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  application TEXT NOT NULL, -- its id; '': a command that writes to the database
  actor TEXT NOT NULL, -- the person behind it, a user of the console by their id; '': not named
  action TEXT NOT NULL,
  target TEXT NOT NULL,
  was TEXT, -- JSON object: members that changed
  became TEXT, -- JSON object
  request_id TEXT NOT NULL, -- '': of no request
  address TEXT NOT NULL DEFAULT '' -- the client's, of what is done to users; '': not known
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_by_scope ON audit (org, stage, id);
CREATE INDEX audit_by_target ON audit (org, stage, target, id);
-- Single enrollments of an application that names nobody do not pay for it.
CREATE INDEX audit_by_actor ON audit (org, stage, actor, id) WHERE actor <> '';

---- retention

-- What was dropped because its time was over stays counted, by how it ended.
CREATE TABLE dropped (
  journey_id TEXT NOT NULL,
  launch_id TEXT NOT NULL, -- '': of none
  kind TEXT NOT NULL, -- enrollment or delivery
  status TEXT NOT NULL,
  n INTEGER NOT NULL,
  ended_at INTEGER, -- of the last enrollment
  PRIMARY KEY (journey_id, launch_id, kind, status)
) STRICT, WITHOUT ROWID;

-- The one row of the sweep that drops.
CREATE TABLE retention (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  holder TEXT NOT NULL DEFAULT '', -- the process that sweeps; '': none
  held_until INTEGER, -- microseconds since 1970
  swept_at INTEGER -- when the last sweep ended
) STRICT;
INSERT INTO retention (id) VALUES (1);
