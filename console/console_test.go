package console

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"waypost"
)

func TestHeaders(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		s := newSite(t, func(o *Options) {
			if secure {
				o.URL = "https://console.example.com"
			}
		})
		_, link := s.user(waypost.RoleViewer)
		got := s.guest().post("/sign-in/link", url.Values{"token": {link}})
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
			"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			"Strict-Transport-Security": map[bool]string{true: "max-age=31536000"}[secure],
		} {
			if got.Header.Get(name) != want {
				t.Errorf("%s: %q", name, got.Header.Get(name))
			}
		}
		lines := got.Header.Values("Set-Cookie")
		cookie, err := http.ParseSetCookie(lines[len(lines)-1])
		if err != nil {
			t.Fatal(err)
		}
		prefix := map[bool]string{false: "waypost-session-", true: "__Host-waypost-session-"}[secure]
		if !strings.HasPrefix(cookie.Name, prefix) || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Secure != secure || cookie.Path != "/" || cookie.Domain != "" {
			t.Errorf("the cookie is %s", cookie)
		}
	}
}

// Nothing on a page is inline: the policy would forbid it.
func TestNothingInline(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v, _ := s.as(waypost.RoleAdmin)
	inline := regexp.MustCompile(`(?i)<style|\sstyle=|\son\w+=|<script[^>]*>[^<]|javascript:`)
	for _, rt := range routes {
		if rt.method != http.MethodGet || strings.Contains(strings.TrimSuffix(rt.pattern, "{$}"), "{") {
			continue
		}
		if found := inline.FindString(v.get(strings.TrimSuffix(rt.pattern, "{$}")).Body); found != "" {
			t.Errorf("%s has %q", rt.pattern, found)
		}
	}
}

// Text of others is text on a page.
func TestEscaping(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v, _ := s.as(waypost.RoleViewer)
	evil := `<img src=x onerror=alert(1)>`
	s.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/v1/journeys") {
			fmt.Fprintf(w, `{"items":[{"id":"jrn_1","name":%q}],"nextCursor":null}`, evil)
			return true
		}
		fmt.Fprintf(w, `{"items":[{"messageId":"msg_1","journeyId":"jrn_1","nodeId":%q,"leadsId":9007199254740993,"status":%[1]q}],"nextCursor":null}`, evil)
		return true
	}
	got := v.get("/deliveries?leadsId=" + url.QueryEscape(`"><script>`))
	if got.Status != http.StatusOK || strings.Contains(got.Body, "<img src=x") || strings.Contains(got.Body, "<script>") {
		t.Errorf("HTTP %d: %s", got.Status, got.Body)
	}
	if !strings.Contains(got.Body, "9007199254740993") {
		t.Error("a large id is not as it was")
	}
}

// While the gateway is away a page says so, with the id of the request; it is there again
// as soon as the gateway is.
func TestGatewayAway(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v, _ := s.as(waypost.RoleViewer)
	for name, tt := range map[string]struct {
		answer func(w http.ResponseWriter)
		status int
		says   string
	}{
		"broken connection": {func(w http.ResponseWriter) { panic(http.ErrAbortHandler) }, 503, "Waypost does not answer"},
		"a proxy's page":    {func(w http.ResponseWriter) { w.WriteHeader(502); io.WriteString(w, "<html>") }, 503, "Waypost does not answer"},
		"503":               {func(w http.ResponseWriter) { w.WriteHeader(503); io.WriteString(w, `{"code":"ServiceUnavailable"}`) }, 503, "Waypost does not answer"},
		"429":               {func(w http.ResponseWriter) { w.WriteHeader(429); io.WriteString(w, `{"code":"TooManyRequests"}`) }, 503, "Waypost does not answer"},
		"404":               {func(w http.ResponseWriter) { w.WriteHeader(404); io.WriteString(w, `{"code":"NotFound"}`) }, 404, "There is nothing here"},
		"401":               {func(w http.ResponseWriter) { w.WriteHeader(401); io.WriteString(w, `{"code":"Unauthorized"}`) }, 502, "The console may not do this"},
		"400": {func(w http.ResponseWriter) {
			w.WriteHeader(400)
			io.WriteString(w, `{"code":"BadRequest","message":"leadsId: must be 1 to 9","detail":[{"code":"OutOfRange","target":"leadsId","message":"must be 1 to 9"}]}`)
		}, 400, "must be 1 to 9"},
	} {
		s.mu.Lock()
		s.answer = func(w http.ResponseWriter, _ *http.Request) bool { tt.answer(w); return true }
		s.mu.Unlock()
		got := v.get("/deliveries")
		id := got.Header.Get("X-Request-Id")
		if got.Status != tt.status || !strings.Contains(got.Body, tt.says) || !strings.Contains(got.Body, id) || !strings.HasPrefix(id, "req_") {
			t.Errorf("%s: HTTP %d, id %s\n%s", name, got.Status, id, got.Body)
		}
		if strings.Count(got.Body, tt.says) > 1+strings.Count(got.Body, "<title>"+tt.says) {
			t.Errorf("%s: it says that twice\n%s", name, got.Body)
		}
		if again := strings.Contains(got.Body, "data-retry"); again != (tt.status == 503) {
			t.Errorf("%s: it tries again: %v", name, again)
		}
		s.mu.Lock()
		s.answer = nil
		s.mu.Unlock()
		if got := v.get("/deliveries"); got.Status != http.StatusOK {
			t.Errorf("%s, then back: HTTP %d", name, got.Status)
		}
	}
	s.mu.Lock()
	s.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(400)
		io.WriteString(w, `{"code":"BadRequest"}`)
		return true
	}
	s.mu.Unlock()
	if got := v.do("GET", "/deliveries?leadsId=x", nil, http.Header{"Referer": {s.url + "/deliveries?test=true"}}); !strings.Contains(got.Body, `<a class="button primary" href="/deliveries?test=true">`) {
		t.Errorf("a faulty filter leads not back to the list\n%s", got.Body)
	}
	s.mu.Lock()
	s.answer = nil
	s.mu.Unlock()
	if got := v.get("/nowhere"); got.Status != http.StatusNotFound {
		t.Errorf("/nowhere: HTTP %d", got.Status)
	}
}

// A form that is too large, or is not whole, does nothing; an empty one would redeliver all that
// has failed. Nobody sends a large one before they have signed in.
func TestFormsAreWhole(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v, _ := s.as(waypost.RoleMarketer)
	for path, who := range map[string]*visitor{"/deliveries/redeliver": v, uploadPath: s.guest()} {
		s.take()
		got := who.post(path, url.Values{"filter": {strings.Repeat("a", maxBody)}})
		if want := map[*visitor]int{v: http.StatusRequestEntityTooLarge}[who]; want != 0 && got.Status != want || len(s.take()) > 0 {
			t.Errorf("%s: HTTP %d", path, got.Status)
		}
	}
	if got := v.send(http.MethodPut, "/journeys/jrn_1/draft.yaml", strings.Repeat("# a\n", maxBody/4+1), nil); got.Status != http.StatusRequestEntityTooLarge || !strings.Contains(got.Body, "message") {
		t.Errorf("a definition that is too long: HTTP %d, %s", got.Status, got.Body)
	}
	if got := v.do(http.MethodGet, "/nope", nil, http.Header{"Referer": {s.url + "//evil.example/"}}); strings.Contains(got.Body, "evil.example") {
		t.Errorf("a page of an error leads to another site: %s", got.Body)
	}
	for _, form := range []string{"filter=%zz", "filter=a;b"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/deliveries/redeliver", strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer, err := v.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest || len(s.take()) > 0 {
			t.Errorf("%s: HTTP %d", form, answer.StatusCode)
		}
	}
}

// A page that has not changed is not sent again.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v, _ := s.as(waypost.RoleViewer)
	first := v.get("/deliveries")
	etag := http.Header{"If-None-Match": {first.Header.Get("ETag")}}
	if got := v.do(http.MethodGet, "/deliveries", nil, etag); got.Status != http.StatusNotModified || got.Body != "" {
		t.Errorf("HTTP %d, %d bytes", got.Status, len(got.Body))
	}
	s.answers(map[string]string{"/v1/deliveries": `{"items":[{"messageId":"msg_1","status":"failed"}],"nextCursor":"c=&2"}`})
	got := v.do(http.MethodGet, "/deliveries?status=failed", nil, etag)
	if got.Status != http.StatusOK || !strings.Contains(got.Body, `href="/deliveries?cursor=c%3D%262&amp;status=failed"`) {
		t.Errorf("HTTP %d: %s", got.Status, got.Body)
	}
}

// What a person chooses is kept; a form works in the stage of its page.
func TestPreferences(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v, _ := s.as(waypost.RoleViewer)
	stage := func() string {
		s.take()
		v.get("/deliveries")
		return s.take()[0].Header.Get("X-Cloud-Stage")
	}
	if got := stage(); got != "release" {
		t.Errorf("stage %q", got)
	}
	for _, tt := range []struct{ name, value, back, to string }{
		{"stage", "test", "/deliveries/msg_1", "/deliveries"},
		{"language", "zh", "/deliveries?status=failed", "/deliveries?status=failed"},
		{"theme", "dark", "https://evil.example/", "/"},
		{"theme", "dark", "//evil.example/", "/"},
		{"theme", "dark", `/\evil.example`, "/"},
		{"theme", "dark", "", "/"},
	} {
		if got := v.post("/preferences", url.Values{tt.name: {tt.value}, "back": {tt.back}}); got.To() != tt.to {
			t.Errorf("%s, back to %q: to %q", tt.name, tt.back, got.To())
		}
	}
	if got := stage(); got != "test" {
		t.Errorf("stage %q", got)
	}
	if got := v.get("/deliveries"); !strings.Contains(got.Body, `lang="zh-CN" data-theme="dark"`) || !strings.Contains(got.Body, "还没有发送任何消息") {
		t.Errorf("%s", got.Body)
	}
	for name, value := range map[string]string{"stage": "prod", "language": "xx", "theme": "x", "zone": "../../etc/passwd"} {
		v.setCookie(name, value)
	}
	if got := v.get("/deliveries"); got.Status != http.StatusOK || !strings.Contains(got.Body, `<html lang="en" data-zone="UTC" data-stage="release">`) {
		t.Errorf("faulty cookies: HTTP %d", got.Status)
	}
	r := httptest.NewRequest(http.MethodPost, "/x", strings.NewReader("stage=pre-release"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if got := (&visit{r: r, chosen: preferences{Stage: "test"}}).stage(); got != "pre-release" {
		t.Errorf("a form of pre-release works in %s", got)
	}
}

// Whatever a request names to go back to, a browser stays at the console.
func TestBackStaysHere(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v, _ := s.as(waypost.RoleViewer)
	here, err := url.Parse("https://console.example/sign-in")
	if err != nil {
		t.Fatal(err)
	}
	for _, back := range []string{
		"//evil.example", "///evil.example", `/\evil.example`, `\\evil.example`, "/\t/evil.example", "/\x0b/evil.example", "/x\r\nLocation: //evil.example", "/..//evil.example", "/.//evil.example",
		"/x/..//evil.example", `/..\evil.example`, "/%2e%2e//evil.example", "https:evil.example", "https:/evil.example", "javascript:alert(1)", "data:text/html,x", "/;@evil.example", "/@evil.example",
		"/ /evil.example", "/%09/evil.example", "/%5cevil.example", "/\u2028/evil.example", "/／evil.example", "evil.example", "?x=//evil.example", "",
	} {
		to := v.get("/sign-in?" + url.Values{"back": {back}}.Encode()).To()
		reached, err := here.Parse(strings.NewReplacer("\\", "/", "\t", "", "\r", "", "\n", "").Replace(to)) // as browsers read it
		if err != nil || reached.Scheme != here.Scheme || reached.Host != here.Host || !strings.HasPrefix(to, "/") {
			t.Errorf("%q leads to %q", back, to)
		}
	}
}

func TestLanguage(t *testing.T) {
	t.Parallel()
	for accepted, want := range map[string]string{"": "en", "zh-CN,zh;q=0.9,en;q=0.8": "zh", "de-DE, ZH-hant;q=0.5": "zh", "fr": "en", "en-GB": "en"} {
		if got := languageOf(accepted); got != want {
			t.Errorf("%q: %s", accepted, got)
		}
	}
}

// Files are kept by browsers for as long as they are the same.
func TestStatic(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v := s.guest()
	path, err := asset("console.css")
	if err != nil {
		t.Fatal(err)
	}
	got := v.get(path)
	if got.Status != http.StatusOK || !strings.Contains(got.Header.Get("Cache-Control"), "immutable") || got.Header.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("HTTP %d, %v", got.Status, got.Header)
	}
	plain := v.get("/static/live.js")
	if plain.Header.Get("Cache-Control") != "no-cache" || plain.Header.Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("%v", plain.Header)
	}
	if got := v.do(http.MethodGet, "/static/live.js", nil, http.Header{"If-None-Match": {plain.Header.Get("ETag")}}); got.Status != http.StatusNotModified {
		t.Errorf("HTTP %d", got.Status)
	}
	for _, path := range []string{"/static/", "/static/none.css", "/static/../console.go"} {
		if got := v.get(path); got.Status == http.StatusOK {
			t.Errorf("%s: HTTP %d", path, got.Status)
		}
	}
}

// Without Redis nobody is let in, and a page says why.
func TestWithoutSessions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v, _ := s.as(waypost.RoleAdmin)
	s.redis.SetError("away")
	for language, says := range map[string]string{"en": "cannot be checked", "zh": "暂时无法验证登录状态"} {
		v.setCookie("language", language)
		got := v.get("/deliveries")
		if got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, says) || !strings.Contains(got.Body, "data-retry") || !strings.Contains(got.Body, got.Header.Get("X-Request-Id")) {
			t.Errorf("HTTP %d: %s", got.Status, got.Body)
		}
		if sent := v.post("/leads", nil); sent.Status != http.StatusServiceUnavailable || strings.Contains(sent.Body, "data-retry") {
			t.Errorf("a form: HTTP %d: %s", sent.Status, sent.Body) // it would be sent twice
		}
	}
	s.redis.SetError("")
	if got := v.get("/deliveries"); got.Status != http.StatusOK {
		t.Errorf("then: HTTP %d", got.Status)
	}
}
