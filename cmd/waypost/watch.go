package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// job is how far something is that goes on at the gateway, whoever watches it.
type job interface {
	// state is its status, and whether it has ended.
	state() (status string, ended bool)
	done() float64 // 0 to 1
	String() string
}

// watchJob shows on standard error how far the job at a path is, as a bar on a terminal
// and as lines elsewhere, until it has ended, and then what the gateway answered. noun
// is what it is, and goesOn what is said where the watching ends before it.
func watchJob[J job](ctx context.Context, c *cli, cl *client, path, noun, goesOn string) (J, error) {
	var now J
	shown := &progress{c: c}
	err := c.eachLook(ctx, cl, path, shown, goesOn, func(a answer) (bool, error) {
		var next J // without what the look before it has found
		err := json.Unmarshal(a.body, &next)
		status, ended := next.state()
		if err != nil || status == "" {
			return false, fmt.Errorf("the gateway's answer is no %s: %s", noun, clean(clip(string(a.body), 200)))
		}
		now = next
		shown.show(now.done(), now.String())
		if !ended {
			return false, nil
		}
		return true, errors.Join(shown.end(nil), c.printAnswer(a))
	})
	return now, err
}

// maxMissed is how often in a row a look may find the gateway away. With the pauses it
// is two minutes or more, in which one that is started anew is back.
const maxMissed = 120

// eachLook has see look at what stands at a path again and again, until that says that
// it has ended. A gateway that is away for a while is asked again, which is told once.
func (c *cli) eachLook(ctx context.Context, cl *client, path string, shown *progress, goesOn string, see func(answer) (ended bool, err error)) error {
	missed := 0
	unseen := func(err error) error {
		if goesOn != "" {
			err = fmt.Errorf("%w; %s", err, goesOn)
		}
		return shown.end(err)
	}
	for wait := c.poll / 8; ; wait = min(2*wait, c.poll) { // what is small has ended soon
		a, err := cl.call(ctx, http.MethodGet, path, nil, nil)
		away := err != nil || isAway(a.status)
		if err == nil {
			err = a.err()
		}
		pause := wait
		switch {
		case ctx.Err() != nil:
		case err == nil:
			missed = 0
			if ended, err := see(a); ended || err != nil {
				return shown.end(err)
			}
		case !away:
			return shown.end(err)
		case missed == maxMissed:
			return unseen(err)
		default:
			if missed++; missed == 1 {
				_ = shown.end(nil)
				fmt.Fprintf(c.stderr, "%s\nIt is asked again for a while.\n", describe(err))
			}
			pause = max(c.poll, retryAfter(a))
		}
		select {
		case <-ctx.Done():
			return unseen(errors.New("interrupted"))
		case <-time.After(pause):
		}
	}
}

// isAway tells whether a status is that of a gateway that is down or busy, or of what
// stands before it then.
func isAway(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
