package gateway_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"waypost"
	"waypost/gateway"
)

// token issues a search token; the body names what it permits.
func (f *fixture) token(body string) string {
	f.t.Helper()
	return f.send("POST", "/v1/tokens", body).expect(f.t, 200).str(f.t, "access_token")
}

func TestIssueToken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.otherOrg().putArticle(`{"id":"x","tenant_id":"theirs","name":"n","identifier":"i"}`)
	a := f.do(call{method: "POST", target: "/v1/tokens", body: `{"tenantIds":["site","11111111-2222-3333-4444-555555555555"],"from":["frontend"]}`, headers: map[string]string{"X-Cloud-Stage": "test"}}).expect(t, 200)
	token := a.str(t, "access_token")
	if a.raw != `{"access_token":"`+token+`","token_type":"Bearer","expires_in":3600}` || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s %v", a.raw, a.header)
	}
	for i, want := range []string{
		`{"alg":"HS256","kid":"k1","typ":"JWT"}`,
		fmt.Sprintf(`{"sub":%q,"aud":["waypost/article-search"],"exp":%d,"iat":%d,"stage":"test","tenants":["site","11111111-2222-3333-4444-555555555555"],"from":["frontend"],"level":10}`,
			f.app.ID, f.clock.Now().Add(time.Hour).Unix(), f.clock.Now().Unix()),
	} {
		if got, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[i]); err != nil || string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	// As long as one can be, it fits the headers of a search.
	many := make([]string, waypost.MaxTokenTenants)
	for i := range many {
		many[i] = fmt.Sprintf(`"%064d"`, i)
	}
	long := f.token(`{"tenantIds":[` + strings.Join(many, ",") + `],"from":["frontend","admin"],"maxAccessLevel":0,"expiresIn":2592000}`)
	f.search(long, "from=admin&keywords=x&tenant_id="+strings.Trim(many[99], `"`)).expect(t, 200)
	once := call{method: "POST", target: "/v1/tokens", body: `{"tenantIds":["site"],"from":["admin"],"expiresIn":60}`, headers: map[string]string{"Idempotency-Key": "k"}}
	first := f.do(once).expect(t, 200)
	f.clock.advance(time.Second)
	if again := f.do(once).expect(t, 200); again.raw != first.raw || first.json["expires_in"] != 60.0 {
		t.Errorf("first %s, again %s", first.raw, again.raw)
	}

	for body, details := range map[string]string{
		`{}`: "NullValue tenantIds; NullValue from",
		`{"tenantIds":"site","from":["nope"],"scope":"x"}`:                                   "InvalidType tenantIds; UnknownField scope; InvalidFormat from[0]",
		`{"tenantIds":["site",null,"a b","site"],"from":["admin","admin"]}`:                  "NullValue tenantIds[1]; InvalidFormat tenantIds[2]; Duplicate tenantIds[3]; Duplicate from[1]",
		`{"tenantIds":["site"],"from":["admin"],"maxAccessLevel":11,"expiresIn":59}`:         "OutOfRange maxAccessLevel; OutOfRange expiresIn",
		`{"tenantIds":["site"],"from":["admin"],"maxAccessLevel":-1,"expiresIn":2592001}`:    "OutOfRange maxAccessLevel; OutOfRange expiresIn",
		`{"tenantIds":["site"],"from":["admin"],"expiresIn":9223372036854775807}`:            "OutOfRange expiresIn",
		`{"tenantIds":["site"],"from":["admin"],"expiresIn":-9223372036854775808}`:           "OutOfRange expiresIn",
		`{"tenantIds":["site"],"from":["admin"],"expiresIn":18446744073709}`:                 "OutOfRange expiresIn",
		`{"tenantIds":["site"],"from":["admin"],"expiresIn":3600.5,"maxAccessLevel":"high"}`: "InvalidType expiresIn; InvalidType maxAccessLevel",
		`{"tenantIds":[` + strings.Repeat(`"x",`, 100) + `"y"],"from":["admin"]}`:            "OutOfRange tenantIds",
		`[]`: "InvalidType ",
	} {
		f.send("POST", "/v1/tokens", body).fault(t, 400, "BadRequest", strings.Split(details, "; ")...)
	}
	f.send("POST", "/v1/tokens", `{"tenantIds":["site","theirs"],"from":["frontend"]}`).fault(t, 409, "Conflict", "Duplicate tenantIds[1]")
	poor := keyOf(f.newApp(waypost.GrantArticlesWrite))
	f.do(call{method: "POST", target: "/v1/tokens", body: `{"tenantIds":["site"],"from":["frontend"]}`, key: &poor}).fault(t, 401, "Unauthorized", "GrantMissing grants")
}

// Tokens that we have not issued, or not like this, or not for now.
func TestTokensRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const query = "tenant_id=site&from=frontend&keywords=x"
	good := f.token(`{"tenantIds":["site"],"from":["frontend"]}`)
	f.search(good, query).expect(t, 200)

	key := f.options.TokenKeys[0].Key
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	claims := func(change ...any) jwt.MapClaims {
		c := jwt.MapClaims{
			"sub": f.app.ID, "aud": "waypost/article-search", "exp": f.clock.Now().Add(time.Hour).Unix(),
			"stage": "release", "tenants": []string{"site"}, "from": []string{"frontend"}, "level": 10,
		}
		for i := 0; i < len(change); i += 2 {
			if name := change[i].(string); change[i+1] == nil {
				delete(c, name)
			} else {
				c[name] = change[i+1]
			}
		}
		return c
	}
	made := func(method jwt.SigningMethod, header map[string]any, c jwt.MapClaims, key any) string {
		t.Helper()
		unsigned := jwt.NewWithClaims(method, c)
		unsigned.Header["kid"] = "k1"
		maps.Copy(unsigned.Header, header)
		signed, err := unsigned.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	hs256 := jwt.SigningMethodHS256
	f.search(made(hs256, nil, claims(), key), query).expect(t, 200)
	unknownApp := waypost.NewID(waypost.PrefixApplication, f.clock.Now())
	parts := strings.Split(good, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	admin := base64.RawURLEncoding.EncodeToString(bytes.Replace(payload, []byte("frontend"), []byte("admin"), 1))
	const invalid = "the request is not authorized: the token is not valid"
	for name, tc := range map[string]struct{ token, message string }{
		"none":                  {made(jwt.SigningMethodNone, nil, claims(), jwt.UnsafeAllowNoneSignatureType), invalid},
		"none, signed":          {parts[0] + "." + parts[1] + ".", invalid},
		"RS256":                 {made(jwt.SigningMethodRS256, nil, claims(), rsaKey), invalid},
		"RS256 with our key":    {made(hs256, map[string]any{"alg": "RS256"}, claims(), key), invalid},
		"HS512 with our key":    {made(jwt.SigningMethodHS512, nil, claims(), key), invalid},
		"another key":           {made(hs256, nil, claims(), bytes.Repeat([]byte{1}, 32)), invalid},
		"the ring's key itself": {made(hs256, nil, claims(), bytes.Repeat([]byte{7}, 32)), invalid},
		"no key":                {made(hs256, nil, claims(), []byte{}), invalid},
		"another kid":           {made(hs256, map[string]any{"kid": "k2"}, claims(), key), invalid},
		"no kid":                {made(hs256, map[string]any{"kid": nil}, claims(), key), invalid},
		"a kid of another type": {made(hs256, map[string]any{"kid": []string{"k1"}}, claims(), key), invalid},
		"another audience":      {made(hs256, nil, claims("aud", "waypost/something-else"), key), invalid},
		"no audience":           {made(hs256, nil, claims("aud", nil), key), invalid},
		"no end":                {made(hs256, nil, claims("exp", nil), key), invalid},
		"an end of text":        {made(hs256, nil, claims("exp", "never"), key), invalid},
		"over":                  {made(hs256, nil, claims("exp", f.clock.Now().Unix()), key), "the request is not authorized: the token has expired"},
		"over, and forged":      {made(hs256, nil, claims("exp", f.clock.Now().Unix()-1), bytes.Repeat([]byte{1}, 32)), invalid},
		"an unknown app":        {made(hs256, nil, claims("sub", unknownApp), key), "the request is not authorized: the token's application is disabled"},
		"no app":                {made(hs256, nil, claims("sub", nil), key), "the request is not authorized: the token's application is disabled"},
		"more permitted":        {parts[0] + "." + admin + "." + parts[2], invalid},
		"another signature":     {parts[0] + "." + parts[1] + "." + strings.Repeat("A", 43), invalid},
		"no signature":          {parts[0] + "." + parts[1], invalid},
		"a part more":           {good + ".e30", invalid},
		"padding":               {good + "=", invalid},
		"spare bits":            {good[:len(good)-1] + nextLetter(good[len(good)-1]), invalid},
		"a word":                {"x", invalid},
		"nothing":               {"", invalid},
	} {
		a := f.search(tc.token, query).refused(t, 401, "Unauthorized", []string{}...)
		if a.json["message"] != tc.message || a.json["target"] != "Authorization" || a.header.Get("WWW-Authenticate") != `Bearer realm="waypost", error="invalid_token"` {
			t.Errorf("%s: %s, WWW-Authenticate %s", name, a.raw, a.header.Get("WWW-Authenticate"))
		}
	}

	// A search takes no signature, and nothing else takes a token.
	signed := f.get("/api/v1/articles/search?"+query).refused(t, 401, "Unauthorized", []string{}...)
	if signed.header.Get("WWW-Authenticate") != `Bearer realm="waypost"` {
		t.Errorf("WWW-Authenticate %s", signed.header.Get("WWW-Authenticate"))
	}
	bearer := map[string]string{"Authorization": "Bearer " + good}
	a := f.do(call{method: "GET", target: "/v1/articles/a", unsigned: true, headers: bearer}).fault(t, 401, "Unauthorized", "MissingSignature X-Cloud-Signature")
	if a.header.Get("WWW-Authenticate") != "CLOUD1-HMAC-SHA256" {
		t.Errorf("WWW-Authenticate %s", a.header.Get("WWW-Authenticate"))
	}
	f.do(call{method: "GET", target: "/v1/articles/a", headers: bearer}).expect(t, 404) // the signature counts
	for _, value := range []string{"Basic " + good, good, "Bearer", "Bearer" + good, "Bearer " + good + ", Bearer " + good, "CLOUD1-HMAC-SHA256 " + good} {
		f.do(call{method: "GET", target: "/api/v1/articles/search?" + query, unsigned: true, headers: map[string]string{"Authorization": value}}).refused(t, 401, "Unauthorized", []string{}...)
	}
	for _, value := range []string{"bearer " + good, "BEARER   " + good} {
		f.do(call{method: "GET", target: "/api/v1/articles/search?" + query, unsigned: true, headers: map[string]string{"Authorization": value}}).expect(t, 200)
	}
	twice, _ := f.raw("GET", "/api/v1/articles/search?"+query, "", "Host: h", "Authorization: Bearer "+good, "authorization: Bearer "+good)
	twice.refused(t, 401, "Unauthorized", []string{}...)
	if log := f.log.String(); strings.Contains(log, parts[2]) || strings.Contains(log, "keywords") {
		t.Error("the log holds a token or a query")
	}
}

// nextLetter is a letter of base64url that differs in its lowest bit, which the last
// one of 32 bytes does not use.
func nextLetter(b byte) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(letters[strings.IndexByte(letters, b)^1])
}

// What ends a token before its time, and what does not.
func TestTokensEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const query = "tenant_id=site&from=frontend&keywords=x"
	const body = `{"tenantIds":["site"],"from":["frontend"],"expiresIn":60}`
	token := f.token(body)
	f.clock.advance(60*time.Second - 1)
	f.search(token, query).expect(t, 200)
	f.clock.advance(1)
	f.search(token, query).refused(t, 401, "Unauthorized", []string{}...)

	// A new first key: old tokens go on, and new ones need it.
	token = f.token(body)
	ring, err := waypost.ParseKeyring("k2:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{8}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	added, err := ring.Derive("search-token")
	if err != nil {
		t.Fatal(err)
	}
	rotated := f.in(t)
	rotated.options.TokenKeys = append(added, f.options.TokenKeys...)
	rotated.addr = rotated.serve()
	rotated.search(token, query).expect(t, 200)
	newer := rotated.token(body)
	rotated.search(newer, query).expect(t, 200)
	f.search(newer, query).refused(t, 401, "Unauthorized", []string{}...)
	rotated.options.TokenKeys = added
	rotated.addr = rotated.serve()
	rotated.search(token, query).refused(t, 401, "Unauthorized", []string{}...)
	rotated.search(newer, query).expect(t, 200)

	// A disabled application's tokens end within a second, also on a process that has
	// just seen it.
	if err := f.store.DisableApplication(t.Context(), "", f.app.ID); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(500 * time.Millisecond)
	if a := f.search(token, query).refused(t, 401, "Unauthorized", []string{}...); !strings.Contains(a.str(t, "message"), "disabled") {
		t.Errorf("%s", a.raw)
	}
}

// A token that names a tenant of nobody does not open the articles of whoever gets
// it.
func TestTokenOfForeignTenant(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	token := f.token(`{"tenantIds":["shared"],"from":["frontend"]}`)
	const query = "tenant_id=shared&from=frontend&keywords=secret"
	if a := f.search(token, query).expect(t, 200); a.raw != `{"code":0,"status":"success","message":{"meta":{"current_page":1,"total_pages":0,"total_count":0},"items":[]}}` {
		t.Errorf("%s", a.raw)
	}
	other := f.otherOrg()
	other.putArticle(`{"id":"x","tenant_id":"shared","name":"secret","identifier":"i"}`)
	f.indexed()
	a := f.search(token, query).refused(t, 401, "Unauthorized", []string{}...)
	if a.json["target"] != "tenant_id" || a.header.Get("WWW-Authenticate") != `Bearer realm="waypost", error="insufficient_scope"` {
		t.Errorf("%s %v", a.raw, a.header)
	}
	f.send("POST", "/v1/tokens", `{"tenantIds":["shared"],"from":["frontend"]}`).fault(t, 409, "Conflict", "Duplicate tenantIds[0]")
	if a := f.search(other.token(`{"tenantIds":["shared"],"from":["frontend"]}`), query).expect(t, 200); len(hits(t, a)) != 1 {
		t.Errorf("%s", a.raw)
	}
}

// Searches have a limit beside that of the application's signed requests.
func TestSearchLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *gateway.Options) { o.AddressRate = 1000 })
	slow := f.in(t)
	slow.key = keyOf(f.limitedApp(1, 1))
	token := slow.token(`{"tenantIds":["site"],"from":["frontend"]}`) // takes what it may sign
	const query = "tenant_id=site&from=frontend&keywords=x"
	first := f.search(token, query).expect(t, 200)
	if got := first.header.Get("RateLimit-Policy"); got != `"address";q=2000;w=2, "application";q=1;w=1` {
		t.Errorf("RateLimit-Policy %s", got)
	}
	a := f.search(token, query)
	for range 50 { // on a busy machine a second passes between two requests
		if a.status == 429 {
			break
		}
		a = f.search(token, query)
	}
	if a.refused(t, 429, "TooManyRequests", []string{}...); a.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
	}
	f.search("x", query).refused(t, 401, "Unauthorized", []string{}...) // costs the application nothing

	narrow := newFixture(t, func(o *gateway.Options) { o.AddressRate = 1 })
	for range 50 {
		if a = narrow.search("x", query); a.status == 429 {
			break
		}
	}
	a.refused(t, 429, "TooManyRequests", []string{}...)
}
