package typesense

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/typesense/typesense-go/v3/typesense"

	"waypost"
)

// classify turns a fault of a call into what its caller can act on:
// ServiceUnavailable where Typesense is away, refuses us or has no collection,
// so that the same call may work later; any other error is a fault of ours. What
// Typesense says about a request is left out, because it may hold the request.
// The HTTP client's errors hold the whole URL, so theirs is left out too.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if answer := (*typesense.HTTPError)(nil); errors.As(err, &answer) {
		return statusError(answer.Status)
	}
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return context.Canceled // nobody waits for the answer any more
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return unavailable("Typesense does not answer in time")
	}
	if wrong := (*url.Error)(nil); errors.As(err, &wrong) {
		return unavailable(fmt.Sprintf("Typesense is away: %v", wrong.Err))
	}
	return unavailable(fmt.Sprintf("Typesense's answer cannot be read: %v", err))
}

// statusError classifies an answer that is no success.
func statusError(status int) error {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return unavailable(fmt.Sprintf("Typesense refuses the API key (%d)", status))
	case status == http.StatusNotFound:
		return unavailable("Typesense has no such collection (404)")
	case status < 400, status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= 500:
		return unavailable(fmt.Sprintf("Typesense is not ready (%d)", status))
	}
	return fmt.Errorf("the request is refused by Typesense (%d)", status)
}

// unavailable keeps the cause for logs; clients see what stands behind it.
func unavailable(cause string) error {
	return fmt.Errorf("%s: %w", cause,
		waypost.Errorf(waypost.CodeServiceUnavailable, "", "article search is away; try again in a moment"))
}

// isStatus tells whether err is an answer of this status.
func isStatus(err error, status int) bool {
	var answer *typesense.HTTPError
	return errors.As(err, &answer) && answer.Status == status
}

// message is what Typesense says in an answer, "" if nothing.
func message(err error) string {
	var answer *typesense.HTTPError
	var body struct {
		Message string `json:"message"`
	}
	if !errors.As(err, &answer) || json.Unmarshal(answer.Body, &body) != nil {
		return ""
	}
	return body.Message
}
