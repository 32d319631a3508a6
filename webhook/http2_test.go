package webhook

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
)

// Frames of HTTP/2, their flags and error codes (RFC 9113), as far as receivers here
// send them.
const (
	frameData, frameHeaders, frameReset, frameSettings, framePush = 0, 1, 3, 4, 5
	framePing, frameGoAway, frameWindow, frameContinuation        = 6, 7, 8, 9

	flagEndStream, flagEndHeaders = 1, 4

	codeNone, codeProtocol    = "\x00\x00\x00\x00", "\x00\x00\x00\x01"
	codeInternal, codeRefused = "\x00\x00\x00\x02", "\x00\x00\x00\x07"
	status200, status103      = "\x88", "\x08\x03103" // HPACK (RFC 7541)

	refused = "the receiver refused the request before it looked at it"
)

// h2conn is a receiver's end of a connection, frame by frame.
type h2conn struct {
	conn net.Conn
	r    *bufio.Reader
}

func (c *h2conn) write(kind, flags byte, stream uint32, payload string) error {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	frame = binary.BigEndian.AppendUint32(append(frame, flags), stream)
	_, err := c.conn.Write(append(frame, payload...))
	return err
}

func (c *h2conn) read() (kind byte, stream uint32, payload []byte, err error) {
	var head [9]byte
	if _, err = io.ReadFull(c.r, head[:]); err != nil {
		return
	}
	payload = make([]byte, binary.BigEndian.Uint32(head[:])>>8)
	_, err = io.ReadFull(c.r, payload)
	return head[3], binary.BigEndian.Uint32(head[5:]), payload, err
}

// request reads until the next request begins and returns its stream, 0 in the end.
func (c *h2conn) request() uint32 {
	for {
		switch kind, stream, _, err := c.read(); {
		case err != nil:
			return 0
		case kind == frameHeaders:
			return stream
		}
	}
}

// answer gives status 200 without a body.
func (c *h2conn) answer(stream uint32) {
	_ = c.write(frameHeaders, flagEndHeaders|flagEndStream, stream, status200)
}

// goAway says that streams after last were not looked at.
func (c *h2conn) goAway(last uint32) {
	_ = c.write(frameGoAway, 0, 0, string(binary.BigEndian.AppendUint32(nil, last))+codeNone)
}

func h2setting(id uint16, value uint32) string {
	return string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, id), value))
}

// listenHTTP2 is listen for receivers that write frames.
func listenHTTP2(t testing.TB, settings string, serve func(n int, c *h2conn)) waypost.Webhook {
	ours := newAuthority(t, "ours")
	conf := &tls.Config{Certificates: []tls.Certificate{ours.here(time.Now().Add(time.Hour)).Certificate}, NextProtos: []string{"h2"}}
	url := listen(t, func(n int, conn *net.TCPConn) {
		secured := tls.Server(conn, conf)
		c := &h2conn{secured, bufio.NewReader(secured)}
		if _, err := io.CopyN(io.Discard, c.r, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err == nil && c.write(frameSettings, 0, 0, settings) == nil {
			serve(n, c)
		}
	})
	return secured(strings.Replace(url, "http", "https", 1), waypost.TLS{CACertificate: ours.pem})
}

// What a receiver does with HTTP/2 costs one exchange, a bounded number of connections
// and requests, and no more time than it needs.
func TestHTTP2Faults(t *testing.T) {
	t.Parallel()
	header := "\x00\x01x\x64" + strings.Repeat("x", 100)
	once := func(do func(c *h2conn, stream uint32)) func(*h2conn, *atomic.Int32) {
		return func(c *h2conn, requests *atomic.Int32) {
			for stream := c.request(); stream != 0; stream = c.request() {
				requests.Add(1)
				do(c, stream)
			}
		}
	}
	for name, tt := range map[string]struct {
		serve           func(c *h2conn, requests *atomic.Int32)
		conns, requests int32
		status          int
		message         string
	}{
		"goes away at once": {func(c *h2conn, _ *atomic.Int32) {
			c.goAway(0)
			_, _ = io.Copy(io.Discard, c.r)
		}, maxDials, 0, 0, "the receiver takes connections and gives them up|" + refused}, // whichever is first
		"goes away before the request": {func(c *h2conn, requests *atomic.Int32) {
			if c.request() != 0 {
				requests.Add(1)
				c.goAway(0)
			}
		}, 1, 1, 0, refused},
		"refuses the stream": {once(func(c *h2conn, stream uint32) {
			_ = c.write(frameReset, 0, stream, codeRefused)
		}), 1, 1, 0, refused},
		"finds fault with the stream": {once(func(c *h2conn, stream uint32) {
			_ = c.write(frameReset, 0, stream, codeProtocol)
		}), 1, 1, 0, refused},
		"goes away after the request": {func(c *h2conn, requests *atomic.Int32) {
			stream := c.request()
			requests.Add(1)
			c.goAway(stream)
		}, 1, 1, 0, "the receiver closed the connection without an answer"},
		"hangs up": {func(*h2conn, *atomic.Int32) {}, 1, 0, 0, ""},
		"resets the stream": {once(func(c *h2conn, stream uint32) {
			_ = c.write(frameReset, 0, stream, codeInternal)
		}), 1, 1, 0, "the receiver reset the stream"},
		"resets the stream in the answer": {once(func(c *h2conn, stream uint32) {
			_ = c.write(frameHeaders, flagEndHeaders, stream, status200)
			_ = c.write(frameData, 0, stream, "{")
			_ = c.write(frameReset, 0, stream, codeInternal)
		}), 1, 1, 200, "the answer's body is broken off or garbled"},
		"headers without end": {once(func(c *h2conn, stream uint32) {
			for err := c.write(frameHeaders, 0, stream, status200); err == nil; {
				err = c.write(frameContinuation, 0, stream, strings.Repeat(header, 100))
			}
		}), 1, 1, 0, "the answer is not valid HTTP"},
		"103 without end": {once(func(c *h2conn, stream uint32) {
			for err := error(nil); err == nil; {
				err = c.write(frameHeaders, flagEndHeaders, stream, status103+header)
			}
		}), 1, 1, 0, "the answer's headers are too long"},
		"pushes": {once(func(c *h2conn, stream uint32) {
			_ = c.write(framePush, flagEndHeaders, stream, "\x00\x00\x00\x02\x83\x86\x84")
		}), 1, 1, 0, "the answer is not valid HTTP"},
		"no HTTP/2": {once(func(c *h2conn, stream uint32) {
			_, _ = io.WriteString(c.conn, ok(`{"succeed":true}`))
		}), 1, 1, 0, "the answer is not valid HTTP"},
		"says that it needs HTTP/1.1": {once(func(c *h2conn, stream uint32) {
			_ = c.write(frameReset, 0, stream, "\x00\x00\x00\x0d")
		}), 1, 1, 0, "the receiver reset the stream"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var conns, requests atomic.Int32
			w := listenHTTP2(t, "", func(_ int, c *h2conn) {
				conns.Add(1)
				tt.serve(c, &requests)
			})
			start := time.Now()
			o := newSender(t).Send(context.Background(), w, "msg_1", []byte("{}"))
			checkOutcome(t, o)
			if o.ErrorClass != waypost.ClassNetwork || o.HTTPStatus != tt.status || tt.message != "" && !slices.Contains(strings.Split(tt.message, "|"), o.Message) {
				t.Errorf("outcome %+v", o)
			}
			if conns.Load() > tt.conns || requests.Load() > tt.requests {
				t.Errorf("%d connections, want up to %d; %d requests, want up to %d", conns.Load(), tt.conns, requests.Load(), tt.requests)
			}
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// An answer counts although the receiver does not want the rest of the request.
func TestHTTP2AnswerBeforeTheBody(t *testing.T) {
	t.Parallel()
	w := listenHTTP2(t, "", func(_ int, c *h2conn) {
		stream := c.request()
		c.answer(stream)
		_ = c.write(frameReset, 0, stream, codeNone)
		_, _ = io.Copy(io.Discard, c.r)
	})
	if o := newSender(t).Send(context.Background(), w, "msg_1", bytes.Repeat([]byte("x"), 1<<20)); !o.Succeed {
		t.Errorf("outcome %+v", o)
	}
}

// A receiver may send little ahead of being read: thousands of answers at a time must
// not fill the memory.
func TestHTTP2AnswersAreHeldBack(t *testing.T) {
	t.Parallel()
	stream, all := make(chan uint32, 1), make(chan uint32, 1)
	w := listenHTTP2(t, "", func(_ int, c *h2conn) {
		for {
			switch kind, id, payload, err := c.read(); {
			case err != nil:
				return
			case kind == frameSettings:
				for ; len(payload) >= 6; payload = payload[6:] {
					if binary.BigEndian.Uint16(payload) == 4 { // SETTINGS_INITIAL_WINDOW_SIZE
						stream <- binary.BigEndian.Uint32(payload[2:])
					}
				}
			case kind == frameWindow && id == 0:
				all <- binary.BigEndian.Uint32(payload)
			case kind == frameHeaders:
				c.answer(id)
			}
		}
	})
	if o := newSender(t).Send(context.Background(), w, "msg_1", nil); !o.Succeed {
		t.Fatalf("outcome %+v", o)
	}
	if one, more := <-stream, <-all; one != maxPacked || more > maxHeld {
		t.Errorf("a stream may send %d bytes, a connection %d more than 65535", one, more)
	}
}

// A connection on which nothing is heard any more is given up, although the messages
// on it have had their time-outs.
func TestHTTP2DeadConnection(t *testing.T) {
	t.Parallel()
	patience := time.Duration(1)
	attempts(t, func() string { // an answer that is late looks like a dead connection
		defer func() { patience *= 6 }()
		return deadConnection(t, patience)
	})
}

func deadConnection(t *testing.T, patience time.Duration) string {
	dropped := make(chan struct{})
	w := listenHTTP2(t, "", func(n int, c *h2conn) {
		c.answer(c.request())
		if n == 1 {
			_, _ = io.Copy(io.Discard, c.r) // without an answer to a PING
			close(dropped)
			return
		}
		for stream := c.request(); stream != 0; stream = c.request() {
			c.answer(stream)
		}
	})
	s := newSender(t)
	own, done, _ := s.own.take(*w.TLS, clock)
	done()
	own.HTTP2.SendPingTimeout = pingAfter / 300 * patience
	own.HTTP2.PingTimeout = pingTimeout / 100 * patience
	for i, want := range []bool{true, false, true} {
		w.TimeoutMs = 60_000
		if !want {
			w.TimeoutMs = 10
		}
		if o := s.Send(context.Background(), w, "msg_1", nil); o.Succeed != want {
			return fmt.Sprintf("message %d: %+v", i+1, o)
		}
		if i == 1 {
			<-dropped
		}
	}
	return ""
}

// A receiver that reads nothing more, but lives, is given up before the time-out.
func TestHTTP2ReceiverDoesNotRead(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	w := listenHTTP2(t, h2setting(4, 1<<30), func(_ int, c *h2conn) {
		_ = c.write(frameWindow, 0, 0, "\x3f\xff\x00\x00")
		for err := error(nil); err == nil; err = c.write(framePing, 0, 0, "12345678") {
			select {
			case <-over:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	s := newSender(t)
	own, done, _ := s.own.take(*w.TLS, clock)
	done()
	own.HTTP2.WriteByteTimeout /= 50
	o := s.Send(context.Background(), w, "msg_1", bytes.Repeat([]byte("x"), 64<<20))
	close(over)
	if o.ErrorClass != waypost.ClassTimeout || o.Message != "the receiver did not read the message in time" {
		t.Errorf("outcome %+v", o)
	}
}

// What a receiver allows at a time on a connection is kept to; there are more
// connections then.
func TestHTTP2ConcurrentStreams(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	open, most := map[string]int{}, 0
	count := func(from string, by int) {
		mu.Lock()
		defer mu.Unlock()
		open[from] += by
		most = max(most, open[from])
	}
	inside := make(chan struct{}, 20)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		count(r.RemoteAddr, 1)
		defer count(r.RemoteAddr, -1)
		if inside <- struct{}{}; r.ProtoMajor != 2 {
			t.Errorf("%s", r.Proto)
		}
		for len(inside) < cap(inside) { // until all are
			time.Sleep(time.Millisecond)
		}
	}))
	ours := newAuthority(t, "ours")
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{ours.here(time.Now().Add(time.Hour)).Certificate}}
	srv.EnableHTTP2 = true
	srv.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 3}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	s := newSender(t)
	var group sync.WaitGroup
	for range cap(inside) {
		group.Go(func() {
			if o := s.Send(context.Background(), secured(srv.URL, waypost.TLS{CACertificate: ours.pem}), "msg_1", nil); !o.Succeed {
				t.Errorf("outcome %+v", o)
			}
		})
	}
	group.Wait()
	if most > 3 || len(open) < 7 {
		t.Errorf("%d at a time on a connection, %d connections", most, len(open))
	}
}
