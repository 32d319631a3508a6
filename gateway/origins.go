package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
)

const searchPath = "/api/v1/articles/search"

// What pages of other origins may send and read (Fetch standard, "CORS protocol").
// Content-Type has no meaning for a search, but many pages send it with every call.
const (
	anyOrigin      = "*"
	preflightReads = "GET, HEAD"
	preflightSends = "Authorization, Content-Type, X-Request-Id, Traceparent, Tracestate"
	pagesRead      = "X-Request-Id, RateLimit, RateLimit-Policy, Retry-After, WWW-Authenticate"
	preflightAge   = "7200" // seconds: as long as browsers keep it
)

// admitOrigin lets pages of the origins that searches are open to read the answer, an
// error too. No cookie or other credential of the browser has a meaning here: the token is
// in a header, so none is allowed.
func (a *server) admitOrigin(r *request) {
	if len(a.SearchOrigins) == 0 || !strings.HasPrefix(r.path, apiPrefix) {
		return
	}
	allowed := anyOrigin
	if !slices.Contains(a.SearchOrigins, anyOrigin) {
		r.c.Append(fiber.HeaderVary, fiber.HeaderOrigin)
		if allowed = r.header(fiber.HeaderOrigin); !slices.Contains(a.SearchOrigins, allowed) {
			return
		}
	}
	r.c.Set(fiber.HeaderAccessControlAllowOrigin, allowed)
	r.c.Set(fiber.HeaderAccessControlExposeHeaders, pagesRead)
}

// preflight tells a browser whether a page may search.
func (a *server) preflight(c *fiber.Ctx) error {
	r := requestOf(c)
	r.route = &route{method: fiber.MethodOptions, path: searchPath, body: noBody}
	if err := a.checkPath(c.UserContext(), r); err != nil {
		return err
	}
	c.Set(fiber.HeaderAllow, preflightReads+", OPTIONS")
	c.Append(fiber.HeaderVary, fiber.HeaderAccessControlRequestMethod, fiber.HeaderAccessControlRequestHeaders)
	if c.GetRespHeader(fiber.HeaderAccessControlAllowOrigin) != "" {
		c.Set(fiber.HeaderAccessControlAllowMethods, preflightReads)
		c.Set(fiber.HeaderAccessControlAllowHeaders, preflightSends)
		c.Set(fiber.HeaderAccessControlMaxAge, preflightAge)
	}
	c.Status(http.StatusNoContent)
	return nil
}
