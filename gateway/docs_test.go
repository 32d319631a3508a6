package gateway_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"waypost/gateway"
)

// page asks for what everybody may read.
func (f *fixture) page(method, target string, headers ...string) answer {
	f.t.Helper()
	c := call{method: method, target: target, unsigned: true, headers: map[string]string{}}
	for i := 0; i < len(headers); i += 2 {
		c.headers[headers[i]] = headers[i+1]
	}
	return f.do(c)
}

var linkForm = regexp.MustCompile(`(?:src|href)="([^"]*)"`)

func TestDocs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	file, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	served := f.page("GET", "/openapi.yaml").expect(t, http.StatusOK) // compressed on its way
	plain := f.page("GET", "/openapi.yaml", "Accept-Encoding", "gzip;q=0, identity").expect(t, http.StatusOK)
	if served.raw != string(file) || plain.raw != string(file) || plain.header.Get("Content-Type") != "application/yaml;charset=UTF-8" {
		t.Errorf("%d and %d bytes of %d, %v", len(served.raw), len(plain.raw), len(file), plain.header)
	}
	if served.header.Get("ETag") == plain.header.Get("ETag") || plain.header.Get("Vary") != "Accept-Encoding" {
		t.Error("two codings are told apart by nothing")
	}

	html := f.page("GET", "/docs").expect(t, http.StatusOK)
	policy := html.header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self'; ") || strings.Contains(policy, "http") {
		t.Errorf("policy %q", policy)
	}
	links := linkForm.FindAllStringSubmatch(html.raw, -1)
	if len(links) != 5 {
		t.Errorf("links %q", links)
	}
	scripts := ""
	for _, link := range links {
		for _, coding := range []string{"gzip", "identity"} {
			// As a browser resolves it.
			a := f.page("GET", "/"+link[1], "Accept-Encoding", coding).expect(t, http.StatusOK)
			if a.header.Get("Content-Type") == "" || a.header.Get("X-Content-Type-Options") != "nosniff" || len(a.raw) < 100 {
				t.Errorf("%s: %d bytes, %v", link[1], len(a.raw), a.header)
			}
			if compressed := a.header.Get("Content-Encoding") == "gzip"; compressed != (coding == "gzip" && !strings.HasSuffix(link[1], ".png")) {
				t.Errorf("%s, %s: Content-Encoding %q", link[1], coding, a.header.Get("Content-Encoding"))
			}
			if coding == "identity" && strings.HasSuffix(link[1], ".js") {
				scripts += a.raw
			}
		}
	}
	if !strings.Contains(scripts, `url: "openapi.yaml"`) || !strings.Contains(scripts, "OAS31") {
		t.Error("no script asks for openapi.yaml, or none knows OpenAPI 3.1")
	}

	for _, path := range []string{"/openapi.yaml", "/docs", "/docs/start.js", "/docs/favicon-32x32.png"} {
		full := f.page("GET", path).expect(t, http.StatusOK)
		tag := full.header.Get("ETag")
		if full.header.Get("Cache-Control") != "no-cache" || tag == "" {
			t.Errorf("%s: %v", path, full.header)
		}
		for _, match := range []string{tag, `"x", W/` + tag, "*"} {
			if a := f.page("GET", path, "If-None-Match", match).expect(t, http.StatusNotModified); a.raw != "" || a.header.Get("ETag") != tag {
				t.Errorf("%s, If-None-Match %s: %v %q", path, match, a.header, a.raw)
			}
		}
		f.page("GET", path, "If-None-Match", `"x"`).expect(t, http.StatusOK)
		if a := f.page("HEAD", path).expect(t, http.StatusOK); a.raw != "" || a.header.Get("ETag") == "" {
			t.Errorf("HEAD %s: %v %q", path, a.header, a.raw)
		}
		if a := f.page("POST", path).fault(t, http.StatusMethodNotAllowed, "MethodNotAllowed"); a.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("Allow %q", a.header.Get("Allow"))
		}
		refused := f.page("GET", path+"?x=1").fault(t, http.StatusBadRequest, "BadRequest", "UnknownField x")
		if refused.header.Get("Cache-Control") != "no-store" {
			t.Errorf("a refusal of %s can be kept", path)
		}
		f.page("GET", path+"/").fault(t, http.StatusNotFound, "NotFound")
	}
	for _, path := range []string{"/docs/nope", "/docs/swagger-ui.js", "/docs/embed.go", "/docs/swagger-ui.css.gz", "/docs/a/b", "/Docs", "/openapi.json"} {
		f.page("GET", path).fault(t, http.StatusNotFound, "NotFound")
	}
	for _, path := range []string{"/docs/../openapi.yaml", "/docs/%2e%2e/openapi.yaml", "//docs"} {
		if a := f.page("GET", path); a.status != http.StatusBadRequest && a.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	if log := f.log.String(); !strings.Contains(log, `"route":"/docs/start.js"`) {
		t.Error("the log does not name the page")
	}
}

// Pages are nobody's, but their readers have an address.
func TestDocsAreLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *gateway.Options) { o.AddressRate = 1 })
	for _, path := range []string{"/openapi.yaml", "/docs"} {
		a := f.page("GET", path)
		for range 50 {
			if a.status == http.StatusTooManyRequests {
				break
			}
			a = f.page("GET", path)
		}
		a.fault(t, http.StatusTooManyRequests, "TooManyRequests", []string{}...)
	}
}
