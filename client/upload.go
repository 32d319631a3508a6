package client

import (
	"context"
	"io"
	"maps"
	"net/http"
	"time"

	"waypost/signature"
)

// Upload is Send for a body that is read while it is sent, such as a large file:
// size is its length in bytes, and hash the lower-case hex SHA-256 of it. The body is
// read once, at most to its end; if it yields something else than what was hashed,
// the gateway refuses it.
func (c *Client) Upload(ctx context.Context, method, target string, header http.Header, body io.Reader, size int64, hash string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+target, io.NopCloser(body))
	if err != nil {
		return nil, cause(err)
	}
	req.ContentLength = size
	maps.Copy(req.Header, c.Header)
	maps.Copy(req.Header, header)
	signature.SignHTTPHash(req, c.Key, hash, time.Now(), signature.NewNonce())
	res, err := c.HTTP.Do(req)
	return res, cause(err)
}
