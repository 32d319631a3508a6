package waypost

import (
	"fmt"
	"strings"

	"golang.org/x/net/idna"
)

// SentURL is the URL as requests name it: a host in its ASCII form, and what a URL may
// not hold in path and query (blanks, letters of other scripts, some signs) percent-encoded
// as UTF-8. All else stays as it was written.
func (w *Webhook) SentURL() string {
	scheme, rest, ok := strings.Cut(w.URL, "://")
	if !ok {
		return w.URL
	}
	host, target := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		host, target = rest[:i], rest[i:]
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r > '~' }) {
		name, port, _ := strings.Cut(host, ":")
		if ascii, err := idna.Lookup.ToASCII(name); err == nil {
			host = strings.TrimSuffix(ascii+":"+port, ":")
		}
	}
	var sent strings.Builder
	for _, c := range []byte(target) {
		if c <= ' ' || c > '~' || strings.IndexByte("\"<>^`|", c) >= 0 {
			fmt.Fprintf(&sent, "%%%02X", c)
		} else {
			sent.WriteByte(c)
		}
	}
	return scheme + "://" + host + sent.String()
}
