package signature

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault says why a signature is refused; its value is the detail code of the
// answer (docs/contract.md, "Signature checks").
type Fault string

// The faults that this package finds.
const (
	Missing   Fault = "MissingSignature"
	Malformed Fault = "MalformedSignature"
	Expired   Fault = "RequestExpired"
	Mismatch  Fault = "SignatureMismatch"
)

// Error is a refused signature.
type Error struct {
	Fault   Fault
	Header  string // the faulty header
	Message string
}

func (e *Error) Error() string { return string(e.Fault) + ": " + e.Header + ": " + e.Message }

func malformed(header, format string, args ...any) *Error {
	return &Error{Malformed, header, fmt.Sprintf(format, args...)}
}

// Limits of a signature.
const (
	// MaxAge is how far a request's time may be from the verifier's, either way. A nonce
	// must be remembered for more than twice as long.
	MaxAge = 300 * time.Second

	maxAccessKey     = 128
	maxSignedHeaders = 32
)

// Claim is what a request says about its signature: well formed, not verified.
type Claim struct {
	AccessKey string
	Nonce     string
	BodyHash  string // of the body that has yet to be compared
	Time      time.Time

	signed    []string
	timestamp string
	mac       string
}

// Parse reads a request's signature headers and checks their shape: it returns a
// *Error with the fault Missing or Malformed, or the claim.
func Parse(r Request) (Claim, error) {
	header, n := r.Header(HeaderSignature)
	switch {
	case n == 0:
		return Claim{}, &Error{Missing, HeaderSignature, "is missing; sign the request"}
	case n > 1:
		return Claim{}, malformed(HeaderSignature, "stands twice; send it once")
	}
	c, err := parseHeader(header)
	if err != nil {
		return Claim{}, err
	}
	if err := c.checkSigned(r); err != nil {
		return Claim{}, err
	}
	c.timestamp, _ = r.Header(HeaderTimestamp)
	c.Nonce, _ = r.Header(HeaderNonce)
	c.BodyHash, _ = r.Header(HeaderBodyHash)
	seconds, err := strconv.ParseInt(c.timestamp, 10, 64)
	if err != nil || len(c.timestamp) > 12 || strconv.FormatInt(seconds, 10) != c.timestamp || seconds < 0 {
		return Claim{}, malformed(HeaderTimestamp, "must be the unix time in seconds, such as 1767225600, not in milliseconds")
	}
	c.Time = time.Unix(seconds, 0)
	if len(c.Nonce) < 16 || len(c.Nonce) > 64 || !consistsOf(c.Nonce, wordBytes) {
		return Claim{}, malformed(HeaderNonce, "must be 16 to 64 of A-Z a-z 0-9 _ -")
	}
	if !isHash(c.BodyHash) {
		return Claim{}, malformed(HeaderBodyHash, "must be the body's SHA-256 in 64 lower-case hex digits")
	}
	return c, nil
}

// parseHeader reads the X-Cloud-Signature header. It accepts exactly one
// spelling, so that a request has exactly one signature.
func parseHeader(header string) (Claim, error) {
	want := malformed(HeaderSignature, "must be %s Credential=<access key>, SignedHeaders=<a;b;c>, Signature=<64 hex>", Algorithm)
	rest, begins := strings.CutPrefix(header, Algorithm+" Credential=")
	accessKey, rest, lists := strings.Cut(rest, ", SignedHeaders=")
	names, mac, ends := strings.Cut(rest, ", Signature=")
	if !begins || !lists || !ends {
		return Claim{}, want
	}
	if accessKey == "" || len(accessKey) > maxAccessKey || !consistsOf(accessKey, wordBytes) {
		return Claim{}, malformed(HeaderSignature, "the credential is no access key")
	}
	if !isHash(mac) {
		return Claim{}, malformed(HeaderSignature, "the signature must be 64 lower-case hex digits")
	}
	signed := strings.Split(names, ";")
	if len(signed) > maxSignedHeaders {
		return Claim{}, malformed(HeaderSignature, "more than %d signed headers", maxSignedHeaders)
	}
	for i, name := range signed {
		if name == "" || !consistsOf(name, nameBytes) {
			return Claim{}, malformed(HeaderSignature, "SignedHeaders must be names in lower case joined with ';'")
		}
		if i > 0 && signed[i-1] >= name {
			return Claim{}, malformed(HeaderSignature, "SignedHeaders must be sorted, without duplicates")
		}
	}
	return Claim{AccessKey: accessKey, signed: signed, mac: mac}, nil
}

// checkSigned checks that everything that must be signed is, and that what is
// signed stands in the request exactly once.
func (c Claim) checkSigned(r Request) error {
	for _, name := range always {
		if _, n := r.Header(name); n == 0 {
			return malformed(name, "is missing; send it, and sign it")
		}
		if !slices.Contains(c.signed, name) {
			return malformed(name, "must be in SignedHeaders, and be signed")
		}
	}
	for _, name := range whereSent {
		if _, n := r.Header(name); n > 0 && !slices.Contains(c.signed, name) {
			return malformed(name, "was sent and is not in SignedHeaders; sign it, or keep proxies and libraries from adding it")
		}
	}
	for _, name := range c.signed {
		switch _, n := r.Header(name); {
		case n == 0:
			return malformed(name, "is in SignedHeaders but was not sent")
		case n > 1:
			return malformed(name, "stands twice; send it once")
		case strings.EqualFold(name, HeaderSignature):
			return malformed(name, "cannot sign itself")
		}
	}
	return nil
}

// CheckTime returns a *Error with the fault Expired if the request is older or
// newer than MaxAge.
func (c Claim) CheckTime(now time.Time) error {
	const most = int64(MaxAge / time.Second)
	switch age := now.Unix() - c.Time.Unix(); {
	case age > most:
		return &Error{Expired, HeaderTimestamp, fmt.Sprintf("is %d seconds behind the server's time, and may be %d; set your clock, and sign each attempt anew", age, most)}
	case age < -most:
		return &Error{Expired, HeaderTimestamp, fmt.Sprintf("is %d seconds ahead of the server's time, and may be %d; set your clock, and send seconds", -age, most)}
	}
	return nil
}

// Verify tells, in constant time, whether the claim's signature over r and the
// claimed body hash was made with secretKey.
func (c Claim) Verify(r Request, secretKey string) bool {
	mac := sign(secretKey, StringToSign(c.timestamp, c.Nonce, Canonical(r, c.signed, c.BodyHash)))
	return subtle.ConstantTimeCompare([]byte(mac), []byte(c.mac)) == 1
}

// VerifyBody tells, in constant time, whether body is the one that was signed.
func (c Claim) VerifyBody(body []byte) bool {
	sum := sha256.Sum256(body)
	return c.VerifyHash(sum[:])
}

// VerifyHash is VerifyBody for a body of which only the SHA-256 is known.
func (c Claim) VerifyHash(sum []byte) bool {
	return subtle.ConstantTimeCompare([]byte(hex.EncodeToString(sum)), []byte(c.BodyHash)) == 1
}

const (
	hexDigits  = "0123456789abcdef"
	lowerBytes = "abcdefghijklmnopqrstuvwxyz0123456789"
	wordBytes  = lowerBytes + "ABCDEFGHIJKLMNOPQRSTUVWXYZ_-"
	nameBytes  = lowerBytes + "!#$%&'*+-.^_`|~" // of a header name (RFC 9110, "token") in lower case
)

func consistsOf(s, allowed string) bool { return strings.Trim(s, allowed) == "" }

func isHash(s string) bool { return len(s) == 64 && consistsOf(s, hexDigits) }
