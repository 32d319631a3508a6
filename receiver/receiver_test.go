package receiver

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var clock = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

func now() time.Time { return clock }

func message1(id string) string {
	return `{"messageId":"` + id + `","version":"1.0","journeyInfo":{"journeyName":"Welcome <1>"},"params":{}}`
}

// post hands one POST to h without a network in between.
func post(h http.Handler, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	const received = `200 {"succeed":true,"message":"received"}`
	asAsked := func(status int) string {
		return fmt.Sprintf(`%d {"succeed":false,"message":"answered %d, as told"}`, status, status)
	}
	tests := []struct {
		name    string
		options Options
		query   string
		want    []string // status and body of the attempts, in order
	}{
		{"default", Options{}, "", []string{received, received}},
		{"status", Options{}, "status=404", []string{asAsked(404), asAsked(404)}},
		{"statuses", Options{}, "status=503,500,200", []string{asAsked(503), asAsked(500), received, received}},
		{"fail", Options{}, "fail=2", []string{asAsked(503), asAsked(503), received}},
		{"fail with status", Options{}, "fail=2&status=429", []string{asAsked(429), asAsked(429), received}},
		{"fail with statuses", Options{}, "fail=3&status=503,500", []string{asAsked(503), asAsked(500), asAsked(500), received}},
		{"no content", Options{}, "status=204", []string{"204 "}},
		{"redirect", Options{}, "status=302", []string{asAsked(302)}},
		{"succeed false", Options{}, "succeed=false", []string{`200 {"succeed":false,"message":"refused, as told"}`}},
		{"succeed false with message", Options{}, "succeed=false&message=no", []string{`200 {"succeed":false,"message":"no"}`}},
		{"fail, then succeed false", Options{}, "fail=1&succeed=false&message=no", []string{`503 {"succeed":false,"message":"no"}`, `200 {"succeed":false,"message":"no"}`}},
		{"no body", Options{}, "body=none&fail=1", []string{"503 ", "200 "}},
		{"other parameters", Options{}, "token=x&retry=7", []string{received}},
		{"options", Options{Status: []int{500}, Fail: 1, SucceedFalse: true, Message: "no"}, "", []string{`500 {"succeed":false,"message":"no"}`, `200 {"succeed":false,"message":"no"}`}},
		{"URL before options", Options{Status: []int{500}, SucceedFalse: true, NoBody: true, Message: "no"}, "status=200&succeed=true&body=json&message=", []string{received}},
		{"bad status", Options{}, "status=100", []string{"400 status must be 200 to 599, not 100\n"}},
		{"bad number", Options{}, "fail=two", []string{"400 fail must be a number of attempts\n"}},
		{"bad delay", Options{}, "delay=24h", []string{"400 delay must be 0s to 10m0s\n"}},
		{"bad succeed", Options{}, "succeed=maybe", []string{"400 succeed must be true or false\n"}},
		{"bad body", Options{}, "body=xml", []string{"400 body must be none or json\n"}},
		{"bad Retry-After", Options{}, "retryAfter=-1", []string{"400 retryAfter must be 0 to 604800 seconds\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := New(tt.options)
			post(h, "/hook?fail=1", message1("msg_other")) // has no say in what msg_1 gets
			for i, want := range tt.want {
				w := post(h, "/hook?"+tt.query, message1("msg_1"))
				if got := fmt.Sprintf("%d %s", w.Code, w.Body); got != want {
					t.Errorf("attempt %d: %q, want %q", i+1, got, want)
				}
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	h := New(Options{RetryAfter: 3})
	for query, want := range map[string]string{"status=503": "3", "status=429&retryAfter=7": "7", "status=503&retryAfter=0": "", "": ""} {
		if got := post(h, "/hook?"+query, message1("msg_1")).Header().Get("Retry-After"); got != want {
			t.Errorf("%q: Retry-After %q, want %q", query, got, want)
		}
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if w := post(New(Options{Delay: time.Hour / 60}), "/hook?delay=2s", message1("msg_1")); w.Code != 200 {
			t.Errorf("answered %d", w.Code)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestBasicAuth(t *testing.T) {
	t.Parallel()
	auth := func(user, password string) string {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.SetBasicAuth(user, password)
		return r.Header.Get("Authorization")
	}
	h := New(Options{BasicAuth: "waypost:pass:word"})
	tests := []struct {
		target, header string
		want           int
	}{
		{"/hook", "", 401},
		{"/hook", "Bearer x", 401},
		{"/hook", auth("waypost", "pass"), 401},
		{"/hook", auth("waypost", "pass:word2"), 401},
		{"/hook", auth("", ""), 401},
		{"/hook?basicAuth=a:b", auth("a", "b"), 401},
		{"/hook", auth("waypost", "pass:word"), 200},
		{"/hook?basicAuth=a:b", auth("waypost", "pass:word"), 200},
	}
	for _, tt := range tests {
		w := post(h, tt.target, message1("msg_1"), "Authorization", tt.header)
		if w.Code != tt.want || (w.Header().Get("WWW-Authenticate") != "") != (tt.want == 401) {
			t.Errorf("%s %s: %d %v", tt.target, tt.header, w.Code, w.Header())
		}
	}
	if w := get(h, "/messages"); w.Code != 401 {
		t.Errorf("the ledger is open: %d", w.Code)
	}

	open := New(Options{})
	if w := post(open, "/hook?basicAuth=a:b", message1("msg_1")); w.Code != 401 {
		t.Errorf("asked for by the URL: %d", w.Code)
	}
	if w := post(open, "/hook?basicAuth=a:b", message1("msg_1"), "Authorization", auth("a", "b")); w.Code != 200 {
		t.Errorf("asked for by the URL: %d", w.Code)
	}
	if w := post(open, "/hook?basicAuth=ab", message1("msg_1")); w.Code != 400 {
		t.Errorf("no colon: %d", w.Code)
	}
	// A refused POST is in the ledger, but is no attempt.
	if got := listed(t, open, ""); len(got) != 2 || got[0].Answered != 401 || got[0].Attempt != 0 || got[1].Attempt != 1 {
		t.Errorf("ledger %+v", got)
	}
}

func get(h http.Handler, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}

func listed(t *testing.T, h http.Handler, query string) []Post {
	t.Helper()
	w := get(h, "/messages"+query)
	var list []Post
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != 200 {
		t.Fatalf("%d %v", w.Code, err)
	}
	return list
}

func TestLedger(t *testing.T) {
	t.Parallel()
	var file, out bytes.Buffer
	h := New(Options{Ledger: &file, Out: &out, Now: now})
	if got := get(h, "/messages").Body.String(); got != "[]\n" {
		t.Errorf("empty ledger %q", got)
	}
	bodies := []string{message1("msg_1"), message1("msg_2"), message1("msg_1"), "not JSON <\x00>", "", "[1]", `{"messageId":7}`, "not JSON <\x00>", `{"messageId":"` + strings.Repeat("x", 300) + `"}`}
	for _, body := range bodies {
		post(h, "/a/b?fail=1", body)
	}
	want := []Post{
		{MessageID: "msg_1", Attempt: 1, Answered: 503}, {MessageID: "msg_2", Attempt: 1, Answered: 503}, {MessageID: "msg_1", Attempt: 2, Answered: 200},
		{Attempt: 1, Answered: 503}, {Attempt: 1, Answered: 503}, {Attempt: 1, Answered: 503}, {Attempt: 1, Answered: 503}, {Attempt: 2, Answered: 200}, {Attempt: 1, Answered: 503},
	}
	for i := range want {
		sum := sha256.Sum256([]byte(bodies[i]))
		want[i].At, want[i].Path, want[i].Body, want[i].BodySHA256 = clock.Truncate(time.Millisecond), "/a/b", bodies[i], hex.EncodeToString(sum[:])
	}
	check := func(name string, got, want []Post) {
		if len(got) != len(want) {
			t.Fatalf("%s: %d posts, want %d", name, len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s, post %d: %+v, want %+v", name, i, got[i], want[i])
			}
		}
	}
	check("memory", listed(t, h, ""), want)
	check("one message", listed(t, h, "?messageId=msg_1"), []Post{want[0], want[2]})
	check("unknown message", listed(t, h, "?messageId=msg_x"), nil)

	var inFile []Post
	for line := range strings.Lines(file.String()) {
		var e Post
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		inFile = append(inFile, e)
	}
	check("file", inFile, want)
	if first, _, _ := strings.Cut(file.String(), "\n"); !strings.HasPrefix(first, `{"messageId":"msg_1","at":"2026-03-01T12:00:00.123Z","path":"/a/b","attempt":1,"answered":503,"bodySha256":"`) {
		t.Errorf("line %s", first)
	}

	at := clock.Local().Format("15:04:05.000 ")
	if got, want := strings.SplitN(out.String(), "\n", 6), []string{
		at + "msg_1 attempt 1 of journey Welcome <1>: answered 503", at + "msg_2 attempt 1 of journey Welcome <1>: answered 503",
		at + "msg_1 attempt 2 of journey Welcome <1>: answered 200", at + "(no message, 12 bytes) attempt 1: answered 503", at + "(no message, 0 bytes) attempt 1: answered 503",
	}; strings.Join(got[:5], "\n") != strings.Join(want, "\n") {
		t.Errorf("printed %q", got)
	}
}

// recorder is a ResponseWriter that notes whether something was in the ledger
// when the answer began.
type recorder struct {
	*httptest.ResponseRecorder
	ledger  *bytes.Buffer
	written bool
}

func (r *recorder) WriteHeader(status int) {
	r.written = r.ledger.Len() > 0
	r.ResponseRecorder.WriteHeader(status)
}

func TestLedgerIsWrittenBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	w := &recorder{ResponseRecorder: httptest.NewRecorder(), ledger: &file}
	New(Options{Ledger: &file}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}")))
	if w.Code != 200 || !w.written {
		t.Errorf("answered %d, ledger written before: %t", w.Code, w.written)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestBrokenLedgerIsNoSuccess(t *testing.T) {
	t.Parallel()
	h := New(Options{Ledger: brokenWriter{}})
	if w := post(h, "/hook", message1("msg_1")); w.Code != 500 {
		t.Errorf("answered %d", w.Code)
	}
	if got := listed(t, h, ""); len(got) != 0 {
		t.Errorf("ledger %+v", got)
	}
}

func TestLedgerIsBounded(t *testing.T) {
	t.Parallel()
	var l ledger
	for i := range maxPosts + 10 {
		if err := l.record(Post{Attempt: i}); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.list(""); len(got) != maxPosts || got[0].Attempt != 10 || got[maxPosts-1].Attempt != maxPosts+9 {
		t.Errorf("%d posts from %d to %d", len(got), got[0].Attempt, got[len(got)-1].Attempt)
	}
	large := strings.Repeat("x", maxBody)
	for range maxKept/maxBody + 5 {
		if err := l.record(Post{Body: large}); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.list(""); len(got) != maxKept/maxBody || l.kept != maxKept {
		t.Errorf("%d posts of %d bytes", len(got), l.kept)
	}

	for i := range maxCounted + 10 {
		if n := l.count(fmt.Sprint(i)); n != 1 {
			t.Fatalf("%d was counted %d times", i, n)
		}
	}
	if len(l.attempts) != maxCounted || len(l.order) != maxCounted {
		t.Errorf("%d counts, %d in order", len(l.attempts), len(l.order))
	}
	if l.count("0") != 1 || l.count(fmt.Sprint(maxCounted)) != 2 {
		t.Error("the wrong counts were dropped")
	}
}

func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	h := New(Options{})
	if w := post(h, "/hook", strings.Repeat(" ", maxBody)); w.Code != 200 {
		t.Errorf("1 MiB: %d", w.Code)
	}
	if w := post(h, "/hook", strings.Repeat(" ", maxBody+1)); w.Code != 413 {
		t.Errorf("more: %d", w.Code)
	}
	if w := post(h, "/hook?message="+strings.Repeat("x", maxMessage+1), ""); w.Code != 400 {
		t.Errorf("long message: %d", w.Code)
	}
	if w := post(h, "/"+strings.Repeat("p", 5000), ""); w.Code != 200 {
		t.Errorf("long path: %d", w.Code)
	}
	if got := listed(t, h, ""); len(got) != 2 || len(got[1].Path) != maxPath {
		t.Errorf("%d posts", len(got))
	}
}

func TestVerboseShowsNoControlCharacters(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	h := New(Options{Out: &out, Verbose: true, Now: now})
	body := "{\"messageId\":\"msg_\\u001b[2J\\n1\",\n \"x\":\"\x7f[31m\u009b\"}"
	post(h, "/hook", body)
	want := clock.Local().Format("15:04:05.000 ") + "msg_[2J 1 attempt 1: answered 200\n{\"messageId\":\"msg_\\u001b[2J\\n1\",\n \"x\":\"[31m\"}\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestOtherRequests(t *testing.T) {
	t.Parallel()
	h := New(Options{})
	if w := get(h, "/"); w.Code != 200 || w.Body.String() != Help {
		t.Errorf("help: %d", w.Code)
	}
	if w := get(h, "/hook"); w.Code != 404 {
		t.Errorf("GET of a hook: %d", w.Code)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/hook", nil))
	if w.Code != 405 || w.Header().Get("Allow") == "" {
		t.Errorf("PUT: %d %v", w.Code, w.Header())
	}
	for _, param := range []string{"status", "fail", "delay", "succeed", "message", "retryAfter", "body", "basicAuth"} {
		if !strings.Contains(Help, "  "+param+"=") {
			t.Errorf("the help lacks %s", param)
		}
	}
}

func TestNewPanicsOnBadOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{Status: []int{20}}, {Fail: -1}, {Delay: -1}, {BasicAuth: "x"}, {RetryAfter: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was taken", o)
				}
			}()
			New(o)
		}()
		if err := Run(t.Context(), "127.0.0.1:0", o, io.Discard, nil); err == nil {
			t.Errorf("%+v ran", o)
		}
	}
}
