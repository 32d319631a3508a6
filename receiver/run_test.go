package receiver

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"
)

// signals tells each line that is printed to a channel.
type signals chan string

func (s signals) Write(p []byte) (int, error) {
	s <- string(p)
	return len(p), nil
}

func TestRun(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(context.Background())
	addr, ended, lines := make(chan string, 1), make(chan error, 1), make(signals, 10)
	go func() { ended <- Run(ctx, "127.0.0.1:0", Options{}, lines, func(a string) { addr <- a }) }()
	url := "http://" + <-addr
	resp, err := http.Post(url+"/hook", "application/json", strings.NewReader(message1("msg_1")))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || string(body) != `{"succeed":true,"message":"received"}` || resp.ContentLength != int64(len(body)) {
		t.Errorf("answer %q, %v", body, err)
	}
	if line := <-lines; !strings.HasSuffix(line, "msg_1 attempt 1 of journey Welcome <1>: answered 200\n") {
		t.Errorf("printed %q", line)
	}
	if err := Run(ctx, strings.TrimPrefix(url, "http://"), Options{}, io.Discard, nil); err == nil {
		t.Error("two receivers on one address")
	}

	// The sender that leaves is seen.
	left, leave := context.WithCancel(context.Background())
	gone := delayed(left, t, url, "msg_2")
	leave()
	if line := <-lines; !strings.Contains(line, "msg_2 attempt 1") || !strings.HasSuffix(line, "the sender left before the answer\n") {
		t.Errorf("printed %q", line)
	}
	<-gone

	// A delayed answer does not hold up the end, and is none.
	gone = delayed(context.Background(), t, url, "msg_3")
	stop()
	if line := <-lines; !strings.Contains(line, "msg_3 attempt 1") || !strings.HasSuffix(line, "the sender left before the answer\n") {
		t.Errorf("printed %q", line)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-gone
}

// delayed POSTs a message whose answer takes ten minutes and returns once the
// receiver has all of it. The channel tells when the sender has given up.
func delayed(ctx context.Context, t *testing.T, url, id string) <-chan struct{} {
	t.Helper()
	sent, gone := make(chan struct{}), make(chan struct{})
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodPost, url+"/hook?delay=10m", strings.NewReader(message1(id)))
	if err != nil {
		t.Fatal(err)
	}
	// The body goes out only when the receiver is at work and asks for it.
	req.Header.Set("Expect", "100-continue")
	transport := &http.Transport{ExpectContinueTimeout: time.Minute}
	go func() {
		defer close(gone)
		defer transport.CloseIdleConnections()
		if resp, err := transport.RoundTrip(req); err == nil {
			resp.Body.Close()
			t.Errorf("%s was answered %s", id, resp.Status)
		}
	}()
	<-sent
	return gone
}

func TestRunSaysWhatIsWrongWithTheAddress(t *testing.T) {
	t.Parallel()
	err := Run(t.Context(), "127.0.0.1:99999", Options{}, io.Discard, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "start the receiver: ") {
		t.Errorf("error %v", err)
	}
}
