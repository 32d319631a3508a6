package app

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost/client"
	"waypost/config"
)

// pemPair is a certificate of its own for 127.0.0.1, and its key.
func pemPair(t *testing.T, serial int64, until time.Time) (cert, key []byte) {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: until.Add(-90 * 24 * time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

// writePair writes a pair to where it is read.
func writePair(t *testing.T, files config.TLS, cert, key []byte) {
	t.Helper()
	for path, content := range map[string][]byte{files.Cert: cert, files.Key: key} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// tlsFiles is a pair on disk, and those who trust it.
func tlsFiles(t *testing.T) (config.TLS, *tls.Config) {
	t.Helper()
	dir := t.TempDir()
	files := config.TLS{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	cert, key := pemPair(t, 1, time.Now().Add(24*time.Hour))
	writePair(t, files, cert, key)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	return files, &tls.Config{RootCAs: roots}
}

func TestGatewayServesHTTPS(t *testing.T) {
	t.Parallel()
	files, trust := tlsFiles(t)
	g := startGateway(t, func(cfg *config.Config) { cfg.TLS = files })
	t.Cleanup(func() {
		g.stop()
		if err := <-g.ended; err != nil {
			t.Errorf("the gateway ended with %v", err)
		}
	})
	caller := client.New("https://"+g.addr, g.key)
	caller.HTTP.Transport = &http.Transport{TLSClientConfig: trust}
	var lead struct{ LeadsID int64 }
	if err := caller.Do(t.Context(), http.MethodPost, "/v1/leads", map[string]any{"businessParam": map[string]any{"name": "Ada"}}, &lead); err != nil || lead.LeadsID == 0 {
		t.Errorf("create a lead: %d, %v", lead.LeadsID, err)
	}
	if err := client.New("https://"+g.addr, g.key).Do(t.Context(), http.MethodGet, "/v1/leads", nil, nil); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("who does not trust the certificate gets %v", err)
	}
	if err := client.New("http://"+g.addr, g.key).Do(t.Context(), http.MethodGet, "/v1/leads", nil, nil); err == nil || !strings.Contains(err.Error(), "must begin with https://") {
		t.Errorf("who speaks plain HTTP gets %v", err)
	}
	for version, works := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", g.addr, &tls.Config{RootCAs: trust.RootCAs, MinVersion: tls.VersionTLS10, MaxVersion: version})
		if (err == nil) != works {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
	if _, body := get(t, g.admin, "/metrics"); !strings.Contains(body, "\nwaypost_tls_not_after_seconds 1.") {
		t.Error("/metrics does not tell when the certificate expires")
	}
}

// served is the serial number of the certificate that a new connection meets.
func served(t *testing.T, addr string) int64 {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// A certificate that is renewed on disk is served without a restart, and one that
// cannot be used does not end what works.
func TestCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	var logged logBuffer
	now := newClock()
	files, _ := tlsFiles(t)
	cert, err := loadCertificate(files, slog.New(slog.NewTextHandler(&logged, nil)), now.Now)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", cert.tls())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	addr := listener.Addr().String()
	want := func(serial int64, warnings int, when string) {
		t.Helper()
		if got := served(t, addr); got != serial {
			t.Errorf("%s: certificate %d is served, want %d", when, got, serial)
		}
		if got := strings.Count(logged.String(), "cannot be used"); got != warnings {
			t.Errorf("%s: %d warnings, want %d:\n%s", when, got, warnings, logged.String())
		}
	}
	want(1, 0, "at first")

	cert2, key2 := pemPair(t, 2, time.Now().Add(48*time.Hour))
	writePair(t, files, cert2, key2)
	now.Advance(lookEvery - time.Second)
	want(1, 0, "before the minute is over")
	now.Advance(time.Second)
	want(2, 0, "after a minute")
	if got := cert.notAfter(); time.Until(got) < 47*time.Hour {
		t.Errorf("it expires at %s", got)
	}

	cert3, key3 := pemPair(t, 3, time.Now().Add(48*time.Hour))
	writePair(t, files, cert3, key2)
	now.Advance(lookEvery)
	want(2, 1, "with another's key")
	now.Advance(lookEvery)
	want(2, 1, "a minute later")
	if err := os.Remove(files.Cert); err != nil {
		t.Fatal(err)
	}
	now.Advance(lookEvery)
	want(2, 2, "without a file")
	writePair(t, files, cert3, key3)
	now.Advance(lookEvery)
	want(3, 2, "when both are there")

	expired, key := pemPair(t, 4, now.Now().Add(-time.Hour))
	writePair(t, files, expired, key)
	now.Advance(lookEvery)
	want(4, 2, "with an expired one")
	if !strings.Contains(logged.String(), "has expired") {
		t.Errorf("nothing is said of the expired one:\n%s", logged.String())
	}
}

// A start says which file is wrong.
func TestCertificateFaults(t *testing.T) {
	t.Parallel()
	good, _ := tlsFiles(t)
	other, _ := tlsFiles(t)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		files config.TLS
		want  []string
	}{
		"no certificate": {config.TLS{Cert: "/nowhere/tls.crt", Key: good.Key}, []string{"WAYPOST_TLS_CERT: ", "/nowhere/tls.crt"}},
		"no key":         {config.TLS{Cert: good.Cert, Key: "/nowhere/tls.key"}, []string{"WAYPOST_TLS_KEY: ", "/nowhere/tls.key"}},
		"another's key":  {config.TLS{Cert: good.Cert, Key: other.Key}, []string{"WAYPOST_TLS_CERT and WAYPOST_TLS_KEY", "does not match"}},
		"switched":       {config.TLS{Cert: good.Key, Key: good.Cert}, []string{"WAYPOST_TLS_CERT and WAYPOST_TLS_KEY", "switched"}},
		"empty":          {config.TLS{Cert: empty, Key: good.Key}, []string{"WAYPOST_TLS_CERT and WAYPOST_TLS_KEY", empty}},
	} {
		cfg := deployment(t)
		cfg.TLS = tt.files
		err := Gateway(t.Context(), cfg, slog.New(slog.DiscardHandler), func(string) { t.Errorf("%s: it serves", name) })
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error is %v, without %q", name, err, want)
			}
		}
	}
}

// clock is time that passes when a test says so.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Now()} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// logBuffer is a log that is read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
