// Package receiver is a webhook receiver for trying things out: the HTTP server
// behind a webhook (docs/contract.md, "Push request") that prints what it gets, checks
// Basic auth, and fails, waits or refuses as it is told. It is also the witness of fault
// tests, with a ledger of every POST that it saw.
package receiver

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Options say how messages are answered. The zero value answers each one with 200
// and {"succeed":true,"message":"received"}. Most of them can be given by the URL
// of the webhook too, and then go before: see Help.
type Options struct {
	// Status is what the attempts of a message are answered with, one after the
	// other; the last one repeats. Each is 200 to 599. Empty: 200, or 503 for the
	// attempts that Fail lets fail.
	Status []int
	// Fail is the number of first attempts of each message that are answered with Status;
	// later ones succeed. 0: all are answered with Status.
	Fail int
	// Delay is waited before each answer, at most MaxDelay.
	Delay time.Duration
	// SucceedFalse makes a 200 say succeed false.
	SucceedFalse bool
	// Message is the message of each answer; if empty, one that tells the result.
	Message string
	// RetryAfter is the header of each answer other than 200, in seconds. 0: none.
	RetryAfter int
	// NoBody leaves the body of each answer empty.
	NoBody bool
	// BasicAuth is "user:password"; every other request is answered with 401, GET
	// included. Empty: no check.
	BasicAuth string

	// Verbose prints the body of each message too.
	Verbose bool
	// Out gets a line for each message; nil: none.
	Out io.Writer
	// Ledger gets each POST as one line of JSON (Post), in one Write, before it is
	// answered; nil: none. If that fails the POST is answered with 500.
	Ledger io.Writer
	// Now is the clock; time.Now by default.
	Now func() time.Time
}

// Limits of what a receiver takes and keeps.
const (
	MaxDelay      = 10 * time.Minute
	maxBody       = 1 << 20
	maxFail       = 1_000_000
	maxStatuses   = 100
	maxMessage    = 1 << 10
	maxRetryAfter = 7 * 24 * 60 * 60
)

// Help lists what the URL of a webhook can ask for.
const Help = `A webhook receiver for trying things out.

POST any path: a message. The webhook's URL says how it is answered:
  status=503        with this status; status=503,500,200: one after the other
  fail=2            only the first 2 attempts of each message fail (with status, else 503)
  delay=2s          after this time
  succeed=false     with 200 and succeed false
  message=no        with this message
  retryAfter=7      with Retry-After: 7 beside every status but 200
  body=none         without a body
  basicAuth=u:p     with 401 unless user name and password are these
Without any of them: 200 {"succeed":true,"message":"received"}

GET /messages             what came in, newest last, as JSON
GET /messages?messageId=  of one message only
`

// check returns what is wrong with the options.
func (o *Options) check() error {
	for _, status := range o.Status {
		if status < 200 || status > 599 {
			return fmt.Errorf("status must be 200 to 599, not %d", status)
		}
	}
	switch {
	case len(o.Status) > maxStatuses:
		return fmt.Errorf("status must be at most %d numbers", maxStatuses)
	case o.Fail < 0 || o.Fail > maxFail:
		return fmt.Errorf("fail must be 0 to %d", maxFail)
	case o.Delay < 0 || o.Delay > MaxDelay:
		return fmt.Errorf("delay must be 0s to %s", MaxDelay)
	case len(o.Message) > maxMessage:
		return fmt.Errorf("message must be at most %d bytes", maxMessage)
	case o.RetryAfter < 0 || o.RetryAfter > maxRetryAfter:
		return fmt.Errorf("retryAfter must be 0 to %d seconds", maxRetryAfter)
	case o.BasicAuth != "" && !strings.Contains(o.BasicAuth, ":"):
		return fmt.Errorf("basicAuth must be user:password")
	}
	return nil
}

// with returns the options after the query of a webhook's URL has changed them. It ignores
// other parameters, which a URL may have.
func (o Options) with(query url.Values) (Options, error) {
	var err error
	for name, values := range query {
		value := values[0]
		switch name {
		case "status":
			o.Status = nil
			for _, s := range strings.SplitN(value, ",", maxStatuses+1) {
				status, wrong := strconv.Atoi(s)
				if wrong != nil {
					return o, fmt.Errorf("status must be a number, or several with commas between them")
				}
				o.Status = append(o.Status, status)
			}
		case "fail":
			if o.Fail, err = strconv.Atoi(value); err != nil {
				return o, fmt.Errorf("fail must be a number of attempts")
			}
		case "delay":
			if o.Delay, err = time.ParseDuration(value); err != nil {
				return o, fmt.Errorf("delay must be a duration such as 300ms or 2s")
			}
		case "succeed":
			if value != "true" && value != "false" {
				return o, fmt.Errorf("succeed must be true or false")
			}
			o.SucceedFalse = value == "false"
		case "message":
			o.Message = value
		case "retryAfter":
			if o.RetryAfter, err = strconv.Atoi(value); err != nil {
				return o, fmt.Errorf("retryAfter must be a number of seconds")
			}
		case "body":
			if value != "none" && value != "json" {
				return o, fmt.Errorf("body must be none or json")
			}
			o.NoBody = value == "none"
		case "basicAuth":
			// The sender must not choose its own password where one is required.
			if o.BasicAuth == "" {
				o.BasicAuth = value
			}
		}
	}
	return o, o.check()
}

// status is the answer to the given attempt, counted from 1.
func (o *Options) status(attempt int) int {
	switch {
	case o.Fail > 0 && attempt > o.Fail:
		return 200
	case len(o.Status) > 0:
		return o.Status[min(attempt, len(o.Status))-1]
	case o.Fail > 0:
		return 503
	}
	return 200
}
