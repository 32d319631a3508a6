package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/uptrace/bun"

	"waypost"
)

// articleLine is a line of an import that was checked as far as that needs no
// article: a row to store, or what is wrong with it.
type articleLine struct {
	line  int
	fault *waypost.Error
	row   articleRow
}

// ImportArticles stores articles as PutArticle does, some hundred in a transaction;
// of those of one id the later line wins. A line with an error, a faulty article, and
// one of another organisation's tenant fail by themselves. An error of rows ends it
// and is returned; what was stored before stays, so that the same import can be sent
// again. The index gets them after the articles that were put alone.
func (s *articles) ImportArticles(
	ctx context.Context, by waypost.Caller, rows iter.Seq2[waypost.ArticleRow, error],
) (done waypost.ArticleImport, err error) {
	defer wrap(&err, "import articles")
	sc, author := by.Within()
	entry, err := s.audit.newAudit(author, "article.import", "articles", nil, nil)
	if err != nil {
		return done, err
	}
	err = inBatches(ctx, rows, func(row waypost.ArticleRow) (articleLine, int, error) {
		line, err := newArticleLine(sc, row)
		return line, line.row.Size, err
	}, func(batch []articleLine, last bool) (err error) {
		done, err = s.importArticles(ctx, sc, entry, batch, done, last)
		return err
	})
	return done, err
}

func newArticleLine(sc waypost.Scope, row waypost.ArticleRow) (line articleLine, err error) {
	line = articleLine{line: row.Line, fault: row.Err}
	if line.fault != nil {
		return line, nil
	}
	if err = row.Article.Validate(); err == nil {
		line.row, err = newArticleRow(sc, row.Article)
	} else if errors.As(err, &line.fault) {
		err = nil
	}
	return line, err
}

// importArticles stores a batch and returns the result so far, of which done is that
// before it. The last batch keeps the answer.
func (s *articles) importArticles(
	ctx context.Context, sc waypost.Scope, entry *auditRow, batch []articleLine, done waypost.ArticleImport, last bool,
) (result waypost.ArticleImport, err error) {
	err = retryWhile(errRaced, func() error {
		return s.writeRows(ctx, len(batch), func(ctx context.Context, tx bun.Tx) error {
			result = done
			result.Errors = slices.Clip(done.Errors) // another try appends again
			if err := s.importBatch(ctx, tx, sc, batch, &result); err != nil {
				return err
			}
			if stored := result.Created + result.Updated; stored > 0 {
				after := fields{"created": result.Created, "updated": result.Updated, "failed": result.Failed}
				if err := entry.update(ctx, tx, after); err != nil {
					return err
				}
			}
			if !last {
				return nil
			}
			return s.idempotency.keepResult(ctx, tx, result)
		})
	})
	return result, err
}

// importBatch stores the articles of a batch that have no fault, and adds what became of each line to
// result. Of two lines with one id the later one counts. errRaced as of writeArticles.
func (s *articles) importBatch(ctx context.Context, tx bun.Tx, sc waypost.Scope, batch []articleLine, result *waypost.ArticleImport) error {
	var ids, tenants []string
	for i := range batch {
		if l := &batch[i]; l.fault == nil {
			ids, tenants = append(ids, l.row.ID), append(tenants, l.row.TenantID)
		}
	}
	present, err := s.lockArticles(ctx, tx, sc, ids)
	if err != nil {
		return fmt.Errorf("lock articles: %w", err)
	}
	owners, err := s.claimTenants(ctx, tx, sc.Org, tenants)
	if err != nil {
		return fmt.Errorf("claim tenants: %w", err)
	}
	now := s.time()
	written := map[string]*articleRow{} // by id
	var added, locked []*articleRow
	for i := range batch {
		l := &batch[i]
		result.Total++
		fault := l.fault
		if fault == nil && owners[l.row.TenantID] != sc.Org {
			fault = foreignTenant(l.row.TenantID)
		}
		if fault != nil {
			result.Failed++
			result.Errors = withFault(result.Errors, l.line, fault)
			continue
		}
		row := l.row
		earlier := written[row.ID]
		current := cmp.Or(earlier, present[row.ID])
		row.replace(current, now)
		if current == nil {
			result.Created++
		} else {
			result.Updated++
		}
		switch {
		case earlier != nil:
			*earlier = row
			continue
		case current == nil:
			added = append(added, &row)
		default:
			locked = append(locked, &row)
		}
		written[row.ID] = &row
	}
	if err := s.writeArticles(ctx, tx, added, locked, true); err != nil {
		return fmt.Errorf("write articles: %w", err)
	}
	return nil
}

var lockArticlesQuery = dialects{
	postgres: "SELECT number, id, revision, published_at FROM articles WHERE org = $1 AND stage = $2 AND id = ANY ($3) ORDER BY id FOR NO KEY UPDATE",
	sqlite: "SELECT a.number, a.id, a.revision, a.published_at FROM json_each(?3) AS k CROSS JOIN articles AS a " +
		"WHERE a.org = ?1 AND a.stage = ?2 AND a.id = k.value",
}

// lockArticles locks those articles that are there, in the order of their ids, and
// returns what of them an article that replaces one keeps.
func (s *articles) lockArticles(ctx context.Context, tx bun.Tx, sc waypost.Scope, ids []string) (map[string]*articleRow, error) {
	present := map[string]*articleRow{}
	if len(ids) == 0 {
		return present, nil
	}
	list, err := s.list(ids)
	if err != nil {
		return nil, err
	}
	if err := s.withoutPlan(ctx, tx, "seqscan"); err != nil {
		return nil, err
	}
	rows, err := s.query(ctx, &tx, s.in(lockArticlesQuery), sc.Org, string(sc.Stage), list)
	if err != nil {
		return nil, err
	}
	return present, scanAll(rows, func(rows *sql.Rows) error {
		var r articleRow
		err := rows.Scan(&r.Number, &r.ID, &r.Revision, &r.PublishedAt)
		present[r.ID] = &r
		return err
	})
}
