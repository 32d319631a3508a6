-- What the suite asking asks about, as the store writes it (bench/asking.go fills in what stands in
-- braces): {n} leads, enrollments and deliveries of one scope, {n} / 500 journeys and {n} / 50 launches
-- beside them, and two events of each lead. Nothing that no case reads is written: timelines, entries, messages, attempts.

-- An id as waypost.NewID makes it, with a number instead of random bits.
CREATE FUNCTION pg_temp.id(prefix text, ms bigint, n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT prefix || substr(a, (ms >> 43 & 31)::int + 1, 1) || substr(a, (ms >> 38 & 31)::int + 1, 1) || substr(a, (ms >> 33 & 31)::int + 1, 1)
    || substr(a, (ms >> 28 & 31)::int + 1, 1) || substr(a, (ms >> 23 & 31)::int + 1, 1) || substr(a, (ms >> 18 & 31)::int + 1, 1)
    || substr(a, (ms >> 13 & 31)::int + 1, 1) || substr(a, (ms >> 8 & 31)::int + 1, 1) || substr(a, (ms >> 3 & 31)::int + 1, 1)
    || substr(a, (ms << 2 & 31)::int + 1, 1) || lpad(n::text, 15, '0') || '0'
  FROM (SELECT '0123456789abcdefghjkmnpqrstvwxyz'::text AS a) AS alphabet
$$;
-- When the i-th enrollment was made: they come evenly in 30 days. Those of a launch's step, of
-- 1,000, have one time.
CREATE FUNCTION pg_temp.made(i bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT {now} - 30 * 86400000000 + (CASE WHEN i > {n} / 2 AND i <= {n} / 2 + {n} / 4 THEN i / 1000 * 1000 ELSE i END) * (30 * 86400000000 / ({n} + 1))
$$;

INSERT INTO leads (leads_id, org, stage, leads_group, region, name, name_folded, mobile_phone, gender, email, email_folded, external_id, custom_fields, created_at, updated_at)
SELECT {first} - 1 + i, '{org}', '{stage}', i % 100, 310000 + i % 1000, 'Lead ' || i, 'lead ' || i, '[]', i % 3, 'lead' || i || '@example.com', 'lead' || i || '@example.com',
  '{stage}-' || i, '{"plan":"' || CASE WHEN i % 10 = 0 THEN 'gold' ELSE 'free' END || '","branch":"b' || i % 5000 || '"}', pg_temp.made(i), pg_temp.made(i)
FROM generate_series(1::bigint, {leads}) AS i;
SELECT setval(pg_get_serial_sequence('leads', 'leads_id'), {first} + {leads});

-- Two events of a lead, in 60 days: one of four is a purchase.
INSERT INTO events (org, stage, event_id, name, leads_id, properties, occurred_at, accepted_at)
SELECT '{org}', '{stage}', 'filled-' || i, CASE WHEN i % 4 = 0 THEN 'purchased' ELSE 'viewed' END, {first} + i * 48271 % {leads}, '{"amount":' || i % 200 || '}',
  {now} - 60 * 86400000000 + i * (60 * 86400000000 / (2 * {n} + 1)), {now} - 60 * 86400000000 + i * (60 * 86400000000 / (2 * {n} + 1))
FROM generate_series(1::bigint, 2 * {leads}) AS i;
INSERT INTO event_days (org, stage, leads_id, name, day, n, first_at, last_at)
SELECT org, stage, leads_id, name, occurred_at / 86400000000, count(*), min(occurred_at), max(occurred_at)
FROM events WHERE org = '{org}' AND stage = '{stage}' AND event_id LIKE 'filled-%' GROUP BY 1, 2, 3, 4, 5;

-- Copies of the journey with one touchpoint: of a hundred, one is archived; of a thousand, one
-- has the tag rare.
CREATE TEMP TABLE copies AS SELECT i, pg_temp.id('jrn_', {now} / 1000 - 40 * 86400000::bigint + i, i) AS id FROM generate_series(1::bigint, {journeys}) AS i;
INSERT INTO journeys (id, org, stage, name, name_folded, draft, published_version, status, created_at, updated_at)
SELECT c.id, j.org, j.stage, 'Copy ' || c.i, 'copy ' || c.i, j.draft, 1, CASE WHEN c.i % 100 = 1 THEN 'archived' ELSE j.status END, {now} - 40 * 86400000000 + c.i * 1000, {now}
FROM copies AS c, journeys AS j WHERE j.id = '{small}';
INSERT INTO journey_versions (journey_id, version, name, hash, definition, published_at)
SELECT c.id, 1, v.name, v.hash, v.definition, v.published_at FROM copies AS c, journey_versions AS v WHERE v.journey_id = '{small}';
INSERT INTO journey_keys (org, stage, kind, value, journey_id, published)
SELECT k.org, k.stage, k.kind, k.value, c.id, k.published FROM copies AS c, journey_keys AS k WHERE k.journey_id = '{small}';
INSERT INTO journey_keys (org, stage, kind, value, journey_id, published) SELECT '{org}', '{stage}', 'tag', 'rare', id, FALSE FROM copies WHERE i % 1000 = 1;

-- Of a thousand launches of these, one was canceled.
INSERT INTO launches (id, org, stage, journey_id, version, app_id, reentry, filter, personal, control_group, rate_per_second, timezone, skip_reason, created_at,
  claimed_at, workflow_started_at, started_at, done_at, ended, total, highest, enrolled, skipped, held_out, missing, gone, held)
SELECT pg_temp.id('lch_', at / 1000, l.i), '{org}', '{stage}', c.id, 1, 'app_bench', '{}', '{}', FALSE, 0, 0, '', '', at, at, at, at, at + 1000000,
  CASE WHEN l.i % 1000 = 1 THEN 'canceled' ELSE 'completed' END, 10, {leads}, 10, 0, 0, 0, 0, 0
FROM (SELECT i, {now} - 20 * 86400000000 + i * 1000 AS at FROM generate_series(1::bigint, {launches}) AS i) AS l JOIN copies AS c ON c.i = 1 + l.i % {journeys};
-- The one that a quarter of the enrollments are of has none left to enroll.
INSERT INTO launches (id, org, stage, journey_id, version, app_id, reentry, filter, personal, control_group, rate_per_second, timezone, skip_reason, created_at,
  claimed_at, workflow_started_at, started_at, done_at, ended, total, highest, enrolled, skipped, held_out, missing, gone, held)
SELECT '{launch}', '{org}', '{stage}', '{large}', 1, 'app_bench', '{}', '{}', FALSE, 0, 0, '', '', at, at, at, at, pg_temp.made({n} / 2 + {n} / 4), '', {n} / 4, {leads}, {n} / 4, 0, 0, 0, 0, 0
FROM (SELECT pg_temp.made({n} / 2 + 1) AS at) AS t WHERE {leads} > 0;

-- Enrollments in a journey of 50 nodes, one after the other, n00 to n49: touchpoints have even
-- numbers, delays odd ones, and n49 is its exit. 12 of 20 have completed, 2 ended otherwise, 4 wait
-- and 2 are about to send; of a thousand, one waits at n25. The first lead has a thousandth of them.
INSERT INTO enrollments (id, org, stage, journey_id, version, leads_id, launch_id, app_id, entry_key, params, cohort_id, status, node_id, last_seq, created_at, ended_at)
SELECT pg_temp.id('enr_', at / 1000, i), '{org}', '{stage}', '{large}', 1, {first} - 1 + CASE WHEN i % 1000 = 7 THEN 1 ELSE i END, CASE WHEN i > {n} / 2 AND i <= {n} / 2 + {n} / 4 THEN '{launch}' END,
  'app_bench', CASE WHEN i % 1000 = 7 THEN i::text ELSE '' END, '{}', pg_temp.id('coh_', {now} / 1000 - 30 * 86400000::bigint, i / 200), status,
  'n' || lpad(CASE status WHEN 'completed' THEN 49 WHEN 'running' THEN 2 * (h % 25) WHEN 'failed' THEN 2 * (h % 25)
    ELSE CASE WHEN i % 1000 = 12 THEN 25 WHEN h % 24 = 12 THEN 23 ELSE 1 + 2 * (h % 24) END END::text, 2, '0'),
  3, at, CASE WHEN status NOT IN ('waiting', 'running') THEN at + 1000000 END
FROM (SELECT i, i / 20 * 7919 % 1000003 AS h, pg_temp.made(i) AS at,
    CASE WHEN i % 20 < 12 THEN 'completed' WHEN i % 20 < 16 THEN 'waiting' WHEN i % 20 < 18 THEN 'running' WHEN i % 20 = 18 THEN 'failed' WHEN i % 40 = 19 THEN 'canceled' ELSE 'exited' END AS status
  FROM generate_series(1::bigint, {enrollments}) AS i) AS e;
INSERT INTO cohorts (id, journey_id, version, accepted_at, claimed_at, started_at, size, retired)
SELECT cohort_id, '{large}', 1, min(created_at), min(created_at), min(created_at), count(*) - count(ended_at), count(*) = count(ended_at)
FROM enrollments WHERE journey_id = '{large}' GROUP BY cohort_id;

-- Their statistics: all that an enrollment has come to happened in the hour in which it was made.
INSERT INTO statistics (journey_id, span, from_at, version, counts)
WITH e AS (
  SELECT created_at / 3600000000 AS hour, substr(node_id, 2)::int AS k, count(*) AS n, count(*) FILTER (WHERE status = 'waiting') AS w, count(*) FILTER (WHERE status = 'running') AS r,
    count(*) FILTER (WHERE status = 'completed') AS c, count(*) FILTER (WHERE status = 'exited') AS x, count(*) FILTER (WHERE status = 'failed') AS f, count(*) FILTER (WHERE status = 'canceled') AS q
  FROM enrollments WHERE journey_id = '{large}' GROUP BY 1, 2
), spans AS (
  SELECT 'hour' AS span, hour * 3600000000 AS from_at, e.* FROM e UNION ALL SELECT 'day', hour / 24 * 86400000000, e.* FROM e UNION ALL SELECT 'all', 0, e.* FROM e
), summed AS (
  SELECT span, from_at, k, sum(n) AS n, sum(w) AS w, sum(r) AS r, sum(c) AS c, sum(x) AS x, sum(f) AS f, sum(q) AS q FROM spans GROUP BY 1, 2, 3
), nodes AS (
  SELECT span, from_at, j, sum(n) FILTER (WHERE k >= j) AS e, sum(n) FILTER (WHERE k > j) AS onward,
    sum(w) FILTER (WHERE k = j) AS w, sum(r) FILTER (WHERE k = j) AS r, sum(f) FILTER (WHERE k = j) AS f
  FROM summed, generate_series(0, 49) AS j GROUP BY 1, 2, 3
), ends AS (
  SELECT span, from_at, sum(n) AS e, sum(c) AS c, sum(x) AS x, sum(f) AS f, sum(q) AS q FROM summed GROUP BY 1, 2
)
SELECT '{large}', span, from_at, 1, json_strip_nulls(json_build_object('n', (
    SELECT json_object_agg('n' || lpad(j::text, 2, '0'), json_build_object('e', NULLIF(n.e, 0), 'w', NULLIF(n.w, 0), 'r', NULLIF(n.r, 0),
      'd', CASE WHEN j % 2 = 0 THEN NULLIF(n.onward, 0) END, 'f', NULLIF(n.f, 0), 'x', CASE WHEN n.onward > 0 THEN json_build_object('n' || lpad((j + 1)::text, 2, '0') || ' next', n.onward) END))
    FROM nodes AS n WHERE n.span = ends.span AND n.from_at = ends.from_at AND n.e > 0),
  'e', e, 'c', NULLIF(c, 0), 'x', NULLIF(x, 0), 'f', NULLIF(f, 0), 'q', NULLIF(q, 0)))::text
FROM ends;

-- Deliveries of the last week. {percent} in a hundred are in trouble, one of five of these is
-- retried. A tenth is of the journey with one touchpoint.
INSERT INTO deliveries (enrollment_id, visit, org, stage, message_id, journey_id, journey_version, node_id, webhook_id, leads_id, status, succeed, attempts, next_attempt_at,
  first_attempt_at, open_attempt, open_by, last_round, last_attempt, last_attempt_at, http_status, error_class, duration_ms, gave_up)
SELECT pg_temp.id('enr_', pg_temp.made(i) / 1000, i), 1, '{org}', '{stage}', pg_temp.id('msg_', at / 1000, i), CASE WHEN i % 10 = 0 THEN '{small}' ELSE '{large}' END, 1,
  CASE WHEN i % 10 = 0 THEN 'hello' ELSE 'n' || lpad((2 * ((i + i / 100) % 25))::text, 2, '0') END, '{webhook}', {first} - 1 + i, status, CASE status WHEN 'succeeded' THEN TRUE WHEN 'failed' THEN FALSE END, 1,
  CASE WHEN status = 'retrying' THEN {now} + 86400000000 END, at, 0, '', 1, 1, at,
  CASE WHEN status = 'succeeded' THEN 200 ELSE (ARRAY[503, 503, 503, 503, 500, 404, 0, 0, 200, 0])[1 + h % 10] END,
  CASE WHEN status = 'succeeded' THEN '' ELSE (ARRAY['httpStatus', 'httpStatus', 'httpStatus', 'httpStatus', 'httpStatus', 'httpStatus', 'timeout', 'network', 'succeedFalse', 'tls'])[1 + h % 10] END,
  40, CASE WHEN status = 'failed' THEN 'giveUpAfter' ELSE '' END
FROM (SELECT i, i + i / 100 * 3 AS h, {now} - 7 * 86400000000 + i * (7 * 86400000000 / ({n} + 1)) AS at,
    CASE WHEN i % 100 >= {percent} THEN 'succeeded' WHEN i / 100 % 5 = 0 THEN 'retrying' ELSE 'failed' END AS status
  FROM generate_series(1::bigint, {n}) AS i) AS d;
