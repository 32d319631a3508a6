-- +goose Up

-- Who has a tenant, in all stages: whoever wrote the first article of it, for good.
CREATE TABLE article_tenants (
  tenant_id TEXT PRIMARY KEY,
  org TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- number is the article's key in the search index and never used again. revision
-- counts the changes. size is that of all texts, in bytes. content is the last
-- column: what reads only those before it does not read its pages.
CREATE TABLE articles (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  org TEXT NOT NULL,
  stage TEXT NOT NULL,
  id TEXT NOT NULL,
  revision INTEGER NOT NULL,
  size INTEGER NOT NULL,
  tenant_id TEXT NOT NULL REFERENCES article_tenants (tenant_id),
  name TEXT NOT NULL,
  identifier TEXT NOT NULL,
  access_level INTEGER NOT NULL,
  published INTEGER NOT NULL,
  frontend_url TEXT NOT NULL,
  channels TEXT NOT NULL,
  published_at INTEGER NOT NULL,
  content TEXT NOT NULL,
  UNIQUE (id, org, stage)
) STRICT;

-- Articles that the search index may not hold as they are, or hold though they are
-- gone: an entry stays until the index has the revision. due_at is 0 save for what
-- the index has refused.
CREATE TABLE article_changes (
  number INTEGER PRIMARY KEY,
  revision INTEGER NOT NULL,
  bulk INTEGER NOT NULL,
  changed_at INTEGER NOT NULL,
  tries INTEGER NOT NULL DEFAULT 0,
  due_at INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX article_changes_due ON article_changes (bulk, due_at, changed_at, number);

-- The one row of the search index: who writes it, which generation of it is what,
-- and the last reindex (status '': there was none).
CREATE TABLE article_index (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  holder TEXT NOT NULL DEFAULT '',
  holder_engine TEXT NOT NULL DEFAULT '',
  held_until INTEGER,
  epoch INTEGER NOT NULL DEFAULT 0,
  engine TEXT NOT NULL DEFAULT '',
  live TEXT NOT NULL DEFAULT '',
  building TEXT NOT NULL DEFAULT '',
  cursor INTEGER NOT NULL DEFAULT 0,
  mark INTEGER NOT NULL DEFAULT 0,
  status TEXT NOT NULL DEFAULT '',
  message TEXT NOT NULL DEFAULT '',
  total INTEGER NOT NULL DEFAULT 0,
  processed INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER,
  started_at INTEGER,
  ended_at INTEGER
) STRICT;
INSERT INTO article_index (id) VALUES (1);
