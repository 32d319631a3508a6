package stack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"waypost/devstack/temporal"
)

// address is one that the stack listens on.
type address struct {
	variable string
	addr     *string // host:port, replaced where the port is 0
	ours     bool    // false: of a part that is left out, for others to take
}

// claimAddresses gives every port 0 a free port, the remembered one if that is
// free, and checks that all ports that the stack will listen on are free. All
// problems are reported at once, a line each.
func claimAddresses(ctx context.Context, addresses []address, remembered map[string]string) error {
	var problems []error
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close() // the part that takes the port next fails if it is not free
		}
	}()
	taken := map[string]string{}
	for _, a := range addresses {
		host, port, err := net.SplitHostPort(*a.addr)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", a.variable, err))
			continue
		}
		if port == "0" {
			if before := remembered[a.variable]; before != "" && strings.HasPrefix(before, host+":") {
				// A part that is left out may run elsewhere, on that port.
				if !a.ours {
					*a.addr = before
					continue
				}
				if l, err := temporal.ListenHeld(ctx, before); err == nil {
					held = append(held, l)
					*a.addr = before
					continue
				}
			}
			l, err := temporal.ListenFree(ctx, host)
			if err != nil {
				problems = append(problems, problem(a, port, err))
				continue
			}
			held = append(held, l)
			_, port, _ = net.SplitHostPort(l.Addr().String())
			*a.addr = net.JoinHostPort(host, port)
			remembered[a.variable] = *a.addr
			continue
		}
		if other, ok := taken[*a.addr]; ok {
			problems = append(problems, fmt.Errorf("%s and %s are both %s: change one of them", other, a.variable, *a.addr))
			continue
		}
		taken[*a.addr] = a.variable
		if !a.ours {
			continue
		}
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", *a.addr)
		if err != nil {
			problems = append(problems, problem(a, port, err))
			continue
		}
		held = append(held, l)
	}
	return errors.Join(problems...)
}

func problem(a address, port string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("port %s is in use: set %s to another address than %s (port 0 picks a free one)", port, a.variable, *a.addr)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("port %s needs more rights than you have: set %s to another address than %s", port, a.variable, *a.addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s is no address of this machine: set %s to another one", *a.addr, a.variable)
	}
	return fmt.Errorf("cannot listen on %s: set %s to another address: %w", *a.addr, a.variable, err)
}

// origins are the names under which a browser of this machine can know a page
// at addr.
func origins(addr string) []string {
	addr = temporal.Reachable(addr)
	out := []string{"http://" + addr}
	host, port, err := net.SplitHostPort(addr)
	if err == nil && net.ParseIP(host).IsLoopback() {
		out = append(out, "http://"+net.JoinHostPort("localhost", port))
	}
	if host == "localhost" {
		out = append(out, "http://"+net.JoinHostPort("127.0.0.1", port))
	}
	return out
}
