package main

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// receiver is the customer's system: it answers at once and keeps a ledger. It is as
// lean as can be, since it takes its CPU time from what is measured.
type receiver struct {
	url      string
	addr     string // of the listener
	listener net.Listener
	conns    sync.Map               // net.Conn: those that are open
	now      atomic.Pointer[ledger] // of the case that runs
	stray    atomic.Int64           // POSTs of no case that runs
}

// script says how the receiver answers: of each 100 messages, fail get 503 at
// their first attempt, and refuse get succeed:false.
type script struct{ fail, refuse int }

// ledger is what arrived during one case, by message.
type ledger struct {
	path   string
	script script
	shards [64]shard
	taken  atomic.Int64 // messages that were answered with 200
	cut    atomic.Bool  // the receiver was down: attempts failed that it never saw
}

type shard struct {
	mu    sync.Mutex
	posts map[string]*received
}

// received are the POSTs of one message.
type received struct {
	count   int
	leadsID int64
	first   time.Time
	answer  int  // HTTP status of the last answer
	refused bool // it said succeed:false
	body    []byte
}

// keptBodies is how many messages of a case are kept in each shard, for the bare
// loop.
const keptBodies = 16

func newReceiver() (*receiver, error) {
	r := &receiver{addr: "127.0.0.1:0"}
	return r, r.listen()
}

// listen begins to serve, after close at the same address again.
func (r *receiver) listen() error {
	l, err := net.Listen("tcp", r.addr)
	if err != nil {
		return fmt.Errorf("start the receiver: %w", err)
	}
	r.addr = l.Addr().String()
	r.url = "http://" + r.addr
	r.listener = l
	server := &fasthttp.Server{Handler: r.serve, ConnState: r.track, NoDefaultServerHeader: true, Logger: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(l) }() // until close
	return nil
}

func (r *receiver) track(c net.Conn, state fasthttp.ConnState) {
	switch state {
	case fasthttp.StateNew:
		r.conns.Store(c, nil)
	case fasthttp.StateClosed:
		r.conns.Delete(c)
	}
}

// close ends all connections and refuses new ones.
func (r *receiver) close() {
	_ = r.listener.Close()
	for c := range r.conns.Range {
		_ = c.(net.Conn).Close()
	}
}

// begin starts the ledger of a case, whose webhook has the path.
func (r *receiver) begin(path string, s script) *ledger {
	l := &ledger{path: path, script: s}
	for i := range l.shards {
		l.shards[i].posts = map[string]*received{}
	}
	r.now.Store(l)
	r.stray.Store(0)
	return l
}

func (r *receiver) serve(c *fasthttp.RequestCtx) {
	arrived := time.Now()
	l := r.now.Load()
	if l == nil || string(c.Path()) != l.path {
		r.stray.Add(1)
		c.SetStatusCode(http.StatusNotFound)
		return
	}
	status, answer := l.note(c.PostBody(), arrived)
	c.SetStatusCode(status)
	c.SetContentType("application/json")
	c.SetBody(answer)
}

var (
	jsonType = []string{"application/json"}
	yes      = []byte(`{"succeed":true}`)
	no       = []byte(`{"succeed":false,"message":"not today"}`)
)

// note puts a POST into the ledger, before it is answered.
func (l *ledger) note(body []byte, at time.Time) (status int, answer []byte) {
	id := member(body, `"messageId":"`)
	h := fnv.New32a()
	_, _ = h.Write(id)
	sum := h.Sum32()
	s := &l.shards[sum%uint32(len(l.shards))]
	percent := int(sum / uint32(len(l.shards)) % 100)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.posts[string(id)]
	if a == nil {
		a = &received{first: at}
		a.leadsID, _ = strconv.ParseInt(string(member(body, `"affId":"`)), 10, 64) // 0 is nobody
		if len(s.posts) < keptBodies {
			a.body = bytes.Clone(body)
		}
		s.posts[string(id)] = a
	}
	a.count++
	before := a.answer
	a.answer, a.refused, answer = http.StatusOK, false, yes
	switch {
	case percent < l.script.fail:
		if a.count == 1 {
			a.answer, answer = http.StatusServiceUnavailable, nil
		}
	case percent < l.script.fail+l.script.refuse:
		a.refused, answer = true, no
	}
	if a.answer == http.StatusOK && before != http.StatusOK {
		l.taken.Add(1)
	}
	return a.answer, answer
}

// member is the value of a string member that has no escapes, as ids have none.
func member(body []byte, name string) []byte {
	_, rest, _ := bytes.Cut(body, []byte(name))
	value, _, _ := bytes.Cut(rest, []byte{'"'})
	return value
}

// messages counts the messages that have arrived and were not turned away: those come
// again.
func (l *ledger) messages() int { return int(l.taken.Load()) }

// each calls do for every message.
func (l *ledger) each(do func(id string, a received)) {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for id, a := range s.posts {
			do(id, *a)
		}
		s.mu.Unlock()
	}
}

// bodies are messages of the case.
func (l *ledger) bodies() [][]byte {
	var out [][]byte
	l.each(func(_ string, a received) {
		if a.body != nil {
			out = append(out, a.body)
		}
	})
	return out
}

// compare says where the ledger and the records differ, in at most a few lines.
// Nothing is killed here, so that they agree attempt by attempt.
func (l *ledger) compare(records []delivery) error {
	var problems []string
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	known := make(map[string]delivery, len(records))
	for _, d := range records {
		if _, doubled := known[d.MessageID]; doubled {
			say("%s is listed twice", d.MessageID)
		}
		known[d.MessageID] = d
	}
	l.each(func(id string, a received) {
		d, ok := known[id]
		delete(known, id)
		want := "succeeded"
		if a.answer != http.StatusOK || a.refused {
			want = "failed"
		}
		switch {
		case !ok:
			say("%s arrived and is not recorded", id)
		case d.Attempts < a.count, d.Attempts > a.count && !l.cut.Load():
			say("%s: %d POSTs arrived, %d attempts are recorded", id, a.count, d.Attempts)
		case d.Status != want:
			say("%s is recorded as %s, its last answer was HTTP %d, refused %v", id, d.Status, a.answer, a.refused)
		}
	})
	for id, d := range known {
		say("%s is recorded as %s and never arrived", id, d.Status)
	}
	if len(problems) == 0 {
		return nil
	}
	if n := len(problems); n > 5 {
		problems = append(problems[:5], fmt.Sprintf("and %d more", n-5))
	}
	return fmt.Errorf("the ledger and the records disagree: %s", problems)
}
