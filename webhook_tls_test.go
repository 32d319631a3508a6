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
