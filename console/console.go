package console

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"

	"waypost"
	"waypost/client"
)

// Users are the people who may sign in, of the console's organisation.
type Users interface {
	// User returns a user, disabled or not; NotFound if there is none of this id.
	User(ctx context.Context, id string) (waypost.User, error)
	// UserByLink returns whom a sign-in link is for; NotFound if it cannot be used.
	UserByLink(ctx context.Context, token string) (waypost.User, error)
	// UserByEmail returns a user, disabled or not; NotFound if there is none.
	UserByEmail(ctx context.Context, email string) (waypost.User, error)
	// Users lists the users, oldest first.
	Users(ctx context.Context) ([]waypost.User, error)
	// CreateUser stores a user and returns the token of a sign-in link; Conflict if there
	// is one of the e-mail address.
	CreateUser(ctx context.Context, u waypost.User) (made waypost.User, link string, err error)
	ChangeRole(ctx context.Context, id string, role waypost.Role) error
	// ResetUser takes the password away, ends all sessions, and returns the token of a
	// sign-in link. One that was disabled may sign in again.
	ResetUser(ctx context.Context, id string) (link string, err error)
	DisableUser(ctx context.Context, id string) error
	// TakeLink is UserByLink, and ends the link. A hash that is not empty becomes the
	// user's password.
	TakeLink(ctx context.Context, token, passwordHash string) (waypost.User, error)
}

// Sessions keeps sessions until they end: opaque values by their token.
type Sessions interface {
	scs.Store
	scs.CtxStore
}

// Attempts slows down who guesses passwords.
type Attempts interface {
	// Try counts a try of a key, of which free ones may follow each other at once; wait is
	// how long until the next one may be made, and this one was not counted.
	Try(ctx context.Context, key string, free int) (wait time.Duration, err error)
	Forget(ctx context.Context, key string) error
	// Undo takes back one try of a key.
	Undo(ctx context.Context, key string) error
}

// Options are what a console needs.
type Options struct {
	// Gateway has the key of the application that the console is.
	Gateway  *client.Client
	Users    Users
	Sessions Sessions
	Attempts Attempts
	OIDC     OIDC
	// TrustedProxies are networks of proxies whose X-Forwarded-For is believed, for
	// Attempts.
	TrustedProxies []netip.Prefix
	// URL is where people reach the console, without a slash at its end. With https, its
	// cookies are sent over HTTPS only.
	URL     string
	Log     *slog.Logger
	Observe func(route, method string, status int, took time.Duration)
}

// Bounds of sessions.
const (
	sessionTime = 7 * 24 * time.Hour // from the sign-in on
	sessionIdle = 12 * time.Hour     // without a request
	sessionStep = time.Minute        // between two writes of when a session ends, so that a look at a live page writes nothing
)

// console is what all requests share.
type console struct {
	Options
	routes   []route // the table's
	sessions *scs.SessionManager
	pages    pages
	secure   bool
	issuer   *issuer // nil without one
	// passwords hashes them.
	passwords *passwords
	lives     *liveParts
}

// New returns the console. It fails only if what is embedded in it is faulty.
func New(o Options) (http.Handler, error) {
	all, err := loadPages()
	if err != nil {
		return nil, err
	}
	hasher, err := newPasswords()
	if err != nil {
		return nil, err
	}
	c := &console{
		Options: o, routes: routes, sessions: scs.New(), pages: all, secure: strings.HasPrefix(o.URL, "https://"),
		issuer: newIssuer(o.OIDC, o.URL), passwords: hasher,
		lives: &liveParts{now: time.Now, parts: map[string]*livePart{}},
	}
	c.sessions.Store = o.Sessions
	c.sessions.HashTokenInStore = true // who reads Redis can take over no session
	c.sessions.Lifetime = sessionIdle  // findUser prolongs it
	c.sessions.Cookie.Name = c.cookieName("session")
	c.sessions.Cookie.HttpOnly, c.sessions.Cookie.SameSite, c.sessions.Cookie.Secure = true, http.SameSiteLaxMode, c.secure
	c.sessions.ErrorFunc = c.withoutSession
	mux := http.NewServeMux()
	for i := range routes {
		rt := &routes[i]
		mux.Handle(rt.method+" "+rt.pattern, c.serve(rt))
	}
	mux.Handle("/", c.serve(&route{handle: (*visit).notFound}))
	mux.HandleFunc("GET /static/", serveStatic)
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(c.serve(&route{handle: (*visit).crossOrigin}))
	return c.headers(cross.Handler(mux)), nil
}

// cookieName is a cookie's name; the prefix has browsers refuse it from anyone but this host.
func (c *console) cookieName(name string) string {
	if c.secure {
		return "__Host-waypost-" + name
	}
	return "waypost-" + name
}

// policy is the Content-Security-Policy: everything comes from the console itself, and
// nothing is inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

func (c *console) headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		h.Set("Cache-Control", "no-store")
		if c.secure {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		most := int64(maxBody)
		if r.URL.Path == uploadPath && slices.Contains(uploadKinds, r.Header.Get("Content-Type")) { // a form is parsed before it is known who asks
			most = maxUpload
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		next.ServeHTTP(w, r)
	})
}

// maxBody bounds a form, in bytes; the largest holds the definition of a journey.
const maxBody = 1 << 20
