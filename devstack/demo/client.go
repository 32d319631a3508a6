// Package demo shows what Waypost does, as a client would: through the signed
// HTTP interface.
package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"waypost"
	"waypost/signature"
)

// Client makes signed calls.
type Client struct {
	URL  string // the gateway's, without a slash at its end
	Key  signature.Key
	HTTP *http.Client
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 4 << 20

// Do makes one call. body, if not nil, is sent as JSON; a good answer is read
// into answer, if not nil. An error answer is a *waypost.Error.
func (c *Client) Do(ctx context.Context, method, path string, body, answer any) error {
	var payload []byte
	if body != nil {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(payload))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	signature.SignHTTP(req, c.Key, payload, time.Now(), signature.NewNonce())
	res, err := c.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %w", method, path, refused(res.StatusCode, b))
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(b, answer); err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	return nil
}

func refused(status int, body []byte) error {
	var e struct {
		Code    waypost.ErrorCode `json:"code"`
		Message string            `json:"message"`
		Target  string            `json:"target"`
		Detail  []waypost.Detail  `json:"detail"`
	}
	if err := json.Unmarshal(body, &e); err != nil || e.Code == "" {
		return fmt.Errorf("HTTP %d", status)
	}
	return &waypost.Error{Code: e.Code, Message: e.Message, Target: e.Target, Details: e.Detail}
}
