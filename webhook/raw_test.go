package webhook

import (
	"bufio"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"waypost"
)

var clock = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestMain keeps net/http's words on what receivers here send unasked to itself.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	m.Run()
}

// newSender makes a sender that may call this machine, with a clock that stands.
func newSender(t testing.TB) *Sender {
	s := NewSender(Options{
		AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Now:        func() time.Time { return clock },
	})
	t.Cleanup(s.Close)
	return s
}

func hook(url string) waypost.Webhook {
	return waypost.Webhook{URL: url, TimeoutMs: 60_000}
}

// attempts makes an attempt that says what went wrong, and another one if a machine that
// stood still may have spoilt it: net/http, for one, keeps no connection whose writer had
// to wait.
func attempts(t *testing.T, attempt func() (wrong string)) {
	t.Helper()
	var wrong string
	for range 4 {
		if wrong = attempt(); wrong == "" {
			return
		}
	}
	t.Error(wrong)
}

// listen serves every connection with serve, which gets the connection's number,
// from 1, and returns the URL. It waits for all of them at the end of the test.
func listen(t testing.TB, serve func(n int, conn *net.TCPConn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	var open []net.Conn
	group.Go(func() {
		for n := 1; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			group.Go(func() {
				defer conn.Close()
				serve(n, conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, conn := range open {
			conn.Close()
		}
		mu.Unlock()
		group.Wait()
	})
	return "http://" + l.Addr().String() + "/hook"
}

// readRequest reads one request to its end.
func readRequest(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

// answering serves every connection with one raw answer and closes it.
func answering(t testing.TB, raw string) string {
	return listen(t, func(_ int, conn *net.TCPConn) {
		if readRequest(bufio.NewReader(conn)) {
			io.WriteString(conn, raw)
		}
	})
}
