package signature

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Key is an application's access key and secret key.
type Key struct {
	AccessKey string
	SecretKey string
}

// NewNonce returns a random nonce of 26 characters.
func NewNonce() string { return rand.Text() }

// Sign returns the four headers that make r a signed request. r.Headers must have Host
// and every other header that is signed. The nonce is 16 to 64 of A-Z a-z 0-9 '_' '-',
// and is used once.
func Sign(r Request, key Key, body []byte, now time.Time, nonce string) []Header {
	return signHash(r, key, HashBody(body), now, nonce)
}

func signHash(r Request, key Key, bodyHash string, now time.Time, nonce string) []Header {
	timestamp := strconv.FormatInt(now.Unix(), 10)
	added := []Header{
		{HeaderTimestamp, timestamp},
		{HeaderNonce, nonce},
		{HeaderBodyHash, bodyHash},
	}
	r.Headers = slices.Concat(r.Headers, added)
	signed := slices.Clone(always)
	for _, name := range whereSent {
		if _, n := r.Header(name); n > 0 {
			signed = append(signed, name)
		}
	}
	slices.Sort(signed)
	mac := sign(key.SecretKey, StringToSign(timestamp, nonce, Canonical(r, signed, bodyHash)))
	return append(added, Header{HeaderSignature, Algorithm +
		" Credential=" + key.AccessKey + ", SignedHeaders=" + strings.Join(signed, ";") + ", Signature=" + mac})
}

// SignHTTP signs req as net/http's client will send it. Everything else of req,
// its headers included, must be final; body is what req.Body will yield.
func SignHTTP(req *http.Request, key Key, body []byte, now time.Time, nonce string) {
	SignHTTPHash(req, key, HashBody(body), now, nonce)
}

// SignHTTPHash is SignHTTP for a body that is not in memory: bodyHash is the
// lower-case hex SHA-256 of what req.Body will yield.
func SignHTTPHash(req *http.Request, key Key, bodyHash string, now time.Time, nonce string) {
	path, query, _ := strings.Cut(req.URL.RequestURI(), "?")
	r := Request{
		Method: cmp.Or(req.Method, http.MethodGet), Path: path, Query: query,
		Headers: []Header{{"Host", cmp.Or(req.Host, req.URL.Host)}},
	}
	for name, values := range req.Header {
		for _, v := range values {
			r.Headers = append(r.Headers, Header{name, v})
		}
	}
	for _, h := range signHash(r, key, bodyHash, now, nonce) {
		req.Header.Set(h.Name, h.Value)
	}
}
