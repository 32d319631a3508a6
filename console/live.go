package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"waypost"
)

// liveHeader is set by live.js, which asks for changes of a page. In the answer it is the number of
// seconds until live.js asks again, 0 for never.
const liveHeader = "X-Live"

// Bounds of what is kept for those who look at live pages.
const (
	liveTime = time.Minute // for making one
	maxLive  = 32 << 20    // bytes of all
)

// live makes a handler that serves many browsers at once. The page must look the same to all of an
// organisation who have the same role, in a stage, a language and a zone. A browser that opens it
// gets it as it is then. Those that look for changes get its content, which is made for all of them
// once in the seconds of page.Live.
func live(handle func(*visit) error) func(*visit) error {
	return func(v *visit) error {
		key := v.liveKey()
		if v.r.Header.Get(liveHeader) == "" {
			v.lives.forget(key) // who has just changed something does not get what was before
			return handle(v)
		}
		c, err := v.lives.get(key, func() (liveContent, error) { return v.makeLive(handle) })
		if errors.Is(err, errNotLive) {
			return handle(v)
		}
		if err != nil {
			return err
		}
		return v.sendLive(c)
	}
}

// liveKey tells apart all who see different things: no two of its parts can be taken for one.
func (v *visit) liveKey() string {
	return fmt.Sprintf("%q", []string{v.user.Org, string(v.user.Role), v.stage(), v.chosen.Language, v.chosen.Zone.String(), v.r.URL.RequestURI()})
}

// liveContent is what a live page shows, without what is around it.
type liveContent struct {
	every         int // seconds
	etag          string
	plain, zipped []byte
}

// errNotLive says that a handler has answered with something else than a live page.
var errNotLive = errors.New("this is no live page")

// makeLive runs the handler for nobody in particular: of the person it has the organisation and
// the role, and no cookie, session or header of the request. It goes on if the browser that
// asked first goes away.
func (v *visit) makeLive(handle func(*visit) error) (c liveContent, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), liveTime)
	defer cancel()
	all := *v
	all.w, all.r, all.made = unsent{}, v.r.WithContext(ctx), &c
	all.r.Header = http.Header{}
	all.user, all.chosen.Theme = waypost.User{Org: v.user.Org, Role: v.user.Role}, ""
	all.gateway.user = all.user
	if err := handle(&all); err != nil {
		return c, err
	}
	if c.every == 0 {
		return c, errNotLive
	}
	return c, nil
}

// unsent is a ResponseWriter that drops what makeLive's handler writes.
type unsent http.Header

func (u unsent) Header() http.Header         { return http.Header(u) }
func (u unsent) Write(p []byte) (int, error) { return len(p), nil }
func (u unsent) WriteHeader(int)             {}

func (v *visit) sendLive(c liveContent) error {
	h := v.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set(liveHeader, strconv.Itoa(c.every))
	h.Set("ETag", c.etag)
	v.status = http.StatusOK
	if v.r.Header.Get("If-None-Match") == c.etag {
		v.status = http.StatusNotModified
		v.w.WriteHeader(v.status)
		return nil
	}
	body := c.plain
	if strings.Contains(v.r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = c.zipped
	}
	v.w.WriteHeader(v.status)
	_, _ = v.w.Write(body) // the browser may have gone
	return nil
}

// liveParts keeps what live pages show, by liveKey, for as long as it is new enough.
type liveParts struct {
	now func() time.Time

	mu    sync.Mutex
	parts map[string]*livePart
}

// livePart is a content that is being made, or was.
type livePart struct {
	done    chan struct{} // closed when it is made
	until   time.Time     // zero while it is being made
	content liveContent
	err     error
}

// get returns the content of a key. One call makes it, others of the same time wait for that.
func (l *liveParts) get(key string, build func() (liveContent, error)) (liveContent, error) {
	l.mu.Lock()
	p := l.parts[key]
	if p != nil && (p.until.IsZero() || l.now().Before(p.until)) {
		l.mu.Unlock()
		<-p.done
		return p.content, p.err
	}
	p = &livePart{done: make(chan struct{}), err: errNotLive} // stays if build panics: the others call their handlers
	l.parts[key] = p
	began := l.now()
	l.mu.Unlock()
	defer l.finish(key, p, began)
	p.content, p.err = build()
	return p.content, p.err
}

// finish ends the making of a content, which is as old as its begin, and drops those that are too
// old. It stores no failure, nor what would be more than maxLive with all others.
func (l *liveParts) finish(key string, p *livePart, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.until = began.Add(time.Duration(p.content.every) * time.Second)
	close(p.done)
	size := 0
	for k, other := range l.parts {
		switch {
		case other.until.IsZero():
		case l.now().Before(other.until):
			size += len(k) + len(other.content.plain) + len(other.content.zipped)
		default:
			delete(l.parts, k)
		}
	}
	if l.parts[key] == p && (p.err != nil || size > maxLive) {
		delete(l.parts, key)
	}
}

// forget drops the content of a key, so that the next get makes it.
func (l *liveParts) forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.parts, key)
}
