package gateway

import (
	"context"
	"strings"

	"waypost"
)

// Search answers searches.
type Search interface {
	// Search reads the parameters from the raw query of the URL, and answers what the
	// token permits: BadRequest, Unauthorized (target tenant_id or from),
	// ServiceUnavailable. No error holds the query.
	Search(ctx context.Context, token waypost.SearchToken, rawQuery string) (waypost.SearchResult, error)
}

// envelope is the body of every answer below apiPrefix (docs/contract.md, "Search answer").
type envelope struct {
	Code    int           `json:"code"`
	Status  string        `json:"status"`
	Message searchMessage `json:"message"`
}

type searchMessage struct {
	Meta  searchMeta  `json:"meta"`
	Items []searchHit `json:"items"`
}

type searchMeta struct {
	CurrentPage int `json:"current_page"`
	TotalPages  int `json:"total_pages"`
	TotalCount  int `json:"total_count"`
}

// searchHit is a hit as it is answered.
type searchHit struct {
	ID              string        `json:"id"`
	Name            string        `json:"name"`
	FrontendURL     string        `json:"frontend_url"`
	Slug            string        `json:"slug"`
	Identifier      string        `json:"identifier"`
	NameHighlight   string        `json:"name_highlight"`
	SearchHighlight string        `json:"search_highlight"`
	AccessLevel     int           `json:"access_level"`
	Channels        []channelBody `json:"channels"`
}

func answerSearch(result waypost.SearchResult) envelope {
	hits := described(result.Hits, func(h waypost.SearchHit) searchHit {
		return searchHit{
			h.ID, h.Name, h.FrontendURL, h.Slug, h.Identifier, h.NameHighlight, h.SearchHighlight, h.AccessLevel, channelsOf(h.Channels),
		}
	})
	return envelope{Status: "success", Message: searchMessage{searchMeta{result.Page, result.Pages(), result.Total}, hits}}
}

// searchArticles leaves the query to Search, which knows the parameters' bounds and reports
// all faults at once.
func (a *server) searchArticles(ctx context.Context, r *request) (answer, error) {
	result, err := a.Search.Search(ctx, r.token, r.query)
	if err != nil {
		return answer{}, err
	}
	return ok(answerSearch(result))
}

// apiPrefix is where answers have the envelope.
const apiPrefix = "/api/"

// errorEnvelope is the body of an error below apiPrefix: the envelope's types with the
// codes of all errors (docs/contract.md, "Search answer").
type errorEnvelope struct {
	Code    int               `json:"code"` // the HTTP status
	Status  waypost.ErrorCode `json:"status"`
	Message string            `json:"message"`
	Target  string            `json:"target"`
	Detail  []waypost.Detail  `json:"detail"`
}

// errorAnswer is the answer to the request that failed.
func (r *request) errorAnswer(e *waypost.Error) answer {
	ans := errorAnswer(e)
	if !strings.HasPrefix(r.path, apiPrefix) {
		return ans
	}
	body := errorBodyOf(e)
	ans.body = errorEnvelope{ans.status, body.Code, body.Message, body.Target, body.Detail}
	if e.Code == waypost.CodeUnauthorized {
		ans.headers = map[string]string{headerAuthenticate: r.challenge(e)}
	}
	return ans
}

// challenge says what is wrong with a request's token (RFC 6750, section 3).
func (r *request) challenge(e *waypost.Error) string {
	const realm = schemeBearer + ` realm="waypost"`
	_, given := r.signed().Header(headerAuthorization)
	switch {
	case given == 0:
		return realm
	case e.Target == headerAuthorization:
		return realm + `, error="invalid_token"`
	}
	return realm + `, error="insufficient_scope"`
}
