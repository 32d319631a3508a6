package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"waypost"
	signed "waypost/client"
	"waypost/config"
	"waypost/signature"
)

// client calls a gateway for a person: bounded in time and size, with errors that
// say what to do.
type client struct {
	gateway *signed.Client
	profile profile // the source of the URL and the keys
}

// answer is what a gateway answered.
type answer struct {
	status int
	proto  string
	header http.Header
	body   []byte
}

const (
	// callTime bounds one call; a webhook's test can take its two minutes.
	callTime = 150 * time.Second
	// maxAnswer bounds what is read of an answer, in bytes.
	maxAnswer = 64 << 20
)

// profile is the file that WAYPOST_PROFILE names. waypost-dev writes further members.
type profile struct {
	URL       string `json:"url"`
	AccessKey string `json:"accessKey"`
	SecretKey string `json:"secretKey"`
	// For article search; without them a search needs --tenant, and a token is issued for it.
	SearchToken string `json:"searchToken"`
	TenantID    string `json:"tenantId"`
}

// client makes a client from the settings or the profile.
func (c *cli) client() (*client, error) {
	cfg, err := c.load(config.RoleClient)
	if err != nil {
		return nil, err
	}
	p, err := findProfile(cfg)
	if err != nil {
		return nil, err
	}
	gateway := signed.New(p.URL, signature.Key{AccessKey: p.AccessKey, SecretKey: p.SecretKey})
	gateway.HTTP.Timeout = callTime
	gateway.Header = http.Header{"User-Agent": {"waypost/" + waypost.ProductVersion}}
	if stage := cfg.Client.Stage; stage != "" {
		gateway.Header.Set("X-Cloud-Stage", stage)
	}
	return &client{gateway.As(cfg.Client.Actor), p}, nil
}

// findProfile takes the gateway and the keys from the file of WAYPOST_PROFILE, else from the three
// variables, else from profile.json of the data directory. Some of the three variables are an
// error, not a reason to look further.
func findProfile(cfg config.Config) (profile, error) {
	from := cfg.Client
	if from.Profile != "" {
		p, err := readProfile(from.Profile)
		if err != nil {
			return p, fmt.Errorf("WAYPOST_PROFILE: %w", err)
		}
		return p, nil
	}
	p := profile{URL: from.URL, AccessKey: from.AccessKey, SecretKey: string(from.SecretKey)}
	var missing []string
	for _, v := range []struct{ name, value string }{
		{"WAYPOST_URL", p.URL}, {"WAYPOST_ACCESS_KEY", p.AccessKey}, {"WAYPOST_SECRET_KEY", p.SecretKey},
	} {
		if v.value == "" {
			missing = append(missing, v.name)
		}
	}
	switch len(missing) {
	case 0:
		return p, nil
	case 3:
		path := filepath.Join(cfg.DataDir, "profile.json")
		p, err := readProfile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return p, fmt.Errorf("no gateway to call: set WAYPOST_PROFILE to a profile.json, or WAYPOST_URL, WAYPOST_ACCESS_KEY and WAYPOST_SECRET_KEY; %s, which waypost-dev writes, is not there either", path)
		}
		return p, err
	}
	return p, fmt.Errorf("to call a gateway without a profile, set %s too", strings.Join(missing, " and "))
}

func readProfile(path string) (profile, error) {
	var p profile
	data, err := os.ReadFile(path)
	if err != nil {
		return p, fmt.Errorf("read the profile: %w", err)
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("profile %s is no JSON object with url, accessKey and secretKey", path)
	}
	if u, err := url.Parse(p.URL); err != nil || u.Host == "" || p.AccessKey == "" || p.SecretKey == "" {
		return p, fmt.Errorf("profile %s must have url, accessKey and secretKey", path)
	}
	return p, nil
}

// call sends one signed request, whatever the answer's status. The path may have a
// query. The body is sent as JSON, a json.RawMessage as it stands; nil is none.
func (c *client) call(ctx context.Context, method, path string, header http.Header, body any) (answer, error) {
	data, isJSON := body.(json.RawMessage)
	if body != nil && !isJSON {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return answer{}, fmt.Errorf("encode the request: %w", err)
		}
	}
	sent := http.Header{}
	if method != http.MethodGet && method != http.MethodHead && method != http.MethodDelete {
		sent.Set("Content-Type", "application/json")
	}
	maps.Copy(sent, header)
	res, err := c.gateway.Send(ctx, method, path, sent, data)
	return c.answer(ctx, res, err)
}

// answer reads the response to a call.
func (c *client) answer(ctx context.Context, res *http.Response, err error) (answer, error) {
	if err != nil {
		return answer{}, c.unreachable(ctx, err)
	}
	defer res.Body.Close()
	a := answer{status: res.StatusCode, proto: res.Proto, header: res.Header}
	a.body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(a.body) > maxAnswer {
		err = fmt.Errorf("it is longer than %d MiB", maxAnswer>>20)
	}
	if err != nil {
		return a, fmt.Errorf("read the answer of %s: %w", c.gateway.URL, err)
	}
	return a, nil
}

// within is a client whose calls may take longer than callTime; 0 is any time.
func (c *client) within(d time.Duration) *client {
	gateway, web := *c.gateway, *c.gateway.HTTP
	web.Timeout = d
	gateway.HTTP = &web
	return &client{&gateway, c.profile}
}

// withBearer is a client that sends a search token and signs nothing.
func (c *client) withBearer(token string) *client {
	return &client{c.gateway.WithBearer(token), c.profile}
}

// upload POSTs a body of a known size and hash while it is read, whatever the
// answer's status.
func (c *client) upload(ctx context.Context, path string, header http.Header, body signed.File) (answer, error) {
	res, err := c.within(uploadTime).gateway.Upload(ctx, http.MethodPost, path, header, body)
	return c.answer(ctx, res, err)
}

// stream opens an answer that is read while it comes. It may take any time as long as bytes
// arrive within the time of a call. An answer that is not a success is an error.
func (c *client) stream(ctx context.Context, path string) (*stream, error) {
	stall := c.gateway.HTTP.Timeout
	ctx, cancel := context.WithCancelCause(ctx)
	s := &stream{ctx: ctx, client: c, stall: stall, cancel: cancel}
	s.stalled = time.AfterFunc(stall, func() { cancel(errStalled) })
	res, err := c.within(0).gateway.Send(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		defer s.stop()
		return nil, s.why(err)
	}
	s.res = res
	if res.StatusCode == http.StatusOK {
		return s, nil
	}
	defer s.stop()
	a, err := c.answer(ctx, res, nil)
	if err == nil {
		err = cmp.Or(a.err(), fmt.Errorf("the gateway answered %d %s", a.status, http.StatusText(a.status)))
	}
	return nil, err
}

// errStalled is the cause when a stream is canceled because no bytes arrive.
var errStalled = errors.New("nothing has come")

// stream is an answer that is read while it comes.
type stream struct {
	ctx     context.Context // of the call
	client  *client
	res     *http.Response
	stall   time.Duration // the longest time without a byte
	stalled *time.Timer
	cancel  context.CancelCauseFunc
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.res.Body.Read(p)
	s.stalled.Reset(s.stall)
	if err != nil && !errors.Is(err, io.EOF) {
		err = s.why(err)
	}
	return n, err
}

// why turns an error of the call into one for people.
func (s *stream) why(err error) error {
	if errors.Is(context.Cause(s.ctx), errStalled) {
		return fmt.Errorf("read the answer of %s: %w for %s", s.client.gateway.URL, errStalled, s.stall)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the answer of %s was cut off", s.client.gateway.URL)
	}
	return s.client.unreachable(s.ctx, err)
}

func (s *stream) stop() {
	s.stalled.Stop()
	s.cancel(nil)
}

// Close ends the call.
func (s *stream) Close() error {
	s.stop()
	return s.res.Body.Close()
}

// unreachable says what to do about a call that got no answer.
func (c *client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if errors.As(err, new(*net.OpError)) {
		return fmt.Errorf("cannot reach the gateway at %s: %w; is it running there? (`make run` starts one)", c.gateway.URL, err)
	}
	return fmt.Errorf("call the gateway at %s: %w", c.gateway.URL, err)
}

// do is call for answers that must be a success: every other one is an error.
func (c *client) do(ctx context.Context, method, path string, header http.Header, body any) (answer, error) {
	a, err := c.call(ctx, method, path, header, body)
	if err != nil {
		return a, err
	}
	return a, a.err()
}

// request is do with a new client.
func (c *cli) request(ctx context.Context, method, path string, body any) (answer, error) {
	cl, err := c.client()
	if err != nil {
		return answer{}, err
	}
	return cl.do(ctx, method, path, nil, body)
}

// send makes one call and prints the object that comes back.
func (c *cli) send(ctx context.Context, method, path string, body any) error {
	a, err := c.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	return c.printAnswer(a)
}

// err is nil for a success, else what the gateway's error says.
func (a answer) err() error {
	if a.status >= 200 && a.status < 300 {
		return nil
	}
	var fault *waypost.Error
	if !errors.As(signed.Fault(a.status, a.body), &fault) {
		return fmt.Errorf("the gateway answered %d %s: %s", a.status, http.StatusText(a.status), clean(clip(string(a.body), 200)))
	}
	fault.Code, fault.Message, fault.Target = waypost.ErrorCode(clean(string(fault.Code))), clean(fault.Message), clean(fault.Target)
	for i, d := range fault.Details {
		fault.Details[i] = waypost.Detail{Code: waypost.DetailCode(clean(string(d.Code))), Target: clean(d.Target), Message: clean(d.Message)}
	}
	if wait := a.header.Get("Retry-After"); wait != "" {
		fault.Message += " (retry after " + clean(wait) + " s)"
	}
	return fault
}

// object reads an answer that is a JSON object.
func (a answer) object() (members, error) {
	var m members
	err := a.decode(&m, "JSON object")
	return m, err
}

// decode reads an answer into v; noun is its name in the error.
func (a answer) decode(v any, noun string) error {
	if json.Unmarshal(a.body, v) != nil {
		return a.unreadable(noun)
	}
	return nil
}

// unreadable is the error of an answer that cannot be read.
func (a answer) unreadable(noun string) error {
	return fmt.Errorf("the gateway's answer is no %s: %s", noun, clean(clip(string(a.body), 200)))
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// untilAnswered repeats a call, with the same Idempotency-Key, until the gateway has
// answered it, at most tries times. It waits as long as Retry-After says; the back-off
// library looks at errors only, and a 503 is an answer here.
func (c *cli) untilAnswered(ctx context.Context, tries int, call func() (answer, error)) (answer, error) {
	for try := 1; ; try++ {
		a, err := call()
		again := err != nil || a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests ||
			try > 1 && a.status == http.StatusConflict // the call before this one may still be under way
		if !again || try == tries {
			return a, err
		}
		select {
		case <-ctx.Done():
			return a, errors.New("interrupted")
		case <-time.After(max(c.poll, retryAfter(a))):
		}
	}
}

// maxRetryAfter bounds the Retry-After that is obeyed.
const maxRetryAfter = time.Minute

// retryAfter is how long an answer says to wait.
func retryAfter(a answer) time.Duration {
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(maxRetryAfter, time.Duration(seconds)*time.Second)
}
