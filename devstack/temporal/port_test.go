package temporal_test

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"testing"

	"waypost/devstack/temporal"
)

// A process that was started again has its ports' numbers before it takes all of the ports.
func TestHeldPorts(t *testing.T) {
	t.Parallel()
	unheld, addr := holdQuiet(t)
	if l, err := temporal.ListenHeld(t.Context(), addr); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a number that another process has was taken: %v, %v", l, err)
	}
	_ = unheld.Close()
	for range 2 {
		l, err := temporal.ListenHeld(t.Context(), addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		if c, err := net.ListenPacket("udp", addr); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("the number is given to others: %v, %v", c, err)
		}
	}
}

// holdQuiet holds the number of a free port as another process would. It is one that the
// system gives to nobody by itself: the system's own may be the near end of any connection.
func holdQuiet(t *testing.T) (net.PacketConn, string) {
	t.Helper()
	for range 100 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(10_000+rand.IntN(20_000)))
		hold, err := net.ListenPacket("udp", addr)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			_ = hold.Close()
			continue
		}
		_ = l.Close()
		return hold, addr
	}
	t.Fatal("no port is free")
	return nil, ""
}
