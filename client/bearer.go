package client

import (
	"net/http"
	"time"

	"waypost/signature"
)

// WithBearer is the client with a search token in place of its key, for article
// search (docs/articles.md): its Send and Do sign nothing.
func (c *Client) WithBearer(token string) *Client {
	search := *c
	search.Key, search.Bearer = signature.Key{}, token
	return &search
}

// authorize adds to a request what says who sends it.
func (c *Client) authorize(req *http.Request, body []byte) {
	if c.Bearer != "" {
		req.Header.Set("Authorization", "Bearer "+c.Bearer)
		return
	}
	signature.SignHTTP(req, c.Key, body, time.Now(), signature.NewNonce())
}
