package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The checks of one value each. What they return is printed, so those of secrets
// do not repeat the value.

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

func checkHTTPURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return errors.New("must be an http or https URL")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("must have no user name, query or fragment")
	}
	return nil
}

// checkProxy does not repeat what may hold a password.
func checkProxy(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.Port() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("must be http://HOST:PORT or http://USER:PASSWORD@HOST:PORT (its value is not shown, it may hold a password)")
	}
	return nil
}

// checkIssuer also refuses plain HTTP: whoever answers in the issuer's place could sign
// tokens of his own. Loopback is for trying things out.
func checkIssuer(s string) error {
	if err := checkHTTPURL(s); err != nil {
		return err
	}
	u, err := url.Parse(s)
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
	if err := checkHTTPURL(s); err != nil {
		return err
	}
	if u, err := url.Parse(s); err != nil || strings.Trim(u.Path, "/") != "" {
		return errors.New("must have no path")
	}
	return nil
}

func checkDatabaseURL(s string) error {
	if path, ok := strings.CutPrefix(s, "sqlite:"); ok {
		if path == "" {
			return errors.New("names no file; write sqlite:PATH")
		}
		return nil
	}
	return checkPostgresURL(s)
}

func checkPostgresURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return errors.New("is none of the URLs that can be used here (its value is not shown, it may hold a password)")
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

func checkPrefixes(s string) error { _, err := parsePrefixes(s); return err }

func checkHTTPURLs(s string) error { _, err := parseURLs(s); return err }

func checkList(s string) error { _, err := parseList(s); return err }

func checkOrigins(s string) error { _, err := parseOrigins(s); return err }

func checkClaim(s string) error { _, err := parseClaim(s); return err }

func checkPorts(s string) error { _, err := parsePorts(s); return err }

func parseLevel(s string) (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s)); err != nil {
		return 0, fmt.Errorf("%q is none of debug, info, warn, error", s)
	}
	return level, nil
}

func checkLevel(s string) error { _, err := parseLevel(s); return err }

// minAge leaves workflows the time to hear of what is recorded, after workers were away.
const minAge = 24 * time.Hour

func parseAge(s string) (Age, error) {
	if s == "off" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	// As durations elsewhere, ages can be written in ISO 8601: of that, days.
	if days, iso := strings.CutPrefix(s, "P"); iso {
		var n uint64
		if n, err = strconv.ParseUint(strings.TrimSuffix(days, "D"), 10, 16); !strings.HasSuffix(days, "D") {
			err = strconv.ErrSyntax
		}
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil {
		return 0, fmt.Errorf("%q is no time in hours or days; or write off, to keep it for ever", s)
	}
	if d < minAge {
		return 0, fmt.Errorf("%q is less than 24h; write off to keep it for ever", s)
	}
	return Age(d), nil
}

func checkAge(s string) error { _, err := parseAge(s); return err }

// maxAddressRate is what limits can count of one address, per second.
const maxAddressRate = 100_000

func checkRate(s string) error {
	if n, err := strconv.Atoi(s); err != nil || n < 1 || n > maxAddressRate {
		return fmt.Errorf("%q is no rate of 1 to %d a second", s, maxAddressRate)
	}
	return nil
}

func checkRegion(s string) error {
	if len(s) != 2 || strings.ContainsFunc(s, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		return fmt.Errorf("%q is no region of two upper-case letters", s)
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

func anyValue(string) error { return nil }
