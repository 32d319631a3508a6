package webhook

import (
	"context"
	"net/netip"
	"slices"
	"syscall"
)

// refusedError says that the guard does not let a connection through. Its text
// does not name the address: what a name resolves to inside our network is none
// of the customer's business.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

// control is the address guard. It runs for every socket right before it
// connects, with the very address, so no name that resolves to another address
// the second time slips through.
func (o *Options) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return &refusedError{"the receiver's address is not an IP address and a port"}
	}
	if problem := o.refusePort(int(to.Port())); problem != "" {
		return &refusedError{problem}
	}
	if what := o.refuseAddr(to.Addr()); what != "" {
		return &refusedError{"the receiver's address is refused: " + what}
	}
	return nil
}

func (o *Options) refusePort(port int) string {
	if len(o.Ports) == 0 || slices.Contains(o.Ports, port) {
		return ""
	}
	return "the port is not one of those that webhooks may use"
}

// inner are the addresses that are not the public internet (IANA special-purpose
// address registries), and metadata services that hide among public ones.
var inner = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "it is unspecified"},
	{netip.MustParsePrefix("10.0.0.0/8"), "it is private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "it is carrier-grade NAT"},
	{netip.MustParsePrefix("127.0.0.0/8"), "it is loopback"},
	{netip.MustParsePrefix("168.63.129.16/32"), "it is a metadata service"}, // Azure
	{netip.MustParsePrefix("169.254.0.0/16"), "it is link-local"},           // most clouds' metadata too
	{netip.MustParsePrefix("172.16.0.0/12"), "it is private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "it is reserved"},
	{netip.MustParsePrefix("192.0.2.0/24"), "it is for documentation"},
	{netip.MustParsePrefix("192.31.196.0/24"), "it is reserved"},
	{netip.MustParsePrefix("192.52.193.0/24"), "it is reserved"},
	{netip.MustParsePrefix("192.88.99.0/24"), "it is a 6to4 relay"},
	{netip.MustParsePrefix("192.168.0.0/16"), "it is private"},
	{netip.MustParsePrefix("192.175.48.0/24"), "it is reserved"},
	{netip.MustParsePrefix("198.18.0.0/15"), "it is for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "it is for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "it is for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "it is multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "it is reserved"},

	{netip.MustParsePrefix("::/128"), "it is unspecified"},
	{netip.MustParsePrefix("::1/128"), "it is loopback"},
	{netip.MustParsePrefix("fc00::/7"), "it is private"},
	{netip.MustParsePrefix("fe80::/10"), "it is link-local"},
	{netip.MustParsePrefix("ff00::/8"), "it is multicast"},
	{netip.MustParsePrefix("2001::/32"), "it is a Teredo tunnel"}, // hides two IPv4 addresses
	{netip.MustParsePrefix("2001::/23"), "it is reserved"},
	{netip.MustParsePrefix("2001:db8::/32"), "it is for documentation"},
	{netip.MustParsePrefix("2620:4f:8000::/48"), "it is reserved"},
	{netip.MustParsePrefix("3fff::/20"), "it is for documentation"},
}

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	nat64         = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour     = netip.MustParsePrefix("2002::/16")
)

// refuseAddr returns why a must not be called, "" if it may be.
func (o *Options) refuseAddr(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if slices.ContainsFunc(o.AllowCIDRs, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return ""
	}
	for _, n := range inner {
		if n.prefix.Contains(a) {
			return n.what
		}
	}
	if a.Is4() {
		return ""
	}
	if v4, ok := embedded(a); ok {
		if what := o.refuseAddr(v4); what != "" {
			return what
		}
	}
	if !globalUnicast.Contains(a) && !nat64.Contains(a) {
		return "it is not a public address"
	}
	return ""
}

// embedded returns the IPv4 address to which a gateway translates or unwraps a:
// NAT64 (which a network without IPv4 needs to reach public IPv4 receivers), 6to4
// and ISATAP.
func embedded(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe:
		return netip.AddrFrom4([4]byte(b[12:16])), true
	}
	return netip.Addr{}, false
}
