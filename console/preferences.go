package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"waypost"
)

// preferences are what a person has chosen, in cookies of a year.
type preferences struct {
	Language string // one of languages
	Theme    string // light, dark, or "" for what the system has
	Stage    string
	Zone     *time.Location // of times; its name is the browser's
}

const year = 365 * 24 * time.Hour

var themes = []string{"", "light", "dark"}

// cookie is the value of a cookie of the console, "" without one.
func (c *console) cookie(r *http.Request, name string) string {
	cookie, err := r.Cookie(c.cookieName(name))
	if err != nil {
		return ""
	}
	value, err := url.QueryUnescape(cookie.Value)
	if err != nil {
		return ""
	}
	return value
}

// setCookie sets a cookie for a time; a time below 0 deletes it.
func (v *visit) setCookie(name, value string, life time.Duration) {
	http.SetCookie(v.w, &http.Cookie{
		Name: v.cookieName(name), Value: url.QueryEscape(value), Path: "/", MaxAge: int(life / time.Second),
		HttpOnly: true, Secure: v.secure, SameSite: http.SameSiteLaxMode,
	})
}

// take reads a cookie and deletes it.
func (v *visit) take(name string) string {
	value := v.cookie(v.r, name)
	if value != "" {
		v.setCookie(name, "", -time.Second)
	}
	return value
}

// preferencesOf reads the cookies; each that is missing or wrong is as if it were not there.
func preferencesOf(c *console, r *http.Request) preferences {
	read := func(name string) string { return c.cookie(r, name) }
	p := preferences{Language: read("language"), Theme: read("theme"), Stage: stageOf(read("stage")), Zone: time.UTC}
	if !slices.Contains(languages, p.Language) {
		p.Language = languageOf(r.Header.Get("Accept-Language"))
	}
	if !slices.Contains(themes, p.Theme) {
		p.Theme = ""
	}
	if zone, known := waypost.Zone(read("zone")); known {
		p.Zone = zone
	}
	return p
}

// languageOf is the first language of a browser's list that the console has.
func languageOf(accepted string) string {
	for part := range strings.SplitSeq(accepted, ",") {
		tag, _, _ := strings.Cut(strings.TrimSpace(part), ";")
		tag, _, _ = strings.Cut(tag, "-")
		if slices.Contains(languages, strings.ToLower(tag)) {
			return strings.ToLower(tag)
		}
	}
	return languages[0]
}

// stageOf is a stage by its name; the first one if there is none of this name.
func stageOf(name string) string {
	if slices.Contains(stages, name) {
		return name
	}
	return stages[0]
}

var stages = []string{string(waypost.StageRelease), string(waypost.StagePreRelease), string(waypost.StageTest)}

// choose keeps a choice of the header's menus, and goes back to the page that it was made
// on. Another stage has other things: it goes to the page that its list is.
func (v *visit) choose() error {
	form := v.r.PostForm
	for _, name := range []string{"language", "theme", "stage"} {
		if form.Has(name) {
			v.setCookie(name, form.Get(name), year)
		}
	}
	back := localPath(form.Get("back"))
	if parts := strings.Split(back, "/"); form.Has("stage") && len(parts) > 2 {
		back = "/" + parts[1]
	}
	return v.redirect(back, nil)
}

// localPath is a path of the console that a request names, "/" if it is none: a link must
// not lead to another site.
func localPath(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n") {
		return "/"
	}
	return path
}
