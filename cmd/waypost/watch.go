package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// job is the state of work that goes on at the gateway.
type job interface {
	// state is its status, and whether it has ended.
	state() (status string, ended bool)
	done() float64  // 0 to 1
	String() string // what is done
}

// watchJob shows the progress of the job at a path until it has ended, and then prints
// the job. noun is the job's name in errors; goesOn is added to the error if the watching
// ends before the job.
func watchJob[J job](ctx context.Context, c *cli, cl *client, path, noun, goesOn string) (J, error) {
	var now J
	shown := &progress{c: c}
	err := c.eachLook(ctx, cl, path, shown, goesOn, func(a answer) (bool, error) {
		var next J // empty, so that no member of the previous answer stays
		err := a.decode(&next, noun)
		status, ended := next.state()
		if err != nil || status == "" {
			return false, a.unreadable(noun)
		}
		now = next
		done := now.done()
		shown.show(done, fmt.Sprintf("%3d %%  %s", int(100*done), now))
		if !ended {
			return false, nil
		}
		return true, errors.Join(shown.end(nil), c.printAnswer(a))
	})
	return now, err
}

// maxMissed is how many requests in a row may fail because the gateway is away. With the
// pauses these are two minutes or more, enough for a restart.
const maxMissed = 120

// eachLook gets the thing at a path again and again, and calls see with each answer,
// until see says that it has ended. If the gateway is away it is asked again, and people
// are told so once.
func (c *cli) eachLook(ctx context.Context, cl *client, path string, shown *progress, goesOn string, see func(answer) (ended bool, err error)) error {
	missed := 0
	unseen := func(err error) error {
		if goesOn != "" {
			err = fmt.Errorf("%w; %s", err, goesOn)
		}
		return shown.end(err)
	}
	for wait := c.poll / 8; ; wait = min(2*wait, c.poll) { // small jobs end soon
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

// isAway tells whether a status means that the gateway, or a proxy before it, is down or
// busy.
func isAway(status int) bool {
	return slices.Contains([]int{
		http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	}, status)
}
