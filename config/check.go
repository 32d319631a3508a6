package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Each check takes one value. Its error is printed, so an error about a secret does not
// repeat the value.

func checkAddr(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is not host:port", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strings.ContainsAny(host, " /") {
		return fmt.Errorf("%q is not host:port with a port from 0 to 65535", s)
	} else if n == 0 && host == "" {
		return fmt.Errorf("%q names neither a host nor a port", s)
	}
	return nil
}

// checkTypesensePrefix keeps to what stands in a URL as it is.
func checkTypesensePrefix(s string) error {
	if len(s) > 64 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		return errors.New("must be 1 to 64 of ASCII letters, digits, '_' and '-'")
	}
	return nil
}

func parseHTTPURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, errors.New("must be an http or https URL")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("must have no user name, query or fragment")
	}
	return u, nil
}

func checkProxy(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.Port() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("must be http://HOST:PORT or http://USER:PASSWORD@HOST:PORT (its value is not shown, it may hold a password)")
	}
	return nil
}

// checkIssuer also refuses plain HTTP, where an attacker on the way could answer with keys
// of his own. Loopback is allowed for tests.
func checkIssuer(s string) error {
	u, err := parseHTTPURL(s)
	if err != nil {
		return err
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme != "https" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return errors.New("must be an https URL")
	}
	return nil
}

// checkGatewayURL also refuses a path: the signature covers the path that the
// gateway receives.
func checkGatewayURL(s string) error {
	u, err := parseHTTPURL(s)
	if err == nil && strings.Trim(u.Path, "/") != "" {
		err = errors.New("must have no path")
	}
	return err
}

func checkDatabaseURL(s string) error {
	if path, ok := strings.CutPrefix(s, "sqlite:"); ok {
		if path == "" {
			return errors.New("names no file; write sqlite:PATH")
		}
		return nil
	}
	if !strings.HasPrefix(s, "postgres://") && !strings.HasPrefix(s, "postgresql://") {
		return errors.New("must be sqlite:PATH or a postgres:// URL (its value is not shown, it may hold a password)")
	}
	return checkPostgresURL(s)
}

func checkPostgresURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return errors.New("must be a postgres:// URL (its value is not shown, it may hold a password)")
	}
	if strings.Trim(u.Path, "/") == "" {
		return errors.New("names no database")
	}
	return nil
}

func checkRedisURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || !slices.Contains([]string{"redis", "rediss", "unix"}, u.Scheme) || (u.Host == "" && u.Path == "") {
		return errors.New("must be a redis://, rediss:// or unix:// URL (its value is not shown, it may hold a password)")
	}
	return nil
}

func checkKeys(s string) error {
	for i, part := range strings.Split(s, ",") {
		id, encoded, ok := strings.Cut(strings.TrimSpace(part), ":")
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || id == "" || err != nil || len(raw) != 32 {
			return fmt.Errorf("key %d is not id:base64 of 32 bytes, as `openssl rand -base64 32` prints them", i+1)
		}
	}
	return nil
}

// parsed is the check of a value that parse reads.
func parsed[T any](parse func(string) (T, error)) func(string) error {
	return func(s string) error {
		_, err := parse(s)
		return err
	}
}

func parsePrefixes(s string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for part := range strings.SplitSeq(s, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%q is no network in CIDR form", strings.TrimSpace(part))
		}
		prefixes = append(prefixes, p.Masked())
	}
	return prefixes, nil
}

// parseURLs reads a list of http and https URLs, without slashes at their ends.
func parseURLs(s string) ([]string, error) {
	var urls []string
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimRight(strings.TrimSpace(part), "/")
		if _, err := parseHTTPURL(part); err != nil {
			return nil, err
		}
		if slices.Contains(urls, part) {
			return nil, fmt.Errorf("%q stands twice", part)
		}
		urls = append(urls, part)
	}
	return urls, nil
}

func parseList(s string) (List, error) {
	var list List
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		switch {
		case part == "":
			return nil, errors.New("has an empty entry")
		case slices.Contains(list, part):
			return nil, fmt.Errorf("%q stands twice", part)
		}
		list = append(list, part)
	}
	return list, nil
}

// parseOrigins reads a list of origins, or * alone. Each is written as browsers do: a
// scheme, a host in lower case, and a port that is not the scheme's own.
func parseOrigins(s string) (Origins, error) {
	list, err := parseList(s)
	if err != nil {
		return nil, err
	}
	for _, origin := range list {
		u, err := url.Parse(origin)
		switch {
		case origin == "*" && len(list) == 1:
		case origin == "*":
			return nil, errors.New("has * beside other origins; write it alone")
		case origin == "null":
			return nil, errors.New("has null, which is the origin of files and of every sandboxed page; name the site")
		case strings.Contains(origin, "*"):
			return nil, fmt.Errorf("%q has a *; list each origin, or write * alone for all", origin)
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil:
			return nil, fmt.Errorf("%q is no origin such as https://www.example.com", origin)
		case strings.ContainsAny(strings.TrimPrefix(strings.ToLower(origin), u.Scheme+"://"), "/?#"):
			return nil, fmt.Errorf("%q is no origin: it must have no path, not even a slash at its end", origin)
		case origin != strings.ToLower(origin) || strings.ContainsFunc(origin, func(r rune) bool { return r > '~' }):
			return nil, fmt.Errorf("%q must be written as browsers do: in lower case, and in punycode (xn--…) where it is not ASCII", origin)
		case u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443" || strings.HasSuffix(u.Host, ":"):
			return nil, fmt.Errorf("%q must be written as browsers do: without the port that its scheme has anyway", origin)
		}
	}
	return Origins(list), nil
}

// parseClaim reads NAME=VALUE. The value may hold a "=", as names of groups in directories
// do.
func parseClaim(s string) (Claim, error) {
	name, value, _ := strings.Cut(s, "=")
	if name == "" || value == "" {
		return Claim{}, fmt.Errorf("%q is not CLAIM=VALUE", s)
	}
	return Claim{name, value}, nil
}

func parsePorts(s string) ([]int, error) {
	var ports []int
	for part := range strings.SplitSeq(s, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(part), 10, 16)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("%q is no port from 1 to 65535", strings.TrimSpace(part))
		}
		ports = append(ports, int(n))
	}
	return ports, nil
}

func parseLevel(s string) (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s)); err != nil {
		return 0, fmt.Errorf("%q is none of debug, info, warn, error", s)
	}
	return level, nil
}

// maxAge is the longest age that P65535D can say.
const maxAge = 65535 * 24 * time.Hour

// minAge leaves workflows enough time to read records after workers were away.
const minAge = 24 * time.Hour

func parseAge(s string) (Age, error) {
	if s == "off" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	// Of ISO 8601, which other durations can be written in, ages have days, or years of 365 days.
	if number, iso := strings.CutPrefix(s, "P"); iso && number != "" {
		unit := map[byte]time.Duration{'D': 24 * time.Hour, 'Y': 365 * 24 * time.Hour}[number[len(number)-1]]
		var n uint64
		if n, err = strconv.ParseUint(number[:len(number)-1], 10, 16); unit == 0 || time.Duration(n) > maxAge/max(unit, 1) {
			err = strconv.ErrSyntax
		}
		d = time.Duration(n) * unit
	}
	if err != nil {
		return 0, fmt.Errorf("%q is no time in hours or days; or write off, to keep it for ever", s)
	}
	if d < minAge {
		return 0, fmt.Errorf("%q is less than 24h; write off to keep it for ever", s)
	}
	return Age(d), nil
}

// maxAddressRate is the largest rate per second that package limits counts.
const maxAddressRate = 100_000

func checkRate(s string) error {
	if n, err := strconv.Atoi(s); err != nil || n < 1 || n > maxAddressRate {
		return fmt.Errorf("%q is no rate of 1 to %d a second", s, maxAddressRate)
	}
	return nil
}

// Bounds of WAYPOST_MAX_CONNECTIONS. Fewer would leave a console next to none.
const (
	minConnections = 16
	maxConnections = 1_000_000
)

func checkConnections(s string) error {
	if n, err := strconv.Atoi(s); err != nil || n < minConnections || n > maxConnections {
		return fmt.Errorf("%q is no number of %d to %d", s, minConnections, maxConnections)
	}
	return nil
}

// maxLeastRate is what every usual line has, in bytes a second.
const maxLeastRate = 1 << 20

func checkLeastRate(s string) error {
	if n, err := strconv.Atoi(s); err != nil || n < 0 || n > maxLeastRate {
		return fmt.Errorf("%q is no rate of 0 to %d bytes a second", s, maxLeastRate)
	}
	return nil
}

func checkRegion(s string) error {
	if len(s) != 2 || strings.ContainsFunc(s, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		return fmt.Errorf("%q is no region of two upper-case letters", s)
	}
	return nil
}

// maxActor is waypost.MaxActor.
const maxActor = 200

// checkActor takes what the gateway takes in X-Cloud-Actor.
func checkActor(s string) error {
	if strings.TrimSpace(s) == "" || !utf8.ValidString(s) || utf8.RuneCountInString(s) > maxActor || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("must be 1 to %d characters, without control characters", maxActor)
	}
	return nil
}

func oneOf(values ...string) func(string) error {
	return func(s string) error {
		if slices.Contains(values, s) {
			return nil
		}
		return fmt.Errorf("%q is none of %s", s, strings.Join(values, ", "))
	}
}

// parseRoleClaims reads a list of CLAIM=VALUE:ROLE.
func parseRoleClaims(s string) (RoleClaims, error) {
	list, err := parseList(s)
	var out RoleClaims
	for _, part := range list {
		i := strings.LastIndex(part, ":")
		if i < 0 {
			return nil, fmt.Errorf("%q is not CLAIM=VALUE:ROLE", part)
		}
		claim, err := parseClaim(part[:i])
		if err != nil {
			return nil, err
		}
		role := part[i+1:]
		if err := oneOf("viewer", "marketer", "admin")(role); err != nil {
			return nil, err
		}
		out = append(out, RoleClaim{claim, role})
	}
	return out, err
}
