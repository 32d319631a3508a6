package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
)

// look asks for a page as live.js does.
func (v *visitor) look(path, etag string) shown {
	header := http.Header{liveHeader: {"1"}}
	if etag != "" {
		header.Set("If-None-Match", etag)
	}
	return v.do(http.MethodGet, path, nil, header)
}

// All who have the same role look at one content, which has nothing of a person.
func TestLiveContentIsShared(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first, ada := s.as(waypost.RoleMarketer)
	second, _ := s.as(waypost.RoleMarketer)
	second.setCookie("theme", "dark")
	second.setCookie("flash", url.QueryEscape("ok of the second"))
	s.take()
	seen := first.look("/journeys", "")
	if calls := s.take(); seen.Status != http.StatusOK || len(calls) == 0 || calls[0].Header.Get("X-Cloud-Actor") != "" {
		t.Fatalf("HTTP %d, calls %v", seen.Status, calls)
	}
	if seen.Header.Get(liveHeader) != "10" || strings.Contains(seen.Body, ada.Name) || strings.Contains(seen.Body, ada.Email) || strings.Contains(seen.Body, "<html") || !strings.Contains(seen.Body, `id="journeys" data-live`) {
		t.Errorf("%s %s: %s", liveHeader, seen.Header.Get(liveHeader), seen.Body)
	}
	again := second.look("/journeys", "")
	if again.Body != seen.Body || again.Header.Get("ETag") != seen.Header.Get("ETag") || second.cookie("flash") == "" {
		t.Errorf("the second one sees %s", again.Body)
	}
	if got := second.look("/journeys", seen.Header.Get("ETag")); got.Status != http.StatusNotModified || got.Body != "" {
		t.Errorf("unchanged: HTTP %d, %q", got.Status, got.Body)
	}
	if calls := s.take(); len(calls) > 0 {
		t.Errorf("%d calls were made again: %v", len(calls), calls)
	}
	if whole := second.get("/journeys").Body; !strings.Contains(whole, "of the second") || !strings.Contains(whole, `data-theme="dark"`) || len(s.take()) == 0 {
		t.Error("who opens the page gets it as others see it")
	}
}

// usersOfTwo has the users of two organisations sign in at one console.
type usersOfTwo struct{ orgUsers }

const otherOrg = "globex"

func (u usersOfTwo) UserByLink(ctx context.Context, token string) (waypost.User, error) {
	found, err := u.orgUsers.UserByLink(ctx, token)
	if waypost.CodeOf(err) == waypost.CodeNotFound {
		return u.Store.UserByLink(ctx, otherOrg, token)
	}
	return found, err
}

func (u usersOfTwo) TakeLink(ctx context.Context, by waypost.Author, token, hash, second string) (waypost.User, error) {
	found, err := u.orgUsers.TakeLink(ctx, by, token, hash, second)
	if waypost.CodeOf(err) == waypost.CodeNotFound {
		by.Org = otherOrg
		return u.Store.TakeLink(ctx, by, token, hash, second)
	}
	return found, err
}

// Nobody sees what was made for another organisation, role, stage, language, zone or address.
func TestLiveContentIsNotMixed(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.Users = usersOfTwo{o.Users.(orgUsers)} })
	var asked atomic.Int64
	s.answering(func(r *http.Request) (int, string) { // each call finds something of its own
		if r.URL.Path != "/v1/launches" {
			return 0, ""
		}
		return http.StatusOK, fmt.Sprintf(`{"items":[{"launchId":"lch_%d","status":"scheduled","startAt":"2026-01-31T20:00:00Z"}],"nextCursor":null}`, asked.Add(1))
	})
	stranger := func() *visitor {
		_, link, err := s.store.CreateUser(t.Context(), ops, waypost.User{Org: otherOrg, Email: "eve@example.com", Name: "Eve", Role: waypost.RoleViewer})
		if err != nil {
			t.Fatal(err)
		}
		v := s.guest()
		if res := v.post("/sign-in/link", url.Values{"token": {link}}); res.Status != http.StatusSeeOther {
			t.Fatalf("sign in: HTTP %d", res.Status)
		}
		return v
	}
	as := func(role waypost.Role, cookies ...string) *visitor {
		v, _ := s.as(role)
		for i := 0; i < len(cookies); i += 2 {
			v.setCookie(cookies[i], cookies[i+1])
		}
		return v
	}
	all := []struct {
		who  string
		v    *visitor
		path string
	}{
		{"a viewer", as(waypost.RoleViewer), "/launches"},
		{"of another organisation", stranger(), "/launches"},
		{"a marketer", as(waypost.RoleMarketer), "/launches"},
		{"an administrator", as(waypost.RoleAdmin), "/launches"},
		{"in another stage", as(waypost.RoleViewer, "stage", "test"), "/launches"},
		{"in another language", as(waypost.RoleViewer, "language", "zh"), "/launches"},
		{"in another zone", as(waypost.RoleViewer, "zone", url.QueryEscape("Asia/Shanghai")), "/launches"},
		{"with a filter", as(waypost.RoleViewer), "/launches?status=scheduled"},
	}
	made := map[string]string{}
	for _, one := range all {
		seen := one.v.look(one.path, "")
		if seen.Status != http.StatusOK || !strings.Contains(seen.Body, fmt.Sprintf("lch_%d\"", asked.Load())) {
			t.Errorf("%s: HTTP %d, %s", one.who, seen.Status, seen.Body)
		}
		made[one.who] = seen.Body
	}
	if int(asked.Load()) != len(all) {
		t.Errorf("%d lists were read for %d kinds of viewers", asked.Load(), len(all))
	}
	for _, one := range all { // each finds its own again
		if got := one.v.look(one.path, "").Body; got != made[one.who] && int(asked.Load()) == len(all) {
			t.Errorf("%s: now it is %s", one.who, got)
		}
	}
}

// A viewer sees a change when what was made before is too old; who opens the page, at once,
// and so do those who look after that.
func TestLiveContentChanges(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var total atomic.Int64
	s.answering(func(r *http.Request) (int, string) {
		if r.URL.Path != "/v1/launches/lch_1" {
			return 0, ""
		}
		return http.StatusOK, fmt.Sprintf(`{"launchId":"lch_1","journeyId":"jrn_1","status":"running","total":%d}`, total.Load())
	})
	v, _ := s.as(waypost.RoleViewer)
	shows := func(n string, a shown) bool { return strings.Contains(a.Body, n) }
	total.Store(1111)
	began := time.Now()
	before := v.look("/launches/lch_1", "")
	if before.Header.Get(liveHeader) != "3" || !shows("1,111", before) {
		t.Fatalf("%s: %s", before.Header.Get(liveHeader), before.Body)
	}
	total.Store(2222)
	looks := 0
	for etag := before.Header.Get("ETag"); ; looks++ {
		got := v.look("/launches/lch_1", etag)
		if got.Status == http.StatusOK {
			if !shows("2,222", got) {
				t.Errorf("it changed to %s", got.Body)
			}
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the change is not seen")
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
	if took := time.Since(began); looks == 0 || took < 3*time.Second {
		t.Errorf("it was made anew after %s", took)
	}
	total.Store(3333)
	if !shows("3,333", v.get("/launches/lch_1")) || !shows("3,333", v.look("/launches/lch_1", "")) {
		t.Error("who opens the page sees what was before")
	}
}

// Each page that looks for changes is shared, but for the one whose filters are kept in the
// session; what is no live page answers as always.
func TestLivePages(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v, _ := s.as(waypost.RoleAdmin)
	s.answers(map[string]string{"/v1/articles/reindex": `{"status":"running"}`})
	shared := 0
	for _, rt := range routes {
		if rt.method != http.MethodGet {
			continue
		}
		path := wildcard.ReplaceAllStringFunc(rt.pattern, func(m string) string {
			return map[bool]string{false: "1"}[m == "{$}"]
		})
		whole := v.get(path)
		_, every, isLive := strings.Cut(whole.Body, `data-live-every="`)
		every, _, _ = strings.Cut(every, `"`)
		looked := v.look(path, "")
		if looked.Status != whole.Status {
			t.Errorf("%s: HTTP %d, to those who look %d", rt.pattern, whole.Status, looked.Status)
		}
		alone := !strings.HasPrefix(looked.Body, `<div class="title">`)
		switch {
		case !isLive && !alone:
			t.Errorf("%s is no live page, and shared", rt.pattern)
		case isLive && looked.Header.Get(liveHeader) != every:
			t.Errorf("%s: %s is %q, the page says %s", rt.pattern, liveHeader, looked.Header.Get(liveHeader), every)
		case isLive && alone != (path == "/articles"):
			t.Errorf("%s is live; it is shared: %v", rt.pattern, !alone)
		case isLive:
			shared++
		}
	}
	if shared < 15 {
		t.Errorf("%d live pages", shared)
	}
}

func TestLiveParts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Unix(0, 0)
	l := &liveParts{parts: map[string]*livePart{}, now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}}
	pass := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
	n := 0
	build := func() (liveContent, error) {
		n++
		return liveContent{every: 10, etag: strconv.Itoa(n)}, nil
	}
	expect := func(key, want string) {
		t.Helper()
		if c, err := l.get(key, build); err != nil || c.etag != want {
			t.Errorf("%s: %q, %v, want %s", key, c.etag, err, want)
		}
	}
	expect("a", "1")
	pass(10*time.Second - 1)
	expect("a", "1")
	expect("b", "2")
	pass(1)
	expect("a", "3")
	l.forget("a")
	expect("a", "4")

	// It is as old as its making was begun.
	if _, err := l.get("slow", func() (liveContent, error) { pass(11 * time.Second); return build() }); err != nil {
		t.Error(err)
	}
	expect("slow", "6")
	pass(time.Hour)
	expect("c", "7")
	if len(l.parts) != 1 {
		t.Errorf("%d are kept", len(l.parts))
	}

	// What failed is tried again, what panicked too, and what is too much is not kept.
	failure := errors.New("away")
	if _, err := l.get("d", func() (liveContent, error) { return liveContent{}, failure }); !errors.Is(err, failure) {
		t.Error(err)
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = l.get("d", func() (liveContent, error) { panic("a fault") })
	}()
	expect("d", "8")
	large := func() (liveContent, error) { return liveContent{every: 10, plain: make([]byte, maxLive)}, nil }
	if _, err := l.get("e", large); err != nil || l.parts["e"] != nil || l.parts["d"] == nil {
		t.Errorf("%v, kept: %v", err, l.parts)
	}

	// All who ask at the same time get one.
	release, waiting := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	var made atomic.Int64
	got := make([]string, 20)
	ask := func(i int) {
		c, _ := l.get("f", func() (liveContent, error) {
			made.Add(1)
			close(waiting)
			<-release
			return liveContent{every: 10, etag: "one"}, nil
		})
		got[i] = c.etag
	}
	all.Go(func() { ask(0) })
	<-waiting
	for i := 1; i < len(got); i++ {
		all.Go(func() { ask(i) })
	}
	close(release)
	all.Wait()
	if made.Load() != 1 || slices.ContainsFunc(got, func(s string) bool { return s != "one" }) {
		t.Errorf("%d were made: %q", made.Load(), got)
	}
}
