package webhook

import (
	"bufio"
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"waypost"
)

func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	body := "{\"messageId\":\"msg_1\", \"params\": {\"a\":\"<ü>\"}}\n"
	tests := []struct {
		name  string
		body  string
		setup func(*waypost.Webhook)
		want  string
	}{
		{"plain", body, func(*waypost.Webhook) {}, "Connection: keep-alive\r\nContent-Type: application/json\r\n"},
		{"basic auth", body, func(w *waypost.Webhook) {
			w.BasicAuth = &waypost.BasicAuth{Username: "Aladdin", Password: "open sesame"}
		},
			"Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\nConnection: keep-alive\r\nContent-Type: application/json\r\n"},
		{"signed", body, func(w *waypost.Webhook) { w.SigningSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" },
			"Connection: keep-alive\r\nContent-Type: application/json\r\n" +
				"Webhook-Id: msg_1\r\nWebhook-Signature: v1,ZRaCsn0GKeglAT4G4aEIF1F2gPZe5FKpRU57oSE3kH0=\r\nWebhook-Timestamp: 1772366400\r\n"},
		{"empty body", "", func(*waypost.Webhook) {}, "Connection: keep-alive\r\nContent-Type: application/json\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := make(chan string, 1)
			url := listen(t, func(_ int, conn *net.TCPConn) {
				var seen strings.Builder
				r := bufio.NewReader(io.TeeReader(conn, &seen))
				if readRequest(r) {
					got <- seen.String()
					io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			})
			w := hook(url + "?a=b%20c")
			tt.setup(&w)
			if o := newSender(t).Send(context.Background(), w, "msg_1", []byte(tt.body)); !o.Succeed || !o.At.Equal(clock) {
				t.Fatalf("outcome %+v", o)
			}
			host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/hook")
			length := map[bool]string{true: "0", false: "46"}[tt.body == ""]
			want := "POST /hook?a=b%20c HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: Waypost/" + waypost.ProductVersion +
				"\r\nContent-Length: " + length + "\r\n" + tt.want + "\r\n" + tt.body
			if seen := <-got; seen != want {
				t.Errorf("on the wire:\n%q\nwant:\n%q", seen, want)
			}
		})
	}
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		seen <- r
		io.WriteString(rw, `{"succeed":true,"message":"over h2"}`)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	s := newSender(t)
	s.transport.TLSClientConfig.RootCAs = srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	o := s.Send(context.Background(), hook(srv.URL), "msg_1", []byte("{}"))
	if !o.Succeed || o.Message != "over h2" {
		t.Fatalf("outcome %+v", o)
	}
	r := <-seen
	if r.ProtoMajor != 2 || r.ContentLength != 2 || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s, %d bytes, %v", r.Proto, r.ContentLength, r.Header)
	}
	for name := range r.Header {
		if name != "Content-Type" && name != "User-Agent" && name != "Content-Length" {
			t.Errorf("unexpected header %s", name)
		}
	}
}

func TestSign(t *testing.T) {
	t.Parallel()
	// The published example of Standard Webhooks.
	h := http.Header{}
	err := sign(h, []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := h.Get("webhook-signature"), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
	// While one secret replaces another, both sign, the new one first.
	w := waypost.Webhook{SigningSecret: secretOf("0"), SigningOverlap: waypost.Duration(time.Hour)}
	w.SetSigningSecret(secretOf("1"), clock)
	for after, want := range map[time.Duration]int{0: 2, time.Hour - 1: 2, time.Hour: 1} {
		if err := sign(h, w.SigningSecrets(clock.Add(after)), "msg_1", clock, nil); err != nil {
			t.Fatal(err)
		}
		got := strings.Fields(h.Get("webhook-signature"))
		alone := http.Header{}
		if err := sign(alone, []string{secretOf("1")}, "msg_1", clock, nil); err != nil {
			t.Fatal(err)
		}
		if len(got) != want || got[0] != alone.Get("webhook-signature") || want == 2 && got[1] == got[0] {
			t.Errorf("%s after: signatures %q", after, got)
		}
	}
}

// secretOf is a signing secret of one byte, repeated.
func secretOf(char string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(char, 32)))
}

func TestSigningSecretThatCannotSign(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_c2hvcnQ=", "whsec_%%%", "whsec_" + strings.Repeat("QUFB", 22)} {
		w := hook("http://127.0.0.1:1/")
		w.SigningSecret = secret
		o := newSender(t).Send(context.Background(), w, "msg_1", nil)
		if o.Succeed || o.ErrorClass != waypost.ClassRender || (len(secret) > 7 && strings.Contains(o.Message, secret[7:])) {
			t.Errorf("%s: outcome %+v", secret, o)
		}
	}
}
