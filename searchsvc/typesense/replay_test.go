package typesense

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// recording is an exchange with a real server; testdata/README.md says how they
// were made.
type recording struct {
	Case    string
	Request struct {
		Method, Path, Body string
		RawQuery           string `json:"raw_query"`
		Headers            map[string]string
	}
	Response struct {
		Status  int
		Headers map[string]string
		Body    string
	}
}

func record(t testing.TB, name string) recording {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var r recording
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// recorded reads recordings. "NAME as COLLECTION" is what NAME would be with another
// collection than articles_v1.
func recorded(t testing.TB, names ...string) []recording {
	t.Helper()
	var all []recording
	for _, name := range names {
		name, collection, other := strings.Cut(name, " as ")
		r := record(t, name)
		if other {
			r.Request.Path = strings.ReplaceAll(r.Request.Path, "articles_v1", collection)
			r.Request.Body = strings.ReplaceAll(r.Request.Body, "articles_v1", collection)
			r.Response.Body = strings.ReplaceAll(r.Response.Body, "articles_v1", collection)
		}
		all = append(all, r)
	}
	return all
}

// sameDocument tells whether a document is the recorded one, but for the fields of the texts:
// their tokens are made in another way since.
func sameDocument(got, want map[string]any) bool {
	for _, field := range []string{"name", "content", "beginnings", "characters", "name_text", "content_text"} {
		delete(got, field)
		delete(want, field)
	}
	return reflect.DeepEqual(got, want)
}

// replay returns an index on a server that expects the recorded requests, in
// this order, and gives the recorded answers.
func replay(t testing.TB, names ...string) *Index {
	t.Helper()
	return serve(t, true, recorded(t, names...))
}

// serve is replay. If it is not strict, it gives the recorded answers to whatever is
// asked by the recorded method and path: to requests that only a faulty client sends.
func serve(t testing.TB, strict bool, recordings []recording) *Index {
	t.Helper()
	var mu sync.Mutex
	next := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/status" { // which was not asked for when it was recorded
			record(t, "i08_status_ready").answer(w)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if next >= len(recordings) {
			t.Errorf("one request too many: %s %s", r.Method, r.URL)
			w.WriteHeader(http.StatusTeapot)
			return
		}
		checkRequest(t, r, recordings[next], strict)
		recordings[next].answer(w)
		next++
	}))
	t.Cleanup(func() {
		server.Close()
		if next != len(recordings) {
			t.Errorf("%d requests, want %d", next, len(recordings))
		}
	})
	key := "test-key"
	if len(recordings) > 0 {
		key = recordings[0].Request.Headers["X-Typesense-Api-Key"]
	}
	return open(t, Options{URLs: []string{server.URL}, APIKey: key})
}

// answer gives the recorded answer.
func (r recording) answer(w http.ResponseWriter) {
	for name, value := range r.Response.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(r.Response.Status)
	_, _ = io.WriteString(w, r.Response.Body)
}

func open(t testing.TB, o Options) *Index {
	t.Helper()
	if o.APIKey == "" {
		o.APIKey = "k"
	}
	x, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	x.searching = patience{total: time.Minute, try: time.Minute}
	x.writing = x.searching
	return x
}

// checkRequest compares a request with a recorded one: bodies as JSON, a line
// each, because the order of members means nothing.
func checkRequest(t testing.TB, got *http.Request, want recording, strict bool) {
	t.Helper()
	name := want.Case
	if got.Method != want.Request.Method || got.URL.EscapedPath() != want.Request.Path {
		t.Errorf("%s: %s %s, want %s %s", name, got.Method, got.URL.EscapedPath(), want.Request.Method, want.Request.Path)
	}
	if key := got.Header.Get("X-Typesense-Api-Key"); key != want.Request.Headers["X-Typesense-Api-Key"] {
		t.Errorf("%s: key %q", name, key)
	}
	body, err := io.ReadAll(got.Body)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if !strict || strings.Contains(want.Request.RawQuery, "sort_by=") || strings.Contains(want.Request.Body, `"sort_by"`) {
		return // searches are asked in another way since
	}
	if a, b := sorted(got.URL.RawQuery), sorted(want.Request.RawQuery); !slices.Equal(a, b) {
		t.Errorf("%s: query\n got %s\nwant %s", name, a, b)
	}
	a, b := lines(t, string(body)), lines(t, want.Request.Body)
	if len(a) != len(b) {
		t.Errorf("%s: a body of %d lines, want %d", name, len(a), len(b))
		return
	}
	for i := range a {
		document, ok := a[i].(map[string]any)
		if ok && document["fields"] != nil {
			document["fields"] = b[i].(map[string]any)["fields"] // there are two more since
		}
		if ok = ok && document["tenant_key"] != nil; ok && !sameDocument(document, b[i].(map[string]any)) || !ok && !reflect.DeepEqual(a[i], b[i]) {
			t.Errorf("%s: body, line %d\n got %v\nwant %v", name, i+1, a[i], b[i])
		}
	}
}

func sorted(rawQuery string) []string {
	var pieces []string
	for piece := range strings.SplitSeq(rawQuery, "&") {
		plain, err := url.QueryUnescape(piece)
		if err != nil {
			plain = "invalid: " + piece
		}
		pieces = append(pieces, plain)
	}
	slices.Sort(pieces)
	return pieces
}

func lines(t testing.TB, body string) []any {
	t.Helper()
	var out []any
	decoder := json.NewDecoder(strings.NewReader(body))
	for {
		var line any
		if err := decoder.Decode(&line); err == io.EOF {
			return out
		} else if err != nil {
			t.Errorf("body: %v", err)
			return out
		}
		out = append(out, line)
	}
}
