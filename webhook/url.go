package webhook

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"waypost"
)

// MaxURL is the longest URL of a webhook, in bytes.
const MaxURL = 2048

// CheckURL reports what makes raw a URL that can never be allowed: a scheme other
// than http and https, a user name, a fragment, a port that is not one of Ports, a
// host that is missing or malformed, or that is an inner address in any writing
// and not in AllowCIDRs. What a name resolves to is checked when it is dialled.
// The error is a BadRequest with target "url"; it does not repeat the URL.
func (o Options) CheckURL(raw string) error {
	problem := "is not a valid URL"
	if u, err := url.Parse(raw); err == nil {
		problem = o.checkURL(raw, u)
	}
	if problem == "" {
		return nil
	}
	code := waypost.DetailInvalidFormat
	switch {
	case raw == "":
		code, problem = waypost.DetailNullValue, "is missing"
	case len(raw) > MaxURL:
		code = waypost.DetailTooLong
	}
	var p waypost.Problems
	p.Add(code, "url", "%s", problem)
	return p.Err("url")
}

// checkURL returns what is wrong with u, which was parsed from raw, in words that
// follow "the URL".
func (o *Options) checkURL(raw string, u *url.URL) string {
	switch {
	case len(raw) > MaxURL:
		return "is longer than 2048 bytes"
	case !utf8.ValidString(raw) || strings.TrimSpace(raw) != raw:
		return "has blanks around it or is not UTF-8"
	case u.Scheme != "http" && u.Scheme != "https":
		return "must begin with https:// or http://"
	case u.User != nil:
		return "must not hold a user name or password; set basicAuth instead"
	case strings.Contains(raw, "#"):
		return "must not have a fragment"
	case u.Hostname() == "":
		return "has no host"
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "has a port that is not 1 to 65535"
	}
	if problem := o.refusePort(int(n)); problem != "" {
		return "is refused: " + problem
	}
	return o.checkHost(u.Hostname(), strings.HasPrefix(u.Host, "["))
}

func (o *Options) checkHost(host string, bracketed bool) string {
	if addr, err := netip.ParseAddr(host); err == nil {
		switch {
		case addr.Zone() != "":
			return "must not have an IPv6 zone"
		case bracketed != addr.Is6():
			return "has a malformed address as its host"
		}
		if what := o.refuseAddr(addr); what != "" {
			return "has an address as its host that is refused: " + what
		}
		return ""
	}
	name := strings.TrimSuffix(host, ".")
	if bracketed || len(name) > 253 || strings.ContainsFunc(name, notInName) {
		return "has a malformed host"
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 {
			return "has a malformed host"
		}
	}
	// No name ends in a number, but some resolvers read 127.1, 0x7f.1, 0177.0.0.1
	// and 2130706433 as addresses.
	if isNumber(labels[len(labels)-1]) {
		return "must write an IPv4 address as four decimal numbers"
	}
	return ""
}

// notInName tells whether r cannot stand in a host name. Of other scripts only
// letters and marks can: the rest, and full-width forms, may be mapped to ASCII
// digits and dots on the way to the resolver.
func notInName(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_', r == '.':
		return false
	case r < utf8.RuneSelf, 0xFF00 <= r && r <= 0xFFEF:
		return true
	}
	return !unicode.IsLetter(r) && !unicode.IsMark(r)
}

// isNumber tells whether a resolver might read label as a number.
func isNumber(label string) bool {
	rest, hex := strings.CutPrefix(strings.ToLower(label), "0x")
	for _, c := range []byte(rest) {
		if (c < '0' || c > '9') && !(hex && 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}
