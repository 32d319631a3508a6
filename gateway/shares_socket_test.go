package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/gateway"
)

// longExport are leads of which those of one organisation have an export without an end.
type longExport struct {
	gateway.Leads
	org string
}

func (l longExport) ExportLeads(ctx context.Context, sc waypost.Scope, q waypost.LeadQuery, begin func([]string) error, each func(waypost.Lead) error) error {
	return l.Leads.ExportLeads(ctx, sc, q, begin, func(lead waypost.Lead) error {
		for sc.Org == l.org && ctx.Err() == nil {
			if err := each(lead); err != nil {
				return err
			}
		}
		return errors.Join(each(lead), ctx.Err())
	})
}

// by is the fixture of another application of the same organisation.
func (f *fixture) by(c waypost.Credential) *fixture {
	other := f.in(f.t)
	other.key, other.app = keyOf(c), c.Application
	return other
}

// head sends the head of a request, and returns the connection with the first line of the answer.
func (f *fixture) head(method, path, body, addr string, lines ...string) (net.Conn, *bufio.Reader, string) {
	f.t.Helper()
	conn := dialed(f.t, addr)
	if _, err := io.WriteString(conn, f.signedHead(method, path, body, addr, lines...)+"\r\n"); err != nil {
		f.t.Fatal(err)
	}
	in := bufio.NewReaderSize(conn, 16)
	line, err := in.ReadString('\n')
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, path, err)
	}
	return conn, in, strings.TrimSpace(line)
}

// However many exports one organisation does not read, with however many applications, another one exports.
func TestUnreadExports(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *gateway.Options) { o.Leads = longExport{o.Leads, testOrg} })
	f.newLead("Ada")
	f.addr = f.listen(gateway.NewStrict(f.options, time.Hour))
	var got []string
	for range 4 {
		app := f.by(f.newApp("*"))
		for range 2 {
			_, _, line := app.head("GET", "/v1/leads/export", "", f.addr)
			if got = append(got, line); line != "HTTP/1.1 200 OK" {
				break
			}
		}
	}
	if want := "[HTTP/1.1 200 OK HTTP/1.1 200 OK HTTP/1.1 200 OK HTTP/1.1 200 OK HTTP/1.1 503 Service Unavailable HTTP/1.1 503 Service Unavailable]"; fmt.Sprint(got) != want {
		t.Errorf("organisation a: %v", got)
	}
	other := f.otherOrg()
	other.newLead("Bea")
	for _, path := range []string{"/v1/leads/export", "/v1/deliveries/export", "/v1/leads/export?format=csv"} {
		other.get(path).expect(t, http.StatusOK)
	}
}

// An export that is not read is cut off, and its share is free again.
func TestUnreadExportIsCut(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *gateway.Options) {
		o.Leads, o.LeastRate = longExport{o.Leads, testOrg}, 1<<20
	})
	f.newLead("Ada")
	f.addr = f.listen(gateway.NewStrict(f.options, 200*time.Millisecond))
	var unread []*bufio.Reader
	for range 2 {
		app := f.by(f.newApp("*"))
		for range 2 {
			_, in, line := app.head("GET", "/v1/leads/export", "", f.addr)
			if line != "HTTP/1.1 200 OK" {
				t.Fatal(line)
			}
			unread = append(unread, in)
		}
	}
	// The fifth waits for its share until the first is cut off.
	if _, _, line := f.head("GET", "/v1/leads/export", "", f.addr); line != "HTTP/1.1 200 OK" {
		t.Errorf("the next one: %s", line)
	}
	for _, in := range unread {
		if text, err := io.ReadAll(in); err == nil && strings.HasSuffix(string(text), "0\r\n\r\n") {
			t.Error("an export that was cut off looks complete")
		}
	}
	if !strings.Contains(f.log.String(), "the client read more slowly than WAYPOST_LEAST_RATE") {
		t.Errorf("the log does not say why: %s", f.log.String())
	}
}

// However many imports of one organisation send nothing more, another one imports; they are
// told why they were cut off.
func TestStuckImports(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *gateway.Options) { o.LeastRate = 4096 })
	f.addr = f.listen(gateway.NewStrict(f.options, time.Hour))
	begin := func(f *fixture, path, media string) (net.Conn, *bufio.Reader, string) {
		return f.head("POST", path, "", f.addr, "Content-Type: "+media, "Content-Length: 1000", "Expect: 100-continue")
	}
	var got []string
	for range 4 {
		app := f.by(f.newApp("*"))
		for range 3 {
			conn, _, line := begin(app, "/v1/leads/imports", "text/csv")
			if got = append(got, line); line != "HTTP/1.1 100 Continue" {
				break
			}
			if _, err := io.WriteString(conn, "name\nAda\nBe"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := strings.Repeat("HTTP/1.1 100 Continue ", 6) + "HTTP/1.1 503 Service Unavailable HTTP/1.1 503 Service Unavailable"; strings.Join(got, " ") != want {
		t.Errorf("organisation a: %q", got)
	}
	other := f.otherOrg()
	other.do(call{method: "POST", target: "/v1/leads/imports", body: "name\nBea\n", headers: map[string]string{"Content-Type": "text/csv"}}).expect(t, http.StatusAccepted)
	other.do(call{method: "POST", target: "/v1/events/import", body: "{}\n", headers: map[string]string{"Content-Type": "application/x-ndjson"}}).expect(t, http.StatusMultiStatus)
}

// A body that brings less than the least rate is 400, whatever it brought before.
func TestSlowBodyIsCut(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *gateway.Options) { o.LeastRate = 1 << 20 })
	f.addr = f.listen(gateway.NewStrict(f.options, 200*time.Millisecond))
	for _, tt := range []struct {
		path, media string
		sent        int
	}{
		{"/v1/leads/imports", "text/csv", 10}, {"/v1/leads/imports", "text/csv", 1 << 20}, {"/v1/leads", "application/json", 0}, {"/v1/leads", "application/json", 10},
		{"/v1/articles/import", "application/x-ndjson", 10},
	} {
		conn := dialed(t, f.addr)
		head := f.signedHead("POST", tt.path, "", f.addr, "Content-Type: "+tt.media, fmt.Sprintf("Content-Length: %d", tt.sent+1000))
		if _, err := io.WriteString(conn, head+"\r\n"+strings.Repeat("x", tt.sent)); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", tt.path, err)
		}
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "WAYPOST_LEAST_RATE") || !res.Close {
			t.Errorf("%s after %d bytes: HTTP %d, %s, %v", tt.path, tt.sent, res.StatusCode, text, err)
		}
	}
}
