package typesense

import (
	"bufio"
	"bytes"
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

	"waypost"
	"waypost/searchsvc"
)

// recording is an exchange with a real server; testdata/README.md says how they
// were made.
type recording struct {
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

func record(t *testing.T, name string) recording {
	t.Helper()
	var r recording
	readJSON(t, name+".json", &r)
	return r
}

func readJSON(t *testing.T, name string, v any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// replay returns an index on a server that expects the recorded requests, in
// this order, and gives the recorded answers.
func replay(t *testing.T, names ...string) *Index {
	t.Helper()
	return serve(t, true, names...)
}

// replayAnswers gives the recorded answers to whatever is asked by the recorded
// method and path: to requests that only a faulty client sends.
func replayAnswers(t *testing.T, names ...string) *Index {
	t.Helper()
	return serve(t, false, names...)
}

func serve(t *testing.T, strict bool, names ...string) *Index {
	t.Helper()
	recordings := make([]recording, len(names))
	for i, name := range names {
		recordings[i] = record(t, name)
	}
	var mu sync.Mutex
	next := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if next >= len(recordings) {
			t.Errorf("one request too many: %s %s", r.Method, r.URL)
			w.WriteHeader(http.StatusTeapot)
			return
		}
		rec := recordings[next]
		checkRequest(t, names[next], r, rec, strict)
		next++
		for name, value := range rec.Response.Headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(rec.Response.Status)
		_, _ = io.WriteString(w, rec.Response.Body)
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
	return open(t, Options{URL: server.URL, APIKey: key})
}

func open(t *testing.T, o Options) *Index {
	t.Helper()
	x, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// checkRequest compares a request with a recorded one: bodies as JSON, a line
// each, because the order of members means nothing.
func checkRequest(t *testing.T, name string, got *http.Request, want recording, strict bool) {
	t.Helper()
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
	if !strict {
		return
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
		if !reflect.DeepEqual(a[i], b[i]) {
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

func lines(t *testing.T, body string) []any {
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

// corpus reads the articles behind the recordings. Their time is recorded in
// seconds where we write milliseconds, so it is read as if they were.
func corpus(t *testing.T) []searchsvc.Document {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "corpus.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	var docs []searchsvc.Document
	for scanner := lineScanner(data); scanner.Scan(); {
		var line struct {
			ID, Name, Identifier, Content string
			TenantID                      string `json:"tenant_id"`
			AccessLevel                   int    `json:"access_level"`
			Published                     bool
			PublishedAt                   int64  `json:"published_at"`
			FrontendURL                   string `json:"frontend_url"`
			Channels                      []string
		}
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		channels := make([]waypost.Channel, len(line.Channels))
		for i, id := range line.Channels {
			channels[i].ID = id
		}
		docs = append(docs, searchsvc.Document{Key: line.ID, Stage: waypost.StageRelease, Article: waypost.Article{
			ID: line.ID, TenantID: line.TenantID, Name: line.Name, Identifier: line.Identifier, Content: line.Content,
			AccessLevel: line.AccessLevel, Published: line.Published, FrontendURL: line.FrontendURL,
			Channels: channels, PublishedAt: time.UnixMilli(line.PublishedAt).UTC(),
		}})
	}
	if len(docs) != 42 {
		t.Fatalf("%d articles", len(docs))
	}
	return docs
}

func lineScanner(data []byte) *bufio.Scanner {
	scanner := bufio.NewScanner(bytes.NewReader(data))
	scanner.Buffer(nil, len(data)+1)
	return scanner
}
