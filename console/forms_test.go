package console

import (
	"net/http"
	"strings"
	"testing"

	"waypost"
)

// Whatever a POST brings, the answer is no 500: a form of another kind, a part of one, none, or
// one that is too large.
func TestOddForms(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	large := "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n" + strings.Repeat("x", maxBody) + "\r\n--b--\r\n"
	bodies := []struct{ kind, body string }{
		{"", ""}, {"", "a=b"}, {"text/html", "<p>"}, {"text/csv", "name\nAda\n"}, {"application/json", "{"}, {"application/json", "[1]"}, {"application/json", "null"},
		{"application/x-ndjson", "{"}, {"text/csv;charset=UTF-8", "\xff\x00"}, {"multipart/form-data", "a"}, {"multipart/form-data; boundary=b", "--b\r\n"},
		{"multipart/form-data; boundary=b", large}, {"application/x-www-form-urlencoded", "%zz"}, {"application/x-www-form-urlencoded", "a=" + strings.Repeat("x", maxBody)},
		{"application/x-www-form-urlencoded", strings.Repeat("a&", 20_000)}, {"a/b; c", "x"}, {"é", "x"},
	}
	v, _ := s.as(waypost.RoleAdmin)
	for _, rt := range routes {
		if rt.method != http.MethodPost || rt.pattern == "/sign-out" {
			continue
		}
		path := wildcard.ReplaceAllString(rt.pattern, "usr_1")
		for _, b := range bodies {
			got := v.send(http.MethodPost, path, b.body, http.Header{"Content-Type": {b.kind}})
			if got.Status == http.StatusInternalServerError {
				t.Errorf("POST %s with %q, %.20q: HTTP %d", path, b.kind, b.body, got.Status)
			}
		}
	}
}

// A file of another kind than the console offers is 415, before anything is sent.
func TestUploadOfAnotherKind(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v, _ := s.as(waypost.RoleMarketer)
	for _, kind := range []string{"text/html", "text/csv", "text/csv; charset=gbk", "application/octet-stream", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", ""} {
		s.take()
		got := v.send(http.MethodPost, uploadPath+"?mode=create", "--b--\r\n", http.Header{"Content-Type": {kind}})
		if got.Status != http.StatusUnsupportedMediaType || !strings.Contains(got.Body, "CSV, NDJSON or JSON") || len(s.take()) > 0 {
			t.Errorf("%q: HTTP %d", kind, got.Status)
		}
	}
	for _, kind := range uploadKinds {
		if got := v.send(http.MethodPost, uploadPath+"?mode=create", "name\nAda\n", http.Header{"Content-Type": {kind}}); got.Status != http.StatusOK {
			t.Errorf("%q: HTTP %d", kind, got.Status)
		}
	}
}
