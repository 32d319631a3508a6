package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/client"
	"waypost/signature"
)

func ExampleClient_Do() {
	gateway := client.New("http://127.0.0.1:8080", signature.Key{AccessKey: "AK…", SecretKey: "sk_…"})
	var lead struct {
		LeadsID int64 `json:"leadsId"`
	}
	err := gateway.Do(context.Background(), http.MethodPost, "/v1/leads",
		map[string]any{"businessParam": map[string]any{"name": "Ada", "mobilePhone": []string{"13800138000"}}}, &lead)
	if e := (*waypost.Error)(nil); errors.As(err, &e) && e.Code == waypost.CodeConflict {
		fmt.Println("another lead has this", e.Target)
	}
}

func ExampleClient_Send() {
	gateway := client.New("http://127.0.0.1:8080", signature.Key{AccessKey: "AK…", SecretKey: "sk_…"})
	file, err := os.ReadFile("leads.csv")
	if err != nil {
		return
	}
	header := http.Header{"Content-Type": {"text/csv"}, "Idempotency-Key": {"leads-of-may"}}
	res, err := gateway.Send(context.Background(), http.MethodPost, "/v1/leads/imports?mode=upsert", header, file)
	if err != nil {
		return
	}
	defer res.Body.Close()
	fmt.Println(res.Status, res.Header.Get("Location"))
}

var key = signature.Key{AccessKey: "AKTEST0000000000001", SecretKey: "sk_test_0123456789abcdef"}

// seen is what the server saw of a request.
type seen struct {
	Method, Target, Body string
	Header               http.Header
}

// serve answers every well-signed request with what it saw of it, and those below
// /status/N with that status.
func serve(t *testing.T) *client.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		path, query, _ := strings.Cut(r.RequestURI, "?")
		signed := signature.Request{Method: r.Method, Path: path, Query: query, Headers: []signature.Header{{Name: "Host", Value: r.Host}}}
		for name, values := range r.Header {
			for _, v := range values {
				signed.Headers = append(signed.Headers, signature.Header{Name: name, Value: v})
			}
		}
		claim, err := signature.Parse(signed)
		if err != nil || claim.CheckTime(time.Now()) != nil || !claim.Verify(signed, key.SecretKey) || !claim.VerifyBody(body) {
			t.Errorf("%s %s is not well signed: %v", r.Method, r.RequestURI, err)
		}
		switch path {
		case "/refused":
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"code":"Conflict","message":"taken","target":"mobilePhone[0]","detail":[{"code":"Duplicate","target":"mobilePhone[0]","message":"lead 7"}]}`)
		case "/proxy":
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, `<html>`)
		case "/moved":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case "/nothing":
			w.WriteHeader(http.StatusNoContent)
		default:
			if err := json.NewEncoder(w).Encode(seen{r.Method, r.RequestURI, string(body), r.Header}); err != nil {
				t.Error(err)
			}
		}
	}))
	t.Cleanup(server.Close)
	return client.New(server.URL+"/", key)
}

// A call that was signed before Redis forgot is signed anew when it can be accepted, once.
func TestSignsAnew(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method, key string
		refusals    int
		wait        string
		calls       int
		status      int
	}{
		{"GET", "", 1, "0", 2, http.StatusOK},
		{"POST", "one", 1, "1", 2, http.StatusOK},
		{"GET", "", 2, "0", 2, http.StatusUnauthorized},
		{"GET", "", 1, "200", 1, http.StatusUnauthorized}, // too long to wait
		{"GET", "", 1, "", 1, http.StatusUnauthorized},    // would be refused again
		{"POST", "", 1, "0", 1, http.StatusUnauthorized},  // could count twice
		{"PATCH", "", 1, "0", 1, http.StatusUnauthorized},
	} {
		t.Run(fmt.Sprintf("%s %s, %d times, %q", tt.method, tt.key, tt.refusals, tt.wait), func(t *testing.T) {
			t.Parallel()
			nonces := map[string]bool{}
			var last time.Time
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || string(body) != "{}" {
					t.Errorf("body %q, %v", body, err)
				}
				if tt.wait == "1" && len(nonces) == 1 && time.Since(last) < time.Second {
					t.Errorf("sent again after %v", time.Since(last))
				}
				last = time.Now()
				if nonces[r.Header.Get(signature.HeaderNonce)] = true; len(nonces) <= tt.refusals {
					if tt.wait != "" {
						w.Header().Set("Retry-After", tt.wait)
					}
					w.WriteHeader(http.StatusUnauthorized)
				}
			}))
			defer server.Close()
			header := http.Header{}
			if tt.key != "" {
				header.Set("Idempotency-Key", tt.key)
			}
			res, err := client.New(server.URL, key).Send(t.Context(), tt.method, "/v1/leads", header, []byte("{}"))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.StatusCode != tt.status || len(nonces) != tt.calls {
				t.Errorf("HTTP %d after %d calls with nonces of their own", res.StatusCode, len(nonces))
			}
		})
	}
}

func TestDo(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Header = http.Header{"X-Cloud-Stage": {"test"}}
	for _, target := range []string{"/v1/leads/7", "/v1/leads?sort=-createdAt&a-b=2&a=1&a=0&flag&name=%E5%BC%A0&&email=a%40b.co&x[]=1&s=a+b", "/v1/journeys/jrn_%E4%BD%A0%2F"} {
		var got seen
		if err := c.Do(t.Context(), http.MethodPatch, target, map[string]string{"name": "张 <O’Neill>"}, &got); err != nil {
			t.Fatal(err)
		}
		if got.Method != http.MethodPatch || got.Target != target || got.Header.Get("Content-Type") != "application/json" || got.Header.Get("X-Cloud-Stage") != "test" {
			t.Errorf("arrived: %+v", got)
		}
		var body map[string]string
		if err := json.Unmarshal([]byte(got.Body), &body); err != nil || body["name"] != "张 <O’Neill>" {
			t.Errorf("body %s: %v", got.Body, err)
		}
	}
	var got seen
	if err := c.Do(t.Context(), http.MethodPost, "/v1/journeys/jrn_1/publish", nil, &got); err != nil || got.Body != "" || got.Header.Get("Content-Type") != "" {
		t.Errorf("without a body: %+v, %v", got, err)
	}
	if err := c.Do(t.Context(), http.MethodDelete, "/nothing", nil, &got); err != nil {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	c := serve(t)
	err := c.Do(t.Context(), http.MethodPost, "/refused", struct{}{}, nil)
	var e *waypost.Error
	if !errors.As(err, &e) || e.Code != waypost.CodeConflict || e.Target != "mobilePhone[0]" || len(e.Details) != 1 || e.Details[0].Code != waypost.DetailDuplicate {
		t.Errorf("refused: %#v", err)
	}
	gone := client.New("http://127.0.0.1:1", key)
	var answer []int
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"a proxy's":      {c.Do(t.Context(), http.MethodGet, "/proxy?email=ada", nil, nil), "GET /proxy: HTTP 502 Bad Gateway"},
		"a redirect":     {c.Do(t.Context(), http.MethodPost, "/moved", struct{}{}, nil), "POST /moved: HTTP 307 Temporary Redirect"},
		"another answer": {c.Do(t.Context(), http.MethodGet, "/v1/leads?email=ada", nil, &answer), "GET /v1/leads: json: cannot unmarshal"},
		"a body":         {c.Do(t.Context(), http.MethodPut, "/v1/leads?email=ada", func() {}, nil), "PUT /v1/leads: json: unsupported type"},
		"a target":       {c.Do(t.Context(), http.MethodGet, "/%zz?email=ada", nil, nil), "invalid URL escape"},
		"nobody there":   {gone.Do(t.Context(), http.MethodGet, "/v1/leads?email=ada", nil, nil), "GET /v1/leads: dial tcp 127.0.0.1:1"},
	} {
		if tt.err == nil || !strings.Contains(tt.err.Error(), tt.want) || strings.Contains(tt.err.Error(), "ada") {
			t.Errorf("%s: %v, want %s", name, tt.err, tt.want)
		}
	}
}

func TestSend(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.Header = http.Header{"User-Agent": {"crm/1"}, "X-Cloud-Stage": {"test"}}
	header := http.Header{"Content-Type": {"text/csv"}, "Idempotency-Key": {"k 1"}, "If-Match": {`  "abc   def" `}, "X-Cloud-Stage": {"release"}}
	res, err := c.Send(t.Context(), http.MethodPost, "/v1/leads/imports?mode=upsert", header, []byte("name\r\nAda\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var got seen
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"User-Agent": "crm/1", "X-Cloud-Stage": "release", "Content-Type": "text/csv", "Idempotency-Key": "k 1", "If-Match": `"abc   def"`,
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s arrived as %q", name, got.Header.Get(name))
		}
	}
	if got.Body != "name\r\nAda\r\n" || len(c.Header) != 2 {
		t.Errorf("body %q, the client's headers %v", got.Body, c.Header)
	}
}

func TestUpload(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("Ada\r\n", 100_000)
	res, err := serve(t).Upload(t.Context(), http.MethodPost, "/v1/leads/imports?mode=upsert", http.Header{"Content-Type": {"text/csv"}},
		client.File{Reader: strings.NewReader(text), Size: int64(len(text)), Hash: signature.HashBody([]byte(text))})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var got seen
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil || got.Body != text || got.Header.Get("Content-Length") != strconv.Itoa(len(text)) {
		t.Errorf("%d bytes arrived, %v: %v", len(got.Body), got.Header, err)
	}
}

// A search token stands in for the signature, and article search's errors are read.
func TestBearer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Cloud-") && name != "X-Cloud-Stage" {
				t.Errorf("%s was sent", name)
			}
		}
		if r.Header.Get("Authorization") != "Bearer t0k" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"code":401,"status":"Unauthorized","message":"expired","target":"tenant_id","detail":[{"code":"NullValue","target":"from","message":"m"}]}`)
			return
		}
		fmt.Fprint(w, `{"code":0,"status":"success","message":{"items":[]}}`)
	}))
	t.Cleanup(server.Close)
	c := client.New(server.URL, key)
	c.Header = http.Header{"User-Agent": {"crm/1"}, "X-Cloud-Stage": {"test"}}
	var got struct{ Status string }
	if err := c.WithBearer("t0k").Do(t.Context(), http.MethodGet, "/api/v1/articles/search?keywords=a", nil, &got); err != nil || got.Status != "success" {
		t.Errorf("%+v, %v", got, err)
	}
	err := c.WithBearer("old").Do(t.Context(), http.MethodGet, "/api/v1/articles/search?keywords=a", nil, &got)
	var e *waypost.Error
	if !errors.As(err, &e) || e.Code != waypost.CodeUnauthorized || e.Message != "expired" || e.Target != "tenant_id" || len(e.Details) != 1 || c.Bearer != "" || c.Key != key {
		t.Errorf("refused: %#v", err)
	}
	for _, body := range []string{`{"code":502,"status":7}`, `{"code":{},"status":"Conflict"}`, `[]`, `{"status":"Conflict"}`} {
		if err := client.Fault(http.StatusBadGateway, []byte(body)); errors.As(err, &e) || err.Error() != "HTTP 502 Bad Gateway" {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// What net/http sends has the signatures of the test vectors.
func TestVectors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../signature/testdata/signature.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		AccessKey, SecretKey, Nonce string
		Timestamp                   int64
		Cases                       []struct {
			Name, Method, Target, Body string
			Headers                    map[string]string
			Signed                     map[string]string `json:"signedRequestHeaders"`
		}
	}
	if err := json.Unmarshal(text, &v); err != nil || len(v.Cases) < 8 {
		t.Fatalf("%d vectors, %v", len(v.Cases), err)
	}
	for _, tt := range v.Cases {
		req, err := http.NewRequestWithContext(t.Context(), tt.Method, "http://"+tt.Headers["Host"]+tt.Target, strings.NewReader(tt.Body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range tt.Headers {
			if name != "Host" {
				req.Header.Set(name, value)
			}
		}
		signature.SignHTTP(req, signature.Key{AccessKey: v.AccessKey, SecretKey: v.SecretKey}, []byte(tt.Body), time.Unix(v.Timestamp, 0), v.Nonce)
		for name, want := range tt.Signed {
			if got := req.Header.Get(name); got != want {
				t.Errorf("%s: %s\n got %s\nwant %s", tt.Name, name, got, want)
			}
		}
	}
}
