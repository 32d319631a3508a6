package webhook

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"waypost"
)

var refusedAddrs = []string{
	"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "100.127.255.255", "127.0.0.1", "127.255.255.254",
	"168.63.129.16", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1",
	"192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.255",
	"240.0.0.1", "255.255.255.255",
	"::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1", "100::1",
	"64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::8.8.8.8", "2001::1", "2001:0:7f00:1::1", "2001:2::1", "2001:10::1",
	"2001:20::1", "2001:db8::1", "2002:7f00:1::1", "2002:a9fe:a9fe::1", "2002:c0a8:101::", "2a00:1450::5efe:10.0.0.1",
	"2a00:1450::200:5efe:192.168.0.1", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254", "fe80::1", "fec0::1",
	"ff02::1", "4000::1", "1::1",
}

var publicAddrs = []string{
	"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.1", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1",
	"168.63.129.15", "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.0.1.1", "192.167.255.255", "192.169.0.0", "198.17.255.255",
	"198.20.0.0", "223.255.255.255",
	"::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2001:200::1", "2001:4860:4860::8888", "2002:808:808::1", "2606:4700::1111", "2a00:1450::5efe:8.8.8.8",
}

func TestGuard(t *testing.T) {
	t.Parallel()
	var o Options
	dial := func(o *Options, addr string) error {
		return o.control(context.Background(), "tcp", netip.AddrPortFrom(netip.MustParseAddr(addr), 443).String(), nil)
	}
	for _, addr := range refusedAddrs {
		if err := dial(&o, addr); err == nil || strings.Contains(err.Error(), addr) {
			t.Errorf("%s: %v", addr, err)
		}
	}
	for _, addr := range publicAddrs {
		if err := dial(&o, addr); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	if dial(&o, "fe80::1%eth0") == nil || o.control(context.Background(), "unix", "/run/x.sock", nil) == nil {
		t.Error("a zone or a path was let through")
	}

	o.AllowCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("fd00::/16"), netip.MustParsePrefix("fe80::/64"), netip.MustParsePrefix("10.0.0.4/30"), netip.MustParsePrefix("192.168.7.9/32")}
	for _, addr := range []string{"10.0.0.4", "10.0.0.7", "192.168.7.9", "127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1", "fd00:ec2::254", "fe80::1%eth0", "8.8.8.8"} {
		if err := dial(&o, addr); err != nil {
			t.Errorf("%s is allowed: %v", addr, err)
		}
	}
	for _, addr := range []string{"10.0.0.1", "10.0.0.3", "10.0.0.8", "192.168.7.8", "192.168.7.10", "169.254.169.254", "::1", "fd01::1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "fe80:0:0:1::1", "fcff:ffff::1"} {
		if dial(&o, addr) == nil {
			t.Errorf("%s is not allowed", addr)
		}
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	long := "https://example.com/" + strings.Repeat("a", MaxURL-len("https://example.com/"))
	good := []string{
		"https://example.com", "http://example.com/", "https://example.com:8443/hook?a=b&c=%20", "HTTPS://EXAMPLE.COM/", "https://example.com./",
		"https://a_b.example.com/", "https://例子.中国/hook", "https://xn--fsqu00a.xn--fiqs8s/", "https://8.8.8.8/", "https://[2606:4700::1111]/", "https://[2606:4700::1111]:8443/",
		"https://1.2.3.example/", "https://0xcafe.example/", "https://localhost/", "https://example.com:/", long,
	}
	bad := []string{
		"", "example.com", "//example.com/", "/hook", "ftp://example.com/", "file:///etc/passwd", "javascript:alert(1)", "http:example.com", "http://", "http:///x", "http://:80/",
		"https://user@example.com/", "https://user:secret@example.com/", "https://@example.com/", "https://example.com/#", "https://example.com/#x", " https://example.com/", "https://example.com/\n",
		"https://exa mple.com/", "https://example.com:0/", "https://example.com:65536/", "https://example.com:-1/", "https://example.com:x/", long + "a", "https://example.com/\xff",
		"https://a..b/", "https://.example.com/", "https://example.com../", "https://" + strings.Repeat("a", 64) + ".com/", "https://" + strings.Repeat("a.", 130) + "com/", "https://ex*mple.com/", "https://exämple.com%00/",
		"http://2130706433/", "http://017700000001/", "http://0x7f000001/", "http://0X7F.1/", "http://0177.0.0.1/", "http://127.1/", "http://127.0.1/", "http://0/", "http://127.0.0.1./", "http://127.0.0.01/", "http://1.2.3.4.5/",
		"http://00000177.0.0.1/", "http://0x7f.0x0.0x0.0x1/", "http://127.0x1/", "http://4294967296/", "http://localhost.127/", "http://[::FFFF:7F00:1]/", "http://[0:0:0:0:0:ffff:127.0.0.1]/",
		"http://127.0.0.1%00.example.com/", "http://example.com\\@127.0.0.1/", "http://127.0.0.1:80\\@example.com/", "http://a:b@127.0.0.1/", "http://example.com:080:80/", "http://example.com:+80/",
		"http://256.1.1.1/", "http://0x/", "http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/", "http://１２７.0.0.1/", "http://𝟏𝟐𝟕.0.0.𝟏/", "http://%31%32%37.0.0.1/",
		"http://[fe80::1%25eth0]/", "http://[2606:4700::1111%251]/", "http://[::1", "http://[127.0.0.1]/", "http://[example.com]/", "http://2606:4700::1111/",
	}
	for _, addr := range refusedAddrs {
		if strings.Contains(addr, ":") {
			addr = "[" + addr + "]"
		}
		bad = append(bad, "https://"+addr+":8443/hook", "http://"+addr)
	}
	var o Options
	for _, url := range good {
		if err := o.CheckURL(url); err != nil {
			t.Errorf("%.80s: %v", url, err)
		}
	}
	for _, url := range bad {
		err := o.CheckURL(url)
		if waypost.CodeOf(err) != waypost.CodeBadRequest {
			t.Errorf("%.80q: %v", url, err)
		} else if strings.Contains(err.Error(), "secret") || len(url) > 20 && strings.Contains(err.Error(), url) {
			t.Errorf("%.80q is repeated: %v", url, err)
		}
	}

	o = Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Ports: []int{443, 8090}}
	for url, want := range map[string]bool{
		"https://example.com/": true, "https://example.com:443/": true, "http://127.0.0.1:8090/": true, "http://[::ffff:127.0.0.1]:8090/": true,
		"http://example.com/": false, "https://example.com:8443/": false, "http://127.0.0.1/": false, "http://10.0.0.1:8090/": false, "http://2130706433:8090/": false,
	} {
		if err := o.CheckURL(url); (err == nil) != want {
			t.Errorf("%s: %v", url, err)
		}
	}
}
