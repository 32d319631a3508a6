package console

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"waypost"
	"waypost/client"
	"waypost/signature"
)

var wildcard = regexp.MustCompile(`\{[^}]+\}`)

// operation is a call that the gateway takes, and the grant that it needs.
type operation struct {
	method string
	path   *regexp.Regexp
	grant  waypost.Grant
}

// operations are those of the gateway's document. Ids may be empty: what stands for the gateway here has none.
func operations(t *testing.T) (all []operation) {
	t.Helper()
	text, err := os.ReadFile("../gateway/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	path, method := "", ""
	for _, m := range regexp.MustCompile(`(?m)^(?:  (/\S*):|    ([a-z]+):|      x-grant: (\S+))$`).FindAllStringSubmatch(string(text), -1) {
		switch {
		case m[1] != "":
			path = m[1]
		case m[2] != "":
			method = strings.ToUpper(m[2])
		default:
			all = append(all, operation{method, regexp.MustCompile("^" + wildcard.ReplaceAllString(path, "[^/]*") + "$"), waypost.Grant(m[3])})
		}
	}
	if len(all) < 50 {
		t.Fatalf("%d operations are known", len(all))
	}
	return all
}

// grantOf is what a call needs. A path without a parameter comes before one with.
func grantOf(all []operation, c call) (found waypost.Grant) {
	path, _, _ := strings.Cut(c.Target, "?")
	for _, o := range all {
		if o.method == c.Method && o.path.MatchString(path) && (found == "" || o.path.String() == "^"+path+"$") {
			found = o.grant
		}
	}
	return found
}

// Every route, by its address, for everybody: who has no right is refused before the gateway
// is asked for anything, who only looks changes nothing, and nobody's page makes a call that
// needs a grant which their role does not have.
func TestRoles(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	known := operations(t)
	for _, role := range append([]waypost.Role{anyone}, waypost.Roles...) {
		for _, rt := range routes {
			if rt.role == anyone {
				continue
			}
			v := s.guest()
			if role != anyone {
				v, _ = s.as(role)
			}
			s.take()
			path := wildcard.ReplaceAllStringFunc(rt.pattern, func(m string) string {
				if m == "{$}" {
					return ""
				}
				return "usr_1"
			})
			got := v.do(rt.method, path, url.Values{}, nil)
			calls := s.take()
			switch {
			case role == anyone && (strings.HasSuffix(path, ".json") || strings.HasSuffix(path, "/draft.yaml")): // for scripts, which would follow to the sign-in page
				if got.Status != http.StatusUnauthorized || len(calls) > 0 {
					t.Errorf("nobody: %s %s: HTTP %d, %d calls", rt.method, path, got.Status, len(calls))
				}
			case role == anyone:
				if got.Status != http.StatusSeeOther || !strings.HasPrefix(got.To(), "/sign-in") || len(calls) > 0 {
					t.Errorf("nobody: %s %s: HTTP %d, to %q, %d calls", rt.method, path, got.Status, got.To(), len(calls))
				}
			case !role.Reaches(rt.role):
				if got.Status != http.StatusForbidden || len(calls) > 0 {
					t.Errorf("%s: %s %s: HTTP %d, %d calls", role, rt.method, path, got.Status, len(calls))
				}
			case got.Status == http.StatusForbidden || strings.HasPrefix(got.To(), "/sign-in"):
				t.Errorf("%s: %s %s: HTTP %d, to %q", role, rt.method, path, got.Status, got.To())
			}
			for _, c := range calls {
				if grant := grantOf(known, c); grant == "" && !strings.HasPrefix(c.Target, "/api/v1/articles/search") { // which needs a token
					t.Errorf("%s %s makes a call that the gateway does not know: %s %s", rt.method, path, c.Method, c.Target)
				} else if grant != "" && !role.Allows(grant) {
					t.Errorf("%s: %s %s made a call that needs %s: %s %s", role, rt.method, path, grant, c.Method, c.Target)
				}
			}
			if role == waypost.RoleViewer {
				for _, c := range calls {
					if c.Method != http.MethodGet && !strings.HasSuffix(c.Target, "/dryrun") && !strings.HasSuffix(c.Target, "/forecast") {
						t.Errorf("a viewer made a call: %s %s", c.Method, c.Target)
					}
				}
			}
		}
	}
}

// What is no route is nothing, for anybody and by any method.
func TestOtherMethods(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	table := http.NewServeMux()
	for _, rt := range routes {
		table.HandleFunc(rt.method+" "+rt.pattern, http.NotFound)
	}
	admin, _ := s.as(waypost.RoleAdmin)
	s.take()
	for _, rt := range routes {
		path := wildcard.ReplaceAllStringFunc(rt.pattern, func(m string) string { return strings.TrimPrefix(strings.ReplaceAll(m, "{id}", "usr_1"), "{$}") })
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace} {
			if _, pattern := table.Handler(httptest.NewRequest(method, path, nil)); strings.HasPrefix(pattern, method+" ") {
				continue // "new" is an id to the route of one
			}
			if got, calls := admin.do(method, path, url.Values{}, nil), s.take(); got.Status != http.StatusNotFound && got.Status != http.StatusMethodNotAllowed || len(calls) > 0 {
				t.Errorf("%s %s: HTTP %d, %d calls", method, path, got.Status, len(calls))
			}
		}
	}
}

// Calls are refused by their grants, whatever page makes them, and before they are sent.
func TestGrants(t *testing.T) {
	t.Parallel()
	reads := []waypost.Grant{waypost.GrantJourneysRead, waypost.GrantDeliveriesRead, waypost.GrantWebhooksRead, waypost.GrantLeadsExport, waypost.GrantSubscriptionsRead, waypost.GrantSuppressionsRead, waypost.GrantSegmentsRead}
	works := []waypost.Grant{
		waypost.GrantJourneysWrite, waypost.GrantJourneysRun, waypost.GrantLeadsImport, waypost.GrantLeadsUpdate, waypost.GrantDeliveriesRedeliver, waypost.GrantSuppressionsWrite, waypost.GrantSegmentsWrite,
	}
	for _, role := range append([]waypost.Role{anyone, "owner"}, waypost.Roles...) {
		for _, grant := range waypost.AllGrants {
			allowed := role == waypost.RoleAdmin || role.Reaches(waypost.RoleViewer) && slices.Contains(reads, grant) ||
				role == waypost.RoleMarketer && slices.Contains(works, grant)
			g := gateway{client: client.New("http://127.0.0.1:1", signature.Key{}), user: waypost.User{Role: role}}
			err := g.do(t.Context(), grant, http.MethodGet, "/v1/x", nil, nil)
			if refusedHere := errors.As(err, new(refused)); refusedHere == allowed || !refusedHere && !errors.As(err, new(away)) {
				t.Errorf("%q, %s: %v", role, grant, err)
			}
		}
	}
}

// A place of the sidebar is shown to those who may go there.
func TestPlaces(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for role, want := range map[waypost.Role]bool{waypost.RoleViewer: false, waypost.RoleMarketer: false, waypost.RoleAdmin: true} {
		v, _ := s.as(role)
		if got := strings.Contains(v.get("/deliveries").Body, `href="/users"`); got != want {
			t.Errorf("%s sees the users: %v", role, got)
		}
	}
}

func TestUsersPage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	admin, self := s.as(waypost.RoleAdmin)
	form := url.Values{"name": {"Grace"}, "email": {"Grace@Example.com"}, "role": {"marketer"}}
	made := admin.post("/users", form)
	link := regexp.MustCompile(`/sign-in/link\?token=(\w+)`).FindStringSubmatch(made.Body)
	if made.Status != http.StatusOK || link == nil {
		t.Fatalf("add: HTTP %d, %s", made.Status, made.Body)
	}
	grace := s.guest()
	if got := grace.post("/sign-in/link", url.Values{"token": {link[1]}}); got.Status != http.StatusSeeOther {
		t.Errorf("her link: HTTP %d", got.Status)
	}
	u, err := s.store.UserByEmail(t.Context(), testOrg, "grace@example.com")
	if err != nil || u.Role != waypost.RoleMarketer || u.Name != "Grace" {
		t.Fatalf("%+v, %v", u, err)
	}
	for name, tt := range map[string]struct {
		change string
		value  string
		says   string
	}{
		"the same address": {"name", "Other", "There is a user of this address already."},
		"no address":       {"email", "grace", "must be an e-mail address"},
		"no name":          {"name", "", "must be 1 to 100 characters"},
		"no role":          {"role", "owner", "must be viewer, marketer or admin"},
	} {
		faulty := url.Values{"name": form["name"], "email": form["email"], "role": form["role"]}
		faulty.Set(tt.change, tt.value)
		if got := admin.post("/users", faulty); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, tt.says) {
			t.Errorf("%s: HTTP %d without %q", name, got.Status, tt.says)
		}
	}
	if got := admin.post("/users/"+u.ID+"/role", url.Values{"role": {"viewer"}}); got.To() != "/users" {
		t.Errorf("role: HTTP %d", got.Status)
	}
	if got := admin.get("/users"); !strings.Contains(got.Body, "Grace is now: Viewer.") || !strings.Contains(got.Body, "grace@example.com") {
		t.Errorf("the list does not say what was done: %s", got.Body)
	}
	if got := admin.get("/users"); strings.Contains(got.Body, "Grace is now") {
		t.Error("it says so twice")
	}
	if got := admin.post("/users/"+u.ID+"/role", url.Values{"role": {"owner"}}); got.Status != http.StatusBadRequest {
		t.Errorf("an unknown role: HTTP %d", got.Status)
	}
	if got := admin.post("/users/"+u.ID+"/disable", nil); got.To() != "/users" {
		t.Errorf("disable: HTTP %d", got.Status)
	}
	if got := grace.get("/deliveries"); got.Status != http.StatusSeeOther {
		t.Errorf("disabled, she goes on: HTTP %d", got.Status)
	}
	if got := admin.post("/users/"+u.ID+"/reset", nil); got.Status != http.StatusOK || !strings.Contains(got.Body, "/sign-in/link?token=") {
		t.Errorf("reset: HTTP %d", got.Status)
	}
	for _, path := range []string{"role", "reset", "disable"} {
		if got := admin.post("/users/"+self.ID+"/"+path, url.Values{"role": {"viewer"}}); got.Status != http.StatusForbidden {
			t.Errorf("%s oneself: HTTP %d", path, got.Status)
		}
		if got := admin.post("/users/usr_none/"+path, url.Values{"role": {"viewer"}}); got.Status != http.StatusNotFound {
			t.Errorf("%s nobody: HTTP %d", path, got.Status)
		}
	}
}
