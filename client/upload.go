package client

import (
	"context"
	"io"
	"maps"
	"net/http"
	"time"

	"waypost/signature"
)

// File is a body that is read while it is sent.
type File struct {
	io.Reader        // is read once, at most to its end
	Size      int64  // in bytes
	Hash      string // lower-case hex SHA-256
}

// Upload is Send for a body that is read while it is sent, such as a large file. If it
// yields something else than what was hashed, the gateway refuses it.
func (c *Client) Upload(ctx context.Context, method, target string, header http.Header, body File) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+target, io.NopCloser(body))
	if err != nil {
		return nil, cause(err)
	}
	req.ContentLength = body.Size
	maps.Copy(req.Header, c.Header)
	maps.Copy(req.Header, header)
	signature.SignHTTPHash(req, c.Key, body.Hash, time.Now(), signature.NewNonce())
	res, err := c.HTTP.Do(req)
	return res, cause(err)
}
