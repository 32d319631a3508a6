//go:build ignore

// A receiver of Waypost's messages. It checks who sends, stores each message once, and
// answers; work goes on from the stored ones. Nothing but the standard library:
//
//	RECEIVER_USERNAME=waypost RECEIVER_PASSWORD=s3cret RECEIVER_SECRETS='whsec_… whsec_…' go run receiver.go 127.0.0.1:8091 inbox
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Receiver takes messages. Without a Username it does not ask for one, without Secrets
// it looks at no signature.
type Receiver struct {
	Username, Password string
	Secrets            []string // whsec_…, several while one replaces another
	Inbox              string   // a folder
}

var messageID = regexp.MustCompile(`^msg_[0-9a-z]{26}$`)

// ServeHTTP stores each message once, and answers an attempt that comes again as the first one. A
// 503 has Waypost try again.
func (rc *Receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	switch {
	case err != nil:
		http.Error(w, "the message is too long or broken off", http.StatusBadRequest)
		return
	case r.Method != http.MethodPost:
		http.Error(w, "send messages with POST", http.StatusMethodNotAllowed)
		return
	case !rc.authorized(r) || !rc.signed(r.Header, body, time.Now()):
		http.Error(w, "unknown sender", http.StatusUnauthorized)
		return
	}
	var message struct{ MessageID, Version string }
	if json.Unmarshal(body, &message) != nil || !messageID.MatchString(message.MessageID) {
		http.Error(w, "no message", http.StatusBadRequest)
		return
	}
	if message.Version != "1.0" {
		answer(w, false, "version "+message.Version+" is not known here") // for good: it is not sent again
		return
	}
	switch added, err := rc.store(message.MessageID, body); {
	case err != nil:
		log.Print(err)
		http.Error(w, "try again later", http.StatusServiceUnavailable) // it is sent again
	case added:
		answer(w, true, "stored")
	default:
		answer(w, true, "stored before") // the same answer as the first time: success
	}
}

func answer(w http.ResponseWriter, succeed bool, message string) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"succeed": succeed, "message": message})
}

// authorized checks Basic auth; both comparisons take the same time whatever is sent.
func (rc *Receiver) authorized(r *http.Request) bool {
	username, password, _ := r.BasicAuth()
	known := subtle.ConstantTimeCompare([]byte(username), []byte(rc.Username))
	return rc.Username == "" || known&subtle.ConstantTimeCompare([]byte(password), []byte(rc.Password)) == 1
}

// signed checks the headers of Standard Webhooks: one of the signatures is by one of
// our secrets, over this very body, and not older or newer than five minutes.
func (rc *Receiver) signed(h http.Header, body []byte, now time.Time) bool {
	id, timestamp := h.Get("Webhook-Id"), h.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if len(rc.Secrets) == 0 {
		return true
	}
	if err != nil || math.Abs(float64(now.Unix()-seconds)) > 300 {
		return false
	}
	for _, secret := range rc.Secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			continue
		}
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
		want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		for _, got := range strings.Fields(h.Get("Webhook-Signature")) {
			if hmac.Equal([]byte(got), []byte(want)) {
				return true
			}
		}
	}
	return false
}

// store keeps a message under its id, whole or not at all. Of several that come at the
// same time one adds it.
func (rc *Receiver) store(id string, body []byte) (added bool, err error) {
	f, err := os.CreateTemp(rc.Inbox, ".new-")
	if err != nil {
		return false, err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(body)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return false, err
	}
	err = os.Link(f.Name(), filepath.Join(rc.Inbox, id+".json")) // unless it is there
	if errors.Is(err, os.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

func main() {
	rc := &Receiver{
		Username: os.Getenv("RECEIVER_USERNAME"), Password: os.Getenv("RECEIVER_PASSWORD"),
		Secrets: strings.Fields(os.Getenv("RECEIVER_SECRETS")), Inbox: os.Args[2],
	}
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("http://" + l.Addr().String())
	// Longer than Waypost keeps connections, so that it is not the receiver who closes first.
	log.Fatal((&http.Server{Handler: rc, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}).Serve(l))
}
