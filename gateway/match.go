package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"waypost"
)

// hashETag is the strong ETag of a single object: a hash of what a GET of it answers
// (docs/contract.md, "ETags").
func hashETag(body []byte) string {
	sum := sha256.Sum256(body)
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
	header, given := r.signed().Header(headerIfMatch)
	switch {
	case given == 0 && r.app.RequireIfMatch:
		return waypost.Errorf(waypost.CodePreconditionRequired, headerIfMatch, "this application must send If-Match with the ETag of the version that it changes")
	case given == 0 || header == "*":
		return nil
	}
	body, err := encode(current)
	if err != nil {
		return err
	}
	tag := hashETag(body)
	tags, _ := entityTags(header)
	switch {
	case slices.Contains(tags, tag):
		return nil
	case slices.Contains(tags, weak+tag) || !slices.ContainsFunc(tags, func(t string) bool { return !strings.HasPrefix(t, weak) }):
		return waypost.Errorf(waypost.CodePreconditionFailed, headerIfMatch,
			`a weak ETag (W/"…") never matches in If-Match, whether the object has changed or not; send the ETag without W/, as the gateway answers it (a proxy that compresses answers may add W/)`)
	}
	return waypost.Errorf(waypost.CodePreconditionFailed, headerIfMatch, "the object has changed since; read it again")
}

// checkIfMatch refuses an If-Match that is neither * nor a list of entity tags (RFC
// 9110, section 13.1.1). A weak tag is one, and matches nothing.
func (r *request) checkIfMatch() error {
	header, given := r.signed().Header(headerIfMatch)
	if given == 0 || header == "*" {
		return nil
	}
	if _, valid := entityTags(header); !valid {
		return waypost.Errorf(waypost.CodeBadRequest, headerIfMatch, `If-Match must be * or ETags in quotes, such as "abc"; the quotes are part of an ETag`)
	}
	return nil
}

// weak precedes an entity tag that also names equivalent texts.
const weak = "W/"

// entityTags splits a list of entity tags, which may hold commas. A list may have empty
// elements (RFC 9110, section 5.6.1.2).
func entityTags(header string) (tags []string, valid bool) {
	for rest := header; ; {
		rest = strings.TrimLeft(rest, " \t,")
		if rest == "" {
			return tags, len(tags) > 0
		}
		quoted := strings.TrimPrefix(rest, weak)
		opaque, opened := strings.CutPrefix(quoted, `"`)
		opaque, after, closed := strings.Cut(opaque, `"`)
		if !opened || !closed || strings.ContainsAny(opaque, " \t") {
			return nil, false
		}
		tags = append(tags, rest[:len(rest)-len(after)])
		if after = strings.TrimLeft(after, " \t"); after == "" {
			return tags, true
		}
		if rest, valid = strings.CutPrefix(after, ","); !valid {
			return nil, false
		}
	}
}
