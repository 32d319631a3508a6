package temporal

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
)

// Ports that systems hand out by themselves, for port 0, begin above highestQuiet.
const (
	lowestQuiet  = 10_000
	highestQuiet = 32_767
)

// held are the UDP ports of the numbers that were given out. listen takes the UDP port first,
// and keeps it until the process ends, so that no other process is given the number while
// the TCP port is not yet taken.
var held struct {
	sync.Mutex
	ports map[string]net.PacketConn // by address
}

// ListenFree listens on a free port of a host that the system does not hand out by itself:
// once closed, it is still free when a server that must be given its number takes it.
func ListenFree(ctx context.Context, host string) (net.Listener, error) {
	for range 100 {
		l, err := listen(ctx, false, net.JoinHostPort(host, strconv.Itoa(lowestQuiet+rand.IntN(highestQuiet-lowestQuiet+1))))
		if !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
}

// ListenHeld listens on a port that ListenFree gave out to this process, or to one before
// it that has ended, and keeps the number.
func ListenHeld(ctx context.Context, addr string) (net.Listener, error) {
	return listen(ctx, true, addr)
}

// listen listens on a port whose number no process holds, or, with again, this process.
func listen(ctx context.Context, again bool, addr string) (net.Listener, error) {
	held.Lock()
	defer held.Unlock()
	var lc net.ListenConfig
	if again && held.ports[addr] != nil {
		return lc.Listen(ctx, "tcp", addr)
	}
	hold, err := lc.ListenPacket(ctx, "udp", addr)
	if err != nil {
		return nil, err
	}
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		_ = hold.Close()
		return nil, err
	}
	if held.ports == nil {
		held.ports = map[string]net.PacketConn{}
	}
	held.ports[addr] = hold
	return l, nil
}

// Reachable turns an address to listen on into one to connect to.
func Reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	switch ip := net.ParseIP(host); {
	case host == "", ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}
