package gateway

import (
	"context"
	"errors"
	"io"
	"iter"

	"waypost"
)

// articleImportAnswer is the result of an import of articles.
type articleImportAnswer struct {
	Total   int           `json:"total"`
	Created int           `json:"created"`
	Updated int           `json:"updated"`
	Failed  int           `json:"failed"`
	Errors  []importError `json:"errors"`
}

func answerArticleImport(im waypost.ArticleImport) articleImportAnswer {
	return articleImportAnswer{im.Total, im.Created, im.Updated, im.Failed, described(im.Errors, answerImportError)}
}

// importArticles stores the articles before it answers. Unlike an import of leads it
// needs no second request: sending it again changes nothing.
func (a *server) importArticles(ctx context.Context, r *request) (answer, error) {
	// Articles are stored while the file is read: none may be if it is not text as a whole.
	if err := checkText(r.spool, r.charset); err != nil {
		return answer{}, err
	}
	ans, err := effect(ctx, r, func(ctx context.Context) (waypost.ArticleImport, error) {
		return a.Articles.ImportArticles(ctx, r.by(), articleRows(r.spool, r.charset, waypost.MaxImportRows))
	}, func(im waypost.ArticleImport) (answer, error) { return ok(answerArticleImport(im)) })
	a.IndexWaker.Wake() // also after an error: some may be stored
	return ans, err
}

// articleRows reads an import of one article a line.
func articleRows(file io.Reader, charset string, most int) iter.Seq2[waypost.ArticleRow, error] {
	return eachLine(file, charset, most, maxArticle, func(line importLine) (row waypost.ArticleRow, err error) {
		row = waypost.ArticleRow{Line: line.number, Err: line.fault}
		if line.fault == nil {
			if row.Article, err = readArticle(line.text, ""); errors.As(err, &row.Err) {
				err = nil
			}
		}
		return row, err
	})
}
