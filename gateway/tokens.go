package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"waypost"
	"waypost/api"
)

// tokenAudience tells the tokens of article search from others of the same keys.
const tokenAudience = "waypost/article-search"

// tokens makes and reads the bearer tokens of article search: JWTs with HS256.
type tokens struct {
	issue  waypost.DerivedKey
	accept map[string][]byte // by the token's kid
	parser *jwt.Parser
	now    func() time.Time
	// apps finds the application of a token, for an unknown id a disabled one.
	apps *recent[waypost.Application]
}

// tokenClaims is a waypost.SearchToken as it travels. Its subject is the
// application; the organisation is the application's.
type tokenClaims struct {
	jwt.RegisteredClaims
	Stage   waypost.Stage    `json:"stage"`
	Tenants []string         `json:"tenants"`
	From    []waypost.Origin `json:"from"`
	Level   int              `json:"level"`
}

func newTokens(keys []waypost.DerivedKey, source Applications, now func() time.Time) *tokens {
	t := &tokens{
		accept: map[string][]byte{}, now: now,
		parser: jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithAudience(tokenAudience),
			jwt.WithExpirationRequired(), jwt.WithTimeFunc(now), jwt.WithStrictDecoding()),
		apps: newRecent(now, source.Application, waypost.Application{Disabled: true}),
	}
	for _, k := range keys {
		t.accept[k.ID] = k.Key
	}
	if len(keys) > 0 {
		t.issue = keys[0]
	}
	return t
}

// sign writes a token, which is valid from now on.
func (t *tokens) sign(token waypost.SearchToken) (string, error) {
	unsigned := jwt.NewWithClaims(jwt.SigningMethodHS256, tokenClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject: token.AppID, Audience: jwt.ClaimStrings{tokenAudience},
			IssuedAt: jwt.NewNumericDate(t.now()), ExpiresAt: jwt.NewNumericDate(token.ExpiresAt),
		},
		Stage: token.Scope.Stage, Tenants: token.TenantIDs, From: token.From, Level: token.MaxAccessLevel,
	})
	unsigned.Header["kid"] = t.issue.ID
	signed, err := unsigned.SignedString(t.issue.Key)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return signed, nil
}

// verify reads a token of ours. Its Scope has no organisation yet.
func (t *tokens) verify(text string) (waypost.SearchToken, error) {
	var c tokenClaims
	_, err := t.parser.ParseWithClaims(text, &c, func(parsed *jwt.Token) (any, error) {
		kid, _ := parsed.Header["kid"].(string)
		key, known := t.accept[kid]
		if !known {
			return nil, jwt.ErrTokenUnverifiable
		}
		return key, nil
	})
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return waypost.SearchToken{}, refuseBearer("the token has expired")
	case err != nil:
		return waypost.SearchToken{}, refuseBearer("the token is not valid")
	}
	return waypost.SearchToken{
		AppID: c.Subject, Scope: waypost.Scope{Stage: c.Stage}, TenantIDs: c.Tenants, From: c.From, MaxAccessLevel: c.Level, ExpiresAt: c.ExpiresAt.Time,
	}, nil
}

const (
	headerAuthorization = "Authorization"
	schemeBearer        = "Bearer"
)

// authenticateBearer checks the token of a search, that its application may still do
// anything, and the rate limit that the application has for searches, beside that of
// its signed requests. A signature is not looked at.
func (a *server) authenticateBearer(ctx context.Context, r *request) error {
	text, err := r.bearer()
	if err != nil {
		return err
	}
	token, err := a.tokens.verify(text)
	if err != nil {
		return err
	}
	app, err := a.tokens.apps.find(ctx, token.AppID)
	if err != nil {
		return err
	}
	if app.Disabled {
		return refuseBearer("the token's application is disabled")
	}
	token.Scope.Org = app.Org
	r.token, r.app, r.scope = token, app, token.Scope
	return a.limit(ctx, r, policyApplication, "search:"+app.ID, app.RatePerSecond, app.RateBurst)
}

// bearer returns the token of the request (RFC 6750, section 2.1).
func (r *request) bearer() (string, error) {
	value, given := r.signed().Header(headerAuthorization)
	scheme, token, _ := strings.Cut(value, " ")
	switch {
	case given == 0:
		return "", refuseBearer("it has no bearer token")
	case given > 1 || !strings.EqualFold(scheme, schemeBearer):
		return "", refuseBearer("its Authorization must be one bearer token")
	}
	return strings.TrimLeft(token, " "), nil
}

func refuseBearer(message string) *waypost.Error {
	return waypost.Errorf(waypost.CodeUnauthorized, headerAuthorization, "the request is not authorized: %s", message)
}

// issueToken makes a token for tenants that are the caller's organisation's or nobody's;
// the latter stay nobody's.
func (a *server) issueToken(ctx context.Context, r *request) (answer, error) {
	body := api.TokenBody{MaxAccessLevel: waypost.MaxAccessLevel, ExpiresIn: int64(waypost.DefaultTokenExpiry / time.Second)}
	token := waypost.SearchToken{AppID: r.app.ID, Scope: r.scope}
	var expiry time.Duration
	err := checked(waypost.DecodeJSON(r.body, &body), func(p *waypost.Problems) {
		token.TenantIDs, token.From, token.MaxAccessLevel = body.TenantIDs, body.From, body.MaxAccessLevel
		// What is longer would not fit a Duration.
		expiry = time.Duration(max(0, min(body.ExpiresIn, 1+int64(waypost.MaxTokenExpiry/time.Second)))) * time.Second
		p.AddAll(token.Validate(expiry))
	})
	if err != nil {
		return answer{}, err
	}
	if err := a.Articles.CheckTenants(ctx, r.scope.Org, token.TenantIDs); err != nil {
		return answer{}, err
	}
	token.ExpiresAt = a.Now().Add(expiry)
	signed, err := a.tokens.sign(token)
	if err != nil {
		return answer{}, err
	}
	if err := a.Audit.RecordAudit(ctx, r.by(), "token.issue", "tokens", map[string]any{
		"tenantIds": token.TenantIDs, "from": token.From, "maxAccessLevel": token.MaxAccessLevel,
		"expiresIn": int64(expiry / time.Second),
	}); err != nil {
		return answer{}, err
	}
	return ok(api.Token{AccessToken: signed, TokenType: schemeBearer, ExpiresIn: int64(expiry / time.Second)})
}
