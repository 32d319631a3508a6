package temporal_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"waypost/devstack/temporal"
)

// A process that was started again has its ports' numbers before it takes all of the ports.
func TestHeldPorts(t *testing.T) {
	t.Parallel()
	unheld, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := unheld.LocalAddr().String()
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
