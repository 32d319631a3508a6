package webhook

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"waypost"
)

// What a URL holds besides what may stand in one goes out percent-encoded, and nothing
// else is changed on the way.
func TestURLOnTheWire(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ url, target, host string }{
		{"http://example.com", "/", "example.com"},
		{"http://example.com:/", "/", "example.com"},
		{"http://example.com?a=1", "/?a=1", "example.com"},
		{"http://example.com/?x=a b", "/?x=a%20b", "example.com"},
		{"http://example.com/a b/c?x=a+b", "/a%20b/c?x=a+b", "example.com"},
		{"http://example.com/?n=张", "/?n=%E5%BC%A0", "example.com"},
		{"http://example.com/张/ü?é=ö", "/%E5%BC%A0/%C3%BC?%C3%A9=%C3%B6", "example.com"},
		{"http://example.com/?k=<1>|\"^`", "/?k=%3C1%3E%7C%22%5E%60", "example.com"},
		{"http://example.com/😀", "/%F0%9F%98%80", "example.com"},
		{"http://example.com/a%2fb%2F?x=%e5%BC%A0%00", "/a%2fb%2F?x=%e5%BC%A0%00", "example.com"},
		{"http://example.com/a/../b//c/./?a=1&a=2&&=;,:@!$'()*?/", "/a/../b//c/./?a=1&a=2&&=;,:@!$'()*?/", "example.com"},
		{"http://example.com/?filter[a]=1&b=~", "/?filter[a]=1&b=~", "example.com"},
		{"http://example.com/?", "/?", "example.com"},
		{"HTTP://Example.COM/A", "/A", "Example.COM"},
		{"http://BÜCHER.example/", "/", "xn--bcher-kva.example"},
		{"http://例子.中国/张", "/%E5%BC%A0", "xn--fsqu00a.xn--fiqs8s"},
		{"http://a_b.example.com./x", "/x", "a_b.example.com."},
	} {
		t.Run(tt.url, func(t *testing.T) {
			t.Parallel()
			s := newSender(t)
			s.options.resolver = resolverOf(t, func(int) []netip.Addr { return addrs("127.0.0.1") })
			if err := (Options{}).CheckURL(tt.url); err != nil {
				t.Fatal(err)
			}
			got := make(chan string, 1)
			receiver := listen(t, func(_ int, conn *net.TCPConn) {
				var seen strings.Builder
				if readRequest(bufio.NewReader(io.TeeReader(conn, &seen))) {
					got <- seen.String()
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			})
			port := receiver[strings.LastIndex(receiver, ":"):strings.LastIndex(receiver, "/")]
			scheme, rest, _ := strings.Cut(tt.url, "://")
			end := strings.IndexAny(rest+"/", "/?")
			w := hook(scheme + "://" + strings.TrimSuffix(rest[:end], ":") + port + rest[end:])
			if o := s.Send(context.Background(), w, "msg_1", []byte("{}")); !o.Succeed {
				t.Fatalf("outcome %+v", o)
			}
			if seen, want := <-got, "POST "+tt.target+" HTTP/1.1\r\nHost: "+tt.host+port+"\r\n"; !strings.HasPrefix(seen, want) {
				t.Errorf("on the wire: %.200q, want %q", seen, want)
			}
		})
	}
}

// What cannot be sent is refused when it is set, with the character, its place, and what
// to write; and it is not sent if it was set in another way.
func TestURLCharacters(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://example.com/?n={{ lead.name }}":          `must not hold a template ("{{" at character 24): it is the same for all; what differs stands in params`,
		"https://{{ host }}/":                             `must not hold a template ("{{" at character 9): it is the same for all; what differs stands in params`,
		"{{ url }}":                                       `must not hold a template ("{{" at character 1): it is the same for all; what differs stands in params`,
		"https://example.com/{% if a %}":                  `must not hold a template ("{%" at character 21): it is the same for all; what differs stands in params`,
		"https://example.com/张{id}":                       "must not have { at character 22: write %7B",
		"https://example.com/id}":                         "must not have } at character 23: write %7D",
		`https://example.com/a\b`:                         `must not have \ at character 22: write %5C`,
		`https:\\example.com/`:                            `must not have \ at character 7: no scheme or host has it`,
		"https://example.com/a\tb":                        "must not have a tab at character 22: write %09",
		"https://example.com/a\r\nX: y":                   "must not have a line break at character 22: write %0D",
		"https://example.com/a\x00":                       "must not have the invisible character U+0000 at character 22: write %00",
		"https://example.com/a\x7f":                       "must not have the invisible character U+007F at character 22: write %7F",
		"https://example.com/a\u200bb":                    "must not have the invisible character U+200B at character 22: write %E2%80%8B",
		"https://example.com/a\u00a0b":                    "must not have the invisible character U+00A0 at character 22: write %C2%A0",
		"https://example.com/?a=100%":                     "must not have % at character 27 without two hexadecimal digits behind it: write %25 for the character itself",
		"https://example.com/%zz":                         "must not have % at character 21 without two hexadecimal digits behind it: write %25 for the character itself",
		"https://example.com/%4":                          "must not have % at character 21 without two hexadecimal digits behind it: write %25 for the character itself",
		"https://example.com/?a=1#top":                    "must not have a fragment (# at character 25): it is not sent; write %23 for the character itself",
		"https://example.com#":                            "must not have a fragment (# at character 20): it is not sent; write %23 for the character itself",
		" https://example.com/":                           "must not begin or end with a blank at character 1",
		"https://example.com/\n":                          "must not begin or end with a line break at character 21",
		"https://exa mple.com/":                           "must not have a blank at character 12: no scheme or host has it",
		"https://ex%61mple.com/":                          "must not have % at character 11: no scheme or host has it",
		"https://ex\u200bample.com/":                      "must not have the invisible character U+200B at character 11: no scheme or host has it",
		"https://⑧.8.8.8/":                                "must not have ⑧ at character 9: no scheme or host has it",
		"https://-張-.example/":                            "has a host that is no valid international domain name",
		"https://user:secret@example.com/":                "must not hold a user name or password; set basicAuth instead",
		"https:///hook":                                   "has no host",
		"https://example.com:0443/":                       "has a port that is not 1 to 65535",
		"https://example.com:99999/":                      "has a port that is not 1 to 65535",
		"https://example.com/\xff":                        "is not UTF-8",
		"https://example.com/" + strings.Repeat("张", 300): "is longer than 2048 bytes as it is sent",
	} {
		err := (Options{}).CheckURL(url)
		if err == nil || err.Error() != "url: "+want {
			t.Errorf("%.60q: %v\nwant %s", url, err, want)
		}
		if o := newSender(t).Send(context.Background(), hook(url), "msg_1", []byte("{}")); o.ErrorClass != waypost.ClassAddress || o.HTTPStatus != 0 {
			t.Errorf("%.60q was sent: %+v", url, o)
		}
	}
}
