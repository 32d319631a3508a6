package gateway

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"slices"
	"time"

	"waypost"
)

// Articles stores articles. What it stores is indexed from there.
type Articles interface {
	// PutArticle creates or replaces an article, unless check refuses, in the same
	// transaction; check gets the article that is there, nil for none. A zero
	// PublishedAt stays what it was, or is now. Conflict: the tenant is another
	// organisation's.
	PutArticle(ctx context.Context, by waypost.Caller, art waypost.Article, check func(current *waypost.Article) error) (stored waypost.Article, created bool, err error)
	Article(ctx context.Context, sc waypost.Scope, id string) (waypost.Article, error)
	// DeleteArticle deletes the article unless check refuses, in the same transaction.
	DeleteArticle(ctx context.Context, by waypost.Caller, id string, check func(waypost.Article) error) error
	// ImportArticles creates or replaces articles, in batches: an error of rows ends it,
	// and what earlier batches stored stays.
	ImportArticles(ctx context.Context, by waypost.Caller, rows iter.Seq2[waypost.ArticleRow, error]) (waypost.ArticleImport, error)
	// CheckTenants is a Conflict if one of the tenants is another organisation's.
	CheckTenants(ctx context.Context, org string, tenantIDs []string) error
}

// Reindexes rebuilds the search index, which has the articles of all organisations.
type Reindexes interface {
	// RequestReindex asks for one; one that has not ended is returned as it is.
	RequestReindex(ctx context.Context, by waypost.Caller) (waypost.Reindex, error)
	// Reindex returns the last one, NotFound if there was none.
	Reindex(ctx context.Context) (waypost.Reindex, error)
}

// articleJSON is an article as clients write it (docs/contract.md, "Articles").
type articleJSON struct {
	ID          string        `json:"id"`
	TenantID    string        `json:"tenant_id"`
	Name        string        `json:"name"`
	Identifier  string        `json:"identifier"`
	Content     string        `json:"content"`
	AccessLevel int           `json:"access_level"`
	Published   *bool         `json:"published"` // true if absent
	FrontendURL string        `json:"frontend_url"`
	Channels    []channelBody `json:"channels"`
	PublishedAt *string       `json:"published_at"`
}

// channelBody is a channel, written and answered.
type channelBody struct {
	ID          string `json:"id"`
	Slug        string `json:"slug"`
	URL         string `json:"url"`
	Name        string `json:"name"`
	AccessLevel int    `json:"access_level"`
}

func channelsOf(channels []waypost.Channel) []channelBody {
	return described(channels, func(c waypost.Channel) channelBody { return channelBody(c) })
}

// answerArticle is an article as it is answered: every member.
func answerArticle(art waypost.Article) articleJSON {
	at := stamp(art.PublishedAt)
	return articleJSON{
		ID: art.ID, TenantID: art.TenantID, Name: art.Name, Identifier: art.Identifier, Content: art.Content,
		AccessLevel: art.AccessLevel, Published: &art.Published, FrontendURL: art.FrontendURL, Channels: channelsOf(art.Channels), PublishedAt: &at,
	}
}

// articlePaths are names below /v1/articles, which no article can have.
var articlePaths = []string{"import", "reindex"}

// readArticle reads and checks an article. pathID, if not "", is its id; the document
// need not repeat it.
func readArticle(document []byte, pathID string) (art waypost.Article, err error) {
	var body articleJSON
	problems, err := decodeArticle(document, &body)
	if err != nil {
		return art, err
	}
	err = checked(problems, func(p *waypost.Problems) {
		art = waypost.Article{
			ID: cmp.Or(pathID, body.ID), TenantID: body.TenantID, Name: body.Name, Identifier: body.Identifier, Content: body.Content,
			AccessLevel: body.AccessLevel, Published: body.Published == nil || *body.Published, FrontendURL: body.FrontendURL,
		}
		if body.ID != "" && body.ID != art.ID {
			p.Add(waypost.DetailInvalidFormat, "id", "must be the one in the path, or be absent")
		}
		if slices.Contains(articlePaths, art.ID) {
			p.Add(waypost.DetailInvalidFormat, "id", "must not be %s, which is a path of its own", art.ID)
		}
		for _, c := range body.Channels {
			art.Channels = append(art.Channels, waypost.Channel(c))
		}
		if body.PublishedAt != nil {
			art.PublishedAt = moment(p, "published_at", body.PublishedAt, "").Truncate(time.Millisecond)
			if art.PublishedAt.IsZero() && !isNamed(*p, "published_at") { // which stands for an absent one
				p.Add(waypost.DetailOutOfRange, "published_at", "must be later than the first millisecond of the year 1")
			}
		}
		p.AddAll(art.Validate())
	})
	return art, err
}

// decodeArticle is DecodeJSON without a tree of the content, which may take a hundred
// times its size. All other members together must not be longer than other bodies.
func decodeArticle(document []byte, body *articleJSON) (waypost.Problems, error) {
	if len(document) <= maxBody {
		return waypost.DecodeJSON(document, body), nil
	}
	problems := notJSON(document)
	if problems != nil {
		return problems, nil
	}
	rest, content := document, ""
	begin, end, found := memberOf(document, "content")
	if found && document[begin] == '"' {
		for _, fault := range waypost.DecodeJSON(document[begin:end], &content) {
			problems.Add(fault.Code, "content", "%s", fault.Message)
		}
		rest = slices.Concat(document[:begin], []byte(`""`), document[end:])
	}
	if len(rest) > maxBody {
		return nil, waypost.Errorf(waypost.CodePayloadTooLarge, "", "the article is larger than %d bytes beside its content", maxBody)
	}
	problems = append(problems, waypost.DecodeJSON(rest, body)...)
	body.Content = content
	return problems, nil
}

// putArticle stores an article under the id of the path, whole, and wakes the indexer. If-Match is
// compared in the same transaction.
func (a *server) putArticle(ctx context.Context, r *request) (answer, error) {
	art, err := readArticle(r.body, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	stored, created, err := a.Articles.PutArticle(ctx, r.by(), art, func(current *waypost.Article) error {
		switch {
		case current != nil:
			return r.checkMatch(answerArticle(*current))
		case r.sent(headerIfMatch):
			return waypost.Errorf(waypost.CodePreconditionFailed, headerIfMatch, "there is no such article, hence no version of it")
		}
		return nil
	})
	if err != nil {
		return answer{}, err
	}
	a.IndexWaker.Wake()
	status, location := http.StatusOK, ""
	if created {
		status, location = http.StatusCreated, "/v1/articles/"+stored.ID
	}
	ans, err := resource(status, location, answerArticle(stored))
	if err == nil && r.minimal() {
		ans.headers[headerPreferenceApplied] = preferMinimal
		if ans.body = map[string]string{"id": stored.ID}; !created {
			ans.status, ans.body = http.StatusNoContent, nil
		}
	}
	return ans, err
}

func (a *server) showArticle(ctx context.Context, r *request) (answer, error) {
	art, err := a.Articles.Article(ctx, r.scope, r.param("id"))
	return resourceWith(art, err, answerArticle)
}

func (a *server) deleteArticle(ctx context.Context, r *request) (answer, error) {
	err := a.Articles.DeleteArticle(ctx, r.by(), r.param("id"), func(current waypost.Article) error { return r.checkMatch(answerArticle(current)) })
	if err != nil {
		return answer{}, err
	}
	a.IndexWaker.Wake()
	return noContent(nil)
}

// reindexAnswer is a reindex as it is answered, in snake_case like the articles.
type reindexAnswer struct {
	Status    waypost.ReindexStatus `json:"status"`
	Message   *string               `json:"message"`
	Total     int                   `json:"total"`
	Processed int                   `json:"processed"`
	CreatedAt string                `json:"created_at"`
	StartedAt *string               `json:"started_at"`
	EndedAt   *string               `json:"ended_at"`
}

func answerReindex(x waypost.Reindex) reindexAnswer {
	return reindexAnswer{
		Status: x.Status, Message: orNull(x.Message), Total: x.Total, Processed: x.Processed,
		CreatedAt: stamp(x.CreatedAt), StartedAt: stampOrNull(x.StartedAt), EndedAt: stampOrNull(x.EndedAt),
	}
}

func (a *server) requestReindex(ctx context.Context, r *request) (answer, error) {
	ans, err := effect(ctx, r, func(ctx context.Context) (waypost.Reindex, error) {
		return a.Reindexes.RequestReindex(ctx, r.by())
	}, func(x waypost.Reindex) (answer, error) {
		return at(http.StatusAccepted, "/v1/articles/reindex", answerReindex(x))
	})
	if err == nil {
		a.IndexWaker.Wake()
	}
	return ans, err
}

func (a *server) showReindex(ctx context.Context, _ *request) (answer, error) {
	x, err := a.Reindexes.Reindex(ctx)
	return resourceWith(x, err, answerReindex)
}
