package gateway

import (
	"context"
	"errors"
	"io"
	"iter"

	"waypost"
)

// articleImportAnswer tells what has become of an import of articles.
type articleImportAnswer struct {
	Total   int           `json:"total"`
	Created int           `json:"created"`
	Updated int           `json:"updated"`
	Failed  int           `json:"failed"`
	Errors  []importError `json:"errors"`
}

func answerArticleImport(im waypost.ArticleImport) articleImportAnswer {
	ans := articleImportAnswer{Total: im.Total, Created: im.Created, Updated: im.Updated, Failed: im.Failed, Errors: make([]importError, len(im.Errors))}
	for i, e := range im.Errors {
		body, _ := errorAnswer(e.Error).body.(errorBody)
		ans.Errors[i] = importError{e.Line, body}
	}
	return ans
}

// importArticles stores the articles before it answers. Unlike an import of leads it
// needs no second request: sending it again changes nothing.
func (a *api) importArticles(ctx context.Context, r *request) (answer, error) {
	// Articles are stored while the file is read: none may be if it is not text as a whole.
	if err := checkText(r.spool, r.charset); err != nil {
		return answer{}, err
	}
	ans, err := effect(ctx, r, func(ctx context.Context) (waypost.ArticleImport, error) {
		return a.Articles.ImportArticles(ctx, r.scope, articleRows(r.spool, r.charset, waypost.MaxImportRows))
	}, func(im waypost.ArticleImport) (answer, error) { return ok(answerArticleImport(im)) })
	a.IndexWaker.Wake() // also after an error: some may be stored
	return ans, err
}

// checkText reads a file to its end, and goes back to its begin.
func checkText(file io.ReadSeeker, charset string) error {
	in, err := textReader(file, charset)
	if err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	if err != nil {
		return err
	}
	_, err = file.Seek(0, io.SeekStart)
	return err
}

// articleRows reads an import of one article a line, with constant memory. A line that
// is no article is a row with an Err; an error means that the file cannot be read, or,
// PayloadTooLarge, that it has more than most lines: short ones that all fail would keep
// the database busy for minutes.
func articleRows(file io.Reader, charset string, most int) iter.Seq2[waypost.ArticleRow, error] {
	return func(yield func(waypost.ArticleRow, error) bool) {
		in, err := textReader(file, charset)
		lines := newLineReader(in, maxArticle)
		for n := 0; err == nil; n++ {
			var line importLine
			if line, err = lines.next(); err != nil {
				break
			}
			if n == most {
				err = waypost.Errorf(waypost.CodePayloadTooLarge, "", "the import has more than %d lines; split it", most)
				break
			}
			var row waypost.ArticleRow
			if row, err = articleRow(line); err == nil && !yield(row, nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(waypost.ArticleRow{}, err)
		}
	}
}

func articleRow(line importLine) (waypost.ArticleRow, error) {
	row := waypost.ArticleRow{Line: line.number, Err: line.fault}
	if line.fault != nil {
		return row, nil
	}
	var err error
	if row.Article, err = readArticle(line.text, ""); errors.As(err, &row.Err) {
		err = nil
	}
	return row, err
}
