package signature_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"waypost/signature"
)

type vectors struct {
	AccessKey string `json:"accessKey"`
	SecretKey string `json:"secretKey"`
	Timestamp int64  `json:"timestamp"`
	Nonce     string `json:"nonce"`
	Cases     []struct {
		Name             string            `json:"name"`
		Method           string            `json:"method"`
		Target           string            `json:"target"`
		Headers          map[string]string `json:"headers"`
		Body             string            `json:"body"`
		CanonicalRequest string            `json:"canonicalRequest"`
		StringToSign     string            `json:"stringToSign"`
		Signature        string            `json:"signature"`
		Signed           map[string]string `json:"signedRequestHeaders"`
	} `json:"cases"`
}

func readVectors(t testing.TB) vectors {
	t.Helper()
	data, err := os.ReadFile("testdata/signature.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Cases) < 8 {
		t.Fatalf("only %d vectors", len(v.Cases))
	}
	return v
}

func TestVectors(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	key := signature.Key{AccessKey: v.AccessKey, SecretKey: v.SecretKey}
	now := time.Unix(v.Timestamp, 0)
	for _, tc := range v.Cases {
		t.Run(tc.Name, func(t *testing.T) {
			t.Parallel()
			path, query, _ := strings.Cut(tc.Target, "?")
			r := signature.Request{Method: tc.Method, Path: path, Query: query}
			for name, value := range tc.Headers {
				r.Headers = append(r.Headers, signature.Header{Name: name, Value: value})
			}
			added := signature.Sign(r, key, []byte(tc.Body), now, v.Nonce)
			if len(added) != len(tc.Signed) {
				t.Fatalf("%d headers, want %d", len(added), len(tc.Signed))
			}
			for _, h := range added {
				if h.Value != tc.Signed[h.Name] {
					t.Errorf("%s\n got %s\nwant %s", h.Name, h.Value, tc.Signed[h.Name])
				}
			}
			r.Headers = append(r.Headers, added...)

			line := tc.Signed["X-Cloud-Signature"]
			names := strings.Split(line[strings.Index(line, "SignedHeaders=")+len("SignedHeaders="):strings.Index(line, ", Signature=")], ";")
			canonical := signature.Canonical(r, names, tc.Signed["X-Cloud-Content-SHA256"])
			if canonical != tc.CanonicalRequest {
				t.Errorf("canonical request\n got %q\nwant %q", canonical, tc.CanonicalRequest)
			}
			if got := signature.StringToSign(tc.Signed["X-Cloud-Timestamp"], v.Nonce, canonical); got != tc.StringToSign {
				t.Errorf("string to sign\n got %q\nwant %q", got, tc.StringToSign)
			}
			if !strings.HasSuffix(line, tc.Signature) {
				t.Errorf("signature of %s is not %s", line, tc.Signature)
			}

			claim, err := signature.Parse(r)
			if err != nil {
				t.Fatal(err)
			}
			if !claim.Verify(r, v.SecretKey) || !claim.VerifyBody([]byte(tc.Body)) {
				t.Error("the vector does not verify")
			}
			if claim.Verify(r, v.SecretKey+"x") || claim.VerifyBody([]byte(tc.Body+" ")) {
				t.Error("another secret or another body verifies")
			}
		})
	}
}
