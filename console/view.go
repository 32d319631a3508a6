package console

import (
	"html/template"
	"strings"

	"waypost"
)

// view is what templates see as $: the page, and the request that it answers.
type view struct {
	page
	User      waypost.User
	Language  string
	Theme     string
	Stage     string
	Zone      string
	Stages    []string
	Languages []string
	Themes    []string
	Places    []place
	Here      string // the path and query of the page
	Flash     *flash
	chosen    preferences
}

type flash struct{ Kind, Text string }

func (v *visit) newView(p page) view {
	shown := view{
		page: p, User: v.user, Language: v.chosen.Language, Theme: v.chosen.Theme, Stage: v.stage(), Zone: v.chosen.Zone.String(),
		Stages: stages, Languages: languages, Themes: themes, Places: v.places(v.user.Role), Here: v.r.URL.Path, chosen: v.chosen,
	}
	if v.r.URL.RawQuery != "" && v.r.URL.Path != "/sign-in/link" {
		shown.Here += "?" + v.r.URL.RawQuery
	}
	if kind, text, found := strings.Cut(v.take("flash"), " "); found {
		shown.Flash = &flash{kind, text}
	}
	return shown
}

// Time is a <time> in the viewer's zone, nothing for the zero time.
func (v view) Time(at instant) template.HTML { return v.chosen.timeTag(at) }

// May tells whether the person may make calls that need a grant, so that a page offers no
// button that is refused.
func (v view) May(grant string) bool { return v.User.Role.Allows(waypost.Grant(grant)) }

// Initial is the first letter of the person's name, "" without a name.
func (v view) Initial() string {
	for _, r := range v.User.Name {
		return strings.ToUpper(string(r))
	}
	return ""
}
