package signature_test

import (
	"slices"
	"strings"
	"testing"

	"waypost/signature"
)

// FuzzParse feeds anything as signature headers and target: Parse never panics,
// and what it accepts has the one shape of docs/contract.md, "Signature".
func FuzzParse(f *testing.F) {
	for _, tc := range readVectors(f).Cases {
		f.Add(tc.Signed["X-Cloud-Signature"], tc.Signed["X-Cloud-Timestamp"], tc.Signed["X-Cloud-Nonce"], tc.Signed["X-Cloud-Content-SHA256"])
	}
	f.Add("CLOUD1-HMAC-SHA256 Credential=, SignedHeaders=, Signature=", "", "", "")
	f.Fuzz(func(t *testing.T, header, timestamp, nonce, hash string) {
		r := signature.Request{Method: "GET", Path: "/", Headers: []signature.Header{
			{Name: "Host", Value: "h"}, {Name: "X-Cloud-Timestamp", Value: timestamp}, {Name: "X-Cloud-Nonce", Value: nonce},
			{Name: "X-Cloud-Content-SHA256", Value: hash}, {Name: "X-Cloud-Signature", Value: header},
		}}
		claim, err := signature.Parse(r)
		if err != nil {
			return
		}
		if len(claim.Nonce) < 16 || len(claim.Nonce) > 64 || strings.ToLower(claim.BodyHash) != claim.BodyHash || claim.AccessKey == "" {
			t.Fatalf("accepted %q %q %q %q", header, timestamp, nonce, hash)
		}
		if claim.Verify(r, "secret-that-the-fuzzer-does-not-know") {
			t.Fatal("a made-up signature verifies")
		}
	})
}

// FuzzCanonical checks that a canonical request does not depend on the order of
// the query's pieces or on white space around values, and that its parts cannot
// run into each other.
func FuzzCanonical(f *testing.F) {
	f.Add("a=1&b=2&&c", "x  y")
	f.Add("&&=&", "\t")
	f.Add("%E5%BC%A0=+", "张")
	f.Fuzz(func(t *testing.T, query, value string) {
		if strings.ContainsAny(query, "\n") {
			return // a request line has no line feeds
		}
		canonical := func(q, v string) string {
			r := signature.Request{Method: "GET", Path: "/", Query: q, Headers: []signature.Header{{Name: "Host", Value: v}}}
			return signature.Canonical(r, []string{"host"}, "hash")
		}
		base := canonical(query, value)
		pieces := strings.Split(query, "&")
		slices.Reverse(pieces)
		if got := canonical(strings.Join(pieces, "&"), " "+value+"\t"); got != base {
			t.Fatalf("%q\n%q", got, base)
		}
		if lines := strings.Split(base, "\n"); len(lines) != 7 {
			t.Fatalf("%d lines: %q", len(lines), base)
		}
	})
}
