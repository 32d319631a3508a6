package gateway

import (
	"context"
	"io"
	"mime"
	"net/http"
	"strings"

	"waypost"
)

// bodyKind is what a route expects behind the headers.
type bodyKind int

const (
	// noBody takes none, or, for clients that cannot send a POST without one, an
	// empty JSON object.
	noBody bodyKind = iota
	jsonBody
)

// readBody reads the body and compares it with the one that was signed. Of one
// that is too large nothing more is read, and it cannot be compared: it is
// refused by checkMedia, in its turn.
func (a *api) readBody(_ context.Context, r *request) error {
	stream := r.c.Context().RequestBodyStream()
	if stream == nil {
		stream = http.NoBody
	}
	if r.c.Request().Header.ContentLength() > maxBody {
		r.tooLarge = true
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(stream, maxBody+1))
	if err != nil {
		return waypost.Errorf(waypost.CodeBadRequest, "", "the body did not arrive completely")
	}
	if len(body) > maxBody {
		r.tooLarge = true
		return nil
	}
	if !r.claim.VerifyBody(body) {
		return mismatch()
	}
	r.body = body
	return nil
}

func (a *api) selectStage(_ context.Context, r *request) error {
	stage, err := waypost.ParseStage(r.header("X-Cloud-Stage"))
	r.scope = waypost.Scope{Org: r.app.Org, Stage: stage}
	return err
}

// checkMedia refuses a body that is no JSON by its headers, then one that is too
// large.
func (a *api) checkMedia(_ context.Context, r *request) error {
	hasBody := len(r.body) > 0 || r.tooLarge
	if hasBody || r.route.body == jsonBody {
		if !isJSON(r.header("Content-Type")) {
			return waypost.Errorf(waypost.CodeUnsupportedMediaType, "Content-Type", "the Content-Type must be application/json;charset=UTF-8")
		}
		if coding := r.header("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
			return waypost.Errorf(waypost.CodeUnsupportedMediaType, "Content-Encoding", "the body must not be compressed")
		}
	}
	if r.tooLarge {
		return waypost.Errorf(waypost.CodePayloadTooLarge, "", "the body is larger than %d bytes", maxBody)
	}
	if hasBody && r.route.body == noBody {
		return decode(r, &struct{}{})
	}
	return nil
}

func isJSON(contentType string) bool {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || media != "application/json" {
		return false
	}
	charset, given := params["charset"]
	return len(params) == 0 || len(params) == 1 && given && strings.EqualFold(charset, "utf-8")
}

// decode reads the body into v; all its faults are one BadRequest.
func decode(r *request, v any) error { return waypost.DecodeJSON(r.body, v).Err("") }
