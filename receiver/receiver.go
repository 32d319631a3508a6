package receiver

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// New makes a receiver. It panics if options are out of bounds; Run returns an error.
func New(o Options) http.Handler {
	if err := o.check(); err != nil {
		panic("receiver: " + err.Error())
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	return &handler{options: o, ledger: ledger{file: o.Ledger}}
}

type handler struct {
	options Options
	ledger  ledger
	out     sync.Mutex
}

// ServeHTTP takes a message by POST on any path. GET shows Help and the messages.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost:
		h.receive(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD, POST")
		http.Error(w, "messages come by POST", http.StatusMethodNotAllowed)
	case !authorized(r, h.options.BasicAuth):
		unauthorized(w)
	case r.URL.Path == "/":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, Help)
	case r.URL.Path == "/messages":
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.Encode(h.ledger.list(r.URL.Query().Get("messageId")))
	default:
		http.Error(w, "there is / and /messages; messages come by POST", http.StatusNotFound)
	}
}

// message holds the members of a body that the receiver reads. All may be missing.
type message struct {
	MessageID   string `json:"messageId"`
	JourneyInfo struct {
		JourneyName string `json:"journeyName"`
	} `json:"journeyInfo"`
}

// receive answers a POST as the query and the options say. The ledger has it before it is answered; if
// it cannot be written, the answer is 500.
func (h *handler) receive(w http.ResponseWriter, r *http.Request) {
	o, err := h.options.with(r.URL.Query())
	if err != nil {
		h.printf("a POST whose URL cannot be followed: %s\n", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		status := http.StatusBadRequest
		if errors.As(err, new(*http.MaxBytesError)) {
			status = http.StatusRequestEntityTooLarge
		}
		h.printf("a POST whose body cannot be read: %s\n", http.StatusText(status))
		http.Error(w, http.StatusText(status), status)
		return
	}

	var m message
	_ = json.Unmarshal(body, &m) // a member of another type leaves it empty
	if len(m.MessageID) > maxMessageID {
		m.MessageID = ""
	}
	sum := sha256.Sum256(body)
	e := Post{
		MessageID: m.MessageID, At: h.options.Now().UTC().Truncate(time.Millisecond), Path: cut(r.URL.Path, maxPath),
		BodySHA256: hex.EncodeToString(sum[:]), Body: string(body),
	}
	if authorized(r, o.BasicAuth) {
		key := e.MessageID
		if key == "" {
			key = "body " + e.BodySHA256 // what is no message can be repeated too
		}
		e.Attempt = h.ledger.count(key)
		e.Answered = o.status(e.Attempt)
		if !wait(r, o.Delay) {
			e.Answered = 0
		}
	} else {
		e.Answered = http.StatusUnauthorized
	}

	if err := h.ledger.record(e); err != nil {
		h.printf("cannot write the ledger: %s\n", err)
		http.Error(w, "cannot write the ledger", http.StatusInternalServerError)
		return
	}
	h.print(&e, &m, &o)
	switch {
	case e.Attempt == 0:
		unauthorized(w)
	case e.Answered == 0:
		panic(http.ErrAbortHandler) // returning would answer 200
	default:
		o.answer(w, e.Answered)
	}
}

// wait waits for d and tells whether the sender is still connected then.
func wait(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// answer writes a body (docs/contract.md, "Receiver's answer") with the given status.
func (o *Options) answer(w http.ResponseWriter, status int) {
	answer := struct {
		Succeed bool   `json:"succeed"`
		Message string `json:"message"`
	}{status == http.StatusOK && !o.SucceedFalse, o.Message}
	if answer.Message == "" {
		switch {
		case answer.Succeed:
			answer.Message = "received"
		case status == http.StatusOK:
			answer.Message = "refused, as told"
		default:
			answer.Message = "answered " + strconv.Itoa(status) + ", as told"
		}
	}
	if status != http.StatusOK && o.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(o.RetryAfter))
	}
	if o.NoBody || status == http.StatusNoContent || status == http.StatusNotModified {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	body, err := json.Marshal(answer)
	if err == nil {
		w.Write(body) // if it fails the sender has gone
	}
}

// authorized compares in constant time, whatever the lengths.
func authorized(r *http.Request, want string) bool {
	if want == "" {
		return true
	}
	user, password, ok := r.BasicAuth()
	got, right := sha256.Sum256([]byte(user+":"+password)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(got[:], right[:]) == 1 && ok
}

func unauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Basic realm="receiver", charset="UTF-8"`)
	http.Error(w, "user name or password are missing or wrong", http.StatusUnauthorized)
}

// print writes the line of one message.
func (h *handler) print(e *Post, m *message, o *Options) {
	var b strings.Builder
	b.WriteString(e.At.Local().Format("15:04:05.000 "))
	if e.MessageID == "" {
		fmt.Fprintf(&b, "(no message, %d bytes)", len(e.Body))
	} else {
		b.WriteString(e.MessageID)
	}
	if e.Attempt > 0 {
		fmt.Fprintf(&b, " attempt %d", e.Attempt)
	}
	if name := cut(m.JourneyInfo.JourneyName, maxMessageID); name != "" {
		fmt.Fprintf(&b, " of journey %s", name)
	}
	switch {
	case e.Answered == 0:
		b.WriteString(": the sender left before the answer")
	case e.Attempt == 0:
		b.WriteString(": answered 401, user name or password are missing or wrong")
	case e.Answered == http.StatusOK && o.SucceedFalse && !o.NoBody:
		b.WriteString(": answered 200 succeed false")
	default:
		fmt.Fprintf(&b, ": answered %d", e.Answered)
	}
	line := strings.ReplaceAll(b.String(), "\n", " ")
	if h.options.Verbose {
		line += "\n" + e.Body
	}
	h.printf("%s\n", line)
}

// printf writes to Out without the control characters that a terminal would obey.
func (h *handler) printf(format string, args ...any) {
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, fmt.Sprintf(format, args...))
	h.out.Lock()
	defer h.out.Unlock()
	io.WriteString(h.options.Out, text) // a closed terminal is no reason to refuse messages
}

// cut returns at most n bytes of s, up to a character boundary.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
