package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"waypost"
)

// refused says that the person's role does not have the right to something.
type refused struct {
	grant waypost.Grant // "": to a page
}

func (r refused) Error() string { return fmt.Sprintf("the role has no right to this (%s)", r.grant) }

// away says that the gateway did not answer, or that something else answered in its place.
type away struct{ error }

func (a away) Unwrap() error { return a.error }

// errSignIn says that somebody must sign in first.
var errSignIn = errors.New("nobody is signed in")

// errorPage is the data of the page that tells of an error.
type errorPage struct {
	Status      int
	Title, Text string
	Faults      []waypost.Detail // what the gateway said of fields
	Again       bool             // the page tries again by itself
	RequestID   string
	Back        string // where the person came from, "" if that is not known
}

// statusGone is logged and counted for a request whose browser has gone, as nginx does.
const statusGone = 499

// fail answers with an error: a page that says what it means, with the id of the request.
func (v *visit) fail(err error) {
	if errors.Is(err, waypost.ErrSessionOver) {
		err = errSignIn
	}
	if strings.HasSuffix(v.r.URL.Path, ".json") || strings.HasSuffix(v.r.URL.Path, "/draft.yaml") {
		v.failScript(err)
		return
	}
	if errors.Is(err, errSignIn) {
		v.askToSignIn()
		return
	}
	if v.r.Context().Err() != nil {
		v.status = statusGone
		return
	}
	p := errorPage{Status: http.StatusInternalServerError, Title: v.t("errors.internal.title"), Text: v.t("errors.internal.text"), RequestID: v.id}
	say := func(status int, title, text string) { p.Status, p.Title, p.Text = status, title, text }
	var asked *waypost.Error
	switch {
	case errors.As(err, new(refused)):
		say(http.StatusForbidden, v.t("errors.refused.title"), v.t("errors.refused.text"))
	case errors.As(err, new(sessionless)):
		p.Again = true
		say(http.StatusServiceUnavailable, v.t("errors.away.title"), v.t("errors.sessions"))
	case errors.As(err, new(away)):
		p.Again = true
		say(http.StatusServiceUnavailable, v.t("errors.away.title"), v.t("errors.away.text"))
	case errors.As(err, new(*http.MaxBytesError)):
		say(http.StatusRequestEntityTooLarge, v.t("errors.large.title"), v.t("errors.large.text"))
	case errors.As(err, &asked):
		p.Faults = asked.Details
		switch asked.Code {
		case waypost.CodeNotFound:
			say(http.StatusNotFound, v.t("errors.missing.title"), v.t("errors.missing.text"))
		case waypost.CodeBadRequest, waypost.CodeUnprocessableEntity:
			say(http.StatusBadRequest, v.t("errors.faulty.title"), asked.Message)
		case waypost.CodeConflict, waypost.CodePreconditionFailed:
			say(http.StatusConflict, v.t("errors.conflict.title"), asked.Message)
		case waypost.CodeUnsupportedMediaType:
			say(http.StatusUnsupportedMediaType, v.t("errors.kind.title"), v.t("errors.kind.text"))
		case waypost.CodePayloadTooLarge:
			say(http.StatusRequestEntityTooLarge, v.t("errors.large.title"), asked.Message)
		case waypost.CodePreconditionRequired:
			say(http.StatusConflict, v.t("errors.conflict.title"), asked.Message)
		case waypost.CodeTooManyRequests, waypost.CodeServiceUnavailable:
			p.Again = true
			say(http.StatusServiceUnavailable, v.t("errors.away.title"), v.t("errors.away.text"))
		case waypost.CodeUnauthorized:
			// The person may: the console's own key, or one of its grants, is missing.
			say(http.StatusBadGateway, v.t("errors.key.title"), v.t("errors.key.text"))
		}
	}
	if len(p.Faults) == 1 && p.Text == p.Faults[0].Target+": "+p.Faults[0].Message {
		p.Text = "" // a message of one fault says it
	}
	if from, err := url.Parse(v.r.Referer()); err == nil && from.Host == v.r.Host && from.RequestURI() != v.r.URL.RequestURI() {
		p.Back = localPath(from.RequestURI())
	}
	// A form would be sent once more; that of a launch has a key, by which it launches once.
	p.Again = p.Again && (v.r.Method == http.MethodGet || v.r.PostFormValue("key") != "")
	v.log = append(v.log, slog.String("error", err.Error()))
	if err := v.render(page{Name: "error", Title: p.Title, Status: p.Status, Data: p}); err != nil {
		v.status = http.StatusInternalServerError
		v.log = append(v.log, slog.String("render", err.Error()))
		http.Error(v.w, v.t("errors.internal.title"), v.status)
	}
}

// failScript answers a call of the canvas or of the editor of YAML with an error, in the gateway's
// form: a script cannot read the page of an error or of the sign-in.
func (v *visit) failScript(err error) {
	statuses := map[waypost.ErrorCode]int{
		waypost.CodeNotFound: http.StatusNotFound, waypost.CodeBadRequest: http.StatusBadRequest, waypost.CodeUnprocessableEntity: http.StatusUnprocessableEntity,
		waypost.CodeConflict: http.StatusConflict, waypost.CodePreconditionFailed: http.StatusPreconditionFailed, waypost.CodePayloadTooLarge: http.StatusRequestEntityTooLarge,
		waypost.CodeUnsupportedMediaType: http.StatusUnsupportedMediaType,
	}
	said := waypost.Error{Message: v.t("errors.away.text")}
	v.status = http.StatusServiceUnavailable
	if asked := (*waypost.Error)(nil); errors.As(err, &asked) && statuses[asked.Code] != 0 {
		v.status, said = statuses[asked.Code], *asked
	} else if errors.As(err, new(refused)) {
		v.status, said.Message = http.StatusForbidden, v.t("errors.refused.text")
	} else if errors.As(err, new(*http.MaxBytesError)) {
		v.status, said.Message = http.StatusRequestEntityTooLarge, v.t("errors.large.text")
	} else if errors.Is(err, errSignIn) {
		v.status, said.Message = http.StatusUnauthorized, v.t("signIn.title")
	}
	if v.status >= http.StatusInternalServerError {
		said.Message += " (" + v.t("errors.request") + " " + v.id + ")"
	}
	v.log = append(v.log, slog.String("error", err.Error()))
	v.w.Header().Set("Content-Type", "application/json")
	v.w.WriteHeader(v.status)
	// The browser may have gone.
	_ = json.NewEncoder(v.w).Encode(map[string]any{"message": said.Message, "target": said.Target, "detail": said.Details})
}

func (v *visit) notFound() error {
	return waypost.Errorf(waypost.CodeNotFound, "path", "there is no such page")
}

// crossOrigin refuses a form that another site has sent.
func (v *visit) crossOrigin() error { return refused{} }

// sessionless says that sessions cannot be read or written.
type sessionless struct{ error }

// withoutSession answers while Redis, which has the sessions, is away.
func (c *console) withoutSession(w http.ResponseWriter, r *http.Request, err error) {
	v := &visit{console: c, w: w, r: r, id: waypost.NewID("req_", time.Now()), chosen: preferencesOf(c, r)}
	w.Header().Set("X-Request-Id", v.id)
	w.Header().Set("Retry-After", "5")
	v.fail(sessionless{err})
	if v.status != statusGone {
		c.Log.Warn("sessions are away", "request", v.id, "error", err)
	}
}
