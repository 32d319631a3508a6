package console

import "waypost"

// route is one line of the console.
type route struct {
	method  string
	pattern string       // as http.ServeMux reads it
	role    waypost.Role // the least that may come here; anyone: also who has not signed in
	handle  func(*visit) error
}

// anyone stands for the role of a route for which nobody must be signed in.
const anyone waypost.Role = ""

// routes lists every page and every form of the console. What a form does is decided by the
// grant of its call too (api.go): the role here keeps people from forms that they cannot
// send.
var routes = []route{
	{"GET", "/sign-in", anyone, (*visit).signIn},
	{"POST", "/sign-in", anyone, (*visit).signInByPassword},
	{"GET", "/sign-in/oidc", anyone, (*visit).goToIssuer},
	{"GET", "/sign-in/oidc/callback", anyone, (*visit).returnFromIssuer},
	{"GET", "/sign-in/link", anyone, (*visit).showLink},
	{"POST", "/sign-in/link", anyone, (*visit).takeLink},
	{"POST", "/sign-out", anyone, (*visit).signOut},
	{"POST", "/preferences", anyone, (*visit).choose},

	{"GET", "/{$}", waypost.RoleViewer, (*visit).overview},
	{"GET", "/deliveries", waypost.RoleViewer, (*visit).deliveries},

	{"GET", "/users", waypost.RoleAdmin, (*visit).users},
	{"POST", "/users", waypost.RoleAdmin, (*visit).addUser},
	{"POST", "/users/{id}/role", waypost.RoleAdmin, (*visit).changeRole},
	{"POST", "/users/{id}/reset", waypost.RoleAdmin, (*visit).resetUser},
	{"POST", "/users/{id}/disable", waypost.RoleAdmin, (*visit).disableUser},
}

// navigation lists the places of the sidebar. One is shown if its path has a route that the
// person may use. Its text is nav.NAME.
var navigation = []place{
	{"overview", "/"},
	{"journeys", "/journeys"},
	{"deliveries", "/deliveries"},
	{"leads", "/leads"},
	{"segments", "/segments"},
	{"webhooks", "/webhooks"},
	{"articles", "/articles"},
	{"audit", "/audit"},
	{"users", "/users"},
}

type place struct{ Name, Path string }

// places are the places that a role may go to.
func (c *console) places(role waypost.Role) []place {
	var out []place
	for _, p := range navigation {
		for _, rt := range c.routes {
			if rt.method == "GET" && (rt.pattern == p.Path || rt.pattern == p.Path+"{$}") && role.Reaches(rt.role) {
				out = append(out, p)
			}
		}
	}
	return out
}
