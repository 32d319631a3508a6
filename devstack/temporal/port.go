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
	ports []net.PacketConn
}

// ListenFree listens on a free port of a host that the system gives to nobody who has
// not asked for it: a port that is given back, for a server that must be told its
// number, is still free when that takes it.
func ListenFree(ctx context.Context, host string) (net.Listener, error) {
	var lc net.ListenConfig
	for range 100 {
		addr := net.JoinHostPort(host, strconv.Itoa(lowestQuiet+rand.IntN(highestQuiet-lowestQuiet+1)))
		hold, err := lc.ListenPacket(ctx, "udp", addr)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, err
		}
		l, err := lc.Listen(ctx, "tcp", addr)
		if err == nil {
			held.Lock()
			defer held.Unlock()
			held.ports = append(held.ports, hold)
			return l, nil
		}
		_ = hold.Close()
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, err
		}
	}
	return lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
}
