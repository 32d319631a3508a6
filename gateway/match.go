package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"waypost"
)

// etagOf is the strong ETag of a single object: a hash of what a GET of it answers
// (contract, chapter 3).
func etagOf(body any) (string, error) {
	b, err := encode(body)
	if err != nil {
		return "", err
	}
	return hashETag(b), nil
}

func hashETag(b []byte) string {
	sum := sha256.Sum256(b)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// encoded is a body that encode has written already.
type encoded []byte

// encode writes an answer's body.
func encode(body any) ([]byte, error) {
	if done, ok := body.(encoded); ok {
		return done, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

const headerIfMatch = "If-Match"

// checkMatch compares If-Match with the object that is about to change; current is
// what a GET of it would answer. It must run where nobody else can change the
// object meanwhile: in the transaction of the change.
func (r *request) checkMatch(current any) error {
	header := r.header(headerIfMatch)
	if header == "" {
		if r.app.RequireIfMatch {
			return waypost.Errorf(waypost.CodePreconditionRequired, headerIfMatch, "this application must send If-Match with the ETag of the version that it changes")
		}
		return nil
	}
	if header == "*" {
		return nil
	}
	tag, err := etagOf(current)
	if err != nil {
		return err
	}
	for given := range strings.SplitSeq(header, ",") {
		if strings.TrimSpace(given) == tag {
			return nil
		}
	}
	return waypost.Errorf(waypost.CodePreconditionFailed, headerIfMatch, "the object has changed since; read it again")
}

// checkIfMatch refuses an If-Match that is no list of entity tags (RFC 9110,
// section 13.1.1). A weak tag is one, and matches nothing.
func checkIfMatch(header string) error {
	if header == "" || header == "*" {
		return nil
	}
	for given := range strings.SplitSeq(header, ",") {
		tag := strings.TrimPrefix(strings.TrimSpace(given), "W/")
		if len(tag) < 2 || tag[0] != '"' || tag[len(tag)-1] != '"' || strings.Contains(tag[1:len(tag)-1], `"`) {
			return waypost.Errorf(waypost.CodeBadRequest, headerIfMatch, `If-Match must be * or ETags in quotes, such as "abc"`)
		}
	}
	return nil
}
