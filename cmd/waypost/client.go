package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"waypost"
	"waypost/config"
	"waypost/signature"
)

// client calls a gateway with signed requests.
type client struct {
	base  string // without a slash at its end
	key   signature.Key
	stage string
	http  *http.Client
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

// profile is the file that WAYPOST_PROFILE names. waypost-dev writes more
// members than these.
type profile struct {
	URL       string `json:"url"`
	AccessKey string `json:"accessKey"`
	SecretKey string `json:"secretKey"`
}

// client finds out whom to call, and with which keys.
func (c *cli) client() (*client, error) {
	cfg, err := c.load(config.RoleClient)
	if err != nil {
		return nil, err
	}
	p, err := findProfile(cfg)
	if err != nil {
		return nil, err
	}
	return &client{
		base:  strings.TrimRight(p.URL, "/"),
		key:   signature.Key{AccessKey: p.AccessKey, SecretKey: p.SecretKey},
		stage: cfg.Client.Stage,
		http: &http.Client{
			Timeout: callTime,
			// A redirect would need another signature, and the gateway sends none.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func findProfile(cfg config.Config) (profile, error) {
	from := cfg.Client
	if from.Profile != "" {
		return readProfile(from.Profile)
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

// call sends one signed request, whatever the answer's status. The path may
// have a query.
func (c *client) call(ctx context.Context, method, path string, header http.Header, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("call %s %s: the path cannot be sent", method, path)
	}
	if method != http.MethodGet && method != http.MethodHead && method != http.MethodDelete {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.stage != "" {
		req.Header.Set("X-Cloud-Stage", c.stage)
	}
	req.Header.Set("User-Agent", "waypost/"+waypost.ProductVersion)
	for name, values := range header {
		req.Header[name] = values
	}
	signature.SignHTTP(req, c.key, body, time.Now(), signature.NewNonce())
	res, err := c.http.Do(req)
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
		return a, fmt.Errorf("read the answer of %s: %w", c.base, err)
	}
	return a, nil
}

// unreachable says what to do about a call that got no answer.
func (c *client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	cause := err
	if u := (*url.Error)(nil); errors.As(err, &u) {
		cause = u.Err // without the URL, whose query may hold personal data
	}
	if errors.As(err, new(*net.OpError)) {
		return fmt.Errorf("cannot reach the gateway at %s: %w; is it running there? (`make run` starts one)", c.base, cause)
	}
	return fmt.Errorf("call the gateway at %s: %w", c.base, cause)
}

// do is call for answers that must be a success: every other one is an error.
func (c *client) do(ctx context.Context, method, path string, header http.Header, body []byte) (answer, error) {
	a, err := c.call(ctx, method, path, header, body)
	if err != nil {
		return a, err
	}
	return a, a.err()
}

// err is nil for a success, else what the gateway's error says.
func (a answer) err() error {
	if a.status >= 200 && a.status < 300 {
		return nil
	}
	var e struct {
		Code    waypost.ErrorCode `json:"code"`
		Message string            `json:"message"`
		Target  string            `json:"target"`
		Detail  []waypost.Detail  `json:"detail"`
	}
	if err := json.Unmarshal(a.body, &e); err != nil || e.Code == "" {
		return fmt.Errorf("the gateway answered %d %s: %s", a.status, http.StatusText(a.status), clean(clip(string(a.body), 200)))
	}
	fault := &waypost.Error{Code: waypost.ErrorCode(clean(string(e.Code))), Message: clean(e.Message), Target: clean(e.Target)}
	for _, d := range e.Detail {
		fault.Details = append(fault.Details, waypost.Detail{
			Code: waypost.DetailCode(clean(string(d.Code))), Target: clean(d.Target), Message: clean(d.Message),
		})
	}
	if wait := a.header.Get("Retry-After"); wait != "" {
		fault.Message += " (retry after " + clean(wait) + " s)"
	}
	return fault
}

// object reads an answer that is a JSON object.
func (a answer) object() (members, error) {
	var m members
	if err := json.Unmarshal(a.body, &m); err != nil {
		return nil, fmt.Errorf("the gateway's answer is no JSON object: %s", clean(clip(string(a.body), 200)))
	}
	return m, nil
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
