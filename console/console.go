package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/go-webauthn/webauthn/webauthn"

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
	// is one of the e-mail address. It and all methods below write to the audit log.
	CreateUser(ctx context.Context, by waypost.Caller, u waypost.User) (made waypost.User, link string, err error)
	ChangeRole(ctx context.Context, by waypost.Caller, id string, role waypost.Role) error
	// ResetUser takes the password away, ends all sessions, and returns the token of a
	// sign-in link. One that was disabled may sign in again.
	ResetUser(ctx context.Context, by waypost.Caller, id string) (link string, err error)
	DisableUser(ctx context.Context, by waypost.Caller, id string) error
	// ChangePassword gives a user another password, and ends all sessions and a sign-in link. It and
	// ChangeSecondFactor return waypost.ErrSessionOver if the sessions in which the user was seen are over.
	ChangePassword(ctx context.Context, by waypost.Caller, seen waypost.User, passwordHash string) (waypost.User, error)
	// ChangeSecondFactor changes a user's second factor, locked, as change does; an error of
	// that is returned.
	ChangeSecondFactor(
		ctx context.Context, by waypost.Caller, seen waypost.User, change func(*waypost.SecondFactor) error,
	) (waypost.User, error)
	RemoveSecondFactor(ctx context.Context, by waypost.Caller, id string) error
	// TakeLink is UserByLink, and ends the link: the user signs in by it, and by the second factor
	// if second is not empty. A hash that is not empty becomes the user's password.
	TakeLink(ctx context.Context, by waypost.Author, token, passwordHash, second string) (waypost.User, error)
	// RecordSignIn notes that by has signed in: how by a password, a link or an issuer, second by
	// which second factor, "" without one.
	// RecordSignOut says which sessions of a user have ended.
	RecordSignIn(ctx context.Context, by waypost.Author, how, second string) error
	RecordSignOut(ctx context.Context, by waypost.Author, userID, which string) error
	// SignInByIssuer signs in whom the issuer knows; refused says why it does not.
	SignInByIssuer(ctx context.Context, by waypost.Author, said waypost.IssuerSignIn) (u waypost.User, refused string, err error)
	// UserBySubject returns the user of an issuer's account; NotFound if there is none.
	UserBySubject(ctx context.Context, issuer, subject string) (waypost.User, error)
	// ReleaseUser takes the issuer's account away from a user, which ends all sessions.
	ReleaseUser(ctx context.Context, by waypost.Caller, id string) error
	EndSessions(ctx context.Context, by waypost.Caller, id string) error
	// DeleteUser deletes a user for good; Conflict if no administrator would be left.
	DeleteUser(ctx context.Context, by waypost.Caller, id string) error
	// RecordPendingSignIn notes a sign-in of which the second factor is asked; how is waypost.SignInByPassword, ….
	RecordPendingSignIn(ctx context.Context, by waypost.Author, userID, how string) error
	// RecordFailedSignIn notes a sign-in that failed; userID is "" if no user has the address.
	RecordFailedSignIn(ctx context.Context, by waypost.Author, userID, reason string) error
}

// Sessions keeps sessions until they end: opaque values by their token, which it stores as a hash.
type Sessions interface {
	scs.Store
	scs.CtxStore
	// Note keeps what is to be known of a session of a person, for at most life, and returns
	// the session's id.
	Note(ctx context.Context, owner, token string, about []byte, life time.Duration) (id string, err error)
	// Of returns what is noted of a person's sessions that have not ended, by their ids.
	Of(ctx context.Context, owner string) (map[string]string, error)
	// End ends a session of a person; false if the person has none of this id.
	End(ctx context.Context, owner, id string) (bool, error)
	// Once remembers a key for a time; false if it is remembered already.
	Once(ctx context.Context, key string, life time.Duration) (bool, error)
	// Forget has a key not be remembered.
	Forget(ctx context.Context, key string) error
}

// Attempts slows down who guesses passwords.
type Attempts interface {
	// Try counts a try of a key. After free tries each has to wait; wait is how long, and a try that
	// has to wait is not counted.
	Try(ctx context.Context, key string, free int) (wait time.Duration, err error)
	Forget(ctx context.Context, key string) error
	// Undo takes back one try of a key.
	Undo(ctx context.Context, key string) error
}

// Options are what a console needs.
type Options struct {
	// Gateway has the key of the application that the console is, whose id is Application and
	// whose organisation is Org.
	Gateway          *client.Client
	Application, Org string

	Users    Users
	Sessions Sessions
	Attempts Attempts
	// Keys seal what is stored about a person's sessions, and the secret of an app that is being set
	// up. Those of device cookies are derived from them.
	Keys *waypost.Keyring
	OIDC OIDC
	// SecondFactor says whom a second factor is asked of; "" is SecondFactorOff.
	SecondFactor string
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
	// issuerSession is the longest one of a sign-in at the issuer, which may have taken the role since.
	issuerSession = 8 * time.Hour
	// sessionStep is the least time between two writes of a session's end and of when it was last
	// seen: live pages ask every few seconds, and most of these requests write nothing.
	sessionStep = time.Minute
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
	// deviceKeys make the codes of device cookies: the first is used, all are taken.
	deviceKeys []waypost.DerivedKey
	// relying is what passkeys are bound to; nil where there are none.
	relying *webauthn.WebAuthn
	lives   *liveParts
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
	deviceKeys, err := o.Keys.Derive("console-device/" + o.Org)
	if err != nil {
		return nil, err
	}
	relying, err := newRelyingParty(o.URL)
	if err != nil {
		return nil, err
	}
	c := &console{
		Options: o, routes: routes, sessions: scs.New(), pages: all, secure: strings.HasPrefix(o.URL, "https://"),
		issuer: newIssuer(o.OIDC, o.URL), passwords: hasher, deviceKeys: deviceKeys, relying: relying,
		lives: &liveParts{now: time.Now, parts: map[string]*livePart{}},
	}
	c.sessions.Store = o.Sessions
	c.sessions.Lifetime = sessionIdle // prolong moves its end
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

// cookieName is a cookie's name; the prefix has browsers refuse it from anyone but this host. Cookies
// know no port, so those that belong to one console, and not only to the browser, tell whose it is.
func (c *console) cookieName(name string) string {
	if !slices.Contains([]string{"language", "theme", "stage", "zone"}, name) {
		sum := sha256.Sum256([]byte(c.Org))
		name += "-" + hex.EncodeToString(sum[:4])
	}
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

// maxUnknownBody bounds a form of somebody who is not signed in, in bytes.
const maxUnknownBody = 64 << 10
