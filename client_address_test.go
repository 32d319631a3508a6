package waypost_test

import (
	"net/netip"
	"testing"

	"waypost"
)

func TestClientAddress(t *testing.T) {
	t.Parallel()
	const proxy = "10.0.0.1:99"
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ffff::/48")}
	for _, tt := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"a peer", "192.0.2.1:99", nil, "192.0.2.1"},
		{"an IPv6 peer", "[2001:db8:1:2:3:4:5:6]:99", nil, "2001:db8:1:2::/64"},
		{"an IPv6 peer with a zone", "[fe80::1%eth0]:99", nil, "fe80::/64"},
		{"an IPv4 peer on an IPv6 socket", "[::ffff:192.0.2.1]:99", nil, "192.0.2.1"},
		{"a peer without an address", "@", []string{"192.0.2.1"}, "unknown"},
		{"a peer that is no trusted proxy", "192.0.2.1:99", []string{"198.51.100.1"}, "192.0.2.1"},
		{"a proxy without the header", proxy, nil, "10.0.0.1"},
		{"a proxy with an empty header", proxy, []string{""}, "10.0.0.1"},
		{"an IPv4 proxy on an IPv6 socket", "[::ffff:10.0.0.1]:99", []string{"198.51.100.1"}, "198.51.100.1"},
		{"an IPv6 proxy", "[2001:db8:ffff::1]:99", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a hop", proxy, []string{"198.51.100.1"}, "198.51.100.1"},
		{"a hop with a port", proxy, []string{"198.51.100.1:50011"}, "198.51.100.1"},
		{"an IPv6 hop", proxy, []string{"2001:db8::1"}, "2001:db8::/64"},
		{"an IPv6 hop in brackets", proxy, []string{"[2001:db8::1]"}, "2001:db8::/64"},
		{"an IPv6 hop with a port", proxy, []string{"[2001:db8::1]:50011"}, "2001:db8::/64"},
		{"an IPv6 hop with a zone", proxy, []string{"[fe80::1%eth0]:50011"}, "fe80::/64"},
		{"IPv4 in IPv6", proxy, []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"IPv4 in IPv6, brackets and a port", proxy, []string{"[::ffff:198.51.100.1]:50011"}, "198.51.100.1"},
		{"what the client claims", proxy, []string{"203.0.113.1, 198.51.100.1"}, "198.51.100.1"},
		{"several proxies", proxy, []string{"203.0.113.1, 198.51.100.1, 10.1.1.1"}, "198.51.100.1"},
		{"several proxies with ports", proxy, []string{"203.0.113.1:1,198.51.100.1:2 ,\t[2001:db8:ffff::2]:3, 10.1.1.1:4"}, "198.51.100.1"},
		{"several headers", proxy, []string{"203.0.113.1", "198.51.100.1:2", "10.1.1.1"}, "198.51.100.1"},
		{"trusted hops alone", proxy, []string{"10.2.2.2, 10.1.1.1"}, "10.2.2.2"},
		{"empty hops", proxy, []string{"198.51.100.1, ,10.1.1.1,", ""}, "198.51.100.1"},
		{"rubbish", proxy, []string{"unknown"}, "10.0.0.1"},
		{"rubbish before the client", proxy, []string{"<script>, 198.51.100.1:2"}, "198.51.100.1"},
		{"rubbish between proxies", proxy, []string{"198.51.100.1, nonsense, 10.1.1.1"}, "10.1.1.1"},
		{"a port that is none", proxy, []string{"198.51.100.1:99999"}, "10.0.0.1"},
		{"a port without an address", proxy, []string{":50011"}, "10.0.0.1"},
		{"a network", proxy, []string{"198.51.100.0/24"}, "10.0.0.1"},
		{"brackets without an address", proxy, []string{"[]"}, "10.0.0.1"},
		{"IPv4 in brackets", proxy, []string{"[198.51.100.1]"}, "10.0.0.1"},
		{"one bracket", proxy, []string{"[2001:db8::1"}, "10.0.0.1"},
		{"leading zeros, which some read as octal", proxy, []string{"198.051.100.1"}, "10.0.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := waypost.ClientAddress(tt.peer, tt.forwarded, trusted); got != tt.want {
				t.Errorf("%s, %q: %s, want %s", tt.peer, tt.forwarded, got, tt.want)
			}
		})
	}
}
