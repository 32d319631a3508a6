package webhook

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"waypost"
)

// MaxURL is the longest URL of a webhook, in bytes.
const MaxURL = 2048

// CheckURL reports what makes raw a URL that can never be allowed: a scheme other
// than http and https, a user name, a fragment, a character that is not sent
// encoded either, a port that is not one of Ports, a host that is missing or
// malformed, or that is an inner address in any writing and not in AllowCIDRs. What a
// name resolves to is checked when it is dialled. The error is a BadRequest with
// target "url"; it does not repeat the URL.
func (o Options) CheckURL(raw string) error {
	problem := checkCharacters(raw)
	if problem == "" {
		problem = "is not a valid URL"
		w := waypost.Webhook{URL: raw}
		if u, err := url.Parse(w.SentURL()); err == nil {
			problem = o.checkURL(raw, u)
		}
	}
	if problem == "" {
		return nil
	}
	code := waypost.DetailInvalidFormat
	switch {
	case raw == "":
		code, problem = waypost.DetailNullValue, "is missing"
	case problem == tooLong:
		code = waypost.DetailTooLong
	}
	var p waypost.Problems
	p.Add(code, "url", "%s", problem)
	return p.Err("url")
}

const tooLong = "is longer than 2048 bytes as it is sent"

// checkCharacters returns which character of raw cannot stand where it does, in words
// that follow "the URL", and what to write instead. Places count from 1.
func checkCharacters(raw string) string {
	if !utf8.ValidString(raw) {
		return "is not UTF-8"
	}
	characters := []rune(raw)
	begin := 0
	if i := strings.Index(raw, "://"); i >= 0 {
		begin = utf8.RuneCountInString(raw[:i]) + 3
	}
	end := len(characters) // of the host
	if i := slices.IndexFunc(characters[begin:], func(r rune) bool { return strings.ContainsRune("/?#", r) }); i >= 0 {
		end = begin + i
	}
	for i, r := range characters {
		at := fmt.Sprintf("%s at character %d", nameOf(r), i+1)
		rest := string(characters[i:min(i+3, len(characters))])
		switch {
		case unicode.IsSpace(r) && (i == 0 || i == len(characters)-1):
			return "must not begin or end with " + at
		case strings.HasPrefix(rest, "{{") || strings.HasPrefix(rest, "{%"):
			return fmt.Sprintf("must not hold a template (%q at character %d): it is the same for all; what differs stands in params", rest[:2], i+1)
		case i < end && (r == ' ' || r == '%' || strings.ContainsRune("\"<>\\^`{|}", r) || strange(r) || r >= utf8.RuneSelf && notInName(r)):
			return "must not have " + at + ": no scheme or host has it"
		case r == '#':
			return "must not have a fragment (" + at + "): it is not sent; write %23 for the character itself"
		case r == '%' && !isEscape(rest):
			return "must not have " + at + " without two hexadecimal digits behind it: write %25 for the character itself"
		case strings.ContainsRune("\\{}", r) || strange(r):
			return fmt.Sprintf("must not have %s: write %s", at, strings.ToUpper(url.QueryEscape(string(r))))
		}
	}
	return ""
}

// strange tells whether r is sent in no form: control characters, blanks other than the
// usual one, and what cannot be seen.
func strange(r rune) bool { return r != ' ' && (unicode.IsSpace(r) || !unicode.IsGraphic(r)) }

// nameOf names a character, also one that cannot be seen.
func nameOf(r rune) string {
	switch {
	case r == ' ':
		return "a blank"
	case r == '\t':
		return "a tab"
	case r == '\n' || r == '\r':
		return "a line break"
	case strange(r):
		return fmt.Sprintf("the invisible character U+%04X", r)
	}
	return string(r)
}

// isEscape tells whether s is a percent sign with two hexadecimal digits.
func isEscape(s string) bool {
	_, err := strconv.ParseUint(strings.TrimPrefix(s, "%"), 16, 8)
	return len(s) == 3 && err == nil
}

// checkURL returns what is wrong with u, which was parsed from what is sent for raw, in
// words that follow "the URL".
func (o *Options) checkURL(raw string, u *url.URL) string {
	w := waypost.Webhook{URL: raw}
	switch {
	case len(raw) > MaxURL || len(w.SentURL()) > MaxURL:
		return tooLong
	case u.Scheme != "http" && u.Scheme != "https":
		return "must begin with https:// or http://"
	case u.User != nil:
		return "must not hold a user name or password; set basicAuth instead"
	case u.Hostname() == "":
		return "has no host"
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || port[0] == '0' {
		return "has a port that is not 1 to 65535"
	}
	if problem := o.refusePort(int(n)); problem != "" {
		return "is refused: " + problem
	}
	return o.checkHost(u.Hostname(), strings.HasPrefix(u.Host, "["))
}

// checkHost says why a host is refused, and "" if it is not. A name is looked up only when a message
// is sent, and its addresses are checked then.
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
	if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return "has a host that is no valid international domain name"
	}
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

// notInName tells whether r cannot stand in a host name as it is written. Of other
// scripts only letters and marks can: the rest, and full-width forms, may be mapped to
// ASCII digits and dots.
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
	digits := "0123456789"
	if hex {
		digits += "abcdef"
	}
	return strings.Trim(rest, digits) == ""
}
