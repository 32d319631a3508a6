package client

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// maxSignWait is how long a call waits, at most, until it is signed anew.
const maxSignWait = 5 * time.Second

// awaitNewSignature tells whether a call is to be signed and sent once more, because the gateway has
// refused it by res: its Redis has forgotten what was signed until now. It then closes res, and returns
// when the time of its Retry-After is over, or ctx ends. Only a call that changes nothing, or that has an
// Idempotency-Key, is sent once more: it counts once, whoever has written the answer.
func awaitNewSignature(ctx context.Context, res *http.Response, method string, header http.Header) bool {
	repeatable := method == http.MethodGet || method == http.MethodHead || header.Get("Idempotency-Key") != ""
	seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
	wait := time.Duration(seconds) * time.Second
	if res.StatusCode != http.StatusUnauthorized || !repeatable || err != nil || wait < 0 || wait > maxSignWait {
		return false
	}
	_ = res.Body.Close()
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
	return true
}
