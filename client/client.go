// Package client calls a Waypost gateway with signed requests (docs/signing.md).
package client

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"strings"

	"waypost/signature"
)

// Client makes signed calls, several at once if need be. Its fields are set
// before the first one.
type Client struct {
	URL    string        // the gateway's, without a slash at its end
	Key    signature.Key // an application's
	Bearer string        // in place of the key: a search token (WithBearer)
	Header http.Header   // of every request, such as X-Cloud-Stage; may be nil
	HTTP   *http.Client  // follows no redirects: each would need a signature of its own
}

// maxAnswer bounds what Do reads of an answer, in bytes.
const maxAnswer = 64 << 20

// New returns a client whose calls take as long as their contexts let them.
func New(url string, key signature.Key) *Client {
	return &Client{URL: strings.TrimRight(url, "/"), Key: key, HTTP: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Send makes one call of a target, a path with its query if it has one, and
// returns the answer whatever its status; the caller reads and closes its body.
// It is for streams and for headers of requests and answers, beside Do. header
// may be nil; it wins over the client's. An error does not name the target,
// whose query may hold personal data.
func (c *Client) Send(ctx context.Context, method, target string, header http.Header, body []byte) (*http.Response, error) {
	res, err := c.sendOnce(ctx, method, target, header, body)
	if err == nil && c.Bearer == "" && awaitNewSignature(ctx, res, method, header) {
		return c.sendOnce(ctx, method, target, header, body)
	}
	return res, err
}

func (c *Client) sendOnce(ctx context.Context, method, target string, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+target, bytes.NewReader(body))
	if err != nil {
		return nil, cause(err)
	}
	maps.Copy(req.Header, c.Header)
	maps.Copy(req.Header, header)
	c.authorize(req, body)
	res, err := c.HTTP.Do(req)
	return res, cause(err)
}
