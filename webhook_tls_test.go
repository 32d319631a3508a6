package waypost_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"strings"
	"testing"

	"waypost"
)

func inPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// A receiver is another one with another address, or if others are trusted or shown to
// it: what its breaker knows is of no use then.
func TestCircuit(t *testing.T) {
	t.Parallel()
	ca, pair := &waypost.TLS{CACertificate: "a"}, &waypost.TLS{CACertificate: "a", ClientCertificate: "b", ClientKey: "secret"}
	seen := map[string]string{}
	for name, w := range map[string]waypost.Webhook{
		"plain":                {ID: "whk_1", URL: "https://a.example/hook"},
		"another webhook":      {ID: "whk_2", URL: "https://a.example/hook"},
		"another host":         {ID: "whk_1", URL: "https://b.example/hook"},
		"another port":         {ID: "whk_1", URL: "https://a.example:8443/hook"},
		"another scheme":       {ID: "whk_1", URL: "http://a.example/hook"},
		"an authority":         {ID: "whk_1", URL: "https://a.example/hook", TLS: ca},
		"a certificate":        {ID: "whk_1", URL: "https://a.example/hook", TLS: pair},
		"the other way around": {ID: "whk_1", URL: "https://a.example/hook", TLS: &waypost.TLS{CACertificate: "b", ClientCertificate: "a"}},
	} {
		circuit := w.Circuit()
		if other, known := seen[circuit]; known || strings.Contains(circuit, "secret") {
			t.Errorf("%s: %s, as %s", name, circuit, other)
		}
		seen[circuit] = name
		if w.URL = strings.Replace(w.URL, "/hook", "/other?x=1", 1); w.Circuit() != circuit {
			t.Errorf("%s: another path has another circuit", name)
		}
	}
}

func TestTLSValidate(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(srv.Close)
	pair := srv.TLS.Certificates[0]
	own, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(other)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, stranger := inPEM("CERTIFICATE", pair.Certificate[0]), inPEM("PRIVATE KEY", own), inPEM("EC PRIVATE KEY", sec1)
	withText := "Subject: CN=文\r\n\tserial 1\n" + cert
	large := cert + strings.Repeat("\n", 64<<10-len(cert))

	for _, tc := range []struct {
		name string
		url  string
		tls  waypost.TLS
		want string
	}{
		{"authority", "https://example.com", waypost.TLS{CACertificate: cert}, ""},
		{"capitals", "HTTPS://example.com", waypost.TLS{CACertificate: cert}, ""},
		{"several, with text between", "https://example.com", waypost.TLS{CACertificate: cert + withText}, ""},
		{"as large as can be", "https://example.com", waypost.TLS{CACertificate: large, ClientCertificate: large, ClientKey: key}, ""},
		{"pair", "https://example.com", waypost.TLS{ClientCertificate: cert, ClientKey: key}, ""},
		{"pair with chain", "https://example.com", waypost.TLS{ClientCertificate: cert + cert, ClientKey: key}, ""},
		{"http", "Http://example.com", waypost.TLS{CACertificate: cert}, "InvalidFormat url"},
		{"too large", "https://example.com", waypost.TLS{CACertificate: large + "\n", ClientCertificate: large + "\n", ClientKey: key}, "TooLong tls.caCertificate; TooLong tls.clientCertificate"},
		{"key too large", "https://example.com", waypost.TLS{ClientCertificate: cert, ClientKey: key + large}, "TooLong tls.clientKey"},
		{"control characters", "https://example.com", waypost.TLS{CACertificate: "\x00" + cert}, "InvalidFormat tls.caCertificate"},
		{"no PEM", "https://example.com", waypost.TLS{CACertificate: "ca.pem", ClientCertificate: "client.pem", ClientKey: key}, "InvalidFormat tls.caCertificate; InvalidFormat tls.clientCertificate"},
		{"no certificate in it", "https://example.com", waypost.TLS{CACertificate: inPEM("CERTIFICATE", []byte("x"))}, "InvalidFormat tls.caCertificate"},
		{"a cut one behind it", "https://example.com", waypost.TLS{CACertificate: cert + cert[:200]}, "InvalidFormat tls.caCertificate"},
		{"a key where it would be answered", "https://example.com", waypost.TLS{CACertificate: cert + key, ClientCertificate: key + cert, ClientKey: key}, "InvalidFormat tls.caCertificate; InvalidFormat tls.clientCertificate"},
		{"a cut key, too", "https://example.com", waypost.TLS{CACertificate: cert + key[:200]}, "InvalidFormat tls.caCertificate"},
		{"no key", "https://example.com", waypost.TLS{ClientCertificate: cert}, "NullValue tls.clientKey"},
		{"no certificate", "https://example.com", waypost.TLS{ClientKey: key}, "NullValue tls.clientCertificate"},
		{"another key", "https://example.com", waypost.TLS{ClientCertificate: cert, ClientKey: stranger}, "InvalidFormat tls.clientKey"},
		{"no key in it", "https://example.com", waypost.TLS{ClientCertificate: cert, ClientKey: cert}, "InvalidFormat tls.clientKey"},
		{"passphrase", "https://example.com", waypost.TLS{ClientCertificate: cert, ClientKey: inPEM("ENCRYPTED PRIVATE KEY", own)}, "InvalidFormat tls.clientKey"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := waypost.Webhook{Name: "crm", URL: tc.url, TimeoutMs: waypost.DefaultTimeoutMs, Retry: waypost.DefaultRetry(), TLS: &tc.tls}
			if got := detailsOf(t, w.Validate()); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
	pairSet := waypost.TLS{ClientCertificate: cert, ClientKey: key}
	if got := pairSet.ClientNotAfter(); !got.Equal(srv.Certificate().NotAfter) {
		t.Errorf("valid until %s", got)
	}
	if got := (waypost.TLS{CACertificate: cert}).ClientNotAfter(); !got.IsZero() {
		t.Errorf("no certificate, valid until %s", got)
	}
}
