package receiver

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
	"time"
)

// Post is one POST as the receiver saw it.
type Post struct {
	MessageID  string    `json:"messageId"` // "" if the body is no message
	At         time.Time `json:"at"`        // when it had arrived, UTC, to the millisecond
	Path       string    `json:"path"`      // without the query
	Attempt    int       `json:"attempt"`   // of this message, from 1; 0 if it was refused with 401
	Answered   int       `json:"answered"`  // the status; 0 if the sender had gone before its answer
	BodySHA256 string    `json:"bodySha256"`
	Body       string    `json:"body"`
}

// Limits of a ledger's memory.
const (
	maxPosts     = 10_000
	maxKept      = 64 << 20 // bytes of bodies
	maxCounted   = 100_000  // messages whose attempts are counted
	maxMessageID = 256      // bytes
	maxPath      = 1 << 10  // bytes
)

// ledger holds the newest POSTs and counts the attempts of the newest messages.
type ledger struct {
	file io.Writer

	mu       sync.Mutex
	posts    []Post
	kept     int
	attempts map[string]int
	order    []string // keys of attempts, oldest first; an LRU cache is not worth this package its first dependency
}

// count returns the number of the attempt that has come in for key, from 1.
func (l *ledger) count(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.attempts == nil {
		l.attempts = map[string]int{}
	}
	l.attempts[key]++
	if l.attempts[key] == 1 {
		l.order = append(l.order, key)
		if len(l.order) > maxCounted {
			delete(l.attempts, l.order[0])
			l.order[0] = "" // the array behind the slice would hold on to it
			l.order = l.order[1:]
		}
	}
	return l.attempts[key]
}

// record writes e to the file and keeps it, dropping the oldest where there are
// too many.
func (l *ledger) record(e Post) error {
	var line bytes.Buffer
	if l.file != nil {
		enc := json.NewEncoder(&line)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		if _, err := l.file.Write(line.Bytes()); err != nil {
			return err
		}
	}
	l.posts = append(l.posts, e)
	l.kept += len(e.Body)
	for len(l.posts) > maxPosts || l.kept > maxKept {
		l.kept -= len(l.posts[0].Body)
		l.posts[0] = Post{}
		l.posts = l.posts[1:]
	}
	return nil
}

// list returns the posts of one message, or all of them for "", newest last.
func (l *ledger) list(messageID string) []Post {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := []Post{}
	for _, e := range l.posts {
		if messageID == "" || e.MessageID == messageID {
			found = append(found, e)
		}
	}
	return found
}
