package console

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"waypost"
	"waypost/client"
	"waypost/limits"
	"waypost/signature"
	"waypost/store"
)

// The time-outs are for a Redis that is away, not for a busy machine. Hashes of passwords
// cost less.
func init() {
	limits.CallTime = time.Minute
	hashing = &argon2id.Params{Memory: 1 << 10, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}
}

const (
	testOrg = "acme"
	testApp = "app_console"
)

// ops is who manages users from the outside.
var ops = waypost.Author{Scope: waypost.Scope{Org: testOrg}, Actor: "ops"}

// orgUsers are the store's users of one organisation, as package app wires them.
type orgUsers struct {
	*store.Store
	org string
}

func (u orgUsers) UserByLink(ctx context.Context, token string) (waypost.User, error) {
	return u.Store.UserByLink(ctx, u.org, token)
}

func (u orgUsers) UserByEmail(ctx context.Context, email string) (waypost.User, error) {
	return u.Store.UserByEmail(ctx, u.org, email)
}

func (u orgUsers) UserBySubject(ctx context.Context, issuer, subject string) (waypost.User, error) {
	return u.Store.UserBySubject(ctx, u.org, issuer, subject)
}

func (u orgUsers) Users(ctx context.Context) ([]waypost.User, error) {
	return u.Store.Users(ctx, u.org)
}

// call is what the gateway of a site got.
type call struct {
	Method, Target string
	Header         http.Header
}

// site is a console over a real database and a Redis that speaks the real protocol. What
// stands for the gateway answers every call with an empty list, or as answer says: what the
// real one answers is what the tests in a browser see.
type site struct {
	t     *testing.T
	store *store.Store
	redis *miniredis.Miniredis
	url   string
	org   string
	file  string // of the database

	mu     sync.Mutex
	calls  []call
	log    bytes.Buffer
	answer func(w http.ResponseWriter, r *http.Request) bool
}

// Write makes the site the writer of its log.
func (s *site) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.calls = append(s.calls, call{r.Method, r.RequestURI, r.Header})
	answer := s.answer
	s.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	if strings.HasSuffix(r.URL.Path, "/export") {
		w.Header().Set(http.TrailerPrefix+"X-Waypost-Count", "0") // what tells that all was sent
	}
	io.WriteString(w, `{"items":[],"nextCursor":null}`)
}

// answering has the site's gateway answer a call with what answer returns; status 0 is an empty list.
func (s *site) answering(answer func(r *http.Request) (status int, body string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = func(w http.ResponseWriter, r *http.Request) bool {
		status, body := answer(r)
		if status == 0 {
			return false
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}

// answers has the site's gateway answer by path, beside its empty lists.
func (s *site) answers(byPath map[string]string) {
	s.answering(func(r *http.Request) (int, string) {
		if body, known := byPath[r.URL.Path]; known {
			return http.StatusOK, body
		}
		return 0, ""
	})
}

// take returns the calls since the last take.
func (s *site) take() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// migrated is an empty database, of which every site gets a copy.
var migrated = sync.OnceValues(func() (template []byte, err error) {
	dir, err := os.MkdirTemp("", "waypost-console-test-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "waypost.db")
	if _, _, err := store.Migrate(context.Background(), "sqlite:"+file); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

// people counts the users that tests make.
var people atomic.Int64

func newSite(t *testing.T, changes ...func(*Options)) *site {
	t.Helper()
	s := &site{t: t, redis: miniredis.RunT(t)}
	keys, err := waypost.ParseKeyring("k1:" + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	template, err := migrated()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "waypost.db")
	if err := os.WriteFile(file, template, 0o600); err != nil {
		t.Fatal(err)
	}
	s.file = file
	database := "sqlite:" + file
	if s.store, err = store.Open(t.Context(), database, keys, time.Now); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.store.Close() })
	shared := redis.NewClient(limits.ClientOptions(&redis.Options{Addr: s.redis.Addr()}))
	t.Cleanup(func() { _ = shared.Close() })
	gateway := httptest.NewServer(s)
	t.Cleanup(gateway.Close)
	server := httptest.NewUnstartedServer(nil)
	s.url = "http://" + server.Listener.Addr().String()
	o := Options{
		Gateway: client.New(gateway.URL, signature.Key{AccessKey: "AK", SecretKey: "sk"}), Application: testApp, Org: testOrg, Users: orgUsers{s.store, testOrg},
		Sessions: limits.NewSessions(shared, testOrg), Attempts: limits.NewAttempts(shared), Keys: keys, URL: s.url,
		Log: slog.New(slog.NewTextHandler(s, nil)), Observe: func(string, string, int, time.Duration) {},
	}
	for _, change := range changes {
		change(&o)
	}
	s.org = o.Org
	if server.Config.Handler, err = New(o); err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(server.Close)
	return s
}

// user makes a user.
func (s *site) user(role waypost.Role) (waypost.User, string) {
	s.t.Helper()
	u, link, err := s.store.CreateUser(s.t.Context(), ops, waypost.User{Org: testOrg, Email: fmt.Sprintf("%s%d@example.com", role, people.Add(1)), Name: "Ada " + string(role), Role: role})
	if err != nil {
		s.t.Fatal(err)
	}
	return u, link
}

// guest is a browser in which nobody is signed in. It follows no redirect.
func (s *site) guest() *visitor {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &visitor{s, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// as is a browser in which a new user of a role is signed in.
func (s *site) as(role waypost.Role) (*visitor, waypost.User) {
	s.t.Helper()
	u, link := s.user(role)
	v := s.guest()
	if res := v.post("/sign-in/link", url.Values{"token": {link}}); res.Status != http.StatusSeeOther {
		s.t.Fatalf("sign in: HTTP %d", res.Status)
	}
	return v, u
}

// visitor is a browser.
type visitor struct {
	s      *site
	client *http.Client
}

// shown is an answer.
type shown struct {
	Status int
	Header http.Header
	Body   string
}

// To is where a redirect leads.
func (a shown) To() string { return a.Header.Get("Location") }

func (v *visitor) do(method, path string, form url.Values, header http.Header) shown {
	v.s.t.Helper()
	return v.send(method, path, form.Encode(), header)
}

// send makes a request; a POST is one of a form if header does not say what it is.
func (v *visitor) send(method, path, body string, header http.Header) shown {
	v.s.t.Helper()
	req, err := http.NewRequestWithContext(v.s.t.Context(), method, v.s.url+path, strings.NewReader(body))
	if err != nil {
		v.s.t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, values := range header {
		req.Header[name] = values
	}
	res, err := v.client.Do(req)
	if err != nil {
		v.s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		v.s.t.Fatal(err)
	}
	return shown{res.StatusCode, res.Header, string(text)}
}

func (v *visitor) get(path string) shown { return v.do(http.MethodGet, path, nil, nil) }

func (v *visitor) post(path string, form url.Values) shown {
	return v.do(http.MethodPost, path, form, nil)
}

// cookieName is the name of one of the visitor's cookies.
func (v *visitor) cookieName(name string) string {
	c := console{Options: Options{Org: v.s.org}}
	return c.cookieName(name)
}

// cookie is the value of one of the visitor's cookies.
func (v *visitor) cookie(name string) string {
	at, _ := url.Parse(v.s.url) // it is one
	for _, c := range v.client.Jar.Cookies(at) {
		if c.Name == v.cookieName(name) {
			return c.Value
		}
	}
	return ""
}

func (v *visitor) setCookie(name, value string) {
	at, _ := url.Parse(v.s.url) // it is one
	v.client.Jar.SetCookies(at, []*http.Cookie{{Name: v.cookieName(name), Value: value, Path: "/"}})
}
