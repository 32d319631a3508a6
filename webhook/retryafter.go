package webhook

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"waypost"
)

// retryAfter reads the Retry-After of a failure: seconds or an HTTP date, which
// is taken relative to the answer's own Date if it has one, because the
// receiver's clock need not be ours. It is 0 to waypost.MaxRetryAfter; 0 too for
// one that cannot be read.
func retryAfter(h http.Header, now func() time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil || errors.Is(err, strconv.ErrRange) {
		return min(time.Duration(seconds)*time.Second, waypost.MaxRetryAfter)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	from, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		from = now()
	}
	return min(max(at.Sub(from), 0), waypost.MaxRetryAfter)
}
