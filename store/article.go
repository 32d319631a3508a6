package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

type articleRow struct {
	bun.BaseModel `bun:"table:articles,alias:a"`

	Number int64 `bun:"number,pk"`
	waypost.Scope
	ID          string `bun:"id"`
	Revision    int64  `bun:"revision"`
	Size        int    `bun:"size"`
	TenantID    string `bun:"tenant_id"`
	Name        string `bun:"name"`
	Identifier  string `bun:"identifier"`
	AccessLevel int    `bun:"access_level"`
	Published   bool   `bun:"published"`
	FrontendURL string `bun:"frontend_url"`
	Channels    string `bun:"channels"`
	PublishedAt stamp  `bun:"published_at"`
	Content     string `bun:"content"`
}

// channelColumn is an element of articles.channels.
type channelColumn struct {
	ID          string `json:"id"`
	Slug        string `json:"slug"`
	URL         string `json:"url"`
	Name        string `json:"name"`
	AccessLevel int    `json:"level"`
}

func newArticleRow(sc waypost.Scope, a waypost.Article) (articleRow, error) {
	row := articleRow{
		Scope: sc, ID: a.ID, TenantID: a.TenantID, Name: a.Name, Identifier: a.Identifier,
		AccessLevel: a.AccessLevel, Published: a.Published, FrontendURL: a.FrontendURL,
		PublishedAt: stamp{a.PublishedAt.UTC().Truncate(time.Millisecond)}, Content: a.Content,
	}
	var err error
	row.Channels, err = toJSON(mapped(a.Channels, func(c waypost.Channel) channelColumn { return channelColumn(c) }))
	row.Size = len(row.Content) + len(row.Name) + len(row.Channels)
	return row, err
}

func (r *articleRow) article() (waypost.Article, error) {
	a := waypost.Article{
		ID: r.ID, TenantID: r.TenantID, Name: r.Name, Identifier: r.Identifier, Content: r.Content, AccessLevel: r.AccessLevel,
		Published: r.Published, FrontendURL: r.FrontendURL, PublishedAt: r.PublishedAt.Time,
	}
	var channels []channelColumn
	if err := fromJSON(r.Channels, &channels); err != nil {
		return a, fmt.Errorf("article %d: %w", r.Number, err)
	}
	a.Channels = mapped(channels, func(c channelColumn) waypost.Channel { return waypost.Channel(c) })
	return a, nil
}

// replace makes the row the next revision of current (nil: the first).
func (r *articleRow) replace(current *articleRow, now time.Time) {
	published := stamp{now.Truncate(time.Millisecond)}
	if current != nil {
		r.Number, r.Revision, published = current.Number, current.Revision, current.PublishedAt
	}
	r.Revision++
	if r.PublishedAt.IsZero() {
		r.PublishedAt = published
	}
}

// errRaced ends a transaction that was to insert an article which another one has inserted
// meanwhile.
var errRaced = errors.New("another request stored the article at the same time")

// articleSmall is how many bytes of an article count as one row for writeRows, which lets small
// writes go first.
const articleSmall = 64 << 10

// PutArticle stores an article or replaces the one of its id, and notes the change for the
// index. check (unless nil) sees the present one, nil if there is none, while nobody
// else can change it; it may run again and must not keep anything, and its error ends
// the put and is returned. An article without PublishedAt keeps the present one's, or
// gets the current time in milliseconds. The tenant of a first article becomes the
// organisation's; Conflict (target "tenant_id") if it is another's. BadRequest if a
// member is faulty.
func (s *articles) PutArticle(
	ctx context.Context, by waypost.Caller, a waypost.Article, check func(current *waypost.Article) error,
) (stored waypost.Article, created bool, err error) {
	if err := a.Validate(); err != nil {
		return stored, false, err
	}
	defer wrap(&err, "put article %s", a.ID)
	sc, author := by.Within()
	row, err := newArticleRow(sc, a)
	if err != nil {
		return stored, false, err
	}
	err = retryWhile(errRaced, func() error {
		return s.writeRows(ctx, 1+row.Size/articleSmall, func(ctx context.Context, tx bun.Tx) (err error) {
			stored, created, err = s.putArticle(ctx, tx, author, row, check)
			return err
		})
	})
	return stored, created, err
}

// putArticle is PutArticle in a transaction. errRaced if another one has inserted the article since it
// looked; the caller then tries again.
func (s *articles) putArticle(
	ctx context.Context, tx bun.Tx, by *waypost.Author, row articleRow, check func(*waypost.Article) error,
) (a waypost.Article, created bool, err error) {
	current, err := s.lockArticle(ctx, tx, row.Scope, row.ID)
	if err != nil {
		return a, false, err
	}
	var present *waypost.Article
	if current != nil {
		before, err := current.article()
		if err != nil {
			return a, false, err
		}
		present = &before
	}
	if check != nil {
		if err := check(present); err != nil {
			return a, false, err
		}
	}
	owners, err := s.claimTenants(ctx, tx, row.Org, []string{row.TenantID})
	if err != nil {
		return a, false, err
	}
	if owners[row.TenantID] != row.Org {
		return a, false, foreignTenant(row.TenantID)
	}
	row.replace(current, s.time())
	added, locked := []*articleRow{&row}, []*articleRow(nil)
	if current != nil {
		added, locked = locked, added
	}
	if err := s.writeArticles(ctx, tx, added, locked, false); err != nil {
		return a, false, err
	}
	if a, err = row.article(); err != nil {
		return a, false, err
	}
	action, before := "article.create", any(nil)
	if present != nil {
		action, before = "article.update", auditedArticle(*present)
	}
	return a, current == nil, s.audit.add(ctx, tx, by, action, a.ID, before, auditedArticle(a))
}

// retryWhile calls fn again while its error is raced, which says that another transaction came
// between; at most staleTries times in all.
func retryWhile(raced error, fn func() error) error {
	for try := 1; ; try++ {
		if err := fn(); try == staleTries || !errors.Is(err, raced) {
			return err
		}
	}
}

// lockArticle reads an article and keeps others from changing it; nil if there is
// none.
func (s *articles) lockArticle(ctx context.Context, tx bun.Tx, sc waypost.Scope, id string) (*articleRow, error) {
	var row articleRow
	err := s.lock(tx.NewSelect().Model(&row).Where("org = ? AND stage = ? AND id = ?", sc.Org, sc.Stage, id), "a").Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &row, err
}

// foreignTenant refuses an article of another organisation's tenant.
func foreignTenant(tenant string) *waypost.Error {
	return waypost.Errorf(waypost.CodeConflict, "tenant_id", "the tenant %s belongs to another organisation", tenant)
}

var (
	insertArticles = bulk{
		table: "articles",
		columns: []string{
			"number bigint", "org text", "stage text", "id text", "revision bigint", "size bigint", "tenant_id text", "name text",
			"identifier text", "access_level bigint", "published boolean", "frontend_url text", "channels text", "published_at bigint", "content text",
		},
		suffix: "ON CONFLICT (id, org, stage) DO NOTHING",
		unique: 1,
	}
	updateArticles = bulk{
		table:   "articles AS a",
		columns: append([]string{"number bigint"}, insertArticles.columns[4:]...),
		keys:    1,
	}
)

// writeArticles inserts added and updates locked, which the caller has locked, and notes their changes.
// The added ones get their numbers in the order of the list. All of it is written in the order
// of its keys, tenants before articles and changes last, so that writers do not wait
// for each other in a circle. errRaced if another transaction has inserted one of added.
func (s *articles) writeArticles(ctx context.Context, tx bun.Tx, added, locked []*articleRow, bulk bool) error {
	if err := s.numberArticles(ctx, tx, added); err != nil {
		return err
	}
	byID := slices.SortedFunc(slices.Values(added), func(x, y *articleRow) int { return cmp.Compare(x.ID, y.ID) })
	inserted := 0
	err := insertArticles.apply(ctx, s.db, tx, len(byID), func(i int) []any {
		r := byID[i]
		return []any{
			r.Number, r.Org, string(r.Stage), r.ID, r.Revision, r.Size, r.TenantID, r.Name,
			r.Identifier, r.AccessLevel, &r.Published, r.FrontendURL, r.Channels, r.PublishedAt, r.Content,
		}
	}, func(int) { inserted++ })
	if err != nil {
		return err
	}
	if inserted != len(added) {
		return errRaced
	}
	err = updateArticles.run(ctx, s.db, tx, len(locked), func(i int) []any {
		r := locked[i]
		return []any{
			r.Number, r.Revision, r.Size, r.TenantID, r.Name,
			r.Identifier, r.AccessLevel, &r.Published, r.FrontendURL, r.Channels, r.PublishedAt, r.Content,
		}
	}, nil)
	if err != nil {
		return err
	}
	return s.index.noteChanges(ctx, tx, slices.Concat(added, locked), bulk)
}

// numberArticles gives new articles their numbers.
func (s *articles) numberArticles(ctx context.Context, tx bun.Tx, added []*articleRow) error {
	if len(added) == 0 {
		return nil
	}
	numbers, err := s.nextNumbers(ctx, tx, "articles", "number", len(added))
	if err != nil {
		return err
	}
	for i, r := range added {
		r.Number = numbers[i]
	}
	return nil
}

// Article returns an article; NotFound if the scope has none of this id.
func (s *articles) Article(ctx context.Context, sc waypost.Scope, id string) (a waypost.Article, err error) {
	defer wrap(&err, "load article %s", clip(id))
	var row articleRow
	if err := scanByID(ctx, s.r.NewSelect().Model(&row), sc, "article", id); err != nil {
		return a, err
	}
	return row.article()
}

// DeleteArticle deletes an article and notes that for the index. check (unless nil)
// sees the article while nobody else can change it; it may run again, and its error
// ends the deletion and is returned. NotFound if the scope has none of this id. The
// tenant stays the organisation's.
func (s *articles) DeleteArticle(ctx context.Context, by waypost.Caller, id string, check func(waypost.Article) error) (err error) {
	defer wrap(&err, "delete article %s", clip(id))
	sc, author := by.Within()
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockArticle(ctx, tx, sc, cleanText(id))
		if err != nil {
			return err
		}
		if row == nil {
			return noSuch("article", id)
		}
		a, err := row.article()
		if err != nil {
			return err
		}
		if check != nil {
			if err := check(a); err != nil {
				return err
			}
		}
		if _, err := tx.NewDelete().Model(row).WherePK().Exec(ctx); err != nil {
			return err
		}
		if err := s.audit.add(ctx, tx, author, "article.delete", a.ID, auditedArticle(a), nil); err != nil {
			return err
		}
		row.Revision++
		return s.index.noteChanges(ctx, tx, []*articleRow{row}, false)
	})
}

type tenantRow struct {
	bun.BaseModel `bun:"table:article_tenants,alias:at"`

	TenantID string `bun:"tenant_id,pk"`
	Org      string `bun:"org"`
}

// TenantOrg returns the organisation that a tenant belongs to, in all stages and for
// good; NotFound if nobody has written an article of it.
func (s *articles) TenantOrg(ctx context.Context, tenantID string) (string, error) {
	if waypost.IsArticleKey(tenantID) {
		owners, err := tenantOwners(ctx, s.r, []string{tenantID})
		if err != nil {
			return "", fmt.Errorf("load tenant %s: %w", tenantID, err)
		}
		if org, found := owners[tenantID]; found {
			return org, nil
		}
	}
	return "", waypost.Errorf(waypost.CodeNotFound, "tenant_id", "there is no tenant %s", clip(tenantID))
}

// CheckTenants is a Conflict if one of the tenants belongs to another organisation
// than org, with a detail for each such one: target "tenantIds[1]" is the second of
// them. A tenant without an organisation passes.
func (s *articles) CheckTenants(ctx context.Context, org string, tenantIDs []string) error {
	known := slices.DeleteFunc(slices.Clone(tenantIDs), func(id string) bool { return !waypost.IsArticleKey(id) })
	owners, err := tenantOwners(ctx, s.r, known)
	if err != nil {
		return fmt.Errorf("look for tenants: %w", err)
	}
	var foreign waypost.Problems
	for i, id := range tenantIDs {
		if owner, found := owners[id]; found && owner != org {
			foreign.Add(waypost.DetailDuplicate, fmt.Sprintf("tenantIds[%d]", i), "belongs to another organisation")
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	return &waypost.Error{
		Code: waypost.CodeConflict, Message: foreign[0].Target + ": " + foreign[0].Message, Target: "tenantIds", Details: foreign,
	}
}

// tenantOwners returns the organisations of those tenants that have one.
func tenantOwners(ctx context.Context, db bun.IDB, ids []string) (map[string]string, error) {
	owners := map[string]string{}
	if len(ids) == 0 {
		return owners, nil
	}
	var rows []tenantRow
	if err := db.NewSelect().Model(&rows).Where("tenant_id IN (?)", bun.List(ids)).Scan(ctx); err != nil {
		return nil, err
	}
	for _, r := range rows {
		owners[r.TenantID] = r.Org
	}
	return owners, nil
}

var insertTenants = bulk{
	table:   "article_tenants",
	columns: []string{"tenant_id text", "org text"},
	suffix:  "ON CONFLICT (tenant_id) DO NOTHING",
	unique:  1,
}

// claimTenants gives org the tenants that are nobody's, and returns whose all of them
// are then.
func (s *articles) claimTenants(ctx context.Context, tx bun.Tx, org string, ids []string) (map[string]string, error) {
	owners, err := tenantOwners(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	free := slices.DeleteFunc(distinct(ids), func(id string) bool { return owners[id] != "" })
	err = insertTenants.apply(ctx, s.db, tx, len(free), func(i int) []any { return []any{free[i], org} }, func(i int) { owners[free[i]] = org })
	if err != nil {
		return nil, err
	}
	// Others got the rest at the same time, and have committed.
	rest := slices.DeleteFunc(free, func(id string) bool { return owners[id] != "" })
	others, err := tenantOwners(ctx, tx, rest)
	maps.Copy(owners, others)
	return owners, err
}
