package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/coreos/go-oidc/v3/oidc"

	"waypost/config"
)

// issuerTime bounds one question to the issuer. It is a variable for tests.
var issuerTime = 5 * time.Second

const (
	// retryEvery is the time between two questions to an issuer that has not answered yet.
	retryEvery = 2 * time.Second
	// keysEvery is the least time between two questions for the issuer's keys. A token with
	// an unknown key leads to a question, and anybody can make such tokens.
	keysEvery = 5 * time.Second
	// keysLife is how long the issuer's keys are trusted: a stolen key that the issuer has
	// withdrawn works for no longer.
	keysLife = time.Hour
	// retryKeys is the time between two attempts to renew the keys of an issuer that is away.
	retryKeys = time.Minute
	// maxToken bounds a token; some hundred groups in a token are 10 KiB.
	maxToken = 16 << 10
	// maxKeys bounds the issuer's answer with its keys, in bytes.
	maxKeys = 1 << 20
)

// algorithms are all signatures with a private key. Discovery names the algorithms of ID
// tokens only; access tokens may have others.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// tokens checks the tokens of an OpenID Connect issuer.
type tokens struct {
	config.Codec
	client *http.Client
	now    func() time.Time
	log    *slog.Logger
	keys   atomic.Pointer[keys] // nil until the issuer has answered
}

func newTokens(cfg config.Codec, now func() time.Time, log *slog.Logger) *tokens {
	return &tokens{Codec: cfg, now: now, log: log, client: &http.Client{
		Timeout: issuerTime, Transport: http.DefaultTransport.(*http.Transport).Clone(),
		// A redirect could lead to a server that is not the issuer's.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// find asks the issuer where its keys are until it answers or ctx ends.
func (t *tokens) find(ctx context.Context) {
	said := ""
	_, err := backoff.Retry(ctx, func() (any, error) { return nil, t.discover(ctx) },
		backoff.WithMaxElapsedTime(0), backoff.WithBackOff(backoff.NewConstantBackOff(retryEvery)),
		backoff.WithNotify(func(err error, _ time.Duration) {
			if says := shorten(err.Error()); says != said {
				t.log.Warn("the issuer does not answer as it should; nobody can be let in until it does", "issuer", t.Issuer, "error", says)
				said = says
			}
		}))
	if err == nil {
		t.log.Info("the issuer has answered", "issuer", t.Issuer)
	}
}

func (t *tokens) discover(ctx context.Context) error {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, t.client), t.Issuer)
	if mismatch := (*oidc.IssuerMismatchError)(nil); errors.As(err, &mismatch) {
		return fmt.Errorf("WAYPOST_CODEC_OIDC_ISSUER is %s, and the issuer calls itself %s", mismatch.Provided, mismatch.Discovered)
	}
	if err != nil {
		return err
	}
	var found struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&found); err != nil {
		return err
	}
	if strings.HasPrefix(t.Issuer, "https:") && !strings.HasPrefix(found.Keys, "https:") {
		return fmt.Errorf("the issuer's keys are at %q, which is no https URL", found.Keys)
	}
	read := func() *keySet {
		client, asks := *t.client, &sparing{next: t.client.Transport, now: t.now}
		client.Transport = asks
		return &keySet{oidc.NewRemoteKeySet(oidc.ClientContext(ctx, &client), found.Keys), asks}
	}
	t.keys.Store(&keys{read: read, now: t.now, set: read(), since: t.now()})
	return nil
}

// keys are the issuer's. go-oidc holds them, but trusts them for ever, asks the issuer for
// each token with an unknown key, and reads an answer of any size: keys and sparing bound all
// three. While the issuer is away the keys that were read last stay in use.
type keys struct {
	read func() *keySet
	now  func() time.Time

	mu    sync.Mutex
	set   *keySet
	next  *keySet   // replaces set once it was read; nil while set is young
	since time.Time // of set
	tried time.Time // when next was made
}

// keySet holds the keys that the issuer had at one time, and keys that were fetched since
// because a token named them.
type keySet struct {
	*oidc.RemoteKeySet
	asks *sparing
}

// VerifySignature returns the token's payload.
func (k *keys) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	k.mu.Lock()
	now := k.now()
	if now.Sub(k.since) >= keysLife && (k.next == nil || now.Sub(k.tried) >= retryKeys) {
		k.next, k.tried = k.read(), now
	}
	set, next := k.set, k.next
	k.mu.Unlock()
	if next == nil || next.asks.failed() {
		return set.VerifySignature(ctx, jwt)
	}
	payload, err := next.VerifySignature(ctx, jwt)
	if !next.asks.answered() || err != nil && strings.HasPrefix(err.Error(), "fetching keys") { // or could not read them
		return set.VerifySignature(ctx, jwt)
	}
	k.mu.Lock()
	if k.next == next {
		k.set, k.next, k.since = next, nil, k.now()
	}
	k.mu.Unlock()
	return payload, err
}

// ready tells whether tokens can be checked. Known keys are enough, so an issuer that goes
// away later does not make the endpoint unready.
func (t *tokens) ready(context.Context) error {
	if t.keys.Load() == nil {
		return errors.New("the issuer has not answered yet")
	}
	return nil
}

// refusal is why a request is refused.
type refusal struct {
	status int
	reason string // for the log, one of a few words
	says   string // for the client
	err    error  // of the issuer; nil if the client is at fault
}

// The headers that Temporal's Web UI sends tokens in: the access token as a Bearer
// token, the ID token as it is.
const (
	headerAccessToken = "Authorization"
	headerIDToken     = "Authorization-Extras"
)

// check accepts a request with one valid token. Of two invalid ones, the refusal is that of
// the one that passed more checks.
func (t *tokens) check(ctx context.Context, header http.Header) *refusal {
	var worst *refusal
	var says []string
	for _, name := range []string{headerAccessToken, headerIDToken} {
		value := header.Get(name)
		if value == "" {
			continue
		}
		refused := t.checkHeader(ctx, name, value)
		if refused == nil {
			return nil
		}
		says = append(says, name+": "+refused.says)
		// 403 means a genuine token, and 503 one that may turn out to be valid.
		if worst == nil || refused.status > worst.status {
			worst = refused
		}
	}
	if worst == nil {
		return &refusal{status: http.StatusUnauthorized, reason: "missing", says: "there is no token. " +
			"Temporal's Web UI sends those of the person who has signed in if TEMPORAL_CODEC_PASS_ACCESS_TOKEN is true and the endpoint's URL begins with https://"}
	}
	worst.says = strings.Join(says, "; ")
	return worst
}

func (t *tokens) checkHeader(ctx context.Context, name, value string) *refusal {
	if name == headerIDToken {
		return t.verify(ctx, value)
	}
	scheme, token, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return unauthorized("malformed", "it is no Bearer token")
	}
	return t.verify(ctx, strings.TrimSpace(token))
}

func unauthorized(reason, says string) *refusal {
	return &refusal{status: http.StatusUnauthorized, reason: reason, says: says}
}

// verify checks the signature and the claims of one token.
func (t *tokens) verify(ctx context.Context, raw string) *refusal {
	if len(raw) > maxToken {
		return unauthorized("malformed", fmt.Sprintf("the token is longer than %d bytes", maxToken))
	}
	keys := t.keys.Load()
	if keys == nil {
		return &refusal{status: http.StatusServiceUnavailable, reason: "issuerAway", says: "the issuer has not answered yet, so no token can be checked"}
	}
	signed := &attested{keys: keys}
	token, err := oidc.NewVerifier(t.Issuer, signed, &oidc.Config{
		SkipClientIDCheck:    true, // several audiences may do, see below
		SupportedSigningAlgs: algorithms, Now: t.now,
	}).Verify(ctx, raw)
	switch away := (*issuerAway)(nil); {
	case err == nil:
	case errors.As(signed.err, &away):
		return &refusal{status: http.StatusServiceUnavailable, reason: "issuerAway", err: away, says: "the issuer does not tell its keys, and none that is known has signed the token"}
	case signed.err != nil:
		return unauthorized("signature", "none of the issuer's keys has signed the token")
	case !signed.asked:
		return unauthorized("malformed", "it is no JWT that is signed with "+strings.Join(algorithms, ", "))
	case errors.As(err, new(*oidc.TokenExpiredError)):
		return unauthorized("expired", "the token has expired")
	default:
		return unauthorized("claims", "the token is another issuer's, or not valid yet: its iss must be "+t.Issuer)
	}
	if !slices.ContainsFunc(token.Audience, func(a string) bool { return slices.Contains(t.Audiences, a) }) {
		return unauthorized("audience", "the token is for somebody else: its aud must have one of "+strings.Join(t.Audiences, ", "))
	}
	if t.Require.Name == "" {
		return nil
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return unauthorized("malformed", "its claims are no JSON object")
	}
	if !has(claims, t.Require) {
		return &refusal{status: http.StatusForbidden, reason: "claim", says: fmt.Sprintf("the token does not have %s=%s", t.Require.Name, t.Require.Value)}
	}
	return nil
}

// has tells whether a claim is the value, or a list with it. Scopes are a list in one
// string (RFC 8693, 4.2).
func has(claims map[string]any, want config.Claim) bool {
	switch claim := claims[want.Name].(type) {
	case string:
		words := []string{claim}
		if want.Name == "scope" || want.Name == "scp" {
			words = strings.Fields(claim)
		}
		return slices.Contains(words, want.Value)
	case []any:
		return slices.Contains(claim, any(want.Value))
	}
	return false
}

// attested wraps the issuer's keys for one token, and keeps the error of the check, which
// the verifier's error hides.
type attested struct {
	keys  oidc.KeySet
	asked bool
	err   error
}

// VerifySignature returns the token's payload.
func (a *attested) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	a.asked = true
	payload, err := a.keys.VerifySignature(ctx, jwt)
	a.err = err
	return payload, err
}

// issuerAway is why the issuer's keys could not be read.
type issuerAway struct{ error }

// errKnown says that the keys were read a moment ago.
var errKnown = errors.New("the keys were read a moment ago")

// sparing is a transport that asks the issuer for its keys at most once in keysEvery.
type sparing struct {
	next http.RoundTripper
	now  func() time.Time

	mu           sync.Mutex
	asked        time.Time
	err          error // of the last question
	everAnswered bool  // whether the issuer has ever sent its keys
}

// failed tells whether the last question failed.
func (s *sparing) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

// answered tells whether the issuer has sent its keys.
func (s *sparing) answered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.everAnswered
}

// RoundTrip asks the issuer, or fails because it was asked just now.
func (s *sparing) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	res, err := s.ask(req)
	if err != nil {
		err = &issuerAway{err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.everAnswered = err, s.everAnswered || err == nil
	return res, err
}

func (s *sparing) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	switch {
	case now.Sub(s.asked) >= keysEvery:
		s.asked, s.err = now, nil
		return nil
	case s.err != nil:
		return s.err
	}
	return errKnown
}

// ask reads the whole answer, so that an incomplete one is an error.
func (s *sparing) ask(req *http.Request) (*http.Response, error) {
	res, err := s.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxKeys+1))
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the issuer answers %s", res.Status)
	case len(body) > maxKeys:
		return nil, fmt.Errorf("the issuer's keys have more than %d bytes", maxKeys)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("the issuer's keys cannot be read: %w", err)
	}
	if len(set.Keys) == 0 {
		return nil, errors.New("the issuer has no keys")
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// shorten bounds a text of the issuer for the log.
func shorten(s string) string {
	const most = 300
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
