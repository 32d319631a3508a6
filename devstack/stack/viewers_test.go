package stack_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
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

// BenchmarkViewers tells how much of one core the viewers of a page take together beyond what the
// stack takes without them: of the console, the gateway, the database and Redis, which are all in
// this process, and of the viewers, which are as well. It also tells how long the first look at a
// page takes while nobody else looks.
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
	}{{"overview", "/", 10 * time.Second}, {"journey", "/journeys/" + journey, 4 * time.Second}, {"launch", "/launches/" + launch, 2 * time.Second}} {
		b.Run(page.name, func(b *testing.B) {
			for b.Loop() {
				began := time.Now()
				if _, err := look(people[0], s.Profile.Console+page.path, http.Header{}); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-first")
				refused := 0
				used := busyFor(func() { refused = watch(b, people, s.Profile.Console+page.path, page.every) })
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

// signedIn are browsers, each with a viewer of its own.
func signedIn(b *testing.B, s *stack.Stack) (people []*http.Client) {
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
		people = append(people, browser(found[1]))
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

// watch has all people look at a page every so often, each at a time of their own. It returns how
// many looks the gateway was too busy for.
func watch(b *testing.B, people []*http.Client, at string, every time.Duration) int {
	ctx, cancel := context.WithTimeout(b.Context(), watched)
	defer cancel()
	faults := make([]error, len(people))
	var refused atomic.Int64
	var all sync.WaitGroup
	for i, c := range people {
		all.Go(func() {
			wait, etag := time.NewTimer(every*time.Duration(i)/time.Duration(len(people))), ""
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
				found, err := look(c, at, header)
				switch {
				case errors.Is(err, errBusy):
					refused.Add(1)
				case err != nil:
					faults[i] = err
					return
				default:
					etag = found
				}
				wait.Reset(every)
			}
		})
	}
	all.Wait()
	if err := errors.Join(faults...); err != nil {
		b.Error(err)
	}
	return int(refused.Load())
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
