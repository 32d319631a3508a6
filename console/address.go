package console

import (
	"net/netip"
	"slices"
	"strings"
)

// address is the client's address, by which tries of passwords are counted: the address of
// the connection, or the last one in X-Forwarded-For that is no trusted proxy's. An IPv6 /64
// counts as one.
func (v *visit) address() string {
	at, err := netip.ParseAddrPort(v.r.RemoteAddr)
	if err != nil {
		return ""
	}
	addr := at.Addr().Unmap()
	trusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(v.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	hops := strings.Split(strings.Join(v.r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && trusted(addr); i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		addr = hop.Unmap()
	}
	if addr.Is6() {
		return netip.PrefixFrom(addr.WithZone(""), 64).Masked().String()
	}
	return addr.String()
}
