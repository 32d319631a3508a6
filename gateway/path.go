package gateway

import (
	"context"
	"path"
	"slices"
	"strings"

	"waypost"
)

// badEscapes are percent-encoded bytes that other programs might decode before
// they compare paths: dot, slash, backslash and NUL.
var badEscapes = []string{"%2e", "%2f", "%5c", "%00"}

// wellFormed tells whether a raw path can mean only one thing to everybody.
func wellFormed(raw string) bool {
	if !strings.HasPrefix(raw, "/") || strings.Contains(raw, "//") || strings.ContainsAny(raw, "\\#") {
		return false
	}
	lower, segments := strings.ToLower(raw), strings.Split(raw, "/")
	isIn := func(escape string) bool { return strings.Contains(lower, escape) }
	return !slices.ContainsFunc(badEscapes, isIn) && !slices.Contains(segments, ".") && !slices.Contains(segments, "..")
}

// checkPath refuses a path that matches a route but is malformed, or that Fiber
// routed by other bytes than the ones that are signed.
func (a *server) checkPath(_ context.Context, r *request) error {
	if !wellFormed(r.path) || string(r.c.Request().URI().PathOriginal()) != r.path {
		return badPath()
	}
	return nil
}

func badPath() *waypost.Error {
	return waypost.Errorf(waypost.CodeBadRequest, "path", "the path must not contain //, dot segments, or an encoded dot, slash, backslash or NUL")
}

// noRoute is the answer to a path that no route has: 404, or 400 if only its
// malformed bytes keep it from meaning one.
func noRoute(raw string) *waypost.Error {
	if !wellFormed(raw) {
		plain := normalised(raw)
		if slices.ContainsFunc(routes, func(rt route) bool { return matches(rt.path, plain) }) {
			return badPath()
		}
	}
	return waypost.Errorf(waypost.CodeNotFound, "path", "there is no such path")
}

// lenient decodes badEscapes, and reads a backslash as a slash.
var lenient = strings.NewReplacer(
	"%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", "/", "%5C", "/", "%00", "", `\`, "/",
)

// normalised is what a lenient server would read in a raw path.
func normalised(raw string) string {
	if _, rest, absolute := strings.Cut(raw, "://"); absolute {
		_, raw, _ = strings.Cut(rest, "/")
	}
	raw, _, _ = strings.Cut(raw, "#")
	return path.Clean("/" + lenient.Replace(raw))
}

func matches(pattern, plain string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(plain, "/")
	if len(want) != len(got) {
		return false
	}
	for i, w := range want {
		if !strings.HasPrefix(w, ":") && w != got[i] || got[i] == "" && i > 0 {
			return false
		}
	}
	return true
}
