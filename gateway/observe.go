package gateway

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"waypost"
)

const (
	headerRequestID   = "X-Request-Id"
	headerTraceparent = "Traceparent"
)

// maxRequestID bounds the X-Request-Id that a client may choose.
const maxRequestID = 128

// observe is around every request: it gives it an id, answers its errors, a panic
// included, and writes one log line about it.
func (a *server) observe(c *fiber.Ctx) error {
	connection, _ := c.Context().Conn().(*conn)
	if connection != nil {
		connection.requests++
	}
	r, err := a.newRequest(c)
	r.id = r.header(headerRequestID)
	if !isRequestID(r.id) {
		r.id = a.newRequestID()
	}
	c.Locals(requestKey{}, r)
	a.trace(r)
	unreadable := err != nil // where its body ends is not known
	a.admitOrigin(r)
	limited := a.limitAddress(c.UserContext(), r)
	if err == nil && limited == nil {
		err = guarded(c.Next)
	}
	if !a.drain(r) || unreadable {
		c.Response().SetConnectionClose()
	}
	if fault := r.wire.fault(); fault != nil {
		err = fault
	}
	if connection != nil {
		connection.held = true // until it is written
	}
	err = cmp.Or(limited, err)
	a.finish(r, err)
	return nil
}

// trace begins the trace of a request, or goes on with its client's.
func (a *server) trace(r *request) {
	if a.Trace == nil {
		return
	}
	parent, n := r.signed().Header(headerTraceparent)
	if n != 1 {
		parent = ""
	}
	ctx, traced := a.Trace(r.c.UserContext(), parent)
	r.c.SetUserContext(ctx)
	r.traced = traced
}

func (a *server) newRequestID() string { return waypost.NewID("req_", a.Now()) }

func isRequestID(s string) bool {
	return s != "" && len(s) <= maxRequestID && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// guarded runs fn, and makes an error of its panic.
func guarded(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return fn()
}

// levels are those of the log lines of errors; other requests are logged as LevelInfo.
var levels = map[waypost.ErrorCode]slog.Level{
	waypost.CodeInternalError: slog.LevelError, waypost.CodeServiceUnavailable: slog.LevelWarn,
}

// finish answers err, if there is one, and logs the request: no query, no body,
// no personal data, and paths only as their pattern.
func (a *server) finish(r *request, err error) {
	r.c.Set(headerRequestID, r.id)
	// Answers hold any text, such as titles: no browser must take one for a page.
	r.c.Set("X-Content-Type-Options", "nosniff")
	if err != nil || r.c.GetRespHeader("Cache-Control") == "" {
		r.c.Set("Cache-Control", "no-store")
	}
	r.writePolicies()
	level, pattern := slog.LevelInfo, ""
	if r.route != nil {
		pattern = r.route.path
	}
	var attrs []slog.Attr
	if err != nil {
		known := a.classify(r, err)
		attrs = append(attrs, slog.String("code", string(known.Code)))
		if len(known.Details) > 0 {
			attrs = append(attrs, slog.String("detail", string(known.Details[0].Code)))
		}
		if level = levels[known.Code]; level > slog.LevelInfo {
			attrs = append(attrs, slog.String("error", err.Error()))
		}
		if werr := r.errorAnswer(known).write(a, r.c); werr != nil {
			a.Log.LogAttrs(r.c.UserContext(), slog.LevelError, "write answer", slog.String("request", r.id), slog.String("error", werr.Error()))
		}
	}
	status, took := r.c.Response().StatusCode(), time.Since(r.began)
	if status == http.StatusTooManyRequests { // who sends too much holds no connection beside
		r.c.Response().SetConnectionClose()
	}
	if a.Observe != nil {
		a.Observe(pattern, r.method, status, took)
	}
	if r.traced != nil {
		r.traced(pattern, r.method, status)
	}
	attrs = append([]slog.Attr{
		slog.String("request", r.id), slog.String("method", r.method), slog.String("route", pattern),
		slog.Int("status", status), slog.Int64("ms", took.Milliseconds()),
		slog.String("app", r.app.ID),
	}, attrs...)
	a.Log.LogAttrs(r.c.UserContext(), level, "request", attrs...)
}
