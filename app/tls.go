package app

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"waypost/config"
)

// lookEvery is the least time between two checks of a certificate's files.
const lookEvery = time.Minute

// certificate is the certificate of HTTPS. It is read again when its files change, without
// a restart; the old one stays in use while the new files are invalid.
type certificate struct {
	files config.TLS
	log   *slog.Logger
	now   func() time.Time

	mu      sync.Mutex
	current *tls.Certificate
	content [2][]byte // of the files of current
	fault   string    // of the new files, which is logged once; "" if they are good
	looked  time.Time
}

// loadCertificate reads the certificate; nil if none is set. Its error names the wrong
// setting.
func loadCertificate(files config.TLS, log *slog.Logger, now func() time.Time) (*certificate, error) {
	if files.Cert == "" {
		return nil, nil
	}
	c := &certificate{files: files, log: log, now: now, looked: now()}
	return c, c.load()
}

// tls is a server's configuration: TLS 1.2 or newer, with these protocols. It is nil without
// a certificate.
func (c *certificate) tls(protocols ...string) *tls.Config {
	if c == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, GetCertificate: c.get}
}

// get returns the certificate for a handshake.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.looked) >= lookEvery {
		c.looked = now
		c.renew()
	}
	return c.current, nil
}

// renew reads the files again. Invalid files are tried again each time, and logged once: the
// key may be written later than the certificate.
func (c *certificate) renew() {
	fault := ""
	if err := c.load(); err != nil {
		fault = err.Error()
	}
	if fault != "" && fault != c.fault {
		c.log.Warn("the new certificate cannot be used, the old one is kept", "error", fault, "until", c.current.Leaf.NotAfter)
	}
	c.fault = fault
}

// load reads the files, and uses them if they have changed.
func (c *certificate) load() error {
	cert, err := os.ReadFile(c.files.Cert)
	if err != nil {
		return fmt.Errorf("WAYPOST_TLS_CERT: %w", err)
	}
	key, err := os.ReadFile(c.files.Key)
	if err != nil {
		return fmt.Errorf("WAYPOST_TLS_KEY: %w", err)
	}
	if c.current != nil && bytes.Equal(cert, c.content[0]) && bytes.Equal(key, c.content[1]) {
		return nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("WAYPOST_TLS_CERT and WAYPOST_TLS_KEY (%s, %s): %w", c.files.Cert, c.files.Key, err)
	}
	c.current, c.content = &pair, [2][]byte{cert, key}
	if until := pair.Leaf.NotAfter; until.Before(c.now()) {
		c.log.Warn("the certificate has expired", "until", until)
	} else {
		c.log.Info("the certificate is read", "until", until)
	}
	return nil
}

// notAfter is when the certificate that is served expires.
func (c *certificate) notAfter() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.Leaf.NotAfter
}
