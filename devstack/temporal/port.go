package temporal

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Ports that systems hand out by themselves, to whoever asks for any, begin above
// highestQuiet.
const (
	lowestQuiet  = 10_000
	highestQuiet = 32_767
)

// ListenFree listens on a free port of a host that the system gives to nobody who has
// not asked for it: a port that is given back, for a server that must be told its
// number, is most likely still free when that takes it.
func ListenFree(ctx context.Context, host string) (net.Listener, error) {
	var lc net.ListenConfig
	for range 100 {
		port := lowestQuiet + rand.IntN(highestQuiet-lowestQuiet+1)
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
	return lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
}
