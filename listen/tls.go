package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// handshakeTime bounds a TLS handshake. It is a variable for tests.
var handshakeTime = 5 * time.Second

// handshakes accepts connections until the listener is closed. Accept returns those whose
// handshakes are done, so that none waits for another one's.
func (l *Listener) handshakes() {
	for {
		c, err := l.accept()
		if err != nil {
			return
		}
		go l.handshake(c)
	}
}

// handshake hands a connection to Accept: of HTTP/2 as a *tls.Conn, which net/http knows it by, else
// as one whose requests are followed.
func (l *Listener) handshake(c *conn) {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTime)
	defer cancel()
	secured := tls.Server(c, l.TLS)
	if err := secured.HandshakeContext(ctx); err != nil {
		var other tls.RecordHeaderError
		if errors.As(err, &other) && other.Conn != nil && looksLikeHTTP(other.RecordHeader) {
			_ = c.SetWriteDeadline(time.Now().Add(handshakeTime))
			_, _ = io.WriteString(c, plainHTTPAnswer)
		}
		_ = c.Close()
		return
	}
	var out net.Conn = secured
	if secured.ConnectionState().NegotiatedProtocol != "h2" {
		out = &framed{Conn: secured, of: c}
	}
	select {
	case l.ready <- out:
	case <-l.closed:
		_ = c.Close()
	}
}

// plainHTTPAnswer is for clients that send plain HTTP.
const plainHTTPAnswer = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" +
	`{"code":"BadRequest","message":"this address serves HTTPS: the URL must begin with https://","target":"","detail":[]}` + "\n"

// looksLikeHTTP tells whether a connection begins with a method. No record of TLS
// begins with a letter.
func looksLikeHTTP(header [5]byte) bool { return header[0] >= 'A' && header[0] <= 'Z' }
