package signature_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"waypost/signature"
)

var (
	testKey = signature.Key{AccessKey: "AKTEST", SecretKey: "sk_test"}
	testNow = time.Unix(1767225600, 0)
)

func signedRequest(headers ...signature.Header) signature.Request {
	r := signature.Request{Method: "POST", Path: "/v1/leads", Query: "a=1", Headers: []signature.Header{{Name: "Host", Value: "api"}}}
	r.Headers = append(r.Headers, headers...)
	r.Headers = append(r.Headers, signature.Sign(r, testKey, []byte("{}"), testNow, "nonce-0123456789")...)
	return r
}

func set(name, value string) func(*signature.Request) {
	return func(r *signature.Request) {
		for i := range r.Headers {
			if strings.EqualFold(r.Headers[i].Name, name) {
				r.Headers[i].Value = value
			}
		}
	}
}

func add(name, value string) func(*signature.Request) {
	return func(r *signature.Request) { r.Headers = append(r.Headers, signature.Header{Name: name, Value: value}) }
}

func drop(name string) func(*signature.Request) {
	return func(r *signature.Request) {
		r.Headers = slices.DeleteFunc(r.Headers, func(h signature.Header) bool { return strings.EqualFold(h.Name, name) })
	}
}

func replaceInSignature(old, new string) func(*signature.Request) {
	return func(r *signature.Request) {
		value, _ := r.Header(signature.HeaderSignature)
		if !strings.Contains(value, old) {
			panic("the signature does not contain " + old)
		}
		set(signature.HeaderSignature, strings.Replace(value, old, new, 1))(r)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("0", 64)
	for _, tc := range []struct {
		name   string
		change func(*signature.Request)
		fault  signature.Fault
	}{
		{"no signature", drop("x-cloud-signature"), signature.Missing},
		{"empty signature", set("x-cloud-signature", ""), signature.Malformed},
		{"two signatures", add("x-cloud-signature", "x"), signature.Malformed},
		{"other algorithm", replaceInSignature("CLOUD1", "CLOUD2"), signature.Malformed},
		{"lower-case algorithm", replaceInSignature("CLOUD1-HMAC", "cloud1-hmac"), signature.Malformed},
		{"no credential", replaceInSignature("AKTEST", ""), signature.Malformed},
		{"odd credential", replaceInSignature("AKTEST", "AK TEST"), signature.Malformed},
		{"long credential", replaceInSignature("AKTEST", strings.Repeat("A", 129)), signature.Malformed},
		{"no blank after comma", replaceInSignature(", Signature=", ",Signature="), signature.Malformed},
		{"short signature", replaceInSignature(", Signature=", ", Signature=0"), signature.Malformed},
		{"upper-case hex", func(r *signature.Request) {
			value, _ := r.Header(signature.HeaderSignature)
			at := strings.LastIndex(value, "Signature=") + len("Signature=")
			set(signature.HeaderSignature, value[:at]+strings.Repeat("A", 64))(r)
		}, signature.Malformed},
		{"unsorted names", replaceInSignature("host;x-cloud-content-sha256", "x-cloud-content-sha256;host"), signature.Malformed},
		{"doubled name", replaceInSignature("host;", "host;host;"), signature.Malformed},
		{"upper-case name", replaceInSignature("host;", "Host;"), signature.Malformed},
		{"empty name", replaceInSignature("host;", "host;;"), signature.Malformed},
		{"host not signed", replaceInSignature("=host;", "="), signature.Malformed},
		{"nonce not signed", replaceInSignature("x-cloud-nonce;", ""), signature.Malformed},
		{"hash not signed", replaceInSignature("x-cloud-content-sha256;", ""), signature.Malformed},
		{"timestamp not signed", replaceInSignature(";x-cloud-timestamp", ""), signature.Malformed},
		{"signs a header that is not there", replaceInSignature("x-cloud-timestamp", "x-cloud-timestamp;zz"), signature.Malformed},
		{"signs itself", replaceInSignature(";x-cloud-timestamp", ";x-cloud-signature;x-cloud-timestamp"), signature.Malformed},
		{"content type not signed", add("Content-Type", "application/json"), signature.Malformed},
		{"stage not signed", add("X-Cloud-Stage", "test"), signature.Malformed},
		{"idempotency key not signed", add("idempotency-key", "k"), signature.Malformed},
		{"if-match not signed", add("If-Match", "*"), signature.Malformed},
		{"empty stage not signed", add("X-Cloud-Stage", ""), signature.Malformed},
		{"no host", drop("host"), signature.Malformed},
		{"two hosts", add("HOST", "api"), signature.Malformed},
		{"two timestamps", add("x-cloud-timestamp", "1767225600"), signature.Malformed},
		{"two nonces", add("x-cloud-nonce", "nonce-0123456789"), signature.Malformed},
		{"two hashes", add("x-cloud-content-sha256", hash), signature.Malformed},
		{"no timestamp", drop("x-cloud-timestamp"), signature.Malformed},
		{"no nonce", drop("x-cloud-nonce"), signature.Malformed},
		{"no hash", drop("x-cloud-content-sha256"), signature.Malformed},
		{"timestamp with sign", set("x-cloud-timestamp", "+1767225600"), signature.Malformed},
		{"timestamp with zero", set("x-cloud-timestamp", "01767225600"), signature.Malformed},
		{"negative timestamp", set("x-cloud-timestamp", "-1"), signature.Malformed},
		{"fractional timestamp", set("x-cloud-timestamp", "1767225600.0"), signature.Malformed},
		{"huge timestamp", set("x-cloud-timestamp", "9999999999999"), signature.Malformed},
		{"empty timestamp", set("x-cloud-timestamp", ""), signature.Malformed},
		{"short nonce", set("x-cloud-nonce", "0123456789abcde"), signature.Malformed},
		{"long nonce", set("x-cloud-nonce", strings.Repeat("n", 65)), signature.Malformed},
		{"odd nonce", set("x-cloud-nonce", "0123456789abcde:"), signature.Malformed},
		{"upper-case hash", set("x-cloud-content-sha256", strings.Repeat("A", 64)), signature.Malformed},
		{"short hash", set("x-cloud-content-sha256", hash[1:]), signature.Malformed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := signedRequest()
			tc.change(&r)
			_, err := signature.Parse(r)
			var fault *signature.Error
			if !errors.As(err, &fault) || fault.Fault != tc.fault {
				t.Fatalf("got %v, want %s", err, tc.fault)
			}
			if fault.Header == "" || fault.Message == "" {
				t.Errorf("the fault does not say what is wrong: %+v", fault)
			}
		})
	}
}

func TestParseAccepts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*signature.Request)
	}{
		{"as signed", func(*signature.Request) {}},
		{"unsigned header", add("X-Forwarded-For", "10.0.0.1")},
		{"doubled unsigned header", func(r *signature.Request) { add("Via", "a")(r); add("Via", "b")(r) }},
		{"nonce of 64", set("x-cloud-nonce", strings.Repeat("n", 64))},
		{"more signed headers", func(r *signature.Request) {
			replaceInSignature("host;", "accept;host;")(r)
			add("Accept", "*/*")(r)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := signedRequest()
			tc.change(&r)
			if _, err := signature.Parse(r); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestCheckTime(t *testing.T) {
	t.Parallel()
	claim, err := signature.Parse(signedRequest())
	if err != nil {
		t.Fatal(err)
	}
	for offset, ok := range map[time.Duration]bool{
		0: true, 300 * time.Second: true, -300 * time.Second: true,
		301 * time.Second: false, -301 * time.Second: false, 24 * time.Hour: false,
	} {
		err := claim.CheckTime(testNow.Add(offset))
		if (err == nil) != ok {
			t.Errorf("offset %s: %v", offset, err)
		}
		var fault *signature.Error
		if err != nil && (!errors.As(err, &fault) || fault.Fault != signature.Expired) {
			t.Errorf("offset %s: %v is not %s", offset, err, signature.Expired)
		}
	}
}

// Any change to a signed part of a request makes it fail; the order of query
// pieces, white space in headers and unsigned headers do not.
func TestVerifyCoversEverything(t *testing.T) {
	t.Parallel()
	base := signedRequest(signature.Header{Name: "Content-Type", Value: "application/json"})
	for _, tc := range []struct {
		name   string
		change func(*signature.Request)
		ok     bool
	}{
		{"nothing", func(*signature.Request) {}, true},
		{"query with empty pieces", func(r *signature.Request) { r.Query = "&a=1&&" }, true},
		{"blanks around a value", set("content-type", "  application/json\t"), true},
		{"unsigned header", add("Accept", "*/*"), true},
		{"method", func(r *signature.Request) { r.Method = "PUT" }, false},
		{"path", func(r *signature.Request) { r.Path = "/v1/Leads" }, false},
		{"path encoding", func(r *signature.Request) { r.Path = "/v1/%6ceads" }, false},
		{"query", func(r *signature.Request) { r.Query = "a=2" }, false},
		{"query encoding", func(r *signature.Request) { r.Query = "a=%31" }, false},
		{"more query", func(r *signature.Request) { r.Query = "a=1&b" }, false},
		{"host", set("host", "evil"), false},
		{"content type", set("content-type", "text/plain"), false},
		{"timestamp", set("x-cloud-timestamp", "1767225601"), false},
		{"nonce", set("x-cloud-nonce", "nonce-0123456780"), false},
		{"hash", set("x-cloud-content-sha256", strings.Repeat("0", 64)), false},
		{"another application's key", replaceInSignature("AKTEST", "AKOTHER"), true}, // the secret decides
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := base
			r.Headers = slices.Clone(base.Headers)
			tc.change(&r)
			claim, err := signature.Parse(r)
			if err != nil {
				t.Fatal(err)
			}
			if got := claim.Verify(r, testKey.SecretKey); got != tc.ok {
				t.Errorf("verifies: %t, want %t", got, tc.ok)
			}
		})
	}
}

// What is signed and sent over real HTTP verifies on the other side.
func TestSignHTTP(t *testing.T) {
	t.Parallel()
	verified := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		path, query, _ := strings.Cut(req.RequestURI, "?")
		r := signature.Request{Method: req.Method, Path: path, Query: query, Headers: []signature.Header{{Name: "Host", Value: req.Host}}}
		for name, values := range req.Header {
			for _, v := range values {
				r.Headers = append(r.Headers, signature.Header{Name: name, Value: v})
			}
		}
		claim, err := signature.Parse(r)
		if err == nil && !claim.Verify(r, testKey.SecretKey) {
			err = errors.New("does not verify")
		}
		verified <- err
	}))
	t.Cleanup(server.Close)
	for _, tc := range []struct{ method, target, body string }{
		{"GET", "/", ""},
		{"GET", "", ""},
		{"GET", "/v1/leads?name=%E5%BC%A0&b&a=1+2&&a=0", ""},
		{"GET", "/v1/journeys/jrn_%E4%BD%A0%20x", ""},
		{"POST", "/v1/leads", `{"businessParam":{"name":"张三"}}`},
		{"PATCH", "/v1/webhooks/whk_1", `{}`},
	} {
		req, err := http.NewRequest(tc.method, server.URL+tc.target, strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		if tc.body != "" {
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Idempotency-Key", "a  b")
		}
		signature.SignHTTP(req, testKey, []byte(tc.body), testNow, signature.NewNonce())
		res, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if err := <-verified; err != nil {
			t.Errorf("%s %s: %v", tc.method, tc.target, err)
		}
	}
}

func TestNewNonce(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		n := signature.NewNonce()
		if len(n) != 26 || seen[n] {
			t.Fatalf("nonce %q", n)
		}
		seen[n] = true
	}
}

func TestSignThenVerify(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[ -~]{0,20}`)
		r := signature.Request{
			Method:  rapid.SampledFrom([]string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"}).Draw(t, "method"),
			Path:    "/" + rapid.StringMatching(`[!-~]{0,20}`).Draw(t, "path"),
			Query:   rapid.StringMatching(`[!-~&=]{0,30}`).Draw(t, "query"),
			Headers: []signature.Header{{Name: "Host", Value: value.Draw(t, "host")}},
		}
		for _, name := range []string{"Content-Type", "X-Cloud-Stage", "idempotency-key", "IF-MATCH"} {
			if rapid.Bool().Draw(t, name) {
				r.Headers = append(r.Headers, signature.Header{Name: name, Value: value.Draw(t, name+" value")})
			}
		}
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		key := signature.Key{AccessKey: rapid.StringMatching(`AK[A-Z0-9]{1,18}`).Draw(t, "access key"), SecretKey: rapid.String().Draw(t, "secret")}
		nonce := rapid.StringMatching(`[A-Za-z0-9_-]{16,64}`).Draw(t, "nonce")
		r.Headers = append(r.Headers, signature.Sign(r, key, body, testNow, nonce)...)
		claim, err := signature.Parse(r)
		if err != nil {
			t.Fatal(err)
		}
		if claim.AccessKey != key.AccessKey || claim.Nonce != nonce || claim.Time.Unix() != testNow.Unix() {
			t.Fatalf("claim %+v", claim)
		}
		if !claim.Verify(r, key.SecretKey) || !claim.VerifyBody(body) {
			t.Fatal("what was signed does not verify")
		}
		if claim.Verify(r, key.SecretKey+"x") || claim.VerifyBody(append(body, 'x')) {
			t.Fatal("another secret or body verifies")
		}
		at := rapid.IntRange(0, len(r.Path)).Draw(t, "at")
		r.Path = r.Path[:at] + "x" + r.Path[at:]
		if claim.Verify(r, key.SecretKey) {
			t.Fatal("another path verifies")
		}
	})
}
