package console

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"waypost"
)

// article is an article as it is answered.
type article struct {
	ID          string            `json:"id"`
	TenantID    string            `json:"tenant_id"`
	Name        string            `json:"name"`
	Identifier  string            `json:"identifier"`
	Content     string            `json:"content"`
	AccessLevel int               `json:"access_level"`
	Published   bool              `json:"published"`
	FrontendURL string            `json:"frontend_url"`
	Channels    []waypost.Channel `json:"channels"`
	PublishedAt time.Time         `json:"published_at"`
}

// articleHits is one page of what a search has found.
type articleHits struct {
	Meta struct {
		TotalPages int `json:"total_pages"`
		TotalCount int `json:"total_count"`
	} `json:"meta"`
	Items []struct {
		ID              string            `json:"id"`
		FrontendURL     string            `json:"frontend_url"`
		Slug            string            `json:"slug"`
		NameHighlight   string            `json:"name_highlight"`
		SearchHighlight string            `json:"search_highlight"`
		AccessLevel     int               `json:"access_level"`
		Channels        []waypost.Channel `json:"channels"`
	} `json:"items"`
}

// reindexing is a rebuild of the search index.
type reindexing struct {
	Status    string    `json:"status"`
	Message   string    `json:"message"`
	Total     int       `json:"total"`
	Processed int       `json:"processed"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
}

// Ended tells whether nothing more will happen to it.
func (r reindexing) Ended() bool { return r.Status == "succeeded" || r.Status == "failed" }

// searchTime is how long a token for one search is good for, in seconds; the shortest.
const searchTime = 60

// searchArticles searches a tenant's articles, with a token of its own.
func (g gateway) searchArticles(ctx context.Context, query url.Values) (articleHits, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var token struct {
		AccessToken string `json:"access_token"`
	}
	err := g.do(ctx, waypost.GrantTokensIssue, http.MethodPost, "/v1/tokens", map[string]any{
		"tenantIds": query["tenant_id"], "from": query["from"], "expiresIn": searchTime,
	}, &token)
	if err != nil {
		return articleHits{}, err
	}
	searching := g
	searching.client = g.client.WithBearer(token.AccessToken)
	answer, err := get[struct {
		Message articleHits `json:"message"`
	}](ctx, searching, waypost.GrantTokensIssue, "/api/v1/articles/search", query)
	return answer.Message, err
}

func articlePath(id string) string { return "/v1/articles/" + url.PathEscape(id) }

func (g gateway) article(ctx context.Context, id string) (a article, etag string, err error) {
	return tagged[article](ctx, g, waypost.GrantArticlesWrite, articlePath(id))
}

func (g gateway) putArticle(ctx context.Context, id string, body any) error {
	return g.do(ctx, waypost.GrantArticlesWrite, http.MethodPut, articlePath(id), body, nil)
}

func (g gateway) deleteArticle(ctx context.Context, id string) error {
	return g.do(ctx, waypost.GrantArticlesWrite, http.MethodDelete, articlePath(id), nil, nil)
}

// reindexing is the last reindex, nil if there was none.
func (g gateway) reindexing(ctx context.Context) (*reindexing, error) {
	last, err := get[reindexing](ctx, g, waypost.GrantArticlesWrite, "/v1/articles/reindex", nil)
	if waypost.CodeOf(err) == waypost.CodeNotFound {
		return nil, nil
	}
	return &last, err
}

func (g gateway) reindex(ctx context.Context) error {
	return g.do(ctx, waypost.GrantArticlesWrite, http.MethodPost, "/v1/articles/reindex", nil, nil)
}
