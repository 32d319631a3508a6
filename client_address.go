package waypost

import (
	"net/netip"
	"slices"
	"strings"
)

// ClientAddress names who sent a request, for limits by address: the peer of the connection
// ("192.0.2.1:5000") or, if that is a trusted proxy, the last hop in the values of
// X-Forwarded-For that is none. An IPv6 address is its /64, which is what one customer
// has. A hop that is no address ends the chain: its sender counts as the proxy that wrote it.
func ClientAddress(peer string, forwarded []string, trusted []netip.Prefix) string {
	at, err := netip.ParseAddrPort(peer)
	if err != nil {
		return "unknown"
	}
	addr := at.Addr().Unmap().WithZone("")
	hops := strings.Split(strings.Join(forwarded, ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			break
		}
		if hop = strings.Trim(hop, " \t"); hop == "" {
			continue // RFC 9110, 5.6.1.2: empty elements of a list do not count
		}
		next, ok := hopAddress(hop)
		if !ok {
			break
		}
		addr = next
	}
	if addr.Is6() {
		return netip.PrefixFrom(addr, 64).Masked().String()
	}
	return addr.String()
}

// hopAddress reads the address of a hop, which proxies write with or without a port, and an
// IPv6 address with or without brackets.
func hopAddress(hop string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(hop)
	if inner, bracketed := strings.CutPrefix(hop, "["); err != nil && bracketed {
		if inner, bracketed = strings.CutSuffix(inner, "]"); bracketed {
			addr, err = netip.ParseAddr(inner)
			if addr.Is4() {
				return netip.Addr{}, false
			}
		}
	}
	if err != nil {
		var at netip.AddrPort
		at, err = netip.ParseAddrPort(hop)
		addr = at.Addr()
	}
	return addr.Unmap().WithZone(""), err == nil
}
