package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Do makes one call, as Send does. body, if not nil, is sent as JSON; a success
// is read into answer, if not nil. What the gateway refuses is a *waypost.Error.
func (c *Client) Do(ctx context.Context, method, target string, body, answer any) error {
	path, _, _ := strings.Cut(target, "?")
	var payload []byte
	header := http.Header{}
	if body != nil {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		header.Set("Content-Type", "application/json")
	}
	res, err := c.Send(ctx, method, target, header, payload)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch {
	case err != nil:
	case res.StatusCode >= http.StatusMultipleChoices:
		err = Fault(res.StatusCode, text)
	case answer != nil && res.StatusCode != http.StatusNoContent:
		err = json.Unmarshal(text, answer)
	}
	if err != nil {
		return fmt.Errorf("answer of %s %s: %w", method, path, err)
	}
	return nil
}
