package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// writes is a writer that sends each write on the channel.
type writes chan string

func (w writes) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

func TestReceiver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ledger := filepath.Join(t.TempDir(), "ledger")
	stdout, stderr, code := make(writes, 100), make(writes, 100), make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"receiver", "--addr", "127.0.0.1:0", "--status", "503,200", "--basic-auth", "u:p", "--ledger", ledger}, nil, nil, stdout, stderr)
	}()
	base := regexp.MustCompile(`http://\S+`).FindString(<-stderr)
	post := func(password string) int {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/hook", strings.NewReader(`{"messageId":"msg_1"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("u", password)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode
	}
	for i, want := range []int{401, 503, 200} {
		password := "p"
		if want == 401 {
			password = "wrong"
		}
		if got := post(password); got != want {
			t.Errorf("POST %d: status %d, want %d", i+1, got, want)
		}
	}
	cancel()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d", got)
	}
	lines, err := os.ReadFile(ledger)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(lines), "\n"); got != 3 {
		t.Errorf("%d lines in the ledger, want 3:\n%s", got, lines)
	}
	if !strings.Contains(<-stdout, "401") {
		t.Error("stdout does not tell of the refused POST")
	}
}
