package gateway

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"
	"github.com/swaggest/swgui/v5/static"
)

// openAPI describes the interface for programs, as docs/contract.md does for people. The
// tests hold it against the route table and every answer.
//
//go:embed openapi.yaml
var openAPI []byte

// docsPage and docsScript show openapi.yaml with Swagger UI. Its files are embedded:
// nothing comes from another host. Requests must be signed, which a browser cannot do, so
// there is no "try it out" and no "authorize". The addresses are relative, so that a proxy
// can put a prefix before them.
var (
	//go:embed docs.html
	docsPage []byte
	//go:embed docs.js
	docsScript []byte
)

// docsPolicy lets the page load what this gateway serves, and nothing else. Swagger
// UI draws its symbols from data: addresses.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// page is a file that everybody may read: no signature, no stage.
type page struct {
	path  string
	media string
	// The two ways it is sent; each is made when it is first asked for.
	plain, compressed func() content
}

// content is the body of a page and its ETag.
type content struct {
	body []byte
	tag  string
}

var pages = []page{
	textPage("/openapi.yaml", "application/yaml;charset=UTF-8", openAPI),
	textPage("/docs", "text/html;charset=UTF-8", docsPage),
	textPage("/docs/start.js", "text/javascript;charset=UTF-8", docsScript),
	packedPage("/docs/swagger-ui-bundle.js", "text/javascript;charset=UTF-8"),
	packedPage("/docs/swagger-ui.css", "text/css;charset=UTF-8"),
	imagePage("/docs/favicon-32x32.png", "image/png"),
}

func newContent(body []byte) content { return content{body, hashETag(body)} }

func textPage(path, media string, body []byte) page {
	return page{
		path: path, media: media,
		plain: sync.OnceValue(func() content { return newContent(body) }),
		compressed: sync.OnceValue(func() content {
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			_, _ = w.Write(body) // a Buffer takes everything
			_ = w.Close()
			return newContent(b.Bytes())
		}),
	}
}

// packedPage is a file of Swagger UI, which comes compressed.
func packedPage(at, media string) page {
	packed := sync.OnceValue(func() content { return newContent(file(path.Base(at) + ".gz")) })
	return page{
		path: at, media: media, compressed: packed,
		plain: sync.OnceValue(func() content {
			var body []byte
			r, err := gzip.NewReader(bytes.NewReader(packed().body))
			if err == nil {
				body, err = io.ReadAll(r)
			}
			if err != nil {
				panic(fmt.Errorf("unpack %s: %w", at, err)) // embedded: a test reads it
			}
			return newContent(body)
		}),
	}
}

// imagePage is a file of Swagger UI that compression would not make smaller.
func imagePage(at, media string) page {
	return page{path: at, media: media, plain: sync.OnceValue(func() content { return newContent(file(path.Base(at))) })}
}

func file(name string) []byte {
	body, err := static.FS.ReadFile(name)
	if err != nil {
		panic(fmt.Errorf("read %s of Swagger UI: %w", name, err)) // embedded: a test reads it
	}
	return body
}

// addPages puts openapi.yaml and what shows it beside the routes.
func (a *server) addPages(app *fiber.App) {
	for _, p := range pages {
		rt := route{method: fiber.MethodGet, path: p.path, body: noBody}
		serve := func(c *fiber.Ctx) error { return a.servePage(&rt, p, c) }
		app.Add(fiber.MethodGet, p.path, serve)
		app.Add(fiber.MethodHead, p.path, serve)
	}
}

// servePage answers without a signature. The page has an ETag and is compressed if the client takes
// gzip.
func (a *server) servePage(rt *route, p page, c *fiber.Ctx) error {
	r := requestOf(c)
	r.route = rt
	if err := a.checkPath(c.UserContext(), r); err != nil {
		return err
	}
	if err := a.checkQuery(r); err != nil {
		return err
	}
	sent := p.plain
	if p.compressed != nil {
		c.Set("Vary", "Accept-Encoding")
		if acceptsGzip(r.header("Accept-Encoding")) {
			sent = p.compressed
			c.Set("Content-Encoding", "gzip")
		}
	}
	body := sent()
	c.Set("Content-Type", p.media)
	c.Set("Referrer-Policy", "no-referrer")
	c.Set("Content-Security-Policy", docsPolicy)
	// It is asked for each time, and sent only if it has changed.
	c.Set("Cache-Control", "no-cache")
	c.Set("ETag", body.tag)
	if isNamedBy(r.header("If-None-Match"), body.tag) {
		c.Response().Header.Del("Content-Encoding")
		c.Status(http.StatusNotModified)
		return nil
	}
	c.Response().SetBodyRaw(body.body)
	return nil
}

// isNamedBy tells whether an If-None-Match names the tag (RFC 9110, section 13.1.2).
func isNamedBy(header, tag string) bool {
	tags, _ := entityTags(header)
	return header == "*" || slices.Contains(tags, tag) || slices.Contains(tags, weak+tag)
}

// acceptsGzip tells whether an Accept-Encoding lists gzip and does not refuse it.
func acceptsGzip(header string) bool {
	for coding := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			_, q, weighted := strings.Cut(weight, "=")
			return !weighted || strings.Trim(strings.TrimSpace(q), "0.") != ""
		}
	}
	return false
}
