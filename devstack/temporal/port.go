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

// Ports that systems hand out by themselves, to whoever asks for any, begin above
// highestQuiet.
const (
	lowestQuiet  = 10_000
	highestQuiet = 32_767
)

// held are the UDP ports of the numbers that were given out. Whoever looks for a free port
// takes that one first and keeps it until its process ends, so that nobody else who looks
// is given the number while its TCP port waits to be taken.
var held struct {
	sync.Mutex
	ports map[string]net.PacketConn // by address
}

// ListenFree listens on a free port of a host that the system gives to nobody who has
// not asked for it: a port that is given back, for a server that must be told its
// number, is still free when that takes it.
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

// listen listens on a port whose number nobody has, or this process if it may be again.
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
