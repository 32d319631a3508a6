package gateway

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/valyala/fasthttp"

	"waypost"
	"waypost/listen"
)

// Options is everything that a gateway needs; all members but TrustedProxies,
// SearchOrigins, Away, Observe and Trace must be set.
type Options struct {
	Applications  Applications
	Leads         Leads
	Imports       Imports
	Webhooks      Webhooks
	Subscriptions Subscriptions
	Suppressions  Suppressions
	Segments      Segments
	Breakers      Breakers
	Journeys      Journeys
	Enrollments   Enrollments
	Launches      Launches
	Controls      Controls
	Events        Events
	Deliveries    Deliveries
	Audit         Audit
	Articles      Articles
	Reindexes     Reindexes
	Search        Search
	Nonces        Nonces
	Rates         Rates
	Keys          Keys
	Sender        Sender
	// Waker is woken when workflows have something to do: launches, imports, events, what
	// was resumed, canceled or enabled.
	Waker Waker
	// IndexWaker is woken when articles were written, or a reindex was asked for.
	IndexWaker Waker
	// TokenKeys are for the tokens of article search: the first signs, all of them verify
	// (waypost.Keyring.Derive).
	TokenKeys []waypost.DerivedKey
	// CheckURL refuses, with a BadRequest, the URL of a webhook that can never be
	// allowed.
	CheckURL func(url string) error
	// TemporalURL, WorkflowURL and ScheduleURL make links of Temporal's Web UI, "" without
	// one: to a lead's workflow of a journey, to the workflow of a launch or an import, and
	// to the Schedule of a launch that recurs.
	TemporalURL func(journeyID string, leadsID int64) string
	WorkflowURL func(id string) string
	ScheduleURL func(id string) string
	// AddressRate is how many requests a second an address may send, in bursts of
	// twice as many (docs/contract.md, "Rate limits"). An IPv6 address is its /64.
	AddressRate int
	// LeastRate is how many bytes a second a body must bring, and the client of an export
	// read, over every leastWindow; 0: any number.
	LeastRate int
	// TrustedProxies are the proxies whose X-Forwarded-For is believed, for the address
	// limit alone.
	TrustedProxies []netip.Prefix
	// SearchOrigins are the origins whose pages may search, as browsers write them in
	// Origin; "*" alone is all. Empty: none but the gateway's own.
	SearchOrigins []string
	// Away tells whether an error means that the database cannot be used for the
	// moment; nil: none does.
	Away func(error) bool
	// EventAges says how far back conditions see events.
	EventAges waypost.EventAges
	// PhoneRegion is the country of phone numbers without one, such as "CN".
	PhoneRegion string
	Now         func() time.Time
	Log         *slog.Logger
	// Observe is called for every request once its answer is decided, for metrics:
	// route is a pattern of the route table, or "" where the path matches none;
	// method is one that Fiber knows, UNKNOWN, or "" for what is no HTTP. May be nil.
	Observe func(route, method string, status int, took time.Duration)
	// Trace is called for every request as it begins, for traces: traceparent is the
	// header of that name, "" if there is none. The request goes on with the context that
	// it returns; end gets what Observe gets. May be nil.
	Trace func(ctx context.Context, traceparent string) (_ context.Context, end func(route, method string, status int))
}

// Bounds of a request (docs/contract.md, "Bodies") and of a connection.
const (
	maxHeaders  = 16 << 10 // bytes of request line and headers
	maxBody     = 1 << 20  // bytes, of most routes
	maxLongBody = 16 << 20 // bytes, of a route that takes a list of up to a million ids
	maxArticle  = 8 << 20  // bytes, of an article
	headerTime  = 5 * time.Second
	bodyTime    = 30 * time.Second
	writeTime   = 30 * time.Second
	idleTime    = 2 * time.Minute
	handlerTime = 30 * time.Second
	leastWindow = 10 * time.Second
)

// methodUnknown stands for all methods that Fiber does not know.
const methodUnknown = "UNKNOWN"

// server is the state behind the handlers.
type server struct {
	Options
	credentials *recent[waypost.Credential]
	tokens      *tokens
	definitions *definitions
	published   *lru.Cache[publishedKey, int] // see enrollPublished
	simulations simulations
	nonceAway   atomic.Bool   // whether the last nonce could not be kept in Redis
	spools      *shares       // of imports that are being taken in
	exports     *shares       // of exports that are being read
	bodies      *shares       // of other bodies that are being taken in
	longBodies  *shares       // of those among them that may be longer than maxBody
	trials      *shares       // of test messages
	headerTime  time.Duration // that headers, and the beginning of a body, may take to arrive
	bodyTime    time.Duration // that a body may take
	window      time.Duration // in which as much as LeastRate says must arrive, or be read
}

// New makes the gateway's server, ready to be given a listener.
func New(o Options) *fiber.App { return newServer(o).server() }

func newServer(o Options) *server {
	return &server{
		Options: o, credentials: newCredentials(o.Applications, o.Now), tokens: newTokens(o.TokenKeys, o.Applications, o.Now), definitions: newDefinitions(), published: newKept[publishedKey, int](maxPublished),
		simulations: newSimulations(), spools: newShares(maxSpools, maxSpools/2), exports: newShares(maxExports, maxExports/2),
		bodies: newShares(maxBodies, maxBodies/2), longBodies: newShares(maxLongBodies, maxLongBodies/2), trials: newShares(maxTrials, maxTrialsPerApp),
		headerTime: headerTime, bodyTime: bodyTime, window: leastWindow,
	}
}

// server wires the routes so that no body is read before its signature is checked, and that Fiber
// changes neither paths nor bodies.
func (a *server) server() *fiber.App {
	app := fiber.New(fiber.Config{
		DisableStartupMessage: true,
		// Paths are compared byte by byte.
		CaseSensitive: true,
		StrictRouting: true,
		// Fiber's strings otherwise change after the handler.
		Immutable: true,
		// Handlers get the body as it is on the wire, and only after the signature
		// was checked: the limit is ours, and nothing is read or unpacked before.
		StreamRequestBody:            true,
		DisablePreParseMultipartForm: true,
		BodyLimit:                    math.MaxInt32,
		ReadBufferSize:               maxHeaders,
		ReadTimeout:                  a.headerTime,
		WriteTimeout:                 writeTime,
		IdleTimeout:                  idleTime,
		DisableDefaultContentType:    true,
		RequestMethods:               append(slices.Clone(fiber.DefaultMethods), methodUnknown),
		ErrorHandler:                 a.refuseConnection,
	})
	server := app.Server()
	server.Handler = nameUnknownMethods(server.Handler, app.Config().RequestMethods)
	server.ErrorHandler = closeUnused(server.ErrorHandler)
	server.HeaderReceived = leaveBody
	app.Use(a.observe)
	for _, rt := range routes {
		app.Add(rt.method, rt.path, a.serve(rt))
		if rt.method == fiber.MethodGet {
			app.Add(fiber.MethodHead, rt.path, a.serve(rt))
		}
	}
	if len(a.SearchOrigins) > 0 {
		app.Add(fiber.MethodOptions, searchPath, a.preflight)
	}
	a.addPages(app)
	return app
}

// nameUnknownMethods lets requests with a method that Fiber does not know pass
// through the routes like all others; Fiber itself answers them with plain text.
func nameUnknownMethods(next fasthttp.RequestHandler, known []string) fasthttp.RequestHandler {
	return func(c *fasthttp.RequestCtx) {
		if !slices.Contains(known, string(c.Method())) {
			c.Request.Header.SetMethod(methodUnknown)
		}
		next(c)
	}
}

// leaveBody has the server read nothing behind the headers, and answer no Expect: it would
// read up to 8 KiB before it looks for a route, and say 100 to a request that is going to
// be refused. Of a chunked body it leaves that to the handler, so a body of a stated
// length is one for the moment, and newRequest gives it its length again.
func leaveBody(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	h.Del(fiber.HeaderExpect)
	if h.ContentLength() > 0 {
		h.SetContentLength(chunkedLength)
	}
	return fasthttp.RequestConfig{}
}

// chunkedLength is the length of a chunked body to Fiber.
const chunkedLength = -1

// Serve has app, which New has made, answer the connections of a listener until it is
// shut down.
func Serve(app *fiber.App, l *listen.Listener) error {
	app.Server().ConnState = func(c net.Conn, s fasthttp.ConnState) {
		if s == fasthttp.StateIdle {
			listen.Idle(c)
		}
	}
	return app.Listener(listener{l})
}

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// conn records whether its client has sent anything, and whether an answer is still to be
// written: the server holds one back if it has the next request already.
type conn struct {
	net.Conn
	begun, held bool
	requests    int // that were taken
}

// NetConn is the connection of package listen.
func (c *conn) NetConn() net.Conn { return c.Conn }

// followed is a connection of package listen.
type followed interface {
	Fault() (fault *listen.Fault, request int)
	Target() string
}

// fault is why package listen refuses a request, the first one being 1; nil if it does not.
func (c *conn) fault(request int) error {
	connection, ok := c.Conn.(followed)
	if !ok {
		return nil
	}
	fault, of := connection.Fault()
	if fault == nil || of != request {
		return nil
	}
	return waypost.Errorf(waypost.CodeBadRequest, fault.Target, "%s", fault.Text)
}

func (c *conn) Write(b []byte) (int, error) {
	c.held = false
	return c.Conn.Write(b)
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.begun = c.begun || n > 0 || c.fault(c.requests+1) != nil
	return n, err
}

// closeUnused closes connections that end before anything has come, without an answer:
// clients open some in advance, and would take an answer for that of the request which
// they send at that moment.
func closeUnused(next func(*fasthttp.RequestCtx, error)) func(*fasthttp.RequestCtx, error) {
	return func(raw *fasthttp.RequestCtx, err error) {
		if c, ok := raw.Conn().(*conn); ok && !c.begun {
			_ = c.Close()
			return
		}
		next(raw, err)
	}
}

// refuseConnection answers what Fiber refuses before it looks for a route: a
// request that is not HTTP, or headers that are too long.
func (a *server) refuseConnection(c *fiber.Ctx, err error) error {
	r := &request{c: c, id: a.newRequestID(), began: time.Now()}
	a.trace(r)
	var refused *fiber.Error
	connection, _ := c.Context().Conn().(*conn)
	switch status := errors.As(err, &refused); {
	case connection != nil && connection.fault(connection.requests+1) != nil:
		err = connection.fault(connection.requests + 1)
		r.path = connection.Conn.(followed).Target()
	case !status || refused.Code == http.StatusBadRequest:
		err = waypost.Errorf(waypost.CodeBadRequest, "", "the request is not valid HTTP/1.1: its first line or a header line is malformed, or it ends too early")
	case refused.Code == http.StatusRequestHeaderFieldsTooLarge:
		err = waypost.Errorf(waypost.CodeBadRequest, "", "the first line and the headers of the request are longer than %d bytes", maxHeaders)
	case refused.Code == http.StatusRequestTimeout:
		err = waypost.Errorf(waypost.CodeBadRequest, "", "the headers of the request did not arrive within %s", a.headerTime)
	}
	c.Response().SetConnectionClose()
	a.finish(r, err)
	return nil
}
