package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/devstack/temporal"
)

// Receiver is a customer's system in the test's own process, which outlives the kills. Its
// ledger has every POST that arrived.
type Receiver struct {
	URL string

	handler http.Handler
	server  *httptest.Server

	mu       sync.Mutex
	posts    map[string][]*Received // by message id
	open     map[*Received]bool     // POSTs that are not answered yet
	most     int                    // of those at a time whose answers had not begun to leave
	underWay int                    // of those now
	down     bool
	wasDown  bool // some answers may not have reached the sender
}

// Received is one POST, its answer, and the error class that the sender has to record.
type Received struct {
	Body     string
	Answered int    // 0: nothing that is HTTP
	Class    string // the error class to be recorded, "" if the receiver took the message
	Cut      bool   // the receiver went down before the answer had left
	// Unanswered says that the connection ended before an answer began. If the sender had
	// kept it, even without having used it, the attempt POSTs once more.
	Unanswered bool
	At         time.Time
}

// Delivered tells whether the receiver took the message.
func (a Received) Delivered() bool { return a.Answered == http.StatusOK && a.Class == "" }

// mayRepeat tells whether the attempt may have POSTed once more: it saw no answer begin.
func (a Received) mayRepeat() bool { return a.Unanswered || a.Cut }

// RefusedForGood tells whether the answer ends the delivery without success.
func (a Received) RefusedForGood() bool {
	return a.Class == waypost.ClassSucceedFalse || a.Class == waypost.ClassResponseTooLarge
}

// Answer is the receiver's answer to one POST, and the time until it.
type Answer struct {
	Status int
	Body   string
	After  time.Duration
	// Raw, instead, writes to the connection itself, and tells whether it has begun to
	// answer; then the connection is closed. The sender has to record Status and Class.
	Raw   func(*net.TCPConn) (answered bool)
	Class string
	// Idle is after which time without another POST the connection is reset, 0 for
	// never.
	Idle time.Duration
}

// class is the error class of an attempt with this answer.
func (a Answer) class() string {
	switch {
	case a.Raw != nil:
		return a.Class
	case a.Status != http.StatusOK:
		return waypost.ClassHTTPStatus
	case strings.Contains(a.Body, `"succeed":false`):
		return waypost.ClassSucceedFalse
	}
	return ""
}

// connection is one to the receiver. The receiver's mu guards it.
type connection struct {
	*net.TCPConn
	posts int
	busy  bool
	reset bool
}

type connectionKey struct{}

// NewReceiver answers as script says; attempt counts the POSTs of one message
// from 1.
func NewReceiver(t *testing.T, script func(m waypost.Message, attempt int) Answer) *Receiver {
	t.Helper()
	r := &Receiver{posts: map[string][]*Received{}, open: map[*Received]bool{}}
	r.handler = http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		b, err := io.ReadAll(req.Body)
		if err != nil {
			return // the sender was killed in the middle: this was no message
		}
		var m waypost.Message
		if err := json.Unmarshal(b, &m); err != nil {
			t.Errorf("the receiver got no message: %s", b)
		}
		conn := req.Context().Value(connectionKey{}).(*connection)
		r.mu.Lock()
		if conn.reset {
			r.mu.Unlock()
			return // it came too late: the sender would not see an answer
		}
		a := script(m, len(r.posts[m.MessageID])+1)
		// Noted before the answer leaves: each answer is in the ledger.
		post := &Received{Body: string(b), Answered: a.Status, Class: a.class(), Cut: r.down, At: time.Now()}
		r.posts[m.MessageID] = append(r.posts[m.MessageID], post)
		r.open[post] = true
		r.underWay++
		r.most = max(r.most, r.underWay)
		conn.posts++
		conn.busy = true
		r.mu.Unlock()
		time.Sleep(a.After) // a slow receiver
		r.mu.Lock()
		r.underWay-- // before the sender can know
		r.mu.Unlock()
		if a.Raw != nil {
			r.raw(t, rw, conn, a, post)
			return
		}
		rw.Header().Set("Content-Length", strconv.Itoa(len(a.Body)))
		rw.WriteHeader(a.Status)
		_, _ = io.WriteString(rw, a.Body)
		_ = http.NewResponseController(rw).Flush()
		r.answered(post, conn, a.Idle)
	})
	l, err := temporal.ListenFree(t.Context(), "127.0.0.1") // for itself, even while it is down
	if err != nil {
		t.Fatal(err)
	}
	r.URL = "http://" + l.Addr().String()
	r.listen(l)
	t.Cleanup(func() { r.server.Close() })
	return r
}

func (r *Receiver) listen(l net.Listener) {
	r.server = &httptest.Server{Listener: l, Config: &http.Server{
		Handler: r.handler,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, &connection{TCPConn: c.(*net.TCPConn)})
		},
	}}
	r.server.Start()
}

// raw gives the connection to the answer, and ends it.
func (r *Receiver) raw(t *testing.T, rw http.ResponseWriter, conn *connection, a Answer, post *Received) {
	hijacked, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		t.Errorf("take the connection: %v", err)
		return
	}
	defer hijacked.Close()
	answered := a.Raw(conn.TCPConn)
	r.answered(post, conn, 0)
	r.mu.Lock()
	defer r.mu.Unlock()
	post.Unanswered = !answered
}

// answered notes that an answer has left. The connection is reset if nothing comes on it
// for so long.
func (r *Receiver) answered(post *Received, conn *connection, idle time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, post)
	conn.busy = false
	if idle == 0 {
		return
	}
	posts := conn.posts
	time.AfterFunc(idle, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if conn.busy || conn.posts > posts {
			return
		}
		conn.reset = true
		Reset(conn.TCPConn)
	})
}

// Reset ends a connection with a reset.
func Reset(c *net.TCPConn) {
	_ = c.SetLinger(0) // it may be closed
	_ = c.Close()
}

// Received are the POSTs of one message, in their order.
func (r *Receiver) Received(messageID string) []Received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return copies(r.posts[messageID])
}

// Ledger are the POSTs of all messages, by message id.
func (r *Receiver) Ledger() map[string][]Received {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string][]Received, len(r.posts))
	for id, posts := range r.posts {
		out[id] = copies(posts)
	}
	return out
}

func copies(posts []*Received) []Received {
	out := make([]Received, len(posts))
	for i, a := range posts {
		out[i] = *a
	}
	return out
}

// Most is how many POSTs were under way at a time.
func (r *Receiver) Most() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}

// Messages is how many messages have arrived.
func (r *Receiver) Messages() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.posts)
}

// Down makes the receiver's machine refuse connections until Up.
func (r *Receiver) Down() {
	r.mu.Lock()
	r.wasDown, r.down = true, true
	for post := range r.open {
		post.Cut = true
	}
	r.mu.Unlock()
	r.server.CloseClientConnections()
	r.server.Close()
}

// Up is the end of Down: the receiver listens where it did.
func (r *Receiver) Up(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", strings.TrimPrefix(r.URL, "http://"))
	if err != nil {
		t.Fatalf("the receiver does not come back: %v", err)
	}
	r.mu.Lock()
	r.down = false
	r.mu.Unlock()
	r.listen(l)
}

// result is the outcome of an attempt that the receiver's answer decides.
type result struct {
	status int
	class  string
}

func resultOf(status int, class string) result {
	if class == waypost.ClassNetwork || class == waypost.ClassTimeout {
		status = 0 // how far an answer got that broke off is chance
	}
	return result{status, class}
}

// Disagreements compares the receiver's ledger with the records.
func (r *Receiver) Disagreements(records []Record) []string {
	ledger := r.Ledger()
	r.mu.Lock()
	defer r.mu.Unlock()
	return Disagreements(ledger, r.wasDown, records)
}

// Disagreements compares the ledger of a receiver with the records, message by
// message. Everything that was recorded must have happened; everything that
// arrived must be recorded, save that an interrupted attempt, and one that failed
// while the receiver was down, may or may not have arrived, once and in its own time,
// and that one whose connection ended unanswered may have arrived twice; and nothing is
// sent again once it is recorded as delivered.
func Disagreements(ledger map[string][]Received, wasDown bool, records []Record) []string {
	var found []string
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	known := map[string]bool{}
	for _, rec := range records {
		known[rec.MessageID] = true
		posts := ledger[rec.MessageID]
		if rec.Attempts != len(rec.AttemptLog) {
			say("%s: %d attempts counted, %d listed", rec.MessageID, rec.Attempts, len(rec.AttemptLog))
		}
		answers := map[result]int{}
		unanswered := 0
		for _, a := range posts {
			answers[resultOf(a.Answered, a.Class)]++
			if a.mayRepeat() {
				unanswered++
			}
			if a.Body != posts[0].Body {
				say("%s: the bytes changed between two attempts", rec.MessageID)
			}
		}
		interrupted, unseen := 0, 0 // unseen: posts whose end the sender did not see
		for i, a := range rec.AttemptLog {
			if a.Attempt != i+1 {
				say("%s: attempt %d is listed as number %d", rec.MessageID, a.Attempt, i+1)
			}
			if a.ErrorClass == waypost.ClassInterrupted || wasDown && a.ErrorClass == waypost.ClassNetwork {
				interrupted++
				made := len(slices.DeleteFunc(rec.Made(i, posts), Received.mayRepeat))
				if unseen += made; made > 1 {
					say("%s: attempt %d, recorded as %s, arrived %d times", rec.MessageID, a.Attempt, a.ErrorClass, made)
				}
				continue
			}
			if a.HTTPStatus == http.StatusOK && a.ErrorClass == "" && i < len(rec.AttemptLog)-1 {
				say("%s: sent again after attempt %d delivered it", rec.MessageID, a.Attempt)
			}
			if answers[resultOf(a.HTTPStatus, a.ErrorClass)]--; answers[resultOf(a.HTTPStatus, a.ErrorClass)] < 0 {
				say("%s: attempt %d is recorded with %s, which the receiver never answered", rec.MessageID, a.Attempt,
					strings.TrimSpace(fmt.Sprintf("HTTP %d %s", a.HTTPStatus, a.ErrorClass)))
			}
		}
		if extra := len(posts) - unanswered + interrupted - len(rec.AttemptLog); extra > unseen {
			say("%s: %d POSTs arrived, %d attempts are recorded, %d of them interrupted, of which %d arrived", rec.MessageID,
				len(posts), len(rec.AttemptLog), interrupted, unseen)
		}
		delivered := slices.ContainsFunc(posts, Received.Delivered)
		if (rec.Status == waypost.DeliverySucceeded) != delivered {
			say("%s: recorded as %s, delivered is %v", rec.MessageID, rec.Status, delivered)
		}
	}
	for id := range ledger {
		if !known[id] {
			say("%s: arrived and is not recorded", id)
		}
	}
	return found
}
