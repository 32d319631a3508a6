package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/devstack/harness"
	"waypost/store/storetest"
)

// hookSecret signs what subscriptions are told.
const hookSecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// notification is what a subscription was told.
type notification struct {
	Type      waypost.Happening `json:"type"`
	Timestamp string            `json:"timestamp"`
	Data      map[string]any    `json:"data"`
}

// ear is a receiver of what subscriptions are told. It refuses every third message once, and
// takes its time for others.
type ear struct {
	url string
	t   *testing.T

	mu     sync.Mutex
	bodies map[string]string // by Webhook-Id
	posts  map[string]int
	taken  map[string]notification
}

func newEar(t *testing.T) *ear {
	t.Helper()
	e := &ear{t: t, bodies: map[string]string{}, posts: map[string]int{}, taken: map[string]notification{}}
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	e.url = s.URL
	return e
}

func (e *ear) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil { // it was cut off
		return
	}
	id := r.Header.Get("Webhook-Id")
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(hookSecret, "whsec_"))
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, r.Header.Get("Webhook-Timestamp"), body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); err != nil || r.Header.Get("Webhook-Signature") != want {
		e.t.Errorf("message %s is signed %q", id, r.Header.Get("Webhook-Signature"))
	}
	h := fnv.New32a()
	h.Write([]byte(id))
	if h.Sum32()%5 == 0 {
		time.Sleep(300 * time.Millisecond) // to be killed in the middle
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if before, known := e.bodies[id]; known && before != string(body) {
		e.t.Errorf("message %s was %s and is %s", id, before, body)
	}
	e.bodies[id] = string(body)
	if e.posts[id]++; h.Sum32()%3 == 0 && e.posts[id] == 1 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var m notification
	if err := json.Unmarshal(body, &m); err != nil {
		e.t.Errorf("message %s: %v", id, err)
	}
	e.taken[id] = m
}

// messages are those that it has taken, each once.
func (e *ear) messages() []notification {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.taken))
}

// of are those of a type.
func (e *ear) of(h waypost.Happening) (of []notification) {
	for _, m := range e.messages() {
		if m.Type == h {
			of = append(of, m)
		}
	}
	return of
}

// subscribe has the ear told of types.
func (e *ear) subscribe(p *harness.Process, on ...waypost.Happening) (id string) {
	e.t.Helper()
	var made struct{ ID string }
	p.Do(e.t, http.MethodPost, "/v1/webhooks", map[string]any{
		"name": "ear", "url": e.url, "signingSecret": hookSecret, "retry": map[string]any{"schedule": []string{"1s"}, "giveUpAfter": "1h"},
	}, &made)
	p.Do(e.t, http.MethodPost, "/v1/subscriptions", map[string]any{"name": "all", "webhookId": made.ID, "on": on}, &made)
	if e.t.Failed() {
		e.t.FailNow()
	}
	return made.ID
}

// documentedData are the members of data by type, as docs/subscriptions.md has them.
func documentedData(t *testing.T) map[waypost.Happening][]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "subscriptions.md"))
	if err != nil {
		t.Fatal(err)
	}
	members := map[waypost.Happening][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+\\.[a-z]+)` \\|.*\\| ([^|]+) \\|$").FindAllStringSubmatch(string(page), -1) {
		for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[2], -1) {
			members[waypost.Happening(row[1])] = append(members[waypost.Happening(row[1])], m[1])
		}
	}
	return members
}

// A subscription is told each thing that it names, once, with the data that the page says.
func TestSubscriptions(t *testing.T) {
	t.Parallel()
	e := newEar(t)
	p := harness.StartProcess(t, filepath.Join(t.TempDir(), "data"), []string{"--no-demo"})
	id := e.subscribe(p, waypost.Happenings...)
	receiver := func(status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(s.Close)
		return s.URL
	}
	away, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	down := "http://" + away.Addr().String()
	if err := away.Close(); err != nil {
		t.Fatal(err)
	}
	const single = `{"name":"Single","start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":%q}]}`
	taking, refusing, gone, failing := p.Publish(t, receiver(200), single), p.Publish(t, receiver(404), single), p.Publish(t, receiver(410), single), p.Publish(t, down, single)
	completed := p.Enroll(t, taking, 1)[0]
	refused := p.Enroll(t, refusing, 1)[0]
	p.Enroll(t, gone, 1)
	p.Enroll(t, failing, 60)
	var made struct{ LaunchID, ID string }
	p.Do(t, http.MethodPost, "/v1/journeys/"+taking+"/launches", map[string]any{"audience": map[string]any{"leadsIds": []int64{1, 2}}}, &made)
	p.Do(t, http.MethodPost, "/v1/leads/imports?mode=create", map[string]any{"leads": []any{map[string]any{"name": "Alan"}, map[string]any{"name": ""}}}, &made)
	type check struct {
		h      waypost.Happening
		member string
		value  any
		status any
	}
	for _, c := range []check{
		{waypost.EnrollmentEnded, "enrollmentId", completed, "completed"}, {waypost.DeliveryFailure, "enrollmentId", refused, nil},
		{waypost.WebhookDisabled, "reason", "410", nil}, {waypost.WebhookFailing, "webhookName", "crm", nil},
		{waypost.LaunchEnded, "launchId", made.LaunchID, "completed"}, {waypost.ImportEnded, "importId", made.ID, "succeeded"},
		{waypost.JourneyPublished, "journeyId", taking, nil},
	} {
		var found []notification
		harness.Eventually(t, time.Minute, func() (bool, string) {
			found = nil
			for _, m := range e.of(c.h) {
				if m.Data[c.member] == c.value {
					found = append(found, m)
				}
			}
			return len(found) > 0, fmt.Sprintf("not told of %s with %s %v, but of %v", c.h, c.member, c.value, e.of(c.h))
		})
		if len(found) != 1 || found[0].Data["status"] != c.status {
			t.Errorf("told of %s: %v", c.h, found)
		}
		names := slices.Sorted(maps.Keys(found[0].Data))
		if want := slices.Sorted(slices.Values(documentedData(t)[c.h])); !slices.Equal(names, want) {
			t.Errorf("the data of %s has %v, its documentation %v", c.h, names, want)
		}
		if at, err := time.Parse(waypost.TimeFormat, found[0].Timestamp); err != nil || time.Since(at) > 5*time.Minute {
			t.Errorf("%s at %s", c.h, found[0].Timestamp)
		}
	}
	var list struct {
		Items []struct {
			SubscriptionID string
			EnrollmentID   *string
			Attempts       int
			MessageID      string
		}
	}
	harness.Eventually(t, time.Minute, func() (bool, string) {
		p.Do(t, http.MethodGet, "/v1/deliveries?limit=500&status=succeeded&subscriptionId="+id, nil, &list)
		return len(list.Items) == len(e.messages()), fmt.Sprintf("%d messages are recorded as delivered, %d were taken", len(list.Items), len(e.messages()))
	})
	for _, d := range list.Items {
		if e.mu.Lock(); d.SubscriptionID != id || d.EnrollmentID != nil || d.Attempts != e.posts[d.MessageID] {
			t.Errorf("%+v, POSTed %d times", d, e.posts[d.MessageID])
		}
		e.mu.Unlock()
	}
}

// Everything that happens while waypost-dev is killed again and again is told, each thing by
// one message: before it is made, before it is sent, in the middle of its POST.
func TestSubscriptionsUnderKills(t *testing.T) {
	t.Parallel()
	subscriptionsUnderKills(t)
}

// The same with our own data on PostgreSQL.
func TestSubscriptionsUnderKillsOnPostgres(t *testing.T) {
	t.Parallel()
	subscriptionsUnderKills(t, "WAYPOST_DATABASE_URL="+storetest.PostgresURL(t))
}

func subscriptionsUnderKills(t *testing.T, env ...string) {
	t.Helper()
	e := newEar(t)
	r := harness.NewReceiver(t, func(m waypost.Message, attempt int) harness.Answer {
		switch {
		case oneOf(4, m.MessageID):
			return harness.Answer{Status: http.StatusNotFound}
		case oneOf(3, m.MessageID) && attempt == 1:
			return harness.Answer{Status: http.StatusServiceUnavailable}
		}
		return harness.Answer{Status: http.StatusOK, Body: `{"succeed":true}`}
	})
	dir := filepath.Join(t.TempDir(), "data")
	p := harness.StartProcess(t, dir, []string{"--no-demo"}, env...)
	subscription := e.subscribe(p, waypost.EnrollmentEnded, waypost.DeliveryFailure)
	journeyID := p.Publish(t, r.URL, `{"name":"Kill","start":"hello","nodes":[
		{"id":"hello","type":"touchpoint","webhook":%q,"next":"wait"},
		{"id":"wait","type":"delay","for":"2s","next":"thanks"},
		{"id":"thanks","type":"touchpoint","webhook":%[1]q}]}`)
	enrolled := p.Enroll(t, journeyID, 100)
	for range kills {
		time.Sleep(time.Duration(200+rand.IntN(1500)) * time.Millisecond) // the moment is to be random
		p.Kill9(t)
		p = harness.StartProcess(t, dir, []string{"--no-demo"}, env...)
	}
	for _, id := range enrolled {
		p.AwaitEnd(t, id, 90*time.Second)
	}
	want := map[string]bool{}
	for _, id := range enrolled {
		want["enrollment.ended "+id] = true
	}
	for _, rec := range p.Records(t, journeyID) {
		if rec.Status == waypost.DeliveryFailed {
			want["delivery.failed "+rec.MessageID] = true
		}
	}
	harness.Eventually(t, 90*time.Second, func() (bool, string) {
		return len(e.messages()) >= len(want), fmt.Sprintf("%d of %d messages have come", len(e.messages()), len(want))
	})
	harness.Eventually(t, time.Minute, func() (bool, string) {
		var list struct {
			Items []struct{ MessageID, Status string }
		}
		p.Do(t, http.MethodGet, "/v1/deliveries?limit=500&subscriptionId="+subscription, nil, &list)
		for _, d := range list.Items {
			if d.Status != string(waypost.DeliverySucceeded) {
				return false, fmt.Sprintf("%s is %s", d.MessageID, d.Status)
			}
		}
		return len(list.Items) == len(want), fmt.Sprintf("%d deliveries are recorded, %d things happened", len(list.Items), len(want))
	})
	seen := map[string]int{}
	for _, m := range e.messages() {
		what := fmt.Sprintf("%s %v", m.Type, m.Data["enrollmentId"])
		if m.Type == waypost.DeliveryFailure {
			what = fmt.Sprintf("%s %v", m.Type, m.Data["messageId"])
		}
		if seen[what]++; !want[what] || seen[what] > 1 {
			t.Errorf("told %d times of %s, of which it was to be told: %t", seen[what], what, want[what])
		}
	}
	posts := 0
	for _, n := range e.posts {
		posts += n
	}
	t.Logf("%d kills: %d happenings, %d messages, %d POSTs", kills, len(want), len(e.messages()), posts)
}
