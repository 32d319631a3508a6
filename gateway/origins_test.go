package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"waypost/gateway"
)

// asPage makes a request as a browser does for a page of an origin, "" for none.
func (f *fixture) asPage(method, target, origin string, headers ...string) *http.Response {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, "http://"+f.addr+target, nil)
	check(f.t, err)
	if origin != "" {
		req.Header.Set("Origin", origin)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	res, err := f.client.Do(req)
	check(f.t, err)
	_, err = io.Copy(io.Discard, res.Body)
	check(f.t, err)
	check(f.t, res.Body.Close())
	return res
}

// Pages of the origins that are set may search, and read what goes wrong.
func TestSearchOrigins(t *testing.T) {
	t.Parallel()
	const site, other = "https://www.example.com", "https://evil.example"
	const exposed = "X-Request-Id, RateLimit, RateLimit-Policy, Retry-After, WWW-Authenticate"
	for _, tc := range []struct {
		set            []string
		origin, admits string
	}{
		{nil, site, ""},
		{[]string{site, "http://localhost:3000"}, site, site},
		{[]string{site, "http://localhost:3000"}, "http://localhost:3000", "http://localhost:3000"},
		{[]string{site}, other, ""},
		{[]string{site}, "null", ""},
		{[]string{site}, "", ""},
		{[]string{site}, site + ":8443", ""},
		{[]string{site}, "https://WWW.example.com", ""},
		{[]string{site}, site + ", " + site, ""},
		{[]string{"*"}, other, "*"},
		{[]string{"*"}, "null", "*"},
		{[]string{"*"}, "", "*"},
	} {
		t.Run(fmt.Sprint(tc.set, tc.origin), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(o *gateway.Options) { o.SearchOrigins = tc.set })
			f.putArticle(`{"id":"a","tenant_id":"site","name":"n","identifier":"i"}`)
			token := "Authorization: Bearer " + f.token(`{"tenantIds":["site"],"from":["frontend"]}`)
			const search = "/api/v1/articles/search?tenant_id=site&from=frontend&keywords=n"
			admits := func(res *http.Response, status int) {
				t.Helper()
				vary := ""
				if len(tc.set) > 0 && tc.set[0] != "*" {
					vary = "Origin"
				}
				if got := res.Header.Get("Access-Control-Allow-Origin"); res.StatusCode != status || got != tc.admits || !strings.HasPrefix(strings.Join(res.Header.Values("Vary"), ", "), vary) {
					t.Errorf("%s %s: status %d, admits %q, varies %q; want %d, %q, %q", res.Request.Method, res.Request.URL.Path, res.StatusCode, got, res.Header.Values("Vary"), status, tc.admits, vary)
				}
				if got := res.Header.Get("Access-Control-Expose-Headers"); (got == exposed) != (tc.admits != "") {
					t.Errorf("exposes %q", got)
				}
				if res.Header.Get("Access-Control-Allow-Credentials") != "" {
					t.Error("allows credentials")
				}
			}
			admits(f.asPage("GET", search, tc.origin), 401)
			admits(f.asPage("GET", search, tc.origin, "Authorization: Bearer x"), 401)
			admits(f.asPage("GET", search+"&nope=1", tc.origin, token), 400)
			admits(f.asPage("POST", search, tc.origin), 405)
			admits(f.asPage("GET", "/api/v1/articles/find", tc.origin), 404)
			admits(f.asPage("GET", search, tc.origin, token), 503) // nothing is indexed yet
			f.indexed()
			admits(f.asPage("GET", search, tc.origin, token, "Content-Type: application/json"), 200)

			ask := []string{"Access-Control-Request-Method: GET", "Access-Control-Request-Headers: authorization"}
			pre := f.asPage("OPTIONS", "/api/v1/articles/search", tc.origin, ask...)
			if len(tc.set) == 0 {
				admits(pre, 405)
			} else {
				admits(pre, 204)
				methods, sends, age := pre.Header.Get("Access-Control-Allow-Methods"), pre.Header.Get("Access-Control-Allow-Headers"), pre.Header.Get("Access-Control-Max-Age")
				if tc.admits != "" && (methods != "GET, HEAD" || sends != "Authorization, Content-Type, X-Request-Id, Traceparent, Tracestate" || age != "7200") || tc.admits == "" && methods+sends+age != "" {
					t.Errorf("preflight: methods %q, headers %q, age %q", methods, sends, age)
				}
				if vary := strings.Join(pre.Header.Values("Vary"), ", "); !strings.Contains(vary, "Access-Control-Request-Headers") {
					t.Errorf("preflight varies %q", vary)
				}
			}
			// Nothing else is open.
			for _, path := range []string{"/v1/leads", "/v1/articles/a", "/docs", "/v1/tokens"} {
				for _, method := range []string{"GET", "OPTIONS"} {
					res := f.asPage(method, path, tc.origin, ask...)
					if res.Header.Get("Access-Control-Allow-Origin") != "" || method == "OPTIONS" && res.StatusCode != 405 {
						t.Errorf("%s %s: status %d, %v", method, path, res.StatusCode, res.Header)
					}
				}
			}
		})
	}
}
