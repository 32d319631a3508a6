package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"waypost"
)

// fault is why an exchange failed without a usable answer: its class, and a text
// of our own, because the errors of net/http hold URLs, addresses and bytes of
// the answer.
type fault struct {
	class, text string
}

func (f *fault) outcome() waypost.Outcome {
	return waypost.Outcome{ErrorClass: f.class, Message: f.text}
}

// faultOf classifies an error of the exchange that ran under ctx.
func faultOf(ctx context.Context, err error) *fault {
	if refused := (*refusedError)(nil); errors.As(err, &refused) {
		return &fault{waypost.ClassAddress, refused.Error()}
	}
	switch ctx.Err() {
	case context.Canceled:
		return &fault{waypost.ClassInterrupted, "stopped before the answer was complete"}
	case context.DeadlineExceeded:
		return &fault{waypost.ClassTimeout, "no complete answer in time"}
	}
	if proxy := (*proxyError)(nil); errors.As(err, &proxy) {
		return &fault{waypost.ClassNetwork, proxy.Error()}
	}
	// Before the time-out: a resolver that does not answer is a fault of the
	// network, not a slow receiver.
	if dns := (*net.DNSError)(nil); errors.As(err, &dns) {
		if dns.IsNotFound {
			return &fault{waypost.ClassNetwork, "the host name does not resolve"}
		}
		return &fault{waypost.ClassNetwork, "the host name cannot be resolved at the moment"}
	}
	if slow := net.Error(nil); errors.As(err, &slow) && slow.Timeout() {
		if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "write" {
			return &fault{waypost.ClassTimeout, "the receiver did not read the message in time"}
		}
		return &fault{waypost.ClassTimeout, "the connection could not be made in time"}
	}
	if text := tlsFault(err); text != "" {
		return &fault{waypost.ClassTLS, text}
	}
	return &fault{waypost.ClassNetwork, networkFault(err)}
}

// tlsFault says what is wrong with TLS, without text of the receiver; "" if the error is of something
// else.
func tlsFault(err error) string {
	var invalid x509.CertificateInvalidError
	var op *net.OpError
	switch {
	case errors.As(err, new(x509.HostnameError)):
		return "the certificate is for another host name"
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "the certificate is not signed by a known authority"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired or is not valid yet"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "the certificate is not valid"
	case errors.As(err, new(tls.RecordHeaderError)):
		return "the receiver does not speak TLS"
	case errors.As(err, &op) && op.Op == "remote error" && strings.Contains(op.Err.Error(), "certificate"):
		return "the receiver misses a client certificate, or refuses it" // alerts have no types; only the wording depends on theirs
	case errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"):
		return "the TLS handshake failed" // an alert, theirs or ours
	}
	// crypto/tls makes its other faults with errors.New.
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.HasPrefix(err.Error(), "tls: ") {
			return "the TLS handshake failed"
		}
	}
	return ""
}

// networkFault words what net/http has no types for, hence the look at its texts.
// Nothing but the wording depends on it.
func networkFault(err error) string {
	switch text := err.Error(); {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to the host"
	case strings.Contains(text, "received from peer"):
		return "the receiver reset the stream"
	case errors.Is(err, errRefused):
		return "the receiver refused the request before it looked at it"
	case errors.Is(err, errDials):
		return "the receiver takes connections and gives them up"
	case strings.Contains(text, "response headers exceeded"), strings.Contains(text, "header list too large"):
		return "the answer's headers are too long"
	case strings.Contains(text, "malformed"), strings.Contains(text, "connection error"), strings.Contains(text, "frame too large"):
		return "the answer is not valid HTTP"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(text, "server closed"), strings.Contains(text, "server sent GOAWAY"):
		return "the receiver closed the connection without an answer"
	}
	return "the connection failed"
}
