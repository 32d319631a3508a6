package webhook

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
)

// However many kept connections are dead, a message that meets one is sent once more,
// and on a new one.
func TestRepeatedOnceOnANewConnection(t *testing.T) {
	t.Parallel()
	const kept = 30
	var requests, conns atomic.Int32
	var hangUp, all atomic.Bool
	allSent := make(chan struct{})
	url := listen(t, func(_ int, conn *net.TCPConn) {
		conns.Add(1)
		for i, r := 0, bufio.NewReader(conn); readRequest(r); i++ {
			n := requests.Add(1)
			if hangUp.Load() && (i > 0 || all.Load()) {
				return
			}
			if n == kept {
				close(allSent)
			}
			<-allSent
			io.WriteString(conn, ok(""))
		}
	})
	s := newSender(t)
	var group sync.WaitGroup
	for range kept {
		group.Go(func() { s.Send(context.Background(), hook(url), "msg_1", []byte("{}")) })
	}
	group.Wait()
	if conns.Load() != kept {
		t.Fatalf("%d connections", conns.Load())
	}
	hangUp.Store(true)
	for i, want := range []bool{true, false} {
		all.Store(!want)
		requests.Store(0)
		if o := s.Send(context.Background(), hook(url), "msg_1", []byte("{}")); o.Succeed != want || requests.Load() != 2 {
			t.Errorf("message %d: %d requests, %+v", i+1, requests.Load(), o)
		}
	}
}

// Once a byte of an answer has come, or the receiver has said something else, the
// message is not sent again at once.
func TestAnswerThatBeganIsNotRepeated(t *testing.T) {
	t.Parallel()
	for name, begun := range map[string]string{
		"a byte": "H", "half a header": "HTTP/1.1 200 OK\r\nContent-", "100": "HTTP/1.1 100 Continue\r\n\r\n",
		"headers": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", "half a body": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attempts(t, func() string {
				var requests atomic.Int32
				url := listen(t, func(_ int, conn *net.TCPConn) {
					for i, r := 0, bufio.NewReader(conn); readRequest(r); i++ {
						requests.Add(1)
						if i > 0 {
							io.WriteString(conn, begun)
							return
						}
						io.WriteString(conn, ok(""))
					}
				})
				s := newSender(t)
				s.Send(context.Background(), hook(url), "msg_1", []byte("{}"))
				o := s.Send(context.Background(), hook(url), "msg_1", []byte("{}"))
				checkOutcome(t, o)
				if o.ErrorClass != waypost.ClassNetwork || requests.Load() != 2 {
					return fmt.Sprintf("%d requests, %+v", requests.Load(), o)
				}
				return ""
			})
		})
	}
}

// The same over HTTP/2, where a stream that is reset is an answer.
func TestHTTP2RepeatedOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		second   func(c *h2conn, stream uint32)
		succeed  bool
		requests int32
	}{
		"hangs up":            {func(*h2conn, uint32) {}, true, 3},
		"goes away":           {func(c *h2conn, stream uint32) { c.goAway(stream) }, true, 3},
		"resets the stream":   {func(c *h2conn, stream uint32) { _ = c.write(frameReset, 0, stream, codeInternal); c.request() }, false, 2},
		"refuses the stream":  {func(c *h2conn, stream uint32) { _ = c.write(frameReset, 0, stream, codeRefused); c.request() }, true, 3},
		"finds fault with it": {func(c *h2conn, stream uint32) { _ = c.write(frameReset, 0, stream, codeProtocol); c.request() }, true, 3},
		"did not look at it":  {func(c *h2conn, _ uint32) { c.goAway(0) }, true, 3},
		"begins to answer": {func(c *h2conn, stream uint32) {
			_ = c.write(frameHeaders, flagEndHeaders, stream, status103)
		}, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			w := listenHTTP2(t, "", func(_ int, c *h2conn) {
				first := c.request()
				requests.Add(1)
				c.answer(first)
				if stream := c.request(); stream != 0 {
					requests.Add(1)
					tt.second(c, stream)
				}
			})
			s := newSender(t)
			s.Send(context.Background(), w, "msg_1", []byte("{}"))
			o := s.Send(context.Background(), w, "msg_1", []byte("{}"))
			checkOutcome(t, o)
			if o.Succeed != tt.succeed || requests.Load() != tt.requests {
				t.Errorf("%d requests, %+v", requests.Load(), o)
			}
		})
	}
}

// What a receiver sends beyond its answer is nobody's answer.
func TestSurplusAnswers(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"two answers":         ok(`{"succeed":true}`) + ok(`{"succeed":false}`),
		"length too small":    strings.Replace(ok(`{"succeed":true}  `), "18", "16", 1),
		"a body behind 204":   "HTTP/1.1 204 No Content\r\n\r\n" + ok(`{"succeed":false}`),
		"two, without a body": ok("") + ok(`{"succeed":false}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := listen(t, func(_ int, conn *net.TCPConn) {
				for r := bufio.NewReader(conn); readRequest(r); {
					io.WriteString(conn, raw)
				}
			})
			s := newSender(t)
			var group sync.WaitGroup
			for range 8 {
				group.Go(func() {
					for range 100 {
						if o := s.Send(context.Background(), hook(url), "msg_1", []byte("{}")); !o.Succeed && o.HTTPStatus != 204 {
							t.Errorf("outcome %+v", o)
						}
					}
				})
			}
			group.Wait()
		})
	}
}

// A receiver that takes connections and says nothing, not even for TLS, holds them no
// longer than the exchange.
func TestHandshakeEndsWithTheExchange(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{}, 10_000)
	url := listen(t, func(_ int, conn *net.TCPConn) {
		_, _ = io.Copy(io.Discard, conn)
		gone <- struct{}{}
	})
	s := newSender(t)
	w := hook(strings.Replace(url, "http", "https", 1))
	w.TimeoutMs = 50
	start := time.Now()
	for len(gone) < 10 { // one whose time is over before its dial makes no connection
		if o := s.Send(context.Background(), w, "msg_1", nil); o.ErrorClass != waypost.ClassTimeout {
			t.Errorf("outcome %+v", o)
		}
		if took := time.Since(start); took > tlsTimeout-time.Second {
			t.Fatalf("%d connections were closed after %v", len(gone), took)
		}
	}
}

// The time in which a connection must be made is not its life.
func TestConnectionOutlivesItsDial(t *testing.T) {
	t.Parallel()
	served := make(chan int, 100)
	url := listen(t, func(n int, conn *net.TCPConn) {
		for r := bufio.NewReader(conn); readRequest(r); {
			served <- n
			io.WriteString(conn, ok(""))
		}
	})
	s := newSender(t)
	var on [2]int
	for i := 0; i < 2; i++ {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		by := time.Now().Add(time.Second)
		x := exchange{by: by}
		resp, done, err := x.roundTrip(s.transport, req)
		if err != nil && i == 0 && time.Now().After(by) {
			i-- // the machine stood still for as long as a dial may take
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		on[i] = <-served
		resp.Body.Close()
		done()
		time.Sleep(time.Until(by) + 50*time.Millisecond)
	}
	if on[0] != on[1] {
		t.Errorf("connections %v", on)
	}
}

// An answer counts although the receiver does not read the rest of the message, and
// nothing more is sent on that connection.
func TestAnswerBeforeTheBody(t *testing.T) {
	t.Parallel()
	var conns atomic.Int32
	url := listen(t, func(_ int, conn *net.TCPConn) {
		conns.Add(1)
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			io.WriteString(conn, answer("413 Too Large", "", "too large"))
		}
		io.Copy(io.Discard, &slowly{conn})
	})
	s := newSender(t)
	for i := range int32(2) {
		o := s.Send(context.Background(), hook(url), "msg_1", bytes.Repeat([]byte("x"), 32<<20))
		if o.HTTPStatus != http.StatusRequestEntityTooLarge || conns.Load() != i+1 {
			t.Errorf("%d connections, %+v", conns.Load(), o)
		}
	}
}

// slowly reads so little that nobody would wait for the end.
type slowly struct{ from io.Reader }

func (s *slowly) Read(p []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	return s.from.Read(p[:min(len(p), 512)])
}

// A receiver that answers 101 does not keep the connection for another protocol.
func TestSwitchingProtocolsEndsTheConnection(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	url := listen(t, func(_ int, conn *net.TCPConn) {
		readRequest(bufio.NewReader(conn))
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		io.Copy(io.Discard, conn)
		close(ended)
	})
	if o := newSender(t).Send(context.Background(), hook(url), "msg_1", nil); o.HTTPStatus != http.StatusSwitchingProtocols {
		t.Errorf("outcome %+v", o)
	}
	<-ended
}
