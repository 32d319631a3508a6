package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"waypost/gateway"
	"waypost/listen"
)

// Two addresses that take all connections, with bodies of refused requests that never come, keep others out for a
// moment.
func TestTwoAddressesKeepNobodyOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *gateway.Options) { o.AddressRate = 1; o.LeastRate = 4096 })
	app := gateway.New(f.options)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bounded := listen.New(l, listen.Options{Most: 40, MostOfAddress: 20})
	go func() { _ = gateway.Serve(app, bounded) }()
	t.Cleanup(func() { _ = app.ShutdownWithTimeout(time.Minute) })
	dial := func(from string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	works := func() error {
		c := dial("127.0.0.4")
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.WriteString(c, "GET /openapi.yaml HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
			return err
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		if err == nil && !strings.Contains(line, " 200 ") && !strings.Contains(line, " 429 ") {
			err = fmt.Errorf("%q", line)
		}
		return err
	}
	if err := works(); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
		for range 20 {
			if _, err := io.WriteString(dial(from), "POST /v1/leads HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Bodies of clients that are known have ten seconds.
	began := time.Now()
	for works() != nil {
		if took := time.Since(began); took > 5*time.Second {
			t.Fatalf("somebody else is kept out for %v", took)
		}
		time.Sleep(20 * time.Millisecond) // between two tries
	}
}
