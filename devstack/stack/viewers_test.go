package stack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"waypost/client"
	"waypost/devstack/stack"
	"waypost/signature"
)

// What BenchmarkViewers looks at, and for how long.
const (
	viewers      = 100
	watched      = 30 * time.Second
	manyJourneys = 25 // the most that the overview asks numbers of
	manyWebhooks = 50 // likewise
)

type object = map[string]any

// BenchmarkViewers tells how much of one core the viewers of a page cost beyond what the stack takes
// without them: in the console, the gateway, the database and Redis, which are all in this process.
// The viewers are in another one. It also tells how long the first look at a page takes while nobody
// else looks.
//
//	cd devstack && go test ./stack -run '^$' -bench Viewers -benchtime 1x
func BenchmarkViewers(b *testing.B) {
	ctx := b.Context()
	s, err := stack.Start(ctx, stack.Options{Environ: environ(b.TempDir()), Out: io.Discard, ErrOut: io.Discard})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Stop(context.WithoutCancel(ctx)); err != nil {
			b.Error(err)
		}
	})
	journey, launch := populate(b, s)
	people := signedIn(b, s)
	idle := busyFor(func() { time.Sleep(watched) })
	for _, page := range []struct {
		name, path string
		every      time.Duration // as the page says
	}{{"overview", "/", 10 * time.Second}, {"journey", "/journeys/" + journey, 4 * time.Second}, {"launch", "/launches/" + launch, 3 * time.Second}} {
		b.Run(page.name, func(b *testing.B) {
			all := audience{At: s.Profile.Console + page.path, Every: page.every, Cookies: people}
			for b.Loop() {
				began := time.Now()
				if _, err := look(all.browsers()[0], all.At, http.Header{}); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-first")
				refused := 0
				used := busyFor(func() { refused = all.elsewhere(b) })
				b.ReportMetric(100*(used-idle), "%core")
				b.ReportMetric(float64(refused), "refused")
			}
			b.ReportMetric(100*idle, "%core-idle")
		})
	}
}

// populate makes the things that pages have numbers of, and returns the ids of a journey and of a
// launch that is still to begin.
func populate(b *testing.B, s *stack.Stack) (journey, launch string) {
	gateway := client.New(s.Profile.URL, signature.Key{AccessKey: s.Profile.AccessKey, SecretKey: s.Profile.SecretKey})
	do := func(path string, body any) object {
		b.Helper()
		answer := object{}
		if err := gateway.Do(b.Context(), http.MethodPost, path, body, &answer); err != nil {
			b.Fatalf("%s: %v", path, err)
		}
		return answer
	}
	webhook := ""
	for i := range manyWebhooks {
		webhook = do("/v1/webhooks", object{"name": fmt.Sprint("Webhook ", i), "url": s.Profile.Receiver + "/hook"})["id"].(string)
	}
	var leads []any
	for i := range 20 {
		leads = append(leads, do("/v1/leads", object{"businessParam": object{"name": fmt.Sprint("Lead ", i)}})["leadsId"])
	}
	for i := range manyJourneys {
		journey = do("/v1/journeys", object{"name": fmt.Sprint("Journey ", i), "start": "hello", "nodes": []object{
			{"id": "hello", "type": "touchpoint", "webhook": webhook, "next": "wait"},
			{"id": "wait", "type": "delay", "for": "72h", "next": "again"},
			{"id": "again", "type": "touchpoint", "webhook": webhook, "next": "end"},
			{"id": "end", "type": "exit"},
		}})["id"].(string)
		do("/v1/journeys/"+journey+"/publish", nil)
	}
	do("/v1/journeys/"+journey+"/launches", object{"audience": object{"leadsIds": leads}})
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	launch = do("/v1/journeys/"+journey+"/launches", object{"audience": object{"leadsIds": leads}, "startAt": later})["launchId"].(string)
	return journey, launch
}

var linkToken = regexp.MustCompile(`/sign-in/link\?token=([^"<&\s]+)`)

// signedIn are the cookies of browsers, each with a viewer of its own.
func signedIn(b *testing.B, s *stack.Stack) (people []*http.Cookie) {
	console, err := url.Parse(s.Profile.Console)
	if err != nil {
		b.Fatal(err)
	}
	browser := func(token string) *http.Client {
		b.Helper()
		jar, err := cookiejar.New(nil)
		if err != nil {
			b.Fatal(err)
		}
		c := &http.Client{Jar: jar, Transport: &http.Transport{}}
		b.Cleanup(c.CloseIdleConnections)
		send(b, c, s.Profile.Console+"/sign-in/link", url.Values{"token": {token}})
		return c
	}
	admin := browser(s.SignIn)
	for i := range viewers {
		page := send(b, admin, s.Profile.Console+"/users", url.Values{"name": {"Viewer"}, "email": {fmt.Sprintf("viewer%d@example.com", i)}, "role": {"viewer"}})
		found := linkToken.FindStringSubmatch(page)
		if found == nil {
			b.Fatal("there is no sign-in link")
		}
		people = append(people, browser(found[1]).Jar.Cookies(console)...)
	}
	return people
}

func send(b *testing.B, c *http.Client, at string, form url.Values) string {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := c.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		b.Fatalf("%s: HTTP %d, %v", at, res.StatusCode, err)
	}
	return string(text)
}

// errBusy says that the gateway had no time for a call of the page.
var errBusy = errors.New("HTTP 503")

// look asks for a page as live.js does, and returns its ETag.
func look(c *http.Client, at string, header http.Header) (etag string, err error) {
	req, err := http.NewRequest(http.MethodGet, at, nil)
	if err != nil {
		return "", err
	}
	req.Header = header
	req.Header.Set("Accept-Encoding", "gzip") // and nothing takes it apart
	res, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return "", err
	}
	if res.StatusCode == http.StatusServiceUnavailable {
		return "", errBusy
	}
	if res.Request.URL.String() != at || res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNotModified {
		return "", fmt.Errorf("%s: HTTP %d at %s", at, res.StatusCode, res.Request.URL)
	}
	return res.Header.Get("ETag"), nil
}

// audience is who looks at a page every so often.
type audience struct {
	At      string
	Every   time.Duration
	Cookies []*http.Cookie // of a session each
}

// audienceVariable has this program be an audience, which it reads from its input.
const audienceVariable = "WAYPOST_TEST_AUDIENCE"

func TestMain(m *testing.M) {
	if os.Getenv(audienceVariable) == "" {
		os.Exit(m.Run())
	}
	var all audience
	err := json.NewDecoder(os.Stdin).Decode(&all)
	if err == nil {
		var refused int
		refused, err = all.watch()
		fmt.Println(refused)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// elsewhere is watch in a process of its own.
func (all audience) elsewhere(b *testing.B) (refused int) {
	b.Helper()
	input, err := json.Marshal(all)
	if err != nil {
		b.Fatal(err)
	}
	program := exec.CommandContext(b.Context(), os.Args[0])
	program.Env = append(os.Environ(), audienceVariable+"=1")
	program.Stdin, program.Stderr = bytes.NewReader(input), os.Stderr
	out, err := program.Output()
	if err == nil {
		refused, err = strconv.Atoi(strings.TrimSpace(string(out)))
	}
	if err != nil {
		b.Error(err)
	}
	return refused
}

// browsers are those of the audience.
func (all audience) browsers() (people []*http.Client) {
	for _, session := range all.Cookies {
		people = append(people, &http.Client{Transport: withCookie{session, &http.Transport{}}})
	}
	return people
}

// withCookie sends a cookie with each request.
type withCookie struct {
	cookie *http.Cookie
	http.RoundTripper
}

func (w withCookie) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.AddCookie(w.cookie)
	return w.RoundTripper.RoundTrip(r)
}

// watch has all look at the page, each at a time of their own. It returns how many looks the gateway
// was too busy for.
func (all audience) watch() (refused int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), watched)
	defer cancel()
	people := all.browsers()
	faults, busy := make([]error, len(people)), make([]int, len(people))
	var running sync.WaitGroup
	for i, c := range people {
		running.Go(func() {
			wait, etag := time.NewTimer(all.Every*time.Duration(i)/time.Duration(len(people))), ""
			for {
				select {
				case <-ctx.Done():
					return
				case <-wait.C:
				}
				header := http.Header{"X-Live": {"1"}}
				if etag != "" {
					header.Set("If-None-Match", etag)
				}
				found, err := look(c, all.At, header)
				switch {
				case errors.Is(err, errBusy):
					busy[i]++
				case err != nil:
					faults[i] = err
					return
				default:
					etag = found
				}
				wait.Reset(all.Every)
			}
		})
	}
	running.Wait()
	for _, n := range busy {
		refused += n
	}
	return refused, errors.Join(faults...)
}

// busyFor is how many cores this process has used while something went on.
func busyFor(do func()) float64 {
	cpu := func() time.Duration {
		var used syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // of this process it is always known
		return time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	began, before := time.Now(), cpu()
	do()
	return (cpu() - before).Seconds() / time.Since(began).Seconds()
}
