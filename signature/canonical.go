// Package signature signs and verifies requests with CLOUD1-HMAC-SHA256
// (docs/contract.md, "Signature"). It is pure: no clock, no network, no storage. The
// gateway verifies with it, clients sign with it.
package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// Algorithm is the first word of the X-Cloud-Signature header and the first
// line of the string to sign.
const Algorithm = "CLOUD1-HMAC-SHA256"

// The headers of a signed request.
const (
	HeaderTimestamp = "X-Cloud-Timestamp"
	HeaderNonce     = "X-Cloud-Nonce"
	HeaderBodyHash  = "X-Cloud-Content-SHA256"
	HeaderSignature = "X-Cloud-Signature"
)

// HeaderActor names the person for whom an application calls. It is signed where it is sent.
const HeaderActor = "X-Cloud-Actor"

// always lists the headers that every signature covers; whereSent those that it
// covers if the request has them. Both are in lower case and sorted.
var (
	always    = []string{"host", "x-cloud-content-sha256", "x-cloud-nonce", "x-cloud-timestamp"}
	whereSent = []string{"content-type", "idempotency-key", "if-match", "x-cloud-actor", "x-cloud-stage"}
)

// Header is one header line as received or as it will be sent.
type Header struct {
	Name  string
	Value string
}

// Request is what a signature can cover. Path and Query are the raw bytes before
// and after the first '?' of the request line, never decoded. Headers has every
// header line, Host included; a header that is sent twice is there twice.
type Request struct {
	Method  string
	Path    string
	Query   string
	Headers []Header
}

// Header returns the value of the first header of this name (any case) and how
// many there are.
func (r Request) Header(name string) (value string, count int) {
	for _, h := range r.Headers {
		if strings.EqualFold(h.Name, name) {
			if count == 0 {
				value = h.Value
			}
			count++
		}
	}
	return value, count
}

// Canonical is the canonical request over the signed header names, which must be
// in lower case and sorted, and the body's hash.
func Canonical(r Request, signed []string, bodyHash string) string {
	lines := []string{r.Method, r.Path, CanonicalQuery(r.Query)}
	for _, name := range signed {
		value, _ := r.Header(name)
		lines = append(lines, name+":"+CanonicalValue(value))
	}
	lines = append(lines, "", strings.Join(signed, ";"), bodyHash)
	return strings.Join(lines, "\n")
}

// CanonicalQuery sorts the raw pieces of a query bytewise, drops empty ones and gives a bare piece
// its '='. Queries that it makes the same have the same signature.
func CanonicalQuery(raw string) string {
	pieces := slices.DeleteFunc(strings.Split(raw, "&"), func(p string) bool { return p == "" })
	for i, p := range pieces {
		if !strings.Contains(p, "=") {
			pieces[i] = p + "="
		}
	}
	slices.Sort(pieces)
	return strings.Join(pieces, "&")
}

// CanonicalValue trims a header value and writes inner runs of ASCII white space as
// one blank. Values that it makes the same have the same signature.
func CanonicalValue(v string) string {
	return strings.Join(strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune(" \t\r\n\v\f", r) }), " ")
}

// StringToSign binds a canonical request to its time and nonce.
func StringToSign(timestamp, nonce, canonical string) string {
	return Algorithm + "\n" + timestamp + "\n" + nonce + "\n" + HashBody([]byte(canonical))
}

// HashBody returns the lower-case hex SHA-256 of a body, an empty one included.
func HashBody(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

func sign(secretKey, stringToSign string) string {
	mac := hmac.New(sha256.New, []byte(secretKey))
	mac.Write([]byte(stringToSign))
	return hex.EncodeToString(mac.Sum(nil))
}
