package waypost

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"time"
)

// maxPEM bounds each of the texts of a TLS setting.
const maxPEM = 64 << 10

// TLS is what a webhook's connections trust and show other than by default, each a
// text in PEM or "". The key is stored encrypted and never answered.
type TLS struct {
	// CACertificate has the only authorities that the receiver's certificate may come
	// from. Without it they are those that the system knows.
	CACertificate string `json:"caCertificate"`
	// ClientCertificate, the intermediate ones behind it, and ClientKey are shown to a
	// receiver that asks for a certificate.
	ClientCertificate string `json:"clientCertificate"`
	ClientKey         string `json:"-"`
}

// Roots are the authorities to trust, nil for the system's.
func (t TLS) Roots() (*x509.CertPool, error) {
	if t.CACertificate == "" {
		return nil, nil
	}
	list, err := certificates(t.CACertificate)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	for _, c := range list {
		roots.AddCert(c)
	}
	return roots, nil
}

// Certificate is what to show to a receiver that asks, nil if there is none.
func (t TLS) Certificate() (*tls.Certificate, error) {
	if t.ClientCertificate == "" && t.ClientKey == "" {
		return nil, nil
	}
	pair, err := tls.X509KeyPair([]byte(t.ClientCertificate), []byte(t.ClientKey))
	return &pair, err
}

// ClientNotAfter is until when the client certificate is valid, zero if there is none.
func (t TLS) ClientNotAfter() time.Time {
	list, err := certificates(t.ClientCertificate)
	if err != nil {
		return time.Time{}
	}
	return list[0].NotAfter
}

// certificates reads a text that holds certificates and nothing else that looks like
// PEM: it is answered, and a key among them would be too.
func certificates(text string) ([]*x509.Certificate, error) {
	var list []*x509.Certificate
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, errors.New("must hold certificates only, and no key")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("holds a certificate that cannot be read")
		}
		list = append(list, c)
	}
	if len(list) == 0 || strings.Count(text, "-----BEGIN") != len(list) {
		return nil, errors.New("must be certificates in PEM, from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----")
	}
	return list, nil
}

// validate takes a key that is stored and cannot be read for the certificate's.
func (t TLS) validate(p *Problems, unreadable bool) {
	hasKey := t.ClientKey != "" || unreadable
	checkCertificates(p, "tls.caCertificate", t.CACertificate)
	valid := checkCertificates(p, "tls.clientCertificate", t.ClientCertificate)
	switch {
	case !hasKey && t.ClientCertificate != "":
		p.Add(DetailNullValue, "tls.clientKey", "is missing: it belongs to tls.clientCertificate")
	case hasKey && t.ClientCertificate == "":
		p.Add(DetailNullValue, "tls.clientCertificate", "is missing: it belongs to tls.clientKey")
	case t.ClientKey == "" || !valid || !checkText(p, "tls.clientKey", &t.ClientKey, maxPEM):
	case strings.Contains(t.ClientKey, "ENCRYPTED"):
		p.Add(DetailInvalidFormat, "tls.clientKey", "must not have a passphrase: `openssl pkey` takes it off")
	default:
		if _, err := t.Certificate(); err != nil {
			p.Add(DetailInvalidFormat, "tls.clientKey", "must be the private key of the first certificate of tls.clientCertificate, in PEM")
		}
	}
}

func checkCertificates(p *Problems, target, text string) bool {
	if text == "" {
		return true
	}
	if !checkText(p, target, &text, maxPEM) {
		return false
	}
	_, err := certificates(text)
	if err != nil {
		p.Add(DetailInvalidFormat, target, "%s", err)
	}
	return err == nil
}
