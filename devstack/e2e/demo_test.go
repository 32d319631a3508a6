package e2e

import (
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/devstack/datadir"
	"waypost/devstack/harness"
)

var enrolledText = regexp.MustCompile(`Lead 1 was enrolled in the journey "Welcome": (enr_\w+)`)

// The demo, from a new directory over a stop and a kill: every message is
// delivered once, and a restart goes on with what is there, on the same ports: no other
// test of this package may pick one meanwhile.
func TestDemoOverRestarts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := harness.StartProcess(t, dir, nil)
	first := p.Profile
	one := demoEnrollment(t, p)
	if first.WebhookID == "" || first.JourneyID == "" || first.Receiver == "" || first.TemporalUI == "" || first.TemporalAddress == "" {
		t.Errorf("the profile lacks something: %+v", first)
	}
	for _, want := range []string{`"greeting": "Hello Lin Xiaomei"`, `{"succeed":true,"message":"received"}`, "=> delivered", "/namespaces/default/workflows?query=WaypostJourney"} {
		if !strings.Contains(p.Output.String(), want) {
			t.Errorf("the demo did not print %s", want)
		}
	}
	for name, mode := range map[string]os.FileMode{".": 0o700, datadir.ProfileFile: 0o600, datadir.EnvFile: 0o600, datadir.StateFile: 0o600, datadir.LedgerFile: 0o600, datadir.LogFile: 0o600} {
		if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || fi.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, fi.Mode().Perm(), err)
		}
	}
	checkWelcome(t, p, one)
	checkArticles(t, p)
	if code := p.Interrupt(t); code != 0 {
		t.Errorf("exit status %d after Ctrl-C", code)
	}
	if _, err := os.Stat(filepath.Join(dir, datadir.LockFile)); err == nil {
		t.Error("the lock is still there")
	}
	checkNothingListens(t, p)

	// same is the profile but for its search token, which every start issues anew.
	same := func(a, b datadir.Profile) bool { a.SearchToken = b.SearchToken; return a == b }
	p = harness.StartProcess(t, dir, nil)
	if !same(p.Profile, first) || p.Profile.SearchToken == first.SearchToken {
		t.Errorf("the second start's profile is %+v, the first one's %+v", p.Profile, first)
	}
	two := demoEnrollment(t, p)
	if two == one || !strings.Contains(p.Output.String(), "those of the former start") {
		t.Errorf("enrollment %s, then %s", one, two)
	}
	p.Kill9(t) // the second enrollment is in its delay

	p = harness.StartProcess(t, dir, nil)
	if !same(p.Profile, first) {
		t.Errorf("the profile after the kill is %+v, the first one's %+v", p.Profile, first)
	}
	checkWelcome(t, p, one)
	checkWelcome(t, p, two)
	checkArticles(t, p)
	var journeys struct{ Items []waypost.Journey }
	if err := p.Client.Do(t.Context(), http.MethodGet, "/v1/journeys", nil, &journeys); err != nil || len(journeys.Items) != 1 {
		t.Errorf("%d journeys, %v", len(journeys.Items), err)
	}
	if code := p.Interrupt(t); code != 0 {
		t.Errorf("exit status %d after Ctrl-C", code)
	}
}

// checkArticles searches the demo's articles as the banner says, with curl's request.
func checkArticles(t *testing.T, p *harness.Process) {
	t.Helper()
	for _, want := range []string{"  押金<b class=\"highlight\">退款</b>说明\n", "bin/waypost articles search 退款\n", "-d tenant_id=" + p.Profile.TenantID + " -d from=frontend"} {
		if !strings.Contains(p.Output.String(), want) {
			t.Errorf("the demo did not print %s", want)
		}
	}
	for query, want := range map[string]string{
		"from=frontend&keywords=退款":                      "deposit,refunds,incidents",
		"from=frontend&keywords=退款&user_access_level=4":  "deposit,refunds",
		"from=admin&keywords=退款":                         "deposit,spring-offer,refunds,incidents",
		"from=frontend&keywords=报销&user_access_level=2":  "invoices",
		"from=frontend&keywords=refund":                  "refunds",
		"from=frontend&keywords=script iframe class= <b": "map-on-your-page",
	} {
		params, err := url.ParseQuery(query + "&tenant_id=" + p.Profile.TenantID)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Message struct {
				Items []struct {
					Identifier string
					Name       string `json:"name_highlight"`
					Excerpt    string `json:"search_highlight"`
				}
			}
		}
		if err := p.Client.WithBearer(p.Profile.SearchToken).Do(t.Context(), http.MethodGet, "/api/v1/articles/search?"+params.Encode(), nil, &answer); err != nil {
			t.Error(err)
		}
		var found []string
		for _, hit := range answer.Message.Items {
			found = append(found, hit.Identifier)
			marks := strings.NewReplacer(`<b class="highlight">`, "", "</b>", "")
			if text := marks.Replace(hit.Name + hit.Excerpt); strings.ContainsAny(text, "<>") {
				t.Errorf("%s: markup in %s", query, text)
			}
		}
		if got := strings.Join(found, ","); got != want {
			t.Errorf("%s found %s, want %s", query, got, want)
		}
	}
}

// demoEnrollment is the enrollment that the demo announced.
func demoEnrollment(t *testing.T, p *harness.Process) string {
	t.Helper()
	m := enrolledText.FindStringSubmatch(p.Output.String())
	if m == nil {
		t.Fatalf("the demo enrolled nobody:\n%s", p.Output)
	}
	return m[1]
}

// checkWelcome waits until an enrollment in the demo journey is through and
// compares what was recorded with the receiver's ledger.
func checkWelcome(t *testing.T, p *harness.Process, id string) {
	t.Helper()
	e := p.AwaitEnd(t, id, time.Minute)
	if e.Status != waypost.EnrollmentCompleted {
		t.Errorf("%s is %s: %+v", id, e.Status, e.Timeline)
	}
	recorded := p.Deliveries(t, id)
	posts := p.Ledger(t)[id]
	if len(recorded) != 2 || len(posts) != 2 {
		t.Fatalf("%s: %d deliveries recorded, %d POSTs received", id, len(recorded), len(posts))
	}
	for i, node := range []string{"hello", "thanks"} {
		d := recorded[node]
		if d.Status != waypost.DeliverySucceeded || len(d.AttemptLog) != 1 || posts[i].MessageID != d.MessageID {
			t.Errorf("%s of %s: recorded %+v, received %+v", node, id, d, posts[i])
		}
		if posts[i].Answered != http.StatusOK || posts[i].Path != "/demo" {
			t.Errorf("%s of %s: received %+v", node, id, posts[i])
		}
		var m waypost.Message
		if err := json.Unmarshal([]byte(posts[i].Body), &m); err != nil {
			t.Fatal(err)
		}
		if m.UserProfile.AffID != "1" || m.UserProfile.UserID != "demo-1" || !strings.HasSuffix(m.JourneyInfo.ActionDefID, "/1/"+node) {
			t.Errorf("%s of %s: the message is %s", node, id, posts[i].Body)
		}
	}
	if ids := []string{posts[0].MessageID, posts[1].MessageID}; slices.Contains(ids, "") || ids[0] == ids[1] {
		t.Errorf("the message ids are %v", ids)
	}
}

// checkNothingListens tells whether the ports are free after a stop.
func checkNothingListens(t *testing.T, p *harness.Process) {
	t.Helper()
	for _, at := range []string{p.Profile.URL, p.Profile.TemporalUI, p.Profile.Receiver, "http://" + p.Profile.TemporalAddress} {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", u.Host)
		if err != nil {
			t.Errorf("%s is not free after the stop: %v", at, err)
			continue
		}
		l.Close()
	}
}
