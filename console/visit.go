package console

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"waypost"
)

// visit is one request, and who makes it.
type visit struct {
	*console
	w       http.ResponseWriter
	r       *http.Request
	id      string       // the request's, also in the gateway's log
	least   waypost.Role // the route's, anyone: also who has not signed in
	user    waypost.User // of no role before the sign-in
	chosen  preferences
	gateway gateway // with the rights of the user, in the stage that was chosen
	status  int     // that was answered; 0: nothing yet
	log     []slog.Attr
	made    *liveContent // where render keeps a page for all who look at it (live.go), else nil
}

// serve makes the handler of a route: it finds the user of the session, refuses a role below the
// route's, and logs and counts the request.
func (c *console) serve(rt *route) http.Handler {
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		v := &visit{console: c, w: w, r: r, least: rt.role, id: waypost.NewID("req_", began), chosen: preferencesOf(c, r)}
		w.Header().Set("X-Request-Id", v.id)
		err := v.enter()
		if err == nil {
			err = rt.handle(v)
		}
		if err != nil {
			v.fail(err)
		}
		took, method := time.Since(began), r.Method
		if method != http.MethodGet && method != http.MethodHead && method != http.MethodPost {
			method = "UNKNOWN" // anybody can invent one
		}
		c.Observe(rt.pattern, method, v.status, took)
		attrs := append([]slog.Attr{
			slog.String("request", v.id), slog.String("method", method), slog.String("route", rt.pattern), slog.Int("status", v.status),
			slog.Int64("ms", took.Milliseconds()), slog.String("user", v.user.ID),
		}, v.log...)
		level := slog.LevelInfo
		if v.status >= http.StatusInternalServerError {
			level = slog.LevelWarn
		}
		c.Log.LogAttrs(r.Context(), level, "request", attrs...)
	})
	return c.sessions.LoadAndSave(h)
}

// enter finds the user of the session, refuses a role below the route's, and reads a form.
func (v *visit) enter() error {
	if err := v.findUser(); err != nil {
		return err
	}
	if err := v.mayCome(); err != nil {
		return err
	}
	if err := v.readForm(); err != nil {
		return err
	}
	v.gateway = gateway{client: v.Gateway, user: v.user, stage: v.stage(), request: v.id, language: v.chosen.Language}
	return nil
}

// mayCome refuses who has not signed in, or has a role below the route's.
func (v *visit) mayCome() error {
	switch {
	case v.least == anyone || v.user.Role.Reaches(v.least):
		return nil
	case v.user.ID == "":
		return errSignIn
	}
	return refused{}
}

// mayStill is asked once a body has come, which can take minutes: it finds session and user again, and
// refuses a session that was ended or lacks a second factor now, and a user who was disabled, reset or
// given a lower role.
func (v *visit) mayStill() error {
	ctx := v.r.Context()
	token := v.sessions.Token(ctx)
	if token == "" {
		return nil
	}
	_, found, err := v.Sessions.FindCtx(ctx, token)
	if err != nil {
		return away{err}
	}
	if !found {
		return errSignIn
	}
	if v.user.ID == "" {
		return nil
	}
	u, err := v.Users.User(ctx, v.user.ID)
	if waypost.CodeOf(err) == waypost.CodeNotFound || err == nil && (u.Disabled || u.Sessions != v.user.Sessions) {
		return errSignIn
	}
	if err != nil {
		return err
	}
	if v.lacksFactor(u) {
		return errSignIn
	}
	v.user = u
	return v.mayCome()
}

// body reads a body that is no form.
func (v *visit) body() ([]byte, error) {
	text, err := io.ReadAll(v.r.Body)
	if err != nil {
		return nil, err
	}
	return text, v.mayStill()
}

// readForm reads the form of a POST: one that did not arrive whole must not pass for an empty
// one.
func (v *visit) readForm() error {
	if v.r.Method != http.MethodPost {
		return nil
	}
	if v.user.ID == "" {
		v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxUnknownBody)
	}
	err := v.r.ParseForm()
	if err == nil {
		err = v.r.ParseMultipartForm(maxBody)
	}
	switch {
	case err == nil || errors.Is(err, http.ErrNotMultipart):
		return v.mayStill()
	case errors.As(err, new(*http.MaxBytesError)):
		return err
	}
	return waypost.Errorf(waypost.CodeBadRequest, "", "the form did not arrive whole: %s", err)
}

// stage is the one that the request works in: a form says which one its page showed, so that
// choosing another one in a second tab changes nothing here.
func (v *visit) stage() string {
	if v.r.Method == http.MethodPost && v.r.PostFormValue("stage") != "" {
		return stageOf(v.r.PostFormValue("stage"))
	}
	return v.chosen.Stage
}

// by is who asks, for the audit log.
func (v *visit) by() waypost.Author {
	return waypost.Author{
		Scope: waypost.Scope{Org: v.Org}, Application: v.Application, Actor: v.user.ID, RequestID: v.id, Address: v.address(),
	}
}

// byUser is by for somebody who is not signed in yet.
func (v *visit) byUser(u waypost.User) waypost.Author {
	author := v.by()
	author.Actor = u.ID
	return author
}

// redirect answers with another page, which the browser gets by GET.
func (v *visit) redirect(path string, query url.Values) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	v.status = http.StatusSeeOther
	http.Redirect(v.w, v.r, path, v.status)
	return nil
}

// address is the client's, behind trusted proxies too; an IPv6 /64 counts as one.
func (v *visit) address() string {
	return waypost.ClientAddress(v.r.RemoteAddr, v.r.Header.Values("X-Forwarded-For"), v.TrustedProxies)
}

// t is a text in the person's language (i18n.go).
func (v *visit) t(key string, args ...any) string { return translate(v.chosen.Language, key, args...) }

// texts are those of the keys that begin so, by what follows.
func (v *visit) texts(prefix string) map[string]string {
	found := map[string]string{}
	for key, m := range catalogues[v.chosen.Language] {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			found[name] = m.other
		}
	}
	return found
}

// flash has the next page show a message, once. kind is ok or bad. It is in a cookie: Redis,
// where sessions are, holds no names of people.
func (v *visit) flash(kind, text string) { v.setCookie("flash", kind+" "+text, time.Minute) }
