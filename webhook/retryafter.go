package webhook

import (
	"net/http"
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
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		return seconds(value)
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

// seconds reads digits, however many, and stops where the cap is reached.
func seconds(digits string) time.Duration {
	var d time.Duration
	for _, c := range []byte(digits) {
		d = 10*d + time.Duration(c-'0')*time.Second
		if d >= waypost.MaxRetryAfter {
			return waypost.MaxRetryAfter
		}
	}
	return d
}
