package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
)

// receiver is a customer's system in the test's own process: it outlives the
// kills, and its ledger is what really arrived.
type receiver struct {
	url    string
	server *httptest.Server

	mu    sync.Mutex
	posts map[string][]arrival // by message id
	cut   bool                 // it was down: some answers did not reach the sender
}

// arrival is one POST and what it was answered.
type arrival struct {
	body     string
	answered int
	refused  bool // it was answered succeed:false
	at       time.Time
}

// delivered tells whether the receiver took the message.
func (a arrival) delivered() bool { return a.answered == http.StatusOK && !a.refused }

// answer is what the receiver says to one POST, and how long it takes to.
type answer struct {
	status int
	body   string
	after  time.Duration
}

// newReceiver answers as script says; attempt counts the POSTs of one message
// from 1.
func newReceiver(t *testing.T, script func(m waypost.Message, attempt int) answer) *receiver {
	t.Helper()
	r := &receiver{posts: map[string][]arrival{}}
	r.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		b, err := io.ReadAll(req.Body)
		if err != nil {
			return // the sender was killed in the middle: this was no message
		}
		var m waypost.Message
		if err := json.Unmarshal(b, &m); err != nil {
			t.Errorf("the receiver got no message: %s", b)
		}
		r.mu.Lock()
		attempt := len(r.posts[m.MessageID]) + 1
		a := script(m, attempt)
		// Noted before the answer leaves: what is answered is in the ledger.
		r.posts[m.MessageID] = append(r.posts[m.MessageID], arrival{string(b), a.status, strings.Contains(a.body, `"succeed":false`), time.Now()})
		r.mu.Unlock()
		time.Sleep(a.after) // a slow receiver
		rw.WriteHeader(a.status)
		_, _ = io.WriteString(rw, a.body)
	}))
	t.Cleanup(func() { r.server.Close() })
	r.url = r.server.URL
	return r
}

// down makes the receiver's machine refuse connections until up.
func (r *receiver) down() {
	r.mu.Lock()
	r.cut = true
	r.mu.Unlock()
	r.server.CloseClientConnections()
	r.server.Close()
}

// up is the end of down: the receiver listens where it did.
func (r *receiver) up(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatalf("the receiver does not come back: %v", err)
	}
	handler := r.server.Config.Handler
	r.server = &httptest.Server{Listener: l, Config: &http.Server{Handler: handler}}
	r.server.Start()
}

// record is a delivery as the API tells it.
type record struct {
	MessageID    string                 `json:"messageId"`
	EnrollmentID string                 `json:"enrollmentId"`
	NodeID       string                 `json:"nodeId"`
	LeadsID      int64                  `json:"leadsId"`
	Status       waypost.DeliveryStatus `json:"status"`
	Attempts     int                    `json:"attempts"`
	AttemptLog   []waypost.Attempt      `json:"attemptLog"`
}

// records reads all deliveries of a journey with their attempts.
func (p *process) records(t *testing.T, journeyID string) []record {
	t.Helper()
	var all []record
	for cursor := ""; ; {
		var page struct {
			Items      []record
			NextCursor *string
		}
		path := "/v1/deliveries?limit=500&journeyId=" + journeyID
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		if err := p.client.Do(t.Context(), http.MethodGet, path, nil, &page); err != nil {
			t.Fatal(err)
		}
		for _, d := range page.Items {
			if err := p.client.Do(t.Context(), http.MethodGet, "/v1/deliveries/"+d.MessageID, nil, &d); err != nil {
				t.Fatal(err)
			}
			all = append(all, d)
		}
		if page.NextCursor == nil {
			return all
		}
		cursor = *page.NextCursor
	}
}

// disagreements compares the receiver's ledger with the records, message by
// message. Everything that was recorded must have happened; everything that
// arrived must be recorded, save that an interrupted attempt, and one that failed
// while the receiver was down, may or may not have arrived; and nothing is sent
// again once it is recorded as delivered.
func (r *receiver) disagreements(records []record) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []string
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	known := map[string]bool{}
	for _, rec := range records {
		known[rec.MessageID] = true
		arrivals := r.posts[rec.MessageID]
		if rec.Attempts != len(rec.AttemptLog) {
			say("%s: %d attempts counted, %d listed", rec.MessageID, rec.Attempts, len(rec.AttemptLog))
		}
		answers := map[int]int{}
		for _, a := range arrivals {
			answers[a.answered]++
			if a.body != arrivals[0].body {
				say("%s: the bytes changed between two attempts", rec.MessageID)
			}
		}
		interrupted := 0
		for i, a := range rec.AttemptLog {
			if a.Attempt != i+1 {
				say("%s: attempt %d is listed as number %d", rec.MessageID, a.Attempt, i+1)
			}
			if a.ErrorClass == waypost.ClassInterrupted || r.cut && a.ErrorClass == waypost.ClassNetwork {
				interrupted++
				continue
			}
			if a.HTTPStatus == http.StatusOK && i < len(rec.AttemptLog)-1 {
				say("%s: sent again after attempt %d delivered it", rec.MessageID, a.Attempt)
			}
			if answers[a.HTTPStatus]--; answers[a.HTTPStatus] < 0 {
				say("%s: attempt %d is recorded with HTTP %d, which the receiver never answered", rec.MessageID, a.Attempt, a.HTTPStatus)
			}
		}
		if extra := len(arrivals) + interrupted - len(rec.AttemptLog); extra > interrupted {
			say("%s: %d POSTs arrived, %d attempts are recorded, %d of them interrupted", rec.MessageID, len(arrivals), len(rec.AttemptLog), interrupted)
		}
		delivered := slices.ContainsFunc(arrivals, arrival.delivered)
		if (rec.Status == waypost.DeliverySucceeded) != delivered {
			say("%s: recorded as %s, delivered is %v", rec.MessageID, rec.Status, delivered)
		}
	}
	for id := range r.posts {
		if !known[id] {
			say("%s: arrived and is not recorded", id)
		}
	}
	return found
}
