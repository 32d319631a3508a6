package webhook

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"time"

	"waypost"
)

// request makes the request (docs/contract.md, "Push request").
// Content-Length and Host are written by net/http. The fault is of a webhook that
// cannot be called at all.
func (s *Sender) request(ctx context.Context, w *waypost.Webhook, messageID string, body []byte, at time.Time) (*http.Request, *fault) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.SentURL(), bytes.NewReader(body))
	if err != nil {
		return nil, &fault{waypost.ClassAddress, "the webhook's URL is not valid"}
	}
	// The URL was checked when it was set, but the installation's ports and
	// addresses may have changed since.
	if problem := cmp.Or(checkCharacters(w.URL), s.options.checkURL(w.URL, req.URL)); problem != "" {
		return nil, &fault{waypost.ClassAddress, "the webhook's URL " + problem}
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"},
		"User-Agent":   {"Waypost/" + waypost.ProductVersion},
		"Connection":   {"keep-alive"}, // implied by HTTP/1.1, but documented
	}
	if w.BasicAuth != nil {
		req.SetBasicAuth(w.BasicAuth.Username, w.BasicAuth.Password)
	}
	if secrets := w.SigningSecrets(at); len(secrets) > 0 {
		if err := sign(req.Header, secrets, messageID, at, body); err != nil {
			return nil, &fault{waypost.ClassRender, err.Error()}
		}
	}
	return req, nil
}
