package webhook

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
)

const receiversDir = "../docs/receivers/"

// receiverPrograms are the example receivers: an address and a folder are added.
var receiverPrograms = map[string][]string{
	"Go":     {"go", "run", receiversDir + "receiver.go"},
	"Python": {"python3", receiversDir + "receiver.py"},
	"Node":   {"node", receiversDir + "receiver.mjs"},
}

// receiverProgram is the command that runs an example receiver.
func receiverProgram(t *testing.T, command []string) []string {
	t.Helper()
	if _, err := exec.LookPath(command[0]); err != nil {
		t.Skipf("%s is not installed", command[0])
	}
	if command[0] == "go" {
		// The program itself, so that it ends with the test.
		program := filepath.Join(t.TempDir(), "receiver")
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, command[2]).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		command = []string{program}
	}
	return command
}

// startReceiver runs an example receiver with a folder until stop, or the end of the
// test, and returns its URL.
func startReceiver(t *testing.T, command []string, inbox string, settings ...string) (url string, stop func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], append(command[1:len(command):len(command)], "127.0.0.1:0", inbox)...)
	cmd.Env = append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), settings...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("the receiver wrote:\n%s", stderr.Bytes())
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the receiver has not started: %v", err)
	}
	return strings.TrimSpace(line), stop
}

// The receivers of docs/receivers.md do what the page says, with what is really sent.
func TestReceivers(t *testing.T) {
	t.Parallel()
	const (
		first  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
		second = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
		third  = "whsec_OTg3NjU0MzIxMDk4NzY1NDMyMTA5ODc2NTQzMjEwOTg="
	)
	for language, command := range receiverPrograms {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			program, inbox := receiverProgram(t, command), t.TempDir()
			settings := []string{"RECEIVER_USERNAME=waypost", "RECEIVER_PASSWORD=pässword", "RECEIVER_SECRETS=" + first + " " + second}
			url, stop := startReceiver(t, program, inbox, settings...)
			var skew time.Duration
			s := NewSender(Options{
				AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
				Now:        func() time.Time { return time.Now().Add(skew) },
			})
			t.Cleanup(s.Close)
			trusted := waypost.Webhook{
				URL: url + "/hook", TimeoutMs: 10_000, SigningSecret: first, BasicAuth: &waypost.BasicAuth{Username: "waypost", Password: "pässword"},
			}
			message := func(version string) (id string, body []byte) {
				id = waypost.NewID(waypost.PrefixMessage, time.Now())
				m := waypost.Message{MessageID: id, Version: version, Timestamp: "2026-01-31T12:00:00.000Z", Params: map[string]any{"greeting": "你好 \"<Ada>\"", "n": 1.5}}
				body, err := m.Encode()
				if err != nil {
					t.Fatal(err)
				}
				return id, body
			}
			send := func(w waypost.Webhook, id string, body []byte) string {
				o := s.Send(context.Background(), w, id, body)
				return fmt.Sprintf("%t %d %s %s", o.Succeed, o.HTTPStatus, o.ErrorClass, strings.TrimSpace(o.Message))
			}
			check := func(what, got, want string) {
				t.Helper()
				if got != want {
					t.Errorf("%s: %s, want %s", what, got, want)
				}
			}
			stored := func() (names []string) {
				files, err := os.ReadDir(inbox)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range files {
					names = append(names, f.Name())
				}
				return names
			}

			// Once, however often it comes; the bytes are those that were sent.
			id, body := message(waypost.MessageVersion)
			check("the first attempt", send(trusted, id, body), "true 200  stored")
			for range 3 {
				check("another attempt", send(trusted, id, body), "true 200  stored before")
			}
			atOnce, atOnceBody := message(waypost.MessageVersion)
			var storedNow atomic.Int32
			var sending sync.WaitGroup
			for range 16 {
				sending.Go(func() {
					switch got := send(trusted, atOnce, atOnceBody); got {
					case "true 200  stored":
						storedNow.Add(1)
					default:
						check("one of several at once", got, "true 200  stored before")
					}
				})
			}
			if sending.Wait(); storedNow.Load() != 1 {
				t.Errorf("of several at once, %d were stored", storedNow.Load())
			}
			if got, err := os.ReadFile(filepath.Join(inbox, id+".json")); err != nil || !bytes.Equal(got, body) {
				t.Errorf("stored %s, %v", got, err)
			}
			// What it cannot take is refused for good.
			old, oldBody := message("0.9")
			check("another version", send(trusted, old, oldBody), "false 200 succeedFalse version 0.9 is not known here")
			for _, odd := range []string{`{}`, `[]`, `"x"`, `null`, `{"messageId":"../../x","version":"1.0"}`, `{"messageId":7,"version":"1.0"}`, `{`, ``} {
				check(odd, send(trusted, id, []byte(odd)), "false 400 httpStatus the receiver answered 400")
			}

			// Secrets in rotation: it is enough that one that signs is known.
			now := time.Now()
			for what, w := range map[string]waypost.Webhook{
				"the other secret":     {SigningSecret: second},
				"the new is not known": {SigningSecret: third, PreviousSigningSecret: first, SigningRotatedAt: now, SigningOverlap: waypost.DefaultSigningOverlap},
				"the old is not known": {SigningSecret: second, PreviousSigningSecret: third, SigningRotatedAt: now, SigningOverlap: waypost.DefaultSigningOverlap},
			} {
				w.URL, w.BasicAuth, w.TimeoutMs = trusted.URL, trusted.BasicAuth, trusted.TimeoutMs
				id, body := message(waypost.MessageVersion)
				check(what, send(w, id, body), "true 200  stored")
			}

			// Others are sent away.
			before := fmt.Sprint(stored())
			const refused = "false 401 httpStatus the receiver answered 401"
			for what, change := range map[string]func(*waypost.Webhook){
				"no user":           func(w *waypost.Webhook) { w.BasicAuth = nil },
				"another user":      func(w *waypost.Webhook) { w.BasicAuth = &waypost.BasicAuth{Username: "w", Password: "pässword"} },
				"another password":  func(w *waypost.Webhook) { w.BasicAuth = &waypost.BasicAuth{Username: "waypost", Password: "passwörd"} },
				"no signature":      func(w *waypost.Webhook) { w.SigningSecret = "" },
				"an unknown secret": func(w *waypost.Webhook) { w.SigningSecret = third },
				"the overlap is over": func(w *waypost.Webhook) {
					w.SigningSecret, w.PreviousSigningSecret, w.SigningRotatedAt, w.SigningOverlap = third, first, now.Add(-time.Hour), waypost.Duration(time.Hour)
				},
			} {
				w := trusted
				change(&w)
				id, body := message(waypost.MessageVersion)
				check(what, send(w, id, body), refused)
			}
			for _, skew = range []time.Duration{-6 * time.Minute, 6 * time.Minute} {
				id, body := message(waypost.MessageVersion)
				check("a clock that is off", send(trusted, id, body), refused)
			}
			// A body that was changed on its way, under headers that were not.
			h := http.Header{"Authorization": {"Basic d2F5cG9zdDpww6Rzc3dvcmQ="}}
			if err := sign(h, []string{first}, id, time.Now(), body); err != nil {
				t.Fatal(err)
			}
			for want, sent := range map[int][]byte{200: body, 401: bytes.Replace(body, []byte("Ada"), []byte("Eve"), 1)} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(sent))
				if err != nil {
					t.Fatal(err)
				}
				req.Header = h
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				if res.StatusCode != want {
					t.Errorf("status %d, want %d", res.StatusCode, want)
				}
			}
			check("stored", fmt.Sprint(stored()), before)

			// What it cannot keep is sent again.
			skew = 0
			if err := os.Rename(inbox, inbox+"-away"); err != nil {
				t.Fatal(err)
			}
			id, body = message(waypost.MessageVersion)
			check("no folder", send(trusted, id, body), "false 503 httpStatus the receiver answered 503")
			if err := os.Rename(inbox+"-away", inbox); err != nil {
				t.Fatal(err)
			}
			check("the folder is back", send(trusted, id, body), "true 200  stored")

			// It knows what it has stored when it starts again; so a request that somebody
			// has recorded and sends again while its signature is good changes nothing.
			stop()
			trusted.URL, _ = startReceiver(t, program, inbox, settings...)
			check("after a restart", send(trusted, id, body), "true 200  stored before")
		})
	}
}

// The examples stay short enough to be read.
func TestReceiversAreShort(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"receiver.go", "receiver.py", "receiver.mjs"} {
		text, err := os.ReadFile(receiversDir + name)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > 160 {
			t.Errorf("%s has %d lines", name, n)
		}
	}
}
