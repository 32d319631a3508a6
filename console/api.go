package console

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"waypost"
	"waypost/client"
)

// gateway makes calls of the gateway for one person, in one stage.
type gateway struct {
	client  *client.Client
	user    waypost.User
	stage   string
	request string // the id of the request that the calls are made for
	// language is what errors are in, as far as it has texts of them (faults.go).
	language string
	match    string // the ETag that the resource must have for a change; "": any
}

// callTime bounds one call. After it the page says that the gateway does not answer.
const callTime = 20 * time.Second

// do makes one call, which needs a grant. A grant that the person's role does not have is refused
// before the call is sent: the console's application, whose key signs the call, has more grants.
func (g gateway) do(ctx context.Context, grant waypost.Grant, method, target string, body, answer any) error {
	if !g.user.Role.Allows(grant) {
		return refused{grant}
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err := g.signed().Do(ctx, method, target, body, answer)
	if e := (*waypost.Error)(nil); err != nil && !errors.As(err, &e) {
		return away{err}
	}
	return inLanguage(g.language, method, target, err)
}

// stream makes one call, as do does, whose answer the caller reads and closes: a stream, or
// one with headers that matter. It takes as long as the context lets it.
func (g gateway) stream(ctx context.Context, grant waypost.Grant, method, target string, header http.Header, body []byte) (*http.Response, error) {
	if !g.user.Role.Allows(grant) {
		return nil, refused{grant}
	}
	res, err := g.signed().Send(ctx, method, target, header, body)
	if err != nil {
		return nil, away{err}
	}
	if res.StatusCode < http.StatusMultipleChoices {
		return res, nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return nil, away{err}
	}
	err = client.Fault(res.StatusCode, text)
	if e := (*waypost.Error)(nil); !errors.As(err, &e) {
		return nil, away{err}
	}
	return nil, inLanguage(g.language, method, target, err)
}

// when is a gateway that sends If-Match: a change of a resource with another ETag is a Conflict.
func (g gateway) when(etag string) gateway {
	g.match = etag
	return g
}

// maxAnswer bounds what exchange reads of an answer, in bytes.
const maxAnswer = 4 << 20

// exchange makes a call with a body of JSON, nil for none, and returns the answer as it is and
// its ETag.
func (g gateway) exchange(ctx context.Context, grant waypost.Grant, method, target string, header http.Header, body []byte) (answer []byte, etag string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if body != nil {
		if header = header.Clone(); header == nil {
			header = http.Header{}
		}
		header.Set("Content-Type", "application/json")
	}
	res, err := g.stream(ctx, grant, method, target, header, body)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	if answer, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer)); err != nil {
		return nil, "", away{err}
	}
	return answer, res.Header.Get("ETag"), nil
}

// tagged reads one resource with its ETag.
func tagged[T any](ctx context.Context, g gateway, grant waypost.Grant, path string) (answer T, etag string, err error) {
	body, etag, err := g.exchange(ctx, grant, http.MethodGet, path, nil, nil)
	if err != nil {
		return answer, "", err
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, "", away{err}
	}
	return answer, etag, nil
}

// signed is the client with the headers of this person's calls. It names the person by their id for
// the gateway's audit log, which forgets the address with the user.
func (g gateway) signed() *client.Client {
	c := *g.client
	c.Header = http.Header{"X-Cloud-Stage": {g.stage}, "X-Request-Id": {g.request}}
	if g.match != "" {
		c.Header.Set("If-Match", g.match)
	}
	return c.As(g.user.ID)
}

// get reads one resource, of a path without its query.
func get[T any](ctx context.Context, g gateway, grant waypost.Grant, path string, query url.Values) (answer T, err error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return answer, g.do(ctx, grant, http.MethodGet, path, nil, &answer)
}

// mostAtOnce bounds the calls that one page makes at the same time.
const mostAtOnce = 8

// together calls functions, some at the same time, and returns the first of their errors.
func together(calls ...func() error) error {
	var all errgroup.Group
	all.SetLimit(mostAtOnce)
	for _, call := range calls {
		all.Go(call)
	}
	return all.Wait()
}

// The calls that pages make are in api_RESOURCE.go. Members of answers that no page shows
// are left out of their types; strings are "", numbers 0 and times zero where an answer has
// null.
